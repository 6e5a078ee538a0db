"""Other versions than the pinned ones: which they are, what is compared there, and who runs them."""

from __future__ import annotations

import base64
import importlib
import importlib.metadata
import io
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version
from PIL import Image

import attention_in_detail
import conftest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
torch_names = importlib.import_module("torch_names")
versions = importlib.import_module("versions")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


# --- Bounds -----------------------------------------------------------------------------------------


def declared():
    project = PROJECT["project"]
    lines = [*PROJECT["build-system"]["requires"], *project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        lines += extra
    found = [Requirement(line) for line in lines]
    return [one for one in found if one.name != project["name"]]


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_the_oldest_run_has_each_lower_bound(requirement):
    lines = versions.constraints("oldest", ["2.5.0+cpu"])
    [line] = [
        one for one in lines if one.split("==")[0] == requirement.name
    ]
    wanted = Version(line.split("==")[1])
    [low] = [
        Version(one.version)
        for one in requirement.specifier
        if one.operator == ">="
    ]
    assert wanted.release[:2] == low.release[:2] or wanted == low
    assert requirement.specifier.contains(wanted)


def test_numpy_is_supported_as_far_back_as_a_browser_carries_it():
    assert Version(versions.bounds()["numpy"]) <= Version("2.0.2")


def test_the_newest_run_pins_nothing_but_pytorch():
    assert versions.constraints("newest", ["2.14.0+cpu", "2.13.0+cpu"]) == [
        "torch==2.14.0+cpu"
    ]


@pytest.mark.parametrize("kind", versions.KINDS)
def test_where_no_build_is_to_be_had_the_pinned_pytorch_stays(kind):
    pinned = versions.pinned()["torch"]
    assert f"torch=={pinned}" in versions.constraints(kind, [])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2.5", "2.5.0+cpu", True),
        ("9", "9.0.0", True),
        ("2.5.1", "2.5", False),
        ("2.50", "2.5", False),
    ],
)
def test_a_release_has_several_spellings(one, other, same):
    assert versions.same(one, other) is same


@pytest.mark.parametrize("kind", versions.KINDS)
def test_the_table_names_each_package_and_says_what_was_not_run(
    kind, monkeypatch
):
    pinned = versions.pinned()["torch"]
    monkeypatch.setattr(versions, "installed", lambda name: pinned)
    told = versions.table(kind)
    assert all(f"\n  {name} " in told for name in versions.bounds())
    assert "looked up as text in the last step" in told


def test_wrong_call_of_versions_is_refused(capsys):
    assert versions.main(["middling"]) == 2
    assert "usage:" in capsys.readouterr().err


# --- Names of PyTorch ---------------------------------------------------------------------------------


def listed():
    lines = (ROOT / "tests/torch_names.txt").read_text("utf-8").splitlines()
    return dict(line.split() for line in lines if not line.startswith("#"))


def test_each_name_of_pytorch_that_is_used_is_listed():
    assert torch_names.used() == set(listed())


def test_each_name_of_pytorch_is_in_its_lowest_release():
    low = Version(versions.bounds()["torch"])
    assert [
        name for name, since in listed().items() if Version(since) > low
    ] == []


def test_each_name_of_pytorch_exists_in_the_installed_one():
    missing = []
    for name in listed():
        parts = name.partition("(")[0].split(".")
        found = importlib.import_module(parts[0])
        for part in parts[1:]:
            found = getattr(found, part, None)
        missing += [] if found is not None else [name]
    assert missing == []


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import torch\ntorch.randn(2)", {"torch.randn"}),
        ("import torch as t\nt.nn.Linear", {"torch.nn.Linear"}),
        (
            "from torch.nn import functional as F\nF.kl_div(a, b, reduction='sum')",
            {
                "torch.nn.functional.kl_div",
                "torch.nn.functional.kl_div(reduction)",
            },
        ),
        ("from torch.func import grad", {"torch.func.grad"}),
        ("import numpy as torch_like\ntorch_like.ones(2)", set()),
    ],
)
def test_names_are_found_however_they_are_imported(source, names):
    assert torch_names.names_in(source) == names


