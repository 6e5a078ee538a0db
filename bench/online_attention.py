"""Measure attention by blocks against attention at once: time and memory, over the length of the sequence.

    python bench/online_attention.py

One head of width 64, float32, NumPy, one thread. Times are of the processor, not of the clock, and
each number is a ratio of two computations that ran in turns in this process. Memory is the highest
that NumPy asked for, above inputs and output. The result goes into the package.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy starts its threads
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import math
import time

import numpy as np
from storing import store

from attention_in_detail import attention, causal_mask, online_attention
from attention_in_detail.memory import measure_peak
from attention_in_detail.online import KEY_BLOCK, QUERY_BLOCK
from attention_in_detail.parallelism import Ratio, measure_ratio

PAIRS = 7
WIDTH = 64
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
# Beyond this length attention at once takes gigabytes, and is not run.
LONGEST_AT_ONCE = 8192
BLOCKS = (256, 512, 1024)


def draw(T: int) -> list[np.ndarray]:
    rng = np.random.default_rng(T)
    return [
        rng.standard_normal((T, WIDTH)).astype(np.float32) for _ in range(3)
    ]


def mib(size: int) -> float:
    return round(size / 2**20, 2)


def as_numbers(ratio: Ratio) -> dict[str, float | int]:
    rounded = {
        name: float(f"{getattr(ratio, name):.3g}")
        for name in ("median", "low", "high")
    }
    return {**rounded, "pairs": ratio.pairs}


def over_lengths(T: int) -> dict[str, object]:
    q, k, v = draw(T)
    row: dict[str, object] = {
        "T": T,
        "mib_by_blocks": mib(
            measure_peak(lambda: online_attention(q, k, v))
        ),
        "mib_at_once": None,
    }
    if T <= LONGEST_AT_ONCE:
        row["mib_at_once"] = mib(measure_peak(lambda: attention(q, k, v)))
        # How many times as long the blocks take.
        row["time"] = as_numbers(
            measure_ratio(
                lambda: online_attention(q, k, v),
                lambda: attention(q, k, v),
                pairs=PAIRS,
                clock=time.process_time,
            )
        )
        mask = causal_mask(T)
        row["causal_time"] = as_numbers(
            measure_ratio(
                lambda: online_attention(q, k, v, causal_offset=0),
                lambda: attention(q, k, v, mask=mask),
                pairs=PAIRS,
                clock=time.process_time,
            )
        )
    return row


def growth(T: int) -> dict[str, object]:
    """Return how time grows from T / 2 to T: the exponent p if it grows as the power p of the length."""
    half, whole = draw(T // 2), draw(T)
    row: dict[str, object] = {"from": T // 2, "to": T}
    for name, mix, longest in (
        ("by_blocks", online_attention, T),
        ("at_once", attention, LONGEST_AT_ONCE),
    ):
        row[name] = None
        if longest >= T:
            ratio = measure_ratio(
                lambda mix=mix: mix(*whole),
                lambda mix=mix: mix(*half),
                pairs=PAIRS,
                clock=time.process_time,
            )
            row[name] = {
                end: round(math.log2(getattr(ratio, end)), 2)
                for end in ("median", "low", "high")
            } | {"pairs": PAIRS}
    return row


def over_blocks(T: int, rows: int, columns: int) -> dict[str, object]:
    q, k, v = draw(T)
    ratio = measure_ratio(
        lambda: online_attention(
            q, k, v, query_block=rows, key_block=columns
        ),
        lambda: online_attention(q, k, v),
        pairs=PAIRS,
        clock=time.process_time,
    )
    return {
        "query_block": rows,
        "key_block": columns,
        **as_numbers(ratio),
    }


def main() -> None:
    result: dict[str, list[dict[str, object]]] = {
        "over_lengths": [],
        "growth": [],
        "over_blocks": [],
    }
    for T in LENGTHS:
        result["over_lengths"].append(over_lengths(T))
        print("length", result["over_lengths"][-1], flush=True)
    for T in LENGTHS[1:]:
        result["growth"].append(growth(T))
        print("growth", result["growth"][-1], flush=True)
    for rows in BLOCKS:
        for columns in BLOCKS:
            result["over_blocks"].append(over_blocks(4096, rows, columns))
            print("blocks", result["over_blocks"][-1], flush=True)
    path = store(
        "online_attention",
        ["numpy"],
        {
            "dtype": "float32",
            "width": WIDTH,
            "query_block": QUERY_BLOCK,
            "key_block": KEY_BLOCK,
            **result,
        },
    )
    print("stored in", path.relative_to(path.parents[3]))


if __name__ == "__main__":
    main()
