"""Write the quiz for learning platforms: a GIFT file, as Moodle and others read it, and a package of QTI 2.1.

    python tools/quiz_files.py [--to FOLDER]

Both are made from book/quiz.yml. A chapter is a category; each option has its explanation as feedback, which leads to the
place of the book that shows it: by an address, where this book has one (see home.py), else by names. Formulas are written as
\\( ... \\), which platforms set; the commands of the book's own are written out.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from xml.sax.saxutils import quoteattr

import home
import yaml
from docutils.nodes import make_id

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "book/_ext"))

import quiz

PLACE = ROOT / "_build" / "course" / "quiz"
GIFT, QTI = "attention-quiz.gift.txt", "attention-quiz-qti21.zip"
# Files in an archive have the same date in each build.
WHEN = (2026, 1, 1, 0, 0, 0)

BLOCK = re.compile(
    r"^:::+\{(?:prf:)?(\w+)\}[ \t]*(.*)\n:label:[ \t]*(\S+)", re.MULTILINE
)
FENCE = re.compile(r"^(```+).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+[ \t]+(.*?)[ \t]*$", re.MULTILINE)
PIECE = re.compile(r"(\$[^$]+\$|`[^`]+`|\*[^*]+\*)")


# ---- the places of the book ----


@dataclass(frozen=True)
class Place:
    """Something that an explanation points to."""

    page: str  # "notebooks/02_attention"
    anchor: str
    kind: str  # "Definition", "Figure", "Section"
    title: str
    chapter: str  # the title of the page


def cells(path: Path) -> list[dict]:
    return json.loads(path.read_text("utf8"))["cells"]


def joined(source: object) -> str:
    return source if isinstance(source, str) else "".join(source)


def first_sentence(caption: str) -> str:
    return re.split(r"(?<=[.?!])\s", caption.strip())[0].rstrip(".")


def anchor_of(title: str) -> str:
    """The anchor that Sphinx gives a section of this title."""
    return make_id(re.sub(r"[$`*]", "", title))


def places_in(page: str, text: str) -> dict[str, Place]:
    """The sections and the blocks with a label of a page's Markdown; sections as ``02_attention#the-definition``."""
    prose = FENCE.sub("", text)
    titles = HEADING.findall(prose)
    if not titles:
        return {}
    found = {}
    for title in titles:
        anchor = anchor_of(title)
        name = f"{page.rsplit('/', 1)[-1]}#{anchor}"
        found.setdefault(
            name, Place(page, anchor, "Section", title, titles[0])
        )
    for kind, title, label in BLOCK.findall(text):
        found[label] = Place(
            page, label, kind.capitalize(), title.strip(), titles[0]
        )
    return found


def places(root: Path) -> dict[str, Place]:
    """Every place of the book that an explanation can point to, by its name in the quiz."""
    found: dict[str, Place] = {}
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        page = f"notebooks/{path.stem}"
        everything = cells(path)
        text = "\n\n".join(
            joined(cell["source"])
            for cell in everything
            if cell["cell_type"] == "markdown"
        )
        here = places_in(page, text)
        title = HEADING.search(text)
        for cell in everything:
            figure = cell["metadata"].get("mystnb", {}).get("figure", {})
            if title and "name" in figure:
                here[figure["name"]] = Place(
                    page,
                    figure["name"],
                    "Figure",
                    first_sentence(figure.get("caption", "")),
                    title[1],
                )
        found |= here
    for path in sorted((root / "book").glob("*.md")):
        found |= places_in(f"book/{path.stem}", path.read_text("utf8"))
    return found


# ---- texts ----


def macros_of(settings: Mapping) -> dict[str, str]:
    """The commands that the book's formulas have and others do not know."""
    return settings["sphinx"]["config"]["mathjax3_config"]["tex"]["macros"]


def written_out(tex: str, macros: Mapping[str, str]) -> str:
    for name, meaning in macros.items():
        tex = re.sub(rf"\\{name}(?![a-zA-Z])", lambda _, m=meaning: m, tex)
    return tex


def html(text: str, macros: Mapping[str, str]) -> str:
    """What a text of the quiz looks like on a platform."""
    found = []
    for part in PIECE.split(text):
        inner = part[1:-1]
        if part[:1] == "$":
            tex = escape(written_out(inner, macros), quote=False)
            found.append(f"\\({tex}\\)")
        elif part[:1] == "`":
            found.append(f"<code>{escape(inner, quote=False)}</code>")
        elif part[:1] == "*" and inner:
            found.append(f"<em>{escape(inner, quote=False)}</em>")
        else:
            found.append(escape(part, quote=False))
    return "".join(found)


class Words:
    """The texts of the quiz as HTML, and where they lead."""

    def __init__(self, root: Path, url: str) -> None:
        settings = yaml.safe_load((root / "_config.yml").read_text("utf8"))
        self.book, self.macros = settings["title"], macros_of(settings)
        self.places, self.url = places(root), url

    def of(self, text: str) -> str:
        return html(text, self.macros)

    def link(self, place: Place, text: str) -> str:
        if not self.url:
            return text
        address = f"{self.url}{place.page}.html#{place.anchor}"
        return f"<a href={quoteattr(address)}>{text}</a>"

    def chapter(self, name: str) -> str:
        [title] = {
            one.chapter
            for one in self.places.values()
            if one.page == f"notebooks/{name}"
        }
        return title

    def see(self, name: str) -> str:
        place = self.places[name]
        title = f" “{self.of(place.title)}”" if place.title else ""
        text = self.link(place, f"{place.kind}{title}")
        return f"{text} in “{self.of(place.chapter)}”"

    def feedback(self, option: quiz.Option) -> str:
        seen = "; ".join(map(self.see, option.see))
        return f"<p>{self.of(option.why)}</p><p>See {seen}.</p>"

    def source(self, one: quiz.Question) -> str:
        page = Place("book/quiz", one.anchor, "", "", "")
        text = self.link(page, f"Question {one.number}")
        book = escape(self.book, quote=False)
        return f"<p>{text} of the quiz of the book <em>{book}</em>.</p>"


