"""How many directions the heads need to share: spectra, and what is left when projections are shared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import torch
from running import SEEDS, run

from attention_in_detail import self_attention
from attention_in_detail.insights.pruning import (
    attentions,
    with_attentions,
)
from attention_in_detail.insights.shared_projections import (
    SharedProjections,
    data_root,
    directions_for,
    fit_shared,
    own_projections,
    relative_error,
    score_products,
    strongest_shared,
    with_shared,
)
from attention_in_detail.insights.translator import (
    exact_match,
    split,
    tensor_batch,
    train_translator,
)
from attention_in_detail.models.minilm import encode, load_minilm
from attention_in_detail.trees import map_arrays

WIDTHS = (48, 32, 24, 16, 8, 4)
LAYERS = (0, 2, 5)
TOKENS = 128
CURVES: dict[str, list[list[float]]] = {"shared": [], "own": []}

LABELS = {
    "accuracy": ("exact match of the translator", ".3f"),
    **{
        f"shared_{K}": (f"exact match, shared, K = {K}", ".3f")
        for K in WIDTHS
    },
    **{
        f"own_{K}": (f"exact match, each head its own, K = {K}", ".3f")
        for K in WIDTHS
        if K >= 8
    },
    "error_shared_16": ("error of the products, shared, K = 16", ".2f"),
    "error_own_16": ("error of the products, own, K = 16", ".2f"),
    "error_shared_8": ("error of the products, shared, K = 8", ".2f"),
    "error_own_8": ("error of the products, own, K = 8", ".2f"),
    "head": ("translator: directions of one head, of 8", ".1f"),
    "query": ("translator: directions of W_Q, of 64", ".1f"),
    "product": ("translator: directions of the product, of 64", ".1f"),
    "rotated": ("translator: the product rotated inside, of 64", ".1f"),
    "minilm_head": ("MiniLM: directions of one head, of 32", ".1f"),
    "minilm_query": ("MiniLM: directions of W_Q, of 384", ".1f"),
    "minilm_product": ("MiniLM: directions of the product, of 384", ".1f"),
    "minilm_rotated": ("MiniLM: the product rotated inside", ".1f"),
    "minilm_data": ("MiniLM: the product on data", ".1f"),
    "minilm_data_rotated": (
        "MiniLM: the product rotated inside, on data",
        ".1f",
    ),
    **{
        f"minilm_{how}_{K}": (
            f"MiniLM: change of the weights, {words}, K = {K}",
            ".3f",
        )
        for K in (96, 24)
        for how, words in (("shared", "shared"), ("own", "own"))
    },
    "minilm_uniform": (
        "MiniLM: distance of the weights from uniform ones",
        ".3f",
    ),
}
Fit = Callable[[Any], SharedProjections]


def rotation(size: int, rng: np.random.Generator) -> np.ndarray:
    Q, R = np.linalg.qr(rng.standard_normal((size, size)))
    return Q * np.sign(np.diag(R))


def shared(K: int, rounds: int = 30) -> Fit:
    return lambda attention: fit_shared(
        score_products(attention),
        strongest_shared(attention, K),
        rounds=rounds,
    )


def own(K: int) -> Fit:
    return lambda attention: own_projections(score_products(attention), K)


def translator(seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    model = train_translator(seed)
    test = tensor_batch(split(seed)[1])
    parts = [
        map_arrays(part, lambda x: x.double().numpy())
        for _, _, part in attentions(model)
    ]

    def replaced(fit: Fit) -> tuple[float, float]:
        found = [fit(part) for part in parts]
        errors = [
            relative_error(one, score_products(part))
            for one, part in zip(found, parts, strict=True)
        ]
        new = [
            map_arrays(
                with_shared(part, one),
                lambda x: torch.from_numpy(x).float(),
            )
            for one, part in zip(found, parts, strict=True)
        ]
        right = exact_match(with_attentions(model, new), test)
        return right, float(np.mean(errors))

    found = {"accuracy": exact_match(model, test)}
    for K in WIDTHS:
        found[f"shared_{K}"], error = replaced(shared(K))
        if K in (16, 8):
            found[f"error_shared_{K}"] = error
        if K >= 8:
            found[f"own_{K}"], error = replaced(own(K))
            if K in (16, 8):
                found[f"error_own_{K}"] = error
    CURVES["shared"].append([found[f"shared_{K}"] for K in WIDTHS])
    CURVES["own"].append([found[f"own_{K}"] for K in WIDTHS if K >= 8])
    found["head"] = np.mean(
        [directions_for(M) for part in parts for M in score_products(part)]
    )
    found["query"] = np.mean([directions_for(part.W_Q) for part in parts])
    found["product"] = np.mean(
        [directions_for(part.W_Q @ part.W_K.T) for part in parts]
    )
    found["rotated"] = np.mean(
        [
            directions_for(part.W_Q @ rotation(part.D, rng) @ part.W_K.T)
            for part in parts
        ]
    )
    return found


# ---- the real encoder ----


@cache
def texts() -> tuple[Any, list[np.ndarray]]:
    """MiniLM, and the numbers of 128 tokens of Python's own documentation, text by text."""
    model = load_minilm("float64")
    windows = []
    for name in sorted(topics):
        ids = model.ids(topics[name])
        if len(ids) > TOKENS:
            windows.append(ids[:TOKENS])
        if len(windows) == 17:
            break
    return model, windows


