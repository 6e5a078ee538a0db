"""The peak is what a call holds at most, above what was there and what it returns."""

import tracemalloc

import numpy as np
import pytest

from attention_in_detail.memory import measure_peak

MIB = 2**20


def two_then_one():
    first = np.zeros(2 * MIB, np.uint8)
    second = np.zeros(MIB, np.uint8)
    return first[:MIB] + second  # 4 MiB at the end, 1 of them returned


def test_the_peak_is_what_is_held_at_one_time_without_the_result():
    assert 3 * MIB <= measure_peak(two_then_one) < 3 * MIB + 10_000
    assert not tracemalloc.is_tracing()


def test_what_was_there_before_does_not_count():
    kept = np.zeros(8 * MIB, np.uint8)
    found = measure_peak(lambda: kept[:MIB] + kept[MIB : 2 * MIB])
    assert found < 10_000


def test_the_first_call_does_not_count():
    kept = []

    def lazy():
        if not kept:
            kept.append(np.zeros(8 * MIB, np.uint8))
        return np.zeros(1)

    assert measure_peak(lazy) < 10_000


def test_tracing_that_runs_already_goes_on():
    tracemalloc.start()
    try:
        held = np.zeros(4 * MIB, np.uint8)
        assert held.nbytes == 4 * MIB
        assert 3 * MIB <= measure_peak(two_then_one) < 3 * MIB + 10_000
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


def test_an_error_in_the_call_ends_the_tracing():
    calls = []

    def fails_later():
        calls.append(0)
        if len(calls) > 1:
            raise RuntimeError("later")
        return np.zeros(1)

    with pytest.raises(RuntimeError, match="later"):
        measure_peak(fails_later)
    assert not tracemalloc.is_tracing()
