"""Exercises of the chapter *Remarks*."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.masks import causal_mask
from attention_in_detail.scaled_dot_product import attention

__all__ = ["EXERCISES"]

# One query that likes both keys alike; then the last key comes twice.
QUERY = np.array([[0.0]])
KEYS, VALUES = np.array([[1.0], [2.0]]), np.array([[3.0], [12.0]])


def _copied(times: int = 2) -> Any:
    keys = np.vstack([KEYS, *[KEYS[-1:]] * (times - 1)])
    values = np.vstack([VALUES, *[VALUES[-1:]] * (times - 1)])
    return attention(QUERY, keys, values)[0, 0]


def _causal_cases() -> Iterator[Case]:
    yield Case("one position", (1,))
    yield Case("three positions", (3,))
    yield Case("six positions", (6,))


def _numpy_mask(n: int) -> Any:
    return causal_mask(n)


EXERCISES = (
    Exercise(
        "ex-remarks-which",
        "explain",
        (1,),
        1,
        lambda: (
            "reordered",
            "something else",
            "unchanged",
            "reordered",
            "unchanged",
        ),
        (
            Mistake(
                lambda: (
                    ("reordered",)
                    + ("unchanged",) * 2
                    + ("reordered", "unchanged")
                ),
                "Look at (b) again: the weights stay where they were, and now open other values.",
            ),
            Mistake(
                lambda: (
                    "reordered",
                    "something else",
                    "unchanged",
                    "unchanged",
                    "unchanged",
                ),
                "Look at (d) again: the rows of X are queries, too.",
            ),
            Mistake(
                lambda: (
                    "unchanged",
                    "something else",
                    "unchanged",
                    "reordered",
                    "unchanged",
                ),
                "Look at (a) again: each query has its own row of the output, and the row goes where the query goes.",
            ),
            Mistake(
                lambda: (
                    "reordered",
                    "something else",
                    "unchanged",
                    "reordered",
                    "reordered",
                ),
                "Look at (e) again: what does a mean know of the order of its terms?",
            ),
        ),
        choices=("unchanged", "reordered", "something else"),
    ),
    Exercise(
        "ex-remarks-twice",
        "by hand",
        (1,),
        2,
        _copied,
        (
            Mistake(
                lambda: _copied(1),
                "That is the output without the copy. Attention sees the copy as one more key.",
            ),
            Mistake(
                lambda: attention(QUERY, KEYS, VALUES * [[1.0], [2.0]])[
                    0, 0
                ],
                "The value counts twice, and so does its exponential in the sum below.",
            ),
            Mistake(
                lambda: VALUES[-1, 0],
                "The first key keeps a share.",
            ),
            Mistake(
                lambda: _copied(3),
                "The key stands there twice, not three times.",
            ),
        ),
        tolerance=1e-3,
    ),
    Exercise("ex-remarks-clock", "prove", (2, 3), 2),
    Exercise(
        "ex-remarks-mask",
        "implement",
        (3,),
        1,
        _numpy_mask,
        (
            Mistake(
                lambda n: causal_mask(n).T,
                "It looks ahead: the keys after the query are open. Rows are queries, columns are keys.",
            ),
            Mistake(
                lambda n: ~causal_mask(n),
                "True means may attend here; yours says where to ignore.",
            ),
            Mistake(
                lambda n: causal_mask(n) & ~np.eye(n, dtype=bool),
                "A query may see itself: the diagonal is open.",
            ),
            Mistake(
                lambda n: np.where(causal_mask(n), 0.0, -np.inf),
                "These are numbers to add to the scores. Asked for is where a query may attend, true or false.",
            ),
        ),
        cases=_causal_cases,
        axes=("T", "S"),
    ),
    Exercise(
        "ex-remarks-order",
        "measure",
        (2, 3),
        2,
        lambda: ("no", "yes", "yes", "no", "yes"),
        (
            Mistake(
                lambda: ("no", "yes", "yes", "yes", "yes"),
                "Look at the fourth again: the last query may attend to all before it, in whatever order they come.",
            ),
            Mistake(
                lambda: ("no", "no", "yes", "no", "yes"),
                "Look at the second again: the positions stay where they are, and the tokens move.",
            ),
            Mistake(
                lambda: ("no", "yes", "yes", "no", "no"),
                "Look at the fifth again: what the second layer reads is no longer the set of the tokens.",
            ),
        ),
        choices=("yes", "no"),
    ),
)
