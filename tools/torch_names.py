"""Look up every name of PyTorch that the package uses in a release of PyTorch, without running it.

    python tools/torch_names.py oldest|newest|VERSION|FILE.whl ...

The book is tested with one build of PyTorch, since builds for the processor alone are not to be had
everywhere. This tool reads another release as text: it has pip fetch the small build of that release
for another system (some 60 MB, kept in _build), and looks for each name, and each argument given by
name, where PyTorch itself defines them. That a name is there is shown so; that it does the same is not.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import versions

ROOT = Path(__file__).resolve().parents[1]
WHEELS = ROOT / "_build/torch"
# The builds for this system are small and hold the same Python files.
SYSTEMS = ("macosx_14_0_arm64", "macosx_11_0_arm64")
# What torch takes into its first level from elsewhere, as far as the package uses it.
INSIDE = {
    "torch": [
        "torch/__init__",
        "torch/_C/__init__",
        "torch/_C/_VariableFunctions",
        "torch/functional",
        "torch/random",
        "torch/autograd/grad_mode",
    ],
    "torch.nn": ["torch/nn/__init__", "torch/nn/modules/__init__"],
    "torch.Tensor": ["torch/_tensor", "torch/_C/__init__"],
    "torch.distributed": [
        "torch/distributed/__init__",
        "torch/distributed/distributed_c10d",
        "torch/_C/_distributed_c10d",
    ],
    "torch.distributed.tensor.DTensor": ["torch/distributed/tensor/_api"],
}


def names_in(source: str) -> set[str]:
    """The names below ``torch`` that a module uses; ``name(argument)`` where one is given by name."""
    tree = ast.parse(source)
    known: dict[str, str] = {}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name.split(".")[0] == "torch":
                    known[one.asname or "torch"] = (
                        one.name if one.asname else "torch"
                    )
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            for one in node.names:
                if module.split(".")[0] == "torch":
                    known[one.asname or one.name] = f"{module}.{one.name}"
    found |= {name for name in known.values() if "." in name}

    def full(node: ast.expr) -> str | None:
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in known:
            return ".".join([known[node.id], *reversed(parts)])
        return None

    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (name := full(node)):
            found.add(name)
        if isinstance(node, ast.Call) and (name := full(node.func)):
            found |= {
                f"{name}({keyword.arg})"
                for keyword in node.keywords
                if keyword.arg
            }
    # Parts of a longer name say nothing of their own.
    return {
        name
        for name in found
        if not any(other.startswith(f"{name}.") for other in found)
    }


def used(folder: Path = ROOT / "src") -> set[str]:
    """What the whole package uses."""
    found: set[str] = set()
    for path in sorted(folder.rglob("*.py")):
        found |= names_in(path.read_text(encoding="utf-8"))
    return {
        name
        for name in found
        if not any(other.startswith(f"{name}.") for other in found)
    }


class Release:
    """The Python files of one release."""

    def __init__(self, wheel: Path):
        self.wheel = zipfile.ZipFile(wheel)
        self.files = set(self.wheel.namelist())

    @cache  # noqa: B019  (one release lives as long as the run)
    def text(self, stem: str) -> str:
        """A module and what describes it, as one text."""
        return "\n".join(
            self.wheel.read(stem + ending).decode()
            for ending in (".py", ".pyi")
            if stem + ending in self.files
        )

    def stems(self, owner: str) -> list[str]:
        """Where the names of a module, or of a class, are written down."""
        if owner in INSIDE:
            return INSIDE[owner]
        path = owner.replace(".", "/")
        return [path, f"{path}/__init__"]

    def defines(self, name: str) -> bool:
        """Whether a name is defined, or taken in by name."""
        owner, _, last = name.rpartition(".")
        word = re.escape(last)
        if any(
            f"{name.replace('.', '/')}{ending}" in self.files
            for ending in (".py", "/__init__.py")
        ):
            return True
        pattern = re.compile(
            rf"^\s*(?:def|class) {word}\b"
            rf"|^\s*{word}\s*(?::|=|,|as\b)"
            rf"|\bimport\b[^#\n]*\b{word}\b"
            rf"|^\s*['\"]{word}['\"],?$",
            re.MULTILINE,
        )
        listed = re.compile(
            rf"(?:^|,)\s*['\"]?{word}['\"]?\s*(?:,|$)", re.MULTILINE
        )
        return any(
            pattern.search(self.text(stem))
            # Such a file lists names and does nothing else.
            or (
                stem.endswith("modules/__init__")
                and listed.search(self.text(stem))
            )
            for stem in self.stems(owner)
        )

    def takes(self, name: str, argument: str) -> bool:
        """Whether a function, or the making of a class, takes an argument of that name."""
        owner, _, last = name.rpartition(".")
        stems = [*self.stems(owner)]
        # Classes and functions are defined deeper than where they are found.
        if owner in ("torch.nn", "torch.optim", "torch.func"):
            inner = {
                "torch.nn": "torch/nn/modules/",
                "torch.optim": "torch/optim/",
                "torch.func": "torch/_functorch/",
            }[owner]
            stems += sorted(
                file.removesuffix(".py")
                for file in self.files
                if file.startswith(inner) and file.endswith(".py")
            )
        asked = re.compile(rf"\b{re.escape(argument)}\s*[:=,)]")
        for stem in stems:
            text = self.text(stem)
            for match in re.finditer(
                rf"\b{re.escape(last)}\((?=\w|\n|\*|\s)", text
            ):
                if asked.search(signature(text, match.end() - 1)):
                    return True
            for match in re.finditer(
                rf"^class {re.escape(last)}\b.*$", text, re.MULTILINE
            ):
                rest = text[match.end() + 1 :]
                body = re.split(r"^(?=[^\s)])", rest, flags=re.MULTILINE)[0]
                for start in re.finditer(r"def __(?:init|new)__\(", body):
                    if asked.search(signature(body, start.end() - 1)):
                        return True
        return False

    def missing(self, names: Iterable[str]) -> list[str]:
        """The names, and arguments, that this release does not have."""
        found = []
        for name in sorted(names):
            plain, _, argument = name.removesuffix(")").partition("(")
            if not self.defines(plain) or (
                argument and not self.takes(plain, argument)
            ):
                found.append(name)
        return found


def signature(text: str, start: int) -> str:
    """The text between the bracket at ``start`` and the one that closes it."""
    depth = 0
    for i in range(start, min(len(text), start + 4000)):
        depth += text[i] in "([{"
        depth -= text[i] in ")]}"
        if depth == 0:
            return text[start : i + 1]
    return ""


def fetched(wanted: str) -> Path:
    """The wheel of a release: that of pyproject.toml's lower bound, the newest, or a given one."""
    if wanted.endswith(".whl"):
        return Path(wanted)
    asked = "torch"
    if wanted != "newest":
        number = (
            versions.bounds()["torch"] if wanted == "oldest" else wanted
        )
        asked = f"torch=={number}"
    folder = WHEELS / wanted
    kept = sorted(folder.glob("*.whl"))
    if kept and wanted != "newest":
        return kept[0]
    for wheel in kept:
        wheel.unlink()
    command = [sys.executable, "-m", "pip", "download", "--quiet"]
    command += ["--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", f"--dest={folder}"]
    command += [f"--platform={system}" for system in SYSTEMS]
    command += ["--python-version=3.11", asked]
    done = subprocess.run(command, capture_output=True, text=True)
    found = sorted(folder.glob("*.whl"))
    if done.returncode or not found:
        lines = done.stderr.strip().splitlines() or ["nothing was fetched"]
        raise SystemExit(f"torch_names: {asked}: {lines[-1]}")
    return found[0]


def main(arguments: list[str]) -> int:
    if not arguments:
        print(
            "usage: python tools/torch_names.py oldest|newest|VERSION|FILE.whl ...",
            file=sys.stderr,
        )
        return 2
    names = used()
    good = True
    for wanted in arguments:
        wheel = fetched(wanted)
        version = wheel.name.split("-")[1]
        missing = Release(wheel).missing(names)
        good &= not missing
        told = ", ".join(missing) if missing else "none"
        print(
            f"PyTorch {version}, read as text, not run: {len(names)} names and arguments are used, missing: {told}",
            flush=True,
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
