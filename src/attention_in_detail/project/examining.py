"""Look at a student's file: the first thing that is not right yet, in one message."""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import inspect
import io
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from attention_in_detail._checks import checked
from attention_in_detail.exercises.judging import Case, judge
from attention_in_detail.project.stages import STAGES, Stage
from attention_in_detail.project.translating import (
    OURS,
    PLUGGED,
    translated,
)
from attention_in_detail.tasks.number_words import english_words

__all__ = ["NUMBERS", "Fault", "Report", "code_of", "examine"]

#: What the finished code translates, long and short ones in one batch.
NUMBERS = (677, 7, 16, 4_321, 23_451, 918_273)

# What a file may import besides what comes with Python.
ALLOWED = {"numpy"}


class Fault(Exception):
    """The code of a file cannot be had; the text says why."""


@dataclass(frozen=True)
class Report:
    """How far a file is.

    Attributes:
        done: how many stages are right, in their order; ``len(STAGES)`` are the functions, one more is the model.
        stage: the first one that is not right; None where it is the file itself, or the model, or nothing.
        message: what is not right yet, in words; empty where all is.
        printed: what the code printed meanwhile, the last lines of it.
        translations: where all is right, what the model wrote for each of ``NUMBERS``.
    """

    done: int
    stage: Stage | None
    message: str
    printed: str = ""
    translations: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every function is right, and the model translates with them."""
        return self.done == len(STAGES) + 1

    @property
    def title(self) -> str:
        """What the message speaks of."""
        if self.stage is not None:
            return f"stage {self.done + 1}, {self.stage.name}"
        return "the file" if self.done == 0 else "the model"


def check_code_of(path: Any) -> None:
    if not isinstance(path, (str, Path)):
        raise TypeError(
            f"path must be the path of a file, not {type(path).__name__}"
        )


def check_examine(path: Any, *, begun: Any = None) -> None:
    check_code_of(path)
    if begun is not None and not callable(begun):
        raise TypeError(
            f"begun must be a function, not {type(begun).__name__}"
        )


@checked(check_code_of)
def code_of(path: str | Path) -> Any:
    """Run a file and return what it defines.

    Args:
        path: of a Python file.

    Returns:
        A module with its functions. It is no module that Python knows by name.

    Raises:
        TypeError: if ``path`` is no path.
        Fault: if there is no such file, it is no Python, imports what it should not, or stops with an error.
    """
    path = Path(path)
    if not path.is_file():
        raise Fault(
            f"There is no file {path.name} here. Make an empty one, and start again."
        )
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise Fault(
            f"{path.name} is no text in UTF-8. Save it as such from your editor."
        ) from None
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f"In line {line} of" if line else "In"
        told = getattr(error, "msg", None) or str(error)
        raise Fault(
            f"{where} {path.name} Python stops reading: {told}."
        ) from None
    if foreign := _foreign(tree):
        raise Fault(
            f"{path.name} imports {foreign}. This project needs NumPy and what comes with Python, and nothing else."
        )
    module = types.ModuleType("students_code")
    module.__file__ = str(path)
    # Some of Python's own modules look up where a class comes from.
    sys.modules[module.__name__] = module
    try:
        exec(compile(tree, str(path), "exec"), vars(module))
    except (Exception, SystemExit) as error:
        raise Fault(
            f"{path.name} stops while it is read: {_told(error, path)}"
        ) from None
    return module


def _foreign(tree: ast.AST) -> str | None:
    """What is imported and is neither NumPy nor of Python itself."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
        for name in names:
            root = name.partition(".")[0]
            if root not in ALLOWED | sys.stdlib_module_names:
                return name
    return None


def _told(error: BaseException, path: Path) -> str:
    """An error in one line, with the line of the file that it came from."""
    if isinstance(error, SystemExit):
        told = "it ends the program. Leave out exit() and quit()"
    else:
        text = str(error).splitlines()
        told = f"{type(error).__name__}: {text[0].strip()}" if text else ""
        told = told or type(error).__name__
    line = _line_of(error, path)
    return f"{told} (line {line})." if line else f"{told}."


def _line_of(error: BaseException, path: Path) -> int | None:
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(path)
    ]
    return lines[-1] if lines else None


# ---- one stage -----------------------------------------------------------------------


class _Watched:
    """A function of the file that remembers how its calls ended."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.error: Exception | None = None
        self.results: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            result = self.function(*args, **kwargs)
        except SystemExit:
            self.error = RuntimeError(
                "it ends the program; leave out exit() and quit()"
            )
            raise self.error from None
        except Exception as error:
            self.error = error
            raise
        self.results.append(result)
        if _is_boolean(result):
            return result.astype(float)  # a mask can then be compared
        return result


@contextlib.contextmanager
def _quiet() -> Any:
    """Let the code print into a text, and NumPy warn of nothing."""
    out = io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
    ):
        warnings.simplefilter("ignore")
        yield out


def _fault_of(stage: Stage, code: Any, path: Path) -> str | None:
    function = getattr(code, stage.name, None)
    if function is None:
        return f"There is no function {stage.name} yet. Write it."
    if not callable(function):
        return f"{stage.name} is no function. Does something else have this name?"
    assert stage.exercise.cases is not None
    cases = list(stage.exercise.cases())
    if not all(_fits(function, case) for case in cases):
        own = f"{stage.name}{inspect.signature(function)}"
        return f"It is called as {stage.call}; yours is {own}. Give it these arguments, in this order and by these names."
    watched = _Watched(function)
    verdict = judge(stage.exercise, watched)
    if watched.error is not None:
        known = _stumbled(stage, cases, watched)
        if known is not None:
            return known
        case = cases[len(watched.results)]
        told = _told(watched.error, path)
        return f"With {case.name} it stopped: {told}"
    for result in watched.results:
        if isinstance(result, (tuple, list)):
            kind = "tuple" if isinstance(result, tuple) else "list"
            return f"It returns a {kind}. Return one array: the functions that come next compute with it."
    if not verdict.right:
        return verdict.message
    if stage.boolean and not all(map(_is_boolean, watched.results)):
        return "The entries are right as numbers. A mask holds True and False: make it boolean."
    return None


def _is_boolean(result: Any) -> bool:
    return getattr(getattr(result, "dtype", None), "kind", "") == "b"


def _fits(function: Callable[..., Any], case: Case) -> bool:
    """Whether a function takes the arguments of a case."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # one of NumPy's own
        return True
    try:
        signature.bind(*case.arguments, **case.named)
    except TypeError:
        return False
    return True


