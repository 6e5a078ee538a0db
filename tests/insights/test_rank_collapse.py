"""Residuals, layers in part, and attention in two parts: each against its formula, and its refusals."""

import math

import numpy as np
import pytest
import torch

from attention_in_detail import (
    EncoderLayerParameters,
    MultiHeadParameters,
    causal_mask,
    encoder_layer,
    feed_forward,
    layer_norm,
    self_attention,
)
from attention_in_detail.insights import rank_collapse as rc
from tests.support import assert_close, each_library, normal

T, D, HEADS = 6, 8, 2
X = normal(T, D, seed=1)
LAYER = rc.draw_layer(D, HEADS, seed=3)
P = LAYER.attention


def pure(make=np.asarray):
    return MultiHeadParameters(
        *(make(w) for w in (P.W_Q, P.W_K, P.W_V, P.W_O)), heads=HEADS
    )


# ---- how different the rows are ----


@pytest.mark.claim("def-collapse-residual")
@each_library
def test_the_two_parts_of_a_sequence(make):
    mean, residual = rc.split_rows(make(X))
    assert_close(mean, X.mean(0), 1e-15)
    assert_close(residual, X - X.mean(0), 1e-15)


@pytest.mark.claim("def-collapse-residual")
@each_library
def test_the_relative_residual(make):
    wanted = np.linalg.norm(X - X.mean(0)) / np.linalg.norm(X)
    assert rc.relative_residual(make(X)) == pytest.approx(wanted, rel=1e-14)
    assert rc.relative_residual(make(1e-200 * X)) == pytest.approx(wanted)
    assert rc.relative_residual(make(np.ones((3, 2)))) == 0
    assert rc.relative_residual(make(np.zeros((3, 2)))) == 0
    assert rc.relative_residual(make(np.array([[1.0], [-1]]))) == 1


def test_nan_shows():
    assert math.isnan(rc.relative_residual(np.full((2, 2), np.nan)))


@pytest.mark.claim("def-collapse-residual")
@each_library
def test_the_logarithm_of_it_reaches_below_the_precision(make):
    mean, residual = rc.split_rows(X)
    found = rc.log_relative_residual(make(mean), make(residual))
    assert found == pytest.approx(math.log10(rc.relative_residual(X)))
    tiny = rc.log_relative_residual(make(mean), make(1e-250 * residual))
    size = np.linalg.norm(residual) / np.linalg.norm(mean) / math.sqrt(T)
    assert tiny == pytest.approx(-250 + math.log10(size))
    none = rc.log_relative_residual(make(mean), make(0 * residual))
    assert none == -math.inf


@pytest.mark.claim("def-collapse-residual")
@each_library
@pytest.mark.parametrize("size", [1.0, 1e-200])
def test_the_spread_is_the_largest_distance(size, make):
    wanted = max(np.linalg.norm(a - b) for a in X for b in X)
    assert rc.row_spread(make(size * X)) == pytest.approx(size * wanted)
    assert rc.row_spread(make(np.ones((3, 2)))) == 0


# ---- layers ----


def test_a_layer_is_drawn_at_its_scale():
    layer = rc.draw_layer(256, 4, seed=1)
    a, f = layer.attention, layer.feed_forward
    for W, variance in [
        (a.W_Q, 1 / 256),
        (a.W_K, 1 / 256),
        (a.W_V, 1 / 256),
        (a.W_O, 1 / 256),
        (f.W_1, 2 / 256),
        (f.W_2, 1 / 1024),
    ]:
        assert W.var() == pytest.approx(variance, rel=0.02)
    assert f.W_1.shape == (256, 1024)
    assert layer.norm_first
    assert set(a.arrays()) == {"W_Q", "W_K", "W_V", "W_O"}


def test_each_gain_multiplies_what_it_says():
    gained = rc.draw_layer(
        D, HEADS, seed=3, score_gain=2, feed_gain=3.0, branch_gain=5
    )
    for part, gains in (
        ("attention", {"W_Q": 2, "W_K": 1, "W_V": 1, "W_O": 5}),
        ("feed_forward", {"W_1": 3, "W_2": 5}),
    ):
        for name, gain in gains.items():
            before = getattr(getattr(LAYER, part), name)
            after = getattr(getattr(gained, part), name)
            assert np.array_equal(after, gain * before)


