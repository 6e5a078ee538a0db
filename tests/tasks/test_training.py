"""A model that learns number words: what it reaches, that a seed fixes it, and what the scores count."""

import math
from dataclasses import replace
from itertools import cycle, islice

import numpy as np
import pytest
import torch

from attention_in_detail import map_arrays, transformer
from attention_in_detail.nn import Transformer
from attention_in_detail.tasks import scores, training
from attention_in_detail.tasks.number_words import (
    batches,
    german_words,
    make_batch,
    split_numbers,
)
from attention_in_detail.tasks.training import (
    numpy_parameters,
    teacher_forced_loss,
    train,
    train_number_words,
)
from attention_in_detail.trained import trained_number_words

HELD_OUT = split_numbers()[1]
NUMBERS = [0, 16, 677, 717_016, 21_021]  # all but 0 come out right


def small_model(seed=0):
    torch.manual_seed(seed)
    return Transformer(
        32, 29, 8, 2, encoder_layers=1, decoder_layers=1, D_ff=6
    ).double()


# ---- what is reached ----


def assert_reaches_the_numbers(seed):
    model, losses = train_number_words(seed=seed)
    p = numpy_parameters(model)
    assert len(HELD_OUT) == 1000
    assert scores.exact_share(p, HELD_OUT) >= 0.98
    assert scores.alignment_scores(p, HELD_OUT).max() >= 0.85
    assert losses[0] > 3 > 0.05 > losses[-1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_training_reaches_the_numbers(seed):
    assert_reaches_the_numbers(seed)


def test_training_is_on_its_way_after_a_few_steps():
    _, losses = train_number_words(seed=0, steps=40, size=32)
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])


# ---- training ----


def test_a_seed_fixes_everything_and_leaves_the_generator_of_torch_alone():
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    one, losses = train_number_words(seed=1, steps=3, size=8)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.rand(7)
    two, again = train_number_words(seed=1, steps=3, size=8)
    other, different = train_number_words(seed=2, steps=3, size=8)
    assert losses == again != different
    for x, y, z in zip(
        one.parameters(),
        two.parameters(),
        other.parameters(),
        strict=True,
    ):
        assert torch.equal(x, y)
        assert not torch.equal(x, z)
    assert not one.training


def test_both_precisions_start_from_the_same_weights():
    said = {
        dtype: train_number_words(seed=1, steps=3, size=8, dtype=dtype)
        for dtype in ("float32", "float64")
    }
    for dtype, (model, _) in said.items():
        assert model.output.weight.dtype == getattr(torch, dtype)
    np.testing.assert_allclose(
        said["float32"][1], said["float64"][1], rtol=1e-5
    )


def test_layers_are_pre_norm_or_post_norm():
    for norm_first in (False, True):
        model, _ = train_number_words(
            seed=0, steps=1, size=1, norm_first=norm_first
        )
        assert model.decoder_layers[0].norm_first is norm_first
        assert model.dropout == training.DROPOUT > 0


def test_progress_is_told_in_the_same_words():
    told = []
    model = small_model()
    given = cycle(islice(batches([5, 6], 4, seed=0), 1))
    options = {"steps": 5, "warm_up": 2, "report": told.append, "every": 2}
    losses = train(model, given, teacher_forced_loss, **options)
    assert told == [
        f"step    2: loss {losses[1]:.3f}",
        f"step    4: loss {losses[3]:.3f}",
    ]
    assert len(losses) == 5


def test_the_rate_rises_and_falls():
    share = training.share_of_rate
    assert [share(n, 300, 200) for n in (1, 100, 200)] == [0.005, 0.5, 1]
    assert share(250, 300, 200) == pytest.approx(0.5)
    assert share(300, 300, 200) == pytest.approx(0)
    assert [share(n, 4, 200) for n in (1, 2, 4)] == [0.25, 0.5, 1]
    assert share(1, 4, 0) == pytest.approx((1 + math.cos(math.pi / 4)) / 2)


def test_a_step_of_adamw_by_hand():
    """The first step moves each weight by the rate against the sign of its gradient, after the decay."""
    model = torch.nn.Linear(2, 1, bias=False).double()
    before = model.weight.detach().clone()
    slope = torch.tensor([[3.0, -0.5]], dtype=torch.float64)
    losses = train(
        model,
        [slope],
        lambda model, batch: (model.weight * batch).sum(),
        steps=1,
        warm_up=4,
        rate=0.1,
    )
    wanted = before * (1 - 0.1 * 0.01) - 0.1 * slope.sign()
    assert losses == [(before * slope).sum().item()]
    np.testing.assert_allclose(
        model.weight.detach(), wanted, rtol=0, atol=1e-6
    )


