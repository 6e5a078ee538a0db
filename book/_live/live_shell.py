"""Run the cells of a page, and tell the page what they print, show and raise.

This runs in the reader's browser, beside the package of the book. What a cell gives is sent as JSON, in order: text of
a stream, something displayed, at most one error. An error is told as Python tells it, reduced to the lines of the cells.
"""

from __future__ import annotations

import ast
import base64
import builtins
import gc
import importlib
import importlib.abc
import importlib.util
import io
import json
import linecache
import logging
import shutil
import sys
import time
import traceback
import types
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

# As much text as a page can take from one cell.
LIMIT = 100_000
# Text is sent when some is there and this many seconds have passed, so that a long run shows where it is.
PAUSE = 0.1
FORMS = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
}
# A drawing for a dark page, beside the one for a light page. Only pages know this name.
DARK = "image/png; dark"

Send = Callable[[str], None]


class Stream(io.TextIOBase):
    """Stands for stdout or stderr, and sends what is written."""

    def __init__(self, name: str, send: Send) -> None:
        self.name, self.send = name, send
        self.held: list[str] = []
        self.other: Stream | None = None
        # The first line is sent at once: the rest of a cell may take long.
        self.written, self.sent_at = 0, time.monotonic() - 2 * PAUSE

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self.other is not None:
            self.other.flush()  # what was written first comes first
        left = LIMIT - self.written
        if left > 0:
            self.held.append(text[:left])
            if len(text) > left:
                self.held.append(f"\n… cut after {LIMIT:,} characters\n")
        self.written += len(text)
        waited = time.monotonic() - self.sent_at
        if self.held and waited >= (PAUSE if text.endswith("\n") else 1):
            self.flush()
        return len(text)

    def flush(self) -> None:
        text = "".join(self.held)
        self.held.clear()
        self.sent_at = time.monotonic()
        if text:
            self.send(
                json.dumps(
                    {"kind": "stream", "name": self.name, "text": text}
                )
            )


