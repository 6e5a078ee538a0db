"""The evidence of the book: each claim has its tests, each mark its claim, and both are what the pages say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import types

import nbformat
import pytest
import yaml
from bs4 import BeautifulSoup

from tests import claims
from tests.extension_support import EXTENSIONS, ROOT, extension
from tools import provenance
from tools.fingerprint import of_claims

evidence = extension("evidence")
# The package beside these tests, whichever is installed.
PATHS = [str(ROOT), str(ROOT / "src")]
test_sources = sys.modules["test_sources"]
TESTS = test_sources.read_tests(ROOT / "tests")
BLOCK = re.compile(
    r"^[ \t]*(?::{3,}|`{3,})\{prf:(\w+)\}[^\n]*\n(?:[ \t]*:(?!label)[^\n]*\n)*(?:[ \t]*:label:[ \t]*(\S+))?",
    re.MULTILINE,
)


def texts():
    """(name of the page, its text) for every page with prose."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        yield (
            path.stem,
            "\n\n".join(
                cell.source
                for cell in cells
                if cell.cell_type == "markdown"
            ),
        )
    for path in sorted((ROOT / "book").glob("*.md")):
        yield path.stem, path.read_text("utf8")


def stated():
    """(page, label) of each block that states something; the label is empty where there is none."""
    return [
        (page, label)
        for page, text in texts()
        for kind, label in BLOCK.findall(text)
        if kind not in evidence.NO_CLAIM
    ]


def checking(label):
    return [test for test in TESTS.values() if label in test.claims]


# --- This book ------------------------------------------------------------------------------------


def test_blocks_are_found_with_and_without_a_label():
    text = (
        ":::{prf:theorem} A title\n:label: thm-a\nx\n:::\n\n"
        "```{prf:remark}\nNone\n```\n"
        "::::{prf:lemma}\n:class: c\n:label: lem-b\n"
    )
    assert BLOCK.findall(text) == [
        ("theorem", "thm-a"),
        ("remark", ""),
        ("lemma", "lem-b"),
    ]


@pytest.mark.parametrize(("page", "label"), stated())
def test_a_claim_has_a_label_and_a_test(page, label):
    assert label, "a block without a label of its own"
    assert [test.key for test in checking(label) if not test.slow]


def test_no_label_is_used_twice():
    labels = [label for _, label in stated()]
    assert sorted(set(labels)) == sorted(labels)


@pytest.mark.parametrize(
    "test",
    [test for test in TESTS.values() if test.claims or test.faults],
    ids=lambda test: test.key,
)
def test_a_mark_names_claims_that_there_are(test):
    assert test.faults == ()
    labels = {label for _, label in stated()}
    assert set(test.claims) <= labels


def test_numbered_equations_name_what_computes_them():
    """Each numbered equation names its function; those that nothing computes are listed with the reason."""
    reasons = yaml.safe_load(
        (ROOT / "tests" / "not_computed.yml").read_text("utf8")
    )
    open_ones, useless = [], set(reasons)
    for page, text in texts():
        for label, after in re.findall(
            r"^\$\$[ \t]*\((eq:[\w:-]+)\)[ \t]*\n+([^\n]*)",
            text + "\n\n",
            re.MULTILINE,
        ):
            computed = after.startswith("{computed-by}`")
            if label in reasons:
                useless -= set() if computed else {label}
            elif not computed:
                open_ones.append(f"{page}: {label}")
    assert open_ones == []
    assert useless == set(), "computed after all, or not there any more"
    assert all(len(reason) > 10 for reason in reasons.values())


def test_every_label_of_an_equation_is_in_a_form_that_is_looked_at():
    for page, text in texts():
        everywhere = set(re.findall(r"\((eq:[\w:-]+)\)[ \t]*$", text, re.M))
        assert everywhere == set(
            re.findall(r"^\$\$[ \t]*\((eq:[\w:-]+)\)", text, re.M)
        ), page
        assert ":label: eq" not in text


