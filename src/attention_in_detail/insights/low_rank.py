"""How many dimensions attention weights need, and what is lost with fewer."""

import math
from numbers import Real
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from attention_in_detail._checks import (
    checked,
    need_array,
    need_axes,
    need_floating,
    need_integer,
    need_one_home,
    need_same,
)
from attention_in_detail.notation import Array, Float, Integer, Size
from attention_in_detail.scaled_dot_product import attention

__all__ = [
    "circle_heads",
    "linformer_attention",
    "mean_pooling",
    "random_projection",
    "rank_for_energy",
    "relative_error",
    "relative_projection_error",
    "spectrum_share",
    "total_variation",
    "truncated",
]


def check_spectrum_share(matrix: Any, *, power: Any = 2) -> None:
    need_floating("matrix", matrix)
    need_axes("matrix", matrix, ["T", "S"])
    need_integer("power", power, least=1)


def check_rank_for_energy(matrix: Any, share: Any = 0.9) -> None:
    check_spectrum_share(matrix)
    if not 0 < share <= 1:
        raise ValueError(
            f"share is {share}, but must be above 0 and at most 1"
        )


def check_truncated(matrix: Any, rank: Any) -> None:
    check_spectrum_share(matrix)
    need_integer("rank", rank, least=1)


def check_linformer(
    queries: Any,
    keys: Any,
    values: Any,
    key_projection: Any,
    value_projection: Any,
) -> None:
    given = {
        "queries": (queries, "T", "D_k"),
        "keys": (keys, "S", "D_k"),
        "values": (values, "S", "D_v"),
        "key_projection": (key_projection, "k", "S"),
        "value_projection": (value_projection, "k", "S"),
    }
    for name, (x, *axes) in given.items():
        need_floating(name, x)
        need_axes(name, x, axes)
    need_one_home({name: x for name, (x, *_) in given.items()})
    for name, x, other, rows in (
        ("key_projection", key_projection, "keys", keys),
        ("value_projection", value_projection, "values", values),
    ):
        need_same(
            name,
            x.shape[-1],
            other,
            rows.shape[-2],
            "S",
            "it is made for one length",
        )
    need_same(
        "value_projection",
        value_projection.shape[-2],
        "key_projection",
        key_projection.shape[-2],
        "k",
        "each projected key needs one projected value",
    )


def check_pooling(k: Any, S: Any) -> None:
    need_integer("k", k, least=1)
    need_integer("S", S, least=1)
    if S % k:
        raise ValueError(
            f"k = {k} does not divide S = {S}; each run needs the same length"
        )


def check_random_projection(k: Any, S: Any, *, seed: Any) -> None:
    need_integer("k", k, least=1)
    need_integer("S", S, least=1)
    need_integer("seed", seed, least=0)


def check_projection_error(weights: Any, values: Any, k: Any) -> None:
    given = {"weights": (weights, "T", "S"), "values": (values, "S", "D_v")}
    for name, (x, *axes) in given.items():
        need_floating(name, x)
        need_axes(name, x, axes)
    need_one_home({name: x for name, (x, *_) in given.items()})
    need_same(
        "values",
        values.shape[-2],
        "weights",
        weights.shape[-1],
        "S",
        "each key needs one value",
    )
    need_integer("k", k, least=1)


def check_pair(approximate: Any, exact: Any) -> None:
    given = {"approximate": approximate, "exact": exact}
    for name, x in given.items():
        need_floating(name, x)
        need_axes(name, x, ["rows", "width"])
    need_one_home(given)
    if tuple(approximate.shape) != tuple(exact.shape):
        raise ValueError(
            f"approximate has the shape {tuple(approximate.shape)}, but exact has {tuple(exact.shape)}"
        )


def check_circle(targets: Any, S: Any, *, scale: Any) -> None:
    need_array("targets", targets)
    if not array_namespace(targets).isdtype(targets.dtype, "integral"):
        raise TypeError(
            f"targets must hold integers, not {targets.dtype}: the key of each query"
        )
    need_integer("S", S, least=1)
    if targets.size and not 0 <= targets.min() <= targets.max() < S:
        raise ValueError(
            f"targets holds {targets.min()} to {targets.max()}, but there are the keys 0 to {S - 1}"
        )
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(
            f"scale is {scale}, but must be positive and finite"
        )


