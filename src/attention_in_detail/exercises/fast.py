"""Exercises of the chapter *Fast weights*."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.insights.fast_weights import (
    dpfp,
    elu_plus_one,
    read,
    recall_error,
    unit_rows,
    write_by_delta,
    write_sum,
)
from attention_in_detail.scaled_dot_product import attention

__all__ = ["EXERCISES", "KEYS", "VALUES"]

# The example by hand of the chapter.
KEYS = np.array([[1, 0], [0, 1], [0.6, 0.8]])
VALUES = np.array([[5.0, 0], [0, 5], [8, -1]])
FIRST, NOTHING = KEYS[0], np.zeros(2)

THIRD = write_by_delta(KEYS, VALUES)  # W_3
MISSING = NOTHING - THIRD @ FIRST


def _read(change: Any) -> Any:
    return read(THIRD + change, KEYS)


# ---- every position sees all ----


def _all(q: Any, k: Any, v: Any) -> Any:
    products = q @ k.T
    return products / products.sum(-1, keepdims=True) @ v


def _only_before(q: Any, k: Any, v: Any) -> Any:
    products = np.tril(q @ k.T)
    return products / products.sum(-1, keepdims=True) @ v


def _along_queries(q: Any, k: Any, v: Any) -> Any:
    products = q @ k.T
    return products / products.sum(0) @ v


def _all_cases() -> Iterator[Case]:
    rng = np.random.default_rng(26)
    for name, T, S in (
        ("as many queries as keys", 4, 4),
        ("more keys than queries", 2, 6),
        ("a single query", 1, 4),
    ):
        q, k = (elu_plus_one(rng.standard_normal((n, 3))) for n in (T, S))
        yield Case(name, (q, k, rng.standard_normal((S, 2))))


# ---- what no rule can avoid ----

PAIRS, WIDTH = 128, 16


def _widths() -> Any:
    x = np.ones((1, WIDTH))
    maps = (
        lambda x: x,
        elu_plus_one,
        lambda x: dpfp(x, 2),
        lambda x: dpfp(x, 4),
    )
    return np.array([f(x).shape[1] for f in maps])


def _least(widths: Any = None) -> Any:
    d = _widths() if widths is None else widths
    return np.maximum(0, 1 - d / PAIRS)


# ---- again and again ----


@cache
def _passes(
    write: Callable[..., Any],
    *,
    handed_on: bool = True,
    values_first: bool = False,
) -> Any:
    draw = np.random.default_rng(0)
    table = []
    for n in (24, 64):
        one, other = draw.standard_normal((2, n, 32))
        keys, values = (other, one) if values_first else (one, other)
        keys = unit_rows(keys)
        W, row = None, []
        for done in range(1, 101):
            W = write(keys, values, W if handed_on else None)
            if done in (1, 10, 100):
                row.append(recall_error(read(W, keys), values))
        best = keys @ (np.linalg.pinv(keys) @ values)
        table.append([*row, recall_error(best, values)])
    return np.array(table)


def _delta(keys: Any, values: Any, memory: Any) -> Any:
    return write_by_delta(keys, values, memory=memory)


def _added(keys: Any, values: Any, memory: Any) -> Any:
    new = write_sum(keys, values)
    return new if memory is None else memory + new


EXERCISES = (
    Exercise(
        "ex-fast-hand",
        "by hand",
        (3,),
        1,
        lambda: _read(np.outer(MISSING, FIRST)),
        (
            Mistake(
                lambda: _read(np.outer(NOTHING, FIRST)),
                "The memory has not changed: the value was added, and to add zero is to add nothing. First ask the memory "
                "what it answers, then write what is missing.",
            ),
            Mistake(
                lambda: _read(np.outer(FIRST, MISSING)),
                "The outer product is turned round. The value belongs to the rows of the memory, the key to its columns.",
            ),
            Mistake(
                lambda: _read(-np.outer(MISSING, FIRST)),
                "What the memory answered was added once more. Missing is the new value less the answer, in this order.",
            ),
            Mistake(
                lambda: _read(-THIRD),
                "Everything is gone. Only what the memory answers to this key is to go; a key that is orthogonal to it is "
                "read as before.",
            ),
            Mistake(
                lambda: THIRD + np.outer(MISSING, FIRST),
                "This is the memory. One step is left: multiply it by each of the keys.",
            ),
        ),
        axes=("key", "D_v"),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-fast-all",
        "implement",
        (1,),
        2,
        _all,
        (
            Mistake(
                _only_before,
                "Each query saw only the keys up to its own place. Here all see all: W and z of the last step serve every "
                "query.",
            ),
            Mistake(
                lambda q, k, v: q @ k.T @ v,
                "The numerator is right. The denominator is missing: the sum of the products of the query with all keys.",
            ),
            Mistake(
                lambda q, k, v: q @ k.T @ v / len(k),
                "It divides by the number of keys. Divide by the sum of the products, so that the weights sum to 1.",
            ),
            Mistake(
                _along_queries,
                "The sum runs along the queries. Each query has a denominator of its own, a sum along the keys.",
            ),
            Mistake(
                lambda q, k, v: attention(q, k, v, scale=1),
                "This is attention with its softmax. Leave out the exponentials: the weights are the plain products, divided "
                "by their sum.",
            ),
        ),
        cases=_all_cases,
        axes=("T", "D_v"),
    ),
    Exercise(
        "ex-fast-least",
        "by hand",
        (2, 4),
        1,
        _least,
        (
            Mistake(
                lambda: np.sqrt(_least()),
                "These are errors; asked for are their squares.",
            ),
            Mistake(
                lambda: (PAIRS - 1) / _widths(),
                "That is the law of adding, with random keys. Asked for is what no rule can get below.",
            ),
            Mistake(
                lambda: _least(np.array([16, 16, 32, 64])),
                "DPFP begins with [x, −x], which is twice as long as x. How many entries does each shift give?",
            ),
            Mistake(
                lambda: _least(np.full(4, WIDTH)),
                "The bound goes by the width after the feature map, and the maps do not all keep it.",
            ),
            Mistake(
                lambda: 1 - _least(),
                "That share can be held. Asked for is the rest.",
            ),
        ),
        axes=("map",),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-fast-test",
        "break it",
        (1, 4),
        2,
        lambda: ("no", "yes", "no", "no"),
        (
            Mistake(
                lambda: ("yes", "yes", "yes", "yes"),
                "Three of them ask for what holds of any products, positive or not. Which ones?",
            ),
            Mistake(
                lambda: ("yes", "yes", "no", "no"),
                "Look at the first again: does the proof that the two ways are equal use that products are positive?",
            ),
            Mistake(
                lambda: ("no", "yes", "yes", "no"),
                "Look at the third again: the first output has one product above and the same one below the line.",
            ),
            Mistake(
                lambda: ("no", "yes", "no", "yes"),
                "Look at the fourth again: weights divided by their sum have the sum 1, even if some are negative.",
            ),
            Mistake(
                lambda: ("no", "no", "no", "no"),
                "One of them sees it. Weights that sum to 1 need not be a weighted mean: what else does a mean need?",
            ),
        ),
        choices=("yes", "no"),
    ),
    Exercise(
        "ex-fast-passes",
        "measure",
        (2, 3),
        2,
        lambda: _passes(_delta),
        (
            Mistake(
                lambda: _passes(_delta, handed_on=False),
                "All passes have the same error: each began with an empty memory. Hand on the memory of the pass before.",
            ),
            Mistake(
                lambda: _passes(_added),
                "The pairs were added, so that each pass adds the same once more. Write by the delta rule.",
            ),
            Mistake(
                lambda: _passes(_delta, values_first=True),
                "The values were drawn before the keys. Draw in the order of the exercise, so that the numbers are the same.",
            ),
            Mistake(
                lambda: _passes(_delta) ** 2,
                "These are the squares of the errors.",
            ),
        ),
        axes=("pairs", "column"),
        tolerance=2e-3,
        remark="With more pairs than columns, no number of passes reaches the best matrix.",
    ),
    Exercise("ex-fast-gradient", "prove", (3,), 2),
)
