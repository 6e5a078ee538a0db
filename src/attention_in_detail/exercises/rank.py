"""Exercises of the chapter *Low rank*."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.insights.low_rank import (
    mean_pooling,
    rank_for_energy,
    spectrum_share,
)
from attention_in_detail.scaled_dot_product import (
    attention,
    attention_weights,
    scores,
)

__all__ = ["EXERCISES"]

# ---- three matrices ----

TOKENS = 32
GROUP = 8
THREE = (
    np.full((TOKENS, TOKENS), 1 / TOKENS),
    np.eye(TOKENS),
    np.kron(np.eye(TOKENS // GROUP), np.full((GROUP, GROUP), 1 / GROUP)),
)


def _ranks() -> Any:
    return np.array([rank_for_energy(A) for A in THREE])


def _rounded_down() -> Any:
    """The last rank that holds less than nine tenths, or 1."""
    return np.maximum(1, _ranks() - 1)


# ---- sharper and sharper ----

FACTORS = (0.25, 0.5, 1, 2, 4, 8)


def _random_head() -> Any:
    rng = np.random.default_rng(3)
    return rng.standard_normal((64, 32)), rng.standard_normal((64, 32))


def _sharper(
    rank: Callable[..., Any] = rank_for_energy, *, root: bool = True
) -> Any:
    Q, K = _random_head()
    return np.array(
        [
            int(
                rank(
                    attention_weights(
                        Q, K, scale=f / (np.sqrt(32) if root else 1)
                    )
                )
            )
            for f in FACTORS
        ]
    )


def _by_sum(A: Any) -> Any:
    return np.sum(spectrum_share(A, power=1) < 0.9 - 1e-12) + 1


def _winners() -> int:
    return len(set(scores(*_random_head()).argmax(axis=1).tolist()))


# ---- runs of neighbours ----


def _pooled(Q: Any, K: Any, V: Any, k: int) -> Any:
    E = mean_pooling(k, len(K))
    return attention(Q, E @ K, E @ V)


def _summed(Q: Any, K: Any, V: Any, k: int) -> Any:
    E = mean_pooling(k, len(K)) * (len(K) // k)
    return attention(Q, E @ K, E @ V)


def _strided(Q: Any, K: Any, V: Any, k: int) -> Any:
    """Every k-th token in one mixture."""
    E = np.tile(np.eye(k), len(K) // k) * k / len(K)
    return attention(Q, E @ K, E @ V)


def _first_of_each(Q: Any, K: Any, V: Any, k: int) -> Any:
    step = len(K) // k
    return attention(Q, K[::step], V[::step])


def _weights_pooled(Q: Any, K: Any, V: Any, k: int) -> Any:
    """All weights are made, and each run shares out what it got."""
    E = mean_pooling(k, len(K))
    run = len(K) // k
    return attention_weights(Q, K) @ E.T * run @ (E @ V)


def _scaled_by_k(Q: Any, K: Any, V: Any, k: int) -> Any:
    E = mean_pooling(k, len(K))
    return attention(Q, E @ K, E @ V, scale=k**-0.5)


def _pool_cases() -> Iterator[Case]:
    rng = np.random.default_rng(25)
    for name, T, S, k in (
        ("two runs of three", 6, 6, 2),
        ("more queries than keys", 7, 4, 2),
        ("runs of one, which is attention itself", 3, 5, 5),
    ):
        Q, K = rng.standard_normal((T, 3)), rng.standard_normal((S, 3))
        yield Case(name, (Q, K, rng.standard_normal((S, 2)), k))


# ---- the width that it takes ----


def _width(sure: float = 0.5) -> int:
    """Rank of the scores that have these weights, one column of them being 0."""
    B = np.full((TOKENS, TOKENS), (1 - sure) / (TOKENS - 1))
    np.fill_diagonal(B, sure)
    Z = np.log(B) - np.log(B[:, -1:])
    return int(np.linalg.matrix_rank(Z))


CIRCLE = 2  # coordinates of a point on a circle

EXERCISES = (
    Exercise(
        "ex-rank-hand",
        "by hand",
        (1,),
        2,
        _ranks,
        (
            Mistake(
                lambda: np.array([np.linalg.matrix_rank(A) for A in THREE]),
                "These are the ranks themselves. Asked for is how many singular values it takes to hold nine tenths of the "
                "energy.",
            ),
            Mistake(
                _rounded_down,
                "Rounded down: so few singular values hold a little less than nine tenths. (The first is right.)",
            ),
            Mistake(
                lambda: _ranks()[[0, 1, 0]],
                "The groups were taken for one. Rows of different groups look at different keys, so they are no multiples of "
                "each other.",
            ),
            Mistake(
                lambda: np.array(
                    [
                        rank_for_energy(THREE[0]),
                        rank_for_energy(THREE[1]),
                        GROUP,
                    ]
                ),
                "That is the size of a group. How many different rows has the third matrix?",
            ),
        ),
        axes=("matrix",),
    ),
    Exercise(
        "ex-rank-sharp",
        "measure",
        (1, 2),
        2,
        lambda: np.array([*_sharper(), _winners()]),
        (
            Mistake(
                lambda: np.array([*_sharper(root=False), _winners()]),
                "The scores were multiplied by the factor and not divided by the root of the width.",
            ),
            Mistake(
                lambda: np.array(
                    [*_sharper(np.linalg.matrix_rank), _winners()]
                ),
                "These are the numerical ranks, which the softmax makes full. Asked for is the rank for nine tenths of the "
                "energy.",
            ),
            Mistake(
                lambda: np.array([*_sharper(_by_sum), _winners()]),
                "The singular values were summed up as they are. The energy has their squares.",
            ),
            Mistake(
                lambda: np.array([*_sharper(), 64]),
                "The last: with a single 1 in each row, can two rows be equal?",
            ),
            Mistake(
                lambda: np.array(
                    [
                        *_sharper(),
                        rank_for_energy(
                            attention_weights(*_random_head(), scale=1000.0)
                        ),
                    ]
                ),
                "The last: that is the rank for nine tenths once more. Asked for is the rank, all of it.",
            ),
        ),
        axes=("number",),
    ),
    Exercise(
        "ex-rank-pool",
        "implement",
        (3,),
        1,
        _pooled,
        (
            Mistake(
                _summed,
                "Sums of each run. A mean divides by its length, or the scores and the values grow with it.",
            ),
            Mistake(
                _strided,
                "The runs are made of every k-th token. Neighbours belong together.",
            ),
            Mistake(
                _first_of_each,
                "One token of each run was kept, and the others were dropped. Take the mean of the run.",
            ),
            Mistake(
                _weights_pooled,
                "The weights of all keys were made first, and then added up. Shorten the keys before the product with the "
                "queries: only that saves anything.",
            ),
            Mistake(
                _scaled_by_k,
                "The scores are divided by the root of the number of runs. It is the width of the keys that counts, and that "
                "has not changed.",
            ),
        ),
        cases=_pool_cases,
        axes=("T", "D_v"),
    ),
    Exercise(
        "ex-rank-order",
        "break it",
        (3,),
        2,
        lambda: ("same", "same", "other", "other", "same"),
        (
            Mistake(
                lambda: ("same", "same", "same", "same", "same"),
                "So it is for attention. A projection has a number for each position, whatever stands there.",
            ),
            Mistake(
                lambda: ("same", "other", "other", "other", "other"),
                "Not every projection sees every exchange: what does a mean over a run say of the order in it?",
            ),
            Mistake(
                lambda: ("same", "other", "other", "other", "same"),
                "Look at the second again: the two tokens stand in one run.",
            ),
            Mistake(
                lambda: ("same", "same", "other", "other", "other"),
                "Look at the fifth again: it only puts keys and values into another order, and mixes none.",
            ),
        ),
        choices=("same", "other"),
    ),
    Exercise(
        "ex-rank-width",
        "by hand",
        (4,),
        3,
        lambda: np.array([_width(), CIRCLE]),
        (
            Mistake(
                lambda: np.array([TOKENS, CIRCLE]),
                "The first: so wide is enough, as the paper says. But the softmax does not see what is added to a row, so one "
                "less will do.",
            ),
            Mistake(
                lambda: np.array([_width(), _width()]),
                "The second: so it is for equality. To come near, sharp scores are enough, and the page has keys that give "
                "them.",
            ),
            Mistake(
                lambda: np.array([_width(), CIRCLE - 1]),
                "The second: on a line only the keys at its two ends can have the largest score. The one in the middle never "
                "wins.",
            ),
            Mistake(
                lambda: np.array([CIRCLE, CIRCLE]),
                "The first: keys on a circle come near, and how near depends on the lengths. Here the weights are given, and "
                "all the wrong keys have the same one.",
            ),
        ),
        axes=("question",),
    ),
    Exercise("ex-rank-proof", "prove", (4,), 3),
)
