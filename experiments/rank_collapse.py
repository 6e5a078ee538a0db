"""How fast the rows of a sequence become alike in a stack of attention layers, and which parts of a layer matter.

32 random rows of width 64 go through layers of 4 heads that are drawn anew for each layer. Nothing is trained.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from running import run

from attention_in_detail import (
    causal_mask,
    multi_head_attention,
    self_attention,
    window_mask,
)
from attention_in_detail.insights.rank_collapse import (
    draw_layer,
    layer_with,
    log_relative_residual,
    relative_residual,
    residuals,
    row_spread,
    split_attention,
    split_rows,
    spread_bound,
)

T, D, HEADS = 32, 64, 4
SEEDS = tuple(range(10))
BARE = {"skip": False, "norm": False, "feed": False}
NEAR = window_mask(T, before=1, after=1)

# name: layers, parts that differ from pure attention, gains
STACKS: dict[str, tuple[int, dict[str, Any], dict[str, float]]] = {
    "pure": (12, {}, {}),
    "causal": (12, {"mask": causal_mask(T)}, {}),
    "near": (48, {"mask": NEAR}, {}),
    "norm": (12, {"norm": True}, {}),
    "feed": (12, {"feed": True}, {}),
    "feed4": (12, {"feed": True}, {"feed_gain": 4.0}),
    "feed16": (12, {"feed": True}, {"feed_gain": 16.0}),
    "sharp4": (12, {}, {"score_gain": 4.0}),
    "sharp16": (12, {}, {"score_gain": 16.0}),
    "sharp64": (24, {}, {"score_gain": 64.0}),
    "skip": (48, {"skip": True}, {}),
    "skip_norm": (48, {"skip": True, "norm": True}, {}),
    "whole": (48, {"skip": True, "norm": True, "feed": True}, {}),
    "scaled": (
        48,
        {"skip": True, "norm": True, "feed": True},
        {"branch_gain": 96**-0.5},
    ),
}


def start(seed: int) -> np.ndarray:
    return np.random.default_rng([seed, 9]).standard_normal((T, D))


def layers(seed: int, many: int, gains: dict[str, float]) -> list[Any]:
    return [
        draw_layer(D, HEADS, seed=1000 * seed + n, **gains)
        for n in range(many)
    ]


@cache
def curve(name: str, seed: int) -> list[float]:
    many, parts, gains = STACKS[name]
    drawn = layers(seed, many, gains)
    return residuals(drawn, start(seed), **(BARE | parts))


@cache
def frozen(seed: int) -> list[float]:
    """The weights of each layer are made from the first input; only the values go on."""
    x = y = start(seed)
    found = [relative_residual(y)]
    for layer in layers(seed, 12, {}):
        y = multi_head_attention(layer.attention, x, x, y)
        found.append(relative_residual(y))
    return found


@cache
def followed(seed: int, gain: float) -> dict[str, list[float]]:
    """Mean and residual, each for itself, through six layers of pure attention."""
    x = start(seed)
    mean, residual = split_rows(x)
    found: dict[str, list[float]] = {
        "residual": [log_relative_residual(mean, residual)],
        "spread": [math.log10(row_spread(residual))],
        "bound": [],
        "apart": [],
    }
    for layer in layers(seed, 6, {"score_gain": gain}):
        bound = spread_bound(layer.attention, row_spread(residual))
        found["bound"].append(float(np.log10(bound)))
        mean, residual = split_attention(layer.attention, mean, residual)
        x = self_attention(layer.attention, x)
        found["residual"].append(log_relative_residual(mean, residual))
        found["spread"].append(float(np.log10(row_spread(residual))))
        found["apart"].append(
            float(np.abs(mean + residual - x).max() / np.abs(x).max())
        )
    return found


def growth_beside_skips(seed: int) -> float:
    """The residual itself after 48 layers with skip connections, against its start."""
    x = start(seed)
    first = np.linalg.norm(split_rows(x)[1])
    for layer in layers(seed, 48, {}):
        x = layer_with(layer, x, skip=True, norm=False, feed=False)
    return float(np.linalg.norm(split_rows(x)[1]) / first)


LABELS = {
    **{
        f"pure_{n}": (f"pure attention, after layer {n}", ".1e")
        for n in (1, 2, 3, 4)
    },
    **{
        f"frozen_{n}": (
            f"weights from the first input, after layer {n}",
            ".1e",
        )
        for n in (4, 12)
    },
    "frozen_ratio": (
        "the same, log, step 12 / step 11",
        ".2f",
    ),
    **{
        f"causal_{n}": (f"causal mask, after layer {n}", ".1e")
        for n in (4, 8, 12)
    },
    **{
        f"near_{n}": (f"window of one on each side, after layer {n}", ".2f")
        for n in (12, 48)
    },
    **{
        f"norm_{n}": (f"layer norm, no skip, after layer {n}", ".1e")
        for n in (2, 3, 4)
    },
    **{
        f"feed_{n}": (f"feed-forward, no skip, after layer {n}", ".1e")
        for n in (2, 3)
    },
    **{
        f"feed{gain}_{n}": (
            f"feed-forward × {gain}, no skip, after layer {n}",
            ".1e",
        )
        for gain in (4, 16)
        for n in (3, 4, 6)
    },
    **{
        f"sharp{gain}_{n}": (f"scores × {gain}, after layer {n}", ".1e")
        for gain, at in ((4, (3, 4)), (16, (4, 6, 12)), (64, (6, 12, 24)))
        for n in at
    },
    **{
        f"skip_{n}": (f"skip, after layer {n}", form)
        for n, form in ((4, ".2f"), (12, ".2f"), (48, ".1e"))
    },
    "skip_growth": (
        "skip, growth of the residual itself, 48 layers",
        ".1f",
    ),
    **{
        f"skip_norm_{n}": (f"skip and layer norm, after layer {n}", ".2f")
        for n in (12, 48)
    },
    **{
        f"whole_{n}": (f"whole encoder layer, after layer {n}", ".2f")
        for n in (12, 48)
    },
    "scaled_48": (
        "whole, branches divided by √96, after layer 48",
        ".2f",
    ),
    **{
        f"log_{n}": (
            f"log₁₀, pure attention, after layer {n}",
            ".1f",
        )
        for n in (3, 4, 5, 6)
    },
    **{
        f"ratio_{name}_{n}": (
            f"log, step {n} / step {n - 1}, scores × {gain}",
            ".2f",
        )
        for name, gain, at in (
            ("quarter", "1/4", (4, 5)),
            ("one", "1", (3, 4, 5, 6)),
            ("four", "4", (5, 6)),
        )
        for n in at
    },
    "apart": ("two parts against the whole, largest difference", ".1e"),
    **{
        f"spread_{n}": (f"log₁₀ of the spread after layer {n}", ".1f")
        for n in (1, 2, 3, 4)
    },
    **{
        f"bound_{n}": (f"log₁₀ of its bound from layer {n - 1}", ".1f")
        for n in (1, 2, 3, 4)
    },
    "first_useful": ("first layer whose bound is below its input", ".0f"),
}


def measure(seed: int) -> dict[str, float]:
    found = {
        f"{name}_{n}": r
        for name in STACKS
        for n, r in enumerate(curve(name, seed))
    }
    found |= {f"frozen_{n}": r for n, r in enumerate(frozen(seed))}
    logs = np.log10(frozen(seed))
    found["frozen_ratio"] = (logs[12] - logs[11]) / (logs[11] - logs[10])
    found["skip_growth"] = growth_beside_skips(seed)
    for name, gain in (("quarter", 0.25), ("one", 1.0), ("four", 4.0)):
        steps = np.diff(followed(seed, gain)["residual"][:7])
        for n in range(2, 7):
            found[f"ratio_{name}_{n}"] = steps[n - 1] / steps[n - 2]
    one = followed(seed, 1.0)
    found["apart"] = max(one["apart"])
    for n in range(1, 7):
        found[f"log_{n}"] = one["residual"][n]
        found[f"spread_{n}"] = one["spread"][n]
        found[f"bound_{n}"] = one["bound"][n - 1]
    found["first_useful"] = next(
        n for n in range(1, 7) if one["bound"][n - 1] < one["spread"][n - 1]
    )
    return {key: found[key] for key in LABELS}


def curves() -> dict[str, Any]:
    """Means of the log₁₀ over the seeds."""

    def mean(rows: list[list[float]]) -> list[float]:
        return [float(f"{x:.5g}") for x in np.mean(rows, axis=0)]

    drawn = {
        name: mean([np.log10(curve(name, seed)) for seed in SEEDS])
        for name in STACKS
    }
    drawn["frozen"] = mean([np.log10(frozen(seed)) for seed in SEEDS])
    for key in ("residual", "spread", "bound"):
        drawn[f"followed_{key}"] = mean(
            [followed(seed, 1.0)[key] for seed in SEEDS]
        )
    return drawn


if __name__ == "__main__":
    with np.errstate(divide="ignore", invalid="ignore"):
        run("rank_collapse", measure, LABELS, seeds=SEEDS, more=curves)
