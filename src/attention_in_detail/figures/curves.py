"""Curves over a common axis, told apart by colour, marker and dashes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    MaxNLocator,
    NullLocator,
)

from ._data import Drawable, array_of, same_size
from ._type import put, width_of, wrapped
from ._words import brief, plain
from .picture import Picture, drawn_twice
from .style import (
    DASHES,
    MARKERS,
    SMALL,
    TEXT,
    TITLE,
    Length,
    inks,
    points,
)


def curves(
    x: Drawable,
    series: Mapping[str, Drawable],
    *,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    title: str | None = None,
    bands: Mapping[str, tuple[Drawable, Drawable]] | None = None,
    text_alternative: str | None = None,
) -> Picture:
    """Draw up to six series as lines with their own colour, marker and dashes, each with its name at its end.

    Args:
        x: (n,), the common axis, rising.
        series: from the name of each series to its values, (n,).
        x_label: what x is, with its unit.
        y_label: what the values are, with their unit; it stands above the axis.
        log_x: whether x has a logarithmic scale.
        log_y: whether y has a logarithmic scale.
        title: a line above the picture.
        bands: from the name of a series to the lower and upper ends, (n,) each, of a band around it.
        text_alternative: words for the picture; None makes them from the data: the axes, and of each series the values at
            both ends, and its highest or lowest point where that lies between.

    Returns:
        The picture, 480 css pixels wide.

    Raises:
        ValueError: there are no series or more than six, an array has not one axis, is not finite or has another length
            than `x`, x does not rise, a logarithmic axis would have to show zero or less, or a band has no series.
    """
    across = array_of("x", x, "n")
    if not 1 <= len(series) <= len(MARKERS):
        raise ValueError(
            f"series has {len(series)} entries; 1 to {len(MARKERS)} can be told apart"
        )
    if (np.diff(across) <= 0).any():
        raise ValueError("x must rise from each entry to the next")
    values = {
        name: _one("series", name, v, across) for name, v in series.items()
    }
    ends: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name, pair in (bands or {}).items():
        if name not in values:
            raise ValueError(f"bands has {name!r}, which is not in series")
        low, high = (_one("bands", name, v, across) for v in pair)
        ends[name] = (low, high)
    shown = [
        *values.values(),
        *(end for pair in ends.values() for end in pair),
    ]
    for flag, name, arrays in (
        (log_x, "x", [across]),
        (log_y, "series", shown),
    ):
        if flag and min(float(a.min()) for a in arrays) <= 0:
            raise ValueError(
                f"{name} has values of zero or less, which a logarithmic scale cannot show"
            )
    if text_alternative is None:
        text_alternative = _curve_words(
            across, values, ends, x_label, y_label, (log_x, log_y), title
        )
    return drawn_twice(
        _draw_curves,
        across,
        values,
        ends,
        x_label,
        y_label,
        log_x,
        log_y,
        title,
        text_alternative,
    )


def _one(
    argument: str, name: str, values: Drawable, x: np.ndarray
) -> np.ndarray:
    array = array_of(f"{argument}[{name!r}]", values, "n")
    same_size("x", "n", len(x), f"{argument}[{name!r}]", "n", len(array))
    return array


def _curve_words(
    x: np.ndarray,
    values: Mapping[str, np.ndarray],
    bands: Mapping[str, tuple[np.ndarray, np.ndarray]],
    x_label: str,
    y_label: str,
    logarithmic: tuple[bool, bool],
    title: str | None,
) -> str:
    """Say the axes and the course of each series."""
    scales = ["" if not flag else " (logarithmic)" for flag in logarithmic]
    words = f"{plain(title)}. " if title else ""
    words += f"Line chart of {plain(y_label)}{scales[1]} against {plain(x_label)}{scales[0]}, {brief(x[0])} to {brief(x[-1])}."
    for name, y in values.items():
        words += f" {plain(name)}: {brief(y[0])} at first, {brief(y[-1])} at last"
        for extreme, position in (
            ("highest", int(y.argmax())),
            ("lowest", int(y.argmin())),
        ):
            if y[position] not in (y[0], y[-1]):
                words += f", {extreme} {brief(y[position])} at {brief(x[position])}"
        if name in bands:
            low, high = bands[name]
            words += f", last band {brief(low[-1])} to {brief(high[-1])}"
        words += "."
    return words


def _draw_curves(
    x: np.ndarray,
    values: Mapping[str, np.ndarray],
    bands: Mapping[str, tuple[np.ndarray, np.ndarray]],
    x_label: str,
    y_label: str,
    log_x: bool,
    log_y: bool,
    title: str | None,
    text_alternative: str,
) -> Picture:
    across = 480
    heading = (
        []
        if title is None
        else wrapped(title, across - 20, TITLE, bold=True)
    )
    label_room = max(width_of(name, SMALL) for name in values) + 30
    direct = label_room <= 150
    legend = [] if direct else list(values)
    top = 40 + 23 * len(heading)
    height = 230
    picture = Picture(
        across,
        top + height + 58 + 22 * len(legend),
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

    left, right = 66, label_room if direct else 20
    axes = picture.axes_at(left, top, across - left - right, height)
    if log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
    for n, (name, y) in enumerate(values.items()):
        if name in bands:
            axes.fill_between(
                x,
                *bands[name],
                color=inks().series[n],
                alpha=0.22,
                linewidth=0,
                gid=f"band:{name}",
            )
        look = {
            "color": inks().series[n],
            "linestyle": DASHES[n],
            "linewidth": points(2.4),
        }
        every = max(1, int(np.ceil(len(x) / 12)))
        axes.plot(
            x,
            y,
            marker=MARKERS[n],
            markersize=points(8),
            markevery=every,
            label=name,
            gid=f"series:{name}",
            **look,
        )
    axes.margins(x=0.03, y=0.06)
    _frame(axes)
    _ticks(axes, "x", x, log_x)
    _ticks(axes, "y", np.concatenate(list(values.values())), log_y)
    put(page, 10, top - 20, y_label, TEXT, ha="left", gid="y label")
    put(
        page,
        left + (across - left - right) / 2,
        top + height + 40,
        x_label,
        TEXT,
        gid="x label",
    )
    if direct:
        _end_labels(page, axes, x, values, top, height, across - right + 10)
    for n, name in enumerate(legend):
        y = top + height + 66 + 22 * n
        look = {
            "color": inks().series[n],
            "linestyle": DASHES[n],
            "linewidth": points(2.4),
        }
        page.plot(
            [left, left + 24, left + 48],
            [y] * 3,
            marker=MARKERS[n],
            markevery=[1],
            markersize=points(8),
            **look,
        )
        put(page, left + 58, y, name, SMALL, ha="left", gid=f"label:{name}")
    return picture


def _frame(axes: Axes) -> None:
    """Keep the left and the lower line of the frame."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(inks().rule)
        axes.spines[side].set_linewidth(points(1.4))
    axes.tick_params(
        color=inks().rule,
        labelcolor=inks().words,
        labelsize=points(SMALL),
        width=points(1.2),
        length=points(5),
    )


