"""Forms, cycles and the walk of a tied head, by hand and against loops; what the functions refuse."""

import array_api_strict as strict
import numpy as np
import pytest
import torch

from attention_in_detail import attention_weights, scores
from attention_in_detail.insights.direction import (
    HEADS,
    cycle_log_ratios,
    measure_head,
    score_form,
    skew_share,
    stationary_distribution,
    symmetric_and_skew,
    train_head,
)

RNG = np.random.default_rng(21)
X = RNG.standard_normal((2, 5, 6))  # (B, T, D)
W_Q, W_K = RNG.standard_normal((2, 6, 3))
Z = scores(X @ W_Q, X @ W_K)
A = attention_weights(X @ W_Q, X @ W_K)
TIED = scores(X @ W_Q, X @ W_Q)


def assert_near(x, y):
    np.testing.assert_allclose(np.asarray(x), y, rtol=0, atol=1e-12)


@pytest.mark.claim("def-score-form")
def test_the_form_gives_every_score():
    M = score_form(W_Q, W_K)
    assert M.shape == (6, 6)
    for b in range(2):
        for i in range(5):
            for j in range(5):
                score = X[b, i] @ M @ X[b, j] / np.sqrt(3)
                assert_near(score, Z[b, i, j])
    heads = score_form(np.stack([W_Q, W_K]), np.stack([W_K, W_Q]))
    assert_near(heads[1], heads[0].T)


@pytest.mark.claim("def-score-form")
def test_the_two_parts_are_symmetric_and_skew_and_orthogonal():
    M = score_form(W_Q, W_K)
    S, N = symmetric_and_skew(M)
    assert_near(S + N, M)
    assert np.array_equal(S, S.T)
    assert np.array_equal(N, -N.T)
    assert_near((S * N).sum(), 0)
    assert_near(skew_share(M), (N**2).sum() / (M**2).sum())
    assert_near(1 - skew_share(M), (S**2).sum() / (M**2).sum())


@pytest.mark.claim("def-score-form")
def test_the_skew_share_by_hand():
    M = np.array([[1.0, 2], [0, 1]])
    assert skew_share(M) == pytest.approx(1 / 3)
    both = np.stack([np.eye(2), np.array([[0.0, 1], [-1, 0]])])
    assert np.array_equal(skew_share(both), [0, 1])


@pytest.mark.claim("prop-cycle")
def test_cycles_against_loops():
    found = cycle_log_ratios(A)
    assert found.shape == (2, 5, 5, 5)
    _, N = symmetric_and_skew(Z)
    for b, i, j, k in np.ndindex(2, 5, 5, 5):
        a = A[b]
        there = a[i, j] * a[j, k] * a[k, i]
        back = a[i, k] * a[k, j] * a[j, i]
        assert_near(found[b, i, j, k], np.log(there / back))
        skew = N[b, i, j] + N[b, j, k] + N[b, k, i]
        assert_near(found[b, i, j, k], 2 * skew)


@pytest.mark.claim("prop-reversible")
def test_the_walk_of_symmetric_scores():
    pi = stationary_distribution(TIED)
    tied = attention_weights(X @ W_Q, X @ W_Q)
    assert pi.shape == (2, 5)
    assert_near(pi.sum(-1), 1)
    assert_near((pi[:, None] @ tied)[:, 0], pi)
    flow = pi[..., None] * tied
    assert_near(flow, flow.mT)
    large = stationary_distribution(1000 * TIED)
    assert np.isfinite(large).all()


def test_other_libraries():
    for make in (torch.asarray, strict.asarray):
        q, k = make(W_Q), make(W_K)
        assert_near(skew_share(score_form(q, k)), skew_share(W_Q @ W_K.T))
        assert_near(cycle_log_ratios(make(A)), cycle_log_ratios(A))
        found = stationary_distribution(make(TIED))
        assert_near(found, stationary_distribution(TIED))


def test_a_head_is_what_its_name_says():
    for name, (tied, itself, later) in HEADS.items():
        head = train_head(name, seed=3, steps=1)
        assert (head.attention.W_K is head.attention.W_Q) == tied
        assert len(head.trained()) == 5 - tied
        assert bool(head.mask.diagonal().all()) == itself
        assert bool(head.mask.triu(1).any()) == later
        assert bool(head.mask.tril(-1).sum() == 24 * 23 / 2)
        for tensor in head.trained():
            assert tensor.dtype == torch.float64


