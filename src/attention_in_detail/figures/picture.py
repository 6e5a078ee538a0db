"""A matplotlib figure that knows its text alternative and shows itself in the inks of a light and of a dark page."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ._grounds import MOST, as_png, shared_palette
from .style import DARK, LIGHT, Length, drawing_style, inks

PIXELS_PER_INCH = 96
WIDEST = 720


class Picture(Figure):
    """A figure measured in css pixels, together with the words that say what it shows.

    A notebook whose cell ends in a picture shows it as a PNG of twice the css size (sharp on dense screens) and
    stores the text alternative beside it, as plain text and in the metadata of the image. The PNG is the drawing for a light
    page, on white, and so reads wherever it is shown. The functions of this package draw a second time in inks for a dark
    page; the metadata hold its colours as `dark_palette`, the bytes of another palette for the same PNG, in base64. The
    pages of the book show the drawing that goes with their reader's theme. What is added to a picture by hand
    stands in the light drawing alone, and so does a picture that was made by hand: a dark page shows that one.
    Neither pyplot nor the reader's matplotlib settings take part.

    Args:
        width: width in css pixels, from 1 to 720.
        height: height in css pixels.
        text_alternative: what a reader who does not see the picture needs to know of it.

    Raises:
        ValueError: the text alternative is empty, or a size is out of range.
    """

    def __init__(
        self, width: Length, height: Length, *, text_alternative: str
    ) -> None:
        self.css_width, self.css_height = round(width), round(height)
        if not 1 <= self.css_width <= WIDEST:
            raise ValueError(
                f"width is {self.css_width} css pixels, a page has room for 1 to {WIDEST}"
            )
        if self.css_height < 1:
            raise ValueError(
                f"height is {self.css_height} css pixels, at least 1 is needed"
            )
        self.text_alternative = text_alternative
        self._inks = inks()
        self._most_colours = MOST
        self._draw_again: Callable[[], Picture] | None = None
        with drawing_style():
            super().__init__(
                figsize=(
                    self.css_width / PIXELS_PER_INCH,
                    self.css_height / PIXELS_PER_INCH,
                ),
                dpi=PIXELS_PER_INCH,
                facecolor=self._inks.ground,
                edgecolor="none",
            )

    def on_dark(self) -> Picture | None:
        """Return the picture drawn for a dark page, or None where only this drawing is known."""
        if self._draw_again is None:
            return None
        with drawing_style(DARK):
            return self._draw_again()

    @property
    def text_alternative(self) -> str:
        """The words that stand for the picture; never empty."""
        return self._text_alternative

    @text_alternative.setter
    def text_alternative(self, words: str) -> None:
        if not isinstance(words, str) or not words.strip():
            raise ValueError(
                "text_alternative is empty: say in words what the picture shows"
            )
        self._text_alternative = " ".join(words.split())

    def axes_at(
        self,
        left: Length,
        top: Length,
        width: Length,
        height: Length,
    ) -> Axes:
        """Add axes without a ground, at a place given in css pixels from the top left corner of the picture."""
        across, down = self.css_width, self.css_height
        axes = self.add_axes(
            (
                left / across,
                1 - (top + height) / down,
                width / across,
                height / down,
            )
        )
        axes.set_facecolor("none")
        return axes

    def page(self) -> Axes:
        """Add axes over the whole picture whose coordinates are css pixels from the top left corner."""
        axes = self.axes_at(0, 0, self.css_width, self.css_height)
        axes.set_xlim(0, self.css_width)
        axes.set_ylim(self.css_height, 0)
        axes.set_axis_off()
        return axes

    def _pixels(self) -> np.ndarray:
        """Return this drawing on its ground, (height, width, 3) bytes, at twice the css size."""
        stream = io.BytesIO()
        with drawing_style(self._inks):
            self.savefig(
                stream,
                format="rgba",
                dpi=2 * PIXELS_PER_INCH,
                facecolor=self._inks.ground,
            )
        shape = (2 * self.css_height, 2 * self.css_width, 4)
        return np.frombuffer(stream.getvalue(), np.uint8).reshape(shape)[
            ..., :3
        ]

    def _stored(self) -> tuple[bytes, bytes | None]:
        """Return the PNG for a light page, and the palette that makes it the one for a dark page."""
        drawings = [self, self.on_dark()]
        numbers, palettes = shared_palette(
            [
                drawing._pixels()
                for drawing in drawings
                if drawing is not None
            ],
            self._most_colours,
        )
        dark = palettes[1].tobytes() if len(palettes) > 1 else None
        return as_png(numbers, palettes[0]), dark

    def png(self) -> bytes:
        """Return the picture for a light page as a PNG of twice the css size: the same bytes each time."""
        return self._stored()[0]

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """Return what a notebook stores and shows: the image, the words for it, and its colours on a dark page."""
        png, dark = self._stored()
        data = {
            "image/png": base64.b64encode(png).decode("ascii"),
            "text/plain": f"Figure: {self.text_alternative}",
        }
        image = {
            "alt": self.text_alternative,
            "width": self.css_width,
            "height": self.css_height,
        }
        if dark is not None:
            image["dark_palette"] = base64.b64encode(dark).decode("ascii")
        return data, {"image/png": image}


def drawn_twice(
    draw: Callable[..., Picture], *given: Any, **named: Any
) -> Picture:
    """Return the light drawing of a function that can draw for a dark page too, which it does when that is asked for.

    Args:
        draw: draws a picture in the inks that are in use.
        given: what it takes.
        named: what it takes by name.
    """
    again = partial(draw, *given, **named)
    with drawing_style(LIGHT):
        picture = again()
    picture._draw_again = again
    return picture
