"""A decoder of today on sequences that repeat themselves: whole, and trained or run with a part missing.

    python experiments/decoder_only.py

About ten minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from running import run

from attention_in_detail.decoder_only import (
    DecoderOnlyParameters,
    decoder_only,
)
from attention_in_detail.insights.decoder_only import train_decoder_only
from attention_in_detail.notation import Array
from attention_in_detail.tasks.repeating import (
    LONGEST,
    draw_repeating,
    right_share,
)
from attention_in_detail.trees import map_arrays

torch.set_num_threads(1)
LONG = 200

LABELS = {
    "whole": ("All parts: right", ".3f"),
    "one_head": ("Trained with one key head: right", ".3f"),
    "no_positions": ("Trained without positions: right", ".3f"),
    "no_sink": ("Trained without a sink: right", ".3f"),
    "without_positions": ("Positions taken away: right", ".3f"),
    "without_sink": ("Sink taken away: right", ".3f"),
    "without_cap": ("Cap taken away: right", ".3f"),
    "long": ("All parts, 200 tokens: right", ".3f"),
    "near": (
        "All parts, number and last 31 of 200 tokens: right",
        ".3f",
    ),
}


def trained(seed: int, **choices: int | None) -> DecoderOnlyParameters:
    return map_arrays(
        train_decoder_only(seed=seed, **choices), lambda x: x.numpy()
    )


def share(parameters: DecoderOnlyParameters, tokens: Array) -> float:
    return right_share(decoder_only(parameters, tokens)[0], tokens)


def measure(seed: int) -> Mapping[str, float]:
    """Each share is of 500 sequences that no training has seen."""
    tokens = draw_repeating(500, seed=50_000 + seed)
    long = draw_repeating(500, length=LONG, seed=60_000 + seed)
    near = np.concatenate([long[:, :1], long[:, 1 - LONGEST :]], axis=1)
    p = trained(seed)
    return {
        "whole": share(p, tokens),
        "one_head": share(trained(seed, kv_heads=1), tokens),
        "no_positions": share(trained(seed, rotary_base=None), tokens),
        "no_sink": share(trained(seed, sinks=0), tokens),
        "without_positions": share(replace(p, rotary_base=None), tokens),
        "without_sink": share(replace(p, sinks=0), tokens),
        "without_cap": share(replace(p, cap=None), tokens),
        "long": share(p, long),
        "near": share(p, near),
    }


if __name__ == "__main__":
    run("decoder_only", measure, LABELS, packages=("numpy", "torch"))
