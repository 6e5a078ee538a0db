"""Attention: scores, weights, and the weighted sum of values."""

import math

from array_api_compat import array_namespace

from attention_in_detail._arrays import (
    as_factor,
    constant,
    narrowed,
    spread,
    widened,
)
from attention_in_detail._checks import (
    check_attention,
    check_attention_weights,
    check_scores,
    checked,
)
from attention_in_detail.masks import keep_rows, may_attend
from attention_in_detail.notation import Array, Bias, Float, Mask, Scale
from attention_in_detail.rows import softmax

__all__ = ["attention", "attention_weights", "scores"]


@checked(check_scores)
def scores(
    queries: Float[Array, "*#batch T D_k"],
    keys: Float[Array, "*#batch S D_k"],
    *,
    scale: Scale | None = None,
) -> Float[Array, "*#batch T S"]:
    r"""Compare each query with each key: the compatibility function of Vaswani et al.

    .. math:: Z = \frac{Q K^\top}{\sqrt{D_k}}, \qquad Z_{ij} = \frac{q_i \cdot k_j}{\sqrt{D_k}}

    Args:
        queries: one query a row, shape (\*batch, T, D_k).
        keys: one key a row, shape (\*batch, S, D_k).
        scale: the number that multiplies q·k, in place of 1/√D_k. Its inverse is a
            temperature.

    Returns:
        The scores, shape (\*batch, T, S): row i belongs to query i, column j to key j.
        Half precision is computed in float32 and rounded once.

    Raises:
        TypeError: if an argument is not a floating array, or libraries, dtypes or
            devices are mixed.
        ValueError: if widths or batch axes do not fit, S or D_k is 0, or ``scale`` is
            not finite.

    Source:
        Vaswani et al. (2017), section 3.2.1, equation 1.
    """
    if scale is None:
        scale = 1 / math.sqrt(queries.shape[-1])
    products = widened(queries) @ widened(keys).mT  # (*batch, T, S)
    return narrowed(products * as_factor(scale, products), queries.dtype)


@checked(check_attention_weights)
def attention_weights(
    queries: Float[Array, "*#batch T D_k"],
    keys: Float[Array, "*#batch S D_k"],
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    scale: Scale | None = None,
) -> Float[Array, "*#batch T S"]:
    r"""Say for each query how much of each key's value it takes.

    .. math:: A = \sigma(Z + \text{bias}), \qquad
        \alpha_{ij} = \alpha(q_i, K, j) = \frac{e^{Z_{ij}}}{\sum_{r=1}^{S} e^{Z_{ir}}}

    The softmax runs along the keys. Where the mask is false the score counts as −inf,
    before the softmax.

    Args:
        queries: shape (\*batch, T, D_k).
        keys: shape (\*batch, S, D_k).
        mask: boolean, true = may attend, broadcast against (\*batch, T, S).
        bias: floating, added to the scores after ``scale``, broadcast likewise. −inf
            shuts a pair as false in ``mask`` does.
        scale: as in :func:`scores`.

    Returns:
        The weights, shape (\*batch, T, S), each in [0, 1]. A row sums to 1, or to 0
        where nothing may be attended. Exactly 0 where a pair is shut. NaN in a pair
        that is open makes NaN in its row.

    Raises:
        TypeError: if an argument is of a wrong kind, or libraries, dtypes or devices
            are mixed.
        ValueError: if widths, lengths or batch axes do not fit, S or D_k is 0, or
            ``scale`` is not finite.

    Source:
        Vaswani et al. (2017), sections 3.2.1 and 3.2.3 (masks set scores to −inf).
    """
    xp = array_namespace(queries)
    is_open = may_attend(mask, bias)  # None where all pairs are open
    # Rows that take no part become 0, so that no NaN of theirs reaches a gradient.
    q = widened(keep_rows(queries, is_open, of="queries"))
    k = widened(keep_rows(keys, is_open, of="keys"))
    z = scores.unchecked(q, k, scale=scale)  # (*batch, T, S)
    if bias is not None:
        z = z + widened(bias)
    if is_open is not None:
        z = xp.where(is_open, z, constant(-xp.inf, z))
    return narrowed(softmax.unchecked(z), queries.dtype)


@checked(check_attention)
def attention(
    queries: Float[Array, "*#batch T D_k"],
    keys: Float[Array, "*#batch S D_k"],
    values: Float[Array, "*#batch S D_v"],
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    scale: Scale | None = None,
    return_weights: bool = False,
) -> (
    Float[Array, "*#batch T D_v"]
    | tuple[Float[Array, "*#batch T D_v"], Float[Array, "*#batch T S"]]
):
    r"""Give each query the sum of the values, weighted by how its scores compare.

    .. math:: \operatorname{Attention}(Q, K, V) = \sigma\!\left(\frac{Q K^\top}{\sqrt{D_k}}\right) V,
        \qquad y_i = \sum_{j=1}^{S} \alpha_{ij}\, v_j

    Args:
        queries: what is searched for, shape (\*batch, T, D_k).
        keys: what each position is found by, shape (\*batch, S, D_k).
        values: what each position carries, shape (\*batch, S, D_v). D_v is free.
        mask: boolean, true = may attend, broadcast against (\*batch, T, S).
        bias: floating, added to the scores after ``scale``, broadcast likewise.
        scale: the number that multiplies q·k; None means 1/√D_k.
        return_weights: also return the weights. The output is the same with and
            without.

    Returns:
        The output Y, shape (\*batch, T, D_v), or the pair of output and weights, shape
        (\*batch, T, S), where batch is the broadcast shape of all that was given. A
        query that may attend to nothing gets output 0 and gradient 0. A key or value
        that no query may attend to has no effect, NaN included; a NaN value that *some*
        query may attend to reaches all outputs of its batch entry, since 0 · NaN is NaN
        in every array library. Finite input gives finite output as long as the scores
        themselves can be represented.

    Raises:
        TypeError: if an argument is of a wrong kind, or libraries, dtypes or devices
            are mixed.
        ValueError: if widths, lengths or batch axes do not fit, S or D_k is 0, or
            ``scale`` is not finite.

    Source:
        Vaswani et al. (2017), section 3.2.1, equation 1.
    """
    q, k, b = widened(queries), widened(keys), widened(bias)
    weights = attention_weights.unchecked(
        q, k, mask=mask, bias=b, scale=scale
    )
    v = widened(keep_rows(values, may_attend(mask, bias), of="keys"))
    output = narrowed(weights @ v, values.dtype)  # (*batch, T, D_v)
    if not return_weights:
        return output
    # The values may have batch axes of their own: the weights hold for each.
    weights = spread(weights, (*output.shape[:-1], keys.shape[-2]))
    return output, narrowed(weights, queries.dtype)
