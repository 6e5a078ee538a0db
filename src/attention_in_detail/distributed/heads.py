"""Multi-head attention whose heads are split over processes: tensor parallelism."""

import copy

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
)
from torch.distributed.tensor.parallel import (
    ParallelStyle,
    parallelize_module,
)

from attention_in_detail._checks import checked
from attention_in_detail.distributed._checks import (
    check_split_over_ranks,
    need_even_heads,
)
from attention_in_detail.multi_head import with_head_axis
from attention_in_detail.nn import MultiHeadAttention
from attention_in_detail.notation import Bool, Float, Size

__all__ = ["HeadsOverRanks", "split_over_ranks"]


@checked(check_split_over_ranks)
def split_over_ranks(
    module: MultiHeadAttention, mesh: DeviceMesh | None = None
) -> "HeadsOverRanks":
    r"""Split the heads of a module over the ranks of a mesh.

    .. math:: \operatorname{MultiHead}(Q, K, V) = \sum_{r = 0}^{n - 1}
        [H_{r h/n + 1}, \dots, H_{(r + 1) h/n}]\; W^O_{(r)} + b^O

    Rank r holds the columns of W_Q, W_K and W_V and the rows of W_O that belong to its
    h/n heads. What its heads write is one summand of the output, and the ranks add
    them up.

    Args:
        module: the whole module; it stays as it is. Where the ranks have different
            weights, those of rank 0 hold.
        mesh: a ``DeviceMesh`` of one axis; None means all ranks.

    Returns:
        A module that computes the same. Its parameters are of type ``DTensor``: each
        rank stores 1/n of the matrices; ``full_tensor()`` gathers one.

    Raises:
        TypeError: if ``module`` is not a :class:`attention_in_detail.nn.MultiHeadAttention`.
        ValueError: if it has no output projection or has dropout, or the number of
            ranks does not divide its heads or its key heads.

    Source:
        Shoeybi et al. (2019), section 3.
    """
    if mesh is None:
        kind = module.query.weight.device.type
        ranks = torch.distributed.get_world_size()
        mesh = init_device_mesh(kind, (ranks,))
    return HeadsOverRanks(module, mesh)


class _ByHeads(ParallelStyle):
    """How ``parallelize_module`` lays out a MultiHeadAttention: what belongs to a head stays together."""

    def _apply(
        self, module: MultiHeadAttention, mesh: DeviceMesh
    ) -> MultiHeadAttention:
        need_even_heads(module.kv_heads, mesh.size(), "h_kv")
        # torch keeps a matrix as (out, in): the columns of W_Q are rows of its weight.
        for linear, weight, bias in (
            (module.query, Shard(0), Shard(0)),
            (module.key, Shard(0), Shard(0)),
            (module.value, Shard(0), Shard(0)),
            (module.output, Shard(1), Replicate()),
        ):
            for name, placement in (("weight", weight), ("bias", bias)):
                whole = getattr(linear, name)
                if whole is not None:
                    part = distribute_tensor(
                        whole.detach(), mesh, [placement]
                    )
                    setattr(
                        linear,
                        name,
                        torch.nn.Parameter(
                            part, requires_grad=whole.requires_grad
                        ),
                    )
        module.heads //= mesh.size()
        module.kv_heads //= mesh.size()
        return module


class HeadsOverRanks(torch.nn.Module):
    """What ``split_over_ranks`` makes: a MultiHeadAttention of which each rank computes some heads.

    Attributes:
        own: the module with the heads of this rank.
        mesh: the ranks.
    """

    def __init__(
        self, module: MultiHeadAttention, mesh: DeviceMesh
    ) -> None:
        super().__init__()
        need_even_heads(module.heads, mesh.size())
        self.mesh = mesh
        own = copy.deepcopy(module)
        self.own = parallelize_module(own, mesh, _ByHeads())

    def forward(
        self,
        queries: Float[Tensor, "*#batch T D_q"],
        keys: Float[Tensor, "*#batch S D_k"] | None = None,
        values: Float[Tensor, "*#batch S D_v"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        bias: Float[Tensor, "..."] | None = None,
        causal_offset: Size | None = None,
    ) -> Float[Tensor, "*batch T D_out"]:
        r"""Attend; every rank is given the same and returns the same.

        Two sums over the ranks are all that is sent: of the output here, and of the
        gradient of each input on the way back.

        Args:
            queries: as in :class:`attention_in_detail.nn.MultiHeadAttention`,
                whole on every rank.
            keys: likewise.
            values: likewise.
            mask: likewise, for all heads or for each of them.
            bias: likewise.
            causal_offset: likewise.

        Returns:
            The output, whole on every rank.

        Raises:
            TypeError: as there.
            ValueError: as there.
        """
        given = [x for x in (queries, keys, values) if x is not None]
        batch_axes = max(x.ndim for x in given) - 2
        parameters = {
            name: x.to_local() for name, x in self.own.named_parameters()
        }
        # The sum over the ranks is to have it once.
        last = parameters.get("output.bias")
        if last is not None:
            parameters["output.bias"] = torch.zeros_like(last)
        summand = torch.func.functional_call(
            self.own,
            parameters,
            tuple(self._shared(x) for x in (queries, keys, values)),
            {
                "mask": self._own_heads(mask, batch_axes),
                "bias": self._own_heads(self._shared(bias), batch_axes),
                "causal_offset": causal_offset,
            },
        )
        whole = self._summed(summand)
        return whole if last is None else whole + last

    def _shared(self, x: Tensor | None) -> Tensor | None:
        """Return ``x``, of which every rank uses a copy: on the way back their gradients are summed."""
        if x is None or not x.requires_grad:
            return x
        same = DTensor.from_local(
            x, self.mesh, [Replicate()], run_check=False
        )
        return same.to_local(grad_placements=[Partial()])

    def _summed(self, x: Tensor) -> Tensor:
        """Return the sum of ``x`` over the ranks; on the way back each summand gets the sum's gradient."""
        parts = DTensor.from_local(
            x, self.mesh, [Partial()], run_check=False
        )
        return parts.redistribute(placements=[Replicate()]).to_local(
            grad_placements=[Replicate()]
        )

    def _own_heads(
        self, x: Tensor | None, batch_axes: int
    ) -> Tensor | None:
        """Return the part of a mask or bias that speaks of this rank's heads."""
        x = with_head_axis(x, batch_axes)
        if x is None or x.ndim <= 2 or x.shape[-3] == 1:
            return x
        heads = self.own.heads
        return x.narrow(-3, self.mesh.get_local_rank() * heads, heads)
