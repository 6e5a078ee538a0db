"""What chapter 5, Multi-head attention, states.

Checked elsewhere:
- the definition, head by head and number by number: test_multi_head.py,
  test_multi_head_attention_equals_its_formula
- one product for all heads equals the loop: test_properties.py,
  test_fused_by_head_and_the_formula_are_one
- each entry of a batch is as if alone: test_properties.py,
  test_a_batch_is_its_entries_one_by_one
- the split, entry by entry, and that merging undoes it: test_multi_head.py,
  test_head_i_owns_its_own_columns,
  test_merging_undoes_splitting_and_the_other_way_round
- the output is the sum over heads: test_multi_head.py,
  test_the_output_is_the_sum_of_what_the_heads_give
- the number of parameters: test_parameters.py,
  test_count_is_how_many_numbers_there_are,
  test_more_heads_are_not_more_parameters
- heads may trade places: test_properties.py,
  test_the_order_of_the_heads_does_not_matter
- a head without the swap, and the root of another width, are told from the
  formula: test_classic_bugs.py, test_a_bug_keeps_the_shape_and_leaves_the_formula,
  test_scores_of_a_head_are_divided_by_the_root_of_its_own_width
"""

from dataclasses import replace

import numpy as np
import pytest

from attention_in_detail import (
    MultiHeadParameters,
    attention,
    attention_weights,
    multi_head_attention,
    multi_head_attention_by_head,
    self_attention,
    split_heads,
)
from tests.support import assert_close, normal

# cat, sat, down, on, mat: thing, action, place, link
X = np.array(
    [[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1], [1, 0, 1, 0]]
)
UNIT = np.sqrt(2) * np.log(2)
BY_HAND = MultiHeadParameters(
    W_Q=UNIT
    * np.array([[2, -2, 0, 2], [2, -2, 2, 0], [-2, 4, 0, 0], [0, 2, 0, 2]]),
    W_K=1.0
    * np.array([[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 1, 0], [0, 0, 0, 0]]),
    W_V=8.0
    * np.array([[1, 0, 1, 0], [0, 0, 0, 0], [-1, 1, -1, 1], [0, 0, 0, 0]]),
    W_O=1.0 * np.array([[1, 0], [0, 1], [-1, 0], [0, 1]]),
    heads=2,
)
CAT, SAT, DOWN, ON, MAT = range(5)

# B = 2, h = 3, T = 4, S = 5; every width another
B, H, T, S, D_H, D = 2, 3, 4, 5, 8, 24
Q, K, V = (
    normal(B, T, 6, seed=1),
    normal(B, S, 7, seed=2),
    normal(B, S, 9, seed=3),
)
P = replace(
    MultiHeadParameters.init(D, H, D_q=6, D_k=7, D_v=9, D_out=10, seed=5),
    b_Q=normal(D, seed=1),
    b_K=normal(D, seed=2),
    b_V=normal(D, seed=3),
    b_O=normal(10, seed=4),
)


# Two looks at one sentence; two heads, by hand


def test_keys_and_values_are_those_of_the_table():
    keys = [X @ BY_HAND.head(i).W_K for i in range(2)]
    assert keys[0].tolist() == [[1, 0], [0, 0], [0, 0], [0, 0], [1, 1]]
    assert keys[1].tolist() == [[0, 0], [0, 1], [0, 0], [0, 0], [1, 0]]
    values = [X @ BY_HAND.head(i).W_V for i in range(2)]
    assert values[0].tolist() == [[8, 0], [0, 0], [0, 0], [0, 0], [0, 8]]
    assert np.array_equal(values[0], values[1])


def test_weights_of_sat_are_the_fractions_worked_by_hand():
    _, A = self_attention(BY_HAND, X, return_weights=True)
    assert_close(A[0, SAT], np.array([4, 1, 1, 1, 1]) / 8, 1e-15)
    assert_close(A[1, SAT], np.array([1, 1, 1, 1, 4]) / 8, 1e-15)


def test_heads_look_for_what_the_page_says():
    """Head 1: a thing that is no place, a place for links, themselves for things; head 2: the action."""
    _, A = self_attention(BY_HAND, X, return_weights=True)
    assert A[0].argmax(1).tolist() == [CAT, CAT, MAT, MAT, MAT]
    assert A[1].argmax(1).tolist() == [SAT, MAT, SAT, SAT, SAT]


