"""Exercises of the chapter *The classic bugs*."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.masks import causal_mask, mask_from_torch_mha
from attention_in_detail.multi_head import (
    MultiHeadParameters,
    merge_heads,
    multi_head_attention,
)
from attention_in_detail.planting import planted
from attention_in_detail.rows import softmax
from attention_in_detail.scaled_dot_product import (
    attention,
    attention_weights,
    scores,
)

__all__ = ["EXERCISES", "FLAWS", "SYMPTOMS"]

FLAWS = {
    "corner": planted(causal_mask, "j <= i + offset", "j <= i"),
    "ignore": planted(
        mask_from_torch_mha,
        "combine_masks.unchecked(mask, ~one)",
        "combine_masks.unchecked(mask, one)",
    ),
    "mean": planted(
        attention_weights, "constant(-xp.inf, z)", "constant(-1e9, z)"
    ),
    "nan": planted(
        softmax,
        "xp.where(largest == -xp.inf, constant(0.0, wide), largest)",
        "largest",
    ),
    "root": planted(
        multi_head_attention,
        "q, k, v, mask=mask",
        "q, k, v, scale=parameters.D**-0.5,\n        mask=mask",
    ),
    "swap": planted(merge_heads, "xp.moveaxis(x, -3, -2)", "x"),
}

# ---- merged by hand ----

HEADS = np.array([[[1.0, 2], [3, 4]], [[5, 6], [7, 8]]])


def _tables() -> Any:
    return np.stack([merge_heads(HEADS), FLAWS["swap"](HEADS)])


def _merged() -> Any:
    return _tables().sum(axis=-1)


# ---- which bug was it ----

# The values of four keys that score alike.
FOUR = np.arange(1.0, 5)[:, None]


def _mixed(mask: Any) -> Any:
    """The output of a query with this mask, beside one that may see all keys."""
    both = np.concatenate([np.ones((1, 4), dtype=bool), mask])
    return attention(np.zeros((2, 1)), 0 * FOUR, FOUR, mask=both)[1, 0]


def _first_weights() -> Any:
    eye = np.eye(4)
    keys = np.log(4) * np.array([[0.0], [1]]) * np.ones(4)
    _, weights = multi_head_attention(
        MultiHeadParameters(eye, eye, eye, heads=4),
        np.ones((1, 4)),
        keys,
        keys,
        return_weights=True,
    )
    return weights[0, 0]


def _padded() -> Any:
    mask, _ = mask_from_torch_mha(
        None, np.array([False, False, True, True]), heads=1
    )
    return _mixed(mask)


#: What is computed, and the bug that is in place meanwhile.
SYMPTOMS: tuple[tuple[Callable[[], Any], str], ...] = (
    (lambda: _mixed(causal_mask(1, 4, offset=3)), "corner"),
    (lambda: _mixed(np.zeros((1, 4), dtype=bool)), "mean"),
    (_first_weights, "root"),
    (_padded, "ignore"),
    (lambda: merge_heads(HEADS), "swap"),
    (lambda: _mixed(np.zeros((1, 4), dtype=bool)), "nan"),
)


def _with(word: str, call: Callable[[], Any]) -> Any:
    with FLAWS[word], np.errstate(all="ignore"):
        return np.asarray(call())


@functools.cache
def _diagnoses() -> tuple[str, ...]:
    """For each symptom the bug that gives its numbers, looked for among all of them."""
    found = []
    for call, planted_there in SYMPTOMS:
        seen = _with(planted_there, call)
        [word] = [
            word
            for word in FLAWS
            if np.allclose(_with(word, call), seen, equal_nan=True)
        ]
        found.append(word)
    return tuple(found)


def _confused(one: str, other: str) -> list[str]:
    swap = {one: other, other: one}
    return [swap.get(word, word) for word in _diagnoses()]


# ---- what an empty row becomes ----


def _empty_rows() -> list[str]:
    def plain(row: Any) -> Any:
        e = np.exp(row - row.max())
        return e / e.sum()

    found = []
    with np.errstate(all="ignore"):
        for fill, dtype, rule in (
            (-1e9, np.float32, plain),
            (-1e9, np.float16, plain),
            (-6e4, np.float16, plain),
            (-np.inf, np.float64, plain),
            (-np.inf, np.float64, softmax),
        ):
            row = rule(np.full(4, fill).astype(dtype))
            found.append(
                "nan"
                if np.isnan(row).any()
                else "mean"
                if row.any()
                else "zeros"
            )
    return found


def _instead(**places: str) -> list[str]:
    """The right words with others at some places, as in ``n1="mean"``."""
    found = _empty_rows()
    for place, word in places.items():
        found[int(place[1:])] = word
    return found


# ---- a bug from its description ----

ROOT = "1 / math.sqrt(queries.shape[-1])"
FLAT = planted(scores, ROOT, "1 / queries.shape[-1]")
TURNED = planted(
    scores,
    "widened(queries) @ widened(keys).mT",
    "widened(keys) @ widened(queries).mT",
)


def _flat_cases() -> Iterator[Case]:
    rng = np.random.default_rng(91)
    for name, T, S, D_k in (
        ("width 4", 3, 3, 4),
        ("width 1", 2, 3, 1),
        ("more keys than queries", 2, 5, 9),
    ):
        q, k = rng.standard_normal((T, D_k)), rng.standard_normal((S, D_k))
        yield Case(name, (q, k))


# ---- which example notices ----


def _noticed() -> list[str]:
    rng = np.random.default_rng(92)
    q, k = rng.standard_normal((2, 3, 4))
    found = []
    for queries, keys in (
        (q[:, :1], q[:, :1]),
        (q, q),
        (q[:, :1], k[:, :1]),
        (q, k),
    ):
        right = attention_weights(queries, keys)
        seen = []
        for name, bug in (("flat", FLAT), ("turned", TURNED)):
            with bug:
                wrong = attention_weights(queries, keys)
            if not np.allclose(wrong, right):
                seen.append(name)
        found.append({0: "neither", 1: "".join(seen), 2: "both"}[len(seen)])
    return found


def _blind_to(name: str) -> list[str]:
    """As if one of the two were never noticed."""
    other = "turned" if name == "flat" else "flat"
    return [
        {"both": other, name: "neither"}.get(word, word)
        for word in _noticed()
    ]


# ---- a test that can fail ----


def _candidates() -> Iterator[Case]:
    yield Case("the right merge", (merge_heads.unchecked,))
    yield Case("a merge without the swap", (FLAWS["swap"].function,))
    yield Case("a merge with the heads in another order", (_last_first,))
    yield Case("a merge with the positions in another order", (_backwards,))
    yield Case("a merge whose last row is its first", (_last_row_spoiled,))
    yield Case("a merge whose first row is its last", (_first_row_spoiled,))
    yield Case(
        "a merge whose last column is its first", (_last_column_spoiled,)
    )
    yield Case(
        "a merge whose first column is its last", (_first_column_spoiled,)
    )


def _last_first(x: Any) -> Any:
    return merge_heads(np.asarray(x)[..., ::-1, :, :] * 1.0)


def _backwards(x: Any) -> Any:
    return merge_heads(np.asarray(x)[..., ::-1, :] * 1.0)


def _side_by_side(x: Any) -> Any:
    return np.concatenate([*np.asarray(x)], axis=-1)


def _last_row_spoiled(x: Any) -> Any:
    out = _side_by_side(x)
    out[-1] = out[0]
    return out


def _first_row_spoiled(x: Any) -> Any:
    out = _side_by_side(x)
    out[0] = out[-1]
    return out


def _last_column_spoiled(x: Any) -> Any:
    out = _side_by_side(x)
    out[:, -1] = out[:, 0]
    return out


def _first_column_spoiled(x: Any) -> Any:
    out = _side_by_side(x)
    out[:, 0] = out[:, -1]
    return out


def _notices(
    heads: int, T: int, where: Any = ...
) -> Callable[[Any], float]:
    """A test of a merge on so many heads and positions, all numbers different; it compares all, or what stands there."""
    H = np.arange(heads * T * 2.0).reshape(heads, T, 2)

    def notices(merge: Any) -> float:
        one, other = merge(H), _side_by_side(H)
        return float(
            one.shape == other.shape
            and np.array_equal(one[where], other[where])
        )

    return notices


EXERCISES = (
    Exercise(
        "ex-bugs-hand",
        "by hand",
        (1,),
        2,
        _merged,
        (
            Mistake(
                lambda: _merged()[::-1],
                "The right numbers, but the planted way comes first. First the right one, then the one without the swap.",
            ),
            Mistake(
                lambda: np.stack([_merged()[0]] * 2),
                "Both rows are those of the right merge. Without the swap, numbers go into the rows in the order of memory.",
            ),
            Mistake(
                _tables,
                "These are the merged tables. One step is left: the product with the column of ones.",
            ),
            Mistake(
                lambda: _tables().sum(axis=-2),
                "These are sums over positions. A product with a column sums over the width, one number a position.",
            ),
        ),
        axes=("way", "T"),
    ),
    Exercise(
        "ex-bugs-which",
        "by hand",
        (1,),
        2,
        _diagnoses,
        (
            Mistake(
                lambda: _confused("corner", "ignore"),
                "Two of them are exchanged. Where a mask was turned over, what is seen is the padding and nothing else.",
            ),
            Mistake(
                lambda: _confused("mean", "nan"),
                "Two of them are exchanged. What is 0 / 0, and what is a softmax of numbers that are all alike?",
            ),
            Mistake(
                lambda: _confused("mean", "ignore"),
                "A mask turned over would do for the second. But does a mean of the padding give what is seen in the fourth?",
            ),
            Mistake(
                lambda: [
                    "ignore" if word == "mean" else word
                    for word in _diagnoses()
                ],
                "That would do for the second. But then what is left for the fourth?",
            ),
            Mistake(
                lambda: [
                    "mean" if word == "corner" else word
                    for word in _diagnoses()
                ],
                "The first one is another. Its query may attend to everything, and gets a single value.",
            ),
        ),
        choices=tuple(sorted(FLAWS)),
    ),
    Exercise(
        "ex-bugs-empty",
        "measure",
        (1,),
        2,
        _empty_rows,
        (
            Mistake(
                lambda: _instead(n1="mean"),
                "Look at the second again: is there such a number in half precision?",
            ),
            Mistake(
                lambda: _instead(n2="nan"),
                "Look at the third again: that number is still finite in half precision.",
            ),
            Mistake(
                lambda: _instead(n3="zeros"),
                "Look at the fourth again: the largest entry is taken off, and what is infinity less infinity?",
            ),
            Mistake(
                lambda: _instead(n3="mean", n4="mean"),
                "With an infinity there is no mean: either 0 / 0 is computed, or somebody takes care of the row.",
            ),
        ),
        choices=("mean", "nan", "zeros"),
    ),
    Exercise(
        "ex-bugs-plant",
        "implement",
        (2,),
        1,
        FLAT,
        (
            Mistake(
                scores,
                "Nothing is planted: these are the scores of the package.",
            ),
            Mistake(
                planted(scores, ROOT, "1.0"),
                "Now nothing is divided at all. The scores are to be too flat, not too steep.",
            ),
            Mistake(
                planted(scores, ROOT, "math.sqrt(queries.shape[-1])"),
                "Now the scores are multiplied by the root. The scale multiplies, so a division by D_k is its inverse.",
            ),
            Mistake(
                planted(scores, ROOT, "1 / math.sqrt(queries.shape[-2])"),
                "That is the root of the number of queries. The width is the last axis.",
            ),
        ),
        cases=_flat_cases,
        axes=("T", "S"),
    ),
    Exercise(
        "ex-bugs-own",
        "break it",
        (2, 3),
        2,
        _noticed,
        (
            Mistake(
                lambda: _blind_to("turned"),
                "The first bug is right everywhere. The second turns the table of scores: when is it its own transpose?",
            ),
            Mistake(
                lambda: _blind_to("flat"),
                "The second bug is right everywhere. The first forgets a root: when are a number and its root equal?",
            ),
            Mistake(
                lambda: ["both"] * len(_noticed()),
                "No. With some numbers the two ways are equal: look for widths, and for queries and keys, that are too kind.",
            ),
        ),
        choices=("neither", "flat", "turned", "both"),
    ),
    Exercise(
        "ex-bugs-test",
        "implement",
        (3,),
        2,
        _notices(2, 3),
        (
            Mistake(
                lambda merge: 1.0,
                "It says True of every merge. All have the right shape, and the right numbers somewhere: compare entries.",
            ),
            Mistake(
                lambda merge: 0.0,
                "It says False of every merge, the right one too.",
            ),
            Mistake(
                _notices(1, 3),
                "Its example has one head. Then there is nothing to swap, and heads have but one order.",
            ),
            Mistake(
                _notices(2, 1),
                "Its example has one position. Then heads and positions can be swapped without a difference.",
            ),
            Mistake(
                _notices(2, 3, np.s_[0]),
                "It does not look at the last row, which one of the merges spoils.",
            ),
            Mistake(
                _notices(2, 3, np.s_[-1]),
                "It does not look at the first row, which one of the merges spoils.",
            ),
            Mistake(
                _notices(2, 3, np.s_[:, 0]),
                "It does not look at the last column, which one of the merges spoils.",
            ),
            Mistake(
                _notices(2, 3, np.s_[:, -1]),
                "It does not look at the first column, which one of the merges spoils.",
            ),
            Mistake(
                _notices(2, 3, np.s_[1]),
                "It looks at the middle row only. Some of the merges spoil others.",
            ),
            Mistake(
                _notices(2, 4, np.s_[1:-1]),
                "It looks neither at the first row nor at the last. Some of the merges spoil these.",
            ),
        ),
        cases=_candidates,
    ),
    Exercise("ex-bugs-kind", "explain", (3,), 3),
)
