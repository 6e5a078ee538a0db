"""Gradients through attention by blocks: those of attention, without a (T, S) array, once."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from attention_in_detail import (
    attention,
    attention_weights,
    causal_mask,
    combine_masks,
    online_attention,
)
from attention_in_detail.recomputing import training_cost
from tests.support import (
    B,
    D_k,
    D_v,
    S,
    T,
    assert_close,
    coin,
    leaves,
    normal,
)
from tests.test_online import problems

Q, K, V = normal(B, T, D_k), normal(B, S, D_k), normal(B, S, D_v)
DY = torch.tensor(normal(B, T, D_v, seed=1))
MASK, BIAS = coin(B, T, S, seed=2), normal(B, T, S, seed=3)
MASK[:, 1] = False
SHUT_BIAS = np.where(coin(B, T, S, seed=4), BIAS, -np.inf)
CUT = {"query_block": 2, "key_block": 3}
CASES = {
    "plain": {},
    "mask": {"mask": MASK},
    "bias": {"bias": BIAS},
    "mask and bias of −inf": {"mask": MASK, "bias": SHUT_BIAS},
    "row of bias": {"bias": BIAS[0, 0]},
    "column of bias": {"mask": MASK, "bias": BIAS[:, :, :1]},
    "number": {"bias": np.array(0.5)},
    "scale": {"scale": np.array(0.7), "mask": MASK},
}
each_case = pytest.mark.parametrize("given", CASES.values(), ids=CASES)
each_offset = pytest.mark.parametrize("offset", [None, 0, 3, -9])


def inputs_of(given, arrays=(Q, K, V)):
    """Queries, keys, values, and what else was given, as leaves by name."""
    names = ("queries", "keys", "values")
    found = dict(zip(names, leaves(*arrays), strict=True))
    for name, x in given.items():
        found[name] = torch.tensor(x, requires_grad=name != "mask")
    return found


def gradients(function, given, dY=DY, **options):
    output = function(**given, **options)
    wanted = {n: x for n, x in given.items() if x.requires_grad}
    return dict(
        zip(
            wanted,
            torch.autograd.grad(output, list(wanted.values()), dY),
            strict=True,
        )
    )


@each_offset
@each_case
def test_gradients_by_blocks_are_those_of_attention(given, offset):
    given = inputs_of(given)
    causal = None if offset is None else causal_mask(T, S, offset=offset)
    causal = None if causal is None else torch.tensor(causal)
    mask = combine_masks(given.get("mask"), causal)
    direct = gradients(
        attention, given | ({} if mask is None else {"mask": mask})
    )
    found = gradients(online_attention, given, causal_offset=offset, **CUT)
    assert found.keys() == direct.keys()
    for name, x in found.items():
        assert_close(x, direct[name], 1e-13)
        assert x.dtype == given[name].dtype


@each_case
def test_gradients_by_blocks_pass_the_check_by_differences(given):
    given = inputs_of(given, (Q[:2], K[:2], V[:2]))
    given = {
        n: x[:2].detach().requires_grad_(x.requires_grad)
        if x.ndim == 3
        else x
        for n, x in given.items()
    }
    names = [n for n, x in given.items() if x.requires_grad]
    shut = {n: x.isinf() for n, x in given.items() if n == "bias"}

    def function(*wanted):
        changed = given | dict(zip(names, wanted, strict=True))
        if "bias" in shut:
            changed["bias"] = changed["bias"].masked_fill(
                shut["bias"], -torch.inf
            )
        return online_attention(**changed, **CUT, causal_offset=4)

    start = [
        torch.where(given[n].isinf(), 0.0, given[n]).detach() for n in names
    ]
    assert torch.autograd.gradcheck(
        function, [x.requires_grad_() for x in start], fast_mode=True
    )


def test_gradients_of_float32_are_those_of_attention():
    rng = np.random.default_rng(5)
    for n, m in ((70, 130), (130, 70), (1, 300)):
        arrays = [
            rng.standard_normal(shape)
            for shape in ((n, 16), (m, 16), (m, 8))
        ]
        dY = torch.tensor(rng.standard_normal((n, 8)), dtype=torch.float32)
        given = dict(
            zip(
                ("queries", "keys", "values"),
                leaves(*arrays, dtype=torch.float32),
                strict=True,
            )
        )
        direct = gradients(attention, given, dY)
        found = gradients(
            online_attention, given, dY, query_block=32, key_block=48
        )
        for name, x in found.items():
            assert_close(x, direct[name], 2e-6)


def assert_gradients_of(problem, dtype, tolerance):
    """Those of a loss that is a mean over the queries, for all inputs; rows without a key too."""
    arrays, more, offset, cut = problem
    T, S = len(arrays[0]), len(arrays[1])
    given = inputs_of(more, arrays)
    given = {
        name: x if name == "mask" else x.detach().to(dtype).requires_grad_()
        for name, x in given.items()
    }
    dY = torch.tensor(normal(T, arrays[2].shape[-1]) / T, dtype=dtype)
    causal = None if offset is None else causal_mask(T, S, offset=offset)
    causal = None if causal is None else torch.tensor(causal)
    mask = combine_masks(given.get("mask"), causal)
    direct = gradients(
        attention,
        given | ({} if mask is None else {"mask": mask}),
        dY,
    )
    found = gradients(
        online_attention, given, dY, causal_offset=offset, **cut
    )
    assert found.keys() == direct.keys()
    for name, x in found.items():
        assert x.dtype == dtype
        assert_close(x, direct[name], tolerance)


@settings(max_examples=5)
@given(problems())
def test_gradients_of_any_lengths_and_any_blocks(problem):
    assert_gradients_of(problem, torch.float64, 1e-12)
    assert_gradients_of(problem, torch.float32, 2e-6)


@pytest.mark.slow
@settings(max_examples=150)
@given(problems())
def test_gradients_of_many_lengths_and_blocks(problem):
    assert_gradients_of(problem, torch.float64, 1e-12)
    assert_gradients_of(problem, torch.float32, 2e-6)


SHAPES = {
    "keys for all": ((B, T, D_k), (S, D_k), (B, S, D_v)),
    "axes of one": ((2, 1, T, D_k), (4, S, D_k), (1, S, D_v)),
    "values alone": ((T, D_k), (S, D_k), (B, S, D_v)),
    "no query": ((B, 0, D_k), (S, D_k), (S, D_v)),
}


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_what_was_broadcast_gets_its_sum_by_blocks(shapes):
    given = inputs_of(
        {}, [normal(*s, seed=n) for n, s in enumerate(shapes)]
    )
    dY = torch.ones_like(attention(**given)).cumsum(-1)
    direct = gradients(attention, given, dY)
    found = gradients(online_attention, given, dY, **CUT)
    for name, x in found.items():
        assert_close(x, direct[name], 1e-13)


@pytest.mark.parametrize("name", ["queries", "keys", "values", "bias"])
def test_one_input_alone_may_want_a_gradient(name):
    given = inputs_of({"bias": BIAS})
    direct = gradients(attention, given)[name]
    for n, x in given.items():
        given[n] = x.detach().requires_grad_(n == name)
    found = gradients(online_attention, given, **CUT)
    assert list(found) == [name]
    assert_close(found[name], direct, 1e-13)


@pytest.mark.parametrize("there", [1.0, np.inf, np.nan])
def test_a_query_that_may_attend_to_nothing_has_the_gradient_zero_by_blocks(
    there,
):
    dY, given = DY.clone(), inputs_of({"mask": MASK, "bias": SHUT_BIAS})
    dY[:, 1] = there
    with torch.no_grad():
        given["queries"][:, 1] = torch.nan
    found = gradients(online_attention, given, dY, **CUT)
    assert (found["queries"][:, 1] == 0).all()
    assert (found["bias"][:, 1] == 0).all()
    for x in found.values():
        assert x.isfinite().all()
    assert (found["values"] != 0).any()


@pytest.mark.parametrize("how", ["mask", "bias", "causal_offset"])
def test_nan_in_the_padding_reaches_no_gradient_by_blocks(how):
    k, v, open_ = K.copy(), V.copy(), np.arange(S) < 4
    k[:, 4:], v[:, 4:] = np.nan, np.nan
    given, offset = {}, None
    if how == "mask":
        given = {"mask": open_}
    elif how == "bias":
        given = {"bias": np.where(open_, 0.0, -np.inf)}
    else:
        offset = 4 - T
    found = gradients(
        online_attention,
        inputs_of(given, (Q, k, v)),
        causal_offset=offset,
        **CUT,
    )
    short = inputs_of({}, (Q, K[:, :4], V[:, :4]))
    mask = None if offset is None else causal_mask(T, 4, offset=offset)
    if mask is not None:
        short["mask"] = torch.tensor(mask)
    direct = gradients(attention, short)
    assert_close(found["queries"], direct["queries"], 1e-13)
    for name in ("keys", "values"):
        assert_close(found[name][:, :4], direct[name], 1e-13)
        assert (found[name][:, 4:] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_of_half_precision_are_float32_rounded_once(dtype):
    half = [torch.tensor(x).to(dtype) for x in (Q, K, V)]
    dY = DY.to(dtype)
    names = ("queries", "keys", "values")
    found, wide = (
        gradients(
            online_attention,
            {
                n: x.to(kind).requires_grad_()
                for n, x in zip(names, half, strict=True)
            },
            dY.to(kind),
            **CUT,
        )
        for kind in (dtype, torch.float32)
    )
    for name, x in found.items():
        assert x.dtype == dtype
        assert torch.equal(x, wide[name].to(dtype))


def test_a_second_derivative_is_refused_in_one_line():
    q, k, v = leaves(Q, K, V)
    [dq] = torch.autograd.grad(
        online_attention(q, k, v, **CUT).sum(), q, create_graph=True
    )
    assert_close(
        dq, torch.autograd.grad(attention(q, k, v).sum(), q)[0], 1e-13
    )
    line = "^online_attention has no second derivative; use attention, which has$"
    with pytest.raises(NotImplementedError, match=line):
        dq.sum().backward()


def test_the_functional_gradient_of_torch_works_once():
    q, k, v = map(torch.tensor, (Q, K, V))
    for function in (online_attention, attention):
        f = torch.func.grad(lambda x, g=function: (g(x, k, v) * DY).sum())
        if function is online_attention:
            ours = f(q)
    assert_close(ours, f(q), 1e-13)


def test_nothing_is_recorded_where_no_gradient_is_asked_for():
    q, k, v = leaves(Q, K, V)
    with torch.no_grad():
        assert not online_attention(q, k, v).requires_grad
    assert online_attention(q, k, v).requires_grad
    assert not online_attention(*map(torch.tensor, (Q, K, V))).requires_grad


class Sizes(TorchDispatchMode):
    """Notes the largest tensor that an operation gives."""

    largest = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.largest = max(self.largest, result.numel())
        return result


def largest_tensor(function, *inputs, **options):
    with Sizes() as sizes:
        function(*inputs, **options).sum().backward()
    return sizes.largest


@pytest.mark.parametrize("offset", [None, 0])
def test_no_tensor_of_all_pairs_is_made_forward_or_backward(offset):
    inputs = leaves(*(normal(100, 3, seed=n) for n in range(3)))
    found = largest_tensor(
        online_attention,
        *inputs,
        causal_offset=offset,
        query_block=10,
        key_block=20,
    )
    assert found == 300  # an input; a block has 10 · 20 pairs
    assert largest_tensor(attention, *inputs) == 100 * 100


def saved(function, *inputs, **options):
    """What is kept for the gradient, each tensor once, inputs apart."""
    kept = {}

    def note(x):
        kept[x.data_ptr()] = x
        return x

    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        function(*inputs, **options)
    own = {x.data_ptr() for x in inputs}
    return [x for place, x in kept.items() if place not in own]


@pytest.mark.claim("prop-backward-cost")
@pytest.mark.parametrize("N", [1, 2])
def test_only_the_output_and_two_numbers_a_query_are_kept(N):
    sizes = T, S, D_k, D_v = 60, 100, 3, 4
    shapes = (N, T, D_k), (N, S, D_k), (N, S, D_v)
    inputs = leaves(*(normal(*x, seed=n) for n, x in enumerate(shapes)))
    again, kept = (
        training_cost(*sizes, entries=N, itemsize=8, recompute=how)
        for how in (True, False)
    )
    numbers = sum(
        x.numel() for x in saved(online_attention, *inputs, **CUT)
    )
    assert numbers == N * T * (D_v + 2) == again.bytes_kept // 8
    # Autograd keeps the weights, and steps on the way to them too.
    weights = attention_weights(*inputs[:2]).detach()
    assert weights.numel() == N * T * S == kept.bytes_kept // 8
    pairs = [
        x for x in saved(attention, *inputs) if x.numel() == weights.numel()
    ]
    assert any(
        torch.equal(x.reshape(weights.shape), weights) for x in pairs
    )


@pytest.mark.claim("prop-backward-cost")
@pytest.mark.parametrize(
    ("function", "recompute"),
    [(attention, False), (online_attention, True)],
)
def test_each_way_multiplies_as_often_as_its_cost_says(function, recompute):
    N, *sizes = 2, 7, 9, 3, 4
    T, S, D_k, D_v = sizes
    shapes = (N, T, D_k), (N, S, D_k), (N, S, D_v)
    inputs = leaves(*(normal(*x, seed=n) for n, x in enumerate(shapes)))
    cost = training_cost(*sizes, entries=N, recompute=recompute)
    with FlopCounterMode(display=False) as forward:
        total = function(*inputs).sum()
    with FlopCounterMode(display=False) as back:
        total.backward()
    # Each multiply-add is two operations.
    assert forward.get_total_flops() == 2 * cost.multiply_adds_forward
    assert back.get_total_flops() == 2 * cost.multiply_adds_backward
    more = (3 if recompute else 2) * D_k + 2 * D_v
    assert cost.multiply_adds_backward == N * T * S * more
