"""Marking returned notebooks: every file gets a row, answers are judged where no student's code runs, and nothing is harmed."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import attention_in_detail
from attention_in_detail.exercises import (
    CHAPTERS,
    check,
    exercises_of,
    judging,
)
from attention_in_detail.exercises.judging import NO_ANSWER, observed
from tests.extension_support import ROOT
from tests.test_exercises import solutions
from tools import mark, run_answers
from tools.home import Home
from tools.mark import CannotMark, Limits, Place
from tools.plain_markdown import Book
from tools.student_notebooks import for_students

MIB = 1 << 20
# By this a process is known as one that these tests have started.
Place.login = f"student-of-{os.getpid()}"
SMALL = Limits(seconds=20, memory=700 * MIB, processes=20, notebook=2 * MIB)
IMPORTS = "import numpy as np\nfrom attention_in_detail import attention\nfrom attention_in_detail.exercises import check"
AXIS = 'check("ex-attention-axis", ["no", "yes", "no", "yes"])'
BLEND = """
def blend(q, K, V):
    return attention(q[None], K, V)[0]

check("ex-attention-blend", blend)
"""


def cell(source, kind="code", **metadata):
    return {"cell_type": kind, "source": source, "metadata": metadata}


def notebook(*cells, **metadata):
    return {
        "cells": [
            cell(one) if isinstance(one, str) else one for one in cells
        ],
        "metadata": metadata,
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def hand_in(path, *cells, **metadata):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook(*cells, **metadata)), "utf8")
    return path


def why_no_sandbox():
    """Why nothing can be tried in a sandbox on this machine; empty: it can."""
    if not shutil.which("bwrap"):
        return "bubblewrap (bwrap) is not installed"
    call = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc"]
    call += ["/proc", "true"]
    done = subprocess.run(call, capture_output=True, text=True)
    told = f"bubblewrap cannot make a sandbox here: {done.stderr.strip()}"
    return told if done.returncode else ""


NO_SANDBOX = why_no_sandbox()
in_a_sandbox = pytest.mark.skipif(bool(NO_SANDBOX), reason=NO_SANDBOX)
# Whether to trust. All of it is tried in any case, in a sandbox wherever one can be made.
BOTH = [
    pytest.param(
        bool(NO_SANDBOX), id="sandbox" if not NO_SANDBOX else "here"
    ),
    pytest.param(True, id="trust", marks=pytest.mark.slow),
]


def rows_in(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


# ---- what lies in a folder ----


def files(folder):
    """A folder with all that should not be run, and one notebook that should."""
    hand_in(folder / "anna/02_attention.ipynb", IMPORTS, AXIS)
    hand_in(folder / "nested/a/b/work.ipynb", AXIS)
    hand_in(folder / "bare.ipynb")
    hand_in(folder / "blank.ipynb", " ", cell("only words", "markdown"))
    hand_in(folder / "other.ipynb", "1 + 1")
    hand_in(folder / "x/.ipynb_checkpoints/a-checkpoint.ipynb", AXIS)
    (folder / "zero.ipynb").touch()
    (folder / "half.ipynb").write_text('{"cells": [')
    (folder / "list.ipynb").write_text("[1, 2]")
    (folder / "deep.ipynb").write_text("[" * 100_000)
    (folder / "binary.ipynb").write_bytes(bytes(range(256)))
    (folder / "nul.ipynb").write_bytes(b"\0" * 50)
    (folder / "numbers.ipynb").write_text(
        '{"cells": [{"cell_type": "code", "source": 5}]}'
    )
    (folder / "cells.ipynb").write_text('{"cells": [7]}')
    (folder / "big.ipynb").write_bytes(b" " * (2 * MIB + 1))
    (folder / "notes.pdf").write_text("notes")
    (folder / "all.zip").write_bytes(b"PK\3\4")
    (folder / "noname").write_text("")
    (folder / "nobody").mkdir()
    (folder / "link.ipynb").symlink_to(folder / "anna/02_attention.ipynb")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe.ipynb")
    (folder / "=cmd|calc!A1.txt").write_text("")
    (folder / "two\nlines.txt").write_text("")
    (folder / os.fsdecode(b"b\xffd.txt")).write_text("")


HAPPENED = {
    "anna/02_attention.ipynb": "",
    "nested/a/b/work.ipynb": "",
    "bare.ipynb": "empty",
    "blank.ipynb": "empty",
    "other.ipynb": "no exercises",
    "x/.ipynb_checkpoints/a-checkpoint.ipynb": "checkpoint",
    "zero.ipynb": "empty",
    "half.ipynb": "malformed",
    "list.ipynb": "malformed",
    "deep.ipynb": "malformed",
    "binary.ipynb": "malformed",
    "nul.ipynb": "malformed",
    "numbers.ipynb": "malformed",
    "cells.ipynb": "malformed",
    "big.ipynb": "too large",
    "notes.pdf": "no notebook",
    "all.zip": "no notebook",
    "noname": "no notebook",
    "nobody": "empty folder",
    "link.ipynb": "link",
    "loop": "link",
    "pipe.ipynb": "no ordinary file",
    "=cmd|calc!A1.txt": "no notebook",
    "two\nlines.txt": "no notebook",
    os.fsdecode(b"b\xffd.txt"): "no notebook",
}


def test_every_file_gets_a_row_and_only_notebooks_are_run(tmp_path):
    files(tmp_path)
    found = list(mark.everything_in(tmp_path))
    rows = [
        mark.looked_at(tmp_path, path, what, SMALL) for path, what in found
    ]
    assert {one.path: one.happened for one in rows} == HAPPENED
    assert len(found) == len(HAPPENED)
    paths = [path for path, _ in found]
    assert paths == sorted(paths, key=lambda p: os.fsencode(p).split(b"/"))
    to_run = [one for one in rows if not one.happened]
    assert {one.chapter for one in to_run} == {"02_attention"}
    assert all(one.details for one in rows if one.happened == "malformed")


@pytest.mark.parametrize("cwd", [False, True])
def test_the_table_itself_is_no_notebook_of_anybody(
    tmp_path, monkeypatch, cwd
):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/marks.csv").touch()
    (tmp_path / "in/notes.txt").touch()
    monkeypatch.chdir(tmp_path / "in" if cwd else tmp_path)
    folder, out = (".", "marks.csv") if cwd else ("in", "in/marks.csv")
    found = mark.everything_in(Path(folder), Path(out).absolute())
    assert list(found) == [("notes.txt", "file")]


def test_a_link_where_the_table_is_written_leads_nowhere(tmp_path):
    other = tmp_path / "other"
    other.write_text("here")
    for name in ("marks.csv", ".marks.csv.part"):
        (tmp_path / name).symlink_to(other)
    mark.written([], tmp_path / "marks.csv")
    assert other.read_text() == "here"
    assert "student" in (tmp_path / "marks.csv").read_text("utf8")
    assert not (tmp_path / "marks.csv").is_symlink()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("=1", "'=1"),
        (" +1", "' +1"),
        ("\uff1d1", "'\uff1d1"),
        ("a;=1", "a;'=1"),
        ('a; "@b', "a;' \"@b"),
        ("a; b = 1 - 2", "a; b = 1 - 2"),
        ('"=1" is none of the words', '"=1" is none of the words'),
        ("x, -1", "x, -1"),
        (5, 5),
    ],
)
def test_no_part_of_a_text_is_a_formula(text, wanted):
    """Where the comma is the sign in decimal numbers, spreadsheets part the cells at each ';'."""
    assert mark.in_a_table(text) == wanted


def test_the_table_can_be_read_by_spreadsheets(tmp_path):
    (tmp_path / "in").mkdir()
    files(tmp_path / "in")
    rows = [
        mark.looked_at(tmp_path / "in", path, what, SMALL)
        for path, what in mark.everything_in(tmp_path / "in")
    ]
    rows[0].states = {"ex-attention-hand": ("not yet", '=HYPERLINK("x")')}
    rows[0].chapter = "02_attention"
    out = tmp_path / "marks.csv"
    mark.written(rows, out)
    raw = out.read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf")
    # A row is a line.
    assert raw.count(b"\n") == len(rows) + 1
    table = rows_in(out)
    assert len(table) == len(rows)
    assert "'=cmd|calc!A1.txt" in table
    assert table["'=cmd|calc!A1.txt"]["student"] == "'=cmd|calc!A1"
    assert {r"two\nlines.txt", r"b\xffd.txt"} <= set(table)
    name = mark.in_a_table(mark.name_of(rows[0].path))
    told = table[name]["ex-attention-hand words"]
    assert told == '\'=HYPERLINK("x")'
    for row in table.values():
        for value in row.values():
            assert not value.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a\nb\x00\x1b[31m", r"a\nb\x00\x1b[31m"),
        ("\ud800", r"\ud800"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("é ∎", "é ∎"),
        ("x" * 500, "x" * 399 + "…"),
    ],
)
def test_texts_of_others_are_one_line_of_signs(text, wanted):
    assert mark.clean(text) == wanted


@pytest.mark.parametrize(
    ("path", "student"),
    [
        ("Anna B_123_file/02.ipynb", "Anna B_123_file"),
        ("anna/x/y/02.ipynb", "anna"),
        ("anna_02.ipynb", "anna_02"),
        ("a.b.ipynb", "a.b"),
    ],
)
def test_who_handed_in_is_the_folder_or_the_name(path, student):
    assert mark.Returned(path).student == student


@pytest.mark.parametrize(
    ("sources", "told", "name", "chapter"),
    [
        ([AXIS], {}, "x.ipynb", "02_attention"),
        ([AXIS], {"chapter": "01_notation"}, "x.ipynb", "02_attention"),
        (["pass"], {"chapter": "04_remarks"}, "x.ipynb", "04_remarks"),
        (["pass"], {"chapter": ["04_remarks"]}, "x.ipynb", ""),
        (["pass"], {}, "anna_04_remarks (1).ipynb", "04_remarks"),
        (["check('ex-no-such', 1)"], {}, "x.ipynb", ""),
        (
            [AXIS, 'check( label = "ex-notation-hand", answer=1)'],
            {"chapter": "02_attention"},
            "x.ipynb",
            "02_attention",
        ),
    ],
)
def test_which_chapter_a_notebook_answers(sources, told, name, chapter):
    found = mark.chapter_of(sources, {"attention_in_detail": told}, name)
    assert found == chapter


# ---- what is handed over ----


def sent(given):
    """An answer on its way: what arrives at the side that judges."""
    return json.loads(json.dumps(run_answers.plain(given, judging)))


JUDGED = [
    pytest.param(chapter, one, id=one.label)
    for chapter in CHAPTERS
    for one in exercises_of(chapter)
    if one.form != "open"
]


@pytest.mark.parametrize(("chapter", "exercise"), JUDGED)
def test_a_verdict_is_the_same_on_the_way_through_the_sandbox(
    chapter, exercise
):
    """For every exercise: the right answer, the known mistakes, no answer, and something else."""
    asked = mark.asked_in(chapter)[exercise.label]
    # What goes in can be packed, and is the same when unpacked.
    cases = mark.pickle.loads(
        mark.base64.b64decode(asked.packed or b"gAQpLg==")
    )
    made = [
        exercise.right,
        *(one.answer for one in exercise.mistakes),
    ]
    answers = made if exercise.cases else [one() for one in made]
    for answer in [*answers, ..., "seven", None, {"a": 1}, print]:
        there = observed(exercise.form, answer, cases)
        state, words = mark.judged(asked, sent(there))
        here = check(exercise.label, answer)
        assert (
            state
            == {True: "right", False: "not yet", None: "no answer"}[
                here.right
            ]
        )
        assert words == mark.clean(here.message)


NUMBERS = mark.asked_in("02_attention")["ex-attention-hand"]
WORDS = mark.asked_in("02_attention")["ex-attention-axis"]
FUNCTION = mark.asked_in("02_attention")["ex-attention-blend"]
ZERO = {"dtype": "<f8", "shape": [1], "data": "AAAAAAAAAAA="}


@pytest.mark.parametrize(
    "told",
    [
        None,
        [],
        "right",
        {},
        {"is": "right"},
        {"is": ["numbers"]},
        {"is": "numbers"},
        {"is": "numbers", **ZERO, "dtype": "O"},
        {"is": "numbers", **ZERO, "dtype": ["<f8"]},
        {"is": "numbers", **ZERO, "shape": [-1]},
        {"is": "numbers", **ZERO, "shape": [1 << 40, 1 << 40]},
        {"is": "numbers", **ZERO, "shape": [True]},
        {"is": "numbers", **ZERO, "shape": [1] * 17},
        {"is": "numbers", **ZERO, "shape": [2]},
        {"is": "numbers", **ZERO, "data": "gAQpLg=="},
        {"is": "numbers", **ZERO, "data": "no base64"},
        {"is": "numbers", **ZERO, "dtype": "?", "data": "BwcHBwcHBwc="},
        {"is": "words", "words": "no yes no yes"},
        {"is": "words", "words": [1, 2]},
        {"is": "outcomes", "outcomes": 5},
        {"is": "outcomes", "outcomes": []},
        {"is": "outcomes", "outcomes": [None]},
        {"is": "outcomes", "outcomes": [{"numbers": ZERO}]},
        {"is": "outcomes", "outcomes": [{"fault": ["x"]}]},
        {"is": "outcomes", "outcomes": [{"numbers": ZERO}] * 90},
        {"is": "odd", "words": {"a": 1}},
    ],
)
def test_nothing_that_is_handed_over_is_believed(told):
    for asked in (NUMBERS, WORDS, FUNCTION):
        state, words = mark.judged(asked, told)
        assert state == "not yet"
        assert words


@pytest.mark.parametrize(
    "answer",
    [
        np.array([np.inf, 1]),
        np.array([np.nan, np.nan]),
        np.array([True, False]),
        np.array([2**63, 1], np.uint64),
        np.zeros((0, 2)),
        np.zeros((2, 1, 1, 1)),
        np.array([1e308, -1e308]),
    ],
    ids=str,
)
def test_odd_numbers_are_judged_all_the_same(answer):
    assert mark.judged(NUMBERS, sent(answer))[0] == "not yet"


def test_an_answer_is_looked_at_without_knowing_what_is_right():
    case = judging.Case("a word", ("query", 3), {"axis": -1})
    [found] = observed("function", lambda word, n, axis: len(word), [case])
    assert (found.numbers, found.fault) == (5, "")
    assert observed("open", "because") is ...
    assert observed("words", 5) == judging.Odd("no words")


def outer(factor):
    def inner(x, table=(1, 2)):
        return [np.sum(x) * factor + n for n in table]

    return inner


def test_functions_can_be_arguments_of_cases(monkeypatch):
    """Those of the package go by their name, others as what they are; the names of cases stay here."""
    merge = attention_in_detail.merge_heads
    cases = (
        judging.Case("the right one", (merge.unchecked, merge)),
        judging.Case("twice", (outer(2),)),
    )
    monkeypatch.setattr(
        outer, "__module__", "attention_in_detail.exercises.x"
    )
    sent_ = mark.base64.b64decode(mark.packed(cases))
    assert b"the right one" not in sent_
    assert b"twice" not in sent_
    first, second = mark.pickle.loads(sent_)
    # Names of functions of the exercises, and where they lie, stay here too.
    assert second.arguments[0].__name__ == "f"
    assert second.arguments[0].__code__.co_filename == ""
    assert first.arguments == (merge.unchecked, merge)
    assert second.arguments[0](np.ones(3)) == [7, 8]
    monkeypatch.setattr(mark, "exercises_of", lambda chapter: [hard])
    hard = judging.Exercise(
        "ex-hard",
        "implement",
        (1,),
        1,
        len,
        cases=lambda: [judging.Case("a lock", (threading.Lock(),))],
    )
    with pytest.raises(CannotMark, match="ex-hard cannot be carried"):
        mark.asked_in.__wrapped__("any")


def test_too_much_is_not_handed_over():
    large = np.zeros(run_answers.LARGEST // 8 + 1)
    assert sent(large)["is"] == "odd"
    assert sent(("no",) * 1000)["is"] == "odd"
    told = sent([judging.Outcome(large), judging.Outcome(large)])
    assert told["outcomes"] == [
        {"numbers": None, "fault": "returned far too many numbers."}
    ]
    assert mark.judged(FUNCTION, told)[1].endswith("far too many numbers.")


def test_words_without_number_are_not_looked_at():
    told = {"is": "words", "words": ["no"] * (mark.MOST_WORDS + 1)}
    wanted = "This answer cannot be compared (ValueError)."
    assert mark.judged(WORDS, told) == ("not yet", wanted)
    assert mark.MOST_WORDS == run_answers.MOST_WORDS


def test_lines_that_are_no_records_are_left_out():
    raw = b'{"cell": 1}\n[1]\n\xff\n' + b"[" * 99999 + b'\n{"done": true}'
    assert mark.lines_of(raw) == [{"cell": 1}, {"done": True}]
    assert len(mark.lines_of(b"{}\n" * 50_000)) == mark.MOST_LINES


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ("%matplotlib inline\nx = 1", "pass\nx = 1"),
        ("if x:\n    %pip install y", "if x:\n    pass"),
        ("%%time\nx = 1", ""),
    ],
)
def test_without_ipython_its_lines_are_left_out(source, left):
    assert run_answers.without_magics(source) == left


# ---- whole folders ----

# Each is a notebook: its cells, what happens to it, and the state of some exercises.
HAND, HARD = "ex-attention-hand", "ex-attention-hard"
BLEND_, AXIS_ = "ex-attention-blend", "ex-attention-axis"
SENT = {
    "mixed": (
        [
            IMPORTS,
            BLEND,
            AXIS,
            "1 / 0",
            f'check("{HAND}", [32, 24])',
            f'check("{HARD}", ...)',
        ],
        "error in a cell",
        {BLEND_: "right", AXIS_: "right", HAND: "not yet", HARD: "no answer"},
    ),
    "cells-that-fail": (
        [IMPORTS, f'check("{HAND}", missing)', "import sys; sys.exit()", AXIS],
        "error in a cell",
        {HAND: "not reached", AXIS_: "right", HARD: "no answer"},
    ),
    "last-counts": (
        [IMPORTS, AXIS, f'check("{AXIS_}", ["no"])', f'check("{AXIS_}", ...)'],
        "ok",
        {AXIS_: "not yet"},
    ),
    "magics": (
        [
            "%matplotlib inline\n%pip install x\n" + IMPORTS,
            "%%time\n" + AXIS,
            "!ls",
            "input()",
            "display(5)",
        ],
        "error in a cell",
        {AXIS_: "right"},
    ),
    "own-check": (
        [
            IMPORTS,
            "import attention_in_detail.exercises as e\n"
            "def check(label, answer): print('Right.')\n"
            "e.check = e.Verdict = check\n"
            "import attention_in_detail.exercises.judging as j\n"
            "j.judge = j.verdict_on = j.observed = lambda *a, **k: True",
            f'check("{HAND}", 0)',
        ],
        "ok",
        {HAND: "not reached", AXIS_: "no answer"},
    ),
    "patched": (
        [
            IMPORTS,
            "import attention_in_detail.exercises.judging as j\n"
            "j.observed = lambda *a, **k: True",
            AXIS,
            "np.allclose = lambda *a, **k: True\nnp.asarray = None",
            f'check("{HAND}", 0)',
        ],
        "ok",
        {AXIS_: "not yet", HAND: "not yet"},
    ),
    "forged": (
        [
            IMPORTS,
            "import os\n"
            "for place in range(64):\n"
            "    for word in (b'{\"label\": \"ex-attention-hand\", \"right\": true, \"given\": {\"is\": \"right\"}}',"
            " b'\\0\\xff', b'{\"points\": 99}', b'[' * 9999):\n"
            "        try: os.write(place, b'\\n' + word + b'\\n')\n"
            "        except OSError: pass",
            AXIS,
        ],
        "ok",
        {HAND: "not yet", AXIS_: "right"},
    ),
    "closed": (
        [IMPORTS, AXIS, "import os\nos.closerange(3, 256)", "pass"],
        "ended itself",
        {AXIS_: "right"},
    ),
    "gone": (
        [IMPORTS, AXIS, f'import os; os._exit(0)\ncheck("{HAND}", 1)'],
        "ended itself",
        {AXIS_: "right", HAND: "not reached"},
    ),
    "killed": (
        ["import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", AXIS],
        "ended itself",
        {AXIS_: "not reached"},
    ),
    "huge": (
        [IMPORTS, "x = np.ones(10**10)", AXIS],
        "too much memory",
        {AXIS_: "right"},
    ),
    "answers-that-cannot-be": (
        [
            IMPORTS,
            "class A:\n    def __iter__(self): raise SystemError\n"
            "    __len__ = __array__ = detach = __iter__",
            f'check("{HAND}", A())',
            f'check("{AXIS_}", A())',
            f'check("{BLEND_}", lambda *a: A())',
            f'check("{HARD}", np.zeros(10**7))',
            'check("ex-none", 1)',
        ],
        "error in a cell",
        {HAND: "not yet", AXIS_: "not yet", BLEND_: "not yet", HARD: "not yet"},
    ),
    "bad-text": (
        ["x = '\ud800'", "y = '\0'", "(" * 500, IMPORTS, AXIS],
        "error in a cell",
        {AXIS_: "right"},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def chapter_answered():
    """A whole chapter as students get it, with the solutions of the book as answers."""
    made = for_students("02_attention", Book(ROOT), Home())
    right = solutions("02_attention")
    for one in made["cells"]:
        about = one["metadata"].get("attention_in_detail")
        if about and one["cell_type"] == "code":
            one["source"] = right[about["exercise"]]
        elif about:
            one["source"] = ["Because the weights\n", "sum to 1."]
    return made


@pytest.fixture(scope="module", params=BOTH)
def marked(request, tmp_path_factory, chapter_answered):
    """One folder, marked by the command: its table, and what the command said."""
    folder = tmp_path_factory.mktemp("marked")
    for name, (cells, _, _) in SENT.items():
        hand_in(folder / f"in/{name}/02.ipynb", *cells)
    hand_in(folder / "in/whole.ipynb").write_text(
        json.dumps(chapter_answered)
    )
    (folder / "in/none.ipynb").write_text("none")
    call = [sys.executable, str(ROOT / "tools/mark.py"), str(folder / "in")]
    call += ["--out", str(folder / "marks.csv"), "--seconds", "40"]
    call += ["--memory", "1000", *(["--trust"] if request.param else [])]
    done = subprocess.run(call, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return rows_in(folder / "marks.csv"), done.stdout


def test_a_folder_is_marked_and_nobody_is_lost(marked):
    table, told = marked
    assert len(table) == len(SENT) + 2
    assert f"[{len(table)} of {len(table)}]" in told
    assert told.splitlines()[-1].startswith(f"{len(table)} files: ")
    assert table["none.ipynb"]["happened"] == "malformed"
    assert table["none.ipynb"]["points"] == ""


@pytest.mark.parametrize("name", SENT)
def test_what_became_of_a_notebook(marked, name):
    _, happened, states = SENT[name]
    row = marked[0][f"{name}/02.ipynb"]
    assert row["student"] == name
    assert row["chapter"] == "02_attention"
    assert row["happened"] == happened, row
    assert {label: row[label] for label in states} == states, row
    right = sum(
        row[one.label] == "right" for one in exercises_of("02_attention")
    )
    assert (row["points"], row["of"]) == (str(right), "4")
    assert bool(row["details"]) == (happened != "ok")


def test_the_words_are_those_that_a_student_reads(marked):
    row = marked[0]["mixed/02.ipynb"]
    assert row[f"{HAND} words"] == check(HAND, [32, 24]).message
    assert row[f"{HARD} words"] == NO_ANSWER
    assert (
        row["details"] == "code cell 4: ZeroDivisionError: division by zero"
    )
    row = marked[0]["cells-that-fail/02.ipynb"]
    assert "NameError: name 'missing'" in row[f"{HAND} words"]
    assert row[f"{HARD} words"] == "No cell asks for it."
    assert (
        marked[0]["killed/02.ipynb"]["details"] == "in code cell 1: SIGKILL"
    )
    told = marked[0]["own-check/02.ipynb"][f"{HAND} words"]
    assert told == "The run ended before it." or "cell" in told


def test_a_whole_chapter_with_its_solutions_has_all_points(marked):
    row = marked[0]["whole.ipynb"]
    assert (row["happened"], row["details"]) == ("ok", "")
    assert (row["points"], row["of"]) == ("4", "4")
    assert row["ex-attention-constant"] == "read it"
    told = row["ex-attention-constant words"]
    assert told == r"Because the weights\nsum to 1."


# ---- limits ----


@pytest.fixture(scope="module", params=BOTH)
def place(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    made = Place(folder, SMALL, request.param)
    scratch = tmp_path_factory.mktemp("scratch")
    made.prepare(scratch)
    # What all of them read, nobody else can write.
    assert not (scratch / "fonts").stat().st_mode & 0o022
    return made


def run(place, *cells, stop=None):
    return mark.run(
        place, list(cells), "02_attention", stop or threading.Event()
    )


def errors(done):
    return {
        one["cell"]: one["error"] for one in done.records if "error" in one
    }


def test_limits_hold_whether_trusted_or_not(place):
    done = run(
        place,
        "open('f', 'wb').write(b'0' * 70_000_000)",
        "files = [open('/dev/null') for _ in range(300)]",
        "files = None\nimport resource\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE))",
        "import os\nprint('x' * 10**8)\nos.write(2, b'x' * 10**8)",
    )
    told = errors(done)
    assert "File too large" in told[1]
    assert "Too many open files" in told[2]
    assert set(told) == {1, 2}
    assert done.ended == ""


# Without a sandbox the system does not limit the processes of root, and only a few are started.
FORKS = "import os, time\nfor n in range(60):\n    if not os.fork(): time.sleep(30); os._exit(0)\ntime.sleep(30)"


def test_processes_are_counted_and_none_is_left(place):
    done = run(place, FORKS)
    assert (
        done.ended == "too many processes"
        or "BlockingIO" in errors(done)[1]
    )
    assert_none_is_left()


@in_a_sandbox
def test_processes_without_end_have_an_end(tmp_path):
    made = Place(tmp_path, Limits(seconds=4, processes=20), trust=False)
    began = time.monotonic()
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    done = run(made, bomb, AXIS)
    assert done.ended or "it took too long" in errors(done)[1]
    assert time.monotonic() - began < 20
    assert_none_is_left()


def assert_none_is_left():
    """What was ended may take a moment to be gone."""
    for _ in range(200):
        if not alive():
            break
        time.sleep(0.05)
    assert alive() == []


def alive():
    """Processes that still run what a notebook started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"USER={Place.login}\0".encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def test_memory_of_all_processes_counts(place):
    grab = "import os, time, numpy as np\n"
    grab += "for n in range(4):\n    if not os.fork(): break\n"
    grab += "x = np.ones(4 * 10**7)\ntime.sleep(20)"
    assert run(place, grab).ended == "too much memory"


