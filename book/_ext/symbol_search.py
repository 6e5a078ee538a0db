"""The search of the site finds symbols: by letter, by name in words, by name in code, and by the name that others use.

Sphinx indexes words of the text. A formula is none, so nobody who looks for ``D_h`` or for "head width" would come to its row
of the table of symbols. Each row of that page is given its names, and the page of the search the rows: ``symbol_search.js``
shows those that a reader may mean, above what the search finds. A row says in ``also`` how others call its symbol.
"""

from __future__ import annotations

import json
import posixpath
import re
import unicodedata
from collections.abc import Iterable
from html import escape, unescape
from pathlib import Path

from hints import article, moved, with_style
from set_formulas import STYLE
from sphinx.application import Sphinx
from symbols import Table, spoken, table_of

ROWS = "_static/symbol_rows.js"
SCRIPT = "_static/symbol_search.js"
TABLE = re.compile(
    r'<table class="(?:[^"]*\s)?symbols(?:\s[^"]*)?"[^>]*>.*?</table>',
    re.DOTALL,
)
ROW = re.compile(r"<tr(?P<given>[^>]*)>(?P<cells>.*?)</tr>", re.DOTALL)
CELL = re.compile(r"<td[^>]*>(.*?)</td>", re.DOTALL)
HEAD = re.compile(r"<th(?:\s[^>]*)?>(.*?)</th>", re.DOTALL)
ID = re.compile(r'\sid="([^"]*)"')
NAMES = re.compile(r'\sdata-names="([^"]*)"')
FORMULA = re.compile(r"\\\((.*?)\\\)", re.DOTALL)
CODE = re.compile(r"<code[^>]*>(.*?)</code>", re.DOTALL)
CHAPTER = re.compile(r'<p class="symbols-of">(.*?)</p>', re.DOTALL)
RESULTS = 'id="search-results"'


def letter(name: str) -> str:
    """The Greek letter of a name, or nothing."""
    found = unescape(f"&{name};")
    greek = len(found) == 1 and unicodedata.name(found).startswith("GREEK")
    return found if greek and found != name else ""


def of_symbols(symbols: Iterable[str]) -> list[str]:
    """What a reader may type for a symbol."""
    words = [spoken(symbol.replace("*", "i")) for symbol in symbols]
    greek = [letter(word.partition(" ")[0]) for word in words]
    return [*words, *filter(None, greek)]


def plain(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", html))


def with_names(body: str, table: Table) -> str:
    """The page of symbols, each of whose rows has an id and its names."""
    rows = {row.anchor: row for row in table.rows}

    def named(found: re.Match[str]) -> str:
        cells = CELL.findall(found["cells"])
        if not cells:
            return found[0]
        place = ID.search(found["given"])
        row = rows.get(place[1]) if place else None
        if row is not None:
            symbols, code = row.symbols, re.findall("`([^`]+)`", row.code)
            also = row.also
        else:
            # A table that is written on the page itself.
            symbols = [
                one.strip()
                for tex in FORMULA.findall(plain(cells[0]))
                for one in tex.split(",")
            ]
            code = [
                plain(name)
                for cell in cells[2:]
                for name in CODE.findall(cell)
            ]
            also = ()
        names = dict.fromkeys([*of_symbols(symbols), *code, *also])
        given = found["given"]
        if place is None:
            slug = re.sub(r"\W+", "-", spoken(" ".join(symbols)))
            given += f' id="symbol-of-page-{slug}"'
        told = escape("|".join(names))
        return f'<tr{given} data-names="{told}">{found["cells"]}</tr>'

    return TABLE.sub(lambda found: ROW.sub(named, found[0]), body)


def name_rows(
    app: Sphinx, page: str, template: str, context: dict, doctree: object
) -> None:
    if page == app.config.symbols_page and context.get("body"):
        context["body"] = with_names(context["body"], table_of(app))


def rows_of(page: str, name: str) -> list[dict[str, object]]:
    """What the page of the search has to know of the finished page of symbols, which lies at ``name``."""
    start, end = article(page)
    text = page[start:end]
    found: list[dict[str, object]] = []
    for table in TABLE.finditer(text):
        before = CHAPTER.findall(text, 0, table.start())
        heads = [plain(head).strip() for head in HEAD.findall(table[0])]
        for row in ROW.finditer(table[0]):
            names, place = (
                NAMES.search(row["given"]),
                ID.search(row["given"]),
            )
            if names is None or place is None:
                continue
            cells = [
                moved(cell.strip(), name, "search.html")
                for cell in CELL.findall(row["cells"])
            ]
            said = dict(zip(heads, cells, strict=False))
            first = said.get("first used in", "")
            only = "" if first or not before else before[-1]
            found.append(
                {
                    "to": f"{name}#{place[1]}",
                    "names": unescape(names[1]).split("|"),
                    "symbol": cells[0],
                    "meaning": cells[1],
                    "code": said.get("name in code", ""),
                    "first": first,
                    "only": moved(only, name, "search.html"),
                }
            )
    return found


def finish(app: Sphinx, failure: Exception | None) -> None:
    if failure is not None or app.builder.name != "html":
        return
    out = Path(app.outdir)
    search = out / "search.html"
    name = app.builder.get_target_uri(app.config.symbols_page)
    if not search.is_file() or not (out / name).is_file():
        return
    rows = rows_of((out / name).read_text("utf8"), posixpath.normpath(name))
    data = json.dumps(rows, ensure_ascii=False)
    (out / ROWS).write_text(f"bookSymbols({data});\n", "utf8")
    page = search.read_text("utf8")
    if SCRIPT in page or RESULTS not in page:
        return
    scripts = "".join(
        f'    <script defer="defer" src="{file}"></script>\n'
        for file in (SCRIPT, ROWS)
    )
    page = page.replace("</head>", f"{scripts}</head>", 1)
    if (out / STYLE).is_file():
        page = with_style(page, "")
    search.write_text(page, "utf8")


def setup(app: Sphinx) -> dict[str, object]:
    app.setup_extension("symbols")
    app.connect("html-page-context", name_rows, priority=700)
    # As hints.py: after set_formulas.py, before the pages are made light.
    app.connect("build-finished", finish, priority=650)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
