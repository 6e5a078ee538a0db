"""Train the model of number words with three seeds, and store what each reaches and where its best head is.

    python bench/number_words.py

About four minutes on one core. Seconds are of the processor, not of the clock.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy starts its threads
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import time

from storing import store

from attention_in_detail.tasks.number_words import split_numbers
from attention_in_detail.tasks.scores import alignment_scores, exact_share
from attention_in_detail.tasks.training import (
    numpy_parameters,
    train_number_words,
)

SEEDS = (0, 1, 2)


def main() -> None:
    _, held_out = split_numbers()
    runs = []
    for seed in SEEDS:
        start = time.process_time()
        model, losses = train_number_words(seed=seed)
        seconds = time.process_time() - start
        p = numpy_parameters(model)
        runs.append(
            {
                "seed": seed,
                "steps": len(losses),
                "exact": exact_share(p, held_out),
                "heads": alignment_scores(p, held_out).round(4).tolist(),
                "seconds": round(seconds, 1),
            }
        )
        print(runs[-1], flush=True)
    path = store("number_words", ["numpy", "torch"], {"runs": runs})
    print("stored in", path.relative_to(path.parents[3]))


if __name__ == "__main__":
    main()
