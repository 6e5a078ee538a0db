"""Run an experiment on several seeds, with progress, and store what it measured.

python experiments/NAME.py            on every seed, and store the result
python experiments/NAME.py --again    on the first seed alone: does it still give what is stored?
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy starts its threads
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))

from storing import store, today, write

from attention_in_detail.stored import stored_result

# Numbers of a run on another processor differ in their last digits, and more so after training.
CLOSE = 0.01
SEEDS = (0, 1, 2, 3, 4)


def run(
    name: str,
    measure: Callable[[int], Mapping[str, float]],
    labels: Mapping[str, tuple[str, str]],
    *,
    seeds: Sequence[int] = SEEDS,
    packages: Sequence[str] = ("numpy",),
    more: Callable[[], Mapping[str, Any]] | None = None,
    times: Collection[str] = (),
) -> None:
    """Measure on each seed, and store all of it or nothing.

    ``measure(seed)`` gives a number for each key of ``labels``, which says what the number is and how a page
    writes it (``".3f"`` or ``".1e"``). ``more()`` gives what a figure needs besides. ``times`` are the keys that
    depend on the machine, and are not compared.
    """
    if sys.argv[1:] == ["--again"]:
        compared = [key for key in labels if key not in times]
        again(name, measure(seeds[0]), compared)
        return
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


def again(
    name: str, found: Mapping[str, float], compared: Sequence[str]
) -> None:
    """Note that today's code gives what is stored for the first seed, or say where it does not."""
    kept = stored_result(name)
    differ = []
    for key in compared:
        before, now = kept["rows"][key]["values"][0], float(found[key])
        if abs(now - before) > CLOSE * max(abs(now), abs(before)):
            differ.append(f"{key}: stored {before:.6g}, now {now:.6g}")
    if differ:
        raise SystemExit(
            f"{name}: measured again, {len(differ)} of {len(compared)} numbers differ by more than "
            f"{CLOSE:.0%}; run it on every seed.\n  " + "\n  ".join(differ)
        )
    kept["again"] = {**today(name), "numbers": len(compared)}
    write(name, kept)
    print(
        f"{name}: measured again, {len(compared)} numbers of the first seed are those that are stored",
        flush=True,
    )
