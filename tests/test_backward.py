"""The gradients by hand are those of autograd, of differences, and of loops over single numbers."""

import math

import numpy as np
import pytest
import torch

from attention_in_detail import (
    attention,
    attention_gradients,
    attention_weights,
    softmax_jacobian,
)
from attention_in_detail.backward import summed_to
from attention_in_detail.recomputing import training_cost
from tests.block_support import BIAS, MASK, SHUT_BIAS, each_case
from tests.support import (
    B,
    D_k,
    D_v,
    S,
    T,
    assert_close,
    each_library,
    leaves,
    normal,
    numpy_of,
)

Q, K, V = normal(B, T, D_k), normal(B, S, D_k), normal(B, S, D_v)
DY = normal(B, T, D_v, seed=1)


def of_torch(x):
    return torch.tensor(x) if isinstance(x, np.ndarray) else x


def by_autograd(arrays, dY, given):
    """The gradients that torch finds through ``attention``; for a bias too."""
    inputs = leaves(*arrays)
    given = {name: of_torch(x) for name, x in given.items()}
    if "bias" in given:
        inputs.append(given["bias"].requires_grad_())
    output = attention(*inputs[:3], **given)
    return torch.autograd.grad(output, inputs, torch.tensor(dY))


def by_hand(arrays, dY, given, make=np.asarray):
    given = {
        name: make(x) if isinstance(x, np.ndarray) else x
        for name, x in given.items()
    }
    found = attention_gradients(*map(make, arrays), make(dY), **given)
    assert (found.bias is None) == ("bias" not in given)
    return [x for x in found if x is not None]


@pytest.mark.claim("thm-backward")
@each_case
@each_library
def test_gradients_by_hand_are_those_of_autograd(make, given):
    expected = by_autograd((Q, K, V), DY, given)
    found = by_hand((Q, K, V), DY, given, make)
    for ours, theirs in zip(found, expected, strict=True):
        assert type(ours) is type(make(Q))
        assert_close(ours, theirs, 1e-13)


def difference(f, x, step=1e-6):
    """The derivatives of a number by each entry of x, from two values each."""
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        there, back = x.copy(), x.copy()
        there[place] += step
        back[place] -= step
        found[place] = (f(there) - f(back)) / (2 * step)
    return found


@pytest.mark.claim("def-backward-gradient", "thm-backward")
def test_gradients_by_hand_are_the_slopes_of_the_loss():
    inputs = {"queries": Q[0], "keys": K[0], "values": V[0]}
    inputs["bias"] = BIAS[0]
    mask, dY = MASK[0], DY[0]

    found = attention_gradients(
        *list(inputs.values())[:3], dY, mask=mask, bias=BIAS[0]
    )
    for name, x in inputs.items():
        slopes = difference(
            lambda moved, name=name: (
                attention(**inputs | {name: moved}, mask=mask) * dY
            ).sum(),
            x,
        )
        assert_close(getattr(found, name), slopes, 1e-8)


@pytest.mark.claim("prop-backward-softmax", "thm-backward")
def test_gradients_by_hand_are_those_of_the_jacobian_row_by_row():
    """dz = J dα for one row, then the sums over rows, entry by entry."""
    s = 1 / math.sqrt(D_k)
    A = attention_weights(Q[0], K[0])
    dQ, dK, dV = (np.zeros_like(x[0]) for x in (Q, K, V))
    for i in range(T):
        d_alpha = np.array([DY[0, i] @ V[0, j] for j in range(S)])
        dz = softmax_jacobian(A[i]) @ d_alpha
        for j in range(S):
            dQ[i] += s * dz[j] * K[0, j]
            dK[j] += s * dz[j] * Q[0, i]
            dV[j] += A[i, j] * DY[0, i]
    found = attention_gradients(Q[0], K[0], V[0], DY[0])
    for ours, slow in zip(found[:3], (dQ, dK, dV), strict=True):
        assert_close(ours, slow, 1e-13)


