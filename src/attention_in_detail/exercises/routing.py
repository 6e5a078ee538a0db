"""Exercises of the chapter *Routing*."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.masks import causal_mask
from attention_in_detail.multi_head import (
    MultiHeadParameters,
    self_attention,
)

__all__ = ["EXERCISES", "FIRST", "SECOND"]

# ---- the example by hand ----

A = np.array([[1 / 2, 1 / 2], [1 / 4, 3 / 4]])
X = np.array([[1.0, 3], [5, 3]])
W_V, W_O = np.array([1.0, 0]), np.array([1.0, 1])


def _writes(weights: Any = A, value: Any = W_V, output: Any = W_O) -> Any:
    return weights @ X @ np.outer(value, output)


# ---- the circuits of a head ----


def _circuit_cases() -> Iterator[Case]:
    rng = np.random.default_rng(22)
    for name, D, heads, i in (
        ("one head", 4, 1, 0),
        ("the first of two heads", 4, 2, 0),
        ("the second of three heads", 6, 3, 1),
    ):
        yield Case(name, (*rng.standard_normal((4, D, D)), heads, i))
    D, wide = 5, 6
    yield Case(
        "two heads of width 3 on rows of width 5",
        (
            *rng.standard_normal((3, D, wide)),
            rng.standard_normal((wide, D)),
            2,
            1,
        ),
    )


def _circuits(
    W_Q: Any, W_K: Any, W_V: Any, W_O: Any, heads: int, i: int
) -> Any:
    D_h = W_Q.shape[1] // heads
    own = slice(i * D_h, (i + 1) * D_h)
    return np.stack([W_Q[:, own] @ W_K[:, own].T, W_V[:, own] @ W_O[own]])


def _of_all_heads(*given: Any) -> Any:
    return _circuits(*given[:4], 1, 0)


def _head_before(*given: Any) -> Any:
    *rest, i = given
    return _circuits(*rest, (i - 1) % rest[-1])


def _keys_ask(W_Q: Any, W_K: Any, *rest: Any) -> Any:
    return _circuits(W_K, W_Q, *rest)


def _scaled(W_Q: Any, *rest: Any) -> Any:
    D_h = W_Q.shape[1] // rest[-2]
    return _circuits(W_Q / np.sqrt(D_h), *rest)


def _in_turns(
    W_Q: Any, W_K: Any, W_V: Any, W_O: Any, heads: int, i: int
) -> Any:
    """The heads' columns and rows taken in turns, not side by side."""
    own = slice(i, None, heads)
    return np.stack([W_Q[:, own] @ W_K[:, own].T, W_V[:, own] @ W_O[own]])


def _width_of_rows(
    W_Q: Any, W_K: Any, W_V: Any, W_O: Any, heads: int, i: int
) -> Any:
    D_h = len(W_Q) // heads
    own = slice(i * D_h, (i + 1) * D_h)
    return np.stack([W_Q[:, own] @ W_K[:, own].T, W_V[:, own] @ W_O[own]])


# ---- the network by hand ----

_WORD, _PLACE, _NOTE = np.eye(10)[:3], np.eye(10)[3:7], np.eye(10)[7:]
_EMPTY = np.zeros((1, 10))
FIRST = MultiHeadParameters(
    W_Q=80 * _PLACE.T @ (_PLACE[[0, 0, 1, 2]] @ _PLACE.T),
    W_K=1.0 * _PLACE.T,
    W_V=1.0 * np.concatenate([_WORD, _EMPTY]).T,
    W_O=1.0 * np.concatenate([_NOTE, _EMPTY]),
    heads=1,
)
SECOND = MultiHeadParameters(
    W_Q=80 * _WORD.T,
    W_K=1.0 * _NOTE.T,
    W_V=1.0 * _WORD.T,
    W_O=np.eye(3),
    heads=1,
)
CABA, ABCA = (2, 0, 1, 0), (0, 1, 2, 0)


def _answers(
    tokens: tuple[int, ...], first: MultiHeadParameters | None = FIRST
) -> Any:
    """The logits after the last token; None for the first layer: it writes nothing."""
    rows = _WORD[list(tokens)] + _PLACE
    mask = causal_mask(4)
    if first is not None:
        rows = rows + self_attention(first, rows, mask=mask)
    return self_attention(SECOND, rows, mask=mask)[-1]


def _twins(*silent: int) -> MultiHeadParameters:
    """The first layer with its head twice, each at half strength."""
    side_by_side = (
        np.concatenate([W, W], axis=1)
        for W in (FIRST.W_Q, FIRST.W_K, FIRST.W_V)
    )
    assert FIRST.W_O is not None
    strength = np.array([[[0.0 if i in silent else 0.5]] for i in (0, 1)])
    W_O = (strength * FIRST.W_O).reshape(-1, 10)
    return MultiHeadParameters(*side_by_side, W_O, heads=2)


def _silenced(token: int = 1) -> Any:
    return np.array(
        [
            _answers(CABA, _twins(*silent))[token]
            for silent in ((), (0,), (1,), (0, 1))
        ]
    )


# ---- what changes nothing ----


def _kept() -> list[str]:
    """Which changes of a head's matrices leave its output as it was."""
    rng = np.random.default_rng(5)
    p = MultiHeadParameters.init(6, 1, bias=False, seed=5)
    x, order = rng.standard_normal((4, 6)), rng.permutation(6)
    R, _ = np.linalg.qr(rng.standard_normal((6, 6)))
    assert p.W_O is not None
    changed = (
        (2 * p.W_Q, p.W_K / 2, p.W_V, p.W_O),
        (2 * p.W_Q, p.W_K, p.W_V / 2, p.W_O),
        (p.W_Q, p.W_K, p.W_V[:, order], p.W_O[order]),
        (p.W_Q, p.W_K, p.W_V[:, order], p.W_O[:, order]),
        (p.W_Q, p.W_K, p.W_V @ R, R.T @ p.W_O),
    )
    before = self_attention(p, x)
    return [
        "same"
        if np.allclose(
            before, self_attention(MultiHeadParameters(*four, heads=1), x)
        )
        else "other"
        for four in changed
    ]


