"""The table of symbols: it has every letter that a page uses, no other, and names what the package has; and what is made of it.

A page is read as its source: the formulas of its Markdown, in lines and on their own, of captions too. Universal
notation needs no row: numbers, operators such as + and the sum sign, named functions such as ln and max, and words in
upright type. Letters do, those of indices and e included, each with the meaning that it has in that chapter.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib.util
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup

ROOT = Path(__file__).resolve().parents[1]
EXTENSIONS = ROOT / "book" / "_ext"
PACKAGE = ROOT / "src" / "attention_in_detail"
TABLE = ROOT / "book" / "symbols.yml"
BUILTINS = {"len"}


def extension():
    name = "book_symbols"
    if name not in sys.modules:
        specification = importlib.util.spec_from_file_location(
            name, EXTENSIONS / "symbols.py"
        )
        sys.modules[name] = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(sys.modules[name])
    return sys.modules[name]


SYMBOLS = extension()
SETTINGS = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))
MACROS = SETTINGS["sphinx"]["config"]["mathjax3_config"]["tex"]["macros"]
TABLE_READ = SYMBOLS.read(TABLE, MACROS)


# ---- reading pages ----

FORMULA = re.compile(
    r"\$\$(.+?)\$\$|(?<![\\$])\$([^$\n]+(?:\n[^$\n]+)*?)\$(?!\$)"
    r"|^(?:`{3,}|:{3,})\{math\}[^\n]*\n(.+?)^(?:`{3,}|:{3,})$",
    re.DOTALL | re.MULTILINE,
)


def formulas(text):
    """The formulas of a Markdown text; what stands in code is none."""
    text = re.sub(
        r"^```(?!\{).*?^```", "", text, flags=re.MULTILINE | re.DOTALL
    )
    text = re.sub(r"(?<!`)(`{1,2})(?!`)[^`]+?(?<!`)\1(?!`)", "", text)
    return [
        found[1]
        or found[2]
        or re.sub(r"^:\w+:.*$", "", found[3], flags=re.MULTILINE)
        for found in FORMULA.finditer(text)
    ]


def source(path):
    if path.suffix != ".ipynb":
        return path.read_text("utf8")
    parts = []
    for cell in json.loads(path.read_text("utf8"))["cells"]:
        if cell["cell_type"] == "markdown":
            parts.append("".join(cell["source"]))
        caption = cell["metadata"].get("mystnb", {}).get("figure", {})
        parts.append(caption.get("caption") or "")
    return "\n\n".join(parts)


CHAPTERS = {
    path.stem: source(path)
    for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
}
PAGES = CHAPTERS | {
    path.stem: source(path) for path in sorted((ROOT / "book").glob("*.md"))
}


# ---- the rules ----


def used(table, page, text):
    """(what is written, what the table has for it) for each symbol."""
    return [
        pair
        for tex in formulas(text)
        for pair in table.used(table.pieces(tex), page)
    ]


def unknown(table, page, text):
    return sorted(
        {
            str(one)
            for one, found in used(table, page, text)
            if found.row is None
        }
    )


def places(table, pages):
    """For each row the pages that use it, and for each spelling of it too."""
    rows, spellings = defaultdict(set), defaultdict(set)
    for page, text in pages.items():
        for _, found in used(table, page, text):
            if found.row is not None:
                rows[found.row].add(page)
                spellings[found.row].add(found.key)
    return rows, spellings


def idle(table, pages):
    """Rows and spellings that no page needs."""
    rows, spellings = places(table, pages)
    found = []
    for row in table.rows:
        if not rows[row]:
            found.append(f"{row.shown} is used nowhere")
        for page in row.only:
            if rows[row] and page not in rows[row]:
                found.append(f"{row.shown} is not used in {page}")
        for symbol in row.symbols:
            if rows[row] and table.key(symbol) not in spellings[row]:
                found.append(f"{symbol} of {row.shown} is used nowhere")
    return found


def wrong_first(table, chapters):
    rows, _ = places(table, chapters)
    return [
        f"{row.shown}: {row.first}, not {min(rows[row], default=None)}"
        for row in table.rows
        if not row.only and row.first != min(rows[row], default=None)
    ]


@functools.cache
def names_of(module):
    """What a module of the package names: functions, classes, parameters, attributes, variables, and axes in shapes."""
    path = PACKAGE.joinpath(*module.split("."))
    path = (
        path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    )
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf8"))):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
        elif isinstance(node, ast.Subscript):
            names |= axes_of(node)
    return names


def axes_of(node):
    """The axes of Float[Array, "T D"]: T and D."""
    if isinstance(node.slice, ast.Tuple):
        return {
            axis.lstrip("*#")
            for part in node.slice.elts
            if isinstance(part, ast.Constant)
            and isinstance(part.value, str)
            for axis in part.value.split()
        }
    return set()


def named(code):
    """The names in the code column of a row; not those of indices."""
    found = set()
    for piece in re.findall(r"`([^`]+)`", code):
        tree = ast.parse(piece.lstrip("*"), mode="eval")
        indices = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Subscript):
                if axes_of(node):
                    found |= axes_of(node)
                    indices |= {
                        name.id
                        for name in ast.walk(node.slice)
                        if isinstance(name, ast.Name) and name.id != "Array"
                    }
                else:
                    indices |= {
                        name.id
                        for name in ast.walk(node.slice)
                        if isinstance(name, ast.Name)
                    }
            elif isinstance(node, ast.Call):
                indices |= {
                    argument.id
                    for argument in node.args
                    if isinstance(argument, ast.Name)
                    and len(argument.id) == 1
                }
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
        found -= indices
    return found - BUILTINS


def missing_names(row):
    """Names that none of the row's modules has."""
    had = set().union(*(names_of(module) for module in row.modules))
    return sorted(named(row.code) - had)


