"""What may be computed at once: loops that wait, products that do not, and what each costs."""

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from attention_in_detail._checks import (
    check_attention,
    checked,
    need_flag,
    need_integer,
    need_nonempty,
)
from attention_in_detail.notation import Array, Float, Size
from attention_in_detail.scaled_dot_product import attention

__all__ = [
    "Cost",
    "Ratio",
    "attention_cost",
    "attention_entry_by_entry",
    "attention_query_by_query",
    "measure_ratio",
    "multi_head_cost",
    "token_products",
]


def check_loop(queries: Any, keys: Any, values: Any) -> None:
    check_attention(queries, keys, values)
    hint = "a loop needs at least one round"
    need_nonempty("queries", queries.shape[-2], "T", hint)


def check_entries(queries: Any, keys: Any, values: Any) -> None:
    check_loop(queries, keys, values)
    lead = tuple(queries.shape[:-2])
    for name, x in (("keys", keys), ("values", values)):
        if tuple(x.shape[:-2]) != lead:
            raise ValueError(
                f"{name} has the leading axes {tuple(x.shape[:-2])}, but queries has "
                f"{lead}; the loop needs the same for all"
            )
    if 0 in lead:
        raise ValueError(
            f"queries has the leading axes {lead}; a loop needs at least one round"
        )


@checked(check_loop)
def attention_query_by_query(
    queries: Float[Array, "*#batch T D_k"],
    keys: Float[Array, "*#batch S D_k"],
    values: Float[Array, "*#batch S D_v"],
) -> Float[Array, "*#batch T D_v"]:
    r"""Attention as a loop over the queries, one row of the output after the other.

    .. math:: y_i^\top = \operatorname{Attention}(q_i^\top, K, V), \qquad i = 1, \dots, T

    Equal to :func:`attention_in_detail.attention`, and slower: it is here to be compared.

    Args:
        queries: shape (\*batch, T, D_k), T at least 1.
        keys: shape (\*batch, S, D_k).
        values: shape (\*batch, S, D_v).

    Returns:
        The output, shape (\*batch, T, D_v).

    Raises:
        TypeError: as :func:`attention_in_detail.attention`.
        ValueError: as :func:`attention_in_detail.attention`.

    Source:
        Vaswani et al. (2017), section 3.2.1: queries are packed into a matrix.
    """
    xp = array_namespace(queries)
    rows = [
        attention.unchecked(queries[..., i : i + 1, :], keys, values)
        for i in range(queries.shape[-2])
    ]
    return xp.concat(rows, axis=-2)


@checked(check_entries)
def attention_entry_by_entry(
    queries: Float[Array, "*batch T D_k"],
    keys: Float[Array, "*batch S D_k"],
    values: Float[Array, "*batch S D_v"],
) -> Float[Array, "*batch T D_v"]:
    r"""Attention as a loop over the leading axes: batch, heads, or both.

    .. math:: Y_b = \operatorname{Attention}(Q_b, K_b, V_b), \qquad
        b \in \text{batch} \times \text{heads}

    Equal to :func:`attention_in_detail.attention`: it is here to be compared.

    Args:
        queries: shape (\*batch, T, D_k).
        keys: shape (\*batch, S, D_k), with the same leading axes.
        values: shape (\*batch, S, D_v), with the same leading axes.

    Returns:
        The output, shape (\*batch, T, D_v).

    Raises:
        TypeError: as :func:`attention_in_detail.attention`.
        ValueError: as :func:`attention_in_detail.attention`.

    Source:
        Vaswani et al. (2017), section 3.2.2: heads are computed in parallel.
    """
    xp = array_namespace(queries)
    lead = tuple(queries.shape[:-2])
    flat = [
        xp.reshape(x, (-1, *x.shape[-2:])) for x in (queries, keys, values)
    ]
    entries = [
        attention.unchecked(
            flat[0][b, ...], flat[1][b, ...], flat[2][b, ...]
        )
        for b in range(math.prod(lead))
    ]
    return xp.reshape(xp.stack(entries), (*lead, *entries[0].shape))


