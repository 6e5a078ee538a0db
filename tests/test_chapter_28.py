"""What chapter 28, layer norm and transfer, states: each claim of the page, recomputed or read from the stored result."""

import re

import numpy as np
import pytest
import torch

from attention_in_detail import (
    LayerNormParameters,
    layer_norm,
    multi_head_attention,
)
from attention_in_detail.insights.layer_norm import (
    STARTS,
    RowReader,
    accuracy,
    glyph_images,
    moved,
    restart,
    tune,
)
from attention_in_detail.insights.results import experiment
from attention_in_detail.nn import EncoderLayer
from tests.page_numbers import statement
from tests.test_contract import PAGES, code

TUNED = ("norms", "input", "positions", "output")


@pytest.fixture(scope="module")
def stored():
    return experiment("layer_norm")


def values(stored, key):
    return np.array(stored[key].values)


# ---- prop-column-sums and the examples by hand ----


def test_the_norm_by_hand():
    norm = LayerNormParameters(
        np.array([2.0, 0.0]), np.array([0.0, 5.0]), 1e-12
    )
    np.testing.assert_allclose(
        layer_norm(norm, np.array([1.0, 3.0])), [-2, 5], rtol=0, atol=1e-9
    )


def test_ex_transfer_hand():
    images = np.array([[[3.0, 1], [0, 2]], [[0, 1], [3, 2]]])
    assert np.array_equal(images.mean(axis=1), [[1.5, 1.5], [1.5, 1.5]])
    norm = LayerNormParameters(np.ones(2), np.zeros(2), 1e-15)
    means = layer_norm(norm, images).mean(axis=1)
    np.testing.assert_allclose(means, 0, rtol=0, atol=1e-9)


@pytest.mark.slow
def test_ex_transfer_scale():
    """Five times wider matrices bring the narrow start near Glorot's, with nothing learned."""
    torch.manual_seed(0)
    layers = [
        EncoderLayer(64, 4, norm_first=True).double() for _ in range(2)
    ]
    starts = {
        how: restart(layers, how, seed=0) for how in ("narrow", "glorot")
    }
    wider = restart(layers, "narrow", seed=0)
    with torch.no_grad():
        for layer in wider:
            for x in layer.parameters():
                if x.ndim == 2:
                    x *= 5
    starts["wider"] = wider
    images, _ = glyph_images(np.random.default_rng(3), 4)
    far, right = {}, {}
    for name, start in starts.items():
        model = RowReader(start, seed=0)
        far[name] = moved(model, images)
        tune(model, TUNED, seed=0, learning_rate=1e-2)
        right[name] = accuracy(model)
        if name == "narrow":
            # Gains move by less than one: they cannot give back the size.
            gains = [
                m.weight.detach()
                for m in model.modules()
                if isinstance(m, torch.nn.LayerNorm)
            ]
            assert max(float((g - 1).abs().max()) for g in gains) < 1
    # Without any layers it is as good as the narrow start.
    bare = RowReader(restart(layers, "narrow", seed=0), seed=0)
    bare.layers = torch.nn.ModuleList()
    tune(bare, TUNED, seed=0, learning_rate=1e-2)
    assert abs(accuracy(bare) - right["narrow"]) < 0.05
    assert far["narrow"] < 0.1 < 0.6 < far["wider"] / far["glorot"] < 1.5
    assert right["wider"] > right["narrow"] + 0.25
    assert abs(right["wider"] - right["glorot"]) < 0.12


def test_ex_transfer_keeps_repeats_what_the_page_prints():
    printed = "".join(
        output.get("text", "")
        for cell in code(PAGES["28_layer_norm"])
        for output in cell.outputs
    )
    said = re.findall(
        r"(\d\.\d+) for \*(\w+)\*", statement("sol-transfer-keeps")
    )
    assert [how for _, how in said] == ["pretrained", "scrambled"]
    for steps, how in said:
        assert re.search(
            rf"^{how} +moved by {steps}$", printed, re.MULTILINE
        )


@pytest.mark.claim("obs-transfer-small")
def test_shuffled_layers_of_the_usual_size_read_more_than_narrow_ones():
    """In small, and with nothing learned before."""
    torch.manual_seed(0)
    layers = [EncoderLayer(32, 4, norm_first=True).double()]
    right = {}
    for how in ("scrambled", "narrow"):
        model = RowReader(restart(layers, how, seed=0), seed=0)
        tune(model, TUNED, seed=0, steps=70, learning_rate=3e-2)
        right[how] = accuracy(model, seed=1, count=500)
    assert 0.2 < right["narrow"] < right["scrambled"] - 0.1


