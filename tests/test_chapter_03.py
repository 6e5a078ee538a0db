"""What chapter 3, The compatibility function, states.

Checked elsewhere:
- the output lies between the values: test_properties.py,
  test_the_output_lies_among_the_values_attended_to
- the derivative of the softmax is what differentiation gives, is
  symmetric, and is 0 at a winner: test_rows.py, test_softmax_jacobian_…
- half precision is computed in float32 and rounded once: test_rows.py,
  test_half_precision_of_numpy_is_float32_rounded_once
- a higher temperature lowers the largest weight: test_properties.py,
  test_a_higher_temperature_lowers_the_largest_weight
- a head divides by the root of its own width: test_classic_bugs.py,
  test_scores_of_a_head_are_divided_by_the_root_of_its_own_width

What is measured on the page is measured here with other seeds and fewer
queries, so the limits leave room for chance.
"""

import itertools
import math

import numpy as np
import pytest
import torch

from attention_in_detail import (
    attention,
    attention_weights,
    scores,
    softmax,
    softmax_jacobian,
)
from tests.five_keys import KEYS, QUERY, VALUES
from tests.support import assert_close, normal

WIDTHS = (4, 16, 64, 256, 1024)
S = 64


def entropy_share(rows):
    logs = np.log(np.where(rows > 0, rows, 1))
    return -(rows * logs).sum(-1) / np.log(rows.shape[-1])


def in_hull(point, points):
    """Whether a point of the plane lies in a triangle of three of the points."""
    for triangle in itertools.combinations(points, 3):
        corners = np.vstack([np.transpose(triangle), np.ones(3)])
        if abs(np.linalg.det(corners)) > 1e-9:
            shares = np.linalg.solve(corners, [*point, 1])
            if (shares >= -1e-12).all():
                return True
    return False


# def-compatibility


@pytest.mark.claim("def-compatibility")
def test_weights_are_the_softmax_of_the_scores():
    q, k = normal(3, 6, seed=1), normal(5, 6, seed=2)
    assert np.array_equal(attention_weights(q, k), softmax(scores(q, k)))


@pytest.mark.claim("def-compatibility")
def test_a_score_needs_one_key_and_a_weight_needs_all():
    q, k = normal(3, 6, seed=1), normal(5, 6, seed=2)
    other = k.copy()
    other[4] += 1
    moved = scores(q, k) != scores(q, other)
    assert moved.any(axis=0).tolist() == [False] * 4 + [True]
    assert (attention_weights(q, k) != attention_weights(q, other)).all()


@pytest.mark.claim("def-compatibility")
def test_one_row_is_as_worked_by_hand():
    products = np.array([[2, 1, 1, 0]]) @ KEYS.T
    assert products[0].tolist() == [6, 4, 2, 0, 0]
    assert_close(scores(QUERY, KEYS) / np.log(2), products / 2, 1e-15)
    y, weights = attention(QUERY, KEYS, VALUES, return_weights=True)
    assert_close(weights[0], np.array([8, 4, 2, 1, 1]) / 16, 1e-15)
    assert_close(y[0], np.array([6.0, 5.0]), 1e-14)


# prop-weighted-sum


@pytest.mark.claim("prop-weighted-sum")
def test_each_output_is_the_weighted_sum_of_the_values_and_in_their_hull():
    q, k, v = (normal(*s) for s in ((9, 3), (6, 3), (6, 2)))
    Y, A = attention(3 * q, k, v, return_weights=True)
    for y, weights in zip(Y, A, strict=True):
        assert_close(
            y, sum(a * row for a, row in zip(weights, v, strict=True))
        )
        assert in_hull(y, v)
    assert not in_hull(v.max(0) + 0.1, v)


# prop-score-variance


