"""Linear biases: what is far away counts less, by a slope that each head has for itself."""

from typing import Any

from array_api_compat import array_namespace, device

from attention_in_detail._arrays import library_of, narrowed, widened
from attention_in_detail._checks import (
    check_causal_mask,
    checked,
    need_floating,
    need_integer,
)
from attention_in_detail.notation import Array, Float, Size

__all__ = ["head_slopes", "linear_bias"]


def check_head_slopes(heads: Any, *, like: Any = None) -> None:
    need_integer("heads", heads, least=1)
    if like is not None:
        need_floating("like", like)


@checked(check_head_slopes)
def head_slopes(
    heads: Size, *, like: Array | None = None
) -> Float[Array, " h"]:
    r"""Give each head a slope: a geometric sequence, the steepest first.

    .. math:: m_n = 2^{-8 n / h}, \qquad n = 1, \dots, h, \quad \text{if } h \text{ is a power of } 2

    For another h take the largest power of 2 below it, :math:`2^k`, and its slopes; then the
    first, third, … of the slopes for :math:`2^{k+1}`, as many as are missing.

    Args:
        heads: the number of heads h.
        like: a floating array whose library, dtype and device the result is to have;
            None means NumPy, float64.

    Returns:
        The slopes, shape (h,), each between 0 and 1.

    Raises:
        TypeError: if ``heads`` is not an integer, or ``like`` not a floating array.
        ValueError: if ``heads`` is below 1.

    Source:
        Press, Smith and Lewis (2022), section 3; for other h the code that they
        published with it.
    """
    xp, where = library_of(like)
    h = int(heads)
    power = 1 << (h.bit_length() - 1)
    slopes = [2.0 ** (-8 * n / power) for n in range(1, power + 1)]
    between = [2.0 ** (-4 * n / power) for n in range(1, 2 * power, 2)]
    slopes += between[: h - power]
    dtype = xp.float64 if like is None else like.dtype
    return xp.asarray(slopes, dtype=dtype, device=where)


def check_linear_bias(
    T: Any, S: Any = None, *, slopes: Any, offset: Any = 0
) -> None:
    need_floating("slopes", slopes)
    if slopes.ndim != 1:
        raise ValueError(
            f"slopes needs the axes (h), but has the shape {tuple(slopes.shape)}"
        )
    check_causal_mask(T, S, offset=offset)


@checked(check_linear_bias)
def linear_bias(
    T: Size,
    S: Size | None = None,
    *,
    slopes: Float[Array, " h"],
    offset: Size = 0,
) -> Float[Array, "h T S"]:
    r"""Take from each score in proportion to how far the key is from the query.

    .. math:: b_{nij} = -m_n\, \lvert i + \text{offset} - j \rvert

    Args:
        T: the number of queries.
        S: the number of keys; None means T.
        slopes: m of each head, shape (h,), from :func:`head_slopes` or others.
        offset: how many keys lie before the first query's own, as in
            :func:`attention_in_detail.causal_mask`.

    Returns:
        What goes into ``bias``, shape (h, T, S), in the library and dtype of
        ``slopes``. It is computed in float32 at least and rounded once.

    Raises:
        TypeError: if a size is not an integer, or ``slopes`` not a floating array.
        ValueError: if T is negative, S below 1, or ``slopes`` has not one axis.

    Source:
        Press, Smith and Lewis (2022), section 3: there for j ≤ i, where the distance is
        i − j.
    """
    xp, where = array_namespace(slopes), device(slopes)
    wide = widened(slopes)
    i = xp.arange(T, device=where)[:, None]
    j = xp.arange(T if S is None else S, device=where)[None, :]
    distance = xp.astype(xp.abs(i + int(offset) - j), wide.dtype)
    return narrowed(-wide[:, None, None] * distance, slopes.dtype)
