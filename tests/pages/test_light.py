"""Light pages: what a chapter weighs before anything is run, that nothing jumps, and that it reads without scripts.

Only what comes out the same each time is judged. Scores, which move with the machine, are in the file that CONTRIBUTING.md
names.
"""

from __future__ import annotations

import gzip
import re

import pytest

from tests.extension_support import extension
from tests.pages.browser_faults import PHONE, WIDE, opened, served
from tests.pages.contents import pages

CHAPTERS = [name for name in pages() if name.startswith("notebooks/")]
MOST_KIB, MOST_REQUESTS, MOST_SHIFT = 300, 25, 0.05
PACKED = {".woff", ".woff2", ".png", ".jpg", ".webp"}
# What has moved without the reader, as browsers measure it.
SHIFT = """() => new Promise((done) => { let sum = 0;
  new PerformanceObserver((list) => { for (const one of list.getEntries()) if (!one.hadRecentInput) sum += one.value; })
    .observe({ type: "layout-shift", buffered: true });
  setTimeout(() => done(sum), 300); })"""
# Each formula has a size, and letters of the typefaces of formulas.
BLANK = """() => [...document.querySelectorAll("article .math")].filter((place) => {
  const set = place.querySelector("mjx-math"), hidden = place.closest("details:not([open])");
  return !set || (!hidden && set.getBoundingClientRect().height < 4); }).map((place) => place.textContent.slice(0, 60))"""
ROUGH = """() => [...document.querySelectorAll("article .math")].filter((place) =>
  /\\\\[a-zA-Z([]/.test(place.textContent)).map((place) => place.textContent.slice(0, 60))"""


@pytest.fixture(scope="module")
def home(site):
    if (site / "_static/mathjax/tex-chtml-full.js").is_file():
        # Without Node the build leaves the formulas to the browser, and says so.
        assert extension("set_formulas").find_node() is None
        pytest.skip("there was no Node to set the formulas with")
    with served(site) as address:
        yield address


def packed(file) -> int:
    """How many bytes a host sends for a file."""
    data = file.read_bytes()
    if file.suffix in PACKED:
        return len(data)
    return len(gzip.compress(data, 6, mtime=0))


def weight(site, home, addresses):
    """(KiB besides figures, number of requests) of what a page asked for."""
    files = [
        site / address[len(home) :].split("#")[0].split("?")[0]
        for address in addresses
        if address.startswith(home)
    ]
    besides = [file for file in files if file.parent.name != "_images"]
    return sum(map(packed, besides)) / 1024, len(files)


def asked(chromium, home, name, width):
    """What a page asks for when it is opened and nothing is done, and how far its parts have moved."""
    page = chromium.new_page(viewport={"width": width, "height": 820})
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    page.goto(f"{home}{name}.html", wait_until="networkidle")
    shift = page.evaluate(SHIFT)
    page.close()
    return addresses, shift


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_is_light_and_nothing_jumps(
    name, chromium, site, home, record_property
):
    addresses, shift = asked(chromium, home, name, PHONE)
    kib, requests = weight(site, home, addresses)
    told = f"{kib:.0f} KiB, {requests} requests, layout shift {shift:.3f}"
    print(f"{name}: {told}")
    record_property("weight", told)
    assert kib <= MOST_KIB, told
    assert requests <= MOST_REQUESTS, told
    assert shift < MOST_SHIFT, told
    assert not [address for address in addresses if "tex-" in address]


@pytest.mark.parametrize("name", ["book/index", CHAPTERS[1], CHAPTERS[4]])
def test_nothing_jumps_on_a_wide_screen(name, chromium, home):
    _, shift = asked(chromium, home, name, WIDE)
    assert shift < MOST_SHIFT


def test_no_page_has_the_script_of_mathjax(site, home):
    pages = [
        path for path in site.rglob("*.html") if "_static" not in path.parts
    ]
    assert len(pages) > 30
    told = [
        path
        for path in pages
        if re.search(
            r"<script>window\.MathJax|<script[^>]*tex-chtml",
            path.read_text("utf8"),
        )
    ]
    assert told == []


