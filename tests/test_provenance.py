"""Stored measurements: which code each came from, and what counts as the same code."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from tests.extension_support import ROOT
from tools import provenance

SCRIPT = """
from attention_in_detail import attention
from attention_in_detail.kept import something
from attention_in_detail.deep.low import rate
import helper
"""
FILES = {
    "experiments/one.py": SCRIPT,
    "experiments/helper.py": "import numpy\n",
    "bench/two.py": "print(1)\n",
    "src/attention_in_detail/__init__.py": (
        "from attention_in_detail.formula import attention\n"
        "from attention_in_detail.others import unused\n"
    ),
    "src/attention_in_detail/kept/__init__.py": "def something(): return 1\n",
    "src/attention_in_detail/formula.py": (
        '"""What it is."""\n'
        "from attention_in_detail._small import half\n\n"
        "def attention(x):\n"
        '    """Attend."""\n'
        "    return half(x)  # at once\n"
    ),
    "src/attention_in_detail/_small.py": "def half(x):\n    return x / 2\n",
    "src/attention_in_detail/others.py": "unused = 1\n",
    "src/attention_in_detail/deep/__init__.py": "depth = 2\n",
    "src/attention_in_detail/deep/low.py": "rate = 0.1\n",
}


@pytest.fixture
def root(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf8")
    (tmp_path / provenance.STORED).mkdir()
    return tmp_path


def names_behind(root, script):
    return {
        path.relative_to(root).as_posix()
        for path in provenance.files_behind(root, root / script)
    }


def test_what_is_behind_a_script_is_followed_to_the_module_that_has_it(
    root,
):
    package = "src/attention_in_detail"
    assert names_behind(root, "experiments/one.py") == {
        "experiments/one.py",
        "experiments/helper.py",
        f"{package}/kept/__init__.py",  # it has the function itself
        f"{package}/formula.py",
        f"{package}/_small.py",
        f"{package}/deep/low.py",
    }
    assert names_behind(root, "bench/two.py") == {"bench/two.py"}


@pytest.mark.parametrize(
    ("file", "text", "same"),
    [
        ("src/attention_in_detail/_small.py", "x / 2", "x / 3"),
        ("src/attention_in_detail/formula.py", "half(x)", "half(x) + 1"),
        ("src/attention_in_detail/deep/low.py", "0.1", "0.2"),
        ("src/attention_in_detail/kept/__init__.py", "1", "2"),
        ("experiments/helper.py", "numpy", "torch"),
        ("experiments/one.py", "rate", "rate as r"),
    ],
)
def test_a_change_behind_a_script_is_a_change(root, file, text, same):
    before = provenance.of_script(root, root / "experiments/one.py")
    path = root / file
    path.write_text(path.read_text("utf8").replace(text, same), "utf8")
    after = provenance.of_script(root, root / "experiments/one.py")
    assert before != after


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("src/attention_in_detail/formula.py", "  # at once", ""),
        ("src/attention_in_detail/formula.py", "Attend.", "Attend to it."),
        ("src/attention_in_detail/formula.py", "What it is", "What else"),
        ("src/attention_in_detail/_small.py", "x / 2", "(\n x /\n 2)"),
        ("src/attention_in_detail/others.py", "unused = 1", "unused = 2"),
        ("src/attention_in_detail/deep/__init__.py", "2", "3"),
        ("bench/two.py", "1", "2"),
    ],
)
def test_comments_layout_and_what_is_not_used_change_nothing(
    root, file, before, after
):
    script = root / "experiments/one.py"
    kept = provenance.of_script(root, script)
    path = root / file
    assert before in path.read_text("utf8")
    path.write_text(path.read_text("utf8").replace(before, after), "utf8")
    assert provenance.of_script(root, script) == kept


def test_what_stands_in_the_stored_files_is_read(root):
    folder = root / provenance.STORED
    one = provenance.of_script(root, root / "experiments/one.py")
    two = provenance.of_script(root, root / "bench/two.py")
    kept = {"date": "2026-01-01", "code": "other"}
    (folder / "one.json").write_text(json.dumps(kept), "utf8")
    np.savez(folder / "two.npz", x=np.ones(2), date="2026-01-02", code=two)
    assert provenance.stored(root) == [
        provenance.Stored(
            "one", "experiments/one.py", "2026-01-01", "", False
        ),
        provenance.Stored("two", "bench/two.py", "2026-01-02", "", True),
    ]
    kept["again"] = {"date": "2026-01-03", "code": one}
    (folder / "one.json").write_text(json.dumps(kept), "utf8")
    found = provenance.stored(root)[0]
    assert (found.again, found.same_code) == ("2026-01-03", True)


def test_a_result_without_code_or_without_a_script_is_refused(root):
    folder = root / provenance.STORED
    (folder / "one.json").write_text('{"date": "2026-01-01"}', "utf8")
    with pytest.raises(ValueError, match="does not say its code"):
        provenance.stored(root)
    (folder / "one.json").rename(folder / "three.json")
    with pytest.raises(ValueError, match=r"has a script three\.py"):
        provenance.stored(root)


def test_every_stored_result_of_the_book_says_its_code():
    found = {one.name: one for one in provenance.stored(ROOT)}
    assert {"direction", "minilm", "translator", "parallelism"} <= set(
        found
    )
    assert found["direction"].script == "experiments/direction.py"


EXPERIMENT = """
import sys
sys.path[:0] = {paths}
import running, storing
from pathlib import Path
kept = {{"date": "d", "code": "c", "rows": {{"a": {{"values": [2.0, 3.0]}}, "t": {{"values": [1.0]}}}}}}
running.stored_result = lambda name: kept
running.today = lambda name: {{"date": "today", "code": "new"}}
running.write = lambda name, whole: print("written", whole["again"])
sys.argv = ["x", "--again"]
running.run("one", lambda seed: {found}, {{"a": ("", ""), "t": ("", "")}}, times=["t"])
"""


@pytest.mark.parametrize(
    ("found", "status", "told"),
    [
        (
            {"a": 2.001, "t": 9},
            0,
            "written {'date': 'today', 'code': 'new', 'numbers': 1}",
        ),
        ({"a": 2.1, "t": 1}, 1, "a: stored 2, now 2.1"),
    ],
)
def test_the_first_seed_measured_again_agrees_or_is_told(
    found, status, told
):
    paths = [str(ROOT / "experiments"), str(ROOT / "src")]
    code = textwrap.dedent(EXPERIMENT.format(paths=paths, found=found))
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    )
    assert run.returncode == status
    assert told in run.stdout + run.stderr
    assert ("written" in run.stdout) == (status == 0)
