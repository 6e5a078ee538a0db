"""Exercises of the chapter *Multi-head attention*."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.multi_head import (
    MultiHeadParameters,
    self_attention,
    split_heads,
)
from attention_in_detail.scaled_dot_product import attention

__all__ = ["BY_HAND", "EXERCISES", "TOKENS"]

# The two heads of the chapter: thing, action, place, link of five words.
TOKENS = np.array(
    [[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1], [1, 0, 1, 0]]
)
BY_HAND = MultiHeadParameters(
    W_Q=math.sqrt(2)
    * math.log(2)
    * np.array([[2, -2, 0, 2], [2, -2, 2, 0], [-2, 4, 0, 0], [0, 2, 0, 2]]),
    W_K=1.0
    * np.array([[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 1, 0], [0, 0, 0, 0]]),
    W_V=8.0
    * np.array([[1, 0, 1, 0], [0, 0, 0, 0], [-1, 1, -1, 1], [0, 0, 0, 0]]),
    W_O=1.0 * np.array([[1, 0], [0, 1], [-1, 0], [0, 1]]),
    heads=2,
)
ON = 3  # the row of "on"
LENGTHS, HEADS, WIDTH = (1, 2, 3, 4), (1, 2, 3, 4, 6, 12), 12


def _row_of_on(p: MultiHeadParameters = BY_HAND) -> Any:
    return self_attention(p, TOKENS)[ON]


def _side_by_side() -> Any:
    return _row_of_on(replace(BY_HAND, W_O=None))


def _whole_width() -> Any:
    """With scores divided by the root of the model's width."""
    sharper = replace(BY_HAND, W_Q=BY_HAND.W_Q / math.sqrt(2))
    return _row_of_on(sharper)


def _one_wide_head() -> Any:
    p = BY_HAND
    wide = attention(TOKENS @ p.W_Q, TOKENS @ p.W_K, TOKENS @ p.W_V)
    return (wide @ p.W_O)[ON]


def _harmless() -> Any:
    found = []
    for T in LENGTHS:
        for h in HEADS:
            x = np.arange(float(T * WIDTH)).reshape(T, WIDTH)
            if np.array_equal(
                x.reshape(h, T, WIDTH // h), split_heads(x, h)
            ):
                found.append((T, h))
    return found


def _split_cases() -> Iterator[Case]:
    def table(T: int, D: int) -> np.ndarray:
        return np.arange(float(T * D)).reshape(T, D)

    yield Case("one head", (table(3, 4), 1))
    yield Case("two heads", (table(3, 4), 2))
    yield Case("as many heads as positions", (table(3, 6), 3))
    yield Case("a batch", (np.stack([table(3, 4), -table(3, 4)]), 2))


def _reshaped_at_once(x: Any, heads: int) -> Any:
    *batch, T, D = x.shape
    return x.reshape(*batch, heads, T, D // heads)


def _not_swapped(x: Any, heads: int) -> Any:
    *batch, T, D = x.shape
    return x.reshape(*batch, T, heads, D // heads)


def _interleaved(x: Any, heads: int) -> Any:
    *batch, T, D = x.shape
    cut = x.reshape(*batch, T, D // heads, heads)
    return np.moveaxis(cut, -1, -3)


def _last_two(x: Any, heads: int) -> Any:
    """Swaps the last two axes instead of positions and heads."""
    return np.swapaxes(split_heads(x, heads), -1, -2)


def _first_two(x: Any, heads: int) -> Any:
    """Swaps the first two axes, wherever the batch stands."""
    return np.swapaxes(_not_swapped(x, heads), 0, 1)


def _counts(**made: Any) -> list[int]:
    return [
        MultiHeadParameters.init(512, heads, seed=0, **made).count
        for heads in (8, 16)
    ]


EXERCISES = (
    Exercise(
        "ex-multi-head-hand",
        "by hand",
        (1,),
        2,
        _row_of_on,
        (
            Mistake(
                _side_by_side,
                "The two heads stand side by side. The output projection is missing: multiply by W_O.",
            ),
            Mistake(
                lambda: _side_by_side()[:2] + _side_by_side()[2:],
                "The heads are added as they are. Each meets its own rows of W_O first.",
            ),
            Mistake(
                _whole_width,
                "The scores are divided by the root of D, the width of all heads. Each head divides by the root of its D_h.",
            ),
            Mistake(
                _one_wide_head,
                "That is one head of the whole width. Cut queries, keys and values into heads before the softmax.",
            ),
        ),
        axes=("D_out",),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-multi-head-harmless",
        "break it",
        (2,),
        3,
        _harmless,
        (
            Mistake(
                lambda: [pair for pair in _harmless() if pair[1] == 1],
                "With one head the two agree, yes. Is that the only way?",
            ),
            Mistake(
                lambda: [pair for pair in _harmless() if pair[0] == 1],
                "With one position the two agree, yes. Is that the only way?",
            ),
            Mistake(
                lambda: [(T, h) for T in LENGTHS for h in HEADS],
                "All shapes agree, but not all entries: compare with np.array_equal.",
            ),
            Mistake(
                lambda: [pair[::-1] for pair in _harmless()],
                "Each pair is (T, h); yours are (h, T).",
            ),
        ),
        axes=("pair", "T or h"),
        open_length=True,
    ),
    Exercise("ex-multi-head-order", "prove", (3,), 2),
    Exercise(
        "ex-multi-head-split",
        "implement",
        (2,),
        1,
        split_heads,
        (
            Mistake(
                _reshaped_at_once,
                "It reshapes to (h, T, D_h) at once, and a head gets pieces of several positions. "
                "Cut the last axis first, then swap positions and heads.",
            ),
            Mistake(
                _not_swapped,
                "The last axis is cut, and the swap is missing: heads must come before positions.",
            ),
            Mistake(
                _interleaved,
                "Head i gets every h-th column. It is to get D_h columns that are neighbours.",
            ),
            Mistake(
                _last_two,
                "Positions and features of a head are swapped: the last axis is D_h.",
            ),
            Mistake(
                _first_two,
                "Right without a batch. With one, axes counted from the front are others: count from the back.",
            ),
        ),
        cases=_split_cases,
        axes=("h", "T", "D_h"),
    ),
    Exercise(
        "ex-multi-head-count",
        "by hand",
        (4,),
        1,
        _counts,
        (
            Mistake(
                lambda: _counts(bias=False),
                "Four matrices, right. Each of the four has a bias too.",
            ),
            Mistake(
                lambda: _counts(output=False),
                "Three matrices and their biases. The output projection is missing.",
            ),
            Mistake(
                lambda: [n - 512 for n in _counts()],
                "Three biases were counted. The output projection has one too.",
            ),
            Mistake(
                lambda: [
                    h * n for h, n in zip((8, 16), _counts(), strict=True)
                ],
                "Each head projects to D_h = D / h columns, not to all of D. Together they are one wide matrix.",
            ),
            Mistake(
                lambda: [_counts()[0], 2 * _counts()[0]],
                "The first is right. Twice the heads, each half as wide: what becomes of the sum?",
            ),
        ),
        axes=("answer",),
    ),
)
