"""An interactive view of many heads: in a notebook and in the pages of the book, with a figure where no script runs."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import Any

import numpy as np

from attention_in_detail._checks import checked, need_integer

from ._data import Drawable, numbers_of, weights_of, words_of
from ._words import is_mathematics, plain, visible
from .lines import attention_lines
from .picture import Picture

LARGEST = 100_000
"""How many weights one viewer takes: they weigh 133 kB in the page."""

SCRIPT = "attention_viewer.js"

FEW_COLOURS = 32


class AttentionViewer:
    """A viewer of attention weights, together with the figure that stands for it where no script runs.

    As the last expression of a cell it shows itself. A notebook stores three forms: HTML with the data and the script in it,
    which asks no network and no kernel; the figure as PNG; and the text alternative of the figure. The pages of the book
    take the data from the first, and load the script once from a file; print, ePub and PDF take the figure.

    Attributes:
        picture: the figure of the head with which the viewer begins.
    """

    def __init__(
        self, attributes: dict[str, str], picture: Picture
    ) -> None:
        self.attributes, self.picture = attributes, picture
        # A page holds the figure beside the viewer, and many lines that cross weigh much.
        picture._most_colours = FEW_COLOURS

    @property
    def text_alternative(self) -> str:
        """The words that stand for the figure."""
        return self.picture.text_alternative

    def png(self) -> bytes:
        """Return the figure as a PNG, drawn for a light page."""
        return self.picture.png()

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """Return what a notebook stores and shows: the viewer, the figure, and the words for it."""
        data, metadata = self.picture._repr_mimebundle_()
        given = " ".join(
            f'{name}="{escape(value)}"'
            for name, value in self.attributes.items()
        )
        html = (
            f"<attention-viewer {given}>\n"
            f'<img src="data:image/png;base64,{data["image/png"]}" alt="{escape(self.text_alternative)}" '
            f'width="{self.picture.css_width}" height="{self.picture.css_height}">\n'
            f"</attention-viewer>\n<script>\n{script()}</script>"
        )
        return {"text/html": html, **data}, metadata


def script() -> str:
    """Return the source of the script, the same for the book and for a running notebook."""
    return (
        resources.files(__package__)
        .joinpath(SCRIPT)
        .read_text(encoding="utf-8")
    )


def encoded(weights: np.ndarray) -> str:
    """Return weights as base64 of one byte each: 0 is exactly zero, other bytes are 1 more than the hundredths.

    The hundredths are those of the printed number, so the viewer shows the two decimals that the figures print. The highest
    bit marks the strongest keys of each query, which two decimals may not tell from others.
    """
    codes = [
        1 + int(f"{weight:.2f}".replace(".", "")) if weight else 0
        for weight in weights.ravel()
    ]
    largest = weights.max(axis=-1, keepdims=True)
    strongest = np.isclose(weights, largest, rtol=1e-6, atol=0)
    marks = np.where(strongest & (weights > 0), 128, 0).ravel()
    return base64.b64encode(bytes((marks + codes).tolist())).decode("ascii")


def _tokens(
    weights: np.ndarray, query_tokens: Any, key_tokens: Any
) -> tuple[list[str], list[str]]:
    """Return the tokens of both sides as a screen shows them: on one line each, without signs of typesetting."""
    T, S = weights.shape[-2:]
    if key_tokens is None and T != S:
        raise ValueError(
            f"key_tokens is None, so the keys are the queries; but weights has T = {T} and S = {S}"
        )
    sides = (
        words_of("query_tokens", query_tokens, "T", T, "weights"),
        words_of("query_tokens", query_tokens, "T", T, "weights")
        if key_tokens is None
        else words_of("key_tokens", key_tokens, "S", S, "weights"),
    )
    queries, keys = (
        [plain(t) if is_mathematics(t) else visible(t) for t in side]
        for side in sides
    )
    return queries, keys


def _stacked(weights: Any) -> np.ndarray:
    """Return the weights as (L, h, T, S); axes that are not there have the size 1."""
    axes = ("T S", "h T S", "L h T S")
    array = numbers_of("weights", weights)
    if not 2 <= array.ndim <= 4:
        raise ValueError(
            f"weights has {array.ndim} axes, shape {array.shape}; (T, S), (h, T, S) or (L, h, T, S) is needed"
        )
    if array.size > LARGEST:
        raise ValueError(
            f"weights has {array.size} entries, a viewer takes {LARGEST}; give it fewer tokens, heads or layers"
        )
    array = weights_of("weights", array, axes[array.ndim - 2])
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def check_viewer(
    weights: Any,
    query_tokens: Any,
    key_tokens: Any = None,
    *,
    layer: Any = 0,
    head: Any = 0,
    first: Any = 1,
    title: Any = None,
    query_label: Any = "queries",
    key_label: Any = "keys",
    text_alternative: Any = None,
) -> None:
    array = _stacked(weights)
    _tokens(array, query_tokens, key_tokens)
    for name, number, count in (
        ("layer", layer, array.shape[0]),
        ("head", head, array.shape[1]),
    ):
        need_integer(name, number, least=0)
        if number >= count:
            raise ValueError(
                f"{name} is {number}, but weights has {count}; they are counted from 0"
            )
    need_integer("first", first, least=0)
    for name, words in (
        ("title", title),
        ("query_label", query_label),
        ("key_label", key_label),
        ("text_alternative", text_alternative),
    ):
        if words is not None and not isinstance(words, str):
            raise TypeError(
                f"{name} must be a text, not {type(words).__name__}"
            )


@checked(check_viewer)
def attention_viewer(
    weights: Drawable,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str] | None = None,
    *,
    layer: int = 0,
    head: int = 0,
    first: int = 1,
    title: str | None = None,
    query_label: str = "queries",
    key_label: str = "keys",
    text_alternative: str | None = None,
) -> AttentionViewer:
    """Show the weights of one head as lines, let the reader choose layer, head and token, and show all heads as small maps.

    Queries stand on the left, keys on the right. Pointing at a token, or reaching it with the keyboard, shows its weights
    alone; a click, a tap or Enter pins it. The strongest weights stand in a table too. The viewer needs neither a network
    nor a kernel. Weights travel with two decimals, rounded as the figures print them, so they are right to within 0.005;
    a weight that is exactly zero stays apart from one that rounds to it.

    Args:
        weights: (T, S), (h, T, S) or (L, h, T, S), between 0 and 1; at most 100,000 entries.
        query_tokens: T tokens for the left.
        key_tokens: S tokens for the right; None takes the query tokens, for self-attention.
        layer: the index, from 0, of the layer to begin with.
        head: the index, from 0, of the head to begin with.
        first: the number that the reader sees at the first layer and at the first head.
        title: a line above the viewer and its figure.
        query_label: what stands on the left.
        key_label: what stands on the right.
        text_alternative: words for the figure; None makes them from the data, as `attention_lines` does.

    Returns:
        The viewer, with the figure of its first head as `picture`.

    Raises:
        ValueError: `weights` has another number of axes, too many entries, is not finite or not between 0 and 1; a number of
            tokens is not the size of its axis; `layer` or `head` is not the index of one.
        TypeError: `layer`, `head` or `first` is not an integer; a title, a label or the text alternative is not a text.
    """
    A = _stacked(weights)
    L, h, _, _ = A.shape
    queries, keys = _tokens(A, query_tokens, key_tokens)
    names = [
        f"{kind} {number + first}"
        for kind, number, wanted in (
            ("layer", layer, L > 1),
            ("head", head, L * h > 1),
        )
        if wanted
    ]
    told = ": ".join(filter(None, [title, ", ".join(names)]))
    picture = attention_lines(
        A[layer, head],
        query_tokens=queries,
        key_tokens=keys,
        title=told[:1].upper() + told[1:] or None,
        query_label=query_label,
        key_label=key_label,
        text_alternative=text_alternative,
    )
    if text_alternative is None and L * h > 1:
        picture.text_alternative += f" This is one of {L * h} heads; the interactive view shows them all."
    attributes = {
        "shape": " ".join(map(str, A.shape)),
        "weights": encoded(A),
        "queries": json.dumps(queries, ensure_ascii=False),
        "keys": json.dumps(keys, ensure_ascii=False),
        "layer": str(layer),
        "head": str(head),
        "first": str(first),
        "query-label": query_label,
        "key-label": key_label,
    }
    if keys == queries:
        del attributes["keys"]
    if title is not None:
        attributes["heading"] = title
    return AttentionViewer(attributes, picture)
