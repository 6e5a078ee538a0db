import math

import numpy as np
import pytest
import torch

from attention_in_detail import (
    attention,
    attention_weights,
    causal_mask,
    scores,
)
from tests import reference
from tests.support import (
    B,
    D_k,
    D_v,
    S,
    T,
    assert_close,
    coin,
    each_library,
    each_precision,
    leaves,
    normal,
    numpy_of,
)

BATCH = (2, B)
Q, K, V = (
    normal(*BATCH, T, D_k, seed=1),
    normal(*BATCH, S, D_k, seed=2),
    normal(*BATCH, S, D_v, seed=3),
)
MASK, BIAS = coin(*BATCH, T, S, seed=4), normal(*BATCH, T, S, seed=5)
SHUT_BIAS = np.where(coin(*BATCH, T, S, seed=6), BIAS, -np.inf)


# ---- the formula ----


@pytest.mark.claim("def-attention")
def test_attention_by_hand():
    """Scores 2·3/√4 = 3 and 0: odds of e³ to 1; scores 0 and 0: the mean of the values."""
    queries = np.array([[2.0, 0, 0, 0], [0, 0, 0, 0]])
    keys = np.array([[3.0, 0, 0, 0], [0, 1, 0, 0]])
    values = np.array([[10.0, 0, 1], [0, 20, 1]])
    output, weights = attention(queries, keys, values, return_weights=True)
    first = math.exp(3) / (math.exp(3) + 1)
    assert_close(scores(queries, keys), np.array([[3.0, 0], [0, 0]]), 0)
    assert_close(weights, np.array([[first, 1 - first], [0.5, 0.5]]), 1e-15)
    assert_close(
        output,
        np.array([[10 * first, 20 * (1 - first), 1], [5, 10, 1]]),
        1e-14,
    )


@pytest.mark.claim("def-attention")
@pytest.mark.parametrize(
    "bias", [None, BIAS, SHUT_BIAS], ids=["no bias", "bias", "bias of −inf"]
)
@pytest.mark.parametrize("mask", [None, MASK], ids=["no mask", "mask"])
@each_precision
@each_library
def test_attention_equals_its_formula_number_by_number(
    make, dtype, mask, bias
):
    q, k, v = (make(x.astype(dtype)) for x in (Q, K, V))
    given = {
        "mask": None if mask is None else make(mask),
        "bias": None if bias is None else make(bias.astype(dtype)),
    }
    output, weights = reference.batched(
        reference.attention, BATCH, Q, K, V, mask=mask, bias=bias
    )
    tolerance = 1e-12 if dtype == "float64" else 2e-6
    ours = attention(q, k, v, **given, return_weights=True)
    assert_close(ours[0], output, tolerance)
    assert_close(ours[1], weights, tolerance)
    assert_close(attention_weights(q, k, **given), weights, tolerance)
    for x in ours:
        assert type(x) is type(q)
        assert x.dtype == q.dtype


@pytest.mark.claim("prop-dot-products", "def-compatibility")
@each_library
def test_scores_equal_their_formula(make):
    expected = np.einsum("...tc,...sc->...ts", Q, K) / math.sqrt(D_k)
    assert_close(scores(make(Q), make(K)), expected)
    assert_close(
        scores(make(Q), make(K), scale=0.5), expected * math.sqrt(D_k) / 2
    )


@each_library
def test_scale_takes_the_place_of_one_over_the_root(make):
    q, k, v = make(Q[0, 0]), make(K[0, 0]), make(V[0, 0])
    default = attention(q, k, v)
    assert_close(attention(q, k, v, scale=1 / math.sqrt(D_k)), default)
    for scale in (2, -0.3, 0):
        expected, weights = reference.attention(
            Q[0, 0], K[0, 0], V[0, 0], scale=scale
        )
        assert_close(attention(q, k, v, scale=scale), expected)
        assert_close(attention_weights(q, k, scale=scale), weights)


@each_library
def test_scale_may_be_an_array_without_axes_and_does_not_decide_the_dtype(
    make,
):
    q, k = (make(x[0, 0].astype(np.float32)) for x in (Q, K))
    scaled = scores(q, k, scale=make(np.float64(0.7)[()] * np.ones(())))
    assert scaled.dtype == q.dtype
    assert_close(scaled, scores(q, k, scale=0.7), 1e-6)
    assert_close(
        attention_weights(q, k, scale=make(np.ones(()))),
        attention_weights(q, k, scale=1),
        0,
    )