# --- Reading the tests ----------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path):
    def write(text, name="tests/test_small.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), "utf8")
        return tmp_path

    return write


SMALL = """
    import pytest


    @pytest.mark.claim("thm-right")
    def test_one_and_one_are_two():
        assert 1 + 1 == 2


    def stored_result(name):
        return [1]


    @pytest.mark.parametrize("x", [1, 2])
    @pytest.mark.claim("thm-right", "thm-wrong")
    def test_x_is_one(x):
        assert x == 1


    @pytest.mark.claim("thm-left-out")
    def test_left_out():
        pytest.skip("not here")


    @pytest.mark.claim("thm-expected")
    @pytest.mark.xfail(reason="known", strict=True)
    def test_expected_to_fail():
        assert 1 + 1 == 3


    @pytest.mark.claim("thm-setup")
    def test_what_stands_before(missing_fixture):
        assert True


    @pytest.mark.slow
    @pytest.mark.claim("thm-slow")
    def test_slow():
        assert True


    def test_of_no_claim():
        assert True
"""


def test_tests_are_read_with_their_claims_and_lines(written):
    folder = written(SMALL) / "tests"
    lines = (folder / "test_small.py").read_text("utf8").splitlines()
    found = test_sources.read_tests(folder)
    assert len(found) == 7
    both = found["test_small.py::test_x_is_one"]
    assert both.claims == ("thm-right", "thm-wrong")
    assert lines[both.line - 1] == "def test_x_is_one(x):"
    assert both.words == "x is one"
    assert found["test_small.py::test_of_no_claim"].claims == ()
    assert found["test_small.py::test_slow"].slow
    assert not both.slow


FROM_STORED = """
    import pytest

    KEPT = [n for n in stored_result("one")["rows"]]
    first, _ = KEPT[:2]


    def values(key):
        return experiment("one")[key]


    @pytest.fixture
    def maps():
        return stored_maps()


    def test_by_name():
        assert KEPT


    def test_by_a_value():
        assert first == 1


    def test_by_a_helper():
        assert values("a") == 1


    def test_by_a_fixture(maps):
        assert maps


    def test_its_own_values():
        values = [1]
        assert values == [1]


    @pytest.mark.parametrize("first", [1])
    def test_a_parameter(first):
        assert first == 1


    def test_a_keyword():
        assert dict(values=1)
"""


def test_what_was_measured_before_is_known_from_the_lines(written):
    folder = written(FROM_STORED, "stored/test_small.py").joinpath("stored")
    assert {
        test.name
        for test in test_sources.read_tests(folder).values()
        if test.stored
    } == {
        "test_by_name",
        "test_by_a_value",
        "test_by_a_helper",
        "test_by_a_fixture",
    }


@pytest.mark.parametrize(
    ("tests", "rests"),
    [
        ([("stored", "ordinary")], True),
        ([("stored", "ordinary"), ("measured", "slow")], True),
        ([("stored", "ordinary"), ("measured", "ordinary")], False),
        ([("measured", "ordinary")], False),
        ([("stored", "slow")], False),
        ([], False),
    ],
)
def test_a_claim_rests_on_stored_results_if_no_ordinary_run_measures(
    tests, rests
):
    made = [
        test_sources.Test(
            "test_small.py",
            f"test_{n}",
            1,
            slow=when == "slow",
            stored=how == "stored",
        )
        for n, (how, when) in enumerate(tests)
    ]
    assert evidence.rests_on_stored(made) is rests


def test_claims_of_this_book_that_rest_on_stored_results_are_few():
    found = {
        label
        for _, label in stated()
        if evidence.rests_on_stored(checking(label))
    }
    assert {"obs-parallel-heads", "obs-shared-minilm"} <= found
    assert "cor-fast-weights" not in found
    assert all(label.startswith(("obs-", "cor-")) for label in found)
    assert len(found) < len(stated()) / 6


@pytest.mark.parametrize(
    "mark", ["claim", "claim()", "claim(LABEL)", "claim('a', 1)"]
)
def test_a_mark_that_cannot_be_read_is_a_fault(written, mark):
    text = f"@pytest.mark.{mark}\ndef test_a():\n    assert True\n"
    (found,) = test_sources.read_tests(written(text) / "tests").values()
    assert found.faults == (
        "line 1: write the labels of a claim as plain strings",
    )


@pytest.mark.parametrize(
    "text",
    [
        "class TestA:\n    @pytest.mark.claim('a')\n    def test_a(self):\n        assert True\n",
        "pytestmark = pytest.mark.claim('a')\n",
        "CASE = pytest.param(1, marks=pytest.mark.claim('a'))\n",
        "@pytest.mark.claim('a')\ndef helper():\n    assert True\n",
    ],
)
def test_a_mark_that_would_be_run_and_not_read_is_a_fault(written, text):
    (found,) = test_sources.read_tests(written(text) / "tests").values()
    assert (
        "a claim is marked on a test function, directly" in found.faults[0]
    )


def run_with_evidence(folder, *options):
    """Run the tests of a folder with the plugin; return what pytest printed and the record."""
    (folder / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\nmarkers = ["claim", "slow"]\naddopts = "--strict-markers"\n'
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.claims"]
    command += ["-p", "no:cacheprovider", "--evidence=record.json"]
    done = subprocess.run(
        [*command, "-m", "not slow", *(options or ["tests"])],
        cwd=folder,
        env={"PYTHONPATH": os.pathsep.join(PATHS), "PATH": ""},
        capture_output=True,
        text=True,
    )
    record = json.loads((folder / "record.json").read_text("utf8"))
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", record.pop("when")
    )
    return done.stdout + done.stderr, record


def test_a_run_writes_down_what_became_of_each_claim(written):
    folder = written(SMALL)
    printed, record = run_with_evidence(folder)
    assert "1 xfailed, 1 error" in printed
    outcomes = {
        name.rpartition("::")[2]: (test["outcome"], test["cases"])
        for name, test in record["tests"].items()
    }
    assert outcomes == {
        "test_one_and_one_are_two": ("passed", 1),
        "test_x_is_one": ("failed", 2),
        "test_left_out": ("skipped", 1),
        "test_expected_to_fail": ("failed", 1),
        "test_what_stands_before": ("failed", 0),
    }
    name = "tests/test_small.py::test_x_is_one"
    assert record["tests"][name]["claims"] == ["thm-right", "thm-wrong"]
    assert record["versions"]["Python"] == sys.version.split()[0]
    assert record["doubt"] == ""
    assert record["code"] == of_claims(ROOT)
    assert run_with_evidence(folder, "tests", "-n", "2")[1] == record


def test_a_case_that_takes_its_process_with_it_has_failed(written):
    folder = written(
        """
        import os

        import pytest


        @pytest.mark.claim("thm-a")
        @pytest.mark.parametrize("x", range(4))
        def test_it_ends(x):
            if x == 3:
                os._exit(3)
            assert x < 3
        """
    )
    _, record = run_with_evidence(folder, "tests", "-n", "2")
    (test,) = record["tests"].values()
    assert test["outcome"] == "failed"


@pytest.mark.parametrize(
    "options",
    [
        ["tests", "-k", "one"],
        ["tests", "-x"],
        ["tests/test_small.py"],
        ["tests/test_small.py::test_x_is_one[1]"],
        ["tests", "-m", "slow"],
        ["tests", "--deselect", "tests/test_small.py::test_left_out"],
    ],
    ids=" ".join,
)
def test_a_part_of_the_tests_speaks_for_nothing(written, options):
    _, record = run_with_evidence(written(SMALL), *options)
    assert record["code"] == ""
    assert record["doubt"] == "only a part of the tests was run"


def session(**given):
    """A whole run that ended well, but for what is given."""
    option = {
        "keyword": "",
        "deselect": None,
        "maxfail": 0,
        "markexpr": "not slow",
    }
    return types.SimpleNamespace(
        exitstatus=given.get("exitstatus", pytest.ExitCode.OK),
        config=types.SimpleNamespace(
            option=types.SimpleNamespace(**option),
            args=["tests"],
            stash={claims.CODE: given.get("code", of_claims(ROOT))},
        ),
    )


def test_what_a_record_may_speak_for(monkeypatch, tmp_path):
    monkeypatch.setattr(claims, "of_claims", lambda root: "now")
    # Wherever these tests run, the package beside them is the one to be tested.
    monkeypatch.setattr(
        claims.importlib.util,
        "find_spec",
        lambda name: types.SimpleNamespace(
            origin=ROOT / "src" / name / "__init__.py"
        ),
    )
    assert claims.doubt(session(code="now")) == ""
    failed = session(code="now", exitstatus=pytest.ExitCode.TESTS_FAILED)
    assert claims.doubt(failed) == ""
    assert claims.doubt(session(code="before")) == (
        "something changed while the tests ran"
    )
    cut = session(code="now", exitstatus=pytest.ExitCode.INTERRUPTED)
    assert claims.doubt(cut) == "the run was not finished"
    monkeypatch.setattr(
        claims.importlib.util,
        "find_spec",
        lambda name: types.SimpleNamespace(origin=tmp_path / "x.py"),
    )
    assert claims.doubt(session(code="now")) == (
        "another copy of the package was tested"
    )


# --- Judging --------------------------------------------------------------------------------------


def judged(
    outcomes,
    claims=("thm-a",),
    marks=("thm-a",),
    code="now",
    doubt="",
    ran=None,
    slow=(),
):
    tests = {
        f"test_x.py::test_{n}": test_sources.Test(
            "test_x.py", f"test_{n}", n + 1, tuple(marks), slow=n in slow
        )
        for n in range(len(outcomes))
    }
    record = evidence.Record(
        "2000-01-01",
        code,
        (),
        {
            f"tests/{key}": outcome
            for key, outcome in zip(tests, outcomes, strict=True)
            if outcome
        },
        {f"tests/{key}": marks for key in tests} if ran is None else ran,
        doubt,
    )
    stated = [evidence.Claim(label, "page", "theorem") for label in claims]
    return list(
        evidence.faults(stated, tests, {"thm-elsewhere"}, record, "now")
    )


def test_nothing_is_said_of_sound_evidence():
    assert judged(["passed"]) == []
    # A slow test is run apart.
    assert judged(["passed", None], slow=[1]) == []
    # A course may leave a chapter out, and keep its tests.
    assert judged(["passed"], (), ["thm-elsewhere"]) == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"outcomes": ["passed", "failed"]},
            "thm-a is checked by tests/test_x.py::test_1, which has failed",
        ),
        (
            {"outcomes": ["passed", "skipped"]},
            "thm-a is checked by tests/test_x.py::test_1, which was skipped",
        ),
        (
            {"outcomes": ["passed", None]},
            "thm-a is checked by tests/test_x.py::test_1, which was not run",
        ),
        (
            {"outcomes": [None], "slow": [0]},
            "no test of an ordinary run says that it checks thm-a",
        ),
        (
            {"outcomes": ["passed"], "ran": {"tests/a.py::b": ("thm-a",)}},
            "tests/a.py::b ran as a check of thm-a, which its lines do not say",
        ),
        (
            {
                "outcomes": ["passed"],
                "ran": {"tests/test_x.py::test_0": ("thm-a", "thm-c")},
            },
            "tests/test_x.py::test_0 ran as a check of thm-a, thm-c, which its lines do not say",
        ),
        (
            {"outcomes": [None]},
            "thm-a is checked by tests/test_x.py::test_0, which was not run",
        ),
        (
            {"outcomes": []},
            "no test of an ordinary run says that it checks thm-a",
        ),
        (
            {"outcomes": ["passed"], "marks": ["thm-a", "thm-b"]},
            "tests/test_x.py::test_0 names a claim that no page states: thm-b",
        ),
        (
            {"outcomes": [], "claims": ["theorem-0"]},
            "a theorem has no label of its own",
        ),
        (
            {"outcomes": ["passed"], "code": "before"},
            "the record of the tests (2000-01-01) proves nothing here: it is of other code than this; run `make test` again",
        ),
        (
            {"outcomes": ["passed"], "code": "", "doubt": "half was run"},
            "the record of the tests (2000-01-01) proves nothing here: half was run; run `make test` again",
        ),
    ],
)
def test_what_is_wrong_with_the_evidence_is_told(given, told):
    assert [fault for fault, _ in judged(**given)] == [told]


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"when": "2000"}', '{"tests": 1}', '{"tests": {"a": {}}}'],
)
def test_a_record_that_cannot_be_read_is_none(tmp_path, text):
    path = tmp_path / "evidence.json"
    assert evidence.read_record(path) == evidence.Record()
    path.write_text(text)
    assert evidence.read_record(path) == evidence.Record()


