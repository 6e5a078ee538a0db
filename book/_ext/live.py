"""Run a chapter where it is read: Python, NumPy and matplotlib in the reader's browser, by Pyodide.

A chapter whose cells need nothing but these gets a button. Until a reader presses it, a page costs one small script and
asks nobody for anything; the button says beforehand how much will come, and from where. Everything that runs cells
(``book/_live``), the package of the book and what it needs besides NumPy and matplotlib come from the site itself. Pyodide
with its NumPy and matplotlib comes from the place that ``live_pyodide`` in ``_config.yml`` names: an address, or a folder
of the book, whose files then go into the site. Nothing there: no chapter gets a button.

Which files those are, how large and with which hash is in ``book/_live/pyodide-lock.json``; ``tools/pyodide_lock.py`` makes it.

A chapter that needs PyTorch, or anything else, says so in one line, with a link to its notebook. What it needs is read from
the imports of its cells and of the modules of the package that these import.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import io
import json
import posixpath
import shutil
import sys
import zipfile
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from urllib.parse import urlsplit

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

PACKAGE = "attention_in_detail"
PARTS = Path(__file__).resolve().parents[1] / "_live"
SCRIPTS = (
    *("start.js", "page.js", "ask.js", "python.js", "worker.js"),
    *("colours.js", "live.css"),
)
MODULES = ("live_shell.py", "live_translator.py")
LOCK = "pyodide-lock.json"
# Where all of it lies in the site, and Pyodide itself where it is a folder of the book.
TARGET, LOCAL = "_static/live", "_static/pyodide"

# What Pyodide brings; what the package imports besides, in pure Python, and what that needs; and what a function of the
# package imports only when it is called, and a page therefore loads only then.
FROM_PYODIDE = ("numpy", "matplotlib")
NEEDS = ("array-api-compat", "jaxtyping", "wadler-lindig")
LATER = ("beartype",)
# A part of the package that few pages import. It comes as it is imported, with the weights in it that pages can use.
TRAINED = f"{PACKAGE}.trained"
TRAINED_FILE = f"{TRAINED}.zip"
WEIGHTS = ("decoder_only.npz", "number_words.npz")
DATA = (".json", ".npz", ".js")
NAMES = {"torch": "PyTorch", "keras": "Keras"}
# A zip file that is made again is the same: it says nothing about when it was made.
NO_DATE = (1980, 1, 1, 0, 0, 0)


# ---------- what a chapter needs ----------


def imported(
    statements: Iterable[ast.stmt], inside: bool = False
) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that run when the statements do; with ``inside``, also those of functions when these are called."""
    for statement in statements:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield statement
        elif isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(
            statement.test
        ):
            yield from imported(statement.orelse, inside)
        elif inside or not isinstance(
            statement, ast.FunctionDef | ast.AsyncFunctionDef
        ):
            for block in ("body", "orelse", "finalbody"):
                yield from imported(getattr(statement, block, []), inside)
            for handler in getattr(statement, "handlers", []):
                yield from imported(handler.body, inside)


def file_of(module: str, root: Path) -> Path | None:
    """The file of a module of the package, whose sources lie in ``root``."""
    path = root.joinpath(*module.split(".")[1:])
    for file in (path / "__init__.py", path.with_suffix(".py")):
        if file.is_file():
            return file
    return None


def asked(
    statement: ast.Import | ast.ImportFrom, module: str, file: Path | None
) -> set[str]:
    """The names of modules for which an import asks; some of those in a package may be no modules."""
    if isinstance(statement, ast.Import):
        return {alias.name for alias in statement.names}
    base = statement.module or ""
    if statement.level:
        package = module.split(".")
        if file is None or file.name != "__init__.py":
            package = package[:-1]
        package = package[: len(package) - statement.level + 1]
        base = ".".join([*package, *([base] if base else [])])
    return {base, *(f"{base}.{alias.name}" for alias in statement.names)}


