"""Exercises of the chapter *How fast is it?*."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.stored import stored_result

__all__ = ["EXERCISES"]

# ---- two medians ----

ONE, OTHER = np.array([30.0, 33, 90]), np.array([20.0, 30, 60])


def _medians() -> list[float]:
    return [
        float(np.median(ONE / OTHER)),
        float(np.median(ONE) / np.median(OTHER)),
    ]


# ---- median and middle half ----


def _rounds() -> Iterator[Case]:
    rng = np.random.default_rng(34)
    ours, theirs = 20 + 10 * rng.random((2, 9))
    yield Case("nine rounds", (ours, theirs))
    busy = np.where(np.arange(9) == 4, 5, 1)
    yield Case(
        "a round in which the machine was busy",
        (busy * ours, busy * theirs),
    )
    yield Case("four rounds", (ours[:4], theirs[:4]))


def _spread(ours: Any, theirs: Any) -> Any:
    return np.quantile(ours / theirs, [0.25, 0.5, 0.75])


def _around_the_mean(ours: Any, theirs: Any) -> Any:
    low, _, high = _spread(ours, theirs)
    return np.array([low, (ours / theirs).mean(), high])


def _of_quantiles(ours: Any, theirs: Any) -> Any:
    parts = [0.25, 0.5, 0.75]
    return np.quantile(ours, parts) / np.quantile(theirs, parts)


# ---- one after the other ----

PACE = np.linspace(1, 2, 20)
HALF = len(PACE) // 2


def _drift() -> list[float]:
    """What equally fast contestants look like on a machine that slows down: all of one first, and in turns."""
    return [
        float(np.median(PACE[HALF:]) / np.median(PACE[:HALF])),
        float(np.median(PACE[1::2] / PACE[::2])),
    ]


# ---- faster, or not to be told ----

SIZES = (8, 128), (8, 512), (1, 2048), (1, 8192)


def _ratios() -> list[dict[str, float]]:
    rows = stored_result("multi_head")["rows"]
    return [
        row["ratio"]
        for size in SIZES
        for row in rows
        if (row["B"], row["T"]) == size
        and row["contestant"] == "ours"
        and row["what"] == "forward and backward"
    ]


def _told() -> list[str]:
    return [
        "faster"
        if ratio["high"] < 1
        else "slower"
        if ratio["low"] > 1
        else "open"
        for ratio in _ratios()
    ]


def _by_median() -> list[str]:
    return [
        "faster" if ratio["median"] < 1 else "slower" for ratio in _ratios()
    ]


# ---- an exponent ----


def _exponent() -> list[float]:
    p = math.log(520 / 40) / math.log(8192 / 2048)
    return [p, 520 * 4**p]


def _growth_cases() -> Iterator[Case]:
    rng = np.random.default_rng(35)
    for name, lengths in (
        ("doubled lengths", [512.0, 1024, 2048, 4096]),
        ("lengths that are not doubled", [500.0, 2000, 3000]),
    ):
        T = np.array(lengths)
        yield Case(name, (T, T**1.7 * (1 + rng.random(T.size))))


def _growth(lengths: Any, times: Any) -> Any:
    return np.diff(np.log(times)) / np.diff(np.log(lengths))


# ---- memory of the weights ----


def _mib(
    batch: int = 4, heads: int = 16, itemsize: int = 2, arrays: int = 1
) -> list[float]:
    """Of the weights of one call; then for half the sequences, twice as long."""
    once = arrays * batch * heads * 1024**2 * itemsize / 2**20
    return [once, 2 * once]


EXERCISES = (
    Exercise(
        "ex-speed-medians",
        "by hand",
        (1,),
        1,
        _medians,
        (
            Mistake(
                lambda: _medians()[::-1],
                "The right numbers, the other way round: first the median of the ratios.",
            ),
            Mistake(
                lambda: [float(np.mean(ONE / OTHER)), _medians()[1]],
                "The first number is the mean of the ratios. The median is the middle one of them.",
            ),
            Mistake(
                lambda: [_medians()[0], float(ONE.mean() / OTHER.mean())],
                "The second number is a ratio of means. The median is the middle one of the times.",
            ),
            Mistake(
                lambda: [
                    float(np.median(OTHER / ONE)),
                    float(np.median(OTHER) / np.median(ONE)),
                ],
                "The ratios are upside down: the time of the one over that of the other.",
            ),
        ),
        axes=("answer",),
        remark="What met both contestants in one round leaves the first number alone.",
    ),
    Exercise(
        "ex-speed-spread",
        "implement",
        (1,),
        1,
        _spread,
        (
            Mistake(
                _of_quantiles,
                "These are ratios of quantiles. Divide in each round first: a busy round then hurts nobody.",
            ),
            Mistake(
                lambda ours, theirs: _spread(theirs, ours),
                "The ratio is upside down: our time over theirs.",
            ),
            Mistake(
                lambda ours, theirs: np.quantile(
                    ours / theirs, [0, 0.5, 1]
                ),
                "The median is right. Least and largest are not the ends of the middle half, and one odd round moves them.",
            ),
            Mistake(
                lambda ours, theirs: _spread(ours, theirs)[::-1],
                "The right numbers from high to low.",
            ),
            Mistake(
                lambda ours, theirs: _spread(ours, theirs)[[1, 0, 2]],
                "The right numbers in another order: first where the middle half begins.",
            ),
            Mistake(
                lambda ours, theirs: _spread(ours, theirs)[[0, 2, 1]],
                "The right numbers in another order: the median stands between the ends of the middle half.",
            ),
            Mistake(
                _around_the_mean,
                "The middle one is the mean of the ratios; asked for is their median.",
            ),
        ),
        cases=_rounds,
        axes=("low, median, high",),
    ),
    Exercise(
        "ex-speed-drift",
        "break it",
        (1,),
        2,
        _drift,
        (
            Mistake(
                lambda: [1.0, 1.0],
                "That is the truth, and not what is measured: the same work takes longer and longer here.",
            ),
            Mistake(
                lambda: [1 / one for one in _drift()],
                "Upside down: the time of the second contestant over that of the first.",
            ),
            Mistake(
                lambda: [
                    float(np.median(PACE[HALF:] / PACE[:HALF])),
                    _drift()[1],
                ],
                "The first number pairs calls that were not in turns. All of one, then all of the other: compare two medians.",
            ),
            Mistake(
                lambda: [
                    _drift()[0],
                    float(np.median(PACE[1::2]) / np.median(PACE[::2])),
                ],
                "The second number is a ratio of medians. In turns each round has a ratio: take their median.",
            ),
        ),
        axes=("answer",),
        remark="In turns a little is left, since the second always runs later. Changing the order in each round helps.",
    ),
    Exercise(
        "ex-speed-told",
        "measure",
        (2,),
        1,
        _told,
        (
            Mistake(
                _by_median,
                "These are the medians alone. Where the middle half reaches to both sides of 1, nothing is told.",
            ),
            Mistake(
                lambda: [
                    {"faster": "slower", "slower": "faster"}.get(one, one)
                    for one in _told()
                ],
                "The other way round: the ratio is our time over that of torch's module.",
            ),
        ),
        choices=("faster", "slower", "open"),
    ),
    Exercise("ex-speed-floor", "explain", (2,), 3),
    Exercise(
        "ex-speed-exponent",
        "by hand",
        (3,),
        1,
        _exponent,
        (
            Mistake(
                lambda: [math.log2(520 / 40), _exponent()[1]],
                "The time of a call is right. The exponent is for twice the length, but the length grew by more.",
            ),
            Mistake(
                lambda: [_exponent()[0], 520 * 16 ** _exponent()[0]],
                "The exponent is right. The time is carried too far: by which factor does the length grow from the last one?",
            ),
            Mistake(
                lambda: [2.0, 520 * 4**2.0],
                "These are the numbers of a square. Take the exponent that was measured.",
            ),
            Mistake(
                lambda: [
                    1 / _exponent()[0],
                    520 * 4 ** (1 / _exponent()[0]),
                ],
                "The exponent is upside down: the logarithm of the times over that of the lengths.",
            ),
            Mistake(
                lambda: [_exponent()[0], 520 * 4],
                "The exponent is right. Then the time is carried on as if it were 1.",
            ),
            Mistake(
                lambda: [_exponent()[0], _exponent()[1] / 1000],
                "The second is asked for in milliseconds.",
            ),
        ),
        axes=("answer",),
        tolerance=5e-3,
    ),
    Exercise(
        "ex-speed-growth",
        "implement",
        (3,),
        2,
        _growth,
        (
            Mistake(
                lambda lengths, times: np.diff(np.log2(times)),
                "Right where each length is twice the one before. In general, divide by the logarithm of the ratio of lengths.",
            ),
            Mistake(
                lambda lengths, times: (
                    (times[1:] / times[:-1]) / (lengths[1:] / lengths[:-1])
                ),
                "Ratios are divided by ratios. An exponent is a quotient of their logarithms.",
            ),
            Mistake(
                lambda lengths, times: np.diff(times) / np.diff(lengths),
                "These are slopes, in time a position. Take logarithms first: the slope of those is the exponent.",
            ),
            Mistake(
                lambda lengths, times: (
                    np.log(times[1:] / times[0])
                    / np.log(lengths[1:] / lengths[0])
                ),
                "Each length is compared with the first one. Compare it with the one before.",
            ),
        ),
        cases=_growth_cases,
        axes=("pair of lengths",),
    ),
    Exercise(
        "ex-speed-weights",
        "by hand",
        (3,),
        1,
        _mib,
        (
            Mistake(
                lambda: [_mib()[0]] * 2,
                "The first is right. The number of positions stays, but pairs are of positions of one sequence.",
            ),
            Mistake(
                lambda: [_mib()[0], 4 * _mib()[0]],
                "The first is right. Twice the length is four times the pairs; but there are half as many sequences.",
            ),
            Mistake(
                lambda: _mib(heads=1),
                "Each head has weights of its own.",
            ),
            Mistake(
                lambda: _mib(batch=1),
                "Each sequence of the batch has weights of its own.",
            ),
            Mistake(
                lambda: _mib(itemsize=4),
                "That is float32. Half precision takes half of it.",
            ),
            Mistake(
                lambda: [one * 2**20 / 1e6 for one in _mib()],
                "These are millions of bytes. A MiB has 1024².",
            ),
        ),
        axes=("answer",),
        tolerance=1e-3,
    ),
)
