"""What a stack of attention layers does to the differences between its rows, with and without the parts around it."""

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from attention_in_detail._checks import (
    checked,
    kind,
    need_axes,
    need_boolean,
    need_flag,
    need_floating,
    need_integer,
    need_one_home,
    need_same,
)
from attention_in_detail._layer_checks import need_part
from attention_in_detail.layers import (
    EncoderLayerParameters,
    encoder_layer,
)
from attention_in_detail.multi_head import self_attention
from attention_in_detail.notation import Array, Bool, Float, Size
from attention_in_detail.parameters import MultiHeadParameters
from attention_in_detail.pointwise import (
    FeedForwardParameters,
    LayerNormParameters,
    feed_forward,
    layer_norm,
)
from attention_in_detail.rows import softmax

__all__ = [
    "draw_layer",
    "layer_with",
    "log_relative_residual",
    "relative_residual",
    "residuals",
    "row_spread",
    "split_attention",
    "split_rows",
    "spread_bound",
]


# ---- checks --------------------------------------------------------------------------


def need_sequence(name: str, x: Any, axes: Sequence[str]) -> None:
    need_floating(name, x)
    need_axes(name, x, axes)
    if x.ndim > len(axes):
        raise ValueError(
            f"{name} needs the axes ({', '.join(axes)}), but has the shape {tuple(x.shape)}"
        )
    if x.shape[0] == 0:
        raise ValueError(
            f"{name} has no {axes[0]}: there is no mean of nothing"
        )


def check_rows(x: Any) -> None:
    need_sequence("x", x, ["T", "D"])


def check_draw(
    D: Any,
    heads: Any,
    *,
    seed: Any,
    score_gain: Any = 1.0,
    feed_gain: Any = 1.0,
    branch_gain: Any = 1.0,
) -> None:
    for name, size in (("D", D), ("heads", heads)):
        need_integer(name, size, least=1)
    need_integer("seed", seed, least=0)
    if D % heads:
        raise ValueError(
            f"heads is {heads}, but must divide D = {D} into heads of one width"
        )
    gains = {
        "score_gain": score_gain,
        "feed_gain": feed_gain,
        "branch_gain": branch_gain,
    }
    for name, gain in gains.items():
        if isinstance(gain, bool) or not isinstance(gain, Real):
            raise TypeError(f"{name} must be a number, not {kind(gain)}")
        if not 0 < gain < math.inf:
            raise ValueError(
                f"{name} is {gain}, but must be above 0 and finite"
            )


def check_layer_with(
    parameters: Any,
    x: Any,
    *,
    skip: Any = True,
    norm: Any = True,
    feed: Any = True,
    mask: Any = None,
) -> None:
    need_part("parameters", parameters, "EncoderLayerParameters")
    need_sequence("x", x, ["T", "D"])
    need_same(
        "x",
        x.shape[1],
        "parameters",
        parameters.D,
        "D",
        "one width runs through the layer",
    )
    for name, flag in (("skip", skip), ("norm", norm), ("feed", feed)):
        need_flag(name, flag)
    if mask is not None:
        need_boolean("mask", mask)
        if tuple(mask.shape) != (x.shape[0], x.shape[0]):
            raise ValueError(
                f"mask has the shape {tuple(mask.shape)}, but x needs ({x.shape[0]}, {x.shape[0]})"
            )
    need_one_home(
        {"x": x, "parameters": parameters.attention.W_Q, "mask": mask}
    )


def check_residuals(layers: Any, x: Any, **options: Any) -> None:
    if not layers:
        raise ValueError(
            "layers is empty, but must hold at least one layer"
        )
    for layer in layers:
        check_layer_with(layer, x, **options)


def check_log_residual(mean: Any, residual: Any) -> None:
    need_sequence("residual", residual, ["T", "D"])
    need_floating("mean", mean)
    if tuple(mean.shape) != (residual.shape[1],):
        raise ValueError(
            f"mean has the shape {tuple(mean.shape)}, but residual needs ({residual.shape[1]},)"
        )
    need_one_home({"residual": residual, "mean": mean})


def check_split(parameters: Any, mean: Any, residual: Any) -> None:
    need_bare("parameters", parameters)
    check_log_residual(mean, residual)
    need_one_home({"residual": residual, "parameters": parameters.W_Q})
    need_same(
        "residual",
        residual.shape[1],
        "parameters",
        parameters.D_q,
        "D",
        "one width runs through the layer",
    )


def need_bare(name: str, parameters: Any) -> None:
    """Refuse attention with biases or without W_O: the two formulas have neither."""
    need_part(name, parameters, "MultiHeadParameters")
    there = set(parameters.arrays())
    if there != {"W_Q", "W_K", "W_V", "W_O"}:
        raise ValueError(
            f"{name} has {', '.join(sorted(there))}, but must have W_Q, W_K, W_V and W_O, and no bias"
        )