@dataclass(frozen=True)
class Cost:
    """What a computation does and touches, counted.

    Attributes:
        multiply_adds: multiplications followed by an addition, in all matrix products.
        exponentials: evaluations of exp.
        bytes_in_and_out: bytes of what must be read and what must be written.
        bytes_between: bytes of the scores and of the weights, if each is stored once.
    """

    multiply_adds: int
    exponentials: int
    bytes_in_and_out: int
    bytes_between: int


def need_sizes(**sizes: Any) -> None:
    for name, size in sizes.items():
        need_integer(name, size, least=1)


def need_division(D: Size, heads: Size) -> None:
    if D % heads:
        raise ValueError(
            f"heads = {heads} does not divide D = {D}; "
            "each head needs the same width D / heads >= 1"
        )


def attention_cost(
    T: Size,
    S: Size,
    D_k: Size,
    D_v: Size,
    *,
    entries: Size = 1,
    itemsize: Size = 4,
) -> Cost:
    r"""Count what attention costs.

    .. math:: \text{multiply-adds} = B\,T\,S\,(D_k + D_v), \qquad
        \text{exponentials} = B\,T\,S

    Args:
        T: the number of queries.
        S: the number of keys.
        D_k: the width of queries and keys.
        D_v: the width of the values.
        entries: B, how many attentions there are: batch entries times heads.
        itemsize: bytes a number: 8 for float64, 4 for float32, 2 for half precision.

    Returns:
        The counts.

    Raises:
        TypeError: if a size is not an integer.
        ValueError: if a size is below 1.

    Source:
        Vaswani et al. (2017), table 1, in orders of growth.
    """
    sizes = {
        "T": T,
        "S": S,
        "D_k": D_k,
        "D_v": D_v,
        "entries": entries,
        "itemsize": itemsize,
    }
    need_sizes(**sizes)
    T, S, D_k, D_v, entries, itemsize = (
        int(size) for size in sizes.values()
    )
    pairs = entries * T * S
    numbers = entries * (T * D_k + S * D_k + S * D_v + T * D_v)
    return Cost(
        multiply_adds=pairs * (D_k + D_v),
        exponentials=pairs,
        bytes_in_and_out=numbers * itemsize,
        bytes_between=2 * pairs * itemsize,
    )


def multi_head_cost(
    T: Size, D: Size, heads: Size, *, batch: Size = 1, itemsize: Size = 4
) -> Cost:
    r"""Count what multi-head self-attention of one width costs, projections included.

    .. math:: \text{multiply-adds} = B\,(4\,T D^2 + 2\,T^2 D)

    The number of heads is in the exponentials and in the scores, not in the products.

    Args:
        T: the length of the sequence.
        D: the width, of input, heads together and output.
        heads: the number of heads h; divides D.
        batch: B, the number of sequences.
        itemsize: bytes a number.

    Returns:
        The counts. Read: input and the four matrices; written: the output.

    Raises:
        TypeError: if a size is not an integer.
        ValueError: if a size is below 1, or ``heads`` does not divide D.

    Source:
        Vaswani et al. (2017), section 3.2.2: the total is similar to one full head's.
    """
    need_sizes(T=T, D=D, heads=heads, batch=batch, itemsize=itemsize)
    need_division(D, heads)
    T, D, heads, batch, itemsize = map(int, (T, D, heads, batch, itemsize))
    D_h = D // heads
    inner = attention_cost(
        T, T, D_h, D_h, entries=batch * heads, itemsize=itemsize
    )
    return Cost(
        multiply_adds=4 * batch * T * D * D + inner.multiply_adds,
        exponentials=inner.exponentials,
        bytes_in_and_out=(2 * batch * T * D + 4 * D * D) * itemsize,
        bytes_between=inner.bytes_between,
    )


def check_token_products(
    S: Any,
    D: Any,
    heads: Any,
    *,
    kv_heads: Any = None,
    turned: Any = False,
    sloped: Any = False,
    capped: Any = False,
) -> None:
    kv_heads = heads if kv_heads is None else kv_heads
    need_sizes(S=S, D=D, heads=heads, kv_heads=kv_heads)
    flags = {"turned": turned, "sloped": sloped, "capped": capped}
    for name, flag in flags.items():
        need_flag(name, flag)
    need_division(D, heads)
    if heads % kv_heads:
        raise ValueError(
            f"kv_heads = {kv_heads} does not divide heads = {heads}; "
            "each key head needs the same number of heads"
        )
    if turned and D // heads % 2:
        raise ValueError(
            f"D / heads is {D // heads}, but must be even: coordinates are turned in pairs"
        )


