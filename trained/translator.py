"""Train the translator that the chapters on pruning and on shared projections take apart, and store it.

    python trained/translator.py

The new hash, which the last line prints, belongs into attention_in_detail/insights/translator.py.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before PyTorch starts its threads
os.environ["MKL_NUM_THREADS"] = "1"

import hashlib

import numpy as np

from attention_in_detail.insights.translator import (
    STORED,
    exact_match,
    flat,
    split,
    tensor_batch,
    train_translator,
)


def main() -> None:
    parameters = train_translator(0, report=40)
    right = exact_match(parameters, tensor_batch(split(0)[1]))
    print(f"exact match on held-out numbers {right:.3f}")
    arrays = [x.numpy() for x in flat(parameters)]
    np.savez_compressed(STORED, *arrays)
    content = STORED.read_bytes()
    print(f"{STORED.name}: {len(content):,} bytes")
    print(f"SHA-256 {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
