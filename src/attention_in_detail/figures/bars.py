"""Bars with their numbers, and dots where the scale is logarithmic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ._data import Drawable, Number, array_of, words_of
from ._type import put, width_of, wrapped
from ._words import brief, plain
from .picture import Picture, drawn_twice
from .style import (
    SMALL,
    TEXT,
    TITLE,
    Length,
    inks,
    points,
    text_colour,
)


def bars(
    labels: Sequence[str],
    values: Drawable,
    *,
    value_label: str,
    reference: Number | None = None,
    reference_label: str | None = None,
    title: str | None = None,
    log: bool = False,
    text_alternative: str | None = None,
) -> Picture:
    """Draw horizontal bars from zero, each under its label and with its number at its end.

    On a logarithmic scale, which has no zero, dots on a thin line take the place of bars.

    Args:
        labels: n labels.
        values: (n,), zero or more.
        value_label: what the numbers are, with their unit.
        reference: a value at which a dashed line is drawn, or None.
        reference_label: what that value is; None prints the number.
        title: a line above the picture.
        log: whether the scale is logarithmic.
        text_alternative: words for the picture; None makes them from the data: every label with its number.

    Returns:
        The picture, 480 css pixels wide.

    Raises:
        ValueError: `values` has not one axis, is not finite or negative, the number of labels differs from it, or a
            logarithmic scale would have to show zero.
    """
    numbers = array_of("values", values, "n")
    words = words_of("labels", labels, "n", len(numbers), "values")
    marks = [] if reference is None else [float(reference)]
    if (numbers < 0).any() or any(not m >= 0 for m in marks):
        raise ValueError(
            "values must be zero or more, so that bars start at zero"
        )
    if log and min([*numbers, *marks]) <= 0:
        raise ValueError(
            "values has values of zero or less, which a logarithmic scale cannot show"
        )
    if text_alternative is None:
        parts = [
            f"{plain(label)}: {brief(v)}"
            for label, v in zip(words, numbers, strict=True)
        ]
        said = f"{plain(title)}. " if title else ""
        shape = "Dots on a logarithmic scale" if log else "Bars"
        said += f"{shape} for {plain(value_label)}. {'; '.join(parts)}."
        for mark in marks:
            said += f" A dashed line at {brief(mark)}{f': {plain(reference_label)}' if reference_label else ''}."
        text_alternative = said
    return drawn_twice(
        _draw_bars,
        words,
        numbers,
        value_label,
        marks,
        reference_label,
        title,
        log,
        text_alternative,
    )


def _draw_bars(
    labels: list[str],
    values: np.ndarray,
    value_label: str,
    marks: list[float],
    reference_label: str | None,
    title: str | None,
    log: bool,
    text_alternative: str,
) -> Picture:
    across, step, left = 480, 48, 14
    heading = (
        []
        if title is None
        else wrapped(title, across - 20, TITLE, bold=True)
    )
    top = 16 + 23 * len(heading)
    down = top + step * len(values)
    picture = Picture(
        across,
        down + (62 if marks else 40),
        text_alternative=text_alternative,
    )
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
    room = (
        across - left - max(width_of(brief(v), TEXT) for v in values) - 24
    )
    most = max([*values, *marks]) or 1.0
    least = min([*values, *marks])

    def place(value: Length) -> Length:
        if not log:
            return left + room * value / most
        start = np.log10(least) - 0.15 * max(np.log10(most / least), 1.0)
        return left + room * (np.log10(value) - start) / (
            np.log10(most) - start
        )

    for mark in marks:
        at = place(mark)
        for n, value in enumerate(values):
            # Beside the bars only, clear of the labels above and below them; on a bar in the colour that shows there.
            y = top + step * n
            covered = not log and place(float(value)) > at
            parts = [(23, 47, inks().rule)]
            if covered:
                over = text_colour(inks().series[0])
                parts = [(24, 40, over), (42, 47, inks().rule)]
            for upper, lower, colour in parts:
                page.plot(
                    [at, at],
                    [y + upper, y + lower],
                    color=colour,
                    linestyle=(0, (3, 1.5)),
                    linewidth=points(1.8),
                    zorder=3,
                    gid="reference",
                )
        words = brief(mark) if reference_label is None else reference_label
        half = width_of(words, SMALL) / 2 + 14
        put(
            page,
            min(max(at, half), across - half),
            down + 16,
            words,
            SMALL,
            gid="reference label",
        )
    for n, (label, value) in enumerate(zip(labels, values, strict=True)):
        y = top + step * n
        end = place(float(value))
        put(page, left, y + 12, label, TEXT, ha="left", gid=f"label:{n}")
        if log:
            page.plot(
                [left, end],
                [y + 32] * 2,
                color=inks().series[0],
                linewidth=points(2),
                gid=f"bar:{n}",
            )
            page.plot(
                end,
                y + 32,
                "o",
                color=inks().series[0],
                markersize=points(12),
            )
        else:
            page.fill(
                [left, end, end, left],
                [y + 23, y + 23, y + 41, y + 41],
                color=inks().series[0],
                linewidth=1,
                gid=f"bar:{n}",
            )
        beside = end + 10
        for at in map(place, marks):
            if end <= at <= beside + width_of(brief(value), TEXT) + 4:
                beside = at + 10  # beyond the line, not under it
        put(
            page,
            beside,
            y + 32,
            brief(value),
            TEXT,
            ha="left",
            gid=f"value:{n}",
        )
    words = value_label + (" (logarithmic scale)" if log else "")
    put(
        page,
        across / 2,
        down + (42 if marks else 22),
        words,
        SMALL,
        style="italic",
        gid="value label",
    )
    return picture
