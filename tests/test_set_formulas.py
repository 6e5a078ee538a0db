"""Formulas set when the book is built: what is found on a page, what stands there afterwards, and what stops the build."""

from __future__ import annotations

import re
import types

import pytest
import yaml
from bs4 import BeautifulSoup
from sphinx.errors import SphinxError

from tests.extension_support import EXTENSIONS, ROOT, extension

MODULE = extension("set_formulas")
NODE = MODULE.find_node()
needs_node = pytest.mark.skipif(NODE is None, reason="there is no Node")
SETTINGS = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))
TEX = SETTINGS["sphinx"]["config"]["mathjax3_config"]["tex"]
HEAD = """<link rel="stylesheet" href="../_static/book.css" />
    <script>window.MathJax = {"tex": {"macros": {"R": "\\\\mathbb{R}"}}}</script>
    <script defer="defer" src="../_static/mathjax/tex-chtml-full.js"></script>
    <script src="../_static/other.js"></script>
"""
INLINE = '<span class="math notranslate nohighlight">\\(%s\\)</span>'
NUMBERED = (
    '<div class="math notranslate nohighlight" id="equation-eq-a">\n'
    '<span class="eqno">(1)<a class="headerlink" href="#equation-eq-a" title="Link">#</a></span>\\[%s\\]</div>'
)
AMSMATH = (
    '<div class="amsmath math notranslate nohighlight" id="equation-b">\n'
    '<span class="eqno">(2)<a class="headerlink" href="#equation-b">#</a></span>\\begin{align}\n%s\n\\end{align}</div>'
)
NAMED = NUMBERED % r"\softmax(Z) = \{ 1 \} \in \R"
LINES = AMSMATH % r"x &amp;= 1 \\ y &amp;= 2"
BODY = (
    f"<p>{INLINE % 'a &lt; b'}, {INLINE % 'X : (T, D)'}, again {INLINE % 'a &lt; b'}</p>"
    f"\n{NAMED}\n{LINES}\n"
)


@pytest.fixture
def built(tmp_path):
    """A small site, and the extension run on it."""

    def build(body=BODY, config=(), name="notebooks/page.html"):
        page = tmp_path / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(
            f"<html><head>{HEAD}</head><body>{body}</body></html>", "utf8"
        )
        static = tmp_path / "_static" / "mathjax"
        extension("offline_assets").copy_mathjax(static.parent)
        app = types.SimpleNamespace(
            outdir=str(tmp_path),
            builder=types.SimpleNamespace(format="html"),
            config=types.SimpleNamespace(
                **{
                    "formulas_set": True,
                    "mathjax3_config": {"tex": TEX},
                    **dict(config),
                }
            ),
        )
        MODULE.finish(app, None)
        return page.read_text("utf8"), static

    return build


def shown(css, html):
    """What the style sheet draws for each letter of a formula."""
    drawn = dict(
        re.findall(
            r'^mjx-c\.mjx-c([0-9A-F]+)[.\w-]*::before \{[^"]*content: ("[^"]*")',
            css,
            re.MULTILINE,
        )
    )
    return [
        drawn.get(code) for code in re.findall(r"mjx-c([0-9A-F]+)", html)
    ]


def test_formulas_are_found_in_each_form_and_once():
    assert MODULE.formulas(BODY) == [
        ("a < b", False),
        ("X : (T, D)", False),
        ("a < b", False),
        ("\\softmax(Z) = \\{ 1 \\} \\in \\R", True),
        ("\\begin{align}\nx &= 1 \\\\ y &= 2\n\\end{align}", True),
    ]
    assert MODULE.unknown(BODY) == 0
    other = BODY + '<span class="math other">\\(x\\)</span>'
    assert MODULE.unknown(other) == 1


@needs_node
def test_every_formula_is_set_and_no_script_is_left(built):
    html, static = built()
    page = BeautifulSoup(html, "html.parser")
    assert [tag["src"] for tag in page.find_all("script")] == [
        "../_static/other.js"
    ]
    assert "\\" not in page.body.get_text()
    places = page.select(".math")
    assert len(places) == 5
    for place in places:
        [formula] = place.select(
            "mjx-container > mjx-math[aria-hidden=true]"
        )
        [spoken] = place.select("mjx-container > mjx-assistive-mml > math")
        assert formula.find("mjx-c")
        assert spoken.find("mi")
        shows = place.name == "div"
        assert place.find("mjx-container").get("display") == (
            "true" if shows else None
        )
    assert [place.get("id") for place in places[3:]] == [
        "equation-eq-a",
        "equation-b",
    ]
    numbers = [place.find("span", class_="eqno") for place in places[3:]]
    assert [number.get_text() for number in numbers] == ["(1)#", "(2)#"]
    assert numbers[0].a["href"] == "#equation-eq-a"
    assert places[0].get_text() == "a<b"
    assert len(page.select(".amsmath mtr")) == 2
    # Its style sheet comes last, where MathJax put it.
    link = page.find_all("link", rel="stylesheet")[-1]["href"]
    assert re.fullmatch(
        r"\.\./_static/mathjax/formulas\.css\?v=[0-9a-f]{8}", link
    )
    assert sorted(path.name for path in static.iterdir()) == [
        "formulas.css",
        "output",
    ]


