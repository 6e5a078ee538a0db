"""Measure multi-head self-attention against what others wrote: time, peak memory, growth with the length.

    python bench/multi_head.py [--quick]

D = 512, h = 8, float32, one thread, input checks on. All contestants run in turns in this process, and
each round gives one ratio of two times: whatever else the machine does meets both. pytest-benchmark
runs one contestant after the other, so the turns are taken here; median and quartiles are of its
``Stats``. On a CPU the clock is that of the processor. With a GPU the same command measures there,
and each run ends with what the device had still to do.

Memory is the most that a call took above what was there before. On Linux it is the highest resident
memory of the process (VmHWM, set back before the call), so it counts what NumPy and PyTorch ask for
alike; on a GPU it is what PyTorch's allocator handed out. The result goes into the package; the quick
form prints it only.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy starts its threads
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["KERAS_BACKEND"] = "torch"

import argparse
import ctypes
import itertools
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import torch
from pytest_benchmark.stats import Stats
from storing import store
from torch.nn.functional import scaled_dot_product_attention

from attention_in_detail import MultiHeadParameters, multi_head_attention
from attention_in_detail.nn import MultiHeadAttention

SIZES = ((8, 128), (8, 512), (1, 2048), (1, 8192))
QUICK_SIZES = ((8, 128), (8, 512))
ROUNDS, QUICK_ROUNDS = 15, 3
# From this length on, only the module against torch's runs in all rounds, and only both ways.
LONG, LONG_ROUNDS = 8192, 3
FORWARD, BOTH = "forward", "forward and backward"
# Each contestant beside the one whose time its own is divided by.
AGAINST = {
    "ours": "torch",
    "torch": "torch",
    "SDPA alone": "torch",
    "keras": "torch",
    "ours, NumPy": "torch",
    "ours, weights": "torch, weights",
    "torch, weights": "torch, weights",
}
ALWAYS = ("ours", "torch", "ours, weights", "torch, weights")

Call = Callable[[], Any]


def contestants(
    B: int, T: int, *, D: int, heads: int, device: str
) -> dict[str, dict[str, Call]]:
    """Return what is to be timed, forward and both ways: the same weights, the same input, the same result."""
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(D, heads, batch_first=True)
    for bias in (theirs.in_proj_bias, theirs.out_proj.bias):
        torch.nn.init.normal_(bias)
    ours = MultiHeadAttention.from_torch(theirs).to(device)
    theirs = theirs.to(device)
    x, gradient = (torch.randn(B, T, D).to(device) for _ in range(2))
    x.requires_grad_()
    parameters = {
        name: a.detach().cpu().numpy()
        for name, a in ours.as_parameters().arrays().items()
    }
    numpy_parameters = MultiHeadParameters(**parameters, heads=heads)
    layer = keras_layer(numpy_parameters, B, T)
    numpy_x = x.detach().cpu().numpy()
    q, k, v = (
        torch.randn(B, heads, T, D // heads).to(device).requires_grad_()
        for _ in range(3)
    )
    heads_gradient = torch.randn(B, heads, T, D // heads).to(device)
    calls: dict[str, Call] = {
        "ours": lambda: ours(x),
        "torch": lambda: theirs(x, x, x, need_weights=False)[0],
        "SDPA alone": lambda: scaled_dot_product_attention(q, k, v),
        "keras": lambda: layer(x, x),
        "ours, NumPy": lambda: multi_head_attention(
            numpy_parameters, numpy_x, numpy_x, numpy_x
        ),
        "ours, weights": lambda: ours(x, return_weights=True)[0],
        "torch, weights": lambda: theirs(
            x, x, x, average_attn_weights=False
        )[0],
    }
    leaves = [x, q, k, v]
    for module in (ours, theirs):
        leaves += module.parameters()
    leaves += [weight.value for weight in layer.weights]

    def backward(name: str) -> None:
        output = calls[name]()
        output.backward(
            heads_gradient if name == "SDPA alone" else gradient
        )
        for leaf in leaves:
            leaf.grad = None

    both: dict[str, Call] = {
        name: lambda name=name: backward(name)
        for name in calls
        if name != "ours, NumPy"
    }
    return {FORWARD: calls, BOTH: both}


def keras_layer(p: MultiHeadParameters, B: int, T: int) -> Any:
    """Return keras' layer with the weights of ``p``: its kernels have the axes (rows, h, D_h)."""
    layer = keras.layers.MultiHeadAttention(p.heads, key_dim=p.D_h)
    layer.build((B, T, p.D_q), (B, T, p.D_v))
    for name, W, b in (
        ("query", p.W_Q, p.b_Q),
        ("key", p.W_K, p.b_K),
        ("value", p.W_V, p.b_V),
    ):
        getattr(layer, f"_{name}_dense").set_weights(
            [W.reshape(-1, p.heads, p.D_h), b.reshape(p.heads, p.D_h)]
        )
    layer._output_dense.set_weights(
        [p.W_O.reshape(p.heads, p.D_h, -1), p.b_O]
    )
    return layer


def finished(call: Call, device: str) -> None:
    """Make a call, and wait until the device has done it."""
    if device == "cuda":
        torch.cuda.synchronize()
    call()
    if device == "cuda":
        torch.cuda.synchronize()


