"""What the chapter Rank collapse states.

Checked elsewhere, in insights/test_rank_collapse.py: each function against its formula; the bound holds for random layers;
attention in two parts is attention; with all parts a layer is the encoder layer.
"""

import math
from functools import cache

import numpy as np
import pytest

from attention_in_detail import (
    MultiHeadParameters,
    causal_mask,
    multi_head_attention,
    self_attention,
    window_mask,
)
from attention_in_detail.insights.rank_collapse import (
    draw_layer,
    layer_with,
    log_relative_residual,
    relative_residual,
    residuals,
    row_spread,
    split_attention,
    split_rows,
    spread_bound,
)
from attention_in_detail.insights.results import experiment

T, D, HEADS = 32, 64, 4
BARE = {"skip": False, "norm": False, "feed": False}
STORED = experiment("rank_collapse")
each_seed = pytest.mark.parametrize("seed", range(2))


@cache
def start(seed):
    return np.random.default_rng([seed, 5]).standard_normal((T, D))


@cache
def layers(seed, many=12, **gains):
    return [
        draw_layer(D, HEADS, seed=100 * seed + n, **gains)
        for n in range(many)
    ]


def follow(seed, many=6, **gains):
    """Log₁₀ of the residual and of the spread in two parts, and the bounds."""
    mean, residual = split_rows(start(seed))
    logs = [log_relative_residual(mean, residual)]
    spreads, bounds = [math.log10(row_spread(residual))], []
    for layer in layers(seed, **gains)[:many]:
        bounds.append(
            math.log10(spread_bound(layer.attention, row_spread(residual)))
        )
        mean, residual = split_attention(layer.attention, mean, residual)
        logs.append(log_relative_residual(mean, residual))
        spreads.append(math.log10(row_spread(residual)))
    return np.array(logs), np.array(spreads), np.array(bounds)


def after(seed, parts=None, many=12, **gains):
    return residuals(
        layers(seed, many, **gains), start(seed), **(BARE | (parts or {}))
    )


# The definitions


def test_the_residual_does_not_feel_the_size_and_is_zero_for_equal_rows():
    x = start(0)
    assert relative_residual(1e-3 * x) == pytest.approx(
        relative_residual(x)
    )
    assert relative_residual(np.ones((4, 3))) == 0
    # of all 1 cᵀ the mean row leaves the least
    least = np.linalg.norm(x - x.mean(0))
    for c in np.random.default_rng(1).standard_normal((5, D)):
        assert np.linalg.norm(x - c) > least