def test_without_a_record_there_is_one_fault_only():
    stated = [evidence.Claim("thm-a", "page", "theorem")]
    (fault,) = evidence.faults(stated, {}, set(), evidence.Record(), "now")
    assert "run `make test` first" in fault[0]


# --- The pages ------------------------------------------------------------------------------------

PAGES = {
    "index": """
        # A book

        ```{toctree}
        chapter
        list
        ```
    """,
    "chapter": """
        # A chapter

        :::{prf:theorem} Sums
        :label: thm-right
        Of $1 + 1$ there is *two*; see {eq}`eq:sum` and {doc}`list`. More follows.

        A second paragraph.
        :::

        :::{prf:remark}
        :label: thm-wrong
        A remark that goes on, and on, and on, so that it is longer than what the list repeats of a statement before
        it looks for the end of a sentence. That takes two hundred and forty letters, which are a few lines of a page;
        nobody reads more of a statement in a list than that.

        This is left out.
        :::

        $$
        1 + 1 = 2
        $$ (eq:sum)

        {computed-by}`small.add`

        As {test}`test_small.py::test_of_no_claim` says,
        and {test}`other words <test_small.py::test_slow>` do.

        ```{py:function} small.add(a, b)
        ```
    """,
    "list": """
        # Evidence

        ## Claims

        :::{evidence}
        :::

        ## Equations

        :::{computed-equations}
        :::
    """,
}
OVER_AGAIN = """

    @pytest.mark.claim("thm-wrong")
    def test_as_it_was():
        assert stored_result("one") == [1]
"""


