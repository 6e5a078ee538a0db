import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from attention_in_detail import (
    FeedForwardParameters,
    LayerNormParameters,
    feed_forward,
    gelu,
    layer_norm,
    relu,
)
from tests.layer_support import (
    D_ff,
    feed_forward_parameters,
    layer_norm_parameters,
)
from tests.support import (
    MAKERS,
    B,
    D,
    T,
    assert_close,
    each_library,
    leaves,
    normal,
    numpy_of,
)

X = 3 * normal(B, T, D)
PEERS = {"relu": (relu, F.relu), "gelu": (gelu, F.gelu)}
each_bend = pytest.mark.parametrize(
    ("ours", "theirs"), PEERS.values(), ids=PEERS
)


# ---- relu and gelu ----


@each_bend
@each_library
def test_the_function_equals_that_of_torch(make, ours, theirs):
    assert_close(ours(make(X)), theirs(torch.tensor(X)), 1e-15)
    assert type(ours(make(X))) is type(make(X))


def test_gelu_is_x_times_the_normal_distribution():
    for x in (-3.0, -0.5, 0.0, 1.0, 4.0):
        share = 0.5 * math.erfc(-x / math.sqrt(2))
        assert_close(gelu(np.asarray(x)), np.asarray(x * share), 1e-15)


@each_bend
@each_library
def test_no_axes_empty_axes_and_dtypes_are_kept(make, ours, theirs):
    assert tuple(ours(make(np.float64(2.0))).shape) == ()
    assert tuple(ours(make(np.zeros((2, 0, 3)))).shape) == (2, 0, 3)
    x = make(X.astype("float32"))
    assert ours(x).dtype == x.dtype
    assert_close(ours(x), theirs(torch.tensor(X)), 1e-6)


@each_bend
def test_gradients_equal_those_of_torch_at_zero_too(ours, theirs):
    x, y = leaves(np.append(X.ravel(), 0.0), np.append(X.ravel(), 0.0))
    ours(x).sin().sum().backward()
    theirs(y).sin().sum().backward()
    assert_close(x.grad, y.grad, 1e-13)


@each_bend
@each_library
def test_nan_stays_nan_and_infinity_is_met(make, ours, theirs):
    y = numpy_of(ours(make(np.array([np.nan, np.inf, 1.0]))))
    assert np.isnan(y[0])
    assert y[1] == np.inf
    assert np.isfinite(y[2])


def test_gelu_of_half_precision_is_computed_in_float32():
    x = torch.tensor(X, dtype=torch.bfloat16)
    assert torch.equal(gelu(x), gelu(x.float()).bfloat16())
    assert_close(gelu(x), F.gelu(x.float()), 1e-2)
    y = X.astype("float16")
    assert np.array_equal(gelu(y), gelu(y.astype("f4")).astype("f2"))


# ---- the norm ----


@pytest.mark.claim("def-norm-feed-forward")
@pytest.mark.parametrize("shift", [True, False])
@pytest.mark.parametrize("eps", [1e-5, 0.3])
@each_library
def test_the_norm_equals_that_of_torch(make, shift, eps):
    p = layer_norm_parameters(make, shift=shift)
    ours = layer_norm(LayerNormParameters(p.gain, p.shift, eps), make(X))
    gain = torch.tensor(numpy_of(p.gain))
    given = torch.tensor(numpy_of(p.shift)) if shift else None
    assert_close(
        ours, F.layer_norm(torch.tensor(X), (D,), gain, given, eps)
    )


@pytest.mark.claim("def-norm-feed-forward")
@each_library
def test_a_normed_row_has_mean_0_and_variance_1(make):
    p = LayerNormParameters(make(np.ones(D)), make(np.zeros(D)), 1e-12)
    y = numpy_of(layer_norm(p, make(50 * X + 7)))
    assert_close(y.mean(-1), np.zeros((B, T)))
    assert_close(y.std(-1), np.ones((B, T)), 1e-9)


