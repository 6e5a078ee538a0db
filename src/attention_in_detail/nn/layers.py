"""The layers of a Transformer as ``torch.nn.Module``: the functions of :mod:`attention_in_detail.layers`, with parameters."""

from numbers import Real
from typing import Any, Literal

import torch
from torch import Tensor

from attention_in_detail._checks import checked
from attention_in_detail._layer_checks import (
    check_decoder_forward,
    check_decoder_from_torch,
    check_decoder_module,
    check_encoder_forward,
    check_encoder_from_torch,
    check_encoder_module,
)
from attention_in_detail.layers import (
    DecoderLayerParameters,
    EncoderLayerParameters,
    decoder_steps,
    encoder_steps,
)
from attention_in_detail.nn.dropping import dropped
from attention_in_detail.nn.multi_head import MultiHeadAttention
from attention_in_detail.notation import Bool, Float, Size
from attention_in_detail.pointwise import (
    FeedForwardParameters,
    LayerNormParameters,
)
from attention_in_detail.trees import map_arrays

__all__ = ["DecoderLayer", "EncoderLayer"]


class _Layer(torch.nn.Module):
    """What both layers have: a feed-forward network, norms, one probability of dropout."""

    def __init__(
        self,
        D: Size,
        *,
        D_ff: Size | None,
        activation: str,
        norm_first: bool,
        dropout: Real,
        eps: Real,
        bias: bool,
        norms: tuple[str, ...],
    ) -> None:
        super().__init__()
        self.activation, self.norm_first = activation, norm_first
        self.dropout = dropout
        D_ff = 4 * int(D) if D_ff is None else D_ff
        self.widening = torch.nn.Linear(D, D_ff, bias=bias)
        self.narrowing = torch.nn.Linear(D_ff, D, bias=bias)
        for name in norms:
            norm = torch.nn.LayerNorm(int(D), eps=float(eps), bias=bias)
            self.add_module(name, norm)

    def reset_parameters(self) -> None:
        """Draw the weights anew from torch's generator; set biases to 0 and gains to 1."""
        for part in self.children():
            if isinstance(part, torch.nn.Linear):
                torch.nn.init.xavier_uniform_(part.weight)
                if part.bias is not None:
                    torch.nn.init.zeros_(part.bias)
            else:
                part.reset_parameters()

    def extra_repr(self) -> str:
        """Say what the submodules do not."""
        return (
            f"activation={self.activation}, norm_first={self.norm_first}, "
            f"dropout={self.dropout}"
        )

    def _drop(self, x: Tensor) -> Tensor:
        return dropped(x, self.dropout, self.training)

    def _feed_forward(self) -> FeedForwardParameters:
        one, two = self.widening, self.narrowing
        return FeedForwardParameters(
            one.weight.mT,
            two.weight.mT,
            one.bias,
            two.bias,
            self.activation,
        )


