"""How the pages are found, and how they look where they are passed on.

* Each page says what a preview of it shows: its title, its description, and, since that takes a whole address, one
  picture for all pages where the address of the site is known. Then it also names its own lasting address.
* ``sitemap.xml`` lists the pages for search engines, where the address is known. It gives no dates: those of git are
  lost in a copy without history, and those of files are when they were copied.
* ``404.html`` is what a server shows for an address at which there is nothing. It is shown at any depth, so all of its links
  begin at the root of the site.
"""

from __future__ import annotations

import re
from html import escape, unescape
from pathlib import Path

from sphinx.application import Sphinx

PICTURE = "_static/social_card.png"
SIZE = (1200, 630)
WORDS = (
    "Attention in Detail: mathematics, code and evidence, side by side. Beside it a head of a trained translator:"
    " each Portuguese word has its dark cell at its English word, also where the two languages order them differently."
)
LOST = "404"
LOST_PAGE = """\
<h1>There is no such page</h1>
<p>Nothing is at this address: it may be mistyped, or the page may have moved.</p>
<ul>
<li><a href="{front}">The front page</a> lists the chapters.</li>
<li><a href="{search}">Search</a> finds words and symbols in all pages.</li>
</ul>
"""
MAP = """<?xml version="1.0" encoding="utf-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
{entries}
</urlset>
"""
DESCRIPTION = re.compile(r"<meta\b[^>]*\bname=\"description\"[^>]*>")
CONTENT = re.compile(r"\bcontent=\"([^\"]*)\"")
# Addresses in a page that a browser takes relative to the page's own.
RELATIVE = re.compile(
    r"""(\s(?:href|src|action|data-content_root)=")(?!#|/|[a-zA-Z][a-zA-Z0-9+.-]*:)(?:\./)?([^"]*")"""
)


def plain(html: str) -> str:
    """The words of a piece of a page."""
    return " ".join(unescape(re.sub(r"<[^>]*>", "", html)).split())


def told(metatags: str) -> str:
    """The description of a page, out of what it says in its head."""
    tag = DESCRIPTION.search(metatags)
    found = CONTENT.search(tag[0]) if tag else None
    return unescape(found[1]) if found else ""


def of_the_site(app: Sphinx) -> bool:
    """Whether pages of the site are made; those of an ePub are passed on by no one and stand at no address."""
    return app.builder.name == "html"


def preview(
    title: str, description: str, book: str, site: str, address: str
) -> str:
    """What a page says to those who show a preview of it."""
    says = [
        ("property", "og:type", "website"),
        ("property", "og:site_name", book),
        ("property", "og:title", title),
        ("property", "og:description", description),
    ]
    if site:
        says += [
            ("property", "og:url", address),
            ("property", "og:image", f"{site}{PICTURE}"),
            ("property", "og:image:width", str(SIZE[0])),
            ("property", "og:image:height", str(SIZE[1])),
            ("property", "og:image:alt", WORDS),
        ]
    says.append(
        (
            "name",
            "twitter:card",
            "summary_large_image" if site else "summary",
        )
    )
    return "".join(
        f'\n<meta {kind}="{name}" content="{escape(content)}" />'
        for kind, name, content in says
        if content
    )


def say(
    app: Sphinx, page: str, template: str, context: dict, doctree: object
) -> None:
    if not of_the_site(app):
        return
    title = plain(str(context.get("title") or app.config.project))
    if title == context.get("docstitle"):
        # The front page has the book's own name; its title says it once. The logo asks for it too.
        context["docstitle"] = ""
        context["theme_logo"] = {**context["theme_logo"], "text": title}
    if page == LOST:
        context["pageurl"] = None  # it has no address of its own
        return
    tags = context.get("metatags") or ""
    context["metatags"] = tags + preview(
        title,
        told(tags),
        app.config.project,
        app.home.url,
        str(context.get("pageurl") or ""),
    )


def lost(app: Sphinx):
    """The page for what is not there."""
    if not of_the_site(app):
        return
    target = app.builder.get_target_uri
    body = LOST_PAGE.format(
        front=target(app.config.root_doc), search=target("search")
    )
    yield LOST, {"title": "No such page", "body": body}, "page.html"


def from_the_root(html: str, prefix: str) -> str:
    """A page whose links, relative to the root of the site, are made to hold at any depth."""
    return RELATIVE.sub(rf"\g<1>{prefix}\2", html)


def site_map(addresses: list[str]) -> str:
    entries = "\n".join(
        f"<url><loc>{escape(address)}</loc></url>" for address in addresses
    )
    return MAP.format(entries=entries)


def finish(app: Sphinx, failure: Exception | None) -> None:
    if failure is not None or not of_the_site(app):
        return
    out, site = Path(app.outdir), app.home.url
    page = out / f"{LOST}.html"
    page.write_text(
        from_the_root(page.read_text("utf8"), app.home.prefix), "utf8"
    )
    if not site:
        return
    front = app.builder.get_target_uri(app.config.root_doc)
    pages = sorted(app.env.found_docs)
    (out / "sitemap.xml").write_text(
        site_map(
            [f"{site}{app.builder.get_target_uri(one)}" for one in pages]
        ),
        "utf8",
    )
    door = out / "index.html"
    html = door.read_text("utf8")
    if 'rel="canonical"' not in html:
        # Where the front page is passed on, its address mostly is this one; it leads to the front page.
        said = f'<link rel="canonical" href="{escape(site + front)}">'
        said += preview(
            app.config.project,
            told((out / front).read_text("utf8")),
            app.config.project,
            site,
            site + front,
        )
        door.write_text(html.replace("</head>", f"{said}\n</head>"), "utf8")


def setup(app: Sphinx) -> dict[str, object]:
    # After the description was made where nobody wrote one.
    app.connect("html-page-context", say, priority=600)
    app.connect("html-collect-pages", lost)
    # After everything that reads the links of the pages.
    app.connect("build-finished", finish, priority=990)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
