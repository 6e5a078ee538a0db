"""Bugs that were shipped elsewhere, each planted, each of the right shape, each told from ours.

Where a bug has a place of its own in the package it is planted there, and the test says that the
result moves away from the formula. Otherwise a small wrong function is compared with ours.
"""

import numpy as np
import pytest
import torch

from attention_in_detail import (
    MultiHeadParameters,
    attention,
    attention_weights,
    causal_mask,
    multi_head,
    multi_head_attention,
    multi_head_attention_by_head,
    padding_mask,
    scaled_dot_product,
    scores,
    softmax,
)
from attention_in_detail.nn import MultiHeadAttention
from tests import reference
from tests.support import assert_close, leaves, normal, numpy_of

n = 4  # B = h = T = S = D_h: where everything is as long, every wrong axis has the right shape
X = normal(n, n, 16, seed=1)
P = MultiHeadParameters.init(16, n, seed=2)
Q, K, V = (normal(n, n, seed=s) for s in (3, 4, 5))
both_ways = pytest.mark.parametrize(
    "way", [multi_head_attention, multi_head_attention_by_head]
)


def assert_apart(wrong, right, by=0.05):
    """Same shape, other numbers."""
    wrong, right = numpy_of(wrong), numpy_of(right)
    assert wrong.shape == right.shape
    difference = np.abs(wrong - right)
    assert np.isnan(difference).any() or difference.max() > by


def right_multi_head(mask=None, scale=1.0):
    """The formula, each batch entry alone, for a mask (B, h, T, S)."""
    entries = [
        reference.multi_head(
            P, X[b], X[b], X[b], None if mask is None else mask[b]
        )[0]
        for b in range(n)
    ]
    return np.stack(entries) * scale


# ---- heads ----


def reshape_straight(x, heads):
    *batch, T, D = x.shape
    return x.reshape(*batch, heads, T, D // heads)


def merge_without_swap(x):
    *batch, heads, T, D_h = x.shape
    return x.reshape(*batch, T, heads * D_h)


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("split_heads", reshape_straight),
        ("merge_heads", merge_without_swap),
    ],
)
def test_heads_are_swapped_and_not_only_reshaped(monkeypatch, name, bug):
    """jsbaan/transformer-from-scratch, pull request 6: it still learned its toy task."""
    right = multi_head_attention(P, X, X, X)
    assert_close(right, right_multi_head())
    monkeypatch.setattr(getattr(multi_head, name), "unchecked", bug)
    assert_apart(multi_head_attention(P, X, X, X), right)


def test_both_swaps_forgotten_do_not_cancel(monkeypatch):
    right = multi_head_attention(P, X, X, X)
    monkeypatch.setattr(
        multi_head.split_heads, "unchecked", reshape_straight
    )
    monkeypatch.setattr(
        multi_head.merge_heads, "unchecked", merge_without_swap
    )
    assert_apart(multi_head_attention(P, X, X, X), right)


@both_ways
def test_heads_are_neighbouring_columns_and_not_every_hth(way):
    turned = P.W_Q.reshape(16, n, n).swapaxes(1, 2).reshape(16, 16)
    strided = MultiHeadParameters(turned, P.W_K, P.W_V, P.W_O, heads=n)
    assert_apart(way(strided, X, X, X), right_multi_head())
    assert_close(way(P, X, X, X), right_multi_head())


# ---- scale ----


@both_ways
@pytest.mark.parametrize(
    "wrong",
    [1.0, 1 / 4, 1 / 16, 16**-0.5 / 4],
    ids=["none", "1/√D", "1/D", "1/D_h^1.5"],
)
def test_scores_of_a_head_are_divided_by_the_root_of_its_own_width(
    way, wrong, monkeypatch
):
    """ViT-CIFAR #11: √D. Here D_h = 4, so that 1/√D_h = 1/2."""
    assert_close(way(P, X, X, X), right_multi_head())
    inner = scaled_dot_product.attention_weights.unchecked

    def planted(*args, scale=None, **given):
        return inner(*args, scale=wrong, **given)

    monkeypatch.setattr(
        scaled_dot_product.attention_weights, "unchecked", planted
    )
    assert_apart(way(P, X, X, X), right_multi_head())