@pytest.fixture
def release(tmp_path):
    """A release of a small PyTorch."""
    path = tmp_path / "torch-9.0.0-cp311-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in {
            "torch/__init__.py": "from torch.random import (\n    fork_rng as fork_rng,\n)\nfrom math import inf\n",
            "torch/_C/_VariableFunctions.pyi": "def randn(n: int, *,\n    dtype: Any = None) -> Tensor: ...\n",
            "torch/nn/__init__.py": "from .modules import *\n",
            "torch/nn/modules/__init__.py": "from .linear import Linear, \\\n    Bilinear, Identity\n",
            "torch/nn/modules/linear.py": "class Identity(Module):\n    def __init__(self, a):\n        pass\n\n\n"
            "class Linear(Module):\n    def __init__(\n        self, n, bias: bool = True\n    ):\n        pass\n",
        }.items():
            wheel.writestr(name, text)
    return path


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("torch.randn", True),
        ("torch.randn(dtype)", True),
        ("torch.randn(device)", False),
        ("torch.inf", True),
        ("torch.fork_rng", True),
        ("torch.nan", False),
        ("torch.nn.Identity", True),
        ("torch.nn.Identity(bias)", False),
        ("torch.nn.Linear(bias)", True),
        ("torch.nn.Lazy", False),
        ("torch.func.grad", False),
    ],
)
def test_a_release_is_read_for_names_and_arguments(release, name, there):
    missing = torch_names.Release(release).missing([name])
    assert missing == ([] if there else [name])


def test_a_release_without_a_name_fails_and_is_told(release, capsys):
    assert torch_names.main([str(release)]) == 1
    told = capsys.readouterr().out
    assert told.startswith("PyTorch 9.0.0, read as text, not run: ")
    assert "torch.where" in told


# --- What is compared there ---------------------------------------------------------------------------


def test_the_switch_is_refused_in_any_other_environment():
    here = Path(sys.prefix).name
    word = "newest" if here == ".venv-oldest" else "oldest"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "conftest.py"],
        cwd=ROOT,
        env={**os.environ, "VERSIONS": word},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 4
    assert f"VERSIONS={word} compares less" in done.stderr


def picture(shade, alt="a dark ground"):
    stream = io.BytesIO()
    Image.new("RGBA", (20, 10), (shade, 0, 0, 255)).save(stream, "PNG")
    png = base64.b64encode(stream.getvalue()).decode()
    return {
        "data": {"image/png": png, "text/plain": f"Figure: {alt}"},
        "metadata": {"image/png": {"alt": alt}},
    }


def test_other_versions_may_draw_other_pixels_but_no_other_figure():
    compare = conftest.image_difference
    assert compare([picture(1)], [picture(200)])
    assert compare([picture(1)], [picture(200)], pixels=False) is None
    assert compare([picture(1, "light")], [picture(1)], pixels=False)
    assert compare([], [picture(1)], pixels=False)


@pytest.mark.parametrize(
    ("drawn", "same"),
    [
        ("step 400: loss 0.013\nat least .98: True\n", True),
        ("step 400: loss 0.05\nat least .98: True\n", True),
        ("step 400: loss 0.5\nat least .98: True\n", False),
        ("step 400: loss 0.010\nat least .98: False\n", False),
        ("step 400: loss nan\nat least .98: True\n", False),
        ("step 400: loss 0.010\n", False),
    ],
)
def test_training_keeps_its_verdicts_and_its_numbers_to_a_tenth(
    drawn, same
):
    kept = [{"text": "step 400: loss 0.010\nat least .98: True\n"}]
    settled = conftest.with_settled_training([{"text": drawn}], kept)
    assert (settled == kept) is same


def test_only_what_follows_a_training_is_compared_so():
    assert not conftest.trains(["model = trained_number_words()"])
    assert conftest.trains(["x = 1", "a, b = train_number_words(seed=0)"])