def in_turns(
    calls: dict[str, Call],
    rounds: dict[str, int],
    *,
    device: str,
    say: Callable[[str], None],
) -> dict[str, list[float]]:
    """Return the seconds of each call in each of its rounds; one more goes before, to warm up."""
    clock = time.perf_counter if device == "cuda" else time.process_time
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(max(rounds.values()) + 1):
        for name, call in calls.items():
            if number <= rounds[name]:
                start = clock()
                finished(call, device)
                if number:
                    seconds[name].append(clock() - start)
        say(f"round {number} of {max(rounds.values())}")
    return seconds


def summary(numbers: list[float]) -> dict[str, float | int]:
    """Return median and quartiles, as pytest-benchmark has them."""
    stats = Stats()
    for number in numbers:
        stats.update(number)
    return {
        "median": rounded(stats.median),
        "low": rounded(stats.q1),
        "high": rounded(stats.q3),
        "rounds": len(numbers),
    }


def rounded(number: float) -> float:
    return float(f"{number:.3g}")


def status(name: str) -> float:
    """Return a number of kibibytes from what Linux knows of this process, in MiB."""
    text = Path("/proc/self/status").read_text("utf8")
    return int(text.partition(f"{name}:")[2].split()[0]) / 1024


def peak_mib(call: Call, device: str) -> float | None:
    """Return the most memory that a call took above what was there, in MiB; None where it cannot be had."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        torch.cuda.synchronize()
        return rounded((torch.cuda.max_memory_allocated() - before) / 2**20)
    try:
        # Give back what is free, or the call would take it unseen.
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5", "utf8")
        before = status("VmRSS")
        call()
        return rounded(status("VmHWM") - before)
    except (OSError, AttributeError):
        return None


def exponent(first: float | None, last: float | None, factor: float) -> Any:
    """Return p where what is ``factor`` times as long takes ``factor``^p as much."""
    if not first or not last or first < 0 or last < 0:
        return None
    return rounded(math.log(last / first) / math.log(factor))


def growth(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return how time and memory grow between two lengths of one batch size."""
    found = []
    for a, b in itertools.combinations(rows, 2):
        same = ("contestant", "what", "B")
        if any(a[key] != b[key] for key in same) or a["T"] >= b["T"]:
            continue
        factor = b["T"] / a["T"]
        found.append(
            {
                **{key: a[key] for key in same},
                "from": a["T"],
                "to": b["T"],
                "time": exponent(
                    a["ms"]["median"], b["ms"]["median"], factor
                ),
                "memory": exponent(a["mib"], b["mib"], factor),
            }
        )
    return found


def measure(
    sizes: tuple[tuple[int, int], ...],
    rounds: int,
    *,
    D: int = 512,
    heads: int = 8,
    device: str = "cpu",
    say: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Return one row for each size, direction and contestant."""
    rows = []
    for B, T in sizes:
        for what, calls in contestants(
            B, T, D=D, heads=heads, device=device
        ).items():
            few = min(rounds, LONG_ROUNDS) if T >= LONG else rounds
            how_often = {
                name: rounds if what == BOTH and name in ALWAYS else few
                for name in calls
            }
            at = f"B {B}, T {T}, {what}"
            seconds = in_turns(
                calls,
                how_often,
                device=device,
                say=lambda text, at=at: say(f"{at}: {text}"),
            )
            for name, call in calls.items():
                base = seconds[AGAINST[name]]
                rows.append(
                    {
                        "B": B,
                        "T": T,
                        "what": what,
                        "contestant": name,
                        "against": AGAINST[name],
                        "ms": summary([1e3 * s for s in seconds[name]]),
                        "ratio": summary(
                            [
                                s / t
                                for s, t in zip(
                                    seconds[name], base, strict=False
                                )
                            ]
                        ),
                        "mib": peak_mib(call, device),
                    }
                )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as text, a small table for each size and direction."""
    lines = []
    for key, part in itertools.groupby(
        rows, lambda row: (row["B"], row["T"], row["what"])
    ):
        lines += ["", "B = {}, T = {}, {}".format(*key)]
        lines.append(f"{'':15}{'ms':>8}{'MiB':>8}  times torch's")
        for row in part:
            ratio = row["ratio"]
            mib = "-" if row["mib"] is None else f"{row['mib']:.0f}"
            lines.append(
                f"{row['contestant']:15}{row['ms']['median']:8.4g}{mib:>8}"
                f"  {ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"
            )
    return "\n".join(lines)


class Progress:
    """Says where the measurement is, at most every few seconds."""

    def __init__(self, every: float = 4.0) -> None:
        self.every, self.last = every, time.monotonic()

    def __call__(self, text: str) -> None:
        if time.monotonic() - self.last >= self.every:
            self.last = time.monotonic()
            print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="see the file")
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    load = round(os.getloadavg()[0], 1)
    print(f"on {device}, load before {load}", flush=True)
    rows = measure(
        QUICK_SIZES if quick else SIZES,
        QUICK_ROUNDS if quick else ROUNDS,
        device=device,
        say=Progress(),
    )
    print(table(rows))
    if quick:
        print("\nquick form: nothing is stored")
        return
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    path = store(
        "multi_head",
        ["numpy", "torch", "keras", "pytest-benchmark"],
        {
            "load_before": load,
            "device": name,
            "dtype": str(np.dtype("float32")),
            "D": 512,
            "heads": 8,
            "rows": rows,
            "growth": growth(rows),
        },
    )
    print("\nstored in", path.relative_to(path.parents[3]))


if __name__ == "__main__":
    main()