@needs_node
def test_the_style_sheet_draws_each_letter_braces_too(built):
    html, static = built()
    css = (static / "formulas.css").read_text("utf8")
    letters = shown(css, html)
    assert len(letters) > 30
    assert None not in letters
    assert {'"{"', '"}"'} <= set(letters)
    for font in re.findall(r'url\("([^"]+)"', css):
        assert (static / font).is_file()


@needs_node
def test_a_partial_build_keeps_the_letters_of_the_other_pages(built):
    first, static = built(INLINE % "\\{ q")
    second, _ = built(INLINE % "w", name="other.html")
    css = (static / "formulas.css").read_text("utf8")
    assert None not in shown(css, first + second)
    assert css.count("@font-face") == css.count("MathJax_")


@needs_node
@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            INLINE % "\\nosuch",
            "Undefined control sequence \\nosuch: \\nosuch",
        ),
        (INLINE % "\\frac{1", "Missing close brace"),
        (NUMBERED % "\\begin{nosuch}\\end{nosuch}", "Unknown environment"),
        (
            '<div class="math other">\\[x\\]</div>',
            "1 formulas in a form that",
        ),
    ],
)
def test_a_formula_that_cannot_be_set_stops_the_build(
    body, told, built, monkeypatch
):
    said = []
    monkeypatch.setattr(
        MODULE.logger,
        "error",
        lambda text, *given: said.append(text % given),
    )
    with pytest.raises(SphinxError, match="1 formulas cannot be set"):
        built(BODY + body)
    assert len(said) == 1
    assert "notebooks/page.html" in said[0]
    assert told in said[0]


@pytest.mark.parametrize("reason", ["no Node", "switched off"])
def test_without_node_the_page_keeps_its_script(reason, built, monkeypatch):
    said = []
    monkeypatch.setattr(
        MODULE.logger,
        "info",
        lambda text, *given: said.append(text % given),
    )
    if reason == "no Node":
        monkeypatch.setenv("NODE", "")
        config = {}
    else:
        config = {"formulas_set": False}
    html, static = built(config=config)
    assert HEAD in html
    assert BODY in html
    assert (static / "tex-chtml-full.js").is_file()
    assert not (static / "formulas.css").exists()
    assert said == ([MODULE.NO_NODE] if reason == "no Node" else [])


def test_a_node_that_is_named_is_the_one_that_runs(monkeypatch, tmp_path):
    monkeypatch.setenv("NODE", str(tmp_path / "nowhere"))
    with pytest.raises(SphinxError, match="nowhere, which cannot be run"):
        MODULE.find_node()
    program = tmp_path / "node"
    program.write_text("#!/bin/sh\necho broken >&2\nexit 3\n", "utf8")
    program.chmod(0o755)
    monkeypatch.setenv("NODE", str(program))
    assert MODULE.find_node() == str(program)
    with pytest.raises(SphinxError, match="Node failed: broken"):
        MODULE.run(str(program), {}, [("x", False)])


@pytest.mark.parametrize(
    ("name", "place"),
    [
        (name, place)
        for name, all in MODULE.CARRIERS.items()
        for place in all
    ],
)
def test_the_node_of_a_package_goes_before_the_one_on_the_path(
    name, place, monkeypatch, tmp_path
):
    monkeypatch.delenv("NODE", raising=False)
    node = tmp_path / place
    node.parent.mkdir(exist_ok=True)
    node.write_text("", "utf8")
    found = types.SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(
        MODULE.importlib.util,
        "find_spec",
        lambda asked: found if asked == name else None,
    )
    assert MODULE.find_node() == str(node)
    node.unlink()
    monkeypatch.setattr(MODULE.shutil, "which", lambda asked: f"/{asked}")
    assert MODULE.find_node() == "/node"


def test_the_worker_lies_beside_the_extension():
    assert MODULE.WORKER == EXTENSIONS / "set_formulas.cjs"
    assert MODULE.WORKER.is_file()
