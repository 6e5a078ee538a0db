"""Do the tests notice when the code is changed: what `make mutants` found, and how it finds it."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
_specification = importlib.util.spec_from_file_location(
    "tool_mutants", ROOT / "tools/mutants.py"
)
mutants = importlib.util.module_from_spec(_specification)
sys.modules[_specification.name] = mutants
_specification.loader.exec_module(mutants)

STORED = json.loads(mutants.RESULT.read_text(encoding="utf-8"))
each_module = pytest.mark.parametrize("module", mutants.CORE)


def stored_keys(module):
    return {
        (
            module,
            one["function"],
            one["before"],
            one["after"],
            one.get("at", 1),
        )
        for one in STORED["modules"][module]["not_noticed"]
    }


# ---- the stored result ----


@each_module
def test_the_stored_result_is_of_the_code_that_is_there(module):
    now = mutants.hash_of(mutants.module_path(module))
    assert STORED["modules"][module]["code"] == now, (
        f"{module} has changed since its mutants were tried: run `make mutants`"
    )


@each_module
def test_the_tests_notice_enough_of_the_mutants(module):
    one = STORED["modules"][module]
    parts = one["killed"], one["equivalent"], one["survived"]
    assert one["mutants"] == sum(parts) > 40
    share = 100 * one["killed"] / (one["mutants"] - one["equivalent"])
    assert one["score"] == round(share, 1)
    assert share >= mutants.LEAST == STORED["least"] == 95


@each_module
def test_every_mutant_that_is_not_noticed_has_a_reason(module):
    one, told = STORED["modules"][module], mutants.reasons()
    assert len(one["not_noticed"]) == one["equivalent"] + one["survived"]
    assert stored_keys(module) == {key for key in told if key[0] == module}
    for entry in one["not_noticed"]:
        assert entry["verdict"] in ("equivalent", "survived")
        assert len(entry["reason"].split()) > 4
    for key in stored_keys(module):
        assert told[key]["reason"] in [
            entry["reason"] for entry in one["not_noticed"]
        ]


@each_module
def test_every_reason_names_a_mutant_that_can_be_made(module):
    text = mutants.module_path(module).read_text(encoding="utf-8")
    made = {mutant.key for mutant in mutants.mutants_of(module, text)}
    assert len(made) == STORED["modules"][module]["mutants"]
    assert stored_keys(module) <= made


@each_module
def test_the_tests_that_noticed_are_still_there(module):
    noticed = STORED["modules"][module]["noticed_by"]
    assert sum(noticed.values()) == STORED["modules"][module]["killed"]
    for name in set(noticed) - {mutants.IMPORT}:
        file, _, test = name.partition("::")
        assert file in mutants.test_files()
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert test in [getattr(node, "name", "") for node in tree.body]


# ---- how mutants are made ----

SAMPLE = textwrap.dedent('''
    """A module."""

    from m import checked

    __all__ = ["clip"]


    @checked(7)
    def clip(x: float, least: float = 0, *, loud: bool = True) -> float:
        """Not below the least."""
        if x < least:  # a comment
            x = max(x, least)
        return x
    ''')


def test_a_function_with_a_decorator_is_changed_too():
    made = [
        (one.before, one.after)
        for one in mutants.mutants_of("m", SAMPLE)
        if one.function == "clip"
    ]
    assert sorted(made) == sorted(
        [
            ("least: float = 0", "least: float = 1"),
            ("loud: bool = True", "loud: bool = False"),
            ("if x < least", "if x <= least"),
            ("if x < least: ...", "(left out)"),
            ("x = max(x, least)", "(left out)"),
            ("x = max(x, least)", "x = None"),
            ("x = max(x, least)", "x = max(None, least)"),
            ("x = max(x, least)", "x = max(x, None)"),
            ("x = max(x, least)", "x = max(least)"),
            ("x = max(x, least)", "x = max(x)"),
        ]
    )


def test_names_decorators_annotations_and_docstrings_are_left_alone():
    [function] = {one.function for one in mutants.mutants_of("m", SAMPLE)}
    assert function == "clip"
    for one in mutants.mutants_of("m", SAMPLE):
        assert '__all__ = ["clip"]' in one.source()
        assert "@checked(7)" in one.source()
        assert '"""Not below the least."""' in one.source()
        assert ") -> float:" in one.source()


def test_a_mutant_is_one_change():
    for one in mutants.mutants_of("m", SAMPLE):
        old, new = SAMPLE.splitlines(), one.source().splitlines()
        assert 1 <= len(set(old) - set(new)) <= 2
        assert len(set(new) - set(old)) <= 1


def test_places_that_read_the_same_are_told_apart():
    text = "def f(x):\n    g(x)\n    g(x)\n"
    made = [
        one for one in mutants.mutants_of("m", text) if "(" in one.after
    ]
    assert [one.at for one in made if one.after == "(left out)"] == [1, 2]
    assert len({one.key for one in made}) == len(made)
    assert made[0].source() != made[1].source()


def test_only_code_counts_as_a_change():
    code = mutants.code_hash(SAMPLE)
    assert code == mutants.code_hash(
        SAMPLE.replace("a comment", "another")
        .replace("Not below the least.", "At least the least.")
        .replace("(x, least)", "(\n        x,\n        least,\n    )")
    )
    for old, new in (("<", "<="), ("= 0", "= 1"), ("float =", "int =")):
        assert code != mutants.code_hash(SAMPLE.replace(old, new))


def test_what_is_to_be_filled_in_can_be_read_back(tmp_path, monkeypatch):
    key = ("m", "f", 'x = "a\\n"', "x = −1", 2)
    path = tmp_path / "reasons.toml"
    path.write_text(mutants.as_toml(key), encoding="utf-8")
    monkeypatch.setattr(mutants, "REASONS", path)
    assert list(mutants.reasons()) == [key]
    assert tomllib.loads(path.read_text("utf8"))["equivalent"][0]["at"] == 2


# ---- a whole run, on a small project ----

CODE = '''
from functools import wraps


def guarded(function):
    @wraps(function)
    def public(*args):
        return function(*args)

    return public


@guarded
def below(n):
    """Count the numbers below n."""
    count = 0
    while count < n:
        count += 1
    return count


@guarded
def larger(a, b):
    if a > b:
        return a
    return b
'''
TESTED = """
from small.core import below, larger


