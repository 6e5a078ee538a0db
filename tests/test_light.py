"""Light pages: each step does what it says, keeps what is needed, and can be switched off."""

from __future__ import annotations

import datetime
import io
import json
import re
import types
from pathlib import Path

import pydata_sphinx_theme
import pytest
import yaml
from bs4 import BeautifulSoup
from fontTools.ttLib import TTFont

from tests.extension_support import ROOT, extension, loaded

PAGES = extension("light_pages")
STYLES = extension("light_styles")
STEPS = (
    *PAGES.STEPS,
    "light_styles",
    "light_fonts",
)
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))
SCRIPTS = """<script data-cfasync="false">let early = 1;</script>
<link rel="preload" as="script" href="../_static/scripts/bootstrap.js?digest=1" />
    <script src="../_static/documentation_options.js?v=1"></script>
    <script src="../_static/doctools.js?v=1"></script>
    <script src="../_static/clipboard.min.js"></script>
    <script src="../_static/togglebutton.js"></script>
    <script data-sd-tabs-storage-prefix="a" src="../_static/design-tabs.js"></script>
    <script>DOCUMENTATION_OPTIONS.pagename = 'page';</script>
    <script src="../_static/searchtools.js"></script>
    <script src="../searchindex.js"></script>
    <script type="module" src="../_static/live.js"></script>
    <script defer src="../_static/scripts/bootstrap.js"></script>
"""
OPTIONS = "const DOCUMENTATION_OPTIONS = {\n    LANGUAGE: 'en',\n};"


def names(page):
    return [
        PAGES.name_of(tag["src"])
        for tag in BeautifulSoup(page, "html.parser").find_all(
            "script", src=True
        )
    ]


def test_scripts_wait_and_only_those_that_are_needed_are_there():
    page = PAGES.with_light_scripts(
        f"<head>{SCRIPTS}</head>", PAGES.one_line(OPTIONS)
    )
    assert names(page) == ["doctools.js", "live.js", "bootstrap.js"]
    for tag in BeautifulSoup(page, "html.parser").find_all(
        "script", src=True
    ):
        assert tag.get("type") == "module" or tag.has_attr("defer")
    assert "preload" not in page
    # What inline scripts look for stands before them.
    assert page.index(
        "const DOCUMENTATION_OPTIONS = { LANGUAGE: 'en', };"
    ) < page.index("DOCUMENTATION_OPTIONS.pagename")
    assert "let early = 1;" in page
    # Once more changes nothing: a partial build does not write every page again.
    assert PAGES.with_light_scripts(page, "") == page


@pytest.mark.parametrize(
    ("body", "needed"),
    [
        ('<div id="search-results"></div>', ["searchtools.js", "searchindex.js"]),
        ('<div class="highlight"><pre>', ["clipboard.min.js"]),
        ('<div class="solution dropdown admonition">', ["togglebutton.js"]),
        ('<div class="toggle docutils">', ["togglebutton.js"]),
        ('<button class="sidebar-toggle btn dropdown-toggle">', []),
        ('<div class="sd-tab-set docutils">', ["design-tabs.js"]),
    ],
)  # fmt: skip
def test_a_script_is_there_where_it_is_needed(body, needed):
    page = PAGES.with_light_scripts(f"<head>{SCRIPTS}</head>{body}", "")
    assert set(names(page)) == {
        "doctools.js",
        "live.js",
        "bootstrap.js",
        *needed,
    }
    if "design-tabs.js" in needed:
        assert 'data-sd-tabs-storage-prefix="a"' in page


def test_the_theme_measures_boxes_when_the_reader_is_near():
    [script] = Path(pydata_sphinx_theme.__file__).parent.rglob(
        "static/scripts/pydata-sphinx-theme.js"
    )
    before = script.read_text("utf8")
    assert before.count(PAGES.MEASURED) == 1
    after = PAGES.patient(before)
    assert PAGES.MEASURED not in after
    assert f"o.disconnect();h()||({PAGES.MEASURED[1:-1]})}}" in after
    assert PAGES.patient(after) == after
    assert PAGES.patient("another()") == "another()"


def test_light_or_dark_is_decided_before_anything_is_drawn():
    page = f'<html lang="en" data-theme="auto"><script>\n    {PAGES.CHOICE}\n</script><body data-default-mode="auto">'
    light = PAGES.with_light_theme(page)
    assert light.startswith('<html lang="en" data-theme="light">')
    assert light.index(PAGES.CHOICE) < light.index(PAGES.DECISION)
    assert light.index(PAGES.DECISION) < light.index("</script>")
    # And what is printed is light.
    assert light.index(PAGES.PAPER) < light.index("</script>")
    assert light.endswith('<body data-default-mode="auto">')
    assert PAGES.with_light_theme(light) == light