@pytest.mark.parametrize("name", [CHAPTERS[1], CHAPTERS[4], "book/symbols"])
def test_without_scripts_a_page_reads_whole(name, chromium, home):
    context = chromium.new_context(
        java_script_enabled=False, viewport={"width": 1280, "height": 900}
    )
    page = context.new_page()
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    page.goto(f"{home}{name}.html", wait_until="networkidle")
    fonts = {
        address.rsplit("_", 1)[-1].split(".")[0]
        for address in addresses
        if "MathJax_" in address
    }
    assert {"Main-Regular", "Math-Italic"} <= fonts
    assert page.evaluate(BLANK) == []
    assert page.evaluate(ROUGH) == []
    assert page.locator("mjx-container").count() > 100
    context.close()


# Where the reader is, once nothing moves any more: for half a second the same place.
AT_REST = """() => { const now = [scrollY, document.documentElement.scrollHeight].join();
  if (now !== window.lastPlace) { window.lastPlace = now; window.since = performance.now(); }
  return document.readyState === "complete" && performance.now() - window.since > 500; }"""
TOP = """(id) => document.getElementById(id).querySelector("h2, h3").getBoundingClientRect().top"""


def slow_page(chromium, times):
    page = chromium.new_page(viewport={"width": PHONE, "height": 820})
    page.context.new_cdp_session(page).send(
        "Emulation.setCPUThrottlingRate", {"rate": times}
    )
    return page


@pytest.mark.parametrize(
    "times",
    [
        pytest.param(1, marks=pytest.mark.slow),
        6,
        pytest.param(20, marks=pytest.mark.slow),
    ],
)
def test_a_link_to_a_place_leads_there(times, chromium, home):
    """Although the sections before it were never laid out, and however slow the machine of the reader is."""
    page = slow_page(chromium, times)
    page.goto(f"{home}{CHAPTERS[4]}.html")
    places = page.evaluate(
        """() => [...document.querySelectorAll("article section > section")].map((one) => one.id)"""
    )
    assert len(places) > 4
    # The last is not at the top, since the page ends below it.
    for place in (places[2], places[-1]):
        highest = 820 if place == places[-1] else 200
        page.close()
        page = slow_page(chromium, times)
        page.goto(f"{home}{CHAPTERS[4]}.html#{place}")
        page.wait_for_function(AT_REST)
        assert 0 <= page.evaluate(TOP, place) < highest, place
    page.close()
    page = slow_page(chromium, times)
    page.goto(f"{home}{CHAPTERS[4]}.html")
    for place in (places[len(places) // 2],):
        page.evaluate("(id) => { location.hash = id; }", place)
        page.wait_for_function(AT_REST)
        assert 0 <= page.evaluate(TOP, place) < 200, place
    page.close()


def test_a_letter_of_every_formula_is_in_the_fonts(chromium, home):
    """A cut typeface without a letter would show another's: each that a page asks for has all it is asked for."""
    with opened(chromium, home, f"{CHAPTERS[4]}.html", WIDE, "light") as (
        page,
        faults,
    ):
        assert faults == []
        assert (
            page.evaluate(
                """() => [...document.fonts].filter((font) => font.status === "error").map((font) => font.family)"""
            )
            == []
        )


# Negative controls: a page that jumps, and one that weighs too much.


def test_a_page_that_jumps_and_one_that_is_heavy_are_found(
    chromium, tmp_path
):
    (tmp_path / "big.js").write_bytes(bytes(range(256)) * 4)
    (tmp_path / "_images").mkdir()
    (tmp_path / "_images" / "a.png").write_bytes(b"0" * 5000)
    (tmp_path / "page.html").write_text(
        """<!DOCTYPE html><link rel="icon" href="data:,"><body style="margin: 0"><div id="a"></div><h1>Words</h1>
        <img src="_images/a.png" width="1" height="1" alt=""><p style="height: 600px; background: red">More</p>
        <script src="big.js"></script><script>addEventListener("load", () => setTimeout(() =>
        document.getElementById("a").style.height = "300px", 100))</script>""",
        "utf8",
    )
    (tmp_path / "still.html").write_text(
        '<!DOCTYPE html><link rel="icon" href="data:,"><h1>Words</h1>',
        "utf8",
    )
    with served(tmp_path) as address:
        addresses, shift = asked(chromium, address, "page", PHONE)
        kib, requests = weight(tmp_path, address, addresses)
        assert requests == 3
        assert 0.5 < kib < 1.5  # without the figure, which weighs 5
        assert shift > MOST_SHIFT
        _, still = asked(chromium, address, "still", PHONE)
        assert still == 0