def _kept_but(*wrong: int) -> Callable[[], list[str]]:
    """The right words, with those at these places turned round."""
    turned = {"same": "other", "other": "same"}

    def words() -> list[str]:
        return [
            turned[word] if n in wrong else word
            for n, word in enumerate(_kept())
        ]

    return words


EXERCISES = (
    Exercise(
        "ex-routing-hand",
        "by hand",
        (1,),
        1,
        _writes,
        (
            Mistake(
                lambda: _writes(weights=np.eye(2)),
                "That is what each token says by itself. The weights have not mixed the rows yet.",
            ),
            Mistake(
                lambda: _writes(weights=A.T),
                "The weights are transposed: a row of A says where one token takes its mixture from.",
            ),
            Mistake(
                lambda: _writes(value=W_O, output=W_V),
                "W_V and W_O traded places. The head reads with W_V and writes with W_O: "
                "OV has a row for each coordinate that is read.",
            ),
            Mistake(
                lambda: _writes(output=W_V),
                "You wrote to the coordinate that was read. W_O = (1, 1) writes to both.",
            ),
            Mistake(
                lambda: _writes(value=W_V[::-1]),
                "The head reads the other coordinate: look at where W_V has its 1.",
            ),
        ),
        axes=("token", "coordinate"),
    ),
    Exercise(
        "ex-routing-circuits",
        "implement",
        (1,),
        2,
        _circuits,
        (
            Mistake(
                _of_all_heads,
                "Right for one head. With several, take the columns and rows of one head only; yours are the sums over all.",
            ),
            Mistake(
                _head_before,
                "That is the head before. Heads are counted from 0 here.",
            ),
            Mistake(
                _keys_ask,
                "QK is transposed: the query stands on the left.",
            ),
            Mistake(
                _scaled,
                "QK is divided by the root of D_h. The root belongs to the scores, not to the circuit.",
            ),
            Mistake(
                _in_turns,
                "It takes every h-th column and row. The columns of a head are neighbours, and so are its rows of W_O.",
            ),
            Mistake(
                _width_of_rows,
                "The width of a head was taken from D. Take it from the axis on which the heads stand side by side.",
            ),
        ),
        cases=_circuit_cases,
        axes=("QK or OV", "D", "D"),
    ),
    Exercise(
        "ex-routing-same",
        "break it",
        (2,),
        2,
        _kept,
        (
            Mistake(
                _kept_but(1),
                "Look at the second again. The scores are twice as large, and a softmax notices.",
            ),
            Mistake(
                _kept_but(2),
                "Look at the third again. In a product, the columns on the left meet the rows on the right.",
            ),
            Mistake(
                _kept_but(3),
                "Look at the fourth again. Columns of W_O are coordinates of the output.",
            ),
            Mistake(
                _kept_but(4),
                "Look at the last again. What is the inverse of an orthogonal matrix?",
            ),
        ),
        choices=("same", "other"),
    ),
    Exercise(
        "ex-routing-first",
        "break it",
        (3,),
        2,
        lambda: _answers(ABCA),
        (
            Mistake(
                lambda: _answers(CABA),
                "That is what the rule asks for. What does the network do? Write down the notes, that of the first place too.",
            ),
            Mistake(
                lambda: _WORD[0, :3],
                "The last token finds the first place, and not only that one. Whose note fits as well?",
            ),
            Mistake(
                lambda: _answers(ABCA, None),
                "That is an even mixture of all four tokens, as if no note fitted.",
            ),
        ),
        axes=("token",),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-routing-silence",
        "measure",
        (3,),
        2,
        _silenced,
        (
            Mistake(
                lambda: _silenced()[0] * np.array([1, 1 / 2, 1 / 2, 0]),
                "Half the note is not half the answer: between them stands a softmax. Run it.",
            ),
            Mistake(
                lambda: _silenced() * np.array([1, 1, 1, 0]),
                "The first three are right. With no note at all the weights are even, not zero: a row sums to 1 in any case.",
            ),
            Mistake(
                lambda: _silenced(token=0),
                "These are the logits of another token. The columns are a, b, c.",
            ),
        ),
        axes=("silenced",),
        tolerance=1e-3,
        remark="One head at a time would tell that neither matters.",
    ),
    Exercise(
        "ex-routing-proof",
        "explain",
        (4,),
        3,
        lambda: ("yes", "no", "yes", "no", "no", "yes"),
        (
            Mistake(
                lambda: ("no", "no", "yes", "no", "no", "yes"),
                "Look at the first again. Where does the proof use how wide the head is?",
            ),
            Mistake(
                lambda: ("yes", "no", "no", "no", "no", "yes"),
                "Look at the third again. On what may the score of a key depend in the proof?",
            ),
            Mistake(
                lambda: ("yes", "no", "yes", "yes", "no", "yes"),
                "Look at the fourth again. On how many tokens does the score of a key depend there?",
            ),
            Mistake(
                lambda: ("yes", "no", "yes", "no", "yes", "yes"),
                "Look at the fifth again. Multiply by the row sum: is what you get still a sum over the keys?",
            ),
            Mistake(
                lambda: ("yes", "no", "yes", "no", "no", "no"),
                "Look at the last again. What does a causal mask shut in the row of the last token?",
            ),
        ),
        choices=("yes", "no"),
    ),
    Exercise("ex-routing-virtual", "prove", (1,), 3),
)
