"""Attention for less than all pairs: which pairs, what that costs, and what else takes the place of pairs."""

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from attention_in_detail._checks import (
    check_attention,
    checked,
    need_array,
    need_axes,
    need_boolean,
    need_integer,
)
from attention_in_detail.masks import combine_masks
from attention_in_detail.notation import Array, Bool, Float, Size
from attention_in_detail.parallelism import Cost
from attention_in_detail.scaled_dot_product import attention

__all__ = [
    "block_attention",
    "global_mask",
    "in_blocks",
    "layers_to_reach",
    "linear_attention_to_all",
    "linear_cost",
    "linformer_cost",
    "query_block_attention",
    "random_mask",
    "sparse_cost",
    "union_of_masks",
]


def check_union(*masks: Any) -> None:
    if not masks:
        raise ValueError("a union needs at least one mask")
    for n, mask in enumerate(masks):
        need_boolean(f"masks[{n}]", mask, hint="")


def check_global(T: Any, count: Any) -> None:
    need_integer("T", T, least=1)
    need_integer("count", count, least=0)


def check_random(
    T: Any, count: Any, *, seed: Any, besides: Any = None
) -> None:
    check_global(T, count)
    need_integer("seed", seed, least=0)
    if besides is not None:
        need_square("besides", besides, T)


def need_square(name: str, mask: Any, T: int | None = None) -> None:
    need_boolean(name, mask, hint="")
    shape = tuple(mask.shape)
    wanted = (T, T) if T is not None else (shape[0], shape[0])
    if shape != wanted:
        raise ValueError(
            f"{name} has the shape {shape}, but must have {wanted}"
            if T is not None
            else f"{name} has the shape {shape}, but must be square"
        )


def check_in_blocks(pattern: Any, size: Any) -> None:
    need_boolean("pattern", pattern, hint="")
    need_axes("pattern", pattern, ["T", "S"])
    need_integer("size", size, least=1)


def check_reach(mask: Any) -> None:
    need_array("mask", mask)
    need_axes("mask", mask, ["T", "T"])
    need_square("mask", mask)


def check_block_attention(
    queries: Any, keys: Any, values: Any, pattern: Any
) -> None:
    check_attention(queries, keys, values)
    need_boolean("pattern", pattern, hint="")
    need_axes("pattern", pattern, ["n", "m"])
    for axis, rows, name in ((0, queries, "queries"), (1, keys, "keys")):
        n = pattern.shape[axis]
        if rows.shape[-2] % n:
            raise ValueError(
                f"pattern has {n} blocks, which do not divide the {rows.shape[-2]} {name}"
            )
    if not bool(np.asarray(pattern).any(axis=-1).all()):
        raise ValueError("pattern has a block of queries without any key")


def check_query_blocks(
    queries: Any, keys: Any, values: Any, *, size: Any
) -> None:
    check_attention(queries, keys, values)
    need_integer("size", size, least=1)


def check_linear(queries: Any, keys: Any, values: Any) -> None:
    check_attention(queries, keys, values)


def check_sparse_cost(
    pairs: Any, T: Any, S: Any, D_k: Any, D_v: Any, *, itemsize: Any = 4
) -> None:
    need_sizes(pairs=pairs, T=T, S=S, D_k=D_k, D_v=D_v, itemsize=itemsize)


def check_linformer_cost(
    T: Any, S: Any, D_k: Any, D_v: Any, k: Any, *, itemsize: Any = 4
) -> None:
    need_sizes(T=T, S=S, D_k=D_k, D_v=D_v, k=k, itemsize=itemsize)


def check_linear_cost(
    T: Any, S: Any, D_k: Any, D_v: Any, *, itemsize: Any = 4
) -> None:
    need_sizes(T=T, S=S, D_k=D_k, D_v=D_v, itemsize=itemsize)


def need_sizes(**sizes: Any) -> None:
    for name, size in sizes.items():
        need_integer(name, size, least=1)


# ---- which pairs ---------------------------------------------------------------------


