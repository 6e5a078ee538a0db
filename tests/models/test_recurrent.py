"""The recurrent unit by its definition, a row and a coordinate at a time."""

import copy
import math

import array_api_strict
import numpy as np
import pytest
import torch

from attention_in_detail.models import SSRUParameters, ssru

D, T = 3, 5
RNG = np.random.default_rng(8)
W, W_F, B_F = (RNG.normal(size=shape) for shape in ((D, D), (D, D), D))
X, STATE = RNG.normal(size=(T, D)), RNG.normal(size=D)


def parameters(make=np.asarray):
    return SSRUParameters(make(W), make(W_F), make(B_F))


def by_hand(x, state):
    rows = []
    for row in x:
        new = []
        for d in range(D):
            gate = sum(row[e] * W_F[e, d] for e in range(D)) + B_F[d]
            f = 1 / (1 + math.exp(-gate))
            enters = sum(row[e] * W[e, d] for e in range(D))
            new.append(f * state[d] + (1 - f) * enters)
        state = new
        rows.append([max(0, c) for c in state])
    return rows, state


@pytest.mark.claim("def-ssru")
@pytest.mark.parametrize(
    "make",
    [np.asarray, torch.asarray, array_api_strict.asarray],
    ids=["numpy", "torch", "strict"],
)
def test_the_unit_equals_its_definition_in_every_library(make):
    for state in (None, STATE):
        y, c = ssru(
            parameters(make),
            make(X),
            None if state is None else make(state),
        )
        rows, last = by_hand(X, np.zeros(D) if state is None else state)
        assert type(y) is type(make(X))
        for ours, theirs in ((y, rows), (c, last)):
            ours = np.from_dlpack(ours)
            assert np.allclose(ours, theirs, rtol=0, atol=1e-12)


def test_goes_on_where_it_ended():
    whole, end = ssru(parameters(), X)
    _, state = ssru(parameters(), X[:2])
    rest, last = ssru(parameters(), X[2:], state)
    assert np.array_equal(whole[2:], rest)
    assert np.array_equal(end, last)


def test_no_row_sees_a_later_one():
    changed = X.copy()
    changed[3:] = 100.0
    before, after = (ssru(parameters(), x)[0] for x in (X, changed))
    assert np.array_equal(before[:3], after[:3])
    assert abs(before[3:] - after[3:]).max() > 0.1


def test_a_gate_far_from_zero_overflows_nowhere():
    x = np.full((2, D), 1e4, np.float32)
    narrow = [x.astype(np.float32) for x in (W, W_F, B_F)]
    y, c = ssru(SSRUParameters(*narrow), x)
    assert y.dtype == c.dtype == np.float32
    assert np.isfinite(y).all()


def test_parameters_can_be_copied():
    same = copy.deepcopy(parameters())
    assert np.array_equal(same.W_f, W_F)
