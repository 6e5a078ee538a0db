"""Nothing outside the array API standard is used: array-api-strict has nothing else.

Most tests of the functions run in it too. Here each public function is called once with all of its arguments.
"""

import array_api_strict as xp
import numpy as np
import pytest

import attention_in_detail as package
from tests.layer_support import (
    D_c,
    V_s,
    V_t,
    decoder_parameters,
    encoder_parameters,
    feed_forward_parameters,
    layer_norm_parameters,
    tokens,
    transformer_parameters,
)
from tests.support import (
    B,
    D,
    D_k,
    D_out,
    D_q,
    D_v,
    S,
    T,
    assert_close,
    coin,
    h,
    normal,
    open_mask,
    parameters,
)

Q, K, V = (
    normal(B, T, D_q, seed=1),
    normal(B, S, D_k, seed=2),
    normal(B, S, D_v, seed=3),
)
X, C = normal(B, T, D_q, seed=4), normal(B, S, D_k, seed=5)
MASK, BIAS = coin(B, h, T, S, seed=6), normal(B, 1, T, S, seed=7)
q, k, v = (
    normal(B, T, 4, seed=8),
    normal(B, S, 4, seed=9),
    normal(B, S, 6, seed=10),
)


def heads_of(f, make, *arrays, **options):
    sizes = {"D_v": D_k} if f is package.cross_attention else {}
    sizes = (
        {"D_k": D_q, "D_v": D_q} if f is package.self_attention else sizes
    )
    given = {n: make(x) for n, x in {"mask": MASK, "bias": BIAS}.items()}
    if f is package.self_attention:
        given = {
            n: make(x[..., :T])
            for n, x in {"mask": MASK, "bias": BIAS}.items()
        }
    return f(
        parameters(make, **sizes),
        *(make(x) for x in arrays),
        **given,
        return_weights=True,
    )


def today(a):
    widths = dict.fromkeys(("D_q", "D_k", "D_v"), D_q)
    p = parameters(a, D=24, heads=6, kv_heads=2, **widths)
    options = {
        "rotary_base": 100.0,
        "slopes": package.head_slopes(6, like=a(X)),
        "before": 1,
        "sinks": 1,
        "cap": 2.0,
    }
    _, cache = package.cached_self_attention(p, a(X[:, :1]), **options)
    return package.cached_self_attention(p, a(X[:, 1:]), cache, **options)


def fields_of(part):
    return part.output, part.largest, part.total


