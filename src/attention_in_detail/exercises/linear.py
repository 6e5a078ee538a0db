"""Exercises of the chapter *Exact attention in linear memory*."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.passes import one_pass
from attention_in_detail.planting import planted
from attention_in_detail.traffic import (
    Traffic,
    traffic_at_once,
    traffic_by_blocks,
)

__all__ = ["EXERCISES", "MARKS", "THREE"]

# The hand example of the chapter: three scores and what they weigh.
THREE = np.log(2) * np.array([[0.0, 2, 1]])
MARKS = np.array([[12.0], [2], [11]])

FORGETS = planted(
    one_pass, "kept = xp.exp(largest - shift) * total", "kept = total"
)
STARTS = planted(
    one_pass,
    "largest, total = filled(-xp.inf, z), filled(0.0, z)",
    "largest, total = filled(0.0, z), filled(0.0, z)",
)

# ---- the other way round ----


def _table(way: Any = one_pass, back: int = -1) -> Any:
    """Sum and mean after each of the three, from the last to the first."""
    z, v = THREE[:, ::back], MARKS[::back]
    found = [way(z[:, :n], v[:n]) for n in (1, 2, 3)]
    return np.array([[one.total[0], one.output[0, 0]] for one in found])


def _in_one_unit() -> Any:
    sums = np.exp(THREE[0, ::-1]).cumsum()
    return np.stack([sums, _table()[:, 1]], axis=1)


def _undivided() -> Any:
    table = _table()
    return np.stack([table[:, 0], table[:, 0] * table[:, 1]], axis=1)


# ---- all outputs on the way ----


def _stream_cases() -> Iterator[Case]:
    rng = np.random.default_rng(32)
    V = rng.standard_normal((6, 2))
    z = rng.standard_normal(6)
    yield Case("six scores near 0", (z, V))
    yield Case("scores that rise steeply", (900 + 2000 * np.sort(z), V))
    yield Case("scores far below 0", (z - 2000, V))
    yield Case("one key", (z[:1], V[:1]))


def _stream(z: Any, V: Any, way: Any = one_pass) -> Any:
    found = [way(z[None, : n + 1], V[: n + 1]) for n in range(len(z))]
    return np.stack([one.output[0] for one in found])


def _in_a_loop(
    z: Any, V: Any, *, start: float = -np.inf, divided: bool = True
) -> Any:
    """The outputs so far, from sums that are rescaled when a larger score comes."""
    largest, total, mixed, found = start, np.float64(0), 0 * V[0], []
    with np.errstate(all="ignore"):
        for score, v in zip(z, V, strict=True):
            larger = max(largest, score)
            shrunk, e = np.exp(largest - larger), np.exp(score - larger)
            total, mixed = shrunk * total + e, shrunk * mixed + e * v
            largest = larger
            found.append(mixed / total if divided else mixed)
    return np.stack(found)


def _shifted(z: Any, V: Any, shift: float) -> Any:
    """The outputs so far from exponentials of scores that one number was taken off."""
    with np.errstate(all="ignore"):
        e = np.exp(z - shift)[:, None]
        return (e * V).cumsum(axis=0) / e.cumsum(axis=0)


# ---- which rows show which bug ----

ROWS = np.array(
    [[2, 1, 0], [0, 2, 1], [-2000, -2001, -2002], [-2002, -2000, -2001]]
)


def _shown(
    bugs: tuple[tuple[str, Any], ...] = (
        ("unit", FORGETS),
        ("start", STARTS),
    ),
) -> list[str]:
    found = []
    for row in ROWS:
        z = np.log(2) * row[None]
        right = one_pass(z, MARKS).output
        seen = [
            name
            for name, bug in bugs
            if not np.allclose(bug(z, MARKS).output, right)
        ]
        found.append({0: "neither", 1: "".join(seen), 2: "both"}[len(seen)])
    return found


# ---- one number in place of two ----


def _merge_cases() -> Iterator[Case]:
    rng = np.random.default_rng(33)
    y1, y2 = rng.standard_normal((2, 4, 3))
    g1, g2 = rng.standard_normal((2, 4))
    yield Case("four queries", (y1, g1, y2, g2))
    yield Case("large scores", (y1, g1 + 1000, y2, g2 + 1001))
    yield Case("scores far below 0", (y1, g1 - 2000, y2, g2 - 2000))
    empty = np.full(4, -np.inf)
    yield Case("nothing in the second part", (y1, g1, 0 * y2, empty))


def _merged(y1: Any, g1: Any, y2: Any, g2: Any) -> Any:
    g = np.logaddexp(g1, g2)
    shares = (np.exp(x - g)[:, None] for x in (g1, g2))
    return next(shares) * y1 + next(shares) * y2


def _overflowing(y1: Any, g1: Any, y2: Any, g2: Any) -> Any:
    with np.errstate(all="ignore"):
        w1, w2 = (np.exp(x)[:, None] for x in (g1, g2))
        return (w1 * y1 + w2 * y2) / (w1 + w2)


def _by_logarithms(y1: Any, g1: Any, y2: Any, g2: Any) -> Any:
    with np.errstate(all="ignore"):
        share = (g1 / (g1 + g2))[:, None]
        return share * y1 + (1 - share) * y2


def _undivided_merge(y1: Any, g1: Any, y2: Any, g2: Any) -> Any:
    m = np.maximum(g1, g2)
    w1, w2 = (np.exp(x - m)[:, None] for x in (g1, g2))
    return w1 * y1 + w2 * y2


# ---- operations a byte ----

LENGTH, WIDTH, BLOCK = 4096, 128, 256


def _intensities(itemsize: int = 2) -> list[float]:
    sizes = LENGTH, LENGTH, WIDTH, WIDTH
    return [
        traffic_at_once(*sizes, itemsize=itemsize).intensity,
        traffic_by_blocks(
            *sizes, query_block=BLOCK, itemsize=itemsize
        ).intensity,
    ]


def _other_numbers(at_once: int, by_blocks: int) -> list[float]:
    """The intensities for other counts of the numbers that travel; 0 stands for the right one."""
    multiply_adds = 2 * LENGTH**2 * WIDTH
    return [
        Traffic(multiply_adds, 2 * numbers).intensity if numbers else right
        for numbers, right in zip(
            (at_once, by_blocks), _intensities(), strict=True
        )
    ]


# ---- what makes it fall back ----


def _squares() -> list[str]:
    """Whether some operator hands on an array of T times T numbers, for each call of the exercise."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention as sdpa

    from attention_in_detail.nn.operators import operators_of

    T = 256
    q, k, v = (torch.zeros(1, 1, T, 64) for _ in range(3))
    narrow = v[..., :32]
    real = torch.ones(1, T, dtype=torch.bool)
    learned = torch.zeros(T, T, requires_grad=True)
    fixed = learned.detach()
    calls = (
        lambda: sdpa(q, k, torch.cat([narrow, narrow], -1))[..., :32],
        lambda: sdpa(q, k, v, attn_mask=real),
        lambda: sdpa(q, k, v, is_causal=True, dropout_p=0.1),
        lambda: sdpa(q, k, v, attn_mask=fixed),
        lambda: sdpa(q, k, v, attn_mask=learned),
    )
    return [
        "yes" if operators_of(call).largest >= T * T else "no"
        for call in calls
    ]