# ---- the table and the pages ----


@pytest.mark.parametrize("page", PAGES)
def test_every_symbol_of_a_page_is_in_the_table(page):
    assert unknown(TABLE_READ, page, PAGES[page]) == []


def test_pages_are_read_with_their_formulas():
    number = {
        page: len(used(TABLE_READ, page, text))
        for page, text in PAGES.items()
    }
    # One shows code where chapters show formulas, one shows times.
    assert number["91_classic_bugs"] > 50
    assert number["34_speed"] > 10
    others = set(CHAPTERS) - {"91_classic_bugs", "34_speed"}
    assert all(number[page] > 100 for page in others)
    assert min(number["glossary"], number["corrections"]) > 50


@pytest.mark.parametrize("row", TABLE_READ.rows, ids=lambda row: row.anchor)
def test_a_row_speaks_in_symbols_of_the_table(row):
    text = f"{row.name} {row.meaning} {row.code}"
    for page in row.only or ("symbols",):
        assert unknown(TABLE_READ, page, text) == []


@pytest.mark.parametrize(
    "row",
    [row for row in TABLE_READ.rows if row.code],
    ids=lambda row: row.anchor,
)
def test_the_package_has_what_a_row_names_in_code(row):
    assert named(row.code)
    assert missing_names(row) == []


def test_no_row_is_idle():
    pages = {
        page: text for page, text in PAGES.items() if page != "symbols"
    }
    assert idle(TABLE_READ, pages) == []


def test_first_uses_are_first():
    assert wrong_first(TABLE_READ, CHAPTERS) == []


def test_rows_have_places_of_their_own():
    anchors = [row.anchor for row in TABLE_READ.rows]
    assert len({anchor.lower() for anchor in anchors}) > len(anchors) / 2
    assert len(set(anchors)) == len(anchors)
    assert all(
        re.fullmatch(r"symbol-[\w-]*\w", anchor) for anchor in anchors
    )


def test_no_symbol_has_two_rows_in_one_place():
    for page in PAGES:
        for rows in (
            [row for row in TABLE_READ.rows if not row.only],
            [row for row in TABLE_READ.rows if page in row.only],
        ):
            keys = [
                TABLE_READ.key(symbol)
                for row in rows
                for symbol in row.symbols
            ]
            assert len(set(keys)) == len(keys), page


