"""Judge an answer to an exercise: right, or what is wrong with it, and never the answer itself.

Judging has two halves. ``observed`` looks at an answer, calls it where it is a function, and leaves plain data: numbers,
words, a sentence on what went wrong. It knows the form of the exercise and not what is right. ``verdict_on`` compares
that data with what is right; no code of the reader runs there. ``judge`` is one after the other. Who marks the answers
of others does the first half where their code runs, and the second where it does not.
"""

from __future__ import annotations

import copy
import html
import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any

import numpy as np

__all__ = [
    "DIFFICULTIES",
    "FORMS",
    "LEVELS",
    "Case",
    "Exercise",
    "Mistake",
    "Odd",
    "Outcome",
    "Verdict",
    "judge",
    "observed",
    "verdict_on",
]

#: What an exercise asks for, in the order in which a reader usually meets them.
LEVELS = ("by hand", "explain", "prove", "measure", "implement", "break it")

#: How hard an exercise is, counted without its hint; ``Exercise`` says what each number means.
DIFFICULTIES = (1, 2, 3)

#: What an answer can be: nothing that a machine could judge, numbers, words to choose from, a function.
FORMS = ("open", "numbers", "words", "function")

#: The largest difference of an entry where an exercise does not say its own.
TOLERANCE = 1e-6

NO_ANSWER = "No answer yet: put yours in place of the three dots."
# Functions of the package refuse such a mask.
NO_MASK = "The right places, but these are numbers. A mask of this book is true or false: give it the dtype bool."
NOT_JUDGED = "A proof is not judged here: compare yours with the solution."


@dataclass(frozen=True)
class Mistake:
    """An answer that people give and that is wrong, with what to say to it.

    Attributes:
        answer: makes the wrong answer. Where a value is asked for, it takes nothing and returns the value; where a
            function is asked for, it is the wrong function itself.
        message: what went wrong, without the right answer: the axis, the scale, the step that is missing.
    """

    answer: Callable[..., Any]
    message: str


@dataclass(frozen=True)
class Case:
    """Arguments that a function of the reader is tried on.

    Attributes:
        name: what is special about them, as in "more keys than queries"; the verdict says it.
        arguments: the positional arguments.
        named: the named ones.
    """

    name: str
    arguments: tuple[Any, ...]
    named: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Exercise:
    """What is asked for, and how answers are judged.

    Attributes:
        label: the label of the exercise on its page.
        level: one of ``LEVELS``.
        goals: the objectives of the chapter that it serves, counted from 1.
        difficulty: one of ``DIFFICULTIES``. 1: one step, which follows from the page at once, a few minutes. 2: several
            steps, or one idea. 3: needs an idea of your own, or joins several sections.
        right: makes the right answer: takes nothing and returns a value, or is the right function itself where
            ``cases`` are given. None: nothing that a machine could judge.
        mistakes: wrong answers that are recognized.
        cases: makes what a function is tried on. None: a value is asked for.
        axes: names of the axes of the answer, as in ``("T", "D_v")``, for messages.
        choices: the words that an answer may consist of. Empty: numbers are asked for.
        tolerance: largest difference of an entry, and of one that is larger than 1, largest part of it that the difference
            may be. Unless it is more than ``TOLERANCE``, whole numbers must be met whatever their size.
        open_length: how many rows there are is a part of the answer, and no verdict says it.
        remark: what to say to a right answer.

    Raises:
        ValueError: if the difficulty is none of the three.
    """

    label: str
    level: str
    goals: tuple[int, ...]
    difficulty: int
    right: Callable[..., Any] | None = None
    mistakes: tuple[Mistake, ...] = ()
    cases: Callable[[], Any] | None = None
    axes: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    tolerance: float = TOLERANCE
    remark: str = ""
    open_length: bool = False

    def __post_init__(self) -> None:
        # To Python True is 1, and it is in the tuple.
        if (
            type(self.difficulty) is not int
            or self.difficulty not in DIFFICULTIES
        ):
            raise ValueError(
                f"difficulty of {self.label!r} must be 1, 2 or 3, not {self.difficulty!r}"
            )

    @property
    def form(self) -> str:
        """What an answer is, one of ``FORMS``."""
        if self.right is None:
            return "open"
        if self.cases is not None:
            return "function"
        return "words" if self.choices else "numbers"


