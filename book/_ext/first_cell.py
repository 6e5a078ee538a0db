"""A first cell that makes a notebook work alone, in the copies that the site offers for download.

The notebooks of the repository cannot carry it: what it installs lies at the address of the repository, and a fork has
another one. The copies get it when the pages are built. Where the package is installed, it does nothing. Where the book's
home is not known, it says what to install instead.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

PACKAGE = "attention_in_detail"
ID = "install-what-is-missing"
# What the package itself brings, and what comes as one of its extras.
BROUGHT = {PACKAGE, "numpy"}
EXTRAS = {"matplotlib": "figures", "torch": "torch"}

INSTALL = """\
# This notebook needs the book's package. Where something is missing, as on Colab, this cell installs it.
from importlib.util import find_spec

if not all(find_spec(name) for name in {names}):
    %pip install --quiet {wanted}
"""
REFUSE = """\
# This notebook needs the book's package. Where something is missing, this cell says what to install.
from importlib.util import find_spec

missing = [name for name in {names} if not find_spec(name)]
if missing:
    raise ModuleNotFoundError(
        "missing: " + ", ".join(missing) + ". Get the book, and in its folder install what this chapter needs, "
        "with the Python that runs this notebook: " + {command!r}
    )
"""


def read(path: Path) -> dict:
    return json.loads(path.read_text("utf8"))


def written(notebook: dict) -> str:
    """The text of a notebook, as nbformat writes it."""
    return (
        json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False)
        + "\n"
    )


def code(cell: dict) -> str:
    """The Python of a cell; nothing, if it holds something else as well."""
    text = "".join(cell["source"])
    try:
        ast.parse(text)
    except SyntaxError:
        return ""
    return text if cell["cell_type"] == "code" else ""


def needs(notebook: dict) -> set[str]:
    """The packages that the cells of a notebook import, beside the standard library and what all chapters have."""
    found: set[str] = set()
    for cell in notebook["cells"]:
        for node in ast.walk(ast.parse(code(cell))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            found |= {name.partition(".")[0] for name in names}
            # Figures are drawn with matplotlib, which a chapter need not import itself.
            if any(name.startswith(f"{PACKAGE}.figures") for name in names):
                found.add("matplotlib")
    return found - BROUGHT - set(sys.stdlib_module_names)


def bounded(name: str, project: Path) -> str:
    """What to ask pip for: a package, with the bounds of pyproject.toml if it has some."""
    if project.is_file():
        settings = tomllib.loads(project.read_text("utf8"))["project"]
        for extra in settings.get("optional-dependencies", {}).values():
            for line in extra:
                if re.match(r"[\w.-]+", line)[0] == name:
                    return line
    return name


def first_cell(
    needed: set[str], repository: str, revision: str, project: Path
) -> dict:
    """The cell, for a notebook that imports these packages."""
    names = json.dumps([PACKAGE, *sorted(needed)])
    extras = ",".join(
        sorted(EXTRAS[one] for one in needed if one in EXTRAS)
    )
    package = f"[{extras}]" if extras else ""
    others = [
        f'"{bounded(one, project)}"'
        for one in sorted(needed)
        if one not in EXTRAS
    ]
    if repository:
        wanted = [
            f'"{PACKAGE}{package} @ git+{repository}@{revision}"',
            *others,
        ]
        text = INSTALL.format(names=names, wanted=" ".join(wanted))
    else:
        command = " ".join(["pip install", f"'.{package}'", *others])
        text = REFUSE.format(names=names, command=command)
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": ID,
        "metadata": {},
        "outputs": [],
        "source": text.rstrip("\n").splitlines(keepends=True),
    }


def with_first_cell(
    notebook: dict, repository: str, revision: str, project: Path
) -> dict:
    """A notebook with the cell before its first code; one without code as it is."""
    cells = notebook["cells"]
    places = [
        place
        for place, cell in enumerate(cells)
        if cell["cell_type"] == "code"
    ]
    if not places or any(cell.get("id") == ID for cell in cells):
        return notebook
    new = first_cell(needs(notebook), repository, revision, project)
    return {
        **notebook,
        "cells": [*cells[: places[0]], new, *cells[places[0] :]],
    }


def finish(app: Sphinx, failure: Exception | None) -> None:
    if failure is not None or app.builder.format != "html":
        return
    for path in sorted((Path(app.outdir) / "_sources").rglob("*.ipynb")):
        made = with_first_cell(
            read(path),
            app.home.repository,
            app.home.revision,
            Path(app.confdir) / "pyproject.toml",
        )
        path.write_text(written(made), "utf8")


def setup(app: Sphinx) -> dict[str, object]:
    app.connect("build-finished", finish)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
