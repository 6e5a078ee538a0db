"""What chapter 32, Exact attention in linear memory, states.

Checked elsewhere, too:
- three passes, two and one are attention and read what they say (def-linear-three,
  prop-linear-two, prop-linear-one): test_passes.py
- attention by blocks is attention, and no array of T · S numbers is made
  (prop-linear-blocks): test_online.py
- the counts and their bounds (prop-linear-traffic, prop-linear-bounds,
  def-linear-roofline): test_traffic.py
- which operators run: nn/test_operators.py; the peak: test_memory.py
"""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attention_in_detail import (
    PartialAttention,
    attention,
    attention_weights,
    merge_partial,
    online_attention,
    partial_attention,
    scores,
)
from attention_in_detail.exercises import check
from attention_in_detail.memory import measure_peak
from attention_in_detail.nn.operators import operators_of
from attention_in_detail.online import nothing_attended
from attention_in_detail.passes import (
    one_pass,
    running_sum,
    three_passes,
    two_passes,
)
from attention_in_detail.planting import planted
from attention_in_detail.recomputing import training_cost
from attention_in_detail.stored import stored_result
from attention_in_detail.traffic import (
    Traffic,
    largest_query_block,
    seconds_at_least,
    traffic_at_once,
    traffic_by_blocks,
)
from tests.five_keys import KEYS, QUERY, VALUES
from tests.page_numbers import numbers_of, said_by
from tests.support import assert_close, leaves, normal

Q, K, V = normal(4, 8), normal(60, 8), normal(60, 3)
HALVES = slice(30), slice(30, 60)
LN2 = np.log(2)
THREE = LN2 * np.array([[0.0, 2, 1]])
MARKS = np.array([[12.0], [2], [11]])
STORED = stored_result("online_attention")
WAYS = (three_passes, two_passes, one_pass)
FIELDS = ("output", "largest", "total")


def assert_same(one, other, tolerance=1e-12):
    for name in FIELDS:
        assert_close(getattr(one, name), getattr(other, name), tolerance)


# A mean needs no list


def test_the_output_so_far_ends_at_the_output():
    z = scores(QUERY, KEYS)
    seen = [
        one_pass(z[:, j:], VALUES[j:]).output[0] for j in (4, 3, 2, 1, 0)
    ]
    places = [(8, 0), (4, 0), (2, 4), (4, 6), (6, 5)]
    assert_close(np.array(seen), np.array(places, float), 1e-14)


# Three passes, two, one


@pytest.mark.claim("def-linear-three")
def test_the_mean_in_three_passes_is_written_out():
    z = scores(Q, K)
    m = np.array([max(row) for row in z])
    total = [sum(np.exp(x - m[i]) for x in row) for i, row in enumerate(z)]
    found = three_passes(z, V)
    assert_close(found.largest, m, 0)
    assert_close(found.total, np.array(total), 1e-13)
    assert_close(found.output, attention_weights(Q, K) @ V, 1e-13)


@pytest.mark.claim("prop-linear-two")
@settings(max_examples=30)
@given(st.lists(st.floats(-800, 800), min_size=1, max_size=20))
def test_the_running_sum_is_that_of_the_scores_so_far(row):
    for n in range(1, len(row) + 1):
        first = np.array([row[:n]])
        largest, total = running_sum(first)
        assert largest[0] == max(row[:n])
        assert_close(total[0], np.exp(first - max(row[:n])).sum(), 1e-13)
        assert 1 <= total[0] <= n


@pytest.mark.claim("prop-linear-one")
@pytest.mark.parametrize("steep", [1, 1000])
def test_the_mean_so_far_is_attention_to_the_keys_so_far(steep):
    z = scores(steep * Q, K)
    for n in (1, 2, 17, 60):
        expected = attention(steep * Q, K[:n], V[:n])
        for way in WAYS:
            found = way(z[:, :n], V[:n]).output
            assert_close(found, expected, 1e-12)


# Three numbers by hand; Exercises


@pytest.mark.parametrize(
    ("order", "m", "total", "mean"),
    [
        ([0, 1, 2], [0, 2, 2], [1, 5 / 4, 7 / 4], [12, 4, 6]),
        ([2, 1, 0], [1, 2, 2], [1, 3 / 2, 7 / 4], [11, 5, 6]),
    ],
)
def test_three_numbers_streamed_by_hand(order, m, total, mean):
    z, v = THREE[:, order], MARKS[order]
    for n in (1, 2, 3):
        found = one_pass(z[:, :n], v[:n])
        assert_close(found.largest[0] / LN2, np.array(m[n - 1]), 1e-14)
        assert_close(found.total[0], np.array(total[n - 1]), 1e-14)
        assert_close(found.output[0, 0], np.array(mean[n - 1]), 1e-14)


