import copy
import dataclasses
import inspect
import pickle

import numpy as np
import pytest
import torch

from attention_in_detail import MultiHeadParameters, multi_head_attention
from tests.support import (
    D,
    D_k,
    D_out,
    D_q,
    D_v,
    S,
    T,
    assert_close,
    each_library,
    h,
    normal,
    numpy_of,
    parameters,
)

SIZES = {"D_q": D_q, "D_k": D_k, "D_v": D_v, "D_out": D_out}
NAMES = ["W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"]


def test_each_size_is_read_from_the_matrix_that_has_it():
    p = parameters()
    assert (p.D, p.D_h, p.heads) == (D, D // h, h)
    assert (p.D_q, p.D_k, p.D_v, p.D_out) == (D_q, D_k, D_v, D_out)
    assert parameters(output=False).D_out == D


@pytest.mark.claim("prop-count")
def test_count_is_how_many_numbers_there_are():
    W = D_q * D + D_k * D + D_v * D
    assert parameters().count == W + D * D_out + 3 * D + D_out
    assert parameters(bias=False).count == W + D * D_out
    assert parameters(output=False).count == W + 3 * D
    assert parameters(torch.tensor).count == parameters().count


@pytest.mark.claim("prop-count")
def test_more_heads_are_not_more_parameters():
    """64 · 64 · 4 weights and 64 · 4 biases, whatever the number of heads."""
    for heads in (1, 4, 16):
        assert MultiHeadParameters.init(64, heads, seed=0).count == 16_640


def test_help_shows_that_the_number_of_heads_has_to_be_given_by_name():
    shown = inspect.signature(MultiHeadParameters.__init__).parameters
    assert shown["heads"].kind is inspect.Parameter.KEYWORD_ONLY
    assert shown["heads"].default is inspect.Parameter.empty
    assert [shown[name].default for name in NAMES[3:]] == [None] * 5


def test_a_number_of_heads_of_few_bits_is_kept_as_a_plain_integer():
    """In uint8 the width 512 would not even be representable."""
    W = normal(4, 512)
    p = MultiHeadParameters(W, W, W, heads=np.uint8(4))
    assert type(p.heads) is int
    assert p.D_h == 128
    assert_close(p.head(1).W_Q, W[:, 128:256])


def test_widths_of_few_bits_draw_the_same_numbers():
    """The root of 10 in uint8 is one of half precision: entries would be off in the fifth digit."""
    sizes = {"D": 12, "D_q": 10, "D_k": 7, "D_v": 5, "D_out": 6}
    plain = MultiHeadParameters.init(heads=2, seed=0, **sizes)
    few = {name: np.uint8(size) for name, size in sizes.items()}
    drawn = MultiHeadParameters.init(heads=2, seed=0, **few)
    for name, x in plain.arrays().items():
        assert np.array_equal(drawn.arrays()[name], x)


def test_arrays_are_those_that_are_there_by_name():
    p = parameters()
    assert list(p.arrays()) == NAMES
    assert all(x is getattr(p, name) for name, x in p.arrays().items())
    assert list(parameters(bias=False, output=False).arrays()) == [
        "W_Q",
        "W_K",
        "W_V",
    ]


@each_library
def test_a_head_owns_its_columns_and_its_rows_of_the_output(make):
    p = parameters(make)
    for i in range(h):
        own, head = slice(4 * i, 4 * i + 4), p.head(i)
        assert head.heads == 1
        assert head.b_O is None
        for name in ("W_Q", "W_K", "W_V"):
            assert_close(
                getattr(head, name), numpy_of(getattr(p, name))[:, own], 0
            )
            assert_close(
                getattr(head, "b" + name[1:]),
                numpy_of(getattr(p, "b" + name[1:]))[own],
                0,
            )
        assert_close(head.W_O, numpy_of(p.W_O)[own, :], 0)


def test_a_head_lacks_what_all_lack():
    head = parameters(bias=False, output=False).head(1)
    assert list(head.arrays()) == ["W_Q", "W_K", "W_V"]


def test_parameters_cannot_be_reassigned_and_are_equal_only_to_themselves():
    p = parameters()
    with pytest.raises(dataclasses.FrozenInstanceError):
        p.heads = 1
    assert p == p
    assert p != parameters()
    assert len({p, p}) == 1


def test_parameters_can_be_copied_and_stored():
    p = parameters()
    for other in (
        copy.copy(p),
        copy.deepcopy(p),
        pickle.loads(pickle.dumps(p)),
        dataclasses.replace(p),
    ):
        assert other.heads == h
        for name, x in p.arrays().items():
            assert_close(getattr(other, name), x, 0)
    with pytest.raises(ValueError, match="heads = 3"):
        dataclasses.replace(p, heads=3)


# ---- init ----


def test_init_has_the_sizes_that_are_asked_for():
    p = MultiHeadParameters.init(D, h, **SIZES, seed=1)
    shapes = [
        (D_q, D),
        (D_k, D),
        (D_v, D),
        (D, D_out),
        (D,),
        (D,),
        (D,),
        (D_out,),
    ]
    assert [x.shape for x in p.arrays().values()] == shapes
    assert p.heads == h


def test_missing_widths_are_that_of_all_heads():
    p = MultiHeadParameters.init(D, h, seed=1)
    assert {x.shape for x in p.arrays().values()} == {(D, D), (D,)}


@pytest.mark.parametrize(
    ("bias", "output", "names"),
    [
        (True, True, NAMES),
        (False, True, NAMES[:4]),
        (True, False, ["W_Q", "W_K", "W_V", "b_Q", "b_K", "b_V"]),
        (False, False, NAMES[:3]),
    ],
)
def test_init_has_biases_and_an_output_where_they_are_asked_for(
    bias, output, names
):
    p = MultiHeadParameters.init(D, h, bias=bias, output=output, seed=1)
    assert list(p.arrays()) == names


def test_init_draws_with_the_variance_of_one_over_the_rows_and_biases_of_zero():
    p = MultiHeadParameters.init(
        400, 4, D_q=100, D_k=900, D_out=300, seed=0
    )
    for name, rows in (
        ("W_Q", 100),
        ("W_K", 900),
        ("W_V", 400),
        ("W_O", 400),
    ):
        W = getattr(p, name)
        assert abs(W.mean()) < 5 / np.sqrt(W.size * rows)
        assert abs(W.var() * rows - 1) < 0.03
    for name in ("b_Q", "b_K", "b_V", "b_O"):
        assert not getattr(p, name).any()


def test_init_keeps_unit_variance_through_each_projection():
    p = MultiHeadParameters.init(300, 3, D_v=700, seed=0)
    assert abs((normal(400, 700) @ p.W_V).var() - 1) < 0.03


def test_the_same_seed_gives_the_same_numbers_and_another_gives_others():
    one, same, other = (
        MultiHeadParameters.init(D, h, seed=s) for s in (3, 3, 4)
    )
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        assert np.array_equal(getattr(one, name), getattr(same, name))
        assert not np.isclose(
            getattr(one, name), getattr(other, name)
        ).any()
    assert not np.isclose(one.W_Q, one.W_K).any()


def test_the_first_numbers_drawn_are_those_of_numpy():
    W = np.random.default_rng(7).standard_normal((D_q, D)) / np.sqrt(D_q)
    assert np.array_equal(
        MultiHeadParameters.init(D, h, D_q=D_q, seed=7).W_Q, W
    )


@each_library
def test_init_gives_the_same_numbers_in_every_library(make):
    ours = MultiHeadParameters.init(
        D, h, **SIZES, seed=5, like=make(np.ones(1))
    )
    for name, x in (
        MultiHeadParameters.init(D, h, **SIZES, seed=5).arrays().items()
    ):
        assert type(getattr(ours, name)) is type(make(np.ones(1)))
        assert_close(getattr(ours, name), x, 0)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16]
)
def test_init_has_the_dtype_of_like(dtype):
    p = MultiHeadParameters.init(
        D, h, seed=5, like=torch.zeros(0, dtype=dtype)
    )
    assert {x.dtype for x in p.arrays().values()} == {dtype}
    assert torch.equal(
        p.W_Q,
        torch.tensor(MultiHeadParameters.init(D, h, seed=5).W_Q).to(dtype),
    )


