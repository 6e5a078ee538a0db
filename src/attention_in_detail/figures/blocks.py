"""A matrix cut into blocks of columns or of rows, with all its sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ._cells import fitting_size
from ._data import Drawable, array_of, words_of
from ._type import put, width_of
from ._words import number, plain
from .picture import Picture, drawn_twice
from .style import (
    SMALL,
    TEXT,
    TITLE,
    Length,
    inks,
    text_colour,
)

MOST_ROWS, MOST_COLUMNS = 8, 10
"""The largest matrix, in cells, that is drawn entry by entry."""


def matrix_blocks(
    matrix: Drawable,
    blocks: Sequence[str],
    *,
    symbol: str,
    row_name: str,
    column_name: str,
    block_name: str,
    along: str = "columns",
    numbers: bool | None = None,
    digits: int = 1,
    text_alternative: str | None = None,
) -> Picture:
    """Draw a matrix as blocks of equal width side by side, or of equal height one below the other, with their sizes.

    Args:
        matrix: (rows, columns). The number of blocks must divide the axis that is cut.
        blocks: the labels of the blocks in order, such as `["$W_1$", "$W_2$"]`.
        symbol: the symbol of the whole, such as `"$W^Q$"`.
        row_name: the name of the first axis, such as `"D_q"`.
        column_name: the name of the second axis, such as `"D"`.
        block_name: the name of the width (or height) of a block, such as `"D_h"`.
        along: `"columns"` cuts the second axis, `"rows"` the first.
        numbers: whether entries are printed; None means up to 8 rows and 10 columns.
        digits: decimals of the numbers. An integer is printed without decimals.
        text_alternative: words for the picture; None makes them from the data: the shape, the blocks and their shape.

    Returns:
        The picture, at most 480 css pixels wide.

    Raises:
        ValueError: `matrix` has not two axes or is not finite, the number of blocks does not divide the axis that is cut,
            or `along` is neither `"columns"` nor `"rows"`.
    """
    values = array_of("matrix", matrix, "rows columns")
    if along not in ("columns", "rows"):
        raise ValueError(
            f"along is {along!r}; it must be 'columns' or 'rows'"
        )
    labels = words_of("blocks", blocks, "blocks", len(blocks), "blocks")
    rows, columns = values.shape
    cut = columns if along == "columns" else rows
    if not labels or cut % len(labels):
        raise ValueError(
            f"matrix has {along} = {cut}, which {len(labels)} blocks do not divide"
        )
    size = cut // len(labels)
    shape = (rows, size) if along == "columns" else (size, columns)
    if text_alternative is None:
        place = (
            "side by side" if along == "columns" else "one below the other"
        )
        text_alternative = (
            f"The matrix {plain(symbol)} of shape ({plain(row_name)}, {plain(column_name)}) = "
            f"({rows}, {columns}) as {len(labels)} blocks "
            f"{place}, {', '.join(plain(label) for label in labels)}, each of shape ({shape[0]}, {shape[1]}): "
            f"{plain(block_name)} = {size}."
        )
    small = rows <= MOST_ROWS and columns <= MOST_COLUMNS
    numbers = small if numbers is None else numbers
    return drawn_twice(
        _draw_columns if along == "columns" else _draw_rows,
        values,
        labels,
        size,
        (symbol, row_name, column_name, block_name),
        small,
        numbers and small,
        digits,
        text_alternative,
    )


def _cell_sides(
    values: np.ndarray, small: bool, room: Length
) -> tuple[Length, Length]:
    """Return the width and the height of a drawn entry in css pixels."""
    rows, columns = values.shape
    if small:
        return min(50.0, np.floor(room / columns)), 34.0
    longest = max(rows, columns)
    return (90 + (room - 90) * columns / longest) / columns, (
        80 + 140 * rows / longest
    ) / rows


def _draw_columns(
    values: np.ndarray,
    labels: list[str],
    size: int,
    words: tuple[str, str, str, str],
    small: bool,
    numbers: bool,
    digits: int,
    text_alternative: str,
) -> Picture:
    symbol, row_name, column_name, block_name = words
    rows, columns = values.shape
    gap = 8
    side = width_of(f"${row_name}$ = {rows}", SMALL) + 18
    wide, high = _cell_sides(
        values, small, 480 - side - 16 - gap * (len(labels) - 1)
    )
    across = side + wide * columns + gap * (len(labels) - 1) + 16
    picture = Picture(
        max(across, 300),
        68 + high * rows + 62,
        text_alternative=text_alternative,
    )
    page = picture.page()
    left = (picture.css_width - across) / 2 + side
    middle = left + (wide * columns + gap * (len(labels) - 1)) / 2
    top = 68
    put(
        page,
        middle,
        20,
        f"{symbol}   $({row_name}, {column_name})$ = ({rows}, {columns})",
        TITLE,
        gid="symbol",
    )
    put(
        page,
        left - 10,
        top + high * rows / 2,
        f"${row_name}$ = {rows}",
        SMALL,
        ha="right",
        gid="size",
    )
    for n, label in enumerate(labels):
        x = left + n * (size * wide + gap)
        block = values[:, n * size : (n + 1) * size]
        _draw_block(
            page, block, x, top, wide, high, n, small, numbers, digits
        )
        put(
            page,
            x + size * wide / 2,
            top - 14,
            label,
            TEXT,
            gid=f"block:{n}",
        )
        _bracket(page, x + 2, top + high * rows + 8, size * wide - 4)
        words_below = (
            f"${block_name}$ = {size}" if size * wide > 60 or n == 0 else ""
        )
        put(
            page,
            x + size * wide / 2,
            top + high * rows + 26,
            words_below,
            SMALL,
            gid="size",
        )
    put(
        page,
        middle,
        top + high * rows + 48,
        f"${column_name}$ = {len(labels)} · ${block_name}$ = {columns}",
        SMALL,
        gid="size",
    )
    return picture


def _draw_rows(
    values: np.ndarray,
    labels: list[str],
    size: int,
    words: tuple[str, str, str, str],
    small: bool,
    numbers: bool,
    digits: int,
    text_alternative: str,
) -> Picture:
    symbol, row_name, column_name, block_name = words
    rows, columns = values.shape
    gap = 8
    side = max(width_of(label, TEXT) for label in labels) + 20
    right = width_of(f"${block_name}$ = {size}", SMALL) + 22
    wide, high = _cell_sides(values, small, 480 - side - right)
    across = side + wide * columns + right
    down = high * rows + gap * (len(labels) - 1)
    picture = Picture(
        max(across, 300), 44 + down + 56, text_alternative=text_alternative
    )
    page = picture.page()
    left = (picture.css_width - across) / 2 + side
    top = 44
    put(
        page,
        left + wide * columns / 2,
        20,
        f"{symbol}   $({row_name}, {column_name})$ = ({rows}, {columns})",
        TITLE,
        gid="symbol",
    )
    for n, label in enumerate(labels):
        y = top + n * (size * high + gap)
        _draw_block(
            page,
            values[n * size : (n + 1) * size],
            left,
            y,
            wide,
            high,
            n,
            small,
            numbers,
            digits,
        )
        put(
            page,
            left - 12,
            y + size * high / 2,
            label,
            TEXT,
            ha="right",
            gid=f"block:{n}",
        )
        put(
            page,
            left + wide * columns + 12,
            y + size * high / 2,
            f"${block_name}$ = {size}",
            SMALL,
            ha="left",
            gid="size",
        )
    middle = left + wide * columns / 2
    put(
        page,
        middle,
        top + down + 16,
        f"${column_name}$ = {columns}",
        SMALL,
        gid="size",
    )
    put(
        page,
        middle,
        top + down + 38,
        f"${row_name}$ = {len(labels)} · ${block_name}$ = {rows}",
        SMALL,
        gid="size",
    )
    return picture


def _draw_block(
    page: Axes,
    values: np.ndarray,
    left: Length,
    top: Length,
    wide: Length,
    high: Length,
    n: int,
    small: bool,
    numbers: bool,
    digits: int,
) -> None:
    """Draw one block in the n-th colour: its cells where it is small, its frame in any case."""
    rows, columns = values.shape
    tint = inks().tints[n % len(inks().tints)]
    edge = inks().series[n % len(inks().series)]
    if small:
        size = fitting_size(
            [number(float(v), digits) for v in values.flat],
            wide - 6,
            TEXT,
            9,
        )
        for (i, j), value in np.ndenumerate(values):
            x, y = left + wide * j, top + high * i
            page.add_patch(
                Rectangle(
                    (x, y),
                    wide,
                    high,
                    facecolor=tint,
                    edgecolor=edge,
                    linewidth=0.75,
                )
            )
            if numbers:
                words = number(float(value), digits)
                put(
                    page,
                    x + wide / 2,
                    y + high / 2,
                    words,
                    size,
                    color=text_colour(tint),
                    gid=f"cell:{n}:{i}:{j}",
                )
    else:
        page.add_patch(
            Rectangle(
                (left, top),
                wide * columns,
                high * rows,
                facecolor=tint,
                edgecolor="none",
            )
        )
    page.add_patch(
        Rectangle(
            (left, top),
            wide * columns,
            high * rows,
            fill=False,
            edgecolor=edge,
            linewidth=1.8,
        )
    )


def _bracket(page: Axes, left: Length, top: Length, width: Length) -> None:
    """Draw a flat bracket below a block, as wide as the block."""
    page.plot(
        [left, left, left + width, left + width],
        [top - 4, top, top, top - 4],
        color=inks().rule,
        linewidth=1,
    )