class Modules:
    """The modules of the package: which other packages each needs, through all that it imports."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.known: dict[str, set[str]] = {}

    def direct(self, module: str) -> set[str]:
        """What a module asks for as it is imported."""
        if module not in self.known:
            file = file_of(module, self.root)
            tree = ast.parse(file.read_text("utf8"))
            self.known[module] = {
                name
                for statement in imported(tree.body)
                for name in asked(statement, module, file)
            }
        return self.known[module]

    def others(self, names: Iterable[str]) -> set[str]:
        """The packages, other than this one and the standard library, that importing these modules imports."""
        found: set[str] = set()
        seen: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name in seen:
                continue
            seen.add(name)
            top = name.partition(".")[0]
            if top != PACKAGE:
                if top and top not in sys.stdlib_module_names:
                    found.add(top)
            elif file_of(name, self.root):
                # A module is imported after the packages that hold it.
                todo += [
                    *self.direct(name),
                    *([name.rpartition(".")[0]] * ("." in name)),
                ]
        return found


def cells_of(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_text("utf8"))["cells"]
    return ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]


def available() -> set[str]:
    """The packages that a page can import."""
    ours = (*NEEDS, *LATER)
    return {*FROM_PYODIDE, *(name.replace("-", "_") for name in ours)}


def missing(cells: Iterable[str], modules: Modules) -> set[str]:
    """The packages that cells need and a page cannot have."""
    names: set[str] = set()
    for cell in cells:
        for statement in imported(ast.parse(cell).body, inside=True):
            names |= asked(statement, "__main__", None)
    return modules.others(names) - available()


# ---------- what the site serves ----------


def package_root() -> Path:
    """Where the package lies. Finding it loads nothing."""
    spec = importlib.util.find_spec(PACKAGE)
    return Path(spec.submodule_search_locations[0])


def of_package(root: Path) -> Iterator[tuple[str, bytes]]:
    """The files of the package, without the modules that a page cannot import."""
    modules = Modules(root)
    for file in root.rglob("*"):
        parts = file.relative_to(root.parent).parts
        if "__pycache__" in parts or not file.is_file():
            continue
        if file.suffix == ".py":
            name = ".".join([*parts[:-1], file.stem])
            name = name.removesuffix(".__init__")
            # A package of which a page can import nothing goes, one of which it can import a part stays.
            if modules.others([name]) - available():
                continue
        elif file.suffix not in DATA:
            continue
        yield "/".join(parts), file.read_bytes()


def of_distribution(name: str) -> Iterator[tuple[str, bytes]]:
    """The Python files of an installed distribution, with what it says of itself and its licence."""
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise ExtensionError(
            f"{name} is missing, which a page needs to run: pip install {name}"
        ) from None
    kept = ("METADATA", "LICENSE", "LICENCE", "COPYING", "NOTICE")
    for path in distribution.files or []:
        about = path.parts[0].endswith(".dist-info")
        if ".." in path.parts or (
            not path.name.startswith(kept)
            if about
            else path.suffix != ".py"
        ):
            continue
        yield "/".join(path.parts), Path(path.locate()).read_bytes()


def zipped(files: Iterable[tuple[str, bytes]]) -> bytes:
    """A zip file that depends on names and contents alone."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        for name, content in sorted(files):
            entry = zipfile.ZipInfo(name, NO_DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            made.writestr(entry, content, compresslevel=9)
    return stream.getvalue()


def described(content: bytes) -> dict[str, object]:
    return {
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def of_site() -> dict[str, bytes]:
    """All files that running a page takes from the site, by name; the list of files, with those of the site, among them."""
    files = {name: (PARTS / name).read_bytes() for name in SCRIPTS}
    own = list(of_package(package_root()))
    folder = TRAINED.replace(".", "/") + "/"
    trained = [
        (name, content)
        for name, content in own
        if name.startswith(folder)
        and (name.endswith(".py") or name.removeprefix(folder) in WEIGHTS)
    ]
    book = [(name, (PARTS / name).read_bytes()) for name in MODULES]
    book += [entry for entry in own if not entry[0].startswith(folder)]
    for name in NEEDS:
        book += of_distribution(name)
    packed = {"book.zip": zipped(book), TRAINED_FILE: zipped(trained)}
    packed |= {
        f"{name.replace('-', '_')}.zip": zipped(of_distribution(name))
        for name in LATER
    }
    lock = json.loads((PARTS / LOCK).read_text("utf8"))
    lock["site"] = {
        name: described(content) for name, content in packed.items()
    }
    return files | packed | {LOCK: json.dumps(lock).encode()}


def pyodide_files(lock: dict) -> dict[str, dict]:
    """Name, size and hash of each file that comes from Pyodide's place."""
    packages = {
        known["file_name"]: known for known in lock["packages"].values()
    }
    return lock["core"] | packages


def copy_pyodide(source: Path, target: Path, lock: dict) -> None:
    """Copy what a page needs from a folder with a Pyodide of the version that is listed."""
    target.mkdir(parents=True, exist_ok=True)
    for name, known in pyodide_files(lock).items():
        file = source / name
        if not file.is_file():
            raise ExtensionError(
                f"live_pyodide: {name} is missing in {source}"
            )
        if described(file.read_bytes())["sha256"] != known["sha256"]:
            raise ExtensionError(
                f"live_pyodide: {name} in {source} is not the file that {LOCK} lists"
            )
        shutil.copyfile(file, target / name)


# ---------- pages ----------


class RunsPython(nodes.General, nodes.Element):
    """What needs the script that waits for a press."""


class LiveBar(RunsPython):
    """The button of a page, with what it says before it is pressed."""


class LiveNotice(nodes.General, nodes.Element):
    """One line: why this page cannot be run where it is read."""


def is_address(place: str) -> bool:
    return urlsplit(place).scheme in ("http", "https")


def place_of(setting: str) -> str:
    """Where Pyodide comes from, as a reader knows it."""
    return urlsplit(setting).netloc if is_address(setting) else "this site"


def listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def for_readers(app: Sphinx) -> bool:
    return app.builder.format == "html" and app.builder.name in (
        "html",
        "dirhtml",
    )


def prepare(app: Sphinx) -> None:
    """Put the files into the site before any page is written, so that pages can name their version."""
    if not (for_readers(app) and app.config.live_pyodide):
        return
    files = of_site()
    target = Path(app.outdir) / TARGET
    target.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (target / name).write_bytes(content)
    lock = json.loads(files[LOCK])
    if not is_address(app.config.live_pyodide):
        copy_pyodide(
            Path(app.srcdir) / app.config.live_pyodide,
            Path(app.outdir) / LOCAL,
            lock,
        )
    known = [*pyodide_files(lock).values(), lock["site"]["book.zip"]]
    content = b"".join(content for _, content in sorted(files.items()))
    app.live_facts = {
        "megabytes": round(sum(file["bytes"] for file in known) / 1e6),
        "version": f"?v={hashlib.sha256(content).hexdigest()[:8]}",
    }
    app.live_weights = len(files[TRAINED_FILE])


def facts_for(app: Sphinx, name: str) -> dict[str, object]:
    """What a page needs to know: where Pyodide is, seen from it, how that is called, how much comes, and of which version."""
    setting = app.config.live_pyodide
    page = posixpath.dirname(app.builder.get_target_uri(name)) or "."
    where = (
        setting if is_address(setting) else posixpath.relpath(LOCAL, page)
    )
    return {
        "where": where.rstrip("/") + "/",
        "place": place_of(setting),
        **app.live_facts,
    }


def add_bar(app: Sphinx, doctree: nodes.document, name: str) -> None:
    source = Path(app.env.doc2path(name))
    if not hasattr(app, "live_facts") or source.suffix != ".ipynb":
        return
    cells = cells_of(source)
    title = next(iter(doctree.findall(nodes.title)), None)
    if not cells or title is None:
        return
    lacks = missing(cells, Modules(package_root()))
    page = posixpath.dirname(app.builder.get_target_uri(name)) or "."
    if lacks:
        link = posixpath.relpath(f"_sources/{name}.ipynb", page)
        made: nodes.Element = LiveNotice(
            "",
            lacks=[
                NAMES.get(lack, lack)
                for lack in sorted(lacks, reverse=True)
            ],
            link=link,
        )
    else:
        made = LiveBar("", **facts_for(app, name))
    title.parent.insert(title.parent.index(title) + 1, made)


def data_of(node: nodes.Element) -> str:
    """What the scripts of a page read from an element, as its attributes."""
    data = {
        "data-pyodide": node["where"],
        "data-place": node["place"],
        "data-version": node["version"],
    }
    return " ".join(
        f'{key}="{escape(value)}"' for key, value in data.items()
    )


def visit_bar(self, node: LiveBar) -> None:
    self.body.append(
        f'<div class="live" {data_of(node)}>\n<button type="button">Run this page</button>\n'
        '<span class="live-says" role="status">Python and NumPy come to your browser when you press: up to '
        f"{node['megabytes']}\N{NO-BREAK SPACE}MB from {escape(node['place'])}.</span>\n</div>\n"
    )
    raise nodes.SkipNode


def visit_notice(self, node: LiveNotice) -> None:
    asks = (
        f' The trained model itself runs here: <a href="#{escape(node["asks"])}">ask it yourself</a>.'
        if node.get("asks")
        else ""
    )
    self.body.append(
        f'<p class="live-notice">This chapter computes with {escape(listed(node["lacks"]))}, which no browser runs: '
        f'<a href="{escape(node["link"])}" download>download the notebook</a> to run it.{asks}</p>\n'
    )
    raise nodes.SkipNode


def skip(self, node: nodes.Node) -> None:
    raise nodes.SkipNode


def load_script(
    app: Sphinx, page: str, template: str, context: dict, doctree
) -> None:
    """Sphinx takes a script that is added here for one of this page alone."""
    if doctree is not None and next(doctree.findall(RunsPython), None):
        app.add_js_file("live/start.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, object]:
    app.add_config_value("live_pyodide", "", "html", [str])
    for node, visit in ((LiveBar, visit_bar), (LiveNotice, visit_notice)):
        app.add_node(
            node,
            html=(visit, None),
            latex=(skip, None),
            text=(skip, None),
            man=(skip, None),
            texinfo=(skip, None),
        )
    app.connect("builder-inited", prepare)
    app.connect("doctree-resolved", add_bar)
    app.connect("html-page-context", load_script)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
