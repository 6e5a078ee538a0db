"""Rotary positions: queries and keys are turned, so that their score knows how far apart they are."""

import math
from numbers import Real
from typing import Any, Literal

from array_api_compat import array_namespace, device

from attention_in_detail._arrays import narrowed, widened
from attention_in_detail._checks import (
    checked,
    kind,
    need_array,
    need_axes,
    need_broadcast,
    need_floating,
    need_one_home,
    need_same,
)
from attention_in_detail.notation import Array, Float, Integer

__all__ = ["rotate"]

PAIRS = ("adjacent", "halves")


def check_rotate(
    x: Any, positions: Any, *, base: Any = 10000.0, pairs: Any = "adjacent"
) -> None:
    need_floating("x", x)
    need_axes("x", x, ["T", "D_h"])
    need_array("positions", positions)
    if not array_namespace(positions).isdtype(positions.dtype, "integral"):
        raise TypeError(
            f"positions must be an array of integers, not {kind(positions)}"
        )
    need_axes("positions", positions, ["T"])
    need_base("base", base)
    if not isinstance(pairs, str):
        raise TypeError(f"pairs must be a text, not {kind(pairs)}")
    if pairs not in PAIRS:
        raise ValueError(
            f"pairs is {pairs!r}, but must be one of {', '.join(PAIRS)}"
        )
    need_one_home({"x": x, "positions": positions}, dtype=False)
    if x.shape[-1] == 0 or x.shape[-1] % 2:
        raise ValueError(
            f"x has D_h = {x.shape[-1]}, but must have an even D_h >= 2: coordinates are turned in pairs"
        )
    need_same(
        "positions",
        positions.shape[-1],
        "x",
        x.shape[-2],
        "T",
        "each row has one position",
    )
    need_broadcast(
        {
            "x": tuple(x.shape[:-2]),
            "positions": tuple(positions.shape[:-1]),
        }
    )


def need_base(name: str, base: Any) -> None:
    if isinstance(base, bool) or not isinstance(base, Real):
        raise TypeError(f"{name} must be a number, not {kind(base)}")
    if not 0 < base < math.inf:
        raise ValueError(
            f"{name} is {base}, but must be a positive, finite number"
        )


@checked(check_rotate)
def rotate(
    x: Float[Array, "*#batch T D_h"],
    positions: Integer[Array, "*#batch T"],
    *,
    base: Real = 10000.0,
    pairs: Literal["adjacent", "halves"] = "adjacent",
) -> Float[Array, "*#batch T D_h"]:
    r"""Turn each pair of coordinates by an angle that grows with the position.

    .. math:: \begin{pmatrix} x'_{2c} \\ x'_{2c+1} \end{pmatrix} =
        \begin{pmatrix} \cos p\,\theta_c & -\sin p\,\theta_c \\
        \sin p\,\theta_c & \cos p\,\theta_c \end{pmatrix}
        \begin{pmatrix} x_{2c} \\ x_{2c+1} \end{pmatrix},
        \qquad \theta_c = \text{base}^{-2c / D_h}

    The dot product of a query at i and a key at j, both turned, depends on i − j and no
    other way on the positions.

    Args:
        x: queries or keys of one head or several, shape (\*batch, T, D_h), D_h even.
        positions: p of each row, any integers, shape (T,), or with batch axes that
            broadcast against those of ``x``.
        base: the slowest pair turns by base^(2/D_h − 1) radians a position.
        pairs: which coordinates turn together: ``"adjacent"``, 2c with 2c + 1, as in
            the formula and the source; or ``"halves"``, c with c + D_h/2, as
            ``transformers`` turns those of Llama. One is the other with the columns of
            W_Q and W_K reordered.

    Returns:
        What was turned, shape (\*batch, T, D_h): each row as long as before. Angles are
        computed in float64, the rest in the dtype of ``x``, half precision in float32.

    Raises:
        TypeError: if ``x`` is not floating, ``positions`` are not integers, ``base`` is
            not a number, or libraries or devices are mixed.
        ValueError: if D_h is odd or 0, lengths or batch axes do not fit, ``base`` is
            not positive and finite, or there is no such ``pairs``.

    Source:
        Su et al. (2021), section 3.2.2, equations 14 and 15; section 3.4.2, equation 34.
    """
    xp, D_h = array_namespace(x), x.shape[-1]
    wide = widened(x)
    rates = [float(base) ** (-2 * c / D_h) for c in range(D_h // 2)]
    rates = xp.asarray(rates, dtype=xp.float64, device=device(x))
    angles = xp.astype(positions, xp.float64)[..., None] * rates
    cos = narrowed(xp.cos(angles), wide.dtype)  # (*batch, T, D_h/2)
    sin = narrowed(xp.sin(angles), wide.dtype)
    if pairs == "adjacent":
        a, b = wide[..., 0::2], wide[..., 1::2]
    else:
        a, b = wide[..., : D_h // 2], wide[..., D_h // 2 :]
    turned = [a * cos - b * sin, a * sin + b * cos]
    if pairs == "halves":
        return narrowed(xp.concat(turned, axis=-1), x.dtype)
    side_by_side = xp.stack(turned, axis=-1)  # (*batch, T, D_h/2, 2)
    shape = (*side_by_side.shape[:-2], D_h)
    return narrowed(xp.reshape(side_by_side, shape), x.dtype)