@dataclass(frozen=True)
class Verdict:
    """What became of an answer. In an ``if`` it is true where the answer is right.

    Attributes:
        label: the exercise.
        right: True or False; None where there was nothing to judge.
        message: what to say to the reader.
    """

    label: str
    right: bool | None
    message: str

    def __bool__(self) -> bool:
        return self.right is True

    def __repr__(self) -> str:
        start = {True: "Right.", False: "Not yet.", None: ""}[self.right]
        return f"{start} {self.message}".strip()

    def _repr_html_(self) -> str:
        """A paragraph, which breaks its lines on a phone; text would not."""
        return (
            f'<p class="verdict">{html.escape(repr(self), quote=False)}</p>'
        )


@dataclass(frozen=True)
class Odd:
    """What is no answer of the form that is asked for.

    Attributes:
        words: what it is, as in "a text": they follow "yours is".
    """

    words: str


@dataclass(frozen=True)
class Outcome:
    """What a function of the reader did in one case.

    Attributes:
        numbers: what it returned; None if that was nothing to compare.
        fault: what went wrong: it follows "With one row it". Empty: nothing.
    """

    numbers: np.ndarray | None
    fault: str = ""


def judge(exercise: Exercise, answer: Any) -> Verdict:
    """Compare an answer with the right one, then with the mistakes, then look for what else it could be."""
    cases = () if exercise.cases is None else tuple(exercise.cases())
    return verdict_on(exercise, observed(exercise.form, answer, cases))


def observed(form: str, answer: Any, cases: Iterable[Case] = ()) -> Any:
    """The first half of judging: an answer as plain data, with nothing left that could run.

    Args:
        form: what the exercise asks for, one of ``FORMS``.
        answer: what was answered.
        cases: what a function is tried on. The first one in which something goes wrong is the last one tried.

    Returns:
        ``...`` where there is no answer; an array; a tuple of words; a list with an ``Outcome`` for each case that was
        tried; or an ``Odd``.
    """
    if answer is ... or form == "open":
        return ...
    if form == "function":
        return _outcomes(answer, cases)
    if form == "words":
        words = _words(answer)
        return Odd("no words") if words is None else words
    array = _array(answer)
    return Odd(_kind(answer)) if array is None else array


def verdict_on(exercise: Exercise, given: Any) -> Verdict:
    """The second half of judging: compare what ``observed`` left with what is right and what is known to be wrong."""
    if given is ... and exercise.right is not None:
        return Verdict(exercise.label, None, NO_ANSWER)
    if exercise.right is None:
        return Verdict(exercise.label, None, NOT_JUDGED)
    fault = _FAULTS[exercise.form](exercise, given)
    if fault is None:
        return Verdict(exercise.label, True, exercise.remark)
    return Verdict(exercise.label, False, fault)


# ---- values --------------------------------------------------------------------------


def _array(answer: Any) -> np.ndarray | None:
    """An answer as an array of numbers; None if it is none."""
    if hasattr(answer, "detach"):  # a tensor of PyTorch
        answer = answer.detach().cpu()
    if (
        answer is None
        or isinstance(answer, (str, bytes))
        or callable(answer)
    ):
        return None
    try:
        array = np.asarray(answer)
        if array.dtype == object:  # fractions, say; None would become NaN
            if None in array.ravel().tolist():
                return None
            array = array.astype(float)
    except (TypeError, ValueError):
        return None
    return array if array.dtype.kind in "biuf" else None


def _agree(
    given: np.ndarray, wanted: np.ndarray, tolerance: float
) -> np.ndarray:
    """For each entry whether it is accepted. An integer is counted: one more is another one, however large it is."""
    counted = wanted.dtype.kind in "iu" and tolerance <= TOLERANCE
    part = 0 if counted else tolerance
    return np.asarray(
        np.isclose(given, wanted, rtol=part, atol=tolerance, equal_nan=True)
    )


def _same(given: np.ndarray, wanted: np.ndarray, tolerance: float) -> bool:
    return given.shape == wanted.shape and bool(
        _agree(given, wanted, tolerance).all()
    )


def _whole(answer: Any) -> np.ndarray:
    """An answer of ours as an array, and that of integers if it holds whole numbers alone."""
    array = np.asarray(answer)
    if (
        array.dtype.kind == "f"
        and (np.abs(array) < 2**53).all()
        and np.allclose(array, array.round(), rtol=0, atol=1e-9)
    ):
        return np.asarray(array.round().astype(np.int64))
    return array