# Two results become one


@pytest.mark.claim("def-linear-merge")
def test_merging_by_hand():
    one, other = (
        one_pass(THREE[:, a:b], MARKS[a:b]) for a, b in ((0, 1), (1, 3))
    )
    assert_close(other.total[0], np.array(1.5), 1e-14)
    assert_close(other.output[0, 0], np.array(5.0), 1e-14)
    both = merge_partial(one, other)
    assert_close(both.largest[0], np.array(2 * LN2), 1e-14)
    assert_close(both.total[0], np.array(1.75), 1e-14)
    assert_close(both.output[0, 0], np.array(6.0), 1e-14)


def drawn_part(rng):
    """A partial result of two queries; now and then of a query that attends to nothing."""
    part = PartialAttention(
        rng.standard_normal((2, 3)),
        rng.uniform(-30, 30, 2),
        rng.uniform(1, 9, 2),
    )
    if rng.random() < 0.3:
        for name, gone in (("output", 0), ("largest", -np.inf)):
            getattr(part, name)[0] = gone
        part.total[0] = 0
    return part


@pytest.mark.claim("thm-linear-merge")
@pytest.mark.parametrize("seed", range(20))
def test_order_and_grouping_do_not_matter_and_nothing_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    a, b, c = (drawn_part(rng) for _ in range(3))
    merge = merge_partial
    assert_same(merge(a, b), merge(b, a), 0)
    assert_same(merge(merge(a, b), c), merge(a, merge(b, c)), 1e-13)
    nothing = nothing_attended((2, 3), like=a.output)
    assert_same(merge(a, nothing), a, 0)
    assert_same(merge(nothing, a), a, 0)


@pytest.mark.claim("thm-linear-merge")
@pytest.mark.parametrize("seed", range(5))
def test_parts_merge_into_attention_to_their_union(seed):
    rng = np.random.default_rng(seed)
    # Sets without a common key, of any keys: every tenth is shut.
    owner = rng.integers(5, size=60)
    mask = np.arange(60) % 10 != 0
    left = [
        partial_attention(Q, K[mine], V[mine], mask=mask[mine])
        for mine in (owner == n for n in range(5))
    ]
    while len(left) > 1:
        pair = (left.pop(rng.integers(len(left))) for _ in range(2))
        left.append(merge_partial(*pair))
    assert_same(left[0], partial_attention(Q, K, V, mask=mask))
    assert_close(left[0].output, attention(Q, K, V, mask=mask))


def test_in_other_coordinates_a_merge_adds():
    a, b = (partial_attention(Q, K[n], V[n]) for n in HALVES)
    both = merge_partial(a, b)
    weights = [np.exp(p.largest) * p.total for p in (a, b, both)]
    assert_close(weights[0] + weights[1], weights[2])
    sums = [
        w[:, None] * p.output
        for w, p in zip(weights, (a, b, both), strict=True)
    ]
    assert_close(sums[0] + sums[1], sums[2])


# By blocks


@pytest.mark.claim("prop-linear-blocks")
@pytest.mark.parametrize("cut", [(1, 1), (3, 7), (100, 100)])
def test_any_blocks_give_attention(cut):
    found = online_attention(Q, K, V, query_block=cut[0], key_block=cut[1])
    assert_close(found, attention(Q, K, V))


@pytest.mark.claim("prop-linear-blocks")
def test_memory_is_a_few_blocks_and_rows():
    T, D, block = 1000, 4, 50
    q, k, v = (normal(T, D, seed=n) for n in range(3))
    for size in (block, 2 * block):
        used = measure_peak(
            lambda n=size: online_attention(
                q, k, v, query_block=n, key_block=n
            )
        )
        rows = 2 * T * (D + 2)  # in parts, and joined
        assert used < 8 * (4 * size**2 + rows) + 20_000 < 8 * T * T / 8


# Memory, measured


def test_the_counted_line_is_what_was_measured():
    for row in STORED["over_lengths"]:
        if row["mib_at_once"] is not None:
            counted = 3 * 4 * row["T"] ** 2 / 2**20
            assert 0.95 < row["mib_at_once"] / counted <= 1


@pytest.mark.claim("obs-linear-memory")
def test_the_memory_that_the_page_tells_is_stored():
    rows = {row["T"]: row for row in STORED["over_lengths"]}
    told = [
        rows[8192]["mib_at_once"],
        rows[8192]["mib_by_blocks"],
        rows[16384]["mib_by_blocks"],
    ]
    assert numbers_of("obs-linear-memory") == told
    assert STORED["query_block"] == STORED["key_block"] == 512
    assert STORED["width"] == 64
    assert rows[16384]["mib_by_blocks"] < 2 * rows[512]["mib_by_blocks"]


