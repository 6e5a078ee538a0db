"""What becomes of each entry of a matrix when the heads are split off, the right way and the wrong way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Polygon, Rectangle

from ._data import Drawable, array_of, same_size, words_of
from ._type import put, put_token, token_width, width_of, wrapped
from ._words import names, plain
from .blocks import MOST_COLUMNS, MOST_ROWS
from .picture import Picture, drawn_twice
from .style import SMALL, TEXT, TITLE, Length, inks, text_colour


def split_layouts(
    x: Drawable,
    right: Drawable,
    wrong: Drawable,
    *,
    right_label: str = "reshape to $(T, h, D_h)$, then swap $T$ and $h$",
    wrong_label: str = "reshape to $(h, T, D_h)$ at once",
    tokens: Sequence[str] | None = None,
    text_alternative: str | None = None,
) -> Picture:
    """Draw where each entry of a matrix lands when it is split into heads, the right way and the wrong way.

    On top stands X with one colour for the columns of each head; below, the heads of both layouts. An entry keeps the
    colour and the name "row, column" (from 1) that it has in X. A corner
    that is filled in marks an entry that is not where it belongs.

    Args:
        x: (T, D), all entries different, so that each can be found again.
        right: (h, T, D_h), the entries of `x`.
        wrong: (h, T, D_h), the entries of `x`.
        right_label: what was done to get `right`.
        wrong_label: what was done to get `wrong`.
        tokens: T names for the rows; None calls them token 1 to token T.
        text_alternative: words for the picture; None makes them from the data: the shapes, how many entries of `wrong` are
            misplaced, and which tokens the first head holds in its first rows there.

    Returns:
        The picture, at most 480 css pixels wide.

    Raises:
        ValueError: a number of axes or a size does not fit, entries of `x` repeat, a layout holds other entries than `x`,
            or there are more than 8 rows or 10 columns.
    """
    X = array_of("x", x, "T D")
    layouts = {
        "right": array_of("right", right, "h T D_h"),
        "wrong": array_of("wrong", wrong, "h T D_h"),
    }
    T, D = X.shape
    h = layouts["right"].shape[0]
    if T > MOST_ROWS or D > MOST_COLUMNS:
        raise ValueError(
            f"x has T = {T}, D = {D}; up to {MOST_ROWS} rows and {MOST_COLUMNS} columns can be drawn"
        )
    if len(np.unique(X)) != X.size:
        raise ValueError(
            "x has entries that repeat; each must differ, to be found again"
        )
    for name, layout in layouts.items():
        same_size("x", "T", T, name, "T", layout.shape[1])
        same_size(
            "x", "D", D, name, "h · D_h", layout.shape[0] * layout.shape[2]
        )
        if not np.array_equal(np.sort(layout.ravel()), np.sort(X.ravel())):
            raise ValueError(f"{name} holds other entries than x")
    same_size("right", "h", h, "wrong", "h", layouts["wrong"].shape[0])
    rows = (
        [f"token {t + 1}" for t in range(T)]
        if tokens is None
        else words_of("tokens", tokens, "T", T, "x")
    )

    origin = {float(value): place for place, value in np.ndenumerate(X)}
    misplaced = layouts["right"] != layouts["wrong"]
    if text_alternative is None:
        text_alternative = _words(
            X,
            layouts,
            origin,
            misplaced,
            names("token", tokens, T),
            right_label,
            wrong_label,
        )
    return drawn_twice(
        _draw_layouts,
        X,
        layouts,
        origin,
        misplaced,
        rows,
        (right_label, wrong_label),
        text_alternative,
    )


def _words(
    X: np.ndarray,
    layouts: dict[str, np.ndarray],
    origin: dict[float, tuple[int, ...]],
    misplaced: np.ndarray,
    tokens: list[str],
    right_label: str,
    wrong_label: str,
) -> str:
    """Say which token's entries each row of the first head holds in either layout, and how many are misplaced."""
    (T, D), (h, _, D_h) = X.shape, layouts["right"].shape

    def held(name: str) -> str:
        rows = []
        for row in layouts[name][0]:
            places = [origin[float(value)] for value in row]
            rows.append(
                " and ".join(dict.fromkeys(tokens[t] for t, _ in places))
                + " columns "
                + _span(places)
            )
        return "; ".join(rows)

    return (
        f"A matrix of {T} tokens by {D} columns split into {h} heads of {D_h} columns. "
        f"Right way, {plain(right_label)}: the rows of head 1 hold {held('right')}. "
        f"Wrong way, {plain(wrong_label)}: the rows of head 1 hold {held('wrong')}; "
        f"{int(misplaced.sum())} of {misplaced.size} entries are not where they belong."
    )


def _span(places: list[tuple[int, ...]]) -> str:
    columns = [column + 1 for _, column in places]
    return (
        f"{columns[0]} to {columns[-1]}"
        if len(columns) > 1
        else f"{columns[0]}"
    )


