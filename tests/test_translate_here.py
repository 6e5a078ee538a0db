"""The trained model on a page: what was typed and what is answered, the weights that the site serves, the form of a page."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile

import pytest
from bs4 import BeautifulSoup

from attention_in_detail.figures import attention_viewer
from attention_in_detail.tasks.number_words import (
    german_words,
    split_numbers,
)
from attention_in_detail.tasks.scores import translations
from attention_in_detail.tasks.tracing import traced_translation
from attention_in_detail.trained import trained_number_words
from tests.book_support import assert_built, page_of
from tests.extension_support import ROOT, extension, loaded

live = extension("live")
shell = loaded(ROOT / "book" / "_live" / "live_shell.py")
translator = loaded(ROOT / "book" / "_live" / "live_translator.py")
MODEL = trained_number_words()


def answer(text):
    """What a page gets for a typed text: sent as the worker sends it."""
    told = []
    line = f"translated({json.dumps(text, ensure_ascii=False)})"
    page = shell.Shell()
    page.names["translated"] = translator.translated
    assert page.run(line, 1, told.append)
    (one,) = map(json.loads, told)
    return one["data"]["application/json"]


# What is typed


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("677", "677"),
        (" 677 ", "677"),
        ("0", "0"),
        ("007", "7"),
        ("999999", "999,999"),
        ("999,999", "999,999"),
        ("45 067", "45,067"),
        ("45.067", "45,067"),
        ("45\u202f067", "45,067"),
        ("45'067", "45,067"),
    ],
)
def test_a_number_is_read_as_people_write_it(text, number):
    assert translator.refused(text) is None
    assert answer(text)["says"].startswith(f"{number}, ")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "Nothing was typed."),
        ("   ", "Nothing was typed."),
        ("seven", "“seven” is no whole number in digits."),
        ("1.5", "“1.5” is no whole number in digits."),
        ("12,34", "“12,34” is no whole number in digits."),
        ("1e3", "“1e3” is no whole number in digits."),
        ("7\n8", "“7\n8” is no whole number in digits."),
        ("-3", "-3 is below 0."),
        ("−12,000", "−12,000 is below 0."),
        ("1000000", "1000000 is too large."),
        ("1,000,000", "1,000,000 is too large."),
        ("9" * 5000, f"{'9' * 20}… is too large."),
        (
            '"); import os #',
            '“"); import os #” is no whole number in digits.',
        ),
        ("😀", "“😀” is no whole number in digits."),
    ],
)
def test_what_is_no_number_is_told_with_those_that_are(text, says):
    given = answer(text)
    assert given == {
        "says": f"{says} The model knows numbers from 0 to 999,999."
    }


# What is answered


def test_an_answer_is_the_traced_translation_in_words():
    given = answer("677")
    assert given["english"] == "six hundred seventy seven"
    assert given["word"] == "sechshundertsiebenundsiebzig"
    assert given["verdict"] == "Right."
    assert given["says"] == (
        "677, six hundred seventy seven: sechshundertsiebenundsiebzig, right. 6 steps."
    )
    traced = traced_translation(MODEL, 677)
    assert [step[0][0] for step in given["steps"]] == traced.german
    assert {len(step) for step in given["steps"]} == {3}
    for step, candidates in zip(
        given["steps"], traced.candidates, strict=True
    ):
        for (token, told), one in zip(step, candidates, strict=True):
            assert token == one.token
            if told[0] not in "<>":
                assert float(told) == pytest.approx(
                    one.probability, abs=5e-4
                )
    viewer = attention_viewer(
        traced.weights,
        traced.german,
        traced.english,
        layer=1,
        head=2,
        query_label="German, written",
        key_label="English, read",
    )
    assert given["viewer"] == viewer.attributes
    assert given["alt"] == viewer.text_alternative


@pytest.mark.parametrize(
    ("probability", "told"),
    [
        (0.0, "0.000"),
        (1e-9, "< 0.001"),
        (0.0004999, "< 0.001"),
        (0.0005, "0.001"),
        (0.25, "0.250"),
        (0.9994, "0.999"),
        (0.99951, "> 0.999"),
        (1.0, "1.000"),
    ],
)
def test_no_probability_is_told_as_0_or_1_that_is_not(probability, told):
    assert translator.told(probability) == told


def test_what_is_wrong_is_called_wrong():
    numbers = range(200)
    wrong = [
        number
        for number, found in zip(
            numbers, translations(MODEL, list(numbers)), strict=True
        )
        if found != german_words(number)
    ]
    assert 0 in wrong
    for number in wrong:
        given = answer(str(number))
        wanted = "".join(german_words(number))
        assert given["verdict"] == f"Wrong: it is {wanted}."
        assert given["says"].count(f"wrong: it is {wanted}.") == 1


@pytest.mark.parametrize(
    "how_many", [12, pytest.param(200, marks=pytest.mark.slow)]
)
def test_numbers_are_translated_as_the_package_does_it(how_many):
    held_out = split_numbers()[1]
    numbers = [int(n) for n in held_out[200 : 200 + how_many]]
    batch = translations(MODEL, numbers)
    for number, tokens in zip(numbers, batch, strict=True):
        assert translator.translated(str(number)).data["word"] == "".join(
            tokens
        )


# What the site serves


def test_the_weights_are_a_file_of_the_site_under_400_kb_and_nothing_else_carries_them():
    files = live.of_site()
    content = files["attention_in_detail.trained.zip"]
    assert len(content) < 400_000
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        names = opened.namelist()
    assert sorted(names) == [
        f"attention_in_detail/trained/{name}"
        for name in (
            "__init__.py",
            "_files.py",
            "decoder_only.npz",
            "number_words.npz",
        )
    ]
    with zipfile.ZipFile(io.BytesIO(files["book.zip"])) as opened:
        assert not [n for n in opened.namelist() if "/trained/" in n]
        assert "live_translator.py" in opened.namelist()
    lock = json.loads(files[live.LOCK])
    assert lock["site"]["attention_in_detail.trained.zip"]["bytes"] == len(
        content
    )


# What the worker does, with what the site serves in a folder.
AS_THE_WORKER = """
import sys, zipfile
from pathlib import Path
class No:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "keras", "beartype"):
            raise ImportError(name)