def test_a_cell_without_an_end_leaves_time_for_the_others(tmp_path):
    made = Place(tmp_path, Limits(seconds=6), trust=True)
    done = run(made, IMPORTS, "while True: pass", AXIS)
    assert errors(done) == {2: "it took too long"}
    assert done.ended == ""
    assert [one["label"] for one in done.records if "label" in one] == [
        AXIS_
    ]


def test_whoever_will_not_be_stopped_is_ended_all_the_same(tmp_path):
    made = Place(tmp_path, Limits(seconds=2), trust=True)
    began = time.monotonic()
    deaf = "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)"
    assert run(made, deaf, "while True: pass").ended == "too long"
    assert time.monotonic() - began < 6


def test_a_stop_ends_what_runs(tmp_path):
    made = Place(tmp_path, SMALL, trust=True)
    stop = threading.Event()
    stop.set()
    assert run(made, "while True: pass", stop=stop).ended == "interrupted"


def test_whoever_hands_over_too_much_is_ended(tmp_path):
    made = Place(tmp_path, Limits(seconds=20, handed=MIB), trust=True)
    flood = (
        IMPORTS + "\nwhile True: check('ex-attention-hand', np.ones(9999))"
    )
    assert run(made, flood).ended == "too much handed over"


def test_whoever_hands_over_too_many_lines_is_ended(tmp_path):
    """Not as one that ended by itself, and with no answer left out in silence."""
    made = Place(tmp_path, SMALL, trust=True)
    flood = "import os\nfor place in range(3, 64):\n    try: os.write(place, b'{}\\n' * 10_001)\n    except OSError: pass"
    assert run(made, flood).ended == "too much handed over"


