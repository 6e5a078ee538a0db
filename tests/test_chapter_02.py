"""What chapter 2, Attention, states.

Checked elsewhere:
- the definition, number by number: test_scaled_dot_product.py,
  test_attention_equals_its_formula_number_by_number
- each entry of a batch is as if alone: test_properties.py,
  test_a_batch_is_its_entries_one_by_one
- weights are not symmetric: test_corrections.py,
  test_weights_are_not_symmetric
- keys that move without their values change the output:
  test_corrections.py, test_attention_is_invariant_when_keys_and_values_are_permuted_together
- keys of another width are refused in one line: wrong_calls.py
"""

import numpy as np
import pytest

from attention_in_detail import (
    MultiHeadParameters,
    attention,
    attention_weights,
    scores,
    self_attention,
    softmax,
)
from attention_in_detail._arrays import narrowed, widened
from tests.support import assert_close, normal

UNIT = np.sqrt(3) * np.log(2)
ASKED = np.array([[2.0, 0, -1], [0, 2, 0], [0, 0, 1], [0, 0, 0]])
QUERIES = UNIT * ASKED  # who? does what? where? anything?
KEYS = np.array(  # the, cat, sat, on, mat
    [[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0], [1, 0, 2]]
)
VALUES = np.array([[0.0, 0], [8, 0], [0, 8], [8, 8], [4, 0]])
POWERS = np.array(  # 2 to the power of each dot product
    [[1, 4, 1, 1, 1], [1, 1, 4, 1, 1], [1, 1, 1, 1, 4], [1, 1, 1, 1, 1]]
)


# def-attention


def test_the_dot_products_worked_by_hand_are_those_of_the_scores():
    by_hand = [[0, 2, 0, 0, 0], [0, 0, 2, 0, 0], [0, 0, 0, 0, 2], [0] * 5]
    assert_close(ASKED @ KEYS.T, np.array(by_hand), 0)
    assert_close(
        scores(QUERIES, KEYS), np.log(2) * np.array(by_hand), 1e-15
    )
    assert UNIT.round(1) == 1.2


def test_the_weights_are_the_fractions_worked_by_hand():
    by_hand = POWERS / np.array([[8], [8], [8], [5]])
    assert_close(attention_weights(QUERIES, KEYS), by_hand, 1e-15)


@pytest.mark.claim("def-attention")
def test_the_outputs_are_those_worked_by_hand():
    assert (POWERS[0] @ VALUES).tolist() == [44, 16]
    by_hand = np.array([[5.5, 2], [2.5, 5], [4, 2], [4, 3.2]])
    assert_close(attention(QUERIES, KEYS, VALUES), by_hand, 1e-14)


def test_a_query_that_fits_nothing_gets_the_plain_mean():
    mean = VALUES.mean(0)
    assert_close(attention(np.zeros((1, 3)), KEYS, VALUES)[0], mean, 1e-15)
    # Not zero, and yet the same for all keys: only the second coordinate.
    keys = np.concatenate([KEYS[:, :1], np.ones((5, 1)), KEYS[:, 2:]], 1)
    fits_none = np.array([[0.0, 3, 0]])
    assert_close(attention(fits_none, keys, VALUES)[0], mean, 1e-14)


@pytest.mark.parametrize("step", [1e-3, 1e-6])
def test_a_small_change_of_the_query_is_a_small_change_of_the_output(step):
    before = attention(QUERIES, KEYS, VALUES)
    moved = np.abs(attention(QUERIES + step, KEYS, VALUES) - before).max()
    assert 0.1 * step < moved < 10 * step


def test_weights_are_positive_and_together_one():
    weights = attention_weights(QUERIES, KEYS)
    assert (weights > 0).all()
    assert_close(weights.sum(1), np.ones(4), 1e-15)


def test_widening_does_nothing_to_numbers_in_double_precision():
    x = normal(3, 4)
    assert np.array_equal(widened(x), x)
    assert narrowed(widened(x), x.dtype).dtype == x.dtype == np.float64


# Queries search, keys index, values carry


def test_twice_the_values_are_twice_the_output_and_the_same_weights():
    Y, A = attention(QUERIES, KEYS, VALUES, return_weights=True)
    Y2, A2 = attention(QUERIES, KEYS, 2 * VALUES, return_weights=True)
    assert np.array_equal(A2, A)
    assert np.array_equal(Y2, 2 * Y)