def test_scale_that_is_learned_gets_its_gradient():
    scale, *qkv = leaves(0.7, Q[0, 0], K[0, 0], V[0, 0])
    assert torch.autograd.gradcheck(
        lambda s: attention(*(x.detach() for x in qkv), scale=s), (scale,)
    )
    attention(*qkv, scale=scale).sum().backward()
    assert scale.grad.abs() > 1e-3


def test_bias_is_added_after_the_scale():
    q, k, bias = Q[0, 0], K[0, 0], BIAS[0, 0]
    z = 3 * q @ k.T + bias
    assert_close(
        attention_weights(q, k, bias=bias, scale=3),
        np.array([reference.softmax(row) for row in z]),
    )


def test_bias_of_zero_and_mask_of_true_change_nothing():
    plain = attention(Q, K, V)
    assert np.array_equal(
        attention(Q, K, V, mask=np.ones((T, S), bool)), plain
    )
    assert np.array_equal(attention(Q, K, V, bias=np.zeros((T, S))), plain)


def test_mask_and_bias_of_minus_infinity_shut_alike():
    shut = np.where(MASK, 0.0, -np.inf)
    for one, other in zip(
        attention(Q, K, V, mask=MASK, return_weights=True),
        attention(Q, K, V, bias=shut, return_weights=True),
        strict=True,
    ):
        assert np.array_equal(one, other)


def test_shut_pairs_have_the_weight_zero_exactly():
    weights = attention_weights(Q, K, mask=MASK, bias=BIAS)
    assert (weights[~MASK] == 0).all()
    assert (weights[MASK] > 0).all()


# ---- gradients ----


@pytest.mark.parametrize(
    "bias", [BIAS, SHUT_BIAS], ids=["bias", "bias of −inf"]
)
@pytest.mark.parametrize("mask", [None, MASK], ids=["no mask", "mask"])
def test_gradients_are_those_of_the_formula(mask, bias):
    q, k, v, b = leaves(
        Q[0, :2],
        K[0, :2],
        V[0, :2],
        np.where(np.isinf(bias), 0, bias)[0, :2],
    )
    mask = None if mask is None else torch.tensor(mask[0, :2])
    shut = torch.tensor(np.where(np.isinf(bias), -np.inf, 0)[0, :2])
    assert torch.autograd.gradcheck(
        lambda q, k, v, b: attention(
            q, k, v, mask=mask, bias=b + shut, return_weights=True
        ),
        (q, k, v, b),
        fast_mode=True,
    )


def test_second_derivatives_are_those_of_the_formula():
    mask = torch.tensor(MASK[0, 0])
    assert torch.autograd.gradgradcheck(
        lambda q, k, v: attention(q, k, v, mask=mask),
        leaves(Q[0, 0], K[0, 0], V[0, 0]),
        fast_mode=True,
    )


# ---- rows that may attend to nothing ----


def empty_row(kind, i=1):
    """A mask, a bias or both, shut for query i."""
    open_ = np.ones((T, S), bool)
    open_[i] = False
    half = np.ones((T, S), bool)
    half[i, ::2] = False
    bias = np.where(open_, BIAS[0, 0], -np.inf)
    rest = np.where(open_ | half & ~open_, BIAS[0, 0], -np.inf)
    rest[i, 1::2] = -np.inf
    rest[i, ::2] = 0.0
    return {
        "mask": {"mask": open_},
        "bias": {"bias": bias},
        "both": {"mask": half, "bias": rest},
    }[kind]


@pytest.mark.claim("def-mask-attention", "rem-empty-row")
@pytest.mark.parametrize("kind", ["mask", "bias", "both"])
@each_library
def test_a_query_that_may_attend_to_nothing_gets_zeros(make, kind):
    given = {name: make(x) for name, x in empty_row(kind).items()}
    q, k, v = make(Q[0, 0]), make(K[0, 0]), make(V[0, 0])
    output, weights = (
        numpy_of(x)
        for x in attention(q, k, v, **given, return_weights=True)
    )
    assert (output[1] == 0).all()
    assert (weights[1] == 0).all()
    assert (np.abs(output[[0, 2]]) > 1e-3).all()
    assert_close(weights[[0, 2]].sum(-1), np.ones(2))
    assert np.array_equal(
        numpy_of(attention_weights(q, k, **given)), weights
    )


