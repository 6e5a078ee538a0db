"""Exercises of the chapter *Cross-attention*."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
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
    scores,
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


# What each of the two words is to get of the row, at least.
SHARE = 0.48


def _strength(share: float = SHARE) -> int:
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
    # Three widths that differ. The tables are of one size: whoever takes one for the other is to be told so, and not stopped.
    x, context = rng.standard_normal((2, 5, 6))
    W = [rng.standard_normal((6, width)) for width in (2, 2, 8)]
    some = np.array([True, False, True, True, False])
    yield Case("widths that all differ", (x, context, *W, some))
    yield Case("no word open", (x, context, *W, np.zeros(5, dtype=bool)))
    x = np.array([[40.0, 1], [40, -1], [40, 2]])
    context = np.array([[0.0, 1], [0, 2], [30, 1]])
    W = [np.eye(2), np.eye(2), np.array([[1.0, 0, 2], [0, 1, 1]])]
    two = np.array([True, True, False])
    name = "a shut word whose score is far above those of the open ones"
    yield Case(name, (x, context, *W, two))


def _cross(x: Any, c: Any, W_Q: Any, W_K: Any, W_V: Any, o: Any) -> Any:
    return attention(x @ W_Q, c @ W_K, c @ W_V, mask=o)


def _not_renormalized(
    x: Any, c: Any, W_Q: Any, W_K: Any, W_V: Any, o: Any
) -> Any:
    return attention_weights(x @ W_Q, c @ W_K) * o @ (c @ W_V)


def _cross_with(scale: Callable[..., float]) -> Callable[..., Any]:
    """The same with another scale, from the tables and the matrices."""

    def cross(x: Any, c: Any, W_Q: Any, W_K: Any, W_V: Any, o: Any) -> Any:
        return attention(
            x @ W_Q, c @ W_K, c @ W_V, mask=o, scale=scale(x, W_Q, W_V)
        )

    return cross


def _cross_by(
    shut: Callable[[Any, Any], Any], after: Callable[[Any, Any], Any]
) -> Callable[..., Any]:
    """The same by a plain softmax, with something done to the scores before it and to the exponentials after it."""

    def cross(x: Any, c: Any, W_Q: Any, W_K: Any, W_V: Any, o: Any) -> Any:
        z = shut(scores(x @ W_Q, c @ W_K), o)
        with np.errstate(all="ignore"):
            e = after(np.exp(z - z.max(-1, keepdims=True)), o)
            return e / e.sum(-1, keepdims=True) @ (c @ W_V)

    return cross


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


def _exchanged() -> list[str]:
    other = {"alter": "reorder", "reorder": "alter"}
    return [other[word] for word in _seen()]


def _seen_with(word: str, *places: int) -> list[str]:
    """What each test sees, with this word at some places (counted from 0)."""
    return [word if n in places else one for n, one in enumerate(_seen())]


EXERCISES = (
    Exercise(
        "ex-cross-attention-hand",
        "by hand",
        (2, 3),
        2,
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
                lambda: _masked() * [[0], [1]],
                "A score of 0 is not a weight of 0: e^0 = 1 for each open key. *de* is right.",
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
        3,
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
            Mistake(
                lambda: math.log2(SHARE / (1 - 2 * SHARE)),
                "There the weight is exactly 0.48. Asked for is a whole number.",
            ),
            Mistake(
                lambda: SHARE / (1 - 2 * SHARE),
                "That is the power of 2 at which the weight is exactly 0.48. Asked for is the exponent n, a whole number.",
            ),
            Mistake(
                lambda: 2 ** _strength(),
                "That is the power of 2. Asked for is its exponent n.",
            ),
            Mistake(
                lambda: _strength() * math.sqrt(3) * math.log(2),
                "Leave the unit out: asked for is how many units there are.",
            ),
        ),
        tolerance=1e-3,
    ),
    Exercise("ex-cross-attention-after", "prove", (3,), 2),
    Exercise(
        "ex-cross-attention-own",
        "implement",
        (1, 3),
        2,
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
                    x @ Q, x @ K, c @ V, mask=o
                ),
                "The keys come from the target. Weights and values must belong to the same sequence.",
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
            Mistake(
                _cross_with(lambda x, Q, V: 1.0),
                "The scores are not divided by the root of D_h, the width of the queries and keys of the head.",
            ),
            Mistake(
                _cross_with(lambda x, Q, V: 1 / Q.shape[1]),
                "The scores are divided by D_h. Divide by the root of it: only then does the width not change their spread.",
            ),
            Mistake(
                _cross_with(lambda x, Q, V: x.shape[1] ** -0.5),
                "The scores are divided by the root of the width of a table, before the projections. "
                "What counts is the width of the queries and keys of the head.",
            ),
            Mistake(
                _cross_with(lambda x, Q, V: V.shape[1] ** -0.5),
                "The scores are divided by the root of the width of the values. "
                "What counts is the width of the queries and keys of the head.",
            ),
            Mistake(
                _cross_by(
                    lambda z, o: np.where(o, z, -1e9), lambda e, o: e
                ),
                "The score of a shut word is low, and finite. Where all words are shut, all scores are alike again, "
                "and each word gets a share. Only a score of minus infinity is a weight of 0.",
            ),
            Mistake(
                _cross_by(lambda z, o: z, lambda e, o: e * o),
                "Shut words are taken out after the softmax. Where one of them has by far the largest score, the weights of "
                "the open ones are rounded to 0, and 0/0 is left. Take them out before.",
            ),
            Mistake(
                _cross_by(
                    lambda z, o: np.where(o, z, -np.inf), lambda e, o: e
                ),
                "Right as long as a word is open. If none is, the largest score is minus infinity, "
                "and that minus itself is no number.",
            ),
        ),
        cases=_cases,
        axes=("T", "D_v"),
    ),
    Exercise(
        "ex-cross-attention-tests",
        "break it",
        (4,),
        1,
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
            Mistake(
                _exchanged,
                "These are the tests that each bug passes. Asked for is the one that fails, and so sees it.",
            ),
            *(
                Mistake(
                    functools.partial(_seen_with, "both", *places),
                    f"Look at the {which} again. The output moves when the source is altered, as it should: that test passes.",
                )
                for which, *places in (
                    ("second", 1),
                    ("third", 2),
                    ("second and the third", 1, 2),
                )
            ),
        ),
        choices=("reorder", "alter", "both", "neither"),
    ),
)
