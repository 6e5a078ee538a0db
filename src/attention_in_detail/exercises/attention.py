"""Exercises of the chapter *Attention*."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from attention_in_detail.exercises._drawn import drawn_arrays
from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.rows import softmax
from attention_in_detail.scaled_dot_product import (
    attention,
    attention_weights,
    scores,
)

__all__ = ["EXERCISES", "KEYS", "UNIT", "VALUES"]

# The table of the chapter: five words with three topics, and what each says.
UNIT = math.sqrt(3) * math.log(2)
KEYS = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0], [1, 0, 2]])
VALUES = np.array([[0.0, 0], [8, 0], [0, 8], [8, 8], [4, 0]])
FIFTH = UNIT * np.array([1.0, 1, 0])


def _fifth(scale: float | None = None) -> Any:
    return attention(FIFTH[None], KEYS, VALUES, scale=scale)[0]


def _unnormalized() -> Any:
    return np.exp(scores(FIFTH[None], KEYS))[0] @ VALUES


def _winners() -> Any:
    z = scores(FIFTH[None], KEYS)[0]
    return VALUES[z == z.max()].sum(0)


def _blend_cases() -> Iterator[Case]:
    q, K, V = drawn_arrays(2, (3,), (5, 3), (5, 2))
    yield Case("five keys of width 3", (q, K, V))
    q, K, V = drawn_arrays(2, (4,), (4, 4), (4, 4))
    yield Case("as many keys as coordinates", (q, K, V))
    q, K, V = drawn_arrays(2, (2,), (3, 2), (3, 2))
    yield Case("large scores", (400 * q, 3 * K, V))


def _blend(q: Any, K: Any, V: Any) -> Any:
    return attention(q[None], K, V)[0]


def _blend_with(scale: float) -> Any:
    """The blend with the scale D_k to this power."""

    def blend(q: Any, K: Any, V: Any) -> Any:
        return attention(q[None], K, V, scale=len(q) ** scale)[0]

    return blend


def _overflowing(q: Any, K: Any, V: Any) -> Any:
    with np.errstate(all="ignore"):
        e = np.exp(scores(q[None], K)[0])
        return e / e.sum() @ V


def _blend_of_keys(q: Any, K: Any, V: Any) -> Any:
    return attention(q[None], K, K)[0]


def _summed(q: Any, K: Any, V: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.exp(scores(q[None], K)[0]) @ V


def _hard() -> Any:
    queries = UNIT * np.array([[2, 0, -1], [0, 0, 0]])
    return attention_weights(100 * queries, KEYS).round(6)


def _along_queries() -> Any:
    queries = UNIT * np.array([[2, 0, -1], [0, 0, 0]])
    return softmax(scores(100 * queries, KEYS), axis=-2).round(6)


EXERCISES = (
    Exercise(
        "ex-attention-hand",
        "by hand",
        (2,),
        1,
        _fifth,
        (
            Mistake(
                _unnormalized,
                "The weights do not sum to 1: divide the exponentials by their sum.",
            ),
            Mistake(
                lambda: _fifth(1 / 3),
                "These are the weights for scores divided by D_k. Divide by its root.",
            ),
            Mistake(
                lambda: _fifth(1.0),
                "The scores are not divided by the root of D_k; the unit of the queries waits for that.",
            ),
            Mistake(
                lambda: VALUES.mean(0),
                "That is the plain mean of the values: all weights alike. The query prefers some keys.",
            ),
            Mistake(
                lambda: attention_weights(FIFTH[None], KEYS)[0],
                "These are the weights. One step is left: blend the rows of the values with them.",
            ),
            Mistake(
                _winners,
                "The best keys alone, with weight 1 each. The others get their shares too, and all shares sum to 1.",
            ),
        ),
        axes=("D_v",),
        tolerance=1e-3,
    ),
    Exercise("ex-attention-constant", "prove", (3,), 1),
    Exercise(
        "ex-attention-hard",
        "measure",
        (2, 3),
        1,
        _hard,
        (
            Mistake(
                _along_queries,
                "Each column sums to 1, so the softmax ran along the queries. It belongs along the keys.",
            ),
            Mistake(
                lambda: (_hard() == _hard().max(-1, keepdims=True)) * 1.0,
                "Each row must sum to 1, the row of anything? as well.",
            ),
        ),
        axes=("T", "S"),
        tolerance=1e-3,
        remark="In the limit the best key takes all, and keys that tie share.",
    ),
    Exercise(
        "ex-attention-blend",
        "implement",
        (1, 2),
        2,
        _blend,
        (
            Mistake(
                _blend_with(-1.0),
                "The scores are divided by D_k. Divide by the root of it: only then does the width not change their spread.",
            ),
            Mistake(
                _blend_with(0.0),
                "The scores are not divided by the root of D_k.",
            ),
            Mistake(
                _blend_with(0.5),
                "The scores are multiplied by the root of D_k. Divide.",
            ),
            Mistake(
                _overflowing,
                "Right for small scores; with large ones an exponential is infinite. Take off the largest score first.",
            ),
            Mistake(
                _blend_of_keys,
                "It blends the keys. Keys say how much, values say what: blend the values.",
            ),
            Mistake(
                _summed,
                "The weights do not sum to 1: divide the exponentials by their sum.",
            ),
        ),
        cases=_blend_cases,
        axes=("D_v",),
    ),
    Exercise(
        "ex-attention-axis",
        "break it",
        (1, 4),
        2,
        lambda: ("no", "yes", "no", "yes"),
        (
            Mistake(
                lambda: ("yes", "yes", "yes", "yes"),
                "A shape says how large an array is, not along which axis it was made; with T = S even the sums may agree.",
            ),
            Mistake(
                lambda: ("yes", "no", "yes", "no"),
                "These are the tests that pass. Asked for is which of them fail.",
            ),
            Mistake(
                lambda: ("no", "yes", "yes", "yes"),
                "Look at the third again: along either axis a softmax gives numbers between 0 and 1.",
            ),
            Mistake(
                lambda: ("no", "no", "no", "yes"),
                "Look at the second again: which sums does a softmax along the queries make 1?",
            ),
        ),
        choices=("yes", "no"),
    ),
)
