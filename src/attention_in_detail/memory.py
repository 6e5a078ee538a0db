"""How much memory a computation takes at its highest."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from attention_in_detail._checks import checked, kind

__all__ = ["measure_peak"]


def check_measure_peak(call: Any) -> None:
    if not callable(call):
        raise TypeError(
            f"call must be a function without arguments, not {kind(call)}; put lambda: before it"
        )


@checked(check_measure_peak)
def measure_peak(call: Callable[[], np.ndarray]) -> int:
    r"""Measure how much memory a computation of NumPy takes, here and now.

    Args:
        call: a function without arguments, which returns an array of NumPy. It runs
            twice: what is loaded at the first call is not its memory.

    Returns:
        The most bytes that NumPy and Python held at one time during the call, above
        what was there before it and the result. PyTorch's memory is not seen.

    Raises:
        TypeError: if ``call`` is not a function, or what it returns not an array of
            NumPy.
    """
    result = call()
    if not isinstance(result, np.ndarray):
        raise TypeError(
            f"call must return an array of NumPy, not {kind(result)}; memory of others is not seen"
        )
    del result
    running = tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        result = call()
        highest = tracemalloc.get_traced_memory()[1]
    finally:
        if not running:
            tracemalloc.stop()
    return highest - before - result.nbytes
