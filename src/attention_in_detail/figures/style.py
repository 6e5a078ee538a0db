"""Colours, type sizes and contrast: what makes a figure readable on a light and on a dark page.

A figure has no ground of its own, so its ink must be read on both grounds of the book. A colour in the middle reaches
the root of the contrast of the two grounds with each other, and no colour does better on both. White and black have
21 : 1, the root of which is 4.58 : 1, just more than the 4.5 : 1 that running text needs: so a dark page shows figures
on black. Of all colours only greys and dull ones come that near to the middle; therefore all words on the open page are
in ink, and the colours of series, with 3 : 1, belong to lines, markers and areas.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib as mpl
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_rgb

Length = float | int
"""A length, a place or a type size in css pixels, unless the name says otherwise."""

LIGHT_GROUND = "#ffffff"
DARK_GROUND = "#000000"

INK = "#6b7785"
"""Lines and words on the open page: more than 4.5 : 1 on either ground."""

SERIES = ("#2a6fc4", "#9e501a", "#00a37f", "#8a5386", "#af8b12", "#6d9452")
"""One colour for each series: at least 3 : 1 on either ground, and apart from each other for the three kinds of colour
blindness too. Drawn only together with `MARKERS` and `DASHES`, and never the colour of words."""

MARKERS = ("o", "s", "^", "D", "v", "P")
"""One marker for each series: shapes tell the series apart where colours do not."""

DASHES = (
    "-",
    (0, (6, 2)),
    (0, (2, 1.5)),
    (0, (7, 2, 2, 2)),
    (0, (1, 1)),
    (0, (4, 1, 1, 1, 1, 1)),
)
"""One line style for each series."""

TINTS = ("#dbe8f6", "#f6e0cf", "#cdeee4", "#eedfec", "#f3e8c4", "#e1ecd8")
"""Pale fills, in the order of `SERIES`, for opaque cells that carry dark numbers."""

PAPER = "#f4f1ea"
"""Fill of an opaque cell that stands for zero or for nothing."""

DARK_TEXT = "#000000"
LIGHT_TEXT = "#ffffff"

# Type sizes in css pixels. The figures are at most 480 pixels wide wherever that is possible, so that a screen of 390
# pixels shows them at three quarters of their size or more.
TITLE = 16
TEXT = 15
SMALL = 13

WEIGHTS_MAP: Colormap = LinearSegmentedColormap.from_list(
    "attention_weights",
    [PAPER, "#cfdcec", "#8fb3dc", "#4a84c4", "#1c4f91", "#0a2754"],
)
"""Sequential map for weights: darker is more."""

SCORES_MAP: Colormap = LinearSegmentedColormap.from_list(
    "attention_scores",
    [
        "#6b3205",
        "#b8651c",
        "#e3ad78",
        PAPER,
        "#8fb3dc",
        "#3a72b8",
        "#133a72",
    ],
)
"""Diverging map for scores, with its middle at zero."""


def points(pixels: Length) -> float:
    """Convert css pixels, of which 96 make an inch, to points, of which 72 do."""
    return pixels * 72 / 96


def relative_luminance(colour: object) -> float:
    """Return the relative luminance of a colour as WCAG 2 defines it.

    Args:
        colour: any colour that matplotlib reads; an alpha channel is ignored.

    Returns:
        A number from 0 (black) to 1 (white).
    """
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in to_rgb(colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: object, second: object) -> float:
    """Return the contrast ratio of two colours, (L₁ + 0.05) / (L₂ + 0.05) with L₁ the lighter one's luminance.

    Args:
        first: a colour.
        second: a colour; the order does not matter.

    Returns:
        A ratio from 1 (the same luminance) to 21 (black and white). WCAG asks 3 of graphics and large text.
    """
    darker, lighter = sorted(
        (relative_luminance(first), relative_luminance(second))
    )
    return (lighter + 0.05) / (darker + 0.05)


def text_colour(cell: object) -> str:
    """Return the dark or the light text colour, whichever stands out more from the colour of a cell."""
    return max(
        (DARK_TEXT, LIGHT_TEXT), key=lambda text: contrast(text, cell)
    )


@contextmanager
def drawing_style() -> Iterator[None]:
    """Within this context matplotlib draws as the book does, whatever the reader's own settings are.

    The reader's settings come back when the context ends.
    """
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(
            {
                "font.family": ["DejaVu Sans"],
                "font.size": points(TEXT),
                "mathtext.fontset": "dejavusans",
                "text.color": INK,
                "axes.edgecolor": INK,
                "axes.labelcolor": INK,
                "xtick.color": INK,
                "ytick.color": INK,
                "axes.facecolor": "none",
                "figure.facecolor": "none",
                "savefig.facecolor": "none",
            }
        )
        yield
