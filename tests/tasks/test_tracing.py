"""A translation told step by step, against one made token by token without a cache, and against the rule of the task."""

import array_api_compat.numpy as numpy_namespace
import numpy as np
import pytest

from attention_in_detail import (
    beam_decode,
    decode,
    encode,
    greedy_decode,
    softmax,
)
from attention_in_detail.tasks.number_words import (
    END,
    ENGLISH,
    GERMAN,
    LONGEST,
    START,
    english_words,
    german_words,
    make_batch,
    split_numbers,
)
from attention_in_detail.tasks.scores import cross_weights, translations
from attention_in_detail.tasks.tracing import traced_translation
from attention_in_detail.trained import trained_number_words

MODEL = trained_number_words()


@pytest.mark.parametrize("number", [0, 7, 677, 717_016])
def test_each_step_is_what_the_model_says_when_it_has_written_that_far(
    number,
):
    traced = traced_translation(MODEL, number, candidates=29)
    source = make_batch([number]).source[0]
    memory, tokens = encode(MODEL, source), [START]
    for token, candidates in zip(
        traced.german, traced.candidates, strict=True
    ):
        logits, _, crossed = decode(
            MODEL, np.array(tokens), memory, return_weights=True
        )
        row = softmax(logits)[-1]
        assert sorted(GERMAN) == sorted(one.token for one in candidates)
        for one in candidates:
            expected = row[GERMAN.index(one.token)]
            assert one.probability == pytest.approx(expected, abs=1e-12)
        chances = [one.probability for one in candidates]
        assert chances == sorted(chances, reverse=True)
        assert candidates[0].token == token == GERMAN[row.argmax()]
        step = len(tokens) - 1
        for layer, A in enumerate(crossed):
            np.testing.assert_allclose(
                traced.weights[layer, :, step], A[:, -1], rtol=0, atol=1e-12
            )
        tokens.append(GERMAN.index(token))
    assert tokens[-1] == END
    assert traced.weights.shape == (2, 4, len(tokens) - 1, len(source))
    assert traced.english == [*english_words(number), ENGLISH[END]]


def test_the_product_of_the_probabilities_is_that_of_greedy_decoding():
    traced = traced_translation(MODEL, 45_067)
    source = make_batch([45_067]).source[0]
    tokens, log = greedy_decode(
        MODEL, source, start=START, end=END, limit=LONGEST + 1
    )
    assert traced.german == [GERMAN[n] for n in tokens]
    chances = [
        candidates[0].probability for candidates in traced.candidates
    ]
    assert np.log(chances).sum() == pytest.approx(float(log), abs=1e-9)
    assert {len(candidates) for candidates in traced.candidates} == {3}


def test_where_it_writes_what_is_right_the_weights_are_those_of_teacher_forcing():
    for number in (3, 21_021, 999_999):
        traced = traced_translation(MODEL, number)
        [forced] = cross_weights(MODEL, [number])
        assert traced.german == forced.german
        np.testing.assert_allclose(
            traced.weights, forced.weights, rtol=0, atol=1e-12
        )


@pytest.mark.parametrize(
    "how_many", [12, pytest.param(200, marks=pytest.mark.slow)]
)
def test_numbers_come_out_as_in_a_batch_and_are_right(how_many):
    held_out = split_numbers()[1][:how_many]
    batch = translations(MODEL, held_out)
    for number, together in zip(held_out, batch, strict=True):
        alone = traced_translation(MODEL, int(number), candidates=1)
        assert alone.german == [*together, GERMAN[END]]
        assert together == german_words(int(number))


def test_places_are_32_bits_wide_where_addresses_are(monkeypatch):
    """As in a browser, where NumPy takes no others for places in an array."""
    expected = [traced_translation(MODEL, n).german for n in (16, 45_067)]
    source = make_batch([16]).source[0]
    asked = {"start": START, "end": END, "limit": 5, "width": 3}
    beams = beam_decode(MODEL, source, **asked)
    took = []

    class Known:
        def default_dtypes(self):
            return {"indexing": np.dtype("int32")}

    def take(x, indices, /, *, axis):
        took.append(indices.dtype)
        return np.take(x, indices, axis=axis)

    monkeypatch.setattr(numpy_namespace, "__array_namespace_info__", Known)
    monkeypatch.setattr(numpy_namespace, "take", take)
    found = [traced_translation(MODEL, n).german for n in (16, 45_067)]
    assert found == expected
    assert beam_decode(MODEL, source, **asked) == beams
    assert set(took) == {np.dtype("int32")}