@pytest.mark.claim("def-multi-head")
def test_outputs_are_those_worked_by_hand():
    side_by_side = self_attention(replace(BY_HAND, W_O=None), X)
    by_hand = np.array([[4, 1, 1, 1], [4, 1, 1, 4], *[[1, 4, 1, 1]] * 3])
    assert_close(side_by_side, by_hand, 1e-14)
    Y = np.array([[3, 2], [3, 5], [0, 5], [0, 5], [0, 5]])
    assert_close(self_attention(BY_HAND, X), Y, 1e-14)
    shares = [by_hand[SAT, :2], by_hand[SAT, 2:] @ BY_HAND.W_O[2:]]
    assert [share.tolist() for share in shares] == [[4, 1], [-1, 4]]


def test_equal_words_come_out_alike():
    _, A = self_attention(BY_HAND, X, return_weights=True)
    assert np.array_equal(A[:, DOWN], A[:, ON])
    Y = self_attention(BY_HAND, X)
    assert np.array_equal(Y[DOWN], Y[ON])


def test_one_blend_does_not_say_who_is_where_and_two_heads_do():
    _, A = self_attention(BY_HAND, X, return_weights=True)
    values = X @ BY_HAND.head(0).W_V
    blend = A[:, SAT].mean(axis=0)
    assert_close(blend @ values, np.array([2.5, 2.5]), 1e-15)
    assert blend[CAT] == blend[MAT]
    exchanged = blend[[MAT, SAT, DOWN, ON, CAT]]
    assert_close(exchanged @ values, blend @ values, 1e-15)
    assert (A[0, SAT] @ values)[0] == 4 * (A[1, SAT] @ values)[0]


# def-multi-head


@pytest.mark.claim("def-multi-head")
def test_a_head_is_attention_at_the_width_of_a_head():
    """One head alone, from the blocks, with √D_h written out."""
    heads = multi_head_attention(replace(P, W_O=None, b_O=None), Q, K, V)
    for i in range(H):
        own = slice(D_H * i, D_H * (i + 1))
        q = Q @ P.W_Q[:, own] + P.b_Q[own]
        k = K @ P.W_K[:, own] + P.b_K[own]
        v = V @ P.W_V[:, own] + P.b_V[own]
        assert k.shape == (B, S, D_H)
        z = np.einsum("btc,bsc->bts", q, k) / np.sqrt(D_H)
        weights = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
        assert_close(heads[..., own], weights @ v, 1e-12)


# rem-widths


@pytest.mark.claim("rem-widths", "cor-value-rows")
def test_heads_may_have_values_of_widths_of_their_own():
    """m₁ + m₂ rows of W^O; the sum over heads does not need them equal."""
    widths = (3, 5)
    heads, blocks = [], []
    for i, m in enumerate(widths):
        q, k, v = (
            x[0] @ normal(x.shape[-1], n, seed=10 * i + c)
            for c, (x, n) in enumerate(((Q, D_H), (K, D_H), (V, m)))
        )
        heads.append(attention(q, k, v))
        blocks.append(normal(m, 10, seed=10 * i + 3))
    assert [H_i.shape for H_i in heads] == [(T, m) for m in widths]
    assert_close(
        np.hstack(heads) @ np.vstack(blocks),
        sum(H_i @ W_i for H_i, W_i in zip(heads, blocks, strict=True)),
    )
    with pytest.raises(ValueError, match=r"matmul"):
        Q @ P.W_Q[:, :8] @ (K @ P.W_K[:, :7]).mT
    with pytest.raises(ValueError, match="must share their width"):
        attention(Q @ P.W_Q[:, :8], K @ P.W_K[:, :7], V)
    for i in range(H):  # the book's choice
        for W in (P.head(i).W_Q, P.head(i).W_K, P.head(i).W_V):
            assert W.shape[1] == D_H == D / H


# thm-one-product


@pytest.mark.claim("thm-one-product")
def test_blocks_of_the_product_are_products_with_the_blocks():
    for x, W, name in (
        (Q, P.W_Q, "W_Q"),
        (K, P.W_K, "W_K"),
        (V, P.W_V, "W_V"),
    ):
        blocks = [x @ getattr(P.head(i), name) for i in range(H)]
        assert_close(x @ W, np.concatenate(blocks, axis=-1), 1e-13)


# def-split


@pytest.mark.claim("def-split")
def test_each_entry_of_the_split_is_where_its_definition_puts_it():
    x = np.arange(4.0 * 6).reshape(4, 6)
    cut = split_heads(x, 3)
    for i in (1, 2, 3):
        for t in (1, 2, 3, 4):
            for d in (1, 2):
                column = (i - 1) * 2 + d
                assert cut[i - 1, t - 1, d - 1] == x[t - 1, column - 1]