@checked(check_spectrum_share)
def spectrum_share(
    matrix: Float[np.ndarray, "*batch T S"], *, power: Size = 2
) -> Float[np.ndarray, "*batch r"]:
    r"""Return the share of a matrix's spectrum that its k largest singular values hold, for each k.

    .. math:: e_k = \frac{\sum_{i \le k} \sigma_i^p}{\sum_i \sigma_i^p}, \qquad
        \sigma_1 \ge \sigma_2 \ge \dots \ge 0

    With p = 2 it is the energy: the best matrix of rank k misses the share 1 − e_k of
    the sum of all squared entries.

    Args:
        matrix: shape (\*batch, T, S), not all zero.
        power: the p of the formula; 1 gives the quantity that Wang et al. (2020) plot.

    Returns:
        e_1, e_2, …, shape (\*batch, min(T, S)); the last is 1.

    Raises:
        TypeError: if ``matrix`` is not floating or ``power`` not an integer.
        ValueError: if ``matrix`` has fewer than two axes, or ``power`` is below 1.

    Source:
        Wang et al. (2020) for p = 1; Eckart and Young (1936) for p = 2.
    """
    sigma = np.linalg.svdvals(matrix) ** int(power)
    return np.cumsum(sigma, axis=-1) / np.sum(sigma, axis=-1, keepdims=True)


@checked(check_rank_for_energy)
def rank_for_energy(
    matrix: Float[np.ndarray, "*batch T S"], share: Real = 0.9
) -> Integer[Array, "*batch"]:
    r"""Return the least k for which the k largest singular values hold a share of the energy.

    .. math:: \min \{\, k : e_k \ge \text{share} \,\}

    Args:
        matrix: shape (\*batch, T, S), not all zero.
        share: above 0, at most 1.

    Returns:
        k for each matrix, shape (\*batch,).

    Raises:
        TypeError: if ``matrix`` is not floating.
        ValueError: if ``share`` is out of its range.

    Source:
        Elementary, on top of :func:`spectrum_share`.
    """
    held = spectrum_share.unchecked(matrix)
    return np.sum(held < share - 1e-12, axis=-1) + 1


@checked(check_truncated)
def truncated(
    matrix: Float[np.ndarray, "*batch T S"], rank: Size
) -> Float[np.ndarray, "*batch T S"]:
    r"""Return the matrix of a given rank that is nearest: singular vectors of the largest singular values only.

    .. math:: A_k = \sum_{i=1}^{k} \sigma_i\, u_i v_i^\top

    Args:
        matrix: shape (\*batch, T, S).
        rank: k; from min(T, S) on, the matrix itself comes back.

    Returns:
        Shape (\*batch, T, S). The rows of weights need not sum to 1 any more.

    Raises:
        TypeError: if ``matrix`` is not floating or ``rank`` not an integer.
        ValueError: if ``rank`` is below 1.

    Source:
        Eckart and Young (1936).
    """
    U, sigma, V = np.linalg.svd(matrix, full_matrices=False)
    k = int(rank)
    return (U[..., :k] * sigma[..., None, :k]) @ V[..., :k, :]


@checked(check_linformer)
def linformer_attention(
    queries: Float[Array, "*#batch T D_k"],
    keys: Float[Array, "*#batch S D_k"],
    values: Float[Array, "*#batch S D_v"],
    key_projection: Float[Array, "*#batch k S"],
    value_projection: Float[Array, "*#batch k S"],
) -> Float[Array, "*#batch T D_v"]:
    r"""Attention to k mixtures of the S keys, in place of the keys.

    .. math:: Y = \operatorname{Attention}(Q, E K, F V), \qquad E, F : (k, S)

    The mixtures do not depend on what the keys hold: E and F are fixed, or learned, for
    each position.

    Args:
        queries: shape (\*batch, T, D_k).
        keys: shape (\*batch, S, D_k).
        values: shape (\*batch, S, D_v).
        key_projection: E, shape (\*batch, k, S).
        value_projection: F, of the same shape.

    Returns:
        The output, shape (\*batch, T, D_v).

    Raises:
        TypeError: as :func:`attention_in_detail.attention`.
        ValueError: if a projection was made for another length, or E and F have another
            number of rows; else as :func:`attention_in_detail.attention`.

    Source:
        Wang et al. (2020).
    """
    return attention(
        queries, key_projection @ keys, value_projection @ values
    )


@checked(check_pooling)
def mean_pooling(k: Size, S: Size) -> Float[np.ndarray, "k S"]:
    r"""Return the projection that takes the mean of each of k runs of neighbours.

    .. math:: E_{ij} = \frac{k}{S}\, \bigl[\, \lfloor j\, k / S \rfloor = i \,\bigr]

    Args:
        k: the number of runs; divides S.
        S: the length.

    Returns:
        E, shape (k, S).

    Raises:
        TypeError: if a size is not an integer.
        ValueError: if k does not divide S.

    Source:
        Wang et al. (2020) name pooling as a choice.
    """
    length = int(S) // int(k)
    return np.repeat(np.eye(int(k)), length, axis=1) / length


