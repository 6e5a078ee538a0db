"""The softmax of a row, and its derivative."""

from array_api_compat import array_namespace, device

from attention_in_detail._arrays import constant, narrowed, widened
from attention_in_detail._checks import (
    check_softmax,
    check_softmax_jacobian,
    checked,
)
from attention_in_detail.notation import Array, Float, Size

__all__ = ["softmax", "softmax_jacobian"]


@checked(check_softmax)
def softmax(
    z: Float[Array, "*shape"], axis: Size = -1
) -> Float[Array, "*shape"]:
    r"""Turn the numbers along an axis into positive weights that sum to 1.

    .. math:: \sigma(z)_j = \frac{e^{z_j}}{\sum_r e^{z_r}} = \frac{e^{z_j - m}}{\sum_r e^{z_r - m}}, \quad m = \max_r z_r

    The largest entry m is taken off first: no exponential can overflow, and the
    quotient is the same. Half precision is computed in float32.

    Args:
        z: real numbers of any shape, at least one along ``axis``. −inf is allowed and
            gets the weight 0; where all entries along the axis are −inf, all weights
            are 0.
        axis: the axis along which the weights sum to 1.

    Returns:
        The weights, in [0, 1], with the shape and dtype of ``z``. NaN or +inf along an
        axis makes NaN along it.

    Raises:
        TypeError: if ``z`` is not a floating array or ``axis`` not an integer.
        ValueError: if ``z`` has no such axis, or nothing along it.

    Source:
        Vaswani et al. (2017), section 3.2.1; the shift is folklore, see Milakov and
        Gimelshein (2018), section 2.
    """
    xp = array_namespace(z)
    wide = widened(z)
    largest = xp.max(wide, axis=axis, keepdims=True)
    # A row of −inf has no largest number to take off: −inf − (−inf) would be NaN.
    largest = xp.where(largest == -xp.inf, constant(0.0, wide), largest)
    exponentials = xp.exp(wide - largest)
    total = xp.sum(exponentials, axis=axis, keepdims=True)
    # Only a row of −inf sums to 0: divided by 1, its weights and gradients stay 0.
    total = xp.where(total == 0, constant(1.0, wide), total)
    return narrowed(exponentials / total, z.dtype)


@checked(check_softmax_jacobian)
def softmax_jacobian(
    weights: Float[Array, "*batch S"],
) -> Float[Array, "*batch S S"]:
    r"""Return the derivative of a softmax from the weights that it gave.

    .. math:: \frac{\partial \alpha_j}{\partial z_r} = \alpha_j (\delta_{jr} - \alpha_r),
        \qquad J = \operatorname{diag}(\alpha) - \alpha\alpha^\top

    Args:
        weights: rows of softmax weights, shape (\*batch, S).

    Returns:
        One symmetric (S, S) matrix a row, shape (\*batch, S, S). Each of its rows sums
        to 0. All of it is 0 where one weight is 1: a saturated softmax passes no
        gradient on.

    Raises:
        TypeError: if ``weights`` is not a floating array.
        ValueError: if ``weights`` has no axis.

    Source:
        Vaswani et al. (2017), section 3.2.1, names the small gradients; the matrix is
        the quotient rule.
    """
    xp = array_namespace(weights)
    column, row = weights[..., :, None], weights[..., None, :]
    same = xp.eye(
        weights.shape[-1], dtype=weights.dtype, device=device(weights)
    )
    return column * (same - row)
