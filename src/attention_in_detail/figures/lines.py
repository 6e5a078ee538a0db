"""Attention as lines from queries to keys: the heavier a line, the larger its weight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ._data import Drawable, Number, weights_of, words_of
from ._type import put, put_token, token_width, width_of, wrapped
from ._words import brief, names, number, plain, strongest_keys, zeros
from .picture import Picture, drawn_twice
from .style import SMALL, TITLE, Length, inks, points

FAINTEST = 0.74
"""The lowest opacity of a line: so it still reaches 3 : 1 on its ground."""


def attention_lines(
    weights: Drawable,
    *,
    query_tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    threshold: Number = 0.05,
    query: int | None = None,
    title: str | None = None,
    digits: int = 2,
    query_label: str = "queries",
    key_label: str = "keys",
    text_alternative: str | None = None,
) -> Picture:
    """Draw queries on the left, keys on the right, and a line for each weight from `threshold` upwards.

    Width and opacity of a line grow with its weight. The line to the strongest key of each query has the accent colour
    and its weight stands beside the query.

    Args:
        weights: (T, S), between 0 and 1.
        query_tokens: T tokens for the left; None labels them q₁ to q_T.
        key_tokens: S tokens for the right; None labels them k₁ to k_S.
        threshold: weights below it get no line.
        query: the index, from 0, of the one query whose lines are drawn; None draws those of all.
        title: a line above the picture.
        digits: decimals of the printed weights.
        query_label: what stands on the left.
        key_label: what stands on the right.
        text_alternative: words for the picture; None makes them from the data: the sizes, the strongest key of each query
            with its weight, and how many lines are drawn.

    Returns:
        The picture, at most 480 css pixels wide unless tokens are very long.

    Raises:
        ValueError: `weights` has not two axes, is not finite or not between 0 and 1; the number of tokens is not the size
            of its axis; `query` is not the index of a query; `threshold` is not between 0 and 1.
    """
    A = weights_of("weights", weights, "T S")
    T, S = A.shape
    left = (
        None
        if query_tokens is None
        else words_of("query_tokens", query_tokens, "T", T, "weights")
    )
    right = (
        None
        if key_tokens is None
        else words_of("key_tokens", key_tokens, "S", S, "weights")
    )
    if not 0 <= threshold <= 1:
        raise ValueError(
            f"threshold is {threshold}; it must lie between 0 and 1"
        )
    if query is not None and not 0 <= query < T:
        raise ValueError(
            f"query is {query}; the queries have indices 0 to {T - 1}"
        )
    drawn = (A > 0) & ~(threshold > A)
    if query is not None:
        drawn &= np.arange(T)[:, None] == query
    if text_alternative is None:
        shown = slice(None) if query is None else slice(query, query + 1)
        said = strongest_keys(
            A[shown],
            names("query", left, T)[shown],
            names("key", right, S),
            digits,
        )
        count = int(drawn.sum())
        text_alternative = (
            f"{plain(title) + '. ' if title else ''}Lines from {T} {query_label} on the left to {S} {key_label} on the "
            f"right. {said} {count} line{'s' if count != 1 else ''} with a weight of {brief(float(threshold))} or more."
            f"{zeros(A) if query is None else ''}"
        )
    left = [f"$q_{{{i + 1}}}$" for i in range(T)] if left is None else left
    right = (
        [f"$k_{{{j + 1}}}$" for j in range(S)] if right is None else right
    )
    return drawn_twice(
        _draw,
        A,
        drawn,
        left,
        right,
        title,
        digits,
        (query_label, key_label),
        text_alternative,
    )


def _draw(
    A: np.ndarray,
    drawn: np.ndarray,
    left: list[str],
    right: list[str],
    title: str | None,
    digits: int,
    labels: tuple[str, str],
    text_alternative: str,
) -> Picture:
    T, S = A.shape
    step = 34 if max(T, S) <= 12 else 24
    left_room = (
        max([token_width(t) for t in left] + [width_of(labels[0], SMALL)])
        + 16
    )
    right_room = (
        max([token_width(t) for t in right] + [width_of(labels[1], SMALL)])
        + 16
    )
    value_room = width_of(number(0.25, digits), SMALL) + 22
    between = max(
        150.0, min(230.0, 470 - left_room - right_room - value_room - 20)
    )
    across = left_room + value_room + between + right_room + 20
    heading = (
        []
        if title is None
        else wrapped(title, max(across, 400) - 20, TITLE, bold=True)
    )
    across = max(
        [
            across,
            *(width_of(line, TITLE, bold=True) + 20 for line in heading),
        ]
    )
    top = 46 + 23 * len(heading)
    rows = max(T, S)
    picture = Picture(
        across, top + step * rows + 6, text_alternative=text_alternative
    )
    page = picture.page()
    start = (
        (across - left_room - value_room - between - right_room) / 2
        + left_room
        + value_room
    )
    end = start + between
    for n, line in enumerate(heading):
        put(
            page,
            across / 2,
            18 + 23 * n,
            line,
            TITLE,
            weight="bold",
            gid="title",
        )
    put(
        page,
        start - value_room,
        top - 26,
        labels[0],
        SMALL,
        ha="right",
        style="italic",
        gid="query label",
    )
    put(
        page,
        end + 14,
        top - 26,
        labels[1],
        SMALL,
        ha="left",
        style="italic",
        gid="key label",
    )

    query_y = top + step * (np.arange(T) + 0.5 + (rows - T) / 2)
    key_y = top + step * (np.arange(S) + 0.5 + (rows - S) / 2)
    order = sorted(
        zip(*np.nonzero(drawn), strict=True), key=lambda ij: A[ij]
    )  # heavier lines on top
    for i, j in order:
        strongest = bool(A[i, j] == A[i].max())
        _line(
            page,
            start,
            query_y[i],
            end,
            key_y[j],
            float(A[i, j]),
            strongest,
            gid=f"line:{i}:{j}",
        )
    for i in range(T):
        put_token(
            page,
            start - value_room,
            query_y[i],
            left[i],
            ha="right",
            gid=f"query:{i}",
        )
        page.plot(
            start, query_y[i], "o", color=inks().rule, markersize=points(7)
        )
        if drawn[i].any():
            put(
                page,
                start - 9,
                query_y[i],
                number(A[i].max(), digits),
                SMALL,
                ha="right",
                gid=f"weight:{i}",
            )
    for j in range(S):
        put_token(
            page, end + 14, key_y[j], right[j], ha="left", gid=f"key:{j}"
        )
        page.plot(
            end, key_y[j], "o", color=inks().rule, markersize=points(7)
        )
    return picture


def _line(
    page,
    left: Length,
    upper: Length,
    right: Length,
    lower: Length,
    weight: Length,
    strongest: bool,
    gid: str,
) -> None:
    """Draw one curve from a query to a key; it leaves and arrives level, so that crossing lines can be followed."""
    s = np.linspace(0, 1, 40)
    ease = s * s * (3 - 2 * s)
    page.plot(
        left + (right - left) * s,
        upper + (lower - upper) * ease,
        color=inks().series[0] if strongest else inks().rule,
        linewidth=points(1.0 + 9 * weight),
        alpha=1.0 if strongest else FAINTEST + (1 - FAINTEST) * weight,
        solid_capstyle="round",
        zorder=2 if strongest else 1.5,
        gid=gid,
    )