@cache
def states(n: int) -> np.ndarray:
    model, windows = texts()
    return encode(model, windows[n])[0]  # (L + 1, T, D)


@cache
def rows(layer: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of what goes into a layer, on the texts that are not asked about later."""
    return data_root(
        np.concatenate([states(n)[layer] for n in range(5, 17)])
    )


@cache
def fitted(layer: int, how: str, K: int) -> Any:
    """The attention of a layer with projections that were fitted where its data lie."""
    attention = texts()[0].layers[layer].attention
    mean, root, inverse = rows(layer)
    seen = replace(
        attention, W_Q=root @ attention.W_Q, W_K=root @ attention.W_K
    )
    found = {"shared": shared(K, 15), "own": own(K)}[how](seen)
    back = replace(found, A=inverse @ found.A, B=inverse @ found.B)
    return with_shared(attention, back, center=mean)


@cache
def spectra() -> dict[str, float]:
    parts = [layer.attention for layer in texts()[0].layers]
    products = [part.W_Q @ part.W_K.T for part in parts]
    return {
        "minilm_head": np.mean(
            [
                directions_for(M)
                for part in parts
                for M in score_products(part)
            ]
        ),
        "minilm_query": np.mean(
            [directions_for(part.W_Q) for part in parts]
        ),
        "minilm_product": np.mean([directions_for(M) for M in products]),
        "minilm_data": np.mean(
            [
                directions_for(rows(n)[1] @ M @ rows(n)[1])
                for n, M in enumerate(products)
            ]
        ),
    }


def minilm(seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    parts = [layer.attention for layer in texts()[0].layers]
    rotated = [
        part.W_Q @ rotation(part.D, rng) @ part.W_K.T for part in parts
    ]
    found = spectra() | {
        "minilm_rotated": np.mean([directions_for(M) for M in rotated]),
        "minilm_data_rotated": np.mean(
            [
                directions_for(rows(n)[1] @ M @ rows(n)[1])
                for n, M in enumerate(rotated)
            ]
        ),
    }

    def weights(attention: Any, layer: int) -> np.ndarray:
        x = states(seed)[layer]  # the seed names the text
        return self_attention(attention, x, return_weights=True)[1]

    def apart(one: Any, other: Any) -> float:
        return float(np.abs(one - other).sum(-1).mean() / 2)

    right = {n: weights(parts[n], n) for n in LAYERS}
    for K in (96, 24):
        for how in ("shared", "own"):
            found[f"minilm_{how}_{K}"] = np.mean(
                [
                    apart(weights(fitted(n, how, K), n), right[n])
                    for n in LAYERS
                ]
            )
    found["minilm_uniform"] = np.mean(
        [apart(right[n], 1 / TOKENS) for n in LAYERS]
    )
    return found


def measure(seed: int) -> dict[str, float]:
    return translator(seed) | minilm(seed)


def more() -> dict[str, Any]:
    return {"widths": list(WIDTHS)} | {
        name: {
            "mean": np.mean(values, axis=0).round(4).tolist(),
            "least": np.min(values, axis=0).tolist(),
            "most": np.max(values, axis=0).tolist(),
        }
        for name, values in CURVES.items()
    }


if __name__ == "__main__":
    run(
        "shared_projections",
        measure,
        LABELS,
        seeds=SEEDS,
        packages=("numpy", "torch"),
        more=more,
    )
