"""Attention sinks: a few first keys that stay open when a window moves on."""

from typing import Any

from attention_in_detail._arrays import library_of
from attention_in_detail._checks import (
    check_causal_mask,
    checked,
    need_integer,
)
from attention_in_detail.notation import Array, Bool, Size

__all__ = ["sink_mask"]


def check_sink_mask(
    T: Any,
    S: Any = None,
    *,
    sinks: Any,
    offset: Any = 0,
    like: Any = None,
) -> None:
    check_causal_mask(T, S, offset=offset, like=like)
    need_integer("sinks", sinks, least=0)


@checked(check_sink_mask)
def sink_mask(
    T: Size,
    S: Size | None = None,
    *,
    sinks: Size,
    offset: Size = 0,
    like: Array | None = None,
) -> Bool[Array, "T S"]:
    r"""Let each query attend to the first few keys, as far as they lie before it.

    .. math:: M_{ij} = [\, j < \text{sinks} \,] \wedge [\, j \le i + \text{offset} \,]

    For a window that keeps them: ``window_mask(…) | sink_mask(…)``.

    Args:
        T: the number of queries.
        S: the number of keys; None means T.
        sinks: how many first keys stay open; 0 opens none.
        offset: how many keys lie before the first query's own, as in
            :func:`attention_in_detail.causal_mask`.
        like: an array whose library and device the mask is to have; None means NumPy.

    Returns:
        The mask, shape (T, S), true = may attend.

    Raises:
        TypeError: if a size is not an integer, or ``like`` not an array.
        ValueError: if T or ``sinks`` is negative, or S below 1.

    Source:
        Xiao et al. (2024), section 3.2. There what left the window leaves the cache
        too, and positions are counted within the cache; here each key keeps its own.
    """
    xp, where = library_of(like)
    i = xp.arange(T, device=where)[:, None]
    j = xp.arange(T if S is None else S, device=where)[None, :]
    return (j < int(sinks)) & (j <= i + int(offset))
