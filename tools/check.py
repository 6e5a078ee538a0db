"""Run the checks of the book one after another, then say which of them failed.

    python tools/check.py test|test-more|test-oldest|test-newest
    python tools/check.py coverage|copy|again     (single checks that the lists below use)

A check that fails does not stop the others, except those that need it. The exit status is 0 only
when every check has passed.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import home
import versions

ROOT = Path(__file__).resolve().parents[1]
WORKERS = os.environ.get("WORKERS") or "2"
COVERAGE = "_build/coverage.json"
EVIDENCE = "_build/evidence.json"
PYTEST = ["-m", "pytest", "-q", "-n", WORKERS]
UNITS = [
    *PYTEST,
    "tests",
    "--ignore=tests/pages",
    "--dist=loadfile",
    "-m",
    "not slow",
]
DRAWN = [*UNITS[:-1], "hypothesis and not slow"]
# Tests of what stands around the package: they pass no line of it that others do not.
AROUND = ["evidence", "extensions", "hints", "home", "light", "live"]
AROUND += ["mark", "mutants", "paper", "quiz", "set_formulas", "slides"]
AROUND += ["student_notebooks", "teachers_guide", "tools"]
AROUND += ["translate_here", "viewer_pages"]
COUNTED = [*UNITS, *(f"--ignore=tests/test_{name}.py" for name in AROUND)]
# What chapters state is tested by calls that other tests make as well.
COUNTED += ["--ignore-glob=tests/test_chapter_*.py"]
# The longest of them are a page's each, so that a file of them would keep one worker busy long after the other.
SLOW = [
    *PYTEST,
    "tests",
    "--dist=worksteal",
    "-m",
    "slow",
    "--durations=15",
]
NOTEBOOKS = [
    *PYTEST,
    "notebooks",
    "--dist=loadscope",
    "--nbval",
    "--nbval-current-env",
]
NOTEBOOKS += ["--nbval-cell-timeout=300"]
LIVE = ["-m", "pip", "install", "-q", "--disable-pip-version-check"]
LIVE += ["--no-deps", "--require-hashes", "-r", "requirements-live.txt"]
CODE = [
    "src",
    "tests",
    "tools",
    "bench",
    "experiments",
    "notebooks",
    "book/_ext",
    "book/_live",
    "conftest.py",
]
COPIED = [
    "_config.yml",
    "_toc.yml",
    "*.md",
    "book",
    "notebooks",
    "src",
    "tests",
    "bench",
    "experiments",
    "conftest.py",
    "tools",
    EVIDENCE,
]
COPIED += [
    "pyproject.toml",
    "requirements*.txt",
    "CITATION.cff",
    "LICENSE*",
]
# The book as one file, which the front page links to where it is there.
COPIED += ["_build/pdf/*.pdf", "_build/epub/*.epub"]
COPIED += ["_build/pdf/.built-from", "_build/epub/.built-from"]


@dataclass(frozen=True)
class Check:
    """A named check: commands for this Python, and the variables that they run under."""

    name: str
    commands: list[list[str]]
    environment: dict[str, str | None] = field(
        default_factory=dict
    )  # None: not set at all
    needs: str = ""  # the check without which this one says nothing

    def run(self) -> bool:
        # Only a check that says so runs at other versions than the pinned ones.
        environment = {**os.environ, "VERSIONS": None, **self.environment}
        environment = {
            name: value
            for name, value in environment.items()
            if value is not None
        }
        done = [
            subprocess.run(
                [sys.executable, *command], cwd=ROOT, env=environment
            ).returncode
            for command in self.commands
        ]
        return not any(done)


def existing(names: list[str]) -> list[str]:
    return [name for name in names if (ROOT / name).exists()]


def numpy_features() -> str:
    """The kernels that NumPy would choose on this machine beyond its slowest ones."""
    code = (
        "from numpy._core import _multiarray_umath as m;"
        "print(*[name for name in m.__cpu_dispatch__ if m.__cpu_features__[name]])"
    )
    return subprocess.check_output(
        [sys.executable, "-c", code], text=True
    ).strip()


def test() -> list[Check]:
    return [
        Check(
            "style",
            [
                [
                    "-m",
                    "ruff",
                    "check",
                    "--quiet",
                    "--output-format=concise",
                    *existing(CODE),
                ],
                [
                    "-m",
                    "ruff",
                    "format",
                    "--check",
                    "--quiet",
                    "--output-format=concise",
                    *existing(CODE),
                ],
                [
                    "-c",
                    "import sys; from codespell_lib import main; sys.exit(main())",
                ],
            ],
        ),
        Check(
            "unit tests",
            [[*UNITS, "-p", "tests.claims", f"--evidence={EVIDENCE}"]],
        ),
        # After the tests, whose record says which claims of the pages were confirmed.
        Check("book", [["tools/build_book.py", "--strict"]]),
        Check("notebooks", [NOTEBOOKS]),
        Check(
            "pages",
            [[*PYTEST, "tests/pages", "--dist=loadfile", "-m", "not slow"]],
            {},
            "book",
        ),
    ]


def test_more() -> list[Check]:
    # What an old, then a middling x86-64 processor would run, emulated by the libraries' switches.
    old: dict[str, str | None] = {
        "OPENBLAS_L2_SIZE": None,
        "OPENBLAS_CORETYPE": "Prescott",
        "ATEN_CPU_CAPABILITY": "default",
        "DNNL_MAX_CPU_ISA": "SSE41",
    }
    middling = {
        **old,
        "OPENBLAS_CORETYPE": "Haswell",
        "ATEN_CPU_CAPABILITY": "avx2",
        "DNNL_MAX_CPU_ISA": "AVX2",
    }
    if platform.machine().lower() in ("x86_64", "amd64"):
        old["NPY_DISABLE_CPU_FEATURES"] = numpy_features()
        cpu = [
            Check(
                "notebooks on the kernels of an old processor",
                [NOTEBOOKS],
                old,
            ),
            Check(
                "notebooks on the kernels of a middling processor",
                [NOTEBOOKS],
                middling,
            ),
        ]
    else:
        print(
            "left out: other CPU kernels, which can only be chosen on an x86-64 processor"
        )
        cpu = []
    more = {"HYPOTHESIS_PROFILE": "more"}
    return [
        Check("a Pyodide to run chapters on", [LIVE]),
        Check("book", [["tools/build_book.py"]]),
        Check(
            "what a course hands out",
            [["tools/build_course.py"]],
            {},
            "book",
        ),
        # The others are the same each time.
        Check("drawn cases, a thousand each", [DRAWN], more),
        # Counting lines takes as long again as the tests. They are judged by the next check, lines and branches each.
        # Ten drawn cases pass every line that a thousand do.
        Check(
            "unit tests, their lines counted",
            [
                [
                    *COUNTED,
                    "--cov",
                    "--cov-fail-under=0",
                    f"--cov-report=json:{COVERAGE}",
                ]
            ],
            {"HYPOTHESIS_PROFILE": "few"},
        ),
        Check("coverage", [["tools/check.py", "coverage"]]),
        Check(
            "slow tests",
            [SLOW],
            more,
            "book",
        ),
        *cpu,
        Check(
            "storing outputs twice", [["tools/run_notebooks.py", "--twice"]]
        ),
        Check(
            "the book built again, from a copy without git",
            [["tools/check.py", "again"]],
            {},
            "book",
        ),
    ]


def at_other_versions(kind: str) -> list[Check]:
    """What is to hold at other versions than the pinned ones; conftest.py says what VERSIONS changes."""
    other: dict[str, str | None] = {"VERSIONS": kind}
    units = [*UNITS[:-1], "not slow and not pinned"]
    return [
        Check("unit tests", [units], other),
        Check("notebooks", [NOTEBOOKS], other),
        # In a copy: the pages in _build stay those of the pinned versions.
        Check("the book, in a copy", [["tools/check.py", "copy"]]),
        Check("names of PyTorch", [["tools/torch_names.py", kind]]),
    ]


def test_oldest() -> list[Check]:
    return at_other_versions("oldest")


def test_newest() -> list[Check]:
    return at_other_versions("newest")


def coverage() -> bool:
    """Lines and branches each reach the limit; one number for both could hide a gap in one."""
    settings = tomllib.loads(
        (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    )
    limit = settings["tool"]["coverage"]["report"]["fail_under"]
    path = ROOT / COVERAGE
    if not path.is_file():
        print(f"{COVERAGE} is missing: the unit tests did not get that far")
        return False
    report = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()  # so that no later run takes it for its own
    totals, enough = report["totals"], True
    for what, covered, number in (
        ("lines", totals["covered_lines"], totals["num_statements"]),
        ("branches", totals["covered_branches"], totals["num_branches"]),
    ):
        share = 100 * covered / number if number else 100.0
        enough &= share >= limit
        print(
            f"{what}: {covered} of {number} covered, {share:.1f} % (at least {limit} %)"
        )
    for name, file in report["files"].items():
        if missing := file["missing_lines"]:
            print(
                f"  {name}: lines not covered: {', '.join(map(str, missing))}"
            )
        if branches := file["missing_branches"]:
            told = ", ".join(f"{start} to {end}" for start, end in branches)
            print(f"  {name}: branches not covered: {told}")
    return enough


def differences(one: Path, other: Path) -> list[str]:
    """The files of two folders that are not byte for byte the same in both."""
    names = {
        path.relative_to(folder).as_posix()
        for folder in (one, other)
        for path in folder.rglob("*")
        if path.is_file()
    }
    return sorted(
        name
        for name in names
        if not (one / name).is_file()
        or not (other / name).is_file()
        or (one / name).read_bytes() != (other / name).read_bytes()
    )


def again() -> bool:
    """Build the pages again, from a copy elsewhere that has no git history: not a byte may differ."""
    return copy(compared=True)


def copy(compared: bool = False) -> bool:
    """Build the pages from a copy that has neither git history nor anything built before."""
    with tempfile.TemporaryDirectory() as folder:
        made = ("__pycache__", "*.egg-info", ".*")
        # The front page has links to what was a file by the time that the pages were built.
        linked = {
            path.name for path in (ROOT / "_build/html/files").glob("*")
        }
        for source in {
            path
            for pattern in COPIED
            for path in ROOT.glob(pattern)
            if not pattern.startswith(("_build/pdf", "_build/epub"))
            or f"attention-in-detail.{path.parent.name}" in linked
        }:
            target = Path(folder) / source.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(
                    source, target, ignore=shutil.ignore_patterns(*made)
                )
            else:
                shutil.copy2(source, target)
        # The copy's own package is the one to document, not the one installed from this folder.
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(folder) / "src"),
        }
        environment["GIT_CEILING_DIRECTORIES"] = str(Path(folder).parent)
        # What git says of the place here, it cannot say there.
        environment |= home.find(ROOT).environment()
        command = [sys.executable, "tools/build_book.py", "--clean"]
        if subprocess.run(command, cwd=folder, env=environment).returncode:
            return False
        if not compared:
            return True
        pages = "_build/html"
        differ = differences(ROOT / pages, Path(folder) / pages)
        for name in differ[:25]:
            print(f"differs when it is built again: {pages}/{name}")
        print(f"two builds of the same state: {len(differ)} files differ")
        return not differ


def run_all(checks: list[Check], done_before: int) -> bool:
    results: dict[str, str] = {}
    began = time.monotonic()
    for number, check in enumerate(checks, start=done_before + 1):
        print(
            f"[{number}/{done_before + len(checks)}] {check.name}",
            flush=True,
        )
        start = time.monotonic()
        if check.needs and results[check.needs] != "passed":
            results[check.name] = f"not run, it needs: {check.needs}"
            continue
        passed = check.run()
        results[check.name] = "passed" if passed else "FAILED"
        print(
            f"      {results[check.name]} after {time.monotonic() - start:.0f} s",
            flush=True,
        )
    good = all(result == "passed" for result in results.values())
    print("-" * 72)
    for name, result in results.items():
        print(f"{name:<52}{result}")
    minutes, seconds = divmod(int(time.monotonic() - began), 60)
    verdict = "All checks passed" if good else "NOT PASSED"
    print(f"{verdict} ({minutes} min {seconds} s)", flush=True)
    return good


def main(arguments: list[str]) -> int:
    lists = {
        "test": test,
        "test-more": test_more,
        "test-oldest": test_oldest,
        "test-newest": test_newest,
    }
    single = {"coverage": coverage, "copy": copy, "again": again}
    if len(arguments) != 1 or arguments[0] not in {**lists, **single}:
        print(
            f"usage: python tools/check.py {'|'.join({**lists, **single})}",
            file=sys.stderr,
        )
        return 2
    name = arguments[0]
    if name in single:
        return 0 if single[name]() else 1
    kind = name.removeprefix("test-")
    shown = versions.table(kind) if kind in versions.KINDS else ""
    if shown:
        print(shown, flush=True)
    # The environment and the packages were steps 1 and 2.
    passed = run_all(lists[name](), done_before=2)
    if shown:
        print(shown, flush=True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
