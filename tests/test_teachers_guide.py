"""The teacher's guide: its minutes add up, its labels exist, its numbers are those of the chapters, and it becomes one file."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from attention_in_detail.exercises import CHAPTERS, exercises_of
from attention_in_detail.project import STAGES

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tools"))
TEXT = (ROOT / "book/teaching.md").read_text("utf8")
ROLE = re.compile(r"\{([a-z:]+)\}`([^`]+)`")


def tool():
    specification = importlib.util.spec_from_file_location(
        "tool_teachers_guide", ROOT / "tools/teachers_guide.py"
    )
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


TOOL = tool()


def part(title):
    """The text below a heading of the second level."""
    return re.split(r"^## ", TEXT.split(f"\n## {title}\n")[1], flags=re.M)[
        0
    ]


def sessions(title):
    """The sessions of a course: title and text."""
    pieces = re.split(r"^### (.*)$", part(title), flags=re.M)[1:]
    return list(zip(pieces[::2], pieces[1::2], strict=True))


COURSES = {"One lecture": 1, "One week": 5, "One term": 14}
SESSIONS = [
    pytest.param(text, id=f"{course}, {title}")
    for course in COURSES
    for title, text in sessions(course)
]
each_session = pytest.mark.parametrize("text", SESSIONS)


def rows(text):
    """The rows of a plan: minutes, whether they are a sum, and what."""
    found = re.findall(
        r"^\| (\**)(\d+)\**\s*\| (\w*) ?\| ?(.*?) ?\|$", text, re.M
    )
    return [
        (int(n), bool(stars), kind, what) for stars, n, kind, what in found
    ]


def source(chapter):
    cells = json.loads(
        (ROOT / f"notebooks/{chapter}.ipynb").read_text("utf8")
    )["cells"]
    return "\n\n".join(
        "".join(cell["source"])
        for cell in cells
        if cell["cell_type"] == "markdown"
    )


# ---- the courses ----


def test_a_course_has_its_sessions():
    assert {title: len(sessions(title)) for title in COURSES} == COURSES


@each_session
def test_the_minutes_of_a_session_add_up(text):
    total, halves = 0, 0
    for minutes, is_sum, kind, _ in rows(text):
        if is_sum:
            assert minutes == total == 90
            total, halves = 0, halves + 1
        else:
            assert kind in (
                "slides",
                "live",
                "quiz",
                "exercises",
                "project",
            )
            total += minutes
    assert total == 0
    assert halves >= 1


def test_a_day_and_a_week_have_two_halves():
    for course in ("One week", "One term"):
        for title, text in sessions(course):
            sums = [is_sum for _, is_sum, *_ in rows(text)]
            assert sums.count(True) == 2, title


@each_session
def test_a_session_says_what_for_and_where_they_stumble(text):
    assert len(re.findall(r"^Afterwards they can .*\.$", text, re.M)) == 1
    assert len(re.findall(r"^Stumbling blocks\n: \S", text, re.M)) == 1


@each_session
def test_a_deck_takes_what_its_first_line_says(text):
    """Where a row is the whole deck; the lecture takes a part of one."""
    decks = {one.name: one.deck for one in TOOL.chapters(ROOT, ROOT)}
    table = TOOL.kept(TEXT)
    for minutes, _, kind, what in rows(text):
        if kind != "slides" or "from the beginning" in what:
            continue
        [name] = TOOL.LINK.findall(what)
        stated = decks[name] or int(table[name][3])
        assert minutes == stated, name


@each_session
def test_exercises_are_of_chapters_that_were_read(text):
    """Of the session's own chapters, those shown before it in the course, or those they need."""
    course = next(c for c in COURSES if text in part(c))
    so_far = part(course).split(text)[0] + text
    read = set(TOOL.LINK.findall(so_far))
    owner = {
        label: chapter
        for chapter in chapters()
        for label in re.findall(r":label: (ex-\S+)", source(chapter))
    }
    asked = [name for role, name in ROLE.findall(text) if name in owner]
    assert [name for name in asked if owner[name] not in read] == []


def chapters():
    return [one.name for one in TOOL.chapters(ROOT, ROOT)]


def test_the_stages_of_the_project_come_once_and_in_order():
    """Monday to Friday, and week 4 to week 8."""
    for course in ("One week", "One term"):
        found = []
        tasks = " ".join(
            what
            for _, text in sessions(course)
            for *_, kind, what in rows(text)
            if kind == "project"
        )
        for first, last in re.findall(
            r"stages? (\d+)(?: (?:and|to) (\d+))?", tasks
        ):
            found += range(int(first), int(last or first) + 1)
        assert found == list(range(1, len(STAGES) + 2)), course


