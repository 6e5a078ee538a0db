"""Decoding: from the probabilities of the next token to a sequence."""

from typing import NamedTuple

from array_api_compat import array_namespace, device

from attention_in_detail._arrays import constant, widened
from attention_in_detail._checks import checked
from attention_in_detail._transformer_checks import (
    check_beam_decode,
    check_greedy_decode,
)
from attention_in_detail.caching import decode_step, decoder_cache
from attention_in_detail.encoder_decoder import (
    TransformerParameters,
    decode,
    encode,
)
from attention_in_detail.notation import Array, Bool, Float, Integer, Size

__all__ = ["Hypothesis", "beam_decode", "greedy_decode"]


@checked(check_greedy_decode)
def greedy_decode(
    parameters: TransformerParameters,
    source: Integer[Array, "*batch S"],
    *,
    start: Size,
    end: Size,
    limit: Size,
    source_mask: Bool[Array, "..."] | None = None,
    cached: bool = True,
) -> tuple[Integer[Array, "*batch T"], Float[Array, "*batch"]]:
    r"""Take the most probable token, again and again, until the end token or the limit.

    .. math:: t_{n+1} = \operatorname*{arg\,max}_t\; P(t \mid t_1, \dots, t_n, s)

    Of equally probable tokens the first in the vocabulary is taken. With torch, call it
    under ``torch.no_grad()``: nothing here needs a gradient.

    Args:
        parameters: of the whole model.
        source: tokens, shape (\*batch, S).
        start: the token before the first.
        end: the token after the last.
        limit: how many tokens to take at most, the end token included.
        source_mask: as in :func:`attention_in_detail.encode`.
        cached: whether to keep keys and values (:func:`attention_in_detail.decode_step`) or to compute
            everything anew for each token (:func:`attention_in_detail.decode`). The
            result is the same.

    Returns:
        The tokens without the start token, shape (\*batch, T), T ≤ ``limit``, filled
        with ``end`` after the end of each sequence; and the log-probability of each
        sequence, its end token included, shape (\*batch).

    Raises:
        TypeError: if an argument is of a wrong kind, or libraries or devices are mixed.
        ValueError: if a token is not in its vocabulary, ``limit`` below 1, or sizes do
            not fit.

    Source:
        Sutskever, Vinyals and Le (2014), section 3.2 (a beam of size 1).
    """
    xp, end = array_namespace(source), int(end)
    memory = encode.unchecked(parameters, source, source_mask=source_mask)
    cache = (
        decoder_cache.unchecked(parameters, memory, source_mask=source_mask)
        if cached
        else None
    )
    batch, where = tuple(source.shape[:-1]), device(source)
    tokens = xp.full((*batch, 1), int(start), dtype=xp.int64, device=where)
    done = xp.zeros(batch, dtype=xp.bool, device=where)
    total = constant(0.0, widened(memory))
    for _ in range(int(limit)):
        if cached:
            logits, cache = decode_step.unchecked(
                parameters, tokens[..., -1:], cache
            )
        else:
            logits = decode.unchecked(
                parameters, tokens, memory, source_mask=source_mask
            )
        logs = log_probabilities(logits[..., -1, :])  # (*batch, V_t)
        best = xp.astype(xp.argmax(logs, axis=-1), xp.int64)
        best = xp.where(done, xp.full_like(best, end), best)
        gain = xp.max(logs, axis=-1)
        total = total + xp.where(done, constant(0.0, gain), gain)
        tokens = xp.concat([tokens, best[..., None]], axis=-1)
        done = done | (best == end)
        if bool(xp.all(done)):
            break
    return tokens[..., 1:], total


class Hypothesis(NamedTuple):
    """One sequence that a beam has found.

    Its ``tokens`` come without the start token; the last is the end token, unless the
    limit cut the sequence. ``log_probability`` is the sum over all of them.
    """

    tokens: tuple[int, ...]
    log_probability: float