@pytest.mark.claim("def-collapse-pure")
def test_pure_attention_is_the_formula():
    p = layers(0)[0].attention
    x, wanted = start(0), 0
    for i in range(HEADS):
        own = p.head(i)
        z = x @ own.W_Q @ own.W_K.T @ x.T / math.sqrt(D // HEADS)
        A = np.exp(z - z.max(1, keepdims=True))
        A /= A.sum(1, keepdims=True)
        wanted = wanted + A @ x @ own.W_V @ own.W_O
    assert np.allclose(self_attention(p, x), wanted, rtol=0, atol=1e-12)


# By hand

SECOND = np.diag([0.0, 1.0])


def by_hand(w):
    return MultiHeadParameters(
        np.sqrt(2) * SECOND, SECOND, w * np.eye(2), np.eye(2), heads=1
    )


@pytest.mark.parametrize("w", [1.0, 2.0])
@pytest.mark.parametrize("r", [0.1, 0.5, 1.0])
def test_two_rows_by_hand(r, w):
    x = np.array([[1, r], [1, -r]])
    found = self_attention(by_hand(w), x)
    new = w * r * np.tanh(r**2)
    assert np.allclose(found, [[w, new], [w, -new]], rtol=0, atol=1e-14)


def test_the_number_of_zeros_triples():
    x = np.array([[1, 0.1], [1, -0.1]])
    mean, residual = split_rows(x)
    for n in range(1, 5):
        x = self_attention(by_hand(1.0), x)
        mean, residual = split_attention(by_hand(1.0), mean, residual)
        power = math.log10(residual[0, 1])
        assert power == pytest.approx(-(3**n), abs=0.01 * 3**n)
        if n >= 3:
            assert abs(x[0, 1]) < 1e-16  # lost in one array
        else:
            assert x[0, 1] == pytest.approx(residual[0, 1], rel=1e-3)


# Pure attention collapses, doubly exponentially


@pytest.mark.claim("obs-collapse-cubic")
@each_seed
def test_pure_attention_reaches_rounding_within_four_layers(seed):
    found = after(seed)
    assert found[0] > 0.95
    assert found[1] > 0.5
    assert found[3] < 1e-4
    assert found[4] < 1e-14
    assert np.linalg.matrix_rank(start(seed)) == T
    x = start(seed)
    for layer in layers(seed)[:4]:
        x = self_attention(layer.attention, x)
    assert np.linalg.matrix_rank(x, rtol=1e-12) == 1


@pytest.mark.claim("obs-collapse-cubic", "cor-rank-collapse")
@each_seed
@pytest.mark.parametrize("gain", [0.25, 1.0])
def test_the_rate_is_cubic(seed, gain):
    logs, _, _ = follow(seed, 6 if gain == 1 else 5, score_gain=gain)
    steps = np.diff(logs)
    ratios = steps[1:] / steps[:-1]
    assert np.all((ratios[2:] > 2.7) & (ratios[2:] < 3.3))
    assert logs[-1] < -120


@pytest.mark.parametrize(
    ("rows", "width", "heads"),
    [(8, 64, 4), (128, 64, 4), (32, 16, 1), (32, 64, 16)],
)
def test_the_rate_is_cubic_for_other_sizes(rows, width, heads):
    draw = np.random.default_rng(1)
    mean, residual = split_rows(draw.standard_normal((rows, width)))
    logs = []
    for n in range(6):
        p = draw_layer(width, heads, seed=n).attention
        mean, residual = split_attention(p, mean, residual)
        logs.append(log_relative_residual(mean, residual))
    steps = np.diff(logs)
    assert steps[-1] / steps[-2] == pytest.approx(3, abs=0.05)


@each_seed
def test_in_two_parts_it_agrees_with_one_array(seed):
    x = start(seed)
    mean, residual = split_rows(x)
    for layer in layers(seed)[:6]:
        x = self_attention(layer.attention, x)
        mean, residual = split_attention(layer.attention, mean, residual)
        assert np.abs(mean + residual - x).max() < 1e-13 * np.abs(x).max()


@pytest.mark.claim("obs-collapse-cubic")
def test_over_the_seeds_the_rate_is_cubic():
    for key in (
        "ratio_quarter_5",
        "ratio_one_5",
        "ratio_one_6",
        "ratio_four_6",
    ):
        assert all(2.7 < r < 3.3 for r in STORED[key].values)
    assert STORED["log_6"].mean < -150
    assert max(STORED["pure_3"].values) < 1e-5
    assert max(STORED["apart"].values) < 1e-13


# The bound


@each_seed
def test_the_bound_is_empty_twice_and_then_close(seed):
    _, spreads, bounds = follow(seed)
    assert np.all(spreads[1:] <= bounds)
    useful = bounds < spreads[:-1]
    assert useful.tolist() == [False, False, True, True, True, True]
    assert bounds[0] > 50
    assert np.all(bounds[2:] - spreads[3:] < 6)


@each_seed
def test_alone_the_bound_is_doubly_exponential(seed):
    _, spreads, _ = follow(seed)
    alone, logs = 10 ** spreads[2], []
    for layer in layers(seed)[2:6]:
        alone = spread_bound(layer.attention, alone)
        logs.append(math.log10(alone))
    assert np.all(spreads[3:] <= logs)
    assert logs[-1] < 3 * logs[-2] + 5 < 3**2 * logs[-3] + 20 < -20


@pytest.mark.claim("prop-collapse-cubic")
@each_seed
def test_the_closed_form_of_the_bound(seed):
    size, count = 0.05, 3
    mean, residual = split_rows(start(seed))
    residual = size / row_spread(residual) * residual
    beta = widest = 0
    for layer in layers(seed)[:count]:
        total = 0
        for i in range(HEADS):
            own = layer.attention.head(i)
            M = np.linalg.norm(own.W_Q @ own.W_K.T, 2) / 4  # D_h = 16
            total += M * np.linalg.norm(own.W_V @ own.W_O, 2)
            widest = max(widest, M)
        beta = max(beta, total)
    assert 2 * widest * size**2 <= 1
    assert 4 * beta * size**2 < 1
    for layer in layers(seed)[:count]:
        mean, residual = split_attention(layer.attention, mean, residual)
    closed = (4 * beta) ** ((3**count - 1) / 2) * size ** (3**count)
    assert row_spread(residual) <= closed


def test_the_bound_over_the_seeds():
    assert set(STORED["first_useful"].values) == {3.0}
    assert min(STORED["bound_1"].values) > 50
    for n, useful in ((2, False), (3, True), (4, True)):
        for bound, spread in zip(
            STORED[f"bound_{n}"].values,
            STORED[f"spread_{n - 1}"].values,
            strict=True,
        ):
            assert (bound < spread) == useful


def test_pure_attention_that_does_not_collapse():
    for r, stays in ((1.0, True), (0.5, False)):
        x = np.array([[1, r], [1, -r]])
        found = []
        for _ in range(40):
            x = self_attention(by_hand(2.0), x)
            found.append(relative_residual(x))
        if stays:
            assert found[-1] > 0.59
            assert found[-1] == pytest.approx(found[5], abs=1e-3)
        else:
            assert found[3] < 1e-6
    border = math.sqrt(0.5 * math.log(3))
    assert border == pytest.approx(0.75, abs=0.02)
    assert 2 * math.tanh(border**2) == pytest.approx(1)
    for r, grows in ((border - 0.01, False), (border + 0.01, True)):
        assert (2 * r * math.tanh(r**2) > r) == grows
    for w in (0.5, 1.0):
        for r in np.linspace(0.1, 2, 20):
            assert w * r * math.tanh(r**2) < r


# The control


@each_seed
def test_weights_that_do_not_look_collapse_exponentially(seed):
    x = y = start(seed)
    found = []
    for layer in layers(seed):
        y = multi_head_attention(layer.attention, x, x, y)
        found.append(math.log10(relative_residual(y)))
    steps = np.diff(found)[2:]
    assert np.all((steps < -0.3) & (steps > -1.0))
    assert found[3] > math.log10(after(seed)[4]) + 10


def test_the_control_over_the_seeds():
    assert STORED["frozen_ratio"].mean == pytest.approx(1, abs=0.15)
    assert min(STORED["frozen_4"].values) > 1e10 * max(
        STORED["pure_4"].values
    )


@each_seed
def test_what_frozen_weights_are_sure_to_lose(seed):
    draw = np.random.default_rng(seed)
    A = draw.random((T, T)) + 0.1
    A /= A.sum(1, keepdims=True)
    W = draw.standard_normal((D, D))
    lost = (1 - T * A.min()) * np.linalg.norm(W, 2)
    x = start(seed)
    assert row_spread(A @ x @ W) <= lost * row_spread(x)


# Which parts matter, and when


@pytest.mark.claim("obs-collapse-masks")
@each_seed
def test_a_causal_mask_keeps_it_exponential(seed):
    found = np.log10(after(seed, {"mask": causal_mask(T)}))
    assert -4.5 < found[12] < -1.5
    assert np.all(np.diff(found)[3:] > -0.6)


@pytest.mark.claim("obs-collapse-masks")
@each_seed
def test_a_window_slows_it(seed):
    found = [
        after(seed, {"mask": window_mask(T, before=n, after=n)})[12]
        for n in (1, 4, 16, 31)
    ]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.4
    assert found[-1] < 1e-14


@each_seed
def test_sharp_scores_delay_it(seed):
    found = after(seed, many=18, score_gain=16.0)
    assert found[6] > 0.1
    assert found[18] < 1e-12


@pytest.mark.claim("obs-collapse-alone", "cor-rank-collapse")
@each_seed
def test_layer_norm_alone_gains_a_layer(seed):
    found = after(seed, {"norm": True})
    assert found[3] > 1e-4 > after(seed)[3]
    assert found[4] < 1e-4
    assert found[6] < 1e-14


@pytest.mark.claim("obs-collapse-alone", "cor-rank-collapse")
def test_a_network_slows_it_only_with_large_weights():
    plain, fed, large = (
        np.median(
            [np.log(after(s, {"feed": f}, 3, **g)[3]) for s in range(3)]
        )
        for f, g in ((False, {}), (True, {}), (True, {"feed_gain": 4.0}))
    )
    assert fed < plain < large - 5


def test_a_causal_mask_halves_what_is_left():
    found = after(1, {"mask": causal_mask(T)}, many=30)
    assert (found[30] / found[15]) ** (1 / 15) == pytest.approx(
        0.5, abs=0.06
    )
    # on nearly equal rows: the second becomes the mean of the first two
    x = 1 + 1e-8 * start(1)
    p = layers(1)[0].attention
    y = self_attention(p, x, mask=causal_mask(T))
    half = (x[1] - x[0]) / 2
    for i in range(HEADS):
        own = p.head(i)
        half_out = half @ own.W_V @ own.W_O
        y[1] = y[1] - half_out
    assert np.abs(y[1] - y[0]).max() < 1e-13


@pytest.mark.claim("obs-collapse-skip")
def test_the_skip_connection_ends_it_and_a_root_of_two_remains():
    x, many = start(0), 30
    common, apart = [], []
    for layer in layers(0, many):
        x = layer_with(layer, x, skip=True, norm=False, feed=False)
        mean, residual = split_rows(x)
        common.append(np.linalg.norm(mean) * T**0.5)
        apart.append(np.linalg.norm(residual))
    share = np.array(apart) / np.hypot(common, apart)
    assert share[11] > 0.05
    rate = (share[-1] / share[14]) ** (1 / 15)
    assert rate == pytest.approx(0.5**0.5, abs=0.05)
    grown = (common[-1] / common[14]) ** (1 / 15)
    assert grown == pytest.approx(2**0.5, abs=0.1)
    assert apart[-1] > np.linalg.norm(split_rows(start(0))[1])
    assert apart[-1] == pytest.approx(apart[-6], rel=0.01)  # it stays


@pytest.mark.claim("obs-collapse-skip")
def test_skip_and_norm_keep_a_share():
    norm = after(0, {"skip": True, "norm": True}, many=24)
    whole = after(0, {"skip": True, "norm": True, "feed": True}, many=24)
    assert norm[24] > 0.2
    assert whole[24] > 0.35


def values(key):
    return np.array(STORED[key].values)


@pytest.mark.claim("obs-collapse-masks")
def test_over_the_seeds_masks_slow_the_collapse():
    assert values("causal_4").min() > 0.1
    assert values("causal_12").min() > 1e-4
    assert values("causal_12").max() < 1e-2
    assert values("near_12").min() > 0.6
    assert values("near_48").min() > 0.4


def test_over_the_seeds_sharp_scores_delay_it():
    assert values("sharp16_6").min() > 0.1
    assert np.median(values("sharp16_12")) < 1e-14
    assert values("sharp64_24").max() < 1e-14


@pytest.mark.claim("obs-collapse-alone")
def test_over_the_seeds_a_norm_or_a_usual_network_alone_does_not_stop_it():
    pure = {n: np.median(values(f"pure_{n}")) for n in (2, 3)}
    assert values("norm_3").max() < 0.1
    assert values("norm_4").max() < 1e-4
    for n in (2, 3):
        assert np.median(values(f"feed_{n}")) < pure[n]
    assert np.median(values("feed4_3")) > 1e3 * pure[3]
    assert np.median(values("feed4_6")) < 1e-10


@pytest.mark.claim("obs-collapse-skip")
def test_over_the_seeds_skip_connections_and_norms_keep_rows_apart():
    at_48 = [
        np.median(values(f"{name}_48"))
        for name in ("skip", "skip_norm", "whole", "scaled")
    ]
    assert at_48 == sorted(at_48)
    assert values("skip_12").min() > 0.05
    assert values("skip_48").max() < 1e-3
    assert values("skip_growth").min() > 1
    assert values("skip_norm_48").min() > 0.1
    assert values("whole_48").min() > 0.25
    assert values("scaled_48").min() > 0.85


# What can go wrong


def test_a_stack_that_shrinks_has_not_collapsed():
    x = start(0)
    own = window_mask(T, before=0, after=0)
    for layer in layers(0, 6, branch_gain=0.1):
        x = layer_with(layer, x, **BARE, mask=own)
    assert np.linalg.norm(split_rows(x)[1]) < 1e-4
    assert relative_residual(x) > 0.9


def test_the_floor_is_that_of_the_precision():
    floors = []
    for dtype in (np.float32, np.float64):
        x = start(0).astype(dtype)
        for layer in layers(0)[:6]:
            p = layer.attention
            x = self_attention(
                MultiHeadParameters(
                    *(
                        w.astype(dtype)
                        for w in (p.W_Q, p.W_K, p.W_V, p.W_O)
                    ),
                    heads=HEADS,
                ),
                x,
            )
        floors.append(relative_residual(x))
    assert 1e-8 < floors[0] < 1e-5
    assert 1e-17 < floors[1] < 1e-14


def test_in_one_array_only_rounding_is_left_of_the_example_by_hand():
    """From the fifth layer on both rows are the same, and what they hold is not 0."""
    second = np.diag([0.0, 1.0])
    by_hand = MultiHeadParameters(
        np.sqrt(2) * second, second, np.eye(2), np.eye(2), heads=1
    )
    x = np.array([[1.0, 0.5], [1.0, -0.5]])
    for layer in range(1, 7):
        x = self_attention(by_hand, x)
        if layer >= 4:
            assert x[:, 1] == pytest.approx(x[0, 1], abs=1e-23)
            assert 1e-22 < abs(x[0, 1]) < 1e-20
