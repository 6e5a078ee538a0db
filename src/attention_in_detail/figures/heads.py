"""The attention weights of several heads, side by side on one scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle

from ._cells import Strongest, place_cells
from ._data import Drawable, Number, weights_of, words_of
from ._type import put, put_token, token_width
from ._words import listing, names, number, plain
from .picture import Picture, drawn_twice
from .style import SMALL, TEXT, Length, inks


def head_grid(
    weights: Drawable,
    *,
    query_tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    columns: int = 4,
    titles: Sequence[str] | None = None,
    maximum: Number | None = None,
    text_alternative: str | None = None,
) -> Picture:
    """Draw one heat map of weights for each head: rows are queries, columns are keys, all on the same colour scale.

    A dot marks the strongest key of each query. Query tokens stand beside the first map of each row of the grid, key
    tokens above the first row.

    Args:
        weights: (h, T, S), between 0 and 1.
        query_tokens: T tokens, or None for no labels.
        key_tokens: S tokens, or None for no labels.
        columns: how many maps stand in a row.
        titles: h titles; None calls them head 1 to head h.
        maximum: the value of the strongest colour; None takes the largest in the data.
        text_alternative: words for the picture; None makes them from the data: the sizes, and for each head the largest
            weight with its query and key, and where most queries have their strongest key.

    Returns:
        The picture, at most 720 css pixels wide, and at most 480 where the cells allow it.

    Raises:
        ValueError: `weights` has not three axes, is not finite or not between 0 and 1; a number of tokens or titles is
            not the size of its axis; `columns` is not positive.
    """
    A = weights_of("weights", weights, "h T S")
    h, T, S = A.shape
    rows = (
        None
        if query_tokens is None
        else words_of("query_tokens", query_tokens, "T", T, "weights")
    )
    tops = (
        None
        if key_tokens is None
        else words_of("key_tokens", key_tokens, "S", S, "weights")
    )
    heads = (
        [f"head {i + 1}" for i in range(h)]
        if titles is None
        else words_of("titles", titles, "h", h, "weights")
    )
    if columns < 1:
        raise ValueError(
            f"columns is {columns}; at least one map must stand in a row"
        )
    if maximum is not None and not maximum > 0:
        raise ValueError(
            f"maximum is {maximum}; the value of the strongest colour must be positive"
        )
    if text_alternative is None:
        text_alternative = _words(
            A, heads, names("query", rows, T), names("key", tops, S)
        )
    return drawn_twice(
        _draw,
        A,
        rows,
        tops,
        min(columns, h),
        heads,
        float(maximum or A.max() or 1.0),
        text_alternative,
    )


def _words(
    A: np.ndarray, heads: Sequence[str], queries: list[str], keys: list[str]
) -> str:
    """Say for each head what its largest weight is and where the strongest keys of its queries lie."""
    h, T, S = A.shape
    parts = []
    for title, head in zip(heads, A, strict=True):
        i, j = np.unravel_index(int(head.argmax()), head.shape)
        count, place = _most_often(head, keys)
        parts.append(
            f"{plain(title)}: {number(float(head[i, j]))} from {queries[i]} to {keys[j]}, "
            f"strongest key most often {place} ({count} of {T} queries)"
        )
    return (
        f"{h} heat maps of attention weights, one for each head, each of {T} queries (rows) by {S} keys (columns). "
        f"Largest weight: {listing(parts, 'heads')}."
    )


def _most_often(head: np.ndarray, keys: Sequence[str]) -> tuple[int, str]:
    """Return where most queries of one head have their strongest key, and how many do: (count, words).

    Where T = S the places are the query's own position and the ones before and after it; the places that do not move
    with the query are the keys themselves.
    """
    T, S = head.shape
    best = head.argmax(axis=1)[head.any(axis=1)]
    query = np.arange(T)[head.any(axis=1)]
    places = [(int((best == j).sum()), keys[j]) for j in range(S)]
    if T == S:
        moving = (
            (0, "its own position"),
            (-1, "the position before it"),
            (1, "the position after it"),
        )
        places = [
            (int((best == query + shift).sum()), words)
            for shift, words in moving
        ] + places
    return max(places, key=lambda place: place[0])


def _draw(
    A: np.ndarray,
    rows: list[str] | None,
    tops: list[str] | None,
    columns: int,
    heads: Sequence[str],
    maximum: Length,
    text_alternative: str,
) -> Picture:
    h, T, S = A.shape
    gap, right = 16, 12
    left = (
        12
        if rows is None
        else max(token_width(t, SMALL) for t in rows) + 20
    )
    key_room = (
        0 if tops is None else max(token_width(t, SMALL) for t in tops) + 8
    )
    needed = 14 if rows is not None or tops is not None else 8
    for budget in (480, 560, 720):
        cell = min(
            30.0,
            (budget - left - right - gap * (columns - 1)) / (columns * S),
        )
        if cell >= needed:
            break
    cell = float(np.floor(cell)) if cell >= 6 else cell
    wide, high = cell * S, cell * T
    step_across = max(wide, max(token_width(t, TEXT) for t in heads)) + gap
    step_down = high + 24 + gap
    lines = -(-h // columns)
    across = max(left + step_across * columns - gap + right, 250)
    top = 8 + key_room
    picture = Picture(
        min(across, 720),
        top + step_down * lines + 70,
        text_alternative=text_alternative,
    )
    page = picture.page()
    scale = Normalize(0, maximum, clip=True)
    label = SMALL if cell >= 14 else max(10, cell)
    every = max(1, int(np.ceil(12 / cell)))
    strongest = Strongest()
    for n, head in enumerate(A):
        line, column = divmod(n, columns)
        x, y = left + step_across * column, top + step_down * line + 24
        # All on the axes of the picture: axes for each map would take longer to make than all that is on them.
        colours = place_cells(
            page,
            (x, y),
            cell,
            head,
            inks().weights,
            scale,
            cell,
            f"head:{n}",
        )
        if cell >= 8:
            strongest.gather(head, colours, (x, y), cell)
        put(
            page,
            x + wide / 2,
            y - 11 - (key_room if line == 0 else 0),
            heads[n],
            TEXT,
            gid=f"title:{n}",
        )
        if rows is not None and column == 0:
            for i in range(0, T, every):
                put_token(
                    page,
                    x - 7,
                    y + cell * (i + 0.5),
                    rows[i],
                    label,
                    ha="right",
                    gid=f"query:{line}:{i}",
                )
        if tops is not None and line == 0:
            for j in range(0, S, every):
                place = {"rotation": 90, "va": "bottom"}
                put_token(
                    page,
                    x + cell * (j + 0.5),
                    y - 6,
                    tops[j],
                    label,
                    gid=f"key:{column}:{j}",
                    **place,
                )
    strongest.draw(page, cell * 0.22)
    _legend(page, scale, picture.css_width / 2, top + step_down * lines)
    return picture


def _legend(
    page: Axes, scale: Normalize, centre: Length, top: Length
) -> None:
    """Draw the common colour scale and say what dots, rows and columns are."""
    page.pcolormesh(
        np.linspace(centre - 75, centre + 75, 65),
        [top, top + 10],
        np.linspace(0, scale.vmax, 64)[None, :],
        cmap=inks().weights,
        norm=scale,
    )
    page.add_patch(
        Rectangle(
            (centre - 75, top),
            150,
            10,
            fill=False,
            edgecolor=inks().rule,
            linewidth=0.8,
        )
    )
    put(page, centre - 83, top + 5, "0", SMALL, ha="right", gid="scale")
    put(
        page,
        centre + 83,
        top + 5,
        number(float(scale.vmax)),
        SMALL,
        ha="left",
        gid="scale",
    )
    lines = (
        "weight    ● strongest key of the query",
        "rows are queries, columns are keys",
    )
    for n, line in enumerate(lines):
        put(page, centre, top + 32 + 20 * n, line, SMALL, gid="legend")
