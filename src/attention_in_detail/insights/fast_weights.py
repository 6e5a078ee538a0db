"""Linear attention as a memory that is written by outer products, and what fits into it."""

import math
from numbers import Real
from typing import Any

from array_api_compat import array_namespace, device

from attention_in_detail._arrays import constant
from attention_in_detail._checks import (
    checked,
    kind,
    need_axes,
    need_flag,
    need_floating,
    need_integer,
    need_one_home,
    need_same,
)
from attention_in_detail.masks import causal_mask
from attention_in_detail.notation import Array, Float, Size
from attention_in_detail.pointwise import relu
from attention_in_detail.scaled_dot_product import scores

__all__ = [
    "dpfp",
    "elu_plus_one",
    "fast_weights",
    "linear_attention",
    "nearest_share",
    "read",
    "recall_error",
    "unit_rows",
    "write_by_delta",
    "write_sum",
]


# ---- checks --------------------------------------------------------------------------


def need_matrix(name: str, x: Any, axes: list[str]) -> None:
    need_floating(name, x)
    need_axes(name, x, axes)
    if x.ndim > 2:
        raise ValueError(
            f"{name} needs the axes ({', '.join(axes)}), but has the shape {tuple(x.shape)}"
        )


def need_pairs_of(keys: Any, values: Any) -> None:
    need_matrix("keys", keys, ["n", "d"])
    need_matrix("values", values, ["n", "D_v"])
    need_one_home({"keys": keys, "values": values})
    need_same(
        "values",
        values.shape[0],
        "keys",
        keys.shape[0],
        "n",
        "each key needs one value",
    )


def check_linear(
    queries: Any, keys: Any, values: Any, *, normalized: Any = False
) -> None:
    need_matrix("queries", queries, ["T", "d"])
    need_pairs_of(keys, values)
    need_one_home({"queries": queries, "keys": keys})
    for axis, position in (("T", 0), ("d", 1)):
        need_same(
            "keys",
            keys.shape[position],
            "queries",
            queries.shape[position],
            axis,
            "each step brings one query and one key of one width",
        )
    need_flag("normalized", normalized)


def check_delta(
    keys: Any, values: Any, *, rate: Any = 1.0, memory: Any = None
) -> None:
    need_pairs_of(keys, values)
    if isinstance(rate, bool) or not isinstance(rate, Real):
        raise TypeError(f"rate must be a number, not {kind(rate)}")
    if not 0 < rate <= 1:
        raise ValueError(f"rate is {rate}, but must be above 0, at most 1")
    if memory is not None:
        need_matrix("memory", memory, ["D_v", "d"])
        need_one_home({"keys": keys, "memory": memory})
        wanted = values.shape[1], keys.shape[1]
        if tuple(memory.shape) != wanted:
            raise ValueError(
                f"memory has the shape {tuple(memory.shape)}, but values and keys need {wanted}"
            )


def check_read(memory: Any, queries: Any) -> None:
    need_matrix("memory", memory, ["D_v", "d"])
    need_matrix("queries", queries, ["T", "d"])
    need_one_home({"memory": memory, "queries": queries})
    need_same(
        "queries",
        queries.shape[1],
        "memory",
        memory.shape[1],
        "d",
        "a memory is read with what is as wide as its keys",
    )


def check_features(x: Any) -> None:
    need_floating("x", x)


def check_dpfp(x: Any, nu: Any) -> None:
    need_floating("x", x)
    need_axes("x", x, ["D_k"])
    need_integer("nu", nu, least=1)
    most = 2 * x.shape[-1] - 1
    if nu > most:
        raise ValueError(
            f"nu is {nu}, but at most {most} for D_k = {x.shape[-1]}"
        )


def check_unit_rows(x: Any) -> None:
    need_floating("x", x)
    need_axes("x", x, ["d"])


def check_recall(found: Any, stored: Any) -> None:
    need_matrix("found", found, ["n", "D_v"])
    need_matrix("stored", stored, ["n", "D_v"])
    need_one_home({"found": found, "stored": stored})
    if tuple(found.shape) != tuple(stored.shape):
        raise ValueError(
            f"found has the shape {tuple(found.shape)}, but stored {tuple(stored.shape)}"
        )


# ---- one function, two ways to compute it --------------------------------------------


