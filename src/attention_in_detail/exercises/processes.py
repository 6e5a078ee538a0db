"""Exercises of the chapter *Many processes*."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.masks import causal_mask
from attention_in_detail.multi_head import (
    MultiHeadParameters,
    self_attention,
)

__all__ = ["EXERCISES"]

# ---- what is wrong if heads are split in another way ----

RANKS, HEADS = 2, 4


def _part(
    p: MultiHeadParameters, heads: Sequence[int], rows: Sequence[int]
) -> MultiHeadParameters:
    """These heads, of width 1, with these rows of W_O and without its bias."""
    columns = {
        name: getattr(p, name)[..., heads]
        for name in ("W_Q", "W_K", "W_V", "b_Q", "b_K", "b_V")
    }
    return replace(
        p, **columns, W_O=p.W_O[rows], b_O=None, heads=len(heads)
    )


@functools.cache
def _spoiled() -> tuple[str, ...]:
    """For each way to do it: what differs from one process, on rank 0."""
    rng = np.random.default_rng(33)
    p = MultiHeadParameters.init(HEADS, HEADS, seed=33)
    X, dY, way_to_go = rng.standard_normal((3, 3, HEADS))
    bias, eps = rng.standard_normal(HEADS), 1e-5

    def done(*shares: tuple[Sequence[int], Sequence[int]]) -> list[Any]:
        """What each rank adds to the output, and to the slope of the loss in one direction."""
        found = []
        for heads, rows in shares:
            part = _part(p, heads, rows)
            here, up, down = (
                self_attention(part, X + step * way_to_go)
                for step in (0, eps, -eps)
            )
            found.append((here, ((up - down) * dY).sum() / (2 * eps)))
        return found

    first, last = [0, 1], [2, 3]
    halves = done((first, first), (last, last))
    crossed = done((first, last), (last, first))
    mixed = done(([0, 2], [0, 2]), ([1, 3], [1, 3]))

    def output(parts: list[Any]) -> Any:
        return sum(y for y, _ in parts)

    def slope(parts: list[Any]) -> Any:
        return sum(one for _, one in parts)

    right = output(halves) + bias, slope(halves)
    ways = (
        (output(halves) + RANKS * bias, slope(halves)),
        (output(halves) + bias, slope(halves[:1])),
        (output(halves[:1]) + bias, slope(halves)),
        (output(crossed) + bias, slope(crossed)),
        (output(mixed) + bias, slope(mixed)),
    )
    names = {0: "neither", 1: "output", 2: "gradient", 3: "both"}
    return tuple(
        names[
            sum(
                weight * (not np.allclose(one, other, atol=1e-6))
                for weight, one, other in zip(
                    (1, 2), way, right, strict=True
                )
            )
        ]
        for way in ways
    )


def _instead(*, place: int, word: str) -> list[str]:
    return [word if n == place else one for n, one in enumerate(_spoiled())]


# ---- three parts become one ----

EXPONENTIALS = np.array([[1.0, 1], [4, 2], [8, 4]])
MARKS = np.array([[4.0, 8], [3, 9], [1, 10]])


def _parts_and_whole(weights: Any = None) -> Any:
    outputs = (EXPONENTIALS * MARKS).sum(1) / EXPONENTIALS.sum(1)
    if weights is None:
        weights = EXPONENTIALS.sum(1)
    return np.append(outputs, (weights * outputs).sum() / weights.sum())


# ---- the mask of a visiting block ----


def _block_cases() -> Iterator[Case]:
    yield Case("its own block", (1, 1, 3, 3, 0))
    yield Case("an earlier block", (2, 0, 3, 3, 0))
    yield Case("a later block", (0, 2, 2, 2, 0))
    yield Case("fewer queries than keys and an offset", (1, 1, 2, 4, 4))
    yield Case("a block that an offset cuts", (0, 1, 4, 2, 1))


def _block_mask(rank: int, block: int, t: int, s: int, offset: int) -> Any:
    i = rank * t + np.arange(t)[:, None]
    j = block * s + np.arange(s)
    return (j <= i + offset) * 1.0


def _from_own_door(
    rank: int, block: int, t: int, s: int, offset: int
) -> Any:
    return causal_mask(t, s, offset=offset) * 1.0


def _one_length(rank: int, block: int, t: int, s: int, offset: int) -> Any:
    """The keys counted as if a block had as many of them as of queries."""
    i = rank * t + np.arange(t)[:, None]
    return (block * t + np.arange(s) <= i + offset) * 1.0


# ---- deal out fairly ----

PARTS, SIZE = 4, 2


def _open_pairs(
    deal: Callable[[int], tuple[int, int]], strict: bool = False
) -> Any:
    """Open pairs by step and rank, if rank r holds the two pieces that are dealt to it."""
    T = 2 * PARTS * SIZE
    mask = causal_mask(T, offset=-1) if strict else causal_mask(T)
    pieces = np.arange(T).reshape(2 * PARTS, SIZE)
    held = [pieces[list(deal(r))].ravel() for r in range(PARTS)]
    return np.array(
        [
            [
                mask[np.ix_(held[r], held[(r - step) % PARTS])].sum()
                for r in range(PARTS)
            ]
            for step in range(PARTS)
        ]
    )


def _ranks_by_blocks() -> Any:
    """Open pairs of each rank with what each rank holds, whenever they meet."""
    steps = _open_pairs(_from_both_ends)
    ranks = np.arange(PARTS)
    return steps[(ranks[:, None] - ranks) % PARTS, ranks[:, None]]


def _from_both_ends(r: int) -> tuple[int, int]:
    return r, 2 * PARTS - 1 - r


# ---- bytes ----


def _bytes(itemsize: int = 4) -> list[int]:
    from attention_in_detail.distributed.counting import traffic

    return [
        traffic(
            "ring", 12, 4, ranks=3, itemsize=itemsize, backward=backward
        ).passed
        for backward in (False, True)
    ]


BLOCK_BYTES = 2 * (12 // 3) * 4 * 4

# ---- enough positions ----


def _enough(itemsize: int = 4) -> list[float]:
    from attention_in_detail.distributed.paper import on_paper

    plan = on_paper(
        2_000_000,
        8192,
        ring=125,
        beside=8,
        itemsize=itemsize,
        multiply_adds_per_second=1e14,
        bytes_per_second=2.5e10,
    )
    return [plan.enough_positions, 2_000_000 / plan.enough_positions]


EXERCISES = (
    Exercise(
        "ex-processes-spoiled",
        "break it",
        (1,),
        2,
        _spoiled,
        (
            Mistake(
                lambda: _instead(place=0, word="both"),
                "Look at the first again: does a gradient by the input know how often a constant was added?",
            ),
            Mistake(
                lambda: _instead(place=1, word="both"),
                "Look at the second again: the way forward is done before anything goes back.",
            ),
            Mistake(
                lambda: _instead(place=2, word="both"),
                "Look at the third again: each rank is handed the same dY, and goes back through its own heads.",
            ),
            Mistake(
                lambda: _instead(place=4, word="both"),
                "Look at the last again: does a sum over heads depend on who adds which?",
            ),
        ),
        choices=("output", "gradient", "both", "neither"),
    ),
    Exercise("ex-processes-bias", "prove", (1,), 2),
    Exercise(
        "ex-processes-merge",
        "by hand",
        (2,),
        1,
        _parts_and_whole,
        (
            Mistake(
                lambda: _parts_and_whole(np.ones(3)),
                "The three are right. The whole is not their plain mean: a block with larger exponentials counts more.",
            ),
            Mistake(
                lambda: _parts_and_whole(
                    EXPONENTIALS.sum(1) / EXPONENTIALS.max(1)
                ),
                "The three are right. Their sums were merged as they are, each in the unit of its own largest score.",
            ),
            Mistake(
                lambda: _parts_and_whole(EXPONENTIALS.max(1)),
                "The three are right. A block counts with the sum of its exponentials, not with the largest of them.",
            ),
            Mistake(
                lambda: np.append(MARKS.mean(1), _parts_and_whole()[-1]),
                "The whole is right. The output of a block is a mean of its values under their weights.",
            ),
        ),
        axes=("answer",),
    ),
    Exercise(
        "ex-processes-mask",
        "implement",
        (2,),
        2,
        _block_mask,
        (
            Mistake(
                _from_own_door,
                "Positions are counted from the own door: that puts a triangle on every block. Count over the whole sequence.",
            ),
            Mistake(
                lambda rank, block, t, s, offset: _block_mask(
                    block, rank, t, s, offset
                ),
                "Rank and block are exchanged: later keys are open, earlier ones shut.",
            ),
            Mistake(
                lambda rank, block, t, s, offset: _block_mask(
                    rank, block, t, s, 0
                ),
                "The offset is not used.",
            ),
            Mistake(
                lambda rank, block, t, s, offset: _block_mask(
                    rank, block, t, s, offset - 1
                ),
                "One key too few: where both are at the same place, the pair is open.",
            ),
            Mistake(
                _one_length,
                "Right where a block has as many keys as a rank has queries. A block of keys has a length of its own.",
            ),
            Mistake(
                lambda *given: 1 - _block_mask(*given),
                "The other way round: here true is where a query may attend.",
            ),
            Mistake(
                lambda *given: np.where(_block_mask(*given), 0.0, -np.inf),
                "That is a bias; a mask is true or false.",
            ),
        ),
        cases=_block_cases,
        axes=("query", "key of the block"),
    ),
    Exercise(
        "ex-processes-balance",
        "measure",
        (2,),
        3,
        lambda: _open_pairs(_from_both_ends),
        (
            Mistake(
                lambda: _open_pairs(lambda r: (2 * r, 2 * r + 1)),
                "These pieces were dealt out in their order, two neighbours to a rank: then rank 0 waits again.",
            ),
            Mistake(
                lambda: _open_pairs(lambda r: (r, r + PARTS)),
                "These are pieces r and n + r. The second one is to come from the back: the later the first, the earlier it.",
            ),
            Mistake(
                lambda: _open_pairs(_from_both_ends, strict=True),
                "A query may attend to the key at its own place as well.",
            ),
            Mistake(
                lambda: _open_pairs(_from_both_ends).sum(0),
                "These are the pairs of each rank in all steps together. Give each step a row.",
            ),
            Mistake(
                _ranks_by_blocks,
                "These are ranks by blocks. Asked for are steps by ranks.",
            ),
        ),
        axes=("step", "rank"),
        remark="Each step has as many pairs on every rank: nobody waits.",
    ),
    Exercise(
        "ex-processes-count",
        "by hand",
        (3,),
        2,
        _bytes,
        (
            Mistake(
                lambda: [3 * BLOCK_BYTES, _bytes()[1] + 2 * BLOCK_BYTES],
                "A block goes on once less than there are ranks: after the last step nobody needs it any more.",
            ),
            Mistake(
                lambda: [one // 2 for one in _bytes()],
                "A block has keys and values.",
            ),
            Mistake(
                lambda: [_bytes()[0], _bytes()[1] - _bytes()[0]],
                "The first is right. The second is the way back alone; both ways together are asked for.",
            ),
            Mistake(
                lambda: [_bytes()[0], _bytes()[1] - BLOCK_BYTES],
                "The first is right. Gradients go on once more than their block: the last message brings them home.",
            ),
            Mistake(
                lambda: [_bytes()[0], 2 * _bytes()[0]],
                "The first is right. Going back, the gradients of keys and values travel too.",
            ),
            Mistake(
                lambda: [3 * one for one in _bytes()],
                "That is what all ranks send together. What does one of them send?",
            ),
        ),
        axes=("answer",),
    ),
    Exercise(
        "ex-processes-enough",
        "by hand",
        (4,),
        1,
        _enough,
        (
            Mistake(
                lambda: _enough(2),
                "That is for half precision. In float32 a number has more bytes, so a block must be larger.",
            ),
            Mistake(
                lambda: _enough(1),
                "The bytes of a number are missing: L counts bytes.",
            ),
            Mistake(
                lambda: [_enough()[0], 8 * _enough()[1]],
                "The first is right. The second counts devices; the places of the ring are asked for.",
            ),
            Mistake(
                lambda: [8 * _enough()[0], _enough()[1] / 8],
                "The devices of a place share arithmetic and bytes alike: their number cancels.",
            ),
            Mistake(
                lambda: [_enough()[0] / 8, 8 * _enough()[1]],
                "The devices of a place share its arithmetic and its bytes alike.",
            ),
        ),
        axes=("answer",),
        remark="With more places the blocks are smaller, and the devices wait for their neighbours.",
    ),
)
