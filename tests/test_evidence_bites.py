"""A formula that is broken turns a claim red: each change below is made in a copy of the package, one at a time.

Slow, since each runs the tests of its claim in a process of its own; run by `make test-more`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.extension_support import ROOT, extension

pytestmark = pytest.mark.slow

evidence = extension("evidence")
TESTS = sys.modules["test_sources"].read_tests(ROOT / "tests")
PACKAGE = ROOT / "src" / "attention_in_detail"
# (file, what the formula says, what is put in its place, a claim that rests on it)
BREAKS = [
    ("rows.py", "exponentials / total,", "exponentials,", "def-softmax"),
    (
        "scaled_dot_product.py",
        "1 / math.sqrt(queries.shape[-1])",
        "1 / queries.shape[-1]",
        "def-compatibility",
    ),
    (
        "scaled_dot_product.py",
        "xp.where(is_open, z, constant(-xp.inf, z))",
        "xp.where(is_open, constant(-xp.inf, z), z)",
        "def-mask-attention",
    ),
    (
        "scaled_dot_product.py",
        "narrowed(weights @ v, values.dtype)",
        "narrowed(2 * (weights @ v), values.dtype)",
        "def-attention",
    ),
    ("masks.py", "return j <= i + offset", "return j < i + offset", "def-causal-mask"),
    (
        "masks.py",
        "return j < xp.astype(lengths, xp.int64)",
        "return j <= xp.astype(lengths, xp.int64)",
        "def-padding-mask",
    ),
    ("multi_head.py", "xp.moveaxis(cut, -2, -3)", "xp.reshape(x, (*batch, heads, T, D // heads))", "def-split"),
    (
        "multi_head.py",
        "xp.reshape(xp.moveaxis(x, -3, -2), (*batch, T, heads * D_h))",
        "xp.reshape(x, (*batch, T, heads * D_h))",
        "thm-one-product",
    ),
    (
        "multi_head.py",
        "merged = xp.concat(head_outputs, axis=-1)",
        "merged = xp.concat(head_outputs[::-1], axis=-1)",
        "def-multi-head",
    ),
    (
        "positions.py",
        "[xp.sin(angles), xp.cos(angles)]",
        "[xp.cos(angles), xp.sin(angles)]",
        "def-positions",
    ),
    (
        "pointwise.py",
        "centred / xp.sqrt(variance",
        "centred / (variance",
        "def-norm-feed-forward",
    ),
    (
        "head_scores.py",
        "xp.sum(on_pattern * asked, axis=-1) / xp.sum(asked)",
        "xp.mean(on_pattern * asked, axis=-1)",
        "def-pattern-mass",
    ),
    ("decoding.py", "one.log_probability + gain", "gain", "def-beam"),
    (
        "insights/direction.py",
        "return W_Q @ W_K.mT",
        "return W_K @ W_Q.mT",
        "def-score-form",
    ),
    (
        "insights/fast_weights.py",
        "missing = v - W @ k",
        "missing = v + W @ k",
        "def-fast-delta",
    ),
]  # fmt: skip


def record_of_the_claim(label, folder, source):
    """Run the tests that check a claim, on the package in `source`; return the record of the run."""
    keys = [
        f"tests/{test.key}"
        for test in TESTS.values()
        if label in test.claims and not test.slow
    ]
    assert keys, f"no test checks {label}"
    path = folder / "record.json"
    command = [sys.executable, "-m", "pytest", "-q", *keys]
    command += ["-p", "tests.claims", f"--evidence={path}"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-m", "not slow"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return evidence.read_record(path)


def told(label, record):
    """What a strict build says of a claim."""
    claim = evidence.Claim(label, "page", label)
    checking = {
        key: test for key, test in TESTS.items() if label in test.claims
    }
    labels = {name for test in checking.values() for name in test.claims}
    return [
        fault
        for fault, _ in evidence.faults(
            [claim], checking, labels, record, record.code
        )
    ]


@pytest.mark.parametrize(
    ("file", "right", "wrong", "label"),
    BREAKS,
    ids=[f"{file}: {label}" for file, _, _, label in BREAKS],
)
def test_a_broken_formula_turns_a_claim_red(
    file, right, wrong, label, tmp_path
):
    copy = tmp_path / "src" / PACKAGE.name
    shutil.copytree(
        PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__")
    )
    source = (copy / file).read_text("utf8")
    assert source.count(right) == 1, "the formula is written otherwise now"
    (copy / file).write_text(source.replace(right, wrong), "utf8")
    record = record_of_the_claim(label, tmp_path, copy.parent)
    assert "failed" in record.outcomes.values()
    faults = told(label, record)
    assert any(
        fault.startswith(f"{label} is checked by") and "failed" in fault
        for fault in faults
    )


def test_an_unbroken_package_leaves_the_claim_green(tmp_path):
    record = record_of_the_claim("def-attention", tmp_path, ROOT / "src")
    assert set(record.outcomes.values()) == {"passed"}
    assert told("def-attention", record) == []
