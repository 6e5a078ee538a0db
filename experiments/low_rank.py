"""Chapter 25: how many dimensions attention weights need, in random, trained and real heads.

    python experiments/low_rank.py

Needs the weights of requirements-weights.txt.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy starts its threads
os.environ["OPENBLAS_NUM_THREADS"] = "1"

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from running import SEEDS, run
from texts import projected, window

from attention_in_detail import attention, attention_weights, scores
from attention_in_detail.insights.look_up import draw_items, train_reader
from attention_in_detail.insights.low_rank import (
    circle_heads,
    linformer_attention,
    mean_pooling,
    random_projection,
    rank_for_energy,
    relative_error,
    relative_projection_error,
    spectrum_share,
    total_variation,
    truncated,
)
from attention_in_detail.insights.low_rank_fits import (
    fit_heads,
    fit_projections,
)
from attention_in_detail.models import load_minilm

torch.set_num_threads(1)
T, D_H = 256, 32
RANKS = (8, 16, 32, 64, 128)
READER_RANKS = (1, 4, 8, 16, 32)
WIDTHS = (1, 2, 4, 8, 16, 32)
CURVES: dict[str, dict[str, list[np.ndarray]]] = {}

LABELS = {
    "random_logit_rank": (
        "Random head, width 32: rank of the scores, of 256",
        ".0f",
    ),
    "random_weight_rank": (
        "the same head: rank of the weights, of 256",
        ".0f",
    ),
    "random_energy": (
        "the same head: energy of the weights at rank 32",
        ".3f",
    ),
    "random_sharp_energy": (
        "scores times 4: energy of the weights at rank 32",
        ".3f",
    ),
    "real_energy": (
        "MiniLM, mean of 72 heads: energy at rank 32, of 256",
        ".3f",
    ),
    "real_logit_rank": (
        "MiniLM: mean numerical rank of the scores, of 256",
        ".1f",
    ),
    "real_sum": (
        "MiniLM: share of the sum of singular values at 32",
        ".3f",
    ),
    "shuffled_energy": (
        "control, each row of MiniLM's weights shuffled: energy at 32",
        ".3f",
    ),
    "real_rank_median": (
        "MiniLM, rank for 90 % of the energy: median head",
        ".1f",
    ),
    "real_rank_most": ("and the head that needs most", ".0f"),
    "real_full_rank": (
        "MiniLM: mean numerical rank of the weights, of 256",
        ".1f",
    ),
    "error_svd": (
        "MiniLM, output error at 32, median head: best of rank 32",
        ".3f",
    ),
    "error_pool": ("Linformer form, mean pooling, 32 runs", ".3f"),
    "error_random": ("Linformer form, random projection to 32", ".1f"),
    "error_jl": ("weights times RᵀR, R random, 32 rows", ".1f"),
    "jl_predicted": ("and the error that the formula predicts", ".1f"),
    "jl_222": ("the same with 222 rows, of 256", ".2f"),
    "error_uniform": ("control: uniform weights", ".3f"),
    "error_pool_short": (
        "texts of 128 tokens: mean pooling, 32 runs",
        ".3f",
    ),
    "error_learned": (
        "texts of 128 tokens: projections learned for each head, 32",
        ".3f",
    ),
    "look_up_full": (
        "Trained, look-up among 32: accuracy of attention",
        ".3f",
    ),
    "look_up_energy": ("energy of its weights at rank 16, of 32", ".3f"),
    "look_up_rank": ("its rank for 90 % of the energy, of 32", ".1f"),
    **{
        f"look_up_{k}": (f"look-up, Linformer trained with k = {k}", ".3f")
        for k in READER_RANKS
    },
    "frequent_full": (
        "Trained, most frequent of 32: accuracy of attention",
        ".3f",
    ),
    "frequent_rank": ("its rank for 90 % of the energy, of 32", ".1f"),
    **{
        f"frequent_{k}": (
            f"most frequent, Linformer trained with k = {k}",
            ".3f",
        )
        for k in READER_RANKS
    },
    **{
        f"dense_{d}": (
            f"Random target, T = 32: distance of the best head of width {d}",
            ".3f",
        )
        for d in WIDTHS
    },
    **{
        f"permutation_{d}": (
            f"Permutation, T = 32: distance of the best head of width {d}",
            ".1e",
        )
        for d in WIDTHS
    },
    **{
        f"circle_{c}": (f"Permutation, keys on a circle, c = {c}", ".1e")
        for c in (10, 100, 1000)
    },
}


def keep(name: str, series: str, values: Any) -> None:
    CURVES.setdefault(name, {}).setdefault(series, []).append(
        np.asarray(values, dtype=float)
    )


def rank(matrix: np.ndarray) -> np.ndarray:
    sigma = np.linalg.svdvals(matrix)
    return np.sum(sigma > 1e-10 * sigma[..., :1], axis=-1)


@cache
def model() -> Any:
    return load_minilm("float64")


def of_random(seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    q, k = (rng.standard_normal((T, D_H)) for _ in range(2))
    weights = attention_weights(q, k)
    held = spectrum_share(weights)
    keep("energy", "random head", held)
    sharp = attention_weights(q, k, scale=4 / np.sqrt(D_H))
    return {
        "random_logit_rank": rank(scores(q, k)),
        "random_weight_rank": rank(weights),
        "random_energy": held[31],
        "random_sharp_energy": spectrum_share(sharp)[31],
    }


def of_minilm(seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    q, k, v = projected(model(), window(model(), seed, T))
    weights = attention_weights(q, k)
    held = spectrum_share(weights)
    for layer in range(6):
        keep(
            "energy",
            f"layer {layer}",
            held[12 * layer : 12 * layer + 12].mean(axis=0),
        )
    shuffled = spectrum_share(rng.permuted(weights, axis=-1))
    keep("energy", "rows shuffled", shuffled.mean(axis=0))
    need = rank_for_energy(weights)
    exact = weights @ v
    found = {
        "real_energy": held[:, 31].mean(),
        "real_logit_rank": rank(scores(q, k)).mean(),
        "real_sum": spectrum_share(weights, power=1)[:, 31].mean(),
        "shuffled_energy": shuffled[:, 31].mean(),
        "real_rank_median": np.median(need),
        "real_rank_most": need.max(),
        "real_full_rank": rank(weights).mean(),
        "error_uniform": np.median(
            relative_error(
                np.broadcast_to(v.mean(1, keepdims=True), v.shape) + 0.0,
                exact,
            )
        ),
    }
    for n in RANKS:
        R, pool = random_projection(n, T, seed=seed), mean_pooling(n, T)
        outputs = {
            "svd": truncated(weights, n) @ v,
            "pool": linformer_attention(q, k, v, pool, pool),
            "random": linformer_attention(q, k, v, R, R),
            "jl": weights @ R.T @ (R @ v),
        }
        for name, output in outputs.items():
            error = np.median(relative_error(output, exact))
            keep("errors", name, error)
            if n == 32:
                found[f"error_{name}"] = error
    squared = relative_projection_error(weights, v, 1) ** 2
    found["jl_predicted"] = np.median(np.sqrt(squared / 32))
    R = random_projection(222, T, seed=seed)
    found["jl_222"] = np.median(
        relative_error(weights @ R.T @ (R @ v), exact)
    )
    return found


@cache
def examples() -> list[torch.Tensor]:
    """Queries, keys and values of 24 texts of 128 tokens to learn from."""
    texts = [
        projected(model(), window(model(), 100 + n, 128)) for n in range(24)
    ]
    return [
        torch.asarray(np.stack(x)).to(torch.float32)
        for x in zip(*texts, strict=True)
    ]


def of_learned(seed: int) -> dict[str, float]:
    E, F = fit_projections(*examples(), 32, seed=seed, steps=200)
    q, k, v = (
        torch.asarray(x).to(torch.float32)
        for x in projected(model(), window(model(), seed, 128))
    )
    pool = torch.asarray(mean_pooling(32, 128)).to(torch.float32)
    exact = attention(q, k, v)
    return {
        name: float(
            relative_error(
                linformer_attention(q, k, v, *pair), exact
            ).median()
        )
        for name, pair in (
            ("error_learned", (E, F)),
            ("error_pool_short", (pool, pool)),
        )
    }


def of_readers(seed: int) -> dict[str, float]:
    found = {}
    for task, short in (
        ("look up", "look_up"),
        ("most frequent", "frequent"),
    ):
        test = draw_items(
            task, 64, 32, 32, torch.Generator().manual_seed(1000 + seed)
        )
        reader = train_reader(task, seed=seed)
        found[f"{short}_full"] = reader.right(test).double().mean()
        weights = attention_weights(*reader.projected(test)[:2]).numpy()
        found[f"{short}_rank"] = rank_for_energy(weights).mean()
        held = spectrum_share(weights).mean(axis=0)
        keep("reader_energy", task, held)
        if task == "look up":
            found["look_up_energy"] = held[15]
        for n in READER_RANKS:
            E, F = (
                torch.asarray(random_projection(n, 32, seed=2 * seed + i))
                * (n / 32) ** 0.5
                for i in range(2)
            )
            pair = [x.requires_grad_() for x in (E, F)]
            reader = train_reader(
                task,
                lambda q, k, v, pair=pair: linformer_attention(
                    q, k, v, *pair
                ),
                pair,
                seed=seed,
            )
            found[f"{short}_{n}"] = reader.right(test).double().mean()
    return found


def of_narrow_heads(seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    order = rng.permutation(32)
    targets = {
        "dense": torch.asarray(2 * rng.standard_normal((32, 32))).softmax(
            -1
        ),
        "permutation": torch.eye(32, dtype=torch.float64)[order],
    }
    found = {
        f"{name}_{d}": float(total_variation(fit_heads(P, d, seed=seed), P))
        for name, P in targets.items()
        for d in WIDTHS
    }
    P = targets["permutation"].numpy()
    for c in (10, 100, 1000):
        weights = attention_weights(*circle_heads(order, 32, scale=c))
        found[f"circle_{c}"] = total_variation(weights, P)
    return found


def measure(seed: int) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for part in (
        of_random,
        of_minilm,
        of_learned,
        of_readers,
        of_narrow_heads,
    ):
        found |= part(seed)
        print(f"  {part.__name__}", flush=True)
    return found


def more() -> dict[str, Any]:
    def rounded(x: np.ndarray) -> list[float]:
        return [float(f"{value:.4g}") for value in x]

    at = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    return {
        "ranks": at,
        "energy": {
            name: rounded(np.mean(runs, axis=0)[[k - 1 for k in at]])
            for name, runs in CURVES["energy"].items()
        },
        "reader_energy": {
            name: rounded(np.mean(runs, axis=0))
            for name, runs in CURVES["reader_energy"].items()
        },
        "error_ranks": RANKS,
        "errors": {
            name: rounded(
                np.mean(np.reshape(runs, (len(SEEDS), -1)), axis=0)
            )
            for name, runs in CURVES["errors"].items()
        },
        "reader_ranks": READER_RANKS,
        "widths": WIDTHS,
    }


if __name__ == "__main__":
    run(
        "low_rank",
        measure,
        LABELS,
        packages=("numpy", "torch"),
        more=more,
    )
