import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_in_detail import (
    DecoderOnlyParameters,
    EncoderLayerParameters,
    cached_self_attention,
    causal_mask,
    decoder_only,
    encoder_layer,
    generate,
    layer_norm,
    map_arrays,
)
from tests.layer_support import (
    attention_parameters,
    feed_forward_parameters,
    layer_norm_parameters,
    tokens,
)
from tests.support import (
    MAKERS,
    assert_close,
    each_library,
    normal,
    numpy_of,
)

V, D = 11, 12


def model(
    make=np.asarray, *, dtype=np.float64, seed=0, norm_first=True, **choices
):
    """Two layers of six heads, of width 2, with two key heads."""
    given = {"D": D, "dtype": dtype}
    layers = tuple(
        EncoderLayerParameters(
            attention_parameters(
                make, heads=6, kv_heads=2, seed=seed + n, D_c=D, **given
            ),
            layer_norm_parameters(make, seed=seed + n + 10, **given),
            feed_forward_parameters(make, seed=seed + n + 20, **given),
            layer_norm_parameters(make, seed=seed + n + 30, **given),
            norm_first,
        )
        for n in range(2)
    )
    return DecoderOnlyParameters(
        make(normal(V, D, seed=seed + 40).astype(dtype)),
        layers,
        layer_norm_parameters(make, seed=seed + 50, **given)
        if norm_first
        else None,
        **choices,
    )


OF_TODAY = {"rotary_base": 100.0, "before": 3, "sinks": 1, "cap": 5.0}


@pytest.mark.claim("def-today-decoder")
@pytest.mark.parametrize("norm_first", [True, False])
@each_library
def test_it_is_encoder_layers_under_a_causal_mask(make, norm_first):
    p, t = model(make, norm_first=norm_first), tokens(3, 7, V=V)
    logits, cache = decoder_only(p, make(t))
    x = make(numpy_of(p.embedding)[t])
    for layer in p.layers:
        x = encoder_layer(layer, x, mask=causal_mask(7, like=x))
    if p.norm is not None:
        x = layer_norm(p.norm, x)
    assert_close(logits, numpy_of(x) @ numpy_of(p.embedding).T)
    assert [known.keys.shape for known in cache] == [(3, 2, 7, 2)] * 2
    assert p.D == D


@pytest.mark.claim("prop-today-generate")
@settings(max_examples=settings.default.max_examples // 6)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.sampled_from([{}, OF_TODAY]),
    st.sampled_from([(), (2,)]),
    st.sampled_from(["numpy", "torch"]),
    st.integers(0, 10**6),
)
def test_cached_logits_are_uncached_however_the_tokens_are_cut(
    cuts, choices, batch, library, seed
):
    make = MAKERS[library]
    p = model(make, seed=seed % 5, **choices)
    t = tokens(*batch, sum(cuts), V=V, seed=seed)
    whole, _ = decoder_only(p, make(t))
    cache, at = None, 0
    for size in cuts:
        piece = make(t[..., at : at + size])
        logits, cache = decoder_only(p, piece, cache)
        assert_close(logits, numpy_of(whole)[..., at : at + size, :])
        at += size


@pytest.mark.claim("prop-today-generate")
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_cached_logits_are_uncached_in_float32_but_for_rounding(library):
    make, t = MAKERS[library], tokens(2, 12, V=V)
    p = model(make, dtype=np.float32, **OF_TODAY)
    whole = numpy_of(decoder_only(p, make(t))[0])
    cache, rows = None, []
    for piece in np.split(t, [5, 6, 7], axis=-1):
        logits, cache = decoder_only(p, make(piece), cache)
        rows.append(numpy_of(logits))
    apart = np.abs(np.concatenate(rows, axis=-2) - whole).max()
    assert apart < 1e-6 * max(1, np.abs(whole).max())


