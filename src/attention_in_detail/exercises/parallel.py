"""Exercises of the chapter *Parallelism*."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.parallelism import attention_cost, multi_head_cost
from attention_in_detail.stored import stored_result

__all__ = ["EXERCISES"]

D = 512


def _crossing(products: int = 2, projections: int = 4) -> int:
    """The length at which so many of the products cost as much as so many of the projections."""
    return next(
        T
        for T in range(1, 8 * D)
        if products * T * T * D >= projections * T * D * D
    )


def _really_crossing() -> int:
    """The same from the count of the package."""
    return next(
        T
        for T in range(1, 8 * D)
        if multi_head_cost(T, D, 8).multiply_adds >= 8 * T * D * D
    )


def _bytes(batch: int = 8, heads: int = 16, itemsize: int = 4) -> int:
    cost = attention_cost(
        2048, 2048, 64, 64, entries=batch * heads, itemsize=itemsize
    )
    return cost.bytes_between


def _spread_cases() -> Iterator[Case]:
    masks = np.arange(6.0).reshape(2, 3)
    yield Case("one head", (masks, 1))
    yield Case("three heads", (masks, 3))
    yield Case("one sentence", (masks[:1], 2))


def _spread(masks: Any, heads: int) -> Any:
    return np.repeat(masks, heads, axis=0)


def _flat(masks: Any, heads: int) -> Any:
    """Repeats single entries: the axis was forgotten."""
    return np.repeat(masks, heads).reshape(-1, masks.shape[-1])


def _faster() -> list[str]:
    """Which form was faster, for each size that was measured."""
    return [
        "loop" if row["median"] < 1 else "fused"
        for row in stored_result("parallelism")["over_heads"]
    ]


EXERCISES = (
    Exercise(
        "ex-parallel-crossing",
        "by hand",
        (3,),
        1,
        _really_crossing,
        (
            Mistake(
                lambda: _crossing(1, 4),
                "One product was counted. There are two: scores, and the blend of the values.",
            ),
            Mistake(
                lambda: _crossing(2, 3),
                "Three projections were counted. The output has one as well.",
            ),
            Mistake(
                lambda: _crossing(1, 1),
                "One product against one projection. How many are there of each?",
            ),
        ),
    ),
    Exercise(
        "ex-parallel-bytes",
        "by hand",
        (3,),
        1,
        _bytes,
        (
            Mistake(
                lambda: _bytes() // 2,
                "One array was counted. Scores and weights are two.",
            ),
            Mistake(
                lambda: _bytes(heads=1),
                "Each head has scores and weights of its own.",
            ),
            Mistake(
                lambda: _bytes(batch=1),
                "Each sequence of the batch has scores and weights of its own.",
            ),
            Mistake(
                lambda: _bytes(itemsize=8),
                "That is double precision; float32 takes half of it.",
            ),
            Mistake(
                lambda: _bytes(itemsize=1),
                "These are the numbers. How many bytes has each?",
            ),
        ),
    ),
    Exercise("ex-parallel-chain", "explain", (1,), 2),
    Exercise(
        "ex-parallel-spread",
        "implement",
        (2,),
        1,
        _spread,
        (
            Mistake(
                lambda masks, heads: np.tile(masks, (heads, 1)),
                "It goes through the sentences again and again. The heads of one sentence are neighbours: repeat, do not tile.",
            ),
            Mistake(
                _flat,
                "It repeats single entries. Repeat whole rows: axis=0.",
            ),
            Mistake(
                lambda masks, heads: np.stack([masks] * heads, axis=1),
                "The heads have an axis of their own here. Merge it with that of the sentences.",
            ),
        ),
        cases=_spread_cases,
        axes=("B h", "S"),
    ),
    Exercise(
        "ex-parallel-faster",
        "measure",
        (4,),
        1,
        _faster,
        (
            Mistake(
                lambda: ["fused"] * len(_faster()),
                "Fused was not always faster: look at the last row of the figure.",
            ),
            Mistake(
                lambda: [
                    "fused" if one == "loop" else "loop"
                    for one in _faster()
                ],
                "The other way round: the ratio is the time of the loop over that of the fused form.",
            ),
        ),
        choices=("loop", "fused"),
    ),
    Exercise(
        "ex-parallel-tells",
        "explain",
        (4,),
        1,
        lambda: ("count", "clock", "count", "clock"),
        (
            Mistake(
                lambda: ("count", "count", "count", "clock"),
                "Look at the second again: both forms multiply as often.",
            ),
            Mistake(
                lambda: ("count", "clock", "clock", "clock"),
                "Look at the third again: exponentials can be counted.",
            ),
        ),
        choices=("count", "clock"),
    ),
)
