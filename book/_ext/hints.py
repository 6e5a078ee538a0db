"""Hints: a reference shows what it leads to, where the reader is.

A link to a term of the glossary, a numbered equation, a statement or exercise, a figure, or an entry of the references
names what ``hints.js`` shows beside it while the pointer or the focus is on it. (It does the same for symbols, see
``symbols.py``.) Nothing is asked for before that, and without scripts a link is a link.

* What stands on the same page is taken from there when it is asked for.
* What stands on another page is put into one file for each page that refers to it, ``_static/hints/PAGE.js``. It is a
  script, since a page that was opened from a folder may load no other kind of file.

The work is done on finished pages, so a hint has the formulas that have been set, whoever set them. (The extension
sphinx-tippy does much the same, with a library that places boxes and a file for each page under a name that differs from
build to build; the site would not be the same twice.)
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from light_pages import pages_of
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)

SCRIPT = "hints.js"
FOLDER = "_static/hints"
STYLE = "_static/mathjax/formulas.css"
# What can be shown: its tag, with an id, and the classes by which it is told from other things with that tag.
TARGET = re.compile(
    r'<(?P<tag>div|figure|dt)\b(?=[^>]*?\sid="(?P<id>[^"]+)")[^>]*>'
)
CLASSES = re.compile(r'\sclass="([^"]*)"')
LINK = re.compile(
    r'<a class="(?P<classes>[^"]*)" href="(?P<page>[^"#:]*)#(?P<id>[^"]+)"'
)
# What an earlier build of the page left on a link.
MARK = re.compile(r'(<a class="[^"]*") data-hint="[^"]*"')
TAG_SCRIPT = re.compile(
    r'<script\b(?P<before>[^>]*?)(?: data-more="[^"]*")?(?P<src> src="[^"]*_static/hints\.js[^"]*")'
)
# What a hint leaves out, whole.
LEFT_OUT = {
    "a": "headerlink",
    "p": "evidence",
    "details": "",
    "button": "",
    "script": "",
}
# A viewer is of no use in a hint; the picture that stands in it is.
VIEWER = re.compile(r"</?attention-viewer\b[^>]*>")
ADDRESS = re.compile(
    r'(?P<name>\s(?:src|srcset|href))="(?P<to>[^"]*)"', re.IGNORECASE
)


def element(page: str, start: int, tag: str) -> str:
    """The element that begins at a place, from its first mark to its last."""
    depth = 0
    for mark in re.compile(rf"<(/?){tag}\b[^>]*>").finditer(page, start):
        depth += -1 if mark[1] else 1
        if depth == 0:
            return page[start : mark.end()]
    raise ValueError(f"<{tag}> does not end: {page[start : start + 80]}")


def is_shown(tag: str, name: str, classes: set[str]) -> bool:
    """Whether an element with an id is of a kind that a hint can show."""
    if tag == "dt":
        return name.startswith("term-")
    if tag == "figure":
        return True
    if name.startswith("equation-"):
        return "math" in classes
    return bool(classes & {"proof", "exercise", "citation"})


def article(page: str) -> tuple[int, int]:
    """Where the text of a page begins and ends."""
    start = page.find("<article")
    end = page.rfind("</article>")
    return (start, end) if 0 <= start < end else (0, 0)


def targets(page: str) -> dict[str, str]:
    """What a page has to show, by id."""
    found: dict[str, str] = {}
    for mark in TARGET.finditer(page, *article(page)):
        classes = CLASSES.search(mark[0])
        named = set(classes[1].split()) if classes else set()
        if not is_shown(mark["tag"], mark["id"], named):
            continue
        if mark["tag"] == "dt":
            # Several terms may share what is said of them.
            said = page.find("<dd", mark.end())
            found[mark["id"]] = (
                "<dl>"
                + element(page, mark.start(), "dt")
                + element(page, said, "dd")
                + "</dl>"
            )
        else:
            found[mark["id"]] = element(page, mark.start(), mark["tag"])
    return found


def without(html: str, tag: str, name: str) -> str:
    """A piece of a page without the elements of a kind; with a name, only those of that class."""
    opening = re.compile(rf"<{tag}\b[^>]*>")
    start = 0
    while mark := opening.search(html, start):
        classes = CLASSES.search(mark[0])
        if name and name not in (classes[1].split() if classes else ()):
            start = mark.end()
            continue
        whole = element(html, mark.start(), tag)
        html = html[: mark.start()] + html[mark.start() + len(whole) :]
        start = mark.start()
    return html


def moved(html: str, source: str, page: str) -> str:
    """A piece of one page, whose addresses hold on another."""

    def one(address: str) -> str:
        if not address or re.match(r"[a-z]+:|[/#]", address):
            return address
        path = posixpath.join(posixpath.dirname(source), address)
        start = posixpath.dirname(page) or "."
        return posixpath.relpath(posixpath.normpath(path), start)

    def move(found: re.Match[str]) -> str:
        to = found["to"]
        if found["name"].strip().lower() == "srcset":
            parts = (part.split() for part in to.split(","))
            to = ", ".join(
                " ".join([one(at), *rest]) for at, *rest in parts
            )
        else:
            to = one(to)
        return f'{found["name"]}="{to}"'

    return ADDRESS.sub(move, html)


def piece(html: str, source: str, page: str) -> str:
    """What the file of a page holds of a thing on another. (What else goes, goes in the script, for all hints alike.)"""
    for tag, name in LEFT_OUT.items():
        html = without(html, tag, name)
    html = VIEWER.sub("", html)
    html = re.sub(r'\sid="[^"]*"', "", html)
    return moved(html, source, page)


class Site:
    """The finished pages by name, and what each has to show."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.texts = {
            path.relative_to(out).as_posix(): MARK.sub(
                r"\1", path.read_text("utf8")
            )
            for path in pages_of(out)
        }
        self.found: dict[str, dict[str, str]] = {}

    def target(self, page: str, name: str) -> str | None:
        if page not in self.texts:
            return None
        if page not in self.found:
            self.found[page] = targets(self.texts[page])
        return self.found[page].get(name)

    def links(self, page: str) -> Iterator[tuple[re.Match[str], str, str]]:
        """The links of a page that get a hint, each with the page and the id that it leads to."""
        text = self.texts[page]
        for link in LINK.finditer(text, *article(text)):
            classes = set(link["classes"].split())
            if not {"reference", "internal"} <= classes:
                continue
            to = page
            if link["page"]:
                folder = posixpath.dirname(page)
                to = posixpath.normpath(
                    posixpath.join(folder, link["page"])
                )
            name = unquote(link["id"])
            if self.target(to, name) is not None:
                yield link, to, name

    def marked(self, page: str) -> tuple[str, list[str]]:
        """A page whose links say which hint they have, and the hints that are not on the page itself."""
        text, at, parts = self.texts[page], 0, []
        numbers: dict[tuple[str, str], int] = {}
        for link, to, name in self.links(page):
            number = ""
            if to != page:
                number = str(numbers.setdefault((to, name), len(numbers)))
            parts += [
                text[at : link.start()],
                link[0].replace(
                    " href=", f' data-hint="{number}" href=', 1
                ),
            ]
            at = link.end()
        hints = [
            piece(self.target(to, name) or "", to, page)
            for to, name in numbers
        ]
        return "".join([*parts, text[at:]]), hints


