"""Figures on the page: the drawing of the reader's theme, on its ground, alone, once for whoever hears it, and still."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_rgb

from attention_in_detail.figures.style import DARK, LIGHT
from tests.pages.browser_faults import PHONE, WIDE, opened, served
from tests.pages.contents import pages

CHAPTERS = [name for name in pages() if name.startswith("notebooks/")]
CHAPTER = f"{CHAPTERS[1]}.html"
THEMES = pytest.mark.parametrize("scheme", ["light", "dark"])

# Of all pictures with two drawings: [on which ground, seen or not, loaded or not].
LOOK = """() => [...document.querySelectorAll("img.on-light, img.on-dark")].map((image) => [
  image.classList.contains("on-dark") ? "dark" : "light", image.checkVisibility(), image.naturalWidth > 0])"""
# As a reader goes through the page: each picture is waited for.
THROUGH = """async () => {
  for (const image of document.querySelectorAll("img.notebook-figure")) {
    if (!image.checkVisibility()) continue;
    image.scrollIntoView({ behavior: "instant", block: "center" });
    for (let n = 0; n < 200 && !image.complete; n++) await new Promise((done) => setTimeout(done, 10));
  }
}"""
# The pixels of the corners of what is seen, and whether a filter changes them.
CORNERS = """() => [...document.querySelectorAll("img.on-light, img.on-dark")]
  .filter((i) => i.checkVisibility()).map((image) => {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  let filters = "";
  for (let box = image; box; box = box.parentElement) filters += getComputedStyle(box).filter.replace("none", "");
  return [[...context.getImageData(1, 1, 1, 1).data].slice(0, 3).join(), filters]; })"""
GROUND = """() => { let box = document.querySelector("article");
  for (; box; box = box.parentElement) { const colour = getComputedStyle(box).backgroundColor;
    if (!/, 0\\)|transparent/.test(colour)) return colour.match(/\\d+/g).slice(0, 3).join(); } }"""
THEME = "document.documentElement.dataset.theme"
# The boxes of what is on the screen, and what has moved there since they were taken.
IN_VIEW = """() => [...document.querySelectorAll("figure, figure img, article h2, article p")]
  .map((part) => part.getBoundingClientRect())
  .filter((box) => box.width && box.bottom > 0 && box.top < innerHeight)
  .map((box) => [box.x, box.y, box.width, box.height].join())"""
WATCH = """() => { window.moved = 0; new PerformanceObserver((list) => {
  for (const one of list.getEntries()) if (!one.hadRecentInput) window.moved += one.value; })
  .observe({ type: "layout-shift" }); }"""


@pytest.fixture(scope="module")
def home(site):
    with served(site) as address:
        yield address


def told(used):
    return ",".join(str(round(255 * part)) for part in to_rgb(used.ground))


@THEMES
@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_a_page_shows_one_drawing_of_each_figure_and_loads_no_other(
    chromium, home, width, scheme
):
    with opened(chromium, home, CHAPTER, width, scheme) as (page, faults):
        page.evaluate(THROUGH)
        looks = page.evaluate(LOOK)
        assert len(looks) >= 4
        assert len(looks) % 2 == 0
        for ground, seen, loaded in looks:
            assert seen == loaded == (ground == scheme)
        assert faults == []


@THEMES
def test_a_drawing_is_on_the_ground_of_the_page_and_nothing_filters_it(
    chromium, home, scheme
):
    with opened(chromium, home, CHAPTER, WIDE, scheme) as (page, _):
        page.evaluate(THROUGH)
        ground = told({"light": LIGHT, "dark": DARK}[scheme])
        assert page.evaluate(GROUND) == ground
        found = page.evaluate(CORNERS)
        assert found
        assert {tuple(one) for one in found} == {(ground, "")}


@THEMES
def test_a_figure_is_heard_once(chromium, home, scheme):
    with opened(chromium, home, CHAPTER, WIDE, scheme) as (page, _):
        for image in page.locator("img.on-light").all():
            words = image.get_attribute("alt")
            heard = page.get_by_role("img", name=words, exact=True)
            assert heard.count() == 1


def test_the_switch_changes_the_drawing_and_moves_nothing(chromium, home):
    with opened(chromium, home, CHAPTER, WIDE, "light") as (page, faults):
        page.evaluate(THROUGH)
        figure = page.locator("figure:has(img.on-dark)").last
        figure.scroll_into_view_if_needed()
        before = page.evaluate(IN_VIEW)
        page.evaluate(WATCH)
        # By a script: what moves right after a reader's own click is not counted.
        for _ in range(3):
            if page.evaluate(THEME) == "dark":
                break
            page.evaluate(
                "document.querySelector('button.theme-switch-button').click()"
            )
        assert page.evaluate(THEME) == "dark"
        page.wait_for_function(
            "() => [...document.querySelectorAll('figure img.on-dark')].at(-1).naturalWidth > 0"
        )
        page.wait_for_timeout(200)
        assert page.evaluate(IN_VIEW) == before
        assert page.evaluate("window.moved") < 0.001
        page.evaluate(THROUGH)
        for ground, seen, _ in page.evaluate(LOOK):
            assert seen == (ground == "dark")
        assert {one[0] for one in page.evaluate(CORNERS)} == {told(DARK)}
        assert faults == []


def test_paper_has_the_light_drawing(chromium, home):
    with opened(chromium, home, CHAPTER, WIDE, "dark") as (page, _):
        page.emulate_media(media="print", color_scheme="dark")
        for ground, seen, _ in page.evaluate(LOOK):
            assert seen == (ground == "light")


def test_without_scripts_a_page_is_light_and_so_are_its_figures(
    chromium, home
):
    context = chromium.new_context(
        java_script_enabled=False, color_scheme="dark"
    )
    page = context.new_page()
    page.goto(home + CHAPTER, wait_until="networkidle")
    looks = page.evaluate(LOOK)
    context.close()
    assert looks
    for ground, seen, _ in looks:
        assert seen == (ground == "light")


def test_a_page_is_light_while_it_is_printed(chromium, home):
    with opened(chromium, home, CHAPTER, WIDE, "dark") as (page, faults):
        for event, theme in (
            ("beforeprint", "light"),
            ("afterprint", "dark"),
        ):
            page.evaluate("(name) => dispatchEvent(new Event(name))", event)
            assert page.evaluate(THEME) == theme
        assert faults == []
