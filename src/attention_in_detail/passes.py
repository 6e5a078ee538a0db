"""The softmax-weighted mean of values that come one after the other: in three passes over them, in two, in one."""

from typing import Any

from array_api_compat import array_namespace, device

from attention_in_detail._arrays import widened
from attention_in_detail._blocks import finite, positive
from attention_in_detail._checks import (
    checked,
    need_axes,
    need_broadcast,
    need_floating,
    need_nonempty,
    need_one_home,
    need_same,
)
from attention_in_detail.notation import Array, Float
from attention_in_detail.online import PartialAttention

__all__ = ["one_pass", "running_sum", "three_passes", "two_passes"]


def check_running_sum(scores: Any) -> None:
    need_floating("scores", scores)
    need_axes("scores", scores, ["T", "S"])
    need_nonempty(
        "scores", scores.shape[-1], "S", "a mean needs at least one value"
    )


def check_passes(scores: Any, values: Any) -> None:
    check_running_sum(scores)
    need_floating("values", values)
    need_axes("values", values, ["S", "D_v"])
    need_one_home({"scores": scores, "values": values})
    need_same(
        "values",
        values.shape[-2],
        "scores",
        scores.shape[-1],
        "S",
        "each score needs one value",
    )
    need_broadcast(
        {
            "scores": tuple(scores.shape[:-2]),
            "values": tuple(values.shape[:-2]),
        }
    )


def filled(number: float, like: Array, *width: int) -> Array:
    """Return one number a query, or a row of ``width``, before any score has come."""
    xp = array_namespace(like)
    shape = (*like.shape[:-1], *width)
    return xp.full(shape, number, dtype=like.dtype, device=device(like))


@checked(check_passes)
def three_passes(
    scores: Float[Array, "*#batch T S"],
    values: Float[Array, "*#batch S D_v"],
) -> PartialAttention:
    r"""Find the largest score, then the sum of the exponentials, then the mean.

    .. math:: m = \max_j z_j, \qquad \ell = \sum_j e^{z_j - m}, \qquad
        y = \sum_j \frac{e^{z_j - m}}{\ell}\, v_j

    Args:
        scores: a row a query, shape (\*batch, T, S), S at least 1; −inf gives a value
            the weight 0.
        values: shape (\*batch, S, D_v), finite.

    Returns:
        The mean, the largest score and the sum of each query: what
        :func:`attention_in_detail.partial_attention` gives from queries and keys.

    Raises:
        TypeError: if one is not a floating array, or libraries, dtypes or devices are
            mixed.
        ValueError: if sizes do not fit, or S is 0.

    Source:
        Milakov and Gimelshein (2018), algorithm 2, and a product with the values.
    """
    xp = array_namespace(scores)
    z, v = widened(scores), widened(values)
    S = z.shape[-1]

    largest = filled(-xp.inf, z)
    for j in range(S):
        largest = xp.maximum(largest, z[..., j])

    shift, total = finite(largest), filled(0.0, z)
    for j in range(S):
        total = total + xp.exp(z[..., j] - shift)

    output = filled(0.0, z, v.shape[-1])
    for j in range(S):
        weight = xp.exp(z[..., j] - shift) / positive(total)
        output = output + weight[..., None] * v[..., None, j, :]
    return PartialAttention(output, largest, total)


@checked(check_running_sum)
def running_sum(
    scores: Float[Array, "*batch T S"],
) -> tuple[Float[Array, "*batch T"], Float[Array, "*batch T"]]:
    r"""Find the largest score and the sum of the exponentials in one pass.

    .. math:: m_n = \max(m_{n-1}, z_n), \qquad
        \ell_n = e^{m_{n-1} - m_n}\, \ell_{n-1} + e^{z_n - m_n}, \qquad
        m_0 = -\infty, \quad \ell_0 = 0

    Args:
        scores: a row a query, shape (\*batch, T, S), S at least 1.

    Returns:
        The largest score and the sum of each query, both of shape (\*batch, T).

    Raises:
        TypeError: if ``scores`` is not a floating array.
        ValueError: if it has fewer than two axes, or S is 0.

    Source:
        Milakov and Gimelshein (2018), algorithm 3.
    """
    xp = array_namespace(scores)
    z = widened(scores)
    largest, total = filled(-xp.inf, z), filled(0.0, z)
    for j in range(z.shape[-1]):
        score = z[..., j]
        higher = xp.maximum(largest, score)
        shift = finite(higher)
        kept = xp.exp(largest - shift) * total
        largest, total = higher, kept + xp.exp(score - shift)
    return largest, total


@checked(check_passes)
def two_passes(
    scores: Float[Array, "*#batch T S"],
    values: Float[Array, "*#batch S D_v"],
) -> PartialAttention:
    r"""Find largest score and sum together, then the mean.

    .. math:: (m, \ell) = \operatorname{running\_sum}(z), \qquad
        y = \sum_j \frac{e^{z_j - m}}{\ell}\, v_j

    Args:
        scores: as for :func:`three_passes`.
        values: as for :func:`three_passes`.

    Returns:
        As :func:`three_passes`.

    Raises:
        TypeError: as :func:`three_passes`.
        ValueError: as :func:`three_passes`.

    Source:
        Milakov and Gimelshein (2018), algorithm 3, and a product with the values.
    """
    xp = array_namespace(scores)
    z, v = widened(scores), widened(values)
    largest, total = running_sum.unchecked(z)
    shift, output = finite(largest), filled(0.0, z, v.shape[-1])
    for j in range(z.shape[-1]):
        weight = xp.exp(z[..., j] - shift) / positive(total)
        output = output + weight[..., None] * v[..., None, j, :]
    return PartialAttention(output, largest, total)


@checked(check_passes)
def one_pass(
    scores: Float[Array, "*#batch T S"],
    values: Float[Array, "*#batch S D_v"],
) -> PartialAttention:
    r"""Find the mean in one pass: whenever a score comes, all three numbers follow it.

    .. math:: y_n = \frac{e^{m_{n-1} - m_n}\, \ell_{n-1}\, y_{n-1} + e^{z_n - m_n}\, v_n}{\ell_n}

    m and ℓ are those of :func:`running_sum`, and y begins at 0.

    Args:
        scores: as for :func:`three_passes`.
        values: as for :func:`three_passes`.

    Returns:
        As :func:`three_passes`.

    Raises:
        TypeError: as :func:`three_passes`.
        ValueError: as :func:`three_passes`.

    Source:
        Rabe and Staats (2021), who carry the output along for one query; the change of
        unit is that of Milakov and Gimelshein (2018), algorithm 3.
    """
    xp = array_namespace(scores)
    z, v = widened(scores), widened(values)
    largest, total = filled(-xp.inf, z), filled(0.0, z)
    output = filled(0.0, z, v.shape[-1])
    for j in range(z.shape[-1]):
        score, value = z[..., j], v[..., None, j, :]
        higher = xp.maximum(largest, score)
        shift = finite(higher)
        kept = xp.exp(largest - shift) * total
        new = xp.exp(score - shift)
        largest, total = higher, kept + new
        share_kept, share_new = (
            (x / positive(total))[..., None] for x in (kept, new)
        )
        output = share_kept * output + share_new * value
    return PartialAttention(output, largest, total)