def _ticks(
    axes: Axes, which: str, data: np.ndarray, logarithmic: bool
) -> None:
    """Put at most six ticks with plain numbers on an axis."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = sorted(axes.get_xlim() if which == "x" else axes.get_ylim())
    if not logarithmic:
        places = [
            p
            for p in MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(
                low, high
            )
            if low <= p <= high
        ]
    elif which == "x" and len(data) <= 12:
        places = list(data[:: int(np.ceil(len(data) / 6))])
    else:
        first, last = (
            int(np.ceil(np.log10(low))),
            int(np.floor(np.log10(high))),
        )
        powers = [10.0**k for k in range(first, last + 1)]
        places = powers[:: max(1, int(np.ceil(len(powers) / 6)))]
        if len(places) < 2:
            places = [
                m * 10.0**k
                for k in range(first - 1, last + 1)
                for m in (1, 2, 5)
                if low <= m * 10.0**k <= high
            ]
    axis.set_major_locator(FixedLocator(places))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(
        FixedFormatter([_tick_words(float(p), logarithmic) for p in places])
    )


def _tick_words(value: Length, logarithmic: bool) -> str:
    if logarithmic and value > 0 and not 9.99e-4 <= value < 1e5:
        exponent = int(np.floor(np.log10(value) + 1e-9))
        factor = value / 10.0**exponent
        lead = "" if abs(factor - 1) < 1e-9 else rf"{factor:.3g} \cdot "
        return rf"${lead}10^{{{exponent}}}$"
    if value != 0 and (abs(value) >= 1e6 or abs(value) < 1e-4):
        mantissa, exponent = (
            f"{value:.3g}".split("e")
            if "e" in f"{value:.3g}"
            else f"{value:.2e}".split("e")
        )
        return rf"${mantissa} \cdot 10^{{{int(exponent)}}}$"
    return f"{value:,.6g}".replace("-", "−")


def _end_labels(
    page: Axes,
    axes: Axes,
    x: np.ndarray,
    values: Mapping[str, np.ndarray],
    top: Length,
    height: Length,
    left: Length,
) -> None:
    """Write the name of each series at the end of its line, moved apart where lines end close together."""
    low, high = (
        axes.transData.transform((x[-1], axes.get_ylim()[0]))[1],
        axes.transData.transform((x[-1], axes.get_ylim()[1]))[1],
    )
    ends = {
        name: top
        + height
        * (high - axes.transData.transform((x[-1], y[-1]))[1])
        / (high - low)
        for name, y in values.items()
    }
    order = sorted(ends, key=ends.__getitem__)
    places = [ends[name] for name in order]
    step = 18
    for n in range(1, len(places)):
        places[n] = max(places[n], places[n - 1] + step)
    overshoot = max(0.0, places[-1] - (top + height - 2))
    for n in reversed(range(len(places))):
        limit = (
            top + height - 2 - step * (len(places) - 1 - n)
            if overshoot
            else places[n]
        )
        places[n] = min(places[n], limit)
    names = list(values)
    for name, y in zip(order, places, strict=True):
        n = names.index(name)
        page.plot(
            left,
            y,
            MARKERS[n],
            color=inks().series[n],
            markersize=points(7),
        )
        put(
            page,
            left + 9,
            y,
            name,
            SMALL,
            ha="left",
            gid=f"label:{name}",
        )
