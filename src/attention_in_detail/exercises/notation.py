"""Exercises of the chapter *Notation*."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.rows import softmax
from attention_in_detail.scaled_dot_product import attention, scores

__all__ = ["EXERCISES", "TABLE"]

# The table of the chapter: four words with three numbers each.
TABLE = np.array([[2.0, 0, 0], [0, 3, 0], [0, 0, 1], [1, 0, 2]])
THIRD = np.array([[1.0, 0, -1]])


def _products() -> Any:
    return scores(THIRD, TABLE, scale=1)[0]


def _shares(power: float = math.log(2)) -> Any:
    return softmax(power * _products())


def _without_minus() -> Any:
    """The shares where a minus was lost."""
    return softmax(math.log(2) * np.abs(_products()))


def _softmax_cases() -> Iterator[Case]:
    rng = np.random.default_rng(1)
    yield Case("one row", (rng.standard_normal(4),))
    yield Case("three rows", (rng.standard_normal((3, 3)),))
    yield Case("a stack", (rng.standard_normal((2, 3, 4)),))
    yield Case("entries near 1000", (1000 + rng.standard_normal((2, 3)),))
    far = np.array([[1000.0, 1001.0], [-1000.0, -1001.0]])
    yield Case("two rows far apart", (far,))
    wide = np.array([[-3000.0, -3000, 3000], [0, 0, 0]])
    yield Case("entries far apart in one row", (wide,))


def _quotient(e: Any, **along: Any) -> Any:
    return e / e.sum(**along)


def _rowwise(z: Any) -> Any:
    return softmax(z)


def _of_everything(z: Any) -> Any:
    return _quotient(np.exp(z - z.max()))


def _down_the_columns(z: Any) -> Any:
    return softmax(z, axis=0)


def _second_axis(z: Any) -> Any:
    return softmax(z, axis=min(1, z.ndim - 1))


def _overflowing(z: Any) -> Any:
    with np.errstate(all="ignore"):
        return _quotient(np.exp(z), axis=-1, keepdims=True)


def _one_shift(z: Any) -> Any:
    with np.errstate(all="ignore"):
        return _quotient(np.exp(z - z.max()), axis=-1, keepdims=True)


def _mean_shift(z: Any) -> Any:
    """Takes off the mean; so it goes with the smallest entry, or the first."""
    with np.errstate(all="ignore"):
        e = np.exp(z - z.mean(-1, keepdims=True))
        return _quotient(e, axis=-1, keepdims=True)


def _stack_shape() -> Any:
    Q, K, V = np.ones((8, 1, 4, 3)), np.ones((2, 5, 3)), np.ones((2, 5, 6))
    return attention(Q, K, V).shape


EXERCISES = (
    Exercise(
        "ex-notation-hand",
        "by hand",
        (2, 3),
        1,
        _shares,
        (
            Mistake(
                _products,
                "These are the dot products, before the softmax.",
            ),
            Mistake(
                lambda: math.log(2) * _products(),
                "These are the dot products times ln 2. The softmax is left.",
            ),
            Mistake(
                lambda: 2.0 ** _products(),
                "These are the exponentials. Shares sum to 1: divide by the sum.",
            ),
            Mistake(
                lambda: _shares(1.0),
                "The factor ln 2 is missing: powers of e instead of 2.",
            ),
            Mistake(
                _without_minus,
                "A minus is lost: a dot product below 0 makes a power below 1.",
            ),
        ),
        axes=("S",),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-notation-break",
        "break it",
        (1, 4),
        2,
        lambda: ("error", "silent", "silent"),
        (
            Mistake(
                lambda: ("error", "silent", "error"),
                "The annotation compares sizes, and a square matrix has the same sizes when it is transposed.",
            ),
            Mistake(
                lambda: ("error", "error", "error"),
                "Three of the four rows and three columns make a square. What does a check of sizes see then?",
            ),
            Mistake(
                lambda: ("silent", "silent", "silent"),
                "In the first, which width do the keys have once they are transposed?",
            ),
        ),
        choices=("error", "silent"),
        remark="The silent ones are dangerous: numbers worked out by hand catch them.",
    ),
    Exercise("ex-notation-shift", "prove", (3,), 2),
    Exercise(
        "ex-notation-softmax",
        "implement",
        (3, 4),
        2,
        _rowwise,
        (
            Mistake(
                _of_everything,
                "All entries together sum to 1. Each row is a problem of its own: give the sum an axis.",
            ),
            Mistake(
                _down_the_columns,
                "The sum runs along the first axis. A row runs along the last one, axis -1.",
            ),
            Mistake(
                _second_axis,
                "Right for one matrix. In a stack axis=1 is another one: count from the back.",
            ),
            Mistake(
                _overflowing,
                "Right as long as no exponential is infinite. Take off the largest entry of a row first.",
            ),
            Mistake(
                _one_shift,
                "The largest entry of all rows is taken off, and a row far below it becomes 0/0. Each row needs its own.",
            ),
            Mistake(
                _mean_shift,
                "The largest number is not the one you took off: entries far above it still overflow. "
                "Take off the largest entry of the row.",
            ),
        ),
        cases=_softmax_cases,
        axes=(),
    ),
    Exercise(
        "ex-notation-stack",
        "by hand",
        (1, 4),
        1,
        _stack_shape,
        (
            Mistake(
                lambda: (8, 2, 4, 5),
                "That is the shape of the dot products. The product with V turns the axis S into the width of V.",
            ),
            Mistake(
                lambda: (8, 1, 4, 6),
                "An axis of size 1 stretches: each of the eight meets both sheets of K.",
            ),
            Mistake(
                lambda: (2, 8, 4, 6),
                "Batch axes are matched from the back: which of them meets that of K?",
            ),
            Mistake(
                lambda: (8, 2, 4, 3),
                "The last axis is that of V, the rows that are blended.",
            ),
        ),
        axes=("size",),
    ),
)
