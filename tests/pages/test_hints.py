"""A link shows what it leads to: by mouse, touch and keyboard, on the page and from other pages, for no longer than is wanted.

What holds for symbols as well is looked at in test_symbol_hints.py: the box is the same.
"""

from __future__ import annotations

import contextlib
import re
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.pages.browser_faults import PHONE, WIDE, opened, served
from tests.pages.contents import pages
from tests.pages.test_symbol_hints import (
    SYMBOL,
    assert_tap_shows,
    faults_in,
    touched,
)

NAME = next(name for name in pages() if name.startswith("notebooks/05"))
EQUATION = "a[data-hint][href$='#equation-eq-sum-over-heads']"
FIGURE = "a[data-hint][href='#fig-multi-head-blocks']"
CITATION = "a[data-hint][href*='references.html#']"
# What a reader finds in the box, for each kind of thing: page by page, the links and words of what they lead to.
KINDS = {
    NAME: {
        EQUATION: r"\(5\.5\)",
        FIGURE: r"Fig\. 5\.2",
        CITATION: "Attention is all you need",
        "p > a[data-hint][href='#ex-multi-head-order']": r"Exercise 5\.3",
    },
    "notebooks/26_fast_weights": {
        "a[data-hint][href^='#prop-']": r"Proposition \d+\.1",
    },
    "notebooks/14_end_to_end": {
        "a[data-hint][href*='#term-']": "residual connection"
    },
    "book/insights": {
        "a[data-hint][href*='#obs-']": r"Observation \d+\.\d"
    },
}


@pytest.fixture(scope="module")
def home(site):
    with served(site) as address:
        yield address


@contextlib.contextmanager
def pointed(chromium, home, name, link, width=WIDE, scheme="light"):
    with opened(chromium, home, f"{name}.html", width, scheme) as (
        page,
        faults,
    ):
        found = page.locator(link).first
        found.scroll_into_view_if_needed()
        found.hover()
        box = page.locator(".hint-box")
        expect(box).to_be_visible()
        yield page, found, box, faults


@pytest.mark.parametrize("name", KINDS)
def test_a_link_shows_what_it_leads_to(name, chromium, home):
    with opened(chromium, home, f"{name}.html", WIDE, "light") as (
        page,
        faults,
    ):
        box = page.locator(".hint-box")
        for link, words in KINDS[name].items():
            found = page.locator(link).first
            found.scroll_into_view_if_needed()
            found.hover()
            expect(box).to_be_visible()
            expect(box).to_contain_text(re.compile(words))
            place = box.bounding_box()
            assert place["x"] >= 0
            assert place["x"] + place["width"] <= WIDE
            assert place["y"] >= 0
            assert place["y"] + place["height"] <= 900
            # Set formulas, whole pictures, nothing of the page's own tools; nothing that the page has twice.
            assert not re.search(r"\\[a-z(]", box.inner_text())
            tools = "[id], .headerlink, .evidence, button"
            assert box.locator(tools).count() == 0
            for picture in box.locator("img").all():
                expect(picture).to_have_js_property("complete", True)
                assert picture.evaluate("(one) => one.naturalWidth") > 100
        if name == NAME:
            assert faults_in(page, ".hint-box") == []
        assert faults == []


def test_it_goes_when_it_is_not_wanted_and_stays_when_it_is(chromium, home):
    with pointed(chromium, home, NAME, CITATION, scheme="dark") as (
        page,
        link,
        box,
        _,
    ):
        assert faults_in(page, ".hint-box") == []
        # The browser's own box would say the same once more.
        assert link.get_attribute("title") is None
        expect(link).to_have_accessible_description(
            re.compile("Attention is all")
        )
        box.hover()
        page.wait_for_timeout(400)
        expect(box).to_be_visible()
        link.hover()
        page.keyboard.press("Escape")
        expect(box).to_be_hidden()
        assert "Attention is all" in link.get_attribute("title")
        # It does not come back while the pointer stays, on one part of a formula or the other, and does when it comes again.
        symbol = page.locator(SYMBOL).first
        symbol.hover()
        expect(box).to_be_visible()
        page.keyboard.press("Escape")
        place = symbol.bounding_box()
        for x in (2, place["width"] - 2, 2):
            page.mouse.move(
                place["x"] + x, place["y"] + place["height"] / 2
            )
            page.wait_for_timeout(200)
        expect(box).to_be_hidden()
        page.mouse.move(5, 5)
        link.hover()
        expect(box).to_be_visible()
        page.mouse.move(5, 5)
        expect(box).to_be_hidden()