def test_batches_that_end_too_early_are_one_error():
    given = islice(batches([5], 1, seed=0), 2)
    with pytest.raises(
        ValueError, match=r"^batches ended after 2, but steps is 3$"
    ):
        train(small_model(), given, teacher_forced_loss, steps=3)


def test_one_thread_and_then_as_many_as_before():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    seen = []

    def loss(model, batch):
        seen.append((torch.get_num_threads(), model.training))
        return model.weight.sum()

    train(torch.nn.Linear(1, 1), [0], loss, steps=1)
    assert seen == [(1, True)]
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


@pytest.mark.claim("def-teacher-forced-loss")
def test_loss_is_the_mean_over_real_positions():
    model, batch = small_model(), make_batch(NUMBERS)
    p = numpy_parameters(model)
    parts = []
    for n in NUMBERS:  # one at a time, without padding
        one = make_batch([n])
        z = transformer(p, one.source[0], one.given[0])
        z = z - z.max(-1, keepdims=True)
        logs = z - np.log(np.exp(z).sum(-1, keepdims=True))
        parts += [
            logs[i, token] for i, token in enumerate(one.wanted[0].tolist())
        ]
    found = teacher_forced_loss(model, batch).item()
    assert found == pytest.approx(-np.mean(parts), abs=1e-12)
    assert len(parts) == batch.target_lengths.sum()


def test_numpy_parameters_are_copies():
    model = small_model()
    p = numpy_parameters(model)
    before = p.W_output.copy()
    with torch.no_grad():
        model.output.weight.zero_()
    assert np.array_equal(p.W_output, before)
    assert before.any()


# ---- scores, on the stored model ----

TRAINED = trained_number_words()


def test_translations_and_their_share():
    assert scores.translations(TRAINED, NUMBERS[1:]) == [
        german_words(n) for n in NUMBERS[1:]
    ]
    assert scores.exact_share(TRAINED, NUMBERS[1:]) == 1
    some = HELD_OUT[:12]
    alone = [scores.exact_share(TRAINED, [n]) for n in some]
    assert scores.exact_share(TRAINED, some) == np.mean(alone)


def test_a_wrong_token_is_not_exact():
    shifted = replace(
        TRAINED, b_output=TRAINED.b_output + 100 * np.eye(29)[5]
    )
    assert scores.exact_share(shifted, NUMBERS) == 0


def test_cross_weights_of_a_batch_are_those_of_each_alone():
    together = scores.cross_weights(TRAINED, NUMBERS)
    for n, one in zip(NUMBERS, together, strict=True):
        [alone] = scores.cross_weights(TRAINED, [n])
        assert (alone.english, alone.german) == (one.english, one.german)
        assert one.german == [*german_words(n), "<end>"]
        assert one.english[-1] == "<end>"
        assert one.gold[-1] is None
        T, S = len(one.german), len(one.english)
        assert one.weights.shape == (2, 4, T, S) == alone.weights.shape
        np.testing.assert_allclose(
            one.weights, alone.weights, rtol=0, atol=1e-12
        )
        np.testing.assert_allclose(one.weights.sum(-1), 1, atol=1e-12)


@pytest.mark.claim("def-alignment-score")
def test_alignment_scores_against_a_count_of_single_tokens():
    hits, asked = np.zeros((2, 4)), 0
    for one in scores.cross_weights(TRAINED, HELD_OUT[:40]):
        for i, place in enumerate(one.gold):
            if one.german[i] in ("und", "<end>"):
                continue
            asked += 1
            for layer in range(2):
                for head in range(4):
                    row = one.weights[layer, head, i].tolist()
                    hits[layer, head] += row.index(max(row)) == place
    found = scores.alignment_scores(TRAINED, HELD_OUT[:40])
    np.testing.assert_allclose(found, hits / asked, rtol=0, atol=1e-12)


def test_torch_parameters_are_to_be_converted():
    p = map_arrays(TRAINED, torch.from_numpy)
    with pytest.raises(TypeError, match="map_arrays converts them"):
        scores.exact_share(p, NUMBERS)