def test_what_a_stage_points_to_was_read_or_is_named_with_it():
    """A chapter that has been read or shown, or a section of one."""
    for course in ("One week", "One term"):
        so_far = ""
        for title, text in sessions(course):
            so_far += text
            read = set(TOOL.LINK.findall(so_far))
            tasks = " ".join(
                what for *_, kind, what in rows(text) if kind == "project"
            )
            for first, last in re.findall(
                r"stages? (\d+)(?: (?:and|to) (\d+))?", tasks
            ):
                for stage in STAGES[int(first) - 1 : int(last or first)]:
                    assert stage.chapter in read, (title, stage.name)


def test_sections_that_the_guide_sends_to_are_there():
    found = re.findall(
        r"of \{doc\}`\.\./notebooks/(\w+)` the section \*(.*?)\*", TEXT
    ) + [
        (chapter, section)
        for section, chapter in re.findall(
            r"the section \*(.*?)\* of \{doc\}`\.\./notebooks/(\w+)`", TEXT
        )
    ]
    assert len(found) == 3
    for chapter, section in found:
        assert f"\n## {section}\n" in source(chapter), (chapter, section)


def test_the_term_takes_the_parts_as_it_says():
    """The first week in which a chapter is read or shown."""
    week = {}
    for n, (_, text) in enumerate(sessions("One term"), start=1):
        for name in TOOL.LINK.findall(text):
            if (
                name not in week
                and "section *The definition*"
                not in "".join(
                    line
                    for line in text.splitlines()
                    if f"/{name}`" in line
                )
            ):
                week[name] = n
    taken = list(week)
    early = [name for name in taken if name[:1] in "01"]
    numbers = {one.name: one.number for one in TOOL.chapters(ROOT, ROOT)}
    turned = [
        (numbers[one], numbers[other])
        for one, other in pairwise(early)
        if numbers[one] > numbers[other]
    ]
    assert turned == [(6, 5), (11, 10)]
    assert sorted(early) == sorted(
        name for name in numbers if name[:1] in "01"
    )
    third = [week[name] for name in taken if name.startswith("2")]
    fourth = [week[name] for name in taken if name.startswith("3")]
    assert (len(third), third.count(14)) == (4, 1)
    assert (len(fourth), set(fourth)) == (3, {12, 13})
    text = " ".join(part("One term").split("###")[0].split())
    assert "nearly in order (6 before 5, 11 before 10)" in text
    assert "four chapters, one of them in the last week" in text
    assert "of Part IV three, in weeks 12 and 13" in text


# ---- labels and numbers ----


def labels():
    found = set()
    for page in [source(chapter) for chapter in chapters()] + [
        path.read_text("utf8") for path in (ROOT / "book").glob("*.md")
    ]:
        found |= set(re.findall(r"^:label: (\S+)$", page, re.M))
    return found


def test_every_label_that_the_guide_names_exists():
    named = {
        name
        for role, name in ROLE.findall(TEXT)
        if role in ("prf:ref", "numref")
    }
    assert len(named) > 60
    assert named - labels() == set()


def test_every_page_that_the_guide_names_exists():
    for role, name in ROLE.findall(TEXT):
        if role == "doc":
            name = re.sub(r".*<(.*)>", r"\1", name)
            page = ROOT / "book" / name
            assert (
                page.with_suffix(".md").is_file()
                or page.with_suffix(".ipynb").is_file()
            ), name


def test_chapters_exercises_and_needs_are_those_of_today():
    """Run `make book`, then `python tools/teachers_guide.py --fill`."""
    nowhere = ROOT / "no-such-site"
    assert TOOL.filled(TEXT, TOOL.chapters(ROOT, nowhere)) == TEXT
    table = TOOL.kept(TEXT)
    assert list(table) == chapters()
    for chapter in CHAPTERS:
        assert int(table[chapter][4]) == len(exercises_of(chapter))
    every = [one for chapter in CHAPTERS for one in exercises_of(chapter)]
    one, two, three = (
        sum(exercise.difficulty == n for exercise in every)
        for n in (1, 2, 3)
    )
    told = f"{one} have difficulty 1, {two} have 2, and {three} have 3"
    assert TOOL.DIFFICULTIES.findall(TEXT) == [told]


