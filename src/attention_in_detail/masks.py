"""Masks: which query may attend to which key. True means *may attend*, everywhere in this package."""

from typing import Literal

from array_api_compat import array_namespace, device

from attention_in_detail._arrays import constant, library_of
from attention_in_detail._checks import (
    check_causal_mask,
    check_combine_masks,
    check_mask_from_torch_mha,
    check_mask_to_torch_mha,
    check_padding_mask,
    check_window_mask,
    checked,
)
from attention_in_detail.notation import (
    Array,
    Bias,
    Bool,
    Float,
    Integer,
    Mask,
    Size,
)

__all__ = [
    "causal_mask",
    "combine_masks",
    "mask_from_torch_mha",
    "mask_to_torch_mha",
    "padding_mask",
    "window_mask",
]


@checked(check_causal_mask)
def causal_mask(
    T: Size,
    S: Size | None = None,
    *,
    offset: Size = 0,
    like: Array | None = None,
) -> Bool[Array, "T S"]:
    r"""Let each query attend to the keys up to its own position.

    .. math:: M_{ij} = [\, j \le i + \text{offset} \,]

    Args:
        T: the number of queries.
        S: the number of keys; None means T.
        offset: how many keys lie before the first query's own. 0 aligns the first query
            with the first key (the top left corner), S − T the last query with the last
            key (the bottom right corner, which a cache of keys needs).
        like: an array whose library and device the mask is to have; None means NumPy.

    Returns:
        The mask, shape (T, S), true = may attend.

    Raises:
        TypeError: if a size is not an integer, or ``like`` not an array.
        ValueError: if T is negative or S below 1.

    Source:
        Vaswani et al. (2017), section 3.2.3.
    """
    xp, where = library_of(like)
    i = xp.arange(T, device=where)[:, None]
    j = xp.arange(T if S is None else S, device=where)[None, :]
    return j <= i + offset


@checked(check_window_mask)
def window_mask(
    T: Size,
    S: Size | None = None,
    *,
    before: Size,
    after: Size,
    offset: Size = 0,
    like: Array | None = None,
) -> Bool[Array, "T S"]:
    r"""Let each query attend to the keys near its own position.

    .. math:: M_{ij} = [\, -\text{before} \le j - (i + \text{offset}) \le \text{after} \,]

    Args:
        T: the number of queries.
        S: the number of keys; None means T.
        before: how many keys before its own a query may attend to.
        after: how many keys after its own; 0 makes the window causal.
        offset: how many keys lie before the first query's own, as in
            :func:`causal_mask`.
        like: an array whose library and device the mask is to have; None means NumPy.

    Returns:
        The mask, shape (T, S), true = may attend. A query whose window holds no key has
        a row without any true.

    Raises:
        TypeError: if a size is not an integer, or ``like`` not an array.
        ValueError: if T, ``before`` or ``after`` is negative, or S below 1.

    Source:
        Zaheer et al. (2020), section 2, window attention.
    """
    xp, where = library_of(like)
    i = xp.arange(T, device=where)[:, None]
    j = xp.arange(T if S is None else S, device=where)[None, :]
    distance = j - (i + int(offset))
    return (distance >= -int(before)) & (distance <= int(after))


@checked(check_padding_mask)
def padding_mask(
    lengths: Integer[Array, "*batch"], S: Size
) -> Bool[Array, "*batch 1 S"]:
    r"""Shut the keys beyond the end of each sequence of a padded batch.

    .. math:: M_{b,1,j} = [\, j < \text{lengths}_b \,]

    The axis of size 1 stands for the queries: padding is shut as a key, for all of
    them. The lengths are read on the host, to check them.

    Args:
        lengths: how many positions of each sequence are real, shape (\*batch,), each
            from 0 to S.
        S: the padded length.

    Returns:
        The mask, shape (\*batch, 1, S), true = may attend, in the library and on the
        device of ``lengths``.

    Raises:
        TypeError: if ``lengths`` is not an array of integers or ``S`` not an integer.
        ValueError: if S is below 1, or a length is negative or above S.

    Source:
        Not in Vaswani et al. (2017): it comes with batches of unequal lengths.
    """
    xp = array_namespace(lengths)
    j = xp.arange(S, dtype=xp.int64, device=device(lengths))
    return j < xp.astype(lengths, xp.int64)[..., None, None]


@checked(check_combine_masks)
def combine_masks(
    *masks: Bool[Array, "..."] | None,
) -> Bool[Array, "..."] | None:
    r"""Allow what every mask allows.

    .. math:: M = M_1 \wedge M_2 \wedge \dots

    Args:
        masks: boolean arrays that broadcast, or None for "no mask".

    Returns:
        Their broadcast "and"; None where nothing but None was given.

    Raises:
        TypeError: if one is neither None nor a boolean array, or libraries or devices
            are mixed.
        ValueError: if shapes do not broadcast.

    Source:
        Elementary.
    """
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined & mask
    return combined


