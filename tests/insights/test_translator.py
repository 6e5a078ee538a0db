"""The translator with many heads: its losses, what it gets right, where it looks, and the file that holds it."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from attention_in_detail import greedy_decode, padding_mask
from attention_in_detail.encoder_decoder import transformer
from attention_in_detail.insights import translator
from attention_in_detail.insights.translator import (
    exact_match,
    gold_mass,
    load_translator,
    number_losses,
    split,
    tensor_batch,
    train_translator,
    training_batches,
)
from attention_in_detail.tasks.number_words import (
    END,
    START,
    gold_alignment,
    make_batch,
)
from attention_in_detail.trained import SHA256
from attention_in_detail.trained import translator as translator_script
from attention_in_detail.trained._files import parameters_of
from attention_in_detail.trees import map_arrays

TRAINED = load_translator()
NUMBERS = [7, 12, 421, 9999, 3020]


def flat(parameters):
    """The arrays, in the order of their fields."""
    found = []
    map_arrays(parameters, lambda x: found.append(x) or x)
    return found


def small(seed=0):
    model = translator._untrained(16, 2, seed).double()
    return model.requires_grad_(False).as_parameters()


def logits_of(parameters, batch):
    mask = padding_mask(batch.source_lengths, batch.source.shape[1])
    return transformer(
        parameters, batch.source, batch.given, source_mask=mask
    )


def test_the_loss_is_the_surprise_of_the_whole_word():
    p, batch = small(), tensor_batch(NUMBERS)
    said = logits_of(p, batch).log_softmax(-1)
    wanted = [
        -sum(
            float(said[b, t, batch.wanted[b, t]])
            for t in range(int(batch.target_lengths[b]))
        )
        for b in range(len(NUMBERS))
    ]
    found = number_losses(p, batch).numpy()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def test_padding_costs_nothing():
    p = small()
    together = number_losses(p, tensor_batch(NUMBERS))
    alone = [float(number_losses(p, tensor_batch([n]))) for n in NUMBERS]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-12)


def weakened():
    """The trained model without the cross-attention's first heads: some words still come out right."""
    layers = list(TRAINED.decoder_layers)
    cross = layers[0].cross_attention
    W_O = cross.W_O.clone()
    W_O[:48] = 0
    layers[0] = replace(layers[0], cross_attention=replace(cross, W_O=W_O))
    return replace(TRAINED, decoder_layers=tuple(layers))


@pytest.mark.parametrize("model", [TRAINED, weakened()])
def test_exact_match_is_that_of_greedy_decoding(model):
    batch = tensor_batch(split(0)[1][:40])
    mask = padding_mask(batch.source_lengths, batch.source.shape[1])
    said, _ = greedy_decode(
        model,
        batch.source,
        start=START,
        end=END,
        limit=12,
        source_mask=mask,
    )
    right = 0
    for b, length in enumerate(batch.target_lengths.tolist()):
        wanted = batch.wanted[b, :length].tolist()
        right += said[b, :length].tolist() == wanted
    assert right == round(40 * exact_match(model, batch))


def test_the_weakened_model_is_right_sometimes():
    batch = tensor_batch(split(0)[1][:40])
    assert 0.05 < exact_match(weakened(), batch) < 0.95
    assert exact_match(TRAINED, batch) == 1


@pytest.mark.claim("def-pattern-mass")
def test_gold_mass_against_loops():
    batch = tensor_batch([421, 7])
    found = gold_mass(TRAINED, batch)
    mask = padding_mask(batch.source_lengths, batch.source.shape[1])
    *_, crossed = transformer(
        TRAINED,
        batch.source,
        batch.given,
        source_mask=mask,
        return_weights=True,
    )
    for layer in range(2):
        for head in range(8):
            each = []
            for b, number in enumerate((421, 7)):
                looked = [
                    float(crossed[layer][b, head, t, s])
                    for t, s in enumerate(gold_alignment(number))
                    if s is not None
                ]
                each.append(np.mean(looked))
            assert abs(float(found[layer, head]) - np.mean(each)) < 1e-12


def test_the_split_leaves_no_number_out_and_takes_none_twice():
    known, held_out = split(3)
    assert len(held_out) == 500
    assert sorted([*known, *held_out]) == list(range(10_000))
    assert not np.array_equal(split(4)[1], held_out)


def test_training_never_sees_a_held_out_number():
    held_out = set(split(2)[1].tolist())
    first, other = training_batches(2), training_batches(2, noise=1)
    seen = [next(first).numbers.tolist() for _ in range(20)]
    assert not held_out & {n for numbers in seen for n in numbers}
    assert next(other).numbers.tolist() != seen[0]
    assert next(training_batches(2)).numbers.tolist() == seen[0]


def test_training_lowers_the_loss_and_repeats_itself():
    batch = tensor_batch(split(0)[1][:50])
    torch.manual_seed(5)
    before = torch.rand(1)
    p = train_translator(0, steps=12, D=16, heads=4)
    torch.manual_seed(5)
    assert torch.rand(1) == before
    q = train_translator(0, steps=12, D=16, heads=4)
    assert all(map(torch.equal, flat(p), flat(q)))
    start = map_arrays(small(), lambda x: x.float())
    assert (
        number_losses(p, batch).mean()
        < 0.9 * number_losses(start, batch).mean()
    )


def test_what_is_stored_knows_its_task():
    batch = tensor_batch(split(0)[1])
    for dtype in ("float32", "float64"):
        kept = load_translator(dtype)
        assert exact_match(kept, batch) >= 0.99
        assert {str(x.dtype) for x in flat(kept)} == {f"torch.{dtype}"}


def test_the_script_stores_what_training_gives(tmp_path, capsys):
    file = translator_script.main(tmp_path, steps=2)
    content = file.read_bytes()
    said = capsys.readouterr().out
    assert hashlib.sha256(content).hexdigest() in said
    stored = flat(parameters_of(content, "float32"))
    for x, y in zip(
        stored, flat(train_translator(0, steps=2)), strict=True
    ):
        assert np.array_equal(x, y.numpy().astype("float16"))


def test_the_stored_file_is_small_and_known():
    content = (
        Path(translator_script.__file__).with_suffix(".npz").read_bytes()
    )
    assert len(content) < 400_000
    assert hashlib.sha256(content).hexdigest() == SHA256["translator"]


REFUSALS = [
    (
        lambda: split(1.5),
        TypeError,
        "seed must be an integer, not float",
    ),
    (
        lambda: training_batches(0, noise=-1),
        ValueError,
        "noise is -1, but must be at least 0",
    ),
    (
        lambda: tensor_batch([3, 10_000]),
        ValueError,
        "a number is 10000, but must be from 0 to 9,999",
    ),
    (
        lambda: number_losses(None, tensor_batch([1])),
        TypeError,
        "parameters must be TransformerParameters, not NoneType",
    ),
    (
        lambda: exact_match(TRAINED, make_batch([1])),
        TypeError,
        "batch must be one that tensor_batch gives, not Batch",
    ),
    (
        lambda: gold_mass(TRAINED, [1]),
        TypeError,
        "batch must be one that tensor_batch gives, not list",
    ),
    (
        lambda: train_translator(0, steps=0),
        ValueError,
        "steps is 0, but must be at least 1",
    ),
    (
        lambda: load_translator("float16"),
        ValueError,
        "dtype is 'float16', but must be 'float32' or 'float64'",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSALS)
def test_refusals(call, error, message):
    with pytest.raises(error) as found:
        call()
    assert str(found.value) == message
