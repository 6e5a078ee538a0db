"""Exercises of the chapter *Direction*."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.rows import softmax
from attention_in_detail.scaled_dot_product import (
    attention_weights,
    scores,
)

__all__ = ["EXERCISES", "TOKENS"]

# The three tokens of the hand example.
TOKENS = np.array([[1.0, 0], [0, 1], [1, 1]])
TURN = np.array([[0.0, 1], [-1, 0]])


def _turned(form: Any = TURN, unit: float = math.log(2)) -> Any:
    return softmax(unit * TOKENS @ form @ TOKENS.T)


def _unnormalized() -> Any:
    return np.exp2(TOKENS @ TURN @ TOKENS.T)


# ---- the share of direction ----


def _share_cases() -> Iterator[Case]:
    rng = np.random.default_rng(21)
    yield Case("three coordinates", tuple(rng.standard_normal((2, 3, 2))))
    W = rng.standard_normal((4, 2))
    yield Case("one projection for both", (W, W))
    yield Case("a wide head", tuple(rng.standard_normal((2, 4, 4))))


def _part_over(
    part: Callable[[Any], Any] = lambda M: (M - M.T) / 2,
    whole: Callable[[Any], Any] = lambda M: M,
    power: float = 1.0,
    inside: bool = False,
) -> Callable[..., Any]:
    def share(W_Q: Any, W_K: Any) -> Any:
        M = W_Q.T @ W_K if inside else W_Q @ W_K.T
        return ((part(M) ** 2).sum() / (whole(M) ** 2).sum()) ** power

    return share


# ---- how far scores must fall ----

LONG, TIMES = 18, 4


def _fall(
    rows: int = LONG - 2, log: Callable[[float], float] = math.log
) -> Any:
    return rows * log(TIMES)


# ---- a bias on one column ----


def _tied() -> tuple[Any, Any]:
    """The scores of a tied head on six tokens, and a bias on the third column."""
    six = np.random.default_rng(6).standard_normal((6, 8))
    W = np.random.default_rng(7).standard_normal((8, 4)) / 4
    bias = np.zeros((6, 6))
    bias[:, 2] = 1.5
    return scores(six @ W, six @ W), bias


def _shares_of(Z: Any) -> Any:
    R = np.exp(Z).sum(axis=-1)
    return R / R.sum()


def _balanced() -> Any:
    Z, bias = _tied()
    return _shares_of(Z + bias + bias.T)


def _one_sided() -> Any:
    Z, bias = _tied()
    return _shares_of(Z + bias)


def _column_means() -> Any:
    Z, bias = _tied()
    return softmax(Z + bias).mean(axis=0)


# ---- chance ----


@cache
def _drawn_shares() -> Any:
    of = _part_over()
    return np.array(
        [
            of(*np.random.default_rng(seed).standard_normal((2, 384, 32)))
            for seed in range(20)
        ]
    )


def _beside_chance(
    bound: Callable[[Any], Any] = np.min, below: bool = True
) -> Any:
    """A bound of drawn shares, and how many heads of MiniLM lie on one side of it."""
    from attention_in_detail.insights.results import experiment

    share = np.array(experiment("direction").more["minilm_heads"])
    limit = bound(_drawn_shares())
    return [limit, float((share < limit if below else share > limit).sum())]


EXERCISES = (
    Exercise(
        "ex-direction-hand",
        "by hand",
        (1,),
        1,
        _turned,
        (
            Mistake(
                lambda: _turned(TURN.T),
                "Every arrow is turned round: the token of the row is the one on the left of M.",
            ),
            Mistake(
                _unnormalized,
                "These are the exponentials. Divide each row by its sum.",
            ),
            Mistake(
                lambda: attention_weights(
                    math.log(2) * TOKENS @ TURN, TOKENS
                ),
                "You divided by the root of D_h. The products times ln 2 are the scores already.",
            ),
            Mistake(
                lambda: attention_weights(TOKENS @ TURN, TOKENS),
                "The score is the product times ln 2. You have the products divided by the root of 2, which is near it and "
                "not the same.",
            ),
            Mistake(
                lambda: _turned(unit=1.0),
                "The factor ln 2 is missing: with it all exponentials are powers of two.",
            ),
            Mistake(
                lambda: softmax(
                    math.log(2) * TOKENS @ TURN @ TOKENS.T, axis=-2
                ),
                "Each column sums to 1. The softmax runs along the keys, so each row does.",
            ),
        ),
        axes=("i", "j"),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-direction-share",
        "implement",
        (1,),
        1,
        _part_over(),
        (
            Mistake(
                _part_over(power=0.5),
                "That is the quotient of the two norms. The share takes their squares.",
            ),
            Mistake(
                _part_over(lambda M: (M + M.T) / 2),
                "That is the share of the symmetric part.",
            ),
            Mistake(
                _part_over(lambda M: M - M.T),
                "It is too large, and may pass 1: the skew part is half of the difference.",
            ),
            Mistake(
                _part_over(whole=lambda M: (M + M.T) / 2),
                "It compares the skew part with the symmetric one. A share is taken of the whole.",
            ),
            Mistake(
                _part_over(inside=True),
                "That matrix is (D_h, D_h): the sum ran over the coordinates of the tokens. "
                "The form compares two tokens, it is (D, D).",
            ),
        ),
        cases=_share_cases,
    ),
    Exercise(
        "ex-direction-fall",
        "by hand",
        (2, 3),
        1,
        _fall,
        (
            Mistake(
                lambda: _fall(1),
                "That is the step of a single row. Add up all the rows with a token before and one after.",
            ),
            Mistake(
                lambda: _fall(LONG),
                "The first and the last row do not take part: one has no token before it, the other none after it.",
            ),
            Mistake(
                lambda: _fall(LONG - 1),
                "One row too many. How many tokens have a neighbour on either side?",
            ),
            Mistake(
                lambda: _fall(log=math.log2),
                "Weights are exponentials to base e: take the natural logarithm.",
            ),
        ),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-direction-break",
        "break it",
        (2,),
        3,
        _balanced,
        (
            Mistake(
                lambda: _shares_of(_tied()[0]),
                "These are the shares without the bias.",
            ),
            Mistake(
                _one_sided,
                "The row sums of the biased scores. Those scores are not symmetric: make them so first, "
                "by something that changes no weight.",
            ),
            Mistake(
                _column_means,
                "The mean of the columns is where a walk stands after one step from equal shares. "
                "Look for shares that no step changes.",
            ),
            Mistake(
                lambda: np.full(6, 1 / 6),
                "Equal shares stay only if all columns of A sum to 1.",
            ),
        ),
        axes=("i",),
        tolerance=1e-3,
        remark="A term of the key alone leaves the walk reversible: it cancels round every cycle.",
    ),
    Exercise(
        "ex-direction-variants",
        "explain",
        (2, 3),
        3,
        lambda: ("yes", "no", "no", "yes", "no", "yes"),
        (
            Mistake(
                lambda: ("yes", "no", "yes", "yes", "no", "yes"),
                "Look at the third again. Two projections that differ may have a symmetric form: write it down.",
            ),
            Mistake(
                lambda: ("yes", "no", "no", "no", "no", "yes"),
                "Look at the fourth again. What weight has the next token there?",
            ),
            Mistake(
                lambda: ("yes", "no", "no", "yes", "yes", "yes"),
                "Look at the fifth again: add the logarithms over all rows, and see which of the numbers are left.",
            ),
            Mistake(
                lambda: ("yes", "no", "no", "yes", "no", "no"),
                "Look at the last again. Need such a table be symmetric?",
            ),
            Mistake(
                lambda: ("yes", "yes", "no", "yes", "no", "yes"),
                "Look at the second again: how far may scores fall along a sequence if they have a bound?",
            ),
        ),
        choices=("yes", "no"),
    ),
    Exercise(
        "ex-direction-chance",
        "measure",
        (4,),
        2,
        _beside_chance,
        (
            Mistake(
                lambda: _beside_chance(np.mean),
                "That is the mean of the drawn shares. Take the smallest, so that chance alone would hardly go below.",
            ),
            Mistake(
                lambda: _beside_chance(below=False),
                "The first is right. You counted the heads above it.",
            ),
            Mistake(
                lambda: _beside_chance(np.max),
                "That is the largest of the drawn shares. Take the smallest.",
            ),
            Mistake(
                lambda: [_drawn_shares().max(), _beside_chance()[1]],
                "That is the largest of the drawn shares. Asked for is the smallest.",
            ),
            Mistake(
                lambda: _beside_chance(lambda s: np.sqrt(s.min())),
                "A root too many: the share takes squares of norms.",
            ),
        ),
        axes=("answer",),
        tolerance=1e-3,
    ),
    Exercise("ex-direction-gauge", "prove", (1, 2), 3),
)
