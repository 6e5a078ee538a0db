"""What chapter 6, Parallelism, states.

Checked elsewhere, in test_parallelism.py unless another file is named:
- a loop over queries equals one product (prop-parallel-queries):
  test_a_loop_over_queries_equals_one_product
- so does a loop over batch and heads (prop-parallel-entries):
  test_a_loop_over_entries_equals_one_product,
  test_entries_do_not_see_each_other
- the loop over heads equals the fused form: test_properties.py,
  test_fused_by_head_and_the_formula_are_one
- the formulas of the cost (prop-attention-cost), counted again by loops:
  test_cost_counts_every_multiplication,
  test_heads_change_the_exponentials_and_not_the_products,
  test_multi_head_cost_counts_the_four_matrices_and_the_batch
- which loops the stored measurement found slower and which faster:
  test_the_stored_result_supports_what_the_chapter_says
- a mask falls on its own batch entry where B = h = T: test_multi_head.py,
  test_a_padding_mask_falls_on_the_batch_where_batch_heads_and_queries_are_as_many

Not checked, since no program of the book can: how a GPU cuts the work.
"""

import numpy as np
import pytest

from attention_in_detail import attention, padding_mask
from attention_in_detail.parallelism import (
    attention_cost,
    measure_ratio,
    multi_head_cost,
)
from attention_in_detail.stored import stored_result
from tests.support import assert_close, normal

# A queue and a crowd; ex-parallel-chain


def chain(W, x, f):
    """The states s_t = f(W s_{t-1} + x_t), one after the other."""
    s, states = np.zeros(len(W)), []
    for row in x:
        s = f(W @ s + row)
        states.append(s)
    return np.array(states)


def test_the_inputs_of_a_chain_are_rows_of_one_product():
    W, U, w = normal(4, 4, seed=1), normal(4, 3, seed=2), normal(7, 3)
    one_by_one = np.array([U @ w_t for w_t in w])
    assert_close(w @ U.T, one_by_one, 1e-14)
    assert_close(
        chain(W, w @ U.T, np.tanh), chain(W, one_by_one, np.tanh), 1e-12
    )


def test_a_linear_chain_is_a_sum_over_steps_and_one_with_tanh_is_not():
    W, x = normal(4, 4, seed=1) / 2, normal(7, 4, seed=3)

    def as_sum(x):
        powers = [np.linalg.matrix_power(W, 6 - t) for t in range(7)]
        return sum(P @ row for P, row in zip(powers, x, strict=True))

    assert_close(chain(W, x, lambda s: s)[-1], as_sum(x), 1e-13)
    assert np.abs(chain(W, x, np.tanh)[-1] - as_sum(x)).max() > 0.1
    # No linear map of the inputs does it: twice the input is not twice the state.
    twice = chain(W, 2 * x, np.tanh)[-1] - 2 * chain(W, x, np.tanh)[-1]
    assert np.abs(twice).max() > 0.1


def test_a_step_of_a_chain_waits_for_all_before_and_a_query_for_none():
    x = normal(7, 4, seed=3)
    other = x.copy()
    other[2] += 1
    W = normal(4, 4, seed=1)
    late = (chain(W, x, np.tanh) != chain(W, other, np.tanh)).any(1)
    assert late.tolist() == [False] * 2 + [True] * 5
    k, v = normal(5, 4, seed=4), normal(5, 4, seed=5)
    alone = (attention(x, k, v) != attention(other, k, v)).any(1)
    assert alone.tolist() == [t == 2 for t in range(7)]


# prop-attention-cost


@pytest.mark.claim("prop-attention-cost")
def test_the_cost_of_four_questions_and_five_words_by_hand():
    cost = attention_cost(T=4, S=5, D_k=3, D_v=2, itemsize=8)
    assert cost.multiply_adds == 4 * 5 * 3 + 4 * 2 * 5 == 100
    assert cost.exponentials == 20
    assert cost.bytes_in_and_out == (12 + 15 + 10 + 8) * 8 == 360
    assert cost.bytes_between == 2 * 20 * 8 == 320


