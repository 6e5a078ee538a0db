"""The whole Transformer: from tokens to logits."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from attention_in_detail._arrays import as_places
from attention_in_detail._checks import checked, named
from attention_in_detail._transformer_checks import (
    check_decode,
    check_embed,
    check_encode,
    check_transformer,
    check_transformer_from_torch,
    check_transformer_parameters,
)
from attention_in_detail.layers import (
    DecoderLayerParameters,
    EncoderLayerParameters,
    decoder_layer,
    encoder_layer,
)
from attention_in_detail.masks import causal_mask, combine_masks
from attention_in_detail.multi_head import projected
from attention_in_detail.notation import Array, Bool, Float, Integer, Size
from attention_in_detail.pointwise import (
    LayerNormParameters,
    layer_norm,
    unchanged,
)
from attention_in_detail.positions import sinusoidal_positions

__all__ = [
    "TransformerParameters",
    "decode",
    "embed",
    "encode",
    "transformer",
]


@dataclass(frozen=True, eq=False)
class TransformerParameters:
    r"""The parameters of an encoder, a decoder, and what stands before and after them.

    .. math:: E_s : (V_s, D), \quad E_t : (V_t, D), \quad W : (D, V_t)

    V_s and V_t are the sizes of the two vocabularies. The three matrices may be one and
    the same, as in Vaswani et al., or not.

    Attributes:
        source_embedding: one row a token, shape (V_s, D).
        target_embedding: one row a token, shape (V_t, D).
        encoder_layers: one or more.
        decoder_layers: one or more; their contexts have the width D.
        W_output: from the last layer to the logits, shape (D, V_t).
        b_output: shape (V_t,), or None.
        encoder_norm: after the last encoder layer, or None. Pre-norm layers need it;
            ``torch.nn.Transformer`` always has it.
        decoder_norm: after the last decoder layer, or None, likewise.

    Raises:
        TypeError: if a part is of a wrong kind, or libraries, dtypes or devices are
            mixed.
        ValueError: if widths or vocabularies do not fit, D is odd, or there is no
            layer.

    Source:
        Vaswani et al. (2017), sections 3.1 and 3.4.
    """

    source_embedding: Float[Array, "V_s D"]
    target_embedding: Float[Array, "V_t D"]
    encoder_layers: tuple[EncoderLayerParameters, ...]
    decoder_layers: tuple[DecoderLayerParameters, ...]
    W_output: Float[Array, "D V_t"]
    b_output: Float[Array, " V_t"] | None = None
    encoder_norm: LayerNormParameters | None = None
    decoder_norm: LayerNormParameters | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> "TransformerParameters":
        if args or kwargs:
            named(check_transformer_parameters, cls.__name__)(
                *args, **kwargs
            )
        return super().__new__(cls)

    @property
    def D(self) -> int:
        """The width of the model."""
        return self.W_output.shape[0]

    @classmethod
    @checked(check_transformer_from_torch)
    def from_torch(
        cls,
        module: Any,
        source_embedding: Any,
        target_embedding: Any,
        output: Any,
    ) -> "TransformerParameters":
        """Read the weights of a ``torch.nn.Transformer``, which has neither embeddings nor an output; gradients flow to it.

        Args:
            module: a ``torch.nn.Transformer``, batch first or not: ours is always batch
                first.
            source_embedding: a ``torch.nn.Embedding``.
            target_embedding: a ``torch.nn.Embedding``.
            output: the ``torch.nn.Linear`` from the last layer to the logits.

        Returns:
            The parameters, as torch tensors, views of the modules' own.

        Raises:
            TypeError: if a module has not the attributes of its kind.
            ValueError: if widths do not fit, or an activation has no counterpart here.

        Source:
            Documentation of ``torch.nn.Transformer``, PyTorch 2.13.
        """
        encoder, decoder = module.encoder, module.decoder
        norms = (
            None if norm is None else LayerNormParameters.from_torch(norm)
            for norm in (encoder.norm, decoder.norm)
        )
        read, read_too = EncoderLayerParameters, DecoderLayerParameters
        return cls(
            source_embedding.weight,
            target_embedding.weight,
            tuple(read.from_torch(layer) for layer in encoder.layers),
            tuple(read_too.from_torch(layer) for layer in decoder.layers),
            output.weight.mT,
            output.bias,
            *norms,
        )


@checked(check_embed)
def embed(
    table: Float[Array, "V D"],
    tokens: Integer[Array, "*batch T"],
    *,
    offset: Size = 0,
) -> Float[Array, "*batch T D"]:
    r"""Look up the row of each token, scale it, and add where the token stands.

    .. math:: x_p = \sqrt{D}\, E_{t_p} + P_{\text{offset} + p}

    P is :func:`attention_in_detail.sinusoidal_positions`.

    Args:
        table: the embedding E, one row a token, shape (V, D), D even.
        tokens: integers from 0 to V − 1, shape (\*batch, T); read on the host, to check
            them.
        offset: the position of the first token: how many came before.

    Returns:
        The rows, shape (\*batch, T, D).

    Raises:
        TypeError: if ``table`` is not floating, ``tokens`` or ``offset`` not integers,
            or libraries or devices are mixed.
        ValueError: if a token is not in the vocabulary, T is 0, D odd, or ``offset``
            negative.

    Source:
        Vaswani et al. (2017), sections 3.4 (the scale) and 3.5 (the positions).
    """
    xp = array_namespace(table)
    (*batch, T), D = tokens.shape, table.shape[-1]
    flat = as_places(xp.reshape(tokens, (-1,)))
    rows = xp.take(table, flat, axis=0)
    rows = xp.reshape(rows, (*batch, T, D)) * math.sqrt(D)
    offset = int(offset)
    positions = sinusoidal_positions.unchecked(offset + T, D, like=table)
    return rows + positions[offset:, :]


@checked(check_encode)
def encode(
    parameters: TransformerParameters,
    source: Integer[Array, "*batch S"],
    *,
    source_mask: Bool[Array, "..."] | None = None,
    return_weights: bool = False,
) -> Any:
    r"""Turn the source tokens into the rows that the decoder attends to.

    .. math:: C = \operatorname{norm}(\operatorname{EncoderLayer}_N(\cdots
        \operatorname{EncoderLayer}_1(\operatorname{embed}(s))))

    The norm is there if ``parameters.encoder_norm`` is.

    Args:
        parameters: of the whole model.
        source: tokens, integers below V_s, shape (\*batch, S).
        source_mask: which source positions may be attended to, by all: shape (S,) or
            (\*batch, 1, S), as :func:`attention_in_detail.padding_mask` gives it.
        return_weights: also return the weights of each layer.

    Returns:
        The memory C, shape (\*batch, S, D), or the pair of it and a tuple with the
        weights of each layer, (\*batch, h, S, S).

    Raises:
        TypeError: if an argument is of a wrong kind, or libraries or devices are mixed.
        ValueError: if a token is not in the vocabulary, or sizes do not fit.

    Source:
        Vaswani et al. (2017), sections 3.1, 3.4 and 3.5.
    """

    def layer(n: int, x: Array) -> tuple[Array, Array]:
        return encoder_layer.unchecked(
            parameters.encoder_layers[n],
            x,
            mask=source_mask,
            return_weights=True,
        )

    memory, weights = encoder_run(parameters, source, layer)
    return (memory, weights) if return_weights else memory


@checked(check_decode)
def decode(
    parameters: TransformerParameters,
    target: Integer[Array, "*#batch T"],
    memory: Float[Array, "*#batch S D"],
    *,
    target_mask: Bool[Array, "..."] | None = None,
    source_mask: Bool[Array, "..."] | None = None,
    return_weights: bool = False,
) -> Any:
    r"""Say for each target position how much each token of the vocabulary is expected next.

    .. math:: Z = \operatorname{norm}(\operatorname{DecoderLayer}_N(\cdots
        \operatorname{DecoderLayer}_1(\operatorname{embed}(t), C), C))\, W + b

    The decoder is causal by itself: the logits at position i see the target up to i.
    Padding at the end of a target needs no mask, since it comes after what is real.

    Args:
        parameters: of the whole model.
        target: tokens, integers below V_t, shape (\*batch, T); the first is the start
            token.
        memory: what :func:`encode` gives, shape (\*batch, S, D), with as many batch
            axes as ``target``.
        target_mask: what else to shut within the target, true = may attend: at most 2
            axes, or (\*batch, T or 1, T).
        source_mask: as in :func:`encode`.
        return_weights: also return the weights of each layer.

    Returns:
        The logits, shape (\*batch, T, V_t); their softmax is the distribution of the
        next token. Or three things: logits, a tuple with the weights of each
        self-attention, (\*batch, h, T, T), and one with those of each cross-attention,
        (\*batch, h, T, S).

    Raises:
        TypeError: if an argument is of a wrong kind, or libraries, dtypes or devices
            are mixed.
        ValueError: if a token is not in the vocabulary, or sizes do not fit.

    Source:
        Vaswani et al. (2017), sections 3.1 and 3.4.
    """
    mask = with_causal(target_mask, target)

    def layer(n: int, x: Array) -> tuple[Array, Array, Array]:
        return decoder_layer.unchecked(
            parameters.decoder_layers[n],
            x,
            memory,
            mask=mask,
            context_mask=source_mask,
            return_weights=True,
        )

    logits, own, crossed = decoder_run(parameters, target, layer)
    return (logits, own, crossed) if return_weights else logits


@checked(check_transformer)
def transformer(
    parameters: TransformerParameters,
    source: Integer[Array, "*#batch S"],
    target: Integer[Array, "*#batch T"],
    *,
    source_mask: Bool[Array, "..."] | None = None,
    target_mask: Bool[Array, "..."] | None = None,
    return_weights: bool = False,
) -> Any:
    r"""Encode the source, decode the target: from tokens to logits.

    .. math:: Z = \operatorname{decode}(t, \operatorname{encode}(s))

    Args:
        parameters: of the whole model.
        source: tokens, shape (\*batch, S).
        target: tokens, shape (\*batch, T), with as many batch axes.
        source_mask: as in :func:`encode`; it holds in the encoder and in the decoder's
            cross-attention.
        target_mask: as in :func:`decode`.
        return_weights: also return all weights.

    Returns:
        The logits, shape (\*batch, T, V_t), or four things: logits, and tuples with the
        weights of each encoder layer, of each decoder self-attention and of each
        cross-attention.

    Raises:
        TypeError: as :func:`encode` and :func:`decode`.
        ValueError: as :func:`encode` and :func:`decode`.

    Source:
        Vaswani et al. (2017), section 3.
    """
    memory, weights = encode.unchecked(
        parameters, source, source_mask=source_mask, return_weights=True
    )
    logits, own, crossed = decode.unchecked(
        parameters,
        target,
        memory,
        target_mask=target_mask,
        source_mask=source_mask,
        return_weights=True,
    )
    return (logits, weights, own, crossed) if return_weights else logits


# ---- the order of the parts, whoever computes the layers ----


def with_causal(
    target_mask: Array | None, target: Array
) -> Bool[Array, "..."]:
    """Return the mask of a decoder's self-attention."""
    causal = causal_mask.unchecked(target.shape[-1], like=target)
    return combine_masks.unchecked(target_mask, causal)