@pytest.mark.claim("rem-empty-row")
@pytest.mark.parametrize("kind", ["mask", "bias", "both"])
def test_a_query_that_may_attend_to_nothing_has_the_gradient_zero_exactly(
    kind,
):
    given = {name: torch.tensor(x) for name, x in empty_row(kind).items()}
    q, k, v = leaves(Q[0, 0], K[0, 0], V[0, 0])
    if "bias" in given:
        given["bias"].requires_grad_()
    output, weights = attention(q, k, v, **given, return_weights=True)
    (output.square().sum() + weights.square().sum()).backward()
    assert (q.grad[1] == 0).all()
    for x in (q.grad[[0, 2]], k.grad, v.grad):
        assert x.isfinite().all()
        assert (x != 0).all()
    if "bias" in given:
        assert (given["bias"].grad[1] == 0).all()
    # Only the other two queries speak to keys and values.
    others = {name: x.detach()[[0, 2]] for name, x in given.items()}
    q2, k2, v2 = leaves(Q[0, 0][[0, 2]], K[0, 0], V[0, 0])
    output, weights = attention(q2, k2, v2, **others, return_weights=True)
    (output.square().sum() + weights.square().sum()).backward()
    assert_close(k.grad, k2.grad)
    assert_close(v.grad, v2.grad)


def test_all_rows_may_be_empty():
    nothing = np.zeros((T, S), bool)
    output, weights = attention(Q, K, V, mask=nothing, return_weights=True)
    assert output.shape == (*BATCH, T, D_v)
    assert not output.any()
    assert not weights.any()


# ---- NaN ----


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("how", ["mask", "bias"])
@each_library
def test_what_no_query_may_attend_to_has_no_effect(make, how, poison):
    shut = np.arange(S) >= 4
    k, v = K[0, 0].copy(), V[0, 0].copy()
    k[shut], v[shut] = poison, poison
    given = (
        {"mask": make(~shut)}
        if how == "mask"
        else {"bias": make(np.where(shut, -np.inf, 0.0))}
    )
    output, weights = attention(
        make(Q[0, 0]), make(k), make(v), **given, return_weights=True
    )
    expected, expected_weights = reference.attention(
        Q[0, 0], K[0, 0, :4], V[0, 0, :4]
    )
    assert_close(output, expected)
    assert_close(weights[:, :4], expected_weights)
    assert (numpy_of(weights)[:, 4:] == 0).all()


@pytest.mark.parametrize("how", ["mask", "bias"])
def test_nan_in_the_padding_reaches_no_gradient(how):
    shut = np.arange(S) >= 4
    k_given, v_given = K[0, 0].copy(), V[0, 0].copy()
    k_given[shut], v_given[shut] = np.nan, np.nan
    bias = torch.tensor(np.where(shut, -np.inf, 0.0), requires_grad=True)
    given = (
        {"mask": torch.tensor(~shut)} if how == "mask" else {"bias": bias}
    )
    q, k, v = leaves(Q[0, 0], k_given, v_given)
    output, weights = attention(q, k, v, **given, return_weights=True)
    (output.square().sum() + weights.square().sum()).backward()
    assert q.grad.isfinite().all()
    assert (q.grad != 0).all()
    for x in (k.grad, v.grad):
        assert (x[4:] == 0).all()
        assert x[:4].isfinite().all()
    if how == "bias":
        assert (bias.grad[4:] == 0).all()


def test_nan_in_a_query_that_may_attend_to_nothing_reaches_nothing():
    q_given = Q[0, 0].copy()
    q_given[1] = np.nan
    q, k, v = leaves(q_given, K[0, 0], V[0, 0])
    mask = torch.tensor(empty_row("mask")["mask"])
    output = attention(q, k, v, mask=mask)
    output.square().sum().backward()
    assert (output[1] == 0).all()
    assert (q.grad[1] == 0).all()
    for x in (output, q.grad, k.grad, v.grad):
        assert x.isfinite().all()


def test_nan_in_a_bias_that_the_mask_shuts_reaches_nothing():
    mask = np.arange(S) < 4
    bias = torch.tensor(np.where(mask, 0.5, np.nan), requires_grad=True)
    q, k, v = leaves(Q[0, 0], K[0, 0], V[0, 0])
    output = attention(q, k, v, mask=torch.tensor(mask), bias=bias)
    output.square().sum().backward()
    assert_close(
        output, reference.attention(Q[0, 0], K[0, 0, :4], V[0, 0, :4])[0]
    )
    assert all(x.grad.isfinite().all() for x in (q, k, v, bias))


