"""The two matrix products of attention, drawn so that every entry stands where its row meets its column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, to_hex
from matplotlib.patches import Rectangle

from ._cells import draw_cells, fitting_size
from ._data import Drawable, array_of, same_size, weights_of
from ._type import put, width_of
from ._words import number, plain
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

MOST_NUMBERS = 6
"""The longest axis, in cells, of a matrix that is drawn with its numbers."""

GAP = 16
"""Room between the blocks of a product, in css pixels."""

CAPTION = 66
"""Room above a block for its symbol, its shape and the names of its columns, in css pixels."""


@dataclass(frozen=True)
class _Matrix:
    """A matrix to be drawn: its symbol, its axes, its entries where they are given, its colour."""

    symbol: str
    axes: tuple[str, str]
    shape: tuple[int, int]
    entries: np.ndarray | None
    hue: int | None  # the number of its colours; None for paper
    rows_are: str = ""  # the letter of the vectors that are its rows
    columns_are: str = ""  # the letter of the vectors that are its columns
    shaded: bool = (
        False  # cells coloured by value, as in a heat map of weights
    )

    @property
    def tint(self) -> str:
        """The colour of its cells."""
        return inks().paper if self.hue is None else inks().tints[self.hue]

    @property
    def edge(self) -> str:
        """The colour of its edges."""
        return inks().rule if self.hue is None else inks().series[self.hue]


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
        digits: decimals of the numbers. An integer is printed without decimals.
        text_alternative: words for the picture; None makes them from the data: the shapes of both products, and the
            numbers of the result where they are drawn.

    Returns:
        The picture, at most 480 css pixels wide.

    Raises:
        ValueError: an array has not two axes, is not finite, or has a size that does not fit to the others;
            `highlight` is not the index of a query.
    """
    Q, K, V = (
        array_of("queries", queries, "T D_k"),
        array_of("keys", keys, "S D_k"),
        array_of("values", values, "S D_v"),
    )
    same_size("queries", "D_k", Q.shape[1], "keys", "D_k", K.shape[1])
    same_size("keys", "S", K.shape[0], "values", "S", V.shape[0])
    (T, D_k), (S, D_v) = Q.shape, V.shape
    Z = (
        None
        if scores is None
        else array_of("scores", scores, "T S", minus_infinity=True)
    )
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
        raise ValueError(
            f"highlight is {highlight}; the queries have indices 0 to {T - 1}"
        )

    blue, orange, green, purple = range(4)
    blocks = {
        "Q": _Matrix(
            "$Q$",
            ("T", "D_k"),
            (T, D_k),
            Q,
            blue,
            rows_are="q",
        ),
        "K": _Matrix(
            r"$K^\top$",
            ("D_k", "S"),
            (D_k, S),
            K.T,
            orange,
            columns_are="k",
        ),
        "Z": _Matrix("$Z$", ("T", "S"), (T, S), Z, None),
        "A": _Matrix("$A$", ("T", "S"), (T, S), A, None, shaded=True),
        "V": _Matrix(
            "$V$",
            ("S", "D_v"),
            (S, D_v),
            V,
            green,
            rows_are="v",
        ),
        "Y": _Matrix("$Y$", ("T", "D_v"), (T, D_v), Y, purple),
    }
    small = max(T, S, D_k, D_v) <= MOST_NUMBERS
    if text_alternative is None:
        text_alternative = _words(
            blocks, scores_formula, small, highlight, digits
        )
    return drawn_twice(
        _draw,
        blocks,
        scores_formula,
        small,
        highlight,
        digits,
        text_alternative,
    )


def _words(
    blocks: dict[str, _Matrix],
    formula: str,
    small: bool,
    highlight: int | None,
    digits: int,
) -> str:
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
                rows = [
                    ", ".join(number(float(x), digits) for x in row)
                    for row in entries
                ]
                words += f" Rows of {name}: {'; '.join(rows)}."
    if highlight is not None:
        words += (
            f" The row of query {highlight + 1} is framed in Q, Z, A and Y."
        )
    return words


