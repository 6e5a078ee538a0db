"""The stored model: known by its hash, good at its task, the same in NumPy and torch, cached and not."""

import hashlib
import runpy
import sys
from importlib import resources

import numpy as np
import pytest
import torch

from attention_in_detail import (
    beam_decode,
    decode,
    decode_step,
    decoder_cache,
    encode,
    greedy_decode,
    map_arrays,
    padding_mask,
    trained,
    transformer,
)
from attention_in_detail.tasks.number_words import (
    END,
    GERMAN,
    LONGEST,
    START,
    german_words,
    make_batch,
    split_numbers,
    words,
)
from attention_in_detail.tasks.scores import (
    alignment_scores,
    exact_share,
)
from attention_in_detail.tasks.training import numpy_parameters
from attention_in_detail.trained import (
    WeightsError,
    _files,
    trained_number_words,
)

HELD_OUT = split_numbers()[1]
MODEL = trained_number_words()
FILE = resources.files(trained).joinpath("number_words.npz")
ASKED = {"start": START, "end": END, "limit": LONGEST + 1}
FEW = [0, 1, 16, 677, 21_021, 717_016, *HELD_OUT[:4].tolist()]


def arrays(parameters):
    found = []
    map_arrays(parameters, lambda x: found.append(x) or x)
    return found


def batch_of(numbers):
    batch = make_batch(numbers)
    mask = padding_mask(batch.source_lengths, batch.source.shape[1])
    return batch, mask


# ---- the file ----


def test_the_file_is_small_and_known():
    content = FILE.read_bytes()
    assert len(content) < 400_000
    known = hashlib.sha256(content).hexdigest()
    assert known == trained.SHA256["number_words"]


def test_the_file_of_these_parameters_is_the_file():
    """Stored again, read again: nothing is lost, and the bytes do not depend on the day."""
    content = FILE.read_bytes()
    assert _files.content_of(MODEL) == content
    again = _files.parameters_of(content)
    for x, y in zip(arrays(MODEL), arrays(again), strict=True):
        assert x.dtype == np.float64
        assert np.array_equal(x, y)
    layer = again.decoder_layers[1]
    assert layer.norm_first is MODEL.decoder_layers[1].norm_first
    assert layer.cross_attention.heads == 4
    assert layer.feed_forward.activation == "relu"
    assert layer.cross_attention_norm.eps == 1e-5