def test_numbers_come_from_where_they_are_stated(tmp_path):
    (tmp_path / "_toc.yml").write_text(
        yaml.safe_dump(
            {
                "parts": [
                    {"chapters": [{"file": "book/start"}]},
                    {
                        "numbered": True,
                        "chapters": [
                            {"file": "notebooks/01_one"},
                            {"file": "book/between"},
                            {"file": "notebooks/02_two"},
                        ],
                    },
                    {"chapters": [{"file": "notebooks/91_end"}]},
                ]
            }
        )
    )
    texts = {
        "01_one": "# One\n\nYou need nothing.\n\n"
        ":::{exercise} A\n\n*Prove, goal 1, difficulty 3 of 3.*\n:::\n\n"
        "::::{exercise} B\n\n*Explain, goal 2, difficulty 1 of 3.*\n::::",
        "02_two": "# Two\n\nYou need {doc}`01_one` and {doc}`01_one`.",
        "91_end": "# End\n\nYou need {doc}`02_two` and {doc}`01_one`.",
    }
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "slides").mkdir()
    site = tmp_path / "html"
    (site / "notebooks").mkdir(parents=True)
    for name, text in texts.items():
        cell = {"cell_type": "markdown", "source": [text]}
        (tmp_path / f"notebooks/{name}.ipynb").write_text(
            json.dumps({"cells": [cell]})
        )
    for name, minutes in (("01_one", 10), ("02_two", 1005)):
        (site / f"notebooks/{name}.html").write_text(
            f'<p class="reading-time">About {minutes}\N{NO-BREAK SPACE}minutes</p>'
        )
    (site / "notebooks/91_end.html").write_text("no line")
    (tmp_path / "slides/01_one.md").write_text("minutes: 45 [3]\n")
    (tmp_path / "slides/02_two.md").write_text("# Nothing\n")
    guide = (
        "% The table, filled by tools/teachers_guide.py\n\n"
        "Read before: {doc}`../notebooks/01_one` and {doc}`../notebooks/02_two`, about 1 minutes.\n"
        "Read before: {doc}`../notebooks/91_end`, about 7 minutes.\n"
        "Of them 9 have difficulty 1, 10 have 2, and 11 have 3.\n"
    )
    found = TOOL.filled(guide, TOOL.chapters(tmp_path, site))
    assert found == (
        "% The table, filled by tools/teachers_guide.py\n"
        "| no. | chapter | to read | deck | tasks | needs |\n"
        "|---|---|---|---|---|---|\n"
        "| 1 | {doc}`../notebooks/01_one` | 10 | 45 | 2 |  |\n"
        "| 3 | {doc}`../notebooks/02_two` | 1005 | – | 0 | 1 |\n"
        "|  | {doc}`../notebooks/91_end` | – | – | 0 | 1, 3 |\n"
        "| | **all** | **1,015** | **45** | **2** | |\n\n"
        "Read before: {doc}`../notebooks/01_one` and {doc}`../notebooks/02_two`, about 1015 minutes.\n"
        "Read before: {doc}`../notebooks/91_end`, about 7 minutes.\n"
        "Of them 1 have difficulty 1, 0 have 2, and 1 have 3.\n"
    )
    # What has no source stays.
    again = TOOL.filled(found, TOOL.chapters(tmp_path, tmp_path))
    assert again == found


def test_the_points_add_up_to_a_hundred():
    scheme = part("Assessment").split("A scheme of a hundred points:")[1]
    points = [int(n) for n in re.findall(r"^\| (\d+) \|", scheme, re.M)]
    assert sum(points) == 100
    assert "| **100** |" in scheme


# ---- what it says of files ----


