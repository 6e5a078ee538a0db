import copy

import numpy as np
import pytest
import torch

from attention_in_detail import (
    causal_mask,
    combine_masks,
    decoder_layer,
    encoder_layer,
    map_arrays,
    padding_mask,
)
from attention_in_detail.nn import DecoderLayer, EncoderLayer
from tests.layer_support import D_c, D_ff, drawn, torch_layer
from tests.support import (
    B,
    D,
    S,
    T,
    assert_close,
    h,
    leaves,
    normal,
    numpy_of,
)

X, C = normal(B, T, D, seed=1), normal(B, S, D, seed=2)
LENGTHS, C_LENGTHS = (
    torch.tensor([1, 3, 2, 3, 1]),
    torch.tensor([7, 1, 4, 6, 2]),
)
CAUSAL = causal_mask(T, like=torch.tensor(0))
PADDING, C_PADDING = padding_mask(LENGTHS, T), padding_mask(C_LENGTHS, S)
KINDS = [
    (first, bend) for first in (False, True) for bend in ("relu", "gelu")
]
each_kind = pytest.mark.parametrize(
    ("norm_first", "activation"),
    KINDS,
    ids=[f"{'pre' if f else 'post'}-{a}" for f, a in KINDS],
)
both_paths = pytest.mark.parametrize("return_weights", [False, True])
MODULES = {"encoder": EncoderLayer, "decoder": DecoderLayer}
each_module = pytest.mark.parametrize("made", MODULES.values(), ids=MODULES)


def run(module, x, context, **options):
    """Call either kind of layer."""
    return (
        module(x, context, **options)
        if isinstance(module, DecoderLayer)
        else module(x, **options)
    )


def first(output):
    return output[0] if isinstance(output, tuple) else output


def gradients(module, output, *inputs):
    """The output, the gradients of the inputs, and the sums of squares of the gradients of the parameters, sorted.

    The two modules cut the same numbers into differently many tensors: compared are all of them, as one bag.
    """
    parameters = list(module.parameters())
    grads = torch.autograd.grad(
        output.square().sum(), [*inputs, *parameters]
    )
    rest = torch.cat([g.flatten() for g in grads[len(inputs) :]])
    return [output, *grads[: len(inputs)], rest.sort().values]


@both_paths
@pytest.mark.parametrize("masked", [False, True], ids=["open", "masked"])
@each_kind
def test_the_encoder_layer_equals_that_of_torch(
    norm_first, activation, masked, return_weights
):
    theirs = torch_layer(
        "Encoder", norm_first=norm_first, activation=activation
    )
    ours = EncoderLayer.from_torch(theirs)
    [x] = leaves(X)
    masks, torch_masks = {}, {}
    if masked:
        masks = {"mask": combine_masks(CAUSAL, PADDING)}
        torch_masks = {
            "src_mask": ~CAUSAL,
            "src_key_padding_mask": ~PADDING[:, 0],
        }
    output = first(ours(x, **masks, return_weights=return_weights))
    expected = gradients(theirs, theirs(x, **torch_masks), x)
    for one, other in zip(
        gradients(ours, output, x), expected, strict=True
    ):
        assert_close(one, other)


@both_paths
@pytest.mark.parametrize("masked", [False, True], ids=["open", "masked"])
@each_kind
def test_the_decoder_layer_equals_that_of_torch(
    norm_first, activation, masked, return_weights
):
    theirs = torch_layer(
        "Decoder", norm_first=norm_first, activation=activation
    )
    ours = DecoderLayer.from_torch(theirs)
    x, c = leaves(X, C)
    masks, torch_masks = {}, {}
    if masked:
        masks = {
            "mask": combine_masks(CAUSAL, PADDING),
            "context_mask": C_PADDING,
        }
        torch_masks = {
            "tgt_mask": ~CAUSAL,
            "tgt_key_padding_mask": ~PADDING[:, 0],
            "memory_key_padding_mask": ~C_PADDING[:, 0],
        }
    output = first(ours(x, c, **masks, return_weights=return_weights))
    expected = gradients(theirs, theirs(x, c, **torch_masks), x, c)
    for one, other in zip(
        gradients(ours, output, x, c), expected, strict=True
    ):
        assert_close(one, other)