class EncoderLayer(_Layer):
    r"""An encoder layer with its parameters, batch first.

    .. math:: \text{post-norm:} \quad y &= \operatorname{norm}(x + \operatorname{SelfAttention}(x)) \\
        z &= \operatorname{norm}(y + \operatorname{FFN}(y))

    The same function as :func:`attention_in_detail.encoder_layer` with the parameters
    of :meth:`as_parameters`, and dropout in training: of the attention's weights, of
    the activations, and of what each step adds to the residual.

    Args:
        D: the width of the layer.
        heads: the number of heads; divides D.
        D_ff: the inner width of the feed-forward network; None means 4·D.
        activation: ``"relu"`` or ``"gelu"``.
        norm_first: pre-norm (True) or post-norm.
        dropout: the probability with which a number is dropped in training.
        eps: added to the variance in the norms.
        bias: whether the projections and the norms have biases.

    Raises:
        TypeError: if a size is not an integer, or a flag not True or False.
        ValueError: if a size is below 1, ``heads`` does not divide D, ``dropout`` is
            not in [0, 1), ``eps`` not above 0, or ``activation`` is another.

    Source:
        Vaswani et al. (2017), sections 3.1, 3.3 and 5.4; pre-norm: Xiong et al. (2020),
        section 3. The weights start as Glorot and Bengio (2010), equation 16.
    """

    @checked(check_encoder_module)
    def __init__(
        self,
        D: Size,
        heads: Size,
        *,
        D_ff: Size | None = None,
        activation: Literal["relu", "gelu"] = "relu",
        norm_first: bool = False,
        dropout: Real = 0.0,
        eps: Real = 1e-5,
        bias: bool = True,
    ) -> None:
        super().__init__(
            D,
            D_ff=D_ff,
            activation=activation,
            norm_first=norm_first,
            dropout=dropout,
            eps=eps,
            bias=bias,
            norms=("attention_norm", "feed_forward_norm"),
        )
        self.attention = MultiHeadAttention(
            D, heads, bias=bias, dropout=dropout
        )
        self.reset_parameters()

    def as_parameters(self) -> EncoderLayerParameters:
        """Return the module's own weights, as views, for the functions. Gradients flow to the module."""
        return EncoderLayerParameters(
            self.attention.as_parameters(),
            LayerNormParameters.from_torch(self.attention_norm),
            self._feed_forward(),
            LayerNormParameters.from_torch(self.feed_forward_norm),
            self.norm_first,
        )

    @checked(check_encoder_forward)
    def forward(
        self,
        x: Float[Tensor, "*#batch T D"],
        *,
        mask: Bool[Tensor, "..."] | None = None,
        return_weights: bool = False,
    ) -> (
        Float[Tensor, "*#batch T D"]
        | tuple[
            Float[Tensor, "*#batch T D"], Float[Tensor, "*#batch h T T"]
        ]
    ):
        r"""Compute the layer.

        .. math:: Z = \operatorname{EncoderLayer}(X)

        Args:
            x: shape (\*batch, T, D).
            mask: boolean, true = may attend; axes as in
                :func:`attention_in_detail.self_attention`.
            return_weights: also return the weights, before dropout.

        Returns:
            The output, shape (\*batch, T, D), or the pair of output and weights, shape
            (\*batch, h, T, T).

        Raises:
            TypeError: as :func:`attention_in_detail.encoder_layer`.
            ValueError: as :func:`attention_in_detail.encoder_layer`.

        Source:
            Vaswani et al. (2017), section 3.1.
        """
        output, weights = encoder_steps(
            self.as_parameters(),
            x,
            attention_step(self.attention, mask, return_weights),
            self._drop,
        )
        return (output, weights) if return_weights else output

    @classmethod
    @checked(check_encoder_from_torch)
    def from_torch(
        cls, module: torch.nn.TransformerEncoderLayer
    ) -> "EncoderLayer":
        """Make a layer that computes what a ``torch.nn.TransformerEncoderLayer`` computes; the weights are copied.

        Args:
            module: the one to copy.

        Returns:
            A layer of the same dtype, device, dropout and mode, batch first.

        Raises:
            TypeError: if ``module`` is not such a layer.
            ValueError: if its activation is neither relu nor the exact gelu.
        """
        p = EncoderLayerParameters.from_torch(module)
        made = cls(p.D, p.attention.heads, **_options(p, module))
        return filled(made, p, module.training)