def test_scores_are_divided_once():
    for divisor in (1, n, n**1.5):
        assert_apart(Q @ K.T / divisor, scores(Q, K))
    assert_close(scores(Q, K), Q @ K.T / 2)
    assert_close(attention_weights(Q, K), softmax(Q @ K.T / 2))


def test_the_module_divides_by_the_root_of_the_width_of_a_head():
    module = module_of(P)
    for return_weights in (False, True):
        output = module(torch.tensor(X), return_weights=return_weights)
        assert_close(
            output[0] if return_weights else output, right_multi_head()
        )


def module_of(p):
    module = MultiHeadAttention(p.D, p.heads).double()
    with torch.no_grad():
        for name, W in (
            ("query", p.W_Q),
            ("key", p.W_K),
            ("value", p.W_V),
            ("output", p.W_O),
        ):
            getattr(module, name).weight.copy_(torch.tensor(W).mT)
    return module


# ---- softmax ----


def test_the_softmax_runs_over_keys_and_not_over_queries(monkeypatch):
    right = reference.attention(Q, K, V)[0]
    assert_close(attention(Q, K, V), right)
    inner = softmax.unchecked
    monkeypatch.setattr(
        scaled_dot_product.softmax, "unchecked", lambda z: inner(z, axis=-2)
    )
    assert_apart(attention(Q, K, V), right)


def test_the_softmax_is_not_over_heads_or_batch(monkeypatch):
    inner = softmax.unchecked
    right = multi_head_attention(P, X, X, X)
    for axis in (-3, -4):
        monkeypatch.setattr(
            scaled_dot_product.softmax,
            "unchecked",
            lambda z, a=axis: inner(z, axis=a),
        )
        assert_apart(multi_head_attention(P, X, X, X), right)


def test_values_are_weighted_and_weights_are_not_turned():
    weights = attention_weights(Q, K)
    assert_apart(weights.T @ V, attention(Q, K, V))
    assert_apart(attention(K, Q, V), attention(Q, K, V))


# ---- masks ----

MASK = np.array(
    [[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]], bool
)


def test_true_means_may_attend_and_not_ignore():
    right = reference.attention(Q, K, V, MASK)[0]
    assert_close(attention(Q, K, V, mask=MASK), right)
    assert_apart(attention(Q, K, V, mask=~MASK), right)
    assert_apart(attention(Q, K, V, mask=MASK.T), right)


def test_the_mask_comes_before_the_softmax():
    """After it, the rows no longer sum to one."""
    late = np.where(MASK, softmax(scores(Q, K)), 0)
    right = attention_weights(Q, K, mask=MASK)
    assert_apart(late, right)
    assert_close(right.sum(-1), np.ones(n))
    # Zero is no way to shut a score either: e⁰ = 1.
    assert_apart(softmax(np.where(MASK, scores(Q, K), 0)), right)


@pytest.mark.parametrize("low", [-1e9, -1e4, np.finfo(np.float64).min])
def test_a_row_that_may_attend_to_nothing_is_no_average_of_the_padding(low):
    """annotated-transformer, d2l, equinox, UvA: with −1e9 such a row gets the mean of all values."""
    mask = MASK.copy()
    mask[1] = False
    wrong = softmax(np.where(mask, scores(Q, K), low)) @ V
    right = attention(Q, K, V, mask=mask)
    assert_close(wrong[1], V.mean(0))
    assert (right[1] == 0).all()
    assert_apart(wrong, right)


