"""What chapter 24, Shared projections, states.

Checked elsewhere:
- plain heads are the case K = D, with biases: insights/test_shared_projections.py,
  test_all_directions_change_nothing
- the scores are those of the form: the same file,
  test_the_scores_are_those_of_the_form
- each round is least squares and none makes it worse: the same file
- own projections are the best of their rank: the same file
- the numbers of the page: its outputs are run again, and those in its text
  come from the stored result
"""

from fractions import Fraction

import numpy as np
import pytest
import torch

from attention_in_detail import MultiHeadParameters, map_arrays
from attention_in_detail.insights.pruning import (
    attentions,
    with_attentions,
)
from attention_in_detail.insights.results import experiment
from attention_in_detail.insights.shared_projections import (
    SharedProjections,
    directions_for,
    fit_shared,
    own_projections,
    relative_error,
    score_products,
    strongest_shared,
    with_shared,
)
from attention_in_detail.insights.translator import (
    exact_match,
    load_translator,
    split,
    tensor_batch,
)
from tests.extension_support import ROOT

STORED = experiment("shared_projections")
MODEL = load_translator()
TEST = tensor_batch(split(0)[1][:200])
PARTS = [
    map_arrays(part, lambda x: x.numpy())
    for _, _, part in attentions(MODEL)
]
PRODUCTS = [score_products(part) for part in PARTS]


def stored(key):
    return np.array(STORED[key].values)


def right(found):
    new = [
        map_arrays(with_shared(part, one), torch.from_numpy)
        for part, one in zip(PARTS, found, strict=True)
    ]
    return exact_match(with_attentions(MODEL, new), TEST)


def error(found):
    return np.mean(
        [
            relative_error(one, M)
            for one, M in zip(found, PRODUCTS, strict=True)
        ]
    )


def own(K):
    return [own_projections(M, K) for M in PRODUCTS]


def shared(K, starts=None):
    starts = starts or [strongest_shared(part, K) for part in PARTS]
    return [
        fit_shared(M, start)
        for M, start in zip(PRODUCTS, starts, strict=True)
    ]


# ---- the claims, over the seeds ----


@pytest.mark.claim("obs-shared-budget")
def test_over_the_seeds_half_is_enough_and_needs_no_sharing():
    assert len(STORED.seeds) >= 5
    assert stored("shared_32").min() > 0.98
    assert stored("own_32").min() > 0.98
    assert stored("own_32").mean() >= stored("shared_32").mean()


@pytest.mark.claim("obs-shared-budget")
def test_over_the_seeds_sharing_is_ahead_with_few_directions():
    assert (stored("shared_24") > stored("own_24")).all()
    assert int((stored("shared_16") > stored("own_16")).sum()) == 4
    assert stored("shared_16").mean() > stored("own_16").mean() + 0.05
    assert (stored("shared_8") > stored("own_8")).all()
    assert stored("shared_8").mean() > stored("own_8").mean() + 0.1


def test_a_quarter_is_not_without_loss():
    assert (stored("shared_16") < stored("accuracy") - 0.01).all()


@pytest.mark.claim("obs-shared-error")
def test_over_the_seeds_the_errors_are_nearly_equal():
    for K in (16, 8):
        assert stored(f"error_own_{K}").min() > 0.7
        gap = stored(f"error_shared_{K}") - stored(f"error_own_{K}")
        assert (np.abs(gap) < 0.02).all()
        assert (gap > 0).all()


@pytest.mark.claim("obs-shared-rotation")
def test_over_the_seeds_most_of_the_fall_is_that_of_a_product():
    query, product, rotated = (
        stored(key) for key in ("query", "product", "rotated")
    )
    assert (rotated < 0.8 * query).all()
    assert (np.abs(product - rotated) < 2).all()


def test_one_head_is_not_low_rank():
    assert stored("head").min() > 0.75 * 8
    assert stored("minilm_head").min() > 0.7 * 32


@pytest.mark.claim("obs-shared-minilm")
def test_a_real_encoder_has_directions_in_common_and_its_data_more():
    product, rotated = stored("minilm_product"), stored("minilm_rotated")
    assert (product < 0.75 * rotated).all()  # by a third
    assert (product > 0.6 * rotated).all()
    assert 5 < 384 / product[0] < 7  # "a factor of six"
    data, other = stored("minilm_data"), stored("minilm_data_rotated")
    assert (data < other).all()
    assert (other < 0.25 * rotated).all()
    gap = stored("minilm_own_96") - stored("minilm_shared_96")
    assert (np.abs(gap) < 0.02).all()
    gap = stored("minilm_own_24") - stored("minilm_shared_24")
    assert gap.min() > 0.05
    assert (stored("minilm_own_24") < stored("minilm_uniform")).all()


