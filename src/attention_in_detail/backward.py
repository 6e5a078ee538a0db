"""The backward pass of attention, written by hand: from the output's gradient to those of the inputs."""

import math
from typing import Any, NamedTuple

from array_api_compat import array_namespace

from attention_in_detail._arrays import as_factor, narrowed, widened
from attention_in_detail._block_checks import check_attention_gradients
from attention_in_detail._checks import checked
from attention_in_detail.masks import keep_rows, may_attend
from attention_in_detail.notation import Array, Bias, Float, Mask, Scale
from attention_in_detail.scaled_dot_product import attention_weights

__all__ = ["AttentionGradients", "attention_gradients", "summed_to"]


class AttentionGradients(NamedTuple):
    """The derivatives of a loss by the inputs of attention, each with the shape of its input.

    Attributes:
        queries: dQ, shape (T, D_k) behind batch axes.
        keys: dK, shape (S, D_k) behind batch axes.
        values: dV, shape (S, D_v) behind batch axes.
        bias: the bias's, with its shape; None where no bias was given.
    """

    queries: Array
    keys: Array
    values: Array
    bias: Array | None


@checked(check_attention_gradients)
def attention_gradients(
    queries: Float[Array, "*#batch T D_k"],
    keys: Float[Array, "*#batch S D_k"],
    values: Float[Array, "*#batch S D_v"],
    output_gradient: Float[Array, "*#batch T D_v"],
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    scale: Scale | None = None,
) -> AttentionGradients:
    r"""Carry the derivatives of a loss back through attention.

    With s the scale, A the weights and dY the derivatives of the loss by the output:

    .. math:: dV = A^\top dY, \qquad dA = dY\, V^\top, \qquad
        \delta_i = \sum_{j=1}^{S} dA_{ij} A_{ij} = \sum_{c=1}^{D_v} dY_{ic} Y_{ic},

    .. math:: dZ_{ij} = A_{ij} (dA_{ij} - \delta_i), \qquad
        dQ = s\, dZ\, K, \qquad dK = s\, dZ^\top Q

    The weights are computed again from queries and keys. The bias is added to the
    scores, so its gradient is dZ. Where an input was broadcast, its gradient is summed
    over the axes along which it was.

    Args:
        queries: as they were given to :func:`attention_in_detail.attention`, shape
            (\*batch, T, D_k).
        keys: likewise, shape (\*batch, S, D_k).
        values: likewise, shape (\*batch, S, D_v).
        output_gradient: dY, the derivatives of the loss by the output, with the
            output's shape (\*batch, T, D_v).
        mask: likewise.
        bias: likewise.
        scale: likewise; it counts as a constant.

    Returns:
        The four gradients, to be taken apart as ``dQ, dK, dV, d_bias``. A query that
        may attend to nothing has the gradient 0 and adds nothing to others, whatever
        its row of dY holds; so has a key or value that no query may attend to, NaN
        included. Half precision is computed in float32 and rounded once.

    Raises:
        TypeError: as :func:`attention_in_detail.attention`.
        ValueError: as :func:`attention_in_detail.attention`, or if ``output_gradient``
            has not the shape of the output.

    Source:
        The chain rule; in this form, with the sum over the values' width, Dao et al.
        (2022), appendix B.2.
    """
    is_open = may_attend(mask, bias)
    q = widened(keep_rows(queries, is_open, of="queries"))
    k = widened(keep_rows(keys, is_open, of="keys"))
    v = widened(keep_rows(values, is_open, of="keys"))
    dY = widened(keep_rows(output_gradient, is_open, of="queries"))
    s = 1 / math.sqrt(q.shape[-1]) if scale is None else as_factor(scale, q)

    A = attention_weights.unchecked(  # (*batch, T, S)
        q, k, mask=mask, bias=widened(bias), scale=scale
    )
    dQ, dK, dV, dZ = gradients_from_weights(A, q, k, v, dY, s)
    found = (dQ, queries), (dK, keys), (dV, values), (dZ, bias)
    return AttentionGradients(*(fitted(dx, x) for dx, x in found))


def gradients_from_weights(
    A: Float[Array, "*#batch T S"],
    q: Float[Array, "*#batch T D_k"],
    k: Float[Array, "*#batch S D_k"],
    v: Float[Array, "*#batch S D_v"],
    dY: Float[Array, "*#batch T D_v"],
    s: Any,
    delta: Float[Array, "*#batch T 1"] | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Return dQ, dK, dV and dZ; ``delta`` is the sum over *all* keys, where A holds some of them."""
    dV = A.mT @ dY
    dA = dY @ v.mT
    if delta is None:
        xp = array_namespace(A)
        delta = xp.sum(A * dA, axis=-1, keepdims=True)
    dZ = A * (dA - delta)
    dQ = (dZ @ k) * s
    dK = (dZ.mT @ q) * s
    return dQ, dK, dV, dZ


def fitted(gradient: Array, x: Array | None) -> Array | None:
    """Return the gradient of ``x`` with its shape and dtype; None where there is no ``x``."""
    if x is None:
        return None
    return narrowed(summed_to(gradient, x.shape), x.dtype)


def summed_to(
    gradient: Float[Array, "..."], shape: tuple[int, ...]
) -> Float[Array, "..."]:
    """Return ``gradient`` added up along the axes over which an array of ``shape`` was broadcast."""
    lead = gradient.ndim - len(shape)
    axes = tuple(
        axis
        for axis, size in enumerate(gradient.shape)
        if axis < lead or (size != 1 and shape[axis - lead] == 1)
    )
    if axes:
        xp = array_namespace(gradient)
        gradient = xp.sum(gradient, axis=axes, keepdims=True)
        gradient = xp.reshape(gradient, tuple(shape))
    return gradient
