"""Exercises of the chapter *What real heads look at*."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.head_scores import pattern_mass, uniform_mass
from attention_in_detail.models.maps import stored_maps

__all__ = ["EXERCISES", "THREE_TOKENS"]

# The weights of the hand example.
THREE_TOKENS = np.array(
    [[0.5, 0.25, 0.25], [0.75, 0.25, 0], [0.125, 0.75, 0.125]]
)
FIRST = np.array([[0, 0, 0], [1, 0, 0], [1, 0, 0]], dtype=bool)
#: The stored sentence that the page takes apart.
SENTENCE = 3


def _masses(weights: Any, pattern: Any) -> Any:
    return np.array([pattern_mass(weights, pattern), uniform_mass(pattern)])


def _per_query(queries: float) -> Any:
    """The two masses with their sums divided by so many queries."""
    asked = FIRST.any(axis=1).sum()
    return _masses(THREE_TOKENS, FIRST) * asked / queries


# ---- the sizes of an encoder ----


def _sizes(
    biases: int = 1, norms: int = 2, layers: int = 2, D_h: int = 2
) -> Any:
    """Width of a head, numbers in all maps, parameters of a layer, for L = 2, D = 8, h = 4, 32 inside and 5 tokens."""
    D, h, inside, T = 8, 4, 32, 5
    wide = h * D_h
    attention = 4 * D * wide + biases * (3 * wide + D)
    network = 2 * D * inside + biases * (inside + D)
    return D_h, layers * h * T * T, attention + network + norms * 2 * D


# ---- the mass on a pattern ----


def _mass_cases() -> Iterator[Case]:
    rng = np.random.default_rng(12)
    first = np.zeros((4, 6))
    first[1:, 0] = 1
    for name, heads, P in (
        ("the previous token", (), np.eye(4, k=-1)),
        ("two keys for a query", (), np.eye(4) + np.eye(4, k=-1)),
        ("several heads", (3,), np.eye(4, k=2)),
        ("the first token, and more keys than queries", (2, 2), first),
    ):
        A = rng.dirichlet(np.ones(P.shape[1]), size=(*heads, len(P)))
        yield Case(name, (A, P.astype(bool)))


def _mass_over(count: Callable[[Any], Any]) -> Callable[..., Any]:
    def mass(A: Any, P: Any) -> Any:
        return (A * P).sum((-1, -2)) / count(P)

    return mass


def _mass_of_all(A: Any, P: Any) -> Any:
    return np.mean(pattern_mass(A, P))


def _summed(A: Any, P: Any) -> Any:
    return (A * P).sum((-1, -2))


def _largest(A: Any, P: Any) -> Any:
    return (A * P).max(-1)[..., P.any(axis=1)].mean(-1)


# ---- is [SEP] a sink? ----


def _asked(
    of: Callable[[int, int], bool], anew: bool = False
) -> Callable[[], Any]:
    """Mean over all heads, largest, and uniform, for the pairs (query, key) counted from the end with 0.

    The largest is that of the means over the sentences; with ``anew`` the mean of the largest of each sentence.
    """

    def found() -> Any:
        each = []
        for kept in stored_maps():
            T = len(kept.tokens)
            P = np.array(
                [
                    [of(T - 1 - i, T - 1 - j) for j in range(T)]
                    for i in range(T)
                ]
            )
            each.append((pattern_mass(kept.weights, P), uniform_mass(P)))
        mass = np.mean([one for one, _ in each], axis=0)
        uniform = np.mean([one for _, one in each])
        best = np.mean([one.max() for one, _ in each])
        return np.array(
            [mass.mean(), best if anew else mass.max(), uniform]
        )

    return found


def _first_token() -> Any:
    each = []
    for kept in stored_maps():
        P = np.zeros(kept.weights.shape[-2:], dtype=bool)
        P[1:, 0] = True
        each.append((pattern_mass(kept.weights, P), uniform_mass(P)))
    mass = np.mean([one for one, _ in each], axis=0)
    return np.array(
        [mass.mean(), mass.max(), np.mean([one for _, one in each])]
    )


# ---- patterns that were drawn ----


def _drawn(of: Callable[[Any], Any], above: float = 1.5) -> int:
    """For how many of 20 drawn patterns a number of the heads' masses is so many times the uniform one."""
    weights = stored_maps()[SENTENCE].weights
    T, count = weights.shape[-1], 0
    for seed in range(20):
        P = np.zeros((T, T), dtype=bool)
        keys = np.random.default_rng(seed).integers(T, size=T)
        P[np.arange(T), keys] = True
        mass = of(pattern_mass(weights, P))
        count += bool(mass > above * uniform_mass(P))
    return count


