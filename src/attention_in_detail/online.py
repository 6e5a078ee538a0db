"""Exact attention by blocks: what some keys give, how two such results merge, and the whole without a (T, S) array."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from attention_in_detail._arrays import narrowed, widened
from attention_in_detail._block_checks import (
    check_merge,
    check_online_attention,
    check_part,
    check_partial_attention,
)
from attention_in_detail._blocks import (
    finite,
    open_blocks,
    part_of,
    positive,
    scored,
)
from attention_in_detail._checks import checked, named
from attention_in_detail.masks import combine_masks
from attention_in_detail.notation import (
    Array,
    Bias,
    Float,
    Mask,
    Scale,
    Size,
)

__all__ = [
    "KEY_BLOCK",
    "QUERY_BLOCK",
    "PartialAttention",
    "attention_by_blocks",
    "merge_partial",
    "nothing_attended",
    "online_attention",
    "partial_attention",
]

# Measured by bench/online_attention.py: smaller blocks are slower, larger ones gain little and take more memory.
QUERY_BLOCK, KEY_BLOCK = 512, 512


@dataclass(frozen=True, eq=False)
class PartialAttention:
    r"""What attention over some of the keys gives, with the two numbers a row that a merge needs.

    .. math:: m_i = \max_j Z_{ij}, \qquad \ell_i = \sum_j e^{Z_{ij} - m_i}, \qquad
        y_i = \frac{1}{\ell_i} \sum_j e^{Z_{ij} - m_i}\, v_j

    Attributes:
        output: attention over these keys alone, shape (T, D_v) behind the batch axes;
            float32 where the input was of half precision.
        largest: m, the largest score of each query, shape (T,) behind batch axes; −inf
            for a query that may attend to none of these keys.
        total: ℓ, the sum of the exponentials with m taken off, shape likewise; 0 for
            such a query.

    Raises:
        TypeError: if a field is not a floating array, or libraries, dtypes or devices
            are mixed.
        ValueError: if sizes do not fit.

    Source:
        Milakov and Gimelshein (2018), section 3; Dao et al. (2022), section 3.1.
    """

    output: Array  # (*batch, T, D_v)
    largest: Array  # (*batch, T)
    total: Array  # (*batch, T)

    def __new__(cls, *args: Any, **kwargs: Any) -> "PartialAttention":
        if args or kwargs:
            named(check_part, cls.__name__)(*args, **kwargs)
        return super().__new__(cls)


@checked(check_partial_attention)
def partial_attention(
    queries: Float[Array, "*#batch T D_k"],
    keys: Float[Array, "*#batch S D_k"],
    values: Float[Array, "*#batch S D_v"],
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    scale: Scale | None = None,
) -> PartialAttention:
    r"""Attend to some of the keys, and keep what a merge with the others needs.

    .. math:: m_i = \max_j Z_{ij}, \qquad \ell_i = \sum_j e^{Z_{ij} - m_i}, \qquad
        y_i = \frac{1}{\ell_i} \sum_j e^{Z_{ij} - m_i}\, v_j

    Args:
        queries: shape (\*batch, T, D_k).
        keys: some of the keys, shape (\*batch, S, D_k).
        values: their values, shape (\*batch, S, D_v).
        mask: boolean, true = may attend, for these keys.
        bias: floating, added to the scores, for these keys.
        scale: the number that multiplies q·k; None means 1/√D_k.

    Returns:
        Output, largest score and sum of each query. Half precision is computed and
        left in float32, so that many merges round once.

    Raises:
        TypeError: as :func:`attention_in_detail.attention`.
        ValueError: as :func:`attention_in_detail.attention`.

    Source:
        Milakov and Gimelshein (2018), section 3; Dao et al. (2022), section 3.1.
    """
    xp = array_namespace(queries)
    _, _, v, z = scored(
        queries, keys, values, mask=mask, bias=bias, scale=scale
    )
    largest = xp.max(z, axis=-1)  # (*batch, T)
    exponentials = xp.exp(z - finite(largest)[..., None])
    total = xp.sum(exponentials, axis=-1)
    weights = exponentials / positive(total)[..., None]
    return PartialAttention(weights @ v, largest, total)


@checked(check_merge)
def merge_partial(
    one: PartialAttention, other: PartialAttention
) -> PartialAttention:
    r"""Merge what two disjoint sets of keys gave into what their union gives.

    .. math:: m = \max(m_1, m_2), \qquad \ell = e^{m_1 - m} \ell_1 + e^{m_2 - m} \ell_2, \qquad
        y = \frac{e^{m_1 - m} \ell_1}{\ell}\, y_1 + \frac{e^{m_2 - m} \ell_2}{\ell}\, y_2

    The output is a weighted mean of the two: no score is needed again. The order of
    the two does not matter, nor how three are paired, up to rounding; with m = −inf,
    ℓ = 0 and y = 0, nothing attended, the other comes back as it is.

    Args:
        one: attention over some keys.
        other: attention of the same queries over other keys.

    Returns:
        Attention over all of them.

    Raises:
        TypeError: if one is not a :class:`PartialAttention`, or libraries, dtypes or
            devices are mixed.
        ValueError: if the two have not the same queries or widths.

    Source:
        Milakov and Gimelshein (2018), section 3.1, equation 4; Dao et al. (2022),
        section 3.1.
    """
    xp = array_namespace(one.output)
    largest = xp.maximum(one.largest, other.largest)
    shift = finite(largest)
    sums = [xp.exp(p.largest - shift) * p.total for p in (one, other)]
    total = sums[0] + sums[1]
    shares = [(x / positive(total))[..., None] for x in sums]
    return PartialAttention(
        shares[0] * one.output + shares[1] * other.output, largest, total
    )


@checked(check_online_attention)
def online_attention(
    queries: Float[Array, "*#batch T D_k"],
    keys: Float[Array, "*#batch S D_k"],
    values: Float[Array, "*#batch S D_v"],
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    scale: Scale | None = None,
    causal_offset: Size | None = None,
    query_block: Size = QUERY_BLOCK,
    key_block: Size = KEY_BLOCK,
) -> Float[Array, "*#batch T D_v"]:
    r"""Attention, exact, in memory that grows with T + S and not with T · S.

    .. math:: \operatorname{Attention}(Q, K, V) =
        \operatorname{merge}_b \operatorname{Attention}(Q, K_b, V_b), \qquad
        b = \text{blocks of keys}

    Equal to :func:`attention_in_detail.attention` up to rounding. Queries and keys are
    cut into blocks. For each block of queries, attention over one block of keys after
    the other is merged into a running result.

    Args:
        queries: shape (\*batch, T, D_k).
        keys: shape (\*batch, S, D_k).
        values: shape (\*batch, S, D_v).
        mask: boolean, true = may attend, broadcast against (\*batch, T, S).
        bias: floating, added to the scores after ``scale``, broadcast likewise.
        scale: the number that multiplies q·k; None means 1/√D_k.
        causal_offset: o, with which query i may attend to key j only where j ≤ i + o,
            as in :func:`attention_in_detail.causal_mask`; None means no such mask. It
            comes from the indices: no (T, S) mask is made, and a block that it shuts
            is not computed.
        query_block: how many queries at a time, at least 1.
        key_block: how many keys at a time, at least 1.

    Returns:
        The output, shape (\*batch, T, D_v). A query that may attend to nothing gets
        output 0 and gradient 0. A NaN value that some query may attend to reaches at
        least that query's output, and at most those of its batch entry. First
        derivatives of torch tensors are computed block by block too; a second
        derivative is refused with ``NotImplementedError``.

    Raises:
        TypeError: as :func:`attention_in_detail.attention`, or if a block's size or
            ``causal_offset`` is not an integer.
        ValueError: as :func:`attention_in_detail.attention`, or if a block's size is
            below 1.

    Source:
        Rabe and Staats (2021), section 2; Dao et al. (2022), algorithm 1.
    """
    by_blocks = attention_by_blocks
    if any(wants_gradient(x) for x in (queries, keys, values, bias, scale)):
        # Here and not above: the package itself does not need PyTorch.
        from attention_in_detail.nn.online import differentiable_by_blocks

        by_blocks = differentiable_by_blocks
    whole = by_blocks(
        queries,
        keys,
        values,
        mask=mask,
        bias=bias,
        scale=scale,
        causal_offset=causal_offset,
        query_block=query_block,
        key_block=key_block,
    )
    return narrowed(whole.output, values.dtype)


def attention_by_blocks(
    queries: Float[Array, "*#batch T D_k"],
    keys: Float[Array, "*#batch S D_k"],
    values: Float[Array, "*#batch S D_v"],
    *,
    mask: Mask | None,
    bias: Bias | None,
    scale: Scale | None,
    **cut: Size | None,
) -> PartialAttention:
    """Return attention with its largest scores and sums: a block of queries after the other, merged over blocks of keys."""
    T, S = queries.shape[-2], keys.shape[-2]
    given = (
        x for x in (queries, keys, values, mask, bias) if x is not None
    )
    batch = np.broadcast_shapes(*(tuple(x.shape[:-2]) for x in given))
    parts = []
    for rows, all_columns in open_blocks(T, S, **cut):
        shape = (*batch, rows.stop - rows.start, values.shape[-1])
        merged = nothing_attended(shape, like=widened(values[..., :0, :]))
        for columns, causal in all_columns:
            part = partial_attention.unchecked(
                queries[..., rows, :],
                keys[..., columns, :],
                values[..., columns, :],
                mask=combine_masks.unchecked(
                    part_of(mask, rows, columns),
                    None if causal is None else causal(like=queries),
                ),
                bias=part_of(bias, rows, columns),
                scale=scale,
            )
            merged = merge_partial.unchecked(merged, part)
        parts.append(merged)
    concat = array_namespace(values).concat
    return PartialAttention(
        concat([part.output for part in parts], axis=-2),
        concat([part.largest for part in parts], axis=-1),
        concat([part.total for part in parts], axis=-1),
    )


def nothing_attended(
    shape: tuple[int, ...], *, like: Array
) -> PartialAttention:
    """Return what no keys at all give, for an output of ``shape``: merging with it changes nothing."""
    xp, where = array_namespace(like), device(like)
    options = {"dtype": like.dtype, "device": where}
    return PartialAttention(
        xp.zeros(shape, **options),
        xp.full(shape[:-1], -xp.inf, **options),
        xp.zeros(shape[:-1], **options),
    )


def wants_gradient(x: Any) -> bool:
    return bool(getattr(x, "requires_grad", False))