def test_a_key_that_changes_moves_the_rows_whose_score_with_it_changed():
    softer = KEYS.copy()
    softer[4] = [1, 0, 1]
    before = attention_weights(QUERIES, KEYS)
    after = attention_weights(QUERIES, softer)
    assert_close(after[0], np.array([1, 4, 1, 1, 2]) / 9, 1e-15)
    assert_close(after[2], np.array([1, 1, 1, 1, 2]) / 6, 1e-15)
    assert (before[[0, 2]] != after[[0, 2]]).all()
    assert np.array_equal(before[[1, 3]], after[[1, 3]])


@pytest.mark.claim("prop-parallel-queries")
def test_a_query_that_changes_moves_its_own_row_alone():
    other = QUERIES.copy()
    other[0] = 0
    before = attention(QUERIES, KEYS, VALUES)
    moved = (attention(other, KEYS, VALUES) != before).any(axis=1)
    assert moved.tolist() == [True, False, False, False]


# def-self-attention


@pytest.mark.claim("def-self-attention")
def test_self_attention_makes_queries_keys_and_values_from_one_sequence():
    X = normal(5, 6, seed=1)
    p = MultiHeadParameters.init(
        8, 1, D_q=6, D_k=6, D_v=6, bias=False, output=False, seed=2
    )
    by_formula = softmax((X @ p.W_Q) @ (X @ p.W_K).T / np.sqrt(8))
    assert_close(self_attention(p, X), by_formula @ (X @ p.W_V), 1e-13)


def test_no_sequence_of_a_batch_sees_another():
    batch = normal(3, 5, 6, seed=3)
    p = MultiHeadParameters.init(6, 1, bias=False, output=False, seed=3)
    before = self_attention(p, batch)
    batch[1] += 1
    moved = (self_attention(p, batch) != before).any(axis=(1, 2))
    assert moved.tolist() == [False, True, False]


# What can go wrong


def test_a_softmax_along_the_queries_shows_in_its_row_sums():
    """19/14 and 13/14: each column shares out 1, so that two of them give sevenths."""
    wrong = softmax(scores(QUERIES, KEYS), axis=-2)
    assert wrong.shape == attention_weights(QUERIES, KEYS).shape
    assert (wrong > 0).all()
    assert_close(wrong.sum(1), np.array([19, 19, 19, 13]) / 14, 1e-14)
    assert_close(wrong.sum(0), np.ones(5), 1e-14)


# ex-attention-hand


def test_the_fifth_question_is_answered_as_worked_by_hand():
    query = UNIT * np.array([[1.0, 1, 0]])
    y, weights = attention(query, KEYS, VALUES, return_weights=True)
    assert_close(weights[0], np.array([1, 2, 2, 1, 2]) / 8, 1e-15)
    assert_close(y[0], np.array([4.0, 3.0]), 1e-14)


# ex-attention-constant


def test_identical_values_come_back_and_not_from_the_wrong_axis():
    v = np.array([3.0, -5.0])
    alike = np.tile(v, (6, 1))
    q, k = 3 * normal(4, 3, seed=5), 3 * normal(6, 3, seed=6)
    assert_close(attention(q, k, alike), np.tile(v, (4, 1)), 1e-14)
    wrong = softmax(scores(q, k), axis=-2) @ alike
    assert (np.abs(wrong - v) > 0.1).any(axis=1).all()


# ex-attention-hard


def test_long_queries_look_up_the_best_key_and_share_a_tie():
    weights = attention_weights(100 * QUERIES, KEYS)
    assert weights.round(3)[:3].tolist() == np.eye(5)[[1, 2, 4]].tolist()
    for factor in (1, 10, 100, 1e6):
        tie = attention_weights(factor * QUERIES, KEYS)[3]
        assert_close(tie, np.full(5, 1 / 5), 1e-15)
    two_best = np.array([[0.0, 1], [1, 0], [1, 0], [-1, 0]])
    assert_close(
        attention_weights(np.array([[1e4, 0.0]]), two_best)[0],
        np.array([0, 0.5, 0.5, 0]),
        1e-15,
    )