def test_the_keyboard_opens_closes_and_follows(chromium, home):
    with opened(chromium, home, f"{NAME}.html", WIDE, "light") as (page, _):
        link, box = page.locator(EQUATION).first, page.locator(".hint-box")
        page.keyboard.press("Tab")
        link.focus()
        expect(box).to_contain_text("(5.5)")
        assert box.locator("mjx-math").count() == 1
        page.keyboard.press("Escape")
        expect(box).to_be_hidden()
        expect(link).to_be_focused()
        page.keyboard.press("Tab")
        page.keyboard.press("Shift+Tab")
        expect(link).to_be_focused()
        expect(box).to_be_visible()
        page.keyboard.press("Enter")
        expect(box).to_be_hidden()
        assert page.url.endswith("#equation-eq-sum-over-heads")


def test_the_first_tap_shows_and_the_second_follows(chromium, home):
    with touched(chromium, home, NAME) as page:
        box = page.locator(".hint-box")
        for link in (EQUATION, FIGURE, CITATION):
            assert_tap_shows(page, page.locator(link).first)
        assert "#" not in page.url
        page.locator("article h1").tap()
        expect(box).to_be_hidden()
        found = page.locator(EQUATION).first
        found.tap()
        expect(box).to_be_visible()
        box.get_by_role("link", name="Go there").tap()
        page.wait_for_url("**#equation-eq-sum-over-heads")
        found = page.locator(CITATION).first
        found.tap()
        expect(box).to_be_visible()
        found.tap()
        page.wait_for_url("**/references.html#*")


def test_from_a_folder_it_works_as_well(chromium, site):
    """As a book that was copied: a page that has no server may load scripts, and nothing else."""
    page = chromium.new_page()
    page.goto((site / f"{NAME}.html").as_uri())
    link = page.locator(CITATION).first
    link.scroll_into_view_if_needed()
    link.hover()
    expect(page.locator(".hint-box")).to_contain_text("Attention is all")
    assert page.locator(".hint-box").is_visible()
    page.close()


def test_nothing_is_asked_for_before_and_without_scripts_nothing_happens(
    chromium, home
):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{home}{NAME}.html")
    link = page.locator(CITATION).first
    link.hover()
    page.wait_for_timeout(300)
    assert page.locator(".hint-box").count() == 0
    link.click()
    page.wait_for_url("**/references.html#*")
    context.close()
    page = chromium.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{home}{NAME}.html", wait_until="networkidle")
    assert not [one for one in asked if "/hints/" in one]
    page.locator(CITATION).first.hover()
    expect(page.locator(".hint-box")).to_be_visible()
    assert len([one for one in asked if "/hints/" in one]) == 1
    page.close()


def test_what_is_too_long_for_the_screen_is_reached_by_mouse_and_keyboard(
    chromium, home
):
    page = chromium.new_page(viewport={"width": PHONE, "height": 260})
    page.goto(f"{home}{NAME}.html", wait_until="networkidle")
    link = page.locator(FIGURE).first
    page.keyboard.press("Tab")
    link.focus()
    box = page.locator(".hint-box")
    expect(box).to_be_visible()
    assert box.evaluate("(one) => one.scrollHeight > one.clientHeight")
    page.keyboard.press("ArrowDown")
    page.wait_for_function(
        "() => document.querySelector('.hint-box').scrollTop > 0"
    )
    page.close()


# ---- the search ----


ASKED = [
    ("d_model", "symbol-D", "width of all heads together"),
    ("head width", "symbol-D-h", "width of one head"),
    ("H", "symbol-H", "output of head"),
    ("h", "symbol-h", "number of heads"),
    ("softmax", "symbol-sigma", "softmax of each row"),
    ("α", "symbol-alpha", "one weight"),
    ("W^O", "symbol-W-O", "output projection"),
]  # (what is typed, the row that comes first, words of it)


def test_the_search_finds_symbols(chromium, home):
    with opened(chromium, home, "search.html", WIDE, "dark") as (
        page,
        faults,
    ):
        for query, first, words in ASKED:
            page.goto(f"{home}search.html?q={quote(query)}")
            rows = page.locator(".symbol-results li")
            expect(rows.first).to_contain_text(words)
            link = rows.first.locator("a").first
            expect(link).to_have_attribute(
                "href", f"book/symbols.html#{first}"
            )
            assert link.locator("mjx-container").count() >= 1
            assert rows.count() <= 8
        assert faults_in(page, ".symbol-results") == []
        link.click()
        expect(page.locator(f"#{first}")).to_be_in_viewport()
        assert faults == []


def test_the_search_shows_no_symbol_that_was_not_asked_for(chromium, home):
    address = "search.html?q=machine+translation"
    with opened(chromium, home, address, WIDE, "light") as (page, _):
        expect(page.locator("#search-results li").first).to_be_visible()
        assert page.locator(".symbol-results").count() == 0
