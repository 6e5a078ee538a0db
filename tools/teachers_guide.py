"""The teacher's guide: keep its numbers right, and make one file of it.

    python tools/teachers_guide.py [FILE]       cut the guide out of the built page (default: _build/course/guide/guide.html)
    python tools/teachers_guide.py --fill       write the numbers of the chapters into book/teaching.md

Both read the built pages: `make book` first. SITE names them, if they are elsewhere.

The numbers: minutes to read are those that a page says under its title; minutes of a deck stand in the first line of
`slides/NAME.md`; exercises of each difficulty are counted in the notebook, and what a chapter needs stands at
its top. A number whose source is not there stays as it is.

The file holds everything that it needs, styles included. Links lead to the site, where its address is known, else to the
pages in this clone.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

sys.path.append(str(Path(__file__).resolve().parent))

import home

ROOT = Path(__file__).resolve().parents[1]
PAGE = "book/teaching"
TARGET = "_build/course/guide/guide.html"
TABLE = re.compile(
    r"(?<=% The table, filled by tools/teachers_guide.py\n)(?:\|.*\n)*"
)
DIFFICULTIES = re.compile(
    r"\d+ have difficulty 1, \d+ have 2, and \d+ have 3"
)
BEFORE = re.compile(r"^(Read before: .*?), about (\d+) minutes\.$", re.M)
LINK = re.compile(r"\{doc\}`\.\./notebooks/(\w+)`")


class GuideError(Exception):
    """What the guide is made of is missing; the text says what to do."""


@dataclass(frozen=True)
class Chapter:
    """A notebook of the book.

    Attributes:
        name: as in "05_multi_head".
        number: that of the site; None in parts that are not numbered.
        root: the folder of the book.
        site: that of the built pages.
    """

    name: str
    number: int | None
    root: Path
    site: Path

    @cached_property
    def text(self) -> str:
        content = (self.root / f"notebooks/{self.name}.ipynb").read_text(
            "utf8"
        )
        return "\n\n".join(
            "".join(cell["source"])
            for cell in json.loads(content)["cells"]
            if cell["cell_type"] == "markdown"
        )

    @property
    def difficulties(self) -> list[int]:
        """How many of the exercises have the difficulties 1, 2 and 3."""
        found = re.findall(
            r"^\*.*, difficulty ([123]) of 3\.\*$", self.text, re.M
        )
        return [found.count(n) for n in "123"]

    @property
    def needs(self) -> list[str]:
        """The chapters that are named where it says what is needed."""
        line = re.search(r"^You need (.*)$", self.text, re.M)
        return re.findall(r"\{doc\}`(\w+)`", line[1]) if line else []

    @property
    def reading(self) -> int | None:
        page = self.site / f"notebooks/{self.name}.html"
        if not page.is_file():
            return None
        found = re.search(
            r'<p class="reading-time">About (\d+)\s', page.read_text("utf8")
        )
        return int(found[1]) if found else None

    @property
    def deck(self) -> int | None:
        deck = self.root / f"slides/{self.name}.md"
        if not deck.is_file():
            return None
        found = re.match(r"minutes: (\d+)", deck.read_text("utf8"))
        return int(found[1]) if found else None


def chapters(root: Path, site: Path) -> list[Chapter]:
    """All notebooks in the order of the book."""
    found, number = [], 0
    toc = yaml.safe_load((root / "_toc.yml").read_text("utf8"))
    for part in toc["parts"]:
        for entry in part["chapters"]:
            number += bool(part.get("numbered"))
            folder, _, name = entry["file"].rpartition("/")
            if folder == "notebooks":
                own = number if part.get("numbered") else None
                found.append(Chapter(name, own, root, site))
    return found


# ---- numbers -------------------------------------------------------------------------


def kept(text: str) -> dict[str, list[str]]:
    """The rows that the table has now, by chapter."""
    rows = {}
    for line in TABLE.search(text)[0].splitlines():
        if name := LINK.search(line):
            rows[name[1]] = [cell.strip() for cell in line.split("|")[1:-1]]
    return rows


def table(text: str, all_chapters: list[Chapter]) -> str:
    """The chapters with their numbers, and the sums."""
    before = kept(text)
    numbers = {one.name: one.number for one in all_chapters}
    lines = [
        "| no. | chapter | to read | deck | tasks | needs |",
        "|---|---|---|---|---|---|",
    ]
    sums = [0, 0, 0]
    for one in all_chapters:
        old = before.get(one.name, ["", "", "–", "–", ""])
        cells = [one.reading, one.deck, sum(one.difficulties)]
        cells = [
            int(was) if new is None and was.isdigit() else new
            for new, was in zip(cells, old[2:5], strict=True)
        ]
        sums = [a + (b or 0) for a, b in zip(sums, cells, strict=True)]
        shown = ["–" if cell is None else str(cell) for cell in cells]
        needs = {numbers[name] for name in one.needs}
        needed = ", ".join(str(n) for n in sorted(filter(None, needs)))
        lines.append(
            f"| {one.number or ''} | {{doc}}`../notebooks/{one.name}` | {' | '.join(shown)} | {needed} |"
        )
    total = " | ".join(f"**{n:,}**" for n in sums)
    lines.append(f"| | **all** | {total} | |")
    return "\n".join(lines) + "\n"


def filled(text: str, all_chapters: list[Chapter]) -> str:
    """The guide with today's numbers."""
    reading = {
        name: int(row[2])
        for name, row in kept(table_in(text, all_chapters)).items()
        if row[2].isdigit()
    }

    def summed(match: re.Match[str]) -> str:
        names = LINK.findall(match[1])
        if not set(names) <= set(reading):
            return match[0]
        return (
            f"{match[1]}, about {sum(reading[n] for n in names)} minutes."
        )

    one, two, three = (
        sum(chapter.difficulties[n] for chapter in all_chapters)
        for n in range(3)
    )
    told = f"{one} have difficulty 1, {two} have 2, and {three} have 3"
    text = DIFFICULTIES.sub(told, table_in(text, all_chapters))
    return BEFORE.sub(summed, text)


