"""The lowest and the newest versions of the packages: which they are, and which are installed.

    python tools/versions.py oldest|newest          the constraints under which pip is to install
    python tools/versions.py table oldest|newest    what is installed, beside bound and pin

The lowest versions are the lower bounds of pyproject.toml, and stand nowhere else. The newest are
those that pip finds at that moment: only the upper bounds of pyproject.toml hold. PyTorch is an
exception where no build for the processor alone is to be had at that version; then the pinned one
stays, and this tool says so.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("oldest", "newest")
PROJECT = tomllib.loads(
    (ROOT / "pyproject.toml").read_text(encoding="utf-8")
)
# An environment that has just been made holds pip alone: no library that reads requirements.
BOUND = re.compile(r"^([A-Za-z0-9._-]+)(\[[^]]*\])?\s*>=\s*([0-9][^,;\s]*)")


def bounds() -> dict[str, str]:
    """The lower bound of each package that pyproject.toml names."""
    project = PROJECT["project"]
    lines = [
        *PROJECT["build-system"]["requires"],
        *project["dependencies"],
        *(
            line
            for extra in project["optional-dependencies"].values()
            for line in extra
        ),
    ]
    matches = [BOUND.match(line) for line in lines]
    return {match[1]: match[3] for match in matches if match}


def pinned() -> dict[str, str]:
    """The exact version of each package in requirements.txt."""
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    return dict(
        re.findall(r"^([A-Za-z0-9._-]+)==([^\s;#]+)", text, re.MULTILINE)
    )


def torch_builds() -> list[str]:
    """The versions of PyTorch for the processor alone that pip can install here, newest first."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "index", "versions", "torch"],
        capture_output=True,
        text=True,
    )
    found = re.search(r"Available versions: (.*)", done.stdout)
    versions = found[1].split(", ") if found else []
    # On Linux the plain versions are made for graphics cards; elsewhere they are small.
    if platform.system() == "Linux" and platform.machine() == "x86_64":
        versions = [one for one in versions if one.endswith("+cpu")]
    return versions


def same(one: str, other: str) -> bool:
    """Whether two versions are the same release: 2.5 is 2.5.0, whatever the build."""

    def numbers(version: str) -> str:
        return re.sub(r"(\.0)+$", "", version.split("+")[0])

    return numbers(one) == numbers(other)


def torch_for(kind: str, builds: list[str]) -> str:
    """The PyTorch to test with: of that kind if it can be had, else the pinned one."""
    if kind == "newest":
        return builds[0] if builds else pinned()["torch"]
    wanted = bounds()["torch"]
    for one in builds:
        if same(one, wanted):
            return one
    return pinned()["torch"]


def constraints(kind: str, builds: list[str]) -> list[str]:
    torch = f"torch=={torch_for(kind, builds)}"
    if kind == "newest":
        return [torch]
    others = {
        name: bound for name, bound in bounds().items() if name != "torch"
    }
    return sorted(
        [torch, *(f"{name}=={bound}" for name, bound in others.items())]
    )


def installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def table(kind: str) -> str:
    """One line a package: what is installed, the lower bound, the pin."""
    pins = {name.lower(): pin for name, pin in pinned().items()}
    rows = [("package", kind, "lower bound", "pinned")]
    rows += [
        (name, installed(name), bound, pins.get(name.lower(), ""))
        for name, bound in sorted(bounds().items())
    ]
    lines = [
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    ]
    lines += [f"  {a:<24}{b:<16}{c:<14}{d}".rstrip() for a, b, c, d in rows]
    torch = installed("torch")
    if kind == "oldest" and not same(torch, bounds()["torch"]):
        lines.append(
            f"PyTorch {bounds()['torch']}, the lower bound, was not run: no build for the processor alone is to be"
            " had here.\nIts names are looked up as text in the last step."
        )
    if kind == "newest" and same(torch, pinned()["torch"]):
        lines.append(
            "PyTorch is the pinned one: the newest that is to be had here as a build for the processor alone.\n"
            "The names of the newest release of all are looked up as text in the last step."
        )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    if len(arguments) == 1 and arguments[0] in KINDS:
        print(*constraints(arguments[0], torch_builds()), sep="\n")
        return 0
    if (
        len(arguments) == 2
        and arguments[0] == "table"
        and arguments[1] in KINDS
    ):
        print(table(arguments[1]))
        return 0
    print(
        "usage: python tools/versions.py [table] oldest|newest",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
