"""What is stored of the translator is what its weights give; another sentence is computed."""

from importlib import resources

import numpy as np
import pytest

from attention_in_detail import stored
from attention_in_detail.models import (
    WeightsError,
    crossings,
    load_translator,
    read_source,
    translate,
    translator,
    without_cross_head,
    write_target,
)
from tests.translator_support import needs_weights, small_translator

STORED = crossings.stored_crossings()
each = pytest.mark.parametrize(
    "kept", STORED, ids=lambda kept: kept.sentence
)


@pytest.fixture(scope="module")
def model():
    return load_translator()


@needs_weights
@each
def test_stored_translations_and_maps_are_those_of_the_model(kept, model):
    found = translate(model, kept.sentence)
    assert kept.text == found.text
    assert kept.source == found.source
    assert kept.target == found.target
    assert kept.weights.dtype == np.float32
    assert kept.weights.shape == found.weights.shape
    assert abs(kept.weights - found.weights).max() < 1e-3  # float16 once
    assert abs(kept.weights.sum(-1) - 1).max() < 2e-3


@needs_weights
def test_stored_drops_and_texts_are_those_of_the_model(model):
    kept = STORED[3]
    drops, texts = crossings.cross_silencing(model, kept.sentence)
    assert drops.shape == (2, 8)
    assert abs(drops - kept.drops).max() < 1e-3
    assert texts == kept.texts


@needs_weights
def test_stored_pieces_of_turned_heads_are_those_of_the_model(model):
    kept = STORED[3]
    for heads, pieces in (
        ([0], kept.forced_head),
        (range(8), kept.forced_layer),
    ):
        found = crossings.forced(model, kept.sentence, heads)
        assert np.mean(np.array(found) == np.array(pieces)) > 0.98  # ties


@each
def test_pairs_are_of_pieces_that_are_there(kept):
    T, S = len(kept.target), len(kept.source)
    assert kept.weights.shape == (2, 8, T, S)
    assert kept.pairs.shape == (T, S)
    assert kept.pairs.dtype == bool
    assert not kept.pairs[-1].any()  # </s> renders nothing
    assert not kept.pairs[:, -1].any()
    assert kept.pairs[:-1].any(-1).mean() > 0.85
    assert np.array_equal(kept.pairs_before[1:], kept.pairs[:-1])
    assert not kept.pairs_before[0].any()
    for table in (kept.forced_head, kept.forced_layer):
        assert np.array(table).shape == (T, S)
    assert np.array(kept.texts).shape == kept.drops.shape == (2, 8)


def test_pairs_name_words_that_render_each_other():
    named = {
        (target, source)
        for kept in STORED
        for t, target in enumerate(kept.target)
        for s, source in enumerate(kept.source)
        if kept.pairs[t, s]
    }
    assert {
        ("▁Espaço", "▁Area"),
        ("▁Económico", "▁Economic"),
        ("▁Europeu", "▁European"),
        ("▁vermelho", "▁red"),
        ("▁branca", "▁white"),
        ("▁igreja", "▁church"),
        ("▁casa", "▁house"),
        ("▁orçamento", "▁budget"),
        ("▁cão", "▁dog"),
        ("▁velho", "▁man"),
        ("▁Segurança", "▁Security"),
        ("feira", "▁Monday"),
    } <= named
    assert ("▁Espaço", "▁European") not in named


def test_all_maps_of_the_book_are_small():
    sizes = [
        len(entry.read_bytes())
        for entry in resources.files(stored).iterdir()
        if entry.name.endswith(".npz")
    ]
    assert len(sizes) > 1
    assert sum(sizes) < 500_000


def test_stored_sentence_needs_no_weights(monkeypatch):
    crossings._model.cache_clear()
    monkeypatch.setattr(crossings, "load_translator", None)
    assert crossings.translation(STORED[2].sentence) is STORED[2]


@needs_weights
def test_another_sentence_is_computed():
    found = crossings.translation("The dog sleeps.")
    assert found.text == "O cão dorme."
    assert found.source == ["▁The", "▁dog", "▁sleep", "s", ".", "</s>"]
    assert not isinstance(found, crossings.Crossing)


def test_another_sentence_without_weights_is_one_error(monkeypatch):
    crossings._model.cache_clear()
    known = translator.WEIGHTS
    gone = type(known)(
        known.requirement, "no_such_package_anywhere", known.path, "0"
    )
    monkeypatch.setattr(translator, "WEIGHTS", gone)
    with pytest.raises(WeightsError, match="is not installed; install it"):
        crossings.translation("The dog sleeps.")


# ---- by their definitions, in a model that is small enough to make


def by_pieces(model, sentence):
    found = translate(model, sentence)
    ids = np.array([model.tokenizer.pieces.index(p) for p in found.target])
    return read_source(model, model.ids(sentence)), ids


def test_drop_is_the_mean_of_what_the_logarithms_lose():
    model, sentence = small_translator(), "abcafed"
    context, ids = by_pieces(model, sentence)
    drops, texts = crossings.cross_silencing(model, sentence)
    for layer in range(2):
        for head in range(2):
            other = without_cross_head(model, layer, head)
            lost = 0
            for t, n in enumerate(ids):
                for sign, m in ((1, model), (-1, other)):
                    # what follows t changes nothing, so it may be left out
                    scores, _ = write_target(m, context, ids[: t + 1])
                    lost += sign * scores[t, n]
            assert abs(drops[layer, head] - lost / len(ids)) < 1e-12
            assert texts[layer][head] == translate(other, sentence).text
    assert abs(drops).max() > 0.01


def test_forcing_all_places_at_once_is_forcing_one_at_a_time():
    model, sentence = small_translator(), "abcafed"
    context, ids = by_pieces(model, sentence)
    T, S = len(ids), len(context)
    for heads in ([1], [0, 1]):
        found = crossings.forced(model, sentence, heads)
        for t in range(T):
            for s in range(S):
                mask = np.ones((2, 2, T, S), dtype=bool)
                mask[1, heads, t] = np.arange(S) == s
                scores, weights = write_target(
                    model, context, ids, mask=mask
                )
                assert (weights[1, heads, t, s] == 1).all()
                best = scores[t].argmax()
                assert found[t][s] == model.tokenizer.pieces[best]
