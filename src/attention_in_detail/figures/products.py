"""The two matrix products of attention, drawn so that every entry stands where its row meets its column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, to_hex
from matplotlib.patches import Rectangle

from ._cells import fitting_size
from ._data import Drawable, array_of, same_size, weights_of
from ._type import put
from ._words import number, plain
from .picture import Picture
from .style import DARK_TEXT, INK, PAPER, SERIES, SMALL, TEXT, TINTS, TITLE, WEIGHTS_MAP, drawing_style, points, text_colour

MOST_NUMBERS = 6
"""The longest axis, in cells, of a matrix that is drawn with its numbers."""


@dataclass(frozen=True)
class _Matrix:
    """A matrix to be drawn: its symbol, its axes, its entries where they are given, its colours."""

    symbol: str
    axes: tuple[str, str]
    shape: tuple[int, int]
    entries: np.ndarray | None
    tint: str
    edge: str
    shaded: bool = False  # cells coloured by value, as in a heat map of weights


def matrix_products(
    queries: Drawable,
    keys: Drawable,
    values: Drawable,
    *,
    scores: Drawable | None = None,
    weights: Drawable | None = None,
    output: Drawable | None = None,
    scores_formula: str = r"$Z = Q\,K^\top / \sqrt{D_k}$",
    highlight: int | None = None,
    digits: int = 2,
    text_alternative: str | None = None,
) -> Picture:
    """Draw Q Kᵀ giving Z and, below, A V giving Y, each block with its symbol and its shape.

    In each product the left factor stands at the left of the result and the right factor above it, so that an entry of
    the result lies where a row of the one meets a column of the other. Where no axis is longer than 6 the blocks
    carry their numbers. Nothing is computed: what is not given is drawn as an empty block of the right shape.

    Args:
        queries: (T, D_k).
        keys: (S, D_k); drawn transposed.
        values: (S, D_v).
        scores: (T, S), or None. −∞ is allowed.
        weights: (T, S), or None; between 0 and 1.
        output: (T, D_v), or None.
        scores_formula: the formula above the first product; say here if the scores have another scale or none.
        highlight: the index, from 0, of a query whose row is framed in Q, Z, A and Y; None frames none.
        digits: decimals of the numbers. An exact integer is printed without decimals.
        text_alternative: words for the picture; None makes them from the data: the shapes of both products, and the
            numbers of the result where they are drawn.

    Returns:
        The picture, at most 480 css pixels wide.

    Raises:
        ValueError: an array has not two axes, is not finite, or has a size that does not fit to the others;
            `highlight` is not the index of a query.
    """
    Q, K, V = array_of("queries", queries, "T D_k"), array_of("keys", keys, "S D_k"), array_of("values", values, "S D_v")
    same_size("queries", "D_k", Q.shape[1], "keys", "D_k", K.shape[1])
    same_size("keys", "S", K.shape[0], "values", "S", V.shape[0])
    (T, D_k), (S, D_v) = Q.shape, V.shape
    Z = None if scores is None else array_of("scores", scores, "T S", minus_infinity=True)
    A = None if weights is None else weights_of("weights", weights, "T S")
    Y = None if output is None else array_of("output", output, "T D_v")
    for name, array in (("scores", Z), ("weights", A)):
        if array is not None:
            same_size("queries", "T", T, name, "T", array.shape[0])
            same_size("keys", "S", S, name, "S", array.shape[1])
    if Y is not None:
        same_size("queries", "T", T, "output", "T", Y.shape[0])
        same_size("values", "D_v", D_v, "output", "D_v", Y.shape[1])
    if highlight is not None and not 0 <= highlight < T:
        raise ValueError(f"highlight is {highlight}; the queries have indices 0 to {T - 1}")

    blue, orange, green, purple = range(4)
    blocks = {
        "Q": _Matrix("$Q$", ("T", "D_k"), (T, D_k), Q, TINTS[blue], SERIES[blue]),
        "K": _Matrix(r"$K^\top$", ("D_k", "S"), (D_k, S), K.T, TINTS[orange], SERIES[orange]),
        "Z": _Matrix("$Z$", ("T", "S"), (T, S), Z, PAPER, INK),
        "A": _Matrix("$A$", ("T", "S"), (T, S), A, PAPER, INK, shaded=True),
        "V": _Matrix("$V$", ("S", "D_v"), (S, D_v), V, TINTS[green], SERIES[green]),
        "Y": _Matrix("$Y$", ("T", "D_v"), (T, D_v), Y, TINTS[purple], SERIES[purple]),
    }
    small = max(T, S, D_k, D_v) <= MOST_NUMBERS
    if text_alternative is None:
        text_alternative = _words(blocks, scores_formula, small, highlight, digits)
    with drawing_style():
        return _draw(blocks, scores_formula, small, highlight, digits, text_alternative)


def _words(blocks: dict[str, _Matrix], formula: str, small: bool, highlight: int | None, digits: int) -> str:
    """Say both products with their shapes, and the rows of the results where their numbers are drawn."""

    def shape(name: str) -> str:
        rows, columns = blocks[name].shape
        return f"{rows} by {columns}"

    words = (
        f"Two matrix products. First, {plain(formula)}: Q, {shape('Q')}, times K transposed, {shape('K')}, gives "
        f"Z, {shape('Z')}. The softmax of each row of Z gives A. Second, Y = A V: A, {shape('A')}, times V, "
        f"{shape('V')}, gives Y, {shape('Y')}."
    )
    if small:
        for name in ("Z", "A", "Y"):
            entries = blocks[name].entries
            if entries is not None:
                rows = ["  ".join(number(float(x), digits) for x in row).replace("  ", ", ") for row in entries]
                words += f" Rows of {name}: {'; '.join(rows)}."
    if highlight is not None:
        words += f" The row of query {highlight + 1} is framed in Q, Z, A and Y."
    return words


def _lengths(blocks: dict[str, _Matrix], small: bool) -> dict[str, float]:
    """Return the drawn length of each axis in css pixels: true to scale for cells, roughly so for larger blocks."""
    sizes = {axis: size for block in blocks.values() for axis, size in zip(block.axes, block.shape, strict=True)}
    if small:
        cell = min(46.0, np.floor(372 / (max(sizes["D_k"] + sizes["S"], sizes["S"] + sizes["D_v"]))))
        return {axis: cell * size for axis, size in sizes.items()}
    longest = max(sizes.values())
    return {axis: 62 + 108 * float(np.sqrt(size / longest)) for axis, size in sizes.items()}


def _draw(
    blocks: dict[str, _Matrix], formula: str, small: bool, highlight: int | None, digits: int, text_alternative: str
) -> Picture:
    """Lay the two products out one below the other and draw their six blocks."""
    length = _lengths(blocks, small)
    gap, caption, edge = 16, 40, 30
    across = 2 * edge + gap + length["S"] + max(length["D_k"], length["D_v"])
    first_top = 44
    first_down = caption + length["D_k"] + gap + max(length["T"], 0) + 46
    second_top = first_top + first_down + 62
    down = second_top + caption + length["S"] + gap + length["T"] + 52
    picture = Picture(max(across, 330), down, text_alternative=text_alternative)
    page = picture.page()
    left = (picture.css_width - across) / 2 + edge

    put(page, picture.css_width / 2, 20, formula, TITLE + 1, gid="formula")
    corner = (left + length["D_k"] + gap, first_top + caption + length["D_k"] + gap)
    _draw_product(page, blocks["Q"], blocks["K"], blocks["Z"], corner, length, gap, highlight, digits, small)
    middle = first_top + first_down + 20
    _arrow(page, corner[0] + length["S"] / 2, middle - 20, middle + 4)
    put(page, picture.css_width / 2, middle + 26, "$A$ = softmax of each row of $Z$,   $Y = A\\,V$", TITLE, gid="formula")
    corner = (left + length["S"] + gap, second_top + caption + length["S"] + gap)
    _draw_product(page, blocks["A"], blocks["V"], blocks["Y"], corner, length, gap, highlight, digits, small)
    return picture


def _draw_product(
    page: Axes,
    factor: _Matrix,
    above: _Matrix,
    result: _Matrix,
    corner: tuple[float, float],
    length: dict[str, float],
    gap: float,
    highlight: int | None,
    digits: int,
    small: bool,
) -> None:
    """Draw one product: `factor` left of the result, `above` over it; `corner` is the top left of the result."""
    across, down = corner
    rows, shared, columns = length[factor.axes[0]], length[factor.axes[1]], length[above.axes[1]]
    _draw_block(page, above, across, down - gap - shared, columns, shared, small, None, digits, name_above=True)
    _draw_block(page, factor, across - gap - shared, down, shared, rows, small, highlight, digits)
    _draw_block(page, result, across, down, columns, rows, small, highlight, digits)


def _draw_block(
    page: Axes,
    block: _Matrix,
    left: float,
    top: float,
    width: float,
    height: float,
    small: bool,
    highlight: int | None,
    digits: int,
    *,
    name_above: bool = False,
) -> None:
    """Draw one matrix with its symbol and shape, above it or below it."""
    rows, columns = block.shape
    page.add_patch(Rectangle((left, top), width, height, facecolor=block.tint, edgecolor=block.edge, linewidth=1.5))
    if small:
        _draw_entries(page, block, left, top, width / columns, height / rows, digits)
    elif block.entries is not None and block.shaded:
        colours = WEIGHTS_MAP(Normalize(0, float(block.entries.max()) or 1)(block.entries))
        page.imshow(
            colours, extent=(left, left + width, top + height, top), interpolation="nearest", aspect="auto", zorder=1.5
        )
        page.add_patch(Rectangle((left, top), width, height, fill=False, edgecolor=block.edge, linewidth=1.5, zorder=2))
    if highlight is not None and small:
        step = height / rows
        page.add_patch(
            Rectangle(
                (left, top + step * highlight),
                width,
                step,
                fill=False,
                edgecolor=SERIES[1],
                linewidth=3,
                zorder=4,
                gid="highlight",
            )
        )
    shape = f"$({block.axes[0]}, {block.axes[1]})$ = ({rows}, {columns})"
    place = (top - 28, top - 10) if name_above else (top + height + 14, top + height + 32)
    put(page, left + width / 2, place[0], block.symbol, TITLE, gid="symbol")
    put(page, left + width / 2, place[1], shape, SMALL, gid="shape")


def _draw_entries(
    page: Axes, block: _Matrix, left: float, top: float, width: float, height: float, digits: int
) -> None:
    """Draw the cells of a small matrix, with its numbers where they are given."""
    rows, columns = block.shape
    for i in range(1, rows):
        page.plot([left, left + width * columns], [top + height * i] * 2, color=block.edge, linewidth=0.75, zorder=2)
    for j in range(1, columns):
        page.plot([left + width * j] * 2, [top, top + height * rows], color=block.edge, linewidth=0.75, zorder=2)
    if block.entries is None:
        return
    size = fitting_size([number(float(x), digits) for x in block.entries.flat], width - 6, TEXT, 9)
    most = float(block.entries.max()) or 1.0
    for (i, j), value in np.ndenumerate(block.entries):
        ink = DARK_TEXT
        if block.shaded:
            cell = WEIGHTS_MAP(float(value) / most)
            ink = text_colour(cell)
            place = (left + width * j, top + height * i)
            page.add_patch(Rectangle(place, width, height, facecolor=to_hex(cell), edgecolor=INK, linewidth=0.75))
        put(
            page,
            left + width * (j + 0.5),
            top + height * (i + 0.5),
            number(float(value), digits),
            size,
            color=ink,
            zorder=5,
            gid=f"{block.symbol}:{i}:{j}",
        )


def _arrow(page: Axes, x: float, top: float, bottom: float) -> None:
    """Draw an arrow that points down."""
    page.annotate(
        "",
        xy=(x, bottom),
        xytext=(x, top),
        arrowprops={"arrowstyle": "-|>", "color": INK, "linewidth": points(2), "shrinkA": 0, "shrinkB": 0},
    )