def test_chapters_stand_in_order_and_exist():
    assert set(TABLE_READ.chapters) <= set(PAGES)
    own = [page for page in TABLE_READ.chapters if page in CHAPTERS]
    assert own == sorted(own)
    for row in TABLE_READ.rows:
        assert set(row.only) <= set(PAGES)


def test_the_page_shows_every_section():
    shown = re.findall(
        r"^```\{symbols\} ?(.*)$", PAGES["symbols"], re.MULTILINE
    )
    assert shown == [*TABLE_READ.sections, ""]


# ---- each rule on a page or table that breaks it ----


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (r"Let $\kappa$ be a letter.", [r"\kappa"]),
        (r"$D_x$ is a width of nothing.", ["D_{x}"]),
        (r"$$ X W^H $$ (eq:a)", ["W^{H}"]),
        ("$$\nE_{ij} = X_{ij}\n$$ (eq:a)", ["E_{ij}"]),
        ("```{math}\n:label: a\nX + E\n```", ["E"]),
        (":::{prf:theorem} A\n:label: thm-a\nLet $X = F$.\n:::", ["F"]),
        (r"$X_{F}$", ["F"]),
        (r"$e^{F}$", ["F"]),
        (r"$\tilde X$", [r"\tilde{X}"]),
        (r"$\operatorname{nothing}(X)$", [r"\operatorname{nothing}"]),
        (r"$\unheardof X$", [r"\unheardof"]),
        (r"$M^{(2)}$", ["M^{(2)}"]),
        (r"$X^{(F)}$", ["F"]),
        (r"`$F$` and $X$, $\text{F}$", []),
        ("```python\n'$F$'\n```", []),
        (r"$\frac12 X^\top x_i \le \sum_{j=1}^{S} \sqrt{D_k}\, q_i$", []),
        (r"$\Attention(Q, K, V) \ne \lVert X' \rVert_F^2 / 3$", []),
    ],
)
def test_a_letter_that_no_row_has_is_found(written, told):
    page = "05_multi_head"
    assert unknown(TABLE_READ, page, PAGES[page] + "\n\n" + written) == told


def test_a_letter_of_one_chapter_is_unknown_in_another():
    assert unknown(TABLE_READ, "27_rank_collapse", r"$\rho(X)$") == []
    assert unknown(TABLE_READ, "29_quadratic_cost", r"$\rho(X)$") == [
        r"\rho"
    ]


@pytest.mark.parametrize(
    ("code", "module", "told"),
    [
        ("`querys[i]`", "scaled_dot_product", ["querys"]),
        ("`W_Q`", "scaled_dot_product", ["W_Q"]),
        ("`parameters.head(i).W_X`", "parameters multi_head", ["W_X"]),
        ("`Z` (axis name)", "scaled_dot_product", ["Z"]),
        ('`Float[Array, "S DD"]`', "notation multi_head", ["DD"]),
        ("`atention(queries)`", "scaled_dot_product", ["atention"]),
        ("`W_Q`, `W_K`", "parameters", []),
    ],
)
def test_a_name_that_the_package_lacks_is_found(code, module, told):
    row = dataclasses.replace(
        TABLE_READ.rows[0], code=code, modules=tuple(module.split())
    )
    assert missing_names(row) == told


def with_row(**changes):
    """The table with one more row, of a letter that chapter 01 uses."""
    row = dataclasses.replace(
        TABLE_READ.rows[0], shown="new", only=(), **changes
    )
    return SYMBOLS.Table(
        TABLE_READ.sections | {"More": (row,)},
        TABLE_READ.chapters,
        TABLE_READ.macros,
    )


def test_an_idle_row_is_found():
    pages = {"01_notation": r"$X$ and $\kappa$", "02_attention": "$Y$"}

    def told(table):
        return [line for line in idle(table, pages) if "new" in line]

    assert told(with_row(symbols=(r"\kappa",))) == []
    assert told(with_row(symbols=(r"\chi",))) == ["new is used nowhere"]
    assert told(with_row(symbols=(r"\kappa", r"\chi"))) == [
        r"\chi of new is used nowhere"
    ]


