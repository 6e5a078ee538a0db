"""A matplotlib figure that knows its text alternative and shows itself on a transparent ground."""

from __future__ import annotations

import base64
import io
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import Length, drawing_style

PIXELS_PER_INCH = 96
WIDEST = 720


class Picture(Figure):
    """A figure measured in css pixels, together with the words that say what it shows.

    A notebook whose cell ends in a picture shows it as a PNG of twice the css size (sharp on dense screens) and
    stores the text alternative beside it, as plain text and in the metadata of the image.
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
        with drawing_style():
            super().__init__(
                figsize=(
                    self.css_width / PIXELS_PER_INCH,
                    self.css_height / PIXELS_PER_INCH,
                ),
                dpi=PIXELS_PER_INCH,
                facecolor="none",
                edgecolor="none",
            )

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

    def png(self) -> bytes:
        """Return the picture as a PNG of twice the css size: the same bytes each time, with no date and no versions."""
        stream = io.BytesIO()
        with drawing_style():
            self.savefig(
                stream,
                format="png",
                dpi=2 * PIXELS_PER_INCH,
                transparent=True,
                metadata={"Software": None},
            )
        return stream.getvalue()

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """Return what a notebook stores and shows: the image, and the words for it."""
        data = {
            "image/png": base64.b64encode(self.png()).decode("ascii"),
            "text/plain": f"Figure: {self.text_alternative}",
        }
        image = {
            "alt": self.text_alternative,
            "width": self.css_width,
            "height": self.css_height,
        }
        return data, {"image/png": image}
