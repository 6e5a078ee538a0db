import copy

import numpy as np
import pytest
import torch

from attention_in_detail import (
    greedy_decode,
    map_arrays,
    padding_mask,
    transformer,
)
from attention_in_detail.nn import Transformer
from tests.layer_support import (
    D_ff,
    V_s,
    V_t,
    drawn,
    tokens,
    torch_transformer,
)
from tests.support import B, D, S, T, assert_close, h, numpy_of
from tests.test_encoder_decoder import torch_logits

SOURCE = torch.tensor(tokens(B, S, V=V_s, seed=1))
TARGET = torch.tensor(tokens(B, T, V=V_t, seed=2))
MASK = padding_mask(torch.tensor([7, 1, 4, 6, 2]), S)
SIZES = {"encoder_layers": 2, "decoder_layers": 3, "D_ff": D_ff}
KINDS = [
    (first, bend) for first in (False, True) for bend in ("relu", "gelu")
]
each_kind = pytest.mark.parametrize(
    ("norm_first", "activation"),
    KINDS,
    ids=[f"{'pre' if f else 'post'}-{a}" for f, a in KINDS],
)


def made(**options):
    return drawn(Transformer(V_s, V_t, D, h, **SIZES | options).double())


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("mask", [None, MASK], ids=["open", "masked"])
@each_kind
def test_the_module_equals_that_of_torch(
    norm_first, activation, mask, return_weights
):
    parts = torch_transformer(norm_first=norm_first, activation=activation)
    ours = Transformer.from_torch(*parts)
    logits = ours(
        SOURCE, TARGET, source_mask=mask, return_weights=return_weights
    )
    logits = logits[0] if return_weights else logits
    theirs = torch_logits(parts, SOURCE, TARGET, mask)
    results = []
    for output, wanted in (
        (logits, list(ours.parameters())),
        (theirs, [x for part in parts for x in part.parameters()]),
    ):
        loss = output.log_softmax(-1)[..., 0].sum()
        grads = torch.autograd.grad(loss, wanted)
        # Cut into differently many tensors: compared as one bag of numbers.
        bag = torch.cat([g.flatten() for g in grads]).sort().values
        results.append((output, bag))
    for one, other in zip(*results, strict=True):
        assert_close(one, other, 2e-12)


@each_kind
def test_the_module_is_the_function_in_numpy_too(norm_first, activation):
    ours = made(norm_first=norm_first, activation=activation)
    found = ours(SOURCE, TARGET, source_mask=MASK, return_weights=True)
    p = map_arrays(ours.as_parameters(), numpy_of)
    expected = transformer(
        p,
        SOURCE.numpy(),
        TARGET.numpy(),
        source_mask=MASK.numpy(),
        return_weights=True,
    )
    assert_close(found[0], expected[0])
    for one, other in zip(found[1:], expected[1:], strict=True):
        for A, C in zip(one, other, strict=True):
            assert_close(A, C)
    assert_close(ours(SOURCE, TARGET, source_mask=MASK), found[0])


def test_final_norms_come_with_pre_norm_unless_told():
    for norm_first in (False, True):
        ours = made(norm_first=norm_first)
        assert (ours.encoder_norm is not None) == norm_first
        p = made(norm_first=norm_first, final_norm=not norm_first)
        assert (p.decoder_norm is not None) != norm_first


def test_dropout_is_for_training_alone_and_reaches_the_embeddings():
    ours, plain = made(dropout=0.5), made()
    one, two = (ours(SOURCE, TARGET) for _ in range(2))
    assert (one - two).abs().max() > 0.1
    assert_close(ours.eval()(SOURCE, TARGET), plain(SOURCE, TARGET))
    ours.train()
    for layer in (*ours.encoder_layers, *ours.decoder_layers):
        layer.eval()
    one, two = (ours(SOURCE, TARGET) for _ in range(2))
    assert (one - two).abs().max() > 0.1


def test_both_embeddings_are_dropped(monkeypatch):
    ours, seen = made(dropout=0.5), []
    monkeypatch.setattr(ours, "_drop", lambda x: seen.append(x.shape) or x)
    ours(SOURCE, TARGET)
    assert seen == [(B, S, D), (B, T, D)]


def test_a_copy_keeps_mode_and_dropout_and_shares_no_memory():
    parts = [part.eval() for part in torch_transformer(dropout=0.25)]
    ours = Transformer.from_torch(*parts)
    assert not ours.training
    dropouts = {layer.dropout for layer in ours.encoder_layers}
    assert dropouts == {ours.dropout} == {0.25}
    with torch.no_grad():
        for x in ours.parameters():
            x.zero_()
    assert all(x.any() for part in parts for x in part.parameters())


def test_embeddings_start_so_that_they_have_unit_variance_once_scaled():
    torch.manual_seed(0)
    ours = Transformer(500, 400, 64, 4, encoder_layers=1, decoder_layers=1)
    for table in (ours.source_embedding, ours.target_embedding):
        assert abs(table.weight.std() * 8 - 1) < 0.02
    assert not ours.output.bias.any()
    torch.manual_seed(5)
    ours.reset_parameters()
    state = copy.deepcopy(ours.state_dict())
    torch.manual_seed(5)
    ours.reset_parameters()
    assert all(
        torch.equal(x, state[name]) for name, x in ours.state_dict().items()
    )


def test_a_little_model_learns_to_turn_a_sequence_round():
    """Trained in torch, it gives the same tokens in NumPy, and the right ones."""
    torch.manual_seed(0)
    V, n = 6, 3  # 0 starts, 1 ends
    ours = Transformer(
        V, V, 32, 4, encoder_layers=1, decoder_layers=1, norm_first=True
    )
    numbers = np.stack(
        np.meshgrid(*[np.arange(2, V)] * n), axis=-1
    ).reshape(-1, n)
    source = torch.tensor(numbers)
    ends = torch.ones(len(source), 1, dtype=torch.int64)
    turned = torch.cat([0 * ends, source.flip(-1), ends], -1)
    optimizer = torch.optim.AdamW(ours.parameters(), lr=5e-3)
    for _ in range(120):
        logits = ours(source, turned[:, :-1])
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), turned[:, 1:].flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    given = {"start": 0, "end": 1, "limit": n + 2}
    with torch.no_grad():
        found, _ = greedy_decode(ours.as_parameters(), source, **given)
        logits = ours(source, turned[:, :-1])
    assert torch.equal(found, turned[:, 1:])
    p = map_arrays(ours.as_parameters(), lambda x: x.detach().numpy())
    again, _ = greedy_decode(p, numbers, **given)
    assert np.array_equal(again, found.numpy())
    assert_close(
        transformer(p, numbers, turned[:, :-1].numpy()), logits, 1e-5
    )
