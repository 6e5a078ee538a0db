"""Exercises of the chapter *Quadratic cost*."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.insights.fast_weights import elu_plus_one
from attention_in_detail.insights.quadratic_cost import (
    global_mask,
    layers_to_reach,
    linear_attention_to_all,
    linear_cost,
    linformer_cost,
    random_mask,
    sparse_cost,
    union_of_masks,
)
from attention_in_detail.insights.results import experiment
from attention_in_detail.masks import causal_mask, window_mask
from attention_in_detail.parallelism import attention_cost
from attention_in_detail.scaled_dot_product import attention

__all__ = ["ARENA", "EXERCISES"]

# ---- how many pairs ----

TOKENS, BEFORE, WIDTH = 10, 2, 32
NEAR = window_mask(TOKENS, before=BEFORE, after=0)
BOTH_SIDES = window_mask(TOKENS, before=BEFORE, after=BEFORE)
TO_ALL = global_mask(TOKENS, 1)


def _pairs(pairs: int) -> list[int]:
    cost = sparse_cost(pairs, TOKENS, TOKENS, WIDTH, WIDTH)
    return [pairs, cost.multiply_adds]


def _miscounted() -> dict[int, str]:
    """Wrong counts of pairs and what to say: to those that people make, and to any other."""
    right = int((NEAR | TO_ALL).sum())
    column = TO_ALL.all(axis=1)
    known = {
        int(NEAR.sum() + TO_ALL.sum()): "Some pairs were counted twice: "
        "of row and column of the global token, the window has a few already.",
        int(NEAR.sum() + TO_ALL.sum())
        - 1: "Row and column of the global token share one pair, and you took it off. "
        "The window has more of the column.",
        int(
            (BOTH_SIDES | TO_ALL).sum()
        ): "The window reaches to both sides. It has no key after the own one.",
        TOKENS
        * (
            BEFORE + 1
        ): "That is the window alone, and it falls off the beginning: "
        "the first tokens have fewer keys before them.",
        int(NEAR.sum()): "That is the window alone.",
        int(
            (NEAR | column[:, None]).sum()
        ): "The row of the global token is there. "
        "Its column, in which all see it, is missing.",
        int(
            (NEAR | column).sum()
        ): "The column of the global token is there. "
        "Its own row, in which it sees all, is missing.",
        TOKENS**2: "These are all pairs.",
    }
    return known | {
        pairs: f"The multiply-adds fit your {pairs} pairs. The pairs are not right: "
        "count the window with its own token, then what the first row and the first column add."
        for pairs in range(2 * TOKENS, TOKENS**2)
        if pairs != right and pairs not in known
    }


MISCOUNTED = _miscounted()


# ---- where they cross ----

D, MIXTURES = 128, 256
ALIKE = D + 1 / 2  # there linear and full attention would take as many


@functools.cache
def _crossings(width: int = D, mixtures: int = MIXTURES) -> list[int]:
    """The first lengths at which linear attention and Linformer take fewer multiply-adds."""

    def first(cost: Callable[[int], int]) -> int:
        return next(
            T
            for T in range(1, 8 * width)
            if cost(T) < attention_cost(T, T, width, width).multiply_adds
        )

    return [
        first(lambda T: linear_cost(T, T, width, width).multiply_adds),
        first(
            lambda T: (
                linformer_cost(T, T, width, width, mixtures).multiply_adds
            )
        ),
    ]


# ---- linear attention, one token after the other ----


def _written_cases() -> Iterator[Case]:
    rng = np.random.default_rng(29)

    def drawn(T: int, D_k: int, D_v: int) -> tuple[Any, ...]:
        return tuple(rng.standard_normal((T, n)) for n in (D_k, D_k, D_v))

    yield Case("five tokens", drawn(5, 3, 2))
    yield Case("one token", drawn(1, 3, 4))
    yield Case("as many tokens as coordinates", drawn(4, 4, 4))


def _by_products(
    Q: Any,
    K: Any,
    V: Any,
    *,
    offset: int = 0,
    features: Callable[[Any], Any] = elu_plus_one,
    of_queries: Callable[[Any], Any] | None = None,
    over: str = "open",
) -> Any:
    products = (of_queries or features)(Q) @ features(K).T
    seen = products * causal_mask(len(Q), offset=offset)
    totals = {"open": seen, "all": products, "none": np.ones((len(Q), 1))}
    with np.errstate(invalid="ignore"):  # the first query may see no key
        return seen @ V / totals[over].sum(axis=1, keepdims=True)


# ---- products without features ----

TWO_KEYS = np.array([1.0, -0.9])  # for the query 1


def _two_rows(features: Callable[[Any], Any] = elu_plus_one) -> Any:
    """The weights of two keys without features, and with these."""
    rows = np.stack(
        [TWO_KEYS, features(np.array([1.0])) * features(TWO_KEYS)]
    )
    return rows / rows.sum(axis=1, keepdims=True)


# ---- how many layers ----

COUNTS = (1, 2, 4, 8, 16)


@functools.cache
def _layers(ahead: int = 0) -> list[int]:
    masks = [random_mask(64, r, seed=0) for r in COUNTS]
    if ahead:
        masks = [union_of_masks(m, global_mask(64, 1)) for m in masks]
    return [layers_to_reach(mask) or 0 for mask in masks]


# ---- what guessing adds ----

ITEMS, OPEN, CLASSES = 32, 8, 4


def _share(open_pairs: int, classes: int = CLASSES) -> float:
    return open_pairs / ITEMS + (1 - open_pairs / ITEMS) / classes


def _needed(classes: int = CLASSES) -> int:
    return next(n for n in range(ITEMS + 1) if _share(n, classes) >= 0.8)


def _not_rounded() -> float:
    """How many pairs solve the equation."""
    guessed, found = _share(0), _share(ITEMS)
    return ITEMS * (0.8 - guessed) / (found - guessed)


# ---- counted and measured ----

BLOCK = 64


def _arrived() -> list[str]:
    """Whether more or less than the counted saving was measured, at 4096 tokens."""
    stored, T = experiment("quadratic_cost"), 4096
    near = window_mask(T // BLOCK, before=1, after=1)
    known = union_of_masks(near, global_mask(T // BLOCK, 1))
    drawn = random_mask(T // BLOCK, 2, seed=0, besides=known)

    def sparse(mask: Any) -> int:
        pairs = int(mask.sum()) * BLOCK**2
        return sparse_cost(pairs, T, T, 64, 64).multiply_adds

    counts = {
        "big_bird": sparse(union_of_masks(known, drawn)),
        "linformer": linformer_cost(T, T, 64, 64, 128).multiply_adds,
        "window": sparse(near),
        "linear": linear_cost(T, T, 64, 64).multiply_adds,
        "query_blocks": attention_cost(T, T, 64, 64).multiply_adds,
    }
    full = attention_cost(T, T, 64, 64).multiply_adds
    return [
        "more" if stored[f"ratio_{name}"].mean > full / count else "less"
        for name, count in counts.items()
    ]


# ---- the table of Long Range Arena ----

#: Mean of five tasks, and speed at 4000 tokens, as the paper reports them.
ARENA = {
    "Standard Transformer": (54.39, 1.0),
    "Big Bird": (55.01, 1.1),
    "Linformer": (51.36, 5.5),
    "Linear Transformer": (50.55, 5.6),
    "Local attention": (46.06, 5.3),
}


def _beaten(columns: tuple[int, ...] = (0, 1)) -> list[str]:
    return [
        "beaten"
        if any(
            all(other[n] > one[n] for n in columns)
            for other in ARENA.values()
        )
        else "kept"
        for one in ARENA.values()
    ]


EXERCISES = (
    Exercise(
        "ex-cost-pairs",
        "by hand",
        (1,),
        2,
        lambda: _pairs(int(union_of_masks(NEAR, TO_ALL).sum())),
        (
            *(
                Mistake(functools.partial(_pairs, pairs), message)
                for pairs, message in MISCOUNTED.items()
            ),
            Mistake(
                lambda: [
                    int((NEAR | TO_ALL).sum()),
                    int((NEAR | TO_ALL).sum()) * WIDTH,
                ],
                "The pairs are right. Each takes a product for its score, and one for its share of the output.",
            ),
        ),
        axes=("answer",),
    ),
    Exercise(
        "ex-cost-cross",
        "by hand",
        (1, 2),
        1,
        _crossings,
        (
            Mistake(
                lambda: [one - 1 for one in _crossings()],
                "There they cost alike, or nearly. One more, and the other form takes fewer.",
            ),
            Mistake(
                lambda: [ALIKE, 2 * MIXTURES],
                "At these lengths both cost alike, and the first is no whole number. From the next one on it is fewer.",
            ),
            Mistake(
                lambda: [ALIKE, _crossings()[1]],
                "The second is right. The first is where both would cost alike, and no whole number. From the next one on it "
                "is fewer.",
            ),
            Mistake(
                lambda: [_crossings()[0] - 1, _crossings()[1]],
                "The second is right. At the first, linear attention still takes a little more.",
            ),
            Mistake(
                lambda: [_crossings()[0], 2 * MIXTURES],
                "The first is right. At the second length both cost alike. From the next one on it is fewer.",
            ),
            Mistake(
                lambda: [_crossings()[0], MIXTURES + 1],
                "The first is right. Linformer makes its mixtures too: that costs as much as attending to them.",
            ),
            Mistake(
                lambda: [D // 2 + 1, _crossings()[1]],
                "The second is right. Linear attention builds its matrix from all keys, and then reads it for all queries.",
            ),
            Mistake(
                lambda: _crossings(64, 128),
                "These are the lengths of the page, for width 64. Here both the width and k are larger.",
            ),
        ),
        axes=("answer",),
    ),
    Exercise("ex-cost-proof", "prove", (1,), 3),
    Exercise(
        "ex-cost-written",
        "implement",
        (1,),
        2,
        _by_products,
        (
            Mistake(
                linear_attention_to_all,
                "Each query sees all keys. A token that is written may look at itself and at what came before.",
            ),
            Mistake(
                lambda Q, K, V: _by_products(Q, K, V, over="all"),
                "The sum of the values stops at the own token, but the total below it runs over all keys.",
            ),
            Mistake(
                lambda Q, K, V: _by_products(Q, K, V, over="none"),
                "The weights do not sum to 1: the denominator is missing.",
            ),
            Mistake(
                lambda Q, K, V: _by_products(Q, K, V, features=np.asarray),
                "The features are missing: products of queries and keys as they are may sum to something near 0.",
            ),
            Mistake(
                lambda Q, K, V: _by_products(
                    Q, K, V, of_queries=np.asarray
                ),
                "The features belong to the queries too.",
            ),
            Mistake(
                lambda Q, K, V: _by_products(Q, K, V, offset=-1),
                "Each query misses its own key: add first, then read.",
            ),
            Mistake(
                lambda Q, K, V: attention(
                    Q, K, V, mask=causal_mask(len(Q))
                ),
                "That is attention with a softmax.",
            ),
        ),
        cases=_written_cases,
        axes=("T", "D_v"),
        remark="(That no array of T times T is made, only you can see.)",
    ),
    Exercise(
        "ex-cost-arrived",
        "measure",
        (2,),
        1,
        _arrived,
        (
            Mistake(
                lambda: ["less"] * len(_arrived()),
                "Not all. Compare each with the count: two of them got more than it says.",
            ),
            Mistake(
                lambda: [*_arrived()[:-1], "less"],
                "Look at the last again. It has all operations, so its count says 1.",
            ),
            Mistake(
                lambda: [
                    {"more": "less", "less": "more"}[one]
                    for one in _arrived()
                ],
                "The other way round: is what was measured more than what was counted?",
            ),
        ),
        choices=("more", "less"),
    ),
    Exercise(
        "ex-cost-random",
        "measure",
        (3,),
        2,
        _layers,
        (
            Mistake(
                lambda: _layers(1),
                "These are the numbers with a global token. First without one.",
            ),
            Mistake(
                lambda: [
                    math.ceil(math.log(64) / math.log(r + 1))
                    for r in COUNTS
                ],
                "That is the rule of thumb, as if each token were drawn equally often. Some are drawn by nobody.",
            ),
            Mistake(
                lambda: [one or 64 for one in _layers()],
                "Where `layers_to_reach` says None, no number of layers suffices, not even as many as there are tokens: put 0.",
            ),
            Mistake(
                lambda: np.array([one or np.nan for one in _layers()]),
                "Where no number of layers suffices, put 0.",
            ),
        ),
        axes=("random keys",),
    ),
    Exercise(
        "ex-cost-guess",
        "by hand",
        (3,),
        1,
        lambda: [_share(OPEN), _needed()],
        (
            Mistake(
                lambda: [OPEN / ITEMS, math.ceil(0.8 * ITEMS)],
                "Nothing is guessed here. Where the item is not on an open pair, a guess is right now and then.",
            ),
            Mistake(
                lambda: [OPEN / ITEMS, _needed()],
                "The second is right. In the first, what is guessed is missing.",
            ),
            Mistake(
                lambda: [_share(OPEN, 8), _needed(8)],
                "That is for eight classes, as on the page. Here there are fewer.",
            ),
            Mistake(
                lambda: [OPEN / ITEMS + 1 / CLASSES, _needed()],
                "The second is right. In the first, guesses count only where the item is not on an open pair.",
            ),
            Mistake(
                lambda: [_share(OPEN), _needed() - 1],
                "The first is right. With the second it stays just below: round up.",
            ),
            Mistake(
                lambda: [_share(OPEN), _not_rounded()],
                "The second is a number of pairs: round up.",
            ),
            Mistake(
                lambda: [_share(OPEN, 8), _needed()],
                "The second is right. The first is for the eight classes of the page. Here there are four.",
            ),
        ),
        axes=("answer",),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-cost-features",
        "break it",
        (3,),
        1,
        _two_rows,
        (
            Mistake(
                lambda: _two_rows(lambda x: x + 1),
                "The first row is right. Below 0 the feature is not x + 1 but an exponential.",
            ),
            Mistake(
                lambda: _two_rows(np.exp),
                "The first row is right. Above 0 the feature is not an exponential but x + 1.",
            ),
            Mistake(
                lambda: _two_rows()[::-1],
                "The right rows, the other way round: first without the features.",
            ),
            Mistake(
                lambda: np.stack([TWO_KEYS, 2 * elu_plus_one(TWO_KEYS)]),
                "These are the products. Divide each row by its sum.",
            ),
        ),
        axes=("way", "S"),
        tolerance=1e-3,
        remark="Without the features a row sums to 1 as well, and its output lies far outside of the values.",
    ),
    Exercise(
        "ex-cost-arena",
        "explain",
        (4,),
        1,
        _beaten,
        (
            Mistake(
                lambda: _beaten((0,)),
                "By accuracy alone all but the best are beaten. Who is slower but more accurate is not beaten in both.",
            ),
            Mistake(
                lambda: _beaten((1,)),
                "By speed alone all but the fastest are beaten. Look at both columns.",
            ),
            Mistake(
                lambda: ["kept", *_beaten()[1:]],
                "Look at the first again: is there a row that is a little more accurate and a little faster?",
            ),
            Mistake(
                lambda: [*_beaten()[:-1], "kept"],
                "Look at the last again: who is both more accurate and faster than it?",
            ),
        ),
        choices=("beaten", "kept"),
        remark="Of the others none can be called the best: it depends on what a point is worth against time.",
    ),
    Exercise(
        "ex-cost-says",
        "explain",
        (4,),
        1,
        lambda: ("yes", "no", "no", "yes", "no"),
        (
            Mistake(
                lambda: ("yes", "yes", "no", "yes", "no"),
                "Look at the second again: which models were compared, and had they been trained before?",
            ),
            Mistake(
                lambda: ("yes", "no", "yes", "yes", "no"),
                "Look at the third again: what is said of the sixth task?",
            ),
            Mistake(
                lambda: ("yes", "no", "no", "yes", "yes"),
                "Look at the last again: was such a form of attention among the ten?",
            ),
        ),
        choices=("yes", "no"),
    ),
)
