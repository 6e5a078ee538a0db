"""Exercises of the chapter *Rank collapse*."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.insights.rank_collapse import (
    draw_layer,
    log_relative_residual,
    relative_residual,
    residuals,
    split_attention,
    split_rows,
)
from attention_in_detail.masks import causal_mask, window_mask
from attention_in_detail.multi_head import self_attention
from attention_in_detail.parameters import MultiHeadParameters

__all__ = ["EXERCISES", "START"]

# The example by hand, and the rows and layers that the chapter begins with.
SECOND = np.diag([0.0, 1.0])
BY_HAND = MultiHeadParameters(
    np.sqrt(2) * SECOND, SECOND, np.eye(2), np.eye(2), heads=1
)
START = np.random.default_rng(0).standard_normal((32, 64))
GAINS = np.array([2.0, 3.0])  # the w of the first exercise


def _pair(r: float) -> Any:
    return np.array([[1.0, r], [1.0, -r]])


def _log(x: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.log10(x)


# ---- the exponents of the bound ----

LAYERS = np.arange(1, 4)
FACTOR, SPREAD = 2.0, -3.0  # powers of ten: 4 beta, and the first spread


def _bound(tripled: Any, *, counted: float = 0.5) -> Any:
    return counted * FACTOR * (tripled - 1) + SPREAD * tripled


# ---- the measure ----


def _measure_cases() -> Iterator[Case]:
    rng = np.random.default_rng(27)
    x = rng.standard_normal((5, 3))
    yield Case("random rows", (x,))
    yield Case("rows that are nearly alike", (10 + 1e-6 * x,))
    yield Case("tiny numbers", (1e-200 * x,))
    least = np.array([[0.0, -1.0], [-1.0, -3.0]])
    yield Case("entries of which none is above 0", (least,))


def _plain(x: Any, *, axis: int = 0, power: float = 1.0) -> Any:
    """The quotient with a plain norm, whose squares may vanish."""
    with np.errstate(all="ignore"):
        residual = x - x.mean(axis, keepdims=True)
        return (np.linalg.norm(residual) / np.linalg.norm(x)) ** power


def _scaled(x: Any, **options: Any) -> Any:
    return _plain(x / np.abs(x).max(), **options)


def _by_the_largest(x: Any) -> Any:
    """Scaled by the largest entry, which may be 0, and not by the largest in size."""
    with np.errstate(all="ignore"):
        return _plain(x / x.max())


def _against_the_mean(x: Any) -> Any:
    x = x / np.abs(x).max()
    mean, residual = split_rows(x)
    return np.linalg.norm(residual) / (
        np.linalg.norm(mean) * np.sqrt(len(x))
    )


# ---- followed ----

STEPS = 6


def _entry(mean: Any, residual: Any) -> Any:
    return residual[0, 1]


def _followed(read: Callable[[Any, Any], Any] = _entry) -> Any:
    mean, residual = split_rows(_pair(0.5))
    found = []
    for _ in range(STEPS):
        mean, residual = split_attention(BY_HAND, mean, residual)
        found.append(read(mean, residual))
    return np.array(found)


def _in_one_array(
    read: Callable[[Any], Any] = lambda x: x[0, 1],
) -> Any:
    x, found = _pair(0.5), []
    for _ in range(STEPS):
        x = self_attention(BY_HAND, x)
        found.append(read(x))
    return np.array(found)


def _cubed() -> Any:
    return 0.5 ** (3.0 ** np.arange(1, STEPS + 1))


# ---- one layer, with and without parts ----


def _kept(measure: Any = relative_residual) -> Any:
    """What a layer leaves of a very small difference: skip, causal mask, both."""
    x = _pair(1e-4)
    plain = self_attention(BY_HAND, x)
    masked = self_attention(BY_HAND, x, mask=causal_mask(2))
    return (
        np.array([measure(y) for y in (x + plain, masked, x + masked)])
        / measure(x)
    ).round(6)


def _residual(x: Any) -> Any:
    return np.linalg.norm(split_rows(x)[1])


def _half_masked() -> Any:
    """As if the second row saw the first alone."""
    x = _pair(1e-4)
    masked = x[[0, 0]]
    found = [
        relative_residual(y)
        for y in (x + self_attention(BY_HAND, x), masked, x + masked)
    ]
    return (np.array(found) / relative_residual(x)).round(6)


# ---- windows ----

NEIGHBOURS = (1, 2, 4, 8)


@cache
def _windows(
    *, both: bool = True, bare: bool = True, layer: int = 12
) -> Any:
    layers = [draw_layer(64, 4, seed=n) for n in range(12)]
    parts = dict.fromkeys(("skip", "norm", "feed"), not bare)
    found = []
    for n in NEIGHBOURS:
        mask = window_mask(32, before=n, after=n if both else 0)
        found.append(residuals(layers, START, **parts, mask=mask)[layer])
    return np.array(found)


EXERCISES = (
    Exercise(
        "ex-collapse-hand",
        "by hand",
        (2,),
        3,
        lambda: np.sqrt(np.arctanh(1 / GAINS)),
        (
            Mistake(
                lambda: np.arctanh(1 / GAINS),
                "That is the square of r: one root is left to take.",
            ),
            Mistake(
                lambda: 1 / np.sqrt(GAINS),
                "That takes tanh(t) for t. At the border r is not small, so keep the tanh.",
            ),
            Mistake(
                lambda: np.sqrt(np.log((GAINS + 1) / (GAINS - 1))),
                "Near, but a factor is missing under the root: (e^t − e^−t) / (e^t + e^−t) is a quotient in e to the power of "
                "t twice.",
            ),
            Mistake(
                lambda: np.sqrt(np.arctanh(1 / (2 * GAINS))),
                "W multiplies the difference once, by w. Where does the further factor come from?",
            ),
        ),
        axes=("answer",),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-collapse-bound",
        "by hand",
        (2,),
        1,
        lambda: _bound(3.0**LAYERS),
        (
            Mistake(
                lambda: SPREAD * 3.0**LAYERS,
                "The spread itself was cubed. What is cubed is its product with the root of 4β.",
            ),
            Mistake(
                lambda: (FACTOR / 2 + SPREAD) * 3.0**LAYERS,
                "These are the exponents of the root of 4β times the spread. Divide by that root at the end.",
            ),
            Mistake(
                lambda: _bound(3.0 * LAYERS),
                "The exponent grows by the same number in each layer here. It is to be multiplied by 3 in each.",
            ),
            Mistake(
                lambda: _bound(3.0**LAYERS, counted=1.0),
                "The exponent of 4β was not halved: the bound has its root.",
            ),
            Mistake(
                lambda: 10.0 ** _bound(3.0**LAYERS),
                "These are the spreads themselves. Asked for are the exponents.",
            ),
        ),
        axes=("answer",),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-collapse-measure",
        "implement",
        (1,),
        2,
        relative_residual,
        (
            Mistake(
                _plain,
                "Right but for tiny numbers, whose squares are 0 to the machine. A factor does not change the quotient: "
                "which factor brings X to an ordinary size?",
            ),
            Mistake(
                _by_the_largest,
                "Right where the largest entry is above 0. It may be 0, or far smaller in size than one below 0.",
            ),
            Mistake(
                lambda x: np.linalg.norm(x - x.mean(0)),
                "Not divided by the size of X: a stack that only shrinks its input would seem to collapse.",
            ),
            Mistake(
                lambda x: _scaled(x, axis=1),
                "The mean was taken in each row, along D. The mean row is a mean along T.",
            ),
            Mistake(
                lambda x: _plain(x, axis=1),
                "The mean was taken in each row, along D. The mean row is a mean along T. (And tiny numbers come to nothing "
                "when they are squared.)",
            ),
            Mistake(
                lambda x: _scaled(x, power=2.0),
                "That is the square: the roots of both sums of squares are missing.",
            ),
            Mistake(
                _against_the_mean,
                "It divides by the size of the part that all rows share. Divide by the size of X, all of it.",
            ),
        ),
        cases=_measure_cases,
        tolerance=1e-9,
    ),
    Exercise(
        "ex-collapse-follow",
        "measure",
        (1, 3),
        2,
        lambda: _log(_followed()),
        (
            Mistake(
                lambda: _log(_in_one_array()),
                "Followed in one array, r is lost to rounding: noise of either sign is left of it. Carry mean and residual "
                "apart.",
            ),
            Mistake(
                lambda: _log(_cubed()),
                "r was cubed in each layer. That is the limit for a small r; the first layer does something else with this "
                "one.",
            ),
            Mistake(
                lambda: np.log(_followed()),
                "These are natural logarithms. Asked for are powers of ten.",
            ),
            Mistake(
                lambda: _followed(),
                "These are the r themselves; most of them look like 0 beside the first. Asked for are their logarithms.",
            ),
            Mistake(
                lambda: _log(np.abs(_in_one_array())),
                "Followed in one array, r is lost to rounding: in the end the same noise stands in both rows. Carry mean and "
                "residual apart.",
            ),
            Mistake(
                lambda: _log(
                    np.abs(_in_one_array(lambda x: split_rows(x)[1][0, 1]))
                ),
                "Followed in one array, r is lost to rounding, and no split after a layer brings it back. Carry mean and "
                "residual apart from the start.",
            ),
            Mistake(
                lambda: _log(_in_one_array(relative_residual)),
                "Followed in one array, r is lost to rounding: carry mean and residual apart. And ρ is not r, which is an "
                "entry of the residual.",
            ),
            Mistake(
                lambda: _followed(log_relative_residual),
                "That is log10 of ρ. Asked for is r itself, an entry of the residual.",
            ),
        ),
        axes=("layer",),
        tolerance=1e-4,
    ),
    Exercise(
        "ex-collapse-window",
        "measure",
        (1, 4),
        1,
        lambda: _log(_windows()),
        (
            Mistake(
                lambda: _log(_windows(both=False)),
                "The windows reach to one side only. Each row sees n neighbours before it and n after it.",
            ),
            Mistake(
                lambda: _log(_windows(bare=False)),
                "These are whole encoder layers: skip connection, layer norm and network were left in.",
            ),
            Mistake(
                lambda: _log(_windows(layer=11)),
                "That is one layer too few: the list of the residuals begins with the input.",
            ),
            Mistake(
                _windows,
                "These are the residuals themselves. Asked for are their logarithms to the base of ten.",
            ),
            Mistake(
                lambda: np.log(_windows()),
                "These are natural logarithms. Asked for are powers of ten.",
            ),
        ),
        axes=("window",),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-collapse-parts",
        "by hand",
        (4,),
        2,
        _kept,
        (
            Mistake(
                lambda: _kept(_residual),
                "These are the factors of r alone. The relative residual divides by the size of the rows, and what they share "
                "changes too.",
            ),
            Mistake(
                _half_masked,
                "Under the causal mask the second row sees the first and itself, in equal shares.",
            ),
            Mistake(
                lambda: np.array([1.0, *_kept()[1:]]),
                "The skip connection keeps r as it is, and doubles something else.",
            ),
            Mistake(
                lambda: np.array([*_kept()[:2], _kept()[0] * _kept()[1]]),
                "The two factors cannot be multiplied: with both there is one layer, not one after the other.",
            ),
            Mistake(
                lambda: np.array([1 / np.sqrt(2), *_kept()[1:]]),
                "1/√2 holds for random weights, whose branch is nearly orthogonal to its input. Here W = I: what is added "
                "points the same way.",
            ),
        ),
        axes=("answer",),
        tolerance=1e-3,
    ),
    Exercise("ex-collapse-frozen", "prove", (2,), 3),
)
