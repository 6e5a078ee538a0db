"""What chapter 33, Many processes, states.

Checked elsewhere:
- split heads and the ring are one process, forward and back, on two ranks and on four (prop-processes-heads,
  thm-processes-ring, prop-processes-back): test_distributed.py
- a ring of any number of ranks, over threads (thm-processes-ring, prop-processes-back): test_distributed_ring.py
- what two ranks hand over, counted by operation (prop-processes-traffic): test_distributed.py
- a killed rank, one that hangs, a wrong number of processes: test_distributed_alone.py, test_distributed_lost.py
"""

import inspect

import numpy as np
import pytest
import torch

from attention_in_detail import (
    MultiHeadParameters,
    attention,
    causal_mask,
    merge_partial,
    partial_attention,
)
from attention_in_detail.backward import gradients_from_weights
from attention_in_detail.distributed import (
    held_block,
    own_rows,
    ring_attention,
    ring_schedule,
)
from attention_in_detail.distributed.counting import traffic
from attention_in_detail.distributed.paper import on_paper
from attention_in_detail.distributed.trying import module_with
from attention_in_detail.exercises import check
from attention_in_detail.stored import stored_result
from tests import distributed_support as support
from tests.page_numbers import numbers_of, said_by
from tests.ring_of_threads import ring_of
from tests.support import assert_close, normal

ASSUMED = {
    "multiply_adds_per_second": 2e14,
    "bytes_per_second": 5e10,
    "bytes_per_second_beside": 4.5e11,
}
MILLION, WIDTH = 1_000_000, 8192


# ---- prop-processes-heads


@pytest.mark.claim("prop-processes-heads")
@pytest.mark.parametrize("ranks", [1, 2, 3, 6])
def test_output_and_gradient_are_sums_over_the_ranks(ranks):
    p = MultiHeadParameters.init(12, 6, seed=1)
    X, dY = normal(5, 12), normal(5, 12, seed=1)
    whole = module_with(p)
    torch.nn.init.normal_(whole.output.bias)
    x = torch.tensor(X, requires_grad=True)
    output = whole(x)
    output.backward(torch.tensor(dY))
    outputs, gradients = [], []
    for rank in range(ranks):
        rows = own_rows(12, rank, ranks)
        own = MultiHeadParameters(
            *(W[:, rows] for W in (p.W_Q, p.W_K, p.W_V)),
            p.W_O[rows],
            heads=6 // ranks,
        )
        own_x = torch.tensor(X, requires_grad=True)
        own_module = module_with(own)
        own_output = own_module(own_x)
        own_output.backward(torch.tensor(dY))
        outputs.append(own_output.detach().numpy())
        gradients.append(own_x.grad.numpy())
        # Those of the projections are parts of the whole ones, and no sums.
        assert_close(
            own_module.query.weight.grad,
            whole.query.weight.grad[rows],
            1e-12,
        )
        assert_close(
            own_module.output.weight.grad,
            whole.output.weight.grad[:, rows],
            1e-12,
        )
    b_O = whole.output.bias.detach().numpy()
    assert_close(sum(outputs) + b_O, output, 1e-12)
    assert_close(sum(gradients), x.grad, 1e-12)


# ---- def-processes-ring, thm-processes-ring


@pytest.mark.claim("def-processes-ring", "thm-processes-ring")
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7])
def test_every_rank_meets_every_block_once_and_gets_it_from_its_neighbour(
    ranks,
):
    for rank in range(ranks):
        met = [held_block(rank, step, ranks) for step in range(ranks)]
        assert met[0] == rank
        assert sorted(met) == list(range(ranks))
        before = (rank - 1) % ranks
        assert met[1:] == [
            held_block(before, step, ranks) for step in range(ranks - 1)
        ]
    for step in range(ranks):  # no two ranks have the same
        there = {held_block(rank, step, ranks) for rank in range(ranks)}
        assert there == set(range(ranks))