@each_library
def test_nan_that_takes_part_shows(make):
    q, k, v = Q[0, 0].copy(), K[0, 0].copy(), V[0, 0].copy()
    q[1, 0] = np.nan
    output, weights = attention(
        make(q), make(k), make(v), return_weights=True
    )
    assert np.isnan(numpy_of(weights)).all(-1).tolist() == [
        False,
        True,
        False,
    ]
    assert np.isnan(numpy_of(output)).all(-1).tolist() == [
        False,
        True,
        False,
    ]
    k[5, 0] = np.nan
    assert np.isnan(
        numpy_of(attention_weights(make(Q[0, 0]), make(k)))
    ).all()
    v[5, 2] = np.nan
    output = numpy_of(attention(make(Q[0, 0]), make(K[0, 0]), make(v)))
    assert np.isnan(output).all(0).tolist() == [c == 2 for c in range(D_v)]


@each_library
def test_nan_in_an_open_bias_shows_in_its_row_alone(make):
    bias = BIAS[0, 0].copy()
    bias[1, 3] = np.nan
    weights = numpy_of(
        attention_weights(make(Q[0, 0]), make(K[0, 0]), bias=make(bias))
    )
    assert np.isnan(weights).all(-1).tolist() == [False, True, False]


@each_library
def test_a_later_key_that_is_nan_leaves_the_weights_of_earlier_queries_alone(
    make,
):
    x = normal(4, D_k)
    mask = make(np.tril(np.ones((4, 4), bool)))
    before = attention_weights(make(x), make(x), mask=mask)
    x_nan = x.copy()
    x_nan[3] = np.nan
    after = attention_weights(make(x_nan), make(x_nan), mask=mask)
    assert np.array_equal(numpy_of(after)[:3], numpy_of(before)[:3])
    assert np.isnan(numpy_of(after)[3]).all()


# ---- precision ----


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("with_masks", [False, True])
def test_half_precision_is_computed_in_float32_and_rounded_once(
    dtype, with_masks
):
    q, k, v, bias = (
        torch.tensor(x).to(dtype) for x in (3 * Q, 3 * K, V, SHUT_BIAS)
    )
    mask = torch.tensor(MASK)
    given = {"mask": mask, "bias": bias} if with_masks else {}
    wide = {"mask": mask, "bias": bias.float()} if with_masks else {}
    for half, full in zip(
        attention(q, k, v, **given, return_weights=True),
        attention(
            q.float(), k.float(), v.float(), **wide, return_weights=True
        ),
        strict=True,
    ):
        assert half.dtype == dtype
        assert torch.equal(half, full.to(dtype))
    assert torch.equal(
        attention_weights(q, k),
        attention_weights(q.float(), k.float()).to(dtype),
    )
    assert torch.equal(scores(q, k), scores(q.float(), k.float()).to(dtype))


def test_float16_of_numpy_is_computed_in_float32_and_rounded_once():
    q, k, v = (x.astype(np.float16) for x in (3 * Q, 3 * K, V))
    for half, full in zip(
        attention(q, k, v, return_weights=True),
        attention(
            *(x.astype(np.float32) for x in (q, k, v)), return_weights=True
        ),
        strict=True,
    ):
        assert half.dtype == np.float16
        assert np.array_equal(half, full.astype(np.float16))


