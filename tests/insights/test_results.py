"""Measured numbers: how they are read, written on a page, and filled into texts."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from attention_in_detail.insights import results
from attention_in_detail.insights.results import (
    Measured,
    experiment,
    fill_measured,
    parse_measured,
)

ROOT = Path(__file__).resolve().parents[2]
KEPT = {
    "date": "2026-11-01",
    "machine": "a machine",
    "versions": {"python": "3.11"},
    "seeds": [0, 1, 2],
    "rows": {
        "accuracy": {
            "label": "accuracy",
            "form": ".3f",
            "values": [0.25, 0.5, 0.75],
        },
        "error": {
            "label": "error of the sum",
            "form": ".1e",
            "values": [1e-16, 2e-16, 4e-15],
        },
    },
    "more": {"curve": [1, 2]},
}


@pytest.fixture
def kept(monkeypatch):
    """Make the stored results hold one experiment, ``kept``, and one result that is none."""

    def stored_result(name):
        return {"kept": KEPT, "times": {"date": "2026-11-01"}}[name]

    results._read.cache_clear()
    monkeypatch.setattr(results, "stored_result", stored_result)
    yield experiment("kept")
    results._read.cache_clear()


def test_an_experiment_is_read_whole(kept):
    assert kept.seeds == (0, 1, 2)
    assert kept["accuracy"].values == (0.25, 0.5, 0.75)
    assert kept.more == {"curve": [1, 2]}
    assert (kept.date, kept.machine) == ("2026-11-01", "a machine")
    assert kept.versions == {"python": "3.11"}


def test_mean_and_spread_are_those_of_the_sample():
    values = np.random.default_rng(0).normal(size=7)
    row = Measured("x", tuple(values))
    assert row.mean == pytest.approx(sum(values) / 7)
    squares = sum((value - row.mean) ** 2 for value in values)
    assert row.spread == pytest.approx((squares / 6) ** 0.5)
    assert Measured("one", (0.3,)).spread == 0


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("", "0.500 ± 0.250"),
        ("mean", "0.500"),
        ("spread", "0.250"),
        ("median", "0.500"),
        ("least", "0.250"),
        ("most", "0.750"),
        ("range", "0.250 to 0.750"),
    ],
)
def test_a_quantity_is_written(kept, what, text):
    assert kept["accuracy"].text(what) == text


@pytest.mark.parametrize(
    ("values", "form", "text"),
    [
        ((-0.5, -0.5), ".1f", "−0.5 ± 0.0"),
        ((-1e-9, 0.0), ".2f", "0.00 ± 0.00"),
        (
            (1e-16, 2e-16, 4e-15),
            ".1e",
            "2.0 × 10⁻¹⁶ (1.0 × 10⁻¹⁶ to 4.0 × 10⁻¹⁵)",
        ),
        ((2.5, 2.5), ".1e", "2.5 (2.5 to 2.5)"),
        ((-3e7, -3e7), ".0e", "−3 × 10⁷ (−3 × 10⁷ to −3 × 10⁷)"),
    ],
)
def test_signs_and_powers_are_written_out(values, form, text):
    assert Measured("x", values, form).text() == text


def test_a_range_of_one_value_is_the_value():
    assert Measured("x", (1.0, 1.0)).text("range") == "1.000"


def test_a_table_shows_each_row(kept):
    shown = kept.table()._repr_markdown_()
    fixed = "\N{NO-BREAK SPACE}"
    assert shown.splitlines()[2:4] == [
        f"| accuracy | 0.500{fixed}±{fixed}0.250 | 0.250 to 0.750 |",
        f"| error of the sum | median 2.0{fixed}×{fixed}10⁻¹⁶ "
        f"| 1.0{fixed}×{fixed}10⁻¹⁶ to 4.0{fixed}×{fixed}10⁻¹⁵ |",
    ]
    assert shown.endswith(
        "3 seeds; measured on 2026-11-01 by experiments/kept.py"
    )
    assert "error of the sum" in shown
    assert (
        "error of the sum" not in kept.table("accuracy")._repr_markdown_()
    )
    plain = repr(kept.table("error", "accuracy")).splitlines()
    assert plain[1] == "accuracy          0.500 ± 0.250"


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda kept: kept["speed"],
            ValueError,
            "the experiment 'kept' has no 'speed', but: accuracy, error",
        ),
        (
            lambda kept: kept.table("accuracy", "x"),
            ValueError,
            "has no 'x', but: accuracy, error",
        ),
        (
            lambda kept: kept[0],
            TypeError,
            "a key must be a text, not",
        ),
        (
            lambda kept: kept["error"].text("best"),
            ValueError,
            "what is 'best', but can be: mean, spread",
        ),
        (
            lambda kept: experiment("times"),
            ValueError,
            "what is stored as 'times' is no experiment over seeds",
        ),
        (
            lambda kept: experiment(3),
            TypeError,
            "name must be a text, not",
        ),
        (
            lambda kept: parse_measured("0.5"),
            ValueError,
            "'0.5' should be: the number <experiment key>",
        ),
    ],
)
def test_what_is_not_there_is_named(kept, call, kind, message):
    with pytest.raises(kind, match=message):
        call(kept)


def test_an_unknown_experiment_is_refused():
    with pytest.raises(ValueError, match="name is 'nothing', but what is"):
        experiment("nothing")


def test_a_role_is_taken_apart():
    assert parse_measured("0.5 ± 0.1 <kept error>") == (
        "0.5 ± 0.1",
        "kept",
        "error",
        "",
    )
    assert parse_measured("<kept error range>") == (
        "",
        "kept",
        "error",
        "range",
    )


def test_numbers_are_filled_and_nothing_else_changes(kept):
    text = "A {measured}`<kept accuracy>`, b {measured}`9 <kept accuracy most>` `0.1`."
    right = (
        "A {measured}`0.500 ± 0.250 <kept accuracy>`, "
        "b {measured}`0.750 <kept accuracy most>` `0.1`."
    )
    assert fill_measured(text) == right
    assert fill_measured(right) == right


@pytest.mark.parametrize(
    "path",
    [
        *sorted((ROOT / "notebooks").glob("*.ipynb")),
        *sorted((ROOT / "book").glob("*.md")),
    ],
    ids=lambda path: path.stem,
)
def test_every_measured_number_of_the_book_is_the_stored_one(path):
    text = path.read_text("utf8")
    if path.suffix == ".ipynb":
        text = "\n".join(
            "".join(cell["source"])
            for cell in json.loads(text)["cells"]
            if cell["cell_type"] == "markdown"
        )
    assert fill_measured(text) == text


def test_the_tool_fills_a_page_and_leaves_a_wrong_one_alone(tmp_path):
    def run(page):
        return subprocess.run(
            [sys.executable, "tools/fill_measured.py", str(page)],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )

    good, wrong = tmp_path / "good.ipynb", tmp_path / "wrong.md"
    cells = [{"cell_type": "markdown", "source": ["no\n", "number é"]}]
    good.write_text(
        json.dumps({"cells": cells}, indent=1, ensure_ascii=False) + "\n",
        "utf8",
    )
    before = good.read_bytes()
    assert run(good).returncode == 0
    assert good.read_bytes() == before
    wrong.write_text("{measured}`1 <nothing at all>`", "utf8")
    told = run(wrong)
    assert told.returncode == 1
    assert "wrong.md: name is 'nothing'" in told.stderr
    assert wrong.read_text("utf8") == "{measured}`1 <nothing at all>`"
