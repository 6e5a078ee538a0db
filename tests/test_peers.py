"""The same numbers as three implementations that others wrote, from the same weights."""

import keras
import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from attention_in_detail import (
    MultiHeadParameters,
    attention,
    causal_mask,
    mask_to_torch_mha,
    multi_head_attention,
    multi_head_attention_by_head,
)
from attention_in_detail.nn import MultiHeadAttention
from tests.support import (
    TOLERANCE,
    B,
    D,
    D_k,
    D_q,
    D_v,
    S,
    T,
    assert_close,
    each_precision,
    h,
    leaves,
    normal,
    numpy_of,
    open_mask,
    parameters,
)

# Every row keeps a key: what a row without one gives, each peer answers in its own way.
MASKS = {
    "none": None,
    "(T, S)": open_mask(T, S, seed=1),
    "(B, 1, T, S)": open_mask(B, 1, T, S, seed=2),
    "(B, 1, 1, S)": open_mask(B, 1, 1, S, seed=3),
    "(B, h, T, S)": open_mask(B, h, T, S, seed=4),
}
each_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
# Float32 sums differ by their order: twice the promised 1e-6 of max(1, size) would already fail.
Q, K, V = (
    normal(B, T, D_q, seed=1),
    normal(B, S, D_k, seed=2),
    normal(B, S, D_v, seed=3),
)


# ---- torch's scaled_dot_product_attention ----


@pytest.mark.parametrize(
    "with_bias", [False, True], ids=["no bias", "bias"]
)
@each_mask
@each_precision
def test_attention_equals_that_of_torch(dtype, mask, with_bias):
    kind = getattr(torch, dtype)
    d = 4
    ours, theirs = (
        leaves(
            normal(B, h, T, d, seed=1),
            normal(B, h, S, d, seed=2),
            normal(B, h, S, D_v, seed=3),
            normal(1, h, T, S, seed=4),
            dtype=kind,
        )
        for _ in range(2)
    )
    mask = None if mask is None else torch.tensor(mask)
    shut = (
        torch.zeros(())
        if mask is None
        else torch.where(mask, 0.0, -torch.inf)
    )
    q, k, v, bias = ours
    output = attention(q, k, v, mask=mask, bias=bias if with_bias else None)
    q, k, v, bias = theirs
    given = bias + shut if with_bias else mask
    peer = scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=None
        if given is None
        else given.to(kind)
        if with_bias
        else given,
    )
    assert_close(output, peer, TOLERANCE[dtype])
    for out in (output, peer):
        out.square().mean().backward()
    for x, y in zip(ours[: 3 + with_bias], theirs, strict=False):
        assert_close(x.grad, y.grad, TOLERANCE[dtype])


@each_precision
def test_scale_and_causality_are_those_of_torch(dtype):
    q, k, v = (
        torch.tensor(normal(B, n, 4, seed=n)).to(getattr(torch, dtype))
        for n in (T, S, S)
    )
    peer = scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)
    ours = attention(q, k, v, mask=causal_mask(T, S, like=q), scale=0.3)
    assert_close(ours, peer, TOLERANCE[dtype])


def test_an_empty_row_is_zero_as_in_torch():
    q, k, v = (torch.tensor(normal(2, n, 4, seed=n)) for n in (T, S, S))
    mask = torch.tensor(open_mask(T, S, seed=1))
    mask[1] = False
    ours = attention(q, k, v, mask=mask)
    assert (ours[:, 1] == 0).all()
    assert_close(
        ours, scaled_dot_product_attention(q, k, v, attn_mask=mask)
    )


# ---- keras ----


def keras_layer(p, dtype):
    layer = keras.layers.MultiHeadAttention(
        p.heads,
        key_dim=p.D_h,
        value_dim=p.D_h,
        output_shape=p.D_out,
        use_bias=p.b_Q is not None,
        dtype=dtype,
    )
    layer.build((B, T, p.D_q), (B, S, p.D_v), (B, S, p.D_k))
    set_keras(layer, p)
    return layer


def set_keras(layer, p):
    """The kernels of keras have the axes (rows, h, D_h), that of the output (h, D_h, D_out)."""
    for dense, W, b in (
        ("query", p.W_Q, p.b_Q),
        ("key", p.W_K, p.b_K),
        ("value", p.W_V, p.b_V),
    ):
        cut = [W.reshape(-1, p.heads, p.D_h)] + (
            [] if b is None else [b.reshape(p.heads, p.D_h)]
        )
        getattr(layer, f"_{dense}_dense").set_weights(cut)
    out = [p.W_O.reshape(p.heads, p.D_h, -1)] + (
        [] if p.b_O is None else [p.b_O]
    )
    layer._output_dense.set_weights(out)


