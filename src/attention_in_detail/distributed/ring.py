"""Ring attention: each rank keeps its queries, while keys and values go round."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from attention_in_detail._arrays import narrowed, widened
from attention_in_detail._checks import checked
from attention_in_detail.distributed._checks import check_ring_attention
from attention_in_detail.distributed.schedule import (
    held_block,
    is_shut,
    local_offset,
)
from attention_in_detail.nn.online import gradients_by_blocks
from attention_in_detail.notation import Float, Size
from attention_in_detail.online import (
    KEY_BLOCK,
    QUERY_BLOCK,
    PartialAttention,
    attention_by_blocks,
    merge_partial,
    nothing_attended,
)

__all__ = ["Ring", "attend_round", "gradients_round", "ring_attention"]


@checked(check_ring_attention)
def ring_attention(
    queries: Float[Tensor, "*#batch T D_k"],
    keys: Float[Tensor, "*#batch S D_k"],
    values: Float[Tensor, "*#batch S D_v"],
    *,
    causal_offset: Size | None = None,
    scale: Real | None = None,
    query_block: Size = QUERY_BLOCK,
    key_block: Size = KEY_BLOCK,
    group: Any = None,
) -> Float[Tensor, "*batch T D_v"]:
    r"""Attention over a sequence of which each rank holds a part.

    .. math:: \operatorname{Attention}(Q_r, K, V) =
        \operatorname{merge}_{c = 0}^{n - 1} \operatorname{Attention}(Q_r, K_c, V_c)

    Rank r keeps its queries. Keys and values go from each rank to the next, n − 1
    times, while what came before is computed; each partial result is merged into the
    last. Going back, keys and values go round again, and their gradients with them,
    until they are home. Every rank of the group must call this at the same time, with
    the same shapes.

    Args:
        queries: the T/n queries of this rank, as by ``own_rows``, behind batch axes.
        keys: its S/n keys.
        values: its S/n values.
        causal_offset: o, with which query i may attend to key j only where j ≤ i + o;
            i and j count over the whole sequences, not over the parts. A block that it
            shuts is not computed. None shuts nothing.
        scale: the number that multiplies q·k; None means 1/√D_k.
        query_block: as in :func:`attention_in_detail.online_attention`, within a rank.
        key_block: likewise.
        group: the ``torch.distributed`` process group; None means all processes.

    Returns:
        The rows of the output that belong to this rank's queries. First derivatives go
        to each rank's own part; a second derivative is refused with
        ``NotImplementedError``.

    Raises:
        TypeError: as :func:`attention_in_detail.attention`, or if one is not a tensor
            of torch.
        ValueError: as :func:`attention_in_detail.attention`; or, on every rank, if the
            ranks have not all the same shapes, dtypes, offset and scale.

    Source:
        Liu, Zaharia and Abbeel (2023), section 3.
    """
    ring = Ring(
        group,
        dist.get_rank(group),
        dist.get_world_size(group),
        None if causal_offset is None else int(causal_offset),
        None if scale is None else float(scale),
        {"query_block": int(query_block), "key_block": int(key_block)},
    )
    ring.agree(queries, keys, values)
    output, *_ = _RingAttention.apply(queries, keys, values, ring)
    return narrowed(output, values.dtype)


@dataclass(frozen=True)
class Ring:
    """This rank's place in the ring, and how blocks are computed."""

    group: Any
    rank: int
    ranks: int
    causal_offset: int | None
    scale: float | None
    cut: dict[str, int]

    def agree(self, *tensors: Tensor) -> None:
        """Refuse, on every rank, what is not the same on all: they would wait for each other or mix up numbers."""
        names = ("queries", "keys", "values")
        told = [
            f"{name} {tuple(x.shape)} {str(x.dtype).removeprefix('torch.')}"
            for name, x in zip(names, tensors, strict=True)
        ]
        told += [
            f"causal_offset={self.causal_offset}",
            f"scale={self.scale}",
        ]
        everyone: list[Any] = [None] * self.ranks
        dist.all_gather_object(everyone, told, group=self.group)
        first = everyone[0]
        for rank, other in enumerate(everyone):
            for here, there in zip(first, other, strict=True):
                if here != there:
                    raise ValueError(
                        f"rank {rank} has {there}, but rank 0 has {here}; all ranks must give the same shapes and options"
                    )

    def blocks(
        self, keys: Tensor, values: Tensor, rows: int
    ) -> Iterator[tuple[Tensor, Tensor, int | None, bool]]:
        """Give each block of keys and values in turn, its causal offset, and whether it is shut.

        The next block is under way while the caller computes with this one.
        """
        block = keys, values
        for step in range(self.ranks):
            last = step == self.ranks - 1
            arrived = None if last else self.pass_on(*block)
            source = held_block.unchecked(self.rank, step, self.ranks)
            offset = local_offset(
                self.causal_offset,
                self.rank * rows,
                source * keys.shape[-2],
            )
            yield *block, offset, is_shut(rows, offset)
            if arrived is not None:
                block = arrived()

    def pass_on(self, *tensors: Tensor) -> Any:
        """Start to send tensors to the next rank and to receive those of the one before; return what waits for them."""
        sent = [x.contiguous() for x in tensors]
        received = [torch.empty_like(x) for x in sent]
        if self.ranks == 1:
            return lambda: tensors
        after, before = (
            _global_rank(self.group, (self.rank + way) % self.ranks)
            for way in (1, -1)
        )
        send, receive = (
            partial(dist.P2POp, function, group=self.group)
            for function in (dist.isend, dist.irecv)
        )
        works = dist.batch_isend_irecv(
            [send(tensor=x, peer=after) for x in sent]
            + [receive(tensor=x, peer=before) for x in received]
        )

        def arrived() -> list[Tensor]:
            for work in works:
                work.wait()
            return received

        return arrived