def test_memory_of_a_process_that_hides_it_counts(tmp_path):
    """The exact count may be kept from others; the quick one then stays."""
    real = Path.read_text

    def hides(path, *a, **k):
        if path.name == "smaps_rollup":
            if f"/{os.getpid()}/" in str(path):
                raise PermissionError
            return "Pss:  1 kB\n"
        return real(path, *a, **k)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_text", hides)
        other = os.getppid()
        assert mark.memory_of([other, os.getpid()], 1) > 10 * MIB


def test_an_error_that_cannot_be_told_stops_no_other_cell(tmp_path):
    made = Place(tmp_path, SMALL, trust=True)
    odd = "class Odd(Exception):\n    def __str__(self): raise SystemExit\nraise Odd"
    done = run(made, odd, IMPORTS, AXIS)
    assert errors(done) == {1: "an error that cannot be told"}
    assert done.records[-1] == {"done": True}


# ---- the sandbox ----


def tree_hash(folder):
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if "__pycache__" in path.parts:
            continue
        found.update(os.fsencode(path))
        if path.is_file():
            found.update(path.read_bytes())
            found.update(str(path.stat().st_mtime_ns).encode())
    return found.hexdigest()


@in_a_sandbox
def test_from_inside_nothing_of_this_machine_is_seen_or_changed(tmp_path):
    """Files, other submissions, the answers, the network, other processes."""
    decoy = tmp_path / "decoy"
    (decoy / "deep").mkdir(parents=True)
    (decoy / "deep/file").write_text("here")
    before = tree_hash(decoy)
    made = Place(tmp_path, SMALL, trust=False)
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    package = str(mark.PACKAGE)
    cells = [
        f"import os; assert not os.path.exists({str(decoy)!r})",
        f"assert not os.path.exists({str(ROOT / 'notebooks')!r})",
        f"assert not os.listdir({package!r} + '/exercises')",
        "import sys\nfor name in [n for n in sys.modules if 'exercises' in n]: del sys.modules[name]",
        "from attention_in_detail.exercises import exercises_of",
        "from attention_in_detail.exercises.attention import EXERCISES",
        f"open({package!r} + '/__init__.py', 'a')",
        "open('/usr/bin/new', 'w')",
        "open('/new', 'w')",
        "open('/dev/new', 'w')",
        f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 1)",
        "socket.getaddrinfo('example.org', 80)",
        "assert os.getpid() < 10",
        "assert len([n for n in os.listdir('/proc') if n.isdigit()]) < 10",
        "assert os.environ['HOME'] == '/tmp'",
        "for n in range(9): open(f'/tmp/{n}', 'wb').write(b'0' * 6 * 10**7)",
        f"import ctypes\nassert ctypes.CDLL(None).unshare(0x10000000) != 0 or {os.geteuid()} == 0",
        f"import shutil\nshutil.rmtree({str(tmp_path)!r})",
        f"shutil.rmtree({package!r})",
    ]
    with server:
        told = errors(run(made, *cells))
    # Root becomes somebody else in there, whom the files do not even belong to.
    kinds = {
        n: text.partition(":")[0].replace("PermissionError", "OSError")
        for n, text in told.items()
    }
    assert kinds == {
        5: "ImportError",
        6: "ModuleNotFoundError",
        7: "OSError",
        8: "OSError",
        9: "OSError",
        10: "OSError",
        11: "ConnectionRefusedError",
        12: "gaierror",
        16: "OSError",
        18: "FileNotFoundError",
        19: "OSError",
    }
    assert re.search("Read-only|Permission", told[7])
    assert "No space left" in told[16]
    assert tree_hash(decoy) == before
    assert Path(attention_in_detail.__file__).is_file()


