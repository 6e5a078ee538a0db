"""Turn the text of a chapter, which is MyST, into Markdown that any notebook editor shows.

Directives become a bold line and their text, hints become parts that open, solutions vanish. Formulas lose the book's own
commands. A reference becomes what the page shows, with the same number: as a link to the site where its address is known.
"""

from __future__ import annotations

import functools
import html
import itertools
import posixpath
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml
from first_cell import read

# What a numbered block is called where it is referred to.
KINDS = {
    "exercise": "Exercise",
    "prf:definition": "Definition",
    "prf:observation": "Observation",
    "prf:proposition": "Proposition",
    "prf:remark": "Remark",
    "prf:theorem": "Theorem",
}
OPENING = re.compile(r"(:{3,}|`{3,}|~{3,})\{([\w:-]+)\}[ \t]*(.*)")
FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
OPTION = re.compile(r":([\w-]+):[ \t]*(.*)")
TARGET = re.compile(r"\(([\w-]+)\)=[ \t]*")
HEADING = re.compile(r"(#+)[ \t]+(.*)")
# Code, a role, or a formula: each stands for itself, and nothing in it is anything else.
INLINE = re.compile(
    r"\{(?P<role>[a-z][\w:-]*)\}(?P<ticks>`+)(?P<said>.+?)(?P=ticks)(?!`)"
    r"|(?P<code>(?P<fence>`+)(?!`).+?(?<!`)(?P=fence)(?!`))"
    r"|\$\$(?P<display>.+?)\$\$(?:[ \t]*\((?P<label>[\w:-]+)\))?"
    r"|(?<![\\$])\$(?P<formula>[^$]+?)(?<!\\)\$"
    r"|(?<!!)\[(?P<words>[^\[\]]+)\]\((?P<place>[^()\s]+)\)",
    re.DOTALL,
)
WITH_PLACE = re.compile(r"(?P<words>.*?)\s*<(?P<place>[^<>]*)>", re.DOTALL)
# Stands where a solution stood, until the text is cut there.
CUT = "\x00{}\x00"


@dataclass(frozen=True)
class Block:
    """A directive: its name, what stands beside the name, options, and the text in it."""

    name: str
    title: str
    options: dict[str, str]
    body: str


@dataclass(frozen=True)
class Place:
    """Something that can be referred to.

    Attributes:
        page: where it stands, as in ``notebooks/02_attention``.
        told: what a reference to it says.
        anchor: its name in the page's address.
    """

    page: str
    told: str
    anchor: str


def pieces(text: str) -> list[str | Block]:
    """A text cut into its directives and what is between them. Code stays what it is."""
    found: list[str | Block] = []
    plain: list[str] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        if opened := OPENING.fullmatch(line):
            mark, name, title = opened.groups()
            end = end_of(lines, at, mark)
            inner = lines[at + 1 : end]
            options = {}
            while inner and (option := OPTION.fullmatch(inner[0])):
                options[option[1]] = option[2].strip()
                inner = inner[1:]
            found += ["\n".join(plain)] if plain else []
            plain = []
            body = "\n".join(inner).strip("\n")
            found.append(Block(name, title.strip(), options, body))
            at = end + 1
        elif fence := FENCE.match(line):
            end = end_of(lines, at, fence[1])
            plain += lines[at : end + 1]
            at = end + 1
        else:
            plain.append(line)
            at += 1
    return found + (["\n".join(plain)] if plain else [])


def end_of(lines: list[str], at: int, mark: str) -> int:
    """The line that closes what a line opens; the last one if none does."""
    closing = re.compile(
        rf"[ \t]*{re.escape(mark[0])}{{{len(mark)},}}[ \t]*"
    )
    at += 1
    while at < len(lines) and not closing.fullmatch(lines[at]):
        inner = OPENING.fullmatch(lines[at])
        # Blocks of one kind of mark may stand in each other; code is skipped as a whole.
        if inner and inner[1][0] == mark[0] == ":":
            at = end_of(lines, at, inner[1])
        elif mark[0] == ":" and (fence := FENCE.match(lines[at])):
            at = end_of(lines, at, fence[1])
        at += 1
    return min(at, len(lines) - 1)


