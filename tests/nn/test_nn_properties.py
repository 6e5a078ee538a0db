"""The module against the functions, on sizes, axes and masks that hypothesis makes up."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_in_detail import (
    causal_mask,
    multi_head_attention,
    multi_head_attention_by_head,
)
from attention_in_detail.nn import MultiHeadAttention
from tests.support import assert_close


@st.composite
def problems(draw):
    """Shapes: of queries, keys and values, which broadcast, and of a mask and a bias, or none."""
    heads, D_h, T, S = (draw(st.integers(1, 3)) for _ in range(4))
    batch = draw(st.lists(st.integers(1, 3), max_size=2))

    def some(axes):
        return tuple(draw(st.sampled_from([1, size])) for size in axes)

    inputs = []
    for rows in (T, S, S):
        own = batch[draw(st.integers(0, len(batch))) :]
        inputs.append((*some(own), rows, heads * D_h))
    lead = batch[len(batch) - max(map(len, inputs)) + 2 :]
    forms = [(), (S,), (T, S), (*lead, T, S), (*lead, heads, T, S)]
    masks = [draw(st.none() | st.sampled_from(forms)) for _ in range(2)]
    masks = [None if shape is None else some(shape) for shape in masks]
    offset = draw(st.none() | st.integers(-2, 2))
    openness = draw(st.sampled_from([0.2, 0.6, 0.9]))
    options = {"output": draw(st.booleans()), "bias": draw(st.booleans())}
    return heads, inputs, masks, offset, openness, options


@given(problems(), st.integers(0, 10**6))
def test_module_and_functions_are_one_in_outputs_and_gradients(
    problem, seed
):
    """Kernel, weights, fused and by head; with masks, −inf in biases, empty rows, broadcasting."""
    heads, inputs, (mask, bias), offset, openness, options = problem
    torch.manual_seed(seed)
    module = MultiHeadAttention(inputs[0][-1], heads, **options).double()
    for x in module.parameters():
        torch.nn.init.normal_(x)
    q, k, v = (torch.randn(s).double().requires_grad_() for s in inputs)
    given_ = {}
    if mask is not None:
        given_["mask"] = torch.rand(mask) < openness
    if bias is not None:
        open_ = torch.rand(bias) < openness
        numbers = torch.where(open_, torch.randn(bias), -torch.inf)
        given_["bias"] = numbers.double().requires_grad_()
    spelled_out = dict(given_)
    if offset is not None:
        causal = causal_mask(
            inputs[0][-2], inputs[1][-2], offset=offset, like=q
        )
        own = given_.get("mask", torch.tensor(True))
        if own.ndim > 2 and own.ndim == max(x.ndim for x in (q, k, v)):
            own = own[..., None, :, :]
        spelled_out["mask"] = own & causal
    wanted = [q, k, v, *module.parameters()]
    wanted += [given_["bias"]] if bias is not None else []

    def results(output):
        # Without a path to a parameter there is no gradient: it counts as 0.
        grads = torch.autograd.grad(
            output.square().sum(), wanted, allow_unused=True
        )
        return [
            output,
            *(
                0 * x if g is None else g
                for g, x in zip(grads, wanted, strict=True)
            ),
        ]

    parameters = module.as_parameters()
    expected = results(
        multi_head_attention_by_head(parameters, q, k, v, **spelled_out)
    )
    for output in (
        multi_head_attention(parameters, q, k, v, **spelled_out),
        module(q, k, v, **given_, causal_offset=offset),
        module(
            q, k, v, **given_, causal_offset=offset, return_weights=True
        )[0],
    ):
        for ours, theirs in zip(results(output), expected, strict=True):
            assert ours.isfinite().all()
            assert_close(ours, theirs, 1e-10)
