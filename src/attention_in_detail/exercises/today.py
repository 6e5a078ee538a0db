"""Exercises of the chapter *Attention in today's models*."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attention_in_detail.caching import cache_bytes
from attention_in_detail.capping import softcap
from attention_in_detail.exercises._drawn import drawn_arrays
from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.masks import causal_mask
from attention_in_detail.scaled_dot_product import attention

__all__ = ["EXERCISES"]

MiB = 2**20
CAP, BEFORE, LAYERS = 50.0, 3, 2
# The text of the chapter: a prompt, and what was written.
PROMPT, WRITTEN = 6, 20


def _bytes(kv_heads: int = 4, windowed: int = 13, share: int = 1) -> Any:
    """Bytes for a token, and MiB for 8,192 of them where so many layers keep half."""
    token = cache_bytes(1, layers=26, kv_heads=kv_heads, D_h=256)
    kept = (26 - windowed) * 8192 + windowed * 4096
    return np.array([token, token / 26 * kept / MiB]) / share


def _step_cases() -> Iterator[Case]:
    for name, S, D_h in (
        ("four keys in the cache", 4, 3),
        ("as many keys as coordinates", 3, 4),
        ("one key in the cache", 1, 2),
    ):
        sizes = ((D_h,), (D_h,), (D_h,), (S, D_h), (S, D_h))
        yield Case(name, tuple(drawn_arrays(35, *sizes)))


def _step(q: Any, k: Any, v: Any, K: Any, V: Any, **options: Any) -> Any:
    keys, values = np.vstack([K, k]), np.vstack([V, v])
    return attention(q[None], keys, values, **options)[0]


def _without_itself(q: Any, k: Any, v: Any, K: Any, V: Any) -> Any:
    return attention(q[None], K, V)[0]


def _first_corner(q: Any, k: Any, v: Any, K: Any, V: Any) -> Any:
    return _step(q, k, v, K, V, mask=causal_mask(1, len(K) + 1))


def _by_width(q: Any, k: Any, v: Any, K: Any, V: Any) -> Any:
    return _step(q, k, v, K, V, scale=1.0)


def _new_value_first(q: Any, k: Any, v: Any, K: Any, V: Any) -> Any:
    keys, values = np.vstack([K, k]), np.vstack([v, V])
    return attention(q[None], keys, values)[0]


def _share_cases() -> Iterator[Case]:
    for name, D, heads, kv_heads in (
        ("six heads to two", 12, 6, 2),
        ("four heads to two", 8, 4, 2),
        ("four heads to one", 8, 4, 1),
        ("three heads to three", 6, 3, 3),
    ):
        (W_K,) = drawn_arrays(35, (D, D))
        yield Case(name, (W_K, heads, kv_heads))


def _blocks(W_K: Any, heads: int, kv_heads: int) -> Any:
    D, wide = W_K.shape
    return W_K.reshape(D, kv_heads, heads // kv_heads, wide // heads)


def _shared(W_K: Any, heads: int, kv_heads: int) -> Any:
    return _blocks(W_K, heads, kv_heads).mean(2).reshape(len(W_K), -1)


def _summed(W_K: Any, heads: int, kv_heads: int) -> Any:
    return _blocks(W_K, heads, kv_heads).sum(2).reshape(len(W_K), -1)


def _first_of_each(W_K: Any, heads: int, kv_heads: int) -> Any:
    return _blocks(W_K, heads, kv_heads)[:, :, 0].reshape(len(W_K), -1)


def _tiled(W_K: Any, heads: int, kv_heads: int) -> Any:
    """With every kv_heads-th head in one group."""
    D, wide = W_K.shape
    tiled = W_K.reshape(D, heads // kv_heads, kv_heads, wide // heads)
    return tiled.mean(1).reshape(D, -1)


def _rows(W_K: Any, heads: int, kv_heads: int) -> Any:
    """The rows were taken for the heads."""
    return _shared(W_K.T, heads, kv_heads).T


def _half(inside: float = 0.5**0.5) -> float:
    return CAP * float(np.arctanh(inside))


EXERCISES = (
    Exercise(
        "ex-today-hand",
        "by hand",
        (2,),
        2,
        _bytes,
        (
            Mistake(
                lambda: _bytes(kv_heads=8),
                "Twice too much. Only heads with keys of their own are kept, not all that ask; and a number in half precision "
                "is shorter than one in single.",
            ),
            Mistake(
                lambda: _bytes(share=2),
                "Half of it is missing: a position has a key and a value.",
            ),
            Mistake(
                lambda: _bytes(windowed=0),
                "The bytes of a token are right. Of the sequence, every second layer keeps a part only.",
            ),
            Mistake(
                lambda: _bytes(windowed=26),
                "The bytes of a token are right. Of the sequence you gave every layer the window; only every second has it.",
            ),
            Mistake(
                lambda: _bytes() * [1, MiB],
                "The second number is asked for in MiB.",
            ),
        ),
        tolerance=1e-6,
    ),
    Exercise(
        "ex-today-step",
        "implement",
        (1,),
        1,
        _step,
        (
            Mistake(
                _without_itself,
                "The new position looks at the cache alone. It may look at itself, too: append its key and value first.",
            ),
            Mistake(
                _first_corner,
                "It looks at the first position alone. A mask without an offset is aligned at the first key; does one last "
                "query need a mask at all?",
            ),
            Mistake(
                _by_width,
                "The scores are not divided by the root of the width of the head.",
            ),
            Mistake(
                _new_value_first,
                "Keys and values are in different orders: the new ones must go to the same end of both.",
            ),
        ),
        cases=_step_cases,
        axes=("D_h",),
        remark="No mask was needed: all that is in the cache lies before the new position.",
    ),
    Exercise(
        "ex-today-share",
        "implement",
        (2,),
        2,
        _shared,
        (
            Mistake(
                _tiled,
                "The groups are mixed up: with two groups you took every second head. Neighbours share a key head.",
            ),
            Mistake(
                _summed,
                "These are sums over each group. The mean keeps the size of the scores.",
            ),
            Mistake(
                _first_of_each,
                "This keeps the first head of each group and forgets the others; the mean has a part of each.",
            ),
            Mistake(
                _rows,
                "You cut the rows. Heads are blocks of columns: rows are what comes in.",
            ),
        ),
        cases=_share_cases,
        axes=("D", "D_kv"),
    ),
    Exercise(
        "ex-today-break",
        "break it",
        (1, 3),
        2,
        lambda: ("no", "no", "no", "yes"),
        (
            Mistake(
                lambda: ("no", "no", "yes", "yes"),
                "Look at the third again. A score that is always the same is also the same for equal distances, "
                "so test 3 passes.",
            ),
            Mistake(
                lambda: ("no", "yes", "yes", "yes"),
                "The second and the third: how can a score change that does not know any position?",
            ),
            Mistake(
                lambda: ("no", "no", "no", "no"),
                "Then nothing would catch it. Does the program give the scores of keys that are turned by their own positions?",
            ),
            Mistake(
                lambda: ("yes", "no", "no", "yes"),
                "Look at the first again: which turn makes a vector longer?",
            ),
        ),
        choices=("yes", "no"),
        remark="Where nothing depends on positions, every test of what must not change with them passes.",
    ),
    Exercise(
        "ex-today-half",
        "by hand",
        (4,),
        1,
        _half,
        (
            Mistake(
                lambda: _half(0.5),
                "There the tanh is one half, and three quarters of the gradient come through. It is its square that counts.",
            ),
            Mistake(
                lambda: float(softcap(np.array(_half()), CAP)),
                "That is the score after the cap. Asked for is the one before it.",
            ),
            Mistake(
                lambda: _half() / CAP,
                "That is the score in units of the cap.",
            ),
        ),
        tolerance=1e-3,
    ),
    Exercise("ex-today-prove", "prove", (4,), 2),
    Exercise(
        "ex-today-reach",
        "measure",
        (4,),
        1,
        lambda: LAYERS * BEFORE,
        (
            Mistake(
                lambda: BEFORE,
                "So far the first layer reaches. What does the second layer read?",
            ),
            Mistake(
                lambda: LAYERS * BEFORE + 1,
                "That is the first position whose logits stay. Asked for is the last one that changes, counted from 0.",
            ),
            Mistake(
                lambda: PROMPT + WRITTEN - 1,
                "All of them change: the sink is still there, and keeps the number in sight.",
            ),
        ),
    ),
)