@checked(check_union)
def union_of_masks(*masks: Bool[Array, "..."]) -> Bool[Array, "..."]:
    r"""Allow what any mask allows.

    .. math:: M_1 \vee M_2 \vee \dots = \neg (\neg M_1 \wedge \neg M_2 \wedge \dots)

    Args:
        masks: boolean, true = may attend, at least one.

    Returns:
        Their broadcast "or".

    Raises:
        TypeError: if one is not a boolean array.
        ValueError: if there is none, or shapes do not broadcast.

    Source:
        De Morgan; :func:`attention_in_detail.combine_masks` is the "and".
    """
    return ~combine_masks(*(~mask for mask in masks))


@checked(check_global)
def global_mask(T: Size, count: Size) -> Bool[np.ndarray, "T T"]:
    r"""Let the first tokens attend to all, and all attend to them.

    .. math:: M_{ij} = [\, i < g \ \text{or} \ j < g \,], \qquad i, j = 0, \dots, T - 1

    Args:
        T: the number of tokens.
        count: the g of the formula.

    Returns:
        The mask, shape (T, T), true = may attend.

    Raises:
        TypeError: if a size is not an integer.
        ValueError: if T is below 1 or ``count`` negative.

    Source:
        Zaheer et al. (2020), global tokens.
    """
    first = np.arange(int(T)) < count
    return first[:, None] | first[None, :]


@checked(check_random)
def random_mask(
    T: Size,
    count: Size,
    *,
    seed: Size,
    besides: Bool[np.ndarray, "T T"] | None = None,
) -> Bool[np.ndarray, "T T"]:
    """Let each query attend to some keys drawn at random, without repetition.

    Args:
        T: the number of tokens.
        count: how many keys each query draws; fewer where there are fewer left.
        seed: one result a seed.
        besides: a mask whose open keys are not drawn again.

    Returns:
        The mask, shape (T, T), true = may attend: the drawn keys only.

    Raises:
        TypeError: if a size is not an integer or ``besides`` not boolean.
        ValueError: if T is below 1, ``count`` negative, or ``besides`` not (T, T).

    Source:
        Zaheer et al. (2020), random attention.
    """
    T = int(T)
    rng = np.random.default_rng(int(seed))
    # A random order of the keys in each row; those that are open already come last.
    place = rng.random((T, T))
    if besides is not None:
        place = place + besides
    mask = place.argsort(axis=1).argsort(axis=1) < int(count)
    return mask if besides is None else mask & ~besides


@checked(check_in_blocks)
def in_blocks(
    pattern: Bool[np.ndarray, "n m"], size: Size
) -> Bool[np.ndarray, "T S"]:
    """Make each entry of a pattern a square block of a mask.

    Args:
        pattern: which block of queries may attend to which block of keys, shape (n, m).
        size: the rows and columns of a block.

    Returns:
        The mask, shape (n · size, m · size).

    Raises:
        TypeError: if ``pattern`` is not boolean or ``size`` not an integer.
        ValueError: if ``size`` is below 1.

    Source:
        Zaheer et al. (2020) make blocks of the pattern in this way.
    """
    return pattern.repeat(int(size), axis=0).repeat(int(size), axis=1)


@checked(check_reach)
def layers_to_reach(mask: Bool[np.ndarray, "T T"]) -> int | None:
    """Count the layers until there is a path of open pairs from every token to every other.

    A path is needed for one token to depend on another. It is not enough: what is sent
    along it shares the room with everything else.

    Args:
        mask: which query may attend to which key, in every layer, shape (T, T). A token
            also keeps what it has: the diagonal counts as open.

    Returns:
        The number of layers; None if no number suffices.

    Raises:
        TypeError: if ``mask`` is not boolean.
        ValueError: if it is not square.

    Source:
        Elementary: powers of a graph's matrix.
    """
    step = (mask | np.eye(len(mask), dtype=bool)).astype(float)
    reach = step
    for layers in range(1, len(mask) + 1):
        if reach.all():
            return layers
        reach = np.minimum(reach @ step, 1)
    return None


# ---- attention over them -------------------------------------------------------------


