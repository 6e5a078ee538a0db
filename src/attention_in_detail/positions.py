"""Positions: what lets attention tell one order from another."""

from attention_in_detail._arrays import library_of
from attention_in_detail._checks import check_sinusoidal_positions, checked
from attention_in_detail.notation import Array, Float, Size

__all__ = ["sinusoidal_positions"]


@checked(check_sinusoidal_positions)
def sinusoidal_positions(
    length: Size, D: Size, *, like: Array | None = None
) -> Float[Array, "length D"]:
    r"""Give each position a row of sines and cosines, fast ones first, slow ones last.

    .. math:: P_{p,2c} = \sin\frac{p}{10000^{2c/D}}, \qquad P_{p,2c+1} = \cos\frac{p}{10000^{2c/D}}

    Args:
        length: how many positions p = 0, 1, …
        D: the width of a row; even, since sines and cosines come in pairs. The angles
            are in radians.
        like: an array whose library, dtype and device the result is to have; None means
            NumPy, float64.

    Returns:
        The encodings, shape (length, D), each entry in [−1, 1], to be added to the
        embeddings.

    Raises:
        TypeError: if a size is not an integer, or ``like`` not a floating array.
        ValueError: if ``length`` is negative, or D is odd or below 2.

    Source:
        Vaswani et al. (2017), section 3.5.
    """
    xp, where = library_of(like)
    dtype = xp.float64 if like is None else like.dtype
    rates = [10000.0 ** (-2 * c / D) for c in range(D // 2)]
    rates = xp.asarray(rates, dtype=xp.float64, device=where)
    p = xp.arange(length, dtype=xp.float64, device=where)
    angles = p[:, None] * rates[None, :]  # (length, D/2)
    pairs = xp.stack([xp.sin(angles), xp.cos(angles)], axis=-1)
    return xp.astype(xp.reshape(pairs, (length, D)), dtype)
