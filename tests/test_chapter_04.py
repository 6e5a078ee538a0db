"""What chapter 4, Remarks, states.

Checked elsewhere:
- attention is equivariant in its queries, for all input: test_properties.py,
  test_attention_is_equivariant_in_its_queries
- and invariant in keys with their values, for all input: test_properties.py,
  test_attention_does_not_notice_the_order_of_keys_with_their_values
- keys alone or values alone change the output: test_corrections.py,
  test_attention_is_invariant_when_keys_and_values_are_permuted_together
- self-attention is equivariant, with several heads too, and a causal mask
  breaks that: test_properties.py,
  test_self_attention_is_equivariant_and_a_causal_mask_breaks_that
- positions that stay break it: test_corrections.py,
  test_positions_break_equivariance
- sinusoidal positions equal their formula, and no two rows are equal:
  test_positions.py, test_positions_equal_their_formula,
  test_all_positions_differ_and_have_the_same_length
- the causal mask, entry by entry: test_masks.py,
  test_causal_mask_opens_the_past_and_the_present
- a shut pair has the weight 0: test_scaled_dot_product.py,
  test_shut_pairs_have_the_weight_zero_exactly
- scores of shared projections are symmetric, weights are not:
  test_corrections.py,
  test_shared_projections_make_scores_symmetric_and_weights_not
"""

import math

import numpy as np
import pytest

from attention_in_detail import (
    MultiHeadParameters,
    attention,
    attention_weights,
    causal_mask,
    scores,
    self_attention,
    sinusoidal_positions,
)
from tests.support import assert_close, normal

P = MultiHeadParameters.init(6, 1, bias=False, seed=5)
Q, K, V = normal(4, 3, seed=1), normal(5, 3, seed=2), normal(5, 2, seed=3)


def apart(one, other):
    return np.abs(one - other).max() > 0.05


def permutation_matrix(order):
    return np.eye(len(order))[order]


# Shuffle the words


def test_a_word_comes_out_alike_in_both_headlines():
    dog, bites, man = normal(3, 6, seed=4)
    news = self_attention(P, np.stack([dog, bites, man]))
    headline = self_attention(P, np.stack([man, bites, dog]))
    assert_close(news[0], headline[2], 1e-14)
    assert apart(news[0], headline[0])


def test_with_positions_it_does_not():
    dog, bites, man = normal(3, 6, seed=4)
    where = sinusoidal_positions(3, 6)
    news = self_attention(P, np.stack([dog, bites, man]) + where)
    headline = self_attention(P, np.stack([man, bites, dog]) + where)
    assert apart(news[0], headline[2])


# eq:row-function


def test_a_row_is_a_function_of_its_query_and_all_keys_and_values():
    Y = attention(Q, K, V)
    for q, y in zip(Q, Y, strict=True):
        powers = [math.exp(q @ k / math.sqrt(3)) for k in K]
        total = math.fsum(powers)
        f = sum(w / total * v for w, v in zip(powers, V, strict=True))
        assert_close(y, f, 1e-14)


# thm-permutation


@pytest.mark.claim("thm-permutation")
def test_permutation_matrices_come_out_of_the_queries_and_vanish_in_the_keys():
    Y = attention(Q, K, V)
    PM = permutation_matrix([2, 0, 3, 1])
    R = permutation_matrix([4, 2, 0, 1, 3])
    assert_close(PM.T @ PM, np.eye(4), 0)
    assert np.array_equal(PM @ Q, Q[[2, 0, 3, 1]])
    assert_close(attention(PM @ Q, K, V), PM @ Y, 1e-14)
    assert_close(attention(Q, R @ K, R @ V), Y, 1e-14)
    for wrong in (attention(Q, R @ K, V), attention(Q, K, R @ V), PM @ Y):
        assert apart(wrong, Y)


# thm-self-attention-equivariant


@pytest.mark.claim("thm-self-attention-equivariant")
def test_self_attention_by_its_formula_is_equivariant():
    X = normal(6, 6, seed=6)
    PM = permutation_matrix([3, 0, 5, 1, 4, 2])

    def f(X):
        return attention(X @ P.W_Q, X @ P.W_K, X @ P.W_V)

    assert_close(f(PM @ X), PM @ f(X), 1e-14)
    assert apart(f(PM @ X), f(X))


def test_the_two_words_by_hand_swap_their_outputs():
    X = np.array([[0.0], [1.0]])
    by_hand = np.array([[0.5], [math.e / (1 + math.e)]])
    assert_close(attention(X, X, X), by_hand, 1e-15)
    assert by_hand[1, 0].round(3) == 0.731
    swapped = X[::-1]
    assert_close(attention(swapped, swapped, swapped), by_hand[::-1], 1e-15)