# Every public function that takes or makes arrays: as a function of what makes them.
CALLS = {
    "softmax": lambda a: package.softmax(a(Q), axis=1),
    "softmax_jacobian": lambda a: package.softmax_jacobian(a(q)),
    "scores": lambda a: package.scores(a(q), a(k), scale=a(np.array(0.3))),
    "attention_weights": lambda a: package.attention_weights(
        a(q), a(k), mask=a(MASK[:, 0]), bias=a(BIAS[:, 0]), scale=2
    ),
    "attention": lambda a: package.attention(
        a(q),
        a(k),
        a(v),
        mask=a(MASK[:, 0]),
        bias=a(BIAS[:, 0]),
        return_weights=True,
    ),
    "attention_gradients": lambda a: tuple(
        package.attention_gradients(
            a(q),
            a(k),
            a(v),
            a(normal(B, T, 6)),
            mask=a(MASK[:, 0]),
            bias=a(BIAS[:, 0]),
            scale=a(np.array(0.3)),
        )
    ),
    "online_attention": lambda a: package.online_attention(
        a(q),
        a(k),
        a(v),
        mask=a(MASK[:, 0]),
        bias=a(BIAS[:, 0]),
        scale=a(np.array(0.3)),
        causal_offset=2,
        query_block=2,
        key_block=3,
    ),
    "partial_attention": lambda a: fields_of(
        package.partial_attention(
            a(q), a(k), a(v), mask=a(MASK[:, 0]), bias=a(BIAS[:, 0])
        )
    ),
    "merge_partial": lambda a: fields_of(
        package.merge_partial(
            *(
                package.partial_attention(a(q), a(k[:, n]), a(v[:, n]))
                for n in (slice(0, 2), slice(2, S))
            )
        )
    ),
    "causal_mask": lambda a: package.causal_mask(T, S, offset=2, like=a(q)),
    "window_mask": lambda a: package.window_mask(
        T, S, before=1, after=2, offset=2, like=a(q)
    ),
    "padding_mask": lambda a: package.padding_mask(
        a(np.array([[1, 2], [0, S]])), S
    ),
    "combine_masks": lambda a: package.combine_masks(
        a(MASK), None, a(MASK[:, :1])
    ),
    "mask_from_torch_mha": lambda a: package.mask_from_torch_mha(
        a(coin(B * h, T, S)), a(normal(B, S)), heads=h
    ),
    "mask_to_torch_mha": lambda a: package.mask_to_torch_mha(
        a(open_mask(B, T, S)), heads=h
    ),
    "split_heads": lambda a: package.split_heads(a(normal(B, T, D)), h),
    "merge_heads": lambda a: package.merge_heads(a(normal(B, h, T, D))),
    "multi_head_attention_by_head": lambda a: heads_of(
        package.multi_head_attention_by_head, a, Q, K, V
    ),
    "multi_head_attention": lambda a: heads_of(
        package.multi_head_attention, a, Q, K, V
    ),
    "repeat_heads": lambda a: package.repeat_heads(
        a(normal(B, 2, S, 4)), 3
    ),
    "rotate": lambda a: package.rotate(a(q), a(np.arange(T) - 1), base=100),
    "head_slopes": lambda a: package.head_slopes(6, like=a(q)),
    "linear_bias": lambda a: package.linear_bias(
        T, S, slopes=package.head_slopes(6, like=a(q)), offset=2
    ),
    "sink_mask": lambda a: package.sink_mask(
        T, S, sinks=2, offset=2, like=a(q)
    ),
    "softcap": lambda a: package.softcap(a(Q), 2.0),
    "softcap_derivative": lambda a: package.softcap_derivative(a(Q), 2.0),
    "capped_attention": lambda a: package.capped_attention(
        a(q),
        a(k),
        a(v),
        cap=2.0,
        mask=a(MASK[:, 0]),
        bias=a(BIAS[:, 0]),
        return_weights=True,
    ),
    "cached_self_attention": lambda a: today(a)[0],
    "self_attention": lambda a: heads_of(package.self_attention, a, X),
    "cross_attention": lambda a: heads_of(package.cross_attention, a, X, C),
    "sinusoidal_positions": lambda a: package.sinusoidal_positions(
        T, D, like=a(q)
    ),
    "MultiHeadParameters": lambda a: tuple(
        package.MultiHeadParameters.init(
            D, h, D_k=D_k, D_out=D_out, seed=1, like=a(q)
        )
        .head(1)
        .arrays()
        .values()
    ),
}
CALLS |= {
    "relu": lambda a: package.relu(a(Q)),
    "gelu": lambda a: package.gelu(a(Q)),
    "layer_norm": lambda a: package.layer_norm(
        layer_norm_parameters(a), a(normal(B, T, D))
    ),
    "feed_forward": lambda a: package.feed_forward(
        feed_forward_parameters(a, activation="gelu"), a(normal(B, T, D))
    ),
    "encoder_layer": lambda a: package.encoder_layer(
        encoder_parameters(a),
        a(normal(B, T, D)),
        mask=a(open_mask(B, h, T, T)),
        return_weights=True,
    ),
    "decoder_layer": lambda a: package.decoder_layer(
        decoder_parameters(a, norm_first=True),
        a(normal(B, T, D)),
        a(normal(B, S, D_c)),
        mask=a(open_mask(T, T)),
        context_mask=a(open_mask(B, 1, S)),
        return_weights=True,
    ),
    "map_arrays": lambda a: (
        package.map_arrays(layer_norm_parameters(a), lambda x: 2 * x).gain
    ),
}
SOURCE, TARGET = tokens(B, S, V=V_s), tokens(B, T, V=V_t)
PADDING = open_mask(B, 1, S)
GIVEN = {"start": 0, "end": 1, "limit": 3}


def cache_of(a):
    p = transformer_parameters(a)
    memory = package.encode(p, a(SOURCE))
    cache = package.decoder_cache(p, memory, source_mask=a(PADDING))
    return p, package.decode_step(p, a(TARGET), cache)


