"""How well a model translates number words, and how often a head points at the word that is translated."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attention_in_detail._checks import checked
from attention_in_detail.decoding import greedy_decode
from attention_in_detail.encoder_decoder import (
    TransformerParameters,
    transformer,
)
from attention_in_detail.masks import padding_mask
from attention_in_detail.notation import Array, Float
from attention_in_detail.tasks._checks import check_model_and_numbers
from attention_in_detail.tasks.number_words import (
    END,
    ENGLISH,
    GERMAN,
    LONGEST,
    START,
    german_words,
    gold_alignment,
    make_batch,
    words,
)

__all__ = [
    "CrossWeights",
    "alignment_scores",
    "cross_weights",
    "exact_share",
    "translations",
]


@checked(check_model_and_numbers)
def translations(
    parameters: TransformerParameters, numbers: Sequence[int] | Array
) -> list[list[str]]:
    """Translate numbers greedily, all in one padded batch.

    Args:
        parameters: of a model of the task, arrays of NumPy.
        numbers: one or more, from 0 to 999,999.

    Returns:
        The German tokens of each, without the end token. At most one token more than
        the longest translation is taken.

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if a number is out of range, or the vocabularies are not those of
            the task.
    """
    batch = make_batch.unchecked(numbers)
    found, _ = greedy_decode.unchecked(
        parameters,
        batch.source,
        start=START,
        end=END,
        limit=LONGEST + 1,
        source_mask=padding_mask.unchecked(
            batch.source_lengths, batch.source.shape[1]
        ),
    )
    return [words.unchecked(row, GERMAN) for row in found]


@checked(check_model_and_numbers)
def exact_share(
    parameters: TransformerParameters, numbers: Sequence[int] | Array
) -> float:
    """Return the share of numbers whose translation is right in every token.

    Args:
        parameters: as in :func:`translations`.
        numbers: one or more, from 0 to 999,999.

    Returns:
        From 0 to 1.

    Raises:
        TypeError: as :func:`translations`.
        ValueError: as :func:`translations`.
    """
    found = translations.unchecked(parameters, numbers)
    right = [
        row == german_words.unchecked(n)
        for row, n in zip(found, numbers, strict=True)
    ]
    return sum(right) / len(right)


@dataclass(frozen=True, eq=False)
class CrossWeights:
    """Where a model looks in the English words while it is told to write the right German ones.

    Attributes:
        english: the S source tokens, the end token included.
        german: the T target tokens, the end token included.
        weights: shape (L, h, T, S). Row i holds the weights with which token i of
            ``german`` was foretold.
        gold: for each target token the place of the source token that it translates, or
            None. The end token has none.
    """

    english: list[str]
    german: list[str]
    weights: Float[Array, "L h T S"]
    gold: list[int | None]


@checked(check_model_and_numbers)
def cross_weights(
    parameters: TransformerParameters, numbers: Sequence[int] | Array
) -> list[CrossWeights]:
    """Return the weights of all cross-attentions for each number, its padding cut off.

    Args:
        parameters: as in :func:`translations`.
        numbers: one or more, from 0 to 999,999.

    Returns:
        One :class:`CrossWeights` a number.

    Raises:
        TypeError: as :func:`translations`.
        ValueError: as :func:`translations`.
    """
    batch = make_batch.unchecked(numbers)
    *_, crossed = transformer.unchecked(
        parameters,
        batch.source,
        batch.given,
        source_mask=padding_mask.unchecked(
            batch.source_lengths, batch.source.shape[1]
        ),
        return_weights=True,
    )
    weights = np.stack(crossed, axis=1)  # (B, L, h, T, S)
    found = []
    for b, n in enumerate(batch.numbers):
        S, T = batch.source_lengths[b], batch.target_lengths[b]
        found.append(
            CrossWeights(
                [ENGLISH[i] for i in batch.source[b, :S]],
                [GERMAN[i] for i in batch.wanted[b, :T]],
                weights[b, :, :, :T, :S],
                [*gold_alignment.unchecked(n), None],
            )
        )
    return found


@checked(check_model_and_numbers)
def alignment_scores(
    parameters: TransformerParameters, numbers: Sequence[int] | Array
) -> Float[Array, "L h"]:
    """Return for each head how often its largest weight lies on the gold word.

    Args:
        parameters: as in :func:`translations`.
        numbers: one or more, from 0 to 999,999.

    Returns:
        The share of the target tokens that have a gold word, shape (L, h), each from 0
        to 1.

    Raises:
        TypeError: as :func:`translations`.
        ValueError: as :func:`translations`.
    """
    hits = []
    for one in cross_weights.unchecked(parameters, numbers):
        rows = [i for i, place in enumerate(one.gold) if place is not None]
        gold = np.array([one.gold[i] for i in rows])
        hits.append(one.weights[:, :, rows].argmax(-1) == gold)
    return np.concatenate(hits, axis=-1).mean(-1)
