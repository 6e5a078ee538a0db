"""The comparison of stored viewers: mild where processors differ, strict everywhere else."""

from __future__ import annotations

import base64
import copy
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest

from attention_in_detail.figures import attention_viewer
from tests.figures.reading import ENGLISH, GERMAN, rows_of_weights

ROOT = Path(__file__).resolve().parents[1]
CODE = (
    "import numpy as np\n\n"
    "from attention_in_detail.figures import attention_viewer\n\n"
    'attention_viewer(np.array([[0.125, 0.875], [1.0, 0.0]]), ["a", "b"])'
)


@pytest.fixture(scope="module")
def guard():
    specification = importlib.util.spec_from_file_location(
        "guard", ROOT / "conftest.py"
    )
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def stored(viewer):
    data, metadata = viewer._repr_mimebundle_()
    return [nbformat.v4.new_output("display_data", data, metadata=metadata)]


@pytest.fixture
def outputs():
    # 2400 weights, none near zero: four may be off.
    weights = rows_of_weights(0, 10, 12, 4, 5, sharpness=0.4)
    weights[0, 0] = [[1, 0, 0, 0, 0]] * 4
    return stored(attention_viewer(weights, GERMAN, ENGLISH))


def html_of(outputs):
    return outputs[0]["data"]["text/html"]


def change_html(outputs, change):
    outputs[0]["data"]["text/html"] = change(html_of(outputs))


def shift(places, step=1):
    """Change the weights at these places by so many hundredths."""

    def change(found):
        codes = np.frombuffer(base64.b64decode(found[1]), np.uint8).copy()
        codes[list(places)] += np.uint8(step % 256)
        return f' weights="{base64.b64encode(codes).decode()}"'

    def shifted(outputs):
        change_html(
            outputs, lambda html: re.sub(r' weights="(.*?)"', change, html)
        )

    return shifted


def another_figure(outputs):
    """As when lines are drawn with other last digits: the figure changes inside and outside."""
    old = outputs[0]["data"]["image/png"]
    new = base64.b64encode(base64.b64decode(old) + b"\0").decode()
    outputs[0]["data"]["image/png"] = new
    change_html(outputs, lambda html: html.replace(old, new))


def another_figure_inside(outputs):
    old = outputs[0]["data"]["image/png"]
    change_html(
        outputs, lambda html: html.replace(old, old[:-8] + "AAAAAAA=")
    )


def replaced(old, new):
    def change(outputs):
        assert html_of(outputs).count(old)
        change_html(outputs, lambda html: html.replace(old, new, 1))

    return change


MILD = [shift([40]), shift([40, 41, 42, 43], -1), another_figure]
STRICT = [
    shift(range(40, 45)),  # too many
    shift([40], 2),  # too far
    shift([1]),  # exactly zero no more
    another_figure_inside,
    replaced("Katze", "Hund"),
    replaced('head="0"', 'head="1"'),
    replaced("Strongest weights", "Largest weights"),
    replaced('shape="10 12', 'shape="12 10'),
    replaced("<attention-viewer", "<attention-viewers"),
]


@pytest.mark.parametrize("change", MILD)
@pytest.mark.parametrize("where", ["drawn", "kept"])
def test_what_differs_between_processors_is_no_difference(
    guard, outputs, change, where
):
    other = copy.deepcopy(outputs)
    change(other)
    assert html_of(other) != html_of(outputs)
    drawn, kept = (other, outputs) if where == "drawn" else (outputs, other)
    before = copy.deepcopy(drawn)
    settled = guard.with_settled_viewers(drawn, kept)
    assert html_of(settled) == html_of(kept)
    assert drawn == before


@pytest.mark.parametrize("change", STRICT)
@pytest.mark.parametrize("where", ["drawn", "kept"])
def test_every_other_change_stays_a_difference(
    guard, outputs, change, where
):
    other = copy.deepcopy(outputs)
    change(other)
    drawn, kept = (other, outputs) if where == "drawn" else (outputs, other)
    settled = guard.with_settled_viewers(drawn, kept)
    assert html_of(settled) != html_of(kept)


def test_outputs_of_other_kinds_are_left_alone(guard):
    other = [
        nbformat.v4.new_output("stream", name="stdout", text="a"),
        nbformat.v4.new_output(
            "display_data", {"text/html": '<b weights="a">'}
        ),
    ]
    assert guard.with_settled_viewers(other, other) == other


def test_several_viewers_of_a_cell_are_compared_in_their_order(
    guard, outputs
):
    moved = copy.deepcopy(outputs)
    shift([40])(moved)
    settled = guard.with_settled_viewers(outputs + moved, moved + outputs)
    assert [html_of([output]) for output in settled] == [
        html_of(moved),
        html_of(outputs),
    ]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """What a re-run says of a notebook as it was stored, with one weight off by a hundredth, and by two."""
    folder = tmp_path_factory.mktemp("viewers")
    shutil.copy(ROOT / "conftest.py", folder)
    page = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CODE)])
    nbformat.write(page, folder / "as_stored.ipynb")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    # The guard of the pinned versions, also when these tests run at others.
    environment.pop("VERSIONS", None)

    def run(*command):
        return subprocess.run(
            [sys.executable, *command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )

    done = run(
        str(ROOT / "tools/run_notebooks.py"),
        str(folder / "as_stored.ipynb"),
    )
    assert done.returncode == 0, done.stdout
    for name, step in (("one_step", 1), ("two_steps", 2)):
        page = nbformat.read(folder / "as_stored.ipynb", as_version=4)
        shift([0], step)(page.cells[0].outputs)
        nbformat.write(page, folder / f"{name}.ipynb")
    options = ["-p", "no:cacheprovider", "-c", os.devnull, "--rootdir=."]
    nbval = ["--nbval", "--nbval-current-env", "--color=no", "-rA"]
    return run("-m", "pytest", *options, *nbval, ".").stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("as_stored", "PASSED"),
        ("one_step", "PASSED"),
        ("two_steps", "FAILED"),
    ],
)
def test_the_guard_compares_viewers_so(verdicts, name, verdict):
    assert f"{verdict} {name}.ipynb::Cell 0" in verdicts, verdicts
