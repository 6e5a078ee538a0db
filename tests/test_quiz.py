"""The quiz: one right option each, none that gives itself away, answers that the package computes, places that exist."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections import Counter
from xml.etree import ElementTree

import numpy as np
import pytest
from bs4 import BeautifulSoup

from attention_in_detail import MultiHeadParameters
from tests import quiz_answers
from tests.extension_support import ROOT, extension, loaded
from tests.page_numbers import numbers_of

# Run as scripts, the tools find each other.
sys.path.append(str(ROOT / "tools"))
quiz_files = loaded(ROOT / "tools" / "quiz_files.py")
QUIZ = extension("quiz")
QUESTIONS = QUIZ.read(ROOT / "book" / "quiz.yml")
COMPUTED = [one for one in QUESTIONS if one.computed]
CHAPTERS = {path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb")}
NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?")

every_question = pytest.mark.parametrize(
    "question", QUESTIONS, ids=lambda one: one.name
)


def numbers(text):
    return [float(one.replace(",", "")) for one in NUMBER.findall(text)]


def test_there_are_enough_questions_and_every_chapter_has_one():
    assert len(QUESTIONS) >= 36
    assert {one.chapter for one in QUESTIONS} == CHAPTERS
    assert len(COMPUTED) >= len(QUESTIONS) / 2


# ---- the options ----


@every_question
def test_options_differ_and_each_is_explained(question):
    texts = [one.text for one in question.options]
    whys = [one.why for one in question.options]
    assert len(texts) == len(set(texts)) == len(set(whys)) >= 3
    assert all(len(why.split()) >= 7 for why in whys)
    assert all(one.see for one in question.options)
    # A verdict stands before each explanation, so none of them begins with one.
    assert not [
        why for why in whys if re.match(r"(Right|Wrong|Not so)\b", why)
    ]


def weighed(text):
    """How long a text looks: a command of a formula is one sign."""
    return len(re.sub(r"[$`*{}]", "", re.sub(r"\\[a-zA-Z]+", "x", text)))


@every_question
def test_no_option_gives_itself_away_by_its_length(question):
    lengths = [weighed(one.text) for one in question.options]
    right = lengths.pop(question.right)
    assert right <= 1.3 * max(lengths)
    assert right >= 0.7 * min(lengths)


def test_the_longest_option_is_no_guess():
    """Whoever always takes the longest, or the shortest, does hardly better than by chance."""
    longest = shortest = 0
    for one in QUESTIONS:
        lengths = [weighed(option.text) for option in one.options]
        right = lengths.pop(one.right)
        longest += right > max(lengths)
        shortest += right < min(lengths)
    assert max(longest, shortest) <= 0.36 * len(QUESTIONS)


def test_right_answers_are_spread_over_the_letters():
    letters = Counter(one.letter for one in QUESTIONS)
    assert set(letters) == set("ABCD")
    assert max(letters.values()) - min(letters.values()) <= 2
    runs = "".join(one.letter for one in QUESTIONS)
    assert not re.search(r"(.)\1\1", runs)


@every_question
def test_texts_have_nothing_but_formulas_code_and_emphasis(question):
    """What the page and the files for platforms can both show."""
    options = [t for one in question.options for t in (one.text, one.why)]
    for text in (question.ask, *options):
        assert text.count("$") % 2 == text.count("`") % 2 == 0
        words = re.sub(r"\$[^$]+\$|`[^`]+`", "", text)
        assert words.count("*") % 2 == 0
        assert not re.search(r"[{}\[\]<>\\_|]", words), text


# ---- the answers ----


@pytest.mark.parametrize("question", COMPUTED, ids=lambda one: one.name)
def test_the_package_gives_the_answer(question):
    found = getattr(quiz_answers, question.computed)()
    if isinstance(found, list):
        rights = [one.right for one in question.options]
        assert found[question.right] is True
        assert found == [
            None if one is None else right
            for one, right in zip(found, rights, strict=True)
        ]
        return
    wanted = np.atleast_1d(np.asarray(found, dtype=float))
    for option in question.options:
        stated = numbers(option.text)[: len(wanted)]
        # As many digits as an option has.
        agrees = len(stated) == len(wanted) and np.allclose(
            stated, wanted, rtol=2e-3, atol=0
        )
        assert agrees == option.right, (option.text, found)


by_id = {one.anchor.removeprefix("quiz-"): one for one in QUESTIONS}


def test_memory_doubles_at_most_since_in_the_stored_run_it_did_not():
    _, short, long = numbers_of("obs-linear-memory")
    assert 1 < long / short < 1.5
    one = by_id["linear-memory"].options
    right = one[by_id["linear-memory"].right]
    assert "doubles at most" in right.text
    assert "obs-linear-memory" in right.see


def test_one_matrix_is_another_model_where_there_are_several_heads():
    """With one head the width of a head is that of the model, and the product can be any matrix."""
    assert "One of the eight heads" in by_id["one-matrix"].ask
    for heads, rank in ((1, 16), (8, 2)):
        p = MultiHeadParameters.init(16, heads, bias=False, seed=0)
        block = p.head(0)
        assert np.linalg.matrix_rank(block.W_Q @ block.W_K.T) == rank


def test_a_billion_takes_all_small_scores_and_leaves_large_ones_apart():
    assert "between $-10$ and $10$" in by_id["minus-billion"].ask
    for size, equal in ((10, True), (40, False)):
        z = np.array([-size, size], np.float32) + np.float32(-1e9)
        assert (z[0] == z[1]) == equal


def test_the_correlation_that_an_explanation_states_is_that_of_the_page():
    whole, *_ = numbers_of("obs-clear-maps")
    why = by_id["clear-map"].options[0].why
    assert f"$-{abs(whole):.2f}$".replace("0.", ".") in why


def test_every_function_of_the_answers_answers_a_question():
    source = (ROOT / "tests" / "quiz_answers.py").read_text("utf8")
    helpers = {"same", "rng", "plain", "unevenness"}
    named = re.findall(r"^def (\w+)", source, re.MULTILINE)
    assert sorted(set(named) - helpers) == sorted(
        one.computed for one in COMPUTED
    )


# ---- the places that explanations point to ----

PLACES = quiz_files.places(ROOT)


@every_question
def test_explanations_point_to_places_that_exist(question):
    pages = set()
    for option in question.options:
        for name in option.see:
            assert name in PLACES, name
            pages.add(PLACES[name].page)
    # At least one leads into the chapter that the question is from.
    assert f"notebooks/{question.chapter}" in pages


LEVEL = re.compile(r"^(#+)[ \t]+(.*?)[ \t]*$", re.MULTILINE)
# What these print is the source of a function, or the verdict on an answer that is not there yet.
RUNS_NOTHING = ("show_source(", "check(")


def sections_that_run(path):
    """The sections of a notebook in which a cell prints or draws something, a cell of a section within it too."""
    found, seen, around = set(), set(), []
    for cell in quiz_files.cells(path):
        source = quiz_files.joined(cell["source"])
        if cell["cell_type"] == "markdown":
            prose = quiz_files.FENCE.sub("", source)
            for marks, title in LEVEL.findall(prose):
                name = f"{path.stem}#{quiz_files.anchor_of(title)}"
                around = [one for one in around if one[0] < len(marks)]
                # Of two sections with one title the first has the name.
                around.append((len(marks), "" if name in seen else name))
                seen.add(name)
        elif cell.get("outputs") and not source.startswith(RUNS_NOTHING):
            found |= {name for level, name in around if level > 1}
    return found - {""}


RUNNING = set().union(
    *map(sections_that_run, (ROOT / "notebooks").glob("[0-9]*.ipynb"))
)


def shows(name):
    """Whether a place shows by running, drawing or trying: a figure, an exercise, a section with an output."""
    kind = PLACES[name].kind
    return kind in ("Figure", "Exercise") or name in RUNNING


@every_question
def test_a_wrong_option_leads_to_a_statement_and_to_what_shows_it(question):
    missing = []
    for letter, option in zip(QUIZ.LETTERS, question.options, strict=False):
        if option.right:
            continue
        if not any(name.startswith(QUIZ.BLOCKS) for name in option.see):
            missing.append(f"{letter}: no statement, {option.see}")
        if not any(map(shows, option.see)):
            missing.append(f"{letter}: nothing that shows it, {option.see}")
    assert not missing, "\n".join(missing)


def test_a_section_runs_if_a_cell_of_it_or_within_it_does(tmp_path):
    def text(source):
        return {"cell_type": "markdown", "source": source}

    def code(source, *outputs):
        return {
            "cell_type": "code",
            "source": source,
            "outputs": [*outputs],
        }

    cells = [
        text("# A chapter\n\n## The *outer* one\n\n### Inner\n"),
        text("```python\n## No section\n```\n"),
        code("print(1)", "1"),
        text("### Listed\n"),
        code("show_source(f)", "def f"),
        text("## Prose\n\n## Silent\n"),
        code("x = 1"),
        text("## Exercises\n"),
        code('check("ex-one", ...)', "No answer yet"),
        text("## Prose\n"),
        code("print(2)", "2"),
    ]
    path = tmp_path / "01_one.ipynb"
    path.write_text(json.dumps({"cells": cells}), "utf8")
    assert sections_that_run(path) == {
        "01_one#the-outer-one",
        "01_one#inner",
    }


def test_places_are_found_in_sources_and_nothing_else_is(tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "one.md").write_text(
        "# One\n\n## What $A_i$ is\n\n:::{prf:remark} A *title*\n:label: rem-a\n:::\n\n"
        "```python\n# no heading\n```\n\n:::{exercise} Do it\n:label: ex-a\n:::\n",
        "utf8",
    )
    found = quiz_files.places(tmp_path)
    assert {name: one.kind for name, one in found.items()} == {
        "one#one": "Section",
        "one#what-a-i-is": "Section",
        "rem-a": "Remark",
        "ex-a": "Exercise",
    }
    assert {one.page for one in found.values()} == {"book/one"}


# ---- a file with a fault ----

GOOD = """
- part: A part
  questions:
    - id: one
      chapter: 02_attention
      ask: Which?
      options:
        - {text: This, right: true, why: It is so., see: 02_attention#here}
        - {text: That, why: It is not., see: 02_attention#here}
        - {text: Neither, why: It is the first., see: 02_attention#here}
"""


def reading(tmp_path, text):
    path = tmp_path / "quiz.yml"
    path.write_text(text, "utf8")
    return QUIZ.read(path)


def test_a_small_file_is_read(tmp_path):
    [one] = reading(tmp_path, GOOD)
    assert (one.anchor, one.answer, one.letter, one.number) == (
        "quiz-one",
        "answer-one",
        "A",
        1,
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("right: true, ", "", "0 of 3"),
        ("{text: That", "{right: true, text: That", "2 of 3"),
        ("why: It is not., ", "", "not an option"),
        ("see: 02_attention#here}\n        - {text: N", "see: x, z: 1}\n        - {text: N", "not an option"),
        ("      ask: Which?\n", "", "not a question"),
        ("        - {text: Neither, why: It is the first., see: 02_attention#here}\n", "", "1 of 2"),
    ],
)  # fmt: skip
def test_a_file_with_a_fault_is_refused(old, new, said, tmp_path):
    assert GOOD.count(old) == 1
    with pytest.raises(ValueError, match=said):
        reading(tmp_path, GOOD.replace(old, new))


def test_a_name_that_comes_twice_is_refused(tmp_path):
    again = GOOD + GOOD.split("questions:\n")[1]
    with pytest.raises(ValueError, match="one stands there twice"):
        reading(tmp_path, again)


# ---- the page ----

CONF = """
import sys
sys.path.insert(0, {folder!r})
extensions = ["myst_nb", "quiz"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
html_theme = "basic"
epub_show_urls = "no"
project, copyright, version = "A book", "2026", "1"
"""
CHAPTER = "# Attention\n\n## Here\n\nWords.\n"
PAGE = (
    "# Quiz\n\n```{quiz}\n```\n\n{ref}`quiz-one` and {ref}`quiz-answers`.\n"
)


@pytest.fixture
def built(tmp_path):
    def build(builder="html", text=GOOD):
        files = {
            "conf.py": CONF.format(folder=str(ROOT / "book" / "_ext")),
            "index.md": "# Front\n\n```{toctree}\nbook/quiz\nnotebooks/02_attention\n```\n",
            "book/quiz.md": PAGE,
            "book/quiz.yml": text,
            "notebooks/02_attention.md": CHAPTER,
        }
        for name, content in files.items():
            (tmp_path / "source" / name).parent.mkdir(
                parents=True, exist_ok=True
            )
            (tmp_path / "source" / name).write_text(content, "utf8")
        options = [
            "-b",
            builder,
            "-q",
            "-W",
            "--keep-going",
            "-n",
            "-d",
            tmp_path / "read",
        ]
        places = [tmp_path / "source", tmp_path / "out"]
        done = subprocess.run(
            [sys.executable, "-m", "sphinx", *options, *places],
            capture_output=True,
            text=True,
        )
        return done, tmp_path / "out"

    return build


def test_the_page_has_a_form_for_each_question_and_the_answers_after(built):
    done, out = built()
    assert done.returncode == 0, done.stderr
    html = (out / "book/quiz.html").read_text("utf8")
    page = BeautifulSoup(html, "html.parser")
    [form] = page.select("form.quiz-question")
    assert form["id"] == "quiz-one"
    assert form.fieldset.legend.get_text() == "Which?"
    radios = form.select("input[type=radio]")
    assert {one["name"] for one in radios} == {"quiz-one"}
    labels = [form.select_one(f"label[for={one['id']}]") for one in radios]
    assert [" ".join(one.get_text().split()) for one in labels] == [
        "A. This",
        "B. That",
        "C. Neither",
    ]
    assert form.select_one("[role=status]").get_text() == ""
    assert form.select_one(".quiz-to-answer")["href"] == "#answer-one"
    answer = page.select_one("#answer-one")
    assert html.index('id="answer-one"') > html.index("</form>")
    assert answer.p.get_text() == "Question 1: A"
    whys = answer.select(".quiz-whys > li")
    assert [one.get("class") for one in whys] == [["is-right"], None, None]
    assert whys[1].get_text().strip() == (
        "Not so. It is not. See “Here” in Attention."
    )
    assert whys[1].a["href"] == "../notebooks/02_attention.html#here"
    # The page can be referred to, and it alone has the script and the style.
    assert page.select_one('p a[href="#quiz-one"] span').get_text() == (
        "Question 1"
    )
    other = (out / "notebooks/02_attention.html").read_text("utf8")
    for name in ("quiz.js", "quiz.css"):
        assert (name in html, name in other) == (True, False)


def test_a_place_that_is_gone_stops_the_build(built):
    text = GOOD
    for gone in ("02_attention#there", "91_no#here"):
        text = text.replace("see: 02_attention#here", f"see: {gone}", 1)
    done, _ = built(text=text)
    assert done.returncode != 0
    for gone in ("02_attention#there", "91_no#here"):
        assert f"target not found: {gone}" in done.stderr


@pytest.mark.parametrize(
    "builder", ["latex", pytest.param("epub", marks=pytest.mark.slow)]
)
def test_a_book_has_questions_as_a_list_and_nothing_to_press(
    builder, built
):
    done, out = built(builder)
    assert done.returncode == 0, done.stderr
    [path] = [*out.glob("*.tex"), *out.glob("book/quiz.xhtml")]
    text = path.read_text("utf8")
    for gone in ("<form", "<input", "<button", "quiz.js", "Check"):
        assert gone not in text
    words = " ".join(re.sub(r"<[^>]*>|\\[a-z]+", " ", text).split())
    places = [words.index(one) for one in ("Which?", "This", "Neither")]
    places.append(words.index("It is so."))
    assert places == sorted(places)


# ---- the files for learning platforms ----

GIFTS = "~=#{}:"


def signs(text):
    """The characters of a GIFT text, each with whether it is one of GIFT's own; a lone backslash is a fault."""
    given = iter(text)
    for one in given:
        if one == "\\":
            one = next(given, "")
            assert one in (*GIFTS, "\\"), f"a backslash before {one!r}"
            yield one, False
        else:
            yield one, one in GIFTS


def parted(text, own):
    """A text cut at some of GIFT's own signs, each kept before its piece; any other of them is a fault."""
    pieces = [["", ""]]
    for sign, is_own in signs(text):
        if not is_own:
            pieces[-1][1] += sign
        elif sign in own:
            pieces.append([sign, ""])
        else:
            raise AssertionError(f"{sign!r} without a backslash")
    return pieces


def read_gift(text):
    """Name, category, question and options of a file: a reader for what this book writes, that admits nothing else."""
    category, found = "", []
    for block in re.split(r"\n\n+", text.strip()):
        if block.startswith("$CATEGORY: "):
            category = block.removeprefix("$CATEGORY: ")
            assert "\n" not in category
            continue
        head, *lines, general, end = block.split("\n")
        assert end == "}"
        whole = re.fullmatch(r"::(.+?)::\[html\](.+) \{", head)
        [[_, name]] = parted(whole[1], "")
        [[_, ask]] = parted(whole[2], "")
        options = []
        for line in lines:
            assert line[0] == "\t"
            [(_, empty), (mark, said), (hash_, why)] = parted(
                line[1:], "~=#"
            )
            assert (empty, hash_) == ("", "#")
            options.append((mark == "=", said, why))
        assert general.startswith("\t####")
        [[_, source]] = parted(general[5:], "")
        found.append((name, category, ask, options, source))
    return found


@pytest.fixture(scope="module", params=["", "https://example.org/book/"])
def written(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("quiz")
    gift, qti = quiz_files.write(ROOT, folder, request.param)
    return request.param, gift, qti


def test_the_gift_file_read_back_is_the_quiz(written):
    url, gift, _ = written
    words = quiz_files.Words(ROOT, url)
    found = read_gift(gift.read_text("utf8"))
    assert len(found) == len(QUESTIONS)
    for one, (name, category, ask, options, source) in zip(
        QUESTIONS, found, strict=True
    ):
        assert name == one.anchor
        title = PLACES[f"{one.chapter}#{first_section(one)}"].chapter
        assert category == (
            f"$course$/top/Attention in Detail/{one.part}/{title}"
        )
        assert ask == f"<p>{words.of(one.ask)}</p>"
        assert [right for right, *_ in options] == [
            option.right for option in one.options
        ]
        for option, (_, said, why) in zip(
            one.options, options, strict=True
        ):
            assert said == words.of(option.text)
            assert why.startswith(f"<p>{words.of(option.why)}</p><p>See ")
            # Each place by an address or, where there is none, by its name.
            links = re.findall(r'<a href="([^"]+)">', why)
            assert links == [
                f"{url}{PLACES[place].page}.html#{PLACES[place].anchor}"
                for place in option.see
                if url
            ]
            names = [PLACES[place].chapter for place in option.see]
            assert re.findall(r" in “([^”]*)”(?=[;.])", why) == names
        assert ("book/quiz.html#" + one.anchor in source) == bool(url)


def first_section(question):
    """The name of a section of its chapter."""
    return next(
        name.partition("#")[2]
        for name in PLACES
        if name.startswith(f"{question.chapter}#")
    )


def test_the_book_is_named_as_its_settings_name_it(tmp_path):
    settings = (ROOT / "_config.yml").read_text("utf8")
    (tmp_path / "_config.yml").write_text(
        re.sub(r"^title: .*", "title: Maps & more", settings, flags=re.M),
        "utf8",
    )
    words = quiz_files.Words(tmp_path, "")
    assert words.source(QUESTIONS[0]) == (
        "<p>Question 1 of the quiz of the book <em>Maps &amp; more</em>.</p>"
    )


def test_formulas_are_as_platforms_want_them():
    macros = {"R": r"\mathbb{R}"}
    assert quiz_files.html("a $x < \\R$, `a<b` and *so*", macros) == (
        r"a \(x &lt; \mathbb{R}\), <code>a&lt;b</code> and <em>so</em>"
    )
    assert quiz_files.escaped("\\({a}\\) = 1: ~#") == (
        r"\\(\{a\}\\) \= 1\: \~\#"
    )
    # What is not known to others is written out.
    assert quiz_files.written_out(r"\R + \Rho", macros) == (
        r"\mathbb{R} + \Rho"
    )


def test_a_gift_text_with_a_sign_of_its_own_is_noticed():
    for fault in ("a = b", "a:b", "\\a", "{"):
        with pytest.raises(AssertionError, match="backslash"):
            parted(fault, "")


def test_the_package_of_qti_holds_the_quiz(written):
    url, _, path = written
    words = quiz_files.Words(ROOT, url)
    space = {"q": "http://www.imsglobal.org/xsd/imsqti_v2p1"}
    with zipfile.ZipFile(path) as package:
        names = package.namelist()
        manifest = ElementTree.fromstring(package.read("imsmanifest.xml"))
        listed = [
            one.get("href") for one in manifest.iter() if one.get("type")
        ]
        assert listed == [f"{one.anchor}.xml" for one in QUESTIONS]
        assert sorted(names) == sorted([*listed, "imsmanifest.xml"])
        for one in QUESTIONS:
            item = ElementTree.fromstring(package.read(f"{one.anchor}.xml"))
            assert item.find(".//q:value", space).text == one.letter
            choices = item.findall(".//q:simpleChoice", space)
            assert len(choices) == len(one.options)
            for option, choice, feedback in zip(
                one.options,
                choices,
                item.findall("q:modalFeedback", space),
                strict=True,
            ):
                assert choice.get("identifier") == feedback.get(
                    "identifier"
                )
                said = ElementTree.fromstring(
                    f"<p>{words.of(option.text)}</p>"
                )
                assert "".join(choice.itertext()) == "".join(
                    said.itertext()
                )


def test_two_writings_are_the_same_to_the_byte(written, tmp_path):
    url, *paths = written
    again = quiz_files.write(ROOT, tmp_path, url)
    for one, other in zip(paths, again, strict=True):
        assert one.read_bytes() == other.read_bytes()