def test_the_live_measurement_of_the_page():
    q, k, v = (normal(2048, 64, seed=n, dtype=np.float32) for n in range(3))
    assert measure_peak(lambda: attention(q, k, v)) > 32 * 2**20
    assert measure_peak(lambda: online_attention(q, k, v)) < 5 * 2**20


# Bytes against operations


def test_blocks_took_less_time_on_long_sequences():
    ratios = {
        row["T"]: row["time"]["median"]
        for row in STORED["over_lengths"]
        if "time" in row
    }
    assert all(ratios[T] < 1 for T in (1024, 2048, 4096, 8192))


@pytest.mark.claim("def-linear-traffic")
def test_traffic_is_in_bytes_what_is_read_and_written():
    # One query, one key, all widths 1: q, k, v, y, and z and a twice each.
    assert traffic_at_once(1, 1, 1, 1, itemsize=1).bytes_moved == 8
    one = traffic_by_blocks(1, 1, 1, 1, query_block=1, itemsize=1)
    assert one.bytes_moved == 4


MACHINE = {"operations_per_second": 312e12, "bytes_per_second": 1.5e12}
LONG = (16384, 16384, 64, 64)


def test_the_machine_of_the_page():
    assert largest_query_block(192 * 1024, 64, 64, 64, itemsize=2) == 464
    at_once = traffic_at_once(*LONG, itemsize=2)
    compute, move = seconds_at_least(at_once, **MACHINE)
    assert (round(1e3 * compute, 2), round(1e3 * move, 2)) == (0.22, 1.44)
    assert at_once.intensity < 32
    for n in (16, 64, 207, 208, 256):
        cost = traffic_by_blocks(
            2**20, 2**20, 64, 64, query_block=n, itemsize=2
        )
        assert 0.99 * n < cost.intensity <= 1.001 * n
    for n, waits in ((204, True), (212, False)):
        cost = traffic_by_blocks(
            n * 100, n * 100, 64, 64, query_block=n, itemsize=2
        )
        compute, move = seconds_at_least(cost, **MACHINE)
        assert (move > compute) is waits


def test_computing_again_takes_less_time_than_moving_the_weights():
    keep, again = (
        training_cost(*LONG, itemsize=2, recompute=recompute)
        for recompute in (False, True)
    )
    more = again.multiply_adds - keep.multiply_adds
    compute, move = seconds_at_least(
        Traffic(more, 2 * keep.bytes_kept), **MACHINE
    )
    assert (round(1e3 * compute, 2), round(1e3 * move, 2)) == (0.11, 0.72)


def test_operations_of_the_sizes_that_the_paper_names():
    kept, again = (
        training_cost(1024, 1024, 64, 64, entries=64 * 16, recompute=how)
        for how in (False, True)
    )
    counted = [round(2 * x.multiply_adds / 1e9) for x in (kept, again)]
    assert counted == [825, 962]
    # A sixth more by count, an eighth more as printed, and other numbers.
    assert round(again.multiply_adds / kept.multiply_adds, 2) == 1.17
    assert round(75.2 / 66.6, 2) == 1.13


# What a library does underneath


def test_what_makes_pytorch_fall_back():
    T = 256
    q, k, v = (
        torch.tensor(normal(1, 1, T, 64, seed=n, dtype=np.float32))
        for n in range(3)
    )
    mask = torch.ones(T, T, dtype=torch.bool).tril()
    bias = torch.zeros(T, T)
    wish = [x.clone().requires_grad_() for x in (q, k, v)]
    learned = bias.clone().requires_grad_()
    found = {}
    for name, call in {
        "plain": lambda: sdpa(q, k, v),
        "causal": lambda: sdpa(q, k, v, is_causal=True),
        "back": lambda: sdpa(*wish).sum().backward(),
        "bias": lambda: sdpa(q, k, v, attn_mask=bias),
        "mask": lambda: sdpa(q, k, v, attn_mask=mask),
        "learned": lambda: sdpa(q, k, v, attn_mask=learned),
        "dropout": lambda: sdpa(q, k, v, dropout_p=0.1),
        "narrow": lambda: sdpa(q, k, v[..., :32]),
        "no heads": lambda: sdpa(q[0], k[0], v[0]),
        "attention": lambda: attention(q, k, v),
        "online": lambda: (
            online_attention(*wish, query_block=64, key_block=64)
            .sum()
            .backward()
        ),
    }.items():
        seen = operators_of(call)
        fused = any("flash" in operator for operator in seen.names)
        found[name] = fused, seen.largest >= T * T
    assert found == {
        **dict.fromkeys(("plain", "causal", "back", "bias"), (True, False)),
        "mask": (True, True),
        **dict.fromkeys(
            ("learned", "dropout", "narrow", "no heads", "attention"),
            (False, True),
        ),
        "online": (False, False),
    }


