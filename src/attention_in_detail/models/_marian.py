"""The binary format of Marian, the toolkit that trained the translator: named arrays, one after another.

All numbers are little-endian. A file begins with its version, 1, and the count n of its entries, each a uint64; then
n rows of four uint64: length of the name, type, number of axes, length of the data. Then come all names, all shapes
(int32), one uint64 that counts the bytes of padding, and all data.
"""

import numpy as np

from attention_in_detail.notation import Array, Float

__all__ = ["read_marian"]

FLOAT32, INT8 = 0x404, 0x4101


def read_marian(
    content: bytes, plain: tuple[str, ...] = ()
) -> dict[str, Float[Array, "..."]]:
    """Return the arrays of a model by name, in float32.

    Args:
        content: of the file; its hash was checked, so it is taken at its word.
        plain: the names of the arrays of int8 that are stored as their shape says; any
            other matrix of int8 is stored transposed.

    Returns:
        The arrays. A matrix of int8 is followed by one number, its multiplier, and is
        divided by it. Entries of other types hold settings and are left out.
    """
    count = int(np.frombuffer(content, "<u8", 2)[1])
    table = np.frombuffer(content, "<u8", 4 * count, 16)
    table = table.reshape(count, 4).astype(int)
    at = 16 + table.nbytes
    names, shapes, found = [], [], {}
    for length, *_ in table:
        names.append(content[at : at + length - 1].decode())
        at += length
    for _, _, axes, _ in table:
        shapes.append(tuple(np.frombuffer(content, "<i4", axes, at)))
        at += 4 * axes
    at += 8 + int(np.frombuffer(content, "<u8", 1, at)[0])
    for name, shape, (_, kind, _, length) in zip(
        names, shapes, table, strict=True
    ):
        size = int(np.prod(shape))
        if kind == FLOAT32:
            x = np.frombuffer(content, "<f4", size, at)
            found[name] = x.reshape(shape)
        elif kind == INT8 and size > 1:
            whole = np.frombuffer(content, "i1", size, at)
            unit = np.frombuffer(content, "<f4", 1, at + size)
            x = whole.astype(np.float32) / unit
            if name in plain:
                found[name] = x.reshape(shape)
            else:
                found[name] = x.reshape(shape[::-1]).T
        at += length
    return found
