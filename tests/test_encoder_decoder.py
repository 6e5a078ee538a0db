import numpy as np
import pytest
import torch

from attention_in_detail import (
    DecoderLayerParameters,
    EncoderLayerParameters,
    TransformerParameters,
    causal_mask,
    decode,
    decoder_layer,
    embed,
    encode,
    encoder_layer,
    layer_norm,
    map_arrays,
    padding_mask,
    sinusoidal_positions,
    transformer,
)
from tests.layer_support import (
    V_s,
    V_t,
    tokens,
    torch_transformer,
    transformer_parameters,
)
from tests.support import (
    B,
    D,
    S,
    T,
    assert_close,
    coin,
    each_library,
    h,
    normal,
    numpy_of,
)

SOURCE, TARGET = tokens(B, S, V=V_s, seed=1), tokens(B, T, V=V_t, seed=2)
LENGTHS = np.array([7, 1, 4, 6, 2])
MASK = padding_mask(LENGTHS, S)
KINDS = [
    (first, bend) for first in (False, True) for bend in ("relu", "gelu")
]
each_kind = pytest.mark.parametrize(
    ("norm_first", "activation"),
    KINDS,
    ids=[f"{'pre' if f else 'post'}-{a}" for f, a in KINDS],
)


# ---- embedding ----


@pytest.mark.claim("def-transformer")
@each_library
def test_a_token_gives_its_scaled_row_and_its_position(make):
    table, positions = normal(V_s, D), sinusoidal_positions(S + 4, D)
    expected = np.empty((B, S, D))
    for b in range(B):
        for p in range(S):
            row = D**0.5 * table[SOURCE[b, p]]
            expected[b, p] = row + positions[p + 4]
    ours = embed(make(table), make(SOURCE), offset=4)
    assert_close(ours, expected)
    alone = embed(make(table), make(SOURCE[0, :1]))
    assert_close(alone, expected[0, :1] - positions[4] + positions[0])


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int32, np.int64])
def test_tokens_may_be_integers_of_any_kind(kind):
    table = normal(V_s, D)
    assert np.array_equal(
        embed(table, SOURCE.astype(kind)), embed(table, SOURCE)
    )
    assert torch.equal(
        embed(torch.tensor(table), torch.tensor(SOURCE.astype(kind))),
        torch.tensor(embed(table, SOURCE)),
    )


# ---- the whole ----


@pytest.mark.claim("def-transformer")
@pytest.mark.parametrize("final_norm", [True, False])
@each_kind
@each_library
def test_the_model_is_its_layers_in_order(
    make, norm_first, activation, final_norm
):
    options = {
        "norm_first": norm_first,
        "activation": activation,
        "final_norm": final_norm,
    }
    p = transformer_parameters(**options)
    x, expected = embed(p.source_embedding, SOURCE), [[], [], []]
    for layer in p.encoder_layers:
        x, A = encoder_layer(layer, x, mask=MASK, return_weights=True)
        expected[0].append(A)
    memory = layer_norm(p.encoder_norm, x) if final_norm else x
    y = embed(p.target_embedding, TARGET)
    for layer in p.decoder_layers:
        y, A, C = decoder_layer(
            layer,
            y,
            memory,
            mask=causal_mask(T),
            context_mask=MASK,
            return_weights=True,
        )
        expected[1].append(A)
        expected[2].append(C)
    y = layer_norm(p.decoder_norm, y) if final_norm else y
    logits = y @ p.W_output + p.b_output

    q = transformer_parameters(make, **options)
    ours, *weights = transformer(
        q,
        make(SOURCE),
        make(TARGET),
        source_mask=make(MASK),
        return_weights=True,
    )
    assert_close(ours, logits)
    for one, other in zip(weights, expected, strict=True):
        for a, b in zip(one, other, strict=True):
            assert_close(a, b)
    assert_close(encode(q, make(SOURCE), source_mask=make(MASK)), memory)
    plain = decode(
        q,
        make(TARGET),
        encode(q, make(SOURCE), source_mask=make(MASK)),
        source_mask=make(MASK),
    )
    assert np.array_equal(numpy_of(plain), numpy_of(ours))
    assert [len(one) for one in weights] == [2, 3, 3]


def torch_logits(parts, source, target, mask=None):
    """What torch's modules give, with our embeddings and positions spelled out."""
    module, source_embedding, target_embedding, output = parts

    def rows(embedding, given):
        P = sinusoidal_positions(given.shape[1], D)
        return D**0.5 * embedding(given) + torch.tensor(P)

    shut = None if mask is None else ~mask[:, 0]
    length = target.shape[1]
    return output(
        module(
            rows(source_embedding, source),
            rows(target_embedding, target),
            tgt_mask=~causal_mask(length, like=target),
            src_key_padding_mask=shut,
            memory_key_padding_mask=shut,
        )
    )