HOARDS = {
    "memfd": "import os\nos.memfd_create('a')",
    "shared memory": "import mmap\nmmap.mmap(-1, 4096)",
    "zeros": "import mmap\nmmap.mmap(open('/dev/zero', 'r+b').fileno(), 4096)",
    "shm": "import ctypes\nif ctypes.CDLL(None).shmget(0, 4096, 0o1600) < 0: raise OSError",
    "messages": "import ctypes\nif ctypes.CDLL(None).msgget(0, 0o1600) < 0: raise OSError",
    "semaphores": "import ctypes\nif ctypes.CDLL(None).semget(0, 9, 0o1600) < 0: raise OSError",
    "a system of its own": "import ctypes\nif ctypes.CDLL(None).unshare(0x10000000): raise OSError",
    "a child with one": "import ctypes\nif ctypes.CDLL(None).syscall(CLONE, 0x10000011, 0, 0, 0, 0) < 0: raise OSError",
    "a way out": "import socket\nsocket.socket(40, socket.SOCK_STREAM)",
    "another process": "import ctypes\nif ctypes.CDLL(None).ptrace(16, 1, 0, 0): raise OSError",
}  # fmt: skip


def answer_of(program, kind, number, *arguments):
    """What the kernel would make of a call of the system: the error that it gets, 0 for none."""
    data = struct.pack(
        "<IIQ6Q", number, kind, 0, *arguments, *[0] * (6 - len(arguments))
    )
    held, at = 0, 0
    while True:
        code, yes, no, value = struct.unpack_from("<HBBI", program, 8 * at)
        at += 1
        if code == 0x06:
            return 0 if value == 0x7FFF0000 else value & 0xFFFF
        if code == 0x20:
            [held] = struct.unpack_from("<I", data, value)
        elif code == 0x54:
            held &= value
        else:
            holds = {
                0x15: held == value,
                0x35: held >= value,
                0x45: bool(held & value),
            }
            at += yes if holds[code] else no