def plain_title(page: Path) -> str:
    """The first heading of a page."""
    text = page.read_text("utf8")
    if page.suffix == ".ipynb":
        cells = read(page)["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells)
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return found[1].strip() if found else page.stem


class Book:
    """What references lead to, read from the sources of the pages."""

    def __init__(self, root: Path, url: str = "") -> None:
        self.root, self.url = root, url
        config = yaml.safe_load((root / "_config.yml").read_text("utf8"))
        self.commands: dict[str, str] = config["sphinx"]["config"][
            "mathjax3_config"
        ]["tex"]["macros"]
        self.numbers: dict[str, int] = {}
        contents = yaml.safe_load((root / "_toc.yml").read_text("utf8"))
        for part in contents["parts"]:
            for chapter in part["chapters"]:
                if part.get("numbered") and "file" in chapter:
                    new = len(self.numbers) + 1
                    self.numbers[chapter["file"]] = new
        self.places: dict[str, Place] = {}
        for path in sorted((root / "notebooks").glob("*.ipynb")):
            self.learn(f"notebooks/{path.stem}", read(path)["cells"])

    def learn(self, page: str, cells: list[dict]) -> None:
        """Take in all labels of a page, with the numbers that it gives them."""
        counts: Counter[str] = Counter()
        chapter = self.numbers.get(page)

        def numbered(kind: str) -> str:
            counts[kind] += 1
            return (
                f"{chapter}.{counts[kind]}"
                if chapter
                else f"{counts[kind]}"
            )

        def look(text: str) -> None:
            for piece in pieces(text):
                if isinstance(piece, Block):
                    label = piece.options.get("label", "")
                    if piece.name in KINDS:
                        told = f"{KINDS[piece.name]} {numbered(piece.name)}"
                        self.places[label] = Place(page, told, label)
                    look(piece.body)
                    continue
                for found in INLINE.finditer(piece):
                    if label := found["label"]:
                        told = f"({numbered('equation')})"
                        anchor = "equation-" + label.replace(":", "-")
                        self.places[label] = Place(page, told, anchor)
                lines = piece.split("\n")
                for line, below in itertools.pairwise(lines):
                    heading = HEADING.fullmatch(below)
                    if (target := TARGET.fullmatch(line)) and heading:
                        label = target[1]
                        self.places[label] = Place(page, heading[2], label)

        for cell in cells:
            figure = cell["metadata"].get("mystnb", {}).get("figure", {})
            if cell["cell_type"] == "markdown":
                look("".join(cell["source"]))
            elif label := figure.get("name"):
                told = f"Fig. {numbered('figure')}"
                self.places[label] = Place(page, told, label)

    @functools.cached_property
    def cited(self) -> dict[str, tuple[str, str, str]]:
        """Authors, year and address of each work in the list of references."""
        from pybtex.database import parse_file

        found = {}
        entries = parse_file(str(self.root / "book/references.bib")).entries
        for key, entry in entries.items():
            people = entry.persons.get("author") or entry.persons.get(
                "editor", []
            )
            names = [
                " ".join([*one.prelast_names, *one.last_names])
                for one in people
            ]
            names = [re.sub(r"[{}]", "", decoded(one)) for one in names]
            who = " and ".join(names)
            if len(names) > 2:
                who = f"{names[0]} et al."
            fields = entry.fields
            link = fields.get("url", "")
            if "doi" in fields:
                link = f"https://doi.org/{fields['doi']}"
            elif "eprint" in fields:
                link = f"https://arxiv.org/abs/{fields['eprint']}"
            found[key] = who, fields.get("year", ""), link
        return found

    def address(self, page: str, anchor: str = "") -> str:
        """Of a place on the site; empty where there is none."""
        if not self.url:
            return ""
        return f"{self.url}{page}.html{'#' if anchor else ''}{anchor}"

    def linked(self, words: str, page: str, anchor: str = "") -> str:
        address = self.address(page, anchor)
        return f"[{words}]({address})" if address else words


def decoded(text: str) -> str:
    """A name of a list of references, which may be written with the accents of TeX."""
    if "\\" not in text:
        return text
    from pybtex.richtext import Text

    return str(Text.from_latex(text))


class Page:
    """The text of one page as plain Markdown."""

    def __init__(self, book: Book, page: str) -> None:
        self.book, self.page = book, page

    # ---- lines and directives ----

    def text(self, text: str) -> str:
        """The whole text of a cell. Where a solution stood is marked with ``CUT``."""
        parts = []
        for piece in pieces(text):
            if isinstance(piece, Block):
                parts.append(self.block(piece))
            else:
                parts.append(self.prose(piece).strip("\n"))
        return "\n\n".join(part for part in parts if part.strip())

    def block(self, block: Block) -> str:
        if block.name == "solution":
            return CUT.format(block.title)
        title, body = self.inline(block.title), self.text(block.body)
        classes = block.options.get("class", "").split()
        if block.name in KINDS:
            told = self.book.places[block.options["label"]].told
            if block.name == "exercise":
                return f"### {told}: {title}\n\n{body}"
            named = f" ({title})" if title else ""
            return f"**{told}{named}.**\n\n{body}"
        if block.name == "prf:proof":
            return f"*Proof.* {body} ∎"
        if "dropdown" in classes:
            return (
                f"<details>\n<summary>{self.summary(block.title)}</summary>\n\n"
                f"{body}\n\n</details>"
            )
        if block.name == "translate-here":
            address = self.book.address(self.page)
            return f"{body} [{address}]({address})" if address else body
        if block.name == "table":
            return f"**{title}**\n\n{body}" if title else body
        name = "" if block.name == "admonition" else block.name.capitalize()
        head = ": ".join(part for part in (name, title) if part)
        return f"**{head}**\n\n{body}" if head else body

    def summary(self, title: str) -> str:
        """A title in HTML, since no Markdown acts where it stands."""
        told = html.escape(title, quote=False)
        told = re.sub(r"\*([^*]+)\*", r"<em>\1</em>", told)
        return re.sub(r"`([^`]+)`", r"<code>\1</code>", told)

    def prose(self, text: str) -> str:
        """A text without directives: all but its code is looked at."""
        kept: list[str] = []
        waiting: list[str] = []
        lines = text.split("\n")
        at = 0

        def flush() -> None:
            kept.append(self.inline("\n".join(waiting)))
            waiting.clear()

        while at < len(lines):
            line = lines[at]
            if fence := FENCE.match(line):
                end = end_of(lines, at, fence[1])
                if waiting:
                    flush()
                kept.append("\n".join(lines[at : end + 1]))
                at = end
            elif not (TARGET.fullmatch(line) or line.startswith("% ")):
                waiting.append(line)
            at += 1
        if waiting:
            flush()
        return "\n".join(kept)

    # ---- in a line ----

    def inline(self, text: str) -> str:
        return INLINE.sub(self.one, text)

    def one(self, found: re.Match[str]) -> str:
        if found["code"]:
            return found[0]
        if found["display"]:
            inner = self.formula(found["display"])
            if label := found["label"]:
                number = self.book.places[label].told.strip("()")
                return f"$${inner.rstrip()} \\tag{{{number}}}\n$$"
            return f"$${inner}$$"
        if found["formula"]:
            return f"${self.formula(found['formula'])}$"
        if found["place"]:
            return self.link(found)
        make: Callable[[str], str] = {
            "cite:p": self.cite_in_brackets,
            "cite:t": self.cite,
            "computed-by": self.computed_by,
            "doc": self.doc,
            "eq": self.reference,
            "numref": self.reference,
            "prf:ref": self.reference,
            "py:func": self.name_in_code,
            "ref": self.reference,
            "test": self.test,
        }.get(found["role"], self.words)
        return make(found["said"])

    def formula(self, text: str) -> str:
        """A formula without the commands that only the book has."""
        for name, meaning in self.book.commands.items():
            text = re.sub(
                rf"\\{name}(?![A-Za-z])", lambda _, m=meaning: m, text
            )
        return text

    def link(self, found: re.Match[str]) -> str:
        """A link of Markdown: out of the book as it is, to a label or a page of it as references are."""
        words, place = self.inline(found["words"]), found["place"]
        if re.match(r"[a-z]+:", place):
            return f"[{words}]({place})"
        file, _, anchor = place.partition("#")
        if not file:
            return self.book.linked(words, self.page, anchor)
        if file in self.book.places:
            target = self.book.places[file]
            return self.book.linked(words, target.page, target.anchor)
        page = self.beside(file.removesuffix(".ipynb").removesuffix(".md"))
        return self.book.linked(words, page, anchor)

    def beside(self, path: str) -> str:
        """A page that is named from this one."""
        folder = posixpath.dirname(self.page)
        return posixpath.normpath(posixpath.join(folder, path))

    @staticmethod
    def said(text: str) -> tuple[str, str]:
        """What a role shows, where it says so, and what it leads to."""
        if found := WITH_PLACE.fullmatch(text):
            return found["words"], found["place"]
        return "", text

    def words(self, text: str) -> str:
        shown, place = self.said(text)
        return shown or place

    def reference(self, text: str) -> str:
        shown, label = self.said(text)
        place = self.book.places.get(label)
        if place is None:
            return shown or label
        told = place.told
        if "%s" in shown:
            told = shown.replace("%s", told.rpartition(" ")[2])
        elif shown:
            told = shown
        if place.page == self.page:
            return told
        return self.book.linked(told, place.page, place.anchor)

    def doc(self, text: str) -> str:
        shown, place = self.said(text)
        page = self.beside(place)
        path = self.book.root / page
        for suffix in (".ipynb", ".md"):
            file = path.with_name(path.name + suffix)
            if not shown and file.is_file():
                shown = f"*{plain_title(file)}*"
        return self.book.linked(shown or place, page)

    def cite(self, text: str) -> str:
        told = []
        for key in text.split(","):
            who, year, link = self.book.cited[key.strip()]
            told.append(
                f"[{who} ({year})]({link})" if link else f"{who} ({year})"
            )
        return ", ".join(told)

    def cite_in_brackets(self, text: str) -> str:
        told = []
        for key in text.split(","):
            who, year, link = self.book.cited[key.strip()]
            words = f"{who}, {year}"
            told.append(f"[{words}]({link})" if link else words)
        return f"({'; '.join(told)})"

    def computed_by(self, text: str) -> str:
        names = [f"`{name.strip()}`" for name in text.split(",")]
        return f"*Computed by* {' and '.join(names)}."

    def name_in_code(self, text: str) -> str:
        if text.startswith("~"):
            text = text.rpartition(".")[2]
        return f"`{text}`"

    def test(self, text: str) -> str:
        shown, key = self.said(text)
        return shown or f"`{key.rpartition('::')[2]}`"
