"""Exercises of the chapter *Shared projections*."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.insights.shared_projections import (
    SharedProjections,
    directions_for,
    fit_shared,
    own_projections,
    relative_error,
)

__all__ = ["EXERCISES"]

# ---- numbers to store ----

D, HEADS, ASKED = 64, 8, 16


def _count(K: int, *, projections: int = 2, mixing: bool = True) -> int:
    A = np.empty((D, K))
    m = np.empty((HEADS if mixing else 0, K))
    B = A if projections == 2 else A[:0]
    return SharedProjections(A, B, m).count


def _counts(plain: int = 2 * D * D, **options: Any) -> Any:
    """The largest K that needs fewer numbers than plain heads, and the numbers of 16 directions."""
    K = (plain - 1) // _count(1, **options)
    return np.array([K, _count(ASKED, **options)])


# ---- scores ----


def _scores(
    X: Any, Y: Any, A: Any, B: Any, m: Any, width: Any, power: int = 1
) -> Any:
    products = SharedProjections(A, B, m**power).products()
    return X @ products @ Y.T / np.sqrt(width)


def _score_cases() -> Iterator[Case]:
    rng = np.random.default_rng(24)
    for name, T, S, K, h, D_h in (
        ("two heads that share three directions", 4, 4, 3, 2, 2),
        ("more keys than queries", 2, 5, 4, 3, 5),
        ("a single head", 3, 2, 2, 1, 4),
    ):
        X, Y = rng.standard_normal((T, 6)), rng.standard_normal((S, 6))
        A, B = rng.standard_normal((2, 6, K))
        yield Case(name, (X, Y, A, B, rng.standard_normal((h, K)), D_h))


# ---- where a fit begins ----

FIRST, SECOND = np.eye(2)[:, :1], np.eye(2)[:, 1:]
PRODUCTS = np.stack([3 * FIRST @ FIRST.T, 4 * SECOND @ SECOND.T])
STARTS = (FIRST, SECOND, FIRST + SECOND)


def _errors(rounds: int = 30) -> list[float]:
    return [
        relative_error(
            fit_shared(
                PRODUCTS,
                SharedProjections(start, start, np.ones((2, 1))),
                rounds=rounds,
            ),
            PRODUCTS,
        )
        for start in STARTS
    ]


def _own() -> float:
    return relative_error(own_projections(PRODUCTS, 2), PRODUCTS)


def _starts(rounds: int = 30) -> Any:
    return np.array([*_errors(rounds), _own()])


# ---- energies ----


def _shares(power: int = 2) -> Any:
    two, turned = np.diag([2.0, 1.0]), np.diag([1.0, 2.0])
    found = []
    for M in (two, two @ two.T, two @ turned.T):
        s = np.linalg.svd(M, compute_uv=False) ** power
        found.append(s[0] / s.sum())
    return np.array(found)


# ---- a rotation between the two ----


def _by_sum(x: Any) -> int:
    s = np.cumsum(np.linalg.svd(x, compute_uv=False))
    return int(np.sum(s < 0.9 * s[-1])) + 1


def _rotations(
    count: Any = directions_for, *, outside: bool = False
) -> Any:
    rng = np.random.default_rng(0)
    W_Q, W_K = rng.standard_normal((2, D, D))
    R = np.linalg.qr(rng.standard_normal((D, D)))[0]
    found = []
    for keys in (W_K, W_Q):
        rotated = R @ W_Q @ keys.T if outside else W_Q @ R @ keys.T
        found += [count(W_Q @ keys.T), count(rotated)]
    return np.array(found)


EXERCISES = (
    Exercise(
        "ex-shared-count",
        "by hand",
        (1,),
        1,
        _counts,
        (
            Mistake(
                lambda: _counts(mixing=False),
                "The mixing vectors are missing: each head has one, with an entry for each direction.",
            ),
            Mistake(
                lambda: np.array(
                    [_counts()[0], _count(ASKED, mixing=False)]
                ),
                "The first is right. In the second the mixing vectors are missing: each head has one, with an entry for each "
                "direction.",
            ),
            Mistake(
                lambda: np.array([D, _count(ASKED, mixing=False)]),
                "The mixing vectors are missing, and as many numbers are not fewer.",
            ),
            Mistake(
                lambda: _counts() - np.array([1, 0]),
                "Near. K is a whole number: compare both counts at your K and at the next one.",
            ),
            Mistake(
                lambda: _counts() + np.array([1, 0]),
                "Near. K is a whole number: compare both counts at your K and at the one before.",
            ),
            Mistake(
                lambda: np.array([2 * D * D / _count(1), _count(ASKED)]),
                "Near. K is a whole number: compare both counts at the two next to yours.",
            ),
            *(
                Mistake(
                    lambda n=n: np.array(
                        [round(2 * D * D / _count(1), n), _count(ASKED)]
                    ),
                    f"Near. K is a whole number, with {digits} after the point: compare both counts at the two next to yours.",
                )
                for n, digits in (
                    (1, "not one digit"),
                    (2, "not two digits"),
                    (3, "not three digits"),
                )
            ),
            Mistake(
                lambda: np.array(
                    [_counts()[0], _count(ASKED) / (2 * D * D)]
                ),
                "The second is the share of the plain ones. The answer is the number itself.",
            ),
            Mistake(
                lambda: np.array(
                    [_counts()[0], round(_count(ASKED) / (2 * D * D), 4)]
                ),
                "That is the share, rounded. The answer is the number itself.",
            ),
            Mistake(
                lambda: _counts(projections=1),
                "That is one projection and the mixing. Queries and keys have one each.",
            ),
            Mistake(
                lambda: _counts(plain=D * D),
                "Right for the second. But plain heads have two matrices for their scores: that of the queries and that of the "
                "keys.",
            ),
            Mistake(
                lambda: _counts(plain=2 * D * D * HEADS),
                "Right for the second. But the blocks of all plain heads, side by side, are one matrix with as many columns as "
                "rows, not one for each head.",
            ),
        ),
        axes=("question",),
    ),
    Exercise(
        "ex-shared-scores",
        "implement",
        (1,),
        2,
        _scores,
        (
            Mistake(
                lambda X, Y, A, B, m, D_h: _scores(
                    X, Y, A, B, m, m.shape[1]
                ),
                "Divided by the root of K, the shared width. The root is that of the heads' own width: K only says how the "
                "scores are written.",
            ),
            Mistake(
                lambda X, Y, A, B, m, D_h: _scores(X, Y, A, B, m, 1),
                "Not divided by the root of the heads' width.",
            ),
            Mistake(
                lambda X, Y, A, B, m, D_h: _scores(X, Y, A, B, m, D_h, 2),
                "The mixing vector was taken twice, for the queries and for the keys. It stands between the two, once.",
            ),
            Mistake(
                lambda X, Y, A, B, m, D_h: _scores(X, Y, A, B, m, D_h, 0),
                "Each head has the same scores: its mixing vector is missing.",
            ),
            Mistake(
                lambda X, Y, A, B, m, D_h: _scores(X, Y, A, B, m, D_h).sum(
                    0
                ),
                "The heads were added up. Each has scores of its own, so the heads are the first axis.",
            ),
        ),
        cases=_score_cases,
        axes=("h", "T", "S"),
    ),
    Exercise(
        "ex-shared-start",
        "measure",
        (2,),
        2,
        _starts,
        (
            Mistake(
                lambda: _starts() ** 2,
                "These are the squares: the error has a root.",
            ),
            Mistake(
                lambda: _starts() * np.linalg.norm(PRODUCTS),
                "Divide by the size of the products, so that an error of 1 means that nothing is left.",
            ),
            Mistake(
                lambda: _starts(0),
                "These are the errors of the starts, before any round of the fit.",
            ),
            Mistake(
                lambda: np.array([*_errors()[:2], _errors()[0], _own()]),
                "The third start has some of both directions. To which of them does the fit turn, the weaker or the stronger?",
            ),
            Mistake(
                lambda: np.array([*[_errors()[1]] * 3, _own()]),
                "So the best fit would have it. Look at the first start again: what do the equations of a round give there?",
            ),
        ),
        axes=("fit",),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-shared-energy",
        "by hand",
        (3,),
        1,
        _shares,
        (
            Mistake(
                lambda: _shares(1),
                "These are shares of the sum of the singular values. The energy has their squares.",
            ),
            Mistake(
                lambda: _shares()[[0, 0, 0]],
                "A product has other singular values than its factors. Multiply the matrices out first.",
            ),
            Mistake(
                lambda: _shares()[[0, 1, 1]],
                "Look at the third again: what meets in the product, the strong direction of one and which of the other?",
            ),
            Mistake(
                lambda: np.array([*_shares()[:2], 1 / (1 + 4)]),
                "Look at the third again: multiply the two diagonals entry by entry.",
            ),
        ),
        axes=("matrix",),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-shared-rotation",
        "measure",
        (3,),
        2,
        _rotations,
        (
            Mistake(
                lambda: _rotations(outside=True),
                "The rotation stands outside of the product. That turns the whole and leaves its singular values as they are, "
                "so it can show nothing. It belongs between the two.",
            ),
            Mistake(
                lambda: _rotations(_by_sum),
                "The singular values were summed up as they are. The energy has their squares.",
            ),
            Mistake(
                lambda: _rotations()[[0, 1, 0, 1]],
                "The last two belong to keys with the matrix of the queries; these are those of the first two once more.",
            ),
            Mistake(
                lambda: _rotations()[[1, 0, 3, 2]],
                "Without and with the rotation are exchanged.",
            ),
        ),
        axes=("product",),
    ),
    Exercise("ex-shared-rank", "prove", (3,), 2),
)
