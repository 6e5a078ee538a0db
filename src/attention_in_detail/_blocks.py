"""Attention cut into blocks: which there are, what belongs to each, and its scores."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from array_api_compat import array_namespace

from attention_in_detail._arrays import constant, widened
from attention_in_detail.masks import causal_mask, keep_rows, may_attend
from attention_in_detail.notation import (
    Array,
    Bias,
    Float,
    Mask,
    Scale,
    Size,
)
from attention_in_detail.scaled_dot_product import scores

__all__ = ["finite", "open_blocks", "part_of", "positive", "scored"]


def open_blocks(
    T: Size,
    S: Size,
    *,
    causal_offset: Size | None,
    query_block: Size,
    key_block: Size,
) -> Iterator[tuple[slice, list[tuple[slice, Any]]]]:
    """Cut queries and keys into blocks, and leave out those that ``causal_offset`` shuts.

    For each block of queries there is a list with its blocks of keys. Beside each block
    that is open in part stands what makes its mask, beside others None.
    """
    T, S, height, width = map(int, (T, S, query_block, key_block))
    for top in range(0, max(T, 1), height):
        rows = slice(top, min(top + height, T))
        open_ones = []
        for left in range(0, S, width):
            columns = slice(left, min(left + width, S))
            mask = None
            if causal_offset is not None:
                # Query top + i may attend to key left + j where j ≤ i + offset.
                offset = top + int(causal_offset) - left
                if offset + rows.stop - top - 1 < 0:
                    break  # its last query does not see its first key
                if offset < columns.stop - left - 1:
                    sizes = rows.stop - top, columns.stop - left
                    mask = partial(
                        causal_mask.unchecked, *sizes, offset=offset
                    )
            open_ones.append((columns, mask))
        yield rows, open_ones


def part_of(x: Array | None, rows: slice, columns: slice) -> Array | None:
    """Return the part of a mask or bias that belongs to a block; an axis of size 1, or none, holds for all."""
    if x is None or x.ndim == 0:
        return x
    if x.shape[-1] != 1:
        x = x[..., columns]
    if x.ndim > 1 and x.shape[-2] != 1:
        x = x[..., rows, :]
    return x


def scored(
    queries: Float[Array, "*#batch T D_k"],
    keys: Float[Array, "*#batch S D_k"],
    values: Float[Array, "*#batch S D_v"],
    *,
    mask: Mask | None,
    bias: Bias | None,
    scale: Scale | None,
) -> tuple[Array, Array, Array, Array]:
    """Return queries, keys and values without what takes no part, and the scores, −inf where a pair is shut."""
    is_open = may_attend(mask, bias)
    q = widened(keep_rows(queries, is_open, of="queries"))
    k = widened(keep_rows(keys, is_open, of="keys"))
    v = widened(keep_rows(values, is_open, of="keys"))
    z = scores.unchecked(q, k, scale=scale)
    if bias is not None:
        z = z + widened(bias)
    if is_open is not None:
        xp = array_namespace(z)
        z = xp.where(is_open, z, constant(-xp.inf, z))
    return q, k, v, z


def finite(largest: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the largest scores, 0 for −inf: −inf − (−inf) would be NaN."""
    xp = array_namespace(largest)
    return xp.where(largest == -xp.inf, constant(0.0, largest), largest)


def positive(total: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the sums, 1 for 0: only where nothing is attended is there nothing to divide."""
    xp = array_namespace(total)
    return xp.where(total == 0, constant(1.0, total), total)
