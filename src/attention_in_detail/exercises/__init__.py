"""Exercises of the chapters, and what judges answers to them.

A reader calls ``check("ex-...", answer)`` in a chapter. Each chapter has a module here, named like its labels, which
says for each exercise what is right and which wrong answers are known.
"""

from __future__ import annotations

import difflib
import importlib
from typing import Any

from attention_in_detail._checks import checked
from attention_in_detail.exercises.judging import (
    LEVELS,
    Case,
    Exercise,
    Mistake,
    Verdict,
    judge,
)

__all__ = [
    "CHAPTERS",
    "LEVELS",
    "Case",
    "Exercise",
    "Mistake",
    "Verdict",
    "check",
    "exercises_of",
]

#: The modules, in the order of the chapters; one is imported when an exercise of it is asked for.
CHAPTERS = {
    "01_notation": "notation",
    "02_attention": "attention",
    "03_compatibility": "compatibility",
    "04_remarks": "remarks",
    "05_multi_head": "multi_head",
    "06_parallelism": "parallel",
    "07_cross_attention": "cross_attention",
    "11_masks": "mask",
    "12_real_heads": "real",
    "13_real_translator": "translator",
    "14_end_to_end": "end_to_end",
    "21_direction": "direction",
    "22_routing": "routing",
    "23_pruning": "pruning",
    "24_shared_projections": "shared",
    "25_low_rank": "rank",
    "26_fast_weights": "fast",
    "27_rank_collapse": "collapse",
    "28_layer_norm": "transfer",
    "29_quadratic_cost": "cost",
    "31_backward": "backward",
    "32_linear_memory": "linear",
    "33_many_processes": "processes",
    "34_speed": "speed",
    "35_todays_models": "today",
    "91_classic_bugs": "bugs",
}


def check_exercises_of(chapter: Any) -> None:
    if not isinstance(chapter, str) or chapter not in CHAPTERS:
        raise ValueError(
            f"no exercises for {chapter!r}; the names in CHAPTERS have some"
        )


@checked(check_exercises_of)
def exercises_of(chapter: str) -> tuple[Exercise, ...]:
    """The exercises of a chapter in their order.

    Args:
        chapter: the name of its notebook, as in ``"05_multi_head"``.

    Raises:
        ValueError: if no chapter of that name has exercises here.
    """
    module = importlib.import_module(f"{__name__}.{CHAPTERS[chapter]}")
    found: tuple[Exercise, ...] = module.EXERCISES
    return found


def _chapters_of(label: str) -> list[str]:
    """The chapters whose labels begin as this one does."""
    return [
        chapter
        for chapter, module in CHAPTERS.items()
        if label.startswith(f"ex-{module.replace('_', '-')}-")
    ]


def check_check(label: Any, answer: Any) -> None:
    if not isinstance(label, str):
        raise TypeError(
            f'label must be a text, as in check("ex-attention-hand", answer), not {type(label).__name__}'
        )
    known = [
        one.label
        for chapter in _chapters_of(label) or CHAPTERS
        for one in exercises_of(chapter)
    ]
    if label not in known:
        near = difflib.get_close_matches(label, known, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"no exercise has the label {label!r}{meant}")


@checked(check_check)
def check(label: str, answer: Any) -> Verdict:
    """Judge an answer to an exercise.

    The verdict says that the answer is right, or what is wrong with it: the axis, the scale, the step that is missing.
    It never says the right answer.

    Args:
        label: the label of the exercise, which stands in the cell below it.
        answer: a number, a list or array of numbers, words, or a function, as the exercise asks. ``...`` stands for
            no answer yet.

    Returns:
        The verdict; in an ``if`` it is true where the answer is right.

    Raises:
        TypeError: if the label is no text.
        ValueError: if no exercise has the label.

    Example:
        >>> check("ex-attention-hand", [32, 24])
        Not yet. The weights do not sum to 1: divide the exponentials by their sum.
    """
    [exercise] = [
        one
        for chapter in _chapters_of(label)
        for one in exercises_of(chapter)
        if one.label == label
    ]
    return judge(exercise, answer)
