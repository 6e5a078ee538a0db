"""Multi-head attention as a ``torch.nn.Module``."""

from numbers import Real
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from attention_in_detail._arrays import (
    constant,
    narrowed,
    spread,
    widened,
)
from attention_in_detail._checks import checked
from attention_in_detail._multi_head_checks import check_forward
from attention_in_detail._parameter_checks import (
    check_from_torch,
    check_module,
)
from attention_in_detail.masks import (
    causal_mask,
    combine_masks,
    keep_rows,
    may_attend,
)
from attention_in_detail.multi_head import (
    merge_heads,
    repeat_heads,
    split_heads,
    with_head_axis,
)
from attention_in_detail.nn.dropping import dropped
from attention_in_detail.notation import Bool, Float, Size
from attention_in_detail.parameters import MultiHeadParameters

__all__ = ["MultiHeadAttention"]

# Fewer keys may leave a register of the processor in part empty: see _fused_attention.
FEW_KEYS = 64


class MultiHeadAttention(torch.nn.Module):
    r"""Multi-head attention with its parameters, batch first.

    .. math:: \operatorname{MultiHead}(Q, K, V) = [H_1, \dots, H_h]\, W^O + b^O, \qquad
        H_i = \operatorname{Attention}(Q W^Q_i, K W^K_i, V W^V_i)

    The same function as :func:`attention_in_detail.multi_head_attention` with the
    parameters of :meth:`as_parameters`. What comes from one input is projected in one
    product. Where the weights are not asked for,
    ``torch.nn.functional.scaled_dot_product_attention`` computes the heads.

    Args:
        D: the width of all heads together.
        heads: the number of heads h; divides D.
        kv_heads: the number of key heads; divides ``heads``. None means ``heads``.
        D_q: the width of the queries; None means D. Likewise ``D_k``, ``D_v``,
            ``D_out``.
        D_k: see ``D_q``.
        D_v: see ``D_q``.
        D_out: see ``D_q``.
        bias: whether the projections have biases.
        output: whether to have W_O; without it the output is the concatenated heads.
        dropout: the probability with which a weight is dropped in training; what is
            left is scaled up by 1/(1 − dropout).

    Raises:
        TypeError: if a size is not an integer.
        ValueError: if a size is below 1, ``heads`` does not divide D, ``kv_heads`` not
            ``heads``, ``dropout`` is not in [0, 1), or ``D_out`` is given without an
            output.

    Source:
        Vaswani et al. (2017), section 3.2.2; fewer key heads: Ainslie et al. (2023),
        section 2.2. The weights start as Glorot and Bengio (2010), equation 16, the
        biases at 0.
    """

    @checked(check_module)
    def __init__(
        self,
        D: Size,
        heads: Size,
        *,
        kv_heads: Size | None = None,
        D_q: Size | None = None,
        D_k: Size | None = None,
        D_v: Size | None = None,
        D_out: Size | None = None,
        bias: bool = True,
        output: bool = True,
        dropout: Real = 0.0,
    ) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.kv_heads = heads if kv_heads is None else kv_heads
        D_kv = (
            D if kv_heads is None else int(D) // int(heads) * int(kv_heads)
        )
        self.query, self.key, self.value = (
            torch.nn.Linear(
                D if width is None else width, columns, bias=bias
            )
            for width, columns in ((D_q, D), (D_k, D_kv), (D_v, D_kv))
        )
        self.output = (
            torch.nn.Linear(D, D if D_out is None else D_out, bias=bias)
            if output
            else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew from torch's generator and set the biases to 0."""
        for linear in (self.query, self.key, self.value, self.output):
            if linear is not None:
                torch.nn.init.xavier_uniform_(linear.weight)
                if linear.bias is not None:
                    torch.nn.init.zeros_(linear.bias)

    def as_parameters(self) -> MultiHeadParameters:
        """Return the module's own weights, as views, for the functions. Gradients flow to the module."""
        linears = (self.query, self.key, self.value)
        weights = [linear.weight.mT for linear in linears]
        biases = [linear.bias for linear in linears]
        out = self.output
        return MultiHeadParameters(
            *weights,
            *(
                (None, *biases, None)
                if out is None
                else (out.weight.mT, *biases, out.bias)
            ),
            heads=self.heads,
            kv_heads=(
                None if self.kv_heads == self.heads else self.kv_heads
            ),
        )

    @checked(check_forward)
    def forward(
        self,
        queries: Float[Tensor, "*#batch T D_q"],
        keys: Float[Tensor, "*#batch S D_k"] | None = None,
        values: Float[Tensor, "*#batch S D_v"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        bias: Float[Tensor, "..."] | None = None,
        causal_offset: Size | None = None,
        return_weights: bool = False,
    ) -> (
        Float[Tensor, "*batch T D_out"]
        | tuple[
            Float[Tensor, "*batch T D_out"], Float[Tensor, "*batch h T S"]
        ]
    ):
        r"""Attend.

        .. math:: Y = \operatorname{MultiHead}(Q, K, V)

        Args:
            queries: shape (\*batch, T, D_q).
            keys: shape (\*batch, S, D_k); None means self-attention, keys = values =
                queries.
            values: shape (\*batch, S, D_v); None means values = keys.
            mask: boolean, true = may attend; axes as in
                :func:`attention_in_detail.multi_head_attention`.
            bias: floating, added to the scores; axes likewise.
            causal_offset: also shut the keys j > i + causal_offset (see
                :func:`attention_in_detail.causal_mask`); None shuts none.
            return_weights: also return the weights, before dropout, so that each row
                sums to 1.

        Returns:
            The output, shape (\*batch, T, D_out), or the pair of output and weights,
            shape (\*batch, h, T, S). A NaN value need not reach the queries before it
            where ``causal_offset`` alone shuts it to them.

        Raises:
            TypeError: as :func:`attention_in_detail.multi_head_attention`.
            ValueError: as there; or if values are given without keys.

        Source:
            Vaswani et al. (2017), sections 3.2.2 and 5.4 (dropout).
        """
        keys = queries if keys is None else keys
        values = keys if values is None else values
        T, S = queries.shape[-2], keys.shape[-2]
        batch_axes = max(x.ndim for x in (queries, keys, values)) - 2
        mask = with_head_axis(mask, batch_axes)
        bias = with_head_axis(bias, batch_axes)
        # The kernels know one mask themselves, and skip what it shuts.
        kernel_causal = (
            causal_offset == 0
            and T == S >= FEW_KEYS
            and mask is None
            and bias is None
            and not return_weights
        )
        if causal_offset is not None and not kernel_causal:
            causal = causal_mask.unchecked(
                T, S, offset=causal_offset, like=queries
            )
            mask = combine_masks.unchecked(mask, causal)
        is_open = may_attend(mask, bias)
        q, k, v = self._projected_heads(queries, keys, values, is_open)
        q = keep_rows(q, is_open, of="queries")
        k = keep_rows(k, is_open, of="keys")
        v = keep_rows(v, is_open, of="keys")

        dropout = self.dropout if self.training else 0.0
        weights = None
        if return_weights:
            heads, weights = _attention_with_weights(
                q, k, v, is_open, bias, dropout=dropout
            )
        else:
            heads = _fused_attention(
                q,
                k,
                v,
                is_open,
                bias,
                dropout=dropout,
                causal=kernel_causal,
            )
        merged = merge_heads.unchecked(heads)
        output = merged if self.output is None else self.output(merged)
        return (output, weights) if return_weights else output

    def _projected_heads(
        self,
        queries: Float[Tensor, "*#batch T D_q"],
        keys: Float[Tensor, "*#batch S D_k"],
        values: Float[Tensor, "*#batch S D_v"],
        is_open: Bool[Tensor, "..."] | None,
    ) -> tuple[
        Float[Tensor, "*#batch h T D_h"],
        Float[Tensor, "*#batch h S D_h"],
        Float[Tensor, "*#batch h S D_h"],
    ]:
        """Project and split into heads: one product for each input, however many projections it has."""
        if is_open is not None and is_open.ndim > 2:
            is_open = is_open.any(-3)  # open in any head
        inputs = {"queries": queries, "keys": keys, "values": values}
        linears = {
            "queries": self.query,
            "keys": self.key,
            "values": self.value,
        }
        projected: dict[str, Tensor] = {}
        for x in inputs.values():
            uses = [name for name, other in inputs.items() if other is x]
            if uses[0] not in projected:
                kept = _with_rows_of(x, is_open, uses)
                columns = _in_one_product(
                    kept, [linears[name] for name in uses]
                )
                projected |= dict(zip(uses, columns, strict=True))
        split, repeated = split_heads.unchecked, repeat_heads.unchecked
        times = int(self.heads) // int(self.kv_heads)
        k, v = (
            repeated(split(projected[name], self.kv_heads), times)
            for name in ("keys", "values")
        )
        return split(projected["queries"], self.heads), k, v

    @classmethod
    @checked(check_from_torch)
    def from_torch(
        cls, module: torch.nn.MultiheadAttention
    ) -> "MultiHeadAttention":
        """Make a module that computes what a ``torch.nn.MultiheadAttention`` computes; the weights are copied.

        Ours is batch first whatever ``module`` is, and true in a mask means *may
        attend* (see :func:`attention_in_detail.mask_from_torch_mha`).

        Args:
            module: the one to copy.

        Returns:
            A module of the same dtype, device, dropout and mode.

        Raises:
            TypeError: if ``module`` is not a ``torch.nn.MultiheadAttention``.
            ValueError: if it was made with ``add_bias_kv`` or ``add_zero_attn``.
        """
        p = MultiHeadParameters.from_torch(module)
        ours = cls(
            p.D,
            p.heads,
            D_q=p.D_q,
            D_k=p.D_k,
            D_v=p.D_v,
            bias=p.b_Q is not None,
            dropout=module.dropout,
        )
        ours = ours.to(p.W_Q.device, p.W_Q.dtype).train(module.training)
        linears = (ours.query, ours.key, ours.value, ours.output)
        with torch.no_grad():
            for linear, W, b in zip(
                linears,
                (p.W_Q, p.W_K, p.W_V, p.W_O),
                (p.b_Q, p.b_K, p.b_V, p.b_O),
                strict=True,
            ):
                linear.weight.copy_(W.mT)
                if b is not None:
                    linear.bias.copy_(b)
        return ours

    def to_torch(self) -> torch.nn.MultiheadAttention:
        """Make a ``torch.nn.MultiheadAttention`` (batch first) that computes the same; the weights are copied.

        Returns:
            A module of the same dtype, device, dropout and mode. Its masks mean the
            opposite: see :func:`attention_in_detail.mask_to_torch_mha`.

        Raises:
            ValueError: if torch's module has no such form: it forces D_q = D = D_out,
                has always an output projection, and no fewer key heads.
        """
        p = self.as_parameters()
        if p.W_O is None:
            raise ValueError(
                "output is False, but torch.nn.MultiheadAttention always has an output projection"
            )
        if self.kv_heads != self.heads:
            raise ValueError(
                f"kv_heads is {self.kv_heads}, but torch.nn.MultiheadAttention forces kv_heads = heads = {self.heads}"
            )
        for name in ("D_q", "D_out"):
            if getattr(p, name) != p.D:
                raise ValueError(
                    f"{name} is {getattr(p, name)}, but torch.nn.MultiheadAttention forces {name} = D = {p.D}"
                )
        theirs = torch.nn.MultiheadAttention(
            p.D,
            p.heads,
            dropout=self.dropout,
            bias=p.b_Q is not None,
            kdim=p.D_k,
            vdim=p.D_v,
            batch_first=True,
        )
        theirs = theirs.to(p.W_Q.device, p.W_Q.dtype).train(self.training)
        with torch.no_grad():
            for target, source in (
                MultiHeadParameters.from_torch(theirs).arrays().items()
            ):
                source.copy_(getattr(p, target))
        return theirs

    def extra_repr(self) -> str:
        """Say what the submodules do not."""
        shared = (
            ""
            if self.kv_heads == self.heads
            else f", kv_heads={self.kv_heads}"
        )
        return f"heads={self.heads}{shared}, dropout={self.dropout}"


def _with_rows_of(
    x: Float[Tensor, "*#batch rows width"],
    is_open: Bool[Tensor, "..."] | None,
    uses: list[str],
) -> Float[Tensor, "..."]:
    """Return ``x`` with the rows set to 0 that take part in none of its uses, *before* they are projected.

    The gradient of a projection multiplies by its input: NaN in padding would reach the
    weights through a gradient of 0.
    """
    if is_open is None:
        return x
    takes_part = torch.stack(
        torch.broadcast_tensors(
            *(is_open.any(-1 if use == "queries" else -2) for use in uses)
        )
    ).any(0)
    return torch.where(takes_part[..., None], x, constant(0.0, x))


def _in_one_product(
    x: Float[Tensor, "*batch rows width"], linears: list[torch.nn.Linear]
) -> tuple[Float[Tensor, "*batch rows D"], ...]:
    """Apply several linear layers to one input: their weights side by side are one matrix."""
    weight = torch.cat([linear.weight for linear in linears])
    biases = [linear.bias for linear in linears if linear.bias is not None]
    joint = F.linear(x, weight, torch.cat(biases) if biases else None)
    return joint.split(
        [linear.weight.shape[0] for linear in linears], dim=-1
    )


def _attention_with_weights(
    q: Float[Tensor, "*#batch T D_h"],
    k: Float[Tensor, "*#batch S D_h"],
    v: Float[Tensor, "*#batch S D_h"],
    is_open: Bool[Tensor, "..."] | None,
    bias: Float[Tensor, "..."] | None,
    *,
    dropout: float,
) -> tuple[
    Float[Tensor, "*batch T D_h"],
    Float[Tensor, "*batch T S"],
]:
    """Compute attention by its definition; the weights are as they were before dropout."""
    # With its heads side by side, torch would copy each for each product.
    wide_q, wide_k, wide_v = (widened(x).contiguous() for x in (q, k, v))
    scale = q.shape[-1] ** -0.5  # there are fewer queries than scores
    z = (wide_q * scale) @ wide_k.mT  # (*batch, T, S)
    if bias is not None:
        z = z + widened(bias)
    some_key = None
    if is_open is not None:
        some_key = is_open.any(-1, keepdim=True)
        z = torch.where(is_open, z, constant(-torch.inf, z))
    weights = _SoftmaxInPlace.apply(z, some_key)
    # The values may have batch axes of their own: the weights hold for each.
    batch = torch.broadcast_shapes(weights.shape[:-2], v.shape[:-2])
    weights = spread(weights, (*batch, *weights.shape[-2:]))
    heads = dropped(weights, dropout, True) @ wide_v
    return narrowed(heads, v.dtype), narrowed(weights, q.dtype)


class _SoftmaxInPlace(Function):
    """The softmax along the keys, written over the scores: an array of (T, S) less to ask the system for."""

    @staticmethod
    def forward(
        scores: Float[Tensor, "*batch T S"],
        some_key: Bool[Tensor, "..."] | None,
    ) -> Float[Tensor, "*batch T S"]:
        weights = torch.softmax(scores, -1, out=scores)
        return (
            weights
            if some_key is None
            else weights.masked_fill_(~some_key, 0.0)
        )

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Any, ...], output: Tensor
    ) -> None:
        ctx.mark_dirty(inputs[0])
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, dA: Tensor) -> tuple[Tensor, None]:
        """Return A ∘ (dA − δ), where δ sums A ∘ dA along the keys; it can be differentiated again."""
        (A,) = ctx.saved_tensors
        dZ = A * dA
        delta = dZ.sum(-1, keepdim=True)
        return dZ.addcmul_(A, delta, value=-1), None