def test_the_curves_of_the_figure_are_those_of_the_table():
    widths = STORED.more["widths"]
    for how in ("shared", "own"):
        for K, mean in zip(widths, STORED.more[how]["mean"], strict=False):
            assert mean == pytest.approx(
                STORED[f"{how}_{K}"].mean, abs=1e-3
            )


# ---- the short version ----


def test_nothing_is_lost_with_all_directions():
    whole = [strongest_shared(part, part.D) for part in PARTS]
    assert error(whole) < 1e-12
    assert right(whole) == exact_match(MODEL, TEST)


@pytest.mark.claim("obs-shared-error", "obs-shared-budget")
def test_sharing_is_ahead_here_too():
    one, other = shared(8), own(8)
    assert right(one) > right(other) + 0.1
    assert abs(error(one) - error(other)) < 0.02


@pytest.mark.claim("obs-shared-rotation")
def test_a_rotation_inside_leaves_most_of_the_fall_here_too():
    rotation = np.linalg.qr(
        np.random.default_rng(0).standard_normal((64, 64))
    )[0]
    for part in PARTS:
        product = directions_for(part.W_Q @ part.W_K.T)
        rotated = directions_for(part.W_Q @ rotation @ part.W_K.T)
        assert product <= rotated < product + 5
        assert rotated < 0.8 * directions_for(part.W_Q)


def test_a_smaller_error_and_a_worse_model():
    one, other = shared(16), shared(16, own(16))
    assert error(other) < error(one)
    assert right(other) < right(one)


def test_the_start_matters_little_for_the_error():
    rng, M = np.random.default_rng(0), PRODUCTS[4]
    errors = [
        relative_error(
            fit_shared(
                M,
                SharedProjections(
                    rng.standard_normal((64, 16)),
                    rng.standard_normal((64, 16)),
                    rng.standard_normal((8, 16)),
                ),
            ),
            M,
        )
        for _ in range(5)
    ]
    errors.append(relative_error(shared(16)[4], M))
    assert max(errors) - min(errors) < 0.02


# ---- by hand ----


def test_two_heads_that_ask_the_same():
    a, b = np.array([[1.0], [2.0]]), np.array([[3.0], [1.0]])
    found = SharedProjections(a, b, np.array([[1.0], [-2.0]]))
    wanted = [[[3, 1], [6, 2]], [[-6, -2], [-12, -4]]]
    assert found.products().tolist() == wanted
    assert found.count == 6
    p = MultiHeadParameters(
        np.hstack([a, a]), np.hstack([b, -2 * b]), np.eye(2), heads=2
    )
    assert np.allclose(score_products(p), wanted)


def test_when_it_pays():
    def count(K):
        return SharedProjections(
            np.zeros((64, K)), np.zeros((64, K)), np.zeros((8, K))
        ).count

    assert [K for K in range(1, 65) if count(K) < 2 * 64**2][-1] == 60
    assert (count(60), count(61), count(16)) == (8160, 8296, 2176)
    assert (
        count(63) == 8568 > 2 * 64**2
    )  # fewer directions than D, and more numbers


def test_the_page_does_not_promise_fewer_numbers_for_each_smaller_width():
    page = (ROOT / "notebooks/24_shared_projections.ipynb").read_text(
        "utf8"
    )
    assert "With $K < D$ a layer has fewer" not in page
    assert "With a $K$ well below $D$ a layer has fewer" in page


@pytest.mark.claim("prop-shared-exact")
def test_heads_that_are_wider_together_than_the_rows_need_more_directions():
    """D = 2, two heads of width 2. With K = D and M_1 = I, M_2 would be A diag(m) A^-1: with real eigenvalues."""
    turn = np.array([[0.0, 1], [-1, 0]])
    p = MultiHeadParameters(
        np.hstack([np.eye(2), turn]),
        np.hstack([np.eye(2)] * 2),
        np.hstack([np.eye(2)] * 2),
        np.vstack([np.eye(2)] * 2),
        heads=2,
    )
    M = score_products(p)
    assert np.array_equal(M, [np.eye(2), turn])
    assert np.abs(np.linalg.eigvals(M[1]).imag).min() == 1
    owned = np.kron(np.eye(2), np.ones((1, 2)))
    exact = SharedProjections(p.W_Q, p.W_K, owned).products()  # K = h D_h
    assert np.array_equal(exact, M)


def test_the_product_is_the_sum_of_the_heads():
    for part, M in zip(PARTS, PRODUCTS, strict=True):
        assert np.allclose(part.W_Q @ part.W_K.T, M.sum(0))


def test_a_product_sharpens_a_spectrum():
    W = np.diag([2.0, 1.0])
    for x, share in ((W, Fraction(4, 5)), (W @ W.T, Fraction(16, 17))):
        s = np.linalg.svd(x, compute_uv=False) ** 2
        assert s[0] / s.sum() == pytest.approx(float(share))
    assert directions_for(W) == 2
    assert directions_for(W @ W.T) == 1
