"""Symbols: one table in one file, shown on a page of its own, and where a reader meets them.

* ``{symbols} Sizes`` makes the table of that section of ``book/symbols.yml``, with its heading; without an argument it
  makes the tables of the letters that single chapters keep to themselves.
* A page that uses symbols gets a closed list of them, "Symbols on this page", under its objectives: for the keyboard,
  for screen readers, and for whoever reads without scripts.
* An inline formula that is one symbol and nothing else is wrapped in ``<span class="symbol-hint">``, which names its
  entry of that list: the first of each symbol in a paragraph. ``hints.js`` shows a copy of the entry while the
  pointer or the focus is on the formula. The copy is of what has been set already, so it does not matter who sets the
  formulas, and when.

A table has rows of general letters, in sections, and rows that hold in some chapters only; there these go before.
``occurrences`` finds the letters of a formula, ``Table.find`` the row that each belongs to.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape, unescape
from pathlib import Path
from typing import NamedTuple

import yaml
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

# ---- formulas ----

TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|\d+(?:\.\d+)?|\S", re.DOTALL)
# What only moves, sizes or fences its surroundings.
LAYOUT = """
    quad qquad left right big bigl bigr Big Bigl Bigr bigm dots ldots cdots vdots ddots hline displaystyle textstyle limits
    nolimits middle underbrace overbrace underset overset frac dfrac tfrac sqrt binom square
"""
# What means the same in all of mathematics.
OPERATORS = """
    sum prod int max min argmax argmin arg ln log exp sin cos tan tanh lim inf sup det dim Pr partial nabla infty
    bmod cdot times ast odot oplus otimes top perp in notin subset cup cap to mapsto leftarrow rightarrow iff le ge lt gt
    leq geq ne neq approx equiv sim propto ll gg pm mp mid forall exists neg land lor lVert rVert lvert rvert
    lceil rceil lfloor rfloor langle rangle Vert vert colon prime circ
