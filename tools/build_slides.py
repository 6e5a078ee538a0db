"""Cut a deck of slides for each chapter out of its finished page.

    python tools/build_slides.py [NAME ...] [--step 2/5] [--pages _build/html] [--into _build/course/slides]

A deck is a text of a few lines, `slides/NAME.md`, with what to say and the labels of what to show; CONTRIBUTING.md says how
it is written. Formulas, figures, listings and exercises come from the page of the chapter, as they stand there: set,
drawn for both themes, with their numbers. A deck that names what its chapter does not have stops the build, in one line.
Without --pages the book is built first, which does nothing where it is up to date.
"""

from __future__ import annotations

import argparse
import difflib
import html
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
DECKS, PAGES, INTO = "slides", "_build/html", "_build/course/slides"
OWN = ("slides.css", "slides.js")

# A listing of more lines than this is long.
LONG = 22
# What a deck may bring of its chapter, and what a teacher is told.
SHOWN = ("show", "source", "cell", "input", "output", "table", "task")
NOTES = {
    "say": "Say",
    "ask": "Ask",
    "run": "Run",
    "expect": "Expect",
    "hint": "Hint",
}

LINE = re.compile(r"(\w+): *(.*)")
TITLE = re.compile(r"# (.+?) \[(\d+)\]")
NAMED = re.compile(
    r'id="((?:fig|def|thm|prop|rem|obs|lem|cor|alg|ex)-[\w-]+|equation-eq-[\w-]+)"'
)
CELL = re.compile(r'<div class="cell docutils container">')
PART = {
    name: re.compile(rf'<div class="cell_{name} docutils container">')
    for name in ("input", "output")
}
TABLE = re.compile(r'<table class="[^"]*">')
GOALS = re.compile(r'<div class="objectives admonition">')
HINT = re.compile(r'<div class="dropdown hint admonition">')
CAPTION = re.compile(r"<figcaption>(.*?)</figcaption>", re.DOTALL)
HEADING = re.compile(r"<h1>(.*?)</h1>", re.DOTALL)
STYLE = re.compile(
    r'<link (?=[^>]*\brel="stylesheet")[^>]*\bhref="\.\./([^"?]+)[^"]*"[^>]*>'
)
ADDRESS = re.compile(r"""url\((["']?)(?!data:|https?:|#)([^"')]+)\1\)""")
PICTURE = re.compile(r'src="\.\./(_images/[^"]+)"')
WIDTH = re.compile(r'(<img\b[^>]*?) width="(\d+)" height="(\d+)"')
# Of a page, but no part of a slide: its links, its marks for scripts, what its readers may open.
LEFT_OUT = [
    (re.compile(pattern, re.DOTALL), "")
    for pattern in (
        r'<a class="headerlink".*?</a>',
        r'<p class="evidence.*?</p>',
        r'<details class="figure-in-words">.*?</details>',
        r"<a\b[^>]*>|</a>",
        r' (?:id|loading|data-symbol|data-name|data-hint)="[^"]*"',
        r' class="symbol-hint"',
    )
]


class DeckError(Exception):
    """A deck that cannot be built, and why, in one line."""


# ---- the text of a deck ----


@dataclass
class Slide:
    title: str
    minutes: int
    line: int
    points: list[str] = field(default_factory=list)
    shown: list[tuple[str, str, int]] = field(default_factory=list)
    notes: list[tuple[str, str, int]] = field(default_factory=list)


@dataclass
class Deck:
    """What `slides/NAME.md` says. The first slide has the title and the goals of the chapter."""

    name: str
    minutes: int
    slides: list[Slide]

    def fault(self, line: int, what: str) -> DeckError:
        return DeckError(f"{DECKS}/{self.name}.md, line {line}: {what}")