@pytest.mark.parametrize("machine", mark.MACHINES)
def test_rules_of_calls_say_what_they_should_on_every_machine(machine):
    program = mark.rules_of_calls(machine)
    column, kind = mark.MACHINES[machine]
    mmap, clone, socket_, read = (
        pair[column] for pair in ((9, 222), (56, 220), (41, 198), (0, 63))
    )
    for call in mark.REFUSED_CALLS.values():
        assert answer_of(program, kind, call[column]) == 1
    assert answer_of(program, kind, read, 2**32) == 0
    assert answer_of(program, kind + 1, read) == 1
    assert answer_of(program, kind, 0x40000000 + read) == 1
    assert answer_of(program, kind, 435) == 38
    for flags in (0x11, 0x3D0F00):  # a process, a thread
        assert answer_of(program, kind, clone, flags) == 0
        assert answer_of(program, kind, clone, flags | 0x20000) == 1
    for flags, wanted in ((0x22, 0), (0x01, 0), (0x21, 1), (0x23, 1)):
        assert answer_of(program, kind, mmap, 0, 9, 3, flags) == wanted
    for family in range(50):
        wanted = 0 if family in mark.SOCKETS else 1
        assert answer_of(program, kind, socket_, family) == wanted
    assert mark.rules_of_calls("another") == b""