def test_the_table_of_twelve_is_split_and_reshaped_as_shown():
    table = np.array(
        [[11.0, 12, 13, 14], [21, 22, 23, 24], [31, 32, 33, 34]]
    )
    right, wrong = split_heads(table, 2), table.reshape(2, 3, 2)
    assert right.tolist() == [
        [[11, 12], [21, 22], [31, 32]],
        [[13, 14], [23, 24], [33, 34]],
    ]
    assert wrong.tolist() == [
        [[11, 12], [13, 14], [21, 22]],
        [[23, 24], [31, 32], [33, 34]],
    ]
    assert (right != wrong).sum() == 8
    assert wrong[0, 1].tolist() == table[0, 2:].tolist()


# thm-sum-over-heads


@pytest.mark.claim("thm-sum-over-heads")
def test_the_bias_of_the_output_is_in_no_share():
    shares = [multi_head_attention(P.head(i), Q, K, V) for i in range(H)]
    without = multi_head_attention(replace(P, b_O=None), Q, K, V)
    assert_close(sum(shares), without, 1e-13)
    assert np.abs(P.b_O).min() > 0.01


def test_with_an_output_matrix_one_head_reaches_every_column():
    louder = replace(
        P,
        W_V=np.hstack([2 * P.W_V[:, :8], P.W_V[:, 8:]]),
        b_V=np.hstack([2 * P.b_V[:8], P.b_V[8:]]),
    )

    def moved(**changes):
        before, after = (
            multi_head_attention(replace(p, **changes), Q, K, V)
            for p in (P, louder)
        )
        close_by = np.isclose(before, after, rtol=0, atol=1e-12)
        return np.flatnonzero(~close_by.all(axis=(0, 1))).tolist()

    assert moved() == list(range(10))
    assert moved(W_O=None, b_O=None) == list(range(8))


# prop-count


@pytest.mark.claim("prop-count")
def test_the_formula_of_the_count_for_widths_that_all_differ():
    for heads in (1, 3, 8):
        p = MultiHeadParameters.init(
            24, heads, D_q=6, D_k=7, D_v=9, D_out=10, seed=0
        )
        assert p.count == (6 + 7 + 9 + 10) * 24 + 3 * 24 + 10
    assert 4 * 64 * 64 + 4 * 64 == 16_640


@pytest.mark.claim("prop-head-rank")
def test_a_head_compares_in_no_more_directions_than_its_width():
    for heads, rank in ((1, 12), (3, 4), (12, 1)):
        p = MultiHeadParameters.init(12, heads, D_q=20, D_k=30, seed=0)
        one = p.head(0)
        assert np.linalg.matrix_rank(one.W_Q @ one.W_K.T) == rank == p.D_h


# Every head reads the whole vector


def test_a_coordinate_of_the_query_reaches_every_head():
    full = MultiHeadParameters.init(24, 3, bias=False, seed=6)
    blocks = np.kron(np.eye(3), np.ones((8, 8)))
    sliced = replace(full, W_Q=full.W_Q * blocks)
    x, context = normal(2, 5, 24, seed=7)
    nudged = x.copy()
    nudged[:, 0] += 1

    def weights_of(p, q):
        return multi_head_attention(
            p, q, context, context, return_weights=True
        )[1]

    def changed(p):
        before, after = (weights_of(p, q) for q in (x, nudged))
        return (np.abs(before - after) > 1e-3).any(axis=(1, 2)).tolist()

    assert changed(full) == [True, True, True]
    assert changed(sliced) == [True, False, False]
    assert np.count_nonzero(full.W_Q) == 576
    assert np.count_nonzero(sliced.W_Q) == 576 / 3
    # Blind to two thirds: the other sixteen coordinates do nothing to head 1.
    hidden = x.copy()
    hidden[:, 8:] += 1
    before, after = (weights_of(sliced, q) for q in (x, hidden))
    assert_close(before[0], after[0], 1e-13)
    assert np.abs(before[1] - after[1]).max() > 1e-3


# rem-roles


@pytest.mark.claim("rem-roles")
def test_the_definition_gives_no_head_a_task():
    """A head with the blocks of another does what that one did."""
    p = MultiHeadParameters.init(8, 2, bias=False, seed=1)
    x = normal(5, 8)
    _, A = self_attention(p, x, return_weights=True)
    swap = np.r_[4:8, 0:4]
    other = MultiHeadParameters(
        p.W_Q[:, swap], p.W_K[:, swap], p.W_V[:, swap], p.W_O, heads=2
    )
    _, B_ = self_attention(other, x, return_weights=True)
    assert_close(B_, A[::-1], 1e-14)
    assert np.abs(A[0] - A[1]).max() > 0.1


# What can go wrong