def test_below():
    assert below(3) == 3
    assert below(0) == 0


def test_larger():
    assert larger(1, 2) == 2
    assert larger(2, 1) == 2
"""
RUN = """
import sys
sys.path.insert(0, "{tools}")
from pathlib import Path
import mutants
mutants.ROOT = Path("{root}")
mutants.PACKAGE, mutants.CORE = "small", ["core"]
mutants.TESTS, mutants.SHARED = ["tests/test_core.py"], []
mutants.SPARE = 1
for name, path in dict(REASONS="told.toml", RESULT="result.json", PROGRESS="_build/seen.jsonl").items():
    setattr(mutants, name, mutants.ROOT / path)
sys.exit(mutants.main(sys.argv[1:]))
"""


@pytest.fixture
def project(tmp_path):
    for name, text in {
        "src/small/__init__.py": "",
        "src/small/core.py": CODE,
        "tests/test_core.py": TESTED,
        "told.toml": "",
        "run.py": RUN.format(tools=ROOT / "tools", root=tmp_path),
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def run(project):
    done = subprocess.run(
        [sys.executable, "run.py"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    result = json.loads((project / "result.json").read_text("utf8"))
    return done, result["modules"]["core"]


@pytest.mark.slow
def test_a_run_says_what_is_not_noticed_and_goes_on_where_it_was(project):
    done, one = run(project)
    assert done.returncode == 1, done.stdout + done.stderr
    # A loop without end is not taken for a failed test.
    assert sorted(
        (x["before"], x["after"], x["verdict"]) for x in one["not_noticed"]
    ) == [
        ("count += 1", "count -= 1", "time-out"),
        ("count += 1", "count = 1", "time-out"),
        ("if a > b", "if a >= b", "survived"),
    ]
    assert one["survived"] == 3
    assert one["noticed_by"]["tests/test_core.py::test_below"] >= 3

    told = "".join(
        mutants.as_toml(
            ("core", x["function"], x["before"], x["after"], 1)
        ).replace('""', '"The numbers are equal, so either will do."')
        + "\n"
        for x in one["not_noticed"]
        if x["verdict"] == "survived"
    )
    (project / "told.toml").write_text(told, encoding="utf-8")
    done, two = run(project)
    total = one["mutants"]
    assert f"{total} mutants, {total - 2} of them decided before" in (
        done.stdout
    )
    assert (two["equivalent"], two["survived"]) == (1, 2)
    assert two["killed"] == one["killed"]


@pytest.mark.slow
def test_a_reason_for_what_a_test_notices_is_refused(project):
    key = ("core", "larger", "if a > b", "if a <= b", 1)
    toml = mutants.as_toml(key).replace('""', '"Nobody would see it."')
    (project / "told.toml").write_text(toml, encoding="utf-8")
    done, _ = run(project)
    assert done.returncode == 1
    assert "core: there is no such mutant any more" in done.stdout
