"""Scores that cannot grow without bound: a soft cap, its derivative, and attention with it."""

import math
from numbers import Real
from typing import Any

from array_api_compat import array_namespace

from attention_in_detail._arrays import (
    constant,
    narrowed,
    spread,
    widened,
)
from attention_in_detail._checks import (
    check_attention,
    checked,
    kind,
    need_floating,
)
from attention_in_detail.masks import keep_rows, may_attend
from attention_in_detail.notation import Array, Bias, Float, Mask, Scale
from attention_in_detail.rows import softmax
from attention_in_detail.scaled_dot_product import scores

__all__ = ["capped_attention", "softcap", "softcap_derivative"]


def check_softcap(z: Any, cap: Any) -> None:
    need_floating("z", z)
    need_cap(cap)


def need_cap(cap: Any) -> None:
    if isinstance(cap, bool) or not isinstance(cap, Real):
        raise TypeError(f"cap must be a number, not {kind(cap)}")
    if not 0 < cap < math.inf:
        raise ValueError(
            f"cap is {cap}, but must be a positive, finite number"
        )


@checked(check_softcap)
def softcap(z: Float[Array, "*shape"], cap: Real) -> Float[Array, "*shape"]:
    r"""Bend scores so that they stay between −cap and cap.

    .. math:: f(z) = c \tanh(z / c)

    Near 0 it changes next to nothing; far out it flattens. Scores go through it
    *before* a mask: −inf would become −cap, and the pair would be open.

    Args:
        z: real numbers of any shape.
        cap: c, a positive number.

    Returns:
        Numbers in [−c, c], with the shape and dtype of ``z``. Half precision is
        computed in float32.

    Raises:
        TypeError: if ``z`` is not a floating array or ``cap`` not a number.
        ValueError: if ``cap`` is not positive and finite.

    Source:
        Gemma Team (2024), section 2.
    """
    wide, c = widened(z), float(cap)
    return narrowed(c * array_namespace(z).tanh(wide / c), z.dtype)


@checked(check_softcap)
def softcap_derivative(
    z: Float[Array, "*shape"], cap: Real
) -> Float[Array, "*shape"]:
    r"""Return how much of a gradient passes the cap, at each score.

    .. math:: f'(z) = 1 - \tanh^2(z / c)

    Args:
        z: the scores before the cap, any shape.
        cap: c, a positive number.

    Returns:
        Numbers in [0, 1], with the shape and dtype of ``z``: 1 at 0, and soon nothing
        beyond the cap. Half precision is computed in float32.

    Raises:
        TypeError: as :func:`softcap`.
        ValueError: as :func:`softcap`.

    Source:
        The derivative of :func:`softcap`.
    """
    wide, c = widened(z), float(cap)
    t = array_namespace(z).tanh(wide / c)
    return narrowed((1 - t) * (1 + t), z.dtype)


def check_capped_attention(
    queries: Any,
    keys: Any,
    values: Any,
    *,
    cap: Any,
    mask: Any = None,
    bias: Any = None,
    scale: Any = None,
    return_weights: Any = False,
) -> None:
    check_attention(
        queries,
        keys,
        values,
        mask=mask,
        bias=bias,
        scale=scale,
        return_weights=return_weights,
    )
    need_cap(cap)


@checked(check_capped_attention)
def capped_attention(
    queries: Float[Array, "*#batch T D_k"],
    keys: Float[Array, "*#batch S D_k"],
    values: Float[Array, "*#batch S D_v"],
    *,
    cap: Real,
    mask: Mask | None = None,
    bias: Bias | None = None,
    scale: Scale | None = None,
    return_weights: bool = False,
) -> (
    Float[Array, "*#batch T D_v"]
    | tuple[Float[Array, "*#batch T D_v"], Float[Array, "*#batch T S"]]
):
    r"""Attention whose scores go through :func:`softcap`, before bias and mask.

    .. math:: \sigma\!\left( c \tanh\frac{Z}{c} + \text{bias} \right) V, \qquad Z = \frac{Q K^\top}{\sqrt{D_k}}

    Args:
        queries: shape (\*batch, T, D_k).
        keys: shape (\*batch, S, D_k).
        values: shape (\*batch, S, D_v).
        cap: c, a positive number.
        mask: as in :func:`attention_in_detail.attention`.
        bias: likewise; added after the cap.
        scale: likewise; multiplies before the cap.
        return_weights: also return the weights.

    Returns:
        As :func:`attention_in_detail.attention`, with its rules for what is shut.

    Raises:
        TypeError: as there; or if ``cap`` is not a number.
        ValueError: as there; or if ``cap`` is not positive and finite.

    Source:
        Gemma Team (2024), section 2.
    """
    xp = array_namespace(queries)
    is_open = may_attend(mask, bias)
    q = widened(keep_rows(queries, is_open, of="queries"))
    k = widened(keep_rows(keys, is_open, of="keys"))
    v = widened(keep_rows(values, is_open, of="keys"))
    z = softcap.unchecked(scores.unchecked(q, k, scale=scale), cap)
    if bias is not None:
        z = z + widened(bias)
    if is_open is not None:
        z = xp.where(is_open, z, constant(-xp.inf, z))
    weights = softmax.unchecked(z)
    output = narrowed(weights @ v, values.dtype)  # (*batch, T, D_v)
    if not return_weights:
        return output
    weights = spread(weights, (*output.shape[:-1], keys.shape[-2]))
    return output, narrowed(weights, queries.dtype)
