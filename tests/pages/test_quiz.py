"""The quiz in a browser: answered by keyboard alone, on a phone, in light and dark, on paper, and without scripts."""

from __future__ import annotations

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import expect

from tests.extension_support import ROOT, extension
from tests.pages.browser_faults import (
    PHONE,
    WIDE,
    faults_of,
    opened,
    served,
)
from tests.pages.test_live_pages import faults_in

QUESTIONS = extension("quiz").read(ROOT / "book" / "quiz.yml")
PAGE = "book/quiz.html"
# One with formulas in its options, and the next.
FIRST, SECOND = (
    next(one for one in QUESTIONS if one.name == name)
    for name in ("value-width", "scale-width")
)


@pytest.fixture(scope="module")
def home(site):
    with served(site) as address:
        yield address


def press_until(page, focused, key="Tab", most=8):
    for _ in range(most):
        page.keyboard.press(key)
        if page.evaluate(f"document.activeElement.matches('{focused}')"):
            return
    raise AssertionError(f"{key} does not reach {focused}")


def test_every_question_is_there_with_formulas_set_and_places_that_exist(
    site,
):
    pages = {}

    def has(name, anchor):
        if name not in pages:
            place = (site / PAGE).parent / name
            pages[name] = place.read_text("utf8")
        return f'id="{anchor}"' in pages[name]

    html = (site / PAGE).read_text("utf8")
    page = BeautifulSoup(html, "html.parser")
    assert [form["id"] for form in page.select("form.quiz-question")] == [
        one.anchor for one in QUESTIONS
    ]
    for one in QUESTIONS:
        whys = page.select(f"#{one.answer} .quiz-whys > li")
        assert ["is-right" in why.get("class", []) for why in whys] == [
            option.right for option in one.options
        ]
        for why, option in zip(whys, one.options, strict=True):
            links = why.select("a[href]")
            assert len(links) == len(option.see)
            for link in links:
                name, _, anchor = link["href"].partition("#")
                assert has(name, anchor), link
    texts = sum(
        text.count("$") // 2
        for one in QUESTIONS
        for text in (
            one.ask,
            *(o.text for o in one.options),
            *(o.why for o in one.options),
        )
    )
    article = page.article
    assert (
        len(article.select("form mjx-container, .quiz-whys mjx-container"))
        >= texts
    )
    assert "$" not in article.get_text()
    assert not article.select(".symbol-hint, .symbols-here")


def answer(page, question, option, come_by=None):
    """Choose an option and check it, by keys alone; return what is said."""
    form = f"#{question.anchor}"
    if come_by is None:
        page.focus(f"{form} p a")
        come_by = f"{form} input"
    press_until(page, come_by)
    # Tab comes to the first radio button, or to the one that is chosen; arrows go through the group.
    page.keyboard.press("Space")
    for _ in range(option):
        page.keyboard.press("ArrowDown")
    expect(page.locator(f"{form} input").nth(option)).to_be_checked()
    press_until(page, f"{form} button")
    page.keyboard.press("Enter")
    return page.locator(f"{form} .quiz-says")


def test_a_question_is_answered_by_keyboard_and_says_what_holds(
    chromium, home
):
    with opened(chromium, home, PAGE, PHONE, "light") as (page, faults):
        form = page.locator(f"#{FIRST.anchor}")
        says = form.locator(".quiz-says")
        assert says.get_attribute("role") == "status"
        form.locator("button").focus()
        page.keyboard.press("Enter")
        expect(says).to_have_text("Choose one of the options first.")
        # Wrong first, then right; the marks stay, and the focus is where it was.
        wrong = answer(page, FIRST, 0)
        expect(wrong).to_contain_text("Not so.")
        expect(wrong).to_contain_text("The output is a mean of values")
        assert wrong.locator("a[href*='#def-attention']").count() == 1
        assert page.evaluate("document.activeElement.type") == "submit"
        expect(form.locator(".quiz-mark").first).to_have_text("✗ not so")
        page.focus(f"#{FIRST.anchor}-A")
        for _ in range(FIRST.right):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")  # without going to the button
        expect(says).to_contain_text("Right.")
        assert says.locator("mjx-container").count() == 3
        assert says.locator("[id]").count() == 0
        expect(page.locator(".quiz-score")).to_have_text(
            f"Answered right: 1 of {len(QUESTIONS)}, 0 of them at the first try."
        )
        answer(page, SECOND, SECOND.right)
        expect(page.locator(".quiz-score")).to_contain_text(
            f"2 of {len(QUESTIONS)}, 1 of them"
        )
        assert (
            page.evaluate("localStorage.length + sessionStorage.length")
            <= 2
        )
        assert not [
            name
            for name in page.evaluate("Object.keys(localStorage)")
            if "quiz" in name
        ]
        assert faults == []


VIEWS = pytest.mark.parametrize(
    ("width", "scheme"), [(PHONE, "dark"), (WIDE, "light")]
)


@VIEWS
def test_answered_questions_have_no_faults(width, scheme, chromium, home):
    with opened(chromium, home, PAGE, width, scheme) as (page, faults):
        answer(page, FIRST, 0)
        answer(page, SECOND, SECOND.right)
        for one in (FIRST, SECOND):
            assert faults_in(page, f"#{one.anchor}") == []
        assert faults == []
        reach = "document.documentElement.scrollWidth"
        assert page.evaluate(reach) <= width
        for box in page.locator(
            f"#{FIRST.anchor} :is(input, label, button)"
        ).all():
            assert box.bounding_box()["height"] >= 24


@pytest.mark.slow
@VIEWS
def test_a_page_with_answers_has_no_faults(width, scheme, chromium, home):
    with opened(chromium, home, PAGE, width, scheme) as (page, faults):
        answer(page, FIRST, 0)
        answer(page, SECOND, SECOND.right)
        assert [*faults, *faults_of(page, width)] == []


def test_without_scripts_the_answers_are_read_and_nothing_is_pressed(
    chromium, home
):
    page = chromium.new_page(
        java_script_enabled=False, viewport={"width": PHONE, "height": 900}
    )
    page.goto(f"{home}{PAGE}")
    form = page.locator(f"#{FIRST.anchor}")
    assert form.locator("button").is_hidden()
    assert form.locator("input").first.is_hidden()
    assert "C." in form.inner_text()
    form.locator(".quiz-to-answer").click()
    assert page.url.endswith(f"#{FIRST.answer}")
    expect(page.locator(f"#{FIRST.answer}")).to_be_in_viewport()
    assert "Question 5: C" in page.locator(f"#{FIRST.answer}").inner_text()
    page.close()


def test_on_paper_the_answers_come_after_all_questions(chromium, home):
    with opened(chromium, home, PAGE, WIDE, "light") as (page, _):
        answer(page, FIRST, 0)
        page.emulate_media(media="print")
        for gone in (".quiz-do", ".quiz-says", ".quiz-mark"):
            assert page.locator(gone).first.is_hidden()
        last = page.locator("form.quiz-question").last.bounding_box()
        answers = page.locator(".quiz-answers")
        assert answers.bounding_box()["y"] >= last["y"] + last["height"]
        breaks = "(one) => getComputedStyle(one).breakBefore"
        assert answers.evaluate(breaks) == "page"
