"""Hints, reading times and the search for symbols: what is made of finished pages, and what of pages with a fault."""

from __future__ import annotations

import json
import re
import types
from collections import Counter

import pytest
import yaml
from bs4 import BeautifulSoup
from docutils import nodes

from tests.extension_support import ROOT, extension

HINTS = extension("hints")
TIME = extension("reading_time")
SEARCH = extension("symbol_search")
SYMBOLS = extension("symbols")

HEAD = '<head><script defer="defer" src="../_static/hints.js?v=1"></script></head>'
ONE = f"""<html>{HEAD}<article><section id="top">
<a class="reference internal" href="#equation-eq-a">(1)</a>
<a class="reference internal" href="two.html#def-b" title="b"><span>Definition 2</span></a>
<a class="reference internal" href="two.html#def-b">again</a>
<a class="reference internal" href="../book/glossary.html#term-key">key</a>
<a class="reference internal" href="two.html#a-section">a section</a>
<a class="reference internal" href="two.html">a page</a>
<a class="headerlink" href="#equation-eq-a">#</a>
<a class="reference external" href="https://example.org/#def-b">elsewhere</a>
<div class="math notranslate nohighlight" id="equation-eq-a"><span class="eqno">(1)</span>x</div>
</section></article></html>"""
TWO = """<html><head></head><article><section id="a-section"><div class="proof definition admonition" id="def-b">
<p class="admonition-title">Definition 2<a class="headerlink" href="#def-b">#</a></p>
<div class="section"><div>A <a class="reference internal" href="one.html#top">link</a>,
<a class="reference external" href="https://example.org">another</a></div>
<img src="../_images/a.png" srcset="../_images/a.png 1x, ../_images/b.png 2x" alt="A">
<mjx-container class="MathJax">y</mjx-container></div>
<p class="evidence">Checked by <a href="t.html">a test</a></p></div></section></article></html>"""
GLOSSARY = f"""<html>{HEAD}<article><dl><dt id="term-key">key<a class="headerlink" href="#term-key">#</a></dt>
<dt id="term-other">other</dt><dd><p>What is compared.</p></dd></dl>
<dt id="attention">no term</dt></article></html>"""


