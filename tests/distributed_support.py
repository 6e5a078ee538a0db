"""What the tests of ``attention_in_detail.distributed`` run on each rank, and what one process finds instead."""

import os
import re
import time

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.debug import CommDebugMode

from attention_in_detail import attention, causal_mask
from attention_in_detail.distributed import (
    own_rows,
    ring_attention,
    split_over_ranks,
)
from attention_in_detail.distributed.counting import SentBytes
from attention_in_detail.distributed.trying import module_with, stop_rank
from tests.support import coin, normal, parameters

# Sizes that all differ; 4 ranks divide lengths and heads.
B, T, S, D_k, D_v = 3, 8, 12, 5, 7
HEADS, D, D_q, D_out = 4, 16, 10, 6
OFFSETS = (None, 0, 4, -3, -20)
DTYPES = ("float32", "float64")
LAYERS = (
    "self",
    "cross",
    "causal",
    "mask",
    "mask of heads",
    "bias",
    "bias of heads",
    "no biases",
    "shared keys",
)


def arrays_of_ring(dtype):
    """Queries, keys, values, and derivatives by the output."""
    shapes = (B, T, D_k), (B, S, D_k), (B, S, D_v), (B, T, D_v)
    return [
        normal(*shape, seed=n, dtype=dtype)
        for n, shape in enumerate(shapes)
    ]


def arrays_of_layer(case, dtype):
    """Parameters, inputs (arrays that have a gradient), and other arguments."""
    widths = {"D_q": D_q, "D_k": D_q, "D_v": D_q}
    if case == "cross":
        widths = {"D_q": D_q, "D_k": 9, "D_v": 11}
    p = parameters(
        dtype=dtype,
        bias=case != "no biases",
        D=D,
        heads=2 * HEADS if case == "shared keys" else HEADS,
        kv_heads=HEADS if case == "shared keys" else None,
        D_out=D_out,
        **widths,
    )
    inputs = {"queries": normal(B, T, D_q, dtype=dtype)}
    given = {}
    length = T
    if case == "cross":
        length = S
        inputs["keys"] = normal(B, S, 9, dtype=dtype)
        inputs["values"] = normal(B, S, 11, dtype=dtype)
    if case == "causal":
        given["causal_offset"] = 0
    heads = (HEADS,) if case.endswith("of heads") else ()
    if case.startswith("mask"):
        given["mask"] = torch.tensor(coin(B, *heads, T, length))
        given["mask"][0, ..., 1, :] = False
    if case.startswith("bias"):
        inputs["bias"] = normal(B, *heads, T, length, dtype=dtype)
    # The loss is a mean over the positions of a sequence.
    dY = normal(B, T, D_out, seed=9, dtype=dtype) / np.array(T, dtype)
    return p, inputs, given, dY


def gradient(p):
    """The gradient of a parameter, whole, as an array."""
    g = p.grad
    return (g.full_tensor() if hasattr(g, "full_tensor") else g).numpy()


def run_layer(module, inputs, given, dY):
    """Output, gradients of the inputs and gradients of the parameters, as arrays by name."""
    inputs = {
        name: torch.tensor(x, requires_grad=True)
        for name, x in inputs.items()
    }
    output = module(**inputs, **given)
    output.backward(torch.tensor(dY))
    found = {name: x.grad.numpy() for name, x in inputs.items()}
    found |= {
        name.removeprefix("own."): gradient(p)
        for name, p in module.named_parameters()
    }
    return found | {"output": output.detach().numpy()}


def run_ring(arrays, rank, ranks, offset, **options):
    own = [
        torch.tensor(x[..., own_rows(x.shape[-2], rank, ranks), :])
        for x in arrays
    ]
    parts = [x.requires_grad_() for x in own[:3]]
    output = ring_attention(
        *parts,
        causal_offset=offset,
        query_block=1,
        key_block=2,
        **options,
    )
    output.backward(own[3])
    return [output.detach().numpy(), *(x.grad.numpy() for x in parts)]


def ring_at_once(arrays, offset, scale=None):
    """The same in one process, by the definition."""
    *parts, dY = (torch.tensor(x) for x in arrays)
    parts = [x.requires_grad_() for x in parts]
    mask = None
    if offset is not None:
        sizes = parts[0].shape[-2], parts[1].shape[-2]
        mask = causal_mask(*sizes, offset=offset, like=dY)
    output = attention(*parts, mask=mask, scale=scale)
    output.backward(dY)
    return [output.detach().numpy(), *(x.grad.numpy() for x in parts)]