@pytest.mark.claim("prop-multi-head-cost")
def test_the_cost_of_one_and_of_eight_heads_at_width_512():
    one, eight = (multi_head_cost(T=512, D=512, heads=h) for h in (1, 8))
    for cost in (one, eight):
        assert round(cost.multiply_adds / 1e6, 1) == 805.3
    assert round(one.exponentials / 1e6, 1) == 0.3
    assert round(eight.exponentials / 1e6, 1) == 2.1
    assert round(one.bytes_between / 1e6, 1) == 2.1
    assert round(eight.bytes_between / 1e6, 1) == 16.8


# What the clock says


@pytest.mark.claim("obs-parallel-heads")
def test_the_stored_widths_are_those_that_the_page_names():
    result = stored_result("parallelism")
    assert result["width"] == 64
    assert result["dtype"] == "float32"
    lost = [row for row in result["over_heads"] if row["median"] < 1]
    assert [(r["D"] // r["h"], r["h"], r["T"]) for r in lost] == [
        (64, 8, 512)
    ]


@pytest.mark.claim("obs-parallel-queries")
def test_the_loop_over_queries_was_slower_at_every_length():
    rows = stored_result("parallelism")["over_queries"]
    assert len(rows) >= 4
    assert all(row["low"] > 1 for row in rows)


def test_short_sequences_gained_from_being_batched_and_long_ones_lost():
    for row in stored_result("parallelism")["over_batch"]:
        if row["T"] <= 64:
            assert row["low"] > 1
        else:
            assert row["high"] < 1


def test_scores_and_weights_of_one_head_are_two_megabytes():
    """T = S = 512 in float32; of eight heads seventeen."""
    one = attention_cost(512, 512, 64, 64, itemsize=4).bytes_between
    eight = attention_cost(512, 512, 64, 64, entries=8, itemsize=4)
    assert round(one / 1e6) == 2
    assert round(eight.bytes_between / 1e6) == 17


# What can go wrong


def test_entry_b_i_is_number_b_h_plus_i():
    q = normal(2, 3, 4, 5)
    flat = q.reshape(6, 4, 5)
    for b in range(2):
        for i in range(3):
            assert np.array_equal(flat[b * 3 + i], q[b, i])
    owners = np.arange(6) // 3
    assert owners.tolist() == np.repeat([0, 1], 3).tolist()
    assert np.tile([0, 1], 3).tolist() == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("lengths", "seen"), [([2, 5], True), ([2], False), ([3, 3], False)]
)
def test_a_tiled_mask_is_seen_with_two_unequal_lengths_only(lengths, seen):
    B, h, S = len(lengths), 3, 5
    q, k, v = (normal(B, h, n, 4, seed=n) for n in (2, S, S))
    mask = padding_mask(np.array(lengths), S)  # (B, 1, S)
    right = attention(q, k, v, mask=mask[:, None])
    flat = [x.reshape(B * h, *x.shape[2:]) for x in (q, k, v)]
    repeated = attention(*flat, mask=np.repeat(mask, h, axis=0))
    tiled = attention(*flat, mask=np.tile(mask, (h, 1, 1)))
    assert tiled.shape == repeated.shape
    assert_close(repeated.reshape(right.shape), right, 1e-14)
    moved = np.abs(tiled.reshape(right.shape) - right).max()
    assert (moved > 0.1) == seen


def test_a_ratio_is_measured_in_turns_with_a_pair_to_warm_up():
    calls = []
    ratio = measure_ratio(
        lambda: calls.append("slow"), lambda: calls.append("fast"), pairs=4
    )
    assert calls == ["slow", "fast"] * 5
    assert ratio.low <= ratio.median <= ratio.high


# ex-parallel-crossing


@pytest.mark.parametrize("D", [64, 512])
def test_attention_costs_as_much_as_the_projections_at_twice_the_width(D):
    projections = 4 * (2 * D) * D**2
    assert multi_head_cost(2 * D, D, 8).multiply_adds == 2 * projections
    for T, sign in ((2 * D - 1, -1), (2 * D + 1, 1)):
        products = multi_head_cost(T, D, 8).multiply_adds - 4 * T * D**2
        assert np.sign(products - 4 * T * D**2) == sign


# ex-parallel-bytes


@pytest.mark.parametrize("width", [1, 64])
def test_the_scores_of_the_exercise_take_four_gibibytes(width):
    cost = attention_cost(2048, 2048, width, width, entries=8 * 16)
    assert cost.bytes_between == 4_294_967_296 == 4 * 2**30