# def-positions


def test_the_clock_hands_turn_as_the_page_says():
    """The first by one radian a step; the fourth of width 8 once in 2π · 1000 steps."""
    PE = sinusoidal_positions(20_000, 8)
    first = np.unwrap(np.arctan2(PE[:, 0], PE[:, 1]))
    last = np.unwrap(np.arctan2(PE[:, 6], PE[:, 7]))
    assert_close(np.diff(first), np.ones(19_999), 1e-9)
    turn = 2 * np.pi / (last[-1] / 19_999)
    assert_close(turn, np.array(2 * np.pi * 10000 ** (6 / 8)), 1e-9)
    assert turn.round() == 6283


def test_the_first_hand_alone_tells_all_positions_apart():
    first = sinusoidal_positions(3000, 8)[:, :2]
    assert len(np.unique(first.round(9), axis=0)) == 3000


def test_left_columns_change_fast_and_right_ones_hardly():
    PE = sinusoidal_positions(8, 8)
    steps = np.abs(np.diff(PE, axis=0)).max(0)
    assert (steps[:2] > 0.5).all()
    assert (steps[-2:] < 0.002).all()


def test_positions_that_move_with_their_words_obey_the_law_again():
    X = normal(6, 6, seed=7)
    where, order = sinusoidal_positions(6, 6), [3, 0, 5, 1, 4, 2]
    Y = self_attention(P, X + where)
    assert_close(self_attention(P, (X + where)[order]), Y[order], 1e-14)
    assert apart(self_attention(P, X[order] + where), Y[order])


# def-causal-mask


@pytest.mark.claim("def-causal-mask")
def test_a_query_sees_the_keys_up_to_its_own_position():
    weights = attention_weights(Q, Q, mask=causal_mask(4))
    assert ((weights > 0) == np.tril(np.ones((4, 4), bool))).all()


def relative_change(f, X, order):
    expected = f(X)[order]
    return np.linalg.norm(f(X[order]) - expected) / np.linalg.norm(expected)


@pytest.mark.claim("obs-order-broken")
@pytest.mark.parametrize("seed", range(5))
def test_positions_and_a_causal_mask_break_the_law_by_much(seed):
    tokens = normal(32, 6, seed=seed)
    order = np.random.default_rng(seed).permutation(32)
    where, mask = sinusoidal_positions(32, 6), causal_mask(32)
    plain = relative_change(lambda X: self_attention(P, X), tokens, order)
    positions = relative_change(
        lambda X: self_attention(P, X + where), tokens, order
    )
    causal = relative_change(
        lambda X: self_attention(P, X, mask=mask), tokens, order
    )
    assert plain < 1e-13
    assert 0.2 < positions < 1
    assert 0.4 < causal < 1.1


def test_unrelated_outputs_of_one_size_differ_by_the_root_of_two():
    one, other = normal(32, 6, seed=1), normal(32, 6, seed=2)
    other *= np.linalg.norm(one) / np.linalg.norm(other)
    change = np.linalg.norm(one - other) / np.linalg.norm(one)
    assert abs(change - np.sqrt(2)) < 0.15


@pytest.mark.claim("obs-order-broken")
def test_the_changes_drawn_on_the_page_are_those_of_its_seeds():
    rng = np.random.default_rng(4)
    rng.standard_normal((3, 6))  # the three words
    for shape in ((4, 3), (5, 3), (5, 2)):
        rng.standard_normal(shape)
    rng.permutation(4), rng.permutation(5)
    rng.standard_normal((6, 6)), rng.permutation(6)
    tokens, order = rng.standard_normal((32, 6)), rng.permutation(32)
    where, mask = sinusoidal_positions(32, 6), causal_mask(32)
    positions = relative_change(
        lambda X: self_attention(P, X + where), tokens, order
    )
    causal = relative_change(
        lambda X: self_attention(P, X, mask=mask), tokens, order
    )
    assert (positions.round(2), causal.round(2)) == (0.46, 0.73)


@pytest.mark.claim("prop-causal-set")
def test_one_causal_layer_sees_the_past_as_a_set_and_two_do_not():
    second = MultiHeadParameters.init(6, 1, bias=False, seed=6)
    tokens, mask = normal(12, 6, seed=8), causal_mask(12)
    order = [*np.random.default_rng(0).permutation(11), 11]

    def one(X):
        return self_attention(P, X, mask=mask)

    def two(X):
        return self_attention(second, one(X), mask=mask)

    assert_close(one(tokens[order])[-1], one(tokens)[-1], 1e-13)
    assert np.abs(two(tokens[order])[-1] - two(tokens)[-1]).max() > 1e-3


