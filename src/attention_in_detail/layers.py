"""The layers of a Transformer: attention and feed-forward, each with its residual and its norm."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attention_in_detail._checks import checked, named
from attention_in_detail._layer_checks import (
    check_decoder_from_torch,
    check_decoder_layer,
    check_decoder_parameters,
    check_encoder_from_torch,
    check_encoder_layer,
    check_encoder_parameters,
)
from attention_in_detail.multi_head import cross_attention, self_attention
from attention_in_detail.notation import Array, Bool, Float
from attention_in_detail.parameters import MultiHeadParameters
from attention_in_detail.pointwise import (
    FeedForwardParameters,
    LayerNormParameters,
    fed_forward,
    layer_norm,
    unchanged,
)

__all__ = [
    "DecoderLayerParameters",
    "EncoderLayerParameters",
    "decoder_layer",
    "encoder_layer",
]

# What a step of a layer gives: its output, and its weights where it has them.
Step = Callable[[Array], tuple[Array, Array | None]]


@dataclass(frozen=True, eq=False)
class EncoderLayerParameters:
    r"""The parameters of an encoder layer, whose input and output have the width D.

    .. math:: D_q = D_k = D_v = D_{out} = D

    Attributes:
        attention: of the self-attention; all its outer widths are D.
        attention_norm: the norm of that step.
        feed_forward: of the feed-forward network.
        feed_forward_norm: the norm of that step.
        norm_first: whether each norm comes before its step (pre-norm) or after the
            residual is added (post-norm, as Vaswani et al.).

    Raises:
        TypeError: if a part is of a wrong kind, or libraries, dtypes or devices are
            mixed.
        ValueError: if widths do not fit.

    Source:
        Vaswani et al. (2017), section 3.1; pre-norm: Xiong et al. (2020), section 3.
    """

    attention: MultiHeadParameters
    attention_norm: LayerNormParameters
    feed_forward: FeedForwardParameters
    feed_forward_norm: LayerNormParameters
    norm_first: bool = False

    def __new__(cls, *args: Any, **kwargs: Any) -> "EncoderLayerParameters":
        if args or kwargs:
            named(check_encoder_parameters, cls.__name__)(*args, **kwargs)
        return super().__new__(cls)

    @property
    def D(self) -> int:
        """The width of the layer."""
        return self.attention.D_q

    @classmethod
    @checked(check_encoder_from_torch)
    def from_torch(cls, module: Any) -> "EncoderLayerParameters":
        """Read the weights of a ``torch.nn.TransformerEncoderLayer``; gradients flow to it.

        Args:
            module: the layer, batch first or not: ours is always batch first.

        Returns:
            The parameters, as torch tensors, views of the module's own. Its dropout is
            not among them.

        Raises:
            TypeError: if ``module`` has not the attributes of one.
            ValueError: if its activation is neither relu nor the exact gelu.

        Source:
            Documentation of ``torch.nn.TransformerEncoderLayer``, PyTorch 2.13.
        """
        return cls(
            MultiHeadParameters.from_torch(module.self_attn),
            LayerNormParameters.from_torch(module.norm1),
            _feed_forward_from_torch(module),
            LayerNormParameters.from_torch(module.norm2),
            module.norm_first,
        )


@dataclass(frozen=True, eq=False)
class DecoderLayerParameters:
    r"""The parameters of a decoder layer of width D over a context of width D_c.

    .. math:: D_q = D_{out} = D, \qquad D_k = D_v = D_c \text{ in the cross-attention}

    Attributes:
        self_attention: of the first step; all its outer widths are D.
        self_attention_norm: the norm of that step.
        cross_attention: of the second step; D_k = D_v is the width of the context.
        cross_attention_norm: the norm of that step.
        feed_forward: of the third step.
        feed_forward_norm: the norm of that step.
        norm_first: pre-norm or post-norm, as in :class:`EncoderLayerParameters`.

    Raises:
        TypeError: if a part is of a wrong kind, or libraries, dtypes or devices are
            mixed.
        ValueError: if widths do not fit.

    Source:
        Vaswani et al. (2017), section 3.1; pre-norm: Xiong et al. (2020), section 3.
    """

    self_attention: MultiHeadParameters
    self_attention_norm: LayerNormParameters
    cross_attention: MultiHeadParameters
    cross_attention_norm: LayerNormParameters
    feed_forward: FeedForwardParameters
    feed_forward_norm: LayerNormParameters
    norm_first: bool = False

    def __new__(cls, *args: Any, **kwargs: Any) -> "DecoderLayerParameters":
        if args or kwargs:
            named(check_decoder_parameters, cls.__name__)(*args, **kwargs)
        return super().__new__(cls)

    @property
    def D(self) -> int:
        """The width of the layer."""
        return self.self_attention.D_q

    @property
    def D_c(self) -> int:
        """The width of the context."""
        return self.cross_attention.D_k

    @classmethod
    @checked(check_decoder_from_torch)
    def from_torch(cls, module: Any) -> "DecoderLayerParameters":
        """Read the weights of a ``torch.nn.TransformerDecoderLayer``; gradients flow to it.

        Args:
            module: the layer, batch first or not: ours is always batch first.

        Returns:
            The parameters, as torch tensors, views of the module's own. Its dropout is
            not among them.

        Raises:
            TypeError: if ``module`` has not the attributes of one.
            ValueError: if its activation is neither relu nor the exact gelu.

        Source:
            Documentation of ``torch.nn.TransformerDecoderLayer``, PyTorch 2.13.
        """
        return cls(
            MultiHeadParameters.from_torch(module.self_attn),
            LayerNormParameters.from_torch(module.norm1),
            MultiHeadParameters.from_torch(module.multihead_attn),
            LayerNormParameters.from_torch(module.norm2),
            _feed_forward_from_torch(module),
            LayerNormParameters.from_torch(module.norm3),
            module.norm_first,
        )


def _feed_forward_from_torch(module: Any) -> FeedForwardParameters:
    """Read the two ``torch.nn.Linear`` of a layer, which stores them transposed."""
    one, two, bend = module.linear1, module.linear2, module.activation
    name = getattr(bend, "__name__", type(bend).__name__)
    return FeedForwardParameters(
        one.weight.mT, two.weight.mT, one.bias, two.bias, name.lower()
    )


@checked(check_encoder_layer)
def encoder_layer(
    parameters: EncoderLayerParameters,
    x: Float[Array, "*#batch T D"],
    *,
    mask: Bool[Array, "..."] | None = None,
    return_weights: bool = False,
) -> (
    Float[Array, "*#batch T D"]
    | tuple[Float[Array, "*#batch T D"], Float[Array, "*#batch h T T"]]
):
    r"""Let positions exchange what they carry, then change each by itself.

    .. math:: \text{post-norm:} \quad y &= \operatorname{norm}(x + \operatorname{SelfAttention}(x)) \\
        z &= \operatorname{norm}(y + \operatorname{FFN}(y)) \\
        \text{pre-norm:} \quad y &= x + \operatorname{SelfAttention}(\operatorname{norm}(x)) \\
        z &= y + \operatorname{FFN}(\operatorname{norm}(y))

    Each norm has its own gain and shift.

    Args:
        parameters: of the layer; ``norm_first`` chooses between the two.
        x: shape (\*batch, T, D).
        mask: boolean, true = may attend, as in
            :func:`attention_in_detail.self_attention`.
        return_weights: also return the weights of the attention. The output is the
            same with and without.

    Returns:
        The output, shape (\*batch, T, D), or the pair of output and weights, shape
        (\*batch, h, T, T). A position that no query may attend to reaches no row but
        its own, NaN included. Its own row still passes through the residual: NaN
        there would reach the gradients of the norms and the feed-forward network.

    Raises:
        TypeError: if an argument is of a wrong kind, or libraries, dtypes or devices
            are mixed.
        ValueError: if widths, lengths, heads or batch axes do not fit, or T is 0.

    Source:
        Vaswani et al. (2017), section 3.1; pre-norm: Xiong et al. (2020), section 3.
    """

    def attend(y: Array) -> tuple[Array, Array]:
        return self_attention.unchecked(
            parameters.attention, y, mask=mask, return_weights=True
        )

    output, weights = encoder_steps(parameters, x, attend)
    return (output, weights) if return_weights else output


@checked(check_decoder_layer)
def decoder_layer(
    parameters: DecoderLayerParameters,
    x: Float[Array, "*#batch T D"],
    context: Float[Array, "*#batch S D_c"],
    *,
    mask: Bool[Array, "..."] | None = None,
    context_mask: Bool[Array, "..."] | None = None,
    return_weights: bool = False,
) -> (
    Float[Array, "*#batch T D"]
    | tuple[
        Float[Array, "*#batch T D"],
        Float[Array, "*#batch _ T T"],
        Float[Array, "*#batch _ T S"],
    ]
):
    r"""Let the target's positions attend to each other, then to the source, then change each by itself.

    .. math:: \text{post-norm:} \quad u &= \operatorname{norm}(x + \operatorname{SelfAttention}(x)) \\
        v &= \operatorname{norm}(u + \operatorname{CrossAttention}(u, C)) \\
        z &= \operatorname{norm}(v + \operatorname{FFN}(v)) \\
        \text{pre-norm:} \quad u &= x + \operatorname{SelfAttention}(\operatorname{norm}(x)) \\
        v &= u + \operatorname{CrossAttention}(\operatorname{norm}(u), C) \\
        z &= v + \operatorname{FFN}(\operatorname{norm}(v))

    The layer is causal only if its mask is: give
    :func:`attention_in_detail.causal_mask`, combined with a padding mask if need be.

    Args:
        parameters: of the layer; ``norm_first`` chooses between the two.
        x: the target, shape (\*batch, T, D).
        context: the source C, shape (\*batch, S, D_c).
        mask: who may attend to whom within ``x``, true = may attend; axes as in
            :func:`attention_in_detail.self_attention`.
        context_mask: which positions of ``context`` each of ``x`` may attend to; axes
            as in :func:`attention_in_detail.cross_attention`.
        return_weights: also return the weights of both attentions. The output is the
            same with and without.

    Returns:
        The output, shape (\*batch, T, D), or three things: output, weights of the
        self-attention, shape (\*batch, h, T, T), and of the cross-attention, shape
        (\*batch, h, T, S). A position of ``context`` that no query may attend to has
        no effect, NaN included; one of ``x`` as in :func:`encoder_layer`.

    Raises:
        TypeError: if an argument is of a wrong kind, or libraries, dtypes or devices
            are mixed.
        ValueError: if widths, lengths, heads or batch axes do not fit, or T or S is 0.

    Source:
        Vaswani et al. (2017), sections 3.1 and 3.2.3; pre-norm: Xiong et al. (2020),
        section 3.
    """

    def attend(y: Array) -> tuple[Array, Array]:
        return self_attention.unchecked(
            parameters.self_attention, y, mask=mask, return_weights=True
        )

    def attend_to_context(y: Array) -> tuple[Array, Array]:
        return cross_attention.unchecked(
            parameters.cross_attention,
            y,
            context,
            mask=context_mask,
            return_weights=True,
        )

    output, own, crossed = decoder_steps(
        parameters, x, attend, attend_to_context
    )
    return (output, own, crossed) if return_weights else output


# ---- the order of the steps, whoever computes them ----


def with_residual(
    step: Step,
    norm: LayerNormParameters,
    x: Array,
    norm_first: bool,
    dropout: Callable[[Array], Array],
) -> tuple[Array, Array | None]:
    """Return norm(x + step(x)), or x + step(norm(x)) where the norm comes first, and the weights of the step."""
    if norm_first:
        y, weights = step(layer_norm.unchecked(norm, x))
        return x + dropout(y), weights
    y, weights = step(x)
    return layer_norm.unchecked(norm, x + dropout(y)), weights


def encoder_steps(
    p: EncoderLayerParameters,
    x: Array,
    attend: Step,
    dropout: Callable[[Array], Array] = unchanged,
) -> tuple[Array, Array | None]:
    """Put the two steps of an encoder layer in order: its output, and what weights ``attend`` gives."""

    def feed(y: Array) -> tuple[Array, None]:
        return fed_forward(p.feed_forward, y, dropout), None

    x, weights = with_residual(
        attend, p.attention_norm, x, p.norm_first, dropout
    )
    x, _ = with_residual(
        feed, p.feed_forward_norm, x, p.norm_first, dropout
    )
    return x, weights


def decoder_steps(
    p: DecoderLayerParameters,
    x: Array,
    attend: Step,
    attend_to_context: Step,
    dropout: Callable[[Array], Array] = unchanged,
) -> tuple[Array, Array | None, Array | None]:
    """Put the three steps of a decoder layer in order: its output, and the weights of both attentions."""

    def feed(y: Array) -> tuple[Array, None]:
        return fed_forward(p.feed_forward, y, dropout), None

    x, own = with_residual(
        attend, p.self_attention_norm, x, p.norm_first, dropout
    )
    x, crossed = with_residual(
        attend_to_context, p.cross_attention_norm, x, p.norm_first, dropout
    )
    x, _ = with_residual(
        feed, p.feed_forward_norm, x, p.norm_first, dropout
    )
    return x, own, crossed