@checked(check_mask_from_torch_mha)
def mask_from_torch_mha(
    attn_mask: Bool[Array, "..."] | Float[Array, "..."] | None = None,
    key_padding_mask: Bool[Array, "..."]
    | Float[Array, "..."]
    | None = None,
    *,
    heads: Size,
) -> tuple[Bool[Array, "..."] | None, Float[Array, "..."] | None]:
    r"""Translate the masks of ``torch.nn.MultiheadAttention``, where true means *ignore*, into ours.

    .. math:: M = \neg M_{\text{attn}} \wedge \neg M_{\text{padding}}

    Args:
        attn_mask: shape (T, S), or (B·h, T, S) with one mask a batch entry and head.
            Boolean, true = ignore; or floating, added to the scores.
        key_padding_mask: shape (B, S), or (S,) for input without a batch axis. Boolean,
            true = ignore; or floating, added.
        heads: the number of heads h.

    Returns:
        A pair (mask, bias) for the multi-head functions: ``mask`` is boolean, true =
        may attend; ``bias`` carries what was floating. Either may be None. What came as
        (B·h, T, S) has the shape (B, h, T, S); with a ``key_padding_mask`` of (S,)
        there is no batch axis, and it has (h, T, S).

    Raises:
        TypeError: if a mask is neither boolean nor floating, or libraries or devices
            are mixed.
        ValueError: if a mask has another number of axes, or ``heads`` does not divide
            its first.

    Source:
        Documentation of ``torch.nn.MultiheadAttention``, PyTorch 2.13.
    """
    ours, heads = [], int(heads)
    if attn_mask is not None:
        if attn_mask.ndim == 3:
            batched = key_padding_mask is None or key_padding_mask.ndim == 2
            lead = (
                (attn_mask.shape[0] // heads, heads)
                if batched
                else (heads,)
            )
            xp = array_namespace(attn_mask)
            attn_mask = xp.reshape(attn_mask, (*lead, *attn_mask.shape[1:]))
        ours.append(attn_mask)
    if key_padding_mask is not None:
        with_heads = bool(ours) and ours[0].ndim == 4
        ours.append(
            key_padding_mask[..., None, None, :]
            if with_heads
            else key_padding_mask[..., None, :]
        )
    mask = bias = None
    for one in ours:
        if array_namespace(one).isdtype(one.dtype, "bool"):
            mask = combine_masks.unchecked(mask, ~one)
        else:
            bias = one if bias is None else bias + one
    return mask, bias


@checked(check_mask_to_torch_mha)
def mask_to_torch_mha(
    mask: Bool[Array, "..."] | None, *, heads: Size
) -> tuple[Bool[Array, "..."] | None, Bool[Array, "..."] | None]:
    r"""Translate a mask of ours, where true means *may attend*, for ``torch.nn.MultiheadAttention``.

    .. math:: M_{\text{attn}} = \neg M

    Args:
        mask: boolean, true = may attend, shape (T, S), (B, T, S) or (B, h or 1, T, S).
            Where T is 1 beside a batch axis, and one row holds for all heads, it is a
            padding mask.
        heads: the number of heads h.

    Returns:
        A pair (attn_mask, key_padding_mask), true = ignore, either of which may be
        None: a padding mask becomes ``key_padding_mask`` (B, S), a (T, S) mask stays
        one, any other becomes ``attn_mask`` (B·h, T, S).

    Raises:
        TypeError: if ``mask`` is not boolean.
        ValueError: if it has another number of axes, or its head axis is neither 1 nor
            ``heads``.

    Source:
        Documentation of ``torch.nn.MultiheadAttention``, PyTorch 2.13.
    """
    if mask is None:
        return None, None
    if mask.ndim == 2:
        return ~mask, None
    if mask.ndim == 3:
        mask = mask[:, None, :, :]
    B, own_heads, T, S = mask.shape
    heads = int(heads)
    if own_heads == 1 and T == 1:
        return None, ~mask[:, 0, 0, :]
    xp = array_namespace(mask)
    return ~xp.reshape(
        xp.broadcast_to(mask, (B, heads, T, S)), (B * heads, T, S)
    ), None


def may_attend(
    mask: Mask | None, bias: Bias | None
) -> Bool[Array, "..."] | None:
    """Return which pairs are open, with at least the axes (T, S): neither false in ``mask`` nor −inf in ``bias``.

    None stands for "all": where neither is given, no array is made.
    """
    is_open = mask
    if bias is not None:
        # Compared with ≠, so that NaN counts as open and shows in the output.
        unshut = bias != -float("inf")
        is_open = unshut if mask is None else unshut & mask
    if is_open is None or is_open.ndim >= 2:
        return is_open
    return is_open[None, :] if is_open.ndim == 1 else is_open[None, None]


def keep_rows(
    x: Float[Array, "*#batch rows width"],
    is_open: Bool[Array, "..."] | None,
    *,
    of: Literal["queries", "keys"],
) -> Float[Array, "..."]:
    """Return ``x`` with the rows set to 0 that take no part in any open pair.

    Multiplying by a weight of 0 would not do: 0 · NaN is NaN, forward in the output and
    backward in a gradient.
    """
    if is_open is None:
        return x
    xp = array_namespace(x)
    takes_part = xp.any(
        is_open, axis=-1 if of == "queries" else -2
    )  # (*batch, rows)
    return xp.where(takes_part[..., None], x, constant(0.0, x))
