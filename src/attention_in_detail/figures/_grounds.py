"""One image for two grounds: the same pixels, and a palette for each of them.

The two drawings of a figure are alike in everything but their inks. So they are stored as one PNG that has, for each pixel,
the number of a colour, with the palette of the light drawing; beside it goes the palette of the dark one, under a
thousand bytes. Put in place of the first, it makes the PNG of the second, without drawing anything and without matplotlib. A
second PNG would double what notebooks weigh; a palette makes them lighter than one drawing in full colours did. A
drawing as SVG would follow the theme by itself only where its elements stand in the page, which then carries all of
them, seen or not; and its text would be set in the fonts that a reader happens to have.

A palette has room for 256 pairs of colours. Where the drawings have more, areas keep their colours exactly, and the shades at
the edges of letters and lines share what is left.
"""

from __future__ import annotations

import io

import numpy as np

MOST = 256
NEAR_ENOUGH = 400
"""Pixels times squared distance, over both drawings, that a colour without an entry of its own may be off."""


def shared_palette(
    drawings: list[np.ndarray], most: int = MOST
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the number of a colour for each pixel, and the colours of each drawing in that order.

    Args:
        drawings: the same picture in other inks, each (height, width, 3) of bytes.
        most: how many colours a palette may have.

    Returns:
        Numbers, (height, width), and for each drawing its palette, (n, 3), with n at most `most`.
    """
    shape = drawings[0].shape[:2]
    codes = np.zeros(shape, np.int64)
    for drawing in drawings:
        for channel in np.moveaxis(drawing, -1, 0):
            codes = codes * 256 + channel
    # Neighbours are mostly alike: one entry for each run of them leaves little to sort.
    codes = codes.ravel()
    starts = np.append(0, np.flatnonzero(codes[1:] != codes[:-1]) + 1)
    lengths = np.diff(starts, append=codes.size)
    found, of_run = np.unique(codes[starts], return_inverse=True)
    counts = np.bincount(of_run, weights=lengths).astype(np.int64)
    shifts = 8 * np.arange(3 * len(drawings))[::-1]
    colours = (found[:, None] >> shifts) & 255
    kept, stands_for = _reduced(colours.astype(np.float32), counts, most)
    numbers = np.repeat(stands_for[of_run].astype(np.uint8), lengths)
    numbers = numbers.reshape(shape)
    palette = colours[kept].astype(np.uint8)
    return numbers, np.split(palette, len(drawings), axis=1)


def _reduced(
    colours: np.ndarray, counts: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return which colours stay, in rising order, and for each colour the number of the one that stands for it.

    The most frequent colour comes first; then, again and again, the one that would be most off. So what covers an area
    has an entry of its own, and a small change of the drawing changes little.
    """
    kept = [int(counts.argmax())]
    nearest = np.zeros(len(colours), np.int64)
    off = ((colours - colours[kept[0]]) ** 2).sum(axis=1)
    while len(kept) < most:
        worst = int((off * counts).argmax())
        if off[worst] * counts[worst] <= NEAR_ENOUGH:
            break
        distance = ((colours - colours[worst]) ** 2).sum(axis=1)
        nearer = distance < off
        nearest[nearer] = len(kept)
        off[nearer] = distance[nearer]
        kept.append(worst)
    order = np.argsort(kept)
    return np.array(kept)[order], np.argsort(order)[nearest]


def as_png(numbers: np.ndarray, palette: np.ndarray) -> bytes:
    """Return a PNG with a palette: the same bytes each time, with no date and no versions.

    Args:
        numbers: (height, width), the number of a colour for each pixel.
        palette: (n, 3), the colours.
    """
    # Comes with matplotlib; the reference pages are built without both.
    from PIL import Image

    image = Image.fromarray(numbers, "P")
    image.putpalette(palette.tobytes())
    stream = io.BytesIO()
    image.save(stream, "PNG", optimize=True)
    return stream.getvalue()
