"""How experiments run over seeds and what they store; every experiment of the book goes through this."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from attention_in_detail.insights.results import Measured, experiment

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(
    path
    for path in (ROOT / "experiments").glob("*.py")
    if "__main__" in path.read_text("utf8")
)
LABELS = {"a": ("the first", ".3f"), "b": ("the second", ".1e")}


@pytest.fixture
def running(monkeypatch, tmp_path):
    """The runner, writing into an empty folder."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    specification = importlib.util.spec_from_file_location(
        "experiments_running", ROOT / "experiments/running.py"
    )
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    storing = sys.modules["storing"]
    monkeypatch.setattr(storing, "FOLDER", tmp_path)
    monkeypatch.setattr(storing, "today", lambda name: {"code": name})
    return module


def test_it_stores_what_each_seed_gave(running, tmp_path, capsys):
    def measure(seed):
        return {"a": np.float64(seed / 3), "b": 10.0**-seed}

    running.run(
        "kept", measure, LABELS, seeds=(1, 2), more=lambda: {"x": [1]}
    )
    kept = json.loads((tmp_path / "kept.json").read_text("utf8"))
    assert kept["seeds"] == [1, 2]
    assert kept["code"] == "kept"
    assert kept["rows"] == {
        "a": {
            "label": "the first",
            "form": ".3f",
            "values": [0.333333, 0.666667],
        },
        "b": {"label": "the second", "form": ".1e", "values": [0.1, 0.01]},
    }
    assert kept["more"] == {"x": [1]}
    assert "numpy" in kept["versions"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("kept: seed 1 (1 of 2)")
    assert lines[-1] == "kept: stored in kept.json"


@pytest.mark.parametrize("found", [{"a": 1.0}, {"a": 1.0, "b": 1, "c": 1}])
def test_a_number_without_a_label_stores_nothing(running, tmp_path, found):
    with pytest.raises(ValueError, match=r"seed 0 gave .* the labels are"):
        running.run("kept", lambda seed: found, LABELS)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_at_the_last_seed_keeps_what_was_stored(
    running, tmp_path
):
    (tmp_path / "kept.json").write_text("old", "utf8")

    def measure(seed):
        if seed == 4:
            raise RuntimeError("it broke")
        return {"a": 1.0, "b": 1.0}

    with pytest.raises(RuntimeError):
        running.run("kept", measure, LABELS)
    assert (tmp_path / "kept.json").read_text("utf8") == "old"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_experiment_is_stored_over_five_seeds(script):
    found = experiment(script.stem)
    assert len(set(found.seeds)) >= 5
    for key, row in found.rows.items():
        assert isinstance(row, Measured), key
        assert len(row.values) == len(found.seeds), key
        assert np.all(np.isfinite(row.values)), key
        assert row.label.strip(), key


def test_an_experiment_that_does_not_exist_is_named_and_nothing_runs():
    told = subprocess.run(
        ["make", "experiments", "NAME=nowhere"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert told.returncode == 2
    assert "there is no experiment nowhere; there are: " in told.stderr
    for script in SCRIPTS:
        assert script.stem in told.stderr
    assert "environment" not in told.stdout
