"""Direction: scores of separate and tied projections, a previous-token head with and without them, and a real model.

    python experiments/direction.py

Needs the weights of requirements-weights.txt. About two minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from running import run  # first: it sets the number of threads

from attention_in_detail import attention_weights, scores
from attention_in_detail.insights.direction import (
    HEADS,
    cycle_log_ratios,
    measure_head,
    score_form,
    skew_share,
    stationary_distribution,
    symmetric_and_skew,
    train_head,
)
from attention_in_detail.models import load_minilm
from attention_in_detail.models.maps import stored_maps

torch.set_num_threads(1)
T, D, D_h = 64, 64, 16

LABELS = {
    "form_skew": ("Random, separate: skew share of the form", ".3f"),
    "separate_asymmetry": ("Random, separate: asymmetry of A", ".2f"),
    "tied_asymmetry": ("Random, tied: asymmetry of A", ".2f"),
    "separate_self": (
        "Random, separate: rows whose largest weight is on itself",
        ".3f",
    ),
    "tied_self": (
        "Random, tied: rows whose largest weight is on itself",
        ".3f",
    ),
    "separate_imaginary": (
        "Random, separate: largest imaginary part of an eigenvalue of A",
        ".3f",
    ),
    "cycle_error": (
        "Random, separate: largest error of the cycle identity",
        ".1e",
    ),
    "balance_error": (
        "Random, tied: largest error of detailed balance",
        ".1e",
    ),
    "separate_accuracy": ("Trained, separate: accuracy", ".3f"),
    "separate_previous": ("Trained, separate: weight on previous", ".3f"),
    "separate_next": ("Trained, separate: weight on next", ".3f"),
    "separate_skew": ("Trained, separate: skew share of the form", ".3f"),
    "tied_accuracy": ("Trained, tied: accuracy", ".3f"),
    "tied_previous": ("Trained, tied: weight on previous", ".3f"),
    "tied_next": ("Trained, tied: weight on next", ".3f"),
    "tied_itself": ("Trained, tied: weight on itself", ".3f"),
    "shut_accuracy": ("Trained, tied, not itself: accuracy", ".3f"),
    "shut_previous": (
        "Trained, tied, not itself: weight on previous",
        ".3f",
    ),
    "shut_next": ("Trained, tied, not itself: weight on next", ".3f"),
    "causal_accuracy": (
        "Trained, tied, not itself, causal: accuracy",
        ".3f",
    ),
    "causal_previous": (
        "Trained, tied, not itself, causal: weight on previous",
        ".3f",
    ),
    "minilm_skew": ("MiniLM: mean skew share of its 72 forms", ".3f"),
    "minilm_shuffled": (
        "MiniLM, coordinates of W_K shuffled: the same mean",
        ".3f",
    ),
    "minilm_asymmetry": (
        "MiniLM: mean asymmetry of A, one sentence a seed",
        ".2f",
    ),
}
SHORT = {
    "separate": "separate",
    "tied": "tied",
    "tied, not itself": "shut",
    "tied, not itself, causal": "causal",
}


def asymmetry(A: Any) -> Any:
    """The size of A − Aᵀ over the size of A."""
    apart = np.linalg.norm(A - A.mT, axis=(-2, -1))
    return apart / np.linalg.norm(A, axis=(-2, -1))


def at_random(seed: int) -> dict[str, float]:
    """Identities, and how far from symmetric weights are, for random input and projections."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((T, D))
    W_Q, W_K = rng.standard_normal((2, D, D_h)) / np.sqrt(D)
    A = attention_weights(X @ W_Q, X @ W_K)
    tied = attention_weights(X @ W_Q, X @ W_Q)
    _, skew = symmetric_and_skew(scores(X @ W_Q, X @ W_K))
    found = (
        skew[:, :, None] + skew[None, :, :] + skew.mT[:, None, :]
    )  # N_ij + N_jk + N_ki
    walk = stationary_distribution(scores(X @ W_Q, X @ W_Q))
    flow = walk[:, None] * tied
    return {
        "form_skew": skew_share(score_form(W_Q, W_K)),
        "separate_asymmetry": asymmetry(A),
        "tied_asymmetry": asymmetry(tied),
        "separate_self": np.mean(A.argmax(-1) == np.arange(T)),
        "tied_self": np.mean(tied.argmax(-1) == np.arange(T)),
        "separate_imaginary": np.abs(np.linalg.eigvals(A).imag).max(),
        "cycle_error": np.abs(cycle_log_ratios(A) - 2 * found).max(),
        "balance_error": np.abs(flow - flow.T).max() / flow.max(),
    }


def trained(seed: int) -> dict[str, float]:
    """Four heads, trained alike, that shall put out the previous token."""
    found = {}
    for name in HEADS:
        head = train_head(name, seed=seed)
        for what, value in measure_head(head, seed=1000 + seed).items():
            found[f"{SHORT[name]}_{what}"] = value
    return found


@cache
def projections() -> tuple[Any, Any]:
    """W_Q and W_K of all heads of MiniLM, shape (L, h, D, D_h) each."""
    layers = [layer.attention for layer in load_minilm("float64").layers]
    return tuple(
        np.array(
            [
                [getattr(a.head(i), name) for i in range(a.heads)]
                for a in layers
            ]
        )
        for name in ("W_Q", "W_K")
    )


def real(seed: int) -> dict[str, float]:
    """The forms of MiniLM, and as a control the same numbers with no relation between W_Q and W_K."""
    W_Q, W_K = projections()
    order = np.random.default_rng(seed).permutation(W_K.shape[-2])
    maps = stored_maps()[seed]
    return {
        "minilm_skew": skew_share(score_form(W_Q, W_K)).mean(),
        "minilm_shuffled": skew_share(
            score_form(W_Q, W_K[..., order, :])
        ).mean(),
        "minilm_asymmetry": asymmetry(maps.weights).mean(),
    }


def measure(seed: int) -> Mapping[str, float]:
    found = {**at_random(seed), **trained(seed), **real(seed)}
    return {key: float(found[key]) for key in LABELS}


def more() -> dict[str, Any]:
    share = skew_share(score_form(*projections()))
    return {
        "minilm_heads": share.round(3).tolist(),
        "minilm_layers": share.mean(-1).round(3).tolist(),
    }


if __name__ == "__main__":
    run(
        "direction",
        measure,
        LABELS,
        packages=("numpy", "torch"),
        more=more,
    )
