"""Exercises of the chapter *The backward pass*."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attention_in_detail.backward import attention_gradients
from attention_in_detail.exercises.compatibility import (
    KEYS,
    QUERY,
    VALUES,
)
from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.recomputing import training_cost
from attention_in_detail.scaled_dot_product import (
    attention,
    attention_weights,
)

__all__ = ["EXERCISES", "KEYS", "QUERIES", "VALUES"]

# The example is that of chapter 03, whose keys and values these are; its loss is the first coordinate of the output.
QUERIES = QUERY
WISH = np.array([[1.0, 0]])

# ---- a tie and a winner ----

TWO = np.array([3.0, 7])  # the values, of width 1
SHARES = np.array([[0.5, 0.5], [0.75, 0.25], [0.99, 0.01]])


def _pulls() -> Any:
    """The derivatives by two scores that give these weights: those of a bias."""
    one = np.ones((1, 1))
    return np.stack(
        [
            attention_gradients(
                0 * one, np.ones((2, 1)), TWO[:, None], one, bias=np.log(a)
            ).bias
            for a in SHARES
        ]
    )


# ---- the whole way back ----


def _cases() -> Iterator[Case]:
    rng = np.random.default_rng(31)

    def drawn(T: int, S: int, D_k: int, D_v: int) -> tuple[Any, ...]:
        sizes = (T, D_k), (S, D_k), (S, D_v), (T, D_v)
        return tuple(rng.standard_normal(size) for size in sizes)

    yield Case("three queries and five keys", drawn(3, 5, 4, 2))
    yield Case("as many keys as queries", drawn(4, 4, 3, 5))
    yield Case("one query", drawn(1, 6, 2, 3))


def _by_keys(Q: Any, K: Any, V: Any, dY: Any) -> Any:
    return attention_gradients(Q, K, V, dY).keys


def _keys_with(
    through: Callable[[Any, Any], Any], power: float = -0.5
) -> Callable[..., Any]:
    """The gradient of the keys with another step through the softmax, or another power of the width."""

    def by_keys(Q: Any, K: Any, V: Any, dY: Any) -> Any:
        A = attention_weights(Q, K)
        return through(A, dY @ V.T).T @ Q * Q.shape[-1] ** power

    return by_keys


def _right_step(A: Any, dA: Any) -> Any:
    return A * (dA - (A * dA).sum(-1, keepdims=True))


def _no_mean(A: Any, dA: Any) -> Any:
    return A * dA


def _as_sigmoid(A: Any, dA: Any) -> Any:
    return A * (1 - A) * dA


def _plain_mean(A: Any, dA: Any) -> Any:
    return A * (dA - dA.mean(-1, keepdims=True))


def _plain_sum(A: Any, dA: Any) -> Any:
    return A * (dA - dA.sum(-1, keepdims=True))


def _no_weight(A: Any, dA: Any) -> Any:
    return dA - (A * dA).sum(-1, keepdims=True)


def _over_queries(A: Any, dA: Any) -> Any:
    return A * (dA - (A * dA).sum(-2, keepdims=True))


# ---- which check notices ----


def _slopes_agree(dK: Any, Q: Any, K: Any, V: Any, dY: Any) -> bool:
    eps, slopes = 1e-5, np.zeros_like(K)
    for place in np.ndindex(K.shape):
        nudge = np.zeros_like(K)
        nudge[place] = eps
        up, down = (attention(Q, K + n, V) for n in (nudge, -nudge))
        slopes[place] = ((up - down) * dY).sum() / (2 * eps)
    return bool(np.allclose(dK, slopes, rtol=0, atol=1e-6))


def _cheapest(step: Callable[[Any, Any], Any], close: Any) -> str:
    """The first check that notices that the gradient of the keys is made in this way."""
    Q, K, V, dY = next(_cases()).arguments
    A = attention_weights(Q, K)
    dZ = step(A, dY @ V.T)
    dK = close(dZ, Q)
    if dK.shape != K.shape:
        return "shape"
    if not np.allclose(dZ.sum(-1), 0):
        return "rows"
    assert not _slopes_agree(dK, Q, K, V, dY)
    return "slopes"


@functools.cache
def _noticed() -> tuple[str, ...]:
    def product(dZ: Any, Q: Any) -> Any:
        return dZ.T @ Q / np.sqrt(Q.shape[-1])

    return (
        _cheapest(_no_mean, product),
        _cheapest(_right_step, lambda dZ, Q: dZ.T @ Q),
        _cheapest(_plain_mean, product),
        _cheapest(lambda A, dA: -_right_step(A, dA), product),
        _cheapest(_right_step, lambda dZ, Q: (Q.T @ dZ) / 2),
    )


# ---- how small a step ----

POWERS = (1, 3, 5, 7, 9, 11)


def _errors(dtype: Any = np.float64) -> list[float]:
    """How far the slopes by the query are off, for each step."""
    q, k, v, dY = (x.astype(dtype) for x in (QUERIES, KEYS, VALUES, WISH))
    right = attention_gradients(QUERIES, KEYS, VALUES, WISH).queries[0]
    found = []
    for power in POWERS:
        eps = dtype(10.0**-power)
        slopes = []
        for c in range(q.shape[-1]):
            nudge = np.zeros_like(q)
            nudge[0, c] = eps
            up, down = (attention(q + n, k, v) for n in (nudge, -nudge))
            slopes.append(((up * dY).sum() - (down * dY).sum()) / (2 * eps))
        found.append(float(np.abs(right - slopes).max()))
    return found


def _best(dtype: Any = np.float64) -> int:
    return POWERS[int(np.argmin(_errors(dtype)))]


# ---- the price of computing again ----

T, S, D_K, D_V, HEADS, ITEMSIZE = 1024, 4096, 64, 192, 16, 2


def _price(D_k: int = D_K, D_v: int = D_V) -> list[float]:
    kept, again = (
        training_cost(
            T, S, D_k, D_v, entries=HEADS, itemsize=2, recompute=way
        )
        for way in (False, True)
    )
    return [
        again.multiply_adds / kept.multiply_adds,
        kept.bytes_kept / again.bytes_kept,
    ]


def _price_back() -> list[float]:
    kept, again = (
        training_cost(T, S, D_K, D_V, recompute=way).multiply_adds_backward
        for way in (False, True)
    )
    return [again / kept, _price()[1]]


EXERCISES = (
    Exercise(
        "ex-backward-tie",
        "by hand",
        (1,),
        1,
        _pulls,
        (
            Mistake(
                lambda: SHARES * TWO,
                "That is weight times value. What counts is how far a value lies beyond the output: take the output off first.",
            ),
            Mistake(
                lambda: SHARES * (1 - SHARES) * TWO,
                "That is the slope of a sigmoid. In a softmax each weight depends on both scores.",
            ),
            Mistake(
                lambda: SHARES * (TWO - TWO.mean()),
                "The plain mean of the values was taken off. The output is their mean under the weights.",
            ),
            Mistake(
                lambda: TWO - (SHARES @ TWO)[:, None],
                "That is how far each value lies beyond the output. One factor is missing: its weight.",
            ),
            Mistake(
                lambda: -_pulls(),
                "The sign is the other way round everywhere: value less output, not output less value.",
            ),
        ),
        axes=("pair of weights", "S"),
        remark="As the winner takes more, both entries go to 0: the scores hardly move any more, however wrong the output is.",
    ),
    Exercise(
        "ex-backward-keys",
        "implement",
        (2,),
        2,
        _by_keys,
        (
            Mistake(
                _keys_with(_no_mean),
                "The step through the softmax has no mean taken off: each row of dZ must sum to 0.",
            ),
            Mistake(
                _keys_with(_as_sigmoid),
                "The softmax is taken for a function of single numbers. Each weight depends on all scores of its row.",
            ),
            Mistake(
                _keys_with(_plain_mean),
                "The mean of a row of dA is taken without the weights.",
            ),
            Mistake(
                _keys_with(_plain_sum),
                "δ is the sum under the weights, A · dA.",
            ),
            Mistake(
                _keys_with(_no_weight),
                "One factor is missing in dZ: the weight.",
            ),
            Mistake(
                _keys_with(_over_queries),
                "The mean runs along the queries. The softmax, and so its way back, runs along the keys.",
            ),
            Mistake(
                _keys_with(_right_step, 0.0),
                "The scale is missing: the scores were divided by the root of D_k, so their derivatives by the keys are too.",
            ),
            Mistake(
                _keys_with(_right_step, -1.0),
                "The scale is there twice, or D_k stands in place of its root.",
            ),
            Mistake(
                lambda Q, K, V, dY: (
                    attention_gradients(Q, K, V, dY).queries
                ),
                "That is the gradient of the queries. A key is met by all queries: the sum runs over them.",
            ),
        ),
        cases=_cases,
        axes=("S", "D_k"),
        remark="(That no ready gradient is called, only you can see.)",
    ),
    Exercise("ex-backward-scale", "prove", (2, 3), 2),
    Exercise("ex-backward-shift", "prove", (2,), 3),
    Exercise(
        "ex-backward-notice",
        "break it",
        (3,),
        2,
        _noticed,
        (
            Mistake(
                lambda: ["slopes"] * len(_noticed()),
                "The slopes notice each of them, yes. But two runs for each number are dear: which cheaper check does it too?",
            ),
            Mistake(
                lambda: ["rows"] * len(_noticed()),
                "Rows of dZ sum to 0 whenever the weighted mean is taken off, whatever is done to dZ later.",
            ),
            Mistake(
                lambda: [
                    "slopes" if one == "shape" else one
                    for one in _noticed()
                ],
                "Nearly. In one of them an array comes out turned: something still cheaper tells.",
            ),
            Mistake(
                lambda: [
                    "rows" if n == 1 else one
                    for n, one in enumerate(_noticed())
                ],
                "Look at the scale again: it is a factor of the gradient by the keys, and dZ has none of it.",
            ),
        ),
        choices=("shape", "rows", "slopes"),
    ),
    Exercise(
        "ex-backward-step",
        "measure",
        (3,),
        2,
        _best,
        (
            Mistake(
                lambda: POWERS[-1],
                "That is the smallest step. The two losses differ in their last digits then: the slope is all rounding.",
            ),
            Mistake(
                lambda: POWERS[0],
                "That is the largest step. So long a chord is not the tangent.",
            ),
            Mistake(
                lambda: _best(np.float32),
                "That is the best step for float32. The arrays of the page are float64.",
            ),
            Mistake(
                lambda: -_best(),
                "The answer is n, the number of places, not the exponent with its sign.",
            ),
            Mistake(
                lambda: 10.0 ** -_best(),
                "That is ε. Asked for is n.",
            ),
            Mistake(
                lambda: _best() + 2,
                "Already rounding: print the distance for each n, it rises again.",
            ),
            Mistake(
                lambda: _best() + 4,
                "All rounding: print the distance for each n. It falls, and then it rises again.",
            ),
            Mistake(
                lambda: _best() - 1,
                "n is one of the six that the exercise names, which are odd.",
            ),
            Mistake(
                lambda: _best() + 1,
                "That is none of the six n that the exercise names. They are odd.",
            ),
        ),
        remark="A larger step is off by its square, a smaller one by rounding, which it divides by the step.",
    ),
    Exercise(
        "ex-backward-price",
        "by hand",
        (4,),
        1,
        _price,
        (
            Mistake(
                _price_back,
                "The first number is that of the way back alone. Both ways together are asked for.",
            ),
            Mistake(
                lambda: [_price(D_K, D_K)[0], _price()[1]],
                "The first number is for values as wide as the keys. Here they are wider.",
            ),
            Mistake(
                lambda: [_price(D_V, D_K)[0], _price()[1]],
                "What is computed again are the scores: a product of queries and keys, whose width is D_k.",
            ),
            Mistake(
                lambda: [_price()[0], S / D_V],
                "The first number is right. Besides the output, two more numbers are kept for each query.",
            ),
            Mistake(
                lambda: [_price()[0], S / (D_K + 2)],
                "The first number is right. What is kept of the output has the width of the values.",
            ),
            Mistake(
                lambda: [_price()[0], 1 / _price()[1]],
                "The first number is right, the second is upside down.",
            ),
        ),
        axes=("answer",),
        tolerance=1e-3,
    ),
)
