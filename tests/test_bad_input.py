"""Every wrong input is refused, in one line, before any arithmetic, with annotations checked or not.

The calls are in wrong_calls.py, the lines that refuse them in refusals.txt: there a reader sees
whether each names its argument, the axis and both sizes.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import attention_in_detail
from tests import wrong_calls
from tests.support import STRICT

CALLS = wrong_calls.CALLS
each_call = pytest.mark.parametrize("name", CALLS)
HERE = Path(__file__).parent


def written():
    """What refusals.txt says: for each call the kind of error and its line."""
    lines = (HERE / "refusals.txt").read_text("utf8").splitlines()
    rows = [
        line.split(" | ", 2)
        for line in lines
        if line and not line.startswith("#")
    ]
    return {name: [kind, message] for name, kind, message in rows}


EXPECTED = written()


def test_each_call_has_its_line_and_each_line_its_call():
    assert list(EXPECTED) == list(CALLS)


@each_call
def test_a_wrong_call_is_refused_in_one_line(name):
    assert wrong_calls.refusal(CALLS[name]) == EXPECTED[name]


@each_call
def test_the_line_is_one_of_ours(name):
    kind, message = EXPECTED[name]
    assert kind in ("TypeError", "ValueError")
    assert "\n" not in message
    assert "check_" not in message
    assert len(message) < 160


@pytest.fixture(scope="module")
def without_the_hook():
    """The same calls in a fresh interpreter in which no annotation is checked."""
    folders = Path(attention_in_detail.__file__).parents[1], HERE.parent
    done = subprocess.run(
        [sys.executable, *STRICT, "-m", "tests.wrong_calls"],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, folders)),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@each_call
def test_the_line_is_the_same_without_the_check_of_annotations(
    name, without_the_hook
):
    assert without_the_hook[name] == EXPECTED[name]


def test_these_tests_do_check_annotations():
    with pytest.raises(Exception, match="Type-check error"):
        attention_in_detail.scores.unchecked(
            np.ones((2, 3)), np.ones((2, 4))
        )


class Untouchable(np.ndarray):
    """An array with a shape and a dtype, for which NumPy may compute nothing."""

    def __array_ufunc__(self, *args, **kwargs):
        raise AssertionError("arithmetic")

    def __array_function__(self, *args, **kwargs):
        raise AssertionError("arithmetic")


def test_an_untouchable_array_shows_arithmetic():
    x = np.ones((2, 3)).view(Untouchable)
    with pytest.raises(AssertionError, match="arithmetic"):
        attention_in_detail.attention.unchecked(x, x, x)


# The lengths or tokens themselves are what is wrong: they have to be read.
READ = {
    "embed: token high",
    "embed: token negative",
    "encode: source token",
    "decode: target token",
    "transformer: source token",
    "transformer: target token",
    "take: beyond",
    "decoder cache take: negative",
    "step: token",
    "greedy: token",
    "padding: negative",
    "padding: too long",
    "padding: too long for torch",
    "translator: piece",
    "read_source: piece",
    "write_target: ids",
    "translate: among piece",
    "translate: no end",
    "alone: token",
    "generate: token",
    "repeating: first",
    "repeating: token",
}


@pytest.mark.parametrize(
    "name", [name for name in CALLS if name not in READ]
)
def test_refusing_comes_before_any_arithmetic_of_numpy(name, monkeypatch):
    monkeypatch.setattr(
        wrong_calls, "turn_into", [lambda x: x.view(Untouchable)]
    )
    assert wrong_calls.refusal(CALLS[name]) == EXPECTED[name]


class NoArithmetic(TorchDispatchMode):
    """Lets torch make and turn tensors, but compute nothing."""

    allowed = (
        "ones",
        "transpose",
        "t",
        "alias",
        "detach",
        "view",
        "slice",
        "lift_fresh",
        "_to_copy",
    )

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        assert name in self.allowed, f"arithmetic: {name}"
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "name", [name for name in CALLS if name.startswith("forward")]
)
def test_refusing_comes_before_any_arithmetic_of_torch(name, monkeypatch):
    ready = wrong_calls.module()
    monkeypatch.setattr(wrong_calls, "module", lambda: ready)
    with NoArithmetic():
        assert wrong_calls.refusal(CALLS[name]) == EXPECTED[name]


def test_a_right_call_is_arithmetic():
    ready = wrong_calls.module()
    with NoArithmetic(), pytest.raises(AssertionError, match="arithmetic"):
        ready(torch.ones(3, 10), torch.ones(7, 9), torch.ones(7, 11))


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_whole_numbers_of_numpy_are_whole_numbers(kind):
    a = attention_in_detail
    assert a.causal_mask(kind(2), kind(3), offset=kind(1)).shape == (2, 3)
    assert a.sinusoidal_positions(kind(2), kind(4)).shape == (2, 4)
    assert a.padding_mask(np.array([1]), kind(4)).shape == (1, 1, 4)
    p = a.MultiHeadParameters.init(
        kind(8), kind(2), D_q=kind(3), seed=kind(1)
    )
    assert p.head(kind(1)).W_Q.shape == (3, 4)
    x = np.ones((2, 8))
    assert a.split_heads(x, kind(4)).shape == (4, 2, 2)
    assert a.softmax(x, axis=np.int64(-1)).shape == (2, 8)
    assert np.array_equal(
        a.scores(x, x, scale=kind(2)), a.scores(x, x, scale=2)
    )
    with pytest.raises(
        TypeError, match=r"^return_weights must be True or False"
    ):
        a.attention(x, x, x, return_weights=np.int64(1))


def test_whole_numbers_of_few_bits_do_not_overflow():
    a, heads = attention_in_detail, np.uint8(4)
    x = np.ones((2, 512))
    assert a.split_heads(x, heads).shape == (4, 2, 128)
    p = a.MultiHeadParameters.init(512, heads, seed=0)
    assert p.head(np.uint8(3)).W_Q.shape == (512, 128)
    assert a.multi_head_attention(p, x, x, x).shape == (2, 512)
    assert (
        a.causal_mask(300, 300, offset=np.int8(100)).sum() > 300 * 301 / 2
    )
    near = a.window_mask(300, before=np.uint8(200), after=np.int8(0))
    assert near[299].sum() == 201
    ignored, padding = np.zeros((800, 2, 3), bool), np.zeros((200, 3), bool)
    ours, _ = a.mask_from_torch_mha(ignored, padding, heads=heads)
    assert ours.shape == (200, 4, 2, 3)
    theirs, _ = a.mask_to_torch_mha(ours[:, :1], heads=heads)
    assert theirs.shape == (800, 2, 3)