def read_deck(path: Path) -> Deck:
    """Read a deck; what is not one is refused with its line."""
    deck = Deck(path.stem, 0, [])
    lines = path.read_text("utf8").splitlines()
    opening = re.fullmatch(
        r"minutes: (\d+) \[(\d+)\]", lines[0] if lines else ""
    )
    if opening is None:
        raise deck.fault(
            1,
            "a deck begins with its minutes and those of its first slide, as in minutes: 45 [3]",
        )
    deck.minutes = int(opening[1])
    slide = Slide("", int(opening[2]), 1)
    deck.slides.append(slide)
    last: list | None = None
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        if "$" in line:
            raise deck.fault(
                number,
                "a formula is shown by the label that it has in the chapter, not typed again",
            )
        if line.startswith("  ") and last is slide.points and last:
            last[-1] += f" {line.strip()}"
        elif line.startswith("  ") and last is slide.notes and last:
            kind, text, begun = last[-1]
            last[-1] = kind, f"{text} {line.strip()}", begun
        elif title := TITLE.fullmatch(line):
            slide = Slide(title[1], int(title[2]), number)
            deck.slides.append(slide)
            last = None
        elif line.startswith("- "):
            last = slide.points
            last.append(line[2:])
        elif (
            (found := LINE.fullmatch(line))
            and found[2]
            and found[1] in (*SHOWN, *NOTES)
        ):
            last = slide.notes if found[1] in NOTES else None
            kept = slide.shown if last is None else last
            kept.append((found[1], found[2], number))
        else:
            keys = ", ".join(f"{key}:" for key in (*SHOWN, *NOTES))
            raise deck.fault(
                number,
                f"neither a title with its minutes, # Title [5], nor a point, - ..., nor one of {keys}",
            )
    for slide in deck.slides:
        if not slide.notes:
            raise deck.fault(
                slide.line, "this slide has no notes for who speaks"
            )
    if (total := sum(one.minutes for one in deck.slides)) != deck.minutes:
        raise deck.fault(
            1,
            f"the slides have {total} minutes together, not {deck.minutes}",
        )
    return deck


def decks(root: Path = ROOT) -> list[Deck]:
    """All decks, in the order of the chapters."""
    return [read_deck(path) for path in sorted((root / DECKS).glob("*.md"))]


# ---- the page of a chapter ----


def whole(text: str, start: int) -> str:
    """The element that begins at `start`, up to its own end."""
    tag = re.compile(r"<(\w+)").match(text, start)[1]
    depth = 0
    for found in re.compile(rf"<(/?){tag}\b").finditer(text, start):
        depth += -1 if found[1] else 1
        if depth == 0:
            return text[start : text.index(">", found.start()) + 1]
    raise ValueError(f"a {tag} without an end")


def plain(text: str) -> str:
    """The words of a piece of a page."""
    return html.unescape(re.sub(r"<[^>]*>", "", text))


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


class Chapter:
    """The finished page of a chapter, and pieces of it by name."""

    def __init__(self, page: Path) -> None:
        text = page.read_text("utf8")
        self.styles = STYLE.findall(text)
        self.text = whole(text, text.index('<article class="bd-article"'))
        self.labels = list(dict.fromkeys(NAMED.findall(self.text)))
        self.cells = [
            whole(self.text, found.start())
            for found in CELL.finditer(self.text)
        ]
        self.code = [
            squeezed(plain(self.part(cell, "input"))) for cell in self.cells
        ]
        self.title = tidied(HEADING.search(self.text)[1])

    def part(self, cell: str, name: str) -> str:
        found = PART[name].search(cell)
        return whole(cell, found.start()) if found else ""

    def first(self, pattern: re.Pattern[str], start: int = 0) -> str:
        found = pattern.search(self.text, start)
        return whole(self.text, found.start()) if found else ""

    def goals(self) -> str:
        box = self.first(GOALS)
        return whole(box, box.index("<ul")) if "<ul" in box else ""

    def labelled(self, label: str) -> str:
        """The element of a label; an equation is asked for as eq:name, as chapters do."""
        name = re.sub("^eq:", "equation-eq-", label)
        if name not in self.labels:
            raise KeyError(near(name, self.labels))
        place = self.text.index(f'id="{name}"')
        return whole(self.text, self.text.rindex("<", 0, place))

    def hint(self, label: str) -> str:
        """The hint that follows an exercise before the next one; nothing where it has none."""
        start = self.text.index(f'id="{label}"')
        end = self.text.find('class="exercise ', start)
        found = HINT.search(
            self.text, start, end if end > 0 else len(self.text)
        )
        if not found:
            return ""
        box = whole(self.text, found.start())
        return box[box.index("</p>") + 4 : box.rindex("</div>")]

    def cell(self, piece: str) -> str:
        """The one cell whose code has this piece; spaces and line ends do not count."""
        wanted = squeezed(piece.strip("`"))
        found = [
            cell
            for cell, code in zip(self.cells, self.code, strict=True)
            if wanted in code
        ]
        if len(found) != 1:
            number = len(found) or "no"
            raise KeyError(
                f"{number} cells of the chapter have {piece}; name what one has"
            )
        return found[0]

    def source(self, name: str) -> str:
        if f"show_source({name})" not in self.code:
            shown = ", ".join(
                code[12:-1]
                for code in self.code
                if code.startswith("show_source(")
            )
            raise KeyError(
                f"the chapter does not show the source of {name}; it does that of {shown or 'nothing'}"
            )
        place = self.code.index(f"show_source({name})")
        return self.part(self.cells[place], "output")

    def table(self, piece: str) -> str:
        found = [
            table
            for start in TABLE.finditer(self.text)
            if piece
            in re.sub(
                r"\s+", " ", plain(table := whole(self.text, start.start()))
            )
        ]
        if len(found) != 1:
            raise KeyError(
                f"{len(found) or 'no'} tables of the chapter have {piece}; name what one has"
            )
        return f'<div class="table-box">{found[0]}</div>'


