"""The texts of the decks, and the builder that cuts their slides out of a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.extension_support import loaded
from tests.pages.contents import pages

ROOT = Path(__file__).resolve().parents[1]
build_slides = loaded(ROOT / "tools/build_slides.py")
DECKS = build_slides.decks()

# What a builder of pages writes: a cell with a figure, one with a listing, an equation in a block, an exercise with its hint.
PAGE = """<html><head><link rel="stylesheet" href="../_static/light/a.css" /></head><body>
<article class="bd-article"><h1><span class="section-number">2. </span>Things<a class="headerlink" href="#t">#</a></h1>
<div class="objectives admonition"><p class="admonition-title">What</p><ul class="simple"><li><p>See it.</p></li></ul></div>
<div class="proof definition admonition" id="def-thing"><p class="admonition-title">Definition</p>
<div class="math notranslate nohighlight" id="equation-eq-thing"><mjx-container>x</mjx-container></div>
<p class="evidence evidence-passed">Checked by <a href="../_tests/t.html">a test</a></p></div>
<div class="cell docutils container"><div class="cell_input docutils container"><pre>a = 1
print(a)</pre></div>
<div class="cell_output docutils container"><figure class="align-default" id="fig-thing">
<img alt="A thing" class="on-light" loading="lazy" src="../_images/a.png" width="10" height="20">
<img alt="A thing" class="on-dark" loading="lazy" src="../_images/b.png" width="10" height="20" hidden>
<figcaption><p>Fig. 2.1</p></figcaption></figure><details class="figure-in-words"><p>A thing</p></details></div></div>
<div class="cell docutils container"><div class="cell_input docutils container"><pre>show_source(thing)</pre></div>
<div class="cell_output docutils container"><pre>def thing(): ...</pre></div></div>
<div class="cell docutils container"><div class="cell_input docutils container"><pre>b = a</pre></div></div>
<table class="table"><tr><td><p>one row</p></td></tr></table>
<div class="exercise admonition" id="ex-thing-hand"><p>Do it.</p></div>
<div class="dropdown hint admonition"><p class="admonition-title">Hint</p><p>Begin.</p></div>
<div class="exercise admonition" id="ex-thing-prove"><p>Prove it.</p></div>
</article></body></html>"""
DECK = """minutes: 10 [2]
say: Welcome.

# A thing [8]
- a `point` and a *stress*
  that goes on
{shown}
say: Look,
  and look again.
"""


def deck_in(folder, text, page=PAGE):
    """A project with one deck, and a site with its chapter."""
    for name in ("slides/_static", "site/notebooks", "site/_static/light"):
        (folder / name).mkdir(parents=True)
    (folder / "slides/02_thing.md").write_text(text, "utf8")
    for name in build_slides.OWN:
        (folder / "slides/_static" / name).write_text("", "utf8")
    (folder / "site/notebooks/02_thing.html").write_text(page, "utf8")
    (folder / "site/_static/light/a.css").write_text("p{}", "utf8")
    (folder / "_config.yml").write_text("title: Maps & more\n", "utf8")
    (folder / "_toc.yml").write_text(
        "parts:\n- caption: Part I\n  chapters:\n  - file: notebooks/02_thing\n"
    )
    return folder


def built(folder):
    build_slides.build(folder, folder / "site", folder / "out", [])
    return (folder / "out/02_thing.html").read_text("utf8")


def test_each_chapter_has_a_deck():
    chapters = [
        name.removeprefix("notebooks/")
        for name in pages()
        if name.startswith("notebooks/")
    ]
    assert [deck.name for deck in DECKS] == sorted(chapters)


@pytest.mark.parametrize("deck", DECKS, ids=lambda deck: deck.name)
def test_a_deck_is_short_and_each_slide_is_spoken_for(deck):
    kinds = [{kind for kind, _, _ in slide.notes} for slide in deck.slides]
    assert 6 <= len(deck.slides) <= 12
    assert all("say" in kind for kind in kinds)
    everything = set.union(*kinds)
    assert {"ask", "expect"} <= everything
    assert 30 <= deck.minutes <= 90
    assert all(slide.minutes > 1 for slide in deck.slides)


@pytest.mark.parametrize("deck", DECKS, ids=lambda deck: deck.name)
def test_a_deck_ends_with_a_task(deck):
    assert [kind for kind, _, _ in deck.slides[-1].shown] == ["task"]


def test_a_slide_has_what_its_deck_names_and_nothing_of_the_page_around_it(
    tmp_path,
):
    shown = """show: def-thing
