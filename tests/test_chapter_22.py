"""What chapter 22, Routing, states: circuits, the network by hand, the proof for one head, smaller runs of what it trains.

Checked elsewhere:
- the functions against loops, and their refusals: tests/insights/test_routing.py
- that numbers in the text are the stored ones: tests/test_insight_pages.py
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from attention_in_detail import (
    MultiHeadParameters,
    attention_weights,
    causal_mask,
    scores,
    self_attention,
)
from attention_in_detail.exercises.routing import FIRST, SECOND
from attention_in_detail.insights.results import experiment
from attention_in_detail.insights.routing import (
    SIGNS,
    SWAPPED,
    change_gauge,
    circuits,
    fit_swapped,
    head_writes,
    measure_network,
    train_network,
    without_composition,
)
from tests.extension_support import ROOT

STORED = experiment("routing")


def assert_near(x, y, tolerance=1e-12):
    np.testing.assert_allclose(x, y, rtol=0, atol=tolerance)


def values(key):
    return np.array(STORED[key].values)


@cache
def trained(name, steps=80):
    network = train_network(name, seed=5, steps=steps)
    return network, measure_network(network, seed=6)


# ---- circuits ----


@pytest.mark.claim("def-circuits")
def test_circuits_of_the_example_by_hand():
    A = np.array([[1 / 2, 1 / 2], [1 / 4, 3 / 4]])
    X = np.array([[1.0, 3], [5, 3]])
    for W_V, W_O, OV, written in (
        ([1, 1], [0, 2], [[0, 2], [0, 2]], [[0, 12], [0, 14]]),
        ([1, 0], [1, 1], [[1, 1], [0, 0]], [[3, 3], [4, 4]]),  # exercise
    ):
        p = MultiHeadParameters(
            *(np.ones((2, 1)) for _ in range(2)),
            np.array(W_V, dtype=float)[:, None],
            np.array(W_O, dtype=float)[None, :],
            heads=1,
        )
        assert np.array_equal(circuits(p)[1][0], OV)
        assert np.array_equal(A @ X @ circuits(p)[1][0], written)
        assert np.array_equal(A @ (X @ p.W_V) @ p.W_O, written)


def test_network_by_hand():
    word, place, note = np.eye(10)[:3], np.eye(10)[3:7], np.eye(10)[7:]
    X0 = word[[2, 0, 1, 0]] + place
    empty = np.zeros((1, 10))
    first = MultiHeadParameters(
        80 * place.T @ (place[[0, 0, 1, 2]] @ place.T),
        place.T.copy(),
        np.concatenate([word, empty]).T,
        np.concatenate([note, empty]),
        heads=1,
    )
    second = MultiHeadParameters(
        80 * word.T, note.T.copy(), word.T.copy(), np.eye(3), heads=1
    )
    mask = causal_mask(4)
    Y1, A1 = self_attention(first, X0, mask=mask, return_weights=True)
    assert_near(A1[0], np.eye(4)[[0, 0, 1, 2]], 1e-9)
    X1 = X0 + Y1
    assert_near(X1[:, 7:], np.eye(3)[[2, 2, 0, 1]], 1e-9)
    logits, A2 = self_attention(second, X1, mask=mask, return_weights=True)
    # second row evenly over two keys, last row on "b"
    assert_near(A2[0, 1], [1 / 2, 1 / 2, 0, 0], 1e-9)
    assert_near(A2[0, 3], [0, 0, 1, 0], 1e-9)
    assert_near(logits[-1], [0, 1, 0], 1e-9)
    assert_near(circuits(first)[1][0][:3, 7:], np.eye(3))
    assert np.linalg.matrix_rank(circuits(first)[0][0]) == 3
    assert np.linalg.matrix_rank(circuits(first)[1][0]) == 3


@pytest.mark.claim("prop-circuits")
def test_ranks_and_what_a_head_does_not_notice():
    p = MultiHeadParameters.init(64, 8, bias=False, seed=0)
    x = np.random.default_rng(0).standard_normal((64, 64))
    ranks = [np.linalg.matrix_rank(w, tol=1e-9) for w in head_writes(p, x)]
    assert ranks == [8] * 8
    assert np.linalg.matrix_rank(self_attention(p, x)) == 64
    for i, written in enumerate(head_writes(p, x)):
        QK, OV = (circuit[i] for circuit in circuits(p))
        assert np.linalg.matrix_rank(QK, tol=1e-9) == 8
        assert np.linalg.matrix_rank(OV, tol=1e-9) == 8
        own = p.head(i)
        span = np.concatenate([own.W_O, written])
        assert np.linalg.matrix_rank(span, tol=1e-9) == 8
        unseen = np.linalg.svd(own.W_V.T)[2][8:]  # what W_V maps to 0
        assert_near(unseen @ OV, 0)


@pytest.mark.claim("prop-circuits")
def test_bias_of_the_output_is_added_once():
    p = MultiHeadParameters.init(8, 4, seed=1)
    p.b_O[:] = 1.0
    x = np.random.default_rng(22).standard_normal((5, 8))
    whole, parts = self_attention(p, x), head_writes(p, x).sum(0)
    assert_near(whole, parts + p.b_O)
    assert not np.allclose(whole, parts + 4 * p.b_O)


@pytest.mark.claim("prop-gauge")
def test_another_gauge_gives_the_same_output():
    p = MultiHeadParameters.init(8, 4, bias=False, seed=1)
    rng = np.random.default_rng(2)
    G, F = rng.standard_normal((2, 4, 2, 2)) + 3 * np.eye(2)
    q, x = change_gauge(p, G, F), rng.standard_normal((5, 8))
    assert not np.allclose(p.W_Q, q.W_Q)
    assert_near(self_attention(p, x), self_attention(q, x))


def test_exercise_a_token_in_front_that_no_one_asks_for_cures_the_first_place():
    def answer(tokens):
        rows = np.stack([WORDS[t] for t in tokens]) + np.eye(10)[3:7]
        rows = rows + self_attention(FIRST, rows, mask=causal_mask(4))
        return self_attention(SECOND, rows, mask=causal_mask(4))[-1]

    a, b, c, nothing = range(4)
    WORDS = np.concatenate([np.eye(10)[:3], np.zeros((1, 10))])
    assert_near(answer([a, b, c, a]), [1 / 2, 1 / 2, 0], 1e-9)
    assert_near(answer([nothing, a, b, a]), [0, 1, 0], 1e-9)


def test_exercise_virtual_head():
    rng = np.random.default_rng(3)
    A1, A2 = rng.dirichlet(np.ones(5), size=(2, 5))
    X, O1, O2 = rng.standard_normal((3, 5, 5))
    assert_near(A2 @ (A1 @ X @ O1) @ O2, A2 @ A1 @ X @ O1 @ O2)
    assert_near((A2 @ A1).sum(-1), 1)


def test_a_virtual_head_is_no_softmax_of_pairs():
    """In a softmax of scores of pairs, the ratio of two weights knows their three rows alone."""
    rng = np.random.default_rng(4)
    X, M1, M2 = (rng.standard_normal((5, 5)) for _ in range(3))
    other = X.copy()
    other[3] = rng.standard_normal(5)  # neither query 0 nor keys 1, 2

    def ratios(x):
        A1, A2 = (attention_weights(x @ M, x) for M in (M1, M2))
        return [A[0, 1] / A[0, 2] for A in (A1, A2 @ A1)]

    (one, virtual), (one_then, virtual_then) = ratios(X), ratios(other)
    assert one == pytest.approx(one_then)
    assert virtual != pytest.approx(virtual_then, rel=0.01)


# ---- one head cannot ----


@pytest.mark.claim("prop-one-head")
@pytest.mark.parametrize("seed", range(20))
def test_margins_of_one_head_balance(seed):
    """R m is a sum over pairs: it is the same for sequences 1 and 4 together as for 2 and 3."""
    rng = np.random.default_rng(seed)
    words, places, out = (
        rng.standard_normal(shape) for shape in ((4, 16), (5, 16), (16, 4))
    )
    X = words[np.array(SWAPPED)] + places

    def margins(heads):
        p = MultiHeadParameters.init(16, heads, bias=False, seed=seed)
        Y = X + self_attention(p, X, mask=causal_mask(5))
        logits = (Y @ out)[:, -1]
        return p, logits[:, 1] - logits[:, 3]

    p, m = margins(1)
    R = np.exp(scores(X @ p.W_Q, X @ p.W_K)[:, -1]).sum(-1)
    f = R * m
    assert_near((f @ SIGNS) / np.abs(f).sum(), 0)
    assert not (m * SIGNS > 0).all()
    _, m = margins(2)
    assert abs((R * m) @ SIGNS) > 1e-6  # no such law for two heads


@pytest.mark.claim("prop-one-head")
def test_two_heads_learn_the_four_and_one_does_not():
    one, two = (fit_swapped(heads, seed=1, steps=150) for heads in (1, 2))
    assert sum(m > 1 for m in one) == 2
    assert sum(m > 1 for m in two) == 4


# ---- what is trained ----


@pytest.mark.claim("obs-routing-layers")
def test_two_layers_learn_the_rule():
    _, (accuracy, previous, induction) = trained("two layers")
    assert accuracy > 0.85
    assert np.mean(previous[0]) > 2 * np.mean(previous[1])
    assert np.mean(induction[1]) > 0.4 > 0.15 > np.mean(induction[0])


@pytest.mark.claim("obs-routing-composition")
def test_only_the_keys_of_layer_two_need_layer_one():
    cut = without_composition(trained("two layers")[0], seed=6)
    assert cut["keys"] < 0.3
    assert cut["queries"] > 0.75
    assert cut["values"] > 0.8


@pytest.mark.claim("obs-routing-layers")
def test_one_layer_does_not_learn_the_rule():
    _, (accuracy, _, induction) = trained("one layer")
    assert accuracy < 0.4
    assert np.mean(induction[0]) < 0.2


def test_control_twice_the_width_has_as_many_parameters_of_attention():
    def size(name):
        layers = train_network(name, seed=5, steps=1).layers
        return sum(W.numel() for p in layers for W in p.arrays().values())

    wide = train_network("one layer, twice as wide", seed=5, steps=1)
    (layer,) = wide.layers
    assert (layer.heads, layer.D_h, layer.W_Q.shape) == (4, 32, (64, 128))
    assert wide.words.shape[1] == 64  # the rows are as wide as before
    assert size("one layer, twice as wide") == size("two layers")
    page = (ROOT / "notebooks/22_routing.ipynb").read_text("utf8")
    assert "four heads of width 32 side by side, 128 in all" in page


@pytest.mark.claim("obs-routing-wide")
@pytest.mark.slow
def test_control_twice_the_width_does_not_help_as_soon():
    _, (accuracy, _, _) = trained("one layer, twice as wide")
    assert accuracy < 0.4


@pytest.mark.claim("obs-routing-keys")
def test_control_one_layer_whose_keys_know_the_token_before():
    _, (accuracy, _, induction) = trained(
        "one layer, keys from the row before", 40
    )
    assert accuracy > 0.9
    assert np.mean(induction[0]) > 0.5


def test_one_head_silenced_is_hardly_missed():
    network, _ = trained("two layers")
    for n, layer in enumerate(network.layers):
        for head in range(2):
            W_O = layer.W_O.detach().clone()
            W_O[32 * head : 32 * (head + 1)] = 0
            layers = list(network.layers)
            layers[n] = replace(layer, W_O=W_O)
            silent = replace(network, layers=tuple(layers))
            assert measure_network(silent, seed=6)[0] > 0.5


def test_first_layer_silenced_is_keys_cut_off():
    network, _ = trained("two layers")
    first, second = network.layers
    silent = replace(first, W_O=torch.zeros_like(first.W_O))
    network = replace(network, layers=(silent, second))
    assert measure_network(network, seed=6)[0] < 0.4


# ---- what is stored ----


def test_identities_and_ranks_over_the_seeds():
    for key in ("sum_error", "circuits_error", "gauge_error"):
        assert values(key).max() < 1e-11
    assert set(values("head_rank")) == {8}
    assert set(values("output_rank")) == {64}
    assert values("swapped_one").max() <= 2
    assert values("swapped_two").min() == 4


@pytest.mark.claim("obs-routing-layers")
def test_over_the_seeds_two_layers_learn_and_one_does_not():
    assert len(STORED.seeds) >= 5
    assert values("two_accuracy").min() > 0.98
    assert values("two_second_induction").min() > 0.6
    assert values("one_accuracy").max() < 0.5
    assert (
        values("two_first_previous").min()
        > 2 * values("two_second_previous").max()
    )
    assert values("two_second_induction").min() > (
        3 * values("one_induction").max()
    )


@pytest.mark.claim("obs-routing-wide")
def test_over_the_seeds_a_wide_layer_is_late_and_on_its_way():
    near = values("wide_accuracy") - values("one_accuracy").mean()
    assert (np.abs(near) < 0.1).all()
    assert values("long_accuracy").min() > values("wide_accuracy").max()
    assert values("long_accuracy").min() > 0.6
    assert values("long_accuracy").max() < 0.9


@pytest.mark.claim("obs-routing-keys")
def test_over_the_seeds_keys_from_the_row_before_are_enough():
    assert values("shifted_accuracy").min() > 0.98
    assert values("shifted_induction").min() > 0.7


@pytest.mark.claim("obs-routing-composition")
def test_over_the_seeds_only_the_keys_need_layer_one():
    assert values("cut_keys").max() < 0.2
    assert values("cut_queries").min() > 0.98
    assert values("cut_values").min() > 0.98
