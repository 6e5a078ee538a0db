"""What chapter 33 runs on each rank: every rank is given the whole, takes its part, and returns what it found."""

import os
import signal
import time
from typing import Any

import torch
import torch.distributed as dist

from attention_in_detail.distributed.counting import SentBytes
from attention_in_detail.distributed.heads import split_over_ranks
from attention_in_detail.distributed.ring import ring_attention
from attention_in_detail.distributed.schedule import own_rows
from attention_in_detail.nn import MultiHeadAttention
from attention_in_detail.notation import Array, Size
from attention_in_detail.parameters import MultiHeadParameters

__all__ = ["module_with", "stop_rank", "try_heads", "try_ring"]


def try_ring(
    queries: Array,
    keys: Array,
    values: Array,
    output_gradient: Array,
    causal_offset: Size | None = None,
) -> dict[str, Any]:
    """Run ring attention and its way back on this rank's part of whole arrays.

    Args:
        queries: shape (\\*batch, T, D_k), NumPy, the same on every rank.
        keys: shape (\\*batch, S, D_k), likewise.
        values: shape (\\*batch, S, D_v), likewise.
        output_gradient: the derivatives of a loss by the output, likewise.
        causal_offset: as in ``ring_attention``.

    Returns:
        This rank's rows of the output (``"output"``) and of the gradients
        (``"queries"``, ``"keys"``, ``"values"``), and the bytes that it passed on
        forward (``"passed"``) and both ways (``"passed_both_ways"``).
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()

    def own(x: Array) -> torch.Tensor:
        rows = own_rows(x.shape[-2], rank, ranks)
        return torch.tensor(x[..., rows, :])

    parts = [own(x).requires_grad_() for x in (queries, keys, values)]
    with SentBytes() as sent:
        output = ring_attention(*parts, causal_offset=causal_offset)
        forward = sent.passed
        output.backward(own(output_gradient))
    names = ("queries", "keys", "values")
    found = {
        name: x.grad.numpy() for name, x in zip(names, parts, strict=True)
    }
    return {
        "output": output.detach().numpy(),
        **found,
        "passed": forward,
        "passed_both_ways": sent.passed,
    }


def try_heads(
    parameters: MultiHeadParameters,
    x: Array,
    output_gradient: Array,
    causal_offset: Size | None = None,
) -> dict[str, Any]:
    """Run self-attention with split heads, and its way back, on this rank.

    Args:
        parameters: those of the whole module, NumPy, the same on every rank.
        x: shape (\\*batch, T, D_q), likewise.
        output_gradient: the derivatives of a loss by the output, likewise.
        causal_offset: as in ``HeadsOverRanks.forward``.

    Returns:
        The output (``"output"``), the gradient of ``x`` (``"x"``) and of the
        parameters, gathered (``"parameters"``, by the names in the module); the shapes
        of this rank's parts of the parameters (``"shapes"``), and the bytes that were
        summed forward (``"summed"``) and both ways (``"summed_both_ways"``).
    """
    module = split_over_ranks(module_with(parameters))
    x = torch.tensor(x, requires_grad=True)
    with SentBytes() as sent:
        output = module(x, causal_offset=causal_offset)
        forward = sent.summed
        output.backward(torch.tensor(output_gradient))
    summed = sent.summed
    parts = dict(module.own.named_parameters())
    return {
        "output": output.detach().numpy(),
        "x": x.grad.numpy(),
        "parameters": {
            name: part.grad.full_tensor().numpy()
            for name, part in parts.items()
        },
        "shapes": {
            name: tuple(part.to_local().shape)
            for name, part in parts.items()
        },
        "summed": forward,
        "summed_both_ways": summed,
    }


def stop_rank(lost: Size, how: str) -> None:
    """Let one rank go while the others wait for it.

    Args:
        lost: its number.
        how: ``"killed"``: by a signal that it cannot catch; ``"raises"``: an error of
            its own; ``"hangs"``: it does nothing for a minute.
    """
    dist.barrier()
    if dist.get_rank() == lost:
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "raises":
            raise ValueError("no such file")
        time.sleep(60)
    dist.all_reduce(torch.ones(1))


def module_with(parameters: MultiHeadParameters) -> MultiHeadAttention:
    """Return a module that has given parameters, as copies in torch."""
    p = parameters
    module = MultiHeadAttention(
        p.D,
        p.heads,
        kv_heads=p.kv_heads,
        D_q=p.D_q,
        D_k=p.D_k,
        D_v=p.D_v,
        D_out=p.D_out,
        bias=p.b_Q is not None,
    ).to(torch.tensor(p.W_Q).dtype)
    linears = (
        (module.query, p.W_Q, p.b_Q),
        (module.key, p.W_K, p.b_K),
        (module.value, p.W_V, p.b_V),
        (module.output, p.W_O, p.b_O),
    )
    with torch.no_grad():
        for linear, W, b in linears:
            linear.weight.copy_(torch.tensor(W).mT)
            if b is not None:
                linear.bias.copy_(torch.tensor(b))
    return module