def with_more(page: str, address: str) -> str:
    """A page whose script knows where the hints of other pages are."""
    more = f' data-more="{address}"' if address else ""
    return TAG_SCRIPT.sub(
        lambda tag: f"<script{tag['before']}{more}{tag['src']}", page
    )


def with_style(page: str, root: str) -> str:
    """A page without formulas of its own, which its hints have."""
    if STYLE in page:
        return page
    link = (
        f'<link rel="stylesheet" type="text/css" href="{root}{STYLE}" />\n'
    )
    return page.replace("</head>", f"{link}</head>", 1)


def finish(app: Sphinx, failure: Exception | None) -> None:
    if failure is not None or app.builder.name != "html":
        return
    if not app.config.hints:
        return
    out = Path(app.outdir)
    site = Site(out)
    number = 0
    for page in site.texts:
        text, hints = site.marked(page)
        number += text.count(' data-hint="')
        root = "../" * page.count("/")
        address = ""
        if hints:
            script = (
                f"bookHints({json.dumps(hints, ensure_ascii=False)});\n"
            )
            file = f"{FOLDER}/{page.removesuffix('.html')}.js"
            (out / file).parent.mkdir(parents=True, exist_ok=True)
            (out / file).write_text(script, "utf8")
            version = hashlib.sha256(script.encode()).hexdigest()[:8]
            address = f"{root}{file}?v={version}"
            if "<mjx-container" in script and (out / STYLE).is_file():
                text = with_style(text, root)
        text = with_more(text, address)
        if text != (out / page).read_text("utf8"):
            (out / page).write_text(text, "utf8")
    logger.info("hints: %d references show what they lead to", number)


def setup(app: Sphinx) -> dict[str, object]:
    app.add_config_value("hints", True, "")
    app.add_js_file(SCRIPT, loading_method="defer")
    # After set_formulas.py; before light_pages.py, which takes the script off pages that have no hint.
    app.connect("build-finished", finish, priority=650)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
