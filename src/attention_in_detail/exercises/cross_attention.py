"""Exercises of the chapter *Cross-attention*."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.multi_head import (
    MultiHeadParameters,
    multi_head_attention,
)
from attention_in_detail.scaled_dot_product import (
    attention,
    attention_weights,
)

__all__ = ["EXERCISES", "KEYS", "QUERIES", "VALUES"]

# Five English words, one topic each; the questions of "rouge" and "de"; what the words say.
KEYS = np.eye(5)
QUERIES = (
    math.sqrt(5)
    * math.log(2)
    * np.array([[0, 0, 0, 4, 0], [0, 0, 3, 1, 3]])
)
VALUES = np.array([[10.0, 0], [0, 10], [5, 5], [0, 20], [20, 0]])
OPEN = np.array([True, True, True, False, True])


def _masked(mask: Any = OPEN) -> Any:
    return attention(QUERIES, KEYS, VALUES, mask=mask)


def _afterwards() -> Any:
    return attention_weights(QUERIES, KEYS) * OPEN @ VALUES


def _strength(share: float = 0.48) -> int:
    """The smallest strength at which two of three keys get the share."""
    for n in range(1, 99):
        z = n * math.log(2) * np.array([[0.0, 1, 1]])
        if attention_weights(z, np.eye(3), scale=1)[0, 1] >= share:
            return n
    raise AssertionError("two keys share less than one")


def _cases() -> Iterator[Case]:
    rng = np.random.default_rng(7)
    for T, is_open in (
        (3, [True, True, True]),
        (3, [True, True, False]),
        (4, [False, True, True, False]),
    ):
        x, context = rng.standard_normal((2, T, 4))
        W = rng.standard_normal((3, 4, 4))
        shut = is_open.count(False)
        name = f"T = S = {T} and {shut} of the words shut"
        yield Case(name, (x, context, *W, np.array(is_open)))


def _cross(x: Any, c: Any, W_Q: Any, W_K: Any, W_V: Any, o: Any) -> Any:
    return attention(x @ W_Q, c @ W_K, c @ W_V, mask=o)


def _not_renormalized(
    x: Any, c: Any, W_Q: Any, W_K: Any, W_V: Any, o: Any
) -> Any:
    return attention_weights(x @ W_Q, c @ W_K) * o @ (c @ W_V)


def _seen() -> list[str]:
    """Which test sees each bug: the source reordered, where the output must stay, or altered, where it must move."""
    rng = np.random.default_rng(10)
    plain = MultiHeadParameters.init(8, heads=2, seed=10)
    x, context, other = rng.standard_normal((3, 5, 8))
    found = []
    for call in (
        lambda c: (x, x, x),
        lambda c: (x, c, x),
        lambda c: (x, x, c),
    ):
        first, reordered, altered = (
            multi_head_attention(plain, *call(c))
            for c in (context, context[[2, 0, 1, 4, 3]], other)
        )
        moved = not np.allclose(reordered, first)
        stayed = np.allclose(altered, first)
        found.append(
            {
                (True, True): "both",
                (True, False): "reorder",
                (False, True): "alter",
                (False, False): "neither",
            }[moved, stayed]
        )
    return found


EXERCISES = (
    Exercise(
        "ex-cross-attention-hand",
        "by hand",
        (2, 3),
        _masked,
        (
            Mistake(
                lambda: _masked(None),
                "Nothing is shut here: red still gets its share.",
            ),
            Mistake(
                _afterwards,
                "Red was taken out after the softmax, and the rest no longer sums to 1.",
            ),
            Mistake(
                lambda: _masked(~OPEN),
                "Inside out: only red is open. True means may attend.",
            ),
        ),
        axes=("T", "D_v"),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-cross-attention-pair",
        "by hand",
        (2,),
        _strength,
        (
            Mistake(
                lambda: _strength() - 1,
                "Work out the two weights once more: they come close, and are not there yet.",
            ),
            Mistake(
                lambda: _strength() + 1,
                "That is enough. Is it the smallest number that is?",
            ),
        ),
    ),
    Exercise("ex-cross-attention-after", "prove", (3,)),
    Exercise(
        "ex-cross-attention-own",
        "implement",
        (1, 3),
        _cross,
        (
            Mistake(
                lambda x, c, Q, K, V, o: attention(
                    x @ Q, x @ K, x @ V, mask=o
                ),
                "Keys and values come from the target: this is self-attention. They belong to the context.",
            ),
            Mistake(
                lambda x, c, Q, K, V, o: attention(
                    x @ Q, c @ K, x @ V, mask=o
                ),
                "The values come from the target. What is handed over is what the source says.",
            ),
            Mistake(
                lambda x, c, Q, K, V, o: attention(
                    c @ Q, x @ K, x @ V, mask=o
                ),
                "The source asks and the target answers. It is the other way round.",
            ),
            Mistake(
                lambda x, c, Q, K, V, o: _cross(x, c, Q, K, V, ~o),
                "The mask is inside out: true means may attend.",
            ),
            Mistake(
                lambda x, c, Q, K, V, o: _cross(
                    x, c, Q, K, V, np.ones_like(o)
                ),
                "The mask is not used.",
            ),
            Mistake(
                _not_renormalized,
                "Shut words are taken out after the softmax, and the weights no longer sum to 1. Take them out before.",
            ),
            Mistake(
                lambda x, c, Q, K, V, o: attention(
                    x @ Q, c @ K, c @ V, mask=o[:, None]
                ),
                "The mask shuts queries. It belongs to the keys, the last axis of the scores.",
            ),
        ),
        cases=_cases,
        axes=("T", "D_v"),
    ),
    Exercise(
        "ex-cross-attention-tests",
        "break it",
        (4,),
        _seen,
        (
            Mistake(
                lambda: ("alter", "alter", "alter"),
                "Where one of the two comes from the source, the output moves when the source does. What should have stayed?",
            ),
            Mistake(
                lambda: ("reorder", "reorder", "reorder"),
                "In the first, nothing reads the source at all. Can its order matter then?",
            ),
            Mistake(
                lambda: ("both", "both", "both"),
                "Each bug is seen by one of the tests alone, which is why both are needed.",
            ),
        ),
        choices=("reorder", "alter", "both", "neither"),
    ),
)
