"""Colours, type sizes and contrast: what makes a figure readable on a light and on a dark page.

A figure is drawn twice, once with the inks of each ground, and a page shows the one of its reader's theme. One set of inks
for both grounds would be a compromise: a colour in the middle reaches the root of the contrast of the two grounds with each
other, 4.3 : 1 here, and no colour does better on both. With a set for each, words have more than 7 : 1, and lines,
markers and edges more than 3 : 1 on the ground and on the cells that they cross.

What stands far from the ground is much, what comes near to it is little: on the light ground large weights are dark, on the
dark one they are bright. So the words of a page speak of strong and faint cells, never of dark and pale ones. A series has
the same hue in both drawings.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_rgb

Length = float | int
"""A length, a place or a type size in css pixels, unless the name says otherwise."""


@dataclass(frozen=True)
class Inks:
    """The colours of a drawing: those that go together on one ground."""

    ground: str
    """What the page around the figure has."""

    words: str
    """Words on the open page: more than 7 : 1."""

    rule: str
    """Frames, axes, arrows and lines that belong to no series: more than 4.5 : 1."""

    series: tuple[str, ...]
    """One colour for each series: at least 3 : 1 on the ground and on tints, and apart from each other for the three kinds
    of colour blindness too. Drawn only together with `MARKERS` and `DASHES`, and never the colour of words."""

    tints: tuple[str, ...]
    """Fills near to the ground, in the order of `series`, for cells that carry numbers."""

    paper: str
    """Fill of a cell that stands for zero or for nothing."""

    weights: Colormap
    """Sequential map for weights: the further from the ground, the more."""

    scores: Colormap
    """Diverging map for scores, with its middle at zero; blue above, brown below."""


def _maps(
    weights: list[str], below: list[str], above: list[str]
) -> dict[str, Colormap]:
    """Return the maps through colours that begin with the paper."""
    return {
        "weights": LinearSegmentedColormap.from_list("weights", weights),
        "scores": LinearSegmentedColormap.from_list(
            "scores", [*below[:0:-1], *above]
        ),
    }


LIGHT = Inks(
    ground="#ffffff",
    words="#1f2730",
    rule="#5b6774",
    series=(
        "#1d55c4",
        "#86390d",
        "#128f80",
        "#7a3380",
        "#a87610",
        "#6b8a52",
    ),
    tints=(
        "#dbe8f6",
        "#f6e0cf",
        "#cdeee4",
        "#eedfec",
        "#f3e8c4",
        "#e1ecd8",
    ),
    paper="#f4f1ea",
    **_maps(
        ["#f4f1ea", "#cfdcec", "#8fb3dc", "#4a84c4", "#1c4f91", "#0a2754"],
        ["#f4f1ea", "#e3ad78", "#b8651c", "#6b3205"],
        ["#f4f1ea", "#8fb3dc", "#3a72b8", "#133a72"],
    ),
)

DARK = Inks(
    ground="#121212",
    words="#dde3e9",
    rule="#98a3af",
    series=(
        "#5f95f5",
        "#d9793a",
        "#62e0c4",
        "#b57fbb",
        "#f0da4e",
        "#b9e29a",
    ),
    tints=(
        "#16304d",
        "#48280f",
        "#0c3b30",
        "#412a3f",
        "#40350c",
        "#293b1e",
    ),
    paper="#24272b",
    **_maps(
        ["#24272b", "#25405f", "#2f6299", "#5790cf", "#97c1ee", "#e4f0fd"],
        ["#24272b", "#7d4a1c", "#c98a4c", "#f6d3ae"],
        ["#24272b", "#2c5688", "#6ba3e0", "#cfe4fb"],
    ),
)

_INKS: ContextVar[Inks] = ContextVar("inks", default=LIGHT)


def inks() -> Inks:
    """Return the inks of the drawing that is being made."""
    return _INKS.get()


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

DARK_TEXT = "#000000"
LIGHT_TEXT = "#ffffff"

# Type sizes in css pixels. The figures are at most 480 pixels wide wherever that is possible, so that a screen of 390
# pixels shows them at three quarters of their size or more.
TITLE = 16
TEXT = 15
SMALL = 13


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
def drawing_style(using: Inks | None = None) -> Iterator[None]:
    """Within this context matplotlib draws as the book does, whatever the reader's own settings are.

    The reader's settings come back when the context ends.

    Args:
        using: the inks to draw with; None goes on with those that are in use.
    """
    kept = _INKS.set(using or inks())
    try:
        with mpl.rc_context():
            mpl.rcdefaults()
            mpl.rcParams.update(
                {
                    "font.family": ["DejaVu Sans"],
                    "font.size": points(TEXT),
                    "mathtext.fontset": "dejavusans",
                    "text.color": inks().words,
                    "axes.edgecolor": inks().rule,
                    "axes.labelcolor": inks().words,
                    "xtick.color": inks().words,
                    "ytick.color": inks().words,
                    "axes.facecolor": "none",
                    "figure.facecolor": inks().ground,
                    "savefig.facecolor": inks().ground,
                }
            )
            yield
    finally:
        _INKS.reset(kept)
