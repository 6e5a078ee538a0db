"""An array drawn with the names and sizes of its axes: one sheet, or a stack of sheets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ._cells import fitting_size
from ._data import Drawable, array_of, numbers_of, words_of
from ._type import put, put_token, token_width, width_of
from ._words import LISTED, listing, names, number, plain
from .picture import Picture, drawn_twice
from .style import SMALL, TEXT, TITLE, inks, text_colour

MOST_ROWS, MOST_COLUMNS = 8, 8
"""The largest sheet, in cells: every entry of the front sheet is printed."""

MOST_SHEETS = 4
"""How many sheets of a longer stack are drawn."""

STEP = (20, 16)
"""How far a sheet looks out behind the one before it, right and down, in css pixels."""

HIGH = 38.0
"""Height of a cell in css pixels."""

SMALLEST = 11.0
"""Type size of long numbers, in css pixels."""


@dataclass(frozen=True)
class _Array:
    """What is drawn: the sheets, the names of their axes, and what is written beside."""

    symbol: str
    axes: list[str]
    sheets: np.ndarray  # (B, S, D); B = 1 for an array of two axes
    rows: list[str] | None
    columns: list[str] | None
    highlight: int | None
    highlight_label: str
    digits: int

    @property
    def sizes(self) -> list[int]:
        return list(self.sheets.shape[-len(self.axes) :])

    def printed(self) -> list[str]:
        """The entries of the front sheet as they stand in the cells, row by row."""
        return [
            number(float(value), self.digits)
            for value in self.sheets[0].flat
        ]


def labelled_array(
    array: Drawable,
    *,
    symbol: str = "$X$",
    axes: Sequence[str] | None = None,
    row_labels: Sequence[str] | None = None,
    column_labels: Sequence[str] | None = None,
    highlight: int | None = None,
    highlight_label: str = "",
    digits: int = 2,
    text_alternative: str | None = None,
) -> Picture:
    """Draw an array of two axes as a sheet of numbers, one of three as a stack of sheets.

    Each axis carries its name and its size: the rows on the left, the columns above, the stack along its slant. Of a stack
    only the front sheet, the first, shows its numbers.

    Args:
        array: (S, D) or (B, S, D), with up to 8 rows and 8 columns.
        symbol: the symbol of the array, such as `"$X$"`.
        axes: the names of the axes, set as mathematics; None means B, S, D or the last two of them.
        row_labels: S tokens for the rows of the front sheet, or None.
        column_labels: D words for the columns, or None.
        highlight: the index, from 0, of a row of the front sheet that is framed; None frames none.
        highlight_label: what stands beside the framed row, such as `"$x_4^T$"`.
        digits: decimals of the numbers. An integer is printed without decimals.
        text_alternative: words for the picture; None makes them from the data: the names and sizes of the axes, the numbers
            of the front sheet, the framed row.

    Returns:
        The picture, at most 480 css pixels wide unless labels or numbers are long.

    Raises:
        ValueError: `array` has neither two nor three axes, an entry that is not finite, or too many rows or columns; `axes`
            or labels do not have the size of what they name; `highlight` is not the index of a row.
    """
    values = numbers_of("array", array)
    expected = ["B", "S", "D"] if values.ndim == 3 else ["S", "D"]
    values = array_of("array", values, " ".join(expected))
    S, D = values.shape[-2:]
    if S > MOST_ROWS or D > MOST_COLUMNS:
        most = f"up to {MOST_ROWS} rows and {MOST_COLUMNS} columns can be drawn"
        raise ValueError(f"array has S = {S}, D = {D}; {most}")
    if highlight is not None and not 0 <= highlight < S:
        raise ValueError(
            f"highlight is {highlight}; rows have the indices 0 to {S - 1}"
        )

    def labels(
        name: str, words: Sequence[str] | None, axis: str, size: int
    ):
        return (
            None
            if words is None
            else words_of(name, words, axis, size, "array")
        )

    drawn = _Array(
        symbol=symbol,
        axes=labels("axes", axes, "axes", values.ndim) or expected,
        sheets=values.reshape(-1, S, D),
        rows=labels("row_labels", row_labels, "S", S),
        columns=labels("column_labels", column_labels, "D", D),
        highlight=highlight,
        highlight_label=highlight_label,
        digits=digits,
    )
    said = _words(drawn) if text_alternative is None else text_alternative
    return drawn_twice(_draw, drawn, said)


def _words(drawn: _Array) -> str:
    """Say the axes with their sizes, the front sheet row by row, and the framed row."""
    B, S, D = drawn.sheets.shape
    shape = ", ".join(plain(axis) for axis in drawn.axes)
    words = f"The array {plain(drawn.symbol)} with the axes ({shape})"
    words += f" = ({', '.join(map(str, drawn.sizes))})"
    if len(drawn.axes) == 3:
        shown = (
            f"{B} sheets"
            if B <= MOST_SHEETS
            else f"{MOST_SHEETS} of {B} sheets"
        )
        words += (
            f", drawn as {shown} one behind the other"
            if B > 1
            else ", one sheet"
        )
    rows = names("row", drawn.rows, S)
    columns = [f"{plain(column)} " for column in drawn.columns or []] or [
        ""
    ] * D
    cells = np.reshape(drawn.printed(), (S, D))
    said = [
        f"{row}: {', '.join(c + n for c, n in zip(columns, line, strict=True))}"
        for row, line in zip(rows, cells, strict=True)
    ]
    words += f". {'Front sheet' if len(drawn.axes) == 3 else 'Rows'}: "
    words += f"{listing(said, 'rows', LISTED)}."
    if drawn.highlight is not None:
        label = drawn.highlight_label
        words += f" Framed: {rows[drawn.highlight]}"
        words += f", labelled {plain(label)}." if label else "."
    return words


def _draw(drawn: _Array, text_alternative: str) -> Picture:
    """Lay the sheets out from the size of their labels, then draw them back to front."""
    B, S, D = drawn.sheets.shape
    rows, columns, label = (
        drawn.rows or [],
        drawn.columns or [],
        drawn.highlight_label,
    )
    names_and_sizes = zip(drawn.axes, drawn.sizes, strict=True)
    *batch, rows_size, columns_size = (
        f"${n}$ = {size}" for n, size in names_and_sizes
    )
    shape = f"{drawn.symbol}   $({', '.join(drawn.axes)})$"
    shape += f" = ({', '.join(map(str, drawn.sizes))})"
    behind = min(B, MOST_SHEETS) - 1
    row_room = max((token_width(t) + 10 for t in rows), default=4)
    side = 30 + width_of(rows_size, SMALL) + row_room
    tail = (
        behind * STEP[0] + (width_of(label, TEXT) + 14 if label else 0) + 10
    )
    texts = drawn.printed()
    needed = [width_of(t, TEXT) + 16 for t in texts]
    needed += [token_width(t, SMALL) + 12 for t in columns]
    most = np.floor((480 - side - tail) / D)
    least = max(width_of(t, SMALLEST) for t in texts) + 6
    wide = max(28.0, least, min(max(52.0, *needed), most))
    across = max(side + wide * D + tail, width_of(shape, TITLE) + 20)
    left = side + (across - side - wide * D - tail) / 2
    top = 92 if columns else 68
    right, bottom = left + wide * D, top + HIGH * S
    below = max(behind * STEP[1], 14 if batch else 0) + 14

    picture = Picture(
        across, bottom + below, text_alternative=text_alternative
    )
    page = picture.page()
    put(page, across / 2, 20, shape, TITLE, gid="symbol")
    for n in range(behind, -1, -1):
        x, y = left + n * STEP[0], top + n * STEP[1]
        _sheet(
            page,
            np.linspace(x, x + wide * D, D + 1),
            np.arange(S + 1) * HIGH + y,
            n,
        )
    size = fitting_size(texts, wide - 6, TEXT, SMALLEST)
    for n, words in enumerate(texts):
        x, y = left + wide * (n % D + 0.5), top + HIGH * (n // D + 0.5)
        put(
            page,
            x,
            y,
            words,
            size,
            color=text_colour(inks().tints[0]),
            gid=f"cell:{n // D}:{n % D}",
        )

    line = {"color": inks().rule, "linewidth": 1}
    put(
        page,
        (left + right) / 2,
        46,
        columns_size,
        SMALL,
        gid="size:columns",
    )
    x, y = [left + 1, left + 1, right - 1, right - 1], [63, 58, 58, 63]
    page.plot(x, y, **line)
    for d, word in enumerate(columns):
        place = (left + wide * (d + 0.5), top - 9)
        put_token(
            page, *place, word, SMALL, va="baseline", gid=f"column:{d}"
        )
    edge, middle = left - row_room - 4, (top + bottom) / 2
    put(
        page,
        edge - 8,
        middle,
        rows_size,
        SMALL,
        ha="right",
        gid="size:rows",
    )
    x, y = (
        [edge + 5, edge, edge, edge + 5],
        [top + 1, top + 1, bottom - 1, bottom - 1],
    )
    page.plot(x, y, **line)
    for s, word in enumerate(rows):
        place = (left - 8, top + HIGH * (s + 0.5))
        put_token(page, *place, word, ha="right", gid=f"row:{s}")
    if batch:
        x, y = (
            left - 18 + behind * STEP[0] / 2,
            bottom + 10 + behind * STEP[1] / 2,
        )
        put(page, x, y, batch[0], SMALL, ha="right", gid="size:sheets")
        if behind:  # a bracket along the slant of the front corners
            x, y = left - 9, bottom + 5
            end = (x + behind * STEP[0], y + behind * STEP[1])
            x, y = (
                [x + 5, x, end[0], end[0] + 5],
                [y - 5, y, end[1], end[1] - 5],
            )
            page.plot(x, y, **line)
    if drawn.highlight is not None:
        y = top + HIGH * drawn.highlight
        frame = {
            "fill": False,
            "edgecolor": inks().series[1],
            "linewidth": 3,
            "zorder": 2,
        }
        page.add_patch(
            Rectangle(
                (left, y), right - left, HIGH, gid="highlight", **frame
            )
        )
        if label:
            x, y = right + behind * STEP[0] + 12, y + HIGH / 2
            put(page, x, y, label, TEXT, ha="left", gid="highlight label")
    return picture


def _sheet(page: Axes, x: np.ndarray, y: np.ndarray, n: int) -> None:
    """Draw the n-th sheet as empty cells between the lines at x and y, in its own colour."""
    tint = inks().tints[n % len(inks().tints)]
    edge = inks().series[n % len(inks().series)]
    corner, across, down = (x[0], y[0]), x[-1] - x[0], y[-1] - y[0]
    depth = 1 - 0.1 * n  # the front sheet hides the others
    ground = {"facecolor": tint, "edgecolor": "none", "zorder": depth}
    page.add_patch(
        Rectangle(corner, across, down, gid=f"sheet:{n}", **ground)
    )
    inner = {"colors": edge, "linewidth": 0.75, "zorder": depth + 0.01}
    page.vlines(x[1:-1], y[0], y[-1], **inner)
    page.hlines(y[1:-1], x[0], x[-1], **inner)
    frame = {
        "fill": False,
        "edgecolor": edge,
        "linewidth": 1.8,
        "zorder": depth + 0.02,
    }
    page.add_patch(Rectangle(corner, across, down, **frame))
