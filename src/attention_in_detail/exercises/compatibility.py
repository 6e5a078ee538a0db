"""Exercises of the chapter *The compatibility function*."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.rows import softmax, softmax_jacobian
from attention_in_detail.scaled_dot_product import attention, scores

__all__ = ["EXERCISES", "KEYS", "QUERY", "VALUES"]

# The query of the chapter, its five keys, and their values.
QUERY = math.log(2) * np.array([[2, 1, 1, 0]])
KEYS = np.array(
    [
        [3.0, 0, 0, 1],
        [1, 1, 1, 0],
        [0, 1, 1, 2],
        [0, 1, -1, 1],
        [-1, 1, 1, 0],
    ]
)
VALUES = np.array([[8.0, 4], [6, 8], [0, 8], [0, 0], [8, 0]])
# A tie, a winner, and 64 keys that weigh the same.
ROWS = (
    np.array([0.5, 0.5, 0]),
    np.array([1.0, 0, 0]),
    np.full(64, 1 / 64),
)
# Rows of scores for half precision.
HALF = ((12, 0), (11, 0), (11, 11), (-20, -20))


def _of_rows(of: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: [float(of(row)) for row in ROWS]


def _diagonal(row: Any) -> Any:
    return np.diagonal(softmax_jacobian(row))


def _doubled(factor: float = 2.0, scale: float | None = None) -> Any:
    return attention(factor * QUERY, KEYS, VALUES, scale=scale)[0]


def _unnormalized() -> Any:
    return np.exp(scores(2 * QUERY, KEYS))[0] @ VALUES


def _of_bits(width: int = 64) -> tuple[float, float]:
    """Mean and variance of a dot product of entries that are 0 or 1."""
    products = np.outer([0, 1], [0, 1])  # the four cases, alike in chance
    return width * products.mean(), width * products.var()


def _temperature_cases() -> Iterator[Case]:
    z = np.array([[1.0, 2, 0], [3, 3, 1]])
    yield Case("temperature 1", (z, 1.0))
    yield Case("temperature 1/2", (z, 0.5))
    yield Case("temperature 100", (z, 100.0))
    yield Case("a low temperature", (z, 0.001))


def _at(z: Any, tau: float) -> Any:
    return softmax(z / tau)


def _overflowing(z: Any, tau: float) -> Any:
    with np.errstate(all="ignore"):
        e = np.exp(z / tau)
        return e / e.sum(-1, keepdims=True)


def _plain_in_half(row: tuple[int, int]) -> str:
    """Whether the plain formula gives the right weights in half precision."""
    z = np.array(row, dtype=np.float16)
    with np.errstate(all="ignore"):
        e = np.exp(z)
        given = e / e.sum()
    return "works" if np.allclose(given, softmax(z), atol=1e-3) else "fails"


EXERCISES = (
    Exercise(
        "ex-compatibility-double",
        "by hand",
        (1,),
        1,
        _doubled,
        (
            Mistake(
                lambda: _doubled(1.0),
                "That is the output of the query as it was. (Dividing by D_k instead of its root has the same effect.)",
            ),
            Mistake(
                lambda: _doubled(2.0, 1.0),
                "The scores are not divided by the root of D_k.",
            ),
            Mistake(
                lambda: 2 * _doubled(1.0),
                "Twice the query does not double the output, which stays among the values. It squares the exponentials.",
            ),
            Mistake(
                _unnormalized,
                "The weights do not sum to 1: divide the exponentials by their sum.",
            ),
            Mistake(
                lambda: VALUES[0],
                "The best key alone. The others keep small shares.",
            ),
        ),
        axes=("D_v",),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-compatibility-tie",
        "by hand",
        (3,),
        2,
        _of_rows(lambda row: np.linalg.norm(softmax_jacobian(row))),
        (
            Mistake(
                _of_rows(lambda row: np.linalg.norm(_diagonal(row))),
                "Only the diagonal was counted. Off it J has entries as well.",
            ),
            Mistake(
                _of_rows(lambda row: (softmax_jacobian(row) ** 2).sum()),
                "The entries are squared and added; the root is missing.",
            ),
            Mistake(
                _of_rows(lambda row: _diagonal(row).sum()),
                "That is the sum of the diagonal. The norm is the root of the sum of all squares.",
            ),
            Mistake(
                _of_rows(np.linalg.norm),
                "The second term of J is missing, the product of two weights.",
            ),
        ),
        axes=("case",),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-compatibility-signs",
        "measure",
        (2,),
        2,
        _of_bits,
        (
            Mistake(
                lambda: (_of_bits()[0], 64.0),
                "The mean is right. A variance of D_k needs entries of mean 0 and variance 1; these have neither.",
            ),
            Mistake(
                lambda: _of_bits(1),
                "That is one product q_c k_c. At width 64 there are 64 of them.",
            ),
            Mistake(
                lambda: (_of_bits()[0], _of_bits()[0]),
                "That is the mean of the squares. Take the square of the mean off, for each product.",
            ),
            Mistake(
                lambda: (_of_bits()[0], 64 / 16),
                "The variance of a product is not the product of the variances, unless both means are 0.",
            ),
            Mistake(
                lambda: (32.0, 64 / 4),
                "That is the sum of the entries of one vector. A product is 1 only where both are.",
            ),
        ),
        axes=("mean or variance",),
        tolerance=1e-3,
    ),
    Exercise("ex-compatibility-shift", "prove", (1,), 2),
    Exercise(
        "ex-compatibility-temperature",
        "implement",
        (4,),
        1,
        _at,
        (
            Mistake(
                lambda z, tau: softmax(z * tau),
                "It multiplies by the temperature, so a high one makes the weights sharp. Divide.",
            ),
            Mistake(
                lambda z, tau: softmax(z) / tau,
                "The weights were divided, and no longer sum to 1. Divide the scores.",
            ),
            Mistake(
                lambda z, tau: softmax(z),
                "The temperature is not used, or its effect was divided out again.",
            ),
            Mistake(
                lambda z, tau: softmax(z / math.sqrt(tau)),
                "That is the root of the temperature.",
            ),
            Mistake(
                _overflowing,
                "At a low temperature an exponential is infinite. Take the largest score off first.",
            ),
        ),
        cases=_temperature_cases,
        axes=("T", "S"),
    ),
    Exercise(
        "ex-compatibility-half",
        "break it",
        (4,),
        2,
        lambda: [_plain_in_half(row) for row in HALF],
        (
            Mistake(
                lambda: ("fails", "works", "works", "works"),
                "No exponential but the first is too large for itself. Think of their sums, and of very small ones.",
            ),
            Mistake(
                lambda: ("fails", "works", "fails", "works"),
                "Look at the fourth again: what becomes of a number that is too small, and of a sum of such?",
            ),
            Mistake(
                lambda: ("fails", "works", "works", "fails"),
                "Look at the third again: each exponential fits. Does their sum?",
            ),
        ),
        choices=("works", "fails"),
    ),
)
