"""The gradient of :func:`attention_in_detail.online_attention` for PyTorch: block by block, from what the output left."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from attention_in_detail._arrays import as_factor, narrowed, widened
from attention_in_detail._blocks import (
    finite,
    open_blocks,
    part_of,
    positive,
    scored,
)
from attention_in_detail.backward import (
    gradients_from_weights,
    summed_to,
)
from attention_in_detail.masks import combine_masks
from attention_in_detail.notation import Bias, Float, Mask, Scale, Size
from attention_in_detail.online import (
    PartialAttention,
    attention_by_blocks,
)

__all__ = ["differentiable_by_blocks", "gradients_by_blocks"]


def differentiable_by_blocks(
    queries: Float[Tensor, "*#batch T D_k"],
    keys: Float[Tensor, "*#batch S D_k"],
    values: Float[Tensor, "*#batch S D_v"],
    *,
    mask: Mask | None,
    bias: Bias | None,
    scale: Scale | None,
    **cut: Size | None,
) -> PartialAttention:
    """Attention by blocks whose output has a gradient; largest scores and sums have none."""
    return PartialAttention(
        *_ByBlocks.apply(queries, keys, values, bias, scale, mask, cut)
    )


class _ByBlocks(Function):
    """Keeps inputs, output and two numbers a query; computes each block of weights again."""

    @staticmethod
    def forward(
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        bias: Tensor | None,
        scale: Any,
        mask: Tensor | None,
        cut: dict[str, Any],
    ) -> tuple[Tensor, Tensor, Tensor]:
        whole = attention_by_blocks(
            queries,
            keys,
            values,
            mask=mask,
            bias=bias,
            scale=scale,
            **cut,
        )
        return whole.output, whole.largest, whole.total

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]
    ) -> None:
        *tensors, scale, mask, ctx.cut = inputs
        is_tensor = isinstance(scale, Tensor)
        ctx.scale = None if is_tensor else scale
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(
            *tensors, scale if is_tensor else None, mask, *output
        )

    @staticmethod
    def backward(
        ctx: Any, output_gradient: Tensor, *_: Any
    ) -> tuple[Tensor | None, ...]:
        gradients = _Gradients.apply(
            output_gradient,
            *ctx.saved_tensors,
            ctx.scale,
            ctx.needs_input_grad,
            ctx.cut,
        )
        return *gradients, None, None


class _Gradients(Function):
    """The gradients as a step of its own: a derivative of them is refused, and only where one is asked for."""

    @staticmethod
    def forward(
        output_gradient: Tensor,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        bias: Tensor | None,
        scale: Tensor | None,
        mask: Tensor | None,
        output: Tensor,
        largest: Tensor,
        total: Tensor,
        number: Any,
        needed: tuple[bool, ...],
        cut: dict[str, Any],
    ) -> tuple[Tensor | None, ...]:
        inputs = queries, keys, values, bias
        dQ, dK, dV, d_bias = sums = [
            torch.zeros_like(widened(x)) if need else None
            for x, need in zip(inputs, needed, strict=False)
        ]
        shift, total = finite(largest), positive(total)
        # Whatever arrives for a query that attends to nothing, nothing passes.
        attends = (largest != -torch.inf)[..., None]
        dY = torch.where(attends, output_gradient, 0.0)
        delta = (dY * output).sum(-1)
        factor = number if scale is None else scale
        if factor is None:
            factor = 1 / math.sqrt(queries.shape[-1])
        d_scale = torch.zeros((), dtype=dY.dtype, device=dY.device)
        T, S = queries.shape[-2], keys.shape[-2]
        for rows, all_columns in open_blocks(T, S, **cut):
            for columns, causal in all_columns:
                q, k, v, z = scored(
                    queries[..., rows, :],
                    keys[..., columns, :],
                    values[..., columns, :],
                    mask=combine_masks.unchecked(
                        part_of(mask, rows, columns),
                        None if causal is None else causal(like=queries),
                    ),
                    bias=part_of(bias, rows, columns),
                    scale=factor,
                )
                A = torch.exp(z - shift[..., rows, None])
                A = A / total[..., rows, None]
                s = as_factor(factor, A)
                found = gradients_from_weights(
                    A, q, k, v, dY[..., rows, :], s, delta[..., rows, None]
                )
                places = (
                    (dQ, rows),
                    (dK, columns),
                    (dV, columns),
                )
                for (place, part), gradient in zip(
                    places, found, strict=False
                ):
                    if place is not None:
                        _add(place[..., part, :], gradient)
                dZ = found[-1]
                if d_bias is not None:
                    _add(part_of(d_bias, rows, columns), dZ)
                if needed[4]:
                    d_scale += (dZ * (q @ k.mT)).sum()
        gradients = [
            None if dx is None else narrowed(dx, x.dtype)
            for dx, x in zip(sums, inputs, strict=True)
        ]
        d_scale = d_scale.to(scale.dtype) if needed[4] else None
        return *gradients, d_scale

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]
    ) -> None:
        """Keep nothing: there is no way further back."""

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise NotImplementedError(
            "online_attention has no second derivative; use attention, which has"
        )


# The same as a plain function, for whoever has some of the keys and the output over all of them.
gradients_by_blocks = _Gradients.forward


def _add(place: Tensor, gradient: Tensor) -> None:
    """Add to a part of an array in its place, over the axes along which it was broadcast."""
    place += summed_to(gradient, place.shape)
