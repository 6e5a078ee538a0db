"""Exercises of the chapter *Cross-attention in a real translator*."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.head_scores import pattern_mass, uniform_mass
from attention_in_detail.models import SSRUParameters, ssru
from attention_in_detail.models.crossings import translation

__all__ = ["EXERCISES"]

# "white church" is written "igreja", "branca".
CHURCH = np.array([[1 / 4, 3 / 4], [1 / 2, 1 / 2]])
PAIRS = np.array([[0, 1], [1, 0]], dtype=bool)
PAIRS_BEFORE = np.array([[0, 0], [0, 1]], dtype=bool)
#: What the recurrent unit reads, and how much of its state it keeps.
READ, KEPT = (32.0, 0.0, -32.0, 64.0), 3 / 4
#: Probabilities of three pieces, with all heads and without one.
WHOLE, WITHOUT = (
    np.array([1 / 2, 1 / 4, 1 / 2]),
    np.array([1, 1, 1 / 4]) / 4,
)
DOGS = "The old man saw the dog, and the dog saw the old man."


def _four(pairs: Any = PAIRS, before: Any = PAIRS_BEFORE) -> Any:
    return np.array(
        [pattern_mass(CHURCH, P) for P in (pairs, before)]
        + [uniform_mass(P) for P in (pairs, before)]
    )


def _over_all() -> Any:
    """The pattern of the pairs before, divided by both queries."""
    found = _four()
    found[[1, 3]] /= 2
    return found


# ---- the recurrent unit ----


def _unit(kept: float = KEPT, scale: float = 1.0) -> Any:
    bias = math.log(kept / (1 - kept))
    unit = SSRUParameters(
        np.full((1, 1), scale), np.zeros((1, 1)), np.array([bias])
    )
    return ssru(unit, np.array(READ)[:, None])[0][:, 0]


def _carrying(cut_state: bool, cut_output: bool) -> Any:
    """The unit with the maximum at another place."""
    state, rows = 0.0, []
    for x in READ:
        state = KEPT * state + (1 - KEPT) * x
        state = max(0.0, state) if cut_state else state
        rows.append(max(0.0, state) if cut_output else state)
    return np.array(rows)


# ---- the pair before ----


def _before_cases() -> Iterator[Case]:
    rng = np.random.default_rng(13)
    for name, rows in (
        ("a pair in each row", [0, 2, 1, 3]),
        ("a piece that renders nothing", [1, None, 0, 2]),
        ("an end without a pair", [0, 3, 2, None]),
    ):
        P = np.zeros((4, 4), dtype=bool)
        for t, key in enumerate(rows):
            if key is not None:
                P[t, key] = True
        yield Case(name, (rng.dirichlet(np.ones(4), size=4), P))
    yield Case(
        "a piece that renders two pieces",
        (
            np.array([[0.2, 0.3, 0.5], [0.5, 0.2, 0.3], [0.1, 0.2, 0.7]]),
            np.array([[1, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=bool),
        ),
    )


def _before(A: Any, P: Any) -> Any:
    return pattern_mass(A[1:], P[:-1])


def _rolled(A: Any, P: Any) -> Any:
    return pattern_mass(A, np.roll(P, 1, axis=0))


def _after(A: Any, P: Any) -> Any:
    return pattern_mass(A[:-1], P[1:])


def _key_before(A: Any, P: Any) -> Any:
    return pattern_mass(A[:, :-1], P[:, 1:])


def _over_rows(A: Any, P: Any) -> Any:
    return (A[1:] * P[:-1]).sum() / len(A)


def _over_pairs(A: Any, P: Any) -> Any:
    return (A[1:] * P[:-1]).sum() / P[:-1].sum()


def _largest(A: Any, P: Any) -> Any:
    """One key for each row: of several pairs the one with the largest weight."""
    asked = P[:-1].any(axis=1)
    return (A[1:] * P[:-1]).max(axis=1)[asked].mean()


def _last(A: Any, P: Any) -> Any:
    """One key for each row: of several pairs the last."""
    rows = np.flatnonzero(P[:-1].any(axis=1))
    keys = P.shape[1] - 1 - P[rows, ::-1].argmax(axis=1)
    return A[rows + 1, keys].mean()


# ---- the same words twice ----


def _dogs(layer: int = 1, heads: Any = 0, later: int = 0) -> Any:
    found = translation(DOGS)
    rows = [t for t, piece in enumerate(found.target) if piece == "▁cão"]
    keys = [s for s, piece in enumerate(found.source) if piece == "▁dog"]
    weights = found.weights[layer, heads]
    if weights.ndim == 3:
        weights = weights.mean(0)
    return weights[np.ix_([t + later for t in rows], keys)]


# ---- a head turned ----


def _turn_cases() -> Iterator[Case]:
    yield Case("the first of two heads", (2, 3, 4, 0, 1, 2))
    yield Case("the last of three heads", (3, 2, 5, 2, 1, 4))


def _turned(h: int, T: int, S: int, head: int, t: int, s: int) -> Any:
    mask = np.ones((h, T, S), dtype=int)
    mask[head, t] = 0
    mask[head, t, s] = 1
    return mask


def _turned_all_heads(*numbers: int) -> Any:
    h, T, S, _, t, s = numbers
    mask = np.ones((h, T, S), dtype=int)
    mask[:, t] = 0
    mask[:, t, s] = 1
    return mask


def _turned_all_places(*numbers: int) -> Any:
    h, T, S, head, _, s = numbers
    mask = np.ones((h, T, S), dtype=int)
    mask[head] = 0
    mask[head, :, s] = 1
    return mask


def _alone(h: int, T: int, S: int, head: int, t: int, s: int) -> Any:
    mask = np.zeros((h, T, S), dtype=int)
    mask[head, t, s] = 1
    return mask


def _shut_pair(*numbers: int) -> Any:
    return 1 - _alone(*numbers)


EXERCISES = (
    Exercise(
        "ex-translator-hand",
        "by hand",
        (1, 2),
        2,
        _four,
        (
            Mistake(
                lambda: _four(np.eye(2, dtype=bool), np.eye(2, k=-1) > 0),
                "Here the first piece written renders the first piece read. "
                "The two languages put these words in opposite orders.",
            ),
            Mistake(
                _over_all,
                "The first piece has nothing before it, so its row is empty. The mean runs over the queries that are asked.",
            ),
            Mistake(
                lambda: _four(before=PAIRS[::-1]),
                "The row of the first piece is to be empty in the second pattern: nothing was written before it.",
            ),
        ),
        axes=("answer",),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-translator-unit",
        "by hand",
        (1,),
        2,
        _unit,
        (
            Mistake(
                lambda: _unit(kept=1 - KEPT),
                "The shares are exchanged: f of the old state is kept, the rest comes from the new row.",
            ),
            Mistake(
                lambda: _carrying(cut_state=True, cut_output=True),
                "Right, but for the last. What is carried on is the state, not the output: a negative state is not forgotten.",
            ),
            Mistake(
                lambda: _carrying(cut_state=False, cut_output=False),
                "These are the states. The output is what the maximum with 0 leaves of them.",
            ),
            Mistake(
                lambda: _unit(scale=1 / (1 - KEPT)),
                "The new row comes in whole. It gets the share that the old state does not keep.",
            ),
        ),
        axes=("output",),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-translator-before",
        "implement",
        (2,),
        2,
        _before,
        (
            Mistake(
                pattern_mass,
                "That is the mass on the pair itself. The pattern is to move by one row.",
            ),
            Mistake(
                _after,
                "It moves the other way: this asks about the pair of the piece that comes next.",
            ),
            Mistake(
                _rolled,
                "The last row comes in again at the top: np.roll goes round in a circle. Before the first piece there is none.",
            ),
            Mistake(
                _key_before,
                "It moves along the source. The piece before is a row: the one written before.",
            ),
            Mistake(
                _over_rows,
                "It divides by all rows. Rows without a pair before, the first among them, are not asked.",
            ),
            Mistake(
                _over_pairs,
                "With a piece that renders two pieces it is too small: divide by the queries that are asked, not by the pairs.",
            ),
            Mistake(
                _largest,
                "With a piece that renders two pieces it takes the weight of one of them. Both are pairs: add them up.",
            ),
            Mistake(
                _last,
                "With a piece that renders two pieces it takes the weight of the last of them alone. Both are pairs.",
            ),
        ),
        cases=_before_cases,
    ),
    Exercise(
        "ex-translator-twice",
        "measure",
        (1,),
        1,
        _dogs,
        (
            Mistake(
                lambda: _dogs(layer=0),
                "That is the first head of the first layer. Layers are counted from 0 here, so L1 is the last one.",
            ),
            Mistake(
                lambda: _dogs(heads=slice(None)),
                "That is the mean over all heads of the layer. Take one of them.",
            ),
            Mistake(
                lambda: _dogs(later=1),
                "These rows belong to the pieces after. The row of a piece is the one from which it is written, "
                "not the one that has read it.",
            ),
            Mistake(
                lambda: _dogs(heads=1),
                "That is the second head of the layer. Heads are counted from 0.",
            ),
            Mistake(
                lambda: _dogs().T,
                "Rows and columns are exchanged: a row for each cão.",
            ),
        ),
        axes=("written", "read"),
        tolerance=5e-4,
    ),
    Exercise(
        "ex-translator-guided",
        "explain",
        (3,),
        2,
        lambda: ("no", "yes", "no", "no", "yes"),
        (
            Mistake(
                lambda: ("yes", "yes", "no", "no", "yes"),
                "Look at the first again. What was this head most likely trained to draw?",
            ),
            Mistake(
                lambda: ("no", "yes", "yes", "no", "yes"),
                "Look at the third again. What does the toolkit write there when nobody says anything?",
            ),
            Mistake(
                lambda: ("no", "no", "no", "no", "yes"),
                "Look at the second again. Of how many heads does the toolkit take the weights?",
            ),
            Mistake(
                lambda: ("no", "yes", "no", "no", "no"),
                "Look at the last again, and at what happens when the head with the best picture is silenced.",
            ),
        ),
        choices=("yes", "no"),
    ),
    Exercise(
        "ex-translator-drop",
        "by hand",
        (4,),
        1,
        lambda: np.log(WHOLE / WITHOUT).mean(),
        (
            Mistake(
                lambda: np.log(WHOLE / WITHOUT).sum(),
                "That is the sum over the pieces. The drop is their mean, so that long and short texts compare.",
            ),
            Mistake(
                lambda: np.log2(WHOLE / WITHOUT).mean(),
                "That is in bits: logarithms to base 2. Nats take the natural one.",
            ),
            Mistake(
                lambda: np.log(WHOLE.mean() / WITHOUT.mean()),
                "First the logarithms, then the mean: the mean of a logarithm is not the logarithm of the mean.",
            ),
            Mistake(
                lambda: (WHOLE - WITHOUT).mean(),
                "These are differences of probabilities. The drop is one of their logarithms.",
            ),
            Mistake(
                lambda: np.log(WITHOUT / WHOLE).mean(),
                "The sign: a head that is needed has a drop above 0.",
            ),
        ),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-translator-turn",
        "implement",
        (4,),
        1,
        _turned,
        (
            Mistake(
                _turned_all_heads,
                "All heads are turned. The others are to look where they like.",
            ),
            Mistake(
                _turned_all_places,
                "The head is turned at all places. At the others it is to look where it likes.",
            ),
            Mistake(
                _alone,
                "One pair is open, and all other rows are shut. A row without an open key gives zeros; leave them open.",
            ),
            Mistake(
                _shut_pair,
                "It shuts the one pair that is to be open. True means: may attend.",
            ),
        ),
        cases=_turn_cases,
        axes=("h", "T", "S"),
    ),
    Exercise("ex-translator-turned", "prove", (4,), 2),
)
