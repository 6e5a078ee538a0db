"""Serve every script and style sheet of the book from the book itself.

* MathJax comes out of the installed wheel ``sphinx-mathjax-offline``. As an extension that wheel would copy
  24 MB; the book uses one bundle, one set of fonts and the hidden MathML for screen readers: 1.7 MB.
* ``sphinx-thebe``, which Jupyter Book always loads, announces a script on a content network and a server to
  run code on. What runs code in a reader's browser here is of the book's own (``live.py``), so both go.
* The theme loads a 1.5 MB script that draws icons which its web fonts already draw. It goes too.
* The theme's ``theme.css`` imports ``../basic.css``. A tool that copies the rules into the page, as checkers of
  accessibility do, then asks for that file beside the page, where there is none. The rules are put in its place,
  which also saves a request.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from sphinx.application import Sphinx

MATHJAX_PARTS = (
    "tex-chtml-full.js",
    "output/chtml/fonts/woff-v2",
    "a11y/assistive-mml.js",
)
ICON_SCRIPT = re.compile(
    r"\s*<(script|link)\b[^>]*scripts/fontawesome\.js[^>]*>(\s*</script>)?"
)

THEBE_SETTINGS = re.compile(
    r'\s*<script type="text/x-thebe-config">.*?</script>\s*<script>kernelName = [^<]*</script>',
    re.DOTALL,
)
CSS_IMPORT = re.compile(r'@import\s+"\.\./basic\.css";')
CSS_PATH = re.compile(r"""url\((["']?)(?!["'/]|\w+:)(\S)""")


def mathjax_folder() -> Path:
    """Where the wheel keeps MathJax. Its name is no Python identifier, so it is found, not imported."""
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    if spec is None or spec.origin is None:
        raise RuntimeError(
            "MathJax is missing: pip install sphinx-mathjax-offline"
        )
    return Path(spec.origin).parent / "static" / "mathjax"


def copy_mathjax(static: Path) -> None:
    for part in MATHJAX_PARTS:
        source, target = mathjax_folder() / part, static / "mathjax" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, target)


def with_basic_inside(theme: str, basic: str) -> str:
    """``theme.css`` with the rules of ``basic.css`` where it imported them; their paths gain a level."""
    basic = CSS_PATH.sub(r"url(\1../\2", basic)
    return CSS_IMPORT.sub(lambda _: basic, theme)


def without_icon_script(html: str) -> str:
    return ICON_SCRIPT.sub("", html)


def local_scripts(script_files: Iterable[object]) -> list[object]:
    """The scripts of a page without those that Thebe brings."""

    def from_thebe(script: object) -> bool:
        name = str(getattr(script, "filename", None) or script or "")
        body = (getattr(script, "attributes", None) or {}).get("body") or ""
        return "thebe" in name.lower() or "THEBE_JS_URL" in body

    return [script for script in script_files if not from_thebe(script)]


def drop_thebe(
    app: Sphinx, page: str, template: str, context: dict, doctree: object
) -> None:
    if context.get("script_files"):
        context["script_files"] = local_scripts(context["script_files"])
    if context.get("body"):
        context["body"] = THEBE_SETTINGS.sub("", context["body"])


def finish(app: Sphinx, failure: Exception | None) -> None:
    if failure is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    static = out / "_static"
    copy_mathjax(static)
    theme = static / "styles" / "theme.css"
    theme.write_text(
        with_basic_inside(
            theme.read_text("utf8"),
            (static / "basic.css").read_text("utf8"),
        ),
        "utf8",
    )
    for page in out.rglob("*.html"):
        text = page.read_text("utf8")
        slim = without_icon_script(text)
        if slim != text:
            page.write_text(slim, "utf8")
    for leftover in [
        *(static / "scripts").glob("fontawesome.js*"),
        static / "sphinx-thebe.js",
    ]:
        leftover.unlink(missing_ok=True)


def setup(app: Sphinx) -> dict[str, object]:
    app.connect("html-page-context", drop_thebe, priority=900)
    app.connect("build-finished", finish)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