@checked(check_token_products)
def token_products(
    S: Size,
    D: Size,
    heads: Size,
    *,
    kv_heads: Size | None = None,
    turned: bool = False,
    sloped: bool = False,
    capped: bool = False,
) -> int:
    r"""Count the products for one new token in one layer of causal self-attention with a cache.

    .. math:: 2 D (D + D_{kv}) + 2 S D
        + [\text{turned}]\, 2 (D + D_{kv}) + [\text{sloped}]\, h S + [\text{capped}]\, 2 h S,
        \qquad D_{kv} = h_{kv} D / h

    First the four projections of one row, then one score and one share of a value for each head and key. A product is a
    multiplication, whether an addition follows or not; a division by a cap is one. Not counted are additions alone,
    exponentials, sines, tanh, the scale and the division of the softmax.

    Args:
        S: the number of keys in sight, the token's own among them.
        D: the width, of input, heads together and output.
        heads: the number of heads h; divides D.
        kv_heads: the number of key heads h_kv; divides ``heads``. As many as heads, if left out.
        turned: with rotary positions: the query and the new key are turned, two products a coordinate.
        sloped: with linear biases: one product a score.
        capped: with a soft cap: two products a score.

    Returns:
        The number of products.

    Raises:
        TypeError: if a size is not an integer, or a flag not True or False.
        ValueError: if a size is below 1, ``heads`` does not divide D, or ``kv_heads`` not
            ``heads``, or D / h is odd and ``turned``.

    Source:
        Shazeer (2019), section 3; Su et al. (2021), equation 34; Press, Smith and Lewis (2022),
        section 3; Gemma Team (2024), section 2.
    """
    kv_heads = heads if kv_heads is None else kv_heads
    S, D, heads, kv_heads = map(int, (S, D, heads, kv_heads))
    D_h = D // heads
    both = D + kv_heads * D_h
    pairs = attention_cost(1, S, D_h, D_h, entries=heads)
    return (
        2 * D * both
        + pairs.multiply_adds
        + turned * 2 * both
        + (sloped + 2 * capped) * heads * S
    )


@dataclass(frozen=True)
class Ratio:
    """How many times longer one computation took than another.

    Attributes:
        median: the median of the ratios of all pairs of runs.
        low: their lower quartile.
        high: their upper quartile.
        pairs: how many pairs there were.
    """

    median: float
    low: float
    high: float
    pairs: int

    def __str__(self) -> str:
        spread = f"{self.low:.2g} to {self.high:.2g}"
        return f"{self.median:.2g} times as long (middle half of {self.pairs}: {spread})"


def measure_ratio(
    slow: Callable[[], Any],
    fast: Callable[[], Any],
    *,
    pairs: Size = 15,
    clock: Callable[[], float] = time.perf_counter,
) -> Ratio:
    """Time two computations against each other, here and now.

    They run in turns, so that whatever else the machine does meets both. Each pair of
    runs gives one ratio.

    Args:
        slow: a function without arguments: the numerator.
        fast: a function without arguments: the denominator.
        pairs: how many pairs of runs; one more of each goes before, to warm up.
        clock: what tells the time in seconds; ``time.process_time`` counts those of
            the processor, and not the waiting where others use it too.

    Returns:
        The ratio of slow to fast. Nothing is stored.

    Raises:
        TypeError: if ``pairs`` is not an integer.
        ValueError: if ``pairs`` is below 2.
    """
    need_integer("pairs", pairs, least=2)
    slow()
    fast()
    ratios = []
    for _ in range(pairs):
        start = clock()
        slow()
        between = clock()
        fast()
        end = clock()
        ratios.append((between - start) / max(end - between, 1e-9))
    low, high = np.quantile(ratios, [0.25, 0.75]).tolist()
    return Ratio(statistics.median(ratios), low, high, pairs)
