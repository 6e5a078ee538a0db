"""Real text for the real model: Python's own documentation, which every Python carries."""

from __future__ import annotations

import random
from pydoc_data.topics import topics

import numpy as np

from attention_in_detail import split_heads
from attention_in_detail.models import MiniLM, encode

TEXT = " ".join(topics[name] for name in sorted(topics))


def window(model: MiniLM, seed: int, T: int) -> np.ndarray:
    """Return T token numbers from the middle of a text: no [CLS], no [SEP]."""
    start = random.Random(seed).randrange(len(TEXT) - 8000)
    return model.ids(TEXT[start : start + 6000])[1 : T + 1]


def projected(model: MiniLM, ids: np.ndarray) -> list[np.ndarray]:
    """Return queries, keys and values of all heads, each of shape (layers · heads, T, D_h)."""
    states, _ = encode(model, ids)
    found: list[list[np.ndarray]] = [[], [], []]
    for layer, x in zip(model.layers, states, strict=False):
        p = layer.attention
        for kept, W, b in zip(
            found,
            (p.W_Q, p.W_K, p.W_V),
            (p.b_Q, p.b_K, p.b_V),
            strict=True,
        ):
            kept.append(split_heads(x @ W + b, p.heads))
    return [np.concatenate(kept) for kept in found]
