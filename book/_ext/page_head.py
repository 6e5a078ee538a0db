"""What a page says about itself in its head: an icon for every device and, where nobody wrote one, a description.

It also gives the site a front door. Sphinx keeps the first page in ``book/``; the file that a reader opens or a
server hands out is ``index.html`` above it, which leads there.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

from sphinx.application import Sphinx

DOOR = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="{title}: the front page is one step further.">
<meta http-equiv="refresh" content="0; url={target}">
<link rel="icon" href="_static/favicon.svg" type="image/svg+xml">
<title>{title}</title>
</head>
<body>
<main><h1>{title}</h1><p><a href="{target}">Go to the front page</a></p></main>
</body>
</html>
"""


def describe(
    app: Sphinx, page: str, template: str, context: dict, doctree: object
) -> None:
    tags = context.get("metatags") or ""
    if 'name="description"' not in tags:
        title = escape(str(context.get("title") or page))
        tags += f'\n<meta name="description" content="{title}: a page of {escape(app.config.project)}." />'
    icon = context["pathto"]("_static/favicon.png", 1)
    tags += f'\n<link rel="apple-touch-icon" href="{icon}" />'
    context["metatags"] = tags


def hang_door(app: Sphinx, failure: Exception | None) -> None:
    if (
        failure is not None
        or app.builder.format != "html"
        or app.config.root_doc == "index"
    ):
        return
    target = app.builder.get_target_uri(app.config.root_doc)
    door = DOOR.format(
        title=escape(app.config.project), target=escape(target)
    )
    (Path(app.outdir) / "index.html").write_text(door, "utf8")


def setup(app: Sphinx) -> dict[str, object]:
    app.connect("html-page-context", describe)
    # Before the table-of-contents extension, which would write a bare redirect where there is no index yet.
    app.connect("build-finished", hang_door, priority=100)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