@pytest.fixture
def book(written, tmp_path):
    """Build a small book; return what Sphinx says and how to read a page."""

    def build(record=None, strict=False, tests=SMALL, **pages):
        written(tests, "source/tests/test_small.py")
        for name, text in {**PAGES, **pages}.items():
            written(text, f"source/{name}.md")
        written(
            f"""
            import sys

            sys.path.insert(0, {str(EXTENSIONS)!r})
            extensions = ["myst_parser", "sphinx_proof"]
            extensions += ["test_sources", "computed_by"]
            extensions += ["evidence", "evidence_list"]
            myst_enable_extensions = ["colon_fence", "dollarmath"]
            root_doc = "index"
            numfig = True
            """,
            "source/conf.py",
        )
        if record is not None:
            tests = {
                f"tests/test_small.py::{name}": {
                    "outcome": outcome,
                    "claims": MARKS[name],
                }
                for name, outcome in record.items()
            }
            text = json.dumps(
                {
                    "when": "2000-01-01 00:00 UTC",
                    "code": "now",
                    "doubt": "",
                    "versions": {"Python": "3.99"},
                    "tests": tests,
                }
            )
            written(text, "source/_build/evidence.json")
        done = subprocess.run(
            [
                *[sys.executable, "-m", "sphinx", "-q", "-W"],
                *["--keep-going", "source", "html"],
            ],
            cwd=tmp_path,
            env={
                "EVIDENCE_CODE": "now",
                "EVIDENCE_STRICT": "1" if strict else "",
                "PATH": "",
            },
            capture_output=True,
            text=True,
        )

        def page(name):
            return BeautifulSoup(
                (tmp_path / f"html/{name}.html").read_text("utf8"),
                "html.parser",
            )

        return done, page

    return build