def _global_rank(group: Any, rank: int) -> int:
    return rank if group is None else dist.get_global_rank(group, rank)


def attend_round(
    queries: Float[Tensor, "*#batch T D_k"],
    keys: Float[Tensor, "*#batch S D_k"],
    values: Float[Tensor, "*#batch S D_v"],
    ring: Ring,
) -> PartialAttention:
    """Merge what this rank's queries find in each block of keys and values that comes round."""
    T = queries.shape[-2]
    parts = (queries, keys, values)
    batch = torch.broadcast_shapes(*(x.shape[:-2] for x in parts))
    merged = nothing_attended(
        (*batch, T, values.shape[-1]), like=widened(values[..., :0, :])
    )
    for k, v, offset, shut in ring.blocks(keys, values, T):
        if not shut:
            part = attention_by_blocks(
                queries,
                k,
                v,
                mask=None,
                bias=None,
                scale=ring.scale,
                causal_offset=offset,
                **ring.cut,
            )
            merged = merge_partial.unchecked(merged, part)
    return merged


def gradients_round(
    output_gradient: Float[Tensor, "*#batch T D_v"],
    queries: Float[Tensor, "*#batch T D_k"],
    keys: Float[Tensor, "*#batch S D_k"],
    values: Float[Tensor, "*#batch S D_v"],
    found: PartialAttention,
    ring: Ring,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return this rank's dQ, dK, dV: those of keys and values are added up by every rank that the block meets."""
    parts = (queries, keys, values)
    dQ, dK, dV = (torch.zeros_like(widened(x)) for x in parts)
    for k, v, offset, shut in ring.blocks(keys, values, queries.shape[-2]):
        if not shut:
            shares = gradients_by_blocks(
                output_gradient,
                widened(queries),
                widened(k),
                widened(v),
                bias=None,
                scale=None,
                mask=None,
                output=found.output,
                largest=found.largest,
                total=found.total,
                number=ring.scale,
                needed=(True, True, True, False, False),
                cut={"causal_offset": offset, **ring.cut},
            )
            for dx, share in zip((dQ, dK, dV), shares, strict=False):
                dx += share
            del shares, share  # as large as what they were added to
        # They go where their block goes, and one step further, home.
        dK, dV = ring.pass_on(dK, dV)()
    return dQ, dK, dV


class _RingAttention(Function):
    """Keeps this rank's parts, its output and two numbers a query; going back, all else comes round again."""

    @staticmethod
    def forward(
        queries: Tensor, keys: Tensor, values: Tensor, ring: Ring
    ) -> tuple[Tensor, Tensor, Tensor]:
        whole = attend_round(queries, keys, values, ring)
        return whole.output, whole.largest, whole.total

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]
    ) -> None:
        *tensors, ctx.ring = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*tensors, *output)

    @staticmethod
    def backward(
        ctx: Any, output_gradient: Tensor, *_: Any
    ) -> tuple[Tensor | None, ...]:
        gradients = _RingGradients.apply(
            output_gradient, *ctx.saved_tensors, ctx.ring
        )
        return *gradients, None


class _RingGradients(Function):
    """The way back as a step of its own, so that a derivative of it is refused where one is asked for."""

    @staticmethod
    def forward(
        output_gradient: Tensor,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        output: Tensor,
        largest: Tensor,
        total: Tensor,
        ring: Ring,
    ) -> tuple[Tensor, ...]:
        parts = queries, keys, values
        whole = PartialAttention(output, largest, total)
        found = gradients_round(output_gradient, *parts, whole, ring)
        return tuple(
            narrowed(dx, x.dtype)
            for dx, x in zip(found, parts, strict=True)
        )

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]
    ) -> None:
        """Keep nothing: there is no way further back."""

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise NotImplementedError("ring_attention has no second derivative")