def test_a_wrong_first_use_is_found():
    chapters = {"01_notation": "$X$", "02_attention": r"$\kappa$"}

    def told(first):
        table = with_row(symbols=(r"\kappa",), first=first)
        return [
            line for line in wrong_first(table, chapters) if "new" in line
        ]

    assert told("02_attention") == []
    assert told("03_compatibility") == [
        "new: 03_compatibility, not 02_attention"
    ]
    assert told("01_notation") == ["new: 01_notation, not 02_attention"]


@pytest.mark.parametrize(
    "entry",
    [
        {"symbols": ["X"], "first": "01_notation"},
        {"symbols": [], "meaning": "nothing", "first": "01_notation"},
        {"symbols": ["X"], "meaning": "x", "first": "a", "colour": "red"},
    ],
)
def test_a_row_with_a_fault_is_refused(entry):
    with pytest.raises(ValueError, match="not a row"):
        SYMBOLS.row_from(entry)


@pytest.mark.parametrize("symbol", ["X Y", "1", r"\text{word}", "X + 1"])
def test_a_symbol_is_one_symbol(symbol):
    with pytest.raises(ValueError, match="not one symbol"):
        TABLE_READ.key(symbol)


# ---- formulas ----


@pytest.mark.parametrize(
    ("tex", "found"),
    [
        ("q_i", ["q_{i}"]),
        (r"W^Q W_i^{K}", ["W^{Q}", "W_{i}^{K}"]),
        (r"D_{\text{ff}}", [r"D_{\text{ff}}"]),
        (r"\alpha_{ij}", [r"\alpha_{ij}"]),
        (r"X'_{bij}", ["X'_{bij}"]),
        (r"\PE_{p,\,2c}", [r"\operatorname{PE}_{p,2c}"]),
        (r"{\PE_t} + e", [r"\operatorname{PE}_{t}", "e"]),
        (r"\frac{a}{\sqrt{b}}", ["a", "b"]),
        (r"\tfrac12 \ln 2 \cdot 3", []),
        (r"\text{if } X \text{ is true}", ["X"]),
        (r"\mathbf 1 \bar x^\top", [r"\mathbf{1}", r"\bar{x}^{\top}"]),
        (r"\lVert M \rVert_F^2", ["M", r"\rVert_{F}"]),
        (r"\left[\begin{array}{rr|rr} a & 1 \\[1ex] 0 & b \end{array}\right]", ["a", "b"]),
        (r"\begin{cases} Z & M \\ 0 & \text{if not} \end{cases}", ["Z", "M"]),
        (r"\{ j : M \}", ["j", "M"]),
        (r"(E_s)_{s_p}", ["E_{s}", "s_{p}"]),
        (r"X % a comment X", ["X"]),
        (r"\underbrace{X}_{\text{words}}", ["X"]),
        (r"x^", ["x"]),
        (r"x_{a", ["x_{a}"]),
    ],
)  # fmt: skip
def test_the_symbols_of_a_formula_are_found(tex, found):
    pieces = SYMBOLS.tokens(tex, tuple(MACROS.items()))
    assert [
        str(one)
        for one in SYMBOLS.occurrences(pieces)
        if not isinstance(one, str)
    ] == found


