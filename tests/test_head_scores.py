"""The share of a head's weight that falls on a pattern, counted by hand and against plain loops."""

import array_api_strict as strict
import numpy as np
import pytest

from attention_in_detail.head_scores import (
    PATTERNS,
    pattern_mass,
    patterns,
    uniform_mass,
)


def assert_near(x, y):
    np.testing.assert_allclose(x, y, rtol=0, atol=1e-12)


A = np.array([[0.5, 0.25, 0.25], [0.75, 0.25, 0.0], [0.125, 0.75, 0.125]])
PREVIOUS = np.eye(3, k=-1, dtype=bool)


@pytest.mark.claim("def-pattern-mass")
def test_mass_by_hand():
    assert pattern_mass(A, PREVIOUS) == 0.75  # (0.75 + 0.75) / 2
    assert pattern_mass(A, PREVIOUS.T) == 0.125  # (0.25 + 0) / 2
    assert uniform_mass(PREVIOUS) == 1 / 3


@pytest.mark.claim("def-pattern-mass")
def test_mass_equals_loops():
    rng = np.random.default_rng(3)
    weights = rng.dirichlet(np.ones(7), size=(2, 3, 5))  # (2, 3, T, S)
    pattern = rng.random((5, 7)) < 0.3
    pattern[2] = False
    wanted = np.zeros((2, 3))
    asked = [i for i in range(5) if pattern[i].any()]
    for i in asked:
        for j in range(7):
            if pattern[i, j]:
                wanted += weights[..., i, j] / len(asked)
    assert_near(pattern_mass(weights, pattern), wanted)
    uniform = np.full((5, 7), 1 / 7)
    assert_near(uniform_mass(pattern), pattern_mass(uniform, pattern))
    by_standard = pattern_mass(
        strict.asarray(weights), strict.asarray(pattern)
    )
    assert_near(np.asarray(by_standard), wanted)


def test_queries_that_are_not_asked_count_for_nothing():
    pattern = np.zeros((3, 3), dtype=bool)
    pattern[1, 0] = True
    assert pattern_mass(A, pattern) == 0.75


def test_everything_is_one_and_parts_add_up():
    rng = np.random.default_rng(4)
    weights = rng.dirichlet(np.ones(6), size=6)
    part = rng.random((6, 6)) < 0.5
    part[:, 0], part[:, 1] = True, False  # both parts ask every query
    assert_near(pattern_mass(weights, np.ones((6, 6), dtype=bool)), 1.0)
    assert_near(
        pattern_mass(weights, part) + pattern_mass(weights, ~part), 1.0
    )


def test_half_precision_is_summed_in_float32():
    weights = np.full((1, 4096), 1 / 4096, dtype=np.float16)
    mass = pattern_mass(weights, np.ones((1, 4096), dtype=bool))
    assert mass.dtype == np.float16
    assert mass == 1


def test_patterns_of_a_text():
    tokens = ["[CLS]", "the", "dog", ",", "the", ".", "[SEP]"]
    found = patterns(tokens)
    assert tuple(found) == PATTERNS
    for i in range(7):
        for j in range(7):
            wanted = (
                j == i - 1,
                j == i + 1,
                j == 0 and i > 0,
                (i, j) in ((1, 4), (4, 1)),
                j in (3, 5) and i != j,
            )
            assert tuple(found[name][i, j] for name in PATTERNS) == wanted


def test_pattern_may_hold_no_pair():
    found = patterns(["a", "b"])
    assert not found["same word"].any()
    with pytest.raises(ValueError, match=r"^pattern holds no pair: there"):
        uniform_mass(found["same word"])
    with pytest.raises(ValueError, match=r"^pattern holds no pair: there"):
        pattern_mass(np.eye(2), found["same word"])


@pytest.mark.parametrize(
    ("kind", "line", "call"),
    [
        (
            TypeError,
            "weights must be a floating array, not bool; convert it first",
            lambda: pattern_mass(PREVIOUS, PREVIOUS),
        ),
        (
            TypeError,
            "pattern must be boolean (true = counts), not float64",
            lambda: pattern_mass(A, A),
        ),
        (
            ValueError,
            "pattern has the shape (2, 3), but weights have (T, S) = (3, 3)",
            lambda: pattern_mass(A, PREVIOUS[:2]),
        ),
        (
            ValueError,
            "weights needs at least the axes (T, S), but has the shape (3,)",
            lambda: pattern_mass(A[0], PREVIOUS),
        ),
        (
            TypeError,
            "tokens must be a list of texts, not one text",
            lambda: patterns("word"),
        ),
        (
            TypeError,
            "tokens must be a list of texts, but it holds int",
            lambda: patterns([1]),
        ),
        (
            ValueError,
            "tokens must hold at least one text",
            lambda: patterns([]),
        ),
    ],
)
def test_wrong_input_is_one_line(kind, line, call):
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == line