@pytest.mark.claim("def-processes-ring", "thm-processes-ring")
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("offset", [None, 0, 9])
def test_what_is_merged_round_the_ring_is_attention(
    ranks, offset, monkeypatch
):
    arrays = ring_arrays()
    whole = support.ring_at_once(arrays, offset)[0]
    threads = ring_of(ranks, monkeypatch)
    found = threads.run(
        lambda rank: support.run_ring(arrays, rank, ranks, offset)
    )
    for rank in range(ranks):
        rows = own_rows(12, rank, ranks)
        assert_close(found[rank][0], whole[:, rows], 1e-12)


def ring_arrays():
    shapes = (2, 12, 5), (2, 24, 5), (2, 24, 7), (2, 12, 7)
    return [normal(*shape, seed=n) for n, shape in enumerate(shapes)]


# ---- prop-processes-back


@pytest.mark.claim("prop-processes-back")
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_gradients_are_sums_of_shares_and_come_home(ranks, monkeypatch):
    arrays = ring_arrays()
    queries, keys, values, dY = arrays
    output, A = attention(queries, keys, values, return_weights=True)
    s, delta = 5**-0.5, (dY * output).sum(-1, keepdims=True)
    threads = ring_of(ranks, monkeypatch)
    found = threads.run(
        lambda rank: support.run_ring(arrays, rank, ranks, None)
    )
    rows = [own_rows(12, rank, ranks) for rank in range(ranks)]
    columns = [own_rows(24, rank, ranks) for rank in range(ranks)]
    shares = {
        (r, c): gradients_from_weights(
            A[:, rows[r], columns[c]],
            queries[:, rows[r]],
            keys[:, columns[c]],
            values[:, columns[c]],
            dY[:, rows[r]],
            s,
            delta[:, rows[r]],
        )
        for r in range(ranks)
        for c in range(ranks)
    }
    for one in range(ranks):
        dQ = sum(shares[one, c][0] for c in range(ranks))
        dK = sum(shares[r, one][1] for r in range(ranks))
        dV = sum(shares[r, one][2] for r in range(ranks))
        for ours, x in zip(found[one][1:], (dQ, dK, dV), strict=True):
            assert_close(ours, x, 1e-12)


# ---- One query by hand; What can go wrong


QUERY = np.log([[2.0]])
KEYS = np.array([[2.0], [1], [3], [1]])
VALUES = np.array([[6.0], [12], [2], [12]])


def hand_parts():
    return [
        partial_attention(QUERY, KEYS[rows], VALUES[rows])
        for rows in (slice(0, 2), slice(2, 4))
    ]


def test_the_query_by_hand_is_as_worked_by_hand():
    for part, (y, largest, total) in zip(
        hand_parts(), ((8, 4, 1.5), (4, 8, 1.25)), strict=True
    ):
        assert_close(part.output, np.array([[y]]), 1e-14)
        assert_close(np.exp(part.largest), np.array([largest]), 1e-14)
        assert_close(part.total, np.array([total]), 1e-14)
    merged = merge_partial(*hand_parts())
    assert_close(merged.total, np.array([2.0]), 1e-14)
    assert_close(merged.output, np.array([[5.5]]), 1e-14)
    assert_close(attention(QUERY, KEYS, VALUES), np.array([[5.5]]), 1e-14)


def test_the_mean_of_the_outputs_is_another_number_but_for_even_sums():
    assert np.mean([part.output for part in hand_parts()]) == 6
    even = [
        partial_attention(0 * QUERY, KEYS[rows], VALUES[rows])
        for rows in (slice(0, 2), slice(2, 4))
    ]
    mean = np.mean([part.output for part in even], axis=0)
    assert_close(mean, attention(0 * QUERY, KEYS, VALUES), 1e-14)


def test_a_triangle_on_every_block_is_wrong_and_not_with_one_rank():
    wrong, right = np.tile(causal_mask(4), (2, 2)), causal_mask(8)
    assert (wrong & ~right).sum() == 10
    assert (~wrong & right).sum() == 6
    assert np.array_equal(np.tile(causal_mask(8), (1, 1)), right)


