"""What the chapter The classic bugs states, and that its page is the list in classic_bugs.py.

That each bug is noticed by the tests which the page names: test_classic_bugs.py, test_guards.py.
"""

import ast
import re
from functools import partial

import numpy as np
import pytest
import torch
from jaxtyping import TypeCheckError

from attention_in_detail import (
    attention,
    attention_weights,
    causal_mask,
    merge_heads,
    multi_head_attention,
    scores,
    softmax,
)
from attention_in_detail.exercises.bugs import FLAWS, SYMPTOMS
from attention_in_detail.nn import MultiHeadAttention
from attention_in_detail.planting import planted
from tests.classic_bugs import BUGS, GUARDS
from tests.support import assert_close, normal, numpy_of
from tests.test_classic_bugs import SHOWN, together
from tests.test_contract import PAGES, code, markdown

CELLS = PAGES["91_classic_bugs"]
TEXT = markdown(CELLS)
# Place on the page, and the bugs that stand there.
SECTIONS = {
    "bug-merged": ["merged without the swap", "split without the swap"],
    "bug-width": ["the root of the wrong width"],
    "bug-ignore": ["true read as ignore"],
    "bug-conventions": ["two conventions in one package"],
    "bug-corner": ["the wrong corner"],
    "bug-maps": ["maps without the mask"],
    "bug-mean": ["the mean of the padding"],
    "bug-nan": ["one NaN for all"],
    "bug-billion": ["a billion in half precision"],
    "bug-argument": ["the argument is changed"],
    "bug-dropout": ["dropout in use"],
    "bug-norm": ["the norm on the other side"],
    "bug-outside": list(GUARDS),
}


# ---- the page is the list ----


def roles(text):
    return re.findall(r"\{test\}`(?:[^`<]*<)?([^`<>]+)>?`", text)


def test_the_overview_names_each_bug_where_it_was_shipped_and_its_place():
    rows = re.findall(
        r"^\| \[([^\]]+)\]\(([\w-]+)\) \| (.*) \|$", TEXT, re.M
    )
    places = {
        name: place for place, names in SECTIONS.items() for name in names
    }
    assert {name: place for name, place, _ in rows} == places
    assert len(rows) == len(BUGS) + len(GUARDS) == 18
    for name, _, shipped in rows:
        known = (BUGS | GUARDS)[name].shipped
        told = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", shipped)
        assert told == (", ".join(known) or "its twin, easily made")
        # Each is a link, to the thread with its number if it has one.
        links = re.findall(r"\[([^]]+)\]\((https://[^)]+)\)", shipped)
        assert ", ".join(source for source, _ in links) == ", ".join(known)
        for source, address in links:
            number = re.search(r"(?:#|request )(\d+)$", source)
            thread = re.search(r"/(?:issues|pull)/(\d+)$", address)
            assert (number and number[1]) == (thread and thread[1])


def test_a_section_names_the_tests_that_notice_its_bugs():
    parts = re.split(r"^\((bug-[a-z]+)\)=$", TEXT, flags=re.M)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert list(found) == list(SECTIONS)
    for place, names in SECTIONS.items():
        wanted = {
            test
            for name in names
            for test in (
                GUARDS[name].kept_out_by
                if name in GUARDS
                else BUGS[name].noticed_by
            )
        }
        assert set(roles(found[place])) == wanted


def test_each_line_that_the_page_plants_is_one_that_is_tested():
    calls = [
        node
        for cell in code(CELLS)
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "planted"
    ]
    on_page = {
        (
            ast.unparse(function).rpartition(".")[2],
            ast.literal_eval(old),
            ast.literal_eval(new),
        )
        for function, old, new in (call.args for call in calls)
    }
    refused = ("softmax", "math.exp", "math.sin")
    tested = {
        (function.__name__, old, new)
        for bug in BUGS.values()
        for function, old, new in bug.changes
    }
    assert on_page - {refused} == tested


def test_the_page_shows_each_bug_in_the_order_of_the_list():
    shown = re.findall(
        r"^(?:    )?with plant\(\s*\"([^\"]+)\"",
        "\n".join(cell.source for cell in code(CELLS)),
        re.M,
    )
    assert shown == list(BUGS)


# ---- observations ----


@pytest.mark.claim("obs-bugs-shapes")
def test_each_bug_keeps_the_shape_and_changes_numbers_and_two_make_nan():
    finite = []
    for name, bug in BUGS.items():
        with together(*bug.planted()):
            wrong, right = map(numpy_of, SHOWN[name]())
        assert wrong.shape == right.shape
        assert not np.allclose(wrong, right, rtol=0, atol=1e-3)
        finite.append(bool(np.isfinite(wrong).all()))
    assert len(finite) == 13
    assert sum(finite) == 11


@pytest.mark.claim("obs-bugs-kind")
def test_with_one_head_and_no_mask_no_bug_changes_a_number():
    torch.manual_seed(5)
    kind = MultiHeadAttention(6, 1).double()
    p = kind.as_parameters()
    y = torch.tensor(normal(4, 6))
    q, k, v = (
        y @ W + b
        for W, b in ((p.W_Q, p.b_Q), (p.W_K, p.b_K), (p.W_V, p.b_V))
    )
    E = torch.exp(q @ k.mT / 6**0.5)
    formula = E / E.sum(-1, keepdim=True) @ v @ p.W_O + p.b_O
    for bug in BUGS.values():
        with together(*bug.planted()):
            assert_close(multi_head_attention(p, y, y, y), formula)
            assert_close(kind(y), formula)


