"""The bookkeeping of bench/multi_head.py on tiny sizes, and what the page shows of it. Nothing here is timed."""

import importlib.util
import math
import statistics
import sys
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attention_in_detail.exercises import check
from attention_in_detail.nn import MultiHeadAttention
from attention_in_detail.stored import stored_result
from tests.support import assert_close

BENCH = Path(__file__).parents[1] / "bench"
STORED = stored_result("multi_head")


@pytest.fixture(scope="module")
def bench():
    """The script as a module; it sets threads in the environment, which is put back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCH)
        for name in ("OMP", "OPENBLAS", "MKL"):
            patch.setenv(f"{name}_NUM_THREADS", "1")
        path = BENCH / "multi_head.py"
        spec = importlib.util.spec_from_file_location("bench_mh", path)
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, "bench_mh", module)
        spec.loader.exec_module(module)
        yield module


def test_all_contestants_compute_the_same(bench):
    """But the kernel alone, which has no projections."""
    calls = bench.contestants(2, 5, D=8, heads=2, device="cpu")
    forward = calls[bench.FORWARD]
    assert set(forward) == set(bench.AGAINST)
    assert set(calls[bench.BOTH]) == set(forward) - {"ours, NumPy"}
    expected = forward["torch"]()
    for name, call in forward.items():
        output = torch.as_tensor(call())
        if name == "SDPA alone":
            assert output.shape == (2, 2, 5, 4)
        else:
            assert_close(output, expected, 1e-6)


def test_all_run_in_turns_and_some_less_often(bench):
    turns, said = [], []
    calls = {name: lambda n=name: turns.append(n) for name in "abc"}
    seconds = bench.in_turns(
        calls, {"a": 3, "b": 3, "c": 1}, device="cpu", say=said.append
    )
    assert "".join(turns) == "abc" + "abc" + "ab" + "ab"
    assert {name: len(s) for name, s in seconds.items()} == {
        "a": 3,
        "b": 3,
        "c": 1,
    }
    assert said[-1] == "round 3 of 3"


def test_medians_and_quartiles(bench):
    assert bench.summary([3.0, 1.0, 2.0, 5.0, 4.0]) == {
        "median": 3.0,
        "low": 1.75,
        "high": 4.25,
        "rounds": 5,
    }


def test_a_ratio_is_of_two_times_of_one_round(bench, monkeypatch):
    """The median of the ratios, and not the ratio of the medians."""
    times = {"ours": [1.0, 8.0, 3.0], "torch": [2.0, 2.0, 4.0]}

    def in_turns(calls, rounds, *, device, say):
        assert set(rounds.values()) == {3}
        return {name: times.get(name, [1.0] * 3) for name in calls}

    monkeypatch.setattr(bench, "in_turns", in_turns)
    rows = bench.measure(((2, 4),), 3, D=8, heads=2)
    (ours,) = (
        row
        for row in rows
        if row["contestant"] == "ours" and row["what"] == bench.FORWARD
    )
    assert ours["ratio"]["median"] == 0.75
    assert ours["ms"]["median"] == 3000
    assert len(rows) == 2 * len(bench.AGAINST) - 1


def test_long_sequences_run_less_often_but_for_what_is_promised(
    bench, monkeypatch
):
    monkeypatch.setattr(bench, "LONG", 4)
    rows = bench.measure(((1, 3), (1, 4)), 5, D=8, heads=2)
    for row in rows:
        promised = row["what"] == bench.BOTH and row["contestant"] in (
            "ours",
            "torch",
            "ours, weights",
            "torch, weights",
        )
        often = row["T"] == 3 or promised
        assert row["ms"]["rounds"] == (5 if often else 3)
        assert row["ratio"]["rounds"] == row["ms"]["rounds"]
    shown = bench.table(rows)
    assert shown.count("times torch's") == 4
    assert max(map(len, shown.splitlines())) < 60


def test_memory_is_what_a_call_takes(bench):
    """4 million numbers are 16 MiB; None where the system does not tell."""

    def made():
        return torch.zeros(4 * 2**20) + 1

    # What a process does besides may add to a run, and never takes away.
    runs = [bench.peak_mib(made, "cpu") for _ in range(3)]
    assert None in runs or 31 < min(runs) < 34


def test_growth_is_the_exponent_between_two_lengths(bench):
    def row(T, ms, mib, B=1):
        return {
            "B": B,
            "T": T,
            "what": "forward",
            "contestant": "ours",
            "ms": {"median": ms},
            "mib": mib,
        }

    rows = [row(8, 7.0, 3.0, B=2), row(8, 1.0, 2.0), row(32, 16.0, 8.0)]
    (found,) = bench.growth(rows)
    assert found == {
        "contestant": "ours",
        "what": "forward",
        "B": 1,
        "from": 8,
        "to": 32,
        "time": 2.0,
        "memory": 1.0,
    }
    (found,) = bench.growth([row(8, 1.0, None), row(32, 16.0, 8.0)])
    assert found["memory"] is None


# ---- what is stored, which the page shows ----


def test_what_is_stored_has_every_cell(bench):
    cells = {
        (row["B"], row["T"], row["what"], row["contestant"])
        for row in STORED["rows"]
    }
    assert len(cells) == len(STORED["rows"])
    assert cells == {
        (*size, what, name)
        for size in bench.SIZES
        for what in (bench.FORWARD, bench.BOTH)
        for name in bench.AGAINST
        if (what, name) != (bench.BOTH, "ours, NumPy")
    }
    assert STORED["growth"] == bench.growth(STORED["rows"])
    assert STORED["threads"] == 1


@pytest.mark.claim("obs-speed-module")
@pytest.mark.parametrize("weights", ["", ", weights"])
def test_the_module_was_as_fast_as_promised(bench, weights):
    """Not a timed test: it reads what bench/multi_head.py stored."""
    most = (
        dict.fromkeys(bench.SIZES, 1.0)
        if weights
        else {
            (8, 128): 0.95,
            (8, 512): 0.95,
            (1, 2048): 1.05,
            (1, 8192): 1.05,
        }
    )
    for row in STORED["rows"]:
        if (row["what"], row["contestant"]) == (
            bench.BOTH,
            f"ours{weights}",
        ):
            assert row["ratio"]["rounds"] >= 15
            assert row["ratio"]["median"] <= most[row["B"], row["T"]]


@pytest.mark.claim("obs-speed-memory")
def test_memory_is_quadratic_with_weights_and_less_without(bench):
    grown = {
        row["contestant"]: row["memory"]
        for row in STORED["growth"]
        if (row["B"], row["what"]) == (1, bench.BOTH)
    }
    for module in ("ours", "torch"):
        assert grown[f"{module}, weights"] >= 1.8
        assert grown[module] <= 1.3


@pytest.mark.claim("obs-speed-floor")
def test_the_longer_the_sequences_the_nearer_the_kernel_alone(bench):
    times = {
        (row["B"], row["T"], row["contestant"]): row["ms"]["median"]
        for row in STORED["rows"]
        if row["what"] == bench.BOTH
    }
    far = [
        times[*size, "ours"] / times[*size, "SDPA alone"]
        for size in bench.SIZES
    ]
    assert far == sorted(far, reverse=True)
    assert far[0] > 3
    assert far[-1] < 1.5


class Noted(TorchDispatchMode):
    """Notes the numbers that PyTorch copies, and the widths of the products of two matrices."""

    def __init__(self):
        super().__init__()
        self.copied, self.widths = 0, []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        name = operator.overloadpacket.__name__
        if name in ("clone", "copy_", "_to_copy"):
            self.copied += result.numel()
        if name in ("mm", "addmm"):
            self.widths.append(result.shape[-1])
        return result


@pytest.mark.parametrize("B", [1, 2])
def test_torch_copies_what_both_modules_project_in_one_product(B):
    T, D = 80, 16
    theirs = torch.nn.MultiheadAttention(D, 2, batch_first=True)
    ours = MultiHeadAttention.from_torch(theirs)
    x = torch.ones(B, T, D, requires_grad=True)
    copied = {}
    for name, call in (
        ("ours", lambda: ours(x)),
        ("torch", lambda: theirs(x, x, x, need_weights=False)[0]),
    ):
        with Noted() as forward:
            output = call()
        assert forward.widths == [3 * D, D]
        with Noted() as back:
            output.backward(torch.ones_like(output))
        copied[name] = forward.copied, back.copied
    assert copied["ours"] == (0, 0)
    assert min(copied["torch"]) >= 3 * B * T * D


def test_going_forward_the_weights_are_one_array_less(bench):
    mib = {
        row["contestant"]: row["mib"]
        for row in STORED["rows"]
        if (row["T"], row["what"]) == (8192, bench.FORWARD)
    }
    array = 8 * 8192**2 * 4 / 2**20
    less = mib["torch, weights"] - mib["ours, weights"]
    assert 0.9 < less / array < 1.1


# ---- the exercises of the page ----


def test_the_exercise_with_two_medians():
    one, other = (30, 33, 90), (20, 30, 60)
    ratios = [a / b for a, b in zip(one, other, strict=True)]
    assert statistics.median(ratios) == 1.5
    assert statistics.median(one) / statistics.median(other) == 1.1
    # Had both been three times as fast in the third round.
    one, other = (30, 33, 30), (20, 30, 20)
    ratios = [a / b for a, b in zip(one, other, strict=True)]
    assert statistics.median(ratios) == 1.5
    assert statistics.median(one) / statistics.median(other) == 1.5


def test_the_exercise_with_an_exponent(bench):
    def at(T, ms):
        size = {"B": 1, "T": T, "what": "forward", "contestant": "ours"}
        return {**size, "ms": {"median": ms}, "mib": None}

    (found,) = bench.growth([at(2048, 40.0), at(8192, 520.0)])
    assert round(found["time"], 2) == 1.85
    p = math.log(13) / math.log(4)
    assert round(520 * 4**p) == 6760
    answer = [p, 520 * 4**p]
    assert check("ex-speed-exponent", answer)
    assert not check("ex-speed-exponent", [2.0, 520 * 4**2])


def test_the_exercise_with_a_floor():
    D = 512
    projections, sums = (lambda T: 4 * T * D**2), (lambda T: 2 * T**2 * D)
    assert projections(128) / sums(128) == 8
    assert projections(8192) / sums(8192) == 0.125
