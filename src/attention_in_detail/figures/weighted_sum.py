"""The output of attention as a point among the values: their weighted mean, inside their hull."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator

from ._data import Drawable, array_of, same_size, weights_of, words_of
from ._type import put, width_of, wrapped
from ._words import brief, listing, plain
from .picture import Picture, drawn_twice
from .style import (
    MARKERS,
    SMALL,
    TEXT,
    TITLE,
    inks,
    points,
)

LARGEST_DISC = 46
"""Radius, in css pixels, of the disc of a value that has all of the weight."""


def weighted_sum(
    values: Drawable,
    weights: Drawable,
    *,
    labels: Sequence[str] | None = None,
    output_label: str = "output",
    trail: Drawable | None = None,
    trail_label: str = "outputs",
    title: str | None = None,
    text_alternative: str | None = None,
) -> Picture:
    """Draw values as points of the plane, each under a disc whose area is its weight, and their weighted mean.

    The dashed outline is the hull of the values. No weights lead out of it.

    Args:
        values: (S, 2), one point a row: the picture has room for values of two coordinates.
        weights: (S,), not negative, with sum 1.
        labels: S names of the values; None calls them v₁ to v_S.
        output_label: the name of the weighted mean.
        trail: (n, 2), places to be joined by a line, such as the outputs at other temperatures; None leaves it out.
        trail_label: what lies on the trail, for the text alternative.
        title: a line above the picture.
        text_alternative: words for the picture; None makes them from the data: place and weight of each value, the place
            of the output, and both ends of the trail.

    Returns:
        The picture, 480 css pixels wide.

    Raises:
        ValueError: `values` has not two axes or not two columns, an array is not finite, the number of weights or labels
            is not the number of values, a weight lies outside 0 to 1, or the weights do not sum to 1.
    """
    V = _in_plane("values", array_of("values", values, "S D_v"))
    A = weights_of("weights", weights, "S")
    same_size("values", "S", len(V), "weights", "S", len(A))
    if abs(A.sum() - 1) > 1e-6:
        raise ValueError(
            f"weights must sum to 1; their sum is {A.sum():.6g}"
        )
    if labels is None:
        tokens = [f"$v_{{{j + 1}}}$" for j in range(len(V))]
    else:
        tokens = words_of("labels", labels, "S", len(V), "values")
    way = (
        None
        if trail is None
        else _in_plane("trail", array_of("trail", trail, "n D_v"))
    )
    output = A @ V
    if text_alternative is None:
        parts = [
            f"{plain(t)} at {place(v)}, weight {share(a)}"
            for t, v, a in zip(tokens, V, A, strict=True)
        ]
        said = f"{plain(title)}. " if title else ""
        said += f"{len(V)} values in the plane, each under a disc whose area is its weight: {listing(parts, 'values')}. "
        said += f"Their weighted mean ({plain(output_label)}) lies at {place(output)}, inside their dashed hull."
        if way is not None:
            said += f" A line through {len(way)} {plain(trail_label)} runs from {place(way[0])} to {place(way[-1])}."
        text_alternative = said
    return drawn_twice(
        _draw,
        V,
        A,
        output,
        tokens,
        output_label,
        way,
        title,
        text_alternative,
    )


def place(point: np.ndarray) -> str:
    """Write a point of the plane, its coordinates with three significant digits."""
    return f"({', '.join(brief(round(float(c), 9)) for c in point)})"


def share(weight: float) -> str:
    """Write a weight with three significant digits, or say that it is too small for them."""
    return "<0.001" if 0 < weight < 0.001 else brief(weight)


def hull_of(places: np.ndarray) -> np.ndarray:
    """Return the corners of the convex hull of points in the plane, the first one once more at the end.

    Args:
        places: (n, 2).
    """
    rows = np.unique(places, axis=0)  # from left to right
    corners: list[np.ndarray] = []
    for side in (
        rows,
        rows[::-1],
    ):  # first the lower side, then the upper one back
        half: list[np.ndarray] = []
        for point in side:
            while len(half) > 1 and not _turns_left(
                half[-2], half[-1], point
            ):
                half.pop()
            half.append(point)
        corners += half[:-1]
    return np.array([*corners, corners[0]]) if corners else rows


def _turns_left(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> bool:
    return bool(
        (b[0] - a[0]) * (c[1] - a[1]) > (b[1] - a[1]) * (c[0] - a[0])
    )


def _in_plane(name: str, places: np.ndarray) -> np.ndarray:
    if places.shape[1] != 2:
        raise ValueError(
            f"{name} has D_v = {places.shape[1]}; a picture in the plane needs D_v = 2"
        )
    return places


def _draw(
    V: np.ndarray,
    A: np.ndarray,
    output: np.ndarray,
    tokens: list[str],
    output_label: str,
    way: np.ndarray | None,
    title: str | None,
    text_alternative: str,
) -> Picture:
    across, beside, foot = 480, 92, 86
    heading = (
        []
        if title is None
        else wrapped(title, across - 20, TITLE, bold=True)
    )
    top = 72.0 + 23 * len(heading)
    seen = V if way is None else np.vstack([V, way])
    low, high = seen.min(axis=0), seen.max(axis=0)
    middle, spans = (low + high) / 2, high - low
    unit = (across - 2 * beside) / (
        spans.max() or 1.0
    )  # css pixels for 1, the same across and down
    wide, tall = np.maximum(spans * unit, 60.0)
    left = (across - wide) / 2
    picture = Picture(
        across, top + tall + foot, text_alternative=text_alternative
    )
    _scales(picture, middle, unit, left, top, wide, tall)

    def at(places: np.ndarray) -> np.ndarray:
        """Take places in the plane to places on the page."""
        return np.array([left + wide / 2, top + tall / 2]) + (
            places - middle
        ) * [
            unit,
            -unit,
        ]

    page = picture.page()
    for n, line in enumerate(heading):
        put(
            page,
            across / 2,
            18 + 23 * n,
            line,
            TITLE,
            weight="bold",
            gid="title",
        )
    corners, y, radii = at(V), at(output), LARGEST_DISC * np.sqrt(A)
    edge = at(hull_of(V))
    page.plot(
        *edge.T,
        color=inks().rule,
        linestyle=(0, (5, 3)),
        linewidth=points(1.4),
        zorder=1,
        gid="hull",
    )
    drawn = [_line(edge)]
    for j, corner in enumerate(corners):
        radius = float(radii[j])
        look = {
            "facecolor": inks().tints[0],
            "edgecolor": inks().series[0],
            "linewidth": points(2.4),
        }
        page.plot(
            *np.array([y, corner]).T,
            color=inks().rule,
            linewidth=points(1.2),
            zorder=1.2,
            gid=f"line:{j}",
        )
        page.add_patch(
            Circle(
                tuple(corner), radius, zorder=1.4, gid=f"disc:{j}", **look
            )
        )
        page.plot(
            *corner,
            "o",
            color=inks().series[0],
            markersize=points(7),
            zorder=1.5,
            gid=f"value:{j}",
        )
        drawn += [
            _line(np.array([y, corner])),
            _disc(corner, max(radius, 4.0)),
        ]
    if way is not None:
        page.plot(
            *at(way).T,
            color=inks().series[1],
            linewidth=points(2.6),
            zorder=2,
            gid="trail",
        )
        page.plot(
            *at(way[[0, -1]]).T,
            "o",
            linestyle="",
            color=inks().series[1],
            markersize=points(8),
            zorder=2,
            gid="trail ends",
        )
        drawn.append(_line(at(way)))
    page.plot(
        *y,
        MARKERS[3],
        color=inks().series[1],
        markersize=points(14),
        zorder=3,
        gid="output",
    )
    drawn.append(_disc(y, 8.0))

    words = f"{output_label} {place(output)}"
    _name(
        page,
        y,
        10.0,
        words,
        drawn,
        weight="bold",
        gid="output label",
    )
    for j, corner in enumerate(corners):
        _name(
            page,
            corner,
            max(float(radii[j]), 4.0) + 3,
            f"{tokens[j]}: {share(A[j])}",
            drawn,
            gid=f"label:{j}",
        )
    return picture


def _scales(
    picture: Picture,
    middle: np.ndarray,
    unit: float,
    left: float,
    top: float,
    wide: float,
    tall: float,
) -> None:
    """Draw the coordinates below the points and on their left, clear of the largest disc."""
    clear = 48
    for c, length, box in (
        (0, wide, (left, top + tall + clear, wide, 1)),
        (1, tall, (left - clear, top, 1, tall)),
    ):
        axes = picture.axes_at(*box)
        ends = middle[c] - length / unit / 2, middle[c] + length / unit / 2
        (axes.set_ylim if c else axes.set_xlim)(*ends)
        for side, spine in axes.spines.items():
            spine.set_visible(side == ("left" if c else "bottom"))
            spine.set_color(inks().rule)
        axis, other = (
            (axes.yaxis, axes.xaxis) if c else (axes.xaxis, axes.yaxis)
        )
        other.set_visible(False)
        steps = MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(*ends)
        steps = [
            round(float(s), 9) + 0.0
            for s in steps
            if ends[0] - 1e-9 <= s <= ends[1] + 1e-9
        ]
        axis.set_major_locator(FixedLocator(steps))
        axis.set_major_formatter(FixedFormatter([brief(s) for s in steps]))
        axes.tick_params(
            color=inks().rule,
            labelcolor=inks().words,
            labelsize=points(SMALL),
            width=points(1.2),
            length=points(5),
        )


def _line(corners: np.ndarray) -> np.ndarray:
    """Return points of a line through corners, about four css pixels apart."""
    parts = [corners[:1]]
    for start, end in pairwise(corners):
        steps = 2 + int(np.hypot(*(end - start)) / 4)
        parts.append(
            start + (end - start) * np.linspace(0, 1, steps)[:, None]
        )
    return np.concatenate(parts)


def _disc(centre: np.ndarray, radius: float) -> np.ndarray:
    """Return points spread over a disc."""
    turns = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    rim = radius * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    return np.concatenate(
        [centre + part * rim for part in (0.0, 0.4, 0.7, 1.0)]
    )


def _name(
    page: Axes,
    spot: np.ndarray,
    away: float,
    words: str,
    drawn: list[np.ndarray],
    **look: Any,
) -> None:
    """Write a name next to a spot, where it covers the least of what is drawn, and add it to that.

    Of the places that cover equally little, it takes the nearest.
    """
    half = np.array(
        [
            width_of(words, TEXT, bold=look.get("weight") == "bold") / 2
            + 3,
            9.0,
        ]
    )
    size = np.array([page.get_xlim()[1], page.get_ylim()[0]])
    level = [(0, -1), (0, 1), (1, 0), (-1, 0)]
    slanting = [(1, -1), (-1, -1), (1, 1), (-1, 1)]
    moves = [(half + away) * side for side in level]
    moves += [(half + 0.7 * away) * side for side in slanting]
    # Where lines meet in the spot there is room further away: a corner of the name goes between two of them.
    moves += [
        (half + corner) * side
        for more in (8.0, 16.0, 24.0, 32.0, 40.0)
        for corner in ((away + more, 4.0), (4.0, away + more))
        for side in slanting
    ]
    covered = np.concatenate(drawn)

    def cost(middle: np.ndarray) -> int:
        outside = (middle - half < 0).any() or (middle + half > size).any()
        hits = (np.abs(covered - middle) < half).all(axis=1).sum()
        return int(hits) + 1000 * bool(outside)

    middle = min((spot + move for move in moves), key=cost)
    middle = np.clip(middle, half, size - half)
    put(page, *middle, words, TEXT, zorder=4, **look)
    grid = np.stack(
        np.meshgrid(np.linspace(-1, 1, 15), np.linspace(-1, 1, 5)), axis=-1
    )
    drawn.append(middle + half * grid.reshape(-1, 2))
