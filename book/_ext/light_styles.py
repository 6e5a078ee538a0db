"""One style sheet for a page, with what the book uses, and fonts with the letters that it uses.

``light_styles``: the theme and the extensions bring a dozen style sheets, half a megabyte, most of it for things that are on no
page. Each list of style sheets that a page asks for becomes one file. A rule for a class or an identifier that stands in no
page and in no script goes. (``light_styles: false`` leaves all as it is.)

``light_fonts``: the typeface of the icons has 1,400 of them, the pages have a dozen; those of the formulas have
alphabets that no formula uses. They are cut down to what the style sheets draw. The ones that almost every page needs
are asked for at once.

Both come last, when everything else is in its place.
"""

from __future__ import annotations

import hashlib
import io
import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from light_pages import pages_of, root_of
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)

LINK = re.compile(
    r'[ \t]*<link (?=[^>]*\brel="stylesheet")[^>]*\bhref="([^"]+)"[^>]*/?>\n?'
)
WORD = re.compile(r"[\w-]+")
# A piece of a style sheet: a comment, a string, an address, a mark that opens or closes a block, and the rest.
PIECE = re.compile(
    r"""/\*.*?\*/|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|url\([^)"']*\)|[{};]|(?:\\.|[^{};"'/u\\]|/(?!\*)|u(?!rl\())+|.""",
    re.DOTALL,
)
ADDRESS = re.compile(r"""url\((["']?)(?!data:|https?:|#)([^"')]+)\1\)""")
IMPORT = re.compile(r"@import\b", re.IGNORECASE)
NAME = re.compile(r"[.#]((?:[\w-]|\\.)+)")
GROUPS = ("@media", "@supports", "@layer", "@container")
MATHJAX_FONTS = "mathjax/output/chtml/fonts/woff-v2/MathJax_"
# What most pages show before anything is scrolled: (font, what a page has that needs it).
PRELOADED = (
    ("vendor/fontawesome/webfonts/fa-solid-900.woff", "fa-solid"),
    (f"{MATHJAX_FONTS}Main-Regular.woff", "<mjx-container"),
    (f"{MATHJAX_FONTS}Math-Italic.woff", "<mjx-container"),
)


# ---- style sheets ----


def blocks(css: str) -> list[tuple[str, str | None]]:
    """A style sheet as (what stands before a block, the block), or (a statement, None); comments go."""
    found, head, body, depth = [], [], [], 0
    for piece in PIECE.findall(css):
        if piece.startswith("/*"):
            continue
        if piece == "{":
            depth += 1
            if depth == 1:
                continue
        elif piece == "}":
            depth -= 1
            if depth == 0:
                found.append((tight(head), "".join(body)))
                head, body = [], []
                continue
        elif piece == ";" and depth == 0:
            if text := tight(head):
                found.append((text, None))
            head = []
            continue
        (body if depth else head).append(piece)
    if depth or tight(head):
        raise ValueError(
            f"a style sheet that ends in a rule: {tight(head)}"
        )
    return found


def tight(pieces: Iterable[str]) -> str:
    """Text without the spaces that say nothing; strings stay as they are."""
    text = "".join(
        piece if piece[0] in "\"'" else re.sub(r"\s+", " ", piece)
        for piece in pieces
    )
    return text.strip()


def declarations(body: str) -> str:
    parts: list[list[str]] = [[]]
    for piece in PIECE.findall(body):
        if piece == ";":
            parts.append([])
        elif not piece.startswith("/*"):
            parts[-1].append(piece)
    return ";".join(filter(None, map(tight, parts)))


def selectors(head: str) -> Iterator[str]:
    """The selectors of a list; commas inside brackets part none."""
    depth, start = 0, 0
    for place, sign in enumerate(head):
        depth += (sign in "([") - (sign in ")]")
        if sign == "," and depth == 0:
            yield head[start:place].strip()
            start = place + 1
    yield head[start:].strip()


class Used:
    """The words of all pages and scripts: no rule for one of them goes."""

    def __init__(
        self, pages: Iterable[str], scripts: Iterable[str]
    ) -> None:
        scripts = list(scripts)
        self.words = {
            word
            for text in (*pages, *scripts)
            for word in WORD.findall(text)
        }
        # Scripts put names together, such as "bs-" and "tooltip".
        self.beginnings = tuple(
            {
                word
                for text in scripts
                for word in WORD.findall(text)
                if len(word) > 2
                and word.endswith("-")
                and word[0].isalpha()
            }
        )

    def name(self, name: str) -> bool:
        return name.startswith(self.beginnings) or all(
            word in self.words
            for word in WORD.findall(re.sub(r"\\(.)", r" \1", name))
        )

    def selector(self, selector: str) -> bool:
        """Whether it can hold for something; what must not be there, and what stands in quotes, is not asked for."""
        plain = re.sub(r'"[^"]*"|\'[^\']*\'', "", selector)
        while plain != (
            plain := re.sub(r":(?:not|is|where|has)\([^()]*\)", "", plain)
        ):
            pass
        return all(map(self.name, NAME.findall(plain)))


def purged(css: str, used: Used) -> str:
    """The rules that can hold for something, in as few characters as is easy."""
    kept = []
    for head, body in blocks(css):
        if body is None:
            if not head.lower().startswith("@charset"):
                kept.append(f"{head};")
        elif head.lower().startswith(GROUPS):
            if inner := purged(body, used):
                kept.append(f"{head}{{{inner}}}")
        elif head.startswith("@"):
            # @font-face, and @keyframes, whose blocks are no rules.
            kept.append(f"{head}{{{declarations(body)}}}")
        else:
            heads = [one for one in selectors(head) if used.selector(one)]
            inner = declarations(body)
            if heads and inner:
                kept.append(f"{','.join(heads)}{{{inner}}}")
    return "".join(kept)


