"""What the chapter Fast weights states.

Checked elsewhere: each function against its formula, in every library: insights/test_fast_weights.py.
"""

import numpy as np
import pytest

from attention_in_detail import attention
from attention_in_detail.insights.fast_weights import (
    dpfp,
    elu_plus_one,
    fast_weights,
    linear_attention,
    nearest_share,
    read,
    recall_error,
    unit_rows,
    write_by_delta,
    write_sum,
)
from attention_in_detail.insights.results import experiment
from tests.support import assert_close, normal

d = 32
STORED = experiment("fast_weights")


def pairs(n, seed=0):
    draw = np.random.default_rng([seed, n])
    return (
        unit_rows(draw.standard_normal((n, d))),
        draw.standard_normal((n, d)),
    )


def orthonormal(n, seed=0):
    draw = np.random.default_rng([seed, n, 1])
    return np.linalg.qr(draw.standard_normal((d, d)))[0][:n]


def over_seeds(measure, seeds=10):
    return np.mean([measure(seed) for seed in range(seeds)])


# The picture


def test_the_columns_of_the_memory_are_the_colours():
    colours = np.array([[9, 8, 1], [4, 1, 5], [5, 9, 2]]) * 1.0
    assert np.array_equal(write_sum(np.eye(3), colours), colours.T)


# Two ways to compute one thing


@pytest.mark.claim("prop-fast-equal")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("normalized", [False, True])
def test_linear_attention_is_a_memory_of_outer_products(seed, normalized):
    q, k, v = (normal(128, 16, seed=seed + 10 * n) for n in range(3))
    if normalized:
        q, k = elu_plus_one(q), elu_plus_one(k)
    one = linear_attention(q, k, v, normalized=normalized)
    two = fast_weights(q, k, v, normalized=normalized)
    assert np.abs(one - two).max() < 1e-13 * np.abs(one).max()


def test_with_a_softmax_it_is_none():
    """The exponentials of products have a rank above the width."""
    q, k = normal(40, 4, seed=1), normal(40, 4, seed=2)
    assert np.linalg.matrix_rank(q @ k.T) == 4
    assert np.linalg.matrix_rank(np.exp(q @ k.T)) > 30
    # as on the page: numbers, and keys 1 to n
    q, k = np.linspace(-1, 1, 6), np.arange(1, 7)
    powers = np.exp(q)[:, None] ** k
    assert_close(np.exp(q[:, None] * k), powers, 1e-9)
    assert np.linalg.matrix_rank(powers) == 6


# By hand

K = np.array([[1, 0], [0, 1], [0.6, 0.8]])
V = np.array([[5.0, 0], [0, 5], [8, -1]])


@pytest.mark.claim("def-fast-delta")
def test_adding_and_the_delta_rule_by_hand():
    two = write_sum(K[:2], V[:2])
    assert np.array_equal(two, 5 * np.eye(2))
    assert_close(read(two, K)[2], np.array([3.0, 4]))
    added = read(write_sum(K, V), K)
    assert_close(added[2], np.array([11.0, 3]))
    assert_close(added[0], V[0] + 0.6 * V[2])
    W = write_by_delta(K, V)
    assert_close(W, np.array([[8.0, 4], [-3, 1]]))
    assert_close(read(W, K), np.array([[8.0, -3], [4, 1], [8, -1]]))


def test_one_more_write():
    W = write_by_delta(
        np.concatenate([K, K[:1]]), np.concatenate([V, np.zeros((1, 2))])
    )
    assert_close(W, np.array([[0.0, 4], [0, 1]]))
    assert_close(read(W, K), np.array([[0.0, 0], [4, 1], [3.2, 0.8]]))


# How much fits


@pytest.mark.claim("prop-fast-capacity", "obs-fast-wall")
@pytest.mark.parametrize("n", [1, 8, 31, 32])
def test_orthonormal_keys_are_read_exactly(n):
    keys, (_, values) = orthonormal(n), pairs(n)
    assert recall_error(read(write_sum(keys, values), keys), values) < 1e-14


@pytest.mark.claim("prop-fast-capacity", "obs-fast-wall")
@pytest.mark.parametrize("n", [8, 32, 64, 128])
def test_random_keys_err_by_the_root_of_n_less_one_over_d(n):
    def squared(seed):
        keys, values = pairs(n, seed)
        return (
            recall_error(read(write_sum(keys, values), keys), values) ** 2
        )

    wanted = (n - 1) / d
    assert over_seeds(squared, 30) == pytest.approx(wanted, rel=0.06)


