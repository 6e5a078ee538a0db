"""How many bytes attention moves between slow and fast memory, at once and by blocks, and what that costs in time."""

from dataclasses import dataclass
from numbers import Real
from typing import Any

from attention_in_detail._checks import checked, kind
from attention_in_detail.notation import Size
from attention_in_detail.parallelism import attention_cost, need_sizes

__all__ = [
    "Traffic",
    "block_bytes",
    "largest_query_block",
    "seconds_at_least",
    "traffic_at_once",
    "traffic_by_blocks",
]


@dataclass(frozen=True)
class Traffic:
    """What a computation does and moves, counted.

    Attributes:
        multiply_adds: multiplications followed by an addition, in all matrix products.
        bytes_moved: bytes that are read from slow memory or written to it.
    """

    multiply_adds: int
    bytes_moved: int

    @property
    def intensity(self) -> float:
        """Operations a byte; a multiply-add is two."""
        return 2 * self.multiply_adds / self.bytes_moved


def check_at_once(
    T: Any, S: Any, D_k: Any, D_v: Any, *, itemsize: Any = 4
) -> None:
    need_sizes(T=T, S=S, D_k=D_k, D_v=D_v, itemsize=itemsize)


@checked(check_at_once)
def traffic_at_once(
    T: Size, S: Size, D_k: Size, D_v: Size, *, itemsize: Size = 4
) -> Traffic:
    r"""Count what attention moves if scores and weights go through slow memory.

    .. math:: \text{numbers} = (T + S)(D_k + D_v) + 4\,T S

    Three operations one after the other: the scores are written and read again, and so
    are the weights. Everything else is read or written once, as if a product of any
    size needed no more: a program moves at least this much.

    Args:
        T: the number of queries.
        S: the number of keys.
        D_k: the width of queries and keys.
        D_v: the width of the values.
        itemsize: bytes a number: 4 for float32, 2 for half precision.

    Returns:
        The counts.

    Raises:
        TypeError: if a size is not an integer.
        ValueError: if a size is below 1.

    Source:
        Dao et al. (2022), algorithm 0 and theorem 2.
    """
    cost = attention_cost(T, S, D_k, D_v, itemsize=itemsize)
    return Traffic(
        cost.multiply_adds, cost.bytes_in_and_out + 2 * cost.bytes_between
    )


def check_by_blocks(
    T: Any,
    S: Any,
    D_k: Any,
    D_v: Any,
    *,
    query_block: Any,
    itemsize: Any = 4,
) -> None:
    need_sizes(
        T=T,
        S=S,
        D_k=D_k,
        D_v=D_v,
        query_block=query_block,
        itemsize=itemsize,
    )


