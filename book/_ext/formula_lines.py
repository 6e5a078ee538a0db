"""A line does not end between a formula and the mark that belongs to it.

A set formula is a box, and a browser may break a line before or after any box: a full stop can then begin a
line. Marks that touch an inline formula are tied to it here.
"""

from __future__ import annotations

import re

from sphinx.application import Sphinx

TOUCHED = re.compile(
    r'([(\[“]*)(<span class="math notranslate nohighlight">[^<]*</span>)([.,;:!?)\]”’]*(?:-\w+)?)'
)


def tied(body: str) -> str:
    def tie(found: re.Match[str]) -> str:
        return (
            f'<span class="tied">{found[0]}</span>'
            if found[1] or found[3]
            else found[0]
        )

    return TOUCHED.sub(tie, body)


def tie_marks(
    app: Sphinx, page: str, template: str, context: dict, doctree: object
) -> None:
    if context.get("body"):
        context["body"] = tied(context["body"])


def setup(app: Sphinx) -> dict[str, object]:
    app.connect("html-page-context", tie_marks)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
