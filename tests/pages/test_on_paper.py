"""A chapter that is printed from the browser: white, whole, without what only a screen can use."""

from __future__ import annotations

import pytest

from tests.pages.browser_faults import WIDE, opened, served
from tests.pages.contents import pages

CHAPTERS = [name for name in pages() if name.startswith("notebooks/")]
# A chapter with code and figures, one with viewers, one with the widest formulas; the others are slow tests.
USUAL = (CHAPTERS[4], CHAPTERS[8], CHAPTERS[21])
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
      const room = part.getBoundingClientRect();
      const hides = getComputedStyle(part).overflowX !== "visible" && getComputedStyle(part).display !== "inline";
      if (hides && (box.right > room.right + 2 || box.left < room.left - 2)) return true;
      if (part === one && (hides || one.tagName === "PRE") && one.scrollWidth > one.clientWidth + 2) return true;
    }
    return false; })
  .map((one) => `${one.tagName} ${Math.round(one.getBoundingClientRect().width)}: ${one.textContent.trim().slice(0, 50)}`)"""
CLOSED = """() => [...document.querySelectorAll(".solution.toggle-hidden, .solution > section")]
  .filter((one) => one.matches(".toggle-hidden") || one.getBoundingClientRect().height < 10).length"""


STATE = """() => [document.documentElement.dataset.theme,
  document.querySelectorAll(".solution.toggle-hidden").length]"""


def printed(page):
    """The page as it is laid out for paper, and as scripts leave it for paper."""
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": PAPER, "height": 950})
    page.wait_for_timeout(200)


@pytest.mark.parametrize(
    "name",
    [
        name
        if name in USUAL
        else pytest.param(name, marks=pytest.mark.slow)
        for name in (*CHAPTERS, "book/symbols", "book/api/layers")
    ],
)
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


def test_scripts_change_the_page_for_paper_and_back(chromium, home):
    with opened(chromium, home, f"{CHAPTERS[4]}.html", WIDE, "dark") as (
        page,
        faults,
    ):
        # After the handlers of the page itself, when a browser prints.
        page.evaluate(
            f"addEventListener('beforeprint', () => {{ window.printed = ({STATE})(); }})"
        )
        before = page.evaluate(STATE)
        assert before[0] == "dark"
        assert before[1] >= 3
        assert page.pdf(format="A4").startswith(b"%PDF")
        assert page.evaluate("window.printed") == ["light", 0]
        assert page.evaluate(STATE) == before
        assert faults == []


# Negative control: a page of which paper would show a part.


def test_what_paper_would_cut_is_found(chromium, tmp_path):
    (tmp_path / "page.html").write_text(
        """<!DOCTYPE html><link rel="icon" href="data:,"><body style="margin: 0"><nav>Contents</nav><article>
        <pre style="overflow: auto">"""
        + "long " * 300
        + """</pre><table style="width: 900px"><tr><td>wide</td></tr></table>
        <div style="overflow-x: auto; width: 300px"><mjx-math style="display: block; width: 400px">x</mjx-math></div>
        <div class="solution toggle-hidden">closed</div>
        <table><tr><td>narrow</td></tr></table><pre style="white-space: pre-wrap">short</pre></article>""",
        "utf8",
    )
    with served(tmp_path) as address:
        page = chromium.new_page()
        page.goto(f"{address}page.html")
        printed(page)
        assert page.evaluate(TOOLS) == ["NAV"]
        found = page.evaluate(CUT, PAPER)
        assert [one.split()[0] for one in found] == [
            "PRE",
            "TABLE",
            "MJX-MATH",
        ]
        assert page.evaluate(CLOSED) == 1
        page.close()
