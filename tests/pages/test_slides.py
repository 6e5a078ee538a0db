"""The decks as they are built from the pages: whole, offline, nothing cut on a screen, a phone or paper."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.extension_support import loaded
from tests.pages.browser_faults import CUT as HIDDEN
from tests.pages.browser_faults import (
    PHONE,
    WIDE,
    faults_of,
    look,
    opened,
    served,
)

ROOT = Path(__file__).resolve().parents[2]
build_slides = loaded(ROOT / "tools/build_slides.py")
NAMES = [deck.name for deck in build_slides.decks()]
# It has formulas, figures, listings, outputs, a table and a task.
USUAL = "02_attention"
# Letters of a slide are at most this much smaller than usual, and figures at least this part of what pages have.
LETTERS, FIGURES = 0.6, 0.6

# What lies outside its slide, under a number, or in a box that is too small. All slides are laid out.
CUT = """() => [...document.querySelectorAll(".slide")].flatMap((slide) => {
  const room = slide.querySelector(".body").getBoundingClientRect(), faults = [];
  const say = (what, part) => faults.push(`slide ${slide.id}: ${what}: ${part.textContent.trim().slice(0, 40)}`);
  for (const part of slide.querySelectorAll(".body :is(p, li, pre, table, mjx-math, img, div.admonition)")) {
    const box = part.getBoundingClientRect();
    if (!box.width) continue;
    if (box.right > room.right + 2 || box.bottom > room.bottom + 2 || box.left < room.left - 2 || box.top < room.top - 2)
      say("cut", part);
    if (part.matches("pre") && part.scrollWidth > part.clientWidth + 2) say("cut line", part);
  }
  for (const number of slide.querySelectorAll(".eqno")) {
    const own = number.getBoundingClientRect(), set = number.parentElement.querySelector("mjx-math").getBoundingClientRect();
    if (own.left < set.right && own.top < set.bottom && own.bottom > set.top) say("number on the formula", number);
  }
  const heading = slide.querySelector("h1, h2").getBoundingClientRect();
  if (heading.bottom > room.top + 1 || heading.right > slide.getBoundingClientRect().right) say("title", slide);
  for (const img of slide.querySelectorAll("img.on-light")) {
    const box = img.getBoundingClientRect();
    const part = Math.min(box.width / img.getAttribute("width"), box.height / img.getAttribute("height"));
    if (part < FIGURES) faults.push(`slide ${slide.id}: a figure at ${part.toFixed(2)} of its size`);
  }
  const letters = Number(slide.style.getPropertyValue("--fit") || 1);
  if (letters < LETTERS) faults.push(`slide ${slide.id}: letters at ${letters}`);
  return faults; })"""
CUT = CUT.replace("LETTERS", str(LETTERS)).replace("FIGURES", str(FIGURES))
FITTED = "document.documentElement.dataset.fitted !== undefined"


@pytest.fixture(scope="module")
def decks(site, tmp_path_factory):
    folder = tmp_path_factory.mktemp("slides")
    build_slides.build(ROOT, site, folder, [])
    return folder


@pytest.fixture(scope="module")
def home(decks):
    with served(decks) as address:
        yield address


def test_the_list_leads_to_all_decks_and_every_file_is_there(decks):
    index = (decks / "index.html").read_text("utf8")
    linked = re.findall(r'<li><a href="(\w+)\.html">', index)
    assert sorted(linked) == NAMES
    for page in decks.glob("*.html"):
        text = page.read_text("utf8")
        addresses = re.findall(r'\b(?:src|href)="([^"]+)"', text)
        missing = [one for one in addresses if not (decks / one).is_file()]
        assert missing == [], page.name
        assert "$" not in re.sub(r"<pre.*?</pre>", "", text, flags=re.S)


def test_a_formula_on_a_slide_is_the_one_of_the_page(decks, site):
    """Set when the book is built, with what screen readers read."""
    page = (site / f"notebooks/{USUAL}.html").read_text("utf8")
    slides = (decks / f"{USUAL}.html").read_text("utf8")
    found = re.findall("<mjx-container.*?</mjx-container>", slides, re.S)
    assert len(found) > 10
    assert all(formula in page for formula in found)
    assert all("<mjx-assistive-mml" in formula for formula in found)


def on_paper(page):
    """What is wrong with the deck as it is printed. A slide has the same proportions on a screen."""
    number = page.locator(".slide").count()
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    faults = page.evaluate(CUT)
    if page.locator(".slide:visible").count() != number:
        faults.append("slides are missing on paper")
    if page.locator(".bar:visible, .notes:visible").count():
        faults.append("paper has what is for a screen")
    lost = page.locator("img.on-light:not(:visible)").count()
    if lost or page.locator("img.on-dark:visible").count():
        faults.append("paper has drawings for a dark ground")
    sheets = page.pdf(prefer_css_page_size=True)
    if len(re.findall(rb"/Type /Page\b", sheets)) != number:
        faults.append("a slide is not one sheet")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    return faults


def read_through(page):
    """What is wrong with all slides below one another, their notes open, and with them on a phone."""
    page.evaluate("document.documentElement.className = 'read'")
    page.evaluate(
        "for (const one of document.querySelectorAll('details')) one.open = true"
    )
    faults = faults_of(page, WIDE)
    page.set_viewport_size({"width": PHONE, "height": 800})
    page.wait_for_timeout(100)
    reach = page.evaluate("document.documentElement.scrollWidth")
    if reach > PHONE:
        faults.append(f"{reach} px wide on a phone")
    return [*faults, *page.evaluate(HIDDEN)]


@pytest.mark.parametrize(
    "name",
    [
        name
        if name == USUAL
        else pytest.param(name, marks=pytest.mark.slow)
        for name in NAMES
    ],
)
def test_nothing_is_cut_on_a_screen_a_phone_or_paper(name, chromium, home):
    with opened(chromium, home, f"{name}.html", WIDE, "dark") as (
        page,
        faults,
    ):
        page.wait_for_function(FITTED)
        assert on_paper(page) == []
        assert read_through(page) == []
        assert faults == []


def test_a_deck_is_read_on_a_phone(chromium, home):
    views = [(PHONE, "light"), (WIDE, "light")]
    assert look(chromium, home, f"{USUAL}.html", views) == []


def test_the_list_of_decks_is_a_page_without_faults(chromium, home):
    views = [(PHONE, "dark"), (WIDE, "light")]
    assert look(chromium, home, "index.html", views) == []


def test_a_talk_is_held_by_keys_with_notes_in_a_window_of_their_own(
    chromium, home
):
    with opened(chromium, home, f"{USUAL}.html", WIDE, "light") as (
        page,
        faults,
    ):
        page.wait_for_function(FITTED)
        seen = page.locator(".slide:visible")
        assert seen.count() == 1
        for key, number in [("ArrowRight", 2), (" ", 3), ("ArrowLeft", 2)]:
            page.keyboard.press(key)
            assert seen.get_attribute("id") == str(number)
        page.keyboard.press("End")
        assert page.get_by_role("heading", name="Your turn").is_visible()
        page.keyboard.press("o")
        assert seen.count() == page.locator(".slide").count()
        page.locator(".slide").nth(3).click()
        assert seen.get_attribute("id") == "4"
        page.keyboard.press("t")
        assert page.locator("html").get_attribute("data-theme") == "dark"
        with page.context.expect_page() as opening:
            page.keyboard.press("s")
        notes = opening.value
        notes.wait_for_function("document.querySelector('.slide.current')")
        assert notes.locator(".note:visible").count() > 0
        notes.keyboard.press("ArrowRight")
        page.wait_for_function("location.hash === '#5'")
        page.keyboard.press("ArrowRight")
        notes.wait_for_function("location.hash === '#6'")
        notes.close()
        assert faults == []


def test_without_scripts_all_slides_and_notes_are_there(chromium, home):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{home}{USUAL}.html")
    number = page.locator(".slide").count()
    assert number > 5
    assert page.locator(".slide:visible").count() == number
    assert page.locator(".notes summary:visible").count() == number
    context.close()