@each_kind
def test_modules_and_functions_are_one_in_numpy_too(norm_first, activation):
    options = {"norm_first": norm_first, "activation": activation}
    one = drawn(EncoderLayer(D, h, D_ff=D_ff, **options).double())
    two = drawn(DecoderLayer(D, h, D_c=D_c, **options).double())
    context = normal(B, S, D_c)
    assert_close(
        one(torch.tensor(X), mask=PADDING),
        encoder_layer(
            map_arrays(one.as_parameters(), numpy_of),
            X,
            mask=PADDING.numpy(),
        ),
    )
    ours = two(torch.tensor(X), torch.tensor(context), return_weights=True)
    theirs = decoder_layer(
        map_arrays(two.as_parameters(), numpy_of),
        X,
        context,
        return_weights=True,
    )
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a, b)


@pytest.mark.parametrize(
    "options",
    [{"bias": False}, {"batch_first": False}, {"layer_norm_eps": 0.1}],
    ids=str,
)
def test_other_layers_of_torch_are_copied_alike(options):
    def turn(y):
        return y if options.get("batch_first", True) else y.transpose(0, 1)

    x, c = torch.tensor(X), torch.tensor(C)
    encoder, decoder = (
        torch_layer(kind, **options) for kind in ("Encoder", "Decoder")
    )
    assert_close(
        EncoderLayer.from_torch(encoder)(x), turn(encoder(turn(x)))
    )
    assert_close(
        DecoderLayer.from_torch(decoder)(x, c),
        turn(decoder(turn(x), turn(c))),
    )


@pytest.mark.parametrize("kind", ["Encoder", "Decoder"])
def test_a_copy_keeps_dtype_mode_and_dropout_and_shares_no_memory(kind):
    made = EncoderLayer if kind == "Encoder" else DecoderLayer
    theirs = torch_layer(kind, dropout=0.25, dtype=torch.float32).eval()
    ours = made.from_torch(theirs)
    assert ours.dropout == 0.25
    assert not ours.training
    assert {x.dtype for x in ours.parameters()} == {torch.float32}
    before = copy.deepcopy(theirs.state_dict())
    with torch.no_grad():
        for x in ours.parameters():
            x.zero_()
    for name, x in theirs.state_dict().items():
        assert torch.equal(x, before[name])


# ---- dropout ----


@each_module
@both_paths
def test_dropout_is_for_training_alone(made, return_weights):
    ours = drawn(made(D, h, D_ff=D_ff, dropout=0.5).double())
    x, c = torch.tensor(X), torch.tensor(C)
    plain = drawn(made(D, h, D_ff=D_ff).double())
    options = {"return_weights": return_weights}
    one, two = (first(run(ours, x, c, **options)) for _ in range(2))
    assert (one - two).abs().max() > 0.1
    ours.eval()
    state = torch.random.get_rng_state()
    assert_close(first(run(ours, x, c, **options)), run(plain, x, c), 1e-14)
    assert torch.equal(torch.random.get_rng_state(), state)


def sums_of_dropouts(p, activation_only=False):
    """An encoder layer whose attention adds 1s and whose feed-forward network adds up D_ff ones."""
    ours = EncoderLayer(D, h, D_ff=D_ff, norm_first=True, dropout=p)
    with torch.no_grad():
        for x in ours.parameters():
            x.zero_()
        ours.attention_norm.weight.fill_(1)
        ours.attention.output.bias.fill_(1)
        ours.widening.bias.fill_(1)
        ours.narrowing.weight.fill_(1)
    return ours


def test_what_each_step_adds_and_the_activations_are_dropped():
    """With p = 1/2 what is left counts twice: x is 0, 2 from attention, and twice an even sum of at most 2·D_ff."""
    torch.manual_seed(0)
    added = sums_of_dropouts(0.5)(torch.zeros(200, 3, D))
    values = set(added.flatten().tolist())
    assert values <= {a + 4.0 * n for a in (0, 2) for n in range(D_ff + 1)}
    assert len(values) > D_ff  # the inner activations are dropped too
    # Of three quarters of the numbers something is left; the means stay.
    assert abs(added.mean() - (1 + D_ff)) < 0.3
    without = sums_of_dropouts(0.0)(torch.zeros(1, 1, D))
    assert (without == 1 + D_ff).all()


