import math

import numpy as np
import pytest
import torch

from attention_in_detail import (
    attention,
    capped_attention,
    scores,
    softcap,
    softcap_derivative,
)
from tests.support import (
    B,
    S,
    T,
    assert_close,
    coin,
    each_library,
    leaves,
    normal,
)

Q, K, V = normal(B, T, 4), normal(B, S, 4, seed=1), normal(B, S, 6, seed=2)


@pytest.mark.claim("def-today-cap", "prop-today-cap")
@each_library
def test_the_cap_is_its_formula(make):
    z = normal(4, 5) * 40
    assert_close(
        softcap(make(z), 30),
        np.array([[30 * math.tanh(x / 30) for x in row] for row in z]),
    )
    assert_close(
        softcap_derivative(make(z), 30),
        np.array([[1 / math.cosh(x / 30) ** 2 for x in row] for row in z]),
        1e-14,
    )


@pytest.mark.claim("prop-today-cap")
def test_the_derivative_is_that_of_the_cap():
    (z,) = leaves(np.linspace(-120, 120, 41))
    softcap(z, 50.0).sum().backward()
    assert_close(z.grad, softcap_derivative(z.detach(), 50.0))
    step, x = 1e-5, np.linspace(-3, 3, 13)
    slope = (softcap(x + step, 2) - softcap(x - step, 2)) / (2 * step)
    assert_close(slope, softcap_derivative(x, 2), 1e-9)


@pytest.mark.claim("prop-today-cap")
def test_scores_stay_in_bounds_in_order_and_as_they_are_near_zero():
    z = np.linspace(-200, 200, 101)
    capped = softcap(z, 50)
    assert (np.abs(capped) <= 50).all()
    assert (np.diff(capped) > 0).all()
    assert abs(softcap(np.array(0.5), 50) - 0.5) < 0.5**3 / (3 * 50**2)
    assert softcap(np.array(np.inf), 50) == 50
    slopes = softcap_derivative(np.array([0.0, 50, 250]), 50)
    assert slopes[0] == 1
    assert abs(slopes[1] - 1 / math.cosh(1) ** 2) < 1e-15
    assert 0 < slopes[2] < 2e-4


def test_far_out_the_derivative_keeps_its_digits():
    """1 − t² written as (1 − t)(1 + t): where t rounds to 1, nothing is left either way."""
    for x in (3.0, 8.0, 15.0):
        exact = 1 / math.cosh(x) ** 2
        assert abs(softcap_derivative(np.array(x), 1) - exact) < 1e-15


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    z = torch.tensor(normal(50) * 40).to(dtype)
    for f in (softcap, softcap_derivative):
        assert f(z, 20).dtype == dtype
        assert torch.equal(f(z, 20), f(z.float(), 20).to(dtype))


# ---- attention with it ----


def reference(q, k, v, cap, mask, bias, scale):
    """The cap by way of the definition: scores that are given as a bias, and a scale of 0."""
    z = softcap(scores(q, k, scale=scale), cap)
    return attention(
        q, k, v, mask=mask, bias=z + bias, scale=0.0, return_weights=True
    )


@pytest.mark.claim("def-today-cap")
@pytest.mark.parametrize("scale", [None, 3.0])
@each_library
def test_capped_attention_is_attention_with_capped_scores(make, scale):
    mask = make(coin(B, T, S, seed=4, p=0.5))
    bias = make(np.where(coin(T, S, p=0.8), normal(T, S), -np.inf))
    q, k, v = make(Q), make(K), make(V)
    ours = capped_attention(
        q,
        k,
        v,
        cap=1.5,
        mask=mask,
        bias=bias,
        scale=scale,
        return_weights=True,
    )
    expected = reference(q, k, v, 1.5, mask, bias, scale)
    for one, other in zip(ours, expected, strict=True):
        assert_close(one, other)
    assert_close(
        capped_attention(
            q, k, v, cap=1.5, mask=mask, bias=bias, scale=scale
        ),
        ours[0],
        0,
    )


def test_a_cap_far_away_caps_nothing_and_a_low_one_does():
    plain = attention(Q, K, V)
    assert_close(capped_attention(Q, K, V, cap=1e8), plain)
    low = capped_attention(Q, K, V, cap=1e-9)
    assert_close(
        low, np.broadcast_to(V.mean(-2, keepdims=True), low.shape), 1e-8
    )


def test_a_shut_pair_stays_shut():
    """A score of −inf that goes through the cap comes out as −cap: the mask has to come after."""
    mask = coin(B, T, S, seed=4, p=0.5)
    _, weights = capped_attention(
        Q, K, V, cap=2.0, mask=mask, return_weights=True
    )
    assert not weights[~mask].any()
    assert softcap(np.array(-np.inf), 2.0) == -2.0


def test_nan_in_the_padding_reaches_no_output_and_no_gradient():
    shut = np.arange(S) >= 4
    spoilt = [np.where(shut[:, None], np.nan, x) for x in (K, V)]
    mask = torch.tensor(~shut)
    results = []
    for k, v in ((K, V), spoilt):
        given = leaves(Q, k, v)
        output = capped_attention(*given, cap=2.0, mask=mask)
        output.square().sum().backward()
        results.append([output, *(x.grad for x in given)])
    for one, other in zip(*results, strict=True):
        assert not one.isnan().any()
        assert_close(one, other)


def test_nothing_open_gives_zero():
    output, weights = capped_attention(
        Q, K, V, cap=2.0, mask=np.array(False), return_weights=True
    )
    assert not output.any()
    assert not weights.any()


def test_weights_hold_for_each_batch_entry_of_the_values():
    output, weights = capped_attention(
        Q[0], K[0], V, cap=2.0, return_weights=True
    )
    assert output.shape == (B, T, 6)
    assert weights.shape == (B, T, S)


def test_half_precision_keeps_its_dtype():
    q, k, v = (torch.tensor(x).bfloat16() for x in (Q, K, V))
    output, weights = capped_attention(
        q, k, v, cap=2.0, return_weights=True
    )
    assert output.dtype == weights.dtype == torch.bfloat16
    exact = capped_attention(q.double(), k.double(), v.double(), cap=2.0)
    assert_close(output, exact, 0.02)