@pytest.mark.parametrize("masked", [False, True])
def test_a_layer_with_and_without_its_parts(masked):
    mask = causal_mask(T) if masked else None
    n1, n2 = LAYER.attention_norm, LAYER.feed_forward_norm

    def attend(x):
        return self_attention(P, x, mask=mask)

    def feed(x):
        return feed_forward(LAYER.feed_forward, x)

    for skip in (False, True):
        for norm in (False, True):
            for fed in (False, True):
                y = attend(layer_norm(n1, X) if norm else X) + skip * X
                if fed:
                    z = feed(layer_norm(n2, y) if norm else y)
                    y = z + skip * y
                found = rc.layer_with(
                    LAYER, X, skip=skip, norm=norm, feed=fed, mask=mask
                )
                assert_close(found, y, 1e-13)
    assert_close(
        rc.layer_with(LAYER, X, mask=mask),
        encoder_layer(LAYER, X, mask=mask),
        0,
    )


def test_norm_first_is_meant_even_of_a_post_norm_layer():
    post = EncoderLayerParameters(
        LAYER.attention,
        LAYER.attention_norm,
        LAYER.feed_forward,
        LAYER.feed_forward_norm,
    )
    assert not post.norm_first
    assert_close(rc.layer_with(post, X), rc.layer_with(LAYER, X), 1e-13)


def test_residuals_follow_the_layers():
    layers = [rc.draw_layer(D, HEADS, seed=n) for n in range(3)]
    found = rc.residuals(layers, X, skip=False, mask=causal_mask(T))
    x, wanted = X, [rc.relative_residual(X)]
    for layer in layers:
        x = rc.layer_with(layer, x, skip=False, mask=causal_mask(T))
        wanted.append(rc.relative_residual(x))
    assert found == wanted


# ---- attention in two parts ----


@pytest.mark.claim("def-collapse-pure")
@each_library
@pytest.mark.parametrize("size", [1.0, 0.1, 1e-4])
def test_in_two_parts_it_is_the_same_attention(size, make):
    mean, residual = rc.split_rows(X)
    x = mean + size * residual
    common, apart = rc.split_attention(
        pure(make), make(mean), make(size * residual)
    )
    whole = self_attention(P, x)
    assert_close(common[None, :] + apart, whole, 1e-13)
    # the cube of 1e-4 is still above what the difference can see
    wanted = whole - whole.mean(0)
    assert_close(apart, wanted, 1e-13)
    assert np.abs(np.asarray(apart).sum(0)).max() < 1e-13


def test_a_small_residual_is_cubed():
    mean, residual = rc.split_rows(X)
    sizes = [
        rc.row_spread(rc.split_attention(P, mean, t * residual)[1])
        for t in (1e-10, 1e-11)
    ]
    assert sizes[0] / sizes[1] == pytest.approx(1e3, rel=1e-6)


def test_it_has_a_gradient():
    mean, residual = (
        torch.tensor(x, requires_grad=True) for x in rc.split_rows(X)
    )
    _, apart = rc.split_attention(pure(torch.asarray), mean, residual)
    apart.square().sum().backward()
    assert residual.grad.isfinite().all()