def _picked() -> Any:
    return [_drawn(np.max), _drawn(np.mean)]


# ---- a head silenced ----


def _silence_cases() -> Iterator[Case]:
    for name, heads, D_h, D, head in (
        ("the first of two heads", 2, 3, 6, 0),
        ("the second of two heads", 2, 3, 6, 1),
        ("the third of four, and more rows than columns", 4, 2, 5, 2),
    ):
        W_O = np.arange(1.0, heads * D_h * D + 1).reshape(-1, D)
        yield Case(name, (W_O, head, heads))


def _silent(W_O: Any, head: int, heads: int, counted_from: int = 0) -> Any:
    D_h = len(W_O) // heads
    first = (head - counted_from) * D_h
    out = W_O.copy()
    out[max(first, 0) : first + D_h] = 0
    return out


def _silent_columns(W_O: Any, head: int, heads: int) -> Any:
    D_h = len(W_O) // heads
    out = W_O.copy()
    out[:, head * D_h : (head + 1) * D_h] = 0
    return out


def _silent_columns_of_output(W_O: Any, head: int, heads: int) -> Any:
    """The columns cut into as many blocks as there are heads."""
    width = W_O.shape[1] // heads
    out = W_O.copy()
    out[:, head * width : (head + 1) * width] = 0
    return out


def _silent_one_row(W_O: Any, head: int, heads: int) -> Any:
    out = W_O.copy()
    out[head] = 0
    return out


def _silent_interleaved(W_O: Any, head: int, heads: int) -> Any:
    out = W_O.copy()
    out[head::heads] = 0
    return out


def _only(W_O: Any, head: int, heads: int) -> Any:
    return W_O - _silent(W_O, head, heads)


