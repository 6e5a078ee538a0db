"""Circuits, gauges, sequences and networks of attention alone, against loops; what the functions refuse."""

from dataclasses import replace

import array_api_strict as strict
import numpy as np
import pytest
import torch

from attention_in_detail import (
    MultiHeadParameters,
    causal_mask,
    self_attention,
)
from attention_in_detail.insights.routing import (
    NETWORKS,
    READERS,
    SWAPPED,
    change_gauge,
    circuits,
    drawn_sequences,
    fit_swapped,
    head_writes,
    measure_network,
    train_network,
    without_composition,
    writes_by_circuits,
)
from tests.support import numpy_of, parameters

RNG = np.random.default_rng(22)
SAME = {"D_q": 6, "D_k": 6, "D_v": 6, "D": 8, "D_out": 5}
PLAIN = parameters(bias=False, **SAME)
X = RNG.standard_normal((3, 7, 6))
G, F = RNG.standard_normal((2, 2, 4, 4)) + 3 * np.eye(4)
MASK = causal_mask(7)


def assert_near(x, y, tolerance=1e-12):
    np.testing.assert_allclose(
        numpy_of(x), numpy_of(y), rtol=0, atol=tolerance
    )


@pytest.mark.claim("def-circuits")
def test_circuits_of_each_head():
    QK, OV = circuits(PLAIN)
    assert QK.shape == (2, 6, 6)
    assert OV.shape == (2, 6, 5)
    for i in range(2):
        own = slice(4 * i, 4 * i + 4)
        assert_near(QK[i], PLAIN.W_Q[:, own] @ PLAIN.W_K[:, own].T)
        assert_near(OV[i], PLAIN.W_V[:, own] @ PLAIN.W_O[own])
        assert np.linalg.matrix_rank(OV[i]) == 4


@pytest.mark.claim("prop-circuits")
@pytest.mark.parametrize("mask", [None, MASK])
def test_what_heads_write_adds_up_to_the_output(mask):
    for p in (PLAIN, parameters(**SAME)):
        writes = head_writes(p, X, mask=mask)
        assert writes.shape == (2, 3, 7, 5)
        bias = 0 if p.b_O is None else p.b_O
        assert_near(writes.sum(0) + bias, self_attention(p, X, mask=mask))
    assert_near(
        writes_by_circuits(PLAIN, X, mask=mask),
        head_writes(PLAIN, X, mask=mask),
    )


@pytest.mark.claim("prop-gauge")
def test_a_gauge_changes_numbers_and_nothing_else():
    turned = change_gauge(PLAIN, G, F)
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        assert not np.allclose(getattr(turned, name), getattr(PLAIN, name))
    for ours, theirs in zip(circuits(turned), circuits(PLAIN), strict=True):
        assert_near(ours, theirs)
    assert_near(self_attention(turned, X), self_attention(PLAIN, X))
    assert turned.heads == 2


@pytest.mark.parametrize("make", [torch.asarray, strict.asarray])
def test_other_libraries(make):
    p = parameters(make, bias=False, **SAME)
    for ours, theirs in zip(circuits(p), circuits(PLAIN), strict=True):
        assert_near(ours, theirs)
    assert_near(writes_by_circuits(p, make(X)), head_writes(PLAIN, X))
    turned = change_gauge(p, make(G), make(F))
    assert_near(turned.W_K, change_gauge(PLAIN, G, F).W_K)


def test_sequences_repeat_a_block_of_different_tokens():
    tokens, period = drawn_sequences(200, torch.Generator().manual_seed(1))
    assert tokens.shape == (200, 24)
    assert set(period.tolist()) == set(range(6, 13))
    for row, n in zip(tokens.tolist(), period.tolist(), strict=True):
        assert len(set(row[:n])) == n
        assert all(row[t] == row[t - n] for t in range(n, 24))


