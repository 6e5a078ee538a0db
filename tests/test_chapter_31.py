"""What chapter 31, The backward pass, states.

Checked elsewhere, in test_backward.py unless another file is named:
- the gradients are the slopes of the loss (def-backward-gradient, thm-backward):
  test_gradients_by_hand_are_the_slopes_of_the_loss
- those of autograd, with masks and a bias (thm-backward):
  test_gradients_by_hand_are_those_of_autograd
- the step through the softmax is the Jacobian's (prop-backward-softmax):
  test_gradients_by_hand_are_those_of_the_jacobian_row_by_row
- nothing attended, nothing learned (rem-backward-nothing):
  test_a_query_that_may_attend_to_nothing_passes_no_gradient,
  test_nan_in_the_padding_reaches_no_gradient_by_hand
- the counts (prop-backward-cost): test_counts_are_those_that_the_functions_do,
  test_bytes_kept_are_those_of_the_weights_or_of_the_output_and_two_rows
- gradients by blocks are the same, and nothing of T · S is made:
  nn/test_nn_online.py
"""

from fractions import Fraction

import numpy as np
import pytest
import torch

from attention_in_detail import (
    attention,
    attention_gradients,
    attention_weights,
    softmax_jacobian,
)
from attention_in_detail.backward import gradients_from_weights
from attention_in_detail.recomputing import training_cost
from tests.five_keys import KEYS, QUERY, VALUES
from tests.page_numbers import said_by
from tests.support import assert_close, leaves, normal

LEFT = np.array([[1.0, 0]])
Q, K, V = normal(3, 4), normal(5, 4), normal(5, 6)
DY = normal(3, 6, seed=1)


def scores_gradient(q, k, v, dY, **given):
    """dZ: what a bias of zeros gets."""
    zeros = np.zeros((len(q), len(k)))
    return attention_gradients(q, k, v, dY, bias=zeros, **given).bias


# One query and a wish; One query by hand


def test_the_hand_example_is_as_worked_by_hand():
    dZ = scores_gradient(QUERY, KEYS, VALUES, LEFT)
    assert_close(dZ[0], np.array([1, 0, -0.75, -0.375, 0.125]), 1e-14)
    found = attention_gradients(QUERY, KEYS, VALUES, LEFT)
    assert_close(
        found.queries[0], np.array([1.4375, -0.5, -0.125, -0.4375]), 1e-14
    )
    weights = np.array([8, 4, 2, 1, 1]) / 16
    assert_close(found.values, np.outer(weights, [1.0, 0]), 1e-14)
    assert_close(found.keys, np.outer(dZ[0], QUERY[0]) / 2, 1e-14)
    assert_close(dZ[0, 0], 8 * dZ[0, 4], 1e-14)


def test_steps_against_the_gradient_move_the_output_left():
    q, way = QUERY, []
    for _ in range(201):
        way.append(attention(q, KEYS, VALUES)[0])
        q = q - 0.05 * attention_gradients(q, KEYS, VALUES, LEFT).queries
    assert (np.diff(np.array(way)[:, 0]) < 0).all()
    for step, place in (
        (0, (6, 5)),
        (20, (3.33, 5.2)),
        (200, (0.17, 7.54)),
    ):
        assert np.allclose(way[step], place, rtol=0, atol=0.005)


# prop-backward-product


@pytest.mark.claim("prop-backward-product")
def test_the_product_gives_back_what_each_factor_did_to_each_output():
    A = attention_weights(Q, K)
    weights, values = leaves(A, V)
    (weights @ values).backward(torch.tensor(DY))
    slow = np.zeros_like(V)
    for i, j, c in np.ndindex(3, 5, 6):
        slow[j, c] += A[i, j] * DY[i, c]
    found = attention_gradients(Q, K, V, DY).values
    assert_close(found, slow, 1e-14)
    assert_close(found, values.grad, 1e-14)
    along = np.array([[DY[i] @ V[j] for j in range(5)] for i in range(3)])
    assert_close(weights.grad, along, 1e-14)
    # Without the mean of a row, the package's dZ is A times dA.
    *_, dZ = gradients_from_weights(A, Q, K, V, DY, 1, np.zeros((3, 1)))
    assert_close(dZ, A * along, 1e-14)


# prop-backward-softmax, prop-backward-delta


@pytest.mark.claim("prop-backward-softmax")
def test_the_step_through_the_softmax_is_the_weight_times_the_excess():
    A, dA = attention_weights(Q, K), DY @ V.T
    delta = (A * dA).sum(-1, keepdims=True)
    found = scores_gradient(Q, K, V, DY)
    assert_close(found, A * (dA - delta), 1e-14)
    for row, own, d in zip(found, A, dA, strict=True):
        assert_close(row, softmax_jacobian(own) @ d, 1e-14)
    assert_close(found.sum(-1), np.zeros(3), 1e-14)


@pytest.mark.claim("prop-backward-delta")
def test_a_score_is_pulled_by_how_far_its_value_lies_beyond_the_output():
    Y, A = attention(Q, K, V, return_weights=True)
    beyond = V[None, :, :] - Y[:, None, :]  # (T, S, D_v)
    pull = A * np.einsum("ic,ijc->ij", DY, beyond)
    assert_close(scores_gradient(Q, K, V, DY), pull, 1e-14)


# Two judges