# ---- prop-processes-traffic


@pytest.mark.claim("prop-processes-traffic")
@pytest.mark.parametrize("ranks", [2, 3, 4, 6])
def test_both_ways_send_the_same_forward_and_the_ring_more_back(ranks):
    T, D, b = 12, 10, 4
    ring, heads = (
        [
            traffic(way, T, D, ranks=ranks, itemsize=b, backward=backward)
            for backward in (False, True)
        ]
        for way in ("ring", "heads")
    )
    assert ring[0].sent == (ranks - 1) * 2 * (T // ranks) * D * b
    assert (
        ring[0].sent
        == heads[0].sent
        == 2 * (ranks - 1) * T * D * b // ranks
    )
    assert heads[1].sent == 2 * heads[0].sent
    assert ring[1].sent == 2 * ring[0].sent + 2 * T * D * b


@pytest.mark.claim("prop-processes-traffic")
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_ring_that_runs_sends_the_bytes_of_the_formula(
    ranks, monkeypatch
):
    T, D = 12, 5
    threads = ring_of(ranks, monkeypatch)
    arrays = [normal(T, D, seed=n) for n in range(4)]
    threads.run(lambda rank: support.run_ring(arrays, rank, ranks, None))
    count = traffic("ring", T, D, ranks=ranks, itemsize=8, backward=True)
    assert [8 * numbers for numbers in threads.sent] == [count.sent] * ranks


def test_the_small_ring_of_the_exercise():
    assert traffic("ring", 12, 4, ranks=3).passed == 256
    assert traffic("ring", 12, 4, ranks=3, backward=True).passed == 896


# ---- Memory, measured


@pytest.mark.claim("obs-processes-memory")
def test_the_stored_measurement_says_that_each_of_more_ranks_needs_less():
    """Not a timed test: it reads what bench/many_processes.py stored."""
    measured = stored_result("many_processes")
    assert len(measured["over_lengths"]) == 3
    assert (measured["heads"], measured["width"]) == (4, 64)
    for row in measured["over_lengths"]:
        assert row["mib_4"] < row["mib_2"] < row["mib_1"]
    rows = {row["T"]: row for row in measured["over_lengths"]}
    last, bounds = rows[16384], numbers_of("obs-processes-memory")
    assert bounds == [0.4, 0.55]
    assert bounds[0] < last["mib_4"] / last["mib_1"] < bounds[1]
    for T in (4096, 8192):
        assert rows[2 * T]["mib_4"] < 1.4 * rows[T]["mib_2"]
    assert 45 < rows[4096]["mib_at_once"] / rows[4096]["mib_1"] < 55


# ---- rem-processes-idle


@pytest.mark.claim("rem-processes-idle")
@pytest.mark.parametrize(("ranks", "t"), [(1, 4), (2, 3), (4, 2), (5, 1)])
def test_half_the_pairs_take_nearly_all_the_steps(ranks, t):
    T = ranks * t
    schedule = ring_schedule(T, T, ranks=ranks, causal_offset=0)
    pairs = sum(turn.pairs for turns in schedule for turn in turns)
    assert pairs == T * (T + 1) // 2 == causal_mask(T).sum()
    slowest = [max(turn.pairs for turn in turns) for turns in schedule]
    assert slowest[0] == t * (t + 1) // 2
    assert slowest[1:] == [t * t] * (ranks - 1)
    assert sum(slowest) == (ranks - 1) * t * t + t * (t + 1) // 2
    for turns in schedule[1:]:
        assert turns[0].pairs == 0  # rank 0 waits


def test_padding_at_the_end_of_a_causal_ring_is_seen_by_none(monkeypatch):
    """Ten positions on three ranks: two more, whatever they hold."""
    ranks, real = 3, 10
    whole = [normal(12, 5, seed=n) for n in range(4)]
    short = [x[:real] for x in whole]
    whole[3][real:] = 0  # nobody reads the outputs of the padding
    expected = support.ring_at_once(short, 0)
    threads = ring_of(ranks, monkeypatch)
    found = threads.run(
        lambda rank: support.run_ring(whole, rank, ranks, 0)
    )
    for n, x in enumerate(expected):
        together = np.concatenate([found[rank][n] for rank in range(ranks)])
        assert_close(together[:real], x, 1e-12)


def test_a_ring_takes_no_mask_but_the_causal_one_and_no_bias():
    given = inspect.signature(ring_attention).parameters
    assert "causal_offset" in given
    assert not {"mask", "bias"} & set(given)


def test_positions_dealt_from_both_ends_are_fair():
    n, size = 4, 2
    mask = causal_mask(2 * n * size)
    positions = np.arange(2 * n * size).reshape(2 * n, size)
    held = [
        np.concatenate([positions[r], positions[2 * n - 1 - r]])
        for r in range(n)
    ]
    names = {"np": np, "causal_mask": causal_mask, "check": check}
    said = said_by("sol-processes-balance", **names)
    rows = [[step, [8 if step else 10] * 4] for step in range(4)]
    assert said == "".join(f"{step} {pairs}\n" for step, pairs in rows)
    for step in range(n):
        pairs = {
            int(mask[np.ix_(held[r], held[(r - step) % n])].sum())
            for r in range(n)
        }
        assert pairs == ({10} if step == 0 else {8})


# ---- prop-processes-enough; on paper


@pytest.mark.claim("prop-processes-enough")
@pytest.mark.parametrize("beside", [1, 2, 8])
@pytest.mark.parametrize("D", [16, 64])
@pytest.mark.parametrize("places", [2, 5])
def test_a_block_is_enough_from_the_same_number_of_positions_on(
    beside, D, places
):
    P, L, b = 6000.0, 40.0, 2  # enough: 300
    for t, enough in ((299, False), (300, True), (301, True)):
        plan = on_paper(
            places * t,
            D,
            ring=places,
            beside=beside,
            itemsize=b,
            multiply_adds_per_second=P,
            bytes_per_second=L,
        )
        assert plan.enough_positions == 300
        one_block = plan.seconds_computing / places
        one_message = plan.seconds_passing / (places - 1)
        assert (one_block >= one_message) is enough
        assert_close(
            np.array(one_block / one_message), np.array(t / 300), 1e-12
        )


def test_a_thousand_devices_and_a_million_tokens():
    ring, mixed = (
        on_paper(MILLION, WIDTH, ring=places, beside=beside, **ASSUMED)
        for places, beside in ((1000, 1), (125, 8))
    )
    assert ring.multiply_adds == mixed.multiply_adds
    assert ring.multiply_adds == 2 * MILLION**2 * WIDTH // 1000
    assert (ring.positions, mixed.positions) == (1000, 8000)
    assert ring.enough_positions == mixed.enough_positions == 8000
    assert ring.bytes_held == mixed.bytes_held
    assert round(ring.bytes_held / 1e6, 1) == 98.3
    assert ring.bytes_of_weights == 2e12
    # Messages take eight times as long as arithmetic: seven eighths are waiting.
    ratio = ring.seconds_passing / ring.seconds_computing
    assert 7.9 < ratio <= 8
    waiting = 1 - ring.seconds_computing / ring.seconds
    assert round(waiting, 2) == 0.87
    assert mixed.seconds_passing < mixed.seconds_computing
    assert mixed.seconds_summing < 0.01 * mixed.seconds_computing
    both = on_paper(
        MILLION, WIDTH, ring=125, beside=8, backward=True, **ASSUMED
    )
    assert both.multiply_adds == 3.5 * mixed.multiply_adds
    assert 4 < both.bytes_passed / mixed.bytes_passed < 4.02
    assert both.seconds_passing > both.seconds_computing
