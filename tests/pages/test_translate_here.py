"""The trained model on its page: nothing comes unasked, and what is typed is answered, for each kind of reader.

The slow tests run on a Pyodide, as those of test_live_pages.py do.
"""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from attention_in_detail.tasks.number_words import (
    german_words,
    split_numbers,
)
from attention_in_detail.tasks.scores import translations
from attention_in_detail.tasks.tracing import traced_translation
from attention_in_detail.trained import trained_number_words
from tests.pages.browser_faults import PHONE, WIDE, served
from tests.pages.contents import pages
from tests.pages.test_live_pages import (
    MOST_SHIFT,
    MOVED,
    WATCH,
    chapter,
    faults_in,
)

PAGE = next(name for name in pages() if "14_" in name)
ASK = ".live-ask"
FIELD, BUTTON, SAYS = f"{ASK} input", f"{ASK} form button", "#ask-says"
ROWS = f"{ASK} .pst-scrollable-table-container tbody tr"


@pytest.fixture(scope="module")
def home(site):
    with served(site) as address:
        yield address


def state(page, *wanted, timeout=120_000):
    page.wait_for_function(
        "(wanted) => wanted.includes(document.querySelector('.live-ask').dataset.state)",
        arg=list(wanted),
        timeout=timeout,
    )
    return page.get_attribute(ASK, "data-state")


def ask(page, text):
    """Type and press Enter, as someone without a mouse does; return what is said."""
    page.focus(FIELD)
    page.keyboard.press("Control+A")
    page.keyboard.type(text)
    page.keyboard.press("Enter")
    page.wait_for_function(
        "document.querySelector('.live-ask').dataset.state === 'ready'"
    )
    return page.text_content(SAYS)


def rows(page):
    return [
        row.locator("th, td").all_text_contents()
        for row in page.locator(ROWS).all()
    ]


# Before a reader asks


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_comes_before_it_is_asked_for_and_the_offer_names_it(
    scheme, chromium, home, site
):
    weights = site / "_static/live/attention_in_detail.trained.zip"
    megabytes = f"{weights.stat().st_size / 1e6:.1f}"
    with chapter(
        chromium, home, PAGE, width=PHONE, color_scheme=scheme
    ) as page:
        page.locator(ASK).scroll_into_view_if_needed()
        ours = [url for url in page.asked if "/live/" in url]
        assert [url.partition("?")[0] for url in ours] == [
            f"{home}_static/live/start.js"
        ]
        assert not [url for url in page.asked if not url.startswith(home)]
        text = page.text_content(SAYS)
        assert "MB from cdn.jsdelivr.net" in text
        assert (
            f"its weights: {megabytes}\N{NO-BREAK SPACE}MB from this site"
            in text
        )
        # Who hears the page hears it with the field.
        described = page.locator(FIELD).get_attribute("aria-describedby")
        assert f"#{described}" == SAYS
        assert faults_in(page, ASK) == []
        for part in (FIELD, BUTTON):
            box = page.locator(part).bounding_box()
            assert box["height"] >= 24
            assert box["x"] + box["width"] <= PHONE
        link = page.locator(".live-notice a[href^='#']")
        assert link.text_content() == "ask it yourself"
        link.click()
        section = page.locator(ASK).locator("xpath=ancestor::section[1]")
        expect(section.locator("h2, h3").first).to_be_in_viewport()
        assert page.faults == []


def test_without_scripts_the_stored_steps_are_there_and_no_form(
    chromium, home
):
    with chapter(chromium, home, PAGE, java_script_enabled=False) as page:
        assert page.locator(FIELD).is_hidden()
        assert page.locator(SAYS).is_hidden()
        assert "Without scripts" in page.text_content(f"{ASK} noscript")
        assert page.locator(f"{ASK} noscript p").is_visible()
        before = page.locator(
            "div.cell", has_text="traced_translation(model"
        )
        assert (
            "siebzig 0.999" in before.locator(".cell_output").text_content()
        )


def test_where_pyodide_cannot_be_reached_it_says_so(chromium, home):
    with chapter(chromium, home, PAGE, width=PHONE) as page:
        page.locator(ASK).scroll_into_view_if_needed()
        page.evaluate(WATCH)
        page.fill(FIELD, "12")
        page.press(FIELD, "Enter")
        assert state(page, "failed", timeout=30_000)
        text = page.text_content(SAYS)
        assert text.startswith("cdn.jsdelivr.net cannot be reached")
        assert "stored outputs, is whole" in text
        assert faults_in(page, ASK) == []
        assert page.input_value(FIELD) == "12"
        assert page.text_content(BUTTON) == "Load the model"
        assert page.locator(f"{ASK} .live-answer").count() == 0
        assert page.evaluate(MOVED) < MOST_SHIFT


# Asked


@pytest.fixture(scope="module")
def ready(chromium, home, pyodide):
    with chapter(
        chromium, home, PAGE, pyodide, reduced_motion="reduce"
    ) as page:
        page.focus(FIELD)
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # the button, with nothing typed yet
        assert state(page, "ready", "failed") == "ready", page.text_content(
            SAYS
        )
        yield page