def test_pictures_but_the_first_wait():
    page = '<nav><img src="logo.png"></nav><article><img src="a.png"><img src="b.png"><img loading="eager" src="c.png">'
    light = PAGES.with_light_images(page)
    assert light == page.replace(
        '<img src="b.png">', '<img loading="lazy" src="b.png">'
    )
    assert PAGES.with_light_images(light) == light
    assert PAGES.with_light_images("<p>none</p>") == "<p>none</p>"


def test_sections_are_laid_out_late_but_not_on_paper():
    page = "<head></head><section><h1>A</h1><section>"
    light = PAGES.with_light_sections(page, "../")
    assert (
        '<link rel="stylesheet" type="text/css" href="../_static/sections.css" />'
        in light
    )
    assert PAGES.with_light_sections(light, "../") == light
    assert PAGES.with_light_sections("<head></head>", "") == "<head></head>"
    assert PAGES.SECTIONS.startswith("@media screen {")


CSS = """@charset "UTF-8";
/* a comment } with a brace */
.used, .unused > a, p.used:not(.unused) { color : red ; }
.unused { content: "}"; }
#there::before { content: "} /* no comment */ ;"; background: url( "../images/a.png" ) }
a[class="unused"] { top: 0 }
.md\\:flex, .bs-tooltip-auto { left: 0 }
:is(.unused, h1) p { margin: 0 }
@media (min-width: 10px) { .used { a: b } .unused { c: d } }
@media print { .unused { c: d } }
@font-face { font-family: F; src: url(data:x;base64,a+b/c=) }
@keyframes turn { from { top: 0 } to { top: 1px } }
"""
WORDS = '<p class="used md:flex" id="there">'


def test_only_rules_for_what_is_nowhere_go():
    used = STYLES.Used([WORDS], ['add("bs-" + name + "-auto")'])
    assert STYLES.purged(CSS, used) == (
        ".used,p.used:not(.unused){color : red}"
        '#there::before{content: "} /* no comment */ ;";background: url( "../images/a.png" )}'
        'a[class="unused"]{top: 0}'
        ".md\\:flex,.bs-tooltip-auto{left: 0}"
        ":is(.unused, h1) p{margin: 0}"
        "@media (min-width: 10px){.used{a: b}}"
        "@font-face{font-family: F;src: url(data:x;base64,a+b/c=)}"
        "@keyframes turn{from { top: 0 } to { top: 1px }}"
    )


def test_a_broken_style_sheet_is_told():
    with pytest.raises(ValueError, match="ends in a rule: p"):
        STYLES.blocks("p { a: b } p { c: d")


def test_addresses_hold_in_another_folder():
    css = "a { b: url(../x/y.png); c: url(\"z.svg\"); d: url('data:a') }"
    assert STYLES.moved(css, "_static/styles", "_static/light") == (
        'a { b: url("../x/y.png"); c: url("../styles/z.svg"); d: url(\'data:a\') }'
    )


def test_letters_that_style_sheets_draw_are_found():
    css = (
        'a{content: "\\f101 b"}b{--fa:"\\2b"}c{content:"\\""}d{color: "no"}'
    )
    assert STYLES.drawn([css]) == set(map(ord, '\uf101b+"'))


@pytest.fixture
def site(tmp_path):
    """A site of two pages with the style sheets and the fonts of the theme, and a way to run the steps on it."""
    static = tmp_path / "_static"
    extension("offline_assets").copy_mathjax(static)
    theme = Path(pydata_sphinx_theme.__file__).parent
    theme /= "theme/pydata_sphinx_theme/static"
    fonts = static / "vendor/fontawesome/webfonts"
    fonts.mkdir(parents=True)
    for font in (theme / "vendor/fontawesome/webfonts").iterdir():
        (fonts / font.name).write_bytes(font.read_bytes())
    (static / "styles").mkdir()
    theme_css = theme / "styles/pydata-sphinx-theme.css"
    (static / "styles/theme.css").write_text(
        theme_css.read_text("utf8"), "utf8"
    )
    (static / "mathjax/formulas.css").write_text(
        '@font-face { font-family: M; src: url("output/chtml/fonts/woff-v2/MathJax_Main-Regular.woff") format("woff"); }'
        '\nmjx-c.mjx-c51::before { content: "Q"; }\n',
        "utf8",
    )
    (static / "documentation_options.js").write_text(OPTIONS, "utf8")
    (static / "mathjax/tex-chtml-full.js").unlink()
    head = (
        '<meta charset="utf-8"><link rel="stylesheet" href="{0}_static/styles/theme.css?digest=1" />\n'
        '<link rel="stylesheet" type="text/css" href="{0}_static/mathjax/formulas.css?v=1" />\n'
        + SCRIPTS
    )
    body = (
        '<article class="bd-article"><section><h1>A</h1><section><i class="fa-solid fa-moon"></i><img><img><mjx-container>'
        '<mjx-c class="mjx-c51"></mjx-c>'
        "</mjx-container></section></section></article>"
    )
    for name, root in (("index.html", ""), ("notebooks/a.html", "../")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f'<html data-theme="auto"><head>{head.format(root)}</head><body>{body}</body></html>',
            "utf8",
        )

    def run(**off):
        app = types.SimpleNamespace(
            outdir=str(tmp_path),
            builder=types.SimpleNamespace(format="html"),
            config=types.SimpleNamespace(
                **{step: off.get(step, True) for step in STEPS}
            ),
        )
        for module in (PAGES, STYLES):
            module.finish(app, None)
        return tmp_path

    return run


