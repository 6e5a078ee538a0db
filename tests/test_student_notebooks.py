"""Notebooks for students: nothing of the solutions in them, all the rest readable where nobody knows MyST."""

from __future__ import annotations

import json
import re

import nbformat
import pytest

from attention_in_detail.exercises import CHAPTERS, exercises_of
from tests.extension_support import ROOT, extension
from tools import student_notebooks
from tools.home import Home
from tools.mark import LABEL, WRITE_HERE
from tools.plain_markdown import Book, Page
from tools.student_notebooks import for_students

first_cell = extension("first_cell")
URL = "https://example.org/book/"
NOTEBOOKS = sorted(
    path.stem for path in (ROOT / "notebooks").glob("*.ipynb")
)
each_chapter = pytest.mark.parametrize("chapter", CHAPTERS)


@pytest.fixture(scope="module")
def book():
    return Book(ROOT, URL)


@pytest.fixture(scope="module")
def made(book):
    """The notebooks for students of all chapters that have exercises."""
    return {
        chapter: for_students(chapter, book, Home(url=URL))
        for chapter in CHAPTERS
    }


def source(chapter):
    path = ROOT / f"notebooks/{chapter}.ipynb"
    return json.loads(path.read_text("utf8"))["cells"]


def text_of(notebook, *kinds):
    return "\n\n".join(
        "".join(cell["source"])
        for cell in notebook["cells"]
        if cell["cell_type"] in (kinds or ("markdown", "code"))
    )


def page_text(chapter):
    return "\n\n".join(
        "".join(cell["source"])
        for cell in source(chapter)
        if cell["cell_type"] == "markdown"
    )


# ---- the notebooks ----


@each_chapter
def test_no_line_of_a_solution_is_left(made, chapter):
    bodies = re.findall(
        r":::\{solution\} \S+\n(?::[^\n]*\n)*(.*?)\n:::",
        page_text(chapter),
        re.DOTALL,
    )
    left = text_of(made[chapter])
    rest = re.sub(
        r":::\{solution\}.*?\n:::", "", page_text(chapter), flags=re.DOTALL
    )
    rest += text_of({"cells": source(chapter)}, "code")
    lines = {
        line.strip()
        for body in bodies
        for line in body.split("\n")
        if len(line.strip()) > 12 and line.strip() not in rest
    }
    assert len(bodies) == len(exercises_of(chapter))
    assert len(lines) > len(bodies)
    assert [line for line in sorted(lines) if line in left] == []
    assert "solution" not in left.lower() or "solution" in rest.lower()


@each_chapter
def test_a_notebook_is_valid_and_has_no_outputs(made, chapter):
    notebook = nbformat.from_dict(made[chapter])
    nbformat.validate(notebook)
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs for cell in code)
    assert all(cell.execution_count is None for cell in code)
    # The first one makes it work alone.
    assert code[0].id == first_cell.ID
    assert notebook.metadata.attention_in_detail.chapter == chapter


@each_chapter
def test_each_exercise_has_its_text_its_hint_and_a_cell_for_the_answer(
    made, chapter
):
    cells = made[chapter]["cells"]
    marked = [
        (cell["metadata"]["attention_in_detail"], cell)
        for cell in cells
        if cell["metadata"]
    ]
    assert [about["exercise"] for about, _ in marked] == [
        one.label for one in exercises_of(chapter)
    ]
    for one, (about, cell) in zip(
        exercises_of(chapter), marked, strict=True
    ):
        text = "".join(cell["source"])
        assert cell["metadata"]["tags"] == ["exercise", one.label]
        if one.form == "open":
            assert (cell["cell_type"], text) == ("markdown", WRITE_HERE)
        else:
            assert about["points"] == 1
            assert text.rstrip().endswith(f'check("{one.label}", ...)')
    told = text_of(made[chapter], "markdown")
    number = len(exercises_of(chapter))
    assert len(re.findall(r"^### Exercise [\d.]+: ", told, re.M)) == number
    hard = r"^\*[A-Z].*, difficulty [123] of 3\.\*$"
    assert len(re.findall(hard, told, re.M)) == number
    assert told.count("<summary>Hint for <em>") == number
    assert told.count("<details>") == told.count("</details>")
    assert "in place of the three dots" in told


@each_chapter
def test_code_is_that_of_the_chapter(made, chapter):
    there = [
        "".join(cell["source"])
        for cell in source(chapter)
        if cell["cell_type"] == "code"
    ]
    here = [
        "".join(cell["source"])
        for cell in made[chapter]["cells"]
        if cell["cell_type"] == "code"
    ]
    assert here[1:] == there
    assert {label for one in here for label in LABEL.findall(one)} == {
        one.label for one in exercises_of(chapter) if one.form != "open"
    }