@in_a_sandbox
@pytest.mark.skipif(
    platform.machine() not in mark.MACHINES, reason="no rules for it"
)
def test_no_memory_is_held_that_belongs_to_no_process(tmp_path):
    """Nor are there ways to other processes, or to the rights of root."""
    made = Place(tmp_path, SMALL, trust=False)
    column, _ = mark.MACHINES[platform.machine()]
    cells = [
        code.replace("CLONE", str((56, 220)[column]))
        for code in HOARDS.values()
    ]
    # What exercises may need goes on as before.
    cells += [
        "import subprocess, threading\nsubprocess.run(['true'], check=True)\n"
        "t = threading.Thread(target=print)\nt.start()\nt.join()",
        "import mmap\nwith open('f', 'w+b') as f:\n"
        "    f.truncate(4096)\n    mmap.mmap(f.fileno(), 4096)[0] = 1",
        "import multiprocessing as m\nwith m.Pool(2) as p:\n    assert p.map(abs, [-1]) == [1]",
        "import socket\nsocket.socketpair()\nfor kind in (1, 2): socket.socket(kind)",
        "if 'Seccomp:\\t2' not in open('/proc/1/status').read(): raise OSError",
    ]
    told = errors(run(made, *cells))
    assert set(told) == set(range(1, len(HOARDS) + 1)), told
    for text in told.values():
        assert text.startswith(("OSError", "PermissionError"))


