"""The small decoder of the chapter on models of today: how it is trained, and what is stored."""

import hashlib
import runpy
import sys

import numpy as np
import pytest
import torch

from attention_in_detail import (
    DecoderOnlyParameters,
    decoder_only,
    map_arrays,
)
from attention_in_detail.insights import decoder_only as module
from attention_in_detail.insights.decoder_only import train_decoder_only
from attention_in_detail.tasks.repeating import (
    VOCABULARY,
    draw_repeating,
    right_share,
)
from attention_in_detail.trained import SHA256, _files


def arrays(parameters):
    found = []
    map_arrays(parameters, lambda x: found.append(x) or x)
    return found


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(module, "BATCH", 4)


@pytest.mark.usefixtures("small_batches")
def test_what_is_trained_has_the_choices_that_were_made():
    p = train_decoder_only(seed=3, steps=2)
    assert isinstance(p, DecoderOnlyParameters)
    assert p.embedding.shape == (len(VOCABULARY), 32)
    assert (p.rotary_base, p.before, p.sinks, p.cap) == (10000.0, 7, 1, 30)
    assert [layer.attention.heads for layer in p.layers] == [4, 4]
    assert [layer.attention.h_kv for layer in p.layers] == [2, 2]
    for x in arrays(p):
        assert x.dtype == torch.float64
        assert not x.requires_grad
    other = train_decoder_only(
        seed=3, steps=2, kv_heads=1, rotary_base=None, sinks=0
    )
    assert (other.rotary_base, other.sinks) == (None, 0)
    assert other.layers[1].attention.h_kv == 1


@pytest.mark.usefixtures("small_batches")
def test_training_lowers_the_loss_and_repeats_itself(capsys):
    one = train_decoder_only(seed=1, steps=16, report=4)
    lines = capsys.readouterr().out.splitlines()
    losses = [float(line.split()[-1]) for line in lines]
    assert len(losses) == 4
    assert losses[-1] < losses[0] - 0.3
    again = train_decoder_only(seed=1, steps=16)
    for x, y in zip(arrays(one), arrays(again), strict=True):
        assert torch.equal(x, y)
    other = train_decoder_only(seed=2, steps=2)
    assert not torch.equal(one.embedding, other.embedding)


@pytest.mark.usefixtures("small_batches")
def test_every_array_is_trained():
    drawn = module.drawn_decoder(1, 2, 10000.0, 1)
    trained = train_decoder_only(seed=1, steps=2)
    for x, y in zip(arrays(drawn), arrays(trained), strict=True):
        assert (x - y).abs().max() > 1e-5


def test_no_two_seeds_and_no_test_share_a_batch(monkeypatch):
    asked = []
    whole = module.draw_repeating.unchecked

    def noted(size, *, seed):
        asked.append(seed)
        return whole(2, seed=seed)

    monkeypatch.setattr(module.draw_repeating, "unchecked", noted)
    for seed in (0, 1):
        train_decoder_only(seed=seed, steps=3)
    assert len(set(asked)) == 6
    assert min(asked) >= 100_000


@pytest.mark.usefixtures("small_batches")
def test_the_script_writes_a_file_that_can_be_read(
    tmp_path, monkeypatch, capsys
):
    """Two steps instead of all."""

    def short(**options):
        assert options.pop("seed") == 0
        return train_decoder_only(seed=0, steps=2, report=None)

    monkeypatch.setattr(module, "train_decoder_only", short)
    name = "attention_in_detail.trained.decoder_only"
    monkeypatch.setattr(sys, "argv", [name, str(tmp_path)])
    monkeypatch.delitem(sys.modules, name, raising=False)
    runpy.run_module(name, run_name="__main__")
    content = (tmp_path / "decoder_only.npz").read_bytes()
    assert capsys.readouterr().out == (
        f"decoder_only.npz: {len(content)} bytes, "
        f"sha256 {hashlib.sha256(content).hexdigest()}\n"
    )
    made = _files.parameters_of(content)
    assert (made.before, made.sinks, made.cap) == (7, 1, 30.0)
    for x, y in zip(arrays(made), arrays(short(seed=0)), strict=True):
        assert np.array_equal(x, y.numpy().astype("float16"))


@pytest.mark.slow
def test_training_gives_what_is_stored():
    """Half a minute. On another processor sums may be rounded otherwise; then the weights are others, and as good."""
    trained = map_arrays(train_decoder_only(seed=0), lambda x: x.numpy())
    content = _files.content_of(trained)
    tokens = draw_repeating(300, seed=9)
    assert (
        hashlib.sha256(content).hexdigest() == SHA256["decoder_only"]
        or right_share(decoder_only(trained, tokens)[0], tokens) > 0.99
    )