"""
KNOWN = {f"\\{name}" for name in (LAYOUT + OPERATORS).split()}
FONTS = {"\\mathbb", "\\mathbf", "\\mathrm", "\\mathcal", "\\boldsymbol"}
FONTS |= {"\\operatorname"}
ACCENTS = {"\\tilde", "\\bar", "\\hat", "\\vec"}
# Letters whose exponents are powers, even a single capital letter: in e^Z and in R^D.
POWERS = {"e", "\\mathbb{R}"}
WORDS = {"\\text", "\\textbf", "\\textit", "\\mathop"}


@dataclass(frozen=True)
class Occurrence:
    """A letter or name in a formula, with what stands below and above it as tokens."""

    base: str
    sub: tuple[str, ...] = ()
    sup: tuple[str, ...] = ()
    primes: int = 0

    def __str__(self) -> str:
        below = f"_{{{''.join(self.sub)}}}" if self.sub else ""
        above = f"^{{{''.join(self.sup)}}}" if self.sup else ""
        return self.base + "'" * self.primes + below + above


@functools.cache
def tokens(
    tex: str, macros: tuple[tuple[str, str], ...] = ()
) -> tuple[str, ...]:
    """A formula in pieces, without spaces, line ends and the frames of environments, its macros written out."""
    tex = re.sub(r"(?<!\\)%.*", "", tex)
    tex = re.sub(r"\\begin\{array\}\{[^}]*\}", " ", tex)
    tex = re.sub(r"\\(begin|end)\{\w+\*?\}", " ", tex)
    tex = re.sub(r"\\\\(\[[^\]]*\])?", " ", tex)
    for name, meaning in macros:
        tex = re.sub(rf"\\{name}(?![a-zA-Z])", lambda _, m=meaning: m, tex)
    return tuple(
        token
        for token in TOKEN.findall(tex)
        if token[0] != "\\" or token[1:].isalpha() or token in "\\{\\}"
    )


def argument(
    pieces: tuple[str, ...], start: int
) -> tuple[tuple[str, ...], int]:
    """What a command at ``start - 1`` takes, without its braces, and where the rest begins."""
    if start >= len(pieces):
        return (), start
    if pieces[start] != "{":
        if pieces[start] in FONTS | ACCENTS | WORDS:
            _, end = argument(pieces, start + 1)
            return pieces[start:end], end
        return pieces[start : start + 1], start + 1
    depth = 0
    for end in range(start, len(pieces)):
        depth += (pieces[end] == "{") - (pieces[end] == "}")
        if not depth:
            return pieces[start + 1 : end], end + 1
    return pieces[start + 1 :], len(pieces)


def plain(pieces: tuple[str, ...]) -> tuple[str, ...]:
    """An index or exponent as it is compared: without braces round single pieces, and with layers as ``()``."""
    pieces = tuple(piece for piece in pieces if piece not in "{}")
    if pieces[:1] == ("(",) and pieces[-1:] == (")",):
        return ("()",)
    return pieces


def scripts(
    pieces: tuple[str, ...], at: int
) -> tuple[tuple[str, ...], tuple[str, ...], int, int]:
    """The index, the exponent and the primes that begin at a place, and where they end."""
    below: tuple[str, ...] = ()
    above: tuple[str, ...] = ()
    primes = 0
    while at < len(pieces) and pieces[at] in ("_", "^", "'"):
        if pieces[at] == "'":
            primes, at = primes + 1, at + 1
            continue
        mark = pieces[at]
        inner, at = argument(pieces, at + 1)
        if mark == "_":
            below += inner
        elif inner == ("\\prime",):
            primes += 1
        else:
            above += inner
    return below, above, primes, at


def occurrences(pieces: tuple[str, ...]) -> Iterator[Occurrence | str]:
    """The letters and names of a formula; whatever else it holds comes as the text of its tokens."""
    at = 0
    while at < len(pieces):
        piece = pieces[at]
        at += 1
        if piece in WORDS:
            _, at = argument(pieces, at)
            yield piece
            continue
        if piece in FONTS | ACCENTS:
            inner, at = argument(pieces, at)
            base = f"{piece}{{{''.join(plain(inner))}}}"
        elif piece == "\\rVert":
            # A norm is told by what stands below it, and its exponent is one.
            below, above, _, at = scripts(pieces, at)
            if below:
                yield Occurrence(piece, below)
            else:
                yield piece
            yield from occurrences(above)
            continue
        elif piece in KNOWN or not (piece.isalpha() or piece[0] == "\\"):
            if piece not in "{}":
                yield piece
            continue
        elif piece in ("\\{", "\\}"):
            yield piece
            continue
        else:
            base = piece
        below, above, primes, at = scripts(pieces, at)
        yield Occurrence(base, below, above, primes)


# ---- the table ----


@dataclass(frozen=True)
class Row:
    symbols: tuple[str, ...]
    meaning: str
    shown: str
    code: str = ""
    modules: tuple[str, ...] = ()
    first: str = ""
    only: tuple[str, ...] = ()
    indexed: bool = True
    also: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What the first column shows, as Markdown; a line may end between two symbols."""
        return ", ".join(f"${part}$" for part in self.shown.split(r",\ "))

    @property
    def said(self) -> str:
        """What the second column says, as Markdown."""
        others = ", ".join(f"`{name}`" for name in self.also)
        return (
            f"{self.meaning}. Elsewhere: {others}"
            if others
            else self.meaning
        )

    @property
    def anchor(self) -> str:
        first = self.symbols[0].replace("*", "i")
        name = re.sub(r"[^a-zA-Z0-9]+", "-", first).strip("-")
        place = f"{self.only[0].split('_')[0]}-" if self.only else ""
        return f"symbol-{place}{name}"


class Found(NamedTuple):
    """What the table has for an occurrence; no row and no key where there is nothing."""

    row: Row | None
    key: tuple | None
    inner: list[tuple[str, ...]]