MARKS = {
    "test_as_it_was": ["thm-wrong"],
    "test_one_and_one_are_two": ["thm-right"],
    "test_x_is_one": ["thm-right", "thm-wrong"],
}
GOOD = {"test_one_and_one_are_two": "passed", "test_x_is_one": "passed"}


def said(page):
    return [line.get_text() for line in page.select("p.evidence")]


def test_a_claim_leads_to_its_tests_and_the_list_to_the_claim(book):
    done, page = book(GOOD)
    assert done.returncode == 0, done.stderr
    chapter, listed = page("chapter"), page("list")
    assert said(chapter) == [
        "\u2713 Checked by one and one are two; x is one",
        "\u2713 Checked by x is one",
    ]
    (box,) = chapter.select("div.proof.theorem")
    assert box.select("p.evidence")
    for link in box.select("p.evidence a"):
        file, anchor = link["href"].split("#")
        assert file == "_tests/test_small.html"
        place = page("_tests/test_small").find(id=anchor)
        assert place.get_text().startswith(f"def {anchor}(")
    # The role for a test in running text; what is linked has its page.
    assert chapter.find("a", string="of no claim")["href"].endswith(
        "#test_of_no_claim"
    )
    assert chapter.find("a", string="other words")["href"] == (
        "_tests/test_small.html#test_slow"
    )
    # And back, from the mark of a test to the statement.
    back = page("_tests/test_small").find("a", string="thm-wrong")
    assert back["href"] == "../chapter.html#thm-wrong"
    overview, equations = listed.select("table")
    assert [cell.get_text() for cell in overview.select("td")] == [
        "A chapter",
        "2",
        "2",
    ]
    first, second = listed.select("div.claim")
    assert first.a["href"] == "chapter.html#thm-right"
    lines = [line.get_text() for line in first.select("p")]
    assert re.fullmatch(r"Theorem [\d.]+ Sums", lines[0])
    assert lines[1] == (
        "Of \\(1 + 1\\) there is two; see (1) and Evidence. More follows."
    )
    assert [link["href"] for link in first.select("p")[1].select("a")] == [
        "chapter.html#equation-eq-sum",
        "#",
    ]
    assert lines[2:] == ["A second paragraph.", *said(chapter)[:1]]
    assert "nobody reads more" in second.get_text()
    assert "This is left out" not in second.get_text()
    assert second.select("p.evidence a")[0]["href"] == (
        "_tests/test_small.html#test_x_is_one"
    )
    # Formulas of other pages are set here too.
    assert listed.select("script[src*=mathjax]")
    text = " ".join(listed.get_text().split())
    assert "states 2 things" in text
    assert "every one of them was confirmed" in text
    assert "The run: 2000-01-01 00:00 UTC, with Python 3.99." in text
    assert "has changed" not in text
    # Equations and what computes them, on their page and in the list.
    (line,) = chapter.select("p.computed-by")
    assert line.get_text() == "computed by add"
    assert line.a["href"] == "#small.add"
    row = equations.select("tbody td")
    assert [cell.get_text() for cell in row] == ["A chapter", "(1)", "add"]
    assert row[1].a["href"] == "chapter.html#equation-eq-sum"
    assert row[2].a["href"] == "chapter.html#small.add"


