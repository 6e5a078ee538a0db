"""The recurrent unit of the translator's decoder: what carries the words written so far, in place of self-attention."""

from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from attention_in_detail._checks import checked, named
from attention_in_detail.models._checks import (
    check_ssru,
    check_ssru_parameters,
)
from attention_in_detail.multi_head import projected
from attention_in_detail.notation import Array, Float
from attention_in_detail.pointwise import relu

__all__ = ["SSRUParameters", "ssru"]


@dataclass(frozen=True, eq=False)
class SSRUParameters:
    r"""The parameters of a simpler simple recurrent unit of width D.

    .. math:: W, W_f : (D, D), \qquad b_f : (D)

    Attributes:
        W: what enters the state, shape (D, D).
        W_f: the forget gate, shape (D, D).
        b_f: its bias, shape (D,).

    Raises:
        TypeError: if an array is not floating, or libraries, dtypes or devices are
            mixed.
        ValueError: if sizes do not fit.

    Source:
        Kim et al. (2019), who name it SSRU.
    """

    W: Float[Array, "D D"]
    W_f: Float[Array, "D D"]
    b_f: Float[Array, " D"]

    def __new__(cls, *args: Any, **kwargs: Any) -> "SSRUParameters":
        if args or kwargs:
            named(check_ssru_parameters, cls.__name__)(*args, **kwargs)
        return super().__new__(cls)


@checked(check_ssru)
def ssru(
    parameters: SSRUParameters,
    x: Float[Array, "T D"],
    state: Float[Array, " D"] | None = None,
) -> tuple[Float[Array, "T D"], Float[Array, " D"]]:
    r"""Let each position keep a part of the state of the one before, and renew the rest.

    .. math:: f_t &= \operatorname{sigmoid}(x_t W_f + b_f), \\
        c_t &= f_t \odot c_{t-1} + (1 - f_t) \odot x_t W, \\
        y_t &= \operatorname{relu}(c_t)

    Position t sees positions 1 to t, as under a causal mask, and through one row of D
    numbers: there are no weights to look at.

    Args:
        parameters: W, W_f and b_f.
        x: shape (T, D).
        state: c before the first row, shape (D,); None means zeros.

    Returns:
        The output, shape (T, D), and the last state, shape (D,). Given to the next
        call, it goes on where this one ended.

    Raises:
        TypeError: if an array is not floating, or libraries, dtypes or devices are
            mixed.
        ValueError: if sizes do not fit.

    Source:
        Kim et al. (2019), who name it SSRU.
    """
    xp = array_namespace(x)
    new = projected(x, parameters.W, None)  # (T, D)
    gate = projected(x, parameters.W_f, parameters.b_f)  # (T, D)
    forget = (1 + xp.tanh(gate / 2)) / 2  # sigmoid, without overflow
    c = xp.zeros_like(new[0, :]) if state is None else state
    states = []
    for t in range(x.shape[0]):
        c = forget[t, :] * c + (1 - forget[t, :]) * new[t, :]
        states.append(c)
    return relu.unchecked(xp.stack(states)), c
