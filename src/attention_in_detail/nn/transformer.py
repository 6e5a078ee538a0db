"""The whole Transformer as a ``torch.nn.Module``: from tokens to logits."""

from numbers import Real
from typing import Any, Literal

import torch
from torch import Tensor

from attention_in_detail._checks import checked
from attention_in_detail._transformer_checks import (
    check_transformer_forward,
    check_transformer_from_torch,
    check_transformer_module,
)
from attention_in_detail.encoder_decoder import (
    TransformerParameters,
    decoder_run,
    encoder_run,
    with_causal,
)
from attention_in_detail.nn.dropping import dropped
from attention_in_detail.nn.layers import (
    DecoderLayer,
    EncoderLayer,
    filled,
)
from attention_in_detail.notation import Bool, Integer, Size
from attention_in_detail.pointwise import LayerNormParameters

__all__ = ["Transformer"]


class Transformer(torch.nn.Module):
    r"""A Transformer with its parameters, batch first, from tokens to logits.

    .. math:: Z = \operatorname{decode}(t, \operatorname{encode}(s))

    The same function as :func:`attention_in_detail.transformer` with the parameters of
    :meth:`as_parameters`, and dropout in training: in the layers as
    :class:`attention_in_detail.nn.EncoderLayer` has it, and of the sums of embeddings and positions.

    Args:
        V_s: the size of the source's vocabulary.
        V_t: the size of the target's vocabulary.
        D: the width of the model; even.
        heads: the number of heads of each attention; divides D.
        encoder_layers: how many.
        decoder_layers: how many.
        D_ff: the inner width of the feed-forward networks; None means 4·D.
        activation: ``"relu"`` or ``"gelu"``.
        norm_first: pre-norm (True) or post-norm layers.
        final_norm: whether a norm follows the last layer of each side; None means: with
            pre-norm layers, which leave the sum of all steps as it is.
        dropout: the probability with which a number is dropped in training.
        eps: added to the variance in the norms.
        bias: whether the projections and the norms have biases.

    Raises:
        TypeError: if a size is not an integer, or a flag not True or False.
        ValueError: if a size is below 1, D odd, or an option not allowed, as in
            :class:`attention_in_detail.nn.EncoderLayer`.

    Source:
        Vaswani et al. (2017), sections 3 and 5.4. The embeddings start normal with
        variance 1/D, so that they have variance 1 once scaled; the other weights as
        Glorot and Bengio (2010), equation 16.
    """

    @checked(check_transformer_module)
    def __init__(
        self,
        V_s: Size,
        V_t: Size,
        D: Size,
        heads: Size,
        *,
        encoder_layers: Size = 6,
        decoder_layers: Size = 6,
        D_ff: Size | None = None,
        activation: Literal["relu", "gelu"] = "relu",
        norm_first: bool = False,
        final_norm: bool | None = None,
        dropout: Real = 0.0,
        eps: Real = 1e-5,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        D = int(D)
        self.source_embedding = torch.nn.Embedding(int(V_s), D)
        self.target_embedding = torch.nn.Embedding(int(V_t), D)
        options = {
            "D_ff": D_ff,
            "activation": activation,
            "norm_first": norm_first,
            "dropout": dropout,
            "eps": eps,
            "bias": bias,
        }
        self.encoder_layers, self.decoder_layers = (
            torch.nn.ModuleList(
                made(D, heads, **options) for _ in range(int(count))
            )
            for made, count in (
                (EncoderLayer, encoder_layers),
                (DecoderLayer, decoder_layers),
            )
        )
        final = norm_first if final_norm is None else final_norm
        self.encoder_norm, self.decoder_norm = (
            torch.nn.LayerNorm(D, eps=float(eps), bias=bias)
            if final
            else None
            for _ in range(2)
        )
        self.output = torch.nn.Linear(D, int(V_t), bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew from torch's generator; set biases to 0 and gains to 1."""
        for table in (self.source_embedding, self.target_embedding):
            torch.nn.init.normal_(
                table.weight, std=table.embedding_dim**-0.5
            )
        for layer in (*self.encoder_layers, *self.decoder_layers):
            layer.reset_parameters()
        for norm in (self.encoder_norm, self.decoder_norm):
            if norm is not None:
                norm.reset_parameters()
        torch.nn.init.xavier_uniform_(self.output.weight)
        if self.output.bias is not None:
            torch.nn.init.zeros_(self.output.bias)

    def as_parameters(self) -> TransformerParameters:
        """Return the module's own weights, as views, for the functions. Gradients flow to the module."""
        norms = (
            None if norm is None else LayerNormParameters.from_torch(norm)
            for norm in (self.encoder_norm, self.decoder_norm)
        )
        return TransformerParameters(
            self.source_embedding.weight,
            self.target_embedding.weight,
            tuple(one.as_parameters() for one in self.encoder_layers),
            tuple(one.as_parameters() for one in self.decoder_layers),
            self.output.weight.mT,
            self.output.bias,
            *norms,
        )

    @checked(check_transformer_forward)
    def forward(
        self,
        source: Integer[Tensor, "*#batch S"],
        target: Integer[Tensor, "*#batch T"],
        *,
        source_mask: Bool[Tensor, "..."] | None = None,
        target_mask: Bool[Tensor, "..."] | None = None,
        return_weights: bool = False,
    ) -> Any:
        r"""Compute the logits of the token after each of the target.

        .. math:: Z = \operatorname{decode}(t, \operatorname{encode}(s))

        Args:
            source: tokens, shape (\*batch, S).
            target: tokens, shape (\*batch, T), with as many batch axes.
            source_mask: which source positions may be attended to, shape (S,) or
                (\*batch, 1, S).
            target_mask: what else to shut within the target, besides what comes later.
            return_weights: also return all weights, before dropout.

        Returns:
            As :func:`attention_in_detail.transformer`.

        Raises:
            TypeError: as :func:`attention_in_detail.transformer`.
            ValueError: as :func:`attention_in_detail.transformer`.

        Source:
            Vaswani et al. (2017), section 3.
        """
        p = self.as_parameters()
        causal = with_causal(target_mask, target)

        def encoder(n: int, x: Tensor) -> tuple[Tensor, Tensor | None]:
            found = EncoderLayer.forward.unchecked(
                self.encoder_layers[n],
                x,
                mask=source_mask,
                return_weights=return_weights,
            )
            return found if return_weights else (found, None)

        def decoder(n: int, x: Tensor) -> tuple[Any, ...]:
            found = DecoderLayer.forward.unchecked(
                self.decoder_layers[n],
                x,
                memory,
                mask=causal,
                context_mask=source_mask,
                return_weights=return_weights,
            )
            return found if return_weights else (found, None, None)

        memory, weights = encoder_run(p, source, encoder, self._drop)
        logits, own, crossed = decoder_run(p, target, decoder, self._drop)
        return (logits, weights, own, crossed) if return_weights else logits

    @classmethod
    @checked(check_transformer_from_torch)
    def from_torch(
        cls,
        module: torch.nn.Transformer,
        source_embedding: torch.nn.Embedding,
        target_embedding: torch.nn.Embedding,
        output: torch.nn.Linear,
    ) -> "Transformer":
        """Make a model that computes what a ``torch.nn.Transformer`` computes between these; the weights are copied.

        torch's module has neither embeddings nor positions nor an output. Ours scales
        the embeddings and adds the sinusoidal positions, as
        :func:`attention_in_detail.embed` says.

        Args:
            module: the one to copy.
            source_embedding: of the source's tokens.
            target_embedding: of the target's tokens.
            output: from the last layer to the logits.

        Returns:
            A model of the same dtype, device, dropout and mode, batch first.

        Raises:
            TypeError: if a module is of a wrong kind.
            ValueError: if widths do not fit, or an activation has no counterpart here.
        """
        p = TransformerParameters.from_torch(
            module, source_embedding, target_embedding, output
        )
        V_s, D = p.source_embedding.shape
        made = cls(
            V_s,
            p.target_embedding.shape[0],
            D,
            p.encoder_layers[0].attention.heads,
            encoder_layers=1,
            decoder_layers=1,
            dropout=module.encoder.layers[0].dropout1.p,
        )
        # Layer by layer and norm by norm: torch lets each be of its own kind.
        made.encoder_layers, made.decoder_layers = (
            torch.nn.ModuleList(map(kind.from_torch, side.layers))
            for kind, side in (
                (EncoderLayer, module.encoder),
                (DecoderLayer, module.decoder),
            )
        )
        made.encoder_norm, made.decoder_norm = (
            None
            if norm is None
            else torch.nn.LayerNorm(
                D, eps=norm.eps, bias=norm.shift is not None
            )
            for norm in (p.encoder_norm, p.decoder_norm)
        )
        made.output = torch.nn.Linear(
            D, p.W_output.shape[1], bias=p.b_output is not None
        )
        return filled(made, p, module.training)

    def extra_repr(self) -> str:
        """Say what the submodules do not."""
        return f"dropout={self.dropout}"

    def _drop(self, x: Tensor) -> Tensor:
        return dropped(x, self.dropout, self.training)