def test_init_leaves_every_other_generator_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    state = torch.random.get_rng_state()
    MultiHeadParameters.init(D, h, seed=5, like=torch.zeros(1))
    after = np.random.get_state()[1]  # noqa: NPY002
    assert np.array_equal(after, before)
    assert torch.equal(torch.random.get_rng_state(), state)


# ---- from_torch ----


def module_of_torch(**options):
    torch.manual_seed(1)
    module = torch.nn.MultiheadAttention(
        D, h, batch_first=True, dtype=torch.float64, **options
    )
    for x in (module.in_proj_bias, module.out_proj.bias):
        if x is not None:
            torch.nn.init.normal_(x)
    return module


@pytest.mark.parametrize(
    "options",
    [{}, {"kdim": D_k, "vdim": D_v}, {"kdim": D_k}, {"bias": False}],
)
def test_parameters_from_torch_compute_what_torch_computes(options):
    module = module_of_torch(**options)
    p = MultiHeadParameters.from_torch(module)
    q, k, v = (
        torch.tensor(normal(2, n, w))
        for n, w in ((T, D), (S, p.D_k), (S, p.D_v))
    )
    theirs, weights = module(q, k, v, average_attn_weights=False)
    ours = multi_head_attention(p, q, k, v, return_weights=True)
    assert_close(ours[0], theirs)
    assert_close(ours[1], weights)
    assert p.count == sum(x.numel() for x in module.parameters())
    assert (p.b_Q is None) == (options.get("bias") is False)