@pytest.mark.parametrize("kind", [np.float16, torch.float16])
def test_scores_beyond_the_range_of_float16_give_finite_weights(kind):
    """q·k = 4 · 256² = 262,144, four times what float16 can hold."""
    q, k = np.full((1, 4), 256.0), np.array([[256.0] * 4, [255.0] * 4])
    q, k = (
        x.astype(kind) if kind is np.float16 else torch.tensor(x).to(kind)
        for x in (q, k)
    )
    output, weights = attention(q, k, k, return_weights=True)
    assert_close(weights, np.array([[1.0, 0.0]]), 0)
    assert_close(output, np.full((1, 4), 256.0), 0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_minus_infinity_shuts_in_half_precision(dtype):
    q, k, v = (torch.tensor(x[0, 0]).to(dtype) for x in (Q, K, V))
    bias = torch.zeros(T, S, dtype=dtype)
    bias[0, 3:] = -torch.inf
    bias[1] = -torch.inf
    output, weights = attention(q, k, v, bias=bias, return_weights=True)
    assert (weights[0, 3:] == 0).all()
    assert (weights[1] == 0).all()
    assert (output[1] == 0).all()
    assert output.isfinite().all()


def test_half_precision_has_gradients_in_its_own_dtype():
    q, k, v = leaves(Q[0, 0], K[0, 0], V[0, 0], dtype=torch.bfloat16)
    attention(
        q, k, v, mask=torch.tensor(empty_row("mask")["mask"])
    ).square().sum().backward()
    full = leaves(*(x.detach().double() for x in (q, k, v)))
    attention(
        *full, mask=torch.tensor(empty_row("mask")["mask"])
    ).square().sum().backward()
    for half, exact in zip((q, k, v), full, strict=True):
        assert half.grad.dtype == torch.bfloat16
        assert_close(half.grad, exact.grad, 0.05)


@each_precision
@each_library
def test_finite_input_gives_finite_output(make, dtype):
    huge = make(np.array([[1e15, -1e15], [1e15, 1e15]], dtype))
    output = numpy_of(attention(huge, huge, huge))
    assert np.isfinite(output).all()
    assert_close(
        output,
        np.array([[1.0, -1], [1, 1]])
        * float(np.float32(1e15) if dtype == "float32" else 1e15),
        0,
    )


# ---- axes ----

# What is given, and the batch axes of queries, keys, values, mask and bias.
BROADCASTS = {
    "queries alone": ((4,), (), (), None, None),
    "keys alone": ((), (4,), (), None, None),
    "values alone": ((), (), (4,), None, None),
    "mask alone": ((), (), (), (4,), None),
    "bias alone": ((), (), (), None, (4,)),
    "mask and bias": ((), (), (), (6, 1), (4,)),
    "each its own": (
        (4, 1, 1, 1),
        (5, 1, 1),
        (6, 1),
        (2, 1, 1, 1, 1),
        (1, 1),
    ),
    "ones": ((1, 4), (6, 1), (1, 1), (1,), (6, 4)),
    "an empty one": ((0,), (1,), (), None, None),
    "an empty one of the mask": ((1,), (1,), (1,), (0,), None),
}


@pytest.mark.parametrize("case", BROADCASTS.values(), ids=BROADCASTS)
@each_library
def test_batch_axes_of_all_that_is_given_broadcast(make, case):
    shapes = (T, D_k), (S, D_k), (S, D_v), (T, S), (T, S)
    q, k, v, mask, bias = (
        None if batch is None else normal(*batch, *shape, seed=n)
        for n, (batch, shape) in enumerate(zip(case, shapes, strict=True))
    )
    mask = None if mask is None else mask > -0.5
    batch = np.broadcast_shapes(*(b for b in case if b is not None))
    given = {
        "mask": None if mask is None else make(mask),
        "bias": None if bias is None else make(bias),
    }
    output, weights = attention(
        make(q), make(k), make(v), **given, return_weights=True
    )
    assert tuple(output.shape) == (*batch, T, D_v)
    assert tuple(weights.shape) == (*batch, T, S)
    if 0 not in batch:
        expected = reference.batched(
            reference.attention, batch, q, k, v, mask=mask, bias=bias
        )
        assert_close(output, expected[0])
        assert_close(weights, expected[1])


@pytest.mark.parametrize(
    "shape", [(), (1,), (S,), (1, 1), (T, 1), (1, S), (T, S), (2, 1, 1, S)]
)
@each_library
def test_a_mask_or_bias_may_lack_axes_or_have_size_one(make, shape):
    full = np.broadcast_shapes(shape, (T, S))
    for mask in (coin(*shape, seed=1, p=0.5), coin(*shape, seed=2, p=0.5)):
        ours = attention(
            make(Q[0, 0]),
            make(K[0, 0]),
            make(V[0, 0]),
            mask=make(np.asarray(mask)),
        )
        expected = attention(
            Q[0, 0], K[0, 0], V[0, 0], mask=np.broadcast_to(mask, full)
        )
        assert_close(ours, expected)
    bias = np.asarray(normal(*shape))
    ours = attention(
        make(Q[0, 0]), make(K[0, 0]), make(V[0, 0]), bias=make(bias)
    )
    assert_close(
        ours,
        attention(
            Q[0, 0], K[0, 0], V[0, 0], bias=np.broadcast_to(bias, full)
        ),
    )


@each_library
def test_no_queries_and_no_batch_give_nothing(make):
    for batch, rows in (((), 0), ((0,), T), ((2, 0), T), ((0,), 0)):
        q, k, v = (
            make(np.ones((*batch, *s)))
            for s in ((rows, D_k), (S, D_k), (S, D_v))
        )
        mask = make(np.ones((rows, S), bool))
        for given in (
            {},
            {"mask": mask},
            {"mask": mask, "bias": make(np.zeros((rows, S)))},
        ):
            output, weights = attention(
                q, k, v, **given, return_weights=True
            )
            assert tuple(output.shape) == (*batch, rows, D_v)
            assert tuple(weights.shape) == (*batch, rows, S)
            assert tuple(scores(q, k).shape) == (*batch, rows, S)


def test_values_without_width_give_an_output_without_width():
    assert attention(Q, K, V[..., :0]).shape == (*BATCH, T, 0)


@each_library
def test_one_key_is_all_that_is_attended_to(make):
    output = attention(make(Q), make(K[..., :1, :]), make(V[..., :1, :]))
    assert_close(output, np.broadcast_to(V[..., :1, :], output.shape), 0)


# ---- manners ----


@each_library
@pytest.mark.parametrize(
    "given",
    [{}, {"mask": MASK}, {"bias": SHUT_BIAS}, {"mask": MASK, "bias": BIAS}],
)
def test_asking_for_the_weights_does_not_change_the_output(make, given):
    given = {name: make(x) for name, x in given.items()}
    q, k, v = make(Q), make(K), make(V)
    with_weights, _ = attention(q, k, v, **given, return_weights=True)
    assert np.array_equal(
        numpy_of(attention(q, k, v, **given)), numpy_of(with_weights)
    )


def test_inputs_are_never_changed():
    mask = MASK & (np.arange(T) != 1)[:, None]
    arrays = [x.copy() for x in (Q, K, V, mask, SHUT_BIAS)]
    for x in arrays:
        x.setflags(write=False)
    q, k, v, m, b = arrays
    attention(q, k, v, mask=m, bias=b)
    tensors = [torch.tensor(x) for x in (Q, K, V, mask, SHUT_BIAS)]
    q, k, v, m, b = tensors
    attention(q, k, v, mask=m, bias=b, return_weights=True)
    for tensor, x in zip(tensors, (Q, K, V, mask, SHUT_BIAS), strict=True):
        assert tensor._version == 0
        assert np.array_equal(tensor.numpy(), x)


def test_the_result_shares_no_memory_with_the_input():
    one = np.ones((1, 2))
    output, weights = attention(one, one, one, return_weights=True)
    output += 5
    weights += 5
    assert (one == 1).all()


def test_weights_that_hold_for_many_values_are_many_weights():
    _, weights = attention(
        Q[0, 0], K[0, 0], np.stack([V[0, 0]] * 2), return_weights=True
    )
    weights[0] += 1
    assert (weights[0] == weights[1] + 1).all()


def test_layout_in_memory_does_not_matter():
    expected = attention(Q, K, V, mask=MASK)
    for turn in (
        np.asfortranarray,
        lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
        lambda x: x[::-1].copy()[::-1],
    ):
        assert_close(
            attention(*(turn(x) for x in (Q, K, V)), mask=turn(MASK)),
            expected,
        )
        q, k, v, m = (
            torch.tensor(x).mT.contiguous().mT for x in (Q, K, V, MASK)
        )
    assert not q.is_contiguous()
    assert_close(attention(q, k, v, mask=m), expected)
    expanded = torch.tensor(K[0, 0]).expand(4, S, D_k)
    assert_close(
        attention(torch.tensor(Q[0, 0]), expanded, expanded)[3],
        attention(Q[0, 0], K[0, 0], K[0, 0]),
    )


def test_the_result_lives_where_the_input_lives():
    """The meta device carries shapes alone: no number may be asked for on the way."""
    q, k, v = (torch.empty(n, 4, device="meta") for n in (2, 3, 3))
    mask = causal_mask(2, 3, like=q)
    bias = torch.empty(3, device="meta")
    for x in attention(q, k, v, mask=mask, bias=bias, return_weights=True):
        assert x.device.type == "meta"
    assert (
        scores(q, k, scale=torch.empty((), device="meta")).device.type
        == "meta"
    )


def test_numpy_and_torch_agree():
    for ours, theirs in zip(
        attention(Q, K, V, mask=MASK, bias=SHUT_BIAS, return_weights=True),
        attention(
            *map(torch.tensor, (Q, K, V)),
            mask=torch.tensor(MASK),
            bias=torch.tensor(SHUT_BIAS),
            return_weights=True,
        ),
        strict=True,
    ):
        assert_close(ours, theirs, 1e-14)