@checked(check_linear)
def linear_attention(
    queries: Float[Array, "T d"],
    keys: Float[Array, "T d"],
    values: Float[Array, "T D_v"],
    *,
    normalized: bool = False,
) -> Float[Array, "T D_v"]:
    r"""Causal attention without the softmax: each value is taken by its plain product q·k.

    .. math:: y_t = \sum_{s \le t} (q_t \cdot k_s)\, v_s, \qquad
        \text{normalized:} \quad y_t = \frac{\sum_{s \le t} (q_t \cdot k_s)\, v_s}{\sum_{s \le t} q_t \cdot k_s}

    Args:
        queries: after the feature map, shape (T, d).
        keys: after the feature map, shape (T, d).
        values: shape (T, D_v).
        normalized: whether to divide by the sum of the products, which is above 0 if all
            features are.

    Returns:
        The output, shape (T, D_v).

    Raises:
        TypeError: if an argument is not a floating array, libraries, dtypes or devices
            are mixed, or ``normalized`` is no flag.
        ValueError: if sizes do not fit.

    Source:
        Katharopoulos et al. (2020); Schlag, Irie and Schmidhuber (2021).
    """
    xp = array_namespace(queries)
    products = scores.unchecked(queries, keys, scale=1)  # (T, T)
    open_pairs = causal_mask.unchecked(queries.shape[0], like=queries)
    products = xp.where(open_pairs, products, constant(0.0, products))
    if normalized:
        products = products / xp.sum(products, axis=-1, keepdims=True)
    return products @ values


@checked(check_linear)
def fast_weights(
    queries: Float[Array, "T d"],
    keys: Float[Array, "T d"],
    values: Float[Array, "T D_v"],
    *,
    normalized: bool = False,
) -> Float[Array, "T D_v"]:
    r"""The same, step by step: write a pair into a matrix, read the matrix with the query.

    .. math:: W_t = W_{t-1} + v_t k_t^\top, \qquad y_t = W_t\, q_t, \qquad
        \text{normalized:} \quad z_t = z_{t-1} + k_t, \quad y_t = \frac{W_t\, q_t}{z_t \cdot q_t}

    Args:
        queries: after the feature map, shape (T, d).
        keys: after the feature map, shape (T, d).
        values: shape (T, D_v).
        normalized: as in :func:`linear_attention`.

    Returns:
        The output, shape (T, D_v). Between two steps only W, shape (D_v, d), is kept, and
        z, shape (d,), where it is needed.

    Raises:
        TypeError: as :func:`linear_attention`.
        ValueError: as :func:`linear_attention`.

    Source:
        Schlag, Irie and Schmidhuber (2021); normalized: Katharopoulos et al. (2020).
    """
    xp = array_namespace(queries)
    W = write_sum.unchecked(keys[:0, :], values[:0, :])  # nothing yet
    z = constant(0.0, keys)
    outputs = []
    for t in range(queries.shape[0]):
        q, k, v = queries[t, :], keys[t, :], values[t, :]
        W = W + v[:, None] * k[None, :]  # (D_v, d)
        y = W @ q
        if normalized:
            z = z + k
            y = y / xp.sum(z * q)
        outputs.append(y)
    return xp.stack(outputs, axis=0)


# ---- writing and reading -------------------------------------------------------------


def check_write_sum(keys: Any, values: Any) -> None:
    need_pairs_of(keys, values)


@checked(check_write_sum)
def write_sum(
    keys: Float[Array, "n d"], values: Float[Array, "n D_v"]
) -> Float[Array, "D_v d"]:
    r"""Write pairs into an empty memory by adding their outer products.

    .. math:: W = \sum_{i=1}^{n} v_i k_i^\top = V^\top K

    Args:
        keys: shape (n, d).
        values: shape (n, D_v).

    Returns:
        The memory, shape (D_v, d), whatever n is.

    Raises:
        TypeError: if an argument is not a floating array, or libraries, dtypes or
            devices are mixed.
        ValueError: if sizes do not fit.

    Source:
        Schlag, Irie and Schmidhuber (2021).
    """
    return values.mT @ keys


@checked(check_delta)
def write_by_delta(
    keys: Float[Array, "n d"],
    values: Float[Array, "n D_v"],
    *,
    rate: Real = 1.0,
    memory: Float[Array, "D_v d"] | None = None,
) -> Float[Array, "D_v d"]:
    r"""Write pairs one after the other, each time adding only what is missing.

    .. math:: W_t = W_{t-1} + \beta\, (v_t - W_{t-1} k_t)\, k_t^\top

    Args:
        keys: shape (n, d). With rows of length 1 and the rate 1 the newest pair is read
            back exactly.
        values: shape (n, D_v).
        rate: β, above 0 and at most 1. A model learns it; here it is given.
        memory: what is there already, shape (D_v, d); None means 0.

    Returns:
        The memory, shape (D_v, d); the one given stays as it was.

    Raises:
        TypeError: if an argument is of a wrong kind, or libraries, dtypes or devices
            are mixed.
        ValueError: if sizes do not fit or the rate is out of its range.

    Source:
        Schlag, Irie and Schmidhuber (2021); the rule is that of Widrow and Hoff (1960).
    """
    W = memory
    if W is None:
        W = write_sum.unchecked(keys[:0, :], values[:0, :])
    for t in range(keys.shape[0]):
        k, v = keys[t, :], values[t, :]
        missing = v - W @ k
        W = W + float(rate) * missing[:, None] * k[None, :]
    return W