show: fig-thing
source: thing
cell: print( a )
table: one row
task: ex-thing-hand"""
    text = built(deck_in(tmp_path, DECK.format(shown=shown)))
    assert "<h1><span>2. </span>Things</h1>" in text.replace(
        ' class="section-number"', ""
    )
    assert "<li><p>See it.</p></li>" in text
    assert "a <code>point</code> and a <em>stress</em> that goes on" in text
    assert "<p>Look, and look again.</p>" in text
    assert text.count("<mjx-container>x</mjx-container>") == 1
    assert "def thing(): ..." in text
    assert "one row" in text
    assert "Prove it." not in text
    for left_out in ("Checked by", "figure-in-words", "headerlink", "lazy"):
        assert left_out not in text
    assert "_tests" not in text


def test_a_figure_comes_in_two_drawings_each_with_its_words(tmp_path):
    text = built(deck_in(tmp_path, DECK.format(shown="show: fig-thing")))
    drawings = re.findall(r'<img alt="A thing" class="(\S+)"', text)
    assert drawings == ["on-light", "on-dark"]
    assert '<div class="caption"><p>Fig. 2.1</p></div>' in text.replace(
        "\n", ""
    )


def test_the_hint_of_a_task_is_a_note(tmp_path):
    text = built(
        deck_in(tmp_path, DECK.format(shown="task: ex-thing-hand"))
    )
    slide, notes = text.split("<details")[1:3][1], text.split("<details")[2]
    assert "Begin." in notes
    assert "Begin." not in text.split("<details")[1].split("</details>")[1]
    assert slide == notes


def test_an_exercise_without_a_hint_takes_none_from_its_neighbour(tmp_path):
    text = built(
        deck_in(tmp_path, DECK.format(shown="task: ex-thing-prove"))
    )
    assert "Prove it." in text
    assert "Begin." not in text


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        (
            "show: fig-thin",
            "line 7: .* has no fig-thin; like it: fig-thing",
        ),
        ("show: eq:other", "line 7: the chapter has no eq:other"),
        ("task: ex-thing-no", "line 7: .* no ex-thing-no; like it: "),
        ("source: other", "does not show the source of other; .* thing"),
        ("cell: a", "line 7: [23] cells of the chapter have a; name what"),
        ("cell: zzz", "line 7: no cells of the chapter have zzz"),
        ("output: b = a", "line 7: the cell with b = a has no output"),
        ("table: two rows", "line 7: no tables of the chapter have two"),
        ("run: `zzz` See.", "line 7: no cells of the chapter have zzz"),
        ("run: the cell", "line 7: run: begins with a piece of the code"),
        (
            "- one $x$",
            "line 7: a formula is shown by the label that it has",
        ),
        ("picture: a.png", "line 7: neither a title .* show:, source:"),
        ("# Late", "line 7: neither a title with its minutes"),
        ("say: A.\n# B [3]\n# C [1]", "line 8: this slide has no notes"),
        ("# More [3]", "line 4: this slide has no notes"),
    ],
)
def test_a_deck_that_is_wrong_stops_the_build_in_one_line(
    shown, message, tmp_path
):
    folder = deck_in(tmp_path, DECK.format(shown=shown))
    with pytest.raises(build_slides.DeckError, match=message) as caught:
        built(folder)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("slides/02_thing.md, line ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: a deck begins with its minutes"),
        ("# A title [3]\n", "line 1: a deck begins with its minutes"),
        (
            "minutes: 9 [2]\nsay: A.\n# B [3]\nsay: C.\n",
            "the slides have 5 minutes together, not 9",
        ),
    ],
)
def test_the_minutes_of_a_deck_are_those_of_its_slides(
    text, message, tmp_path
):
    with pytest.raises(build_slides.DeckError, match=message):
        built(deck_in(tmp_path, text))


def test_a_deck_without_a_chapter_is_named(tmp_path):
    folder = deck_in(tmp_path, DECK.format(shown=""))
    (folder / "site/notebooks/02_thing.html").unlink()
    with pytest.raises(
        build_slides.DeckError, match=r"02_thing\.md: the book has no"
    ):
        built(folder)


def test_formulas_that_are_left_to_the_browser_stop_the_build(tmp_path):
    page = re.sub("</?mjx-container>", "", PAGE)
    folder = deck_in(tmp_path, DECK.format(shown="show: def-thing"), page)
    with pytest.raises(build_slides.DeckError, match="with Node"):
        built(folder)


def test_a_name_that_is_no_deck_is_told_with_those_that_are(tmp_path):
    folder = deck_in(tmp_path, DECK.format(shown=""))
    with pytest.raises(
        build_slides.DeckError, match="no deck 03; there are: 02_thing"
    ):
        build_slides.build(folder, folder / "site", tmp_path / "o", ["03"])


def test_the_command_says_in_one_line_what_is_wrong(
    tmp_path, monkeypatch, capsys
):
    folder = deck_in(tmp_path, DECK.format(shown="show: fig-other"))
    monkeypatch.setattr(build_slides, "ROOT", folder)
    arguments = ["--pages", f"{folder}/site", "--into", f"{folder}/out"]
    monkeypatch.setattr("sys.argv", ["build_slides.py", *arguments])
    assert build_slides.main() == 1
    told = capsys.readouterr()
    assert re.fullmatch(
        r"make: the slides were not built: slides/02_thing\.md, line 7: .*\n",
        told.err,
    )


def test_the_list_of_decks_names_the_book(tmp_path):
    folder = deck_in(tmp_path, DECK.format(shown=""))
    built(folder)
    index = (folder / "out/index.html").read_text("utf8")
    assert "<title>Slides: Maps &amp; more</title>" in index


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    folder = deck_in(tmp_path, DECK.format(shown=""))
    with pytest.raises(
        build_slides.DeckError, match="has other things than slides"
    ):
        build_slides.build(folder, folder / "site", folder / "slides", [])
    assert (folder / "slides/02_thing.md").is_file()


def test_a_deck_of_an_earlier_build_goes(tmp_path):
    folder = deck_in(tmp_path, DECK.format(shown=""))
    built(folder)
    (folder / "out/03_gone.html").write_text("", "utf8")
    assert "A thing" in built(folder)
    assert not (folder / "out/03_gone.html").exists()