def near(label: str, labels: list[str]) -> str:
    like = difflib.get_close_matches(label, labels, 3, 0.5)
    there = f"; like it: {', '.join(like)}" if like else ""
    return f"the chapter has no {label}{there}".replace(
        "equation-eq-", "eq:"
    )


def tidied(piece: str) -> str:
    """A piece of a page, as a slide shows it."""
    for pattern, instead in LEFT_OUT:
        piece = pattern.sub(instead, piece)
    return WIDTH.sub(
        r'\1 style="--w: \2; --h: \3" width="\2" height="\3"', piece
    )


# ---- a slide ----


def words(text: str) -> str:
    """A line of a deck: `code`, *stress* and nothing else."""
    parts = re.split(r"`([^`]+)`", text)
    for place, part in enumerate(parts):
        part = html.escape(part, quote=False)
        parts[place] = (
            f"<code>{part}</code>"
            if place % 2
            else re.sub(r"\*([^*]+)\*", r"<em>\1</em>", part)
        )
    return "".join(parts)


def piece_of(chapter: Chapter, kind: str, name: str) -> str:
    if kind in ("show", "task"):
        return chapter.labelled(name)
    if kind == "source":
        return chapter.source(name)
    if kind == "table":
        return chapter.table(name)
    cell = chapter.cell(name)
    return cell if kind == "cell" else chapter.part(cell, kind)


def notes_of(
    deck: Deck, chapter: Chapter, slide: Slide
) -> Iterator[tuple[str, str]]:
    for kind, text, line in slide.notes:
        if kind == "run":
            code = re.match(r"`([^`]+)`", text)
            if code is None:
                raise deck.fault(
                    line,
                    "run: begins with a piece of the code of the cell, in `...`",
                )
            try:
                chapter.cell(code[1])
            except KeyError as error:
                raise deck.fault(line, error.args[0]) from None
        yield NOTES[kind], f"<p>{words(text)}</p>"
    for kind, name, _ in slide.shown:
        if kind == "task" and (hint := chapter.hint(name)):
            yield NOTES["hint"], tidied(hint)