@pytest.mark.parametrize(
    ("tex", "page", "shown"),
    [
        ("q_i", "02_attention", r"q_i,\ k_j,\ v_j"),
        ("D_h", "05_multi_head", "D_h = D / h"),
        ("W^Q", "05_multi_head", None),
        ("W_1^Q", "05_multi_head", r"W_i^Q,\ W_i^K,\ W_i^V"),
        ("X_{bij},", "01_notation", "X : (S, D)"),
        ("X^{(0)}", "12_real_heads", "X^{(l)} : (T, D)"),
        ("K", "02_attention", "K : (S, D_k)"),
        ("K", "24_shared_projections", "K"),
        ("k", "25_low_rank", "k"),
        ("k_j", "25_low_rank", r"q_i,\ k_j,\ v_j"),
        ("q_i^\\top", "02_attention", ""),
        ("X^2", "02_attention", ""),
        ("e^x", "01_notation", ""),
        ("X W", "02_attention", ""),
        ("X = 1", "02_attention", ""),
        ("3", "02_attention", ""),
        (r"\kappa", "02_attention", ""),
        ("", "02_attention", ""),
    ],
)
def test_a_formula_of_one_symbol_has_its_row(tex, page, shown):
    found = TABLE_READ.one_symbol(tex, page)
    if shown == "":
        assert found is None
        return
    row = found.row
    if shown is None:
        assert "W^Q" in row.symbols
    else:
        assert row.shown == shown


# ---- what a page gets ----


SMALL = """
sections:
  Sizes:
    - symbols: ['S', 'D_k']
      shown: 'S,\\ D_k'
      meaning: "a *size* & more, as $S < D_k$ and `S`"
      code: "`S` (axis name)"
      in: notation
      first: 01_one
      indexed: false
    - symbols: ['T']
      meaning: "another"
      first: 02_left_out
chapters:
  01_one:
    - symbols: ['T']
      meaning: "one's own"
  02_left_out:
    - symbols: ['S']
      meaning: "not in this book"
"""
ONE = """# One

:::{admonition} What you will be able to do
:class: objectives
- Read.
:::

Let $S$ be $D_k$, ($T$), not $S + 1$ nor $S^2$ nor $\\nu$, and $S$ be $S$.

- So $S$ it is.

$$ S T $$
"""
SITE = {
    "01_one.md": ONE,
    "03_other.md": "# Other\n\nNothing but $T_i$.\n\n## Last\n\nWords.\n",
    "04_none.md": "# None\n\nOnly $1 + 1$.\n",
    "symbols.md": "# Symbols\n\n$S$ is one.\n\n```{symbols} Sizes\n```\n\n## Own\n\n```{symbols}\n```\n",
}