def test_a_network_is_what_its_name_says():
    for name, (shapes, from_before) in NETWORKS.items():
        network = train_network(name, seed=0, steps=1)
        assert network.keys_from_before == from_before
        found = [(layer.D, layer.heads) for layer in network.layers]
        assert found == list(shapes)
        assert len(network.trained()) == 3 + 4 * len(shapes)
        assert {x.dtype for x in network.trained()} == {torch.float64}
    count = {
        name: sum(
            layer.count
            for layer in train_network(name, seed=0, steps=1).layers
        )
        for name in ("two layers", "one layer, twice as wide")
    }
    assert len(set(count.values())) == 1


def test_answers_by_the_functions_of_the_book():
    network = train_network("two layers", seed=0, steps=2)
    tokens, _ = drawn_sequences(3, torch.Generator().manual_seed(2))
    stream = network.words[tokens] + network.places
    start, mask = stream, causal_mask(24, like=stream)
    for layer in network.layers:
        stream = stream + self_attention(layer, stream, mask=mask)
    logits, kept = network.answer(tokens)
    assert_near(logits, stream @ network.out)
    assert [w.shape for w in kept] == [(3, 2, 24, 24)] * 2
    # What an earlier layer wrote is not read by what reads from the start.
    silent = replace(
        network,
        layers=(
            replace(network.layers[0], W_O=0 * network.layers[0].W_O),
            network.layers[1],
        ),
    )
    for reader in READERS:
        other = network.answer(tokens, from_start=reader)[0]
        assert not torch.allclose(other, logits)
        assert_near(
            silent.answer(tokens, from_start=reader)[0],
            silent.answer(tokens)[0],
        )
    assert_near(start, network.words[tokens] + network.places)


def test_keys_from_the_row_before():
    network = train_network(
        "one layer, keys from the row before", seed=0, steps=1
    )
    tokens, _ = drawn_sequences(2, torch.Generator().manual_seed(2))
    x = network.words[tokens] + network.places
    [layer], [weights] = network.layers, network.answer(tokens)[1]
    i, j = 20, 9  # query and key, the key made from row 8
    q, k = x[1, i] @ layer.W_Q, x[1, j - 1] @ layer.W_K
    own = q[:32] @ k[:32]
    first = q[:32] @ (x[1, 0] @ layer.W_K)[:32]
    ratio = torch.exp((own - first) / 32**0.5)
    assert_near(weights[1, 0, i, j] / weights[1, 0, i, 0], ratio, 1e-9)
    assert_near(weights[1, 0, i, 1], weights[1, 0, i, 0])  # both row 0


def test_what_is_measured():
    network = train_network("two layers", seed=1, steps=2)
    accuracy, previous, induction = measure_network(network, seed=3)
    tokens, period = drawn_sequences(500, torch.Generator().manual_seed(3))
    with torch.no_grad():
        logits, kept = network.answer(tokens)
    right = total = 0
    after = np.zeros((2, 2))
    best = logits.argmax(-1).tolist()
    rows = [weights.numpy() for weights in kept]
    for b, n in enumerate(period.tolist()):
        for t in range(n, 23):
            right += best[b][t] == int(tokens[b, t + 1])
            earlier = max(
                s for s in range(t) if tokens[b, s] == tokens[b, t]
            )
            total += 1
            for layer in range(2):
                after[layer] += rows[layer][b, :, t, earlier + 1]
    assert accuracy == pytest.approx(right / total)
    assert_near(np.array(induction), after / total)
    before = [w.diagonal(-1, 2, 3).mean((0, 2)).tolist() for w in kept]
    assert_near(np.array(previous), np.array(before))
    cut = without_composition(network, seed=3)
    assert set(cut) == set(READERS)
    # Of one layer nothing can be cut off.
    one = train_network("one layer", seed=1, steps=2)
    share = measure_network(one, seed=3)[0]
    assert set(without_composition(one, seed=3).values()) == {share}