def decoder_alone(a):
    layers = tuple(encoder_parameters(a, seed=n) for n in range(2))
    return package.DecoderOnlyParameters(
        a(normal(V_t, D)), layers, rotary_base=100.0, before=2, sinks=1
    )


def after(a):
    p, (_, cache) = cache_of(a)
    cache = cache.take(a(np.array([1, 0, 1])))
    return package.decode_step(p, a(TARGET[:3]), cache)[0]


CALLS |= {
    "embed": lambda a: package.embed(
        a(normal(V_s, D)), a(SOURCE), offset=2
    ),
    "encode": lambda a: package.encode(
        transformer_parameters(a), a(SOURCE), source_mask=a(PADDING)
    ),
    "decode": lambda a: package.decode(
        transformer_parameters(a),
        a(TARGET),
        a(normal(B, S, D)),
        source_mask=a(PADDING),
        target_mask=a(open_mask(B, T, T)),
    ),
    "transformer": lambda a: package.transformer(
        transformer_parameters(a),
        a(SOURCE),
        a(TARGET),
        source_mask=a(PADDING),
    ),
    "decoder_cache": lambda a: cache_of(a)[1][1].context[0].keys,
    "decode_step": after,
    "KeyValueCache": lambda a: (
        package.KeyValueCache(a(normal(B, h, S, 4)), a(normal(B, h, S, 4)))
        .append(a(normal(B, h, T, 4)), a(normal(B, h, T, 4)))
        .take(a(np.array([2, 1])))
        .values
    ),
    "greedy_decode": lambda a: package.greedy_decode(
        transformer_parameters(a), a(SOURCE), **GIVEN
    ),
    "beam_decode": lambda a: tuple(
        a(np.array(x.log_probability))
        for x in package.beam_decode(
            transformer_parameters(a), a(SOURCE[0]), width=2, **GIVEN
        )
    ),
}
CALLS |= {
    "decoder_only": lambda a: package.decoder_only(
        decoder_alone(a), a(TARGET)
    )[0],
    "generate": lambda a: package.generate(
        decoder_alone(a), a(TARGET), 3, cached=True
    ),
}
# Parameters that hold arrays and make none: the calls above take them.
PARAMETERS = {
    "AttentionGradients",
    "DecoderCache",
    "DecoderLayerParameters",
    "DecoderOnlyParameters",
    "EncoderLayerParameters",
    "FeedForwardParameters",
    "Hypothesis",
    "LayerNormParameters",
    "PartialAttention",
    "TransformerParameters",
}
WITHOUT_ARRAYS = {"cache_bytes", "shape_checked", "show_source"}


def test_no_public_function_is_forgotten():
    assert set(package.__all__) == (
        CALLS.keys() | PARAMETERS | WITHOUT_ARRAYS
    )


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_standard_alone_gives_what_numpy_gives(call):
    strict, plain = call(xp.asarray), call(np.asarray)
    several = isinstance(plain, tuple)
    for one, other in zip(
        strict if several else [strict],
        plain if several else [plain],
        strict=True,
    ):
        assert (one is None) == (other is None)
        if one is not None:
            assert type(one) is type(xp.asarray(0))
            assert str(one.dtype).endswith(str(other.dtype))
            assert_close(one, other, 1e-14)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_the_result_stays_on_its_device(name):
    where = xp.Device("device1")

    def make(x):
        return xp.asarray(x, device=where)

    mask = package.combine_masks(
        package.causal_mask(T, S, like=make(0.0)),
        package.padding_mask(make(np.array([1] * B)), S),
    )
    p = package.MultiHeadParameters.init(
        D,
        h,
        D_q=D_q,
        D_k=D_k,
        D_v=D_v,
        seed=0,
        like=make(np.zeros(1, name)),
    )
    given = (make(x.astype(name)) for x in (Q, K, V))
    output, weights = package.multi_head_attention(
        p, *given, mask=mask, return_weights=True
    )
    assert package.softmax_jacobian(weights).device == where
    assert package.sinusoidal_positions(T, D, like=output).device == where
    assert output.device == weights.device == where
    assert str(output.dtype).endswith(name)