@checked(check_block_attention)
def block_attention(
    queries: Float[Array, "*#batch T D_k"],
    keys: Float[Array, "*#batch S D_k"],
    values: Float[Array, "*#batch S D_v"],
    pattern: Bool[np.ndarray, "n m"],
) -> Float[Array, "*batch T D_v"]:
    r"""Attention to the open blocks only: the others are neither computed nor stored.

    .. math:: Y = \operatorname{Attention}(Q, K, V; M), \qquad M = \text{in\_blocks}(\text{pattern})

    Blocks of queries that see equally many blocks of keys are computed in one product,
    after their keys and values were copied next to each other.

    Args:
        queries: shape (\*batch, T, D_k).
        keys: shape (\*batch, S, D_k).
        values: shape (\*batch, S, D_v).
        pattern: which of the n blocks of queries may attend to which of the m blocks of
            keys, shape (n, m), at least one each.

    Returns:
        The output, shape (\*batch, T, D_v): that of attention under the mask.

    Raises:
        TypeError: as :func:`attention_in_detail.attention`.
        ValueError: if the blocks do not divide the lengths, or a block of queries has no
            key; else as :func:`attention_in_detail.attention`.

    Source:
        In the spirit of Zaheer et al. (2020).
    """
    xp = array_namespace(queries)
    n, m = pattern.shape
    q, k, v = (
        xp.reshape(x, (*x.shape[:-2], blocks, -1, x.shape[-1]))
        for x, blocks in ((queries, n), (keys, m), (values, m))
    )
    seen = pattern.sum(axis=1)
    rows, outputs = [], []
    for count in np.unique(seen):
        chosen = np.flatnonzero(seen == count)
        open_keys = np.nonzero(pattern[chosen])[1].reshape(-1, count)
        k_seen, v_seen = (
            xp.reshape(
                x[..., open_keys, :, :],
                (*x.shape[:-3], len(chosen), -1, x.shape[-1]),
            )
            for x in (k, v)
        )
        outputs.append(
            attention.unchecked(q[..., chosen, :, :], k_seen, v_seen)
        )
        rows.append(chosen)
    back = np.concatenate(rows).argsort()
    y = xp.concat(outputs, axis=-3)[..., back, :, :]
    return xp.reshape(y, (*y.shape[:-3], -1, y.shape[-1]))


@checked(check_query_blocks)
def query_block_attention(
    queries: Float[Array, "*#batch T D_k"],
    keys: Float[Array, "*#batch S D_k"],
    values: Float[Array, "*#batch S D_v"],
    *,
    size: Size,
) -> Float[Array, "*#batch T D_v"]:
    r"""Attention itself, one block of queries after the other: all pairs, never all at once.

    Args:
        queries: shape (\*batch, T, D_k).
        keys: shape (\*batch, S, D_k).
        values: shape (\*batch, S, D_v).
        size: how many queries a block has; the last may have fewer.

    Returns:
        The output of :func:`attention_in_detail.attention`, shape (\*batch, T, D_v).

    Raises:
        TypeError: as :func:`attention_in_detail.attention`.
        ValueError: as there, or if ``size`` is below 1.

    Source:
        A row of weights needs no other row. Dao et al. (2022) go further and cut the
        keys as well.
    """
    xp = array_namespace(queries)
    size = int(size)
    blocks = [
        attention.unchecked(queries[..., i : i + size, :], keys, values)
        for i in range(0, max(queries.shape[-2], 1), size)
    ]
    return xp.concat(blocks, axis=-2)


@checked(check_linear)
def linear_attention_to_all(
    queries: Float[Array, "*#batch T D_k"],
    keys: Float[Array, "*#batch S D_k"],
    values: Float[Array, "*#batch S D_v"],
) -> Float[Array, "*#batch T D_v"]:
    r"""Attention whose weights are products of features, so that the keys can be summed up before any query comes.

    .. math:: y_i = \frac{\bigl(\sum_j v_j\, \phi(k_j)^\top\bigr)\, \phi(q_i)}{\bigl(\sum_j \phi(k_j)\bigr) \cdot \phi(q_i)},
        \qquad \phi(x) = \operatorname{elu}(x) + 1

    φ(x) is x + 1 where x is positive, and eˣ elsewhere, entry by entry.

    Args:
        queries: shape (\*batch, T, D_k).
        keys: shape (\*batch, S, D_k).
        values: shape (\*batch, S, D_v).

    Returns:
        The output, shape (\*batch, T, D_v).

    Raises:
        TypeError: as :func:`attention_in_detail.attention`.
        ValueError: as :func:`attention_in_detail.attention`.

    Source:
        Katharopoulos et al. (2020).
    """
    xp = array_namespace(queries)
    q, k = (
        xp.where(x > 0, x + 1, xp.exp(xp.minimum(x, xp.zeros_like(x))))
        for x in (queries, keys)
    )
    memory = k.mT @ values  # (*batch, D_k, D_v)
    total = xp.sum(k, axis=-2)[..., :, None]  # (*batch, D_k, 1)
    return (q @ memory) / (q @ total)