def _turned(place: int) -> list[str]:
    """The right words but for one."""
    return [
        {"yes": "no", "no": "yes"}[word] if n == place else word
        for n, word in enumerate(_squares())
    ]


EXERCISES = (
    Exercise(
        "ex-linear-hand",
        "by hand",
        (1,),
        1,
        _table,
        (
            Mistake(
                lambda: _table(FORGETS),
                "A larger score comes in the second step, and the sum so far keeps its old unit. It has to shrink first.",
            ),
            Mistake(
                _in_one_unit,
                "These sums count in the unit of a score of 0. Here the largest score so far is the unit.",
            ),
            Mistake(
                _undivided,
                "The second column is not divided by the sum so far: it is to be a mean.",
            ),
            Mistake(
                lambda: _table(back=1),
                "That is the table of the page. Here the last score comes first.",
            ),
        ),
        axes=("step", "sum or mean"),
        remark="The last row is that of the page: over all keys the order does not matter.",
    ),
    Exercise(
        "ex-linear-stream",
        "implement",
        (1,),
        2,
        _stream,
        (
            Mistake(
                lambda z, V: _stream(z, V, FORGETS),
                "When a larger score comes, the sum so far keeps its old unit. Rescale it.",
            ),
            Mistake(
                lambda z, V: _stream(z, V, STARTS),
                "Right for scores above 0. The largest score so far begins too high: far below it all exponentials are 0.",
            ),
            Mistake(
                lambda z, V: _in_a_loop(z, V, start=0.0),
                "The largest score so far begins at 0; scores far below it vanish.",
            ),
            Mistake(
                lambda z, V: _in_a_loop(z, V, divided=False),
                "The outputs are not divided by the sum so far: they are to be means.",
            ),
            Mistake(
                lambda z, V: np.stack([_stream(z, V)[-1]] * len(z)),
                "All rows are the last one: the list holds one array many times. Append a copy.",
            ),
            Mistake(
                lambda z, V: _shifted(z, V, 0.0),
                "Right for scores near 0. Nothing is taken off before the exponential: it overflows, or is 0 in every term.",
            ),
            Mistake(
                lambda z, V: _shifted(z, V, z.max()),
                "The largest of all scores is taken off, which no stream knows beforehand; next to it the first ones vanish.",
            ),
            Mistake(
                lambda z, V: _stream(z, V)[-1],
                "That is the last output. Asked for is one after each key.",
            ),
        ),
        cases=_stream_cases,
        axes=("S", "D_v"),
        remark="(That each score is used once, only you can see.)",
    ),
    Exercise(
        "ex-linear-hides",
        "break it",
        (1,),
        2,
        _shown,
        (
            Mistake(
                lambda: _shown((("unit", FORGETS),)),
                "The first bug is found right. The second one shows where all scores lie far below 0.",
            ),
            Mistake(
                lambda: _shown((("start", STARTS),)),
                "The second bug is found right. The first one shows where a larger score comes after a smaller one.",
            ),
            Mistake(
                lambda: ["both"] * len(ROWS),
                "No bug shows everywhere. What is there to rescale if no later score is larger?",
            ),
        ),
        choices=("neither", "unit", "start", "both"),
    ),
    Exercise(
        "ex-linear-log",
        "implement",
        (2,),
        3,
        _merged,
        (
            Mistake(
                lambda y1, g1, y2, g2: (y1 + y2) / 2,
                "The plain mean of the outputs: the parts do not count alike, and each weighs what its exponentials sum to.",
            ),
            Mistake(
                _overflowing,
                "Right for small scores. The exponential of g itself overflows, or is 0: take something off first.",
            ),
            Mistake(
                _by_logarithms,
                "The shares are made of the logarithms. The weights are their exponentials.",
            ),
            Mistake(
                _undivided_merge,
                "The shares do not sum to 1: what was taken off is the larger logarithm, not that of the sum.",
            ),
        ),
        cases=_merge_cases,
        axes=("T", "D_v"),
    ),
    Exercise("ex-linear-inverse", "explain", (2,), 3),
    Exercise(
        "ex-linear-bytes",
        "by hand",
        (3,),
        2,
        _intensities,
        (
            Mistake(
                lambda: [one / 2 for one in _intensities()],
                "Half of it. A multiply-add counts as more than one operation; or the numbers were taken for float32.",
            ),
            Mistake(
                lambda: [2 * one for one in _intensities()],
                "Twice as much. Numbers were counted, and not bytes.",
            ),
            Mistake(
                lambda: _other_numbers(
                    4 * LENGTH * WIDTH + 2 * LENGTH**2, 0
                ),
                "By blocks it is right. At once there are scores and weights: each array is written, and read again.",
            ),
            Mistake(
                lambda: _other_numbers(0, 4 * LENGTH * WIDTH),
                "At once it is right. By blocks, each block of queries has all keys and values pass by.",
            ),
            Mistake(
                lambda: _other_numbers(
                    0, (LENGTH // BLOCK) * 2 * LENGTH * WIDTH
                ),
                "At once it is right. By blocks, queries are read and outputs written too.",
            ),
            Mistake(
                lambda: _other_numbers(
                    0, (LENGTH // BLOCK) * 4 * LENGTH * WIDTH
                ),
                "At once it is right. By blocks, a query is read but once, and its output written but once.",
            ),
            Mistake(
                lambda: _intensities()[::-1],
                "The right numbers, the other way round.",
            ),
        ),
        axes=("answer",),
        tolerance=1e-3,
        remark="The machine of the page could do 208 operations a byte: at once it waits for bytes, by blocks it does not.",
    ),
    Exercise(
        "ex-linear-falls",
        "measure",
        (4,),
        2,
        _squares,
        (
            Mistake(
                lambda: _turned(0),
                "Look at the first again. What made the kernel fall back was that the values have another width than the keys.",
            ),
            Mistake(
                lambda: _turned(1),
                "Look at the second again: how many numbers does this mask have when it is turned into numbers?",
            ),
            Mistake(
                lambda: _turned(3),
                "Look at the fourth again: what an argument holds was there already. Only what operators hand on counts.",
            ),
            Mistake(
                lambda: ["no"] * len(_squares()),
                "Not all. Look at the table of the page for dropout, and for a bias that learns.",
            ),
        ),
        choices=("yes", "no"),
    ),
)
