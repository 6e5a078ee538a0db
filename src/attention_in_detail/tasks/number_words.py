"""English number words to German number words: data without end, with the gold alignment known.

The numbers are 0 to 999,999. A German number word is cut into tokens that, joined
without spaces, are its spelling: *sechs hundert sieben und siebzig*. German says the
units before the tens, so the alignment with English crosses.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attention_in_detail._checks import checked
from attention_in_detail.notation import Array, Integer, Size
from attention_in_detail.tasks._checks import (
    check_batch,
    check_batches,
    check_number,
    check_split_numbers,
    check_words,
)

__all__ = [
    "END",
    "ENGLISH",
    "GERMAN",
    "LIMIT",
    "LONGEST",
    "PAD",
    "START",
    "Batch",
    "batches",
    "english_words",
    "german_words",
    "gold_alignment",
    "make_batch",
    "split_numbers",
    "words",
]

LIMIT = 1_000_000
"""The numbers are those below it."""


def _listed(text: str) -> list[str]:
    return text.split()


_SMALL = _listed(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen "
    "fourteen fifteen sixteen seventeen eighteen nineteen"
)
_TENS = _listed("twenty thirty forty fifty sixty seventy eighty ninety")
_KLEIN = _listed(
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf"
)
_ZEHNER = _listed(
    "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"
)
_SHORTENED = {6: "sech", 7: "sieb"}  # before "zehn"

PAD, START, END = 0, 0, 1
"""Tokens 0 and 1, padding and end of the source, start and end of the target."""
ENGLISH = ("<pad>", "<end>", *_SMALL, *_TENS, "hundred", "thousand")
"""The vocabulary of the source, 32 tokens."""
GERMAN = (
    *("<start>", "<end>", *_KLEIN, "eins", *_SHORTENED.values()),
    *(*_ZEHNER, "hundert", "tausend", "und"),
)
"""The vocabulary of the target, 29 tokens."""
LONGEST = 12
"""How many tokens the longest target has, its end token included."""

_SOURCE_IDS = {token: n for n, token in enumerate(ENGLISH)}
_TARGET_IDS = {token: n for n, token in enumerate(GERMAN)}


@checked(check_number)
def english_words(number: Size) -> list[str]:
    """Return the tokens of a number in English, such as ``six hundred seventy seven``.

    Args:
        number: from 0 to 999,999.

    Returns:
        The words, without an end token; no "and", no hyphen.

    Raises:
        TypeError: if ``number`` is not an integer.
        ValueError: if it is negative or above 999,999.
    """
    thousands, rest = divmod(int(number), 1000)
    found = [*_below_thousand(thousands), "thousand"] if thousands else []
    return found + (_below_thousand(rest) if rest or not found else [])


def _below_thousand(n: Size) -> list[str]:
    hundreds, rest = divmod(n, 100)
    found = [_SMALL[hundreds], "hundred"] if hundreds else []
    if rest >= 20:
        found.append(_TENS[rest // 10 - 2])
        rest %= 10
    return found + ([_SMALL[rest]] if rest or not found else [])


@checked(check_number)
def german_words(number: Size) -> list[str]:
    """Return the tokens of a number in German, such as ``sechs hundert sieben und siebzig``.

    Args:
        number: from 0 to 999,999.

    Returns:
        The tokens, without an end token. Joined without spaces they are the spelling.

    Raises:
        TypeError: if ``number`` is not an integer.
        ValueError: if it is negative or above 999,999.
    """
    return [token for token, _ in _translated(int(number))]


@checked(check_number)
def gold_alignment(number: Size) -> list[int | None]:
    """Return for each German token which English word it translates.

    Args:
        number: from 0 to 999,999.

    Returns:
        For each token of :func:`german_words` the place, from 0, of its word in
        :func:`english_words`; None for "und", which translates no word.

    Raises:
        TypeError: if ``number`` is not an integer.
        ValueError: if it is negative or above 999,999.
    """
    return [place for _, place in _translated(int(number))]


def _translated(n: Size) -> list[tuple[str, int | None]]:
    """Return the German tokens, each with the place of its English word."""
    if n == 0:
        return [("null", 0)]
    thousands, rest = divmod(n, 1000)
    found, at = [], 0
    if thousands:
        at = len(_below_thousand(thousands))
        found = [*_group(thousands, 0, "ein"), ("tausend", at)]
    return found + _group(rest, at + 1 if thousands else 0, "eins")


def _group(n: Size, at: Size, one: str) -> list[tuple[str, int | None]]:
    """Return the German of n < 1000, whose first English word is at ``at``; a last 1 is ``one``."""
    hundreds, rest = divmod(n, 100)
    found: list[tuple[str, int | None]] = []
    if hundreds:
        found = [(_KLEIN[hundreds], at), ("hundert", at + 1)]
        at += 2
    tens, units = divmod(rest, 10)
    if rest == 0:
        return found
    if rest <= 12:
        return [*found, (one if rest == 1 else _KLEIN[rest], at)]
    if rest < 20:  # thirteen: drei zehn
        stem = _SHORTENED.get(units, _KLEIN[units])
        return [*found, (stem, at), ("zehn", at)]
    if units:  # seventy seven: sieben und siebzig
        found += [(_KLEIN[units], at + 1), ("und", None)]
    return [*found, (_ZEHNER[tens - 2], at)]


@dataclass(frozen=True, eq=False)
class Batch:
    """Sources and targets of some numbers, as token ids, padded to one length each.

    Attributes:
        numbers: shape (B,).
        source: the English words and an end token, then padding, shape (B, S).
        source_lengths: with the end token, shape (B,).
        given: what the decoder is told, the start token and the German tokens, shape
            (B, T).
        wanted: what it is to say at each position: ``given`` one step ahead, with the
            end token last, shape (B, T). Padding of both is the end token.
        target_lengths: of ``wanted`` with its end token, shape (B,).
    """

    numbers: Integer[Array, " B"]
    source: Integer[Array, "B S"]
    source_lengths: Integer[Array, " B"]
    given: Integer[Array, "B T"]
    wanted: Integer[Array, "B T"]
    target_lengths: Integer[Array, " B"]


@checked(check_batch)
def make_batch(numbers: Sequence[int] | Array) -> Batch:
    """Return the batch of these numbers, in their order.

    Args:
        numbers: one or more, from 0 to 999,999.

    Returns:
        Their :class:`Batch`, arrays of NumPy.

    Raises:
        TypeError: if a number is not an integer.
        ValueError: if there is none, or one is negative or above 999,999.
    """
    numbers = [int(n) for n in numbers]
    english = [
        [*(_SOURCE_IDS[w] for w in english_words.unchecked(n)), END]
        for n in numbers
    ]
    german = [
        [*(_TARGET_IDS[w] for w in german_words.unchecked(n)), END]
        for n in numbers
    ]
    wanted, target_lengths = _padded(german, END)
    start = np.full((len(numbers), 1), START)
    return Batch(
        np.array(numbers),
        *_padded(english, PAD),
        np.concatenate([start, wanted[:, :-1]], axis=1),
        wanted,
        target_lengths,
    )


def _padded(
    rows: list[list[int]], filling: int
) -> tuple[Integer[Array, "B T"], Integer[Array, " B"]]:
    lengths = np.array([len(row) for row in rows])
    found = np.full((len(rows), lengths.max()), filling)
    for row, ids in zip(found, rows, strict=True):
        row[: len(ids)] = ids
    return found, lengths


@checked(check_batches)
def batches(
    numbers: Sequence[int] | Array, size: Size, *, seed: Size
) -> Iterator[Batch]:
    """Yield batches without end, of numbers drawn from ``numbers`` with replacement.

    An eighth of each batch is drawn from the numbers below 1,000, where there are any:
    of all numbers they are one in a thousand, and hardly any would be seen.

    Args:
        numbers: to draw from.
        size: B, how many numbers a batch has.
        seed: the same seed gives the same batches.

    Yields:
        One :class:`Batch` after another.

    Raises:
        TypeError: if a number, ``size`` or ``seed`` is not an integer.
        ValueError: if there is no number, one is out of range, ``size`` is below 1 or
            ``seed`` negative.
    """
    rng, numbers = np.random.default_rng(int(seed)), np.asarray(numbers)
    short = numbers[numbers < 1000]
    few = int(size) // 8 if len(short) else 0
    while True:
        drawn = [rng.choice(short, few)] if few else []
        drawn.append(rng.choice(numbers, int(size) - few))
        yield make_batch.unchecked(np.concatenate(drawn))


@checked(check_split_numbers)
def split_numbers(
    *, held_out: Size = 1000, seed: Size = 0
) -> tuple[Integer[Array, " N"], Integer[Array, " held_out"]]:
    """Split the numbers into those to train on and those to be asked later.

    Args:
        held_out: how many are never trained on.
        seed: the same seed gives the same split.

    Returns:
        The training numbers and the held-out ones; no number is in both.

    Raises:
        TypeError: if an argument is not an integer.
        ValueError: if ``held_out`` is not from 1 to 999,999, or ``seed`` negative.
    """
    order = np.random.default_rng(int(seed)).permutation(LIMIT)
    return np.sort(order[int(held_out) :]), order[: int(held_out)]


@checked(check_words)
def words(
    ids: Sequence[int] | Array, vocabulary: Sequence[str]
) -> list[str]:
    """Return the tokens of some ids, up to the first end token.

    Args:
        ids: of one sequence.
        vocabulary: :data:`ENGLISH` or :data:`GERMAN`.

    Returns:
        The tokens, without the end token and what comes after it.

    Raises:
        TypeError: if an id is not an integer.
        ValueError: if an id is not in the vocabulary.
    """
    ids = [int(n) for n in ids]
    stop = ids.index(END) if END in ids else len(ids)
    return [vocabulary[n] for n in ids[:stop]]
