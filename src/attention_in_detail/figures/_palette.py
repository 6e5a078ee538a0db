"""Another palette for a PNG: how the build, and a page that runs its cells, get the drawing for a dark page.

The standard library is enough for it: the build loads this file alone, without the package and without matplotlib.
"""

from __future__ import annotations

import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def with_palette(png: bytes, palette: bytes) -> bytes:
    """Return a PNG with another palette: what the number of a pixel stands for is all that changes.

    Args:
        png: a PNG with a palette.
        palette: three bytes for each of its colours.

    Raises:
        ValueError: the PNG has no palette, or one with another number of colours.
    """
    parts, place, found = [SIGNATURE], len(SIGNATURE), None
    while place < len(png):
        (length,) = struct.unpack_from(">I", png, place)
        kind = png[place + 4 : place + 8]
        data = png[place + 8 : place + 8 + length]
        if kind == b"PLTE":
            found, data = length, palette
        check = struct.pack(">I", zlib.crc32(kind + data))
        parts += [struct.pack(">I", len(data)), kind, data, check]
        place += 12 + length
    if found != len(palette):
        raise ValueError(
            f"palette has {len(palette)} bytes, that of the PNG has {found or 0}"
        )
    return b"".join(parts)