def check_bound(parameters: Any, spread: Any) -> None:
    need_bare("parameters", parameters)
    if isinstance(spread, bool) or not isinstance(spread, Real):
        raise TypeError(f"spread must be a number, not {kind(spread)}")
    if not 0 <= spread < math.inf:
        raise ValueError(
            f"spread is {spread}, but must be finite and not below 0"
        )


# ---- how different the rows are ------------------------------------------------------


def scaled_norm(x: Array) -> tuple[float, float]:
    """Return largest entry m and Frobenius norm of x/m: their product may be too small to square."""
    xp = array_namespace(x)
    largest = float(xp.max(xp.abs(x)))
    if largest == 0 or not math.isfinite(largest):
        return largest, 1.0
    unit = x / largest
    return largest, math.sqrt(float(xp.sum(unit * unit)))


@checked(check_rows)
def split_rows(
    x: Float[Array, "T D"],
) -> tuple[Float[Array, " D"], Float[Array, "T D"]]:
    r"""Take a sequence apart into the mean of its rows and what is left.

    .. math:: X = \mathbf 1\, \bar x^\top + R, \qquad \bar x = \frac1T \sum_i x_i

    Args:
        x: shape (T, D).

    Returns:
        The mean, shape (D,), and the residual R, shape (T, D), whose rows sum to 0. Of
        all matrices X − 1 cᵀ it is the one with the smallest Frobenius norm.

    Raises:
        TypeError: if ``x`` is not a floating array.
        ValueError: if it has not the axes (T, D), or no row.

    Source:
        Dong, Cordonnier and Loukas (2021), in another norm.
    """
    xp = array_namespace(x)
    mean = xp.mean(x, axis=0)
    return mean, x - mean[None, :]


@checked(check_rows)
def relative_residual(x: Float[Array, "T D"]) -> float:
    r"""Say what share of a sequence is difference between its rows.

    .. math:: \rho(X) = \frac{\lVert X - \mathbf 1\, \bar x^\top \rVert_F}{\lVert X \rVert_F}

    Args:
        x: shape (T, D).

    Returns:
        0 where all rows are equal (X has rank 1, or is 0), 1 where they sum to 0. It does
        not change when X is multiplied by a number.

    Raises:
        TypeError: if ``x`` is not a floating array.
        ValueError: if it has not the axes (T, D), or no row.

    Source:
        Dong, Cordonnier and Loukas (2021), in another norm.
    """
    _, residual = split_rows.unchecked(x)
    (top, part), (scale, whole) = scaled_norm(residual), scaled_norm(x)
    return 0.0 if scale == 0 else top / scale * (part / whole)


@checked(check_log_residual)
def log_relative_residual(
    mean: Float[Array, " D"], residual: Float[Array, "T D"]
) -> float:
    r"""The same of a sequence in two parts, as a power of ten: a part may be far below the precision of the other.

    .. math:: \log_{10} \frac{\lVert R \rVert_F}{\sqrt{\lVert R \rVert_F^2 + T \lVert \bar x \rVert^2}}

    Args:
        mean: x̄, shape (D,).
        residual: R, shape (T, D), whose rows sum to 0.

    Returns:
        A number of at most 0; −inf where the residual is 0.

    Raises:
        TypeError: if an argument is not a floating array, or libraries, dtypes or
            devices are mixed.
        ValueError: if sizes do not fit.

    Source:
        Dong, Cordonnier and Loukas (2021), in another norm.
    """
    (top, part), (scale, middle) = scaled_norm(residual), scaled_norm(mean)
    if top == 0:
        return -math.inf
    apart, common = top * part, scale * middle * residual.shape[0] ** 0.5
    return (
        math.log10(top)
        + math.log10(part)
        - math.log10(math.hypot(apart, common))
    )


@checked(check_rows)
def row_spread(x: Float[Array, "T D"]) -> float:
    r"""Return the largest distance between two rows.

    .. math:: \delta(X) = \max_{i, j} \lVert x_i - x_j \rVert

    Args:
        x: shape (T, D), or its residual, which has the same distances.

    Returns:
        0 where all rows are equal.

    Raises:
        TypeError: if ``x`` is not a floating array.
        ValueError: if it has not the axes (T, D), or no row.
    """
    xp = array_namespace(x)
    apart = x[:, None, :] - x[None, :, :]  # (T, T, D)
    largest = float(xp.max(xp.abs(apart)))
    if largest == 0:
        return 0.0
    unit = apart / largest  # the squares of numbers below 1e-160 are 0
    return largest * math.sqrt(float(xp.max(xp.sum(unit * unit, axis=-1))))