def test_ex_transfer_gain():
    """A number on the gain of a pre-norm is the same number on three projections."""
    torch.manual_seed(0)
    layer = EncoderLayer(8, 2, norm_first=True, bias=False).double()
    rng = np.random.default_rng(0)
    u = torch.tensor(rng.standard_normal((5, 8)))
    p = layer.attention.as_parameters()
    with torch.no_grad():
        by_gain = multi_head_attention(p, 3 * u, 3 * u, 3 * u)
        for linear in (
            layer.attention.query,
            layer.attention.key,
            layer.attention.value,
        ):
            linear.weight *= 3
        by_matrices = multi_head_attention(
            layer.attention.as_parameters(), u, u, u
        )
    torch.testing.assert_close(by_gain, by_matrices, rtol=0, atol=1e-12)


def test_with_a_norm_and_no_layers_the_logits_are_a_sum_over_rows():
    """What one row adds does not depend on the others."""
    model = RowReader([EncoderLayer(16, 4).double()], seed=0)
    model.layers = torch.nn.ModuleList()
    images, _ = glyph_images(np.random.default_rng(0), 2)
    mixed = images.clone()
    mixed[:, 3] = images.flip(0)[:, 3]  # row 3 of one in the other
    both = images.flip(0).clone()
    both[:, 3] = images[:, 3]
    with torch.no_grad():
        torch.testing.assert_close(
            model(mixed) + model(both),
            model(images) + model(images.flip(0)),
            rtol=0,
            atol=1e-12,
        )


# ---- the stored experiment ----


def test_the_small_layers_had_learned_to_copy(stored):
    assert values(stored, "copying").min() > 0.97


def assert_shuffled_is_as_good_and_narrow_is_not(stored, size):
    found = {how: values(stored, f"{size}_{how}") for how in STARTS}
    gap = found["pretrained"].mean() - found["scrambled"].mean()
    assert -0.06 < gap < 0.01
    assert (found["pretrained"] - found["narrow"]).min() > 1 / 3
    assert abs(found["glorot"].mean() - found["pretrained"].mean()) < 0.05


@pytest.mark.claim("obs-transfer-small")
def test_over_the_seeds_shuffled_small_layers_serve_as_well(stored):
    assert_shuffled_is_as_good_and_narrow_is_not(
        stored, "small_norms_in_out"
    )


@pytest.mark.claim("obs-transfer-real")
def test_over_the_seeds_shuffled_layers_of_a_real_encoder_read_as_well(
    stored,
):
    assert_shuffled_is_as_good_and_narrow_is_not(stored, "real_fast")


@pytest.mark.claim("obs-transfer-slow")
def test_at_the_lower_rate_pretrained_is_a_little_ahead_in_every_seed(
    stored,
):
    ahead = values(stored, "real_slow_pretrained") - values(
        stored, "real_slow_scrambled"
    )
    assert ahead.min() > 0
    assert ahead.mean() < 0.1
    narrow = values(stored, "real_slow_narrow")
    assert narrow.max() < 0.3


@pytest.mark.claim("obs-transfer-small")
def test_over_the_seeds_frozen_layers_do_not_match_whole_training(stored):
    whole = values(stored, "small_all_pretrained")
    frozen = values(stored, "small_norms_in_out_pretrained")
    assert (whole - frozen).min() > 0.1
    assert values(stored, "small_all_narrow").mean() > 0.75


@pytest.mark.claim("obs-transfer-norms")
@pytest.mark.parametrize("how", ["pretrained", "scrambled"])
def test_over_the_seeds_norms_help_most_where_the_input_is_frozen(
    stored, how
):
    alone = values(stored, f"small_norms_out_{how}") - values(
        stored, f"small_out_{how}"
    )
    besides = values(stored, f"small_norms_in_out_{how}") - values(
        stored, f"small_in_out_{how}"
    )
    assert alone.min() > 0.05
    assert alone.mean() > besides.mean() > 0
    # Most of the way is made without the norms.
    without = values(stored, f"small_in_out_{how}").mean()
    assert (
        without > 0.9 * values(stored, f"small_norms_in_out_{how}").mean()
    )


def test_narrow_layers_hardly_move_their_input(stored):
    far = {how: values(stored, f"moved_{how}") for how in STARTS}
    assert far["narrow"].max() < 0.1
    assert min(far[how].min() for how in STARTS if how != "narrow") > 1