def _fault_of_value(exercise: Exercise, given: Any) -> str | None:
    assert exercise.right is not None
    wanted = _whole(exercise.right())
    if isinstance(given, Odd):
        kind = "a number" if not wanted.shape else "numbers"
        return f"The answer is {kind}; yours is {given.words}."
    if _same(given, wanted, exercise.tolerance):
        return None
    for mistake in exercise.mistakes:
        if _same(given, _whole(mistake.answer()), exercise.tolerance):
            return mistake.message
    if exercise.open_length and given.shape != wanted.shape:
        return _lengths(given, wanted)
    return describe(given, wanted, exercise.axes, exercise.tolerance)


def _kind(answer: Any) -> str:
    if answer is None:
        return "None, as where a return or an assignment is missing"
    if isinstance(answer, str):
        return "a text"
    if callable(answer):
        return "a function; call it, and hand over what it returns"
    if isinstance(answer, tuple):
        return "a tuple of several things, or of none that are numbers"
    if isinstance(answer, Sequence) and None in answer:
        return "a list in which None stands"
    if isinstance(answer, Sequence):
        return "a list whose rows do not have the same length, or hold no numbers"
    return f"of the type {type(answer).__name__}"


def describe(
    given: np.ndarray,
    wanted: np.ndarray,
    axes: tuple[str, ...] = (),
    tolerance: float = TOLERANCE,
) -> str:
    """Say how an array differs from the one that is wanted, without a number of the latter."""
    if given.shape != wanted.shape:
        return _shapes(given, wanted, axes)
    if _exchanged(given, wanted):
        where = " in all entries" if given.shape else ""
        return f"True and false are exchanged{where}."
    # True and false as 1 and 0. A product of arrays without axes is no array.
    given, wanted = np.asarray(given * 1), np.asarray(wanted * 1)
    if np.isnan(given).any() and not np.isnan(wanted).any():
        return "There is a NaN in it: somewhere 0 is divided by 0, or a row has no entry left."
    if _same(given, np.asarray(-wanted), tolerance):
        return "The sign is wrong everywhere, the size is right."
    if given.ndim > 1:
        for axis, name in _named_axes(given.ndim, axes):
            if _reordered(given, wanted, axis):
                return f"The right entries, in another order along {name}."
    if (factor := _factor(given, wanted)) is not None:
        return (
            f"All entries are off by one and the same factor, and are too {'large' if factor > 1 else 'small'}. "
            "Which scale was forgotten, or taken twice?"
        )
    shift = given - wanted
    if _differ(wanted) and np.allclose(
        shift, shift.flat[0], rtol=0, atol=1e-9
    ):
        return "All entries are off by one and the same number, which was added."
    wrong = ~_agree(given, wanted, tolerance)
    if _rounded(given[wrong], wanted[wrong]):
        return "Close: give more digits, or let the machine work out the fractions."
    if given.size == 1:
        return (
            f"The number is too {'large' if given > wanted else 'small'}."
        )
    number = int(wrong.sum())
    those = "it" if number == 1 else "the first of them"
    return (
        f"{number} of {wrong.size} entries {_are(number)} not right. "
        f"Look at {those}, at {_place(np.argwhere(wrong)[0], axes)}."
    )


def _are(number: int) -> str:
    """The verb that goes with so many."""
    return "is" if number == 1 else "are"


def _place(place: np.ndarray, axes: tuple[str, ...]) -> str:
    """An entry as Python finds it. A name of an axis may be a size as well, so no number is set equal to it."""
    told = f"index {place.tolist()}, counted from 0"
    if not axes or len(axes) > len(place):
        return told
    names = [name for _, name in _named_axes(len(place), axes)]
    return f"{told} ({'axis' if len(names) == 1 else 'axes'}: {', '.join(names)})"