# What linear memory does not give


@pytest.mark.claim("obs-linear-time")
def test_time_by_blocks_was_stored_to_grow_as_the_square():
    growth = [row["by_blocks"]["median"] for row in STORED["growth"]]
    assert numbers_of("obs-linear-time") == [min(growth), max(growth)]
    assert all(abs(n - 2) < 0.2 for n in growth)
    ends = [(row["from"], row["to"]) for row in STORED["growth"]]
    lengths = [row["T"] for row in STORED["over_lengths"]]
    assert ends == list(itertools.pairwise(lengths))


def test_work_by_blocks_is_four_times_as_much_for_twice_the_length():
    one, two = (
        traffic_by_blocks(T, T, 64, 64, query_block=64).multiply_adds
        for T in (1024, 2048)
    )
    assert two == 4 * one


# What can go wrong


def test_a_sum_that_keeps_its_unit_hides_where_the_largest_comes_first():
    forgets = planted(
        one_pass, "kept = xp.exp(largest - shift) * total", "kept = total"
    )
    wrong = [
        forgets(THREE[:, order], MARKS[order]).output[0, 0]
        for order in ([0, 1, 2], [1, 2, 0])
    ]
    assert np.allclose(wrong, [7.8, 6])


def test_a_maximum_that_starts_at_zero_loses_what_lies_far_below():
    starts = planted(
        one_pass,
        "largest, total = filled(-xp.inf, z), filled(0.0, z)",
        "largest, total = filled(0.0, z), filled(0.0, z)",
    )
    found = {
        shift: starts(THREE + shift, MARKS).output[0, 0]
        for shift in (0, -100, -1000)
    }
    assert np.allclose(list(found.values()), [6, 6, 0])
    assert_close(one_pass(THREE - 1000, MARKS).output, np.array([[6.0]]))


@pytest.mark.parametrize(("key_block", "lost"), [(60, 0), (20, 0), (10, 1)])
def test_an_empty_first_block_is_nan_without_care(key_block, lost):
    naive = planted(
        merge_partial, "shift = finite(largest)", "shift = largest"
    )
    mask = np.arange(60) >= 10
    given = {"mask": mask, "key_block": key_block}
    with naive, np.errstate(invalid="ignore"):
        wrong = online_attention(Q, K, V, **given)
    assert np.isnan(wrong).any() == bool(lost)
    right = online_attention(Q, K, V, **given)
    assert_close(right, attention(Q, K[10:], V[10:]))


# Exercises


def test_one_number_in_place_of_two():
    a, b = (partial_attention(Q, K[n], V[n]) for n in HALVES)
    g1, g2 = (p.largest + np.log(p.total) for p in (a, b))
    g = np.logaddexp(g1, g2)
    y = (
        np.exp(g1 - g)[:, None] * a.output
        + np.exp(g2 - g)[:, None] * b.output
    )
    assert_close(y, merge_partial(a, b).output)
    assert_close(np.exp(scores(Q, K) - g[:, None]), attention_weights(Q, K))


def test_a_light_part_is_lost_in_a_heavy_one():
    far = one_pass(np.array([[0.0]]), np.array([[5.0]]))
    near = one_pass(np.array([[17 * np.log(10)]]), np.array([[7.0]]))
    both = merge_partial(far, near)
    assert both.output == near.output
    assert both.total == near.total


def test_the_codes_of_the_solutions_say_what_they_should():
    names = {"np": np, "merge_partial": merge_partial}
    names |= {"one_pass": one_pass}
    parts = [partial_attention(Q, K[n], V[n]) for n in HALVES]
    names |= {"parts": parts, "check": check}
    assert said_by("sol-linear-log", **names) == "True\n"
    assert said_by("sol-linear-inverse", **names) == "[[ True]]\n"


def test_gradients_by_blocks_are_those_at_once():
    found = []
    for way in (attention, online_attention):
        q, k, v = leaves(Q, K, V)
        way(q, k, v).sin().sum().backward()
        found.append([x.grad for x in (q, k, v)])
    for one, other in zip(*found, strict=True):
        assert_close(one, other)