@pytest.mark.parametrize("bias", [True, False])
@each_mask
@each_precision
def test_multi_head_attention_equals_that_of_keras(dtype, mask, bias):
    """With all sizes distinct."""
    p = parameters(dtype=dtype, bias=bias)
    q, k, v = (x.astype(dtype) for x in (Q, K, V))
    # The layer needs a mask of three or four axes.
    given = None if mask is None else np.broadcast_to(mask, (B, h, T, S))
    peer, peer_weights = keras_layer(p, dtype)(
        q, v, key=k, attention_mask=given, return_attention_scores=True
    )
    for multi_head in (multi_head_attention_by_head, multi_head_attention):
        output, weights = multi_head(
            p, q, k, v, mask=mask, return_weights=True
        )
        assert_close(output, peer, TOLERANCE[dtype])
        assert_close(weights, peer_weights, TOLERANCE[dtype])


@pytest.mark.parametrize(
    "multi_head", [multi_head_attention_by_head, multi_head_attention]
)
@each_precision
def test_gradients_equal_those_of_keras(dtype, multi_head):
    kind = getattr(torch, dtype)
    plain = parameters(dtype=dtype)
    layer = keras_layer(plain, dtype)
    mask = open_mask(B, h, T, S, seed=4)
    theirs = leaves(Q, K, V, dtype=kind)
    q, k, v = theirs
    # Asked for the scores, keras computes all of it in float64; without, partly in float32.
    output, _ = layer(
        q,
        v,
        key=k,
        attention_mask=torch.tensor(mask),
        return_attention_scores=True,
    )
    output.square().mean().backward()

    p = parameters(
        lambda x: torch.tensor(x, requires_grad=True), dtype=dtype
    )
    ours = leaves(Q, K, V, dtype=kind)
    multi_head(p, *ours, mask=torch.tensor(mask)).square().mean().backward()
    for x, y in zip(ours, theirs, strict=True):
        assert_close(x.grad, y.grad, TOLERANCE[dtype])
    for dense, W, b in (
        (layer._query_dense, p.W_Q, p.b_Q),
        (layer._key_dense, p.W_K, p.b_K),
        (layer._value_dense, p.W_V, p.b_V),
        (layer._output_dense, p.W_O, p.b_O),
    ):
        assert_close(
            W.grad,
            dense.kernel.value.grad.reshape(W.shape),
            TOLERANCE[dtype],
        )
        assert_close(
            b.grad, dense.bias.value.grad.reshape(b.shape), TOLERANCE[dtype]
        )


# ---- by head = fused = the module = SDPA inside projections ----


def with_torch_inside(p, q, k, v, mask=None):
    """Projections of ours around torch's attention."""
    heads = []
    for x, W, b in (
        (q, p.W_Q, p.b_Q),
        (k, p.W_K, p.b_K),
        (v, p.W_V, p.b_V),
    ):
        heads.append(
            (x @ W + b).unflatten(-1, (p.heads, p.D_h)).transpose(-2, -3)
        )
    return (
        scaled_dot_product_attention(*heads, attn_mask=mask)
        .transpose(-2, -3)
        .flatten(-2)
        @ p.W_O
        + p.b_O
    )


@each_mask
@each_precision
def test_all_ways_to_multi_head_attention_are_one(dtype, mask):
    """By head, fused, the module with and without weights, torch's kernel: outputs and gradients."""
    kind = getattr(torch, dtype)
    mask = None if mask is None else torch.tensor(mask)
    results = {}
    for name, way in {
        "by head": multi_head_attention_by_head,
        "fused": multi_head_attention,
        "torch inside": with_torch_inside,
    }.items():
        p = parameters(
            lambda x: torch.tensor(x, requires_grad=True), dtype=dtype
        )
        inputs = leaves(Q, K, V, dtype=kind)
        output = way(p, *inputs, mask=mask)
        output.square().mean().backward()
        results[name] = [
            output,
            *(x.grad for x in (*inputs, *p.arrays().values())),
        ]
    for return_weights in (True, False):
        module = module_with(parameters(torch.tensor, dtype=dtype))
        inputs = leaves(Q, K, V, dtype=kind)
        output = module(*inputs, mask=mask, return_weights=return_weights)
        output = output[0] if return_weights else output
        output.square().mean().backward()
        linears = module.query, module.key, module.value, module.output
        grads = [x.weight.grad.mT for x in linears] + [
            x.bias.grad for x in linears
        ]
        results[f"module, weights {return_weights}"] = [
            output,
            *(x.grad for x in inputs),
            *grads,
        ]
    base = results.pop("by head")
    for other in results.values():
        for x, y in zip(base, other, strict=True):
            assert_close(x, y, TOLERANCE[dtype])