SHAPES = {
    "keys for all": ((B, T, D_k), (S, D_k), (B, S, D_v), (B, T, D_v)),
    "axis of one": (
        (2, 1, T, D_k),
        (4, S, D_k),
        (1, S, D_v),
        (2, 4, T, D_v),
    ),
    "values alone": ((T, D_k), (S, D_k), (B, S, D_v), (B, T, D_v)),
    "queries for all": ((1, T, D_k), (B, S, D_k), (S, D_v), (B, T, D_v)),
    "no query": ((B, 0, D_k), (S, D_k), (S, D_v), (B, 0, D_v)),
    "no batch entry": ((0, T, D_k), (S, D_k), (S, D_v), (0, T, D_v)),
}


@pytest.mark.claim("thm-backward")
@pytest.mark.parametrize("bias", [None, (S,), (T, 1), (B, 1, S), ()])
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_what_was_broadcast_gets_the_sum_of_its_gradients(shapes, bias):
    *inputs, output = shapes
    if bias is not None and (bias == (B, 1, S) or bias == (T, 1)):
        if output[-2] == 0:
            return
        if bias[0] == B and output[0] != B:
            bias = (output[-3], 1, S)
    arrays = [normal(*shape, seed=n) for n, shape in enumerate(inputs)]
    given = {} if bias is None else {"bias": normal(*bias)}
    dY = normal(*output)
    found = by_hand(arrays, dY, given)
    for ours, theirs in zip(
        found, by_autograd(arrays, dY, given), strict=True
    ):
        assert_close(ours, theirs, 1e-13)


def test_sums_fall_on_the_axes_that_were_stretched():
    x = normal(2, 3, 4)
    assert_close(summed_to(x, (3, 4)), x.sum(0))
    assert_close(summed_to(x, (2, 1, 4)), x.sum(1, keepdims=True))
    assert_close(summed_to(x, (1, 1)), x.sum()[None, None])
    assert_close(summed_to(x, ()), x.sum())
    assert summed_to(x, (2, 3, 4)) is x


def empty_row(kind):
    open_ = np.ones((T, S), bool)
    open_[1] = False
    return (
        {"mask": open_}
        if kind == "mask"
        else {"bias": np.where(open_, 0.0, -np.inf)}
    )


@pytest.mark.claim("rem-backward-nothing")
@pytest.mark.parametrize("kind", ["mask", "bias"])
@pytest.mark.parametrize("dY_there", [1.0, np.inf, np.nan])
@each_library
def test_a_query_that_may_attend_to_nothing_passes_no_gradient(
    make, dY_there, kind
):
    dY, q = DY[0].copy(), Q[0].copy()
    dY[1], q[1] = dY_there, np.nan
    given = empty_row(kind)
    found = by_hand((q, K[0], V[0]), dY, given, make)
    dQ, dK, dV = map(numpy_of, found[:3])
    assert (dQ[1] == 0).all()
    others = attention_gradients(Q[0][[0, 2]], K[0], V[0], DY[0][[0, 2]])
    assert_close(dQ[[0, 2]], others.queries)
    assert_close(dK, others.keys)
    assert_close(dV, others.values)
    if kind == "bias":
        assert (numpy_of(found[3])[1] == 0).all()


@pytest.mark.claim("rem-backward-nothing")
@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("kind", ["mask", "bias"])
@each_library
def test_nan_in_the_padding_reaches_no_gradient_by_hand(make, kind, poison):
    k, v, open_ = K[0].copy(), V[0].copy(), np.arange(S) < 4
    k[4:], v[4:] = poison, poison
    given = (
        {"mask": open_}
        if kind == "mask"
        else {"bias": np.where(open_, 0.0, -np.inf)}
    )
    dQ, dK, dV, *d_bias = map(
        numpy_of, by_hand((Q[0], k, v), DY[0], given, make)
    )
    short = attention_gradients(Q[0], K[0, :4], V[0, :4], DY[0])
    assert_close(dQ, short.queries)
    for ours, theirs in ((dK, short.keys), (dV, short.values)):
        assert_close(ours[:4], theirs)
        assert (ours[4:] == 0).all()
    for x in d_bias:
        assert (x[4:] == 0).all()


def test_gradients_of_scores_and_of_biases_sum_to_zero_along_a_row():
    given = {"bias": SHUT_BIAS, "mask": MASK}
    d_bias = attention_gradients(Q, K, V, DY, **given).bias
    assert_close(d_bias.sum(-1), np.zeros((B, T)), 1e-14)
    assert (d_bias[~MASK | np.isinf(SHUT_BIAS)] == 0).all()
    assert np.abs(d_bias).max() > 0.1


