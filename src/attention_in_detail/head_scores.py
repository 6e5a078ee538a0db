"""How much of a head's weight falls where a pattern says: a number for what an eye believes to see in a map."""

import string
from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from attention_in_detail._arrays import narrowed, widened
from attention_in_detail._checks import (
    checked,
    kind,
    need_array,
    need_axes,
    need_floating,
    need_one_home,
)
from attention_in_detail.notation import Array, Bool, Float

__all__ = ["PATTERNS", "pattern_mass", "patterns", "uniform_mass"]

PATTERNS = ("previous", "next", "first", "same word", "punctuation")


def need_pattern(pattern: Any) -> None:
    need_array("pattern", pattern)
    if not array_namespace(pattern).isdtype(pattern.dtype, "bool"):
        raise TypeError(
            f"pattern must be boolean (true = counts), not {kind(pattern)}"
        )


def check_pattern(pattern: Any) -> None:
    need_pattern(pattern)
    need_axes("pattern", pattern, ["T", "S"])
    xp = array_namespace(pattern)
    if not bool(xp.any(pattern)):
        raise ValueError(
            "pattern holds no pair: there is nothing to average"
        )


def check_pattern_mass(weights: Any, pattern: Any) -> None:
    need_floating("weights", weights)
    need_axes("weights", weights, ["T", "S"])
    need_pattern(pattern)
    if tuple(pattern.shape) != tuple(weights.shape[-2:]):
        raise ValueError(
            f"pattern has the shape {tuple(pattern.shape)}, but weights have (T, S) = {tuple(weights.shape[-2:])}"
        )
    need_one_home({"weights": weights, "pattern": pattern})
    check_pattern(pattern)


def check_patterns(tokens: Any) -> None:
    if isinstance(tokens, str):
        raise TypeError("tokens must be a list of texts, not one text")
    for token in tokens:
        if not isinstance(token, str):
            raise TypeError(
                f"tokens must be a list of texts, but it holds {type(token).__name__}"
            )
    if len(tokens) == 0:
        raise ValueError("tokens must hold at least one text")


@checked(check_pattern_mass)
def pattern_mass(
    weights: Float[Array, "*batch T S"], pattern: Bool[Array, "T S"]
) -> Float[Array, "*batch"]:
    r"""Return the share of their weight that queries put on the keys of a pattern.

    .. math:: m &= \frac{1}{|R|} \sum_{i \in R} \sum_{j} P_{ij} A_{ij}, \\
        R &= \{ i : P_{ij} = 1 \text{ for some } j \}

    Args:
        weights: rows that sum to 1, shape (\*batch, T, S).
        pattern: boolean, true where query i is asked about key j, shape (T, S). A query
            without such a key is left out of the mean.

    Returns:
        Between 0 and 1, shape (\*batch,). Half precision is computed in float32.

    Raises:
        TypeError: if ``weights`` is not floating or ``pattern`` not boolean.
        ValueError: if ``pattern`` has not the last two axes of ``weights``, or holds no
            pair.

    Source:
        In the spirit of Clark et al. (2019), section 3.
    """
    xp = array_namespace(weights)
    wide = widened(weights)
    on_pattern = xp.sum(
        xp.where(pattern, wide, xp.zeros_like(wide)), axis=-1
    )
    asked = xp.astype(xp.any(pattern, axis=-1), wide.dtype)  # (T,)
    mass = xp.sum(on_pattern * asked, axis=-1) / xp.sum(asked)
    return narrowed(mass, weights.dtype)


@checked(check_pattern)
def uniform_mass(pattern: Bool[Array, "T S"]) -> float:
    r"""Return what :func:`pattern_mass` gives for a head that looks everywhere alike.

    .. math:: m_0 = \frac{1}{|R|} \sum_{i \in R} \frac{1}{S} \sum_j P_{ij}

    Args:
        pattern: boolean, shape (T, S).

    Returns:
        Between 0 and 1. A mass says something only beside this number.

    Raises:
        TypeError: if ``pattern`` is not boolean.
        ValueError: if it holds no pair.

    Source:
        The mass of weights that are all 1 / S.
    """
    counts = [sum(map(bool, row)) for row in pattern]
    asked = [count for count in counts if count]
    return sum(asked) / len(asked) / pattern.shape[-1]


@checked(check_patterns)
def patterns(tokens: Sequence[str]) -> dict[str, Bool[Array, "T T"]]:
    r"""Return the patterns named in ``PATTERNS`` for the tokens of a text.

    .. math:: P_{ij} = 1 \iff \begin{cases}
        j = i - 1 & \text{previous} \\
        j = i + 1 & \text{next} \\
        j = 1 < i & \text{first} \\
        \text{token}_j = \text{token}_i,\ j \ne i & \text{same word} \\
        \text{token}_j \in \{ . , ; \dots \},\ j \ne i & \text{punctuation}
        \end{cases}

    Args:
        tokens: of one text, in order.

    Returns:
        By name, boolean NumPy arrays of shape (T, T). One may hold no pair: a text
        without a repeated word has no "same word".

    Raises:
        TypeError: if ``tokens`` is not a list of texts.
        ValueError: if it is empty.

    Source:
        The patterns are among those that Clark et al. (2019), section 3, name.
    """
    T = len(tokens)
    words = np.array(tokens)
    own = np.eye(T, dtype=bool)
    marks = np.array([token in set(string.punctuation) for token in tokens])
    first = np.zeros((T, T), dtype=bool)
    first[1:, 0] = True
    found = (
        np.eye(T, k=-1, dtype=bool),
        np.eye(T, k=1, dtype=bool),
        first,
        (words[:, None] == words[None, :]) & ~own,
        np.broadcast_to(marks, (T, T)) & ~own,
    )
    return dict(zip(PATTERNS, found, strict=True))