def table_in(text: str, all_chapters: list[Chapter]) -> str:
    return TABLE.sub(lambda _: table(text, all_chapters), text, count=1)


# ---- one file ------------------------------------------------------------------------

STYLE = """
:root {
  color-scheme: light dark; --ink: #1d2733; --ground: #fff; --line: #c9d1da; --link: #0b57a4; --code: #f2f4f7;
}
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ef; --ground: #14181d; --line: #3a444f; --link: #8cc2ff; --code: #1f262e; }
}
body {
  margin: 0 auto; max-width: 46rem; padding: 1.5rem 1rem 4rem; color: var(--ink); background: var(--ground);
  font: 1rem/1.6 system-ui, sans-serif; overflow-wrap: break-word;
}
h1, h2, h3 { line-height: 1.25; margin: 2.2em 0 .6em; }
h1 { margin-top: .5em; }
h2 { border-top: 1px solid var(--line); padding-top: 1em; }
a { color: var(--link); }
pre, code { font-family: ui-monospace, monospace; font-size: .92em; background: var(--code); }
pre { padding: .7em 1em; overflow-x: auto; }
code { padding: .1em .25em; overflow-wrap: anywhere; }
div.scroll { overflow-x: auto; margin: 1em 0; }
table { border-collapse: collapse; min-width: 60%; }
th, td { border-bottom: 1px solid var(--line); padding: .35em .8em .35em 0; text-align: left; vertical-align: top; }
th p, td p, dd > p:first-child { margin: 0; }
dt { font-weight: 600; margin-top: .9em; }
dd { margin: .1em 0 0 1.2em; }
@media print {
  body { max-width: none; }
  h2 { break-before: page; }
  a { color: inherit; text-decoration: none; }
  tr { break-inside: avoid; }
}
"""


def guide(page: str, address: str, title: str) -> str:
    """The text of the page as a document of its own.

    Args:
        page: the built page.
        address: what links to other pages begin with, and end with a slash.
        title: of the book.
    """
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(page, "html.parser")
    text = soup.select_one("article.bd-article")
    if text is None:
        raise GuideError("the page of the guide has no text")
    for needless in text.select("a.headerlink, script, style, button"):
        needless.decompose()
    for link in text.select("a[href]"):
        link["href"] = absolute(link["href"], address)
    for tag in text.find_all(True):
        tag.attrs = {
            name: value
            for name, value in tag.attrs.items()
            if name in ("href", "id", "start", "colspan", "rowspan")
        }
    for found in text.find_all("table"):
        found.wrap(soup.new_tag("div", attrs={"class": "scroll"}))
        found.parent["tabindex"] = "0"
    heading = text.h1.get_text()
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{heading}: {title}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{text.decode_contents().strip()}\n</main>\n</body>\n</html>\n"
    )


def absolute(link: str, address: str) -> str:
    """A link of the page as one from anywhere."""
    if link.startswith("#") or "://" in link:
        return link
    path, hash_mark, place = link.partition("#")
    inside = posixpath.normpath(
        posixpath.join(posixpath.dirname(PAGE), path)
    )
    return f"{address}{inside}{hash_mark}{place}"


def make_guide(root: Path, site: Path, target: Path) -> None:
    page = site / f"{PAGE}.html"
    if not page.is_file():
        raise GuideError(
            f"there is no {page.name} in {site}: make book first"
        )
    settings = yaml.safe_load((root / "_config.yml").read_text("utf8"))
    address = home.find(root, os.environ).url
    if not address:
        here = os.path.relpath(site, target.parent)
        address = f"{Path(here).as_posix()}/"
    target.parent.mkdir(parents=True, exist_ok=True)
    text = guide(page.read_text("utf8"), address, settings["title"])
    target.write_text(text, "utf8")


def main(arguments: list[str]) -> int:
    site = Path(os.environ.get("SITE") or ROOT / "_build/html").resolve()
    try:
        if arguments[:1] == ["--fill"]:
            file = ROOT / f"{PAGE}.md"
            text = file.read_text("utf8")
            file.write_text(filled(text, chapters(ROOT, site)), "utf8")
            print(f"guide: numbers of {file.name} are those of today")
            return 0
        target = Path(arguments[0]) if arguments else ROOT / TARGET
        make_guide(ROOT, site, target.resolve())
    except (GuideError, home.HomeError) as error:
        print(f"guide: {error}", file=sys.stderr)
        return 1
    print(f"guide: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