@pytest.fixture
def site(tmp_path):
    for name, text in (
        ("notebooks/one.html", ONE),
        ("notebooks/two.html", TWO),
        ("book/glossary.html", GLOSSARY),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf8")
    style = tmp_path / HINTS.STYLE
    style.parent.mkdir(parents=True)
    style.write_text("mjx-container {}", "utf8")
    return tmp_path


def finish(module, folder, **settings):
    config = types.SimpleNamespace(**{"hints": True, **settings})
    builder = types.SimpleNamespace(
        name="html", get_target_uri=lambda name: f"{name}.html"
    )
    app = types.SimpleNamespace(
        outdir=str(folder), config=config, builder=builder
    )
    module.finish(app, None)


def page(folder, name):
    return BeautifulSoup((folder / name).read_text("utf8"), "html.parser")


def stored(folder, name, call):
    text = (folder / name).read_text("utf8")
    return json.loads(
        text.removeprefix(f"{call}(").rstrip().removesuffix(");")
    )


def test_a_link_says_which_hint_it_has(site):
    finish(HINTS, site)
    one = page(site, "notebooks/one.html")
    assert {
        link.get_text(): link.get("data-hint")
        for link in one.select("article a")
    } == {
        "(1)": "",  # on the page itself
        "Definition 2": "0",
        "again": "0",
        "key": "1",
        "a section": None,
        "a page": None,
        "#": None,
        "elsewhere": None,
    }
    more = one.script["data-more"]
    file, _, version = more.partition("?v=")
    assert file == "../_static/hints/notebooks/one.js"
    assert len(version) == 8
    # A page that has formulas in its hints alone has their style.
    assert one.find("link", href="../_static/mathjax/formulas.css")
    # A page without any such link has neither a file nor a mark.
    assert not (site / "_static/hints/notebooks/two.js").exists()
    assert not page(site, "book/glossary.html").script.has_attr("data-more")


def test_a_hint_holds_what_stands_there_and_its_addresses_lead_on(site):
    finish(HINTS, site)
    statement, term = stored(
        site, "_static/hints/notebooks/one.js", "bookHints"
    )
    assert "headerlink" not in statement + term
    assert "Checked by" not in statement
    assert ' id="' not in statement
    assert statement.count("<div") == statement.count("</div>") == 3
    assert '<mjx-container class="MathJax">y' in statement
    assert 'src="../_images/a.png"' in statement
    said = BeautifulSoup(term, "html.parser").get_text(" ", strip=True)
    assert said == "key What is compared."


def test_the_next_build_changes_nothing(site):
    finish(HINTS, site)
    before = {
        path: path.read_bytes()
        for path in site.rglob("*")
        if path.is_file()
    }
    finish(HINTS, site)
    assert before == {
        path: path.read_bytes()
        for path in site.rglob("*")
        if path.is_file()
    }
    # A thing that is gone leaves no hint behind.
    text = TWO.replace('id="def-b"', 'id="def-c"')
    (site / "notebooks/two.html").write_text(text, "utf8")
    finish(HINTS, site)
    link = page(site, "notebooks/one.html").find("a", title="b")
    assert not link.has_attr("data-hint")


def test_hints_can_be_switched_off(site):
    finish(HINTS, site, hints=False)
    assert (site / "notebooks/one.html").read_text("utf8") == ONE


@pytest.mark.parametrize(
    ("address", "there"),
    [
        ("../_images/a.png", "_images/a.png"),
        ("a.png", "notebooks/a.png"),
        ("two.html#x", "notebooks/two.html#x"),
        ("https://example.org/a", "https://example.org/a"),
        ("#x", "#x"),
        ("data:image/png;base64,AA", "data:image/png;base64,AA"),
    ],
)
def test_an_address_holds_on_another_page(address, there):
    html = f'<a href="{address}">'
    moved = HINTS.moved(html, "notebooks/one.html", "search.html")
    assert moved == f'<a href="{there}">'


def test_a_list_of_addresses_is_moved_one_by_one():
    html = '<img srcset="../a.png 1x, ../b.png 2x">'
    assert (
        HINTS.moved(html, "book/a.html", "b.html")
        == '<img srcset="a.png 1x, b.png 2x">'
    )


def test_an_element_ends_where_it_ends():
    html = "<div><p>a</p><div>b</div><pre>c</pre></div><div>d</div>"
    assert HINTS.element(html, 0, "div") == html[: -len("<div>d</div>")]
    assert HINTS.without(html, "p", "") == html.replace("<p>a</p>", "")
    assert HINTS.without(html, "div", "x") == html
    with pytest.raises(ValueError, match="<div> does not end: <div><p>a"):
        HINTS.element("<div><p>a</p>", 0, "div")


def test_the_picture_in_a_viewer_is_kept_and_the_viewer_is_not():
    html = '<figure><attention-viewer data-a="1"><img src="a.png"></attention-viewer></figure>'
    assert (
        HINTS.piece(html, "a.html", "b.html")
        == '<figure><img src="a.png"></figure>'
    )


# Reading time


def document():
    def words(n, **attributes):
        return nodes.paragraph("", " ".join(["word"] * n), **attributes)

    def block(lines, language):
        text = "\n\n".join(["x"] * lines)
        return nodes.literal_block(text, text, language=language)

    exercise = type("exercise_node", (nodes.Admonition, nodes.Element), {})
    return nodes.section(
        "",
        words(400),
        words(900, classes=["evidence"]),
        exercise("", words(900)),
        nodes.math_block("x", "x"),
        nodes.paragraph(
            "", "", nodes.math("y", "y + z"), nodes.Text(" is")
        ),
        nodes.container("", block(10, "ipython3"), classes=["cell_input"]),
        nodes.container(
            "",
            block(20, "none"),
            block(5, "python"),  # a listing of the package
            nodes.image(),
            classes=["cell_output"],
        ),
    )


def test_what_is_read_is_counted():
    assert TIME.counted(document()) == {
        "words": 402,
        "formulas": 1,
        "lines of code": 15,
        "lines of output": 20,
        "figures": 1,
    }
    assert TIME.exercises(document()) == 1


@pytest.mark.parametrize(
    ("found", "minutes"),
    [
        ({}, 5),
        ({"words": 2000}, 10),
        ({"words": 2400}, 10),
        ({"words": 2600}, 15),
        ({"words": 2000, "formulas": 20}, 15),
        ({"lines of code": 100, "lines of output": 300, "figures": 15}, 15),
    ],
)
def test_minutes_are_rounded_to_five(found, minutes):
    assert TIME.minutes(Counter(found)) == minutes


def test_readers_are_told_how_it_is_counted():
    said = " ".join((ROOT / "book/how_to_use.md").read_text("utf8").split())
    (words, *rest) = re.search(
        r"(\d+) words a minute, (\d+) seconds for a formula on a line of its own, (\d+) for a figure, (\d+) for a line of code"
        r" and (\d+) for a line of output",
        said,
    ).groups()
    assert 60 / int(words) == pytest.approx(TIME.PACE["words"])
    assert [int(number) for number in rest] == [
        TIME.PACE[kind]
        for kind in (
            "formulas",
            "figures",
            "lines of code",
            "lines of output",
        )
    ]


# Search


TABLE = r"""
sections:
  Sizes:
    - symbols: ['D']
      meaning: "width of a model"
      code: "`D`"
      in: parameters
      first: 01_one
      also: d_model embed_dim
    - symbols: ['\sigma', 'W_{*}^Q']
      meaning: "softmax"
      code: "`softmax`, `W_Q`"
      in: rows
      first: 01_one
"""
BODY = r"""<p>Words</p><table class="table symbols"><thead><tr><th class="head"><p>symbol</p></th>
<th>meaning</th><th>name in code</th><th>first used in</th></tr></thead><tbody>
<tr class="row-even" id="symbol-D"><td>\(D\)</td><td>width</td><td><code>D</code></td>
<td><a href="../notebooks/01.html">One</a></td></tr>
<tr id="symbol-sigma"><td>\(\sigma\)</td><td>softmax</td><td><code>softmax</code></td><td></td></tr></tbody></table>
<table class="symbols"><tr><th>symbol</th><th>meaning</th><th>name in code</th></tr>
<tr><td>\(L\), \(dX\)</td><td>loss</td><td><code><span>dX</span></code></td></tr></table>
<p class="symbols-of"><a href="../notebooks/02.html">Two</a></p>
<table class="symbols"><tr><th>symbol</th><th>meaning</th></tr>
<tr><td>\(n\)</td><td>a number</td></tr></table>
<table class="other"><tr><td>\(q\)</td></tr></table>"""


@pytest.fixture
def named(tmp_path):
    (tmp_path / "symbols.yml").write_text(TABLE, "utf8")
    table = SYMBOLS.read(tmp_path / "symbols.yml", {})
    return SEARCH.with_names(BODY, table)


def test_a_row_has_the_names_that_a_reader_may_type(named):
    rows = {
        row["id"]: row["data-names"].split("|")
        for row in BeautifulSoup(named, "html.parser").select(
            "tr[data-names]"
        )
    }
    assert rows == {
        "symbol-D": ["D", "d_model", "embed_dim"],
        "symbol-sigma": ["sigma", "W i Q", "σ", "softmax", "W_Q"],
        "symbol-of-page-L-dX": ["L", "dX"],
        "symbol-of-page-n": ["n"],
    }
    assert '<table class="other"><tr><td>' in named


def test_the_search_has_the_rows(named, tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "_static").mkdir()
    (tmp_path / "book/symbols.html").write_text(
        f"<article>{named}</article>", "utf8"
    )
    search = '<head></head><div id="search-results"></div>'
    (tmp_path / "search.html").write_text(search, "utf8")
    finish(SEARCH, tmp_path, symbols_page="book/symbols")
    rows = stored(tmp_path, SEARCH.ROWS, "bookSymbols")
    assert [row["to"].partition("#")[2] for row in rows] == [
        "symbol-D",
        "symbol-sigma",
        "symbol-of-page-L-dX",
        "symbol-of-page-n",
    ]
    assert rows[0] == {
        "to": "book/symbols.html#symbol-D",
        "names": ["D", "d_model", "embed_dim"],
        "symbol": r"\(D\)",
        "meaning": "width",
        "code": "<code>D</code>",
        "first": '<a href="notebooks/01.html">One</a>',
        "only": "",
    }
    assert rows[3]["only"] == '<a href="notebooks/02.html">Two</a>'
    once = (tmp_path / "search.html").read_text("utf8")
    assert once.count("<script") == 2
    finish(SEARCH, tmp_path, symbols_page="book/symbols")
    assert (tmp_path / "search.html").read_text("utf8") == once


@pytest.mark.parametrize(
    ("name", "letter"),
    [("alpha", "α"), ("Delta", "Δ"), ("D", ""), ("softmax", "")],
)
def test_greek_letters_have_names(name, letter):
    assert SEARCH.letter(name) == letter


def test_what_others_call_a_symbol_stands_in_its_row():
    table = yaml.safe_load((ROOT / "book/symbols.yml").read_text("utf8"))
    rows = [
        SYMBOLS.row_from(entry)
        for part in table["sections"].values()
        for entry in part
    ]
    also = [name for row in rows for name in row.also]
    assert {"d_model", "num_heads", "head_dim"} <= set(also)
    # Or a search for one would lead to two.
    assert len(also) == len(set(also))
    (width,) = [row for row in rows if "d_model" in row.also]
    assert width.said.endswith(
        ". Elsewhere: `d_model`, `embed_dim`, `hidden_size`"
    )
