import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_in_detail import (
    DecoderLayerParameters,
    EncoderLayerParameters,
    causal_mask,
    combine_masks,
    cross_attention,
    decoder_layer,
    encoder_layer,
    feed_forward,
    layer_norm,
    map_arrays,
    padding_mask,
    self_attention,
)
from tests.layer_support import (
    D_c,
    decoder_parameters,
    encoder_parameters,
    torch_layer,
)
from tests.support import (
    B,
    D,
    S,
    T,
    assert_close,
    each_library,
    h,
    leaves,
    normal,
    numpy_of,
    open_mask,
)

X, C = normal(B, T, D, seed=1), normal(B, S, D_c, seed=2)
C_D = normal(B, S, D, seed=3)  # torch's layer wants a context of width D
LENGTHS = np.array([1, 3, 2, 3, 1])
C_LENGTHS = np.array([7, 1, 4, 6, 2])
KINDS = [
    (first, bend) for first in (False, True) for bend in ("relu", "gelu")
]
each_kind = pytest.mark.parametrize(
    ("norm_first", "activation"),
    KINDS,
    ids=[f"{'pre' if f else 'post'}-{a}" for f, a in KINDS],
)
pre_and_post = pytest.mark.parametrize(
    "norm_first", [False, True], ids=["post", "pre"]
)


# ---- the formulas ----


@pytest.mark.claim("def-transformer")
@pre_and_post
@each_library
def test_an_encoder_layer_is_its_formula(make, norm_first):
    p = encoder_parameters(norm_first=norm_first)
    mask = open_mask(B, T, T)
    if norm_first:
        attended, A = self_attention(
            p.attention,
            layer_norm(p.attention_norm, X),
            mask=mask,
            return_weights=True,
        )
        y = X + attended
        z = y + feed_forward(
            p.feed_forward, layer_norm(p.feed_forward_norm, y)
        )
    else:
        attended, A = self_attention(
            p.attention, X, mask=mask, return_weights=True
        )
        y = layer_norm(p.attention_norm, X + attended)
        z = layer_norm(
            p.feed_forward_norm, y + feed_forward(p.feed_forward, y)
        )
    ours = encoder_layer(
        encoder_parameters(make, norm_first=norm_first),
        make(X),
        mask=make(mask),
        return_weights=True,
    )
    assert_close(ours[0], z)
    assert_close(ours[1], A)
    assert type(ours[0]) is type(make(X))


@pytest.mark.claim("def-transformer")
@pre_and_post
@each_library
def test_a_decoder_layer_is_its_formula(make, norm_first):
    p = decoder_parameters(norm_first=norm_first)
    mask, context_mask = causal_mask(T), open_mask(B, T, S)

    def attend(y):
        return self_attention(
            p.self_attention, y, mask=mask, return_weights=True
        )

    def look(y):
        return cross_attention(
            p.cross_attention, y, C, mask=context_mask, return_weights=True
        )

    norms = (
        p.self_attention_norm,
        p.cross_attention_norm,
        p.feed_forward_norm,
    )
    if norm_first:
        attended, own = attend(layer_norm(norms[0], X))
        u = X + attended
        seen, crossed = look(layer_norm(norms[1], u))
        v = u + seen
        z = v + feed_forward(p.feed_forward, layer_norm(norms[2], v))
    else:
        attended, own = attend(X)
        u = layer_norm(norms[0], X + attended)
        seen, crossed = look(u)
        v = layer_norm(norms[1], u + seen)
        z = layer_norm(norms[2], v + feed_forward(p.feed_forward, v))
    ours = decoder_layer(
        decoder_parameters(make, norm_first=norm_first),
        make(X),
        make(C),
        mask=make(mask),
        context_mask=make(context_mask),
        return_weights=True,
    )
    for one, other in zip(ours, (z, own, crossed), strict=True):
        assert_close(one, other)
    assert ours[1].shape[1] == h
    assert ours[2].shape[1] == 4


@pre_and_post
def test_asking_for_weights_changes_nothing(norm_first):
    p = encoder_parameters(norm_first=norm_first)
    assert np.array_equal(
        encoder_layer(p, X), encoder_layer(p, X, return_weights=True)[0]
    )
    p = decoder_parameters(norm_first=norm_first)
    assert np.array_equal(
        decoder_layer(p, X, C),
        decoder_layer(p, X, C, return_weights=True)[0],
    )


# ---- torch's layers ----


def gradients(output, *wanted):
    return [output, *torch.autograd.grad(output.square().sum(), wanted)]


