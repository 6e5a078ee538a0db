"""How much a memory of outer products holds, and what the delta rule changes.

The same pairs go into every memory: keys of width 32, values of width 32, all drawn from a normal distribution; keys are
brought to length 1. Error is the relative distance of what is read with the stored keys from what was stored.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from running import run

from attention_in_detail import attention
from attention_in_detail.insights.fast_weights import (
    dpfp,
    elu_plus_one,
    fast_weights,
    linear_attention,
    nearest_share,
    read,
    recall_error,
    unit_rows,
    write_by_delta,
    write_sum,
)

WIDTH = 32
SEEDS = tuple(range(10))
PAIRS = (4, 8, 16, 24, 32, 40, 48, 64, 96, 128)
MAPS = {
    "identity": lambda x: x,
    "elu": elu_plus_one,
    "dpfp1": lambda x: dpfp(x, 1),
    "dpfp2": lambda x: dpfp(x, 2),
    "dpfp3": lambda x: dpfp(x, 3),
}


def pairs(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Orthonormal keys (beyond the width: random ones after them), random keys, and values."""
    draw = np.random.default_rng([seed, n])
    basis, _ = np.linalg.qr(draw.standard_normal((WIDTH, WIDTH)))
    spare = unit_rows(draw.standard_normal((n, WIDTH)))
    orthonormal = np.concatenate([basis, spare])[:n]
    random = unit_rows(draw.standard_normal((n, WIDTH)))
    return orthonormal, random, draw.standard_normal((n, WIDTH))


@cache
def capacity(n: int, seed: int) -> dict[str, float]:
    orthonormal, random, values = pairs(n, seed)
    best = np.linalg.pinv(random) @ values  # (d, D_v), least squares
    by_sum = read(write_sum(random, values), random)
    by_delta = read(write_by_delta(random, values), random)
    sharp = attention(random, random, values, scale=64.0)
    flat = attention(random, random, values)  # 1/√32: almost uniform
    return {
        "orthonormal": recall_error(
            read(write_sum(orthonormal, values), orthonormal), values
        ),
        "random": recall_error(by_sum, values),
        "best": recall_error(random @ best, values),
        "softmax": recall_error(sharp, values),
        "softmax_flat": recall_error(flat, values),
        "delta": recall_error(by_delta, values),
        "random_right": nearest_share(by_sum, values),
        "delta_right": nearest_share(by_delta, values),
        "delta_right_last": share_of_last(by_delta, values, 8),
    }


def share_of_last(
    found: np.ndarray, stored: np.ndarray, last: int
) -> float:
    """The same share among the pairs that were written last, still against all values."""
    apart = ((found[-last:, None] - stored[None]) ** 2).sum(-1)
    return float((apart.argmin(1) == np.arange(len(stored))[-last:]).mean())


def equality(seed: int) -> dict[str, float]:
    """The largest difference of the two ways to compute, relative to the largest output."""
    draw = np.random.default_rng([seed, 1])
    q, k, v = draw.standard_normal((3, 128, 16))

    def apart(q: np.ndarray, k: np.ndarray, normalized: bool) -> float:
        one = linear_attention(q, k, v, normalized=normalized)
        two = fast_weights(q, k, v, normalized=normalized)
        return float(np.abs(one - two).max() / np.abs(one).max())

    positive = elu_plus_one(q), elu_plus_one(k)
    return {
        "equal_identity": apart(q, k, False),
        "equal_elu": apart(*positive, False),
        "equal_normalized": apart(*positive, True),
    }


def rewriting(times: int, seed: int) -> dict[str, float]:
    """Eight keys, each written so many times with a new value; the latest is to be read."""
    draw = np.random.default_rng([seed, times, 2])
    orthonormal, random, _ = pairs(WIDTH, seed)
    order = np.concatenate([draw.permutation(8) for _ in range(times)])
    values = draw.standard_normal((len(order), WIDTH))
    latest = values[[np.flatnonzero(order == i)[-1] for i in range(8)]]
    found = {}
    for name, keys in (("orthonormal", orthonormal), ("random", random)):
        for rule, write in (("sum", write_sum), ("delta", write_by_delta)):
            memory = write(keys[order], values)
            found[f"rewrite_{rule}_{name}_{times}"] = recall_error(
                read(memory, keys[:8]), latest
            )
    return found