def written(deck: Deck, chapter: Chapter, slide: Slide, number: int) -> str:
    pieces = []
    for kind, name, line in slide.shown:
        try:
            piece = piece_of(chapter, kind, name)
        except KeyError as error:
            raise deck.fault(line, error.args[0]) from None
        if not piece:
            raise deck.fault(
                line, f"the cell with {name} has no {kind} to show"
            )
        pieces.append(tidied(piece))
    points = "".join(f"<li>{words(point)}</li>" for point in slide.points)
    if number == 1:
        title, points = f"<h1>{chapter.title}</h1>", tidied(chapter.goals())
        points = f'<p class="goals">What you will be able to do</p>{points}'
    else:
        title = f"<h2>{words(slide.title)}</h2>"
        points = f"<ul>{points}</ul>" if points else ""
    # One figure, or one long listing, stands beside the points.
    [alone] = pieces if len(pieces) == 1 else [""]
    long = "<pre" in alone and alone.count("\n") > LONG
    tall = "<figure" in alone or (long and len(slide.points) > 1)
    beside = " beside" if tall and slide.points else ""
    # There its caption makes room for it, and stands below the points.
    caption = CAPTION.search(pieces[0]) if beside else None
    if caption:
        pieces = [CAPTION.sub("", pieces[0])]
    aside = f'<div class="caption">{caption[1]}</div>' if caption else ""
    shown = "".join(f'<div class="piece">{one}</div>' for one in pieces)
    # A figure has the right half beside the one other thing.
    pair = (
        " pair"
        if len(pieces) == 2 and sum("<figure" in one for one in pieces) == 1
        else ""
    )
    notes = "".join(
        f'<div class="note"><p class="kind">{kind}</p><div>{text}</div></div>'
        for kind, text in notes_of(deck, chapter, slide)
    )
    body = (
        (points and f'<div class="points">{points}</div>')
        + (shown and f'<div class="shown{pair}">{shown}</div>')
        + aside
    )
    opening = " opening" if number == 1 else ""
    place = f"Slide {number} of {len(deck.slides)}"
    return f"""<section class="slide{opening}" id="{number}" aria-label="{place}" data-minutes="{slide.minutes}">
{title}
<div class="body{beside}">{body}</div>
<details class="notes"><summary>Notes for slide {number}, {slide.minutes} min</summary>
{notes}</details>
</section>"""


# ---- the files ----

HEAD = """<!DOCTYPE html>
<html lang="en" data-theme="light">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
{styles}
<link rel="icon" href="_static/favicon.svg">
<script src="_static/slides.js" defer></script>
</head>
"""
BARS = """<nav class="bar" aria-label="Slides">
<span class="place" role="status"></span>
<button type="button" data-do="back">Back</button>
<button type="button" data-do="next">Next</button>
<button type="button" data-do="overview" title="Key O">Overview</button>
<button type="button" data-do="speaker" title="Key S">Notes</button>
<button type="button" data-do="theme" title="Key T">Light or dark</button>
<a href="index.html">All decks</a>
</nav>
"""


def head(title: str, styles: list[str]) -> str:
    links = "\n".join(
        f'<link rel="stylesheet" href="{style}">'
        for style in [*styles, "_static/slides.css"]
    )
    return HEAD.format(title=html.escape(title), styles=links)


def page(deck: Deck, chapter: Chapter, styles: list[str]) -> str:
    """A deck as a page of its own."""
    slides = "\n".join(
        written(deck, chapter, slide, number)
        for number, slide in enumerate(deck.slides, start=1)
    )
    title = f"Slides: {plain(chapter.title)}"
    return PICTURE.sub(
        r'src="\1"',
        f'{head(title, styles)}<body class="deck">\n<main class="bd-article">\n{slides}\n</main>\n{BARS}</body>\n</html>\n',
    )


def parts(root: Path) -> list[tuple[str, list[str]]]:
    """The parts of the book, each with its chapters."""
    toc = yaml.safe_load((root / "_toc.yml").read_text("utf8"))
    found = []
    for part in toc["parts"]:
        files = [entry["file"] for entry in part["chapters"]]
        names = [
            name.removeprefix("notebooks/")
            for name in files
            if name.startswith("notebooks/")
        ]
        if names:
            found.append((part["caption"], names))
    return found


def index(
    root: Path, made: dict[str, tuple[Deck, Chapter]], styles: list[str]
) -> str:
    text = []
    for caption, names in parts(root):
        rows = ""
        for name in names:
            if name in made:
                deck, chapter = made[name]
                size = f"{len(deck.slides)} slides, {deck.minutes} minutes"
                link = f'<a href="{name}.html">{plain(chapter.title)}</a>'
                rows += f"<li>{link} <span>{size}</span></li>\n"
        if rows:
            text.append(
                f"<h2>{html.escape(caption)}</h2>\n<ul>\n{rows}</ul>"
            )
    listed = "\n".join(text)
    settings = yaml.safe_load((root / "_config.yml").read_text("utf8"))
    title = f"Slides: {settings['title']}"
    return f"""{head(title, styles)}<body class="index"><main class="bd-article">
<h1>Slides</h1>
<p>One deck a chapter, made from its page: its formulas, its figures, its code. Arrow keys turn the slides. <kbd>S</kbd> opens
the notes for who speaks in a window of their own, <kbd>O</kbd> shows all slides, <kbd>T</kbd> changes from light to
dark. Printed, a slide is a page. On a phone the slides follow one another, each with its notes.</p>
{listed}
</main></body>
</html>
"""