def letters(font):
    return set(TTFont(io.BytesIO(font.read_bytes())).getBestCmap())


def test_a_page_asks_for_one_style_sheet_and_small_fonts(site):
    out = site()
    for name, root in (("index.html", ""), ("notebooks/a.html", "../")):
        page = BeautifulSoup((out / name).read_text("utf8"), "html.parser")
        [link] = page.find_all("link", rel="stylesheet")
        assert link["href"].startswith(f"{root}_static/light/")
        css = (out / name).parent / link["href"]
        text = css.read_text("utf8")
        assert ".fa-moon" in text
        assert ".fa-moon-landing" not in text
        assert ".fa-sun" not in text
        assert "content-visibility:auto" in text.replace(" ", "")
        assert css.stat().st_size < 300_000
        addresses = re.findall(r'url\("(?!data:)([^"]+)"\)', text)
        assert len(addresses) == 4
        loaded = [
            tag["href"] for tag in page.find_all("link", rel="preload")
        ]
        assert len(loaded) == 3
        for address in addresses:
            assert (css.parent / address).is_file()
        for address in loaded:
            assert ((out / name).parent / address).is_file()
    theme = (out / "_static/styles/theme.css").read_text("utf8")
    assert "fa-solid-900.woff)" in theme
    assert not re.search(r"\.woff2|\.ttf", theme)
    fonts = out / "_static/vendor/fontawesome/webfonts"
    assert {path.suffix for path in fonts.iterdir()} == {".woff"}
    icons = letters(fonts / "fa-solid-900.woff")
    assert 0xF186 in icons  # the moon
    assert 0xF185 not in icons  # the sun
    assert (fonts / "fa-solid-900.woff").stat().st_size < 10_000
    formulas = letters(
        out
        / "_static/mathjax/output/chtml/fonts/woff-v2/MathJax_Main-Regular.woff"
    )
    assert ord("Q") in formulas
    assert ord("W") not in formulas


def test_the_same_letters_give_the_same_font(tmp_path, monkeypatch):
    theme = Path(pydata_sphinx_theme.__file__).parent
    [font] = theme.rglob("fa-solid-900.ttf")
    made = []
    for number in range(2):
        monkeypatch.setattr("time.time", lambda number=number: 1e9 * number)
        STYLES.cut(font, {0xF186, 0xF185}, tmp_path / "font.woff")
        made.append((tmp_path / "font.woff").read_bytes())
    assert made[0] == made[1]
    assert letters(tmp_path / "font.woff") >= {0xF186, 0xF185}


def test_where_mathjax_runs_in_the_browser_its_fonts_stay_whole(
    site, tmp_path
):
    script = tmp_path / "_static/mathjax/tex-chtml-full.js"
    script.write_text("", "utf8")
    fonts = site() / "_static/mathjax/output/chtml/fonts/woff-v2"
    assert ord("W") in letters(fonts / "MathJax_Main-Regular.woff")


def test_contributors_see_the_figures_that_were_measured():
    tool = loaded(ROOT / "tools" / "lighthouse.py")
    stored = json.loads(tool.STORED.read_text("utf8"))
    text = (ROOT / "CONTRIBUTING.md").read_text("utf8")
    assert tool.table(stored) in text
    for measured in stored.values():
        date = datetime.date.fromisoformat(measured["date"])
        assert f"{date.day} {date:%B %Y}" in text


@pytest.mark.parametrize("step", STEPS)
def test_each_step_can_be_switched_off(step, site):
    assert step not in CONFIG["sphinx"]["config"]  # on, unless one says so
    out = site(**{step: False})
    page = (out / "notebooks/a.html").read_text("utf8")
    done = {
        "light_scripts": "documentation_options.js" not in page,
        "light_sections": any(
            "content-visibility" in path.read_text("utf8")
            for path in (out / "_static").rglob("*.css")
            if path.parent.name != "styles"
        ),
        "light_styles": "_static/light/" in page,
        "light_fonts": not [*out.rglob("fa-*.ttf")],
        "light_theme": 'data-theme="light"' in page,
    }
    off = {step, "light_fonts"} if step == "light_styles" else {step}
    for name, is_done in done.items():
        assert is_done == (name not in off), name
    assert ('loading="lazy"' in page) == (step != "light_images")
