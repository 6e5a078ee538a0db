"""Where the translator's heads look while it writes, and what is written without them: stored for some sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from attention_in_detail._checks import checked
from attention_in_detail.models._checks import (
    check_forced,
    check_text,
    check_translate,
)
from attention_in_detail.models.translator import (
    Translation,
    Translator,
    load_translator,
    read_source,
    translate,
    without_cross_head,
    write_target,
)
from attention_in_detail.notation import Array, Bool, Float, Integer, Size
from attention_in_detail.stored import stored_arrays

__all__ = [
    "Crossing",
    "cross_silencing",
    "forced",
    "stored_crossings",
    "translation",
]


@dataclass(frozen=True, eq=False)
class Crossing(Translation):
    """A translation, the word pairs in it, and what becomes of it when heads are silenced or made to look elsewhere.

    Attributes:
        pairs: true where piece t of the target renders piece s of the source, shape
            (T, S). Written by hand, from the two texts.
        drops: from :func:`cross_silencing`, shape (L, h).
        texts: from :func:`cross_silencing`, L rows of h texts.
        forced_head: from :func:`forced`, head 0 alone: T rows of S pieces.
        forced_layer: from :func:`forced`, all heads: T rows of S pieces.
    """

    pairs: Bool[Array, "T S"]
    drops: Float[Array, "L h"]
    texts: Sequence[Sequence[str]]
    forced_head: Sequence[Sequence[str]]
    forced_layer: Sequence[Sequence[str]]

    @property
    def pairs_before(self) -> Bool[Array, "T S"]:
        """The pair of the piece before. Row t is row t − 1 of ``pairs``, and the first is empty."""
        return np.concat([np.zeros_like(self.pairs[:1]), self.pairs[:-1]])


@cache
def _stored() -> tuple[Crossing, ...]:
    kept = stored_arrays("translator")
    return tuple(
        Crossing(
            str(sentence),
            str(text),
            kept[f"source_{n}"].tolist(),
            kept[f"target_{n}"].tolist(),
            kept[f"weights_{n}"].astype(np.float32),
            kept[f"pairs_{n}"],
            kept[f"drops_{n}"],
            *(
                kept[f"{name}_{n}"].tolist()
                for name in ("texts", "forced_head", "forced_layer")
            ),
        )
        for n, (sentence, text) in enumerate(
            zip(kept["sentences"], kept["translations"], strict=True)
        )
    )


def stored_crossings() -> tuple[Crossing, ...]:
    """Return the translations that come with this package; weights in float16 once, so right to about three digits.

    Returns:
        One :class:`Crossing` a sentence.
    """
    return _stored()


@checked(check_text)
def translation(sentence: str) -> Translation:
    """Return the translation of a sentence, and where the heads looked.

    Args:
        sentence: one of :func:`stored_crossings`, or any other: then the model is
            loaded and run.

    Returns:
        Texts, pieces and weights; of a stored sentence, the whole :class:`Crossing`.

    Raises:
        WeightsError: for another sentence, if the weights are not installed.
        TypeError: if ``sentence`` is not a text.
        ValueError: if it holds no word.
    """
    for crossing in _stored():
        if crossing.sentence == sentence:
            return crossing
    return translate(_model(), sentence)


@cache
def _model() -> Translator:
    return load_translator()


@checked(check_translate)
def cross_silencing(
    model: Translator, sentence: str
) -> tuple[Float[Array, "L h"], list[list[str]]]:
    r"""Return how much less probable the translation is, and what is written instead, when one head at a time is silenced.

    .. math:: \frac1T \sum_t \log p(y_t \mid y_{<t}) - \log p'(y_t \mid y_{<t})

    Args:
        model: from :func:`attention_in_detail.models.translator.load_translator`.
        sentence: at least one word.

    Returns:
        The drop for each head, shape (L, h), where y is the translation by the whole
        model, p its probabilities and p′ those without the head; and the translation
        that the model without the head writes, L rows of h texts.

    Raises:
        TypeError: if ``sentence`` is not a text.
        ValueError: if it holds no word.

    Source:
        Michel, Levy and Neubig (2019), section 3.2, silence one head at a time, and
        measure the quality of translations instead.
    """
    context, ids = _written(model, sentence)

    def mean(model: Translator) -> float:
        found, _ = write_target.unchecked(model, context, ids)
        return float(found[np.arange(len(ids)), ids].mean())

    whole = mean(model)
    heads = range(model.decoder_layers[0].cross_attention.heads)
    less = [
        [without_cross_head(model, layer, head) for head in heads]
        for layer in range(len(model.decoder_layers))
    ]
    drops = [[whole - mean(other) for other in row] for row in less]
    texts = [
        [translate.unchecked(other, sentence).text for other in row]
        for row in less
    ]
    return np.array(drops), texts


@checked(check_forced)
def forced(
    model: Translator, sentence: str, heads: Sequence[Size]
) -> list[list[str]]:
    r"""Return what is written at t when heads of the last layer may look at piece s of the source and at no other.

    .. math:: A_{i,t,s} = 1 \quad \text{for the heads } i \text{ that are given}

    The pieces before t are those of the translation by the whole model. What the last
    layer mixes at t reaches no other position, so all t are forced at once.

    Args:
        model: from :func:`attention_in_detail.models.translator.load_translator`.
        sentence: at least one word.
        heads: at least one number, from 0 to h − 1.

    Returns:
        The most probable piece, T rows of S.

    Raises:
        TypeError: if ``sentence`` is not a text, or a head not an integer.
        ValueError: if the sentence holds no word, or there is no such head.
    """
    context, ids = _written(model, sentence)
    S = len(context)
    layers = model.decoder_layers
    h = layers[0].cross_attention.heads
    columns = []
    for s in range(S):
        mask = np.ones((len(layers), h, len(ids), S), dtype=bool)
        mask[-1, list(heads)] = np.arange(S) == s
        found, _ = write_target.unchecked(model, context, ids, mask=mask)
        columns.append(model.pieces(found.argmax(-1)))
    return [list(row) for row in zip(*columns, strict=True)]


def _written(
    model: Translator, sentence: str
) -> tuple[Float[Array, "S D"], Integer[Array, " T"]]:
    """Return what the encoder makes of a sentence, and the numbers of the pieces of its translation."""
    context = read_source.unchecked(model, model.ids(sentence))
    target = translate.unchecked(model, sentence).target
    token = model.tokenizer.token_to_id
    return context, np.array([token(piece) for piece in target])