@checked(check_beam_decode)
def beam_decode(
    parameters: TransformerParameters,
    source: Integer[Array, " S"],
    *,
    width: Size,
    start: Size,
    end: Size,
    limit: Size,
    source_mask: Bool[Array, "..."] | None = None,
    cached: bool = True,
) -> tuple[Hypothesis, ...]:
    r"""Keep the few most probable beginnings at each length, and return what becomes of them.

    .. math:: \log P(t_1, \dots, t_n \mid s) = \sum_{i=1}^{n} \log P(t_i \mid t_1, \dots, t_{i-1}, s)

    At each step every unfinished beginning is extended by every token; of these and of
    the finished sequences the ``width`` most probable stay. Nothing rewards length. A
    width of 1 is :func:`greedy_decode`; a width of V_t to the power of ``limit``
    forgets nothing and finds the most probable sequence.

    Args:
        parameters: of the whole model.
        source: the tokens of one source, shape (S,).
        width: how many to keep.
        start: the token before the first.
        end: the token after the last.
        limit: how many tokens a sequence may have, the end token included.
        source_mask: shape (S,) or (1, S), true = may attend.
        cached: as in :func:`greedy_decode`.

    Returns:
        At most ``width`` hypotheses, the most probable first.

    Raises:
        TypeError: if an argument is of a wrong kind, or libraries or devices are mixed.
        ValueError: if a token is not in its vocabulary, ``limit`` or ``width`` is below
            1, or sizes do not fit.

    Source:
        Sutskever, Vinyals and Le (2014), section 3.2; in Vaswani et al. (2017), section
        6.1, with a penalty for length.
    """
    xp, where = array_namespace(source), device(source)
    start, end, width = int(start), int(end), int(width)

    def integers(numbers: list) -> Integer[Array, "..."]:
        return xp.asarray(numbers, dtype=xp.int64, device=where)

    memory = encode.unchecked(
        parameters, source[None, :], source_mask=source_mask
    )
    cache = (
        decoder_cache.unchecked(parameters, memory, source_mask=source_mask)
        if cached
        else None
    )
    done, live = [], [Hypothesis((), 0.0)]
    for _ in range(int(limit)):
        before = [(start, *one.tokens) for one in live]
        if cached:
            logits, cache = decode_step.unchecked(
                parameters, integers([[row[-1]] for row in before]), cache
            )
        else:
            logits = decode.unchecked(
                parameters,
                integers(before),
                memory,
                source_mask=source_mask,
            )
        logs = log_probabilities(logits[:, -1, :])  # (live, V_t)
        order = xp.argsort(logs, axis=-1, descending=True, stable=True)
        # Who is more probable comes first; then who was so by the last token.
        found = [(-one.log_probability, 0.0, one, None) for one in done]
        for row, one in enumerate(live):
            for rank in range(min(width, logs.shape[-1])):
                token = int(order[row, rank])
                gain = float(logs[row, token])
                grown = Hypothesis(
                    (*one.tokens, token), one.log_probability + gain
                )
                found.append((-grown.log_probability, -gain, grown, row))
        found = sorted(found, key=lambda entry: entry[:2])[:width]
        done = [one for *_, one, _ in found if one.tokens[-1] == end]
        rows = [
            (one, row) for *_, one, row in found if one.tokens[-1] != end
        ]
        live = [one for one, _ in rows]
        if not live:
            break
        if cached:
            chosen = integers([row for _, row in rows])
            cache = cache.take(chosen)
    both = sorted([*done, *live], key=lambda one: -one.log_probability)
    return tuple(both)


def log_probabilities(
    logits: Float[Array, "*batch V"],
) -> Float[Array, "*batch V"]:
    """Return the logarithm of the softmax along the last axis, in float32 at least."""
    xp = array_namespace(logits)
    z = widened(logits)
    z = z - xp.max(z, axis=-1, keepdims=True)
    return z - xp.log(xp.sum(xp.exp(z), axis=-1, keepdims=True))
