"""A symbol in the text shows its line: by mouse and by touch, in light and dark, for no longer than it is wanted."""

from __future__ import annotations

import contextlib

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.pages.browser_faults import (
    EXAMINED,
    PHONE,
    RULES,
    WIDE,
    opened,
    served,
)
from tests.pages.contents import pages

NAME = next(name for name in pages() if name.startswith("notebooks/05"))
SYMBOL = ".symbol-hint[data-symbol='here-symbol-D-h']"
MEANING = "width of one head"


@pytest.fixture(scope="module")
def home(site):
    with served(site) as address:
        yield address


def faults_in(page, part):
    report = Axe().run(
        page, context=EXAMINED | {"include": [[part]]}, options=RULES
    )
    return [fault["id"] for fault in report.response["violations"]]


@contextlib.contextmanager
def pointed(chromium, home, width, scheme):
    """The chapter, with the mouse on the first symbol of a kind."""
    with opened(chromium, home, f"{NAME}.html", width, scheme) as (page, _):
        symbol = page.locator(SYMBOL).first
        symbol.scroll_into_view_if_needed()
        symbol.hover()
        box = page.locator(".symbol-box")
        expect(box).to_be_visible()
        yield page, symbol, box


def test_the_mouse_shows_the_line_of_a_symbol(chromium, home):
    with pointed(chromium, home, WIDE, "light") as (page, symbol, box):
        expect(box).to_contain_text(MEANING)
        expect(box).to_contain_text("In code: D_h")
        assert box.locator("mjx-container").count() == 3  # set already
        assert symbol.get_attribute("aria-describedby") == "symbol-box"
        assert faults_in(page, ".symbol-box") == []
        # The pointer may go to the box, which then stays.
        box.hover()
        page.wait_for_timeout(400)
        expect(box).to_be_visible()
        page.keyboard.press("Escape")
        expect(box).to_be_hidden()
        # Another symbol has another line; away from both there is none.
        page.locator(
            ".symbol-hint[data-symbol='here-symbol-h']"
        ).last.hover()
        expect(box).to_contain_text("number of heads")
        page.mouse.move(5, 5)
        expect(box).to_be_hidden()
        # One that only passes over a symbol opens nothing.
        symbol.hover()
        page.mouse.move(5, 5)
        page.wait_for_timeout(400)
        expect(box).to_be_hidden()
        assert page.locator("[aria-describedby='symbol-box']").count() == 0


def test_in_the_dark_the_box_has_no_faults_and_on_paper_there_is_none(
    chromium, home
):
    with pointed(chromium, home, WIDE, "dark") as (page, _, box):
        assert faults_in(page, ".symbol-box") == []
        page.emulate_media(media="print")
        expect(box).to_be_hidden()


def test_a_tap_opens_and_closes_and_nothing_is_wider_than_a_phone(
    chromium, home
):
    context = chromium.new_context(
        viewport={"width": PHONE, "height": 700}, has_touch=True
    )
    page = context.new_page()
    page.goto(f"{home}{NAME}.html", wait_until="networkidle")
    page.evaluate("() => window.MathJax?.startup?.promise")
    box = page.locator(".symbol-box")
    for symbol in page.locator(".symbol-hint:visible").all()[:24:4]:
        symbol.scroll_into_view_if_needed()
        symbol.tap()
        page.wait_for_timeout(300)  # it does not only flash
        expect(box).to_be_visible()
        place = box.bounding_box()
        assert place["x"] >= 0
        assert place["x"] + place["width"] <= PHONE
        assert (
            page.evaluate("document.documentElement.scrollWidth") <= PHONE
        )
        symbol.tap()
        expect(box).to_be_hidden()
    symbol.tap()
    page.locator("article h1").tap()
    expect(box).to_be_hidden()
    context.close()


def test_the_keyboard_has_the_list_and_no_stop_at_symbols(chromium, home):
    with opened(chromium, home, f"{NAME}.html", PHONE, "light") as (
        page,
        _,
    ):
        handle = page.locator("details.symbols-here > summary")
        line = page.locator("#here-symbol-D-h")
        expect(line).to_be_hidden()
        handle.focus()
        page.keyboard.press("Enter")
        expect(line).to_be_visible()
        expect(line).to_contain_text(MEANING)
        assert (
            page.locator(
                ".symbol-hint[tabindex], .symbol-hint [tabindex='0']"
            ).count()
            == 0
        )
        assert faults_in(page, "details.symbols-here") == []


def test_without_scripts_the_list_is_there(chromium, home):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{home}{NAME}.html")
    page.locator("details.symbols-here > summary").click()
    expect(page.locator("#here-symbol-D-h")).to_contain_text(MEANING)
    page.locator(SYMBOL).first.hover()
    assert page.locator(".symbol-box").count() == 0
    context.close()
