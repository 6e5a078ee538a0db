"""A frozen Transformer that is tuned: what is frozen stays, the four starts are what they say, and the images are fair."""

import numpy as np
import pytest
import torch

from attention_in_detail import (
    EncoderLayerParameters,
    LayerNormParameters,
    MultiHeadParameters,
    encoder_layer,
    layer_norm,
    map_arrays,
)
from attention_in_detail.insights.layer_norm import (
    GLYPHS,
    NOISE,
    PARTS,
    STARTS,
    RowReader,
    accuracy,
    glyph_images,
    layers_of,
    moved,
    pretrain_on_copying,
    restart,
    tune,
)
from attention_in_detail.nn import EncoderLayer
from attention_in_detail.pointwise import FeedForwardParameters

D, HEADS, D_FF = 12, 3, 20


def some_layers(depth=2, **options):
    torch.manual_seed(0)
    layers = [
        EncoderLayer(D, HEADS, D_ff=D_FF, **options).double()
        for _ in range(depth)
    ]
    # Biases, gains and shifts that are not those of the start.
    chance = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for layer in layers:
            for x in layer.parameters():
                x.add_(
                    0.3
                    * torch.randn(
                        x.shape, generator=chance, dtype=torch.float64
                    )
                )
    return layers


def some_parameters():
    rng = np.random.default_rng(2)

    def draw(*shape):
        return rng.standard_normal(shape) / shape[0] ** 0.5

    return [
        EncoderLayerParameters(
            MultiHeadParameters(
                *(draw(D, D) for _ in range(4)),
                *(draw(D) for _ in range(4)),
                heads=HEADS,
            ),
            LayerNormParameters(draw(D), draw(D), 1e-3),
            FeedForwardParameters(
                draw(D, D_FF),
                draw(D_FF, D),
                draw(D_FF),
                draw(D),
                activation="gelu",
            ),
            LayerNormParameters(draw(D), draw(D), 1e-3),
        )
        for _ in range(2)
    ]


def kept(model):
    return {
        name: x.detach().clone() for name, x in model.named_parameters()
    }


# ---- the images ----


def test_an_image_is_its_glyph_somewhere_and_noise():
    images, digits = glyph_images(np.random.default_rng(0), 400)
    for image, digit in zip(images.numpy(), digits.tolist(), strict=True):
        glyph = np.array(
            [[int(pixel) for pixel in row] for row in GLYPHS[digit].split()]
        )
        rest = []
        for row in range(2):
            for column in range(4):
                left = image.copy()
                left[row : row + 7, column : column + 5] -= glyph
                rest.append(left.std())
        assert min(rest) < 1.35 * NOISE
    assert set(digits.tolist()) == set(range(10))


def test_the_glyphs_differ_in_more_than_noise():
    flat = np.array([list(glyph.replace(" ", "")) for glyph in GLYPHS])
    assert flat.shape == (10, 35)
    for n, one in enumerate(flat):
        for other in flat[n + 1 :]:
            assert (one != other).sum() >= 4


