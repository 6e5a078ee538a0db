"""Measure chapter 06: loops against products, over queries, batch entries and heads.

    python bench/parallelism.py

Every number is a ratio of two computations that ran in turns in this process, in NumPy, float32,
on one thread. The result goes into the package, where the chapter finds it.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy starts its threads
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from storing import store

from attention_in_detail import (
    MultiHeadParameters,
    attention,
    multi_head_attention,
    multi_head_attention_by_head,
)
from attention_in_detail.parallelism import (
    Ratio,
    attention_entry_by_entry,
    attention_query_by_query,
    measure_ratio,
)

PAIRS = 21
WIDTH = 64


def draw(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def as_row(ratio: Ratio, **sizes: int) -> dict[str, float | int]:
    rounded = {
        name: float(f"{getattr(ratio, name):.3g}")
        for name in ("median", "low", "high")
    }
    return {**sizes, **rounded, "pairs": ratio.pairs}


def over_queries(
    rng: np.random.Generator, T: int
) -> dict[str, float | int]:
    q, k, v = (draw(rng, T, WIDTH) for _ in range(3))
    return as_row(
        measure_ratio(
            lambda: attention_query_by_query(q, k, v),
            lambda: attention(q, k, v),
            pairs=PAIRS,
        ),
        T=T,
    )


def over_batch(
    rng: np.random.Generator, B: int, T: int
) -> dict[str, float | int]:
    q, k, v = (draw(rng, B, T, WIDTH) for _ in range(3))
    return as_row(
        measure_ratio(
            lambda: attention_entry_by_entry(q, k, v),
            lambda: attention(q, k, v),
            pairs=PAIRS,
        ),
        B=B,
        T=T,
    )


def over_heads(
    rng: np.random.Generator, D: int, h: int, T: int
) -> dict[str, float | int]:
    x = draw(rng, T, D)
    p = MultiHeadParameters.init(D, h, seed=0, like=x)
    return as_row(
        measure_ratio(
            lambda: multi_head_attention_by_head(p, x, x, x),
            lambda: multi_head_attention(p, x, x, x),
            pairs=PAIRS,
        ),
        D=D,
        h=h,
        T=T,
    )


def main() -> None:
    rng = np.random.default_rng(0)
    result: dict[str, list[dict[str, float | int]]] = {
        "over_queries": [],
        "over_batch": [],
        "over_heads": [],
    }
    for T in (16, 64, 256, 1024):
        result["over_queries"].append(over_queries(rng, T))
        print("queries", result["over_queries"][-1], flush=True)
    for B, T in ((64, 4), (64, 16), (64, 64), (16, 256), (8, 512)):
        result["over_batch"].append(over_batch(rng, B, T))
        print("batch  ", result["over_batch"][-1], flush=True)
    for D, h, T in (
        (64, 16, 16),
        (128, 8, 16),
        (128, 8, 64),
        (512, 8, 64),
        (512, 8, 512),
    ):
        result["over_heads"].append(over_heads(rng, D, h, T))
        print("heads  ", result["over_heads"][-1], flush=True)
    path = store(
        "parallelism",
        ["numpy"],
        {"dtype": "float32", "width": WIDTH, **result},
    )
    print("stored in", path.relative_to(path.parents[3]))


if __name__ == "__main__":
    main()
