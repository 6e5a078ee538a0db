"""Routing: identities of heads as circuits, and networks of one and two layers that shall continue a repeated sequence.

    python experiments/routing.py

About five minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from running import run

from attention_in_detail import MultiHeadParameters, self_attention
from attention_in_detail.insights.routing import (
    change_gauge,
    fit_swapped,
    head_writes,
    measure_network,
    train_network,
    without_composition,
    writes_by_circuits,
)

torch.set_num_threads(1)
SIZES = {"T": 64, "D": 64, "heads": 8}

LABELS = {
    "sum_error": ("Sum over heads and output: largest difference", ".1e"),
    "circuits_error": ("Circuits and heads: largest difference", ".1e"),
    "gauge_error": ("Other gauge: largest change of the output", ".1e"),
    "head_rank": ("Rank of what one head writes", ".0f"),
    "output_rank": ("Rank of the sum over 8 heads", ".0f"),
    "two_accuracy": ("Two layers: accuracy", ".3f"),
    "two_first_previous": ("Two layers, layer 1: on previous", ".3f"),
    "two_second_previous": ("Two layers, layer 2: on previous", ".3f"),
    "two_first_induction": ("Two layers, layer 1: on the answer", ".3f"),
    "two_second_induction": ("Two layers, layer 2: on the answer", ".3f"),
    "one_accuracy": ("One layer: accuracy", ".3f"),
    "one_induction": ("One layer: on the answer", ".3f"),
    "wide_accuracy": ("One layer, twice as wide: accuracy", ".3f"),
    "long_accuracy": (
        "One layer, twice as wide, 4 times the steps: accuracy",
        ".3f",
    ),
    "shifted_accuracy": (
        "One layer, keys from the row before: accuracy",
        ".3f",
    ),
    "shifted_induction": (
        "One layer, keys from the row before: on the answer",
        ".3f",
    ),
    "cut_queries": ("Two layers, queries cut off: accuracy", ".3f"),
    "cut_keys": ("Two layers, keys cut off: accuracy", ".3f"),
    "cut_values": ("Two layers, values cut off: accuracy", ".3f"),
    "swapped_one": ("Four sequences, one head: right of 4", ".0f"),
    "swapped_two": ("Four sequences, two heads: right of 4", ".0f"),
}


def rank(X: Any) -> int:
    """The numerical rank."""
    return np.linalg.matrix_rank(X, tol=1e-10 * np.linalg.norm(X, 2))


def identities(seed: int) -> dict[str, float]:
    """A head by its parts, by its circuits, and in another gauge; ranks."""
    rng = np.random.default_rng(seed)
    h, D = SIZES["heads"], SIZES["D"]
    p = MultiHeadParameters.init(D, h, bias=False, seed=seed)
    x = rng.standard_normal((SIZES["T"], D))
    Y, writes = self_attention(p, x), head_writes(p, x)
    G, F = rng.standard_normal((2, h, D // h, D // h)) + 3 * np.eye(D // h)
    turned = self_attention(change_gauge(p, G, F), x)
    return {
        "sum_error": np.abs(writes.sum(0) - Y).max(),
        "circuits_error": np.abs(writes_by_circuits(p, x) - writes).max(),
        "gauge_error": np.abs(turned - Y).max(),
        "head_rank": max(rank(write) for write in writes),
        "output_rank": rank(Y),
    }


def trained(seed: int) -> dict[str, float]:
    """Five networks that shall do the same."""
    test = 1000 + seed
    two = train_network("two layers", seed=seed)
    accuracy, previous, induction = measure_network(two, seed=test)
    found = {
        "two_accuracy": accuracy,
        "two_first_previous": np.mean(previous[0]),
        "two_second_previous": np.mean(previous[1]),
        "two_first_induction": np.mean(induction[0]),
        "two_second_induction": np.mean(induction[1]),
    }
    for reader, share in without_composition(two, seed=test).items():
        found[f"cut_{reader}"] = share
    for key, name, steps in (
        ("one", "one layer", 200),
        ("wide", "one layer, twice as wide", 200),
        ("long", "one layer, twice as wide", 800),
        ("shifted", "one layer, keys from the row before", 200),
    ):
        network = train_network(name, seed=seed, steps=steps)
        accuracy, _, induction = measure_network(network, seed=test)
        found[f"{key}_accuracy"] = accuracy
        found[f"{key}_induction"] = np.mean(induction[0])
    return found


def measure(seed: int) -> Mapping[str, float]:
    found = {**identities(seed), **trained(seed)}
    for key, heads in (("swapped_one", 1), ("swapped_two", 2)):
        margins = fit_swapped(heads, seed=seed)
        found[key] = sum(margin > 1 for margin in margins)
    return {key: float(found[key]) for key in LABELS}


if __name__ == "__main__":
    run("routing", measure, LABELS, packages=("numpy", "torch"))
