"""A matrix drawn as opaque cells, with row 0 on top and column 0 on the left."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, Normalize
from matplotlib.patches import Rectangle

from ._type import put, width_of
from .style import Length, inks, text_colour


def draw_cells(
    axes: Axes,
    values: np.ndarray,
    colours: Colormap,
    scale: Normalize,
    cell: Length,
) -> np.ndarray:
    """Fill axes with the cells of a matrix, edged so that each ends visibly.

    Args:
        axes: axes of T times S cells; afterwards the centre of cell (i, j) is x = j + ½, y = i + ½, y pointing down.
        values: (T, S).
        colours: the colour map.
        scale: takes values to the map.
        cell: side of a cell in css pixels; cells below 12 pixels get a frame only.

    Returns:
        (T, S, 4), the colours of the cells.
    """
    rows, columns = values.shape
    axes.set_xlim(0, columns)
    axes.set_ylim(rows, 0)
    axes.set_axis_off()
    return place_cells(axes, (0, 0), 1, values, colours, scale, cell)


def place_cells(
    axes: Axes,
    corner: tuple[Length, Length],
    side: Length,
    values: np.ndarray,
    colours: Colormap,
    scale: Normalize,
    cell: Length,
    gid: str | None = None,
) -> np.ndarray:
    """Put the cells of a matrix somewhere on axes, edged so that each ends visibly.

    Args:
        axes: axes whose y points down.
        corner: x and y of the top left corner.
        side: side of a cell, in the units of the axes.
        values: (T, S).
        colours: the colour map.
        scale: takes values to the map.
        cell: side of a cell in css pixels; cells below 12 pixels get a frame only.
        gid: the name of the cells.

    Returns:
        (T, S, 4), the colours of the cells.
    """
    rows, columns = values.shape
    left, top = corner
    edged = cell >= 12
    axes.pcolormesh(
        left + side * np.arange(columns + 1),
        top + side * np.arange(rows + 1),
        values,
        cmap=colours,
        norm=scale,
        edgecolors=inks().rule if edged else "face",
        linewidth=0.75 if cell >= 20 else 0.4 if edged else 0,
        antialiased=edged,
        clip_on=False,
        gid=gid,
    )
    axes.add_patch(
        Rectangle(
            (left, top),
            side * columns,
            side * rows,
            fill=False,
            edgecolor=inks().rule,
            linewidth=1.0,
            clip_on=False,
        )
    )
    return colours(scale(values))


class Strongest:
    """Dots on the strongest keys of queries, gathered and then drawn as one set for each ink.

    A set for each query would take as long as all the rest of a figure.
    """

    def __init__(self) -> None:
        self.places: dict[str, list[tuple[Length, Length]]] = {}

    def gather(
        self,
        values: np.ndarray,
        colours: np.ndarray,
        corner: tuple[Length, Length] = (0, 0),
        side: Length = 1,
    ) -> None:
        """Take a dot for each query whose weights are not all zero.

        Args:
            values: (T, S).
            colours: (T, S, 4), the colours of the cells.
            corner: x and y of the top left corner of the cells.
            side: side of a cell, in the units of the axes.
        """
        for i in np.flatnonzero(values.any(axis=1)):
            j = int(values[i].argmax())
            place = (
                corner[0] + side * (j + 0.5),
                corner[1] + side * (i + 0.5),
            )
            self.places.setdefault(text_colour(colours[i, j]), []).append(
                place
            )

    def draw(self, axes: Axes, size: Length) -> None:
        """Draw them on the axes, `size` points wide."""
        for ink, places in self.places.items():
            axes.plot(
                *zip(*places, strict=True),
                "o",
                color=ink,
                markersize=size,
                gid="strongest",
            )


def write_in_cells(
    axes: Axes,
    values: np.ndarray,
    colours: np.ndarray,
    size: Length,
    words: Callable[[float], str],
) -> None:
    """Write into each cell what `words` makes of its value, dark or light, whichever stands out from the cell.

    Args:
        axes: axes that `draw_cells` filled.
        values: (T, S).
        colours: (T, S, 4), the colours of the cells.
        size: type size in css pixels.
        words: makes the text of a cell; an empty text is left out.
    """
    for (i, j), value in np.ndenumerate(values):
        text = words(float(value))
        if text:
            put(
                axes,
                j + 0.5,
                i + 0.5,
                text,
                size,
                color=text_colour(colours[i, j]),
                gid=f"cell:{i}:{j}",
            )


def fitting_size(
    texts: list[str], room: Length, largest: Length, smallest: Length
) -> Length:
    """Return the largest type size at which every text fits into `room` css pixels, between the two limits."""
    widest = max((width_of(t, largest) for t in texts), default=0.0)
    return (
        largest
        if widest <= room
        else max(smallest, largest * room / widest)
    )