def test_each_part_has_dropout_in_the_decoder_too():
    torch.manual_seed(0)
    ours = DecoderLayer(D, h, D_ff=D_ff, norm_first=True, dropout=0.5)
    with torch.no_grad():
        for x in ours.parameters():
            x.zero_()
        ours.self_attention.output.bias.fill_(1)
        ours.cross_attention.output.bias.fill_(10)
        ours.narrowing.bias.fill_(100)
    x = torch.zeros(100, 3, D)
    values = set(ours(x, x).flatten().tolist())
    assert values == {
        a + b + c for a in (0.0, 2.0) for b in (0, 20) for c in (0, 200)
    }


@pytest.mark.parametrize("name", ["self_attention", "cross_attention"])
def test_the_weights_of_attention_are_dropped(name):
    ours = DecoderLayer(D, h, dropout=0.25)
    assert getattr(ours, name).dropout == 0.25
    assert EncoderLayer(D, h, dropout=0.25).attention.dropout == 0.25


# ---- the modules themselves ----


@each_module
def test_the_first_weights_are_those_of_glorot_and_bengio(made):
    torch.manual_seed(0)
    ours = made(128, 2, bias=True)
    bound = (6 / (128 + 512)) ** 0.5
    assert tuple(ours.widening.weight.shape) == (512, 128)
    assert ours.widening.weight.abs().max() <= bound
    assert abs(ours.widening.weight.std() / (bound / 3**0.5) - 1) < 0.02
    assert not ours.widening.bias.any()
    assert (ours.feed_forward_norm.weight == 1).all()
    torch.manual_seed(7)
    ours.reset_parameters()
    state = copy.deepcopy(ours.state_dict())
    torch.manual_seed(7)
    ours.reset_parameters()
    for name, x in ours.state_dict().items():
        assert torch.equal(x, state[name])


@each_module
def test_parameters_are_views_of_the_modules_own(made):
    ours = made(D, h)
    p = ours.as_parameters()
    (p.feed_forward.W_1.sum() + p.feed_forward_norm.gain.sum()).backward()
    assert (ours.widening.weight.grad == 1).all()
    assert (ours.feed_forward_norm.weight.grad == 1).all()


@each_module
def test_without_biases_there_are_none(made):
    names = [name for name, _ in made(D, h, bias=False).named_parameters()]
    assert not [name for name in names if "bias" in name]
    x, c = torch.tensor(X), torch.tensor(C)
    assert run(made(D, h, bias=False).double(), x, c).shape == x.shape


@each_module
def test_the_module_says_what_it_is(made):
    shown = repr(made(D, h, activation="gelu", dropout=0.25))
    assert "activation=gelu, norm_first=False, dropout=0.25" in shown


@each_module
def test_whole_numbers_of_numpy_are_whole_numbers(made):
    ours = made(np.int64(D), np.uint8(h), D_ff=np.int32(D_ff))
    assert tuple(ours.widening.weight.shape) == (D_ff, D)
    assert tuple(made(np.uint8(96), 2).widening.weight.shape) == (384, 96)


@pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
def test_padding_of_nan_reaches_no_real_row_and_no_gradient_of_the_context(
    norm_first,
):
    ours = drawn(DecoderLayer(D, h, norm_first=norm_first).double())
    [c] = leaves(C)
    x = torch.tensor(X)
    shut = ~C_PADDING.mT
    given = torch.where(shut, torch.nan, c)
    output = ours(x, given, context_mask=C_PADDING)
    assert_close(output, ours(x, c, context_mask=C_PADDING))
    grads = torch.autograd.grad(
        output.square().sum(), [c, *ours.parameters()]
    )
    assert all(g.isfinite().all() for g in grads)
    assert (grads[0] * shut == 0).all()