def needed(site: Path, page: str, styles: list[str]) -> set[str]:
    """The files of the site that a deck needs, the fonts of its style sheets included."""
    found = {*re.findall(r'src="(_images/[^"]+)"', page), *styles}
    for style in styles:
        css = (site / style).read_text("utf8")
        for _, address in ADDRESS.findall(css):
            place = address.partition("?")[0].partition("#")[0]
            found.add(
                posixpath.normpath(
                    posixpath.join(posixpath.dirname(style), place)
                )
            )
    return found


def cleared(into: Path) -> None:
    """Remove the decks of an earlier build, and nothing that is not one."""
    made = into / "index.html"
    if made.is_file() and '<body class="index">' in made.read_text("utf8"):
        shutil.rmtree(into)
    elif into.exists() and any(into.iterdir()):
        raise DeckError(
            f"{into} has other things than slides; name another folder, or empty it"
        )


def build(root: Path, site: Path, into: Path, names: list[str]) -> int:
    """Build decks, all of them where none is named; return how many slides they have."""
    known = {path.stem: path for path in (root / DECKS).glob("*.md")}
    for name in names:
        if name not in known:
            raise DeckError(
                f"there is no deck {name}; there are: {', '.join(sorted(known))}"
            )
    made, texts, files = {}, {}, {"_static/favicon.svg"}
    styles: list[str] = []
    for place, name in enumerate(wanted := names or sorted(known), start=1):
        deck = read_deck(known[name])
        source = site / "notebooks" / f"{name}.html"
        if not source.is_file():
            raise DeckError(
                f"{DECKS}/{name}.md: the book has no chapter of that name"
            )
        chapter = Chapter(source)
        styles = chapter.styles
        text = page(deck, chapter, styles)
        if "<mjx-container" not in text and 'class="math' in text:
            raise DeckError(
                "the pages leave their formulas to the browser; slides need them set: build the book with Node"
            )
        texts[f"{name}.html"] = text
        files |= needed(site, text, styles)
        made[name] = deck, chapter
        print(
            f"       {place}/{len(wanted)} {name}: {len(deck.slides)} slides, {deck.minutes} minutes",
            flush=True,
        )
    # Nothing is written before all is well. The list comes first: by it a folder of slides is known.
    if not names:
        cleared(into)
    (into / "_static").mkdir(parents=True, exist_ok=True)
    if not (names and (into / "index.html").is_file()):
        texts = {"index.html": index(root, made, styles), **texts}
    for name, text in texts.items():
        (into / name).write_text(text, "utf8")
    for file in sorted(files):
        # A style sheet may name a file for something that no page has.
        if (site / file).is_file():
            (into / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(site / file, into / file)
    for file in OWN:
        shutil.copyfile(
            root / DECKS / "_static" / file, into / "_static" / file
        )
    return sum(len(deck.slides) for deck, _ in made.values())


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Build the slides of the chapters."
    )
    parser.add_argument(
        "names", nargs="*", help="chapters, such as 02_attention; none: all"
    )
    parser.add_argument(
        "--step", default="", help="how to count this step, such as 2/5"
    )
    parser.add_argument(
        "--pages",
        type=Path,
        help=f"the finished pages; without it, {PAGES}, brought up to date",
    )
    parser.add_argument("--into", type=Path, default=ROOT / INTO)
    options = parser.parse_args()
    label = f"[{options.step}] slides" if options.step else "slides"
    site = options.pages or ROOT / PAGES
    if options.pages is None:
        command = [sys.executable, "tools/build_book.py"]
        if subprocess.run(command, cwd=ROOT).returncode:
            return 1
    print(f"{label}: cutting decks out of the pages", flush=True)
    try:
        number = build(ROOT, site, options.into, options.names)
    except DeckError as error:
        print(f"make: the slides were not built: {error}", file=sys.stderr)
        return 1
    print(f"       {number} slides in {options.into / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
