"""Run an experiment on several seeds, with progress, and store what it measured."""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy starts its threads
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))

from storing import store

SEEDS = (0, 1, 2, 3, 4)


def run(
    name: str,
    measure: Callable[[int], Mapping[str, float]],
    labels: Mapping[str, tuple[str, str]],
    *,
    seeds: Sequence[int] = SEEDS,
    packages: Sequence[str] = ("numpy",),
    more: Callable[[], Mapping[str, Any]] | None = None,
) -> None:
    """Measure on each seed, and store all of it or nothing.

    ``measure(seed)`` gives a number for each key of ``labels``, which says what the number is and how a page
    writes it (``".3f"`` or ``".1e"``). ``more()`` gives what a figure needs besides.
    """
    runs = []
    for n, seed in enumerate(seeds, start=1):
        start = time.process_time()
        found = measure(seed)
        if set(found) != set(labels):
            raise ValueError(
                f"seed {seed} gave {sorted(found)}, but the labels are {sorted(labels)}"
            )
        runs.append(found)
        print(
            f"{name}: seed {seed} ({n} of {len(seeds)}), {time.process_time() - start:.0f} s of computing",
            flush=True,
        )
    rows = {
        key: {
            "label": label,
            "form": form,
            "values": [float(f"{float(found[key]):.6g}") for found in runs],
        }
        for key, (label, form) in labels.items()
    }
    result: dict[str, Any] = {"seeds": list(seeds), "rows": rows}
    if more is not None:
        result["more"] = more()
    path = store(name, list(packages), result)
    print(f"{name}: stored in {path.name}", flush=True)