def test_slopes_in_float32_are_off_by_hundredths_and_in_float64_are_not():
    exact = attention_gradients(QUERY, KEYS, VALUES, LEFT).queries[0]
    for dtype, least, most in (
        ("float32", 1e-3, 0.2),
        ("float64", 0, 1e-8),
    ):
        q, k, v = (x.astype(dtype) for x in (QUERY, KEYS, VALUES))
        slopes = []
        for c in range(4):
            nudge = np.zeros((1, 4), dtype)
            nudge[0, c] = 1e-5
            up, down = (
                attention(q + sign * nudge, k, v)[0, 0] for sign in (1, -1)
            )
            slopes.append((up - down) / dtype_of(2e-5, dtype))
        error = np.abs(np.array(slopes) - exact).max()
        assert least <= error <= most
    assert 4e-7 < np.spacing(np.float32(6)) < 5e-7


def dtype_of(number, dtype):
    return np.array(number, dtype)


# prop-backward-cost


@pytest.mark.claim("prop-backward-cost")
def test_computing_again_is_one_sixth_more_where_the_widths_are_equal():
    for T, S, D in ((512, 512, 64), (3, 7, 5)):
        keep = training_cost(T, S, D, D, recompute=False)
        again = training_cost(T, S, D, D)
        ratio = Fraction(again.multiply_adds, keep.multiply_adds)
        assert ratio == Fraction(7, 6)
        assert again.exponentials == 2 * keep.exponentials


def test_the_table_of_the_page():
    keep = training_cost(16384, 16384, 64, 64, recompute=False)
    again = training_cost(16384, 16384, 64, 64)
    assert keep.bytes_kept == 1024 * 2**20
    assert 4 < again.bytes_kept / 2**20 < 4.2
    assert round(keep.multiply_adds / 1e9, 2) == 103.08
    assert round(again.multiply_adds / 1e9, 2) == 120.26


# What can go wrong


def test_formulas_for_single_numbers_have_the_shape_and_fail_two_checks():
    A = attention_weights(QUERY, KEYS)[0]
    d = VALUES[:, 0]
    right = scores_gradient(QUERY, KEYS, VALUES, LEFT)[0]
    assert abs(right.sum()) < 1e-14
    for wrong, total in ((A * d, 6), (A * (1 - A) * d, 3.59375)):
        assert wrong.shape == right.shape
        assert_close(wrong.sum(), np.array(total), 1e-14)
        assert (wrong >= 0).all()
        assert wrong[1] > 1 > abs(right[1])
        assert np.abs(wrong - right).max() > 0.5


def test_one_empty_row_of_a_plain_softmax_loses_all_keys_and_values():
    shut = torch.ones(3, 5, dtype=torch.bool)
    shut[1] = False
    minus = torch.where(shut, 0.0, -torch.inf).double()
    lost = {}
    for name in ("plain", "ours"):
        q, k, v = inputs = leaves(Q, K, V)
        if name == "ours":
            y = attention(q, k, v, bias=minus)
        else:
            y = (q @ k.T / 2 + minus).softmax(-1) @ v
            y = torch.where(shut.any(-1, keepdim=True), y, 0.0)
        y.sum().backward()
        assert y.isfinite().all()
        lost[name] = [int(x.grad.isnan().any(-1).sum()) for x in inputs]
    assert lost == {"plain": [1, 5, 5], "ours": [0, 0, 0]}


# Exercises


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ((0.5, 0.5), (-1, 1)),
        ((0.75, 0.25), (-0.75, 0.75)),
        ((0.99, 0.01), (-0.0396, 0.0396)),
    ],
)
def test_a_tie_and_a_winner(weights, expected):
    assert_close(with_weights(*weights), np.array(expected), 1e-14)


def with_weights(*weights):
    """The derivatives by two scores that give these weights."""
    q, k, v = np.zeros((1, 1)), np.ones((2, 1)), np.array([[3.0], [7]])
    bias = np.log(np.array(weights))
    return attention_gradients(q, k, v, np.ones((1, 1)), bias=bias).bias


def test_as_one_weight_goes_to_1_the_scores_stop_to_move():
    sizes = [
        float(np.abs(with_weights(1 - rest, rest)).max())
        for rest in (0.25, 1e-2, 1e-4, 1e-8)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert 0 < sizes[-1] < 1e-7


def test_the_gradient_of_the_scale_is_a_sum_over_queries():
    s, q, k, v = leaves(0.7, Q, K, V)
    attention(q, k, v, scale=s).backward(torch.tensor(DY))
    dQ = attention_gradients(Q, K, V, DY, scale=0.7).queries
    assert_close((Q * dQ).sum() / 0.7, s.grad, 1e-13)


def test_the_code_of_the_solution_on_the_scale_says_so():
    names = {"np": np, "torch": torch, "Q": Q, "K": K, "V": V, "wish": DY}
    names |= {"attention": attention}
    names |= {"attention_gradients": attention_gradients}
    assert said_by("sol-backward-scale", **names) == "True\n"


def test_moving_all_values_changes_no_gradient():
    moved = attention_gradients(Q, K, V + normal(6, seed=9), DY)
    for ours, theirs in zip(
        moved[:3], attention_gradients(Q, K, V, DY)[:3], strict=True
    ):
        assert_close(ours, theirs, 1e-13)


def test_queries_and_keys_meet_their_gradients_alike():
    found = attention_gradients(Q, K, V, DY)
    one, other = (Q * found.queries).sum(), (K * found.keys).sum()
    assert_close(one, other, 1e-13)
    assert abs(one) > 0.1
    assert_close(attention(3 * Q, K / 3, V), attention(Q, K, V), 1e-13)