def moved(css: str, folder: str, to: str) -> str:
    """A style sheet whose addresses hold in another folder of the site."""

    def move(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, found[2]))
        return f'url("{posixpath.relpath(path, to)}")'

    return ADDRESS.sub(move, css)


def bundle(
    out: Path, texts: dict[Path, str], used: Used
) -> dict[Path, str]:
    """The pages, each with one style sheet in the place of its last one."""
    made: dict[tuple[str, ...], str] = {}
    folder = out / "_static" / "light"
    for path, text in texts.items():
        links = [
            posixpath.normpath(
                posixpath.join(
                    path.parent.relative_to(out).as_posix(),
                    link.split("?")[0],
                )
            )
            for link in LINK.findall(text)
        ]
        if len(links) < 2 or any(
            not (out / link).is_file() for link in links
        ):
            continue
        if tuple(links) not in made:
            css = "".join(
                purged(
                    moved(
                        (out / link).read_text("utf8"),
                        posixpath.dirname(link),
                        "_static/light",
                    ),
                    used,
                )
                for link in dict.fromkeys(links)
            )
            if IMPORT.search(css):
                continue
            name = f"{hashlib.sha256(css.encode()).hexdigest()[:12]}.css"
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(css, "utf8")
            made[tuple(links)] = name
        link = (
            '    <link rel="stylesheet" type="text/css" '
            f'href="{root_of(path, out)}_static/light/{made[tuple(links)]}" />\n'
        )
        first = LINK.search(text).start()
        texts[path] = text[:first] + link + LINK.sub("", text[first:])
    return texts


# ---- fonts ----


def drawn(css: Iterable[str]) -> set[int]:
    """The letters that style sheets draw themselves."""
    letters: set[int] = set()
    for sheet in css:
        for text in re.findall(
            r'(?:content|--[\w-]+)\s*:\s*("(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\')',
            sheet,
        ):
            plain = re.sub(
                r"\\([0-9a-fA-F]{1,6})\s?",
                lambda code: chr(int(code[1], 16)),
                text[1:-1],
            )
            letters |= set(map(ord, plain.replace("\\", "")))
    return letters


def cut(font: Path, letters: set[int], to: Path) -> None:
    """Write a font with no other letters; the same letters give the same file."""
    from fontTools import subset
    from fontTools.ttLib import TTFont

    logging.logging.getLogger("fontTools").setLevel("ERROR")
    options = subset.Options(
        flavor="woff",
        layout_features=["*"],
        drop_tables=[*subset.Options().drop_tables, "FFTM"],
    )
    loaded = TTFont(io.BytesIO(font.read_bytes()), recalcTimestamp=False)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=letters)
    cutter.subset(loaded)
    subset.save_font(loaded, str(to), options)


def cut_fonts(static: Path, sheets: list[Path]) -> None:
    """Cut the fonts of icons and formulas, and let the style sheets ask for those."""
    letters = drawn(sheet.read_text("utf8") for sheet in sheets)
    # Where formulas are left to the browser, MathJax may draw any letter.
    if not (static / "mathjax" / "tex-chtml-full.js").is_file():
        for font in sorted(static.glob(f"{MATHJAX_FONTS}*.woff")):
            if font.stem != "MathJax_Zero":  # it has no letters at all
                cut(font, letters, font)
    icons = static / "vendor" / "fontawesome" / "webfonts"
    for font in sorted(icons.glob("*.ttf")):
        cut(font, letters, font.with_suffix(".woff"))
    # The style sheets of the theme that no page asks for any more would name fonts that are gone.
    for sheet in sorted(static.rglob("*.css")):
        text = re.sub(
            r'(url\("?[^")]*/webfonts/fa-[\w-]+\.woff)2("?\) format\("woff)2"\),url\([^)]*\) format\("truetype"\)',
            r'\1\2")',
            sheet.read_text("utf8"),
        )
        sheet.write_text(text, "utf8")
    for font in [*icons.glob("*.ttf"), *icons.glob("*.woff2")]:
        font.unlink()


def preloads(page: str, root: str, static: Path) -> str:
    wanted = [
        f'    <link rel="preload" as="font" type="font/woff" crossorigin="anonymous" href="{root}_static/{font}" />\n'
        for font, needed_by in PRELOADED
        if needed_by in page and (static / font).is_file()
    ]
    first = LINK.search(page)
    if first is None:
        return page
    at = first.start()
    return page[:at] + "".join(wanted) + page[at:]


def scripts_of(out: Path) -> Iterator[str]:
    for path in sorted((out / "_static").rglob("*.js")):
        parts = path.relative_to(out / "_static").parts
        if parts[0] not in ("mathjax", "locales", "hints"):
            yield path.read_text("utf8")


def finish(app: Sphinx, failure: Exception | None) -> None:
    if failure is not None or app.builder.format != "html":
        return
    out, static = Path(app.outdir), Path(app.outdir) / "_static"
    texts = {path: path.read_text("utf8") for path in pages_of(out)}
    before = dict(texts)
    if app.config.light_styles:
        used = Used(texts.values(), scripts_of(out))
        texts = bundle(out, texts, used)
    if app.config.light_fonts and app.config.light_styles:
        cut_fonts(static, sorted((static / "light").glob("*.css")))
        for path, text in texts.items():
            texts[path] = preloads(text, root_of(path, out), static)
    for path, text in texts.items():
        if text != before[path]:
            path.write_text(text, "utf8")


def setup(app: Sphinx) -> dict[str, object]:
    app.add_config_value("light_styles", True, "")
    app.add_config_value("light_fonts", True, "")
    # After light_pages.py, which adds a style sheet.
    app.connect("build-finished", finish, priority=800)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