def test_files_that_hold_the_name_are_there_and_hold_it():
    table = (
        part("Make it yours")
        .split("### Change the name")[1]
        .split("###")[0]
    )
    files = set(
        re.findall(r"`([\w/.]+\.\w+|README\.md|Makefile|LICENSE)`", table)
    )
    assert len(files) >= 10
    settings = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))
    # A fork has another one in all of them but the licence, which keeps its line.
    names = {settings["title"], "Attention in Detail"}
    for name in files - {"book/_static/social_card.png"}:
        text = (ROOT / name).read_text("utf8").replace("\\n", " ")
        assert any(one in text for one in names), name
    assert {"title", "project", "author", "copyright"} <= set(settings)
    assert "extra_footer" in settings["html"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf8"))
    assert {"title", "authors"} <= set(citation)


def test_no_other_file_of_the_site_holds_the_name():
    """So a teacher who follows the table has changed all of it."""
    table = (
        part("Make it yours")
        .split("### Change the name")[1]
        .split("###")[0]
    )
    named = [
        path.relative_to(ROOT).as_posix()
        for folder in ("book", "notebooks", ".github")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix
        in {".md", ".py", ".yml", ".sty", ".css", ".js", ".ipynb", ".html"}
        and re.search(r"Attention in Detail", path.read_text("utf8"))
    ]
    # A comment, and the line that says where a copy comes from.
    known = {"book/_static/book.css", "book/teaching.md"}
    assert [
        name
        for name in named
        if f"`{name}`" not in table and name not in known
    ] == []


def test_publishing_is_told_as_the_readme_tells_it():
    readme = (ROOT / "README.md").read_text("utf8")
    for words in (
        "`gh-pages` with the folder `/ (root)`",
        "`make test` and `make book STRICT=1`",
        "`https://OWNER.github.io/NAME/`",
        "sh tools/publish.sh origin",
        "`BOOK_URL`",
        "`BOOK_JUPYTERHUB`",
        "`PYTORCH_CPU_INDEX`",
    ):
        assert words in " ".join(TEXT.split()), words
        assert words in " ".join(readme.split()), words


def test_the_licences_are_those_of_the_files():
    text = " ".join(part("What the licences say").split())
    assert "MIT (`LICENSE`)" in text
    assert "CC BY 4.0 (`LICENSE-TEXT`)" in text
    mit = " ".join((ROOT / "LICENSE").read_text().split())
    assert (
        "The above copyright notice and this permission notice shall be included"
        in mit
    )
    by = " ".join((ROOT / "LICENSE-TEXT").read_text().split())
    for duty in (
        "identification of the creator(s)",
        "indicate if You modified the Licensed Material",
        "apply any Effective Technological Measures",
        "No endorsement",
    ):
        assert duty in by


# ---- one file ----

PAGE = """<html><head><script>x</script></head><body><nav>no</nav><article class="bd-article">
<section id="teaching"><h1>Teaching<a class="headerlink" href="#teaching">#</a></h1>
<p class="x" onclick="y">See <a href="../notebooks/02_attention.html#def-attention">it</a>, <a href="project.html">this</a>,
<a href="#teaching">here</a>, <a href="https://example.org/">there</a>.</p>
<div class="scroll-box"><table class="table"><tr><td colspan="2">1</td></tr></table></div><script>z</script></section>
</article></body></html>"""


def test_the_guide_is_one_file_with_links_that_lead_somewhere():
    found = TOOL.guide(PAGE, "https://a.org/book/", "The Book")
    assert "<title>Teaching: The Book</title>" in found
    assert "<script" not in found
    assert "onclick" not in found
    assert '#teaching">#' not in found
    assert (
        'href="https://a.org/book/notebooks/02_attention.html#def-attention"'
        in found
    )
    assert 'href="https://a.org/book/book/project.html"' in found
    assert 'href="#teaching">here' in found
    assert 'href="https://example.org/">there' in found
    assert (
        '<div class="scroll" tabindex="0"><table><tr><td colspan="2">'
        in found
    )


def test_a_page_without_text_is_refused():
    with pytest.raises(TOOL.GuideError, match="has no text"):
        TOOL.guide("<p>nothing</p>", "", "The Book")


@pytest.fixture
def pages(tmp_path, monkeypatch):
    site = tmp_path / "_build/html"
    (site / "book").mkdir(parents=True)
    (site / "book/teaching.html").write_text(PAGE, "utf8")
    monkeypatch.setenv("SITE", str(site))
    return site


def test_the_command_makes_the_guide(pages, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("BOOK_URL", "none")
    target = tmp_path / "_build/course/guide/guide.html"
    assert TOOL.main([str(target)]) == 0
    assert capsys.readouterr().out == f"guide: {target}\n"
    text = target.read_text("utf8")
    assert 'href="../../html/book/project.html"' in text
    settings = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))
    assert f"Teaching: {settings['title']}" in text
    monkeypatch.setenv("BOOK_URL", "https://b.org/x")
    assert TOOL.main([str(target)]) == 0
    assert "https://b.org/x/book/project.html" in target.read_text("utf8")


def test_the_command_says_what_is_missing(pages, capsys, monkeypatch):
    monkeypatch.setenv("BOOK_URL", "nowhere")
    assert TOOL.main([]) == 1
    assert "BOOK_URL" in capsys.readouterr().err
    (pages / "book/teaching.html").unlink()
    assert TOOL.main([]) == 1
    assert "make book first" in capsys.readouterr().err


def test_filling_writes_the_page(pages, tmp_path, monkeypatch, capsys):
    (tmp_path / "book").mkdir()
    (tmp_path / "book/teaching.md").write_text("Nothing to fill.\n")
    (tmp_path / "_toc.yml").write_text("parts: []\n")
    monkeypatch.setattr(TOOL, "ROOT", tmp_path)
    (tmp_path / "book/teaching.md").write_text(
        "% The table, filled by tools/teachers_guide.py\n"
    )
    assert TOOL.main(["--fill"]) == 0
    assert "**all**" in (tmp_path / "book/teaching.md").read_text()
    assert "teaching.md" in capsys.readouterr().out
