"""On the front page, links to the book as a PDF and as an ePub, where they have been built from this very state.

    :::{book-files}
    :::

makes a line with the files and their sizes, or nothing. `make book` says in BOOK_FILES which there are (tools/build_book.py);
they are put into the site beside the pages.
"""

from __future__ import annotations

import os
import shutil
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

NAME = "attention-in-detail"
FOLDER = "files"
TYPES = {
    "pdf": ("PDF", "application/pdf"),
    "epub": ("ePub", "application/epub+zip"),
}


class BookFiles(nodes.General, nodes.Element):
    """The place of the line."""


class BookFilesDirective(SphinxDirective):
    has_content = False

    def run(self) -> list[nodes.Node]:
        return [BookFiles()]


def files(app: Sphinx) -> dict[str, Path]:
    """The files that go into the site, by form."""
    if app.builder.format != "html" or app.builder.name == "epub":
        return {}
    return {
        form: Path(app.confdir) / "_build" / form / f"{NAME}.{form}"
        for form in os.environ.get("BOOK_FILES", "").split()
        if form in TYPES
    }


def size(path: Path) -> str:
    """In megabytes, with one digit after the point."""
    return f"{max(path.stat().st_size / 1e6, 0.1):.1f} MB"


def line(found: dict[str, Path], to_root: str) -> str:
    links = [
        f'<a href="{escape(to_root)}{FOLDER}/{path.name}" type="{TYPES[form][1]}">{TYPES[form][0]}</a> ({size(path)})'
        for form, path in found.items()
    ]
    return f'<p class="book-files">The whole book as one file: {", ".join(links)}.</p>\n'


def visit(self, node: BookFiles) -> None:
    app = self.builder.app
    if found := files(app):
        depth = self.builder.current_docname.count("/")
        self.body.append(line(found, "../" * depth))
    raise nodes.SkipNode


def skip(self, node: BookFiles) -> None:
    raise nodes.SkipNode


def copy(app: Sphinx, failure: Exception | None) -> None:
    if failure is None:
        for path in files(app).values():
            target = Path(app.outdir) / FOLDER / path.name
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, target)


def setup(app: Sphinx) -> dict[str, object]:
    app.add_node(
        BookFiles,
        html=(visit, None),
        latex=(skip, None),
        text=(skip, None),
        man=(skip, None),
        texinfo=(skip, None),
    )
    app.add_directive("book-files", BookFilesDirective)
    app.connect("build-finished", copy)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