def test_without_a_mask_a_second_layer_sees_a_set_as_well():
    """It is the mask, by how much of the past each row has seen, that tells the order."""
    second = MultiHeadParameters.init(6, 1, bias=False, seed=6)
    tokens = normal(12, 6, seed=8)
    order = [*np.random.default_rng(0).permutation(11), 11]
    two = [
        self_attention(second, self_attention(P, X))[-1]
        for X in (tokens, tokens[order])
    ]
    assert_close(two[0], two[1], 1e-13)


# Not symmetric


@pytest.mark.claim("prop-not-symmetric")
def test_scores_are_symmetric_where_the_product_of_the_matrices_is():
    X = normal(5, 6, seed=9)
    W_Q = normal(6, 6, seed=10)
    symmetric = W_Q @ W_Q.T  # of W_Q and itself
    W_K = np.linalg.solve(W_Q, symmetric + np.eye(6)).T
    assert_close(W_Q @ W_K.T, symmetric + np.eye(6), 1e-11)  # W_K ≠ W_Q
    z = scores(X @ W_Q, X @ W_K)
    assert_close(z, z.T, 1e-11)
    weights = attention_weights(X @ W_Q / 4, X @ W_K / 4)
    assert apart(weights, weights.T)
    other = scores(X @ P.W_Q, X @ P.W_K)
    assert apart(other, other.T)


# ex-remarks-which


@pytest.mark.claim("def-equivariant")
def test_which_law_holds_for_each_swap():
    Y = attention(Q, K, V)
    queries, pair = [0, 2, 1, 3], [0, 3, 2, 1, 4]
    assert_close(attention(Q[queries], K, V), Y[queries], 1e-14)  # a
    assert apart(attention(Q, K, V[pair]), Y)  # b
    assert_close(attention(Q, K[pair], V[pair]), Y, 1e-14)  # c
    X = normal(4, 6, seed=11)
    assert_close(
        self_attention(P, X[queries]), self_attention(P, X)[queries], 1e-14
    )  # d
    assert_close(
        self_attention(P, X[queries]).mean(0),
        self_attention(P, X).mean(0),
        1e-14,
    )  # e


def test_a_swap_of_two_equal_values_or_of_equal_weights_changes_nothing():
    pair, same = [0, 3, 2, 1, 4], V.copy()
    same[3] = same[1]
    assert_close(attention(Q, K, same[pair]), attention(Q, K, same), 1e-14)
    keys = K.copy()
    keys[3] = keys[1]
    assert_close(attention(Q, keys, V[pair]), attention(Q, keys, V), 1e-14)


# ex-remarks-twice


def test_a_key_that_is_there_twice_counts_twice():
    def twice(K, V):
        return np.vstack([K, K[-1:]]), np.vstack([V, V[-1:]])

    powers = np.exp(scores(Q, K)) * np.array([1, 1, 1, 1, 2])
    expected = powers / powers.sum(1, keepdims=True) @ V
    assert_close(attention(Q, *twice(K, V)), expected, 1e-14)
    assert apart(attention(Q, *twice(K, V)), attention(Q, K, V))
    # It does not show where the values are alike,
    alike = np.ones((5, 2))
    assert_close(
        attention(Q, *twice(K, alike)), attention(Q, K, alike), 1e-14
    )
    # where the copied value is the output that was there (one query),
    values = V.copy()
    values[-1] = attention(Q[:1], K[:-1], V[:-1])[0]
    before = attention(Q[:1], K, values)
    assert_close(before[0], values[-1], 1e-14)
    assert_close(attention(Q[:1], *twice(K, values)), before, 1e-14)
    # or where its weight is 0.
    far = K.copy()
    far[-1] = -1e4 * Q[0]
    assert_close(
        attention(Q[:1], *twice(far, V)), attention(Q[:1], far, V), 1e-14
    )


# ex-remarks-clock


def test_the_dot_product_of_two_positions_depends_on_their_distance_alone():
    PE = sinusoidal_positions(9, 8)
    z = scores(PE, PE, scale=1)
    rates = 10000.0 ** (-np.arange(0, 8, 2) / 8)
    for distance in range(-8, 9):
        diagonal = np.diagonal(z, distance)
        expected = np.cos(distance * rates).sum()
        assert_close(diagonal, np.full(9 - abs(distance), expected), 1e-13)
    assert_close(np.diagonal(z), np.full(9, 8 / 2), 1e-14)