def encoder_run(
    p: TransformerParameters,
    source: Array,
    layer: Callable[[int, Array], tuple[Array, Array | None]],
    dropout: Callable[[Array], Array] = unchanged,
) -> tuple[Array, tuple[Array | None, ...]]:
    """Embed, go through the layers, norm: the memory, and what weights each ``layer(n, x)`` gives."""
    x, weights = dropout(embed.unchecked(p.source_embedding, source)), []
    for n in range(len(p.encoder_layers)):
        x, A = layer(n, x)
        weights.append(A)
    if p.encoder_norm is not None:
        x = layer_norm.unchecked(p.encoder_norm, x)
    return x, tuple(weights)


def decoder_run(
    p: TransformerParameters,
    target: Array,
    layer: Callable[[int, Array], tuple[Array, Array | None, Array | None]],
    dropout: Callable[[Array], Array] = unchanged,
    *,
    offset: int = 0,
) -> tuple[Array, tuple[Array | None, ...], tuple[Array | None, ...]]:
    """Embed, go through the layers, norm, project to the vocabulary: logits, and both weights of each ``layer(n, x)``."""
    x = embed.unchecked(p.target_embedding, target, offset=offset)
    x, own, crossed = dropout(x), [], []
    for n in range(len(p.decoder_layers)):
        x, A, C = layer(n, x)
        own.append(A)
        crossed.append(C)
    if p.decoder_norm is not None:
        x = layer_norm.unchecked(p.decoder_norm, x)
    logits = projected(x, p.W_output, p.b_output)  # (*batch, T, V_t)
    return logits, tuple(own), tuple(crossed)