@pytest.mark.claim("def-today-decoder")
@each_library
def test_weights_come_with_each_layer(make):
    p, t = model(make, **OF_TODAY), tokens(3, 7, V=V)
    logits, cache, weights = decoder_only(p, make(t), return_weights=True)
    assert_close(logits, decoder_only(p, make(t))[0], 0)
    assert len(weights) == len(cache) == 2
    for A in weights:
        A = numpy_of(A)
        assert A.shape == (3, 6, 7, 7)
        assert_close(A.sum(-1), np.ones((3, 6, 7)))
        for i in range(7):
            open_ = [j <= i and (i - j <= 3 or j < 1) for j in range(7)]
            assert ((A[:, :, i] > 0) == open_).all()
    layer = p.layers[0]
    x = layer_norm(layer.attention_norm, make(numpy_of(p.embedding)[t]))
    *_, first = cached_self_attention(
        layer.attention, x, return_weights=True, **OF_TODAY
    )
    assert_close(weights[0], first)
    *_, after = decoder_only(p, make(t[:, 5:]), None, return_weights=True)
    assert numpy_of(after[0]).shape == (3, 6, 2, 2)
    _, known = decoder_only(p, make(t[:, :5]))
    *_, after = decoder_only(p, make(t[:, 5:]), known, return_weights=True)
    for A, whole in zip(after, weights, strict=True):
        assert_close(A, numpy_of(whole)[:, :, 5:])


@pytest.mark.claim("prop-today-reach")
@pytest.mark.parametrize("before", [1, 3])
def test_layers_add_their_windows_up_and_a_sink_reaches_everywhere(before):
    """Another first token changes what the layers can carry so far, and with a sink all."""
    t, T = tokens(20, V=V), 20
    other = t.copy()
    other[0] = (t[0] + 1) % V
    for rotary in (None, 100.0):
        for sinks, reach in ((0, 2 * before), (1, T - 1)):
            p = model(before=before, sinks=sinks, rotary_base=rotary)
            one, two = decoder_only(p, t)[0], decoder_only(p, other)[0]
            changed = np.abs(one - two).max(-1) > 1e-12
            assert changed[: reach + 1].all()
            assert np.array_equal(one[reach + 1 :], two[reach + 1 :])


def test_each_choice_reaches_the_layers():
    t = tokens(9, V=V)
    plain, _ = decoder_only(model(), t)
    for name in OF_TODAY:
        chosen = {name: OF_TODAY[name]}
        if name == "sinks":
            chosen["before"] = 3
            plain, _ = decoder_only(model(before=3), t)
        logits, _ = decoder_only(model(**chosen), t)
        assert np.abs(logits - plain).max() > 1e-3


@pytest.mark.claim("prop-today-generate")
@each_library
def test_the_same_tokens_with_a_cache_and_without(make):
    p = model(make, **OF_TODAY)
    for batch in ((), (3,)):
        prompt = make(tokens(*batch, 4, V=V))
        one = generate(p, prompt, 5)
        other = generate(p, prompt, 5, cached=False)
        assert one.shape == (*batch, 5)
        assert np.array_equal(np.asarray(one), np.asarray(other))


def test_the_most_probable_token_is_taken():
    p, prompt = model(**OF_TODAY), tokens(2, 4, V=V)
    so_far = prompt
    for n in range(3):
        logits, _ = decoder_only(p, so_far)
        best = logits[:, -1].argmax(-1)[:, None]
        so_far = np.concatenate([so_far, best], axis=-1)
        assert np.array_equal(generate(p, prompt, n + 1), so_far[:, 4:])


@pytest.mark.parametrize(
    ("cached", "computed"), [(True, [4, 1, 1]), (False, [4, 5, 6])]
)
def test_with_the_cache_each_position_is_computed_once(
    cached, computed, monkeypatch
):
    asked, whole = [], decoder_only.unchecked

    def noted(p, tokens, cache=None):
        asked.append(tokens.shape[-1])
        return whole(p, tokens, cache)

    monkeypatch.setattr(decoder_only, "unchecked", noted)
    generate(model(), tokens(4, V=V), 3, cached=cached)
    assert asked == computed


def test_a_prompt_of_small_integers_is_a_prompt():
    p, prompt = model(), tokens(4, V=V)
    assert np.array_equal(
        generate(p, prompt.astype(np.int8), 3), generate(p, prompt, 3)
    )


def test_parameters_can_be_copied():
    p = model(**OF_TODAY)
    same = copy.deepcopy(p)
    assert (same.before, same.cap) == (3, 5.0)
    assert np.array_equal(same.embedding, p.embedding)


def test_gradients_reach_every_parameter():
    p = map_arrays(
        model(torch.tensor, **OF_TODAY), lambda x: x.requires_grad_()
    )
    logits, _ = decoder_only(p, torch.tensor(tokens(2, 6, V=V)))
    logits.square().sum().backward()
    seen = []
    map_arrays(p, lambda x: seen.append(x.grad) or x)
    assert len(seen) == 1 + 2 * (8 + 4 + 4) + 2
    for gradient in seen:
        assert gradient is not None
        assert gradient.isfinite().all()
