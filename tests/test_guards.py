"""Guards against bugs that no line of the package can have, each shown the fault that it is to find.

A test that asserts nothing, a version that is pinned twice, a builder that took over its own name:
the last part of the gallery. Each guard first holds for the project; then it meets its fault.
"""

from __future__ import annotations

import ast
import importlib.metadata
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests import test_house
from tests.classic_bugs import BUGS, GUARDS

ROOT = Path(__file__).resolve().parents[1]
TESTS = {
    str(path.relative_to(ROOT / "tests")): path.read_text("utf8")
    for path in sorted((ROOT / "tests").rglob("*.py"))
}


# ---- each test can fail ----

# Calls whose answer is lost where they stand alone.
ANSWERS = {
    "all",
    "allclose",
    "any",
    "array_equal",
    "endswith",
    "equal",
    "exists",
    "is_dir",
    "is_file",
    "isclose",
    "isfinite",
    "isinstance",
    "issubset",
    "startswith",
}


def functions(source):
    return [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def called(node):
    """The last part of the name of what a call calls."""
    name = node.func
    return (
        name.attr
        if isinstance(name, ast.Attribute)
        else getattr(name, "id", "")
    )


def can_fail(function, known):
    """Whether a function asserts, expects an error, or calls one that does."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            name = called(node)
            if name in known or name.startswith("assert_"):
                return True
            if ast.unparse(node.func) in ("pytest.raises", "pytest.fail"):
                return True
    return False


def without_assertion(sources):
    """Tests that no result could make fail; a helper of any of the files counts for all."""
    everything = [
        (file, function)
        for file, source in sources.items()
        for function in functions(source)
    ]
    known: set[str] = set()
    while True:
        more = {
            function.name
            for _, function in everything
            if function.name not in known
            and not function.name.startswith("test_")
            and can_fail(function, known)
        }
        if not more:
            break
        known |= more
    return [
        f"{file}::{function.name}"
        for file, function in everything
        if function.name.startswith("test_")
        and not can_fail(function, known)
    ]


def comparisons_that_go_nowhere(sources):
    """Statements that compare, and do nothing with the answer."""
    return [
        f"{file}: {ast.unparse(node)}"
        for file, source in sources.items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and (
            isinstance(node.value, ast.Compare | ast.BoolOp | ast.UnaryOp)
            or (
                isinstance(node.value, ast.Call)
                and called(node.value) in ANSWERS
            )
        )
    ]


def test_every_test_asserts_something():
    assert (
        sum(source.count("\ndef test_") for source in TESTS.values()) > 900
    )
    assert without_assertion(TESTS) == []


def test_no_comparison_goes_nowhere():
    assert comparisons_that_go_nowhere(TESTS) == []


NOTHING = "def test_a():\n    print(f(1) == 1)\n"
LOST = "def test_a():\n    np.allclose(f(1), 1)\n    assert True\n"
HELPED = """
def test_a():
    check(f(1))

def check(x):
    checked(x)

def checked(x):
    assert x == 1
"""


def test_a_test_without_an_assertion_is_found():
    assert without_assertion({"a.py": NOTHING}) == ["a.py::test_a"]
    assert without_assertion({"a.py": NOTHING, "b.py": HELPED}) == [
        "a.py::test_a"
    ]
    for line in (
        "assert f(1) == 1",
        "assert_close(f(1), 1)",
        "np.testing.assert_allclose(f(1), 1)",
        "with pytest.raises(ValueError): f(1)",
        "check(f(1))",
    ):
        whole = {"a.py": f"def test_a():\n    {line}\n", "b.py": HELPED}
        assert without_assertion(whole) == []


@pytest.mark.parametrize(
    "line",
    [
        "np.allclose(f(1), 1)",
        "f(1) == 1",
        "not f(1)",
        "f(1) and g(1)",
        "torch.equal(f(1), 1)",
    ],
)
def test_a_comparison_that_goes_nowhere_is_found(line):
    lost = {"a.py": f"def test_a():\n    {line}\n    assert True\n"}
    assert comparisons_that_go_nowhere(lost) == [f"a.py: {line}"]
    kept = {"a.py": f"def test_a():\n    assert {line}\n    f(1)\n"}
    assert comparisons_that_go_nowhere(kept) == []


# ---- one list of versions ----

PIN = re.compile(
    r"(?<![\w./-])([A-Za-z][\w.-]*)(?:\[[\w,-]+\])? ?(?:==|~=|===) ?\d"
)


def pinned_elsewhere(texts):
    """Packages of the list that have a version of their own in another file."""
    return [
        f"{file}: {found[0]}"
        for file, text in texts.items()
        for found in PIN.finditer(text)
        if test_house.canonicalize_name(found[1]) in test_house.PINS
    ]


def test_versions_are_pinned_in_no_other_file():
    """In a workflow, a script or a text for readers they would drift."""
    texts = {
        str(path.relative_to(ROOT)): path.read_text("utf8")
        for path in test_house.files()
        if path.suffix in (".cfg", ".md", ".sh", ".toml", ".yaml", ".yml")
        or path.name in ("Makefile", "run", "Dockerfile")
    }
    assert {"Makefile", "README.md", "pyproject.toml"} <= set(texts)
    assert pinned_elsewhere(texts) == []


@pytest.mark.parametrize(
    "line",
    [
        "run: pip install numpy==2.1.0",
        "  - numpy == 2.1",
        "pip install 'jupyter-book[all]~=1.0'",
        "dependencies = ['torch==2.9']",
    ],
)
def test_a_second_list_of_versions_is_found(line):
    assert len(pinned_elsewhere({"a.yml": line})) == 1
    bound = re.sub("==|~=", ">=", line)
    assert pinned_elsewhere({"a.yml": bound}) == []


# ---- an upgrade of what the book stands on ----


@pytest.mark.parametrize(
    ("guard", "fault"),
    [
        (test_house.test_pin_is_exact, "numpy>=2"),
        (test_house.test_pin_is_exact, "numpy==2.*"),
        (test_house.test_installed_version_is_the_pinned_one, "numpy==1.0"),
        (
            test_house.test_declared_dependency_has_a_pin_that_it_admits,
            "numpy>=99",
        ),
        (
            test_house.test_declared_dependency_has_a_pin_that_it_admits,
            "numpy",
        ),
    ],
)
def test_a_pin_that_is_loose_or_drifted_is_found(guard, fault):
    with pytest.raises(AssertionError):
        guard(Requirement(fault))


def admits_the_second_version(requirement):
    return requirement.specifier.contains("2.0.0", prereleases=True)


def test_the_builder_stays_below_its_second_version():
    """From 2 on, jupyter-book is another program: its build succeeds and makes none of these pages."""
    [declared] = [
        one for one in test_house.declared() if one.name == "jupyter-book"
    ]
    assert not admits_the_second_version(declared)
    assert not admits_the_second_version(test_house.PINS["jupyter-book"])
    assert importlib.metadata.version("jupyter-book").startswith("1.")


def test_a_builder_of_the_second_version_would_be_found():
    for fault in ("jupyter-book>=1.0.4", "jupyter-book==2.0.0"):
        assert admits_the_second_version(Requirement(fault))


# ---- the list of bugs names tests that there are ----


@pytest.mark.parametrize(
    "name",
    sorted(
        {test for bug in BUGS.values() for test in bug.noticed_by}
        | {test for guard in GUARDS.values() for test in guard.kept_out_by}
    ),
)
def test_the_tests_that_the_gallery_names_are_there(name):
    file, _, test = name.partition("::")
    names = {function.name for function in functions(TESTS[file])}
    assert test in names