def _exchanged(given: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether these are truth values, and each is the opposite one. They may come as 0 and 1."""
    return (
        "b" in (given.dtype.kind, wanted.dtype.kind)
        and given.size > 0
        and all(np.isin(each, (0, 1)).all() for each in (given, wanted))
        and bool((given != wanted).all())
    )


def _differ(x: np.ndarray) -> bool:
    """Whether there are two entries that are not the same: only then can one rule be seen in how all are off."""
    return x.size > 1 and not np.allclose(x, x.flat[0], rtol=1e-9, atol=0)


def _rounded(given: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether numbers are the wanted ones with fewer digits: those after the point that they are given with."""
    decimals = [
        len(np.format_float_positional(x, trim="-").partition(".")[2])
        for x in given
    ]
    half = 0.5001 * 10.0 ** -np.array(decimals)
    # One digit of a small number tells too little, 0 for 0.4 say.
    return bool(
        (np.abs(given - wanted) <= half).all()
        and np.allclose(given, wanted, rtol=0.02, atol=5e-3)
    )


def _named_axes(
    number: int, axes: tuple[str, ...]
) -> list[tuple[int, str]]:
    # As in a call, where the first one is axis=0: "axis 1" could be taken for it.
    if axes and len(axes) <= number:
        batch = [f"batch axis={n}" for n in range(number - len(axes))]
        return list(enumerate([*batch, *axes]))
    return [(n, f"axis={n}") for n in range(number)]


def _shapes(
    given: np.ndarray, wanted: np.ndarray, axes: tuple[str, ...]
) -> str:
    told = f"It has the shape {given.shape}"
    names = f"({', '.join(axes)})" if len(axes) == wanted.ndim else ""
    asked = "; asked for is " + (f"{names} = " if names else "")
    asked += str(wanted.shape)
    if not wanted.shape:
        return f"{told}; asked for is one number."
    if given.ndim == wanted.ndim >= 2 and given.shape == (
        *wanted.shape[:-2],
        wanted.shape[-1],
        wanted.shape[-2],
    ):
        return f"{told}{asked}. The last two axes are swapped: a transpose is missing, or one too many."
    if given.size == wanted.size:
        what = "axes are in another order, or other ones were merged"
        if given.ndim < wanted.ndim:
            what = "an axis is missing, or two were merged"
        elif given.ndim > wanted.ndim:
            what = (
                "there is an axis too many, or two are still to be merged"
            )
        return f"{told}{asked}. The number of entries is right: {what}."
    if given.ndim == wanted.ndim:
        wrong = [
            name
            for n, name in _named_axes(wanted.ndim, axes)
            if given.shape[n] != wanted.shape[n]
        ]
        return f"{told}{asked}. Look at {' and '.join(wrong)}."
    return f"{told}{asked}."


def _lengths(given: np.ndarray, wanted: np.ndarray) -> str:
    """What to say to a wrong shape where nothing is to be said of how many rows there are."""
    if given.shape[1:] == wanted.shape[1:] and given.ndim == wanted.ndim:
        if len(given) > len(wanted):
            return "You have more rows than there are."
        return "There are more rows than you have."
    row = "numbers"
    if wanted.ndim > 1:
        row = f"rows of the shape {wanted.shape[1:]}"
    return f"It has the shape {given.shape}; asked for is a list of {row}."


def _reordered(given: np.ndarray, wanted: np.ndarray, axis: int) -> bool:
    """Whether the slices along an axis are the same ones in another order."""

    def sorted_slices(x: np.ndarray) -> np.ndarray:
        rows = np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
        rows = rows.round(9) + 0.0
        return rows[np.lexsort(rows.T[::-1])]

    return np.allclose(
        sorted_slices(given), sorted_slices(wanted), rtol=0, atol=1e-8
    )


def _factor(given: np.ndarray, wanted: np.ndarray) -> float | None:
    """The number that all entries are too large by, if there is one."""
    there = np.abs(wanted) > 1e-9
    if not _differ(wanted[there]) or (np.abs(given[~there]) > 1e-9).any():
        return None
    ratios = (given[there] / wanted[there]).astype(float)
    first = float(ratios[0])
    if first <= 0 or math.isclose(first, 1, rel_tol=1e-9):
        return None
    return first if np.allclose(ratios, first, rtol=1e-6) else None


# ---- words ---------------------------------------------------------------------------


def _words(answer: Any) -> tuple[str, ...] | None:
    if isinstance(answer, str):
        answer = [answer]
    if not isinstance(answer, Iterable):
        return None
    found = list(answer)
    if not all(isinstance(word, str) for word in found):
        return None
    return tuple(word.strip().lower() for word in found)


def _fault_of_words(exercise: Exercise, given: Any) -> str | None:
    assert exercise.right is not None
    wanted = _words(exercise.right())
    assert wanted is not None
    known = ", ".join(f'"{choice}"' for choice in exercise.choices)
    if isinstance(given, Odd):
        return f"The answer is made of these words: {known}."
    if unknown := [word for word in given if word not in exercise.choices]:
        return (
            f'"{unknown[0]}" is none of the words to choose from: {known}.'
        )
    if len(given) != len(wanted):
        one = len(given) == 1
        told = "That is 1 word" if one else f"Those are {len(given)} words"
        return f"{told}; asked for {_are(len(wanted))} {len(wanted)}."
    if given == wanted:
        return None
    for mistake in exercise.mistakes:
        if given == _words(mistake.answer()):
            return mistake.message
    wrong = [n for n, word in enumerate(given) if word != wanted[n]]
    if len(given) == 1:
        return "It is another one."
    if len(wrong) == len(given) and len(exercise.choices) == 2:
        first = exercise.choices[0]
        return (
            f'All are turned round: read again what "{first}" stands for.'
        )
    good = len(given) - len(wrong)
    # From 1, as the questions of a page are.
    return (
        f"{good} of {len(given)} {_are(good)} right. "
        f"Look at number {wrong[0] + 1} again, counted from 1."
    )


# ---- functions -----------------------------------------------------------------------


def _copies(case: Case) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return copy.deepcopy(case.arguments), copy.deepcopy(case.named)


def _outcomes(answer: Any, cases: Iterable[Case]) -> list[Outcome] | Odd:
    if not callable(answer):
        return Odd(_kind(answer))
    found: list[Outcome] = []
    for case in cases:
        found.append(_outcome(answer, case))
        if found[-1].fault:
            break
    return found


def _outcome(function: Callable[..., Any], case: Case) -> Outcome:
    arguments, named = _copies(case)
    try:
        result = function(*arguments, **named)
    except Exception as error:
        told = str(error).splitlines()[0] if str(error) else ""
        return Outcome(None, f"stopped: {type(error).__name__}: {told}")
    if _changed((arguments, named), (case.arguments, case.named)):
        return Outcome(None, "changed its own input; work on a copy.")
    array = _array(result)
    if array is None:
        return Outcome(None, f"returned something that is {_kind(result)}.")
    return Outcome(array)


def _fault_of_function(exercise: Exercise, outcomes: Any) -> str | None:
    assert exercise.right is not None
    assert exercise.cases is not None
    if isinstance(outcomes, Odd):
        return f"The answer is a function; yours is {outcomes.words}. Hand over its name, without brackets."
    cases = list(exercise.cases())
    given: list[np.ndarray] = []
    for case, outcome in zip(cases, outcomes, strict=False):
        if outcome.numbers is None:
            return f"With {case.name} it {outcome.fault}"
        given.append(outcome.numbers)
    wanted = [_called(exercise.right, case) for case in cases]
    good = [
        _same(one, other, exercise.tolerance)
        for one, other in zip(given, wanted, strict=True)
    ]
    if all(good):
        masks = [
            x
            for x, y in zip(given, wanted, strict=True)
            if y.dtype == bool and y.ndim > 1
        ]
        if any(mask.dtype != bool for mask in masks):
            return NO_MASK
        return None
    for mistake in exercise.mistakes:
        wrong = [_called(mistake.answer, case) for case in cases]
        if all(
            _same(one, other, exercise.tolerance)
            for one, other in zip(given, wrong, strict=True)
        ):
            return mistake.message
    first = good.index(False)
    # A second mistake may hide the first one in later cases: what is seen up to where it goes wrong is told by its name.
    for mistake in exercise.mistakes:
        seen = zip(given[: first + 1], cases, strict=False)
        if all(
            _same(one, _called(mistake.answer, case), exercise.tolerance)
            for one, case in seen
        ):
            return mistake.message
    right = [
        case.name for case, fine in zip(cases, good, strict=True) if fine
    ]
    told = f"Wrong in this case: {cases[first].name}."
    if right:
        told += f" Right in: {'; '.join(right)}."
    how = describe(
        given[first], wanted[first], exercise.axes, exercise.tolerance
    )
    return f"{told} {how}"


_FAULTS = {
    "numbers": _fault_of_value,
    "words": _fault_of_words,
    "function": _fault_of_function,
}


def _called(function: Callable[..., Any], case: Case) -> np.ndarray:
    """What a function of ours returns. A mistake may be one that cannot answer: an empty array stands for that."""
    arguments, named = _copies(case)
    try:
        return np.asarray(function(*arguments, **named))
    except (ValueError, IndexError):
        return np.empty(0)


def _changed(one: Any, other: Any) -> bool:
    if isinstance(one, (tuple, list)):
        return any(map(_changed, one, other))
    if isinstance(one, dict):
        return any(_changed(one[name], other[name]) for name in one)
    if is_dataclass(one) and not isinstance(one, type):
        return _changed(vars(one), vars(other))
    if isinstance(one, np.ndarray):
        return not np.array_equal(
            one, other, equal_nan=one.dtype.kind == "f"
        )
    if isinstance(one, numbers.Number):
        return one != other
    return False
