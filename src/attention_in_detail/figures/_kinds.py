"""What differs between heat maps of weights, of scores and of masks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from matplotlib.colors import Colormap, ListedColormap

from ._data import Drawable, array_of, weights_of
from ._words import (
    LISTED,
    listing,
    number,
    strongest,
    strongest_keys,
    together,
    zeros,
)
from .style import Inks

TICK = "✓"


@dataclass(frozen=True)
class Kind:
    """One kind of heat map: how it is read, coloured, signed and put into words."""

    title: str  # how the text alternative begins
    colours: Callable[[Inks], Colormap]
    legend: str  # what the colour bar measures
    read: Callable[
        [Drawable], np.ndarray
    ]  # checks the argument, returns (T, S)
    limits: Callable[[np.ndarray], tuple[float, float]]
    in_cell: Callable[[float, int], str]  # with numbers
    sign: Callable[[float], str]  # without numbers
    says: Callable[[np.ndarray, list[str], list[str], int], str]


def _read_scores(values: Drawable) -> np.ndarray:
    return array_of("weights", values, "T S", minus_infinity=True)


def _read_mask(values: Drawable) -> np.ndarray:
    array = array_of("weights", values, "T S")
    other = (array != 0) & (array != 1)
    if other.any():
        place = tuple(int(i) for i in np.argwhere(other)[0])
        raise ValueError(
            f"weights is to be a mask of true and false: entry {place} is {array[place]:.6g}"
        )
    return array


def _says_weights(
    values: np.ndarray, queries: list[str], keys: list[str], digits: int
) -> str:
    return strongest_keys(values, queries, keys, digits) + zeros(values)


def _says_scores(
    values: np.ndarray, queries: list[str], keys: list[str], digits: int
) -> str:
    parts = [
        f"{query}: {strongest(row, keys, digits)}"
        for query, row in zip(queries, values, strict=True)
    ]
    shut = int(np.isneginf(values).sum())
    masked = (
        f" {shut} of {values.size} scores are −∞: shut out by a mask."
        if shut
        else ""
    )
    finite = values[~np.isneginf(values)]
    span = (
        f" Scores lie between {number(finite.min(), digits)} and {number(finite.max(), digits)}."
        if finite.size
        else ""
    )
    return f"Largest score of each query: {listing(parts, 'queries')}.{span}{masked}"


def _says_mask(
    values: np.ndarray, queries: list[str], keys: list[str], digits: int
) -> str:
    parts = []
    for query, row in zip(queries, values, strict=True):
        may = np.flatnonzero(row)
        if len(may) in (0, len(row)):
            parts.append(
                f"{query}: {'no key' if not len(may) else 'every key'}"
            )
        elif len(may) <= LISTED:
            parts.append(f"{query}: {together([keys[j] for j in may])}")
        else:
            parts.append(f"{query}: {len(may)} of {len(row)} keys")
    said = (
        f"Keys that each query may attend to: {listing(parts, 'queries')}."
    )
    return f"{said} {int(values.sum())} of {values.size} cells are open."


def _span(values: np.ndarray) -> tuple[float, float]:
    largest = (
        float(np.abs(values[np.isfinite(values)]).max(initial=0)) or 1.0
    )
    return -largest, largest


KINDS = {
    "weights": Kind(
        title="Heat map of attention weights",
        colours=lambda inks: inks.weights,
        legend="weight    ● strongest key of the query",
        read=lambda values: weights_of("weights", values, "T S"),
        limits=lambda values: (0.0, float(values.max()) or 1.0),
        in_cell=number,
        sign=lambda value: "",
        says=_says_weights,
    ),
    "scores": Kind(
        title="Heat map of scores",
        colours=lambda inks: inks.scores,
        legend="score    − below zero",
        read=_read_scores,
        limits=_span,
        in_cell=number,
        sign=lambda value: (
            "−∞" if np.isneginf(value) else "−" if value < 0 else ""
        ),
        says=_says_scores,
    ),
    "mask": Kind(
        title="Attention mask",
        colours=lambda inks: ListedColormap(
            [inks.paper, inks.weights(0.8)]
        ),
        legend=f"{TICK} may attend",
        read=_read_mask,
        limits=lambda values: (0.0, 1.0),
        in_cell=lambda value, digits: "",
        sign=lambda value: TICK if value else "",
        says=_says_mask,
    ),
}