@pytest.mark.parametrize("masked", [False, True], ids=["open", "masked"])
@each_kind
def test_the_model_equals_that_of_torch(norm_first, activation, masked):
    parts = torch_transformer(norm_first=norm_first, activation=activation)
    p = TransformerParameters.from_torch(*parts)
    source, target = torch.tensor(SOURCE), torch.tensor(TARGET)
    mask = torch.tensor(MASK) if masked else None
    wanted = [x for part in parts for x in part.parameters()]
    results = []
    for logits in (
        transformer(p, source, target, source_mask=mask),
        torch_logits(parts, source, target, mask),
    ):
        loss = logits.log_softmax(-1)[..., 0].sum()
        results.append([logits, *torch.autograd.grad(loss, wanted)])
    for one, other in zip(*results, strict=True):
        assert_close(one, other, 2e-12)
    assert_close(
        transformer(
            map_arrays(p, numpy_of),
            SOURCE,
            TARGET,
            source_mask=MASK if masked else None,
        ),
        results[1][0],
    )


def test_each_layer_equals_that_of_torch_on_what_the_one_before_gives():
    [module, *_] = torch_transformer()
    x, c = torch.tensor(normal(B, T, D)), torch.tensor(normal(B, S, D))
    for layer in module.encoder.layers:
        p, given = EncoderLayerParameters.from_torch(layer), x
        x = layer(given)
        assert_close(encoder_layer(p, given), x)
    for layer in module.decoder.layers:
        q, given = DecoderLayerParameters.from_torch(layer), x
        x = layer(given, c)
        assert_close(decoder_layer(q, given, c), x)


# ---- what reaches what ----


@pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
def test_padding_reaches_neither_logits_nor_gradients(norm_first):
    """Other tokens in the padding: the same logits, and the same gradients but for their own rows."""
    p = transformer_parameters(
        lambda x: torch.tensor(x, requires_grad=True), norm_first=norm_first
    )
    mask, found = torch.tensor(MASK), []
    for filler in (0, 5):
        source = np.where(MASK[:, 0], np.maximum(SOURCE, 6), filler)
        logits = transformer(
            p, torch.tensor(source), torch.tensor(TARGET), source_mask=mask
        )
        attention = p.encoder_layers[0].attention
        wanted = [p.source_embedding, attention.W_Q, attention.W_V]
        grads = torch.autograd.grad(logits.square().sum(), wanted)
        assert (grads[0][:6] == 0).all()
        found.append([logits, *grads])
    for one, other in zip(*found, strict=True):
        assert_close(one, other)


def test_a_padded_source_gives_what_the_source_alone_gives():
    p = transformer_parameters()
    logits = transformer(p, SOURCE, TARGET, source_mask=MASK)
    for b, n in enumerate(LENGTHS):
        assert_close(logits[b], transformer(p, SOURCE[b, :n], TARGET[b]))


def test_logits_do_not_see_what_comes_later():
    p = transformer_parameters()
    logits = transformer(p, SOURCE, TARGET)
    for t in range(1, T):
        assert_close(transformer(p, SOURCE, TARGET[:, :t]), logits[:, :t])


def test_a_target_mask_shuts_besides_what_comes_later():
    p, mask = (
        transformer_parameters(),
        coin(B, T, T) | np.eye(T, dtype=bool),
    )
    _, _, own, _ = transformer(
        p, SOURCE, TARGET, target_mask=mask, return_weights=True
    )
    both = mask & causal_mask(T)
    for A in own:
        assert ((A > 0) == both[:, None]).all()


def test_a_mask_of_padding_falls_on_the_batch_where_it_is_as_large_as_the_heads():
    p, n = transformer_parameters(), h
    source, lengths = tokens(n, n, V=V_s), np.array([1, 2])
    mask = padding_mask(lengths, n)
    _, weights, _, crossed = transformer(
        p, source, source, source_mask=mask, return_weights=True
    )
    for A in weights + crossed:
        assert ((A > 0) == mask[:, None]).all()


@pytest.mark.parametrize(
    "batches", [((), ()), ((1,), (4,)), ((2, 1), (2, 3))]
)
def test_batch_axes_broadcast(batches):
    p = transformer_parameters()
    source = tokens(*batches[0], S, V=V_s)
    target = tokens(*batches[1], T, V=V_t)
    batch = np.broadcast_shapes(*batches)
    logits = transformer(p, source, target)
    assert logits.shape == (*batch, T, V_t)
    source = np.broadcast_to(source, (*batch, S))
    target = np.broadcast_to(target, (*batch, T))
    for b in np.ndindex(*batch):
        assert_close(logits[b], transformer(p, source[b], target[b]))


def test_an_empty_batch_gives_an_empty_batch():
    p = transformer_parameters()
    assert transformer(p, SOURCE[:0], TARGET[:0]).shape == (0, T, V_t)


@each_library
def test_float32_stays_float32(make):
    p = transformer_parameters(make, dtype=np.float32)
    logits = transformer(p, make(SOURCE), make(TARGET))
    assert logits.dtype == p.W_output.dtype
    assert_close(
        logits, transformer(transformer_parameters(), SOURCE, TARGET), 3e-5
    )
