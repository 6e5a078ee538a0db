"""The trained model of number words, with somebody else's attention in it.

Embeddings, norms and feed-forward networks are those of the package, in its own order of steps. Whatever attends or
masks is asked of the code that is plugged in.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from attention_in_detail._checks import checked
from attention_in_detail.encoder_decoder import (
    TransformerParameters,
    decoder_run,
    encoder_run,
)
from attention_in_detail.layers import decoder_steps, encoder_steps
from attention_in_detail.masks import causal_mask, padding_mask
from attention_in_detail.multi_head import cross_attention, self_attention
from attention_in_detail.notation import Array
from attention_in_detail.tasks._checks import check_batch
from attention_in_detail.tasks.number_words import (
    END,
    GERMAN,
    LONGEST,
    START,
    make_batch,
    words,
)
from attention_in_detail.trained import trained_number_words

__all__ = ["OURS", "PLUGGED", "translated"]

#: What the model asks of the code that is plugged in.
PLUGGED = (
    "self_attention",
    "cross_attention",
    "causal_mask",
    "padding_mask",
)


def _ours(T: int, S: int, offset: int = 0) -> Array:
    return causal_mask(T, S, offset=offset)


#: The same four of this book.
OURS = SimpleNamespace(
    self_attention=lambda p, x, mask=None: self_attention(p, x, mask=mask),
    cross_attention=lambda p, x, context, mask=None: cross_attention(
        p, x, context, mask=mask
    ),
    causal_mask=_ours,
    padding_mask=padding_mask,
)


@functools.cache
def _model() -> TransformerParameters:
    return trained_number_words()


def check_translated(code: Any, numbers: Any) -> None:
    missing = [n for n in PLUGGED if not callable(getattr(code, n, None))]
    if missing:
        raise TypeError(
            f"code must have the function {missing[0]}; the model asks for {', '.join(PLUGGED)}"
        )
    check_batch(numbers)


@checked(check_translated)
def translated(code: Any, numbers: Sequence[int] | Array) -> list[str]:
    """Translate numbers from English to German with the trained model, its attention computed by other code.

    All numbers go through the model as one batch, the shorter ones padded; nothing is cached. Each step takes the most
    probable token.

    Args:
        code: a module, or anything else that has the functions ``self_attention(parameters, x, mask=None)``,
            ``cross_attention(parameters, x, context, mask=None)``, ``causal_mask(T, S, offset=0)`` and
            ``padding_mask(lengths, S)``, as the project describes them.
        numbers: one or more, from 0 to 999,999.

    Returns:
        For each number what the model wrote, its tokens joined. At most one token more than the longest right
        translation is taken.

    Raises:
        TypeError: if ``code`` lacks a function, or a number is not an integer.
        ValueError: if there is no number, or one is negative or above 999,999. What ``code`` raises is passed on.
    """
    model, batch = _model(), make_batch(numbers)
    source_mask = code.padding_mask(
        batch.source_lengths, batch.source.shape[-1]
    )

    def encoder(n: int, x: Array) -> tuple[Array, None]:
        layer = model.encoder_layers[n]

        def attend(y: Array) -> tuple[Array, None]:
            found = code.self_attention(
                layer.attention, y, mask=source_mask
            )
            return found, None

        return encoder_steps(layer, x, attend)

    memory, _ = encoder_run(model, batch.source, encoder)
    tokens = np.full((len(batch.numbers), 1), START)
    while tokens.shape[1] <= LONGEST + 1:
        T = tokens.shape[1]
        mask = code.causal_mask(T, T)

        def decoder(
            n: int, x: Array, mask: Array = mask
        ) -> tuple[Array, None, None]:
            layer = model.decoder_layers[n]

            def attend(y: Array) -> tuple[Array, None]:
                found = code.self_attention(
                    layer.self_attention, y, mask=mask
                )
                return found, None

            def attend_to_context(y: Array) -> tuple[Array, None]:
                found = code.cross_attention(
                    layer.cross_attention, y, memory, mask=source_mask
                )
                return found, None

            return decoder_steps(layer, x, attend, attend_to_context)

        logits, _, _ = decoder_run(model, tokens, decoder)
        best = logits[:, -1, :].argmax(-1)
        tokens = np.concatenate([tokens, best[:, None]], axis=1)
        if (tokens[:, 1:] == END).any(axis=1).all():
            break
    return ["".join(words(row[1:], GERMAN)) for row in tokens]
