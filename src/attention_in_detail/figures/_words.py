"""Names of tokens and the sentences of text alternatives, made from the data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LISTED = 8
"""How many queries a text alternative speaks of before it shortens the list."""


def plain(words: str) -> str:
    """Return words without the signs of mathematical typesetting, as a screen reader should say them."""
    for sign, spoken in (
        ("$", ""),
        ("\\,", " "),
        ("_{", "_"),
        ("^{", "^"),
        ("\\top", "T"),
        ("\\sqrt", "root of "),
        ("\\cdot", "·"),
        ("\\", ""),
    ):
        words = words.replace(sign, spoken)
    return words.replace("{", "").replace("}", "")


def is_mathematics(word: str) -> bool:
    """Tell whether a label is set as mathematics: it stands between two dollar signs and has none inside."""
    return (
        len(word) > 2
        and word[0] == word[-1] == "$"
        and "$" not in word[1:-1]
    )


def visible(word: str) -> str:
    """Return a token with its line breaks and tabs made visible, so that it takes one line."""
    return word.replace("\n", "↵").replace("\t", "⇥")


def names(kind: str, tokens: Sequence[str] | None, size: int) -> list[str]:
    """Return what a text alternative calls each position.

    Args:
        kind: "query" or "key".
        tokens: the tokens, or None.
        size: how many positions there are.

    Returns:
        “token” where there are tokens, with its position (from 1) where the token occurs more than once; otherwise
        the kind with the position, such as "query 1".
    """
    if tokens is None:
        return [f"{kind} {i + 1}" for i in range(size)]
    quoted = [
        plain(t) if is_mathematics(t) else f"“{visible(t)}”" for t in tokens
    ]
    return [
        f"{q} (position {i + 1})" if quoted.count(q) > 1 else q
        for i, q in enumerate(quoted)
    ]


def is_integer(value: float) -> bool:
    """Tell whether a number is a whole one, up to the rounding of a computation; nothing but 0 counts as 0."""
    nearest = np.round(value)
    if nearest == 0:
        return bool(value == 0)
    return bool(abs(value - nearest) <= 1e-9 * abs(nearest))


def number(value: float, digits: int = 2) -> str:
    """Return a number as it is printed in a cell: rounded, except an integer, which has no decimals.

    An integer is one up to rounding, since a processor may miss it by the last digit; but 0 is exactly zero, and
    0.00, without a sign, a number that rounds to it.
    """
    if np.isneginf(value):
        return "−∞"
    words = (
        f"{abs(value):.0f}"
        if is_integer(value)
        else f"{abs(value):.{digits}f}"
    )
    return f"−{words}" if value < 0 and float(words) else words


def brief(value: float) -> str:
    """Return a number with three significant digits, in words short enough for a label."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e6 or size < 1e-3:
        mantissa, exponent = f"{size:.2e}".split("e")
        mantissa = (
            mantissa.rstrip("0").rstrip(".")
            if "." in mantissa
            else mantissa
        )
        words = f"{mantissa} × 10^{int(exponent)}".replace("-", "−")
    elif size >= 1000:
        words = f"{size:,.0f}"
    else:
        words = f"{size:.3g}"
    return ("−" if value < 0 else "") + words


def listing(parts: Sequence[str], what: str, limit: int = LISTED) -> str:
    """Join the parts of a list, shortened to `limit` parts and the count of the others."""
    shown = "; ".join(parts[:limit])
    return (
        shown
        if len(parts) <= limit
        else f"{shown}; …and {len(parts) - limit} more {what}"
    )


def together(words: Sequence[str]) -> str:
    """Join words as English does: a, b and c."""
    return (
        words[0]
        if len(words) == 1
        else f"{', '.join(words[:-1])} and {words[-1]}"
    )


def strongest(row: np.ndarray, keys: Sequence[str], digits: int = 2) -> str:
    """Say which key of one query has the largest value, and the value; keys that share it are all named.

    Args:
        row: (S,), the values of one query.
        keys: S names.
        digits: decimals of the value.
    """
    top = row.max()
    if np.isneginf(top):
        return "none, all are shut out"
    best = (
        np.flatnonzero(np.isclose(row, top, rtol=1e-6, atol=0))
        if top != 0
        else np.flatnonzero(row == 0)
    )
    value = number(float(top), digits)
    if len(best) == len(row) and len(row) > 1:
        return f"all {len(row)} keys alike ({value})"
    if len(best) > 3:
        return f"{len(best)} keys alike ({value})"
    each = " each" if len(best) > 1 else ""
    return f"{together([keys[j] for j in best])} ({value}{each})"


def strongest_keys(
    weights: np.ndarray,
    queries: Sequence[str],
    keys: Sequence[str],
    digits: int = 2,
) -> str:
    """Say for each query which key has its largest weight, in one sentence.

    Args:
        weights: (T, S), rows are queries.
        queries: T names.
        keys: S names.
        digits: decimals of the weights.
    """
    parts = [
        f"{query}: {'nothing, all weights are zero' if not row.any() else strongest(row, keys, digits)}"
        for query, row in zip(queries, weights, strict=True)
    ]
    return f"Strongest key of each query: {listing(parts, 'queries')}."


def zeros(weights: np.ndarray) -> str:
    """Say how many weights are exactly zero, as masked ones are; an empty string where none is."""
    count = int((weights == 0).sum())
    if not count:
        return ""
    return f" {count} of {weights.size} weights {'is' if count == 1 else 'are'} exactly zero."
