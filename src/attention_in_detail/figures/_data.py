"""What the figure functions ask of their arguments, and how arrays of any library become NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Drawable = Any
"""A NumPy array, a PyTorch tensor (with or without gradient), or nested lists of numbers."""

Number = float | int | np.floating | np.integer
"""One real number, of Python or of NumPy."""


def numbers_of(name: str, values: Drawable) -> np.ndarray:
    """Return `values` as a NumPy array of float64.

    Args:
        name: what the error line calls the argument.
        values: the numbers; a tensor is detached from its graph first.

    Raises:
        ValueError: `values` are not real numbers, or there are none.
    """
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if "bfloat16" in str(values.dtype):  # NumPy has no bfloat16
            values = values.float()
    try:
        array = np.asarray(values)
        if np.iscomplexobj(array):
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} is not an array of real numbers"
        ) from None
    if array.size == 0:
        raise ValueError(f"{name} is empty: its shape is {array.shape}")
    return array


def array_of(
    name: str, values: Drawable, axes: str, *, minus_infinity: bool = False
) -> np.ndarray:
    """Return `values` as a float64 array with the named axes and finite entries.

    Args:
        name: what the error line calls the argument.
        values: the numbers.
        axes: names of the axes, separated by spaces, such as `"T S"`.
        minus_infinity: whether −∞ is allowed.

    Raises:
        ValueError: the number of axes differs, or an entry is not finite.
    """
    array = numbers_of(name, values)
    expected = axes.split()
    if array.ndim != len(expected):
        wanted = (
            f"({', '.join(expected)}{',' if len(expected) == 1 else ''})"
        )
        raise ValueError(
            f"{name} has {array.ndim} axes, shape {array.shape}; {len(expected)} are needed: {wanted}"
        )
    refused = ~np.isfinite(array)
    if minus_infinity:
        refused &= ~np.isneginf(array)
    if refused.any():
        place = tuple(int(i) for i in np.argwhere(refused)[0])
        raise ValueError(
            f"{name} is not finite: entry {place} is {array[place]}"
        )
    return array


def same_size(
    first: str,
    first_axis: str,
    first_size: int,
    second: str,
    second_axis: str,
    second_size: int,
) -> None:
    """Refuse two sizes that have to agree and do not."""
    if first_size != second_size:
        raise ValueError(
            f"{first} has {first_axis} = {first_size}, {second} has {second_axis} = {second_size}; they must be equal"
        )


def words_of(
    name: str, words: Sequence[object], axis: str, size: int, of: str
) -> list[str]:
    """Return `words` as a list with one word for each position on an axis.

    Args:
        name: what the error line calls the argument.
        words: the tokens or titles.
        axis: the name of the axis they stand on.
        size: the size of that axis.
        of: the argument that has the axis.

    Raises:
        ValueError: the number of words is not the size of the axis, or something is not a string.
    """
    if isinstance(words, str):
        raise ValueError(
            f"{name} is one string; a list of {axis} = {size} strings is needed"
        )
    found = list(words)
    for position, word in enumerate(found):
        if not isinstance(word, str):
            raise ValueError(
                f"{name} is to hold strings; entry {position} is {word!r}"
            )
    if len(found) != size:
        raise ValueError(
            f"{name} has {len(found)} entries, axis {axis} of {of} has size {size}"
        )
    return found


def weights_of(name: str, values: Drawable, axes: str) -> np.ndarray:
    """Return attention weights as a float64 array, refusing what cannot be weights.

    Raises:
        ValueError: as `array_of`, and when an entry lies outside 0 to 1 (rounding apart).
    """
    array = array_of(name, values, axes)
    outside = (array < 0) | (array > 1 + 1e-6)
    if outside.any():
        place = tuple(int(i) for i in np.argwhere(outside)[0])
        raise ValueError(
            f"{name} must lie between 0 and 1: entry {place} is {array[place]:.6g}"
        )
    return array