def _draw_layouts(
    X: np.ndarray,
    layouts: dict[str, np.ndarray],
    origin: dict[float, tuple[int, ...]],
    misplaced: np.ndarray,
    tokens: list[str],
    labels: tuple[str, str],
    text_alternative: str,
) -> Picture:
    (T, D), (h, _, D_h) = X.shape, layouts["right"].shape
    gap, high = 20, 32
    side = max(token_width(t, SMALL) for t in tokens) + 20
    wide = min(46.0, np.floor((480 - side - 12 - gap * (h - 1)) / D))
    across = side + wide * D + gap * (h - 1) + 12
    lines = [wrapped(label, 440, TEXT) for label in labels]
    across = max(
        [
            across,
            *(
                width_of(f"✓ {line}", TEXT) + 24
                for part in lines
                for line in part
            ),
        ]
    )
    section = [20 * len(part) + 34 + high * T + 24 for part in lines]
    first = 52 + high * T + 30
    picture = Picture(
        across, first + sum(section) + 32, text_alternative=text_alternative
    )
    page = picture.page()
    span = side + wide * D + gap * (h - 1) + 12
    left = (across - span) / 2 + side

    start = left + gap * (h - 1) / 2
    put(
        page,
        start + wide * D / 2,
        18,
        f"$X$   $(T, D)$ = ({T}, {D})",
        TITLE,
        gid="symbol",
    )
    for head in range(h):
        put(
            page,
            start + wide * D_h * (head + 0.5),
            40,
            f"head {head + 1}",
            SMALL,
            gid="title",
        )
    for t, token in enumerate(tokens):
        put_token(
            page,
            start - 8,
            52 + high * (t + 0.5),
            token,
            SMALL,
            ha="right",
            gid=f"row:{t}",
        )
    _entries(
        page,
        X,
        origin,
        np.zeros_like(X, dtype=bool),
        start,
        52,
        wide,
        high,
        D_h,
        "x",
    )

    top = first
    for part, name, height in zip(lines, layouts, section, strict=True):
        for n, line in enumerate(part):
            mark = f"{'✓' if name == 'right' else '✗'} " if n == 0 else ""
            put(
                page,
                across / 2,
                top + 8 + 20 * n,
                mark + line,
                TEXT,
                gid=f"label:{name}",
            )
        y = top + 20 * len(part) + 34
        for head, values in enumerate(layouts[name]):
            x = left + head * (wide * D_h + gap)
            put(
                page,
                x + wide * D_h / 2,
                y - 12,
                f"head {head + 1}",
                SMALL,
                gid="title",
            )
            wrong = (
                misplaced[head]
                if name == "wrong"
                else np.zeros_like(misplaced[head])
            )
            _entries(
                page,
                values,
                origin,
                wrong,
                x,
                y,
                wide,
                high,
                D_h,
                f"{name}:{head}",
            )
        for t, token in enumerate(tokens):
            put_token(
                page,
                left - 8,
                y + high * (t + 0.5),
                token,
                SMALL,
                ha="right",
                gid=f"row:{t}",
            )
        top += height
    legend = "entries are named row, column of $X$"
    put(page, across / 2, top - 2, legend, SMALL, gid="legend")
    if misplaced.any():
        put(
            page,
            across / 2,
            top + 18,
            "◥ not where it belongs",
            SMALL,
            gid="legend",
        )
    return picture


def _entries(
    page: Axes,
    values: np.ndarray,
    origin: dict[float, tuple[int, ...]],
    wrong: np.ndarray,
    left: Length,
    top: Length,
    wide: Length,
    high: Length,
    D_h: int,
    name: str,
) -> None:
    """Draw entries in the colour of the head they come from, each with its place in X; mark the misplaced ones."""
    for (i, j), value in np.ndenumerate(values):
        t, d = origin[float(value)]
        head = (d // D_h) % len(inks().tints)
        x, y = left + wide * j, top + high * i
        look = {
            "facecolor": inks().tints[head],
            "edgecolor": inks().series[head],
            "linewidth": 1.0,
        }
        page.add_patch(Rectangle((x, y), wide, high, **look))
        if wrong[i, j]:
            corner = [
                (x + wide - 13, y + 2),
                (x + wide - 2, y + 2),
                (x + wide - 2, y + 13),
            ]
            page.add_patch(
                Polygon(
                    corner,
                    facecolor=text_colour(inks().tints[head]),
                    edgecolor="none",
                    gid=f"misplaced:{name}:{i}:{j}",
                )
            )
        put(
            page,
            x + wide / 2,
            y + high / 2,
            f"{t + 1},{d + 1}",
            14,
            color=text_colour(inks().tints[head]),
            gid=f"cell:{name}:{i}:{j}",
        )