# ---- what it costs -------------------------------------------------------------------


@checked(check_sparse_cost)
def sparse_cost(
    pairs: Size,
    T: Size,
    S: Size,
    D_k: Size,
    D_v: Size,
    *,
    itemsize: Size = 4,
) -> Cost:
    r"""Count what attention over some of the pairs costs.

    .. math:: \text{multiply-adds} = P\,(D_k + D_v), \qquad P = \sum_{ij} M_{ij}

    Args:
        pairs: P, the number of open pairs.
        T: the number of queries.
        S: the number of keys.
        D_k: the width of queries and keys.
        D_v: the width of the values.
        itemsize: bytes a number.

    Returns:
        The counts, without the copies of keys and values that a program may need.

    Raises:
        TypeError: if a size is not an integer.
        ValueError: if a size is below 1.

    Source:
        Elementary; the patterns are those of Zaheer et al. (2020).
    """
    pairs, T, S, D_k, D_v, itemsize = map(
        int, (pairs, T, S, D_k, D_v, itemsize)
    )
    return Cost(
        pairs * (D_k + D_v),
        pairs,
        (T + S) * (D_k + D_v) * itemsize,
        2 * pairs * itemsize,
    )


@checked(check_linformer_cost)
def linformer_cost(
    T: Size, S: Size, D_k: Size, D_v: Size, k: Size, *, itemsize: Size = 4
) -> Cost:
    r"""Count what attention with projected keys and values costs.

    .. math:: \text{multiply-adds} = k\,(S + T)\,(D_k + D_v)

    Args:
        T: the number of queries.
        S: the number of keys.
        D_k: the width of queries and keys.
        D_v: the width of the values.
        k: the rows of the projections.
        itemsize: bytes a number.

    Returns:
        The counts; the two projections are read, and what they make lies between.

    Raises:
        TypeError: if a size is not an integer.
        ValueError: if a size is below 1.

    Source:
        Elementary, for the form of Wang et al. (2020).
    """
    T, S, D_k, D_v, k, itemsize = map(int, (T, S, D_k, D_v, k, itemsize))
    return Cost(
        k * (S + T) * (D_k + D_v),
        T * k,
        ((T + S) * (D_k + D_v) + 2 * k * S) * itemsize,
        (2 * T * k + k * (D_k + D_v)) * itemsize,
    )


@checked(check_linear_cost)
def linear_cost(
    T: Size, S: Size, D_k: Size, D_v: Size, *, itemsize: Size = 4
) -> Cost:
    r"""Count what linear attention costs.

    .. math:: \text{multiply-adds} = (S + T)\, D_k D_v + T D_k

    Args:
        T: the number of queries.
        S: the number of keys.
        D_k: the width of queries and keys, and of their features.
        D_v: the width of the values.
        itemsize: bytes a number.

    Returns:
        The counts; the features, their sum and the matrix of sums lie between.

    Raises:
        TypeError: if a size is not an integer.
        ValueError: if a size is below 1.

    Source:
        Elementary, for the form of Katharopoulos et al. (2020).
    """
    T, S, D_k, D_v, itemsize = map(int, (T, S, D_k, D_v, itemsize))
    return Cost(
        (S + T) * D_k * D_v + T * D_k,
        (S + T) * D_k,
        (T + S) * (D_k + D_v) * itemsize,
        ((T + S) * D_k + D_k * D_v + D_k + T) * itemsize,
    )