def forms_of(value: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """The forms in which a value shows itself, and what is said about them, as a notebook stores them."""
    data: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    if not isinstance(value, type):
        bundle = getattr(value, "_repr_mimebundle_", None)
        if bundle is not None:
            made = bundle()
            data, metadata = made if isinstance(made, tuple) else (made, {})
            data = dict(data)
        for form, name in FORMS.items():
            method = getattr(value, name, None)
            if form not in data and method is not None:
                made = method()
                if made is not None:
                    data[form] = made
    data.setdefault("text/plain", repr(value))
    for form, made in data.items():
        if isinstance(made, bytes):
            data[form] = base64.b64encode(made).decode("ascii")
    palette = metadata.get("image/png", {}).get("dark_palette")
    if palette is not None:
        data[DARK] = on_dark(data["image/png"], palette)
    return data, metadata


def on_dark(png: str, palette: str) -> str:
    """A picture of the book in its inks for a dark page; the package, which made the picture, knows how."""
    module = importlib.import_module("attention_in_detail.figures._palette")
    made = module.with_palette(
        base64.b64decode(png), base64.b64decode(palette)
    )
    return base64.b64encode(made).decode("ascii")


def drop_printer_fonts(data: Path) -> None:
    """Remove matplotlib's descriptions of PostScript fonts: reading them takes ten times as long as reading its other fonts.

    No picture on a page uses one.
    """
    for name in ("afm", "pdfcorefonts"):
        shutil.rmtree(data / "fonts" / name)


def begin() -> None:
    """Make ready what only this Python in a browser, thrown away with its page, is to have otherwise than others."""
    spec = importlib.util.find_spec("matplotlib")
    drop_printer_fonts(Path(spec.submodule_search_locations[0], "mpl-data"))
    prepare()


def prepare() -> None:
    """Import what takes long, so that it counts as loading and not as a part of the first cell."""
    # It says at a first import that it looks for fonts, which is no fault of a cell.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    for name in ("numpy", "matplotlib.figure", "matplotlib.font_manager"):
        importlib.import_module(name)
    # NumPy's part for Fortran needs a compiler, which is not here; who asks NumPy for all of its names would load it.
    sys.modules["numpy"].f2py = types.ModuleType("numpy.f2py")
    # jaxtyping's hook for other people's packages, which no chapter installs, would load half of unittest.
    hook = types.ModuleType("jaxtyping._import_hook")
    hook.__getattr__ = lambda name: None
    sys.modules[hook.__name__] = hook
    # What is there now stays: it need not be looked through, time and again, for what could be thrown away. And what is
    # thrown away later is little beside the memory of a page.
    gc.freeze()
    gc.set_threshold(20_000)


class Shell:
    """The names that the cells of a page share."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def run(self, source: str, number: int, send: Send) -> bool:
        """Run a cell; say whether it came to its end."""
        streams = Stream("stdout", send), Stream("stderr", send)
        streams[0].other, streams[1].other = streams[1], streams[0]
        kept = sys.stdout, sys.stderr, builtins.input
        file = f"cell {number}"
        lines = source.splitlines(keepends=True)
        linecache.cache[file] = (len(source), None, lines, file)

        def flush() -> None:
            for stream in streams:
                stream.flush()

        def display(*values: Any) -> None:
            """Show values as a last expression is shown."""
            for value in values:
                data, metadata = forms_of(value)
                flush()
                told = {"kind": "display", "data": data}
                send(json.dumps(told | {"metadata": metadata}))

        self.names["display"] = display
        sys.stdout, sys.stderr = streams
        builtins.input = no_input
        try:
            tree = ast.parse(source, file)
            last = tree.body[-1] if tree.body else None
            if isinstance(last, ast.Expr):
                tree.body.pop()
            exec(compile(tree, file, "exec"), self.names)
            if isinstance(last, ast.Expr):
                expression = ast.Expression(last.value)
                value = eval(compile(expression, file, "eval"), self.names)
                if value is not None and not source.rstrip().endswith(";"):
                    display(value)
            for figure in open_figures():
                display(figure)
        except BaseException as error:
            flush()
            send(json.dumps({"kind": "error", **told_of(error)}))
            return False
        finally:
            flush()
            sys.stdout, sys.stderr, builtins.input = kept
        return True


def no_input(*_: Any) -> str:
    raise RuntimeError(
        "input() asks nobody here: write the value into the cell"
    )


class DrawnFigure:
    """A figure of pyplot's, as a picture; words for it, nobody gave."""

    def __init__(self, figure: Any) -> None:
        self.figure = figure

    def __repr__(self) -> str:
        return "A figure that the cell drew, without words for it"

    def _repr_mimebundle_(self) -> tuple[dict, dict]:
        stream = io.BytesIO()
        self.figure.savefig(stream, format="png", dpi=192)
        width, height = self.figure.get_size_inches() * 96
        about = {"alt": repr(self), "width": width, "height": height}
        return {"image/png": stream.getvalue()}, {"image/png": about}


def open_figures() -> list[DrawnFigure]:
    """The figures that pyplot holds, which are closed by this. The book's own figures do without pyplot."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return []
    figures = [
        DrawnFigure(pyplot.figure(number))
        for number in pyplot.get_fignums()
    ]
    pyplot.close("all")
    return figures


def of_cells(told: traceback.TracebackException) -> None:
    """Leave nothing in a traceback but the lines of the cells: what led to it stays, and so do its causes."""
    seen = set()
    todo = [told]
    while todo:
        part = todo.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        kept = [f for f in part.stack if f.filename.startswith("cell ")]
        part.stack = traceback.StackSummary.from_list(kept)
        todo += [part.__cause__, part.__context__, *(part.exceptions or [])]


def told_of(error: BaseException) -> dict[str, Any]:
    """An error as Python writes it, with the line of the cell that it came to."""
    told = traceback.TracebackException.from_exception(error)
    lines = [
        frame.lineno
        for frame in told.stack
        if frame.filename.startswith("cell ")
    ]
    if isinstance(error, SyntaxError) and str(error.filename).startswith(
        "cell "
    ):
        lines.append(error.lineno)
    of_cells(told)
    return {
        "name": type(error).__name__,
        "line": lines[-1] if lines else None,
        "text": "".join(told.format()),
    }


class Later(importlib.abc.MetaPathFinder):
    """Fetches a package of the site when it is first imported, and leaves it to Python to find it then.

    Args:
        folder: where it is put; a place on the path.
        packages: the packages that there are.
        fetch: returns the zip file of one.
    """

    def __init__(
        self,
        folder: str,
        packages: list[str],
        fetch: Callable[[str], bytes],
    ) -> None:
        self.folder, self.packages, self.fetch = folder, packages, fetch

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> None:
        if name in self.packages:
            self.packages.remove(name)
            content = io.BytesIO(self.fetch(name))
            zipfile.ZipFile(content).extractall(self.folder)
            importlib.invalidate_caches()