@pytest.mark.claim("prop-backward-delta")
def test_the_row_sum_is_a_dot_product_with_the_output():
    """δ needs no row of weights: Σ_j dA_ij A_ij = Σ_c dY_ic Y_ic."""
    Y, A = attention(Q, K, V, mask=MASK, return_weights=True)
    dA = DY @ V.mT
    assert_close((dA * A).sum(-1), (DY * Y).sum(-1), 1e-13)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_of_gradients_is_float32_rounded_once(dtype):
    half = [torch.tensor(x).to(dtype) for x in (Q, K, V, DY, BIAS)]
    wide = [x.float() for x in half]
    found = attention_gradients(*half[:4], bias=half[4])
    for ours, exact in zip(
        found, attention_gradients(*wide[:4], bias=wide[4]), strict=True
    ):
        assert ours.dtype == dtype
        assert torch.equal(ours, exact.to(dtype))


def test_inputs_of_the_backward_pass_are_not_changed():
    arrays = [x.copy() for x in (Q, K, V, DY, MASK, SHUT_BIAS)]
    for x in arrays:
        x.setflags(write=False)
    *four, mask, bias = arrays
    assert attention_gradients(*four, mask=mask, bias=bias).bias.any()


# ---- what it costs ----


class Counting(np.ndarray):
    """Counts multiply-adds of products and evaluations of exp."""

    products, exponentials = 0, 0

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        plain = [np.asarray(x) for x in inputs]
        result = getattr(ufunc, method)(*plain, **kwargs)
        if ufunc is np.matmul:
            Counting.products += result.size * plain[0].shape[-1]
        if ufunc is np.exp:
            Counting.exponentials += result.size
        return result.view(Counting)


def counted(call):
    Counting.products = Counting.exponentials = 0
    call()
    return Counting.products, Counting.exponentials


@pytest.mark.claim("prop-backward-cost")
@pytest.mark.parametrize("sizes", [(3, 7, 9, 11), (8, 5, 4, 2)])
def test_counts_are_those_that_the_functions_do(sizes):
    T, S, D_k, D_v = sizes
    q, k, v, dY = (
        normal(B, *shape).view(Counting)
        for shape in ((T, D_k), (S, D_k), (S, D_v), (T, D_v))
    )
    kept = training_cost(*sizes, entries=B, recompute=False)
    again = training_cost(*sizes, entries=B)
    forward = counted(lambda: attention(q, k, v))
    backward = counted(lambda: attention_gradients(q, k, v, dY))
    assert forward == (again.multiply_adds_forward, kept.exponentials)
    assert backward[0] == again.multiply_adds_backward
    assert forward[1] + backward[1] == again.exponentials
    assert again.multiply_adds == forward[0] + backward[0]
    # Without the scores, the products of the gradients are left.
    scores_ = B * T * S * D_k
    assert kept.multiply_adds_backward == backward[0] - scores_
    assert kept.multiply_adds_forward == forward[0]


@pytest.mark.claim("prop-backward-cost")
def test_bytes_kept_are_those_of_the_weights_or_of_the_output_and_two_rows():
    Y, A = attention(Q, K, V, return_weights=True)
    sizes = (T, S, D_k, D_v)
    given = {"entries": B, "itemsize": 8}
    kept = training_cost(*sizes, **given, recompute=False)
    again = training_cost(*sizes, **given)
    assert kept.bytes_kept == A.nbytes
    assert again.bytes_kept == Y.nbytes + 2 * Y[..., 0].nbytes


@pytest.mark.parametrize(
    ("changed", "kind", "line"),
    [
        ({"T": 0}, ValueError, "T is 0, but must be at least 1"),
        ({"S": 2.0}, TypeError, "S must be an integer, not float"),
        (
            {"itemsize": 0},
            ValueError,
            "itemsize is 0, but must be at least 1",
        ),
        (
            {"recompute": 1},
            TypeError,
            "recompute must be True or False, not int",
        ),
    ],
)
def test_wrong_counts_are_refused(changed, kind, line):
    sizes = {"T": 3, "S": 4, "D_k": 5, "D_v": 6} | changed
    with pytest.raises(kind, match=f"^{line}$"):
        training_cost(**sizes)
