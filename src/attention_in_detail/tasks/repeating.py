"""A task for a language model: a number, then letters that repeat themselves after so many.

As in ``5 a b d d c a b d d c a b ...``. Letters of a block may be equal, so that a letter does
not tell where in its block it stands: who continues must count, and must know the number.
"""

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from attention_in_detail._checks import (
    checked,
    kind,
    need_floating,
    need_integer,
)
from attention_in_detail._transformer_checks import (
    need_token_array,
    need_vocabulary,
)
from attention_in_detail.notation import Array, Bool, Float, Integer, Size

__all__ = [
    "LETTERS",
    "LONGEST",
    "PERIODS",
    "VOCABULARY",
    "draw_repeating",
    "repeated",
    "right_share",
    "spelled",
    "tokens_of",
]

LETTERS = ("a", "b", "c", "d")
PERIODS = (3, 4, 5, 6, 7, 8)
"""How many letters a block can have."""
VOCABULARY = (*LETTERS, *map(str, PERIODS))
LONGEST = 32
"""How many tokens a sequence to train on has."""


def check_draw(size: Any, *, length: Any = LONGEST, seed: Any) -> None:
    need_integer("size", size, least=1)
    need_integer("length", length, least=2)
    need_integer("seed", seed, least=0)


@checked(check_draw)
def draw_repeating(
    size: Size, *, length: Size = LONGEST, seed: Size
) -> Integer[Array, "B T"]:
    r"""Draw sequences: a number m, then letters of which the first m are drawn and the rest repeats them.

    .. math:: t_0 = m, \qquad t_i = t_{i - m} \quad (i > m)

    Args:
        size: how many sequences.
        length: of each, in tokens, the number included.
        seed: of the numbers and the letters.

    Returns:
        The tokens, shape (B, T), arrays of NumPy.

    Raises:
        TypeError: if a number is not an integer.
        ValueError: if it is too small.

    Source:
        This book.
    """
    rng = np.random.default_rng(int(seed))
    m = rng.integers(min(PERIODS), max(PERIODS) + 1, (int(size), 1))
    block = rng.integers(0, len(LETTERS), (int(size), max(PERIODS)))
    letters = np.take_along_axis(
        block, np.arange(int(length) - 1) % m, axis=1
    )
    return np.concatenate([m + len(LETTERS) - min(PERIODS), letters], 1)


def need_sequences(tokens: Any) -> None:
    """Refuse what does not begin with a number each."""
    need_token_array("tokens", tokens, "T")
    need_vocabulary("tokens", tokens, len(VOCABULARY))
    xp = array_namespace(tokens)
    if not bool(xp.all(tokens[..., 0] >= len(LETTERS))):
        raise ValueError(
            f"tokens must begin with a number, {PERIODS[0]} to {PERIODS[-1]}, each"
        )


def check_repeated(tokens: Any) -> None:
    need_sequences(tokens)


@checked(check_repeated)
def repeated(
    tokens: Integer[Array, "*batch T"],
) -> Bool[Array, "*batch T"]:
    r"""Say from which positions the next token can be known: where the block has been seen once.

    .. math:: i \ge m

    Args:
        tokens: that begin with the number m, shape (\*batch, T).

    Returns:
        True at position i if token i + 1 repeats an earlier one, shape (\*batch, T).

    Raises:
        TypeError: if ``tokens`` is no array of integers.
        ValueError: if one is not in the vocabulary, or the first is no number.

    Source:
        This book.
    """
    xp = array_namespace(tokens)
    m = tokens[..., :1] - len(LETTERS) + min(PERIODS)
    return xp.arange(tokens.shape[-1], device=tokens.device) >= m


def check_right_share(logits: Any, tokens: Any) -> None:
    need_floating("logits", logits)
    need_token_array("tokens", tokens, "T")
    wanted = (*tokens.shape, len(VOCABULARY))
    if tuple(logits.shape) != wanted:
        raise ValueError(
            f"logits has the shape {tuple(logits.shape)}, but the tokens ask for (*batch, T, V) = {wanted}"
        )
    need_sequences(tokens)


@checked(check_right_share)
def right_share(
    logits: Float[Array, "*batch T V"], tokens: Integer[Array, "*batch T"]
) -> float:
    r"""Return how many of the tokens that can be known are foretold.

    .. math:: \operatorname{mean}_{i \ge m} \bigl[\operatorname*{arg\,max}_t G_{i,t} = t_{i+1}\bigr]

    Args:
        logits: of a model that was given these tokens, shape (\*batch, T, V).
        tokens: shape (\*batch, T).

    Returns:
        A number from 0 to 1.

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if shapes do not fit, or as for :func:`repeated`.

    Source:
        This book.
    """
    xp = array_namespace(tokens)
    right = xp.argmax(logits[..., :-1, :], axis=-1) == tokens[..., 1:]
    asked = repeated.unchecked(tokens)[..., :-1]
    return float(xp.sum(right & asked)) / float(xp.sum(asked))


def check_spelled(tokens: Any) -> None:
    need_token_array("tokens", tokens, "T")
    if tokens.ndim > 1:
        raise ValueError(
            f"tokens needs one axis, but has the shape {tuple(tokens.shape)}"
        )
    need_vocabulary("tokens", tokens, len(VOCABULARY))


@checked(check_spelled)
def spelled(tokens: Integer[Array, " T"]) -> str:
    """Return the tokens of one sequence as a text.

    Args:
        tokens: shape (T,).

    Returns:
        Their names, with spaces between.

    Raises:
        TypeError: if ``tokens`` is no array of integers.
        ValueError: if one is not in the vocabulary, or there are several sequences.

    Source:
        This book.
    """
    return " ".join(VOCABULARY[int(t)] for t in tokens)


def check_tokens_of(text: Any) -> None:
    if not isinstance(text, str):
        raise TypeError(f"text must be a text, not {kind(text)}")
    names = text.split()
    if not names:
        raise ValueError("text holds no token")
    for name in names:
        if name not in VOCABULARY:
            raise ValueError(
                f"text holds {name!r}, but a token is one of {' '.join(VOCABULARY)}, with spaces between"
            )


@checked(check_tokens_of)
def tokens_of(text: str) -> Integer[Array, " T"]:
    """Return a text as tokens: what :func:`spelled` undoes.

    Args:
        text: names of tokens, with spaces between.

    Returns:
        The tokens, shape (T,), an array of NumPy.

    Raises:
        TypeError: if ``text`` is no text.
        ValueError: if it is empty, or a name is none.

    Source:
        This book.
    """
    return np.array([VOCABULARY.index(name) for name in text.split()])