@checked(check_read)
def read(
    memory: Float[Array, "D_v d"], queries: Float[Array, "T d"]
) -> Float[Array, "T D_v"]:
    r"""Read a memory with each query.

    .. math:: Y = Q W^\top, \qquad y_t = W q_t

    Args:
        memory: shape (D_v, d).
        queries: shape (T, d).

    Returns:
        What is found, shape (T, D_v).

    Raises:
        TypeError: if an argument is not a floating array, or libraries, dtypes or
            devices are mixed.
        ValueError: if widths do not fit.

    Source:
        Schlag, Irie and Schmidhuber (2021).
    """
    return queries @ memory.mT


# ---- feature maps --------------------------------------------------------------------


@checked(check_features)
def elu_plus_one(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    r"""Make every entry positive, so that products can serve as weights.

    .. math:: \varphi(x) = \begin{cases} x + 1 & x > 0 \\ e^x & x \le 0 \end{cases}

    Args:
        x: any shape.

    Returns:
        The same shape, all above 0.

    Raises:
        TypeError: if ``x`` is not a floating array.

    Source:
        Katharopoulos et al. (2020).
    """
    xp = array_namespace(x)
    zero = constant(0.0, x)
    return xp.where(x > 0, x + 1, xp.exp(xp.minimum(x, zero)))


@checked(check_dpfp)
def dpfp(
    x: Float[Array, "*batch D_k"], nu: Size
) -> Float[Array, "*batch d"]:
    r"""Widen a row to 2 ν D_k entries of which few are not 0: products of neighbours in its two halves.

    .. math:: r = \operatorname{relu}([x, -x]), \qquad
        \varphi(x) = [\, r \odot \operatorname{shift}_1(r), \dots, r \odot \operatorname{shift}_\nu(r) \,]

    Args:
        x: shape (\*batch, D_k).
        nu: ν, how many shifts; from 1 to 2 D_k − 1.

    Returns:
        The features, shape (\*batch, 2 ν D_k), none below 0.

    Raises:
        TypeError: if ``x`` is not a floating array or ``nu`` not an integer.
        ValueError: if ``nu`` is out of its range.

    Source:
        Schlag, Irie and Schmidhuber (2021), "deterministic parameter-free projection".
    """
    xp = array_namespace(x)
    r = relu.unchecked(xp.concat([x, -x], axis=-1))  # (*batch, 2 D_k)
    shifted = [
        r * xp.roll(r, shift, axis=-1) for shift in range(1, int(nu) + 1)
    ]
    return xp.concat(shifted, axis=-1)


@checked(check_unit_rows)
def unit_rows(x: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
    r"""Bring each row to length 1.

    .. math:: x \mapsto \frac{x}{\lVert x \rVert}

    Args:
        x: shape (\*batch, d).

    Returns:
        The same shape. A row of zeros becomes NaN.

    Raises:
        TypeError: if ``x`` is not a floating array.
        ValueError: if it has no axis.
    """
    xp = array_namespace(x)
    return x / xp.sqrt(xp.sum(x * x, axis=-1, keepdims=True))


# ---- how well it was read ------------------------------------------------------------


@checked(check_recall)
def recall_error(
    found: Float[Array, "n D_v"], stored: Float[Array, "n D_v"]
) -> float:
    r"""Say how far what was read is from what was stored.

    .. math:: \frac{\lVert \hat V - V \rVert_F}{\lVert V \rVert_F}

    Args:
        found: shape (n, D_v).
        stored: shape (n, D_v).

    Returns:
        0 for a perfect memory, 1 for one that answers 0 to everything.

    Raises:
        TypeError: if an argument is not a floating array, or libraries, dtypes or
            devices are mixed.
        ValueError: if the shapes differ.
    """
    xp = array_namespace(found)
    missed = found - stored
    return math.sqrt(
        float(xp.sum(missed * missed)) / float(xp.sum(stored * stored))
    )


@checked(check_recall)
def nearest_share(
    found: Float[Array, "n D_v"], stored: Float[Array, "n D_v"]
) -> float:
    r"""Say in what share of the pairs the stored value that is nearest to what was read is the right one.

    .. math:: \frac1n \Bigl\lvert \{\, i : \operatorname{argmin}_j \lVert \hat v_i - v_j \rVert = i \,\} \Bigr\rvert

    Args:
        found: shape (n, D_v).
        stored: shape (n, D_v), no two rows equal.

    Returns:
        A share, from 0 to 1. It forgives errors that do not cross over to another value.

    Raises:
        TypeError: as :func:`recall_error`.
        ValueError: as :func:`recall_error`.
    """
    xp = array_namespace(found)
    apart = found[:, None, :] - stored[None, :, :]  # (n, n, D_v)
    nearest = xp.argmin(xp.sum(apart * apart, axis=-1), axis=-1)
    right = nearest == xp.arange(
        stored.shape[0], dtype=nearest.dtype, device=device(nearest)
    )
    return float(xp.sum(xp.astype(right, xp.int64))) / stored.shape[0]