# ---- GIFT ----

SPECIAL = re.compile(r"([\\~=#{}:])")


def escaped(text: str) -> str:
    """A text that GIFT takes as it is: its own signs have a backslash before them, and there is no line end."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def gift(questions: Iterable[quiz.Question], words: Words) -> str:
    lines: list[str] = []
    category = ""
    for one in questions:
        now = "/".join(
            re.sub("/", "//", name)
            for name in (
                words.book,
                one.part,
                words.chapter(one.chapter),
            )
        )
        if now != category:
            lines += [f"$CATEGORY: $course$/top/{now}", ""]
            category = now
        lines += [
            f"::{escaped(one.anchor)}::[html]{escaped(f'<p>{words.of(one.ask)}</p>')} {{"
        ]
        for option in one.options:
            mark = "=" if option.right else "~"
            lines.append(
                f"\t{mark}{escaped(words.of(option.text))}"
                f"#{escaped(words.feedback(option))}"
            )
        lines += [f"\t####{escaped(words.source(one))}", "}", ""]
    return "\n".join(lines)


# ---- QTI ----

ITEM = """<?xml version="1.0" encoding="UTF-8"?>
<assessmentItem xmlns="http://www.imsglobal.org/xsd/imsqti_v2p1" identifier="{name}" title={title} adaptive="false" \
timeDependent="false">
<responseDeclaration identifier="RESPONSE" cardinality="single" baseType="identifier"><correctResponse>\
<value>{right}</value></correctResponse></responseDeclaration>
<outcomeDeclaration identifier="SCORE" cardinality="single" baseType="float"><defaultValue><value>0</value></defaultValue>\
</outcomeDeclaration>
<outcomeDeclaration identifier="FEEDBACK" cardinality="single" baseType="identifier"/>
<itemBody><choiceInteraction responseIdentifier="RESPONSE" shuffle="false" maxChoices="1"><prompt>{ask}</prompt>
{choices}</choiceInteraction></itemBody>
<responseProcessing><responseCondition><responseIf><match><variable identifier="RESPONSE"/>\
<correct identifier="RESPONSE"/></match><setOutcomeValue identifier="SCORE"><baseValue baseType="float">1</baseValue>\
</setOutcomeValue></responseIf></responseCondition>
<setOutcomeValue identifier="FEEDBACK"><variable identifier="RESPONSE"/></setOutcomeValue></responseProcessing>
{feedback}</assessmentItem>
"""
MANIFEST = """<?xml version="1.0" encoding="UTF-8"?>
<manifest xmlns="http://www.imsglobal.org/xsd/imscp_v1p1" identifier="attention-in-detail-quiz">
<metadata><schema>QTIv2.1 Package</schema><schemaversion>1.0.0</schemaversion></metadata>
<organizations/>
<resources>
{resources}</resources>
</manifest>
"""


def item(one: quiz.Question, words: Words) -> str:
    letters = quiz.LETTERS[: len(one.options)]
    pairs = list(zip(letters, one.options, strict=True))
    title = f"{words.chapter(one.chapter)}: {one.name}"
    return ITEM.format(
        name=one.anchor,
        title=quoteattr(title),
        right=one.letter,
        ask=words.of(one.ask),
        choices="".join(
            f'<simpleChoice identifier="{letter}">{words.of(option.text)}</simpleChoice>\n'
            for letter, option in pairs
        ),
        feedback="".join(
            f'<modalFeedback outcomeIdentifier="FEEDBACK" identifier="{letter}" showHide="show">'
            f"{words.feedback(option)}</modalFeedback>\n"
            for letter, option in pairs
        ),
    )


def write_qti(
    questions: list[quiz.Question], words: Words, to: Path
) -> None:
    files = {f"{one.anchor}.xml": item(one, words) for one in questions}
    files["imsmanifest.xml"] = MANIFEST.format(
        resources="".join(
            f'<resource identifier="{one.anchor}" type="imsqti_item_xmlv2p1" href="{one.anchor}.xml">'
            f'<file href="{one.anchor}.xml"/></resource>\n'
            for one in questions
        )
    )
    with zipfile.ZipFile(to, "w") as package:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, WHEN)
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            entry.compress_type = zipfile.ZIP_DEFLATED
            package.writestr(entry, files[name])


def write(root: Path, folder: Path, url: str) -> list[Path]:
    """Write both files; return where they are."""
    questions = quiz.read(root / "book" / "quiz.yml")
    words = Words(root, url)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / GIFT).write_text(gift(questions, words), "utf8")
    write_qti(questions, words, folder / QTI)
    return [folder / GIFT, folder / QTI]


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Write the quiz for learning platforms."
    )
    parser.add_argument("--to", type=Path, default=PLACE, metavar="FOLDER")
    folder = parser.parse_args().to.resolve()
    try:
        url = home.find(ROOT).url
    except home.HomeError as error:
        print(f"make: {error}", file=sys.stderr)
        return 1
    for path in write(ROOT, folder, url):
        shown = path.relative_to(ROOT) if ROOT in path.parents else path
        print(f"       {shown} ({path.stat().st_size / 1e3:.0f} kB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