@dataclass(frozen=True)
class Table:
    sections: Mapping[str, tuple[Row, ...]]
    chapters: Mapping[str, tuple[Row, ...]]
    macros: tuple[tuple[str, str], ...] = ()
    keys: dict[str, dict] = field(default_factory=dict, compare=False)

    @property
    def rows(self) -> list[Row]:
        parts = [*self.sections.values(), *self.chapters.values()]
        return [row for part in parts for row in part]

    def pieces(self, tex: str) -> tuple[str, ...]:
        return tokens(tex, self.macros)

    def held(self, chapter: str) -> dict:
        """The rows by what they are written as, those of the chapter before the general ones."""
        if chapter not in self.keys:
            general = [row for row in self.rows if not row.only]
            own = [row for row in self.rows if chapter in row.only]
            self.keys[chapter] = {
                self.key(symbol): row
                for row in [*general, *own]
                for symbol in row.symbols
            }
        return self.keys[chapter]

    def key(self, symbol: str) -> tuple:
        found = list(occurrences(self.pieces(symbol)))
        if len(found) != 1 or not isinstance(found[0], Occurrence):
            raise ValueError(f"{symbol!r} is not one symbol")
        one = found[0]
        return one.base, plain(one.sub), plain(one.sup), one.primes

    def find(self, one: Occurrence, chapter: str) -> Found:
        """The row of an occurrence, and the parts of it that are formulas again: indices and exponents."""
        held = self.held(chapter)
        below, above = plain(one.sub), plain(one.sup)
        for primes in dict.fromkeys((one.primes, 0)):
            for sub, sup in itertools.product(
                dict.fromkeys((below, ("*",), ())),
                dict.fromkeys((above, ())),
            ):
                row = held.get((one.base, sub, sup, primes))
                if row is None:
                    continue
                # An index is one piece where the table has a star, and no piece at all where a row takes none.
                if sub == ("*",) and len(below) != 1:
                    continue
                if below and not sub and not row.indexed:
                    continue
                if above and not sup and is_label(one):
                    continue
                inner = [one.sub] if sub != below else []
                inner += [one.sup] if sup != above or sup == ("()",) else []
                return Found(row, (one.base, sub, sup, primes), inner)
        return Found(None, None, [one.sub, one.sup])

    def used(
        self, pieces: tuple[str, ...], chapter: str
    ) -> Iterator[tuple[Occurrence, Found]]:
        """Every symbol of a formula with what the table has for it."""
        for one in occurrences(pieces):
            if isinstance(one, str):
                continue
            found = self.find(one, chapter)
            yield one, found
            for part in found.inner:
                yield from self.used(part, chapter)

    def one_symbol(self, tex: str, chapter: str) -> Found | None:
        """What there is for a formula that is one symbol and nothing else, as ``q_i`` is."""
        found = [
            one
            for one in occurrences(self.pieces(tex))
            if one not in (".", ",", ";")
        ]
        if len(found) != 1 or isinstance(found[0], str):
            return None
        one = self.find(found[0], chapter)
        # What has an exponent is more than a symbol, unless the exponent belongs to its name.
        more = one.key is None or (found[0].sup and not one.key[2])
        return None if more else one


def is_label(one: Occurrence) -> bool:
    """Whether an exponent names something, as Q in W^Q does: then it needs a row of its own."""
    above = plain(one.sup)
    capital = len(above) == 1 and len(above[0]) == 1 and above[0].isupper()
    return above == ("()",) or (capital and one.base not in POWERS)


FIELDS = {"symbols", "shown", "meaning", "code", "in", "first", "only"}
FIELDS |= {"indexed", "also"}


def row_from(entry: Mapping, only: str = "") -> Row:
    unknown = set(entry) - FIELDS
    if unknown or not entry.get("symbols") or not entry.get("meaning"):
        raise ValueError(f"not a row of the table of symbols: {entry}")
    symbols = tuple(str(symbol) for symbol in entry["symbols"])
    chapters = (only,) if only else tuple(entry.get("only", ()))
    return Row(
        symbols=symbols,
        meaning=" ".join(entry["meaning"].split()),
        shown=entry.get("shown", r",\ ".join(symbols)),
        code=entry.get("code", ""),
        modules=tuple(entry.get("in", "").split()),
        first=chapters[0] if chapters else entry["first"],
        only=chapters,
        indexed=entry.get("indexed", True),
        also=tuple(entry.get("also", "").split()),
    )


def read(path: Path, macros: Mapping[str, str]) -> Table:
    stored = yaml.safe_load(path.read_text("utf8"))
    return Table(
        sections={
            name: tuple(row_from(entry) for entry in entries)
            for name, entries in stored["sections"].items()
        },
        chapters={
            chapter: tuple(row_from(entry, chapter) for entry in entries)
            for chapter, entries in (stored.get("chapters") or {}).items()
        },
        macros=tuple(macros.items()),
    )


def table_of(app: Sphinx) -> Table:
    settings = getattr(app.config, "mathjax3_config", None) or {}
    macros = settings.get("tex", {}).get("macros", {})
    path = Path(app.srcdir) / app.config.symbols_table
    return read_once(
        path, path.stat().st_mtime_ns, tuple(sorted(macros.items()))
    )


@functools.lru_cache(maxsize=4)
def read_once(
    path: Path, _changed: int, macros: tuple[tuple[str, str], ...]
) -> Table:
    return read(path, dict(macros))


