"""The attention viewer in a browser: by mouse, keyboard and touch, on paper, without scripts, in light and dark.

Two viewers stand on a page as a running notebook shows them, each with its script. The pages of the book that have a
viewer are looked at too.
"""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from playwright.sync_api import expect

from attention_in_detail.figures import attention_viewer
from attention_in_detail.figures.style import contrast
from tests.figures.reading import ENGLISH, GERMAN, rows_of_weights
from tests.pages.browser_faults import (
    PHONE,
    VIEWS,
    WIDE,
    faults_of,
    opened,
    served,
)
from tests.pages.contents import pages

PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Two viewers</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<style>body {{ max-width: 700px; }} img {{ max-width: 100%; height: auto; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #121212; color: #dde3e9; }} }}
body.night {{ background: #111; color: #fff; }}</style></head>
<body><main><h1>Two viewers</h1>{}</main></body></html>"""
WORDS = ["the", "dog", "saw", "the", "old", "man"]
SIX = rows_of_weights(0, 3, 12, 6, 6)
SIX[:, :, :, 4] = 0  # no head looks at "old"
SIX /= SIX.sum(axis=-1, keepdims=True)
CROSSING = rows_of_weights(1, 2, 4, 5)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    viewers = [
        attention_viewer(SIX, WORDS, layer=1, head=2, first=0),
        attention_viewer(
            CROSSING,
            GERMAN,
            ENGLISH,
            title="Crossing",
            query_label="German words",
            key_label="English words",
        ),
    ]
    folder = tmp_path_factory.mktemp("viewers")
    forms = [
        viewer._repr_mimebundle_()[0]["text/html"] for viewer in viewers
    ]
    (folder / "page.html").write_text(PAGE.format("".join(forms)), "utf8")
    even = attention_viewer(
        [[0.25] * 4, [0.4, 0.4, 0.2, 0], [0.332, 0.334, 0.334, 0], [0] * 4],
        list("abcd"),
        list("wxyz"),
    )
    form = even._repr_mimebundle_()[0]["text/html"]
    (folder / "even.html").write_text(PAGE.format(form), "utf8")
    damaged = forms[0].replace('shape="3 12', 'shape="4 12')
    (folder / "damaged.html").write_text(PAGE.format(damaged), "utf8")
    with served(folder) as address:
        yield address


class View:
    """One viewer on a page, as a reader sees it."""

    def __init__(self, page, number):
        self.page = page
        self.host = page.locator("attention-viewer").nth(number)

    def reach(self):
        """Scroll to it: a page of the book lays out a section, and builds a viewer, when its reader comes near."""
        self.host.evaluate("(host) => host.scrollIntoView()")
        expect(self.host.locator(".viewer")).to_have_count(1)

    def tokens(self, side):
        return self.host.locator(f".tokens.{side} button")

    def token(self, side, index):
        return self.tokens(side).nth(index)

    def values(self, side):
        return self.host.locator(f".tokens.{side} .value").all_inner_texts()

    def lines(self):
        return self.host.locator("path").count()

    def map(self, layer, head, heads=12):
        return self.host.locator(".cell button").nth(layer * heads + head)

    def chosen(self):
        """What the selects, and then the grid, say is chosen; and the one map that Tab reaches."""
        return self.host.evaluate(
            """(host) => [[...host.shadowRoot.querySelectorAll("select")].map((s) => Number(s.value)).join(),
            [...host.shadowRoot.querySelectorAll(".cell")].flatMap((c, n) => c.ariaSelected === "true" ? [n] : []).join(),
            [...host.shadowRoot.querySelectorAll(".cell button")].flatMap((b, n) => b.tabIndex === 0 ? [n] : []).join()]"""
        )

    def pinned(self):
        return self.host.locator("[aria-pressed=true]").all_inner_texts()

    def readout(self):
        return self.host.locator(".readout").inner_text()

    def table(self):
        self.host.locator("details").evaluate(
            "(box) => { box.open = true; }"
        )
        rows = self.host.locator("table tr").all()
        return self.host.locator("caption").inner_text(), [
            row.locator("th, td").all_inner_texts() for row in rows
        ]

    def has_focus(self):
        return self.host.evaluate(
            "(host) => host.shadowRoot.activeElement?.innerText ?? null"
        )


@contextlib.contextmanager
def two(chromium, live, width=WIDE, scheme="light", **options):
    """Both viewers, on a page that is to be without faults when it is left."""
    with opened(chromium, live, "page.html", width, scheme) as (
        page,
        faults,
    ):
        yield View(page, 0), View(page, 1)
        assert faults == []


def printed(weights):
    return [f"{w:.2f}" if w else "0" for w in weights]


def drawn(weights, least=0.01):
    return int((np.round(weights, 2) >= least - 1e-9).sum())


def test_at_first_the_lines_are_those_of_the_head_to_begin_with(
    chromium, live
):
    with two(chromium, live) as (first, second):
        assert first.lines() == drawn(SIX[1, 2], 0.05)
        assert second.lines() == drawn(CROSSING[0], 0.05)
        assert first.chosen() == ["1,2", "14", "14"]
        assert second.chosen() == ["0", "0", "0"]
        assert first.tokens("query").count() == 6
        shown = second.host.locator(".tokens.key .token")
        assert shown.all_inner_texts() == ENGLISH
        assert second.host.locator(".side").all_inner_texts() == [
            "German words",
            "English words",
        ]
        assert first.readout().startswith("Layer 1, head 2. ")
        assert second.readout().startswith("Head 1. ")


def test_lines_end_at_their_tokens_and_grow_with_their_weights(
    chromium, live
):
    with two(chromium, live) as (_, view):
        found = view.host.evaluate(
            """(host) => { const root = host.shadowRoot;
            const middles = (side) => [...root.querySelectorAll(`.tokens.${side} button`)].map((button) => {
              const box = button.getBoundingClientRect(); return box.top + box.height / 2; });
            const end = (path, length) => path.getPointAtLength(length).matrixTransform(path.getScreenCTM()).y;
            return [middles("query"), middles("key"), [...root.querySelectorAll("path")].map((path) =>
              [end(path, 0), end(path, path.getTotalLength()),
              Number(path.getAttribute("stroke-width")), path.getAttribute("class")])]; }"""
        )
    queries, keys, lines = (np.array(part, dtype=object) for part in found)
    widths, most = {}, set()
    for start, end, width, name in lines:
        off = np.abs(queries - start), np.abs(keys - end)
        place = tuple(int(distance.argmin()) for distance in off)
        assert max(distance.min() for distance in off) < 1
        widths[place] = width
        if name == "most":
            most.add(place)
    places = [
        (i, j)
        for i, j in np.ndindex(4, 5)
        if drawn(CROSSING[0, i, j], 0.05)
    ]
    assert sorted(widths) == places
    assert most == {(i, int(CROSSING[0, i].argmax())) for i in range(4)}
    for place in places:
        weight = round(float(CROSSING[0][place]), 2)
        assert widths[place] == pytest.approx(1 + 7 * weight, abs=0.006)


def test_mouse(chromium, live):
    with two(chromium, live) as (view, other):
        view.token("query", 1).hover()
        assert view.values("key") == printed(SIX[1, 2, 1])
        assert view.values("query") == [""] * 6
        assert view.lines() == drawn(SIX[1, 2, 1])
        assert "“dog” gives most to" in view.readout()
        view.token("key", 2).hover()
        assert view.values("query") == printed(SIX[1, 2, :, 2])
        assert view.lines() == drawn(SIX[1, 2, :, 2])
        assert "“saw” gets most from" in view.readout()
        view.page.mouse.move(1, 1)
        assert view.lines() == drawn(SIX[1, 2], 0.05)
        view.token("query", 1).click()
        view.page.mouse.move(1, 1)
        assert view.values("key") == printed(SIX[1, 2, 1])
        assert [text.split("\n")[0] for text in view.pinned()] == ["dog"]
        assert "Pinned" in view.readout()
        # The token stays while the head changes: that is how heads are compared.
        view.map(2, 5).click()
        view.page.mouse.move(1, 1)
        assert view.chosen() == ["2,5", "29", "29"]
        assert view.values("key") == printed(SIX[2, 5, 1])
        # Another token is shown while pointed at, then the pinned one again.
        view.token("query", 3).hover()
        assert view.values("key") == printed(SIX[2, 5, 3])
        view.page.mouse.move(1, 1)
        assert view.values("key") == printed(SIX[2, 5, 1])
        view.token("query", 1).click()
        view.page.mouse.move(1, 1)
        assert view.pinned() == []
        assert view.lines() == drawn(SIX[2, 5], 0.05)
        assert other.chosen() == ["0", "0", "0"]
        assert other.lines() == drawn(CROSSING[0], 0.05)


def test_keyboard(chromium, live):
    with two(chromium, live) as (view, other):
        keys = view.page.keyboard
        view.host.locator("select").first.focus()
        keys.press("ArrowDown")  # the next layer
        assert view.chosen() == ["2,2", "26", "26"]
        keys.press("Tab")
        keys.press("ArrowDown")  # the next head
        assert view.chosen() == ["2,3", "27", "27"]
        keys.press("Tab")  # the grid is one stop
        keys.press("ArrowUp")
        keys.press("ArrowLeft")
        assert view.chosen() == ["1,2", "14", "14"]
        for key in ("ArrowUp", "ArrowUp", "Home", "ArrowLeft"):
            keys.press(key)
        assert view.chosen() == ["0,0", "0", "0"]
        keys.press("End")
        keys.press("ArrowRight")
        assert view.chosen() == ["0,11", "11", "11"]
        keys.press("Tab")  # the queries are one stop
        assert view.has_focus().startswith("the\n")
        assert view.values("key") == printed(SIX[0, 11, 0])
        keys.press("ArrowDown")
        assert view.values("key") == printed(SIX[0, 11, 1])
        keys.press("Enter")
        assert len(view.pinned()) == 1
        keys.press("End")
        keys.press("ArrowDown")
        assert view.values("key") == printed(SIX[0, 11, 5])
        keys.press("Tab")  # and so are the keys
        assert view.values("query") == printed(SIX[0, 11, :, 0])
        keys.press("Tab")  # the table
        assert view.values("key") == printed(SIX[0, 11, 1])  # pinned
        keys.press("Enter")
        assert view.host.locator("table").is_visible()
        keys.press("Shift+Tab")
        keys.press("Shift+Tab")
        assert view.has_focus().startswith("man\n")  # where it was left
        keys.press("Escape")
        assert view.pinned() == []
        assert view.lines() == drawn(SIX[0, 11], 0.05)
        keys.press(" ")
        assert len(view.pinned()) == 1
        for _ in range(3):
            keys.press("Tab")
        keys.press("ArrowDown")  # the select of the second viewer
        assert other.chosen() == ["1", "1", "1"]
        assert view.chosen() == ["0,11", "11", "11"]
        assert other.pinned() == []


def test_single_keys_are_kept_from_the_page(chromium, live):
    with two(chromium, live) as (view, _):
        page = view.page
        page.evaluate(
            "() => { window.heard = []; document.onkeydown = (event) => heard.push(event.key); }"
        )
        for place in (view.map(1, 2), view.token("query", 0)):
            place.focus()
            for key in ("ArrowRight", "ArrowDown", "d", "Escape"):
                page.keyboard.press(key)
        assert page.evaluate("heard") == []
        page.keyboard.press("Control+k")  # the search of the book
        assert page.evaluate("heard") == ["Control", "k"]
        # JupyterLab listens before the viewer does, and asks for this.
        asked = view.host.get_attribute("data-lm-suppress-shortcuts")
        assert asked == "true"


def test_touch(chromium, live):
    context = chromium.new_context(
        has_touch=True,
        is_mobile=True,
        viewport={"width": PHONE, "height": 800},
    )
    page = context.new_page()
    page.goto(live + "page.html")
    view = View(page, 0)
    view.token("query", 1).tap()
    assert view.values("key") == printed(SIX[1, 2, 1])
    view.map(0, 7).tap()
    assert view.values("key") == printed(SIX[0, 7, 1])
    view.token("key", 5).tap()
    assert view.values("query") == printed(SIX[0, 7, :, 5])
    view.token("key", 5).tap()
    assert view.pinned() == []
    assert view.lines() == drawn(SIX[0, 7], 0.05)
    context.close()


@pytest.mark.parametrize("width", [WIDE, PHONE, 320])
def test_targets_are_large_enough_and_type_too(chromium, live, width):
    with two(chromium, live, width) as views:
        for view in views:
            view.table()
            small = view.host.evaluate(
                """(host) => [...host.shadowRoot.querySelectorAll("button, select, summary")].flatMap((target) => {
                const box = target.getBoundingClientRect();
                return box.width < 24 || box.height < 24 ? [`${target.outerHTML.slice(0, 60)} ${box.width}`] : []; })"""
            )
            assert small == []
            sizes = view.host.evaluate(
                """(host) => [...host.shadowRoot.querySelectorAll("*")].filter((e) => e.tagName !== "STYLE" &&
                [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
                .map((e) => parseFloat(getComputedStyle(e).fontSize))"""
            )
            assert min(sizes) >= 11


def test_a_page_of_320_pixels_does_not_scroll_sideways(chromium, live):
    with two(chromium, live, 320) as (view, _):
        width = "() => document.documentElement.scrollWidth"
        assert view.page.evaluate(width) == 320
        view.map(0, 11).click()  # the maps scroll in their own box
        assert view.chosen() == ["0,11", "11", "11"]


def test_the_table_follows_the_choice(chromium, live):
    with two(chromium, live) as (view, other):
        caption, (_, *rows) = view.table()
        assert caption == "Layer 1, head 2: the strongest key of each query"
        assert [row[2] for row in rows] == printed(SIX[1, 2].max(axis=1))
        names = ["“the” (position 1)", "“dog”", "“saw”"]
        assert [row[0] for row in rows[:3]] == names
        view.token("query", 0).click()
        caption, rows = view.table()
        assert caption == (
            "Layer 1, head 2: the strongest keys of the query “the” (position 1)"
        )
        row = SIX[1, 2, 0]
        order = [
            j for j in np.argsort(-row, kind="stable") if row[j] > 0.005
        ]
        assert rows[0] == ["Key", "Weight"]
        assert [value for _, value in rows[1:]] == printed(row[order])
        view.token("key", 4).click()
        assert "“old” gets no weight" in view.readout()
        assert view.table()[1][1:] == [["none", "0"]]
        other.host.locator("select").select_option(label="2")
        caption, (_, *rows) = other.table()
        assert caption == "Head 2: the strongest key of each query"
        assert [row[1] for row in rows] == [
            f"“{ENGLISH[j]}”" for j in CROSSING[1].argmax(axis=1)
        ]


def test_keys_that_share_the_largest_weight_are_said_to(chromium, live):
    with opened(chromium, live, "even.html", WIDE, "light") as (
        page,
        faults,
    ):
        view = View(page, 0)
        assert view.host.locator("select, .cell").count() == 0  # one head
        assert view.table()[1][1:] == [
            ["“a”", "4 keys alike", "0.25"],
            ["“b”", "“w”, “x”", "0.40"],
            ["“c”", "“x”, “y”", "0.33"],
            ["“d”", "none", "0"],
        ]
        most = view.host.locator("path.most")
        assert most.count() == 4 + 2 + 2
        view.token("query", 0).click()
        assert "“a” gives the same to each, 0.25." in view.readout()
        view.token("query", 2).click()
        assert "“c” gives most to “x” 0.33, “y” 0.33, “w” 0.33." in (
            view.readout()
        )
        view.token("query", 3).click()
        assert "“d” gives no weight." in view.readout()
        assert faults == []


def test_a_screen_reader_hears_the_end_of_a_run_and_no_hovering(
    chromium, live
):
    with two(chromium, live) as (view, _):
        status = view.host.locator("[role=status]")
        view.host.evaluate(
            """(host) => { host.said = []; const status = host.shadowRoot.querySelector("[role=status]");
            new MutationObserver(() => host.said.push(status.textContent)).observe(status, {childList: true}); }"""
        )
        view.token("query", 1).hover()
        view.page.wait_for_timeout(700)
        assert status.inner_text() == ""
        view.map(1, 2).focus()
        for _ in range(5):
            view.page.keyboard.press("ArrowRight")
        expect(status).to_have_text(
            f"Layer 1, head 7. Largest weight: {largest(SIX[1, 7])}"
        )
        assert len(view.host.evaluate("(host) => host.said")) == 1
        view.token("query", 2).click()
        expect(status).to_contain_text("Pinned: “saw” gives most to")


def largest(weights):
    i, j = np.unravel_index(int(weights.argmax()), weights.shape)
    name = ["“the” (position 1)", *(f"“{w}”" for w in WORDS[1:3])]
    name += ["“the” (position 4)", "“old”", "“man”"]
    return f"{name[i]} to {name[j]}, {weights[i, j]:.2f}."


def test_maps_are_named_and_drawn_from_their_weights(chromium, live):
    with two(chromium, live) as (view, _):
        names = view.host.locator(".cell button")
        assert (
            names.nth(14).get_attribute("aria-label") == "Layer 1, head 2"
        )
        alpha = (
            view.map(1, 2)
            .locator("canvas")
            .evaluate(
                "(c) => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data].filter((_, n) => n % 4 === 3)"
            )
        )
    found = np.array(alpha).reshape(6, 6) / 255
    assert np.abs(found - SIX[1, 2]).max() < 0.01


# The colour of the strongest pixel of a map.
INK = """(c) => { const data = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
  let best = 0; for (let n = 0; n < data.length; n += 4) if (data[n + 3] > data[best + 3]) best = n;
  return [...data].slice(best, best + 3); }"""


def test_maps_are_drawn_in_the_ink_of_the_theme_and_again_when_it_changes(
    chromium, live
):
    with two(chromium, live, scheme="dark") as (view, _):
        canvas = view.map(1, 2).locator("canvas")
        on_dark = canvas.evaluate(INK)
        view.page.emulate_media(color_scheme="light")
        view.page.wait_for_timeout(100)
        on_light = canvas.evaluate(INK)
        assert (
            canvas.evaluate("(c) => getComputedStyle(c).filter") == "none"
        )
    assert contrast(np.array(on_dark) / 255, "#121212") > 7
    assert contrast(np.array(on_light) / 255, "#ffffff") > 7


@pytest.mark.parametrize("views", VIEWS, ids=str)
def test_the_viewers_have_no_faults_with_a_token_pinned(
    chromium, live, views
):
    width, scheme = views
    with opened(chromium, live, "page.html", width, scheme) as (
        page,
        faults,
    ):
        for number in (0, 1):
            view = View(page, number)
            view.table()
            view.token("query", 2).click()
            view.token("key", 1).hover()
        dark = View(page, 0).host.locator(".viewer.dark").count()
        assert dark == (scheme == "dark")
        assert faults + faults_of(page, width) == []


def test_a_theme_that_changes_is_followed(chromium, live):
    with two(chromium, live) as (view, _):
        dark = view.host.locator(".viewer.dark")
        expect(dark).to_have_count(0)
        view.page.evaluate("document.body.className = 'night'")
        expect(dark).to_have_count(1)
        view.page.evaluate("document.body.className = ''")
        expect(dark).to_have_count(0)
        view.page.emulate_media(color_scheme="dark")
        expect(dark).to_have_count(1)


def test_a_viewer_that_is_moved_goes_on(chromium, live):
    with two(chromium, live) as (view, _):
        view.token("query", 1).click()
        view.host.evaluate("(host) => host.parentNode.append(host)")
        moved = View(view.page, 1)
        assert moved.values("key") == printed(SIX[1, 2, 1])
        moved.map(0, 0).click()
        assert moved.chosen() == ["0,0", "0", "0"]
        view.page.evaluate("document.body.className = 'night'")
        expect(moved.host.locator(".viewer.dark")).to_have_count(1)


def test_movement_only_for_those_who_want_it(chromium, live):
    with two(chromium, live) as (view, _):
        look = "(button) => getComputedStyle(button).transitionDuration"
        assert view.token("query", 0).evaluate(look) == "0.12s"
        view.page.emulate_media(reduced_motion="reduce")
        assert view.token("query", 0).evaluate(look) == "0s"


def test_paper_gets_the_picture(chromium, live):
    with two(chromium, live) as (view, _):
        picture = view.host.locator("img")
        assert view.host.locator("svg").is_visible()
        assert not picture.is_visible()
        view.page.emulate_media(media="print")
        assert picture.is_visible()
        assert not view.host.locator("svg").is_visible()
        assert not view.host.locator("select").first.is_visible()


def pictures_without_scripts(chromium, address):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    pictures = page.locator("attention-viewer img:not([hidden])")
    found = [
        (picture.is_visible(), picture.bounding_box()["width"] > 200)
        for picture in pictures.all()
    ]
    context.close()
    return found


def test_without_scripts_the_picture_is_there(chromium, live):
    found = pictures_without_scripts(chromium, live + "page.html")
    assert found == [(True, True)] * 2


def test_damaged_data_leave_the_picture(chromium, live):
    with opened(chromium, live, "damaged.html", WIDE, "light") as (
        page,
        faults,
    ):
        assert page.locator("attention-viewer img").is_visible()
    assert len(faults) == 1
    assert "weights do not fit their shape" in faults[0]


# ---- the pages of the book ----


@pytest.fixture(scope="module")
def home(site):
    with served(site) as address:
        yield address


@pytest.fixture(scope="module")
def with_viewer(site):
    places = {name: site / f"{name}.html" for name in pages()}
    found = [
        name
        for name, path in places.items()
        if path.is_file() and "<attention-viewer " in path.read_text("utf8")
    ]
    if not found:
        pytest.skip("no page of this book has a viewer")
    return found


@pytest.mark.parametrize(
    "views",
    [
        (PHONE, "light"),
        pytest.param((WIDE, "dark"), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_viewers_of_the_book_have_no_faults(
    chromium, home, with_viewer, views
):
    width, scheme = views
    for name in with_viewer:
        with opened(chromium, home, f"{name}.html", width, scheme) as (
            page,
            faults,
        ):
            for number in range(page.locator("attention-viewer").count()):
                view = View(page, number)
                view.reach()
                view.table()
                view.token("query", 1).click()
                if view.host.locator(".cell").count() > 1:
                    view.host.locator(".cell button").last.click()
                assert len(view.pinned()) == 1
                dark = view.host.locator(".viewer.dark").count()
                assert dark == (scheme == "dark")
            assert faults + faults_of(page, width) == [], name


def test_viewers_of_the_book_follow_its_switch_and_print(
    chromium, home, with_viewer
):
    for name in with_viewer:
        with opened(chromium, home, f"{name}.html", WIDE, "light") as (
            page,
            faults,
        ):
            view = View(page, 0)
            view.reach()
            expect(view.host.locator(".viewer.dark")).to_have_count(0)
            page.evaluate("document.documentElement.dataset.theme = 'dark'")
            expect(view.host.locator(".viewer.dark")).to_have_count(1)
            page.emulate_media(reduced_motion="reduce")
            for theme, dark in (("light", 0), ("dark", 1)):
                page.evaluate(
                    "(theme) => { document.documentElement.dataset.theme = theme; }",
                    theme,
                )
                expect(view.host.locator(".viewer.dark")).to_have_count(
                    dark
                )
            page.emulate_media(media="print")
            assert view.host.locator("img.on-light").is_visible()
            assert not view.host.locator("img.on-dark").is_visible()
            assert not view.host.locator("svg").is_visible()
            assert faults == []
        found = pictures_without_scripts(chromium, f"{home}{name}.html")
        assert found
        assert set(found) == {(True, True)}


def test_a_viewer_of_the_book_is_built_when_its_reader_comes_near(
    chromium, home, with_viewer
):
    with opened(
        chromium, home, f"{with_viewer[-1]}.html", PHONE, "light"
    ) as (page, faults):
        view = View(page, 0)
        built = "(host) => host.shadowRoot !== null"
        page.wait_for_timeout(500)
        assert not view.host.evaluate(built)
        # Until then its picture is there, also for who never comes by sight.
        assert view.host.locator("img.on-light").get_attribute("alt")
        # One screen before it is seen: what stands above it comes to the foot of the screen.
        view.host.evaluate(
            """(host) => { const cell = host.closest("div.cell");
            cell.previousElementSibling.scrollIntoView({ block: "end" }); }"""
        )
        expect(view.host.locator(".viewer")).to_have_count(1)
        assert view.host.bounding_box()["y"] > 800
        assert faults == []