def _lengths(
    blocks: dict[str, _Matrix], small: bool
) -> tuple[dict[str, Length], dict[str, Length]]:
    """Return the drawn length of each axis across and down the page, in css pixels.

    Small matrices are true to scale, in cells; larger ones are so roughly, by the root of their sizes.
    """
    sizes = {
        axis: size
        for block in blocks.values()
        for axis, size in zip(block.axes, block.shape, strict=True)
    }
    if small:
        cell = min(
            50.0,
            np.floor(400 / (sizes["S"] + max(sizes["D_k"], sizes["D_v"]))),
        )
        across = {axis: cell * size for axis, size in sizes.items()}
        return across, {axis: 38.0 * size for axis, size in sizes.items()}
    longest = max(sizes.values())
    across = {
        axis: 62 + 108 * float(np.sqrt(size / longest))
        for axis, size in sizes.items()
    }
    return across, {axis: 0.8 * length for axis, length in across.items()}


def _draw(
    blocks: dict[str, _Matrix],
    formula: str,
    small: bool,
    highlight: int | None,
    digits: int,
    text_alternative: str,
) -> Picture:
    """Lay the two products out one below the other and draw their six blocks."""
    across, down = _lengths(blocks, small)
    edge = 32
    width = 2 * edge + GAP + across["S"] + max(across["D_k"], across["D_v"])
    first = (
        36 + CAPTION - (0 if small else 12) + down["D_k"] + GAP
    )  # top of Z
    second = first + down["T"] + 102 + CAPTION + down["S"] + GAP  # top of Y
    picture = Picture(
        max(width, 330),
        second + down["T"] + 46,
        text_alternative=text_alternative,
    )
    left = (picture.css_width - width) / 2 + edge
    page = picture.page()
    pen = _Pen(
        page,
        across,
        down,
        small,
        _type_size(blocks, across, digits) if small else 0,
        digits,
        highlight,
    )

    centre = picture.css_width / 2
    put(page, centre, 20, formula, TITLE + 1, gid="formula")
    pen.product(
        blocks["Q"],
        blocks["K"],
        blocks["Z"],
        left + across["D_k"] + GAP,
        first,
    )
    below = first + down["T"]
    _arrow(
        page,
        left + across["D_k"] + GAP + across["S"] / 2,
        below + 48,
        below + 72,
    )
    put(
        page,
        centre,
        below + 94,
        "$A$ = softmax of each row of $Z$,   $Y = A\\,V$",
        TITLE,
        gid="formula",
    )
    pen.product(
        blocks["A"],
        blocks["V"],
        blocks["Y"],
        left + across["S"] + GAP,
        second,
    )
    return picture


def _type_size(
    blocks: dict[str, _Matrix], across: dict[str, Length], digits: int
) -> Length:
    """Return the one type size in which all numbers of the picture fit into their cells."""
    given = [
        block.entries.ravel()
        for block in blocks.values()
        if block.entries is not None
    ]
    texts = [number(float(x), digits) for x in np.concatenate(given)]
    cell = across["S"] / blocks["Z"].shape[1]
    return fitting_size(texts, cell - 5, TEXT, 9)