def module_with(p):
    """The module with the numbers of ``p``."""
    module = MultiHeadAttention(
        p.D, p.heads, D_q=p.D_q, D_k=p.D_k, D_v=p.D_v, D_out=p.D_out
    )
    module = module.to(p.W_Q.dtype)
    with torch.no_grad():
        for name, W, b in (
            ("query", p.W_Q, p.b_Q),
            ("key", p.W_K, p.b_K),
            ("value", p.W_V, p.b_V),
            ("output", p.W_O, p.b_O),
        ):
            getattr(module, name).weight.copy_(W.mT)
            getattr(module, name).bias.copy_(b)
    return module


# ---- torch.nn.MultiheadAttention ----


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "mode", ["train", "eval", "eval without gradients"]
)
@each_mask
@each_precision
def test_multi_head_attention_equals_that_of_torch(dtype, mask, mode, bias):
    """With all sizes distinct that it lets differ: it forces D_q = D = D_out."""
    torch.manual_seed(0)
    peer = torch.nn.MultiheadAttention(
        D,
        h,
        kdim=D_k,
        vdim=D_v,
        bias=bias,
        batch_first=True,
        dtype=getattr(torch, dtype),
    ).train(mode == "train")
    if bias:
        torch.nn.init.normal_(peer.in_proj_bias)
        torch.nn.init.normal_(peer.out_proj.bias)
    q, k, v = (
        torch.tensor(normal(B, *s).astype(dtype))
        for s in ((T, D), (S, D_k), (S, D_v))
    )
    mask = None if mask is None else torch.tensor(mask)
    attn_mask, padding = mask_to_torch_mha(
        mask if mask is None or mask.ndim == 2 else mask.clone(), heads=h
    )
    p = MultiHeadParameters.from_torch(peer)
    with torch.set_grad_enabled(mode != "eval without gradients"):
        theirs, their_weights = peer(
            q,
            k,
            v,
            attn_mask=attn_mask,
            key_padding_mask=padding,
            average_attn_weights=False,
        )
        plain, _ = peer(
            q,
            k,
            v,
            attn_mask=attn_mask,
            key_padding_mask=padding,
            need_weights=False,
        )
        module = MultiHeadAttention.from_torch(peer)
        for output, weights in (
            multi_head_attention(
                p, q, k, v, mask=mask, return_weights=True
            ),
            multi_head_attention_by_head(
                p, q, k, v, mask=mask, return_weights=True
            ),
            module(q, k, v, mask=mask, return_weights=True),
            (module(q, k, v, mask=mask), their_weights),
        ):
            assert_close(output, theirs, TOLERANCE[dtype])
            assert_close(output, plain, TOLERANCE[dtype])
            assert_close(weights, their_weights, TOLERANCE[dtype])


@pytest.mark.parametrize(
    "widths", [{}, {"kdim": D_k, "vdim": D_v}], ids=["packed", "separate"]
)
@each_precision
def test_gradients_equal_those_of_torch(dtype, widths):
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    peer = torch.nn.MultiheadAttention(
        D, h, **widths, batch_first=True, dtype=kind
    )
    inputs = (
        normal(B, T, D),
        normal(B, S, peer.kdim),
        normal(B, S, peer.vdim),
    )
    mask = torch.tensor(open_mask(T, S, seed=1))
    theirs = leaves(*inputs, dtype=kind)
    peer(*theirs, attn_mask=~mask)[0].square().mean().backward()
    wanted = {name: x.grad.clone() for name, x in peer.named_parameters()}
    peer.zero_grad()
    ours = leaves(*inputs, dtype=kind)
    multi_head_attention(
        MultiHeadParameters.from_torch(peer), *ours, mask=mask
    ).square().mean().backward()
    for x, y in zip(ours, theirs, strict=True):
        assert_close(x.grad, y.grad, TOLERANCE[dtype])
    for name, x in peer.named_parameters():
        assert_close(x.grad, wanted[name], TOLERANCE[dtype])


def test_where_torch_gives_nan_for_an_empty_row_ours_gives_the_output_bias():
    """Seen on PyTorch 2.13: NaN with weights, and one such row poisons every gradient."""
    torch.manual_seed(0)
    peer = torch.nn.MultiheadAttention(
        D, h, batch_first=True, dtype=torch.float64
    )
    torch.nn.init.normal_(peer.out_proj.bias)
    x = torch.tensor(normal(2, T, D))
    mask = torch.ones(T, T, dtype=torch.bool)
    mask[1] = False
    theirs, _ = peer(x, x, x, attn_mask=~mask)
    assert theirs[:, 1].isnan().all()
    ours = multi_head_attention(
        MultiHeadParameters.from_torch(peer), x, x, x, mask=mask
    )
    assert_close(ours[:, [0, 2]], theirs[:, [0, 2]])
    assert (numpy_of(ours)[:, 1] == numpy_of(peer.out_proj.bias)).all()