def everything():
    """All cases on this rank, in one start of the processes; what they give, by name."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    found = {}
    mesh = init_device_mesh("cpu", (ranks,))
    for dtype in DTYPES:
        for offset in OFFSETS:
            found["ring", dtype, offset] = run_ring(
                arrays_of_ring(dtype), rank, ranks, offset
            )
        found["ring", dtype, "scale"] = run_ring(
            arrays_of_ring(dtype), rank, ranks, 0, scale=0.3
        )
        for case in LAYERS:
            p, *rest = arrays_of_layer(case, dtype)
            module = split_over_ranks(module_with(p), mesh)
            found["layer", dtype, case] = run_layer(module, *rest)
    found["sent"] = count_sent(rank, ranks)
    found["collectives"] = count_collectives()
    found["refused"] = refusals(rank)
    found["steps"] = two_steps(split=True)
    found["groups"] = in_a_group(rank, ranks)
    found["rank 0"] = weights_of_rank_0(rank)
    return found


def count_sent(rank, ranks):
    """What is handed over in a ring forward, and both ways; and with split heads."""
    arrays = arrays_of_ring("float32")
    own = [
        torch.tensor(x[..., own_rows(x.shape[-2], rank, ranks), :])
        for x in (arrays[0], *arrays[1:3])
    ]
    own[2] = own[2][..., :D_k].contiguous()  # keys and values of one width
    own = [x.requires_grad_() for x in own]
    with SentBytes() as ring:
        output = ring_attention(*own)
        forward = ring.passed
        output.sum().backward()
    p, inputs, *_ = arrays_of_layer("self", "float32")
    module = split_over_ranks(module_with(p))
    x = torch.tensor(inputs["queries"], requires_grad=True)
    with SentBytes() as heads:
        output = module(x)
        summed = heads.summed
        output.sum().backward()
    return {
        "ring": (forward, ring.passed, ring.summed),
        "heads": (summed, heads.summed, heads.passed),
    }


def count_collectives():
    """How many of which kind torch's own counter sees: forward, and both ways."""
    p, inputs, given, _ = arrays_of_layer("self", "float64")
    module = split_over_ranks(module_with(p))
    seen = []
    for wants in (False, True):
        x = torch.tensor(inputs["queries"], requires_grad=wants)
        with CommDebugMode() as counter:
            output = module(x, **given)
            if wants:
                output.sum().backward()
        seen.append(
            {
                str(name): n
                for name, n in counter.get_comm_counts().items()
                if n
            }
        )
    return seen


def refusals(rank):
    """What every rank says where one gives another shape, or other options."""
    said = []
    for options in (
        {"length": 2 + (rank == 1)},
        {"causal_offset": rank},
        {"scale": 1.0 + rank},
    ):
        length = options.pop("length", 2)
        x = torch.ones(length, 3)
        try:
            ring_attention(x, x, x, **options)
        except ValueError as error:
            said.append(str(error))
    for heads, kv_heads in ((3, None), (60, 1)):
        widths = {"D": 60, "D_q": 4, "D_k": 4, "D_v": 4}
        p = parameters(heads=heads, kv_heads=kv_heads, **widths)
        try:
            split_over_ranks(module_with(p))
        except ValueError as error:
            said.append(str(error))
    return said


def two_steps(*, split):
    """Train for two steps, gradients clipped: the output after them."""
    p, inputs, given, dY = arrays_of_layer("self", "float64")
    module = module_with(p)
    module = split_over_ranks(module) if split else module
    optimizer = torch.optim.AdamW(module.parameters(), 0.1)
    x, dY = torch.tensor(inputs["queries"]), torch.tensor(dY)
    for _ in range(2):
        optimizer.zero_grad()
        (module(x, **given) - dY).square().sum().backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
    return module(x, **given).detach().numpy()


def in_a_group(rank, ranks):
    """A ring of the ranks in another order of numbers: the last first. Those of the first half are left out."""
    members = list(range(ranks // 2, ranks))
    group = dist.new_group(members)
    if rank not in members:
        return None
    place = members.index(rank)
    return run_ring(
        arrays_of_ring("float64"), place, len(members), 0, group=group
    )


def weights_of_rank_0(rank):
    """The ranks start from weights of their own."""
    torch.manual_seed(rank)
    from attention_in_detail.nn import MultiHeadAttention

    module = MultiHeadAttention(8, 4)
    before = module.query.weight.detach().clone()
    split = split_over_ranks(module)
    assert torch.equal(module.query.weight, before)
    assert module.heads == 4
    whole = split.own.query.weight.full_tensor()
    return before.numpy(), whole.detach().numpy()


# ---- ranks that fail, each in its own way


def numbers(x):
    return dist.get_rank(), dist.get_world_size(), os.getpid(), x


def stop_and_note(lost, how, path):
    """Let one rank go once all are up, and leave in a file when that was."""
    dist.barrier()
    if dist.get_rank() == lost:
        with open(path, "w") as file:
            file.write(repr(time.monotonic()))
    stop_rank(lost, how)


def leave_early(rank):
    """One rank returns while the others still wait for it."""
    if dist.get_rank() != rank:
        dist.all_reduce(torch.ones(1))


def exit_quietly(rank):
    if dist.get_rank() == rank:
        os._exit(0)
    dist.all_reduce(torch.ones(1))


def wait_long(seconds, path):
    """Leave the number of this process in a file, and wait."""
    with open(f"{path}.{dist.get_rank()}", "w") as file:
        file.write(str(os.getpid()))
    time.sleep(seconds)


def cannot_be_sent():
    return lambda: None


def assert_near(actual, desired, dtype):
    tolerance = {"float32": 1e-6, "float64": 1e-12}[dtype]
    actual, desired = np.asarray(actual), np.asarray(desired)
    assert actual.shape == desired.shape
    assert str(actual.dtype) == dtype
    np.testing.assert_allclose(
        actual, desired, rtol=tolerance, atol=tolerance
    )


def program_of_the_page():
    """The program that chapter 33 prints, for ``torchrun``."""
    from tests.test_contract import PAGES, markdown

    listings = re.findall(
        r"^```python\n(.*?)^```$",
        markdown(PAGES["33_many_processes"]),
        re.DOTALL | re.MULTILINE,
    )
    (program,) = (x for x in listings if "with process_group()" in x)
    return program
