"""What is stored of MiniLM is what its weights give; another sentence is computed."""

from importlib import resources

import numpy as np
import pytest

from attention_in_detail import stored
from attention_in_detail.models import (
    WeightsError,
    encode,
    load_minilm,
    maps,
    minilm,
)

STORED = maps.stored_maps()


@pytest.fixture(scope="module")
def model():
    return load_minilm()


@pytest.mark.parametrize("kept", STORED, ids=lambda kept: kept.sentence)
def test_stored_maps_are_those_of_the_model(kept, model):
    _, weights = encode(model, model.ids(kept.sentence))
    assert kept.tokens == model.tokens(kept.sentence)
    assert kept.weights.dtype == np.float32
    assert kept.weights.shape == weights.shape
    assert abs(kept.weights - weights).max() < 1e-3  # float16 once
    assert abs(kept.weights.sum(-1) - 1).max() < 2e-3


@pytest.mark.parametrize(
    "kept", [STORED[0], pytest.param(STORED[1], marks=pytest.mark.slow)]
)
def test_stored_changes_are_those_of_the_model(kept, model):
    changes = maps.silencing(model, kept.sentence)
    assert changes.shape == (6, 12)
    assert abs(changes - kept.changes).max() < 1e-4


def test_all_that_is_stored_is_small():
    file = resources.files(stored).joinpath("minilm.npz")
    assert len(file.read_bytes()) < 250_000


def test_stored_sentence_needs_no_weights(monkeypatch):
    maps._model.cache_clear()
    monkeypatch.setattr(maps, "load_minilm", None)
    assert maps.head_maps(STORED[2].sentence) is STORED[2]


def test_another_sentence_is_computed(model):
    text = "A dog sleeps."
    found = maps.head_maps(text)
    _, weights = encode(model, model.ids(text))
    assert found.tokens == ["[CLS]", "a", "dog", "sleeps", ".", "[SEP]"]
    assert abs(found.weights - weights).max() < 1e-6
    assert found.changes is None


def test_another_sentence_without_weights_is_one_error(monkeypatch):
    maps._model.cache_clear()
    known = minilm.WEIGHTS
    gone = type(known)(
        known.requirement, "no_such_package_anywhere", known.path, "0"
    )
    monkeypatch.setattr(minilm, "WEIGHTS", gone)
    with pytest.raises(WeightsError, match="is not installed; install it"):
        maps.head_maps("A dog sleeps.")
    with pytest.raises(
        TypeError, match=r"^sentence must be a text, not int"
    ):
        maps.head_maps(3)
