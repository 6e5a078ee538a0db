"""How to cite the book, made from ``CITATION.cff``, so that the two cannot differ.

    :::{how-to-cite}
    :::

gives one entry in words and one for BibTeX, with the address of the site, or else of the repository, where one is known.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

FILE = "CITATION.cff"
WIDTH = 60


def names(authors: list[dict]) -> list[tuple[str, str]]:
    """(as it is read, as BibTeX reads it) of each author; a group stands in braces, so that it is not taken apart."""
    found = []
    for author in authors:
        if "name" in author:
            found.append((author["name"], f"{{{author['name']}}}"))
            continue
        family = " ".join(
            author[part]
            for part in ("name-particle", "family-names", "name-suffix")
            if author.get(part)
        )
        given = author.get("given-names", "")
        found.append(
            (
                " ".join(filter(None, (given, family))),
                ", ".join(filter(None, (family, given))),
            )
        )
    return found


def listed(words: list[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def year(entry: dict, copyright: str) -> str:
    released = re.match(r"\d{4}", str(entry.get("date-released", "")))
    stated = re.search(r"\d{4}", copyright)
    return (
        released[0]
        if released
        else stated[0]
        if stated
        else "no year given"
    )


def in_words(entry: dict, year: str, address: str) -> tuple[str, str, str]:
    """What stands before the title, the title, and what stands after it."""
    authors = listed([read for read, _ in names(entry["authors"])])
    where = f" {address}" if address else ""
    return (
        f"{authors} ({year}). ",
        entry["title"],
        f", version {entry['version']}.{where}",
    )


def bibtex(entry: dict, key: str, year: str, address: str) -> str:
    authors = " and ".join(bib for _, bib in names(entry["authors"]))
    fields = {
        "author": authors,
        "title": f"{{{entry['title']}}}",
        "year": year if year.isdigit() else "",
        "version": str(entry["version"]),
        "url": address,
    }
    # A title may be long, and a page narrow; to BibTeX a new line is a space.
    lines = [
        textwrap.fill(
            f"  {name:<7} = {{{value}}},",
            width=WIDTH,
            subsequent_indent=" " * 14,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for name, value in fields.items()
        if value
    ]
    return "\n".join([f"@misc{{{key},", *lines, "}"])


class HowToCite(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        path = Path(self.env.app.confdir) / FILE
        self.env.note_dependency(str(path))
        entry = yaml.safe_load(path.read_text("utf8"))
        home = self.env.app.home
        address = home.url or home.repository
        when = year(entry, self.config.copyright)
        before, title, after = in_words(entry, when, address)
        words = nodes.paragraph(
            "", "", nodes.Text(before), nodes.emphasis("", title)
        )
        head, found, rest = (
            after.partition(address) if address else (after, "", "")
        )
        words += nodes.Text(head)
        if found:
            words += nodes.reference("", found, refuri=found)
        words += nodes.Text(rest)
        key = re.sub(r"\W+", "_", self.config.project.lower())
        text = bibtex(entry, key, when, address)
        block = nodes.literal_block(text, text)
        block["language"] = "bibtex"
        return [words, block]


def setup(app: Sphinx) -> dict[str, object]:
    app.add_directive("how-to-cite", HowToCite)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