def test_each_function_that_trains_is_one_of_the_package():
    text = "".join(
        path.read_text("utf-8")
        for path in Path(attention_in_detail.__file__).parent.rglob("*.py")
    )
    for name in conftest.TRAINING:
        assert f"\ndef {name}(" in text
    # The other way round: whoever trains with a report is listed.
    reporting = re.findall(
        r"\ndef (\w+)\([^)]*\breport: (?:int|Callable)", text
    )
    reached = {name for name in reporting if uses_in_chapters(name)}
    assert reached <= set(conftest.TRAINING)


def uses_in_chapters(name):
    sources = [
        cell.source
        for path in (ROOT / "notebooks").glob("*.ipynb")
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code"
    ]
    return any(
        re.search(rf"(?<![\w.]){name}\(", source) for source in sources
    )


# --- Who runs them ------------------------------------------------------------------------------------


def commands():
    """(workflow, command) for each line that a workflow runs."""
    found = []
    for path in WORKFLOWS:
        for job in yaml.safe_load(path.read_text("utf-8"))["jobs"].values():
            for step in job["steps"]:
                lines = step.get("run", "").splitlines()
                found += [(path.stem, line) for line in lines]
    return found


def workflow(name):
    path = ROOT / f".github/workflows/{name}.yml"
    return yaml.safe_load(path.read_text("utf-8"))


def triggers(name):
    # YAML takes the word "on" for true.
    return workflow(name)[True]


def test_there_are_three_workflows():
    assert [path.stem for path in WORKFLOWS] == [
        "publish",
        "test",
        "weekly",
    ]


def test_workflows_call_only_commands_that_people_call():
    targets = re.findall(
        r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    assert commands()
    for _, line in commands():
        if line == "bash .ci/run":
            assert (ROOT / ".ci/run").is_file()
            continue
        # What puts the pages out is looked at in test_home.py.
        if line.startswith(("sh tools/publish.sh ", "gh api ")):
            continue
        made = re.fullmatch(
            r"make ([a-z-]+|\$\{\{ matrix\.target \}\})( STRICT=1)?", line
        )
        assert made, line
        assert made[1] in [*targets, "${{ matrix.target }}"]


def test_weekly_runs_the_oldest_the_newest_and_what_is_pinned():
    [job] = workflow("weekly")["jobs"].values()
    assert sorted(job["strategy"]["matrix"]["target"]) == [
        "again",
        "test",
        "test-newest",
        "test-oldest",
    ]
    [when] = triggers("weekly")["schedule"]
    _, _, day, month, weekday = when["cron"].split()
    assert (day, month) == ("*", "*")
    assert weekday.isdigit()


def test_changes_are_tested_with_each_python():
    assert set(triggers("test")) == {"push", "pull_request"}
    pythons = set()
    for job in workflow("test")["jobs"].values():
        for step in job["steps"]:
            asked = str(step.get("with", {}).get("python-version", ""))
            if "matrix" in asked:
                pythons |= set(job["strategy"]["matrix"]["python"])
            elif asked:
                pythons.add(asked)
    assert pythons == {"3.11", "3.12", "3.13"}
    for python in pythons:
        assert (
            f"Programming Language :: Python :: {python}"
            in PROJECT["project"]["classifiers"]
        )


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_may_do_no_more_than_they_must_and_know_no_secret(path):
    text = path.read_text("utf-8")
    parsed = yaml.safe_load(text)
    publishes = path.stem == "publish"
    assert parsed["permissions"] == (
        {} if publishes else {"contents": "read"}
    )
    assert "secrets" not in text
    for job in parsed["jobs"].values():
        # The one that publishes may write the pages, and nothing else.
        assert job.get("permissions") == (
            {"contents": "write", "pages": "write"} if publishes else None
        )
        assert job["timeout-minutes"] <= 120
        for step in job["steps"]:
            assert "run" in step or re.fullmatch(
                r"actions/[a-z-]+@v\d+", step["uses"]
            )