@pytest.mark.claim("prop-one-head")
def test_swapped_sequences_hold_the_same_pairs():
    pairs = [set(enumerate(sequence)) for sequence in SWAPPED]
    ours = sorted([*pairs[0], *pairs[3]])
    assert ours == sorted([*pairs[1], *pairs[2]])
    for sequence, answer in zip(SWAPPED, (1, 3, 3, 1), strict=True):
        assert sequence[-1] == 0
        assert sequence[sequence.index(0) + 1] == answer
    assert fit_swapped(2, seed=0, steps=3) == fit_swapped(
        2, seed=0, steps=3
    )


BIASED = parameters(**SAME)
NO_OUT = parameters(output=False, **SAME)


@pytest.mark.parametrize(
    ("error", "line", "call"),
    [
        (
            TypeError,
            "parameters must be MultiHeadParameters, not dict",
            lambda: circuits({}),
        ),
        (
            ValueError,
            "parameters have no W_O: without it a head writes to its own columns alone",
            lambda: head_writes(NO_OUT, X),
        ),
        (
            ValueError,
            "parameters have b_Q, but the circuits hold no bias; make them with bias=False",
            lambda: writes_by_circuits(BIASED, X),
        ),
        (
            ValueError,
            "x has width 5, but parameters have D_q = 6",
            lambda: head_writes(PLAIN, X[..., :5]),
        ),
        (
            TypeError,
            "x has dtype float32, but parameters has float64; convert one of them",
            lambda: writes_by_circuits(PLAIN, X.astype("float32")),
        ),
        (
            ValueError,
            "mask has the shape (6, 6), but x has T = 7; one mask (T, T) holds for all heads",
            lambda: head_writes(PLAIN, X, mask=MASK[:6, :6]),
        ),
        (
            TypeError,
            "mask must be boolean (true = may attend), not float64; for additive scores use bias=",
            lambda: head_writes(PLAIN, X, mask=1.0 * MASK),
        ),
        (
            ValueError,
            "F has the shape (2, 3, 4), but must have (h, D_h, D_h) = (2, 4, 4)",
            lambda: change_gauge(PLAIN, G, F[:, :3]),
        ),
        (
            TypeError,
            "size must be an integer, not float",
            lambda: drawn_sequences(2.0, torch.Generator()),
        ),
        (
            TypeError,
            "generator must be a torch.Generator, not int",
            lambda: drawn_sequences(2, 7),
        ),
        (
            TypeError,
            "name must be a text, not int",
            lambda: train_network(2, seed=0),
        ),
        (
            ValueError,
            "name is 'three layers', but can be: two layers; one layer; one layer, twice as wide; "
            "one layer, keys from the row before",
            lambda: train_network("three layers", seed=0),
        ),
        (
            ValueError,
            "steps is 0, but must be at least 1",
            lambda: train_network("one layer", seed=0, steps=0),
        ),
        (
            TypeError,
            "report must be an integer, not str",
            lambda: train_network("one layer", seed=0, report="10"),
        ),
        (
            TypeError,
            "network must be an AttentionOnly, not str",
            lambda: measure_network("two layers", seed=0),
        ),
        (
            ValueError,
            "seed is -1, but must be at least 0",
            lambda: without_composition(
                train_network("one layer", seed=0, steps=1), seed=-1
            ),
        ),
        (
            ValueError,
            "heads is 3, but must divide the width 16",
            lambda: fit_swapped(3, seed=0),
        ),
        (
            TypeError,
            "heads must be an integer, not float",
            lambda: fit_swapped(1.0, seed=0),
        ),
    ],
)
def test_refusals(error, line, call):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == line


def test_parameters_of_another_library_are_refused_with_the_input():
    p = MultiHeadParameters.init(6, 2, bias=False, seed=0)
    with pytest.raises(TypeError, match="is an array of"):
        head_writes(p, torch.ones((2, 6)))
