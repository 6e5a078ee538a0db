"""Heat maps of attention weights, of scores and of masks: one row for each query, one column for each key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.colors import Normalize

from ._cells import Strongest, draw_cells, fitting_size, write_in_cells
from ._data import Drawable, Number, words_of
from ._kinds import KINDS, Kind
from ._type import put, put_token, token_width, width_of, wrapped
from ._words import (
    names,
    number,
    plain,
)
from .picture import Picture, drawn_twice
from .style import SMALL, TEXT, TITLE, Length, inks


def weights_heatmap(
    weights: Drawable,
    *,
    query_tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    title: str | None = None,
    numbers: bool | None = None,
    digits: int = 2,
    maximum: Number | None = None,
    kind: str = "weights",
    query_label: str = "queries",
    key_label: str = "keys",
    legend: str | None = None,
    text_alternative: str | None = None,
) -> Picture:
    """Draw a (T, S) matrix as cells: row i is query i, column j is key j, the tokens stand on the axes.

    Small maps carry their numbers. Larger ones carry a colour bar and a sign in some cells, so that nothing is told
    by colour alone: for weights a dot on the strongest key of each query, for scores a minus in negative cells.
    A mask shows ✓ where a query may attend.

    Args:
        weights: (T, S). For `kind="weights"` between 0 and 1; for `"scores"` any finite number, or −∞ where a mask shuts
            a key out; for `"mask"` true or 1 where query i may attend to key j, false or 0 where not.
        query_tokens: T tokens for the rows; None labels them q₁ to q_T.
        key_tokens: S tokens for the columns; None labels them k₁ to k_S. A token that stands between two dollar
            signs is set as mathematics.
        title: a line above the map.
        numbers: whether cells carry numbers; None means up to 8 rows and columns. Not used for masks.
        digits: decimals of the numbers. An integer is printed without decimals: 0 is a weight of exactly zero.
        maximum: the value of the strongest colour; None takes the largest in the data. Set it to compare maps.
        kind: `"weights"`, `"scores"` or `"mask"`.
        query_label: what the rows are.
        key_label: what the columns are.
        legend: what colours and signs stand for, below the map; None: the words of the kind.
        text_alternative: words for the picture; None makes them from the data: the sizes, the strongest key of each query
            with its weight, and how many weights are exactly zero.

    Returns:
        The picture, at most 720 css pixels wide.

    Raises:
        ValueError: an argument has the wrong number of axes, an entry that is not finite or not of its kind, or a number
            of tokens that is not the size of its axis.
    """
    if kind not in KINDS:
        raise ValueError(
            f"kind is {kind!r}; it must be one of {', '.join(map(repr, KINDS))}"
        )
    look = KINDS[kind]
    if legend is not None:
        look = replace(look, legend=legend)
    values = look.read(weights)
    T, S = values.shape
    rows = (
        None
        if query_tokens is None
        else words_of("query_tokens", query_tokens, "T", T, "weights")
    )
    columns = (
        None
        if key_tokens is None
        else words_of("key_tokens", key_tokens, "S", S, "weights")
    )
    if maximum is not None and not maximum > 0:
        raise ValueError(
            f"maximum is {maximum}; the value of the strongest colour must be positive"
        )
    if text_alternative is None:
        said = look.says(
            values,
            names("query", rows, T),
            names("key", columns, S),
            digits,
        )
        heading = f"{plain(title)}. " if title else ""
        text_alternative = f"{heading}{look.title}, {T} {query_label} (rows) by {S} {key_label} (columns). {said}"
    return drawn_twice(
        _draw,
        look,
        values,
        [f"$q_{{{i + 1}}}$" for i in range(T)] if rows is None else rows,
        [f"$k_{{{j + 1}}}$" for j in range(S)]
        if columns is None
        else columns,
        title=title,
        numbers=max(T, S) <= 8 if numbers is None else numbers,
        digits=digits,
        maximum=maximum,
        labels=(query_label, key_label),
        mask=kind == "mask",
        text_alternative=text_alternative,
    )


def _draw(
    look: Kind,
    values: np.ndarray,
    rows: list[str],
    columns: list[str],
    *,
    title: str | None,
    numbers: bool,
    digits: int,
    maximum: Number | None,
    labels: tuple[str, str],
    mask: bool,
    text_alternative: str,
) -> Picture:
    """Lay the map out from the size of its labels, then draw it."""
    T, S = values.shape
    with_bar = not numbers and not mask
    row_room = max(token_width(t) for t in rows) + 8
    left = 30 + row_room
    right = 14.0
    cell = _cell_side(S, left + right, numbers)
    label_size = TEXT if cell >= 18 else max(12, cell - 3)
    every = (
        1 if cell >= 13 else int(np.ceil(22 / cell))
    )  # cells too small for a label each: every second, third, …
    column_widths = [token_width(t, label_size) for t in columns]
    upright = max(column_widths) <= cell * every - 4
    column_room = (
        (22 if upright else max(column_widths) + 8) if columns else 0
    )
    across = left + cell * S + right
    heading = (
        []
        if title is None
        else wrapped(title, max(across, 420) - 20, TITLE, bold=True)
    )
    across = max(
        [
            across,
            *(width_of(line, TITLE, bold=True) + 20 for line in heading),
            230 if with_bar else 0,
        ]
    )
    left += (across - left - cell * S - right) / 2
    top = 8 + 23 * len(heading) + 24 + column_room
    down = top + cell * T + (66 if with_bar else 34 if mask else 10)

    picture = Picture(across, down, text_alternative=text_alternative)
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
    put(
        page,
        left + cell * S / 2,
        18 + 23 * len(heading),
        labels[1],
        SMALL,
        style="italic",
        gid="key label",
    )
    put(
        page,
        left - row_room - 14,
        top + cell * T / 2,
        labels[0],
        SMALL,
        style="italic",
        rotation=90,
        va="center",
        gid="query label",
    )
    for i in range(0, T, every):
        put_token(
            page,
            left - 8,
            top + cell * (i + 0.5),
            rows[i],
            label_size,
            ha="right",
            gid=f"query:{i}",
        )
    for j in range(0, S, every):
        place = (
            {"va": "baseline"}
            if upright
            else {
                "rotation": 90,
                "va": "bottom",
                "rotation_mode": "default",
            }
        )
        put_token(
            page,
            left + cell * (j + 0.5),
            top - 7,
            columns[j],
            label_size,
            gid=f"key:{j}",
            **place,
        )

    low, high = look.limits(values)
    if maximum is not None:
        low, high = (
            (-float(maximum), float(maximum))
            if low < 0
            else (0.0, float(maximum))
        )
    scale = Normalize(low, high, clip=True)
    axes = picture.axes_at(left, top, cell * S, cell * T)
    colours = draw_cells(
        axes,
        np.where(np.isneginf(values), 0, values),
        look.colours(inks()),
        scale,
        cell,
    )
    if mask:
        if cell >= 12:
            write_in_cells(
                axes, values, colours, min(20, cell * 0.6), look.sign
            )
        _mask_legend(
            picture, look.legend, left + cell * S / 2, top + cell * T + 20
        )
    elif numbers:
        texts = [look.in_cell(float(v), digits) for v in values.flat]
        size = fitting_size(texts, cell - 6, TEXT, 9)
        write_in_cells(
            axes,
            values,
            colours,
            size,
            lambda value: look.in_cell(value, digits),
        )
    else:
        _mark(axes, look, values, colours, cell)
        _colour_bar(
            picture,
            look,
            scale,
            left + cell * S / 2,
            top + cell * T + 16,
            max(cell * S, 150),
        )
    return picture


def _cell_side(S: int, beside: Length, numbers: bool) -> Length:
    """Choose the side of a cell so that the map is as narrow as its type allows."""
    largest = 52 if numbers else 40
    for budget, enough in (
        (480, 40 if numbers else 19),
        (560, 36 if numbers else 17),
        (720, 0),
    ):
        side = min(largest, (budget - beside) / S)
        if side >= enough:
            break
    return float(np.floor(side)) if side >= 6 else max(side, 60 / S)


def _mark(
    axes, look: Kind, values: np.ndarray, colours: np.ndarray, cell: Length
) -> None:
    """Put the signs that a map without numbers carries, so that colour is not alone in telling its story."""
    if cell < 10:
        return
    if look.sign(-1.0):
        write_in_cells(
            axes, values, colours, min(15, cell * 0.6), look.sign
        )
        return
    strongest = Strongest()
    strongest.gather(values, colours)
    strongest.draw(axes, cell * 0.2)


def _colour_bar(
    picture: Picture,
    look: Kind,
    scale: Normalize,
    centre: Length,
    top: Length,
    width: Length,
) -> None:
    """Draw the scale of the colours below a map, with its numbers."""
    low, high = float(scale.vmin), float(scale.vmax)
    left = centre - width / 2
    bar = picture.axes_at(left, top, width, 11)
    steps = np.linspace(low, high, 64)[None, :]
    bar.pcolormesh(
        np.linspace(low, high, 65),
        [0, 1],
        steps,
        cmap=look.colours(inks()),
        norm=scale,
        edgecolors="face",
    )
    bar.set_yticks([])
    bar.set_xticks([])
    for spine in bar.spines.values():
        spine.set_color(inks().rule)
    page = picture.page()
    for value, place, side in (
        (low, left, "left"),
        ((low + high) / 2, centre, "center"),
        (high, left + width, "right"),
    ):
        put(
            page,
            place,
            top + 26,
            number(value),
            SMALL,
            ha=side,
            va="baseline",
            gid="scale",
        )
    put(
        page,
        centre,
        top + 44,
        look.legend,
        SMALL,
        va="baseline",
        gid="legend",
    )


def _mask_legend(
    picture: Picture, words: str, centre: Length, middle: Length
) -> None:
    """Say below a mask what ✓ means."""
    put(
        picture.page(),
        centre,
        middle,
        words,
        SMALL,
        gid="legend",
    )