# ---- the page of symbols ----


def titled_section(title: str) -> nodes.section:
    """A section that a directive makes, with nothing below its title yet."""
    section = nodes.section(ids=[nodes.make_id(title)], names=[title])
    section += nodes.title(title, title)
    return section


def page_link(docname: str, page: str) -> addnodes.pending_xref:
    """A link in a document to a page, which says its title; a page that is gone stops the strict build."""
    link = addnodes.pending_xref(
        refdomain="std",
        reftype="doc",
        reftarget=f"/{page}",
        refdoc=docname,
        refexplicit=False,
        refwarn=True,
    )
    link += nodes.inline(classes=["xref", "std", "std-doc"])
    return link


class Symbols(SphinxDirective):
    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        table = table_of(self.env.app)
        self.env.note_dependency(
            str(Path(self.env.srcdir) / self.config.symbols_table)
        )
        if self.arguments:
            name = self.arguments[0]
            if name not in table.sections:
                raise self.error(f"no section of symbols is named {name!r}")
            section = titled_section(name)
            section += self.table(list(table.sections[name]), first=True)
            return [section]
        found: list[nodes.Node] = []
        for chapter, rows in table.chapters.items():
            page = self.page(chapter)
            if page is not None:
                opening = nodes.paragraph(classes=["symbols-of"])
                opening += page_link(self.env.docname, page)
                found += [opening, self.table(list(rows), first=False)]
        return found

    def page(self, chapter: str) -> str | None:
        """The page of a chapter; None in a book that leaves it out."""
        return next(
            (
                name
                for name in sorted(self.env.found_docs)
                if name.rsplit("/", 1)[-1] == chapter
            ),
            None,
        )

    def parsed(self, text: str) -> list[nodes.Node]:
        return self.parse_text_to_nodes(text) if text else []

    def table(self, rows: list[Row], first: bool) -> nodes.table:
        coded = any(row.code for row in rows)
        heads = ["symbol", "meaning"]
        heads += ["name in code"] * coded + ["first used in"] * first
        table = nodes.table(classes=["table", "symbols"])
        group = nodes.tgroup(cols=len(heads))
        group += [nodes.colspec(colwidth=1) for _ in heads]
        top = nodes.row()
        for head in heads:
            top += nodes.entry("", nodes.paragraph(head, head))
        body = nodes.tbody()
        for row in rows:
            line = nodes.row(ids=[row.anchor])
            for text in (row.name, row.said, row.code)[: 2 + coded]:
                line += nodes.entry("", *self.parsed(text))
            if first:
                page = self.page(row.first)
                entry = nodes.entry()
                if page:
                    link = page_link(self.env.docname, page)
                    entry += nodes.paragraph("", "", link)
                line += entry
            body += line
        group += [nodes.thead("", top), body]
        table += group
        return table


# ---- the other pages ----


class SymbolsHere(nodes.General, nodes.Element):
    """The closed list of a page's symbols. Its text is in its rows, so that a search for it does not find every page."""


def chapter_of(page: str) -> str:
    return page.rsplit("/", 1)[-1]


def add_list(app: Sphinx, document: nodes.document) -> None:
    """Put the list of the symbols that a page uses under its objectives, or at its end."""
    page = app.env.docname
    sections = list(document.findall(nodes.section))
    if not sections or page == app.config.symbols_page:
        return
    app.env.note_dependency(
        str(Path(app.srcdir) / app.config.symbols_table)
    )
    table, chapter = table_of(app), chapter_of(page)
    inline = list(document.findall(nodes.math))
    if not any(table.one_symbol(tex.astext(), chapter) for tex in inline):
        return
    used = {
        found.row
        for tex in [*inline, *document.findall(nodes.math_block)]
        for _, found in table.used(table.pieces(tex.astext()), chapter)
    }
    rows = [row for row in table.rows if row in used]
    here = SymbolsHere(rows=rows)
    for block in document.findall(nodes.admonition):
        if "objectives" in block["classes"]:
            block.parent.insert(block.parent.index(block) + 1, here)
            return
    sections[0] += here


