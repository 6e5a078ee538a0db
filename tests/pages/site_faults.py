"""Faults of a built site that can be found by reading its files, without a browser.

Every function returns a list of sentences, empty where all is well, so that each can be shown a site with a fault.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup

# What a browser fetches by itself when it shows a page, as against links that a reader may follow.
LOADED = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "track": ("src",),
    "input": ("src",),
    "image": ("href", "xlink:href"),
    "use": ("href", "xlink:href"),
    "link": ("href",),
}
NOT_LOADED = {
    "canonical", "index", "search", "next", "prev", "author", "license", "copyright"
}  # fmt: skip
CSS_ADDRESS = re.compile(
    r"""url\(\s*(["']?)(?P<url>.*?)\1\s*\)|@import\s+(["'])(?P<imported>.*?)\3""",
    re.DOTALL,
)
CSS_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
SAYS_NOTHING = re.compile(
    r"\s*(<.*>|\S+\.(png|svg|jpe?g|gif)|[0-9a-f]{16,}\S*)?\s*",
    re.IGNORECASE,
)


class Site:
    """The pages of a built site, read once."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.pages = {
            path.resolve(): BeautifulSoup(
                path.read_text("utf8"), "html.parser"
            )
            for path in sorted(self.root.rglob("*.html"))
            if "_static" not in path.parts
        }
        self.anchors = {
            path: {tag["id"] for tag in page.find_all(id=True)}
            | {
                tag["name"]
                for tag in page.find_all("a", attrs={"name": True})
            }
            for path, page in self.pages.items()
        }

    def name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


def addresses_in_css(text: str) -> list[str]:
    found = CSS_ADDRESS.finditer(CSS_COMMENT.sub("", text))
    return [match["url"] or match["imported"] or "" for match in found]


def loaded(page: BeautifulSoup) -> list[tuple[str, str]]:
    """(what asks, address) of everything that the page fetches by itself."""
    found = []
    for tag in page.find_all(list(LOADED)):
        if tag.name == "link" and set(tag.get("rel") or []) & NOT_LOADED:
            continue
        for attribute in LOADED[tag.name]:
            value = tag.get(attribute)
            if value and attribute == "srcset":
                found += [
                    (tag.name, part.split()[0]) for part in value.split(",")
                ]
            elif value:
                found.append((tag.name, value))
    for tag in page.find_all(style=True):
        found += [
            ("style", address) for address in addresses_in_css(tag["style"])
        ]
    for tag in page.find_all("style"):
        found += [
            ("style", address)
            for address in addresses_in_css(tag.get_text())
        ]
    for tag in page.find_all(
        "meta", attrs={"http-equiv": re.compile("refresh", re.I)}
    ):
        found.append(("refresh", tag["content"].partition("url=")[2]))
    return found


def is_outside(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme not in ("", "data", "blob")


def loads_from_elsewhere(site: Site) -> list[str]:
    faults = [
        f"{site.name(path)}: <{asks}> loads {address}"
        for path, page in site.pages.items()
        for asks, address in loaded(page)
        if is_outside(address)
    ]
    faults += [
        f"{site.name(path)}: loads {address}"
        for path in sorted(site.root.rglob("*.css"))
        for address in addresses_in_css(path.read_text("utf8"))
        if is_outside(address)
    ]
    return faults


def prefix_of(page: BeautifulSoup) -> str:
    """What stands before every address in a page that is shown at any depth; empty for the other pages."""
    root = page.html.get("data-content_root", "") if page.html else ""
    return root if root.startswith("/") else ""


def broken_links(site: Site) -> list[str]:
    """Addresses inside the site that lead to no file, or to no such place on a page."""
    faults = []
    for path, page in site.pages.items():
        prefix = prefix_of(page)
        links = [
            ("a", tag["href"]) for tag in page.find_all("a", href=True)
        ]
        for asks, address in links + loaded(page):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            place = parts.path
            if prefix and place and not place.startswith(prefix):
                faults.append(
                    f"{site.name(path)}: {address} does not begin with {prefix}"
                )
                continue
            if not prefix and place.startswith("/"):
                faults.append(
                    f"{site.name(path)}: {address} breaks where the site has a prefix"
                )
                continue
            start = site.root if prefix else path.parent
            place = place[len(prefix) :] if prefix else place
            target = (start / unquote(place)) if parts.path else path
            target = target.resolve()
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                faults.append(
                    f"{site.name(path)}: <{asks}> {address} is missing"
                )
            elif (
                parts.fragment
                and target in site.anchors
                and unquote(parts.fragment) not in site.anchors[target]
            ):
                faults.append(
                    f"{site.name(path)}: {address} has no such place"
                )
    for path in sorted(site.root.rglob("*.css")):
        for address in addresses_in_css(path.read_text("utf8")):
            parts = urlsplit(address)
            if not parts.scheme and not parts.netloc and parts.path:
                target = path.parent / unquote(parts.path)
                if not target.is_file():
                    faults.append(
                        f"{site.name(path)}: {address} is missing"
                    )
    return faults


def missing_words(site: Site) -> list[str]:
    """Pictures that say nothing to someone who does not see them."""
    faults = []
    for path, page in site.pages.items():
        for image in page.find_all("img"):
            if image.get("role") == "presentation" or image.get(
                "aria-hidden"
            ):
                continue
            if SAYS_NOTHING.fullmatch(image.get("alt") or ""):
                source = image.get("src", "").rpartition("/")[2]
                faults.append(
                    f"{site.name(path)}: no text alternative for {source}"
                )
        for drawing in page.find_all("svg", role="img"):
            named = drawing.get("aria-label") or " ".join(
                told.get_text()
                for name in (drawing.get("aria-labelledby") or "").split()
                if (told := drawing.find(id=name))
            )
            if len(named.strip()) < 20:
                faults.append(f"{site.name(path)}: a drawing without words")
    return faults


def jumping_pictures(site: Site) -> list[str]:
    """Figures of notebooks whose place on the page is not kept while they load."""
    return [
        f"{site.name(path)}: {image.get('src', '').rpartition('/')[2]} has no {key}"
        for path, page in site.pages.items()
        for image in page.select("div.cell_output img")
        for key in ("width", "height")
        if not str(image.get(key, "")).isdigit()
    ]


def untold_pages(site: Site) -> list[str]:
    """Pages without a title or a description of their own."""
    faults, seen = [], {}
    for path, page in site.pages.items():
        if "_modules" in path.parts:
            continue
        if not page.title or not page.title.get_text().strip():
            faults.append(f"{site.name(path)}: no title")
        told = page.find("meta", attrs={"name": "description"})
        words = (told.get("content") or "").strip() if told else ""
        if len(words) < 20:
            faults.append(f"{site.name(path)}: no description")
        elif words in seen:
            faults.append(
                f"{site.name(path)}: the description of {seen[words]}"
            )
        seen.setdefault(words, site.name(path))
    return faults


def faulty_headings(site: Site) -> list[str]:
    """Articles with no title or two, or with a level left out."""
    faults = []
    for path, page in site.pages.items():
        article = page.find("article")
        if article is None or "_modules" in path.parts:
            continue
        levels = [
            (int(heading.name[1]), heading.get_text().strip("#\n "))
            for heading in article.find_all(re.compile(r"^h[1-6]$"))
        ]
        titles = [words for level, words in levels if level == 1]
        if len(titles) != 1:
            faults.append(
                f"{site.name(path)}: {len(titles)} titles: {titles}"
            )
        last = 0
        for level, words in levels:
            if level > last + 1:
                faults.append(
                    f"{site.name(path)}: level {level} after level {last}: {words}"
                )
            last = level
    return faults


def missing_pages(
    site: Site, names: list[str], titles: dict[str, str]
) -> list[str]:
    """Entries of the table of contents without a page, or whose page lacks the title of its source."""
    faults = []
    for name in names:
        path = site.root / f"{name}.html"
        page = site.pages.get(path)
        if page is None:
            faults.append(f"{name}: no page")
            continue
        heading = page.select_one("article h1")
        shown = " ".join(heading.get_text().split()) if heading else ""
        if titles[name] not in shown:
            faults.append(
                f"{name}: the title is {shown!r}, not {titles[name]!r}"
            )
    return faults


def unrendered_text(site: Site) -> list[str]:
    """Marks of Markdown or of directives that reached the reader as they are."""
    marks = re.compile(
        r"\{(?:prf:)?(?:ref|numref|eq|doc|term|cite(?::[tp])?|py:\w+)\}|:::|```"
    )
    faults = []
    for path, page in site.pages.items():
        article = page.find("article")
        if article is None or "_modules" in path.parts:
            continue
        for text in article.find_all(string=marks):
            if not text.find_parent(["pre", "code", "script"]):
                faults.append(f"{site.name(path)}: {text.strip()[:60]!r}")
    return faults