@checked(check_by_blocks)
def traffic_by_blocks(
    T: Size,
    S: Size,
    D_k: Size,
    D_v: Size,
    *,
    query_block: Size,
    itemsize: Size = 4,
) -> Traffic:
    r"""Count what attention by blocks moves, if a block fits into fast memory.

    .. math:: \text{numbers} = (D_k + D_v) \left( T + \left\lceil \frac{T}{B_q} \right\rceil S \right)

    Queries are read once and outputs written once. All keys and values are read again
    for each block of queries; into how many blocks they are cut makes no difference.
    What the rescaling costs, a few operations a row, is not counted.

    Args:
        T: the number of queries.
        S: the number of keys.
        D_k: the width of queries and keys.
        D_v: the width of the values.
        query_block: B_q, how many queries at a time.
        itemsize: bytes a number.

    Returns:
        The counts.

    Raises:
        TypeError: if a size is not an integer.
        ValueError: if a size is below 1.

    Source:
        Dao et al. (2022), theorem 2, for loops in the order of Dao (2023), algorithm 1.
    """
    cost = attention_cost(T, S, D_k, D_v)
    T, S, block = int(T), int(S), int(query_block)
    numbers = int(D_k + D_v) * (T + -(-T // block) * S)
    return Traffic(cost.multiply_adds, numbers * int(itemsize))


def check_block_bytes(
    query_block: Any,
    key_block: Any,
    D_k: Any,
    D_v: Any,
    *,
    itemsize: Any = 4,
) -> None:
    need_sizes(
        query_block=query_block,
        key_block=key_block,
        D_k=D_k,
        D_v=D_v,
        itemsize=itemsize,
    )


@checked(check_block_bytes)
def block_bytes(
    query_block: Size,
    key_block: Size,
    D_k: Size,
    D_v: Size,
    *,
    itemsize: Size = 4,
) -> int:
    r"""Count what fast memory must hold for one block of queries and one of keys.

    .. math:: \text{numbers} = B_q (D_k + D_v + 2) + B_k (D_k + D_v) + B_q B_k

    Queries with their running output, largest score and sum; keys with values; scores,
    in whose place the exponentials go.

    Args:
        query_block: B_q, how many queries at a time.
        key_block: B_k, how many keys at a time.
        D_k: the width of queries and keys.
        D_v: the width of the values.
        itemsize: bytes a number.

    Returns:
        The bytes.

    Raises:
        TypeError: if a size is not an integer.
        ValueError: if a size is below 1.

    Source:
        Dao et al. (2022), section 3.1, where the blocks come from the same sum.
    """
    rows, columns, D_k, D_v, itemsize = map(
        int, (query_block, key_block, D_k, D_v, itemsize)
    )
    width = D_k + D_v
    return itemsize * (
        rows * (width + 2) + columns * width + rows * columns
    )


def check_largest(
    fast_bytes: Any,
    key_block: Any,
    D_k: Any,
    D_v: Any,
    *,
    itemsize: Any = 4,
) -> None:
    need_sizes(fast_bytes=fast_bytes)
    check_block_bytes(1, key_block, D_k, D_v, itemsize=itemsize)
    least = block_bytes.unchecked(1, key_block, D_k, D_v, itemsize=itemsize)
    if least > fast_bytes:
        raise ValueError(
            f"fast_bytes is {fast_bytes}, but one query and {key_block} keys need {least}; make key_block smaller"
        )


@checked(check_largest)
def largest_query_block(
    fast_bytes: Size,
    key_block: Size,
    D_k: Size,
    D_v: Size,
    *,
    itemsize: Size = 4,
) -> int:
    r"""Return the largest block of queries for which :func:`block_bytes` fits into fast memory.

    .. math:: B_q = \left\lfloor \frac{M - B_k (D_k + D_v)}{D_k + D_v + 2 + B_k} \right\rfloor

    Args:
        fast_bytes: the size of fast memory in bytes: M times ``itemsize``.
        key_block: B_k, how many keys at a time.
        D_k: the width of queries and keys.
        D_v: the width of the values.
        itemsize: bytes a number.

    Returns:
        B_q.

    Raises:
        TypeError: if a size is not an integer.
        ValueError: if a size is below 1, or fast memory does not hold one query.

    Source:
        Solved from :func:`block_bytes`.
    """
    M, columns, width = (
        int(fast_bytes) // int(itemsize),
        int(key_block),
        int(D_k + D_v),
    )
    return (M - columns * width) // (width + 2 + columns)


def check_seconds(
    traffic: Any, *, operations_per_second: Any, bytes_per_second: Any
) -> None:
    if not isinstance(traffic, Traffic):
        raise TypeError(f"traffic must be a Traffic, not {kind(traffic)}")
    for name, speed in (
        ("operations_per_second", operations_per_second),
        ("bytes_per_second", bytes_per_second),
    ):
        if not isinstance(speed, Real) or isinstance(speed, bool):
            raise TypeError(f"{name} must be a number, not {kind(speed)}")
        if not speed > 0:
            raise ValueError(f"{name} is {speed}, but must be above 0")


@checked(check_seconds)
def seconds_at_least(
    traffic: Traffic, *, operations_per_second: Real, bytes_per_second: Real
) -> tuple[float, float]:
    r"""Return how long the arithmetic and the moving would take, each at a machine's full speed.

    .. math:: t \ge \max \left( \frac{F}{\rho},\ \frac{G}{\beta} \right)

    F operations, two a multiply-add; G bytes. Both may go on at the same time, so the
    larger of the two is a lower bound of the time.

    Args:
        traffic: what is computed and moved.
        operations_per_second: what the machine does at most, ρ.
        bytes_per_second: β, between slow and fast memory.

    Returns:
        Seconds of arithmetic, and of moving.

    Raises:
        TypeError: if ``traffic`` is not a :class:`Traffic`, or a speed not a number.
        ValueError: if a speed is not above 0.

    Source:
        Williams, Waterman and Patterson (2009), the roofline model.
    """
    return (
        2 * traffic.multiply_adds / float(operations_per_second),
        traffic.bytes_moved / float(bytes_per_second),
    )