@pytest.mark.parametrize("masked", [False, True], ids=["open", "masked"])
@each_kind
def test_an_encoder_layer_equals_that_of_torch(
    norm_first, activation, masked
):
    theirs = torch_layer(
        "Encoder", norm_first=norm_first, activation=activation
    )
    p = EncoderLayerParameters.from_torch(theirs)
    x = torch.tensor(X, requires_grad=True)
    mask, torch_masks = None, {}
    if masked:
        mask = combine_masks(
            causal_mask(T, like=x), padding_mask(torch.tensor(LENGTHS), T)
        )
        torch_masks = {
            "src_mask": ~causal_mask(T, like=x),
            "src_key_padding_mask": ~padding_mask(torch.tensor(LENGTHS), T)[
                :, 0
            ],
        }
    wanted = x, *theirs.parameters()
    ours = gradients(encoder_layer(p, x, mask=mask), *wanted)
    expected = gradients(theirs(x, **torch_masks), *wanted)
    for one, other in zip(ours, expected, strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("masked", [False, True], ids=["open", "masked"])
@each_kind
def test_a_decoder_layer_equals_that_of_torch(
    norm_first, activation, masked
):
    theirs = torch_layer(
        "Decoder", norm_first=norm_first, activation=activation
    )
    p = DecoderLayerParameters.from_torch(theirs)
    x, context = leaves(X, C_D)
    masks, torch_masks = {}, {}
    if masked:
        padding = padding_mask(torch.tensor(LENGTHS), T)
        c_padding = padding_mask(torch.tensor(C_LENGTHS), S)
        masks = {
            "mask": combine_masks(causal_mask(T, like=x), padding),
            "context_mask": c_padding,
        }
        torch_masks = {
            "tgt_mask": ~causal_mask(T, like=x),
            "tgt_key_padding_mask": ~padding[:, 0],
            "memory_key_padding_mask": ~c_padding[:, 0],
        }
    wanted = x, context, *theirs.parameters()
    ours = gradients(decoder_layer(p, x, context, **masks), *wanted)
    expected = gradients(theirs(x, context, **torch_masks), *wanted)
    for one, other in zip(ours, expected, strict=True):
        assert_close(one, other)


@pytest.mark.parametrize(
    "options", [{"bias": False}, {"batch_first": False}]
)
def test_layers_of_torch_without_biases_or_batch_first_are_read(options):
    x, c = torch.tensor(X), torch.tensor(C_D)
    encoder, decoder = (
        torch_layer(kind, **options) for kind in ("Encoder", "Decoder")
    )

    def turn(y):
        return y if options.get("batch_first", True) else y.transpose(0, 1)

    assert_close(
        encoder_layer(EncoderLayerParameters.from_torch(encoder), x),
        turn(encoder(turn(x))),
    )
    assert_close(
        decoder_layer(DecoderLayerParameters.from_torch(decoder), x, c),
        turn(decoder(turn(x), turn(c))),
    )


@pytest.mark.parametrize(
    "bend", [torch.nn.ReLU(), torch.nn.GELU()], ids=["relu", "gelu"]
)
def test_an_activation_that_is_a_module_is_read(bend):
    theirs = torch_layer("Encoder", activation=bend)
    p = EncoderLayerParameters.from_torch(theirs)
    assert_close(encoder_layer(p, torch.tensor(X)), theirs(torch.tensor(X)))


@each_kind
def test_numpy_gives_what_torch_gives(norm_first, activation):
    options = {"norm_first": norm_first, "activation": activation}
    one = torch_layer("Encoder", **options)
    two = torch_layer("Decoder", **options)
    p = EncoderLayerParameters.from_torch(one)
    q = DecoderLayerParameters.from_torch(two)
    assert_close(
        encoder_layer(map_arrays(p, numpy_of), X), one(torch.tensor(X))
    )
    assert_close(
        decoder_layer(map_arrays(q, numpy_of), X, C_D),
        two(torch.tensor(X), torch.tensor(C_D)),
    )


def test_mapping_keeps_all_that_is_no_array():
    p = decoder_parameters(norm_first=True, activation="gelu")
    doubled = map_arrays(p, lambda x: 2 * x)
    assert doubled.norm_first
    assert doubled.feed_forward.activation == "gelu"
    assert doubled.cross_attention.heads == 4
    assert np.array_equal(
        doubled.self_attention_norm.gain, 2 * p.self_attention_norm.gain
    )


# ---- masks ----


@pre_and_post
@each_library
def test_padding_reaches_no_other_position_nan_included(make, norm_first):
    x, context = X.copy(), C.copy()
    for b in range(B):
        x[b, LENGTHS[b] :] = np.nan
        context[b, C_LENGTHS[b] :] = np.nan
    mask = make(padding_mask(LENGTHS, T))
    context_mask = make(padding_mask(C_LENGTHS, S))
    p = encoder_parameters(norm_first=norm_first)
    q = decoder_parameters(norm_first=norm_first)
    encoded = encoder_layer(
        encoder_parameters(make, norm_first=norm_first), make(x), mask=mask
    )
    decoded = decoder_layer(
        decoder_parameters(make, norm_first=norm_first),
        make(x),
        make(context),
        mask=mask,
        context_mask=context_mask,
    )
    for b, (n, m) in enumerate(zip(LENGTHS, C_LENGTHS, strict=True)):
        assert_close(numpy_of(encoded)[b, :n], encoder_layer(p, X[b, :n]))
        assert_close(
            numpy_of(decoded)[b, :n],
            decoder_layer(q, X[b, :n], C[b, :m]),
        )


@pre_and_post
def test_nan_in_a_shut_context_reaches_no_gradient(norm_first):
    q = decoder_parameters(
        lambda x: torch.tensor(x, requires_grad=True), norm_first=norm_first
    )
    grads = []
    for filler in (0.0, torch.nan):
        x, context = leaves(X, C)
        shut = ~padding_mask(torch.tensor(C_LENGTHS), S)
        given_ = context.masked_fill(shut.mT, filler)
        output = decoder_layer(q, x, given_, context_mask=~shut)
        arrays = list(q.cross_attention.arrays().values())
        grads.append(gradients(output, x, context, *arrays))
    for one, other in zip(*grads, strict=True):
        assert one.isfinite().all()
        assert_close(one, other)


def test_a_causal_mask_lets_nothing_from_later_through():
    p, later = decoder_parameters(), X.copy()
    later[:, 2] *= -50
    mask = causal_mask(T)
    one, other = (decoder_layer(p, x, C, mask=mask) for x in (X, later))
    assert np.array_equal(one[:, :2], other[:, :2])
    assert (one[:, 2] != other[:, 2]).any(-1).all()


def test_without_a_mask_a_decoder_layer_is_not_causal():
    p, later = decoder_parameters(), X.copy()
    later[:, 2] += 1
    assert (decoder_layer(p, X, C) != decoder_layer(p, later, C))[
        :, 0
    ].any()


def test_a_mask_of_heads_is_for_heads_where_batch_heads_and_lengths_agree():
    n = 2
    p = encoder_parameters()
    x, mask = normal(n, n, D), open_mask(n, n, n, n)
    _, weights = encoder_layer(p, x, mask=mask, return_weights=True)
    assert ((weights > 0) == mask).all()
    _, weights = encoder_layer(p, x, mask=mask[:, 0], return_weights=True)
    assert ((weights > 0) == mask[:, :1]).all()


# ---- batch axes, dtypes, empty input ----


@st.composite
def batches(draw):
    """Batch axes of a target and of a context that broadcast."""
    full = draw(st.lists(st.integers(1, 3), max_size=2))
    return [
        tuple(
            draw(st.sampled_from([1, size]))
            for size in full[draw(st.integers(0, len(full))) :]
        )
        for _ in range(2)
    ]


@given(batches(), st.booleans())
def test_batch_axes_broadcast(axes, norm_first):
    p = decoder_parameters(norm_first=norm_first)
    x, c = normal(*axes[0], T, D), normal(*axes[1], S, D_c)
    batch = np.broadcast_shapes(*axes)
    output, own, crossed = decoder_layer(p, x, c, return_weights=True)
    assert output.shape == (*batch, T, D)
    assert own.shape == (*axes[0], h, T, T)
    assert crossed.shape == (*batch, 4, T, S)
    x = np.broadcast_to(x, (*batch, T, D))
    c = np.broadcast_to(c, (*batch, S, D_c))
    for b in np.ndindex(*batch):
        assert_close(output[b], decoder_layer(p, x[b], c[b]))


@given(
    st.permutations(range(4)),
    st.booleans(),
    st.sampled_from(["relu", "gelu"]),
)
def test_an_encoder_layer_does_not_see_the_order(order, norm_first, bend):
    p = encoder_parameters(norm_first=norm_first, activation=bend)
    x = normal(4, D)
    assert_close(
        encoder_layer(p, x[list(order)]), encoder_layer(p, x)[list(order)]
    )


@each_library
def test_an_empty_batch_gives_an_empty_batch(make):
    p, q = encoder_parameters(make), decoder_parameters(make)
    assert tuple(encoder_layer(p, make(X[:0])).shape) == (0, T, D)
    out = decoder_layer(q, make(X[:0]), make(C[:0]))
    assert tuple(out.shape) == (0, T, D)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@each_library
def test_the_dtype_is_kept(make, dtype):
    p = encoder_parameters(make, dtype=dtype, activation="gelu")
    x = make(X.astype(dtype))
    output, weights = encoder_layer(p, x, return_weights=True)
    assert output.dtype == weights.dtype == x.dtype
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    p = encoder_parameters(activation="gelu")
    assert_close(output, encoder_layer(p, X), tolerance)


def test_inputs_are_never_changed():
    p, x, c = decoder_parameters(), X.copy(), C.copy()
    decoder_layer(p, x, c, mask=causal_mask(T))
    encoder_layer(encoder_parameters(norm_first=True), x)
    assert np.array_equal(x, X)
    assert np.array_equal(c, C)