def build(folder, pages=SITE):
    for name, text in pages.items():
        (folder / name).write_text(text, "utf8")
    (folder / "symbols.yml").write_text(SMALL, "utf8")
    (folder / "conf.py").write_text(
        f"import sys; sys.path.insert(0, {str(EXTENSIONS)!r})\n"
        "extensions = ['myst_parser', 'formula_lines', 'symbols']\n"
        "myst_enable_extensions = ['dollarmath', 'colon_fence']\n"
        "symbols_table, symbols_page = 'symbols.yml', 'symbols'\n"
        "root_doc = 'index'\n",
        "utf8",
    )
    listed = "\n".join(Path(name).stem for name in pages)
    (folder / "index.md").write_text(
        f"# Index\n\n```{{toctree}}\n{listed}\n```\n", "utf8"
    )
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-n"]
    done = subprocess.run(
        [*command, "--keep-going", ".", "html"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    return done, {
        path.stem: BeautifulSoup(path.read_text("utf8"), "html.parser")
        for path in (folder / "html").glob("*.html")
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    done, pages = build(tmp_path_factory.mktemp("symbols"))
    assert done.returncode == 0, done.stderr
    return pages


def test_the_page_of_symbols_has_the_rows(site):
    page = site["symbols"]
    assert page.h2.get_text().startswith("Sizes")
    (row,) = page.select("#symbol-S")
    assert row.name == "tr"
    cells = [" ".join(cell.get_text().split()) for cell in row.select("td")]
    assert cells == [
        r"\(S\), \(D_k\)",
        r"a size & more, as \(S < D_k\) and S",
        "S (axis name)",
        "One",
    ]
    assert row.select_one("a")["href"] == "01_one.html"
    (own,) = page.select("#symbol-01-T")
    assert [cell.get_text() for cell in own.select("td")] == [
        r"\(T\)",
        "one’s own",
    ]
    # What belongs to a chapter that is not in the book has no link, and no table.
    assert page.select("#symbol-T td")[-1].get_text() == ""
    assert not page.select("#symbol-02-S")
    assert not page.select(".symbol-hint, details.symbols-here")


def test_a_page_lists_its_symbols_under_its_objectives(site):
    (listed,) = site["01_one"].select("details.symbols-here")
    assert not listed.has_attr("open")
    assert listed.summary.get_text() == "Symbols on this page"
    assert "objectives" in listed.find_previous_sibling("div")["class"]
    entries = listed.select("dl > div.symbol-entry")
    assert [entry["id"] for entry in entries] == [
        "here-symbol-S",
        "here-symbol-01-T",
    ]
    first = entries[0]
    assert first.dt.get_text() == r"\(S\), \(D_k\)"
    assert first.dd.decode_contents() == (
        'a <em>size</em> &amp; more, as <span class="math notranslate nohighlight">\\(S &lt; D_k\\)</span>'
        ' and <code class="docutils literal notranslate">S</code>'
    )
    assert first.select_one("dd.in-code").get_text() == (
        "In code: S (axis name)"
    )
    assert listed.select_one("a")["href"] == "symbols.html"
    assert entries[1].dd.get_text() == "one's own"


def test_a_page_without_objectives_lists_them_at_its_end(site):
    page = site["03_other"]
    (listed,) = page.select("details.symbols-here")
    assert listed.find_next("p").get_text().startswith("Point at")
    assert "Words." in listed.find_previous("p").get_text()
    (hint,) = page.select(".symbol-hint")
    assert hint["data-symbol"] == "here-symbol-T"
    assert not site["04_none"].select("details, .symbol-hint")


def test_formulas_of_one_symbol_name_their_entry(site):
    page = site["01_one"]
    hints = page.select("span.symbol-hint")
    assert [(hint.get_text(), hint["data-symbol"]) for hint in hints] == [
        (r"\(S\)", "here-symbol-S"),
        (r"\(D_k\)", "here-symbol-S"),
        (r"\(T\)", "here-symbol-01-T"),
        # Once in a paragraph.
        (r"\(S\)", "here-symbol-S"),
    ]
    assert [hint["data-name"] for hint in hints] == ["S", "D k", "T", "S"]
    assert all(page.find(id=hint["data-symbol"]) for hint in hints)
    assert not page.select("details .symbol-hint")
    # A mark still keeps to its formula. What the keyboard can do with a hint needs the script, which makes the stops.
    assert hints[2].parent["class"] == ["tied"]
    assert not page.select("[tabindex]")


@pytest.mark.parametrize(
    ("tex", "words"),
    [
        ("S", "S"),
        (r"\alpha_{ij}", "alpha ij"),
        ("W^Q", "W Q"),
        (r"\mathbb{R}", "R"),
        (r"D_{\text{out}}", "D out"),
        (r"X'", "X prime"),
        (r"\tilde Z", "tilde Z"),
        (r"\mathrm{OV}_i", "OV i"),
    ],
)
def test_a_symbol_has_a_name_in_words(tex, words):
    assert SYMBOLS.spoken(tex) == words


def test_the_lists_are_not_searched(site, tmp_path):
    assert site  # the index of the same build
    done, _ = build(tmp_path)
    index = (tmp_path / "html" / "searchindex.js").read_text("utf8")
    terms = json.loads(re.search(r"\{.*\}", index, re.DOTALL)[0])["terms"]
    assert done.returncode == 0
    assert "anoth" in terms or "another" in terms  # from the table
    for word in ("anoth", "another"):
        pages = terms.get(word, [])
        assert isinstance(pages, int) or len(pages) <= 1


def test_a_section_that_is_not_there_stops_the_build(tmp_path):
    wrong = SITE | {
        "symbols.md": "# Symbols\n\n```{symbols} Colours\n```\n"
    }
    done, _ = build(tmp_path, wrong)
    assert done.returncode != 0
    assert "no section of symbols is named 'Colours'" in done.stderr