# ---- layers, whole and in part -------------------------------------------------------


@checked(check_draw)
def draw_layer(
    D: Size,
    heads: Size,
    *,
    seed: Size,
    score_gain: Real = 1.0,
    feed_gain: Real = 1.0,
    branch_gain: Real = 1.0,
) -> EncoderLayerParameters:
    r"""Draw a pre-norm encoder layer without biases, at the usual scale or with a gain.

    .. math:: W^Q, W^K, W^V, W^O \sim \mathcal N(0, 1/D), \qquad W_1 \sim \mathcal N(0, 2/D), \quad
        W_2 \sim \mathcal N(0, 1/D_{ff}), \qquad D_{ff} = 4D

    The variance 2/D before a relu is that of He et al. (2015).

    Args:
        D: the width.
        heads: the number of heads; divides D.
        seed: of NumPy's generator.
        score_gain: multiplies W_Q, and with it the scores.
        feed_gain: multiplies W_1.
        branch_gain: multiplies W_O and W_2, the ends of the two branches beside the skip
            connections.

    Returns:
        The parameters; the gains of the norms are 1.

    Raises:
        TypeError: if a size or the seed is not an integer, or a gain not a number.
        ValueError: if one is out of its range, or ``heads`` does not divide D.

    Source:
        Vaswani et al. (2017), section 3.1 (the layer); He et al. (2015) (the variance).
    """
    drawn = MultiHeadParameters.init(D, heads, bias=False, seed=seed)
    draw = np.random.default_rng([int(seed), 1])
    W_1 = draw.standard_normal((D, 4 * D)) * math.sqrt(2 / D)
    W_2 = draw.standard_normal((4 * D, D)) * math.sqrt(1 / (4 * D))
    return EncoderLayerParameters(
        MultiHeadParameters(
            drawn.W_Q * float(score_gain),
            drawn.W_K,
            drawn.W_V,
            drawn.W_O * float(branch_gain),
            heads=heads,
        ),
        LayerNormParameters(np.ones(D)),
        FeedForwardParameters(
            W_1 * float(feed_gain), W_2 * float(branch_gain)
        ),
        LayerNormParameters(np.ones(D)),
        norm_first=True,
    )


@checked(check_layer_with)
def layer_with(
    parameters: EncoderLayerParameters,
    x: Float[Array, "T D"],
    *,
    skip: bool = True,
    norm: bool = True,
    feed: bool = True,
    mask: Bool[Array, "T T"] | None = None,
) -> Float[Array, "T D"]:
    r"""Compute a pre-norm encoder layer, or what is left of it without some of its parts.

    .. math:: \text{each step } f: \quad x \leftarrow [x\; +]\; f([\operatorname{norm}](x)),
        \qquad f = \operatorname{SelfAttention}, [\operatorname{FFN}]

    Args:
        parameters: of the layer.
        x: shape (T, D).
        skip: whether x is added to what a step gives.
        norm: whether each step begins with its layer norm.
        feed: whether the feed-forward network follows the attention.
        mask: boolean, true = may attend, shape (T, T).

    Returns:
        The output, shape (T, D): with all parts that of
        :func:`attention_in_detail.encoder_layer`, with none that of
        :func:`attention_in_detail.self_attention`.

    Raises:
        TypeError: if an argument is of a wrong kind, or libraries, dtypes or devices
            are mixed.
        ValueError: if sizes do not fit.

    Source:
        Dong, Cordonnier and Loukas (2021), abstract, names the same parts.
    """
    p = parameters
    if skip and norm and feed and p.norm_first:
        return encoder_layer.unchecked(p, x, mask=mask)

    def step(x: Array, f: Any, n: LayerNormParameters) -> Array:
        y = f(layer_norm.unchecked(n, x) if norm else x)
        return x + y if skip else y

    x = step(
        x,
        lambda y: self_attention.unchecked(p.attention, y, mask=mask),
        p.attention_norm,
    )
    if feed:
        x = step(
            x,
            lambda y: feed_forward.unchecked(p.feed_forward, y),
            p.feed_forward_norm,
        )
    return x