def feature_maps(n: int, seed: int) -> dict[str, float]:
    draw = np.random.default_rng([seed, n, 3])
    keys, values = draw.standard_normal((2, n, WIDTH))
    found = {}
    positive = elu_plus_one(keys)
    weights = positive @ positive.T
    weights /= weights.sum(axis=1, keepdims=True)
    found["map_elu_normalized"] = recall_error(weights @ values, values)
    for name, feature_map in MAPS.items():
        features = unit_rows(feature_map(keys))
        for rule, write in (("sum", write_sum), ("delta", write_by_delta)):
            memory = write(features, values)
            found[f"map_{name}_{rule}"] = recall_error(
                read(memory, features), values
            )
    return found


LABELS = {
    "equal_identity": ("two ways to compute, no feature map", ".1e"),
    "equal_elu": ("two ways to compute, elu + 1", ".1e"),
    "equal_normalized": (
        "two ways to compute, elu + 1, normalized",
        ".1e",
    ),
    "orthonormal_32": ("error, 32 orthonormal keys, sum", ".1e"),
    **{
        f"orthonormal_{n}": (
            f"error, {n} keys (32 orthonormal), sum",
            ".2f",
        )
        for n in (40, 48, 64, 128)
    },
    **{
        f"random_{n}": (f"error, {n} random keys, sum", ".2f")
        for n in (8, 16, 32, 64, 128)
    },
    **{
        f"best_{n}": (f"error, {n} random keys, best matrix", ".2f")
        for n in (40, 64, 128)
    },
    **{
        f"softmax_{n}": (f"error, {n} random keys, softmax", ".1e")
        for n in (32, 128)
    },
    "softmax_flat_32": (
        "error, 32 random keys, softmax of the usual scale",
        ".2f",
    ),
    **{
        f"random_right_{n}": (
            f"right value nearest, {n} random keys, sum",
            ".2f",
        )
        for n in (32, 64, 128)
    },
    "delta_64": ("error, 64 random keys, delta", ".2f"),
    "delta_right_64": (
        "right value nearest, 64 random keys, delta",
        ".2f",
    ),
    "delta_right_last_64": (
        "right value nearest, the 8 keys written last, delta",
        ".2f",
    ),
    **{
        f"rewrite_{rule}_{keys}_{times}": (
            f"error, 8 {keys} keys written {times} times, {rule}",
            ".1e" if (rule, keys) == ("delta", "orthonormal") else ".2f",
        )
        for rule in ("sum", "delta")
        for keys in ("orthonormal", "random")
        for times in (1, 2, 4, 8)
    },
    **{
        f"map_{name}_{rule}": (
            f"error, 64 keys, {words}, {rule}",
            ".2f",
        )
        for name, words in {
            "identity": "no feature map",
            "elu": "elu + 1",
            "dpfp1": "DPFP, ν = 1",
            "dpfp2": "DPFP, ν = 2",
            "dpfp3": "DPFP, ν = 3",
        }.items()
        for rule in ("sum", "delta")
    },
    "map_elu_normalized": ("error, 64 keys, elu + 1, normalized", ".2f"),
}


def measure(seed: int) -> dict[str, float]:
    found = equality(seed) | feature_maps(64, seed)
    for n in PAIRS:
        found |= {f"{k}_{n}": x for k, x in capacity(n, seed).items()}
    for times in (1, 2, 4, 8):
        found |= rewriting(times, seed)
    return {key: found[key] for key in LABELS}


def curves() -> dict[str, object]:
    """Mean and spread of the error over the seeds, for each number of pairs."""
    drawn: dict[str, object] = {"pairs": list(PAIRS)}
    for kind in ("orthonormal", "random", "best", "softmax", "delta"):
        errors = np.array(
            [[capacity(n, seed)[kind] for n in PAIRS] for seed in SEEDS]
        )
        drawn[kind] = {
            "mean": [float(f"{x:.6g}") for x in errors.mean(0)],
            "spread": [float(f"{x:.6g}") for x in errors.std(0, ddof=1)],
        }
    return drawn


if __name__ == "__main__":
    run("fast_weights", measure, LABELS, seeds=SEEDS, more=curves)