def test_minus_a_billion_overflows_half_precision_and_ours_does_not():
    """apex #1052, transformers #17306."""
    assert torch.tensor(-1e9).half() == -torch.inf
    q, k = (torch.tensor(x).half() for x in (Q, K))
    mask = torch.tensor(MASK)
    mask[1] = False
    z = scores(q, k)
    wrong = torch.softmax(
        torch.where(mask, z, torch.tensor(-1e9).half()), -1
    )
    assert wrong[1].isnan().all()
    right = attention_weights(q, k, mask=mask)
    assert right.isfinite().all()
    assert (right[1] == 0).all()


def test_a_large_score_is_no_match_for_a_shut_pair():
    """A padded key with a score of 2e9 beats −1e9 of the others; −inf it cannot beat."""
    k = K.copy()
    k[3] *= 1e10
    mask = np.array([True, True, True, False])
    wrong = softmax(scores(Q, k) + np.where(mask, 0, -1e9))
    assert (wrong[:, 3] > 0.9).any()
    assert (attention_weights(Q, k, mask=mask)[:, 3] == 0).all()


def test_causality_is_aligned_as_the_offset_says():
    """pytorch #103082, #108108: one query with n cached keys saw key 0 alone."""
    x, y = normal(6, n, seed=8), normal(6, n, seed=9)
    last = attention(x[-2:], x, y, mask=causal_mask(2, 6, offset=4))
    whole = attention(x, x, y, mask=causal_mask(6))[-2:]
    assert_close(last, whole)
    assert_apart(attention(x[-2:], x, y, mask=causal_mask(2, 6)), whole)
    assert_apart(
        attention(x[-2:], x, y, mask=causal_mask(2, 6, offset=3)), whole
    )


def test_a_query_sees_its_own_position_and_none_after():
    strict = np.tril(np.ones((n, n), bool), k=-1)
    right = reference.attention(Q, K, V, np.tril(np.ones((n, n), bool)))[0]
    assert_close(attention(Q, K, V, mask=causal_mask(n)), right)
    assert_apart(attention(Q, K, V, mask=strict), right)
    assert_apart(attention(Q, K, V, mask=causal_mask(n).T), right)


LENGTHS = np.array([1, 2, 3, 4])


@both_ways
def test_padded_keys_are_not_averaged_in(way):
    right = np.stack(
        [
            reference.multi_head(P, X[b], X[b, : b + 1], X[b, : b + 1])[0]
            for b in range(n)
        ]
    )
    mask = padding_mask(LENGTHS, n)
    assert_close(way(P, X, X, X, mask=mask), right)
    assert_apart(way(P, X, X, X), right)
    # Padding set to zero still takes its share: e⁰ = 1.
    zeroed = np.where(mask[:, 0, :, None], X, 0.0)
    assert_apart(way(P, X, zeroed, zeroed), right)


@both_ways
def test_a_padding_mask_falls_on_no_wrong_axis(way):
    """B = h = T = S: on any axis it has the right shape."""
    mask = padding_mask(LENGTHS, n)  # (B, 1, S)
    right = way(P, X, X, X, mask=mask)
    assert_close(
        right,
        right_multi_head(np.broadcast_to(mask[:, None], (n, n, n, n))),
    )
    lengths_of_rows = mask[:, 0, :]  # (B, S) read as (T, S)
    assert_apart(way(P, X, X, X, mask=lengths_of_rows), right)
    assert_apart(
        way(P, X, X, X, mask=mask[None]), right
    )  # (1, B, 1, S) read as heads
    assert_apart(
        way(P, X, X, X, mask=np.swapaxes(mask, 1, 2)), right
    )  # queries shut, not keys


def test_a_mask_given_the_axis_of_heads_by_size_would_be_seen(monkeypatch):
    right = multi_head_attention(P, X, X, X, mask=padding_mask(LENGTHS, n))
    monkeypatch.setattr(
        multi_head, "with_head_axis", lambda x, batch_axes: x
    )
    assert_apart(
        multi_head_attention(P, X, X, X, mask=padding_mask(LENGTHS, n)),
        right,
    )