def inline_html(text: str) -> str:
    """The little Markdown that a meaning may have: formulas, code, and emphasis."""
    found = []
    for part in re.split(r"(\$[^$]+\$|`[^`]+`|\*[^*]+\*)", text):
        inner = escape(part[1:-1], quote=False)
        if part[:1] == "$":
            found.append(
                f'<span class="math notranslate nohighlight">\\({inner}\\)</span>'
            )
        elif part[:1] == "`":
            found.append(
                f'<code class="docutils literal notranslate">{inner}</code>'
            )
        elif part[:1] == "*":
            found.append(f"<em>{inner}</em>")
        else:
            found.append(escape(part, quote=False))
    return "".join(found)


def entry_html(row: Row) -> str:
    code = (
        f'<dd class="in-code">In code: {inline_html(row.code)}</dd>'
        if row.code
        else ""
    )
    return (
        f'<div class="symbol-entry" id="here-{row.anchor}"><dt>{inline_html(row.name)}</dt>'
        f"<dd>{inline_html(row.meaning)}</dd>{code}</div>\n"
    )


def visit_list(self, node: SymbolsHere) -> None:
    page = self.builder.config.symbols_page
    whole = (
        f' They are rows of <a class="reference internal" href="'
        f'{self.builder.get_relative_uri(self.builder.current_docname, page)}">the table of symbols</a>.'
        if page in self.builder.env.found_docs
        else ""
    )
    self.body.append(
        '<details class="symbols-here">\n<summary>Symbols on this page</summary>\n'
        "<p>Point at a symbol in the text, tap it, or go to it with the Tab key, to see its line of this list there."
        f"{whole}</p>\n<dl>\n"
    )
    self.body.extend(entry_html(row) for row in node["rows"])
    self.body.append("</dl>\n</details>\n")
    raise nodes.SkipNode


def skip(self, node: nodes.Node) -> None:
    raise nodes.SkipNode


LIST = re.compile(r'<details class="symbols-here">.*?</details>', re.DOTALL)
# An inline formula, or the beginning or end of what holds a paragraph.
INLINE = re.compile(
    r'<span class="math notranslate nohighlight">\\\((?P<tex>[^<]*)\\\)</span>'
    r"|</?(?:p|li|dd|dt|td|th|div|figcaption|h[1-6])\b"
)
# Commands that only say how a letter looks, and marks that the ear does without.
SILENT = re.compile(
    r"\\(?:mathbb|mathbf|mathrm|mathcal|boldsymbol|operatorname|text)(?![a-zA-Z])"
    r"|\\[,;:! ]|[\\{}]"
)


def spoken(tex: str) -> str:
    """The name of a symbol in words: ``\\alpha_{ij}`` is alpha ij."""
    words = re.sub(r"[_^]", " ", SILENT.sub("", tex))
    return " ".join(words.replace("'", " prime").split())


def with_hints(body: str, table: Table, chapter: str) -> str:
    """A page in which each formula that is one symbol names its entry in the page's list."""
    found = LIST.search(body)
    if found is None:
        return body
    met: set[tuple | None] = set()

    def hint(formula: re.Match[str]) -> str:
        if formula["tex"] is None:
            met.clear()
            return formula[0]
        tex = unescape(formula["tex"])
        one = table.one_symbol(tex, chapter)
        if one is None or one.row is None or one.key in met:
            return formula[0]
        if f'id="here-{one.row.anchor}"' not in found[0]:
            return formula[0]
        met.add(one.key)
        return (
            f'<span class="symbol-hint" data-symbol="here-{one.row.anchor}" '
            f'data-name="{escape(spoken(tex))}">{formula[0]}</span>'
        )

    before, after = body[: found.start()], body[found.end() :]
    return INLINE.sub(hint, before) + found[0] + INLINE.sub(hint, after)


def add_hints(
    app: Sphinx, page: str, template: str, context: dict, doctree: object
) -> None:
    if context.get("body") and 'class="symbols-here"' in context["body"]:
        context["body"] = with_hints(
            context["body"], table_of(app), chapter_of(page)
        )


def setup(app: Sphinx) -> dict[str, object]:
    app.add_config_value("symbols_table", "book/symbols.yml", "env")
    app.add_config_value("symbols_page", "book/symbols", "env")
    app.add_directive("symbols", Symbols)
    app.add_node(
        SymbolsHere,
        html=(visit_list, None),
        latex=(skip, None),
        text=(skip, None),
        man=(skip, None),
        texinfo=(skip, None),
    )
    app.connect("doctree-read", add_list)
    # After formula_lines.py, which looks for formulas that are not wrapped yet.
    app.connect("html-page-context", add_hints, priority=600)
    app.setup_extension("hints")
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