def test_a_dtype_is_chosen():
    for dtype in ("float32", "float64"):
        kept = arrays(trained_number_words(dtype))
        assert {x.dtype.name for x in kept} == {dtype}
        assert sum(x.size for x in kept) < 200_000


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Another place for the files of weights."""
    monkeypatch.setattr(_files.resources, "files", lambda name: tmp_path)
    return tmp_path


HELP = "restore it: git checkout -- src/attention_in_detail/trained, or install the package anew"


def test_a_missing_file_is_one_line(folder):
    with pytest.raises(WeightsError) as caught:
        trained_number_words()
    assert str(caught.value) == (
        "trained/number_words.npz of the package attention_in_detail is missing; "
        + HELP
    )


@pytest.mark.parametrize("change", ["cut", "other", "empty"])
def test_an_altered_file_is_one_line(folder, change):
    content = FILE.read_bytes()
    altered = {
        "cut": content[:-1],
        "other": content[:5000] + b"?" + content[5001:],
        "empty": b"",
    }[change]
    (folder / "number_words.npz").write_bytes(altered)
    with pytest.raises(WeightsError) as caught:
        trained_number_words()
    assert str(caught.value) == (
        "trained/number_words.npz of the package attention_in_detail is not the file that this book knows "
        "(another sha256); " + HELP
    )
    (folder / "number_words.npz").write_bytes(content)
    assert trained_number_words().D == 64


def test_the_script_writes_a_file_that_can_be_read(
    tmp_path, monkeypatch, capsys
):
    """Two steps instead of all: what is made is checked by the test that trains in full."""
    from attention_in_detail.tasks import training

    whole = training.train_number_words

    def short(**options):
        assert options.pop("seed") == 0
        return whole(seed=0, steps=2, size=8, **options)

    monkeypatch.setattr(training, "train_number_words", short)
    name = "attention_in_detail.trained.number_words"
    monkeypatch.setattr(sys, "argv", [name, str(tmp_path)])
    monkeypatch.delitem(sys.modules, name, raising=False)
    runpy.run_module(name, run_name="__main__")
    content = (tmp_path / "number_words.npz").read_bytes()
    assert capsys.readouterr().out == (
        f"number_words.npz: {len(content)} bytes, "
        f"sha256 {hashlib.sha256(content).hexdigest()}\n"
    )
    model, _ = short(seed=0, dtype="float64")
    made = _files.parameters_of(content)
    for x, y in zip(
        arrays(made), arrays(numpy_parameters(model)), strict=True
    ):
        assert np.array_equal(x, y.astype("float16"))


# ---- what it can do ----


@pytest.mark.claim("obs-number-words")
def test_the_stored_model_reaches_the_numbers():
    assert exact_share(MODEL, HELD_OUT) >= 0.98
    assert alignment_scores(MODEL, HELD_OUT).max() >= 0.85


def test_numpy_and_torch_give_the_same_tokens_and_logits():
    batch, mask = batch_of(HELD_OUT[:200])
    for dtype, tolerance in (("float32", 1e-5), ("float64", 1e-12)):
        ours = trained_number_words(dtype)
        theirs = map_arrays(ours, torch.from_numpy)
        given = [batch.source, batch.given]
        logits = transformer(ours, *given, source_mask=mask)
        tensors = [torch.from_numpy(x) for x in given]
        open_to = torch.from_numpy(mask)
        also = transformer(theirs, *tensors, source_mask=open_to)
        assert abs(logits - also.numpy()).max() < tolerance
        said, total = greedy_decode(
            ours, batch.source, source_mask=mask, **ASKED
        )
        other, sum_too = greedy_decode(
            theirs, tensors[0], source_mask=open_to, **ASKED
        )
        assert np.array_equal(said, other.numpy())
        assert abs(total - sum_too.numpy()).max() < 20 * tolerance


def test_cached_is_uncached_greedily_token_by_token():
    batch, mask = batch_of(HELD_OUT[:100])
    options = {"source_mask": mask, **ASKED}
    cached, one = greedy_decode(MODEL, batch.source, **options)
    whole, two = greedy_decode(MODEL, batch.source, cached=False, **options)
    assert np.array_equal(cached, whole)
    np.testing.assert_allclose(one, two, rtol=0, atol=1e-12)
    # and so are the logits of every step
    memory = encode(MODEL, batch.source, source_mask=mask)
    logits = decode(MODEL, batch.given, memory, source_mask=mask)
    cache = decoder_cache(MODEL, memory, source_mask=mask)
    for i in range(batch.given.shape[1]):
        step, cache = decode_step(MODEL, batch.given[:, i : i + 1], cache)
        np.testing.assert_allclose(
            step[:, 0], logits[:, i], rtol=0, atol=1e-12
        )


@pytest.mark.parametrize(
    "numbers", [FEW[1:3], pytest.param(FEW, marks=pytest.mark.slow)]
)
def test_cached_is_uncached_in_a_beam_and_a_beam_of_1_is_greedy(numbers):
    for n in numbers:
        source = make_batch([n]).source[0]
        for width in (1, 3):
            cached, whole = (
                beam_decode(
                    MODEL, source, width=width, cached=flag, **ASKED
                )
                for flag in (True, False)
            )
            assert [x.tokens for x in cached] == [x.tokens for x in whole]
            np.testing.assert_allclose(
                [x.log_probability for x in cached],
                [x.log_probability for x in whole],
                rtol=0,
                atol=1e-12,
            )
            if width == 1:
                said, total = greedy_decode(MODEL, source, **ASKED)
                [only] = cached
                assert only.tokens == tuple(said.tolist())
                assert abs(only.log_probability - total) < 1e-12
            assert len(cached) == width


def test_a_beam_finds_nothing_less_probable_than_greedy():
    for n in FEW:
        source = make_batch([n]).source[0]
        best = beam_decode(MODEL, source, width=4, **ASKED)[0]
        _, total = greedy_decode(MODEL, source, **ASKED)
        assert best.log_probability >= total - 1e-12
        if n in FEW[2:6]:
            assert words(best.tokens, GERMAN) == german_words(n)
