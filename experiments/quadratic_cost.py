"""Chapter 29: what cheaper forms of attention keep and lose, and how much longer full attention takes.

    python experiments/quadratic_cost.py

Needs the weights of requirements-weights.txt. Times are ratios of the processor time of two computations
that run in turns in this process, in NumPy, float32, on one thread.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy starts its threads
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from running import SEEDS, run
from texts import window

from attention_in_detail import (
    attention,
    feed_forward,
    layer_norm,
    merge_heads,
    split_heads,
    window_mask,
)
from attention_in_detail.head_scores import pattern_mass
from attention_in_detail.insights.look_up import draw_items, train_reader
from attention_in_detail.insights.low_rank import (
    linformer_attention,
    mean_pooling,
    random_projection,
)
from attention_in_detail.insights.quadratic_cost import (
    block_attention,
    global_mask,
    in_blocks,
    linear_attention_to_all,
    query_block_attention,
    random_mask,
    union_of_masks,
)
from attention_in_detail.models import encode, load_minilm

torch.set_num_threads(1)
T, BLOCK = 256, 16
LENGTHS = (256, 512, 1024, 2048)
Mix = Callable[..., Any]

PATTERNS = {
    "window": "window of 3 blocks",
    "random": "3 random blocks",
    "window_global": "window, 1 global block",
    "big_bird": "Big Bird: window, 1 global, 2 random",
    "no_global": "window, 4 random, no global",
    "wide_window": "window of 7 blocks",
    "many_random": "7 random blocks",
}
OTHERS = {
    "pool_64": "Linformer form, pooled to 64",
    "pool_128": "Linformer form, pooled to 128",
    "linear": "linear attention",
    "uniform": "uniform weights",
    "other_text": "another text, full attention",
}
READERS = {
    "full": "attention, 32 keys a query",
    "window": "window, 12 keys",
    "random": "random, 12 keys",
    "big_bird": "window 5, global 3, random 4",
    "linformer": "Linformer, 12 mixtures",
    "linear": "linear attention, width 32",
}
RATIOS = {
    "linear": "linear attention",
    "linformer": "Linformer, 128 mixtures",
    "window": "window of 3 blocks of 64",
    "big_bird": "Big Bird, blocks of 64",
    "query_blocks": "all pairs, 128 queries at a time",
}
# Key, what it is and how it is written: each for every one of its names.
KINDS = (
    ("density", "open pairs", ".3f", PATTERNS),
    ("mass", "weight inside", ".3f", PATTERNS),
    ("worst", "head with least inside", ".3f", PATTERNS),
    ("cosine", "cosine", ".3f", PATTERNS | OTHERS),
    ("look_up", "look-up", ".3f", READERS),
    ("frequent", "most frequent", ".3f", READERS),
    ("ratio", "full attention", ".1f", RATIOS),
)
LABELS = {
    f"{kind}_{key}": (
        f"{what} / {name}" if kind == "ratio" else f"{what}, {name}",
        form,
    )
    for kind, what, form, names in KINDS
    for key, name in names.items()
}


@cache
def model() -> Any:
    return load_minilm("float64")


def patterns(n: int, seed: int) -> dict[str, np.ndarray]:
    near = window_mask(n, before=1, after=1)
    known = union_of_masks(near, global_mask(n, 1))
    return {
        "window": near,
        "random": random_mask(n, 3, seed=seed),
        "window_global": known,
        "big_bird": union_of_masks(
            known, random_mask(n, 2, seed=seed, besides=known)
        ),
        "no_global": union_of_masks(
            near, random_mask(n, 4, seed=seed, besides=near)
        ),
        "wide_window": window_mask(n, before=3, after=3),
        "many_random": random_mask(n, 7, seed=seed),
    }


def text_vector(ids: np.ndarray, mix: Mix) -> np.ndarray:
    """MiniLM's vector of a text, with something else in the place of attention."""
    states, _ = encode(model(), ids)
    x = states[0]
    for layer in model().layers:
        p = layer.attention
        q, k, v = (
            split_heads(x @ W + b, p.heads)
            for W, b in ((p.W_Q, p.b_Q), (p.W_K, p.b_K), (p.W_V, p.b_V))
        )
        y = merge_heads(mix(q, k, v)) @ p.W_O + p.b_O
        x = layer_norm(layer.attention_norm, x + y)
        x = layer_norm(
            layer.feed_forward_norm, x + feed_forward(layer.feed_forward, x)
        )
    mean = x.mean(axis=0)
    return mean / np.linalg.norm(mean)


def uniform(q: Any, k: Any, v: Any) -> Any:
    return np.broadcast_to(v.mean(axis=-2, keepdims=True), v.shape) + 0.0