def _stumbled(
    stage: Stage, cases: Sequence[Case], watched: _Watched
) -> str | None:
    """What to say where a function stops that went as a known mistake goes: that stops too, or was wrong before."""
    given = watched.results
    right = [
        _ended(stage.exercise.right, case) for case in cases[: len(given)]
    ]
    slipped = not _alike(given, right)
    for mistake in stage.exercise.mistakes:
        so_far = [
            _ended(mistake.answer, case) for case in cases[: len(given)]
        ]
        if not _alike(given, so_far):
            continue
        stop = _ended(mistake.answer, cases[len(given)])
        if slipped or _same_error(stop, watched.error):
            return mistake.message
    return None


def _same_error(one: Any, other: Any) -> bool:
    return (
        isinstance(one, Exception)
        and type(one) is type(other)
        and str(one) == str(other)
    )


def _ended(function: Any, case: Case) -> Any:
    """What a function returns for a case, or raises."""
    arguments, named = copy.deepcopy((case.arguments, case.named))
    try:
        return function(*arguments, **named)
    except Exception as error:
        return error


def _alike(results: Sequence[Any], others: Sequence[Any]) -> bool:
    try:
        return all(
            np.shape(one) == np.shape(other)
            and np.allclose(one, other, atol=1e-6, equal_nan=True)
            for one, other in zip(results, others, strict=True)
        )
    except (TypeError, ValueError):  # something else than numbers
        return False


# ---- the model -----------------------------------------------------------------------


def _with_ours(code: Any, own: str) -> Any:
    """Our four functions, and one of the file in place of ours."""
    return SimpleNamespace(**{**vars(OURS), own: getattr(code, own)})


@functools.cache
def _right_translations() -> tuple[str, ...]:
    return tuple(translated(OURS, NUMBERS))


def _wrong_translation(
    code: Any, path: Path
) -> tuple[str, tuple[str, ...]]:
    """What is wrong with what the model writes, or nothing; and what it writes."""
    try:
        written = tuple(translated(code, NUMBERS))
    except Exception as error:
        return f"The model stopped: {_told(error, path)}", ()
    wanted = _right_translations()
    for number, one, right in zip(NUMBERS, written, wanted, strict=True):
        if one != right:
            alone = [
                name
                for name in PLUGGED
                if tuple(translated(_with_ours(code, name), NUMBERS))
                != wanted
            ]
            where = (
                f" With the other functions of the book it is {' and '.join(alone)} that goes wrong."
                if alone
                else ""
            )
            told = " ".join(english_words(number))
            return (
                f'For {number:,}, {told}, the model writes "{one}". That is wrong, and with the functions of the book '
                f"it is right.{where} Its arrays are larger than those of the stages, and each function is called many times.",
                written,
            )
    return "", written


@checked(check_examine)
def examine(
    path: str | Path, *, begun: Callable[[int, str], None] | None = None
) -> Report:
    """Judge a file of the project: each function in its order, up to the first that is not right, then the model.

    The code runs in this process, with the rights of whoever calls.

    Args:
        path: of the file.
        begun: is called before each stage with its number, from 1, and its name; the model is the last, "the model".

    Returns:
        The :class:`~attention_in_detail.project.examining.Report`. Nothing that the code raises gets out, but for a
        KeyboardInterrupt.

    Raises:
        TypeError: if ``path`` is no path, or ``begun`` no function.
    """
    path = Path(path)
    with _quiet() as printed:
        try:
            code = code_of.unchecked(path)
        except Fault as fault:
            return Report(0, None, str(fault), _last(printed))
    for number, stage in enumerate(STAGES, start=1):
        if begun is not None:
            begun(number, stage.name)
        with _quiet() as out:
            message = _fault_of(stage, code, path)
        if message is not None:
            shown = _last(printed) + _last(out)
            return Report(number - 1, stage, message, shown)
    if begun is not None:
        begun(len(STAGES) + 1, "the model")
    with _quiet() as out:
        message, written = _wrong_translation(code, path)
    done = len(STAGES) + (not message)
    return Report(done, None, message, _last(out), written)


def _last(printed: io.StringIO, lines: int = 20) -> str:
    """The last lines that were printed."""
    found = printed.getvalue().splitlines(keepends=True)
    return "".join(found[-lines:])
