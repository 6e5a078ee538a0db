"""Mend what the stock page says wrongly to assistive technology.

Each mend is a pair: what the page says, and what it ought to say. Those of the text work on the body of a page before it
is written, so an unchanged page of an incremental build is not touched again; those of the frame around it, on the file.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

SIGNATURE_LIST = re.compile(
    r"<dl>\n((?:<dd><em class=\"sig-param\">.*</dd>\n)+)</dl>"
)

MENDS = [
    # docutils marks an entry of a list of references with a role that ARIA has withdrawn; its parent is a list,
    # whose children must be list items.
    ('role="doc-biblioentry"', 'role="listitem"'),
    # sphinx-proof gives all proofs of a page one id, which is to be of one element; nothing points at it.
    (
        'class="proof admonition" id="proof"',
        'class="proof admonition a-proof"',
    ),
]
# The title and the search stand at the side, in no part of the page that a screen reader could name or jump to.
SIDE = 'class="sidebar-primary-items__start sidebar-primary__section"'
FRAME = [(f"<div {SIDE}>", f'<div {SIDE} role="region" aria-label="Book">')]
# What opens the list of the pages below a page has an arrow, and no name.
OPENS = re.compile(
    r"(<a [^>]*>([^<]*)</a><details[^>]*><summary)(><span class=\"toctree-toggle)"
)


def flat(signature: re.Match[str]) -> str:
    """A signature of several lines is a list of definitions without terms, inside a term: plain lines say the same."""
    lines = (
        signature[1]
        .replace("<dd>", '<span class="sig-line">')
        .replace("</dd>", "</span>")
    )
    return f'<span class="sig-lines">{lines}</span>'


def mended(body: str) -> str:
    body = SIGNATURE_LIST.sub(flat, body)
    for wrong, right in MENDS:
        body = body.replace(wrong, right)
    return body


def mend(
    app: Sphinx, page: str, template: str, context: dict, doctree: object
) -> None:
    if context.get("body"):
        context["body"] = mended(context["body"])


def framed(page: str) -> str:
    for wrong, right in FRAME:
        page = page.replace(wrong, right)
    return OPENS.sub(r'\1 aria-label="Pages of \2"\3', page)


def finish(app: Sphinx, failure: Exception | None) -> None:
    if failure is not None or app.builder.format != "html":
        return
    for path in Path(app.outdir).rglob("*.html"):
        page = before = path.read_text("utf8")
        page = framed(page)
        if page != before:
            path.write_text(page, "utf8")


def setup(app: Sphinx) -> dict[str, object]:
    app.connect("html-page-context", mend)
    app.connect("build-finished", finish)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
