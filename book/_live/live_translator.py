"""Ask the trained model of number words: a typed number comes in, what a page shows of its translation goes out.

This runs in the reader's browser, beside the package of the book, whose functions compute all of it. The page only puts
the words and numbers that come into their places.
"""

from __future__ import annotations

import re
from typing import Any

from attention_in_detail.figures import attention_viewer
from attention_in_detail.tasks.number_words import (
    END,
    GERMAN,
    LIMIT,
    english_words,
    german_words,
)
from attention_in_detail.tasks.tracing import traced_translation
from attention_in_detail.trained import trained_number_words

FORM = "application/json"
RANGE = f"numbers from 0 to {LIMIT - 1:,}"
# Digits alone, or in groups of three as they are written in one country or another.
WHOLE = re.compile(r"(\d+|\d{1,3}([ .,'’_\u00a0\u2009\u202f]\d{3})+)")
# Layer 2, head 3: the one that points at the gold word most often.
BEST = {"layer": 1, "head": 2}
model = None


def refused(text: str) -> str | None:
    """Say what is wrong with what was typed, or nothing."""
    text = text.strip()
    if not text:
        return f"Nothing was typed. The model knows {RANGE}."
    shown = text if len(text) <= 20 else f"{text[:20]}…"
    if re.fullmatch(rf"[-−–]\s*{WHOLE.pattern}", text):
        return f"{shown} is below 0. The model knows {RANGE}."
    if not WHOLE.fullmatch(text):
        return f"“{shown}” is no whole number in digits. The model knows {RANGE}."
    digits = re.sub(r"\D", "", text).lstrip("0")
    if len(digits) >= len(str(LIMIT)):
        return f"{shown} is too large. The model knows {RANGE}."
    return None


def told(probability: float) -> str:
    """A probability with three decimals; what is not 0 or 1 is not told as such."""
    if 0 < probability < 0.0005:
        return "< 0.001"
    if 0.9995 <= probability < 1:
        return "> 0.999"
    return f"{probability:.3f}"


class Answer:
    """What is shown for what was typed."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def __repr__(self) -> str:
        return self.data["says"]

    def _repr_mimebundle_(self) -> dict[str, Any]:
        return {FORM: self.data}


def ready() -> None:
    """Read the weights, which takes a moment."""
    global model
    if model is None:
        model = trained_number_words()


def translated(text: str) -> Answer:
    """Return the answer to what was typed: a translation, or why there is none."""
    says = refused(text)
    if says is not None:
        return Answer({"says": says})
    ready()
    number = int(re.sub(r"\D", "", text))
    traced = traced_translation(model, number)
    ended = traced.german[-1] == GERMAN[END]
    word = "".join(traced.german[:-1] if ended else traced.german)
    wanted = "".join(german_words(number))
    english = " ".join(english_words(number))
    viewer = attention_viewer(
        traced.weights,
        traced.german,
        traced.english,
        query_label="German, written",
        key_label="English, read",
        **BEST,
    )
    right = (
        "right" if word == wanted and ended else f"wrong: it is {wanted}"
    )
    steps = len(traced.german)
    return Answer(
        {
            "says": f"{number:,}, {english}: {word}, {right}. {steps} steps.",
            "english": english,
            "word": word,
            "verdict": f"{right[0].upper()}{right[1:]}.",
            "steps": [
                [(one.token, told(one.probability)) for one in candidates]
                for candidates in traced.candidates
            ],
            "viewer": viewer.attributes,
            "alt": viewer.text_alternative,
        }
    )
