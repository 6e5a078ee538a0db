"""Exercises of the chapter *Masks*."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.masks import (
    causal_mask,
    combine_masks,
    padding_mask,
    window_mask,
)
from attention_in_detail.scaled_dot_product import (
    attention,
    attention_weights,
)

__all__ = ["EXERCISES", "KEYS", "QUERIES", "VALUES"]

# The example by hand: queries that are all alike, five keys, and their values.
QUERIES = math.log(2) * np.ones((5, 1))
KEYS = np.array([[0.0], [0], [1], [2], [3]])
VALUES = np.array([[16.0], [0], [8], [4], [2]])
THREE = padding_mask(np.array(3), 5)


def _window(after: int = 1, before: int = 1, padding: Any = THREE) -> Any:
    """The output of query 3 in a window, and with padding those of queries 4 and 5."""
    near = window_mask(5, before=before, after=after)
    alone, both = (
        attention(QUERIES, KEYS, VALUES, mask=mask)[:, 0]
        for mask in (near, combine_masks(near, padding))
    )
    return np.array([alone[2], both[3], both[4]])


def _window_afterwards() -> Any:
    near = window_mask(5, before=1, after=1)
    A = attention_weights(QUERIES, KEYS)
    alone, both = ((A * m @ VALUES)[:, 0] for m in (near, near & THREE))
    return np.array([alone[2], both[3], both[4]])


def _undefined() -> Any:
    """An empty row becomes 0/0."""
    return np.array([*_window()[:2], np.nan])


def _averaged() -> Any:
    """An empty row becomes the mean of all values."""
    return np.array([*_window()[:2], VALUES.mean()])


# ---- several texts in one row ----


def _packed_cases() -> Iterator[Case]:
    yield Case("two texts", (np.array([0, 0, 0, 1, 1]),))
    yield Case("a single text", (np.array([0, 0, 0]),))
    yield Case("three texts", (np.array([0, 1, 1, 2, 2, 2]),))


def _packed(
    text: Any, order: Callable[..., Any] = np.less_equal, same: bool = True
) -> Any:
    """Whether key j, in its order to query i, is of the same text."""
    place = np.arange(len(text))
    is_open = order(place[None, :], place[:, None])
    if same:
        is_open = is_open & (text[:, None] == text[None, :])
    return is_open.astype(int)


def _either(text: Any) -> Any:
    """One of the two wishes is enough."""
    return _packed(text, same=False) | (text[:, None] == text[None, :])


# ---- padding on the left ----


def _left_cases() -> Iterator[Case]:
    yield Case("two of five places padded", (5, 2))
    yield Case("no padding", (4, 0))
    yield Case("three of four places padded", (4, 3))


def _left(T: int, padded: int) -> Any:
    real = np.arange(T) >= padded
    return (causal_mask(T) & real[None, :]).astype(int)


def _cured(T: int, padded: int) -> Any:
    return _left(T, padded) | np.eye(T, dtype=int)


def _opened_wide(T: int, padded: int) -> Any:
    mask = _left(T, padded)
    mask[:padded] = 1
    return mask


def _right_hand(T: int, padded: int) -> Any:
    real = np.arange(T) < T - padded
    return (causal_mask(T) & real[None, :]).astype(int) | np.eye(
        T, dtype=int
    )


def _shut_queries(T: int, padded: int) -> Any:
    real = np.arange(T) >= padded
    return (causal_mask(T) & real[:, None]).astype(int) | np.eye(
        T, dtype=int
    )


# ---- the newest places against a cache ----


def _newest_cases() -> Iterator[Case]:
    rng = np.random.default_rng(11)
    for name, T in (
        ("one new place", 1),
        ("two new places", 2),
        ("nothing but new places", 5),
    ):
        K, V = rng.standard_normal((2, 5, 3))
        yield Case(name, (rng.standard_normal((T, 3)), K, V))


def _newest(back: int = 0) -> Callable[..., Any]:
    """Attention of the last places, in a mask that is so far off the bottom right corner."""

    def newest(Q: Any, K: Any, V: Any) -> Any:
        T, S = len(Q), len(K)
        mask = causal_mask(T, S, offset=S - T - back)
        return attention(Q, K, V, mask=mask)

    return newest


def _top_left(Q: Any, K: Any, V: Any) -> Any:
    return attention(Q, K, V, mask=causal_mask(len(Q), len(K)))


def _unmasked(Q: Any, K: Any, V: Any) -> Any:
    return attention(Q, K, V)


# ---- a test that sees an inverted mask ----


def _attends(x: Any, is_open: Any) -> Any:
    return attention(x, x, x, mask=is_open[None, :])


def _attends_inverted(x: Any, is_open: Any) -> Any:
    return _attends(x, ~is_open)


def _attends_to_all(x: Any, is_open: Any) -> Any:
    return attention(x, x, x)


def _attends_afterwards(x: Any, is_open: Any) -> Any:
    return attention_weights(x, x) * is_open @ x


def _test_cases() -> Iterator[Case]:
    x = np.random.default_rng(12).standard_normal((6, 4))
    is_open = np.arange(6) < 3
    for name, attend in (
        ("a right function", _attends),
        ("an inverted mask", _attends_inverted),
        ("no mask at all", _attends_to_all),
        ("a mask put on after the softmax", _attends_afterwards),
    ):
        yield Case(name, (attend, x, is_open))


def _refilled(x: Any, is_open: Any) -> Any:
    other = x.copy()
    other[~is_open] += np.linspace(1, 2, x.shape[1])
    return other


def _test(attend: Any, x: Any, is_open: Any) -> int:
    """Whether the real rows stay when the padding gets other numbers."""
    first = attend(x, is_open)
    again = attend(_refilled(x, is_open), is_open)
    return int(np.allclose(first[is_open], again[is_open]))


def _test_all_rows(attend: Any, x: Any, is_open: Any) -> int:
    again = attend(_refilled(x, is_open), is_open)
    return int(np.allclose(attend(x, is_open), again))


def _test_moved(attend: Any, x: Any, is_open: Any) -> int:
    """Whether a real row moves when the other real ones get other numbers."""
    other = x.copy()
    other[1:][is_open[1:]] += np.linspace(1, 2, x.shape[1])
    again = attend(other, is_open)
    return int(not np.allclose(attend(x, is_open)[0], again[0]))


def _test_shape(attend: Any, x: Any, is_open: Any) -> int:
    y = attend(x, is_open)
    return int(y.shape == x.shape and bool(np.isfinite(y).all()))


EXERCISES = (
    Exercise(
        "ex-mask-hand",
        "by hand",
        (1,),
        2,
        _window,
        (
            Mistake(
                _window_afterwards,
                "The shares are right to each other and do not sum to 1: the sum below runs over the open keys alone.",
            ),
            Mistake(
                _averaged,
                "The last query has no open key. A mean of values that it may not see is not what the definition says.",
            ),
            Mistake(
                _undefined,
                "In this book a query with no open key has the output 0.",
            ),
            Mistake(
                lambda: _window(padding=None),
                "The first is right. The padding is not in the other two: open is what both masks leave open.",
            ),
            Mistake(
                lambda: _window(after=0),
                "This window looks back only. It has one key after the query's own too.",
            ),
            Mistake(
                lambda: _window(padding=THREE.T),
                "The padding shuts queries here. It shuts keys, for all queries alike.",
            ),
        ),
        axes=("answer",),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-mask-packed",
        "implement",
        (1,),
        2,
        _packed,
        (
            Mistake(
                lambda text: _packed(text, same=False),
                "Causal, and open to the text before: the second wish is missing.",
            ),
            Mistake(
                lambda text: _packed(text, order=lambda j, i: (j + i) >= 0),
                "Each text is by itself, and looks ahead: the first wish is missing.",
            ),
            Mistake(
                lambda text: _packed(text, order=np.greater_equal),
                "It looks ahead and not back: rows are queries, columns are keys.",
            ),
            Mistake(
                lambda text: _packed(text, order=np.less),
                "A word may attend to itself too. Here the first word of each text has nothing left.",
            ),
            Mistake(
                _either,
                'The two wishes are joined by "or". Both have to hold.',
            ),
            Mistake(
                lambda text: 1 - _packed(text),
                "That is the opposite table. In this book true means: may attend.",
            ),
        ),
        cases=_packed_cases,
        axes=("T", "S"),
    ),
    Exercise(
        "ex-mask-cache",
        "implement",
        (2,),
        1,
        _newest(),
        (
            Mistake(
                _top_left,
                "Right where all places are new, and only there. The first query does not stand at the first key: "
                "which corner does a cache need?",
            ),
            Mistake(
                _unmasked,
                "Right for one new place, which may attend to all. Of several, the first must not see the second.",
            ),
            Mistake(
                _newest(1),
                "The offset is one short: a query does not see its own key.",
            ),
            Mistake(
                _newest(-1),
                "The offset is one too large: each query sees the place after its own.",
            ),
        ),
        cases=_newest_cases,
        axes=("T", "D_v"),
    ),
    Exercise(
        "ex-mask-left",
        "implement",
        (1, 3),
        2,
        _cured,
        (
            Mistake(
                _left,
                "The masks are joined well, and the padded rows are still empty: open one place in each.",
            ),
            Mistake(
                lambda T, padded: causal_mask(T).astype(int),
                "Causal, and the real rows see the padding: shut those keys.",
            ),
            Mistake(
                _opened_wide,
                "No row is empty. But a padded row is to attend to its own place alone.",
            ),
            Mistake(
                _right_hand,
                "The padding stands on the left here: the first places are padding, not the last.",
            ),
            Mistake(
                _shut_queries,
                "The padded queries are shut, and the padded keys are open to the real rows. Masks shut keys.",
            ),
        ),
        cases=_left_cases,
        axes=("T", "S"),
    ),
    Exercise(
        "ex-mask-true",
        "break it",
        (3, 4),
        2,
        lambda: ("past", "past", "future", "past", "nan"),
        (
            Mistake(
                lambda: ("past", "past", "past", "past", "past"),
                "One of the four reads the table the other way round. What does it then leave to the last query?",
            ),
            Mistake(
                lambda: ("past", "future", "future", "past", "nan"),
                "Two things in PyTorch read a boolean mask, and they do not agree with each other. Look at the function again.",
            ),
            Mistake(
                lambda: ("past", "past", "future", "past", "past"),
                "The third reads the table the other way round, right. So what is open to its last query?",
            ),
            Mistake(
                lambda: ("past", "past", "future", "past", "zeros"),
                "Right up to the last word. What this layer makes of an empty row depends on whether you ask for the weights.",
            ),
        ),
        choices=("past", "future", "zeros", "nan"),
    ),
    Exercise(
        "ex-mask-test",
        "implement",
        (4,),
        3,
        _test,
        (
            Mistake(
                _test_shape,
                "It says yes to every one of them: shapes and finite numbers give nothing away. "
                "Change something that must not count.",
            ),
            Mistake(
                _test_all_rows,
                "It says no to all of them, to the right one too. Either places were changed that count, or padded rows were "
                "compared: they are queries as well, and move with what they hold.",
            ),
            Mistake(
                _test_moved,
                "It sees the inverted mask, by a real place that does not count any more. "
                "A mask that lets everything in passes it: change what must not count.",
            ),
            Mistake(
                lambda attend, x, is_open: 1 - _test(attend, x, is_open),
                "It says no to the right one and yes to the wrong ones. True is to mean that `attend` passes.",
            ),
        ),
        cases=_test_cases,
    ),
    Exercise("ex-mask-reach", "prove", (1,), 3),
)