def without_code(text):
    """What is left beside code and formulas."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return re.sub(r"(`+).+?\1", "code", text, flags=re.DOTALL)


@pytest.mark.parametrize("chapter", NOTEBOOKS)
def test_nothing_of_myst_is_left_in_any_chapter(book, chapter):
    page = Page(book, f"notebooks/{chapter}")
    for cell in source(chapter):
        if cell["cell_type"] == "markdown":
            text = page.text("".join(cell["source"]))
            left = without_code(re.sub("\x00[^\x00]*\x00", "", text))
            assert ":::" not in left
            assert not re.search(r"\{[a-z][\w:-]*\}code", left)
            assert not re.search(r"^\([\w-]+\)=|\$\$ \(", left, re.M)
            prose = re.sub(r"(\$+).+?\1", "", left, flags=re.DOTALL)
            assert not re.search(r"\]\((?!https?:|mailto:)", prose)
            for command in book.commands:
                assert not re.search(rf"\\{command}(?![A-Za-z])", left)


@pytest.mark.parametrize("chapter", NOTEBOOKS)
def test_a_text_without_an_address_has_no_link_to_the_site(chapter):
    book = Book(ROOT)
    page = Page(book, f"notebooks/{chapter}")
    text = page.text(page_text(chapter))
    assert URL not in text
    assert "](#" not in text


def test_made_again_a_notebook_has_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setenv(
        "BOOK_REPOSITORY", "https://github.com/Teacher/a-fork"
    )
    monkeypatch.setenv("BOOK_REVISION", "abc123")
    written = []
    for name in ("one", "two"):
        call = ["--out", str(tmp_path / name), "02_attention", "04_remarks"]
        assert student_notebooks.main(call) == 0
        written.append(
            {
                path.name: path.read_bytes()
                for path in sorted((tmp_path / name).iterdir())
            }
        )
    assert written[0] == written[1]
    assert list(written[0]) == ["02_attention.ipynb", "04_remarks.ipynb"]
    first = json.loads(written[0]["02_attention.ipynb"])
    assert "git+https://github.com/Teacher/a-fork@abc123" in text_of(first)


def test_a_chapter_without_exercises_is_refused(tmp_path, capsys):
    call = ["--out", str(tmp_path / "new"), "99_none"]
    assert student_notebooks.main(call) == 2
    assert "99_none has no exercises" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_an_impossible_home_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("BOOK_URL", "nowhere")
    call = ["--out", str(tmp_path / "new")]
    assert student_notebooks.main(call) == 2
    assert "BOOK_URL" in capsys.readouterr().err


# ---- the text ----


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            ":::{admonition} Hint for *A `b` <c>*\n:class: dropdown hint\n\nTry.\n:::",
            "<details>\n<summary>Hint for <em>A <code>b</code> &lt;c&gt;</em></summary>\n\nTry.\n\n</details>",
        ),
        (
            ":::{admonition} Goals\n:class: objectives\n- $\\R$\n:::",
            "**Goals**\n\n- $\\mathbb{R}$",
        ),
        (":::{note}\nSo.\n:::", "**Note**\n\nSo."),
        (":::{table} Sizes\n:class: x\n\n| a |\n:::", "**Sizes**\n\n| a |"),
        (":::{prf:proof}\nClear.\n:::", "*Proof.* Clear. ∎"),
        (
            "::::{note}\n:::{prf:proof}\n```\n:::\n```\n:::\nend\n::::",
            "**Note**\n\n*Proof.* ```\n:::\n``` ∎\n\nend",
        ),
        (
            "```{note}\nSo.\n```\n\n```python\n{eq}`x`\n```",
            "**Note**\n\nSo.\n\n```python\n{eq}`x`\n```",
        ),
        ("(sec-here)=\n## Here\n% a comment\nwords", "## Here\nwords"),
        ("{measured}`1.5 <a b>` and {reported}`2`", "1.5 and 2"),
        ("`` {eq}`a` `` and $a$ and \\$5", "`` {eq}`a` `` and $a$ and \\$5"),
        (
            "{computed-by}`a.b, a.c`",
            "*Computed by* `a.b` and `a.c`.",
        ),
        ("{py:func}`~a.b.c`, {py:func}`a.b`", "`c`, `a.b`"),
        ("{test}`test_a.py::test_b`", "`test_b`"),
        ("{test}`words <test_a.py::test_b>`", "words"),
        ("{eq}`eq:attention`", "a number and its address"),
        ("{prf:ref}`no-such`", "no-such"),
        ("{unknown}`x`", "x"),
        ("[there](https://a.org) ![i](b.png)", "[there](https://a.org) ![i](b.png)"),
        ("[up](#top)", f"[up]({URL}notebooks/03_compatibility.html#top)"),
        ("[list](../book/symbols.md)", f"[list]({URL}book/symbols.html)"),
        (
            "[root](bug-width)",
            f"[root]({URL}notebooks/91_classic_bugs.html#bug-width)",
        ),
        (
            "{doc}`here <02_attention>`, {doc}`../book/glossary`",
            f"[here]({URL}notebooks/02_attention.html), [*Glossary*]({URL}book/glossary.html)",
        ),
        (
            "{numref}`Figure %s <fig-compatibility-weighted-sum>`",
            "Figure 3.1",
        ),
        ("{ref}`that one <ex-compatibility-tie>`", "that one"),
        (
            "{cite:p}`vaswani2017attention`",
            "([Vaswani et al., 2017](https://arxiv.org/abs/1706.03762))",
        ),
        ("", ""),
    ],
)  # fmt: skip
def test_what_becomes_of_a_piece_of_text(book, text, wanted):
    made = Page(book, "notebooks/03_compatibility").text(text)
    if text == "{eq}`eq:attention`":
        # A number, and the address where it stands.
        assert re.fullmatch(rf"\[\(\d\.\d+\)\]\({URL}\S+\)", made)
    else:
        assert made == wanted


def test_a_formula_has_the_number_that_the_page_shows(book):
    page = Page(book, "notebooks/03_compatibility")
    text = page.text("$$\na = b\n$$ (eq:score)\n\n{eq}`eq:score`")
    assert text == "$$\na = b \\tag{3.1}\n$$\n\n(3.1)"