def no_swap(order):
    """Multi-head attention whose heads are reshaped at once, there and back."""
    q = (Q @ P.W_Q + P.b_Q).reshape(B, H, T, D_H)
    k = (K[:, order] @ P.W_K + P.b_K).reshape(B, H, S, D_H)
    v = (V[:, order] @ P.W_V + P.b_V).reshape(B, H, S, D_H)
    heads, weights = attention(q, k, v, return_weights=True)
    return heads.reshape(B, T, D) @ P.W_O + P.b_O, weights, q


def test_without_the_swap_shape_sums_and_the_way_back_pass():
    output, weights, q = no_swap(np.arange(S))
    assert output.shape == multi_head_attention(P, Q, K, V).shape
    assert_close(weights.sum(-1), np.ones((B, H, T)), 1e-14)
    assert np.array_equal(q.reshape(B, T, D), Q @ P.W_Q + P.b_Q)


def test_without_the_swap_equality_and_reordering_fail():
    order = [3, 0, 4, 1, 2]
    output, reordered = no_swap(np.arange(S))[0], no_swap(order)[0]
    definition = multi_head_attention_by_head(P, Q, K, V)
    assert np.abs(output - definition).max() > 0.1
    assert np.abs(output - reordered).max() > 0.1
    right = multi_head_attention(P, Q, K[:, order], V[:, order])
    assert_close(right, definition, 1e-13)


def test_the_root_of_the_whole_width_flattens_the_row_by_hand():
    """And shrinks the scores by √h; with one head it does not show."""
    W = BY_HAND.head(0)
    q, k = X @ W.W_Q, X @ W.W_K
    wrong = attention_weights(q, k, scale=1 / np.sqrt(4))[SAT]
    powers = np.array([2 ** np.sqrt(2), 1, 1, 1, 1])
    assert_close(wrong, powers / powers.sum(), 1e-14)
    assert wrong.round(3).tolist() == [0.4, 0.15, 0.15, 0.15, 0.15]
    one = replace(BY_HAND, heads=1)
    assert one.D_h == one.D


# ex-multi-head-hand


def test_the_row_of_on_is_as_worked_by_hand():
    Y, A = self_attention(BY_HAND, X, return_weights=True)
    assert_close(A[0, ON], np.array([1, 1, 1, 1, 4]) / 8, 1e-15)
    assert_close(A[1, ON], np.array([1, 4, 1, 1, 1]) / 8, 1e-15)
    assert_close(Y[ON], np.array([0.0, 5.0]), 1e-14)
    queries = [X[ON] @ BY_HAND.head(i).W_Q / UNIT for i in range(2)]
    assert_close(np.stack(queries), np.array([[0.0, 2], [0, 2]]), 1e-15)


# ex-multi-head-harmless


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 6, 12])
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_reshaping_at_once_is_right_for_one_row_or_one_head_only(
    rows, heads
):
    x = np.arange(12.0 * rows).reshape(rows, 12)
    at_once, cut = (
        x.reshape(heads, rows, 12 // heads),
        split_heads(x, heads),
    )
    i, t = np.ogrid[:heads, :rows]
    agree = (i * (rows - 1) == t * (heads - 1))[..., None]
    assert np.array_equal(at_once == cut, np.broadcast_to(agree, cut.shape))
    assert np.array_equal(at_once, cut) == (rows == 1 or heads == 1)


# ex-multi-head-order


def test_heads_that_trade_places_must_take_their_rows_of_the_output():
    order = np.r_[16:24, 0:16]
    names = ("W_Q", "W_K", "W_V", "b_Q", "b_K", "b_V")
    moved = {name: getattr(P, name)[..., order] for name in names}
    output = multi_head_attention(P, Q, K, V)
    traded = replace(P, **moved, W_O=P.W_O[order])
    assert_close(multi_head_attention(traded, Q, K, V), output, 1e-13)
    forgot = multi_head_attention(replace(P, **moved), Q, K, V)
    assert np.abs(forgot - output).max() > 0.1


def test_two_heads_with_equal_blocks_are_one_head():
    p = MultiHeadParameters.init(8, 2, bias=False, seed=1)
    W_Q, W_K, W_V = p.W_Q[:, :4], p.W_K[:, :4], p.W_V[:, :4]
    twins = MultiHeadParameters(
        *(np.hstack([W, W]) for W in (W_Q, W_K, W_V)), p.W_O, heads=2
    )
    one = MultiHeadParameters(W_Q, W_K, W_V, p.W_O[:4] + p.W_O[4:], heads=1)
    x = normal(5, 8)
    assert_close(self_attention(one, x), self_attention(twins, x), 1e-14)