def of_minilm(seed: int) -> dict[str, float]:
    ids = window(model(), seed, T)
    ids[0], ids[-1] = model().ids("")  # [CLS] and [SEP]
    other = window(model(), seed + 50, T)
    other[0], other[-1] = ids[0], ids[-1]
    states, weights = encode(model(), ids)
    exact = text_vector(ids, attention)
    plain = states[-1].mean(axis=0)
    assert np.allclose(exact, plain / np.linalg.norm(plain))
    found = {"cosine_other_text": exact @ text_vector(other, attention)}
    for name, pattern in patterns(T // BLOCK, seed).items():
        mask = in_blocks(pattern, BLOCK)
        inside = pattern_mass(weights, mask)
        found[f"density_{name}"] = mask.mean()
        found[f"mass_{name}"] = inside.mean()
        found[f"worst_{name}"] = inside.min()
        found[f"cosine_{name}"] = exact @ text_vector(
            ids, lambda q, k, v, m=mask: attention(q, k, v, mask=m)
        )
    for n in (64, 128):
        E = mean_pooling(n, T)
        found[f"cosine_pool_{n}"] = exact @ text_vector(
            ids, lambda q, k, v, E=E: linformer_attention(q, k, v, E, E)
        )
    found["cosine_linear"] = exact @ text_vector(
        ids, linear_attention_to_all
    )
    found["cosine_uniform"] = exact @ text_vector(ids, uniform)
    return found


def reader_mixes(seed: int) -> dict[str, tuple[Mix, list[torch.Tensor]]]:
    near = window_mask(32, before=2, after=2)
    known = union_of_masks(near, global_mask(32, 3))
    masks = {
        "window": window_mask(32, before=6, after=5),
        "random": random_mask(32, 12, seed=seed),
        "big_bird": union_of_masks(
            known, random_mask(32, 4, seed=seed, besides=known)
        ),
    }
    mixes: dict[str, tuple[Mix, list[torch.Tensor]]] = {
        "full": (attention, [])
    }
    for name, mask in masks.items():
        shown = torch.asarray(mask)
        mixes[name] = (
            lambda q, k, v, m=shown: attention(q, k, v, mask=m),
            [],
        )
    pair = [
        torch.asarray(
            random_projection(12, 32, seed=2 * seed + n) * (12 / 32) ** 0.5
        ).requires_grad_()
        for n in range(2)
    ]
    mixes["linformer"] = (
        lambda q, k, v: linformer_attention(q, k, v, *pair),
        pair,
    )
    mixes["linear"] = (linear_attention_to_all, [])
    return mixes


def of_readers(seed: int) -> dict[str, float]:
    found = {}
    for task, short in (
        ("look up", "look_up"),
        ("most frequent", "frequent"),
    ):
        test = draw_items(
            task, 64, 32, 32, torch.Generator().manual_seed(1000 + seed)
        )
        for name, (mix, more) in reader_mixes(seed).items():
            reader = train_reader(task, mix, more, seed=seed)
            found[f"{short}_{name}"] = float(
                reader.right(test).double().mean()
            )
    return found


def contestants(length: int, seed: int) -> dict[str, Callable[[], Any]]:
    rng = np.random.default_rng(seed)
    q, k, v = (
        rng.standard_normal((length, 64)).astype(np.float32)
        for _ in range(3)
    )
    E = random_projection(128, length, seed=seed).astype(np.float32)
    blocks = patterns(length // 64, seed)
    return {
        "full": lambda: attention(q, k, v),
        "linear": lambda: linear_attention_to_all(q, k, v),
        "linformer": lambda: linformer_attention(q, k, v, E, E),
        "window": lambda: block_attention(q, k, v, blocks["window"]),
        "big_bird": lambda: block_attention(q, k, v, blocks["big_bird"]),
        "query_blocks": lambda: query_block_attention(q, k, v, size=128),
    }


def ratio(
    slow: Callable[[], Any], fast: Callable[[], Any], pairs: int
) -> float:
    """The ratio of two processor times, which run in turns.

    Not of the time on a clock: while other programs run, a long computation waits for
    them more often than a short one.
    """
    found = []
    slow()
    fast()
    for _ in range(pairs):
        start = time.process_time()
        slow()
        between = time.process_time()
        fast()
        found.append((between - start) / (time.process_time() - between))
    return float(np.median(found))


def ratios(length: int, seed: int, pairs: int) -> dict[str, float]:
    run_of = contestants(length, seed)
    return {
        name: ratio(run_of["full"], run_of[name], pairs) for name in RATIOS
    }


def measure(seed: int) -> Mapping[str, float]:
    found = of_minilm(seed)
    print("  real heads", flush=True)
    found |= of_readers(seed)
    print("  trained readers", flush=True)
    for name, ratio in ratios(4096, seed, pairs=5).items():
        found[f"ratio_{name}"] = ratio
    return found


def more() -> dict[str, Any]:
    """The ratios at shorter lengths: of five draws the median."""
    lines: dict[str, list[float]] = {name: [] for name in RATIOS}
    for length in LENGTHS:
        pairs = 15 if length < 2048 else 5
        found = [ratios(length, seed, pairs) for seed in SEEDS]
        for name in RATIOS:
            median = np.median([of_seed[name] for of_seed in found])
            lines[name].append(float(f"{median:.3g}"))
        print("  ratios at", length, flush=True)
    return {"lengths": LENGTHS, "ratios": lines}


if __name__ == "__main__":
    run(
        "quadratic_cost",
        measure,
        LABELS,
        packages=("numpy", "torch"),
        more=more,
        times=[f"ratio_{name}" for name in RATIOS],
    )
