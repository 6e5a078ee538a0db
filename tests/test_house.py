"""The house: pins, commands, licence and metadata agree with each other; nothing tells where it was made."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import attention_in_detail

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads(
    (ROOT / "pyproject.toml").read_text(encoding="utf-8")
)["project"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# What the large builds of PyTorch bring in, exactly pinned by PyTorch itself.
PINNED_BY_TORCH = re.compile(r"(nvidia|cuda|triton|intel|mkl|tbb)(-|$)")


def files():
    """The files of the project: those git tracks or would; without git, those that make did not make."""
    command = [
        "git",
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "-z",
    ]
    try:
        listed = subprocess.run(
            command, cwd=ROOT, capture_output=True, check=True, text=True
        ).stdout
        found = [ROOT / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        made = {
            ".git",
            ".venv",
            ".venv-oldest",
            ".venv-newest",
            "_build",
            "__pycache__",
            ".pytest_cache",
            ".ruff_cache",
            ".hypothesis",
        }
        found = [
            path
            for path in ROOT.rglob("*")
            if not made & set(path.relative_to(ROOT).parts)
        ]
        found = [
            path
            for path in found
            if "egg-info" not in str(path) and ".coverage" not in path.name
        ]
    return sorted(path for path in found if path.is_file())


def pins(name="requirements.txt"):
    lines = [
        line.split("#")[0].strip()
        for line in (ROOT / name).read_text().splitlines()
    ]
    return [Requirement(line) for line in lines if line]


def applies(requirement, extras=frozenset()):
    marker = requirement.marker
    return marker is None or any(
        marker.evaluate({"extra": extra}) for extra in extras or {""}
    )


PINS = {canonicalize_name(pin.name): pin for pin in pins()}
WEIGHTS = pins("requirements-weights.txt")


# --- Packages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("pin", [*pins(), *WEIGHTS], ids=str)
def test_pin_is_exact(pin):
    [specifier] = pin.specifier
    assert specifier.operator == "=="
    assert "*" not in specifier.version
    assert "+" not in specifier.version


def test_nothing_is_pinned_twice():
    assert len(PINS) == len(pins())
    names = {canonicalize_name(pin.name) for pin in WEIGHTS}
    assert len(names) == len(WEIGHTS)
    assert not names & set(PINS)


def test_second_half_of_the_pins_is_in_order():
    names = [
        line.split("==")[0]
        for line in (ROOT / "requirements.txt")
        .read_text()
        .split("# --- Brought in")[1]
        .splitlines()
    ]
    names = [
        name for name in names if name and not name.startswith(("#", " "))
    ]
    assert names == sorted(names)


def declared():
    extras = PROJECT["optional-dependencies"].values()
    return [
        Requirement(line)
        for line in [
            *PROJECT["dependencies"],
            *(line for extra in extras for line in extra),
        ]
    ]


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_declared_dependency_has_a_pin_that_it_admits(requirement):
    name = canonicalize_name(requirement.name)
    if name == canonicalize_name(PROJECT["name"]):
        assert requirement.extras <= set(PROJECT["optional-dependencies"])
        return
    [specifier] = PINS[name].specifier
    assert requirement.specifier.contains(specifier.version)
    assert requirement.specifier, "a lower bound is missing"


@pytest.mark.pinned
def test_everything_that_is_brought_in_is_pinned():
    todo = [
        (name, frozenset(pin.extras))
        for name, pin in PINS.items()
        if applies(pin)
    ]
    seen = set()
    while todo:
        name, extras = todo.pop()
        if (name, extras) in seen or PINNED_BY_TORCH.match(name):
            continue
        seen.add((name, extras))
        assert name in PINS
        for line in importlib.metadata.requires(name) or []:
            requirement = Requirement(line)
            if applies(requirement, extras):
                todo.append(
                    (
                        canonicalize_name(requirement.name),
                        frozenset(requirement.extras),
                    )
                )


@pytest.mark.pinned
@pytest.mark.parametrize(
    "pin",
    [pin for pin in [*pins(), *WEIGHTS] if applies(pin)],
    ids=lambda pin: pin.name,
)
def test_installed_version_is_the_pinned_one(pin):
    [specifier] = pin.specifier
    assert (
        importlib.metadata.version(pin.name).split("+")[0]
        == specifier.version
    )


def test_package_alone_stays_light():
    names = {
        canonicalize_name(Requirement(line).name)
        for line in PROJECT["dependencies"]
    }
    assert names == {"array-api-compat", "jaxtyping", "numpy"}


def test_building_the_book_takes_no_pytorch():
    book = PROJECT["optional-dependencies"]["book"]
    assert not [
        line
        for line in book
        if re.match(
            r"torch|keras|attention_in_detail\[.*(torch|test)", line
        )
    ]


# --- Commands --------------------------------------------------------------------------------------


def targets():
    return re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE)


@pytest.mark.parametrize(
    "target",
    [
        "help",
        "book",
        "serve",
        "test",
        "test-more",
        "test-oldest",
        "test-newest",
        "notebooks",
        "bench",
        "clean",
    ],
)
def test_target_exists_and_is_described(target):
    assert target in targets()
    assert (
        target
        in re.search(r"^\.PHONY:(.*)$", MAKEFILE, re.MULTILINE)[1].split()
    )
    assert f"| `make {target}` |" in README


def test_no_target_is_left_out_of_the_readme():
    assert sorted(targets()) == sorted(
        re.findall(r"^\| `make ([a-z-]+)` \|", README, re.MULTILINE)
    )


def test_make_alone_lists_the_targets():
    printed = subprocess.run(
        ["make", "--no-print-directory"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert (
        re.findall(r"^  make ([a-z-]+) ", printed, re.MULTILINE)
        == targets()
    )


def test_every_environment_is_made_and_removed_by_make_and_is_no_part_of_the_project():
    setup = (ROOT / "tools/setup_env.sh").read_text()
    clean = MAKEFILE.split("\nclean:")[1].split()
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    [skipped] = re.findall('^skip = "(.*)"$', settings, re.MULTILINE)
    assert "oldest | newest) name=.venv-$purpose ;;" in setup
    for name in (".venv", ".venv-oldest", ".venv-newest"):
        assert name in clean
        assert name in ignored
        assert f"./{name}" in skipped.split(",")


def test_ci_runs_what_it_should():
    script = ROOT / ".ci/run"
    assert script.stat().st_mode & 0o111, "not executable"
    text = script.read_text()
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in text
    sections = re.findall(r"^section '[^']+' (.*)$", text, re.MULTILINE)
    # The record of the tests comes before the strict build, which needs it.
    assert sections == [
        "browser",
        "make test",
        "make test-more",
        "book_from_nothing",
    ]
    assert "make clean && " in text
    assert "make book STRICT=1\n" in text


# --- README, licence, versions ------------------------------------------------------------------------


def test_example_of_the_readme_prints_what_it_says():
    [code], [printed] = (
        re.findall(rf"```{kind}\n(.*?)```", README, re.DOTALL)
        for kind in ("python", "text")
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout == printed
    assert len([line for line in code.splitlines() if line]) <= 5


def test_places_in_the_readme_exist():
    table = README.split("## What is where")[1].split("\n## ")[0]
    names = [
        name
        for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall("`(.*?)`", row)
    ]
    assert len(names) > 8
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_one_version():
    version = PROJECT["version"]
    assert attention_in_detail.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(
        rf"^## {re.escape(version)}\b",
        (ROOT / "CHANGELOG.md").read_text(),
        re.MULTILINE,
    )


def test_licences_are_there():
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")
    assert (
        "Attribution 4.0 International"
        in (ROOT / "LICENSE-TEXT").read_text()
    )


# --- Nothing tells where or when it was made ----------------------------------------------------------

# A place on somebody's machine; an address on the web that ends in such words is none.
PLACE = re.compile(
    r"(?<![\w.:/~-])/(?:home|opt|root|Users|work|workspace)/[\w.]"
)


def test_place_pattern_finds_places():
    for word in ("root", "work", "home"):
        assert PLACE.search(f'"/{word}/x.py"')
        assert not PLACE.search(f"https://example.org/{word}/x.py")


@pytest.mark.parametrize(
    "path", files(), ids=lambda path: str(path.relative_to(ROOT))
)
def test_file_names_no_place_on_a_machine(path):
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return  # a picture or a font
    assert [match[0] for match in PLACE.finditer(text)] == []
    if path.suffix == ".ipynb":
        assert "site-packages" not in text
        assert "ipykernel_" not in text


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_as_the_tool_stores_it(path):
    page = nbformat.read(path, as_version=4)
    code = [cell for cell in page.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(
        range(1, len(code) + 1)
    ), "not run from top to bottom"
    assert not [
        cell.id for cell in page.cells if "execution" in cell.metadata
    ], "times are stored"
    assert set(page.metadata.language_info) == {
        "file_extension",
        "mimetype",
        "name",
        "pygments_lexer",
    }
    assert page.metadata.kernelspec.name == "python3"
    outputs = [output for cell in code for output in cell.outputs]
    assert not [
        output for output in outputs if output.get("name") == "stderr"
    ], "something was written to stderr"
    text = (
        nbformat.writes(page, version=nbformat.NO_CONVERT).rstrip("\n")
        + "\n"
    )
    assert path.read_text(encoding="utf-8") == text
    assert json.loads(text)["nbformat_minor"] == 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_figures_have_a_text_alternative(path):
    for cell in nbformat.read(path, as_version=4).cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                assert output.metadata["image/png"]["alt"].strip()


def test_no_argument_is_described_by_a_single_letter():
    """``ranks: n.`` alone would be read as the beginning of a numbered list."""
    lone = re.compile(r"^\s+\w+: \w\.$", re.MULTILINE)
    assert lone.search("    Args:\n        ranks: n.\n")
    found = [
        f"{path.name}: {match[0].strip()}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for match in lone.finditer(path.read_text("utf8"))
    ]
    assert found == []


def test_no_chapter_calls_a_cell_dark_or_pale():
    """A figure is drawn for a light and for a dark page: what is dark on the one is bright on the other."""
    words = re.compile(
        r"\b(?:darke(?:r|st)|pale[rst]*|(?:dark|bright) (?:cell|column|row|corner|spot)s?)\b"
    )
    assert words.search(
        "The darker, the larger: each row has one dark cell."
    )
    found = [
        f"{path.name}: {match[0]}"
        for path in NOTEBOOKS
        for cell in nbformat.read(path, as_version=4).cells
        for text in (
            cell.source if cell.cell_type == "markdown" else "",
            cell.metadata.get("mystnb", {})
            .get("figure", {})
            .get("caption", ""),
        )
        for match in words.finditer(text)
    ]
    assert found == []


def test_places_to_take_from_are_as_wide_as_addresses():
    """In a browser an address has 32 bits, and `take` refuses wider numbers; a chapter would stop there, and only there."""
    taken = 0
    for path in sorted((ROOT / "src").rglob("*.py")):
        text = path.read_text("utf8")
        for places in re.findall(r"\btake\(\s*[\w.]+,\s*(\w+),", text):
            taken += 1
            assert re.search(
                rf"\b{places} = [^\n]*as_places\(", text
            ) or re.search(rf", {places} = .*as_places\(", text), path
    assert taken >= 4
