"""The ring: who holds what, what is open, and the merge round it, over threads of this process."""

import numpy as np
import pytest
import torch

from attention_in_detail import attention, causal_mask
from attention_in_detail.distributed import (
    held_block,
    own_rows,
    ring_attention,
    ring_schedule,
)
from attention_in_detail.distributed.counting import traffic
from attention_in_detail.online import attention_by_blocks
from tests import distributed_support as support
from tests.ring_of_threads import ring_of
from tests.support import assert_close, leaves, normal


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("offset", [None, 0, 5, -1, -7, -40, 40])
def test_any_ring_is_attention_at_once(ranks, offset, monkeypatch):
    T, S = 12, 24
    q, k, v, dY = (
        normal(2, rows, width, seed=n)
        for n, (rows, width) in enumerate([(T, 5), (S, 5), (S, 7), (T, 7)])
    )
    whole = leaves(q, k, v)
    mask = (
        None
        if offset is None
        else torch.tensor(causal_mask(T, S, offset=offset))
    )
    output = attention(*whole, mask=mask)
    output.backward(torch.tensor(dY))
    threads = ring_of(ranks, monkeypatch)
    found = threads.run(
        lambda rank: support.run_ring((q, k, v, dY), rank, ranks, offset)
    )
    expected = [output, *(x.grad for x in whole)]
    for rank in range(ranks):
        for part, x in zip(found[rank], expected, strict=True):
            rows = own_rows(x.shape[-2], rank, ranks)
            assert_close(part, x[..., rows, :], 1e-12)