@pytest.mark.claim("prop-score-variance")
@pytest.mark.parametrize("width", WIDTHS)
def test_the_variance_of_a_dot_product_is_the_width(width):
    rng = np.random.default_rng([30, width])
    blocks = max(25, 1600 // width)  # fewer coordinates, more chance
    q, k = rng.standard_normal((2, blocks, 64, width))
    for scale, variance in ((1, width), (None, 1), (1 / width, 1 / width)):
        z = scores(q, k, scale=scale)
        assert abs(z.var() / variance - 1) < 0.05
        assert abs(z.mean()) < 0.05 * np.sqrt(variance)


@pytest.mark.claim("obs-score-variance")
@pytest.mark.parametrize("width", WIDTHS)
def test_the_draw_of_the_page_comes_within_a_twentieth(width):
    rng = np.random.default_rng([3, width])
    q = rng.standard_normal((25, 64, width))
    k = rng.standard_normal((25, 64, width))
    assert abs(scores(q, k, scale=1).var() / width - 1) < 0.05


def test_projections_drawn_at_random_make_queries_and_keys_of_unit_variance():
    """The page's model: entries of variance 1/D, tokens of squared length D."""
    rng = np.random.default_rng(43)
    D, D_k, tokens = 32, 8, 200
    x = rng.standard_normal((tokens, D))
    x *= np.sqrt(D) / np.linalg.norm(x, axis=1, keepdims=True)
    pairs = []
    for _ in range(400):
        W_Q, W_K = rng.standard_normal((2, D, D_k)) / np.sqrt(D)
        pairs.append(scores(x[:1] @ W_Q, x[1:] @ W_K, scale=1))
    products = np.concatenate(pairs).ravel()
    assert abs(products.mean()) < 0.1
    assert abs(products.var() / D_k - 1) < 0.1


# What the scale does to the weights; eq:entropy


def test_entropy_of_the_row_by_hand():
    """1/2 · 1 + 1/4 · 2 + 1/8 · 3 + 2 · 1/16 · 4 = 1.875 bits, of log₂ 5."""
    share = entropy_share(attention_weights(QUERY, KEYS)[0])
    assert_close(share * np.log2(5), np.array(1.875), 1e-14)
    assert share.round(2) == 0.81
    assert entropy_share(np.array([0.0, 1, 0])) == 0
    assert_close(entropy_share(np.full(7, 1 / 7)), np.array(1.0), 1e-14)


@pytest.fixture(scope="module")
def measured():
    """For each scale and width: rows of evenness, largest weight, |J|, |∂α/∂q|, gap."""
    found = {}
    for width in WIDTHS:
        rng = np.random.default_rng([40, width])
        scales = {"none": 1.0, "root": width**-0.5, "width": 1 / width}
        blocks = {name: [] for name in scales}
        for _ in range(40):
            q = rng.standard_normal((16, width))
            k = rng.standard_normal((S, width))
            for name, scale in scales.items():
                rows = attention_weights(q, k, scale=scale)
                J = softmax_jacobian(rows)
                best = np.sort(scores(q, k, scale=scale), axis=1)
                blocks[name].append(
                    np.stack(
                        [
                            entropy_share(rows),
                            rows.max(1),
                            np.linalg.norm(J, axis=(1, 2)),
                            scale * np.linalg.norm(J @ k, axis=(1, 2)),
                            best[:, -1] - best[:, -2],
                        ]
                    )
                )
        for name, parts in blocks.items():
            found[name, width] = np.concatenate(parts, axis=1)
    return found


def table(measured, name, row, of):
    return np.array([of(measured[name, width][row]) for width in WIDTHS])


def test_divided_by_the_root_the_weights_do_not_know_the_width(measured):
    evenness = table(measured, "root", 0, np.mean)
    largest = table(measured, "root", 1, np.mean)
    assert (evenness > 0.87).all()
    assert (evenness < 0.905).all()
    assert (largest > 0.095).all()
    assert (largest < 0.12).all()


@pytest.mark.claim("obs-scale-weights")
def test_divided_by_the_width_the_weights_become_even(measured):
    evenness = table(measured, "width", 0, np.mean)
    largest = table(measured, "width", 1, np.mean)
    assert (np.diff(evenness) > 0).all()
    assert evenness[-1] > 0.999
    assert (np.diff(largest) < 0).all()
    assert 1 / S < largest[-1] < 1.15 / S


@pytest.mark.claim("obs-scale-weights")
def test_without_a_scale_one_key_takes_all(measured):
    evenness = table(measured, "none", 0, np.mean)
    largest = table(measured, "none", 1, np.mean)
    assert (np.diff(evenness) < 0).all()
    assert evenness[-1] < 0.06
    assert (np.diff(largest) > 0).all()
    frozen = [(measured["none", w][1] > 0.99).mean() for w in WIDTHS]
    assert frozen[0] < 0.01
    assert frozen[-1] > 0.6


@pytest.fixture(scope="module")
def on_the_page():
    """The same quantities, but the gap, from the very draws of the page."""
    found = {}
    for width in WIDTHS:
        drawn = np.random.default_rng([4, width]).standard_normal(
            (100, 16 + S, width)
        )
        q, k = drawn[:, :16], drawn[:, 16:]
        K_K = (k @ k.mT)[:, None]
        scales = {"none": 1.0, "root": width**-0.5, "width": 1 / width}
        for name, scale in scales.items():
            rows = attention_weights(q, k, scale=scale)
            J = softmax_jacobian(rows)
            of_query = np.sqrt(((J @ K_K) * J).sum((-2, -1)))
            found[name, width] = np.stack(
                [
                    entropy_share(rows).ravel(),
                    rows.max(-1).ravel(),
                    np.linalg.norm(J, axis=(-2, -1)).ravel(),
                    scale * of_query.ravel(),
                ]
            )
    return found


@pytest.mark.claim("obs-scale-weights")
def test_under_the_root_the_draws_of_the_page_change_by_a_hundredth_at_most(
    on_the_page,
):
    for row in (0, 1):  # evenness, largest weight
        means = table(on_the_page, "root", row, np.mean)
        assert np.ptp(means) < 0.01
    assert table(on_the_page, "width", 0, np.mean)[-1] > 0.999
    none = table(on_the_page, "none", 0, np.mean)
    assert (np.diff(none) < 0).all()
    assert table(on_the_page, "none", 1, np.mean)[-1] > 0.9


@pytest.mark.claim("obs-scale-derivatives")
def test_the_norms_of_the_derivatives_are_those_of_the_page(on_the_page):
    for row in (2, 3):  # of J, of ∂α/∂q
        medians = table(on_the_page, "root", row, np.median)
        assert (medians.round(2) >= 0.17).all()
        assert (medians.round(2) <= 0.18).all()
    root, none, width = (
        table(on_the_page, name, 3, np.median)
        for name in ("root", "none", "width")
    )
    assert ((width[1:] / width[:-1]).round(1) == 0.5).all()
    assert none.argmax() == 2
    assert 8 < none[2] / root[2] < 9
    assert none[3].round(2) == 0.35
    assert none[4].round(3) == 0.015
    means = table(on_the_page, "none", 3, np.mean)
    assert (np.diff(means) > 0).all()
    assert means[-1].round(1) == 2.3
    sizes = np.sort(on_the_page["none", 1024][3])
    assert (sizes[-160:].sum() / sizes.sum()).round(2) == 0.59


@pytest.mark.claim("obs-scale-ties")
def test_with_no_scale_the_draws_of_the_page_are_decided_and_ties_halve(
    on_the_page,
):
    sure = (on_the_page["none", 1024][1] > 0.99).mean()
    assert 2 / 3 < sure < 0.7
    ties = []
    for width in WIDTHS[1:]:
        drawn = np.random.default_rng([4, width]).standard_normal(
            (100, 16 + S, width)
        )
        z = np.sort(scores(drawn[:, :16], drawn[:, 16:], scale=1))
        ties.append((z[..., -1] - z[..., -2] < 1).mean())
    halves = np.array(ties[1:]) / ties[:-1]
    assert (halves > 0.45).all()
    assert (halves < 0.6).all()


# What the scale does to the gradient; eq:jacobian, eq:query-gradient


def test_the_query_gradient_is_the_scale_times_jacobian_times_keys():
    k = torch.tensor(normal(5, 3, seed=2))
    q = torch.tensor(normal(3, seed=3))
    scale = 0.7
    exact = torch.autograd.functional.jacobian(
        lambda x: attention_weights(x[None], k, scale=scale)[0], q
    )
    rows = attention_weights(q[None], k, scale=scale)[0]
    assert_close(scale * softmax_jacobian(rows) @ k, exact, 1e-14)


def test_the_squared_norm_of_a_product_is_a_sum_over_the_squared_keys():
    """What the page computes in place of J K: the sum of (J K Kᵀ) * J."""
    k, J = normal(5, 3), softmax_jacobian(softmax(normal(5)))
    assert_close(
        ((J @ k @ k.T) * J).sum(), (np.linalg.norm(J @ k) ** 2), 1e-13
    )


def test_divided_by_the_root_gradients_do_not_know_the_width(measured):
    for row in (2, 3):
        medians = table(measured, "root", row, np.median)
        assert (medians > 0.165).all()
        assert (medians < 0.185).all()


@pytest.mark.claim("obs-scale-derivatives")
def test_divided_by_the_width_the_query_gradient_fades(measured):
    jacobian = table(measured, "width", 2, np.median)
    assert abs(jacobian[-1] / (np.sqrt(S - 1) / S) - 1) < 0.02
    fade = table(measured, "width", 3, np.median)
    assert (fade[1:] / fade[:-1] > 0.44).all()
    assert (fade[1:] / fade[:-1] < 0.56).all()


def test_without_a_scale_the_median_gradient_vanishes_and_the_mean_does_not(
    measured,
):
    median, mean = (
        table(measured, "none", 2, of) for of in (np.median, np.mean)
    )
    assert median[-1] < 0.002
    assert mean[-1] > 0.05
    assert (mean[2:] / mean[1:-1] > 0.5).all()
    of_query = table(measured, "none", 3, np.mean)
    assert of_query[-1] > 0.8 * of_query[2] > 1
    assert np.median(measured["none", 1024][3]) < 0.1 * of_query[-1]


@pytest.mark.claim("obs-scale-derivatives")
def test_without_a_scale_the_median_first_grows_and_then_collapses(
    measured,
):
    """To more than eight times that of the root at width 64; a fiftieth of that at 1024."""
    none = table(measured, "none", 3, np.median)
    root = table(measured, "root", 3, np.median)
    assert none[0] < none[1] < none[2]
    assert 8 < none[2] / root[2] < 9
    assert 0.2 < none[3] < 0.6
    assert none[4] < 0.05 < root[4]


@pytest.mark.claim("obs-scale-ties")
def test_without_a_scale_the_gap_of_the_two_best_grows_as_the_root(
    measured,
):
    """And ties become rare: by half for each fourfold width."""
    gaps = table(measured, "none", 4, np.mean)
    assert (gaps[2:] / gaps[1:-1] > 1.7).all()
    assert (gaps[2:] / gaps[1:-1] < 2.3).all()
    close_calls = [(measured["none", w][4] < 1).mean() for w in WIDTHS]
    assert 0.15 < close_calls[-1] / close_calls[-3] < 0.4


def test_without_a_scale_a_tenth_of_the_queries_gets_most_of_the_gradient(
    measured,
):
    share = {}
    for name in ("none", "root", "width"):
        sizes = np.sort(measured[name, 1024][3])
        share[name] = sizes[-len(sizes) // 10 :].sum() / sizes.sum()
    assert share["none"] > 0.5
    assert share["root"] < 0.15
    assert share["width"] < 0.12


# prop-correlated-scores


@pytest.mark.claim("prop-correlated-scores")
@pytest.mark.parametrize("width", WIDTHS[1:])
@pytest.mark.parametrize("rho", [0.0, 0.1, 0.5])
def test_the_mean_score_of_correlated_pairs_grows_as_the_root(rho, width):
    rng = np.random.default_rng([50, width])
    q, e = rng.standard_normal((2, 2000, 1, width))
    k = rho * q + np.sqrt(1 - rho**2) * e
    assert abs(k.mean()) < 0.02
    assert abs(k.var() - 1) < 0.03
    assert abs(scores(q, k).mean() - rho * np.sqrt(width)) < 0.1


def test_a_score_of_sixteen_beats_sixty_three_of_three():
    weight = softmax(np.array([16.0] + 63 * [3.0]))[0]
    assert_close(weight, np.array(1 / (1 + 63 * math.exp(-13))), 1e-14)
    assert weight > 0.999


# prop-temperature


@pytest.mark.claim("prop-temperature")
def test_a_cold_softmax_shares_among_the_best_and_a_hot_one_among_all():
    z = np.array([0.3, 2.0, -1.0, 2.0, 1.9])
    assert_close(softmax(z / 1e-3), np.array([0, 0.5, 0, 0.5, 0]), 1e-12)
    assert_close(softmax(z / 1e9), np.full(5, 1 / 5), 1e-8)


@pytest.mark.claim("prop-temperature")
def test_temperatures_of_the_row_by_hand():
    rows, outputs = {}, {}
    for tau in (0.1, 0.25, 2, 100):
        y, a = attention(
            QUERY, KEYS, VALUES, scale=1 / (2 * tau), return_weights=True
        )
        rows[tau], outputs[tau] = a[0], y[0]
    fourth = np.array([4096, 256, 16, 1, 1])
    assert_close(rows[0.25], fourth / 4370, 1e-14)
    assert rows[0.25][0].round(3) == 0.937
    assert rows[2].round(3).tolist() == [0.343, 0.243, 0.172, 0.121, 0.121]
    assert entropy_share(rows[2]).round(2) == 0.95
    assert np.abs(outputs[0.1] - VALUES[0]).max() < 0.02
    assert np.abs(outputs[100] - VALUES.mean(0)).max() < 0.02


@pytest.mark.claim("prop-temperature")
def test_the_other_scales_are_temperatures():
    q, k = normal(3, 9), normal(5, 9)
    z = scores(q, k)
    for scale, tau in ((1, 1 / 3), (1 / 9, 3)):
        assert_close(
            attention_weights(q, k, scale=scale), softmax(z / tau), 1e-14
        )


# prop-softmax-shift; A softmax that does not overflow


@pytest.mark.claim("prop-softmax-shift")
def test_the_formula_as_it_stands_overflows_and_softmax_does_not():
    z = np.array([1000.0, 1001, 1002])
    with np.errstate(over="ignore", invalid="ignore"):
        assert np.isnan(np.exp(z) / np.exp(z).sum()).all()
        assert np.exp(710.0) == np.inf
    for c in (0, 1000, -1e6):
        assert_close(softmax(z - c), softmax(np.array([0.0, 1, 2])), 1e-9)


@pytest.mark.claim("prop-softmax-shift")
def test_a_weight_is_at_most_the_exponential_of_its_distance_to_the_best():
    z = normal(50, 7, seed=4) * 3
    behind = np.exp(z - z.max(axis=1, keepdims=True))
    assert behind.max() == 1
    assert (behind.sum(axis=1) >= 1).all()
    assert (softmax(z) <= behind * (1 + 1e-12)).all()


def test_a_score_far_below_the_best_gets_exactly_nothing():
    far = softmax(np.array([0.0, -10, -800]))
    assert far[2] == 0
    assert far[:2].round(6).tolist() == [0.999955, 4.5e-05]
    assert -800 / math.log(10) < -347  # e to the −800, as a power of ten


def test_twelve_is_beyond_half_precision_and_its_softmax_is_not():
    half = np.array([12, 11, 10], np.float16)
    with np.errstate(over="ignore"):
        powers = np.exp(half)
    assert np.finfo(np.float16).max == 65504
    assert np.isinf(powers).tolist() == [True, False, False]
    assert powers[1] == 59872
    exact = np.exp([0.0, -1, -2]) / np.exp([0.0, -1, -2]).sum()
    assert_close(softmax(half), exact, 5e-4)
    assert exact.round(3).tolist() == [0.665, 0.245, 0.09]


# A score is not a similarity


def test_a_long_key_at_a_wide_angle_beats_one_of_the_same_direction():
    q, k = np.array([[1.0, 0]]), np.array([[1.0, 0], [2, 9]])
    assert scores(q, k, scale=1)[0].tolist() == [1, 2]
    cosines = k @ q[0] / np.linalg.norm(k, axis=1)
    assert cosines.round(2).tolist() == [1, 0.22]
    assert np.degrees(np.arctan2(9, 2)).round() == 77


def test_a_score_is_neither_symmetric_nor_bounded():
    x, W = normal(4, 6, seed=1), normal(2, 6, 3, seed=2)
    z = scores(x @ W[0], x @ W[1])
    assert np.abs(z - z.T).max() > 1
    assert_close(scores(x @ W[0], 2 * x @ W[1]), 2 * z, 1e-14)


# What can go wrong


@pytest.mark.parametrize("scale", [1, 1 / 4])
def test_a_wrong_scale_passes_every_check_but_equality(scale):
    right = attention_weights(QUERY, KEYS)
    wrong = attention_weights(QUERY, KEYS, scale=scale)
    assert wrong.shape == right.shape
    assert_close(wrong.sum(), np.array(1.0), 1e-14)
    assert wrong.argmax() == right.argmax() == 0
    assert np.abs(wrong - right).max() > 0.1


@pytest.mark.parametrize("scale", [1, None])
def test_at_width_one_all_scales_are_one(scale):
    q, k = normal(3, 1), normal(5, 1)
    assert_close(scores(q, k, scale=scale), q @ k.T, 0)


def test_the_root_of_the_width_of_the_model_is_a_temperature_of_root_h():
    """D = 16, h = 4: the hand example at temperature 2. With one head nothing shows."""
    wrong = attention_weights(QUERY, KEYS, scale=1 / np.sqrt(16))
    assert_close(wrong, softmax(scores(QUERY, KEYS) / np.sqrt(4)), 1e-15)
    assert np.abs(wrong - attention_weights(QUERY, KEYS)).max() > 0.1
    one_head = attention_weights(QUERY, KEYS, scale=1 / np.sqrt(4 * 1))
    assert np.array_equal(one_head, attention_weights(QUERY, KEYS))


# ex-compatibility-tie


def test_the_jacobian_at_a_tie_a_winner_and_a_draw():
    tie = softmax_jacobian(np.array([0.5, 0.5, 0]))
    assert_close(
        tie, np.array([[1.0, -1, 0], [-1, 1, 0], [0, 0, 0]]) / 4, 0
    )
    assert np.linalg.norm(tie) == 0.5
    assert not softmax_jacobian(np.array([1.0, 0, 0])).any()
    for n in (2, 7, 64):
        even = np.linalg.norm(softmax_jacobian(np.full(n, 1 / n)))
        assert_close(even, np.array(np.sqrt(n - 1) / n), 1e-14)
    assert even.round(3) == 0.124


# ex-compatibility-signs


@pytest.mark.claim("prop-score-variance")
def test_random_signs_have_variance_d_and_zeros_and_ones_have_not():
    rng = np.random.default_rng(60)
    for entries, mean, variance in (([-1.0, 1], 0, 64), ([0.0, 1], 16, 12)):
        q, k = rng.choice(entries, size=(2, 25, 64, 64))
        z = scores(q, k, scale=1)
        assert abs(z.mean() - mean) < 0.3
        assert abs(z.var() / variance - 1) < 0.05


# ex-compatibility-shift


def test_a_vector_added_to_all_keys_changes_no_weight_and_to_queries_does():
    q, k, b = normal(3, 4, seed=1), normal(5, 4, seed=2), normal(4, seed=3)
    assert_close(
        attention_weights(q, k + b), attention_weights(q, k), 1e-14
    )
    moved = attention_weights(q + b, k) - attention_weights(q, k)
    assert np.abs(moved).max() > 0.05
    # Unless b · k is the same for all keys.
    k[:, 3] = 1
    b = np.array([0.0, 0, 0, 2])
    assert_close(
        attention_weights(q + b, k), attention_weights(q, k), 1e-14
    )
