"""A symbol in the text shows its line: by mouse, touch and keyboard, in light and dark, for no longer than is wanted."""

from __future__ import annotations

import contextlib
import re

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
        box = page.locator(".hint-box")
        expect(box).to_be_visible()
        yield page, symbol, box


@contextlib.contextmanager
def touched(chromium, home, name):
    """A page on a phone, for fingers."""
    context = chromium.new_context(
        viewport={"width": PHONE, "height": 700}, has_touch=True
    )
    page = context.new_page()
    page.goto(f"{home}{name}.html", wait_until="networkidle")
    page.evaluate("() => window.MathJax?.startup?.promise")
    yield page
    context.close()


def assert_tap_shows(page, what):
    """A tap opens the box, which stays, and nothing is wider than the phone."""
    what.scroll_into_view_if_needed()
    what.tap()
    page.wait_for_timeout(300)  # it does not only flash
    box = page.locator(".hint-box")
    expect(box).to_be_visible()
    place = box.bounding_box()
    assert place["x"] >= 0
    assert place["x"] + place["width"] <= PHONE
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE


def test_the_mouse_shows_the_line_of_a_symbol(chromium, home):
    with pointed(chromium, home, WIDE, "light") as (page, symbol, box):
        expect(box).to_contain_text(MEANING)
        expect(box).to_contain_text("In code: D_h")
        assert box.locator("mjx-container").count() == 3  # set already
        assert faults_in(page, ".hint-box") == []
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
        assert page.locator(".symbol-hint.shown").count() == 0


def test_in_the_dark_the_box_has_no_faults_and_on_paper_there_is_none(
    chromium, home
):
    with pointed(chromium, home, WIDE, "dark") as (page, _, box):
        assert faults_in(page, ".hint-box") == []
        page.emulate_media(media="print")
        expect(box).to_be_hidden()


def test_a_tap_opens_and_closes_and_nothing_is_wider_than_a_phone(
    chromium, home
):
    with touched(chromium, home, NAME) as page:
        box = page.locator(".hint-box")
        for symbol in page.locator(".symbol-hint:visible").all()[:24:4]:
            assert_tap_shows(page, symbol)
            symbol.tap()
            expect(box).to_be_hidden()
        symbol.tap()
        page.locator("article h1").tap()
        expect(box).to_be_hidden()


STOPS = """() => [...document.querySelectorAll(".symbol-hint[tabindex='0']")].map((hint) => {
  let part = hint.closest("section");
  while (part && !part.querySelector(":scope > h2")) part = part.parentElement.closest("section");
  return [part?.id ?? "", hint.dataset.symbol]; })"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_keyboard_opens_closes_and_stops_once_in_a_section(
    chromium, home, scheme
):
    with opened(chromium, home, f"{NAME}.html", WIDE, scheme) as (page, _):
        stops = [tuple(stop) for stop in page.evaluate(STOPS)]
        assert len(stops) == len(set(stops)) > 20
        assert len(stops) < page.locator(".symbol-hint").count()
        # From the stop before it, as a reader comes.
        symbol = page.locator(f"{SYMBOL}[tabindex='0']").first
        symbol.scroll_into_view_if_needed()
        box = page.locator(".hint-box")
        page.keyboard.press("Tab")
        symbol.focus()
        expect(box).to_be_visible()
        expect(box).to_contain_text(MEANING)
        expect(symbol).to_have_attribute("aria-expanded", "true")
        expect(symbol).to_have_accessible_name("D h")
        expect(symbol).to_have_accessible_description(
            re.compile("width of one head.*D_h")
        )
        assert faults_in(page, ".hint-box") == []
        page.keyboard.press("Escape")
        expect(box).to_be_hidden()
        expect(symbol).to_be_focused()
        page.keyboard.press("Enter")
        expect(box).to_be_visible()
        page.keyboard.press(" ")
        expect(box).to_be_hidden()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        expect(symbol).not_to_be_focused()
        expect(symbol).to_have_attribute("aria-expanded", "false")


def test_no_paragraph_marks_a_symbol_twice(chromium, home):
    with opened(chromium, home, f"{NAME}.html", WIDE, "light") as (page, _):
        marked = page.evaluate(
            """() => [...document.querySelectorAll("article p")].map((p) =>
            [...p.querySelectorAll(".symbol-hint")].map((hint) => hint.dataset.symbol + hint.dataset.name))"""
        )
    assert sum(map(len, marked)) > 50
    assert all(len(found) == len(set(found)) for found in marked)


def test_the_keyboard_has_the_list_too(chromium, home):
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
        assert faults_in(page, "details.symbols-here") == []


def test_without_scripts_the_list_is_there(chromium, home):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{home}{NAME}.html")
    page.locator("details.symbols-here > summary").click()
    expect(page.locator("#here-symbol-D-h")).to_contain_text(MEANING)
    page.locator(SYMBOL).first.hover()
    assert page.locator(".hint-box").count() == 0
    context.close()
