"""Where cross-attention stands: one layer of an encoder beside one layer of a decoder."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

from ._type import put, wrapped
from ._words import plain, together
from .picture import Picture, drawn_twice
from .style import (
    SMALL,
    TEXT,
    inks,
    points,
    text_colour,
)

WIDTH, HEIGHT = 440, 432
LEFT, RIGHT = 98, 342
"""The middles of the two columns, in css pixels: encoder and decoder."""

BLOCK = 160
"""The width of a block."""


@dataclass(frozen=True)
class _Block:
    """A step of a layer: its words, and its place from its upper to its lower edge."""

    words: str
    column: int
    top: int
    bottom: int


@dataclass(frozen=True)
class _Vectors:
    """What flows between blocks: its words, and the middle of its line."""

    words: str
    column: int
    middle: float


BLOCKS = {
    "encoder_self": _Block("self-attention", LEFT, 100, 146),
    "encoder_feed_forward": _Block("feed-forward network", LEFT, 178, 224),
    "decoder_self": _Block("causal self-attention", RIGHT, 100, 146),
    "cross": _Block("cross-attention", RIGHT, 242, 288),
    "decoder_feed_forward": _Block("feed-forward network", RIGHT, 320, 366),
}
VECTORS = {
    "source": _Vectors("source words", LEFT, 26.0),
    "target": _Vectors("target words so far", RIGHT, 26.0),
    "C": _Vectors("$C : (S, D_c)$", LEFT, 265.0),
    "X": _Vectors("$X : (T, D_q)$", RIGHT, 191.0),
    "next": _Vectors("next words", RIGHT, 416.0),
}
LAYERS = {
    "encoder layer": ("encoder_self", "encoder_feed_forward"),
    "decoder layer": ("decoder_self", "cross", "decoder_feed_forward"),
}
ARROWS = (
    ("source", "encoder_self", ""),
    ("encoder_self", "encoder_feed_forward", ""),
    ("encoder_feed_forward", "C", ""),
    ("target", "decoder_self", ""),
    ("decoder_self", "X", ""),
    ("X", "cross", "$Q$"),
    ("C", "cross", "$K,\\ V$"),
    ("cross", "decoder_feed_forward", ""),
    ("decoder_feed_forward", "next", ""),
)
"""Where each arrow starts, where it ends, and what it carries."""


def encoder_decoder(
    highlight: str | None = "cross", *, text_alternative: str | None = None
) -> Picture:
    """Draw one encoder layer on the left, one decoder layer on the right, and what flows through and between them.

    Additions round the blocks and layer normalisation are left out. In a model both layers repeat, and the C of the last
    encoder layer goes to every decoder layer.

    Args:
        highlight: the block to set off by a thick edge and bold words: `"encoder_self"`, `"encoder_feed_forward"`,
            `"decoder_self"`, `"cross"` or `"decoder_feed_forward"`; None sets off none.
        text_alternative: words for the picture; None makes them from the blocks and arrows that are drawn.

    Returns:
        The picture, 440 css pixels wide.

    Raises:
        ValueError: `highlight` is not the name of a block.
    """
    if highlight is not None and highlight not in BLOCKS:
        raise ValueError(
            f"highlight is {highlight!r}; it must be None or one of {', '.join(map(repr, BLOCKS))}"
        )
    if text_alternative is None:
        text_alternative = _words(highlight)
    return drawn_twice(_draw, highlight, text_alternative)


def _words(highlight: str | None) -> str:
    """Say which blocks each layer has, where each arrow leads, and which block is set off."""
    layers = [
        f"the {layer}: {together([BLOCKS[b].words for b in blocks])}"
        for layer, blocks in LAYERS.items()
    ]
    arrows = []
    for start, end, carried in ARROWS:
        as_what = f" as {plain(carried)}" if carried else ""
        arrows.append(f"{_called(start)} to {_called(end)}{as_what}")
    set_off = (
        "" if highlight is None else f" Set off: {_called(highlight)}."
    )
    return (
        f"Two columns of blocks, joined by arrows. Left, {layers[0]}. Right, {layers[1]}. "
        f"Arrows: {'; '.join(arrows)}.{set_off}"
    )


def _called(name: str) -> str:
    """Return the words for a block or for vectors, with the layer where the words alone fit two blocks."""
    if name in VECTORS:
        return plain(VECTORS[name].words)
    words = BLOCKS[name].words
    if sum(block.words == words for block in BLOCKS.values()) == 1:
        return words
    layer = next(
        layer for layer, blocks in LAYERS.items() if name in blocks
    )
    return f"{words} of the {layer}"


def _draw(highlight: str | None, text_alternative: str) -> Picture:
    picture = Picture(WIDTH, HEIGHT, text_alternative=text_alternative)
    page = picture.page()
    for number, (layer, names) in enumerate(LAYERS.items()):
        _frame(page, layer, [BLOCKS[name] for name in names])
        for name in names:
            _block(page, BLOCKS[name], number, name, name == highlight)
    for name, vectors in VECTORS.items():
        put(
            page,
            vectors.column,
            vectors.middle,
            vectors.words,
            TEXT,
            gid=f"vectors:{name}",
        )
    for start, end, carried in ARROWS:
        _arrow(page, start, end, carried)
    return picture


def _frame(page: Axes, layer: str, blocks: list[_Block]) -> None:
    """Draw the frame of a layer round its blocks, with its name in the upper left corner, beside the arrow."""
    top, bottom = blocks[0].top - 46, blocks[-1].bottom + 12
    left = blocks[0].column - BLOCK / 2 - 12
    look = {
        "boxstyle": "round,pad=0,rounding_size=10",
        "fill": False,
        "edgecolor": inks().rule,
        "linewidth": 1.2,
    }
    page.add_patch(
        FancyBboxPatch(
            (left, top),
            BLOCK + 24,
            bottom - top,
            linestyle=(0, (5, 3)),
            **look,
        )
    )
    for n, word in enumerate(layer.split()):
        put(
            page,
            left + 12,
            top + 15 + 17 * n,
            word,
            SMALL,
            ha="left",
            style="italic",
            gid=f"layer:{layer}",
        )


def _block(
    page: Axes, block: _Block, colour: int, name: str, set_off: bool
) -> None:
    """Draw a block in the colour of its layer; one that is set off has a thick edge and bold words."""
    left, height = block.column - BLOCK / 2, block.bottom - block.top
    hue = 1 if set_off else 2 * colour
    page.add_patch(
        Rectangle(
            (left, block.top),
            BLOCK,
            height,
            facecolor=inks().tints[hue],
            edgecolor=inks().series[hue],
            linewidth=3.5 if set_off else 1.2,
            gid=f"block:{name}",
        )
    )
    lines = wrapped(block.words, BLOCK - 14, TEXT, bold=set_off)
    first = block.top + height / 2 - 10 * (len(lines) - 1)
    weight = "bold" if set_off else "normal"
    for n, line in enumerate(lines):
        put(
            page,
            block.column,
            first + 20 * n,
            line,
            TEXT,
            color=text_colour(inks().tints[hue]),
            weight=weight,
            gid=f"words:{name}",
        )


def _arrow(page: Axes, start: str, end: str, carried: str) -> None:
    """Draw an arrow, straight down or straight across, with what it carries beside it."""
    begin, finish = _Ends.of(start), _Ends.of(end)
    if begin.column == finish.column:
        tail, head = (
            (begin.column, begin.below),
            (finish.column, finish.above),
        )
        label, side = (
            (begin.column + 12, (tail[1] + head[1]) / 2),
            {"ha": "left"},
        )
    else:
        start_x, end_x = begin.column + 56, finish.column - BLOCK / 2 - 3
        tail, head = (start_x, begin.middle), (end_x, finish.middle)
        label, side = ((start_x + end_x - 9) / 2, begin.middle - 16), {}
    look = {
        "arrowstyle": "-|>,head_width=0.25,head_length=0.5",
        "color": inks().rule,
        "linewidth": points(2.2),
    }
    page.annotate(
        "",
        xy=head,
        xytext=tail,
        arrowprops={**look, "shrinkA": 0, "shrinkB": 0},
        gid=f"arrow:{start}:{end}",
    )
    if carried:
        put(page, *label, carried, TEXT, gid=f"carried:{end}", **side)


@dataclass(frozen=True)
class _Ends:
    """Where arrows may touch a block or vectors."""

    column: int
    above: float
    middle: float
    below: float

    @classmethod
    def of(cls, name: str) -> _Ends:
        """Return the ends of what has this name."""
        if name in BLOCKS:
            block = BLOCKS[name]
            middle = (block.top + block.bottom) / 2
            return cls(
                block.column, block.top - 1.0, middle, block.bottom + 1.0
            )
        column, middle = VECTORS[name].column, VECTORS[name].middle
        return cls(column, middle - 14, middle, middle + 14)