@pytest.mark.slow
def test_the_model_comes_and_the_field_waits(ready):
    assert "Type a number" in ready.text_content(SAYS)
    assert ready.text_content(BUTTON) == "Translate"
    assert ready.evaluate("document.activeElement.id") == "ask-number"
    asked = [url.partition("?")[0] for url in ready.asked]
    weights = [url for url in asked if "trained.zip" in url]
    assert len(weights) == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", [677, 45_067, 0])
def test_an_answer_has_each_step_and_every_head(number, ready):
    says = ask(ready, str(number))
    traced = traced_translation(trained_number_words(), number)
    word = "".join(traced.german[:-1])
    assert word in says
    given = rows(ready)
    assert [row[1] for row in given] == traced.german
    for row, (first, *others) in zip(given, traced.candidates, strict=True):
        if row[2][0] not in "<>":
            assert float(row[2]) == pytest.approx(
                first.probability, abs=5e-4
            )
        assert all(one.token in row[3] for one in others)
    right = word == "".join(german_words(number))
    assert (
        "Right." if right else "Wrong: it is null."
    ) in ready.text_content(f"{ASK} .live-word")
    viewer = ready.locator(f"{ASK} attention-viewer")
    viewer.scroll_into_view_if_needed()
    assert viewer.locator(".cell button").count() == 8
    tokens = viewer.locator(".tokens.query .token").all_text_contents()
    assert tokens == traced.german
    # A head's lines are those of its weights.
    viewer.locator(".cell button").first.click()
    expect(viewer.locator("path")).to_have_count(
        int((traced.weights[0, 0].round(2) >= 0.05).sum())
    )
    assert viewer.locator("p").first.text_content()


@pytest.mark.slow
def test_the_head_that_was_chosen_stays_chosen(ready):
    ask(ready, "21")
    viewer = ready.locator(f"{ASK} attention-viewer")
    viewer.scroll_into_view_if_needed()
    viewer.locator(".cell button").nth(5).click()
    ask(ready, "98")
    viewer.scroll_into_view_if_needed()
    chosen = viewer.locator(".cell[aria-selected=true] button")
    assert chosen.get_attribute("aria-label") == "Layer 2, head 2"


@pytest.mark.slow
@pytest.mark.parametrize("text", ["abc", "-1", "1000000", ""])
def test_what_is_no_number_of_the_task_is_told(text, ready):
    ask(ready, "5")
    if text:
        says = ask(ready, text)
    else:
        ready.fill(FIELD, "")
        ready.press(FIELD, "Enter")
        expect(ready.locator(SAYS)).to_contain_text("Nothing was typed")
        says = ready.text_content(SAYS)
    assert says.endswith("numbers from 0 to 999,999.")
    assert ready.get_attribute(FIELD, "aria-invalid") == "true"
    ask(ready, "6")
    assert ready.get_attribute(FIELD, "aria-invalid") == "false"


@pytest.mark.slow
def test_200_numbers_are_those_of_python(ready):
    numbers = [int(n) for n in split_numbers()[1][400:600]]
    wanted = translations(trained_number_words(), numbers)
    for number, tokens in zip(numbers, wanted, strict=True):
        says = ask(ready, str(number))
        assert f": {''.join(tokens)}, " in says, json.dumps(says)
    assert ready.faults == []


REACHED = """(ask) => [...document.querySelectorAll(`${ask} .pst-scrollable-table-container`)]
  .every((box) => box.scrollWidth <= box.clientWidth || box.tabIndex === 0)"""


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_answer_has_no_faults_and_fits_a_phone(scheme, ready):
    ask(ready, "777777")
    ready.evaluate(
        "(scheme) => { document.documentElement.dataset.theme = scheme; }",
        scheme,
    )
    try:
        for width in (WIDE, PHONE):
            ready.set_viewport_size({"width": width, "height": 900})
            ready.locator(
                f"{ASK} attention-viewer"
            ).scroll_into_view_if_needed()
            viewer = ready.locator(f"{ASK} attention-viewer .viewer")
            expect(viewer).to_have_class(
                "viewer dark" if scheme == "dark" else "viewer"
            )
            # Whether a table scrolls is looked at a moment after the screen has another width.
            ready.wait_for_function(REACHED, arg=ASK)
            assert faults_in(ready, ASK) == []
            reach = "document.documentElement.scrollWidth"
            assert ready.evaluate(reach) <= width
    finally:
        ready.set_viewport_size({"width": WIDE, "height": 900})
        ready.evaluate("document.documentElement.dataset.theme = 'light'")


@pytest.mark.slow
def test_loading_is_stopped_and_begins_anew(chromium, home, pyodide):
    with chapter(chromium, home, PAGE, pyodide) as page:
        page.fill(FIELD, "8")
        page.press(FIELD, "Enter")
        state(page, "loading")
        page.click(BUTTON)
        assert state(page, "stopped") == "stopped"
        assert "MB from" in page.text_content(SAYS)
        # With a number in the field, loading ends in its translation.
        page.click(BUTTON)
        assert state(page, "ready", "failed") == "ready"
        assert "8, eight: acht, right." in page.text_content(SAYS)
        assert page.faults == []