@checked(check_random_projection)
def random_projection(
    k: Size, S: Size, *, seed: Size
) -> Float[np.ndarray, "k S"]:
    r"""Return a random projection that keeps lengths in the mean.

    .. math:: R_{ij} \sim \mathcal{N}(0, 1/k), \qquad \mathbb{E}\, R^\top R = I

    Args:
        k: the number of rows.
        S: the length.
        seed: one result a seed.

    Returns:
        R, shape (k, S).

    Raises:
        TypeError: if a size is not an integer.
        ValueError: if it is below 1, or the seed below 0.

    Source:
        Wang et al. (2020), proof of theorem 1.
    """
    rng = np.random.default_rng(int(seed))
    return rng.standard_normal((int(k), int(S))) / math.sqrt(k)


@checked(check_pair)
def relative_error(
    approximate: Float[Array, "*batch rows width"],
    exact: Float[Array, "*batch rows width"],
) -> Float[Array, "*batch"]:
    r"""Return how far one matrix is from another, as a share of the other's length.

    .. math:: \frac{\lVert \tilde Y - Y \rVert_F}{\lVert Y \rVert_F}

    Args:
        approximate: shape (\*batch, rows, width).
        exact: of the same shape.

    Returns:
        One number a matrix, shape (\*batch,).

    Raises:
        TypeError: if one is not a floating array.
        ValueError: if their shapes differ.

    Source:
        Elementary.
    """
    xp = array_namespace(exact)
    wrong = xp.sum((approximate - exact) ** 2, axis=(-2, -1))
    return xp.sqrt(wrong / xp.sum(exact**2, axis=(-2, -1)))


@checked(check_projection_error)
def relative_projection_error(
    weights: Float[Array, "*batch T S"],
    values: Float[Array, "*batch S D_v"],
    k: Size,
) -> Float[Array, "*batch"]:
    r"""Return the relative error to expect when a random projection stands between weights and values.

    .. math:: \sqrt{\frac{\mathbb{E}\, \lVert A R^\top R V - A V \rVert_F^2}{\lVert A V \rVert_F^2}}
        = \sqrt{\frac1k \left( 1 + \frac{\lVert A \rVert_F^2\, \lVert V \rVert_F^2}
        {\lVert A V \rVert_F^2} \right)}

    R is that of :func:`random_projection`. The rank of A does not occur.

    Args:
        weights: A, shape (\*batch, T, S).
        values: V, shape (\*batch, S, D_v).
        k: the rows of R.

    Returns:
        One number a matrix, shape (\*batch,).

    Raises:
        TypeError: if an array is not floating or ``k`` not an integer.
        ValueError: if the lengths do not fit, or ``k`` is below 1.

    Source:
        Ours; the projection is that of Wang et al. (2020), theorem 1.
    """
    xp = array_namespace(weights)
    A, V, Y = (
        xp.sum(x**2, axis=(-2, -1))
        for x in (weights, values, weights @ values)
    )
    return xp.sqrt((1 + A * V / Y) / int(k))


@checked(check_pair)
def total_variation(
    approximate: Float[Array, "*batch rows width"],
    exact: Float[Array, "*batch rows width"],
) -> Float[Array, "*batch"]:
    r"""Return the share of their weight that rows would have to move to become other rows, in the mean.

    .. math:: \frac{1}{2T} \sum_{i,j} \lvert \tilde A_{ij} - A_{ij} \rvert

    Args:
        approximate: weights whose rows sum to 1, shape (\*batch, T, S).
        exact: of the same shape.

    Returns:
        From 0, equal, to 1, shape (\*batch,).

    Raises:
        TypeError: if one is not a floating array.
        ValueError: if their shapes differ.

    Source:
        Elementary.
    """
    xp = array_namespace(exact)
    moved = xp.sum(xp.abs(approximate - exact), axis=(-2, -1))
    return moved / (2 * exact.shape[-2])


@checked(check_circle)
def circle_heads(
    targets: Integer[np.ndarray, " T"], S: Size, *, scale: Real
) -> tuple[Float[np.ndarray, "T 2"], Float[np.ndarray, "S 2"]]:
    r"""Return queries and keys of two coordinates by which each query finds the key that it should.

    .. math:: k_j &= (\cos \theta_j, \sin \theta_j), \qquad \theta_j = 2 \pi j / S, \\
        q_i &= \sqrt{2}\, c\; k_{t(i)}

    The score of query i and key j is c · cos(θ_j − θ_t(i)), largest where j = t(i).

    Args:
        targets: t, the key of each query, counted from 0, shape (T,).
        S: the number of keys.
        scale: the c of the formula. The larger, the nearer the weight of the target is to 1.

    Returns:
        The queries, shape (T, 2), and the keys, shape (S, 2).

    Raises:
        TypeError: if ``targets`` does not hold integers or ``S`` is none.
        ValueError: if a target is no key, or ``scale`` is not positive and finite.

    Source:
        Ours, as a counterpart to theorem 1 of Bhojanapalli et al. (2020).
    """
    angle = 2 * math.pi * np.arange(int(S)) / int(S)
    keys = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return math.sqrt(2) * scale * keys[targets], keys