@checked(check_residuals)
def residuals(
    layers: Sequence[EncoderLayerParameters],
    x: Float[Array, "T D"],
    *,
    skip: bool = True,
    norm: bool = True,
    feed: bool = True,
    mask: Bool[Array, "T T"] | None = None,
) -> list[float]:
    r"""Send a sequence through a stack of layers and follow its relative residual.

    .. math:: \rho(X_0), \rho(X_1), \dots, \rho(X_L)

    Args:
        layers: the parameters of the L layers.
        x: X_0, shape (T, D).
        skip: as in :func:`layer_with`. Likewise ``norm``, ``feed`` and ``mask``.
        norm: see ``skip``.
        feed: see ``skip``.
        mask: see ``skip``.

    Returns:
        L + 1 numbers, the first of them before any layer.

    Raises:
        TypeError: as :func:`layer_with`.
        ValueError: as :func:`layer_with`, or if there is no layer.

    Source:
        Dong, Cordonnier and Loukas (2021), there of standard Transformers.
    """
    found = [relative_residual.unchecked(x)]
    for layer in layers:
        x = layer_with.unchecked(
            layer, x, skip=skip, norm=norm, feed=feed, mask=mask
        )
        found.append(relative_residual.unchecked(x))
    return found


# ---- one layer of pure attention, followed below the precision of the machine --------


@checked(check_split)
def split_attention(
    parameters: MultiHeadParameters,
    mean: Float[Array, " D"],
    residual: Float[Array, "T D"],
) -> tuple[Float[Array, " D"], Float[Array, "T D"]]:
    r"""Compute self-attention on a sequence in two parts, X = 1 x̄ᵀ + R, and give its output in two parts.

    .. math:: b_j = \bar x^\top M r_j, \quad d_{ij} = r_i^\top M r_j, \quad \pi = \sigma(b), \quad
        E_{ij} = \pi_j \frac{(e^{d_{ij}} - 1) - s_i}{1 + s_i}, \quad s_i = \sum_j \pi_j (e^{d_{ij}} - 1)

    with M = W_Q W_Kᵀ/√D_h for each head. The weights are A = 1 πᵀ + E, exactly; the new
    residual is the sum over the heads of E R W_V W_O, less the mean of its rows.

    Args:
        parameters: W_Q, W_K, W_V and W_O, no bias; all their outer widths are D.
        mean: x̄, shape (D,).
        residual: R, shape (T, D), whose rows sum to 0.

    Returns:
        Mean and residual of the output. The residual keeps its relative precision until
        the products of its entries leave the range of the floating numbers.

    Raises:
        TypeError: if an argument is of a wrong kind, or libraries, dtypes or devices
            are mixed.
        ValueError: if sizes do not fit, or the parameters have a bias.

    Source:
        Proved in the chapter: the softmax does not see what is added to a whole row.
    """
    xp = array_namespace(residual)
    R = residual
    common = xp.zeros_like(mean)
    apart = xp.zeros_like(residual)
    for i in range(parameters.heads):
        M, W = circuit(parameters.head(i))
        b = R @ (M.mT @ mean)  # (T,)
        d = R @ M @ R.mT  # (T, T): of second order in R
        pi = softmax.unchecked(b)
        e = xp.expm1(d)
        s = (e @ pi)[:, None]
        E = pi[None, :] * (e - s) / (1 + s)  # each row sums to 0
        common = common + (mean + pi @ R) @ W
        apart = apart + E @ R @ W  # of third order
    shift, left = split_rows.unchecked(apart)
    return common + shift, left


def circuit(
    head: MultiHeadParameters,
) -> tuple[Float[Array, "D D"], Float[Array, "D D"]]:
    """Return what compares two rows, W_Q W_Kᵀ/√D_h, and what a row becomes, W_V W_O."""
    return head.W_Q @ head.W_K.mT / math.sqrt(head.D), head.W_V @ head.W_O


@checked(check_bound)
def spread_bound(parameters: MultiHeadParameters, spread: Real) -> float:
    r"""Bound the spread of the rows after a layer of pure attention by the spread before it.

    .. math:: \delta' \le \delta \sum_{h} \lVert W_h \rVert \bigl(e^{2 \lVert M_h \rVert \delta^2} - 1\bigr),
        \qquad M_h = \frac{W^Q_h (W^K_h)^\top}{\sqrt{D_h}}, \quad W_h = W^V_h W^O_h

    Norms are spectral. For a small spread it is 2 δ³ Σ ‖W‖‖M‖: a cube.

    Args:
        parameters: of the attention, without biases.
        spread: δ, the largest distance between two rows.

    Returns:
        The bound; inf where it is above the range of the numbers, 0 where it is below.

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if the spread is negative, or the parameters have a bias.

    Source:
        Proved in the chapter. The cubic rate is that of Dong, Cordonnier and Loukas
        (2021), who prove it in another way.
    """
    total = 0.0
    xp = array_namespace(parameters.W_Q)
    for i in range(parameters.heads):
        size_M, size_W = (
            float(xp.max(xp.linalg.svdvals(matrix)))
            for matrix in circuit(parameters.head(i))
        )
        try:
            factor = math.expm1(2 * size_M * float(spread) ** 2)
        except OverflowError:
            return math.inf
        total += size_W * factor
    return total * float(spread)
