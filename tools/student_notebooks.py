"""Make the notebooks for students: the chapters with exercises, without their solutions and outputs.

    python tools/student_notebooks.py [--out _build/course/notebooks] [CHAPTER ...]

One for each chapter that has exercises, or for those that are named (02_attention). The text is Markdown that any notebook
editor shows; hints open at a click. The first cell installs the book's package where it is missing. Below each exercise
stands a cell with ``check("ex-...", ...)``, or, for a proof or an explanation, one to write in. Their metadata say which
exercise it is and how many points it has, and carry the label as a tag. Made again from the same book, a notebook has the
same bytes.

``tools/mark.py`` marks what comes back.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "book/_ext"))
sys.path.append(str(ROOT / "tools"))

from first_cell import read, with_first_cell, written  # noqa: E402
from home import Home, HomeError, find  # noqa: E402
from mark import LABEL, WRITE_HERE  # noqa: E402
from plain_markdown import CUT, Book, Page  # noqa: E402

from attention_in_detail.exercises import CHAPTERS, exercises_of  # noqa: E402

OUT = ROOT / "_build/course/notebooks"
POINTS = 1
HOW = (
    "Put your answer in place of the three dots; you may write code above it, in the same cell. Run the cell, and it says "
    "at once whether the answer is right, or what is wrong with it. Try as often as you like: the last answer counts."
)


def markdown(name: str, text: str, metadata: dict | None = None) -> dict:
    return {
        "cell_type": "markdown",
        "id": name,
        "metadata": metadata or {},
        "source": text.splitlines(keepends=True),
    }


def about(label: str, points: int | None = None) -> dict:
    """The metadata of a cell with an answer."""
    told: dict[str, object] = {"exercise": label}
    if points is not None:
        told["points"] = points
    return {"attention_in_detail": told, "tags": ["exercise", label]}


def text_cells(cell: dict, page: Page, to_write: set[str]) -> list[dict]:
    """A cell of text without the solutions in it; where one to an exercise in words stood, a cell to write in."""
    text = page.text("".join(cell["source"]))
    text = re.sub(
        r"^## Exercises$", f"## Exercises\n\n{HOW}", text, flags=re.M
    )
    found = []
    parts = re.split(CUT.format("([^\x00]*)"), text)
    for number, (part, label) in enumerate(
        zip(parts[::2], [*parts[1::2], ""], strict=True)
    ):
        name = cell["id"] if not number else f"{cell['id'][:50]}-{number}"
        if part.strip():
            found.append(markdown(name, part.strip("\n")))
        if label in to_write:
            found.append(
                markdown(f"answer-{label}"[:64], WRITE_HERE, about(label))
            )
    return found


def code_cells(cell: dict, page: Page) -> list[dict]:
    """A cell of code without outputs; below it what is said under its figure."""
    source = "".join(cell["source"])
    label = LABEL.search(source)
    found = [
        {
            "cell_type": "code",
            "execution_count": None,
            "id": cell["id"],
            "metadata": about(label[1], POINTS) if label else {},
            "outputs": [],
            "source": source.splitlines(keepends=True),
        }
    ]
    figure = cell["metadata"].get("mystnb", {}).get("figure", {})
    if caption := figure.get("caption"):
        told = page.book.places[figure["name"]].told
        text = f"**{told}.** {page.text(caption)}"
        found.append(markdown(f"{cell['id'][:50]}-caption", text))
    return found


def for_students(chapter: str, book: Book, home: Home) -> dict:
    """The notebook of a chapter as students get it."""
    notebook = read(book.root / f"notebooks/{chapter}.ipynb")
    page = Page(book, f"notebooks/{chapter}")
    to_write = {
        one.label for one in exercises_of(chapter) if one.form == "open"
    }
    cells: list[dict] = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cells += code_cells(cell, page)
        elif cell["cell_type"] == "markdown":
            cells += text_cells(cell, page, to_write)
    kept = ("kernelspec", "language_info")
    metadata = {
        name: notebook["metadata"][name]
        for name in kept
        if name in notebook["metadata"]
    }
    metadata["attention_in_detail"] = {"chapter": chapter}
    made = {
        "cells": cells,
        "metadata": metadata,
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return with_first_cell(
        made, home.repository, home.revision, book.root / "pyproject.toml"
    )


def store(text: str, path: Path) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, "utf8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="student_notebooks",
        description="Make the notebooks for students.",
    )
    parser.add_argument("chapters", nargs="*", metavar="CHAPTER")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(arguments)
    if unknown := [one for one in given.chapters if one not in CHAPTERS]:
        print(
            f"student_notebooks: {unknown[0]} has no exercises; these have: {', '.join(CHAPTERS)}",
            file=sys.stderr,
        )
        return 2
    try:
        home = find(ROOT)
    except HomeError as error:
        print(f"student_notebooks: {error}", file=sys.stderr)
        return 2
    book = Book(ROOT, home.url)
    given.out.mkdir(parents=True, exist_ok=True)
    chapters = given.chapters or list(CHAPTERS)
    for chapter in chapters:
        text = written(for_students(chapter, book, home))
        store(text, given.out / f"{chapter}.ipynb")
    print(f"{len(chapters)} notebooks for students in {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