@in_a_sandbox
def test_files_without_content_count_as_memory(tmp_path):
    made = Place(tmp_path, Limits(seconds=20, memory=400 * MIB), False)
    names = "import os, time\nfor n in range(4000): os.symlink('x', str(n))\ntime.sleep(9)"
    with pytest.MonkeyPatch.context() as patch:
        real = mark.memory_of_names
        patch.setattr(
            mark, "memory_of_names", lambda pids: 100 * real(pids)
        )
        assert run(made, names).ended == "too much memory"


def test_solutions_are_hidden_where_the_book_lies_among_programs(
    tmp_path, monkeypatch
):
    made = Place(tmp_path, SMALL, trust=True)
    monkeypatch.setattr(mark, "RUNNER", tmp_path / "tools/run_answers.py")
    for name in ("notebooks", "tests", "tools", "src"):
        (tmp_path / name).mkdir()
    made.folder = tmp_path / "notebooks/returned"
    made.folder.mkdir()
    assert made.hidden([str(tmp_path)]) == [
        str(tmp_path / name) for name in ("notebooks", "tests", "tools")
    ]


def test_solutions_are_hidden_in_every_copy_of_the_package(tmp_path):
    made = Place(tmp_path / "in", SMALL, trust=True)
    copies = [
        tmp_path / where / mark.PACKAGE.name / "exercises"
        for where in (
            "envs/x/lib/python3.12/site-packages",
            "lib/python3/dist-packages",
        )
    ]
    for one in copies:
        one.mkdir(parents=True)
    assert made.hidden([str(tmp_path)]) == list(map(str, copies))


def test_without_bubblewrap_nothing_is_run(tmp_path, monkeypatch, capsys):
    hand_in(tmp_path / "in/a.ipynb", AXIS)
    monkeypatch.setattr(mark.shutil, "which", lambda name: None)
    monkeypatch.setattr(mark.signal, "signal", lambda *a: None)
    out = tmp_path / "marks.csv"
    call = [str(tmp_path / "in"), "--out", str(out)]
    assert mark.main(call) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "Install the package 'bubblewrap'" in told
    assert "--trust" in told
    assert not out.exists()


def program(folder, help_text, rest="exit 1"):
    path = folder / "bwrap"
    path.write_text(
        f'#!/bin/sh\nif [ "$1" = --help ]; then echo "{help_text}"; exit; fi\n{rest}\n'
    )
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("help_text", "rest", "reason"),
    [
        ("--tmpfs", "", "too old: 0.7"),
        (
            "--size --tmpfs",
            "echo 'bwrap: No permissions' >&2; exit 1",
            r"makes no sandbox on this machine \(bwrap: No permissions\)",
        ),
        (
            "--size --tmpfs",
            "echo 'ModuleNotFoundError: numpy' >&2; exit 1",
            "Python does not start where notebooks are to run: Module",
        ),
    ],
)
def test_a_sandbox_that_cannot_be_made_is_named(
    tmp_path, monkeypatch, help_text, rest, reason
):
    path = program(tmp_path, help_text, rest)
    monkeypatch.setattr(mark.shutil, "which", lambda name: path)
    (tmp_path / "in").mkdir()
    with pytest.raises(CannotMark, match=reason):
        mark.mark(tmp_path / "in", tmp_path / "m.csv", SMALL, 1, False)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (["no-such-folder"], "there is no folder no-such-folder"),
        ([".", "--out", "."], "the table cannot be written to ."),
        ([".", "--out", "no/such/m.csv"], "there is no folder for no/such"),
    ],
)
def test_what_cannot_be_marked_is_refused(
    tmp_path, monkeypatch, capsys, call, reason
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mark.signal, "signal", lambda *a: None)
    assert mark.main(call) == 2
    assert reason in capsys.readouterr().err
    for wrong in (
        ["--jobs", "0"],
        ["--seconds", "nan"],
        ["--seconds", "inf"],
    ):
        with pytest.raises(SystemExit):
            mark.main([".", *wrong])


