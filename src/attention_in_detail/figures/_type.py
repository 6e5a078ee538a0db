"""Setting type: how wide words are, how they are put on axes, where lines break."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text

from ._words import is_mathematics, visible
from .picture import PIXELS_PER_INCH
from .style import TEXT, Length, drawing_style, inks, points


@lru_cache(maxsize=4096)
def width_of(
    words: str,
    size: Length = TEXT,
    *,
    bold: bool = False,
    literal: bool = False,
) -> Length:
    """Return how wide words are, in css pixels.

    Args:
        words: one line of text; parts between dollar signs are mathematics.
        size: type size in css pixels.
        bold: whether the type is bold.
        literal: whether dollar signs stand for themselves.
    """
    with drawing_style():
        font = FontProperties(
            family="DejaVu Sans",
            size=points(size),
            weight="bold" if bold else "normal",
        )
        mathematics = not literal and words.count("$") >= 2
        return RendererAgg(
            8, 8, PIXELS_PER_INCH
        ).get_text_width_height_descent(words, font, mathematics)[0]


def token_width(token: str, size: Length = TEXT) -> Length:
    """Return how wide a token is, in css pixels."""
    return width_of(visible(token), size, literal=not is_mathematics(token))


def put(
    axes: Axes,
    x: Length,
    y: Length,
    words: str,
    size: Length = TEXT,
    **options: Any,
) -> Text:
    """Put words at a place given in the coordinates of the axes: centred and in ink unless `options` say otherwise.

    Args:
        axes: where to write.
        x: place across.
        y: place down.
        words: the text; parts between dollar signs are mathematics.
        size: type size in css pixels.
        options: further keywords of `matplotlib.axes.Axes.text`.
    """
    defaults = {
        "ha": "center",
        "va": "center_baseline",
        "color": inks().words,
        "family": "DejaVu Sans",
    }
    return axes.text(
        x, y, words, fontsize=points(size), **{**defaults, **options}
    )


def put_token(
    axes: Axes,
    x: Length,
    y: Length,
    token: str,
    size: Length = TEXT,
    **options: Any,
) -> Text:
    """Put a token: letter by letter as it is, unless the whole of it is mathematics between dollar signs."""
    return put(
        axes,
        x,
        y,
        visible(token),
        size,
        parse_math=is_mathematics(token),
        **options,
    )


def wrapped(
    words: str, room: Length, size: Length = TEXT, *, bold: bool = False
) -> list[str]:
    """Break words into lines that fit into `room` css pixels; a single longer word keeps a line to itself."""
    lines: list[str] = []
    for word in words.split():
        if (
            lines
            and width_of(f"{lines[-1]} {word}", size, bold=bold) <= room
        ):
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