class DecoderLayer(_Layer):
    r"""A decoder layer with its parameters, batch first.

    .. math:: \text{post-norm:} \quad u &= \operatorname{norm}(x + \operatorname{SelfAttention}(x)) \\
        v &= \operatorname{norm}(u + \operatorname{CrossAttention}(u, C)) \\
        z &= \operatorname{norm}(v + \operatorname{FFN}(v))

    The same function as :func:`attention_in_detail.decoder_layer` with the parameters
    of :meth:`as_parameters`, and dropout in training as in :class:`EncoderLayer`. It is
    causal only if its mask is.

    Args:
        D: the width of the layer.
        heads: the number of heads of both attentions; divides D.
        D_c: the width of the context; None means D.
        D_ff: the inner width of the feed-forward network; None means 4·D.
        activation: ``"relu"`` or ``"gelu"``.
        norm_first: pre-norm (True) or post-norm.
        dropout: the probability with which a number is dropped in training.
        eps: added to the variance in the norms.
        bias: whether the projections and the norms have biases.

    Raises:
        TypeError: as :class:`EncoderLayer`.
        ValueError: as :class:`EncoderLayer`.

    Source:
        Vaswani et al. (2017), sections 3.1, 3.3 and 5.4; pre-norm: Xiong et al. (2020),
        section 3. The weights start as Glorot and Bengio (2010), equation 16.
    """

    @checked(check_decoder_module)
    def __init__(
        self,
        D: Size,
        heads: Size,
        *,
        D_c: Size | None = None,
        D_ff: Size | None = None,
        activation: Literal["relu", "gelu"] = "relu",
        norm_first: bool = False,
        dropout: Real = 0.0,
        eps: Real = 1e-5,
        bias: bool = True,
    ) -> None:
        super().__init__(
            D,
            D_ff=D_ff,
            activation=activation,
            norm_first=norm_first,
            dropout=dropout,
            eps=eps,
            bias=bias,
            norms=(
                "self_attention_norm",
                "cross_attention_norm",
                "feed_forward_norm",
            ),
        )
        self.self_attention = MultiHeadAttention(
            D, heads, bias=bias, dropout=dropout
        )
        self.cross_attention = MultiHeadAttention(
            D, heads, D_k=D_c, D_v=D_c, bias=bias, dropout=dropout
        )
        self.reset_parameters()

    def as_parameters(self) -> DecoderLayerParameters:
        """Return the module's own weights, as views, for the functions. Gradients flow to the module."""
        norm = LayerNormParameters.from_torch
        return DecoderLayerParameters(
            self.self_attention.as_parameters(),
            norm(self.self_attention_norm),
            self.cross_attention.as_parameters(),
            norm(self.cross_attention_norm),
            self._feed_forward(),
            norm(self.feed_forward_norm),
            self.norm_first,
        )

    @checked(check_decoder_forward)
    def forward(
        self,
        x: Float[Tensor, "*#batch T D"],
        context: Float[Tensor, "*#batch S D_c"],
        *,
        mask: Bool[Tensor, "..."] | None = None,
        context_mask: Bool[Tensor, "..."] | None = None,
        return_weights: bool = False,
    ) -> (
        Float[Tensor, "*#batch T D"]
        | tuple[
            Float[Tensor, "*#batch T D"],
            Float[Tensor, "*#batch h T T"],
            Float[Tensor, "*#batch h T S"],
        ]
    ):
        r"""Compute the layer.

        .. math:: Z = \operatorname{DecoderLayer}(X, C)

        Args:
            x: the target, shape (\*batch, T, D).
            context: the source, shape (\*batch, S, D_c).
            mask: boolean, true = may attend, within the target.
            context_mask: likewise, from the target to the context.
            return_weights: also return the weights, before dropout.

        Returns:
            The output, shape (\*batch, T, D), or three things: output, weights of the
            self-attention and of the cross-attention.

        Raises:
            TypeError: as :func:`attention_in_detail.decoder_layer`.
            ValueError: as :func:`attention_in_detail.decoder_layer`.

        Source:
            Vaswani et al. (2017), section 3.1.
        """
        output, own, crossed = decoder_steps(
            self.as_parameters(),
            x,
            attention_step(self.self_attention, mask, return_weights),
            attention_step(
                self.cross_attention, context_mask, return_weights, context
            ),
            self._drop,
        )
        return (output, own, crossed) if return_weights else output

    @classmethod
    @checked(check_decoder_from_torch)
    def from_torch(
        cls, module: torch.nn.TransformerDecoderLayer
    ) -> "DecoderLayer":
        """Make a layer that computes what a ``torch.nn.TransformerDecoderLayer`` computes; the weights are copied.

        Args:
            module: the one to copy.

        Returns:
            A layer of the same dtype, device, dropout and mode, batch first.

        Raises:
            TypeError: if ``module`` is not such a layer.
            ValueError: if its activation is neither relu nor the exact gelu.
        """
        p = DecoderLayerParameters.from_torch(module)
        made = cls(
            p.D, p.self_attention.heads, D_c=p.D_c, **_options(p, module)
        )
        return filled(made, p, module.training)


def attention_step(
    attention: MultiHeadAttention,
    mask: Tensor | None,
    return_weights: bool,
    context: Tensor | None = None,
) -> Any:
    """Return the step that a layer takes: from x to the pair of what ``attention`` gives and its weights, or None."""

    def attend(y: Tensor) -> tuple[Tensor, Tensor | None]:
        found = MultiHeadAttention.forward.unchecked(
            attention,
            y,
            context,
            mask=mask,
            return_weights=return_weights,
        )
        return found if return_weights else (found, None)

    return attend


def _options(
    p: EncoderLayerParameters | DecoderLayerParameters, module: Any
) -> dict[str, Any]:
    """Return how a layer with these parameters is made, and with the dropout of ``module``."""
    return {
        "D_ff": p.feed_forward.W_1.shape[1],
        "activation": p.feed_forward.activation,
        "norm_first": p.norm_first,
        "dropout": module.dropout1.p,
        "eps": p.feed_forward_norm.eps,
        "bias": p.feed_forward.b_1 is not None,
    }


def filled(module: Any, parameters: Any, training: bool) -> Any:
    """Return ``module`` with copies of ``parameters``, in their dtype, on their device."""
    sources = arrays_of(parameters)
    module = module.to(sources[0].device, sources[0].dtype).train(training)
    with torch.no_grad():
        for target, source in zip(
            arrays_of(module.as_parameters()), sources, strict=True
        ):
            target.copy_(source)
    return module


def arrays_of(parameters: Any) -> list[Tensor]:
    """Return all arrays of a tree of parameters, in order."""
    found = []

    def seen(x: Tensor) -> Tensor:
        found.append(x)
        return x

    map_arrays(parameters, seen)
    return found