EXERCISES = (
    Exercise(
        "ex-real-hand",
        "by hand",
        (2,),
        1,
        lambda: _masses(THREE_TOKENS, FIRST),
        (
            Mistake(
                lambda: _per_query(3.0),
                "The sums are divided by all queries. The mean runs over those that the pattern asks.",
            ),
            Mistake(
                lambda: _per_query(1.0),
                "These are sums over the queries. Divide by how many are asked.",
            ),
            Mistake(
                lambda: np.array(
                    [THREE_TOKENS[:, 0].mean(), uniform_mass(FIRST)]
                ),
                "The first token itself is in your mean. This pattern does not ask it.",
            ),
            Mistake(
                lambda: _masses(THREE_TOKENS.T, FIRST),
                "You went along a row. Rows are queries: the weights on the first key stand below one another.",
            ),
        ),
        axes=("m or m_0",),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-real-sizes",
        "by hand",
        (1,),
        2,
        _sizes,
        (
            Mistake(
                lambda: _sizes(biases=0),
                "The first two are right. All products add a bias, those of the heads and of the network too.",
            ),
            Mistake(
                lambda: _sizes(norms=1),
                "The first two are right. There are two norms in a layer, and each has a scale and a shift.",
            ),
            Mistake(
                lambda: _sizes(norms=0),
                "The first two are right. The scales and shifts of the norms are missing, or the bias inside the network: "
                "here both are as many.",
            ),
            Mistake(
                lambda: _sizes(layers=1),
                "These are the maps of one layer alone. The others are right.",
            ),
            Mistake(
                lambda: _sizes(D_h=8),
                "The heads share out the width D between them; a head does not have all of it.",
            ),
        ),
        axes=("answer",),
    ),
    Exercise(
        "ex-real-mass",
        "implement",
        (2,),
        2,
        pattern_mass,
        (
            Mistake(
                _mass_over(len),
                "It divides by all queries. Those that the pattern does not ask are left out of the mean.",
            ),
            Mistake(
                _mass_over(np.sum),
                "It divides by the pairs of the pattern. If a query has two keys, their weights are added, "
                "and the query counts once.",
            ),
            Mistake(
                _mass_over(lambda P: P.any(axis=0).sum()),
                "It counts the keys that are asked about. Count the queries that are asked: "
                "axis=1 of the pattern goes along the keys.",
            ),
            Mistake(
                _summed,
                "These are sums over the queries. Divide by the number of those that are asked.",
            ),
            Mistake(
                _mass_of_all,
                "It takes one mean over all heads. Each head has a mass of its own: only the last two axes go.",
            ),
            Mistake(
                _largest,
                "It takes the strongest key of a query. If the pattern has several for it, their weights are added.",
            ),
        ),
        cases=_mass_cases,
        axes=("head",),
    ),
    Exercise(
        "ex-real-sep",
        "measure",
        (2, 3),
        2,
        _asked(lambda i, j: j == 0 and i > 0),
        (
            Mistake(
                _asked(lambda i, j: j == 0),
                "[SEP] is asked about itself here. Leave its own row out of the pattern.",
            ),
            Mistake(
                _first_token,
                "That is [CLS], the first token. Ask about the last.",
            ),
            Mistake(
                _asked(lambda i, j: i == 0 and j > 0),
                "Here [SEP] asks, and all others answer. Rows of the pattern are queries, columns are keys.",
            ),
            Mistake(
                _asked(lambda i, j: j == 0 and i > 0, anew=True),
                "The best head was picked in each sentence anew. Take the mean over the sentences first.",
            ),
        ),
        axes=("answer",),
        tolerance=1e-3,
        remark="All heads together give [SEP] half of its share: no sink here.",
    ),
    Exercise(
        "ex-real-picked",
        "break it",
        (2, 3),
        2,
        _picked,
        (
            Mistake(
                lambda: _picked()[::-1],
                "The other way round: first the best head of each pattern, then the mean over all heads.",
            ),
            Mistake(
                lambda: [_drawn(np.max, above=1.0), _drawn(np.mean, 1.0)],
                "You compare with the uniform mass. Asked for is one and a half times as much.",
            ),
            Mistake(
                lambda: [_drawn(lambda m: m[0, 2]), _drawn(np.mean)],
                "The second is right. For the first look for the best head of each pattern anew, "
                "as the table of the page does.",
            ),
            Mistake(
                lambda: [_drawn(lambda m: m[0].max()), _drawn(np.mean)],
                "The second is right. For the first take the best of all layers, not of the first one.",
            ),
        ),
        axes=("answer",),
        remark="Whoever picks the best of 72 heads after looking nearly always finds something.",
    ),
    Exercise(
        "ex-real-silence",
        "implement",
        (4,),
        1,
        _silent,
        (
            Mistake(
                _silent_columns,
                "Columns are set to 0: those are coordinates of the output, which all heads write to. A head has rows of W_O.",
            ),
            Mistake(
                _silent_columns_of_output,
                "Columns of W_O belong to the output, not to a head. The heads meet its rows.",
            ),
            Mistake(
                lambda W_O, head, heads: _silent(W_O, head, heads, 1),
                "That is the head before: heads are counted from 0 here.",
            ),
            Mistake(
                _silent_one_row,
                "One row alone is 0. A head has D_h of them, one for each coordinate of its output.",
            ),
            Mistake(
                _silent_interleaved,
                "It takes every h-th row. The heads stand side by side, and the rows of one are neighbours.",
            ),
            Mistake(
                _only,
                "This silences all the other heads.",
            ),
        ),
        cases=_silence_cases,
        axes=("h D_h", "D_out"),
    ),
    Exercise("ex-real-nothing", "prove", (4,), 3),
)