@pytest.mark.claim("prop-fast-capacity")
@pytest.mark.parametrize("n", [40, 64, 128])
def test_no_matrix_beats_the_bound(n):
    def squared(seed):
        keys, values = pairs(n, seed)
        best = keys @ (np.linalg.pinv(keys) @ values)
        for write in (write_sum, write_by_delta):
            found = read(write(keys, values), keys)
            assert recall_error(found, values) > recall_error(best, values)
        return recall_error(best, values) ** 2

    assert over_seeds(squared) == pytest.approx(1 - d / n, rel=0.06)


@pytest.mark.claim("prop-fast-capacity")
def test_for_other_keys_the_best_matrix_is_no_better():
    """Orthonormal keys, then random ones; and keys that span fewer dimensions."""
    n, found = 64, {"orthonormal": [], "narrow": []}
    for seed in range(10):
        keys, values = pairs(n, seed)
        first = np.concatenate([orthonormal(d, seed), keys[d:]])
        narrow = keys * (np.arange(d) < d // 2)
        for name, k in (("orthonormal", first), ("narrow", narrow)):
            best = k @ (np.linalg.pinv(k) @ values)
            found[name].append(recall_error(best, values) ** 2)
    assert np.mean(found["orthonormal"]) == pytest.approx(0.5, rel=0.06)
    assert np.mean(found["narrow"]) == pytest.approx(0.75, rel=0.06)


def test_up_to_the_width_the_best_matrix_reads_all():
    keys, values = pairs(32)
    best = keys @ (np.linalg.pinv(keys) @ values)
    assert recall_error(best, values) < 1e-9


@pytest.mark.claim("obs-fast-wall")
def test_eight_pairs_beyond_the_wall_the_error_is_there():
    def error(seed):
        keys, values = pairs(40, seed)
        keys = np.concatenate([orthonormal(d, seed), keys[d:]])
        return recall_error(read(write_sum(keys, values), keys), values)

    assert over_seeds(error) == pytest.approx(0.67, abs=0.05)


@pytest.mark.claim("obs-fast-wall")
def test_over_the_seeds_there_is_a_wall_for_orthonormal_keys_and_none_for_random_ones():
    assert max(STORED["orthonormal_32"].values) < 1e-14
    assert min(STORED["orthonormal_40"].values) > 0.6
    random = [STORED[f"random_{n}"].mean for n in (8, 16, 32, 64, 128)]
    assert random[0] > 0.4
    assert random == sorted(random)
    assert random[2] == pytest.approx(1, abs=0.05)


def test_what_is_stored_is_what_these_functions_give():
    def error(seed):
        keys, values = pairs(64, seed)
        return recall_error(read(write_sum(keys, values), keys), values)

    assert STORED["random_64"].mean == pytest.approx(
        over_seeds(error), abs=0.05
    )
    for n in (40, 64, 128):
        assert STORED[f"best_{n}"].mean == pytest.approx(
            np.sqrt(1 - d / n), abs=0.03
        )
    assert max(STORED["equal_normalized"].values) < 1e-14
    assert max(STORED["equal_identity"].values) < 1e-14


def test_the_nearest_value_forgives():
    shares = [STORED[f"random_right_{n}"].mean for n in (32, 64, 128)]
    assert shares[0] > 0.95
    assert shares == sorted(shares, reverse=True)
    assert shares[2] < 0.6


# The control


@pytest.mark.parametrize("n", [32, 128])
def test_softmax_attention_tells_the_same_keys_apart(n):
    keys, values = pairs(n)
    found = attention(keys, keys, values, scale=64.0)
    assert recall_error(found, values) < 1e-6
    flat = attention(keys, keys, values)
    assert recall_error(flat, values) > 0.9
    z = keys @ keys.T / np.sqrt(d)
    assert np.abs(z).max() <= 1 / np.sqrt(d) + 1e-12


# The delta rule


@pytest.mark.claim("prop-fast-delta")
@pytest.mark.parametrize("seed", range(3))
def test_the_newest_pair_is_exact_and_orthogonal_keys_stay(seed):
    keys, values = pairs(50, seed)
    before = write_by_delta(keys[:-1], values[:-1])
    after = write_by_delta(keys[-1:], values[-1:], memory=before)
    assert_close(read(after, keys[-1:]), values[-1:], 1e-12)
    other = normal(1, d, seed=seed)
    other = other - (other @ keys[-1]) * keys[-1]
    assert_close(read(after, other), read(before, other), 1e-12)


@pytest.mark.claim("prop-fast-delta", "obs-fast-rewrite")
@pytest.mark.parametrize("times", [2, 8])
def test_orthonormal_keys_read_their_latest_value(times):
    draw = np.random.default_rng(times)
    keys = orthonormal(8)
    order = np.concatenate([draw.permutation(8) for _ in range(times)])
    values = draw.standard_normal((len(order), d))
    latest = np.array([values[order == i][-1] for i in range(8)])
    W = write_by_delta(keys[order], values)
    assert recall_error(read(W, keys), latest) < 1e-14
    sums = np.array([values[order == i].sum(0) for i in range(8)])
    added = read(write_sum(keys[order], values), keys)
    assert_close(added, sums, 1e-12)
    assert recall_error(added, latest) == pytest.approx(
        np.sqrt(times - 1), rel=0.15
    )


@pytest.mark.claim("obs-fast-rewrite")
def test_over_the_seeds_the_delta_rule_corrects_what_was_written():
    for m in (2, 4, 8):
        assert max(STORED[f"rewrite_delta_orthonormal_{m}"].values) < 1e-14
        assert STORED[f"rewrite_sum_orthonormal_{m}"].mean == pytest.approx(
            np.sqrt(m - 1), rel=0.05
        )
        assert 0.3 < STORED[f"rewrite_delta_random_{m}"].mean < 0.6
    grows = [STORED[f"rewrite_sum_random_{m}"].mean for m in (1, 2, 4, 8)]
    assert grows == sorted(grows)
    assert grows[-1] > 2.5


@pytest.mark.claim("obs-fast-room")
def test_the_delta_rule_favours_the_new_and_holds_no_more():
    keys, values = pairs(64)
    found = read(write_by_delta(keys, values), keys)
    added = read(write_sum(keys, values), keys)
    assert nearest_share(found, values) < nearest_share(added, values)
    apart = ((found[-8:, None] - values) ** 2).sum(-1)
    assert (apart.argmin(1) == np.arange(56, 64)).all()
    assert STORED["delta_right_last_64"].mean > 0.98
    assert max(STORED["delta_right_64"].values) < min(
        STORED["random_right_64"].values
    )
    assert max(STORED["delta_64"].values) < min(STORED["random_64"].values)


@pytest.mark.claim("obs-fast-room")
@pytest.mark.parametrize("n", [32, 64, 128])
def test_of_its_best_size_adding_errs_as_little_as_the_delta_rule(n):
    m = (n - 1) / d
    sizes = np.linspace(0.01, 1.5, 300)
    of_size = (1 - sizes) ** 2 + sizes**2 * m
    assert sizes[of_size.argmin()] == pytest.approx(1 / (1 + m), abs=0.01)
    assert of_size.min() == pytest.approx(m / (1 + m), abs=1e-3)

    def errors(seed):
        keys, values = pairs(n, seed)
        memories = [write_sum(keys, values) / (1 + m)]
        memories += [
            write_by_delta(keys, values, rate=rate)
            for rate in (1.0, 0.5, 0.25)
        ]
        return [recall_error(read(W, keys), values) for W in memories]

    shrunk, *by_delta = np.mean([errors(seed) for seed in range(5)], axis=0)
    assert shrunk == pytest.approx((m / (1 + m)) ** 0.5, abs=0.02)
    assert shrunk < min(by_delta) + 0.02


def test_the_delta_rule_is_a_step_of_gradient_descent():
    W, k, v = normal(4, 3), normal(1, 3, seed=1), normal(1, 4, seed=2)

    def loss(W):
        return 0.5 * ((v - read(W, k)) ** 2).sum()

    slope, h = np.zeros_like(W), 1e-6
    for at in np.ndindex(W.shape):
        step = np.zeros_like(W)
        step[at] = h
        slope[at] = (loss(W + step) - loss(W - step)) / (2 * h)
    after = write_by_delta(k, v, rate=0.3, memory=W)
    assert_close(after, W - 0.3 * slope, 1e-8)


@pytest.mark.parametrize("n", [24, 64])
def test_repeated_passes_fill_what_fits(n):
    keys, values = pairs(n)
    best = recall_error(keys @ (np.linalg.pinv(keys) @ values), values)
    W, errors = None, []
    for _ in range(100):
        W = write_by_delta(keys, values, memory=W)
        errors.append(recall_error(read(W, keys), values))
    if n < d:
        assert errors[-1] < 0.1 * errors[0]
        assert errors[-1] < 0.05
    else:
        assert errors[-1] > best + 0.05
        assert abs(errors[-1] - errors[-2]) < 1e-3


# Feature maps


@pytest.mark.claim("obs-fast-maps")
def test_over_the_seeds_dpfp_makes_room_and_elu_takes_it():
    error = {
        (name, rule): STORED[f"map_{name}_{rule}"].mean
        for name in ("identity", "elu", "dpfp1", "dpfp2", "dpfp3")
        for rule in ("sum", "delta")
    }
    by_delta = [error[f"dpfp{nu}", "delta"] for nu in (3, 2, 1)]
    assert by_delta == sorted(by_delta)
    assert by_delta[-1] < error["identity", "delta"] - 0.1
    assert error["elu", "sum"] > 3 * error["identity", "sum"]
    # Under adding too it falls, and not far.
    assert 1 < error["dpfp3", "sum"] < error["identity", "sum"] - 0.2
    assert error["dpfp3", "delta"] < error["identity", "delta"] - 0.3
    fallen = [
        np.array(STORED[f"map_identity_{rule}"].values)
        - STORED[f"map_dpfp3_{rule}"].values
        for rule in ("sum", "delta")
    ]
    assert np.min(fallen) > 0
    assert STORED["map_elu_normalized"].mean > 0.9


@pytest.mark.claim("obs-fast-maps")
def test_dpfp_makes_room_and_elu_takes_it_here_too():
    keys, values = pairs(64)
    keys = keys * np.sqrt(d)
    found = {
        (name, write): recall_error(read(write(k, values), k), values)
        for name, k in (
            ("none", unit_rows(keys)),
            ("dpfp", unit_rows(dpfp(keys, 3))),
            ("elu", unit_rows(elu_plus_one(keys))),
        )
        for write in (write_sum, write_by_delta)
    }
    for name, rule, low, high in (
        ("none", write_by_delta, 0.9, 1.15),
        ("dpfp", write_by_delta, 0.5, 0.75),
        ("none", write_sum, 1.2, 1.6),
        ("dpfp", write_sum, 0.9, 1.35),
        ("elu", write_sum, 4, 7),
    ):
        assert low < found[name, rule] < high
    assert found["dpfp", write_sum] < found["none", write_sum] - 0.1
    assert found["dpfp", write_by_delta] < found["none", write_by_delta]


def test_what_the_maps_do_to_products():
    x = np.random.default_rng(0).standard_normal((64, 32))
    apart = ~np.eye(64, dtype=bool)
    found = {}
    for name, image in (
        ("none", x),
        ("elu", elu_plus_one(x)),
        ("dpfp", dpfp(x, 3)),
    ):
        unit = unit_rows(image)
        found[name] = np.sqrt(((unit @ unit.T)[apart] ** 2).mean())
        values = normal(64, 2000, seed=5)  # many columns: near the mean
        error = recall_error(read(write_sum(unit, values), unit), values)
        assert error == pytest.approx(found[name] * np.sqrt(63), rel=0.03)
    assert found["none"] == pytest.approx(1 / np.sqrt(32), rel=0.05)
    assert found["dpfp"] < found["none"] < 0.3 < found["elu"]
    assert dpfp(x, 3).shape[1] == 192
    assert (dpfp(x, 3) == 0).mean() == pytest.approx(0.75, abs=0.02)
    assert (dpfp(x, 3) >= 0).all()
    assert (elu_plus_one(x) > 0).all()


# What can go wrong


def test_keys_that_are_not_of_length_one_blow_up():
    raw, values = np.random.default_rng(1).standard_normal((2, 16, 32))
    W = write_by_delta(raw, values)
    assert recall_error(read(W, raw), values) > 1e3
    k, v = raw[:1], values[:1]
    before = normal(32, 32)
    after = write_by_delta(k, v, memory=before)
    assert_close(
        v - read(after, k), (1 - (k**2).sum()) * (v - read(before, k)), 1e-9
    )


def test_normalized_without_positive_features_leaves_the_range():
    q, k, v = np.random.default_rng(0).standard_normal((3, 128, 16))
    wild = linear_attention(q, k, v, normalized=True)
    assert np.abs(wild).max() > np.abs(v).max()
    tame = linear_attention(
        elu_plus_one(q), elu_plus_one(k), v, normalized=True
    )
    assert np.abs(tame).max() <= np.abs(v).max()