@pytest.mark.claim("prop-collapse-cubic")
@each_library
def test_the_bound_is_its_formula(make):
    wanted = 0
    for i in range(HEADS):
        own = P.head(i)
        M = own.W_Q @ own.W_K.T / math.sqrt(D // HEADS)
        W = own.W_V @ own.W_O
        wanted += np.linalg.norm(W, 2) * np.expm1(
            2 * np.linalg.norm(M, 2) * 0.3**2
        )
    found = rc.spread_bound(pure(make), 0.3)
    assert found == pytest.approx(0.3 * wanted)
    assert rc.spread_bound(P, 0) == 0
    assert rc.spread_bound(P, 1e3) == math.inf


@pytest.mark.claim("prop-collapse-cubic")
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("size", [1e-3, 0.03, 0.3, 1.0])
def test_no_layer_exceeds_its_bound(seed, size):
    p = rc.draw_layer(D, HEADS, seed=seed, score_gain=3.0).attention
    x = normal(T, D, seed=seed)
    mean, residual = rc.split_rows(x)
    residual = size * residual
    bound = rc.spread_bound(p, rc.row_spread(residual))
    _, apart = rc.split_attention(p, mean, residual)
    assert rc.row_spread(apart) <= bound


# ---- refusals ----

MEAN, RESIDUAL = rc.split_rows(X)
BIASED = MultiHeadParameters.init(D, HEADS, seed=0)
REFUSED = [
    (
        lambda: rc.relative_residual([1.0]),
        TypeError,
        "x must be an array of NumPy, PyTorch or another array library, not list",
    ),
    (
        lambda: rc.split_rows(X[None]),
        ValueError,
        "x needs the axes (T, D), but has the shape (1, 6, 8)",
    ),
    (
        lambda: rc.row_spread(X[:0]),
        ValueError,
        "x has no T: there is no mean of nothing",
    ),
    (
        lambda: rc.draw_layer(8, 3, seed=0),
        ValueError,
        "heads is 3, but must divide D = 8 into heads of one width",
    ),
    (
        lambda: rc.draw_layer(8.0, 2, seed=0),
        TypeError,
        "D must be an integer, not float",
    ),
    (
        lambda: rc.draw_layer(8, 2, seed=-1),
        ValueError,
        "seed is -1, but must be at least 0",
    ),
    (
        lambda: rc.draw_layer(8, 2, seed=0, feed_gain="2"),
        TypeError,
        "feed_gain must be a number, not str",
    ),
    (
        lambda: rc.draw_layer(8, 2, seed=0, score_gain=0.0),
        ValueError,
        "score_gain is 0.0, but must be above 0 and finite",
    ),
    (
        lambda: rc.layer_with(P, X),
        TypeError,
        "parameters must be an EncoderLayerParameters, not MultiHeadParameters",
    ),
    (
        lambda: rc.layer_with(LAYER, X[:, :4]),
        ValueError,
        "x has D = 4, but parameters has D = 8; one width runs through the layer",
    ),
    (
        lambda: rc.layer_with(LAYER, X, skip=1),
        TypeError,
        "skip must be True or False, not int",
    ),
    (
        lambda: rc.layer_with(LAYER, X, mask=np.ones((T, T))),
        TypeError,
        "mask must be boolean (true = may attend), not float64; for additive scores use bias=",
    ),
    (
        lambda: rc.layer_with(LAYER, X, mask=np.ones((2, T), dtype=bool)),
        ValueError,
        "mask has the shape (2, 6), but x needs (6, 6)",
    ),
    (
        lambda: rc.layer_with(LAYER, X.astype(np.float32)),
        TypeError,
        "parameters has dtype float64, but x has float32; convert one of them",
    ),
    (
        lambda: rc.residuals([], X),
        ValueError,
        "layers is empty, but must hold at least one layer",
    ),
    (
        lambda: rc.residuals([LAYER, P], X),
        TypeError,
        "parameters must be an EncoderLayerParameters, not MultiHeadParameters",
    ),
    (
        lambda: rc.split_attention(BIASED, MEAN, RESIDUAL),
        ValueError,
        "parameters has W_K, W_O, W_Q, W_V, b_K, b_O, b_Q, b_V, but must have W_Q, W_K, W_V and W_O, and no bias",
    ),
    (
        lambda: rc.split_attention(P, MEAN[:4], RESIDUAL),
        ValueError,
        "mean has the shape (4,), but residual needs (8,)",
    ),
    (
        lambda: rc.split_attention(P, MEAN[:4], RESIDUAL[:, :4]),
        ValueError,
        "residual has D = 4, but parameters has D = 8; one width runs through the layer",
    ),
    (
        lambda: rc.log_relative_residual(MEAN[0], RESIDUAL),
        ValueError,
        "mean has the shape (), but residual needs (8,)",
    ),
    (
        lambda: rc.spread_bound(LAYER, 1.0),
        TypeError,
        "parameters must be a MultiHeadParameters, not EncoderLayerParameters",
    ),
    (
        lambda: rc.spread_bound(P, True),
        TypeError,
        "spread must be a number, not bool",
    ),
    (
        lambda: rc.spread_bound(P, -1.0),
        ValueError,
        "spread is -1.0, but must be finite and not below 0",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED)
def test_a_wrong_call_is_refused_in_one_line(call, kind, message):
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == message
