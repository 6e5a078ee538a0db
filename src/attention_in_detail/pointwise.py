"""What a Transformer does to each position by itself: the norm and the feed-forward network."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array

from attention_in_detail._arrays import constant, narrowed, widened
from attention_in_detail._checks import checked, named
from attention_in_detail._layer_checks import (
    check_feed_forward,
    check_feed_forward_parameters,
    check_floating,
    check_layer_norm,
    check_layer_norm_parameters,
    check_norm_from_torch,
)
from attention_in_detail.multi_head import projected
from attention_in_detail.notation import Array, Float

__all__ = [
    "FeedForwardParameters",
    "LayerNormParameters",
    "feed_forward",
    "gelu",
    "layer_norm",
    "relu",
]


@checked(check_floating)
def relu(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    r"""Keep what is positive and set the rest to 0.

    .. math:: \operatorname{relu}(x) = \max(0, x)

    Args:
        x: any shape.

    Returns:
        The same shape. The derivative at 0 counts as 0; NaN stays NaN.

    Raises:
        TypeError: if ``x`` is not a floating array.

    Source:
        Vaswani et al. (2017), section 3.3, equation 2.
    """
    xp = array_namespace(x)
    return xp.where(x <= 0, constant(0.0, x), x)


@checked(check_floating)
def gelu(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    r"""Weigh each number by the chance that a standard normal draw lies below it.

    .. math:: \operatorname{gelu}(x) = x\, \Phi(x)
        = \frac{x}{2} \Bigl(1 + \operatorname{erf}\frac{x}{\sqrt 2}\Bigr)

    This is the exact form, not the one with tanh. The array API standard has no erf:
    torch brings its own, for any other library Python's is called number by number, on
    the host.

    Args:
        x: any shape.

    Returns:
        The same shape. Half precision is computed in float32.

    Raises:
        TypeError: if ``x`` is not a floating array.

    Source:
        Hendrycks and Gimpel (2016), section 2.
    """
    wide = widened(x)
    share = 0.5 + 0.5 * _erf(wide / math.sqrt(2))  # Φ(x)
    return narrowed(wide * share, x.dtype)


def _erf(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return the error function of each number."""
    if is_torch_array(x):
        return x.erf()
    xp = array_namespace(x)
    ours = isinstance(x, np.ndarray | np.generic)
    numbers = x if ours else np.from_dlpack(x)
    found = np.vectorize(math.erf, otypes=[np.float64])(numbers)
    return xp.asarray(found, dtype=x.dtype, device=device(x))


@dataclass(frozen=True, eq=False)
class LayerNormParameters:
    r"""The learned part of a layer norm.

    .. math:: g : (D), \qquad s : (D)

    Attributes:
        gain: multiplies, shape (D,).
        shift: is added, shape (D,), or None.
        eps: the small number ε that is added to the variance.

    Raises:
        TypeError: if an array is not floating, ``eps`` not a number, or libraries,
            dtypes or devices are mixed.
        ValueError: if sizes do not fit or ``eps`` is not above 0.

    Source:
        Ba, Kiros and Hinton (2016), section 3.1 (gain and bias of equation 4).
    """

    gain: Float[Array, " D"]
    shift: Float[Array, " D"] | None = None
    eps: Real = 1e-5

    def __new__(cls, *args: Any, **kwargs: Any) -> "LayerNormParameters":
        if args or kwargs:
            named(check_layer_norm_parameters, cls.__name__)(
                *args, **kwargs
            )
        return super().__new__(cls)

    @classmethod
    @checked(check_norm_from_torch)
    def from_torch(cls, module: Any) -> "LayerNormParameters":
        """Read the weights of a ``torch.nn.LayerNorm`` over one axis; gradients flow to it.

        Args:
            module: a ``torch.nn.LayerNorm``.

        Returns:
            The parameters, the module's own tensors.

        Raises:
            TypeError: if ``module`` has not the attributes of one.
            ValueError: if it has no gain (``elementwise_affine=False``).
        """
        return cls(module.weight, module.bias, module.eps)


