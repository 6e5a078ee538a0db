"""Multi-head attention: by the definition, a head at a time, and fused, all heads in one product."""

from array_api_compat import array_namespace

from attention_in_detail._checks import checked
from attention_in_detail._multi_head_checks import (
    check_cross_attention,
    check_merge_heads,
    check_multi_head,
    check_repeat_heads,
    check_self_attention,
    check_split_heads,
)
from attention_in_detail.masks import keep_rows, may_attend
from attention_in_detail.notation import Array, Bool, Float, Size
from attention_in_detail.parameters import MultiHeadParameters
from attention_in_detail.scaled_dot_product import attention

__all__ = [
    "MultiHeadParameters",
    "cross_attention",
    "merge_heads",
    "multi_head_attention",
    "multi_head_attention_by_head",
    "repeat_heads",
    "self_attention",
    "split_heads",
]


@checked(check_split_heads)
def split_heads(
    x: Float[Array, "*batch T D"], heads: Size
) -> Float[Array, "*batch h T D_h"]:
    r"""Cut the width into heads and bring the head axis to the front of the rows.

    .. math:: x'_{i,t,d} = x_{t,\; i D_h + d}, \qquad D_h = D / h

    First reshape (T, D) to (T, h, D_h), *then* swap to (h, T, D_h). Reshaping straight
    to (h, T, D_h) has the same shape and mixes positions.

    Args:
        x: shape (\*batch, T, D).
        heads: the number of heads h; divides D.

    Returns:
        The heads, shape (\*batch, h, T, D_h).

    Raises:
        TypeError: if ``x`` is not an array or ``heads`` not an integer.
        ValueError: if ``heads`` does not divide D.

    Source:
        Vaswani et al. (2017), section 3.2.2 (there as separate projections).
    """
    xp = array_namespace(x)
    *batch, T, D = x.shape
    heads = int(heads)
    cut = xp.reshape(x, (*batch, T, heads, D // heads))
    return xp.moveaxis(cut, -2, -3)


@checked(check_merge_heads)
def merge_heads(
    x: Float[Array, "*batch h T D_h"],
) -> Float[Array, "*batch T D"]:
    r"""Put the heads side by side: the inverse of :func:`split_heads`.

    .. math:: \operatorname{Concat}(H_1, \dots, H_h)_{t,\; i D_h + d} = x_{i,t,d}

    Args:
        x: shape (\*batch, h, T, D_h).

    Returns:
        The concatenation, shape (\*batch, T, h·D_h).

    Raises:
        TypeError: if ``x`` is not an array.
        ValueError: if it has fewer than three axes.

    Source:
        Vaswani et al. (2017), section 3.2.2.
    """
    xp = array_namespace(x)
    *batch, heads, T, D_h = x.shape
    return xp.reshape(xp.moveaxis(x, -3, -2), (*batch, T, heads * D_h))


@checked(check_repeat_heads)
def repeat_heads(
    x: Float[Array, "*batch h_kv S D_h"], times: Size
) -> Float[Array, "*batch h S D_h"]:
    r"""Give each query head the key head that it shares: each head in turn, so many times.

    .. math:: x'_{i,s,d} = x_{\lfloor i / g \rfloor,\, s,\, d}, \qquad g = h / h_{kv}

    Repeated, not tiled: heads 0, 0, 1, 1 and not 0, 1, 0, 1.

    Args:
        x: keys or values, one array a key head, shape (\*batch, h_kv, S, D_h).
        times: how many query heads share a key head, g.

    Returns:
        The heads, shape (\*batch, h, S, D_h) with h = g · h_kv; ``x`` itself for 1.

    Raises:
        TypeError: if ``x`` is not a floating array or ``times`` not an integer.
        ValueError: if ``x`` has fewer than three axes, or ``times`` is below 1.

    Source:
        Ainslie et al. (2023), section 2.2.
    """
    if times == 1:
        return x
    return array_namespace(x).repeat(x, int(times), axis=-3)


@checked(check_multi_head)
def multi_head_attention_by_head(
    parameters: MultiHeadParameters,
    queries: Float[Array, "*#batch T D_q"],
    keys: Float[Array, "*#batch S D_k"],
    values: Float[Array, "*#batch S D_v"],
    *,
    mask: Bool[Array, "..."] | None = None,
    bias: Float[Array, "..."] | None = None,
    return_weights: bool = False,
) -> (
    Float[Array, "*batch T D_out"]
    | tuple[Float[Array, "*batch T D_out"], Float[Array, "*batch h T S"]]
):
    r"""Multi-head attention by its definition: a loop over the heads.

    .. math:: \operatorname{MultiHead}(Q, K, V) = [H_1, \dots, H_h]\, W^O, \qquad
        H_i = \operatorname{Attention}(Q W^Q_i, K W^K_i, V W^V_i)

    The scores of a head are divided by √D_h, the width of its queries.

    Args:
        parameters: the projections and the number of heads.
        queries: shape (\*batch, T, D_q).
        keys: shape (\*batch, S, D_k).
        values: shape (\*batch, S, D_v).
        mask: boolean, true = may attend. With at most 2 axes, or as many as the batch
            has and 2, it holds for all heads; with one more it is (\*batch, h or 1, T,
            S).
        bias: floating, added to the scores; its axes are read as those of ``mask``.
        return_weights: also return the weights of all heads. The output is the same
            with and without.

    Returns:
        The output, shape (\*batch, T, D_out), or the pair of output and weights, shape
        (\*batch, h, T, S). A query that may attend to nothing gets b_O (or 0 without
        one) and passes no gradient to the projections before it. NaN that takes part
        propagates as in :func:`attention_in_detail.attention`.

    Raises:
        TypeError: if an argument is of a wrong kind, or libraries, dtypes or devices
            are mixed.
        ValueError: if widths, lengths, heads or batch axes do not fit, or S is 0.

    Source:
        Vaswani et al. (2017), section 3.2.2.
    """
    xp = array_namespace(queries)
    batch_axes = max(x.ndim for x in (queries, keys, values)) - 2
    mask = with_head_axis(mask, batch_axes)
    bias = with_head_axis(bias, batch_axes)
    queries, keys, values = without_shut_rows(
        queries, keys, values, mask, bias
    )
    head_outputs, head_weights = [], []
    for i in range(parameters.heads):
        W = parameters.head(i)
        H, A = attention.unchecked(
            projected(queries, W.W_Q, W.b_Q),  # (*batch, T, D_h)
            projected(keys, W.W_K, W.b_K),  # (*batch, S, D_h)
            projected(values, W.W_V, W.b_V),  # (*batch, S, D_h)
            mask=of_head(mask, i),
            bias=of_head(bias, i),
            return_weights=True,
        )
        head_outputs.append(H)
        head_weights.append(A)
    merged = xp.concat(head_outputs, axis=-1)  # (*batch, T, D)
    output = projected(merged, parameters.W_O, parameters.b_O)
    return (
        (output, xp.stack(head_weights, axis=-3))
        if return_weights
        else output
    )


@checked(check_multi_head)
def multi_head_attention(
    parameters: MultiHeadParameters,
    queries: Float[Array, "*#batch T D_q"],
    keys: Float[Array, "*#batch S D_k"],
    values: Float[Array, "*#batch S D_v"],
    *,
    mask: Bool[Array, "..."] | None = None,
    bias: Float[Array, "..."] | None = None,
    return_weights: bool = False,
) -> (
    Float[Array, "*batch T D_out"]
    | tuple[Float[Array, "*batch T D_out"], Float[Array, "*batch h T S"]]
):
    r"""Multi-head attention with all heads in one product: project, split, attend, merge, project.

    .. math:: \operatorname{MultiHead}(Q, K, V) = \operatorname{merge}\bigl(\operatorname{Attention}(
        \operatorname{split}(Q W^Q), \operatorname{split}(K W^K), \operatorname{split}(V W^V))\bigr)\, W^O

    Equal to :func:`multi_head_attention_by_head`, in arguments, result and errors. The
    head axis is one more batch axis of :func:`attention_in_detail.attention`.

    Args:
        parameters: the projections and the number of heads.
        queries: shape (\*batch, T, D_q).
        keys: shape (\*batch, S, D_k).
        values: shape (\*batch, S, D_v).
        mask: boolean, true = may attend; axes as in
            :func:`multi_head_attention_by_head`.
        bias: floating, added to the scores; axes likewise.
        return_weights: also return the weights of all heads. The output is the same
            with and without.

    Returns:
        The output, shape (\*batch, T, D_out), or the pair of output and weights, shape
        (\*batch, h, T, S).

    Raises:
        TypeError: if an argument is of a wrong kind, or libraries, dtypes or devices
            are mixed.
        ValueError: if widths, lengths, heads or batch axes do not fit, or S is 0.

    Source:
        Vaswani et al. (2017), section 3.2.2.
    """
    batch_axes = max(x.ndim for x in (queries, keys, values)) - 2
    mask = with_head_axis(mask, batch_axes)
    bias = with_head_axis(bias, batch_axes)
    q, k, v = projected_heads(
        parameters, queries, keys, values, mask=mask, bias=bias
    )
    H, weights = attention.unchecked(  # H: (*batch, h, T, D_h)
        q, k, v, mask=mask, bias=bias, return_weights=True
    )
    merged = merge_heads.unchecked(H)  # (*batch, T, D)
    output = projected(merged, parameters.W_O, parameters.b_O)
    return (output, weights) if return_weights else output


@checked(check_self_attention)
def self_attention(
    parameters: MultiHeadParameters,
    x: Float[Array, "*batch T D_q"],
    *,
    mask: Bool[Array, "..."] | None = None,
    bias: Float[Array, "..."] | None = None,
    return_weights: bool = False,
) -> (
    Float[Array, "*batch T D_out"]
    | tuple[Float[Array, "*batch T D_out"], Float[Array, "*batch h T T"]]
):
    r"""Multi-head attention of a sequence to itself: queries, keys and values all come from ``x``.

    .. math:: \operatorname{SelfAttention}(X) = \operatorname{MultiHead}(X, X, X)

    Args:
        parameters: the projections; D_q = D_k = D_v is the width of ``x``.
        x: shape (\*batch, T, D_q).
        mask: as in :func:`multi_head_attention`, with S = T.
        bias: likewise.
        return_weights: also return the weights, shape (\*batch, h, T, T).

    Returns:
        As :func:`multi_head_attention`.

    Raises:
        TypeError: as :func:`multi_head_attention`.
        ValueError: as :func:`multi_head_attention`.

    Source:
        Vaswani et al. (2017), section 3.2.3.
    """
    return multi_head_attention.unchecked(
        parameters,
        x,
        x,
        x,
        mask=mask,
        bias=bias,
        return_weights=return_weights,
    )


@checked(check_cross_attention)
def cross_attention(
    parameters: MultiHeadParameters,
    x: Float[Array, "*#batch T D_q"],
    context: Float[Array, "*#batch S D_k"],
    *,
    mask: Bool[Array, "..."] | None = None,
    bias: Float[Array, "..."] | None = None,
    return_weights: bool = False,
) -> (
    Float[Array, "*batch T D_out"]
    | tuple[Float[Array, "*batch T D_out"], Float[Array, "*batch h T S"]]
):
    r"""Multi-head attention of one sequence to another: queries from ``x``, keys and values from ``context``.

    .. math:: \operatorname{CrossAttention}(X, C) = \operatorname{MultiHead}(X, C, C)

    Args:
        parameters: the projections; D_q is the width of ``x``, D_k = D_v that of
            ``context``.
        x: the target, shape (\*batch, T, D_q).
        context: the source, shape (\*batch, S, D_k).
        mask: as in :func:`multi_head_attention`; a
            :func:`attention_in_detail.padding_mask` speaks of the source.
        bias: likewise.
        return_weights: also return the weights, shape (\*batch, h, T, S).

    Returns:
        As :func:`multi_head_attention`.

    Raises:
        TypeError: as :func:`multi_head_attention`.
        ValueError: as :func:`multi_head_attention`.

    Source:
        Vaswani et al. (2017), section 3.2.3, "encoder-decoder attention".
    """
    return multi_head_attention.unchecked(
        parameters,
        x,
        context,
        context,
        mask=mask,
        bias=bias,
        return_weights=return_weights,
    )


def projected(
    x: Float[Array, "*batch rows width"],
    W: Float[Array, "width columns"] | None,
    b: Float[Array, " columns"] | None,
) -> Float[Array, "*batch rows columns"]:
    """Return x W + b; what is None is left out."""
    y = x if W is None else x @ W
    return y if b is None else y + b


def stored_heads(
    parameters: MultiHeadParameters,
    queries: Float[Array, "*#batch T D_q"],
    keys: Float[Array, "*#batch S D_k"],
    values: Float[Array, "*#batch S D_v"],
    *,
    mask: Bool[Array, "..."] | None,
    bias: Float[Array, "..."] | None,
) -> tuple[
    Float[Array, "*#batch h T D_h"],
    Float[Array, "*#batch h_kv S D_h"],
    Float[Array, "*#batch h_kv S D_h"],
]:
    """Project queries, keys and values and split them into heads, key heads as a cache stores them: once each."""
    queries, keys, values = without_shut_rows(
        queries, keys, values, mask, bias
    )
    q = projected(queries, parameters.W_Q, parameters.b_Q)  # (*batch, T, D)
    k = projected(keys, parameters.W_K, parameters.b_K)  # (*batch, S, D_kv)
    v = projected(values, parameters.W_V, parameters.b_V)
    split = split_heads.unchecked
    return (
        split(q, parameters.heads),
        split(k, parameters.h_kv),
        split(v, parameters.h_kv),
    )


def projected_heads(
    parameters: MultiHeadParameters,
    queries: Float[Array, "*#batch T D_q"],
    keys: Float[Array, "*#batch S D_k"],
    values: Float[Array, "*#batch S D_v"],
    *,
    mask: Bool[Array, "..."] | None,
    bias: Float[Array, "..."] | None,
) -> tuple[
    Float[Array, "*#batch h T D_h"],
    Float[Array, "*#batch h S D_h"],
    Float[Array, "*#batch h S D_h"],
]:
    """Project queries, keys and values and split them into heads; ``mask`` and ``bias`` have their head axis."""
    q, k, v = stored_heads(
        parameters, queries, keys, values, mask=mask, bias=bias
    )
    repeated, times = repeat_heads.unchecked, parameters.sharing
    return q, repeated(k, times), repeated(v, times)


def with_head_axis(x: Array | None, batch_axes: int) -> Array | None:
    """Give a mask or bias that holds for all heads an axis of 1 for them.

    The number of axes decides, never the sizes: where B = h = T, guessing by size would
    let a mask of one batch entry fall on one head without an error.
    """
    return (
        x[..., None, :, :]
        if x is not None and x.ndim > 2 and x.ndim == batch_axes + 2
        else x
    )


def of_head(x: Array | None, i: int) -> Array | None:
    """Return the part of a mask or bias that speaks of head i: (*batch, h or 1, T, S) to (*batch, T, S)."""
    if x is None or x.ndim <= 2:
        return x
    return x[..., 0 if x.shape[-3] == 1 else i, :, :]


def without_shut_rows(
    queries: Float[Array, "*#batch T D_q"],
    keys: Float[Array, "*#batch S D_k"],
    values: Float[Array, "*#batch S D_v"],
    mask: Bool[Array, "..."] | None,
    bias: Float[Array, "..."] | None,
) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
    """Set the rows to 0 that take part in no head, *before* they are projected.

    The gradient of a projection multiplies by its input: NaN in padding would reach W
    through a gradient of 0.
    """
    is_open = may_attend(mask, bias)
    if is_open is not None and is_open.ndim > 2:
        is_open = array_namespace(is_open).any(
            is_open, axis=-3
        )  # open in any head
    return (
        keep_rows(queries, is_open, of="queries"),
        keep_rows(keys, is_open, of="keys"),
        keep_rows(values, is_open, of="keys"),
    )