# ---- what the text says of the numbers ----


def test_merged_by_hand():
    H = np.array([[[1.0, 2], [3, 4]], [[5, 6], [7, 8]]])
    bug = planted(
        merge_heads, *BUGS["merged without the swap"].changes[0][1:]
    )
    right, wrong = merge_heads(H), bug(H)
    assert right.tolist() == [[1, 2, 5, 6], [3, 4, 7, 8]]
    assert wrong.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert right.sum(1).tolist() == [14, 22]
    assert wrong.sum(1).tolist() == [10, 26]
    assert (right[:, 0].tolist(), wrong[:, 0].tolist()) == ([1, 3], [1, 5])


def test_weights_of_one_four_and_sixteen_and_of_one_two_and_four():
    query, keys = np.ones((1, 1)), np.log(4) * np.arange(3.0)[:, None]
    assert_close(
        attention_weights(query, keys), np.array([[1, 4, 16]]) / 21
    )
    assert_close(
        attention_weights(query, keys, scale=0.5), np.array([[1, 2, 4]]) / 7
    )


def test_a_billion_is_minus_infinity_in_float16_and_not_in_float32():
    assert torch.finfo(torch.float16).max == 65504
    assert torch.tensor(-1e9).half() == -torch.inf
    assert torch.tensor(-1e9).isfinite()


def test_the_guard_of_the_softmax_hides_the_wrong_constant_in_half_precision():
    own_precision, no_guard = BUGS["a billion in half precision"].planted()
    q, k = (torch.zeros(size, 1).half() for size in (1, 4))
    none = torch.zeros(1, 4, dtype=torch.bool)
    given = {}
    for name, bugs in {
        "one": [own_precision],
        "both": [own_precision, no_guard],
    }.items():
        with together(*bugs):
            given[name] = attention_weights(q, k, mask=none)
            wide = attention_weights(q.float(), k.float(), mask=none)
            assert (wide == 0.25).all()
    assert (given["one"] == 0).all()
    assert given["both"].isnan().all()


def test_the_symptoms_of_the_exercise_are_those_of_its_bugs():
    told = [
        (2.5, 1),
        (0, 2.5),
        ([1 / 5, 4 / 5], [1 / 3, 2 / 3]),
        (1.5, 3.5),
        ([[1, 2, 5, 6], [3, 4, 7, 8]], [[1, 2, 3, 4], [5, 6, 7, 8]]),
        (0, np.nan),
    ]
    for (call, word), (right, wrong) in zip(SYMPTOMS, told, strict=True):
        assert_close(call(), np.array(right))
        with FLAWS[word], np.errstate(invalid="ignore"):
            seen = np.asarray(call())
        assert np.allclose(seen, wrong, equal_nan=True)


def test_ex_bugs_own():
    flat = planted(
        scores,
        "math.sqrt(queries.shape[-1])",
        "queries.shape[-1]",
    )
    z = np.random.default_rng(0).normal(size=(3, 4))
    equal = []
    for width in (1, 4):
        right = attention_weights(z[:, :width], z[:, :width])
        with flat:
            wrong = attention_weights(z[:, :width], z[:, :width])
        equal.append(np.allclose(right, wrong))
        assert np.allclose(wrong.sum(1), 1)
    assert equal == [True, False]
    turned = planted(
        scores,
        "widened(queries) @ widened(keys).mT",
        "widened(keys) @ widened(queries).mT",
    )
    q, k = z, np.random.default_rng(1).normal(size=(3, 4))
    with turned:
        assert_close(attention_weights(q, k), softmax(k @ q.T / 2))
        with pytest.raises((ValueError, TypeCheckError)):
            attention(q[:2], k, k)
    symmetric = attention_weights(q, q)
    with turned:
        assert_close(attention_weights(q, q), symmetric)


def test_ex_bugs_kind():
    """The smallest changes that show a bug do, and those before them do not."""

    def differs(name, call):
        right = call()
        with together(*BUGS[name].planted()):
            wrong = call()
        return not np.allclose(right, wrong, rtol=0, atol=1e-12)

    for h, T, seen in ((1, 2, False), (2, 1, False), (2, 2, True)):
        H = normal(h, T, 3)
        call = partial(merge_heads, H)
        assert differs("merged without the swap", call) == seen
    for T, S, offset, seen in ((3, 3, 0, False), (2, 3, 1, True)):
        call = partial(causal_mask, T, S, offset=offset)
        assert differs("the wrong corner", call) == seen
    x = normal(2, 3)
    for row, seen in (([True, False], False), ([False, False], True)):
        mask = np.array([[True, True], row])
        call = partial(attention, x, x, x, mask=mask)
        assert differs("the mean of the padding", call) == seen


def test_merged_without_the_swap_rows_mix_positions():
    """The numbers of the page: tens are the head, ones the position."""
    head, t = np.array([10, 20])[:, None], np.array([1, 2, 3])
    H = np.stack([head + t, head + t], axis=-1) * 1.0
    rows = FLAWS["swap"](H).astype(int)
    heads = [set((row // 10).tolist()) for row in rows]
    positions = [set((row % 10).tolist()) for row in rows]
    assert heads == [{1}, {1, 2}, {2}]
    assert positions == [{1, 2}, {3, 1}, {2, 3}]
