"""A chapter that is printed from the browser: white, whole, without what only a screen can use."""

from __future__ import annotations

import pytest

from tests.pages.browser_faults import WIDE, opened, served
from tests.pages.contents import pages

CHAPTERS = [name for name in pages() if name.startswith("notebooks/")]
# A4 with margins of 16 mm, as browsers lay it out.
PAPER = 672


@pytest.fixture(scope="module")
def home(site):
    with served(site) as address:
        yield address


# What is seen on paper and is of no use there.
TOOLS = """() => [...document.querySelectorAll(
    "nav, button, .bd-sidebar-primary, .bd-sidebar-secondary, .bd-header-article, .prev-next-footer, .headerlink, .live,"
    + " .copybtn, .hint-box, footer, details:not([open])")]
  .filter((one) => one.getClientRects().length && getComputedStyle(one).visibility !== "hidden")
  .map((one) => one.className || one.tagName)"""
# What reaches over the edge of the page, or is hidden in a box.
CUT = """(width) => [...document.querySelectorAll(
    "article mjx-math, article pre, article table, article img, article figure, article svg")]
  .filter((one) => one.getClientRects().length)
  .filter((one) => {
    const box = one.getBoundingClientRect();
    if (box.right > width + 1 || box.left < -1) return true;
    for (let part = one; part && part.tagName !== "ARTICLE"; part = part.parentElement) {
      const how = getComputedStyle(part);
      if (how.overflowX !== "visible" && part.scrollWidth > part.clientWidth + 1 && part.clientWidth) return true;
    }
    return false; })
  .map((one) => `${one.tagName} ${Math.round(one.getBoundingClientRect().width)}: ${one.textContent.trim().slice(0, 50)}`)"""
CLOSED = """() => [...document.querySelectorAll(".solution.toggle-hidden, .solution > section")]
  .filter((one) => one.matches(".toggle-hidden") || one.getBoundingClientRect().height < 10).length"""


def printed(page):
    """The page as it is laid out for paper, and as scripts leave it for paper."""
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": PAPER, "height": 950})
    page.wait_for_timeout(200)


@pytest.mark.parametrize("name", CHAPTERS)
def test_nothing_is_cut_and_nothing_is_there_for_a_screen(
    name, chromium, home
):
    with opened(chromium, home, f"{name}.html", WIDE, "dark") as (page, _):
        printed(page)
        assert page.evaluate(TOOLS) == []
        assert page.evaluate(CUT, PAPER) == []
        assert page.evaluate(CLOSED) == 0
        ground = page.evaluate(
            "getComputedStyle(document.body).backgroundColor"
        )
        assert ground in ("rgb(255, 255, 255)", "rgba(0, 0, 0, 0)")
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        page.emulate_media(media="screen")
        assert (
            page.evaluate("document.documentElement.dataset.theme")
            == "dark"
        )
