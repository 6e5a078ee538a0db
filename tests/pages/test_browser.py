"""The built pages in a browser: nothing from elsewhere, no error, formulas set, no wider than a phone, WCAG AA."""

from __future__ import annotations

import re

import pytest

from tests.extension_support import extension
from tests.pages.browser_faults import (
    PHONE,
    VIEWS,
    WIDE,
    look,
    opened,
    served,
)
from tests.pages.contents import pages

CHAPTERS = [name for name in pages() if name.startswith("notebooks/")]
# Narrower than any phone.
NARROW = 220
QUICK = ["book/index", CHAPTERS[1]]
EVERY = ["index", "genindex", "py-modindex", "search", *pages()]


@pytest.fixture(scope="module")
def home(site):
    with served(site) as address:
        yield address


@pytest.mark.parametrize("name", QUICK)
def test_a_page_on_a_phone_and_on_a_wide_screen(name, chromium, home):
    views = [(PHONE, "light"), (WIDE, "dark")]
    assert look(chromium, home, f"{name}.html", views) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_every_page_in_four_views(name, chromium, home):
    assert look(chromium, home, f"{name}.html", VIEWS) == []


def test_the_site_works_below_a_prefix(chromium, site):
    with served(site, "/book/") as address:
        assert (
            look(chromium, address, f"{CHAPTERS[1]}.html", [(WIDE, "dark")])
            == []
        )


def test_the_page_for_what_is_not_there_is_whole(chromium, site):
    """Its links begin at the root of the site, wherever that is; so it is looked at there."""
    text = (site / "404.html").read_text("utf8")
    [prefix] = re.findall('data-content_root="(/[^"]*)"', text)
    views = [(PHONE, "light"), (WIDE, "dark")]
    with served(site, prefix) as address:
        assert look(chromium, address, "404.html", views) == []


def test_the_ways_out_of_a_chapter_are_named(chromium, site):
    """Open, the menu of places to run it has no fault; on a site without a home there is none."""
    with (
        served(site) as address,
        opened(chromium, address, f"{CHAPTERS[1]}.html", WIDE, "light") as (
            page,
            _,
        ),
    ):
        links = page.locator(".article-header-buttons a[href^=http]")
        home = page.locator("link[rel=canonical]").count()
        assert (links.count() > 0) == bool(home)
        if home:
            page.get_by_role(
                "button", name="Run this chapter elsewhere"
            ).click()
            for name in ("Open in Colab", "Open in Binder"):
                assert page.get_by_role("link", name=name).is_visible()
        for link in links.all():
            box = link.bounding_box() or {"width": 24, "height": 24}
            assert min(box["width"], box["height"]) >= 24


# The formulas of a page, each brought into view: whether it hides a part, whether Tab stops at it, and its name.
BOXES = """async () => { const found = [];
  for (const box of document.querySelectorAll("article mjx-container")) {
    if (box.closest("details:not([open])")) continue;
    const display = box.getAttribute("display") === "true";
    if (display || box.closest("section") !== window.last) box.scrollIntoView({ behavior: "instant", block: "center" });
    if (display) for (let n = 0; n < 6; n++) await new Promise(requestAnimationFrame);
    window.last = box.closest("section");
    found.push([display, display ? box.scrollWidth > box.clientWidth : box.classList.contains("too-wide"),
      box.tabIndex, box.getAttribute("aria-label") ?? ""]);
  } return found; }"""


def test_a_formula_that_hides_a_part_can_be_reached(chromium, home):
    hidden = 0
    for name in (CHAPTERS[1], CHAPTERS[4]):
        with opened(chromium, home, f"{name}.html", NARROW, "light") as (
            page,
            _,
        ):
            boxes = page.evaluate(BOXES)
        assert sum(not display for display, *_ in boxes) > 50, name
        for display, hides, stop, label in boxes:
            hidden += display and hides
            assert (stop, bool(label)) == (
                (0, True) if hides else (-1, False)
            ), name
    assert hidden  # the screen is narrow enough for the question to arise


def test_a_formula_that_is_a_little_too_wide_is_set_smaller(chromium, home):
    with opened(chromium, home, f"{CHAPTERS[1]}.html", WIDE, "light") as (
        page,
        _,
    ):
        formula = page.locator("mjx-container[display='true']").first
        formula.scroll_into_view_if_needed()
        page.wait_for_timeout(200)
        size = "box => parseFloat(getComputedStyle(box).fontSize)"
        cut = "box => box.scrollWidth > box.clientWidth"
        before = formula.evaluate(size)
        wide = formula.evaluate("box => box.firstChild.scrollWidth")
        for share, smallest in ((0.9, 0.85), (0.7, 1)):
            page.locator("article").evaluate(
                "(box, width) => { box.style.width = `${width}px`; }",
                page.locator("article").evaluate("box => box.clientWidth")
                - formula.evaluate("box => box.clientWidth")
                + share * wide,
            )
            page.wait_for_timeout(200)
            assert formula.evaluate(cut) == (smallest == 1)
            assert formula.evaluate(size) >= smallest * before
        page.locator("article").evaluate("box => box.style.width = ''")
        page.wait_for_timeout(200)
        assert formula.evaluate(size) == before


def test_formulas_are_there_for_screen_readers(chromium, home):
    with opened(chromium, home, f"{CHAPTERS[1]}.html", WIDE, "light") as (
        page,
        _,
    ):
        formulas = page.locator("mjx-container").count()
        assert formulas > 10
        assert (
            page.locator("mjx-container mjx-assistive-mml math").count()
            == formulas
        )


# Negative controls: a page with one fault of each kind.

GOOD = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>A page</title>
<link rel="icon" href="data:,"></head>
<body><main><h1>A page</h1><p>Some words.</p></main></body></html>"""
MATHJAX = """<script>window.MathJax = {startup: {}};</script>
<script src="mathjax/tex-chtml-full.js"></script><p class="math">\\(%s\\)</p>"""
FAULTS = {
    "asks outside": '<script src="https://example.org/a.js"></script>',
    "404": '<script src="nowhere.js"></script>',
    "script:": "<script>throw new Error('broken');</script>",
    "console:": "<script>console.error('broken');</script>",
    "px wide": '<div style="width: 600px">wide</div>',
    "formula not set: \\nosuchmacro": MATHJAX % "\\nosuchmacro",
    "formula not set: \\frac": MATHJAX % "\\frac{1}",
    "cut: ": MATHJAX.replace("\\(%s\\)", "\\[%s\\]") % ("x + " * 40 + "x"),
    "formula left": '<p class="math">\\(x\\)</p>',
    "color-contrast": '<p style="color: #aaa; background: #fff">faint</p>',
    "image-alt": '<img src="data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=">',
}


@pytest.fixture
def small(tmp_path):
    extension("offline_assets").copy_mathjax(tmp_path)
    with served(tmp_path) as address:

        def write(fault):
            html = GOOD.replace("</main>", f"{fault}</main>")
            (tmp_path / "page.html").write_text(html, "utf8")
            return address

        yield write


def test_a_good_page_passes(chromium, small):
    address = small(MATHJAX % "\\frac{1}{2}")
    assert look(chromium, address, "page.html", [(PHONE, "light")]) == []


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_found(kind, chromium, small):
    address = small(FAULTS[kind])
    width = WIDE if kind == "color-contrast" else PHONE
    found = look(chromium, address, "page.html", [(width, "light")])
    assert sum(kind in fault for fault in found) == 1, found