def test_what_is_measured():
    head = train_head("separate", seed=3, steps=2)
    found = measure_head(head, seed=4)
    generator = torch.Generator().manual_seed(4)
    tokens = torch.randint(16, (512, 24), generator=generator)
    start = torch.randint(232, (512,), generator=generator)
    with torch.no_grad():
        logits, weights = head.answer(tokens, start)
    right = total = previous = 0
    for n in range(512):
        for t in range(1, 24):
            right += int(logits[n, t].argmax() == tokens[n, t - 1])
            previous += float(weights[n, t, t - 1])
            total += 1
    assert found["accuracy"] == pytest.approx(right / total)
    assert found["previous"] == pytest.approx(previous / total)
    itself = weights.diagonal(0, 1, 2).mean()
    after = weights.diagonal(1, 1, 2).mean()
    assert found["itself"] == pytest.approx(float(itself))
    assert found["next"] == pytest.approx(float(after))
    assert 0.4 < found["skew"] < 0.6
    assert found == measure_head(
        train_head("separate", seed=3, steps=2), seed=4
    )


SQUARE = np.ones((3, 3))


@pytest.mark.parametrize(
    ("error", "line", "call"),
    [
        (
            TypeError,
            "W_Q must be a floating array, not int64; convert it first",
            lambda: score_form(np.ones((4, 2), int), W_K),
        ),
        (
            ValueError,
            "W_K needs at least the axes (D_k, D_h), but has the shape (3,)",
            lambda: score_form(W_Q, W_K[0]),
        ),
        (
            TypeError,
            "W_K has dtype float32, but W_Q has float64; convert one of them",
            lambda: score_form(W_Q, W_K.astype("float32")),
        ),
        (
            ValueError,
            "W_K has D_h = 2, but W_Q has D_h = 3; queries and keys must share their width",
            lambda: score_form(W_Q, W_K[:, :2]),
        ),
        (
            ValueError,
            "M must be square in its last two axes, but has the shape (3, 2)",
            lambda: symmetric_and_skew(SQUARE[:, :2]),
        ),
        (
            TypeError,
            "M must be an array of NumPy, PyTorch or another array library, not list",
            lambda: skew_share([[1.0]]),
        ),
        (
            ValueError,
            "M is 0, and a part of nothing has no share",
            lambda: skew_share(np.stack([SQUARE, 0 * SQUARE])),
        ),
        (
            ValueError,
            "weights must be square in its last two axes, but has the shape (2, 3)",
            lambda: cycle_log_ratios(SQUARE[:2]),
        ),
        (
            ValueError,
            "weights must be positive, but one is 0; a cycle through it has no ratio",
            lambda: cycle_log_ratios(np.eye(3)),
        ),
        (
            ValueError,
            "scores must be symmetric, but two differ by 1; for others this formula does not hold",
            lambda: stationary_distribution(np.triu(SQUARE)),
        ),
        (
            TypeError,
            "name must be a text, not int",
            lambda: train_head(1, seed=0),
        ),
        (
            ValueError,
            "name is 'shared', but can be: separate; tied; tied, not itself; tied, not itself, causal",
            lambda: train_head("shared", seed=0),
        ),
        (
            ValueError,
            "seed is -1, but must be at least 0",
            lambda: train_head("tied", seed=-1),
        ),
        (
            TypeError,
            "steps must be an integer, not float",
            lambda: train_head("tied", seed=0, steps=4.0),
        ),
        (
            ValueError,
            "report is 0, but must be at least 1",
            lambda: train_head("tied", seed=0, report=0),
        ),
        (
            TypeError,
            "head must be a PreviousTokenHead, not str",
            lambda: measure_head("tied", seed=0),
        ),
        (
            TypeError,
            "seed must be an integer, not bool",
            lambda: measure_head(
                train_head("tied", seed=0, steps=1), seed=True
            ),
        ),
    ],
)
def test_refusals(error, line, call):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == line
