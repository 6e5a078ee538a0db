"""Measure the memory of each rank of ring attention, forward and back, over length and number of ranks.

    python bench/many_processes.py

Four heads of width 64, float32, one thread a process, no mask. Memory is the highest that a process
held in the machine's memory (Linux counts it, and can forget it), above what it held when its inputs and the
derivatives of its output were there. The result goes into the package.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy starts its threads
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import gc
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from storing import store

from attention_in_detail import attention
from attention_in_detail.distributed import ring_attention, run_processes

HEADS, WIDTH = 4, 64
LENGTHS = (4096, 8192, 16384)
# Small blocks of weights, so that what is measured is the sequence and not the blocks.
BLOCK = 128
RANKS = (1, 2, 4)
# Beyond this length attention at once takes gigabytes, and is not run.
LONGEST_AT_ONCE = 4096


def held_kib(name: str) -> int:
    """Return what Linux says of this process: VmRSS, what it holds, or VmHWM, the most it has held."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise OSError(f"no {name} in /proc/self/status")


def peak_mib(T: int, at_once: bool) -> float:
    """Run one rank's part, both ways; return its highest memory above inputs and derivatives, in MiB."""
    ranks = dist.get_world_size()
    generator = torch.Generator().manual_seed(dist.get_rank())

    def draw(rows: int) -> torch.Tensor:
        return torch.randn(HEADS, rows, WIDTH, generator=generator)

    function = (
        attention
        if at_once
        else partial(ring_attention, query_block=BLOCK, key_block=BLOCK)
    )
    # What is loaded at the first call is not its memory.
    for rows in (64, T // ranks):
        parts = [draw(rows).requires_grad_() for _ in range(3)]
        dY = draw(rows)
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
        before = held_kib("VmRSS")
        function(*parts).backward(dY)
        highest = held_kib("VmHWM")
    return round((highest - before) / 1024, 1)


def main() -> None:
    rows = []
    for T in LENGTHS:
        at_once = None
        if T <= LONGEST_AT_ONCE:
            [at_once] = run_processes(peak_mib, 1, T, True)
        row: dict[str, object] = {"T": T, "mib_at_once": at_once}
        for ranks in RANKS:
            # A rank waits for slower ones as long as it takes.
            found = run_processes(peak_mib, ranks, T, False, timeout=600)
            row[f"mib_{ranks}"] = max(found)
        rows.append(row)
        print("length", row, flush=True)
    path = store(
        "many_processes",
        ["torch"],
        {
            "dtype": "float32",
            "heads": HEADS,
            "width": WIDTH,
            "block": BLOCK,
            "over_lengths": rows,
        },
    )
    print("stored in", path.relative_to(path.parents[3]))


if __name__ == "__main__":
    main()
