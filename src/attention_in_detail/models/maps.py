"""Where the heads of MiniLM look, and what the model loses without each: stored for some sentences, computed for others."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from attention_in_detail._checks import checked
from attention_in_detail.models._checks import check_sentence, check_text
from attention_in_detail.models.minilm import (
    MiniLM,
    encode,
    load_minilm,
    without_head,
)
from attention_in_detail.notation import Array, Float
from attention_in_detail.stored import stored_arrays

__all__ = ["HeadMaps", "head_maps", "silencing", "stored_maps"]


@dataclass(frozen=True, eq=False)
class HeadMaps:
    """The weights of all heads on one sentence.

    Attributes:
        sentence: the text.
        tokens: its T tokens.
        weights: shape (L, h, T, T), float32.
        changes: how much silencing each head changes the output, shape (L, h), from
            :func:`silencing`; None where it was not computed.
    """

    sentence: str
    tokens: Sequence[str]
    weights: Float[Array, "L h T T"]
    changes: Float[Array, "L h"] | None = None


@cache
def _stored() -> tuple[HeadMaps, ...]:
    kept = stored_arrays("minilm")
    return tuple(
        HeadMaps(
            str(sentence),
            [str(token) for token in kept[f"tokens_{n}"]],
            kept[f"weights_{n}"].astype(np.float32),
            kept[f"changes_{n}"],
        )
        for n, sentence in enumerate(kept["sentences"])
    )


def stored_maps() -> tuple[HeadMaps, ...]:
    """Return the maps that come with this package, in float16 once, so right to about three digits.

    Returns:
        One :class:`HeadMaps` a sentence, ``changes`` included.
    """
    return _stored()


@checked(check_text)
def head_maps(sentence: str) -> HeadMaps:
    """Return where all heads of MiniLM look in a sentence.

    Args:
        sentence: one of :func:`stored_maps`, or any other: then the model is loaded and
            run.

    Returns:
        Tokens and weights.

    Raises:
        WeightsError: for another sentence, if the weights are not installed.
        TypeError: if ``sentence`` is not a text.
    """
    for maps in _stored():
        if maps.sentence == sentence:
            return maps
    model = _model()
    _, weights = encode.unchecked(model, model.ids(sentence))
    return HeadMaps(sentence, model.tokens(sentence), weights)


@cache
def _model() -> MiniLM:
    return load_minilm()


@checked(check_sentence)
def silencing(model: MiniLM, sentence: str) -> Float[Array, "L h"]:
    r"""Return how far the last hidden states move when one head at a time is silenced.

    .. math:: \frac{\lVert X' - X \rVert_F}{\lVert X \rVert_F}

    Args:
        model: from :func:`attention_in_detail.models.minilm.load_minilm`.
        sentence: any text.

    Returns:
        One number a head, shape (L, h). X holds the last hidden states of the whole
        model, X′ those of the model without the head.

    Raises:
        TypeError: if ``sentence`` is not a text.

    Source:
        Michel, Levy and Neubig (2019), section 3.2, silence one head at a time, and
        measure the loss of a task instead.
    """
    ids = model.ids(sentence)
    whole = encode.unchecked(model, ids)[0][-1]
    heads = range(model.layers[0].attention.heads)
    changes = [
        [
            encode.unchecked(without_head(model, layer, head), ids)[0][-1]
            - whole
            for head in heads
        ]
        for layer in range(len(model.layers))
    ]
    moved = np.linalg.norm(np.array(changes), axis=(-2, -1))
    return moved / np.linalg.norm(whole)