def test_a_row_of_equal_entries_gives_the_shift():
    p = layer_norm_parameters()
    assert_close(layer_norm(p, np.full((2, D), 5.0))[1], p.shift, 0)


@pytest.mark.claim("def-norm-feed-forward")
def test_each_row_has_its_own_norm():
    p, x = layer_norm_parameters(), X.copy()
    x[1, 2] = np.nan
    y = layer_norm(p, x)
    assert np.isnan(y[1, 2]).all()
    assert np.isnan(y).sum() == D
    assert_close(layer_norm(p, X[0, 0]), y[0, 0], 0)


def test_gradients_of_the_norm_equal_those_of_torch():
    x, gain, shift = leaves(X, normal(D, seed=1), normal(D, seed=2))
    layer_norm(LayerNormParameters(gain, shift), x).pow(3).sum().backward()
    ours = [v.grad for v in (x, gain, shift)]
    theirs = leaves(X, normal(D, seed=1), normal(D, seed=2))
    F.layer_norm(theirs[0], (D,), *theirs[1:]).pow(3).sum().backward()
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other.grad, 1e-11)


def test_the_norm_of_half_precision_is_computed_in_float32():
    x = torch.tensor(100 * X, dtype=torch.float16)
    p = layer_norm_parameters(
        lambda a: torch.tensor(a, dtype=torch.float16)
    )
    theirs = F.layer_norm(x.float(), (D,), p.gain.float(), p.shift.float())
    assert torch.equal(layer_norm(p, x), theirs.half())
    assert layer_norm(p, 50 * x).isfinite().all()


def test_the_norm_of_torch_is_read_and_keeps_its_gradients():
    theirs = torch.nn.LayerNorm(D, eps=1e-3, dtype=torch.float64)
    p = LayerNormParameters.from_torch(theirs)
    x = torch.tensor(X)
    assert_close(layer_norm(p, x), theirs(x))
    layer_norm(p, x).sum().backward()
    assert theirs.bias.grad is not None
    without = torch.nn.LayerNorm(D, bias=False, dtype=torch.float64)
    read = LayerNormParameters.from_torch(without)
    assert read.shift is None
    assert_close(layer_norm(read, x), without(x))


# ---- the feed-forward network ----


@pytest.mark.claim("def-norm-feed-forward")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@each_library
def test_feed_forward_equals_its_formula(make, activation, bias):
    p = feed_forward_parameters(bias=bias, activation=activation)
    inner = X @ p.W_1 + (p.b_1 if bias else 0)
    assert inner.shape[-1] == D_ff
    bent = numpy_of(PEERS[activation][1](torch.tensor(inner)))
    expected = bent @ p.W_2 + (p.b_2 if bias else 0)
    ours = feed_forward_parameters(make, bias=bias, activation=activation)
    assert_close(feed_forward(ours, make(X)), expected)


@each_library
def test_each_position_is_changed_by_itself(make):
    p, x = feed_forward_parameters(make), X.copy()
    x[:, 1] = np.nan
    y = numpy_of(feed_forward(p, make(x)))
    assert np.isnan(y[:, 1]).all()
    assert_close(y[:, [0, 2]], feed_forward(p, make(X[:, [0, 2]])), 1e-14)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_no_rows_give_no_rows(make):
    p = feed_forward_parameters(make)
    assert tuple(feed_forward(p, make(X[:, :0])).shape) == (B, 0, D)
    n = layer_norm_parameters(make)
    assert tuple(layer_norm(n, make(X[:, :0])).shape) == (B, 0, D)


def test_parameters_are_themselves_alone_and_cannot_be_changed():
    p = feed_forward_parameters()
    assert p != FeedForwardParameters(p.W_1, p.W_2, p.b_1, p.b_2)
    with pytest.raises(AttributeError):
        p.W_1 = p.W_1
    with pytest.raises(AttributeError):
        layer_norm_parameters().eps = 1.0