def test_zero_weight_is_not_enough_against_nan(monkeypatch):
    """0 · NaN is NaN: without the rows set to zero, the padding reaches output and gradient."""
    x = torch.tensor(X)
    x[:, 3] = torch.nan
    mask = torch.arange(n) < 3
    p = MultiHeadParameters.init(16, n, seed=2, like=x)

    def output():
        return multi_head_attention(p, torch.tensor(X), x, x, mask=mask)

    assert output().isfinite().all()
    monkeypatch.setattr(
        multi_head,
        "without_shut_rows",
        lambda q, k, v, mask, bias: (q, k, v),
    )
    monkeypatch.setattr(
        scaled_dot_product, "keep_rows", lambda x, is_open, of: x
    )
    assert output().isnan().all()


def test_nan_in_the_padding_would_reach_a_projection_through_a_gradient_of_zero(
    monkeypatch,
):
    x = torch.tensor(X)
    x[:, 3] = torch.nan
    mask = torch.arange(n) < 3

    def gradient():
        W = torch.tensor(P.W_K, requires_grad=True)
        p = MultiHeadParameters(W, W, W, heads=n)
        multi_head_attention(
            p, torch.tensor(X), x, x, mask=mask
        ).sum().backward()
        return W.grad

    assert gradient().isfinite().all()
    monkeypatch.setattr(
        multi_head,
        "without_shut_rows",
        lambda q, k, v, mask, bias: (q, k, v),
    )
    assert gradient().isnan().any()


def test_an_empty_row_would_poison_the_gradient_of_every_value():
    """pytorch #41508, #160064: NaN forward, and 0 · NaN backward, though its output is dropped."""
    mask = torch.tensor(MASK)
    mask[1] = False
    for way, poisoned in (("plain", True), ("ours", False)):
        q, k, v = leaves(Q, K, V)
        if way == "plain":
            z = torch.where(mask, scores(q, k), -torch.inf)
            output = torch.softmax(z, -1) @ v
        else:
            output = attention(q, k, v, mask=mask)
        output[[0, 2, 3]].sum().backward()
        assert bool(output.isnan().any()) == poisoned
        assert bool(v.grad.isnan().all()) == poisoned


# ---- the module ----


def test_dropout_does_not_stay_on_outside_training():
    """pytorch #124464: scaled_dot_product_attention drops unless it is told not to."""
    torch.manual_seed(0)
    module = MultiHeadAttention(16, n, dropout=0.5).double()
    x = torch.tensor(X)
    assert_apart(module(x).detach(), module.eval()(x).detach())
    assert_close(module.eval()(x), module.eval()(x), 0)
    assert_close(
        module.eval()(x),
        multi_head_attention(module.as_parameters(), x, x, x),
    )


def test_the_weights_shown_are_those_that_made_the_output():
    """UvA, tutorial 6: maps were computed again, without the mask."""
    module = module_of(MultiHeadParameters.init(16, n, seed=3, bias=False))
    mask = padding_mask(torch.tensor(LENGTHS), n)
    x = torch.tensor(X)
    output, weights = module(x, mask=mask, return_weights=True)
    values = torch.tensor(numpy_of(x) @ numpy_of(module.value.weight).T)
    heads = weights @ values.unflatten(-1, (n, n)).transpose(-2, -3)
    assert_close(module.output(heads.transpose(-2, -3).flatten(-2)), output)
    assert_apart(module(x, return_weights=True)[1], weights)


def test_scores_that_were_passed_in_are_not_changed():
    """d2l, masked_softmax."""
    z = scores(Q, K)
    before = z.copy()
    softmax(z)
    attention(Q, K, V, mask=MASK, bias=z)
    assert np.array_equal(z, before)


def test_the_bias_of_the_output_is_added_once_and_not_by_each_head():
    p = MultiHeadParameters.init(16, n, seed=2)
    b = np.ones(16)
    with_bias = MultiHeadParameters(
        p.W_Q, p.W_K, p.W_V, p.W_O, b_O=b, heads=n
    )
    for way in (multi_head_attention, multi_head_attention_by_head):
        assert_close(way(with_bias, X, X, X), way(p, X, X, X) + 1)