def marks(folder, out, *options):
    return [
        sys.executable,
        str(ROOT / "tools/mark.py"),
        str(folder),
        "--out",
        str(out),
        "--trust",
        *options,
    ]


def test_how_many_run_at_a_time_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(Place, "prepare", lambda self, folder: None)
    for n in range(3):
        hand_in(tmp_path / f"in/{n}.ipynb", IMPORTS, AXIS, f"{n} / 0")
    (tmp_path / "in/x.txt").touch()
    tables = []
    for jobs in (1, 3):
        out = tmp_path / f"{jobs}.csv"
        _, whole = mark.mark(tmp_path / "in", out, SMALL, jobs, trust=True)
        assert whole
        tables.append(out.read_bytes())
    assert tables[0] == tables[1]
    assert tables[0].count(b",right,") == 3


@pytest.mark.parametrize("reader", ["ascii", "closed"])
def test_a_terminal_that_cannot_show_a_name_costs_no_row(tmp_path, reader):
    for n in range(3):
        (tmp_path / f"in-é{n}").mkdir()
        (tmp_path / f"in-é{n}/é").touch()
    out = tmp_path / "m.csv"
    end, start = os.pipe()
    if reader == "closed":
        os.close(end)
    done = subprocess.run(
        marks(tmp_path, out, "--jobs", "1"),
        stdout=start,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    os.close(start)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(rows_in(out)) == 3
    if reader == "ascii":
        with open(end, "rb") as file:
            assert rb"in-\xe90/\xe9: no notebook" in file.read()


def test_after_a_stop_the_rows_that_are_done_are_kept(tmp_path):
    """Ctrl-C: the table has all rows, those that are done with their points; nothing goes on running."""
    hand_in(tmp_path / "in/a.ipynb", IMPORTS, AXIS)
    hand_in(tmp_path / "in/b.ipynb", AXIS, "while True: pass")
    hand_in(tmp_path / "in/c.ipynb", IMPORTS, AXIS)
    out = tmp_path / "marks.csv"
    with subprocess.Popen(
        marks(tmp_path / "in", out, "--jobs", "1"),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        first = process.stdout.readline()
        # Twice, as impatient people do.
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert "a.ipynb: ok" in first, rest
    assert process.returncode == 130
    table = rows_in(out)
    assert table["a.ipynb"]["points"] == "1"
    assert [table[n]["happened"] for n in ("b.ipynb", "c.ipynb")] == [
        "interrupted"
    ] * 2


# ---- a hundred ----

KINDS = {
    "right": [IMPORTS, BLEND, AXIS],
    "wrong": [IMPORTS, f'check("{AXIS_}", ["no"] * 4)'],
    "loop": [IMPORTS, AXIS, "while True: pass"],
    "delete": [
        IMPORTS,
        "import shutil\nfor p in (DECOY, PACKAGE, '/tmp', '/marking'): shutil.rmtree(p, ignore_errors=True)",
        AXIS,
    ],
    "memory": ["x = [b'0' * 10**8 for _ in range(10**4)]", IMPORTS, AXIS],
    "forks": [IMPORTS, FORKS, AXIS],
    "print": [IMPORTS, AXIS, "while True: print('x' * 10**6, flush=True)"],
}  # fmt: skip
# How many of each, beside 30 that are no notebooks. Those that never end cost all of their time.
MANY = {"right": 15, "wrong": 15, "loop": 5, "print": 5}


@pytest.mark.slow
@in_a_sandbox
def test_a_hundred_notebooks_of_every_kind(tmp_path):
    """No row is lost, nothing outside is changed, and it takes less than two minutes."""
    decoy = tmp_path / "decoy"
    (decoy / "a/b").mkdir(parents=True)
    (decoy / "a/b/file").write_text("here")
    folder = tmp_path / "in"
    for kind, cells in KINDS.items():
        for n in range(MANY.get(kind, 10)):
            written = [
                one.replace("DECOY", repr(str(decoy))).replace(
                    "PACKAGE", repr(str(mark.PACKAGE))
                )
                for one in cells
            ]
            hand_in(folder / f"{kind}-{n}/02.ipynb", *written)
    for n in range(10):
        (folder / f"empty-{n}.ipynb").touch()
        (folder / f"malformed-{n}.ipynb").write_bytes(b"\0{" * n + b"[")
        with (folder / f"large-{n}.ipynb").open("wb") as file:
            file.truncate(17 * MIB)
    before = [tree_hash(one) for one in (decoy, folder, mark.PACKAGE)]
    began = time.monotonic()
    rows, whole = mark.mark(
        folder,
        tmp_path / "marks.csv",
        Limits(seconds=8, memory=600 * MIB, processes=20),
        2,
        False,
    )
    seconds = time.monotonic() - began
    table = rows_in(tmp_path / "marks.csv")
    assert whole
    assert len(rows) == len(table) == 100
    found = {}
    for name, row in table.items():
        kind = re.match("[a-z]+", name)[0]
        found.setdefault(kind, []).append((row["happened"], row["points"]))
    # Either the system refuses one more process, or all are ended for being too many.
    for happened, points in found.pop("forks"):
        assert (happened, points) in (
            ("error in a cell", "1"),
            ("too many processes", "0"),
        )
    assert found == {
        "right": [("ok", "2")] * 15,
        "wrong": [("ok", "0")] * 15,
        "loop": [("too long", "1")] * 5,
        "delete": [("ok", "1")] * 10,
        "memory": [("too much memory", "1")] * 10,
        "print": [("too long", "1")] * 5,
        "empty": [("empty", "")] * 10,
        "malformed": [("malformed", "")] * 10,
        "large": [("too large", "")] * 10,
    }
    assert before == [
        tree_hash(one) for one in (decoy, folder, mark.PACKAGE)
    ]
    assert_none_is_left()
    assert seconds < 120
