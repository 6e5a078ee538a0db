"""Attention over several processes is attention in one: on two processes, and on four."""

import numpy as np
import pytest

from attention_in_detail.distributed import own_rows, run_processes
from attention_in_detail.distributed.counting import traffic
from attention_in_detail.distributed.trying import module_with
from tests import distributed_support as support
from tests.distributed_support import assert_near

each_dtype = pytest.mark.parametrize("dtype", support.DTYPES)
RANKS = 2


@pytest.fixture(scope="module")
def found():
    """Every case, on each rank; the processes start once."""
    return run_processes(support.everything, RANKS, timeout=120)


def assert_ring(found, dtype, case, ranks):
    offset, scale = (0, 0.3) if case == "scale" else (case, None)
    arrays = support.arrays_of_ring(dtype)
    whole = support.ring_at_once(arrays, offset, scale)
    for rank in range(ranks):
        parts = found[rank]["ring", dtype, case]
        for part, all_rows in zip(parts, whole, strict=True):
            rows = own_rows(all_rows.shape[-2], rank, ranks)
            assert_near(part, all_rows[..., rows, :], dtype)


def assert_layer(found, dtype, case, ranks):
    p, *rest = support.arrays_of_layer(case, dtype)
    whole = support.run_layer(module_with(p), *rest)
    for rank in range(ranks):
        ours = found[rank]["layer", dtype, case]
        assert set(ours) == set(whole)
        for name, x in whole.items():
            assert_near(ours[name], x, dtype)


def assert_rest(found, ranks):
    """Counts, refusals, training, groups."""
    for rank, ours in enumerate(found):
        assert_sent(ours["sent"], ranks)
        forward, both = ours["collectives"]
        assert forward == {"c10d_functional.all_reduce": 1}
        assert both == {"c10d_functional.all_reduce": 2}
        assert_near(
            ours["steps"], support.two_steps(split=False), "float64"
        )
        before, whole = ours["rank 0"]
        assert np.array_equal(whole, found[0]["rank 0"][0])
        assert rank == 0 or not np.array_equal(whole, before)
        assert ours["refused"] == [
            "rank 1 has queries (3, 3) float32, but rank 0 has queries (2, 3) float32; "
            "all ranks must give the same shapes and options",
            "rank 1 has causal_offset=1, but rank 0 has causal_offset=0; "
            "all ranks must give the same shapes and options",
            "rank 1 has scale=2.0, but rank 0 has scale=1.0; all ranks must give the same shapes and options",
            f"module has h = 3 heads, but there are {ranks} ranks; "
            "each takes the same number of heads: start 1, 3 processes",
            f"module has h_kv = 1 heads, but there are {ranks} ranks; "
            "each takes the same number of heads: start 1 processes",
        ]
    members = found[ranks // 2 :]
    whole = support.ring_at_once(support.arrays_of_ring("float64"), 0)
    for place, ours in enumerate(members):
        for part, all_rows in zip(ours["groups"], whole, strict=True):
            rows = own_rows(all_rows.shape[-2], place, len(members))
            assert_near(part, all_rows[..., rows, :], "float64")


def assert_sent(sent, ranks):
    B, S, T = support.B, support.S, support.T
    counts = [
        traffic(
            "ring",
            S,
            support.D_k,
            ranks=ranks,
            batch=B,
            backward=backward,
        )
        for backward in (False, True)
    ]
    assert sent["ring"] == (counts[0].passed, counts[1].passed, 0)
    for way, width in (("forward", support.D_out), ("back", support.D_q)):
        one = traffic("heads", T, width, ranks=ranks, batch=B)
        total = sent["heads"][0] if way == "forward" else None
        total = (
            sent["heads"][1] - sent["heads"][0] if total is None else total
        )
        assert total == one.summed
    assert sent["heads"][2] == 0


@pytest.mark.claim("thm-processes-ring", "prop-processes-back")
@each_dtype
@pytest.mark.parametrize("case", [*support.OFFSETS, "scale"])
def test_a_ring_of_two_is_one_process_forward_and_back(found, dtype, case):
    assert_ring(found, dtype, case, RANKS)


@pytest.mark.claim("prop-processes-heads")
@each_dtype
@pytest.mark.parametrize("case", support.LAYERS)
def test_heads_on_two_ranks_are_one_module_forward_and_back(
    found, dtype, case
):
    assert_layer(found, dtype, case, RANKS)


@pytest.mark.claim("prop-processes-traffic")
def test_two_ranks_send_what_is_counted_refuse_alike_and_train_alike(found):
    assert_rest(found, RANKS)


@pytest.mark.slow
def test_four_ranks_are_one_process_too():
    found = run_processes(support.everything, 4, timeout=120)
    for dtype in support.DTYPES:
        for case in [*support.OFFSETS, "scale"]:
            assert_ring(found, dtype, case, 4)
        for case in support.LAYERS:
            assert_layer(found, dtype, case, 4)
    assert_rest(found, 4)