@dataclass(frozen=True)
class _Pen:
    """Draws blocks on a page, with lengths, type and choices that are the same for the whole picture."""

    page: Axes
    across: dict[str, Length]
    down: dict[str, Length]
    small: bool
    size: Length
    digits: int
    highlight: int | None

    def product(
        self,
        factor: _Matrix,
        above: _Matrix,
        result: _Matrix,
        left: Length,
        top: Length,
    ) -> None:
        """Draw one product: `factor` left of the result, `above` over it; the result starts at (left, top)."""
        shared_across, shared_down = (
            self.across[factor.axes[1]],
            self.down[above.axes[0]],
        )
        self.block(above, left, top - GAP - shared_down, name_above=True)
        self.block(factor, left - GAP - shared_across, top, framed=True)
        self.block(result, left, top, framed=True)
        words = (
            f"row of {factor.symbol} times",
            f"column of {above.symbol}",
        )
        if (
            max(map(width_of, words)) * SMALL / TEXT < shared_across - 36
            and shared_down > 50
        ):
            for n, line in enumerate(words):
                put(
                    self.page,
                    left - GAP - shared_across / 2 - 14,
                    top - GAP - 30 + 20 * n,
                    line,
                    SMALL,
                    gid="rule",
                )

    def block(
        self,
        block: _Matrix,
        left: Length,
        top: Length,
        *,
        name_above: bool = False,
        framed: bool = False,
    ) -> None:
        """Draw one matrix with its symbol and shape, above it or below it; frame the highlighted row if asked."""
        width, height = self.across[block.axes[1]], self.down[block.axes[0]]
        rows, columns = block.shape
        self.frame(
            left,
            top,
            width,
            height,
            facecolor=block.tint,
            edgecolor=block.edge,
            linewidth=1.5,
        )
        if self.small:
            self.entries(block, left, top, width / columns, height / rows)
        elif block.entries is not None and block.shaded:
            self.shades(block, left, top, width, height)
        if framed and self.small and self.highlight is not None:
            step = height / rows
            row = top + step * self.highlight
            self.frame(
                left,
                row,
                width,
                step,
                fill=False,
                edgecolor=inks().series[1],
                linewidth=3,
                zorder=4,
                gid="highlight",
            )
        room = CAPTION if block.columns_are and self.small else CAPTION - 18
        shape = (
            f"$({block.axes[0]}, {block.axes[1]})$ = ({rows}, {columns})"
        )
        symbol_at, shape_at = (
            (top - room + 15, top - room + 35)
            if name_above
            else (top + height + 14, top + height + 33)
        )
        put(
            self.page,
            left + width / 2,
            symbol_at,
            block.symbol,
            TITLE,
            gid="symbol",
        )
        put(
            self.page, left + width / 2, shape_at, shape, SMALL, gid="shape"
        )

    def entries(
        self,
        block: _Matrix,
        left: Length,
        top: Length,
        width: Length,
        height: Length,
    ) -> None:
        """Draw the cells of a small matrix, with its numbers where they are given."""
        most = (
            1.0
            if block.entries is None
            else float(block.entries.max()) or 1.0
        )
        for i, j in np.ndindex(block.shape):
            value = (
                None
                if block.entries is None
                else float(block.entries[i, j])
            )
            fill = (
                to_hex(inks().weights(value / most))
                if block.shaded and value is not None
                else block.tint
            )
            self.frame(
                left + width * j,
                top + height * i,
                width,
                height,
                facecolor=fill,
                edgecolor=block.edge,
            )
            if value is not None:
                words, ink = number(value, self.digits), text_colour(fill)
                place = (left + width * (j + 0.5), top + height * (i + 0.5))
                put(
                    self.page,
                    *place,
                    words,
                    self.size,
                    color=ink,
                    zorder=5,
                    gid=f"{block.symbol}:{i}:{j}",
                )
        for i in range(block.shape[0] if block.rows_are else 0):
            name = f"${block.rows_are}_{{{i + 1}}}$"
            put(
                self.page,
                left - 7,
                top + height * (i + 0.5),
                name,
                SMALL,
                ha="right",
                gid=f"{block.symbol} row:{i}",
            )
        for j in range(block.shape[1] if block.columns_are else 0):
            name = f"${block.columns_are}_{{{j + 1}}}$"
            put(
                self.page,
                left + width * (j + 0.5),
                top - 12,
                name,
                SMALL,
                gid=f"{block.symbol} column:{j}",
            )

    def shades(
        self,
        block: _Matrix,
        left: Length,
        top: Length,
        width: Length,
        height: Length,
    ) -> None:
        """Colour a larger matrix of weights by its values."""
        picture = self.page.figure
        axes = picture.axes_at(left, top, width, height)
        draw_cells(
            axes,
            block.entries,
            inks().weights,
            Normalize(0, float(block.entries.max()) or 1),
            0,
        )

    def frame(
        self,
        left: Length,
        top: Length,
        width: Length,
        height: Length,
        **look: Any,
    ) -> None:
        """Draw a rectangle."""
        self.page.add_patch(
            Rectangle(
                (left, top), width, height, **{"linewidth": 0.75, **look}
            )
        )


def _arrow(page: Axes, x: Length, top: Length, bottom: Length) -> None:
    """Draw an arrow that points down."""
    look = {
        "arrowstyle": "-|>",
        "color": inks().rule,
        "linewidth": points(2),
        "shrinkA": 0,
        "shrinkB": 0,
    }
    page.annotate("", xy=(x, bottom), xytext=(x, top), arrowprops=look)