@pytest.mark.parametrize("options", [{}, {"kdim": D_k, "vdim": D_v}])
def test_gradients_flow_to_the_module_that_was_read(options):
    module = module_of_torch(**options)
    q, k, v = (
        torch.tensor(normal(2, n, w))
        for n, w in ((T, D), (S, module.kdim), (S, module.vdim))
    )
    module(q, k, v)[0].square().sum().backward()
    theirs = {name: x.grad.clone() for name, x in module.named_parameters()}
    module.zero_grad()
    multi_head_attention(
        MultiHeadParameters.from_torch(module), q, k, v
    ).square().sum().backward()
    for name, x in module.named_parameters():
        assert_close(x.grad, theirs[name], 1e-11)


def test_parameters_from_torch_are_views():
    module = module_of_torch()
    p = MultiHeadParameters.from_torch(module)
    with torch.no_grad():
        module.in_proj_weight.zero_()
        module.out_proj.bias.fill_(2)
    assert not p.W_V.any()
    assert (p.b_O == 2).all()


# ---- fewer key heads than query heads ----


def grouped(make=np.asarray, kv_heads=2, **options):
    """Six heads of width 4; two key heads serve three of them each, unless told otherwise."""
    return parameters(make, D=24, heads=6, kv_heads=kv_heads, **options)


def test_sizes_of_shared_key_heads():
    p = grouped()
    assert (p.h_kv, p.kv_heads, p.sharing) == (2, 2, 3)
    assert (p.D, p.D_h, p.D_kv) == (24, 4, 8)
    assert p.W_K.shape == (D_k, 8)
    assert p.b_V.shape == (8,)
    own = parameters()
    assert own.kv_heads is None
    assert (own.h_kv, own.D_kv, own.sharing) == (h, D, 1)
    assert list(p.arrays()) == NAMES
    kept = dataclasses.replace(p, kv_heads=np.int8(2)).kv_heads
    assert type(kept) is int


@pytest.mark.claim("prop-today-saves")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
def test_count_of_shared_key_heads_falls_with_their_number(kv_heads, bias):
    """Two matrices of D · D_kv, and two biases of D_kv, in place of D · D and D."""
    p = MultiHeadParameters.init(
        24, 6, kv_heads=kv_heads, seed=0, bias=bias
    )
    D_kv = 4 * kv_heads
    biases = 2 * 24 + 2 * D_kv if bias else 0
    assert p.count == 2 * 24 * 24 + 2 * 24 * D_kv + biases


@pytest.mark.claim("def-today-shared")
@each_library
def test_heads_that_share_read_the_same_columns(make):
    """Heads 0, 1, 2 share key head 0, and 3, 4, 5 key head 1: in a row, not in turn."""
    p = grouped(make)
    for i, first in enumerate([0, 0, 0, 4, 4, 4]):
        head, own = p.head(i), slice(4 * i, 4 * i + 4)
        shared = slice(first, first + 4)
        assert head.kv_heads is None
        for name in ("K", "V"):
            for kind in ("W_", "b_"):
                assert_close(
                    getattr(head, kind + name),
                    numpy_of(getattr(p, kind + name))[..., shared],
                    0,
                )
        assert_close(head.W_Q, numpy_of(p.W_Q)[:, own], 0)
        assert_close(head.b_Q, numpy_of(p.b_Q)[own], 0)
        assert_close(head.W_O, numpy_of(p.W_O)[own, :], 0)


def test_as_many_key_heads_as_heads_change_nothing():
    widths = {"D_q": 5, "D_k": 7, "D_v": 3, "D_out": 9}
    own = MultiHeadParameters.init(24, 6, seed=3, **widths)
    same = MultiHeadParameters.init(24, 6, kv_heads=6, seed=3, **widths)
    assert (same.h_kv, same.sharing) == (6, 1)
    for name, x in own.arrays().items():
        assert_close(getattr(same, name), x, 0)


def test_init_draws_shared_key_heads_with_the_same_variance():
    p = MultiHeadParameters.init(512, 8, kv_heads=np.int8(2), seed=0)
    assert p.W_K.shape == p.W_V.shape == (512, 128)
    assert p.b_K.shape == (128,)
    assert abs(p.W_K.std() * 512**0.5 - 1) < 0.02
    assert p.kv_heads == 2


def test_shared_key_heads_can_be_copied_and_stored():
    p = grouped()
    for other in (copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert (other.heads, other.kv_heads) == (6, 2)
        assert_close(other.W_K, p.W_K, 0)
    with pytest.raises(ValueError, match="kv_heads = 4"):
        dataclasses.replace(p, kv_heads=4)


def test_the_number_of_key_heads_is_given_by_its_name():
    """What came later shifts no position; and whatever reads the fields is told the same."""
    p = parameters()
    arrays = [getattr(p, name) for name in NAMES]
    with pytest.raises(TypeError, match="positional argument"):
        MultiHeadParameters(*arrays, p.heads, heads=p.heads)
    named = MultiHeadParameters(*arrays, heads=p.heads, kv_heads=p.heads)
    assert named.kv_heads == p.heads
    by_name = {
        field.name: field.kw_only
        for field in dataclasses.fields(MultiHeadParameters)
    }
    assert [name for name, only in by_name.items() if only is True] == [
        "heads",
        "kv_heads",
    ]
