"""What the formulas need to know of an array, whichever library made it."""

from numbers import Real
from typing import Any

from array_api_compat import array_namespace, device

from attention_in_detail.notation import Array, Scale

__all__ = [
    "as_factor",
    "as_places",
    "constant",
    "itemsize",
    "library_of",
    "narrowed",
    "spread",
    "widened",
]


def library_of(like: Array | None) -> tuple[Any, Any]:
    """Return the array namespace and the device of ``like``; NumPy and its only device for None."""
    if like is None:
        import array_api_compat.numpy as numpy_namespace

        return numpy_namespace, "cpu"
    return array_namespace(like), device(like)


def constant(value: float, like: Array) -> Array:
    """Return ``value`` as a 0-d array with the library, dtype and device of ``like``."""
    xp = array_namespace(like)
    return xp.asarray(value, dtype=like.dtype, device=device(like))


def as_factor(scale: Scale, like: Array) -> Scale:
    """Return ``scale`` as what multiplies ``like`` without changing its dtype; an array keeps its gradient."""
    return (
        float(scale)
        if isinstance(scale, Real)
        else narrowed(scale, like.dtype)
    )


def itemsize(x: Array) -> int:
    """Return how many bytes a number of ``x`` takes."""
    return array_namespace(x).finfo(x.dtype).bits // 8


def as_places(numbers: Array) -> Array:
    """Return integers as the library takes them for places in an array: 32 bits wide where addresses are, as in a browser."""
    xp = array_namespace(numbers)
    known = xp.__array_namespace_info__().default_dtypes()
    return xp.astype(numbers, known["indexing"])


def spread(x: Array, shape: tuple[int, ...]) -> Array:
    """Return ``x`` broadcast to ``shape``, in memory of its own; ``x`` itself if it fits."""
    if tuple(x.shape) == shape:
        return x
    return constant(0.0, x) + array_namespace(x).broadcast_to(x, shape)


def widened(x: Array | None) -> Array | None:
    """Return ``x`` in float32 where its own precision is half, else ``x`` itself; None stays None.

    float16 ends at 65,504 and bfloat16 carries 8 bits of mantissa: scores and
    exponentials need more.
    """
    if x is None:
        return None
    xp = array_namespace(x)
    return xp.astype(x, xp.float32) if xp.finfo(x.dtype).bits < 32 else x


def narrowed(x: Array, dtype: Any) -> Array:
    """Return ``x`` in ``dtype``: the last step of a computation that began with ``widened``."""
    return x if x.dtype == dtype else array_namespace(x).astype(x, dtype)