def _fused_attention(
    q: Float[Tensor, "*#batch T D_h"],
    k: Float[Tensor, "*#batch S D_h"],
    v: Float[Tensor, "*#batch S D_h"],
    is_open: Bool[Tensor, "..."] | None,
    bias: Float[Tensor, "..."] | None,
    *,
    dropout: float,
    causal: bool,
) -> Float[Tensor, "*batch T D_h"]:
    """Compute attention by torch's own kernels, with the package's rules for what is shut."""
    lead = () if is_open is None else is_open.shape[:-2]
    batch = torch.broadcast_shapes(
        q.shape[:-2], k.shape[:-2], v.shape[:-2], lead
    )
    # The kernels do not broadcast batch axes in every case.
    q, k, v = (x.expand(*batch, *x.shape[-2:]) for x in (q, k, v))
    if is_open is None:
        # Where all scores of a query are NaN, the kernel for CPUs gives 0 if the keys fill
        # no register, but NaN if it has a mask (torch 2.13).
        few = k.shape[-2] < FEW_KEYS
        all_open = torch.tensor([[True]], device=q.device) if few else None
        return F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=all_open,
            dropout_p=dropout,
            is_causal=causal,
        )
    # What the kernels do with a row that may attend to nothing differs (0, NaN, or NaN in
    # the gradient alone): such a row is opened for them, and its output set to 0
    # afterwards, which also stops the gradient.
    some_key = is_open.any(-1, keepdim=True)
    if bias is None:
        kernel_mask = is_open | ~some_key
    else:
        shut = torch.where(some_key, -torch.inf, 0.0).to(q.dtype)
        kernel_mask = torch.where(is_open, bias, shut)
    heads = F.scaled_dot_product_attention(
        q, k, v, attn_mask=kernel_mask, dropout_p=dropout
    )
    return torch.where(some_key, heads, constant(0.0, heads))