def test_what_was_compared_with_stored_results_says_so(book, written):
    script, kept = "print(1)", '{"date": "2000-01-01", "code": "other"}'
    written(script, "source/bench/one.py")
    written(kept, f"source/{provenance.STORED}/one.json")
    text = (
        PAGES["list"] + "\n        :::{stored-measurements}\n        :::\n"
    )
    record = {
        "test_one_and_one_are_two": "passed",
        "test_as_it_was": "passed",
    }
    only = SMALL.replace('"thm-right", "thm-wrong"', '"thm-right"')
    done, page = book(record, tests=only + OVER_AGAIN, list=text)
    assert done.returncode == 0, done.stderr
    assert said(page("chapter"))[1] == (
        "\u2713 Agrees with what was measured and stored: as it was"
    )
    listed = page("list")
    text = " ".join(listed.get_text().split())
    assert "For 1 of them something was computed again. The other 1" in text
    cells = [
        cell.get_text() for cell in listed.select("table")[-1].select("td")
    ]
    assert cells == ["one", "2000\u201101\u201101", "has changed"]


def test_a_book_without_a_record_says_so_and_is_built(book):
    done, page = book()
    assert done.returncode == 0, done.stderr
    assert said(page("chapter"))[1] == (
        "Not yet run here; it is checked by x is one"
    )
    text = page("list").get_text()
    assert "not yet run where these pages were built" in " ".join(
        text.split()
    )
    assert "not run here" in text


def test_a_claim_that_failed_says_so_and_stops_a_strict_build(book):
    record = {**GOOD, "test_x_is_one": "failed"}
    done, page = book(record)
    assert done.returncode == 0, done.stderr
    assert said(page("chapter"))[1] == (
        "\u2717 NOT confirmed by the last run of x is one (failed)"
    )
    text = " ".join(page("list").get_text().split())
    assert "0 were confirmed and 2 were not" in text
    done, _ = book(record, strict=True)
    assert done.returncode != 0
    for label in ("thm-right", "thm-wrong"):
        assert (
            f"chapter.md: WARNING: {label} is checked by tests/test_small.py::test_x_is_one, which has failed"
            in done.stderr
        )
    # SMALL also marks claims that this book does not state.
    assert (
        "tests/test_small.py::test_slow names a claim that no page states: thm-slow"
        in done.stderr
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{computed-by}`small.add`", "directly under an equation"),
        (
            "$$\n1\n$$\n\n{computed-by}`small.add`",
            "directly under an equation",
        ),
        (
            "$$\n1\n$$ (eq:one)\n\nIt is {computed-by}`small.add`",
            "a paragraph of its own",
        ),
        (
            "$$\n1\n$$ (eq:one)\n\n{computed-by}`small.nothing`",
            "small.nothing",
        ),
        ("{test}`test_small.py::test_nothing`", "there is no test"),
    ],
)
def test_a_line_that_leads_nowhere_stops_the_build(book, text, told):
    done, _ = book(GOOD, list=f"# Evidence\n\n{text}\n")
    assert done.returncode != 0
    assert told in done.stderr
