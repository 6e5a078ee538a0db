"""Who holds what in a ring of processes: the rows of a rank, the block it has at a step, and what of it is open."""

from dataclasses import dataclass

from attention_in_detail._checks import checked
from attention_in_detail.distributed._checks import (
    check_held_block,
    check_own_rows,
    check_ring_schedule,
)
from attention_in_detail.notation import Size

__all__ = ["Turn", "held_block", "own_rows", "ring_schedule"]


@checked(check_own_rows)
def own_rows(length: Size, rank: Size, ranks: Size) -> slice:
    r"""Return the rows of a sequence that a rank holds: an equal part, in order.

    .. math:: \text{rank } r \text{ of } n \text{ holds the rows from } r\,T/n
        \text{ up to } (r + 1)\,T/n

    Args:
        length: how many rows there are, T or S.
        rank: r, from 0 to n − 1.
        ranks: n; divides ``length``.

    Returns:
        The rows as a slice.

    Raises:
        TypeError: if one is not an integer.
        ValueError: if ``ranks`` does not divide ``length``, or there is no such rank.

    Source:
        Liu, Zaharia and Abbeel (2023), section 3.
    """
    rows = int(length) // int(ranks)
    return slice(int(rank) * rows, (int(rank) + 1) * rows)


@checked(check_held_block)
def held_block(rank: Size, step: Size, ranks: Size) -> int:
    r"""Return the block of keys that a rank holds at a step: at first its own, then that of the rank before it.

    .. math:: c = (r - i) \bmod n

    Args:
        rank: r, from 0 to n − 1.
        step: i, from 0 on. At n the blocks are home again.
        ranks: how many there are, n.

    Returns:
        c: whose keys and values they are.

    Raises:
        TypeError: if one is not an integer.
        ValueError: if there is no such rank, or ``step`` is below 0.

    Source:
        Liu, Zaharia and Abbeel (2023), section 3.
    """
    return (int(rank) - int(step)) % int(ranks)


@dataclass(frozen=True)
class Turn:
    """What one rank does in one step.

    Attributes:
        block: whose keys and values it holds.
        pairs: how many pairs of its queries with these keys are open; at 0 the block
            is shut, and nothing is computed.
    """

    block: int
    pairs: int


@checked(check_ring_schedule)
def ring_schedule(
    T: Size, S: Size, *, ranks: Size, causal_offset: Size | None = None
) -> list[list[Turn]]:
    r"""Return what every rank does in every step of ``ring_attention``.

    .. math:: \text{query } i \text{ may attend to key } j
        \text{ where } j \le i + \text{offset}

    Args:
        T: the number of queries of all ranks together.
        S: the number of keys of all ranks together.
        ranks: n; divides T and S.
        causal_offset: as in ``ring_attention``; None shuts nothing.

    Returns:
        A list with an entry for each step, which is a list with a turn for each rank.

    Raises:
        TypeError: if one is not an integer.
        ValueError: if a size is below 1, or ``ranks`` does not divide T and S.

    Source:
        Liu, Zaharia and Abbeel (2023), section 3, algorithm 1.
    """
    T, S, ranks = int(T), int(S), int(ranks)
    t, s = T // ranks, S // ranks
    steps = []
    for step in range(ranks):
        turns = []
        for rank in range(ranks):
            block = held_block.unchecked(rank, step, ranks)
            offset = local_offset(causal_offset, rank * t, block * s)
            turns.append(Turn(block, open_pairs(t, s, offset)))
        steps.append(turns)
    return steps


def local_offset(
    causal_offset: Size | None, top: int, left: int
) -> int | None:
    """Return the offset of a block whose first query is ``top`` and whose first key is ``left`` in the whole."""
    return (
        None if causal_offset is None else top + int(causal_offset) - left
    )


def is_shut(rows: int, offset: int | None) -> bool:
    """Whether not even the last query of a block may attend to its first key."""
    return offset is not None and offset + rows - 1 < 0


def open_pairs(rows: int, columns: int, offset: int | None) -> int:
    """Return how many pairs of a block are open."""
    if offset is None:
        return rows * columns
    return sum(min(max(i + offset + 1, 0), columns) for i in range(rows))