@checked(check_layer_norm)
def layer_norm(
    parameters: LayerNormParameters, x: Float[Array, "*batch D"]
) -> Float[Array, "*batch D"]:
    r"""Bring each row to mean 0 and variance 1, then scale and shift each of its entries.

    .. math:: \operatorname{norm}(x)_c = g_c\, \frac{x_c - \mu}{\sqrt{\sigma^2 + \epsilon}} + s_c,
        \qquad \mu = \frac1D \sum_c x_c, \quad \sigma^2 = \frac1D \sum_c (x_c - \mu)^2

    Args:
        parameters: the gain g, the shift s and ε.
        x: shape (\*batch, D).

    Returns:
        The same shape. Half precision is computed in float32. NaN in a row makes that
        row NaN and no other.

    Raises:
        TypeError: if ``x`` is not a floating array of the library, dtype and device of
            the parameters.
        ValueError: if its last axis is not D.

    Source:
        Ba, Kiros and Hinton (2016), section 3, equation 3; ε as in
        ``torch.nn.LayerNorm``.
    """
    xp = array_namespace(x)
    wide = widened(x)
    centred = wide - xp.mean(wide, axis=-1, keepdims=True)
    variance = xp.mean(centred * centred, axis=-1, keepdims=True)
    unit = centred / xp.sqrt(variance + float(parameters.eps))
    scaled = unit * widened(parameters.gain)
    if parameters.shift is not None:
        scaled = scaled + widened(parameters.shift)
    return narrowed(scaled, x.dtype)


@dataclass(frozen=True, eq=False)
class FeedForwardParameters:
    r"""Two projections with a function φ between them.

    .. math:: W_1 : (D, D_{ff}), \qquad W_2 : (D_{ff}, D)

    Attributes:
        W_1: shape (D, D_ff).
        W_2: shape (D_ff, D).
        b_1: shape (D_ff,), or None.
        b_2: shape (D,), or None.
        activation: the name of φ, ``"relu"`` or ``"gelu"``.

    Raises:
        TypeError: if an array is not floating, or libraries, dtypes or devices are
            mixed.
        ValueError: if sizes do not fit or ``activation`` is another.

    Source:
        Vaswani et al. (2017), section 3.3.
    """

    W_1: Float[Array, "D D_ff"]
    W_2: Float[Array, "D_ff D"]
    b_1: Float[Array, " D_ff"] | None = None
    b_2: Float[Array, " D"] | None = None
    activation: Literal["relu", "gelu"] = "relu"

    def __new__(cls, *args: Any, **kwargs: Any) -> "FeedForwardParameters":
        if args or kwargs:
            named(check_feed_forward_parameters, cls.__name__)(
                *args, **kwargs
            )
        return super().__new__(cls)


@checked(check_feed_forward)
def feed_forward(
    parameters: FeedForwardParameters, x: Float[Array, "*batch T D"]
) -> Float[Array, "*batch T D"]:
    r"""Change each position by itself, in the same way: widen, bend, narrow.

    .. math:: \operatorname{FFN}(x) = \varphi(x W_1 + b_1)\, W_2 + b_2

    Args:
        parameters: the two projections and φ.
        x: shape (\*batch, T, D).

    Returns:
        The same shape.

    Raises:
        TypeError: if ``x`` is not a floating array of the library, dtype and device of
            the parameters.
        ValueError: if its last axis is not D.

    Source:
        Vaswani et al. (2017), section 3.3, equation 2 (there φ is the relu).
    """
    return fed_forward(parameters, x)


def unchanged(x: Array) -> Array:
    """Drop nothing: what stands for dropout outside training."""
    return x


def fed_forward(
    parameters: FeedForwardParameters,
    x: Float[Array, "*batch T D"],
    dropout: Callable[[Array], Array] = unchanged,
) -> Float[Array, "*batch T D"]:
    """Compute :func:`feed_forward`, with ``dropout`` after the activation as ``torch.nn`` has it."""
    p = parameters
    bend = relu.unchecked if p.activation == "relu" else gelu.unchecked
    inner = bend(projected(x, p.W_1, p.b_1))  # (*batch, T, D_ff)
    return projected(dropout(inner), p.W_2, p.b_2)
