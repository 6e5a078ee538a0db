"""The project: a solution passes stage by stage, each known mistake gets its own words, and the model runs on it."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
import runpy
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from attention_in_detail import greedy_decode
from attention_in_detail.exercises.judging import judge
from attention_in_detail.project import (
    NUMBERS,
    STAGES,
    code_of,
    examine,
    translated,
    translating,
)
from attention_in_detail.project.__main__ import main
from attention_in_detail.project.examining import _fault_of
from attention_in_detail.project.translating import OURS
from attention_in_detail.tasks.number_words import (
    END,
    GERMAN,
    LONGEST,
    START,
    german_words,
    make_batch,
    words,
)
from attention_in_detail.trained import trained_number_words

ROOT = Path(__file__).resolve().parents[1]
SOLUTION = (ROOT / "tests/project_solution.py").read_text("utf8")
NAMES = [stage.name for stage in STAGES]
ALL = len(STAGES)
by_name = {stage.name: stage for stage in STAGES}
each_stage = pytest.mark.parametrize("stage", STAGES, ids=NAMES)
each_mistake = pytest.mark.parametrize(
    ("stage", "n"),
    [
        pytest.param(stage, n, id=f"{stage.name}-{n}")
        for stage in STAGES
        for n in range(len(stage.exercise.mistakes))
    ],
)
PIECES = {
    node.name: ast.get_source_segment(SOLUTION, node)
    for node in ast.parse(SOLUTION).body
    if isinstance(node, ast.FunctionDef)
}


@pytest.fixture
def written(tmp_path):
    """Puts a text into a file and has it judged."""

    def judged(text):
        file = tmp_path / "my_attention.py"
        file.write_text(text, "utf8")
        return examine(file)

    return judged


def solution_with(*changes):
    """The solution with pieces of its text changed, each of which stands there once."""
    text = SOLUTION
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def up_to(number):
    """The first functions of the solution."""
    return "\n\n".join(
        ["import numpy as np", *list(PIECES.values())[:number]]
    )


# ---- right answers ----


def test_the_solution_has_the_functions_in_their_order():
    assert list(PIECES) == NAMES


@pytest.mark.parametrize("number", range(ALL))
def test_the_solution_passes_stage_by_stage(written, number):
    report = written(up_to(number))
    assert (report.done, report.stage) == (number, STAGES[number])
    assert report.message.startswith(
        f"There is no function {NAMES[number]}"
    )
    assert not report.complete


def test_the_whole_solution_ends_with_the_model(written):
    report = written(SOLUTION)
    assert report.message == ""
    assert report.complete
    assert report.translations == tuple(
        "".join(german_words(n)) for n in NUMBERS
    )


@each_stage
def test_our_own_function_is_right(stage):
    own = stage.exercise.right
    if stage.boolean:
        own = lambda *a, **k: stage.exercise.right(*a, **k) > 0  # noqa: E731
    assert fault(stage, own) is None


# ---- mistakes ----


def fault(stage, function):
    return _fault_of(
        stage, SimpleNamespace(**{stage.name: function}), Path("x.py")
    )


@each_mistake
def test_a_known_mistake_gets_its_own_words(stage, n):
    mistake = stage.exercise.mistakes[n]
    assert fault(stage, mistake.answer) == mistake.message


@each_stage
def test_three_mistakes_at_least_are_known_and_told_apart(stage):
    messages = [one.message for one in stage.exercise.mistakes]
    assert len(set(messages)) == len(messages) >= 3


CODE = re.compile(
    r"np\.|@|\w+\(|==|<=|keepdims|swapaxes|moveaxis|transpose\b|exp\b|\*\*"
)


@each_stage
def test_no_message_holds_the_answer(stage):
    for one in stage.exercise.mistakes:
        assert not CODE.search(one.message), one.message
        assert len(one.message) > 15
    for line in PIECES[stage.name].splitlines()[1:]:
        assert line.strip() not in "".join(
            one.message for one in stage.exercise.mistakes
        )


# As a student would write them: the change in the text of the solution, the stage, and words of the message.
CLASSICS = [
    ((" / queries.shape[-1] ** 0.5", ""), "scores", "not scaled"),
    (("queries.shape[-1] ** 0.5", "queries.shape[-1]"), "scores", "by D_k"),
    (("queries.shape[-1] ** 0.5", "8"), "scores", "Wrong in this"),
    (
        ("queries.shape[-1] ** 0.5", "keys.shape[-2] ** 0.5"),
        "scores",
        "number of keys",
    ),
    (
        ("queries.shape[-1] ** 0.5", "queries.shape[1] ** 0.5"),
        "scores",
        "shape[1] is the number of rows",
    ),
    (
        ("queries.shape[-1] ** 0.5", "keys.shape[1] ** 0.5"),
        "scores",
        "shape[1] of the keys",
    ),
    (("np.swapaxes(keys, -1, -2)", "keys.T"), "scores", "without a batch"),
    (
        ("largest = z.max(-1, keepdims=True)", "largest = 0 * z[..., :1]"),
        "softmax",
        "Right for small entries",
    ),
    (
        ("z.max(-1, keepdims=True)", "z.max(-1)"),
        "softmax",
        "With three rows it stopped: ValueError: operands could not be broadcast together",
    ),
    (
        ("np.where(mask, z, -np.inf)", "np.where(mask, -np.inf, z)"),
        "attention_weights",
        "wrong way round",
    ),
    (
        ("np.where(mask, z, -np.inf)", "np.where(mask, z, -1e9)"),
        "attention_weights",
        "equal weights",
    ),
    (
        ("keys, mask, bias) @", "keys, bias=bias) @"),
        "attention",
        "The mask",
    ),
    (
        (
            "return np.swapaxes(cut, -2, -3)",
            "return cut.reshape(*batch, heads, T, D // heads)",
        ),
        "split_heads",
        "pieces of several positions",
    ),
    (
        ("np.swapaxes(x, -2, -3).reshape", "x.reshape"),
        "merge_heads",
        "pieces of several positions",
    ),
    (("y = x @ W", "y = x @ W.T"), "project", "transposed"),
    (
        ("y if b is None else y + b", "y + b"),
        "project",
        "None cannot be added",
    ),
    (
        ("mask[..., None, :, :]", "mask"),
        "multi_head_attention",
        "falls on the heads",
    ),
    (
        (
            "return project(merge_heads(blended), p.W_O, p.b_O)",
            "return merge_heads(blended)",
        ),
        "multi_head_attention",
        "output projection is missing",
    ),
    (("x, x, x, mask", "x, x, x"), "self_attention", "not handed on"),
    (
        ("<= np.arange(T)", "< np.arange(T)"),
        "causal_mask",
        "look at itself",
    ),
    (("[:, None] + offset", "[:, None]"), "causal_mask", "no effect"),
    (
        ("lengths[:, None, None]", "lengths[:, None]"),
        "padding_mask",
        "axis",
    ),
    (
        ("x, context, context, mask", "context, x, x, mask"),
        "cross_attention",
        "exchanged",
    ),
    (
        ("x, context, context, mask", "x, context, x, mask"),
        "cross_attention",
        "The values come from x",
    ),
]


@pytest.mark.parametrize(
    ("change", "name", "told"), CLASSICS, ids=[str(c) for c, *_ in CLASSICS]
)
def test_a_mistake_in_the_file_is_found_where_it_is(
    written, change, name, told
):
    report = written(solution_with(change))
    assert report.stage == by_name[name]
    assert report.done == NAMES.index(name)
    assert told in report.message


def test_two_mistakes_give_one_message_which_holds():
    """Divided by the width, and .T: "right without a batch" would not be true."""
    message = fault(by_name["scores"], lambda q, k: q @ k.T / q.shape[-1])
    assert "divided by D_k" in message


# ---- whatever else a file may be ----


def test_no_file(tmp_path):
    report = examine(tmp_path / "my_attention.py")
    assert report.message.startswith("There is no file my_attention.py")
    assert (report.done, report.stage, report.title) == (
        0,
        None,
        "the file",
    )
    assert examine(str(tmp_path)).message.startswith("There is no file")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def f(:\n", "In line 1 of my_attention.py Python stops reading"),
        ("x = 1\n  y = 2\n", "In line 2 of my_attention.py"),
        ("x = '\0'", "my_attention.py Python stops reading"),
        ("import torch", "imports torch. This project needs NumPy"),
        ("import os, scipy.special as s", "imports scipy.special."),
        ("from .other import x", "imports .other."),
        ("from attention_in_detail import softmax", "attention_in_detail"),
        (
            "\nx = 1 / 0",
            "stops while it is read: ZeroDivisionError: division by zero (line 2).",
        ),
        (
            "raise ValueError",
            "stops while it is read: ValueError (line 1).",
        ),
        ("exit()", "it ends the program"),
        ("scores = 3", "scores is no function"),
        (
            "def scores(q):\n    return q",
            "It is called as scores(queries, keys); yours is scores(q).",
        ),
        (
            "def scores(queries, keys):\n    return 1 / 0",
            "With three queries and five keys it stopped: ZeroDivisionError: division by zero (line 2).",
        ),
        (
            "def scores(queries, keys):\n    raise SystemExit",
            "it ends the program",
        ),
        (
            "def scores(queries, keys):\n    return scores(queries, keys)",
            "it stopped: RecursionError",
        ),
        (
            "def scores(queries, keys):\n    queries /= 2\n    return queries",
            "changed its own input",
        ),
        ("def scores(queries, keys):\n    pass", "that is None"),
        ("def scores(queries, keys):\n    return 'a'", "that is a text"),
        (
            "def scores(queries, keys):\n    return queries, keys",
            "It returns a tuple. Return one array",
        ),
        (
            "def scores(queries, keys):\n"
            "    z = queries @ keys.mT / queries.shape[-1] ** 0.5\n"
            "    return z.tolist()",
            "It returns a list. Return one array",
        ),
        (
            "def scores(queries, keys):\n    return (queries @ keys.mT)[0]",
            "Wrong in this case: three queries and five keys. It has the shape",
        ),
        (
            "import math\nscores = math.hypot",
            "it stopped: TypeError",
        ),
        ("import numpy\nscores = numpy.dot", "it stopped: ValueError"),
    ],
)
def test_a_file_that_is_not_right_gets_one_clear_message(
    written, text, told
):
    report = written(text)
    assert told in report.message
    assert report.done == 0
    assert "\n" not in report.message


def test_a_file_that_is_no_text(tmp_path):
    file = tmp_path / "my_attention.py"
    file.write_bytes(b"# \xff\xfe")
    assert "no text in UTF-8" in examine(file).message
    file.write_bytes(b"\xef\xbb\xbf" + SOLUTION.encode())
    assert examine(file).complete


def test_the_arguments_have_names(written):
    text = solution_with(
        (
            "keys, mask=None, bias=None):\n    z",
            "keys, m=None, b=None):\n    mask, bias = m, b\n    z",
        )
    )
    report = written(text)
    assert report.stage == by_name["attention_weights"]
    assert (
        "yours is attention_weights(queries, keys, m=None, b=None)"
        in report.message
    )


def test_a_mask_of_numbers_is_no_mask(written):
    change = (
        "return np.arange(S) < lengths[:, None, None]",
        "return (np.arange(S) < lengths[:, None, None]) * 1.0",
    )
    assert "make it boolean" in written(solution_with(change)).message


def test_parameters_are_not_to_be_changed(written):
    change = (
        "    p = parameters\n",
        "    p = parameters\n    p.W_Q[:] = 0\n",
    )
    report = written(solution_with(change))
    assert "changed its own input" in report.message
    assert report.stage == by_name["multi_head_attention"]


def test_classes_of_the_file_know_where_they_come_from(written):
    text = "from dataclasses import dataclass\n\n\n@dataclass\nclass A:\n    x: 'int'\n"
    assert written(f"{text}\n{SOLUTION}").complete


def test_what_is_printed_is_shown_once_the_stage_is_there(written, capsys):
    change = (
        "    y = x @ W\n",
        "    print('shapes', x.shape)\n    y = x @ W.T\n",
    )
    text = solution_with(
        change, ("def softmax(z):\n", "def softmax(z):\n    print('no')\n")
    )
    report = written(f"print('read')\n{text}")
    assert report.stage == by_name["project"]
    assert report.printed.splitlines() == [
        "read",
        "shapes (4, 4)",
        "shapes (3, 4)",
    ]
    assert capsys.readouterr() == ("", "")


def test_only_the_last_lines_are_kept(written):
    report = written("for n in range(100):\n    print(n)\nscores = 1")
    assert report.printed.splitlines() == [str(n) for n in range(80, 100)]


def test_wrong_paths_are_refused():
    with pytest.raises(TypeError, match="path of a file, not int"):
        code_of(3)


# ---- the model ----


def test_our_functions_give_what_the_book_gives():
    batch = make_batch(NUMBERS)
    S = batch.source.shape[1]
    tokens, _ = greedy_decode(
        trained_number_words(),
        batch.source,
        start=START,
        end=END,
        limit=LONGEST + 1,
        source_mask=OURS.padding_mask(batch.source_lengths, S),
    )
    assert translated(OURS, NUMBERS) == [
        "".join(words(row, GERMAN)) for row in tokens
    ]


def test_every_attention_of_the_model_gets_its_mask():
    """Translations alone would not tell: two of them are right without."""
    batch = make_batch(NUMBERS)
    padding = OURS.padding_mask(batch.source_lengths, batch.source.shape[1])
    seen = []

    def own(p, x, mask=None):
        causal = OURS.causal_mask(x.shape[1], x.shape[1])
        kinds = [
            name
            for name, wanted in (("source", padding), ("target", causal))
            if np.array_equal(mask, wanted)
        ]
        seen.extend(kinds or ["none"])
        return OURS.self_attention(p, x, mask=mask)

    def crossed(p, x, context, mask=None):
        assert context.shape[:2] == batch.source.shape
        seen.append("crossed" if np.array_equal(mask, padding) else "none")
        return OURS.cross_attention(p, x, context, mask=mask)

    code = SimpleNamespace(
        self_attention=own,
        cross_attention=crossed,
        causal_mask=OURS.causal_mask,
        padding_mask=OURS.padding_mask,
    )
    translated(code, NUMBERS)
    model = trained_number_words()
    layers = len(model.encoder_layers)
    steps = (len(seen) - layers) // (2 * len(model.decoder_layers))
    assert steps == batch.wanted.shape[1]
    assert seen == ["source"] * layers + ["target", "crossed"] * (
        len(model.decoder_layers) * steps
    )


WIDE = "if x.shape[-1] > 20:\n        "


def test_a_function_that_fails_in_the_model_alone_is_named(written):
    """Every stage has narrow arrays, the model wide ones."""
    change = (
        "parameters, x, mask=None):\n",
        f"parameters, x, mask=None):\n    {WIDE}mask = None\n",
    )
    report = written(solution_with(change))
    assert (report.done, report.stage) == (ALL, None)
    assert not report.complete
    assert report.title == "the model"
    assert 'the model writes "' in report.message
    assert "it is self_attention that goes wrong" in report.message


def test_one_that_stops_there_is_told_with_its_line(written):
    change = (
        "parameters, x, mask=None):\n",
        f"parameters, x, mask=None):\n    {WIDE}raise ValueError('wide')\n",
    )
    report = written(solution_with(change))
    assert report.message.startswith("The model stopped: ValueError: wide")
    assert re.search(r"\(line \d+\)\.$", report.message)


def test_mistakes_that_only_meet_are_told_without_a_name(monkeypatch):
    """Where each function alone does no harm, none is blamed."""
    from attention_in_detail.project import examining

    wanted = list(examining._right_translations())
    bad = SimpleNamespace(**vars(OURS))
    answers = {id(bad): ["null", *wanted[1:]]}
    monkeypatch.setattr(
        examining,
        "translated",
        lambda code, numbers: answers.get(id(code), wanted),
    )
    message, written = examining._wrong_translation(bad, Path("x.py"))
    assert message.startswith(
        'For 677, six hundred seventy seven, the model writes "null".'
    )
    assert "that goes wrong" not in message
    assert written[0] == "null"


# What the page shows: the change, and what the model then writes for 677 and 7.
BREAKS = {
    "nothing": (("", ""), 0),
    "split_heads reshapes at once": (
        (
            "return np.swapaxes(cut, -2, -3)",
            "return cut.reshape(*batch, heads, T, D // heads)",
        ),
        1,
    ),
    "merge_heads reshapes at once": (
        ("np.swapaxes(x, -2, -3).reshape", "x.reshape"),
        1,
    ),
    "no output projection": (
        (
            "return project(merge_heads(blended), p.W_O, p.b_O)",
            "return merge_heads(blended)",
        ),
        1,
    ),
    "keys and values from x in cross_attention": (
        ("x, context, context, mask", "x, x, x"),
        1,
    ),
    "padding_mask turned round": (
        ("np.arange(S) < lengths", "np.arange(S) >= lengths"),
        1,
    ),
    "padding_mask all True": (
        (
            "np.arange(S) < lengths[:, None, None]",
            "np.ones((len(lengths), 1, S), bool)",
        ),
        1,
    ),
    "causal_mask turned round": (
        ("np.arange(S) <= np", "np.arange(S) >= np"),
        1,
    ),
    "causal_mask all True": (
        (
            "return np.arange(S) <= np.arange(T)[:, None] + offset",
            "return np.ones((T, S), bool)",
        ),
        1,
    ),
    "no mask in cross_attention": (
        ("x, context, context, mask", "x, context, context"),
        1,
    ),
    "scores not divided": ((" / queries.shape[-1] ** 0.5", ""), 1),
    "scores divided by the width": (
        ("queries.shape[-1] ** 0.5", "queries.shape[-1]"),
        1,
    ),
}
PAGE = (ROOT / "book/project.md").read_text("utf8")


def rows(text):
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|") and not re.fullmatch(r"[|: -]+", line)
    ]


def spelled(number):
    return "".join(german_words(number))


BELOW_THOUSAND = {spelled(n): n for n in range(1000)}
THOUSANDS = {spelled(1000 * n): 1000 * n for n in range(1, 1000)}


def number_of(word):
    """The number that a German word is; None where it is none."""
    head, thousand, tail = word.partition("tausend")
    if not thousand:
        return BELOW_THOUSAND.get(word)
    large, small = THOUSANDS.get(head + thousand), BELOW_THOUSAND.get(tail)
    if large is None or (tail and not small):
        return None
    return large + (small or 0)


def test_german_words_are_read_as_numbers():
    for number in (0, 1, 21, 1000, 1001, 21_016, 999_999):
        assert number_of(spelled(number)) == number
    for word in (
        "",
        "undzwanzig",
        "tausend",
        "tausendeins",
        "eintausendnull",
    ):
        assert number_of(word) is None


def shown(word, number):
    found = number_of(word)
    if found == number:
        return "right"
    return "no number" if found is None else f"{found:,}"


@pytest.mark.claim("obs-project-breaks")
def test_the_page_shows_what_the_model_writes_with_each_mistake():
    table = rows(PAGE.split("### Break it again")[1])[1:]
    assert [row[0].replace("`", "") for row in table] == list(BREAKS)
    for what, *written in table:
        (old, new), times = BREAKS[what.replace("`", "")]
        text = SOLUTION
        if times:
            text = solution_with((old, new))
        there: dict = {}
        exec(text, there)
        made = translated(SimpleNamespace(**there), (677, 7))
        if what == "`causal_mask` turned round":
            assert f"as in *{made[0]}*" in PAGE
        assert written == [
            shown(word, n) for word, n in zip(made, (677, 7), strict=True)
        ], what


@pytest.mark.claim("obs-project-breaks")
def test_four_mistakes_leave_both_numbers_right_and_fail_their_stage(
    written,
):
    table = rows(PAGE.split("### Break it again")[1])[2:]
    survived = [
        row[0].replace("`", "")
        for row in table
        if row[1:] == ["right", "right"]
    ]
    assert len(survived) == 4
    for what in survived:
        report = written(solution_with(BREAKS[what][0]))
        assert report.done < ALL


@pytest.mark.claim("obs-project-breaks")
def test_without_its_causal_mask_the_last_row_changes_and_no_word_does(
    monkeypatch,
):
    """The last position saw all words before; in the second layer it reads rows that have changed."""
    seen, run = [], translating.decoder_run

    def noted(*given):
        found = run(*given)
        seen[-1].append(found[0][0, -1])  # the last row for 677
        return found

    monkeypatch.setattr(translating, "decoder_run", noted)
    words = []
    for mask in (
        OURS.causal_mask,
        lambda T, S, offset=0: np.ones((T, S), bool),
    ):
        seen.append([])
        code = SimpleNamespace(**vars(OURS) | {"causal_mask": mask})
        words.append(translated(code, (677, 7)))
    assert words[0] == words[1] == [spelled(677), spelled(7)]
    apart = [
        np.abs(one - other).max() for one, other in zip(*seen, strict=True)
    ]
    assert apart[0] == 0  # one position, and nothing to hide
    assert min(apart[1:]) > 0.1
    assert max(apart) > 1
    text = " ".join(PAGE.split())
    assert "only the rows before it change" not in text
    assert "one of its logits for 677 moves by more than 1" in text


# ---- the command ----


@pytest.fixture
def run(tmp_path, capsys):
    def command(text, *arguments):
        file = tmp_path / "my_attention.py"
        file.write_text(text, "utf8")
        status = main([str(file), *arguments])
        return status, capsys.readouterr().out

    return command


def test_the_command_says_how_far_the_file_is(run):
    status, out = run("print('hello')\n" + up_to(1))
    assert status == 1
    assert re.search(r"^ +1  scores +done$", out, re.MULTILINE)
    assert re.search(r"^ +2  softmax +not yet$", out, re.MULTILINE)
    assert "attention_weights" not in out
    assert "Stage 2: softmax(z)" in out
    assert "Not yet. There is no function softmax yet. Write it." in out
    assert 'Read: chapter "The compatibility function"' in out
    assert "Your code printed:\n\n    hello\n" in out
    assert max(map(len, out.splitlines())) <= 78


def test_the_command_ends_with_translations(run):
    status, out = run(SOLUTION)
    assert status == 0
    assert out.count(", right\n") == len(NUMBERS)
    assert "677, six hundred seventy seven:" in out
    assert re.search(r"^ +13  the model +done$", out, re.MULTILINE)


def test_the_command_on_a_file_that_cannot_be_read(run):
    status, out = run("def f(:")
    assert status == 1
    assert out.splitlines()[2].startswith("Not yet. In line 1")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "def scores(queries, keys):\n    raise KeyboardInterrupt",
            "Stopped while scores ran, in line 2.",
        ),
        (
            "raise KeyboardInterrupt",
            "Stopped while the beginning of the file ran, in line 1.",
        ),
    ],
)
def test_a_loop_without_an_end_is_stopped_by_hand(run, text, told):
    """What Ctrl-C raises comes from wherever the code is."""
    status, out = run(text)
    assert status == 130
    assert told in out


def test_a_stop_outside_the_file_has_no_line(run, monkeypatch):
    from attention_in_detail.project import __main__ as command

    def stopped(path, begun):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "examine", stopped)
    status, out = run("")
    assert status == 130
    assert out.rstrip().endswith(
        "Stopped while the beginning of the file ran."
    )


def test_numbers_can_be_asked_for_whatever_the_state_of_the_file(run):
    assert run(SOLUTION, "--translate", "4,321", "7") == (
        0,
        "  4,321, four thousand three hundred twenty one:\n"
        "      viertausenddreihunderteinundzwanzig, right\n"
        "  7, seven:\n      sieben, right\n",
    )
    change = ("x, context, context, mask", "x, x, x")
    status, out = run(solution_with(change), "--translate", "7")
    assert status == 1
    assert "wrong: it is sieben" in out
    status, out = run(up_to(8), "--translate", "7")
    assert (status, out.split(";")[0]) == (
        1,
        "Not yet. code must have the function self_attention",
    )
    status, out = run("def f(:", "--translate", "7")
    assert (status, out.startswith("Not yet. In line 1")) == (1, True)
    change = ("    p = parameters\n", "    p = parameters.no\n")
    status, out = run(solution_with(change), "--translate", "7")
    assert (
        status,
        out.startswith("The model stopped. AttributeError"),
    ) == (
        1,
        True,
    )


def test_the_module_is_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["project", str(tmp_path / "none.py")])
    monkeypatch.delitem(sys.modules, "attention_in_detail.project.__main__")
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("attention_in_detail.project", run_name="__main__")
    assert stop.value.code == 1
    assert "There is no file none.py" in capsys.readouterr().out


@pytest.mark.parametrize("number", ["-1", "1000000", "seven"])
def test_numbers_beyond_the_model_are_refused(run, number, capsys):
    with pytest.raises(SystemExit) as stop:
        run(SOLUTION, f"--translate={number}")
    assert stop.value.code == 2
    assert "number from 0 to 999,999" in capsys.readouterr().err


# ---- the book, and the folder for students ----


def headings(chapter):
    cells = json.loads(
        (ROOT / f"notebooks/{chapter}.ipynb").read_text("utf8")
    )["cells"]
    text = "\n".join(
        "".join(cell["source"])
        for cell in cells
        if cell["cell_type"] == "markdown"
    )
    return [
        (len(level), title.strip())
        for level, title in re.findall(r"^(#+) (.*)$", text, re.MULTILINE)
    ]


def text_of(chapter, section):
    """The markdown of a section, up to the next heading of any level."""
    cells = json.loads(
        (ROOT / f"notebooks/{chapter}.ipynb").read_text("utf8")
    )["cells"]
    text = "\n\n".join(
        "".join(cell["source"])
        for cell in cells
        if cell["cell_type"] == "markdown"
    )
    part = re.split(rf"^#+ {re.escape(section)}$", text, flags=re.M)[1]
    return re.split(r"^#+ ", part, flags=re.M)[0]


def test_the_section_on_masks_has_what_the_stage_asks():
    """A shut score is minus infinity; a query without an open key has weights 0."""
    stage = by_name["attention_weights"]
    assert "weights 0" in stage.task
    text = text_of(stage.chapter, stage.section)
    assert r"-\infty" in text
    assert "no open key" in text


@each_stage
def test_the_section_to_read_is_there(stage):
    found = headings(stage.chapter)
    assert (1, stage.title) in found
    assert stage.section in [title for _, title in found]


def test_the_page_lists_the_stages():
    table = rows(PAGE.split("### Break it again")[0])[1:]
    assert [row[:2] for row in table] == [
        [str(n), f"`{stage.name}`"]
        for n, stage in enumerate(STAGES, start=1)
    ]
    for row, stage in zip(table, STAGES, strict=True):
        assert (
            row[2]
            == f"{{doc}}`../notebooks/{stage.chapter}`, {stage.section}"
        )


def tool():
    specification = importlib.util.spec_from_file_location(
        "tool_scratch_project", ROOT / "tools/scratch_project.py"
    )
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_folder_for_students(tmp_path, capsys, monkeypatch):
    made = tool()
    folder = tmp_path / "a" / "project"
    monkeypatch.setattr(made, "FOLDER", folder)
    assert made.main([]) == 0
    assert (folder / "my_attention.py").read_text() == ""
    text = (folder / "README.md").read_text("utf8")
    for stage in STAGES:
        assert f"`{stage.call}`" in text
        assert stage.section in text
        assert " ".join(stage.task.split()) in " ".join(text.split())
    (folder / "my_attention.py").write_text(SOLUTION, "utf8")
    assert made.main([str(folder)]) == 0
    assert (folder / "my_attention.py").read_text("utf8") == SOLUTION
    assert capsys.readouterr().out == f"project: {folder}\n" * 2


def test_the_test_for_students_says_what_is_not_right_yet(tmp_path):
    tool().main([str(tmp_path)])
    file = tmp_path / "test_my_attention.py"
    there = {"__file__": str(file)}
    exec(file.read_text("utf8"), there)
    with pytest.raises(
        AssertionError, match="stage 1, scores: There is no"
    ):
        there["test_my_attention"]()
    (tmp_path / "my_attention.py").write_text(SOLUTION, "utf8")
    assert there["test_my_attention"]() is None


def test_judging_sees_a_change_inside_of_parameters():
    stage = by_name["self_attention"]

    def changing(p, x, mask=None):
        p.b_O[0] += 1
        return stage.exercise.right(p, x, mask=mask)

    verdict = judge(replace(stage.exercise, mistakes=()), changing)
    assert "changed its own input" in verdict.message


def test_a_result_that_is_no_array_is_like_nothing():
    from attention_in_detail.project.examining import _alike

    assert not _alike(["a"], [np.ones(2)])
    assert not _alike(["a"], [np.array("b")])