@pytest.mark.parametrize("ranks", [1, 2, 3, 6])
def test_a_ring_sends_what_is_counted(ranks, monkeypatch):
    T, D, B = 12, 5, 2
    threads = ring_of(ranks, monkeypatch)

    def both_ways(rank):
        parts = leaves(
            *(normal(B, T // ranks, D, seed=n) for n in range(3))
        )
        output = ring_attention(*parts)
        forward = threads.sent[rank]
        output.sum().backward()
        return forward, threads.sent[rank]

    counts = [
        traffic(
            "ring",
            T,
            D,
            ranks=ranks,
            batch=B,
            itemsize=8,
            backward=backward,
        ).passed
        for backward in (False, True)
    ]
    for found in threads.run(both_ways):
        assert [8 * numbers for numbers in found] == counts


def test_half_precision_is_rounded_once(monkeypatch):
    ranks = 4
    arrays = [normal(2, 8, 6, seed=n) for n in range(4)]
    low = [torch.tensor(x, dtype=torch.bfloat16) for x in arrays]
    exact = [x.double().requires_grad_() for x in low[:3]]
    output = attention(*exact)
    output.backward(low[3].double())
    threads = ring_of(ranks, monkeypatch)

    def one(rank):
        own = [x[:, own_rows(8, rank, ranks)] for x in low]
        parts = [x.clone().requires_grad_() for x in own[:3]]
        found = ring_attention(*parts)
        found.backward(own[3])
        return [found, *(x.grad for x in parts)]

    found = threads.run(one)
    for n, x in enumerate([output, *(x.grad for x in exact)]):
        whole = torch.cat([parts[n] for parts in found], 1)
        assert whole.dtype == torch.bfloat16
        # One rounding to 8 bits, and what float32 adds.
        assert ((whole - x).abs() <= 2**-8 * x.abs() + 1e-6).all()


def test_batch_axes_broadcast(monkeypatch):
    q, k, v = normal(2, 3, 4, 5), normal(3, 6, 5, seed=1), normal(6, 7)
    whole = leaves(q, k, v)
    output = attention(*whole)
    output.sum().backward()
    threads = ring_of(2, monkeypatch)

    def one(rank):
        parts = leaves(
            *(x[..., own_rows(x.shape[-2], rank, 2), :] for x in (q, k, v))
        )
        found = ring_attention(*parts)
        found.sum().backward()
        return [found, *(x.grad for x in parts)]

    found = threads.run(one)
    for n, x in enumerate([output, *(x.grad for x in whole)]):
        whole = torch.cat([parts[n] for parts in found], -2)
        assert_close(whole, x, 1e-12)


def test_a_second_derivative_is_refused(monkeypatch):
    threads = ring_of(1, monkeypatch)

    def twice(_):
        parts = leaves(*(normal(2, 3, seed=n) for n in range(3)))
        output = ring_attention(*parts)
        (dQ,) = torch.autograd.grad(
            output.sum(), parts[0], create_graph=True
        )
        with pytest.raises(
            NotImplementedError, match=r"^ring_attention has"
        ):
            dQ.sum().backward()
        return dQ

    assert threads.run(twice)[0].isfinite().all()


def test_ranks_that_differ_are_refused_on_every_rank(monkeypatch):
    threads = ring_of(3, monkeypatch)

    def one(rank):
        x = torch.ones(2 + (rank == 2), 3)
        with pytest.raises(ValueError, match=r"^rank 2 has") as refused:
            ring_attention(x, x, x)
        return str(refused.value)

    line = (
        "rank 2 has queries (3, 3) float32, but rank 0 has queries (2, 3) float32; "
        "all ranks must give the same shapes and options"
    )
    assert threads.run(one) == [line] * 3


# ---- the schedule


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_every_block_visits_every_rank_once_and_comes_from_the_one_before(
    ranks,
):
    seen = [
        [held_block(rank, step, ranks) for step in range(ranks)]
        for rank in range(ranks)
    ]
    for rank in range(ranks):
        assert seen[rank][0] == rank
        assert sorted(seen[rank]) == list(range(ranks))
        for step in range(1, ranks):
            assert seen[rank][step] == seen[rank - 1][step - 1]
        assert held_block(rank, ranks, ranks) == rank


def test_rows_of_the_ranks_are_all_rows_in_order():
    rows = [np.arange(12)[own_rows(12, rank, 3)] for rank in range(3)]
    assert np.array_equal(np.concatenate(rows), np.arange(12))
    assert [len(part) for part in rows] == [4, 4, 4]


@pytest.mark.parametrize("offset", [None, 0, 5, -1, -7, -40, 40])
@pytest.mark.parametrize("ranks", [1, 2, 3, 6])
def test_the_schedule_counts_the_open_pairs_of_each_block(ranks, offset):
    T, S = 12, 18
    mask = (
        np.ones((T, S), bool)
        if offset is None
        else causal_mask(T, S, offset=offset)
    )
    schedule = ring_schedule(T, S, ranks=ranks, causal_offset=offset)
    assert len(schedule) == ranks
    for turns in schedule:
        for rank, turn in enumerate(turns):
            part = mask[
                own_rows(T, rank, ranks), own_rows(S, turn.block, ranks)
            ]
            assert turn.pairs == part.sum()


def test_what_is_shut_is_not_computed(monkeypatch):
    computed = []
    real = attention_by_blocks

    def counted(queries, keys, *args, **kwargs):
        computed.append((threads.here.rank, float(keys[0, 0])))
        return real(queries, keys, *args, **kwargs)

    monkeypatch.setattr(
        "attention_in_detail.distributed.ring.attention_by_blocks", counted
    )
    ranks = 4
    threads = ring_of(ranks, monkeypatch)

    def one(rank):
        x = torch.full((2, 3), float(rank))  # its number on every key
        return ring_attention(x, x, x, causal_offset=0)

    threads.run(one)
    schedule = ring_schedule(8, 8, ranks=ranks, causal_offset=0)
    open_ones = [
        (rank, turn.block)
        for turns in schedule
        for rank, turn in enumerate(turns)
        if turn.pairs
    ]
    assert sorted(computed) == sorted(open_ones)
    assert len(open_ones) == 10  # of 16