def test_one_seed_gives_one_set_of_images():
    one, two, other = (
        glyph_images(np.random.default_rng(seed), 5)[0]
        for seed in (0, 0, 1)
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


# ---- the model ----


@pytest.mark.claim("def-frozen")
def test_the_model_is_its_formula():
    layers = some_layers(norm_first=True)
    model = RowReader(layers, seed=0)
    images, _ = glyph_images(np.random.default_rng(0), 3)
    p = {name: x.detach().numpy() for name, x in model.named_parameters()}
    norm = LayerNormParameters(p["norm.weight"], p["norm.bias"], 1e-5)
    x = layer_norm(norm, images.numpy() @ p["W_in"] + p["positions"])
    for layer in layers:
        x = encoder_layer(numpy_parameters(layer), x)
    wanted = x.mean(axis=1) @ p["W_out"]
    with torch.no_grad():
        given = model(images).numpy()
    np.testing.assert_allclose(given, wanted, rtol=0, atol=1e-12)


def numpy_parameters(layer):
    return map_arrays(layer.as_parameters(), lambda x: x.detach().numpy())


@pytest.mark.claim("def-frozen")
def test_every_number_is_in_exactly_one_part():
    model = RowReader(some_layers(), seed=0)
    ids = [id(x) for part in PARTS for x in model.part(part)]
    assert sorted(ids) == sorted(id(x) for x in model.parameters())
    # 2 layers with 2 norms each, and the first one: a gain and a shift of D.
    assert sum(x.numel() for x in model.part("norms")) == 5 * 2 * D


@pytest.mark.claim("prop-column-sums")
def test_without_layers_only_the_column_sums_count():
    """prop-column-sums: no layers, no first norm."""
    model = RowReader(some_layers(), seed=0)
    model.layers = torch.nn.ModuleList()
    model.norm = torch.nn.Identity()
    rng = np.random.default_rng(0)
    image = rng.standard_normal((1, 8, 8))
    shuffled = np.stack([rng.permutation(column) for column in image[0].T])
    pair = torch.tensor(np.concatenate([image, shuffled.T[None]]))
    assert not torch.allclose(pair[0], pair[1])
    with torch.no_grad():
        one, two = model(pair)
        torch.testing.assert_close(one, two, rtol=0, atol=1e-12)
    # With layers and norm they are told apart.
    with torch.no_grad():
        one, two = RowReader(some_layers(), seed=0)(pair)
    assert (one - two).abs().max() > 1e-3


def test_layers_that_do_nothing_move_nothing():
    model = RowReader(some_layers(norm_first=True), seed=0)
    images, _ = glyph_images(np.random.default_rng(0), 3)
    assert moved(model, images) > 0.1
    with torch.no_grad():
        for layer in model.layers:
            layer.narrowing.weight.zero_()
            layer.narrowing.bias.zero_()
            for x in layer.attention.parameters():
                x.zero_()
    assert moved(model, images) == 0


# ---- layers of trained parameters ----


def test_layers_of_parameters_are_the_same_function():
    parameters = some_parameters()
    x = np.random.default_rng(3).standard_normal((2, 5, D))
    wanted = x
    for p in parameters:
        wanted = encoder_layer(p, wanted)
    given = torch.tensor(x)
    with torch.no_grad():
        for layer in layers_of(parameters, dtype=torch.float64):
            given = layer(given)
    np.testing.assert_allclose(given.numpy(), wanted, rtol=0, atol=1e-12)


# ---- the four starts ----


def test_pretrained_keeps_everything_and_copies_it():
    layers = some_layers()
    again = restart(layers, "pretrained", 5)
    for one, two in zip(layers, again, strict=True):
        for x, y in zip(one.parameters(), two.parameters(), strict=True):
            assert torch.equal(x, y)
            assert x is not y


@pytest.mark.claim("obs-transfer-real")
def test_scrambled_keeps_the_numbers_and_not_their_order():
    layers = some_layers()
    again = restart(layers, "scrambled", 5)
    for one, two in zip(layers, again, strict=True):
        for x, y in zip(one.parameters(), two.parameters(), strict=True):
            assert torch.equal(x.flatten().sort()[0], y.flatten().sort()[0])
            assert not torch.equal(x, y)
    other = restart(layers, "scrambled", 6)
    assert not torch.equal(
        next(again[0].parameters()), next(other[0].parameters())
    )


@pytest.mark.claim("obs-transfer-real")
def test_frozen_layers_of_parameters_stay_as_they_were_restarted():
    """As a trained encoder is used: matrices of three starts, and all but them tuned."""
    parts = ("norms", "input", "positions", "output")
    given = layers_of(some_parameters(), dtype=torch.float64)
    images, _ = glyph_images(np.random.default_rng(0), 3)
    shown = {}
    for how in ("pretrained", "scrambled", "narrow"):
        model = RowReader(restart(given, how, 5), seed=0)
        with torch.no_grad():
            shown[how] = model(images)
        tune(model, parts, seed=0, steps=2, batch=4)
        for layer, before in zip(model.layers, given, strict=True):
            for x, y in zip(
                layer.parameters(), before.parameters(), strict=True
            ):
                if x.ndim < 2:
                    continue
                assert torch.equal(x, y) == (how == "pretrained")
                same = torch.equal(
                    x.flatten().sort()[0], y.flatten().sort()[0]
                )
                assert same == (how != "narrow")
                if how == "narrow":
                    assert x.std() < 0.04 < y.std()
    assert (shown["pretrained"] - shown["scrambled"]).abs().max() > 0.01
    assert (shown["pretrained"] - shown["narrow"]).abs().max() > 0.01


@pytest.mark.parametrize(
    ("how", "scale"),
    [
        ("narrow", lambda m, n: 0.02),
        ("glorot", lambda m, n: (2 / (m + n)) ** 0.5),
    ],
)
def test_drawn_anew_has_its_scale(how, scale):
    torch.manual_seed(0)
    layers = [EncoderLayer(64, 4, D_ff=128).double()]
    with torch.no_grad():
        for x in layers[0].parameters():
            x.fill_(7.0)
    (layer,) = restart(layers, how, 5)
    for name, x in layer.named_parameters():
        x = x.detach()
        if x.ndim == 2:
            assert float(x.std()) == pytest.approx(
                scale(*x.shape), rel=0.05
            ), name
            assert abs(float(x.mean())) < 0.1 * float(x.std())
        elif "norm" in name and name.endswith("weight"):
            assert torch.all(x == 1), name
        else:
            assert torch.all(x == 0), name


# ---- tuning ----


@pytest.mark.claim("def-frozen")
@pytest.mark.parametrize(
    "parts",
    [("output",), ("norms", "output"), ("input", "positions"), PARTS],
)
def test_tuning_moves_what_is_named_and_nothing_else(parts):
    model = RowReader(some_layers(), seed=0)
    before = kept(model)
    chosen = {id(x) for part in parts for x in model.part(part)}
    losses = tune(model, parts, seed=0, steps=3, batch=4)
    assert len(losses) == 3
    after = kept(model)
    names = {
        name for name, x in model.named_parameters() if id(x) in chosen
    }
    # A bias of the keys has no effect, so no gradient moves it.
    for name in before:
        same = torch.equal(before[name], after[name])
        if name not in names:
            assert same, name
        elif "b_K" not in name and "key" not in name:
            assert not same, name


def test_tuning_learns_and_is_reproducible():
    def run():
        model = RowReader(some_layers(), seed=0)
        return tune(model, PARTS, seed=0, steps=40, learning_rate=1e-2)

    losses = run()
    assert np.mean(losses[-10:]) < np.mean(losses[:10]) - 0.05
    assert run() == losses


def test_what_is_tuned_may_be_tuned_again_in_other_parts():
    model = RowReader(some_layers(), seed=0)
    tune(model, ("output",), seed=0, steps=1, batch=4)
    tune(model, ("norms",), seed=0, steps=1, batch=4)
    assert {id(x) for x in model.parameters() if x.requires_grad} == {
        id(x) for x in model.part("norms")
    }


def test_an_untrained_model_guesses():
    assert 0.02 < accuracy(RowReader(some_layers(), seed=0)) < 0.25


def test_a_model_that_knows_names_all_right():
    """The share is of right answers, not of wrong ones."""
    images, digits = glyph_images(np.random.default_rng(9), 50)

    class Knows(torch.nn.Module):
        def forward(self, given):
            assert torch.equal(given, images)
            return torch.nn.functional.one_hot(digits, 10)

    assert accuracy(Knows(), seed=9, count=50) == 1


def test_layers_learn_to_copy():
    layers, right = pretrain_on_copying(0, D=32, depth=1, steps=25)
    assert len(layers) == 1
    assert right > 0.08  # better than one of 16
    _, again = pretrain_on_copying(0, D=32, depth=1, steps=25)
    assert right == again
    _, untrained = pretrain_on_copying(0, D=32, depth=1, steps=1)
    assert untrained < right


# ---- refusals ----


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: glyph_images(np.random.default_rng(0), 0),
            ValueError,
            "count is 0",
        ),
        (
            lambda: restart(some_layers(), "shuffled", 0),
            ValueError,
            "how is 'shuffled', but can be: pretrained, scrambled, narrow, glorot",
        ),
        (
            lambda: restart(some_layers(), "narrow", -1),
            ValueError,
            "seed is -1",
        ),
        (
            lambda: tune(RowReader(some_layers(), 0), ("norm",), seed=0),
            ValueError,
            "parts holds 'norm', but can hold: input, positions, output, norms, layers",
        ),
        (
            lambda: tune(RowReader(some_layers(), 0), (), seed=0),
            ValueError,
            "parts must name at least one part",
        ),
        (
            lambda: layers_of(some_layers()),
            TypeError,
            "parameters must be EncoderLayerParameters, not EncoderLayer",
        ),
        (lambda: pretrain_on_copying(-1), ValueError, "seed is -1"),
    ],
)
def test_what_cannot_be_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_the_starts_are_four():
    assert STARTS == ("pretrained", "scrambled", "narrow", "glorot")
