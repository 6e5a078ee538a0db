"""What is moved, by count, is what a count of the pieces themselves finds."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from attention_in_detail import online_attention, partial_attention
from attention_in_detail.parallelism import attention_cost
from attention_in_detail.traffic import (
    Traffic,
    block_bytes,
    largest_query_block,
    seconds_at_least,
    traffic_at_once,
    traffic_by_blocks,
)
from tests.support import D_k, D_v, S, T, normal


@pytest.mark.claim("prop-linear-traffic")
def test_at_once_each_step_reads_its_inputs_and_writes_its_result():
    q, k, v = normal(T, D_k), normal(S, D_k), normal(S, D_v)
    z = q @ k.T
    a = np.exp(z)
    steps = [((q, k), z), ((z,), a), ((a, v), a @ v)]
    moved = sum(
        sum(x.size for x in read) + made.size for read, made in steps
    )
    assert moved == (T + S) * (D_k + D_v) + 4 * T * S
    for itemsize in (2, 4):
        found = traffic_at_once(T, S, D_k, D_v, itemsize=itemsize)
        assert found.bytes_moved == moved * itemsize
        cost = attention_cost(T, S, D_k, D_v)
        assert found.multiply_adds == cost.multiply_adds


@pytest.mark.claim("prop-linear-traffic")
@pytest.mark.parametrize("height", [1, 4, 5, 10, 99])
@pytest.mark.parametrize("width", [3, 12])
def test_by_blocks_the_pieces_that_are_cut_add_up(
    monkeypatch, height, width
):
    T, S = 10, 12
    moved, last, real = [0], [None], partial_attention.unchecked

    def noting(queries, keys, values, **options):
        place = queries.__array_interface__["data"]
        if place != last[0]:  # a new block of queries, and its output
            moved[0] += queries.size + len(queries) * values.shape[-1]
        last[0] = place
        moved[0] += keys.size + values.size
        return real(queries, keys, values, **options)

    monkeypatch.setattr(partial_attention, "unchecked", noting)
    q, k, v = normal(T, D_k), normal(S, D_k), normal(S, D_v)
    online_attention(q, k, v, query_block=height, key_block=width)
    found = traffic_by_blocks(T, S, D_k, D_v, query_block=height)
    assert found.bytes_moved == 4 * moved[0]
    assert found.multiply_adds == T * S * (D_k + D_v)
    half = traffic_by_blocks(T, S, D_k, D_v, query_block=height, itemsize=2)
    assert 2 * half.bytes_moved == found.bytes_moved


@pytest.mark.claim("prop-linear-traffic")
def test_what_a_block_holds_by_the_arrays_themselves():
    rows, columns = 3, 5
    arrays = [
        np.empty((rows, D_k)),
        np.empty((rows, D_v)),
        np.empty(rows),
        np.empty(rows),
        np.empty((columns, D_k)),
        np.empty((columns, D_v)),
        np.empty((rows, columns)),
    ]
    held = sum(x.nbytes for x in arrays)
    assert block_bytes(rows, columns, D_k, D_v, itemsize=8) == held


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("key_block", [1, 7, 64])
def test_the_largest_block_fits_and_one_query_more_does_not(
    key_block, itemsize
):
    options = {"itemsize": itemsize}
    least = block_bytes(1, key_block, D_k, D_v, **options)
    for fast in (least, least + 1, 10 * least, 196_608):
        if fast < least:
            continue
        block = largest_query_block(fast, key_block, D_k, D_v, **options)
        fits = [
            block_bytes(n, key_block, D_k, D_v, **options) <= fast
            for n in (block, block + 1)
        ]
        assert fits == [True, False]


@pytest.mark.claim("prop-linear-bounds")
def test_the_bounds_on_what_is_moved_hold():
    draw = random.Random(32)
    for _ in range(300):
        T, S = draw.randint(1, 5000), draw.randint(1, 5000)
        D_k, D_v = draw.randint(1, 200), draw.randint(1, 200)
        W = D_k + D_v
        M = draw.randint(4 * (W + 3), 500 * (W + 3))
        # Any block that fits, and the largest with one key at a time.
        columns = draw.randint(1, max(1, (M - W - 2) // (W + 1)))
        most = largest_query_block(4 * M, columns, D_k, D_v)
        some = draw.randint(1, most)
        best = largest_query_block(4 * M, 1, D_k, D_v)
        least = W * T + Fraction(T * S * W**2, M)
        for rows in (some, most, best):
            found = traffic_by_blocks(T, S, D_k, D_v, query_block=rows)
            assert found.bytes_moved >= 4 * least
        upper = W * (T + S) + Fraction(2 * T * S * W * (W + 3), M)
        assert found.bytes_moved <= 4 * upper


@pytest.mark.claim("def-linear-roofline")
def test_intensity_is_operations_a_byte():
    assert Traffic(300, 150).intensity == 4
    at_once = traffic_at_once(10**6, 10**6, 64, 64, itemsize=2)
    assert math.isclose(at_once.intensity, 32, rel_tol=1e-3)
    blocks = traffic_by_blocks(
        2**20, 2**20, 64, 64, query_block=256, itemsize=2
    )
    assert math.isclose(blocks.intensity, 256, rel_tol=1e-3)


@pytest.mark.claim("def-linear-roofline")
def test_seconds_of_arithmetic_and_of_moving():
    found = seconds_at_least(
        Traffic(500, 30), operations_per_second=100, bytes_per_second=10
    )
    assert found == (10.0, 3.0)
