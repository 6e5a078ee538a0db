"""One translation, told step by step: what was written, what else was likely, and where each head looked."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attention_in_detail._checks import checked
from attention_in_detail.decoding import greedy_decode
from attention_in_detail.encoder_decoder import (
    TransformerParameters,
    transformer,
)
from attention_in_detail.notation import Array, Float, Size
from attention_in_detail.rows import softmax
from attention_in_detail.tasks._checks import check_traced_translation
from attention_in_detail.tasks.number_words import (
    END,
    ENGLISH,
    GERMAN,
    LONGEST,
    START,
    make_batch,
)

__all__ = ["Candidate", "TracedTranslation", "traced_translation"]


class Candidate(NamedTuple):
    """A token that could come next, and its ``probability``."""

    token: str
    probability: float


@dataclass(frozen=True, eq=False)
class TracedTranslation:
    """What a model wrote for one number, and how it came to it.

    Attributes:
        english: the S source tokens, the end token included.
        german: the T tokens that were written, the end token included if it came.
        candidates: for each written token those that were most probable at its place,
            the most probable first: that is the one that was written.
        weights: of the cross-attentions, shape (L, h, T, S). Row i holds the weights
            with which token i of ``german`` was written.
    """

    english: list[str]
    german: list[str]
    candidates: list[tuple[Candidate, ...]]
    weights: Float[Array, "L h T S"]


@checked(check_traced_translation)
def traced_translation(
    parameters: TransformerParameters, number: Size, *, candidates: Size = 3
) -> TracedTranslation:
    r"""Translate a number greedily, and tell of each step what it saw and what it weighed.

    .. math:: P(t_{i+1} = w \mid t_1, \dots, t_i, s) = \sigma(G)_{iw}

    The tokens are those of :func:`attention_in_detail.greedy_decode`. One pass over all
    that was written then gives every row of the logits G, and the weights with it: in a
    causal decoder row i is the same as it was when token i + 1 was chosen.

    Args:
        parameters: of a model of the task, arrays of NumPy.
        number: from 0 to 999,999.
        candidates: how many tokens to name at each step, from 1 to all 29.

    Returns:
        The :class:`TracedTranslation`. At most one token more than the longest right
        translation is taken.

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if ``number`` or ``candidates`` is out of range, or the vocabularies
            are not those of the task.

    Source:
        Sutskever, Vinyals and Le (2014), section 3.2 (a beam of size 1).
    """
    source = make_batch.unchecked([number]).source[0]  # (S,)
    written, _ = greedy_decode.unchecked(
        parameters, source, start=START, end=END, limit=LONGEST + 1
    )
    read = np.concatenate([[START], written[:-1]])  # (T,)
    logits, *_, crossed = transformer.unchecked(
        parameters, source, read, return_weights=True
    )
    P = softmax.unchecked(logits)  # (T, V_t)
    order = np.argsort(-P, axis=-1, kind="stable")[:, : int(candidates)]
    return TracedTranslation(
        [ENGLISH[n] for n in source],
        [GERMAN[n] for n in written],
        [
            tuple(Candidate(GERMAN[n], float(row[n])) for n in likely)
            for row, likely in zip(P, order, strict=True)
        ],
        np.stack(crossed),
    )
