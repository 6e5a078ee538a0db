"""Exercises of the chapter *End to end*."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake

__all__ = ["EXERCISES"]


# ---- counting ----


def _count(
    biases: int = 1,
    decoder_norms: int = 3,
    decoder_attentions: int = 2,
    last_norms: int = 0,
    wide: int = 1,
    tables: bool = True,
    output: bool = True,
    output_bias: bool = True,
) -> int:
    """Parameters of the model of the page; with ``wide``, the heads together are so many times as wide."""
    V_s, V_t, D, inside, N = 32, 29, 64, 128, 2
    attention = 4 * D * wide * D + biases * (3 * wide * D + D)
    network = 2 * D * inside + biases * (inside + D)
    norm = 2 * D
    encoder = attention + network + 2 * norm
    decoder = (
        decoder_attentions * attention + network + decoder_norms * norm
    )
    ends = tables * (V_s + V_t) * D
    ends += output * (D * V_t + biases * output_bias * V_t)
    return N * (encoder + decoder) + ends + last_norms * norm


# ---- the loss ----

#: Probabilities of the right tokens of two sentences; the second has one, and two places of padding.
RIGHT_TOKENS = np.array([[1 / 2, 1 / 4, 1], [1 / 16, 1 / 2, 1 / 2]])
REAL = np.array([[True, True, True], [True, False, False]])


def _losses() -> Any:
    return -np.log(RIGHT_TOKENS)


# ---- writing ----


def _by_table(tokens: Sequence[int]) -> Any:
    """After 0 comes 2, after 2 comes 3, after 3 comes 1."""
    table = np.zeros((4, 4))
    table[[0, 2, 3], [2, 3, 1]] = [1.0, 2.0, 0.5]
    return table[tokens[-1]]


def _by_all(tokens: Sequence[int]) -> Any:
    """The next token depends on how many there are."""
    likely = np.zeros(6) - 1
    likely[min(2 + len(tokens) % 3, 5) if len(tokens) < 6 else 1] = 4.0
    return likely


def _never(tokens: Sequence[int]) -> Any:
    return np.array([0.0, -3, 1, 0.5])


def _write_cases() -> Iterator[Case]:
    yield Case("logits that depend on the last token", (_by_table, 0, 1, 9))
    yield Case("logits that depend on all tokens", (_by_all, 0, 1, 9))
    yield Case("an end that does not come", (_never, 0, 1, 5))


def _write(
    logits: Callable[[Any], Any],
    start: int,
    end: int,
    limit: int,
    seen: slice = slice(None),
    stops: bool = True,
) -> Any:
    written = [start]
    while len(written) <= limit:
        written.append(int(np.argmax(logits(written[seen]))))
        if stops and written[-1] == end:
            break
    return np.array(written[1:])


def _with_start(logits: Any, start: int, end: int, limit: int) -> Any:
    return np.array([start, *_write(logits, start, end, limit)])


def _without_end(logits: Any, start: int, end: int, limit: int) -> Any:
    written = _write(logits, start, end, limit)
    return written[:-1] if written[-1] == end else written


def _only_last(logits: Any, start: int, end: int, limit: int) -> Any:
    return _write(logits, start, end, limit, seen=slice(-1, None))


def _on_and_on(logits: Any, start: int, end: int, limit: int) -> Any:
    return _write(logits, start, end, limit, stops=False)


def _one_short(logits: Any, start: int, end: int, limit: int) -> Any:
    return _write(logits, start, end, limit - 1)


# ---- a beam ----

FIRST = np.array([0.6, 0.4])
THEN = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]])


def _beams(join: Any = np.multiply) -> Any:
    """What greedy and a beam of 2 find, by their probabilities."""
    both = join(FIRST[:, None], THEN)
    return np.array([both[FIRST.argmax()].max(), both.max()])


# ---- a head against an alignment ----


def _score_cases() -> Iterator[Case]:
    rng = np.random.default_rng(14)
    for name, S, gold in (
        ("a gold word for each token", 4, [1, 0, 2, 3]),
        ("tokens without a gold word", 4, [2, None, 0, 1, None]),
        ("more words than tokens", 6, [5, None, 3]),
    ):
        A = rng.dirichlet(np.ones(S), size=len(gold))
        sure = [i for i, place in enumerate(gold) if place is not None][1:]
        for i in sure:  # all but the first point at the gold word
            j = gold[i] or 0
            k = int(A[i].argmax())
            A[i, [j, k]] = A[i, [k, j]]
        yield Case(name, (A, gold))


def _pointed(A: Any, gold: Any, axis: int = 1) -> list[bool]:
    best = A.argmax(axis)
    return [
        bool(i < len(best) and best[i] == place)
        for i, place in enumerate(gold)
        if place is not None
    ]


def _score(A: Any, gold: Any) -> Any:
    return np.mean(_pointed(A, gold))


def _score_of_all(A: Any, gold: Any) -> Any:
    return np.sum(_pointed(A, gold)) / len(gold)


def _hits(A: Any, gold: Any) -> Any:
    return np.sum(_pointed(A, gold))


def _without_place_zero(A: Any, gold: Any) -> Any:
    return _score(A, [place or None for place in gold])


def _mass(A: Any, gold: Any) -> Any:
    return np.mean([A[i, j] for i, j in enumerate(gold) if j is not None])


def _along_tokens(A: Any, gold: Any) -> Any:
    """For each token its strongest token, in the place of its strongest word."""
    return np.mean(
        [A[:, j].argmax() == i for i, j in enumerate(gold) if j is not None]
    )


# ---- a head silenced ----


@cache
def _silenced(
    layer: int = 1, silent: bool = True, stays: bool = False
) -> list[float]:
    """Exact shares of 50 numbers with each head of a layer silenced, and with all four.

    Read off one pass over the right tokens, which is the same and much quicker than to write.
    """
    from attention_in_detail.encoder_decoder import transformer
    from attention_in_detail.masks import padding_mask
    from attention_in_detail.tasks.number_words import (
        make_batch,
        split_numbers,
    )
    from attention_in_detail.trained import trained_number_words

    model = trained_number_words()
    batch = make_batch(split_numbers()[1][:50])
    mask = padding_mask(batch.source_lengths, batch.source.shape[1])
    real = padding_mask(batch.target_lengths, batch.wanted.shape[1])[:, 0]
    own = model.decoder_layers[layer].cross_attention
    shares, W_O = [], own.W_O.copy()
    for heads in ([0], [1], [2], [3], [0, 1, 2, 3]):
        W_O = W_O if stays else own.W_O.copy()
        for head in heads:
            W_O[16 * head : 16 * head + 16] *= not silent
        layers = list(model.decoder_layers)
        layers[layer] = replace(
            layers[layer], cross_attention=replace(own, W_O=W_O.copy())
        )
        other = replace(model, decoder_layers=tuple(layers))
        said = transformer(
            other, batch.source, batch.given, source_mask=mask
        ).argmax(-1)
        exact = ((said == batch.wanted) | ~real).all(-1)
        shares.append(float(exact.mean()))
    return shares


EXERCISES = (
    Exercise(
        "ex-end-to-end-count",
        "by hand",
        (1,),
        2,
        lambda: [_count(), _count()],
        (
            Mistake(
                lambda: [_count(biases=0)] * 2,
                "The biases are missing: those of the projections, of the networks and of the output.",
            ),
            Mistake(
                lambda: [_count(decoder_attentions=1)] * 2,
                "A decoder layer has two attentions, and both have parameters of their own.",
            ),
            Mistake(
                lambda: [_count(decoder_norms=2)] * 2,
                "A norm is missing in the decoder: each of its steps is followed by one.",
            ),
            Mistake(
                lambda: [_count(last_norms=2)] * 2,
                "There is a norm too many on either side. PyTorch's has one after the last layer; "
                "the model of the page has none.",
            ),
            Mistake(
                lambda: [_count(), _count(wide=2)],
                "The first is right. Twice the heads, each half as wide: they share out the width.",
            ),
            Mistake(
                lambda: [_count(), 2 * _count()],
                "The first is right. With more heads each is narrower, D_h = D/h: what becomes of the shape of W_Q?",
            ),
            Mistake(
                lambda: [_count(tables=False)] * 2,
                "The two tables are missing.",
            ),
            Mistake(
                lambda: [_count(output=False)] * 2,
                "The output layer is missing: a matrix and a bias.",
            ),
            Mistake(
                lambda: [_count(tables=False, output=False)] * 2,
                "These are the layers. The tables and the output layer are left.",
            ),
            Mistake(
                lambda: [_count(output_bias=False)] * 2,
                "One bias is missing, that of the output.",
            ),
        ),
        axes=("number of heads",),
    ),
    Exercise(
        "ex-end-to-end-loss",
        "by hand",
        (2,),
        1,
        lambda: _losses()[REAL].mean(),
        (
            Mistake(
                lambda: _losses().mean(),
                "The padding is in your mean. Only places with a token to foretell count, above and below the line.",
            ),
            Mistake(
                lambda: (_losses() * REAL).sum() / REAL.size,
                "The padding adds nothing to your sum, and still counts below the line.",
            ),
            Mistake(
                lambda: np.mean(
                    [_losses()[b][REAL[b]].mean() for b in (0, 1)]
                ),
                "You took a mean for each sentence first. All tokens count alike, whichever sentence they are in.",
            ),
            Mistake(
                lambda: _losses()[REAL].sum(),
                "That is the sum. Divide it by the number of tokens that were to be foretold.",
            ),
            Mistake(
                lambda: _losses()[REAL].sum() / len(REAL),
                "You divided by the number of sentences. Divide by the number of tokens to foretell.",
            ),
            Mistake(
                lambda: _losses()[REAL].mean() / math.log(2),
                "Logarithms to base 2. The loss takes the natural one.",
            ),
            Mistake(
                lambda: -math.log(RIGHT_TOKENS[REAL].mean()),
                "First the logarithms, then their mean.",
            ),
        ),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-end-to-end-write",
        "implement",
        (3,),
        2,
        _write,
        (
            Mistake(
                _with_start,
                "The start token is among what was written. It was given.",
            ),
            Mistake(
                _without_end,
                "The end token is missing at the end of the list. It was written too.",
            ),
            Mistake(
                _only_last,
                "It shows the model the last token alone. What comes next depends on all that was written.",
            ),
            Mistake(
                _on_and_on,
                "It does not stop at the end token.",
            ),
            Mistake(
                _one_short,
                "Where the end does not come it stops one token early. The start token does not count for the limit.",
            ),
        ),
        cases=_write_cases,
        axes=("token",),
    ),
    Exercise(
        "ex-end-to-end-beam",
        "by hand",
        (3,),
        1,
        _beams,
        (
            Mistake(
                lambda: [_beams()[0]] * 2,
                "A beam of 2 goes on with both beginnings. Which of the six whole texts is the most probable?",
            ),
            Mistake(
                lambda: [_beams()[1]] * 2,
                "Greedy never goes back: it goes on with the first token that it took, and with no other.",
            ),
            Mistake(
                lambda: _beams(np.add),
                "You added. The probability of a text is the product of those of its tokens.",
            ),
            Mistake(
                lambda: [_beams()[0], (FIRST * THEN.max(axis=1)).sum()],
                "That is the sum of both texts in the beam. Asked for is the best one.",
            ),
            Mistake(
                lambda: [THEN[0].max(), THEN[1].max()],
                "These are the probabilities of the second token alone.",
            ),
        ),
        axes=("rule",),
    ),
    Exercise(
        "ex-end-to-end-score",
        "implement",
        (4,),
        1,
        _score,
        (
            Mistake(
                _score_of_all,
                "Tokens without a gold word count as misses. No word would be right for them: leave them out.",
            ),
            Mistake(
                _hits,
                "That is how many there are. The score is a share of the tokens with a gold word.",
            ),
            Mistake(
                _mass,
                "That is the mean weight on the gold word. The score asks only whether it is the largest of its row.",
            ),
            Mistake(
                _without_place_zero,
                "Place 0 was left out as if it were None: it is the first word. Test is not None.",
            ),
            Mistake(
                _along_tokens,
                "For each word you looked for its strongest token. Rows are tokens: look for the strongest word of each.",
            ),
        ),
        cases=_score_cases,
    ),
    Exercise("ex-end-to-end-one-pass", "prove", (2, 3), 3),
    Exercise(
        "ex-end-to-end-silence",
        "break it",
        (4,),
        3,
        _silenced,
        (
            Mistake(
                lambda: _silenced(stays=True),
                "The heads that were silenced before stay silent. Begin each time with a copy of the matrix as it was.",
            ),
            Mistake(
                lambda: _silenced(layer=0),
                "These are the heads of the first layer. Layers are counted from 1 on this page, and from 0 in the code.",
            ),
            Mistake(
                lambda: _silenced(silent=False),
                "Nothing was silenced: the new matrix did not come into the model. "
                "replace changes no object, it returns a new one.",
            ),
        ),
        axes=("silenced",),
        tolerance=6e-3,
        remark="The heads cover for one another. With a single one taken away, little would tell that they matter.",
    ),
)