folder, fetched = Path(sys.argv[1]), []
sys.meta_path.insert(0, No())
place = str(folder / "book")
zipfile.ZipFile(folder / "book.zip").extractall(place)
sys.path.insert(0, place)
import live_shell
def fetch(name):
    fetched.append(name)
    return (folder / f"{name}.zip").read_bytes()
sys.meta_path.insert(0, live_shell.Later(place, ["attention_in_detail.trained"], fetch))
import attention_in_detail.models.maps, attention_in_detail.tasks.tracing
assert fetched == [], fetched
from live_translator import ready, translated
ready()
print(translated("677").data["word"], fetched, "torch" in sys.modules)
"""


def test_the_served_files_translate_without_torch_and_fetch_the_weights_once(
    tmp_path,
):
    """As the worker does it: the zip file of the book on the path, the weights when they are imported."""
    files = live.of_site()
    for name in ("book.zip", "attention_in_detail.trained.zip"):
        (tmp_path / name).write_bytes(files[name])
    done = subprocess.run(
        [sys.executable, "-c", AS_THE_WORKER, tmp_path],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == (
        "sechshundertsiebenundsiebzig ['attention_in_detail.trained'] False"
    )


# The page

CONF = """
extensions = ["myst_nb", "attention_viewer", "translate_here"]
myst_enable_extensions = ["colon_fence"]
epub_show_urls = "no"
live_pyodide = {setting!r}
"""
PAGE = """# A page

Before.

:::{translate-here}
On the web page the model *answers*.
:::

After.
"""


@pytest.fixture
def built(tmp_path):
    def build(setting, builder="html"):
        settings = CONF.format(setting=setting)
        return assert_built(tmp_path, settings, "sub/one.md", PAGE, builder)

    return build


def test_a_form_says_beforehand_what_will_come_and_from_where(built):
    out = built("https://example.org/pyodide/v1/full/")
    page = page_of(out, "sub/one")
    place = page.select_one(".live-ask")
    assert place["data-pyodide"] == "https://example.org/pyodide/v1/full/"
    assert place["data-place"] == "example.org"
    label = place.label
    assert label.get_text() == "A number from 0 to 999,999"
    assert label["for"] == place.input["id"]
    says = place.select_one(".live-says[role=status]")
    assert place.input["aria-describedby"] == says["id"]
    weights = len(live.of_site()["attention_in_detail.trained.zip"]) / 1e6
    text = says.get_text().replace("\N{NO-BREAK SPACE}", " ")
    assert "MB from example.org" in text
    assert f"its weights: {weights:.1f} MB from this site" in text
    assert "Without scripts" in place.noscript.get_text()
    assert "answers" not in page.get_text()
    scripts = [
        tag["src"].partition("?")[0] for tag in page.select("script[src]")
    ]
    for name in ("live/start.js", "attention_viewer.js"):
        assert scripts.count(f"../_static/{name}") == 1
    for name in ("ask.js", "python.js"):
        assert (out / "_static" / "live" / name).is_file()
        assert not [script for script in scripts if name in script]
    front = page_of(out, "index")
    assert not front.select(".live-ask, script[src*=live]")


@pytest.mark.parametrize(
    ("setting", "builder"), [("", "html"), ("https://a.org/", "epub")]
)
def test_where_nothing_runs_the_words_stand(setting, builder, built):
    out = built(setting, builder)
    name = "sub/one" if builder == "html" else "sub/one.x"
    suffix = "html" if builder == "html" else "xhtml"
    text = (out / f"{name.removesuffix('.x')}.{suffix}").read_text("utf8")
    page = BeautifulSoup(text, "html.parser")
    assert "On the web page the model answers." in page.get_text()
    assert page.select("p > em")
    assert not page.select(".live-ask, form.live-ask")
    assert not [
        tag for tag in page.select("script[src]") if "live" in tag["src"]
    ]
