"""Which code a stored measurement came from, as one short string.

A measurement that takes an hour is stored, and not taken again in each run of the tests. So the result keeps a
fingerprint of the code that made it: of the script and of each module of the project that the script uses. Comments,
docstrings and layout do not count. Where the fingerprint of today's code differs, the measurement is of another code.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PACKAGE = "attention_in_detail"
SCRIPTS = ("experiments", "bench")
STORED = f"src/{PACKAGE}/stored"
# These run what others measure, and write it down.
NOT_MEASURING = ("bench/storing.py", "experiments/running.py")


def shape(node: object) -> str:
    """A syntax tree as text that every version of Python writes alike: without places, and without empty fields."""
    if isinstance(node, ast.AST):
        fields = [
            f"{name}={shape(value)}"
            for name, value in ast.iter_fields(node)
            if value not in (None, [])
        ]
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return f"[{','.join(shape(one) for one in node)}]"
    return repr(node)


def without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(
            node,
            (ast.Module, ast.ClassDef, ast.FunctionDef),
        ) and ast.get_docstring(node, clean=False):
            del node.body[0]
    return tree


def module_file(root: Path, script: Path, dotted: str) -> Path | None:
    """The file of a module of the project, whichever of its folders has it; None for a module of others."""
    parts = dotted.split(".")
    folders = [
        script.parent,
        root / "src",
        *(root / one for one in SCRIPTS),
    ]
    for folder in folders:
        base = folder.joinpath(*parts)
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                return path
    return None


def imports(
    tree: ast.Module, wanted: frozenset[str] | None
) -> Iterator[tuple[str, frozenset[str] | None]]:
    """(module, names taken from it) for the imports of a file; only those that bind a wanted name, if names are given."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and wanted is None:
            for alias in node.names:
                yield alias.name, None
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = frozenset(
                alias.name
                for alias in node.names
                if wanted is None or (alias.asname or alias.name) in wanted
            )
            if names:
                yield node.module, names


def files_behind(root: Path, script: Path) -> list[Path]:
    """The script and every file of the project that it imports, and they import.

    What a package offers under its own name is followed to the module that has it, so that a package that grows
    by something else does not change what is behind a script.
    """
    todo: list[tuple[Path, frozenset[str] | None]] = [(script, None)]
    done: set[tuple[Path, frozenset[str] | None]] = set()
    while todo:
        file, wanted = todo.pop()
        if (file, wanted) in done:
            continue
        done.add((file, wanted))
        tree = ast.parse(file.read_text("utf8"))
        through = file.name == "__init__.py" and wanted is not None
        for dotted, names in imports(tree, wanted if through else None):
            for name in names or ():
                below = module_file(root, script, f"{dotted}.{name}")
                if below:
                    todo.append((below, None))
            found = module_file(root, script, dotted)
            if found and found.name == "__init__.py":
                todo.append((found, names))
            elif found:
                todo.append((found, None))
        if through and wanted & defined(tree):
            todo.append((file, None))
    whole = {
        file
        for file, wanted in done
        if wanted is None or file.name != "__init__.py"
    }
    return sorted(whole - {root / name for name in NOT_MEASURING})


def defined(tree: ast.Module) -> set[str]:
    """The names of functions and classes that a file defines itself."""
    return {
        node.name
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }


def of_script(root: Path, script: Path) -> str:
    """The fingerprint of a script with everything of the project that it uses."""
    root, script = root.resolve(), script.resolve()
    digest = hashlib.sha256()
    for file in files_behind(root, script):
        tree = without_docstrings(ast.parse(file.read_text("utf8")))
        name = file.relative_to(root).as_posix()
        digest.update(f"{name}\0{shape(tree)}\0".encode())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Stored:
    """A stored measurement."""

    name: str
    script: str  # below the root
    date: str
    again: str  # when its first seed was measured again, if it was
    same_code: bool  # whether today's code is the one that measured it, or measured it again


def script_of(root: Path, name: str) -> Path:
    for folder in SCRIPTS:
        path = root / folder / f"{name}.py"
        if path.is_file():
            return path
    raise ValueError(
        f"{STORED} has {name!r}, but neither {' nor '.join(SCRIPTS)} has a script {name}.py that made it"
    )


def noted(path: Path) -> list[tuple[str, str]]:
    """(date, fingerprint) as the file of a measurement has them, then those of a part measured again."""
    if path.suffix == ".json":
        kept = json.loads(path.read_text("utf8"))
    else:
        with np.load(path, allow_pickle=False) as arrays:
            kept = {
                name: str(arrays[name])
                for name in ("date", "code")
                if name in arrays
            }
    missing = {"date", "code"} - set(kept)
    if missing:
        raise ValueError(
            f"{path.name} does not say its {' and '.join(sorted(missing))}: store it through bench/storing.py"
        )
    notes = [kept, kept["again"]] if "again" in kept else [kept]
    return [(note["date"], note["code"]) for note in notes]


def stored(root: Path) -> list[Stored]:
    """Every stored measurement, by name."""
    found = []
    for path in sorted((root / STORED).glob("*")):
        if path.suffix in (".json", ".npz"):
            script = script_of(root, path.stem)
            notes = noted(path)
            found.append(
                Stored(
                    path.stem,
                    script.relative_to(root).as_posix(),
                    notes[0][0],
                    notes[1][0] if len(notes) > 1 else "",
                    notes[-1][1] == of_script(root, script),
                )
            )
    return found
