"""The command of the project: ``python -m attention_in_detail.project my_attention.py``."""

from __future__ import annotations

import argparse
import sys
import textwrap
import traceback
from collections.abc import Sequence
from pathlib import Path

from attention_in_detail.project import (
    NUMBERS,
    STAGES,
    Fault,
    Report,
    Stage,
    code_of,
    examine,
    translated,
)
from attention_in_detail.tasks.number_words import (
    LIMIT,
    english_words,
    german_words,
)

__all__ = ["main"]

WIDTH = 78
INTERRUPTED = 130  # as a shell counts a program that was stopped by Ctrl-C


def _filled(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


def _asked(stage: Stage, number: int) -> str:
    """What is to be written, and where the book explains it."""
    return "\n\n".join(
        [
            f"Stage {number}: {stage.call}",
            _filled(stage.task, "    "),
        ]
    )


def _sentence(number: int, written: str) -> str:
    """One translation, with its verdict."""
    wanted = "".join(german_words(number))
    verdict = "right" if written == wanted else f"wrong: it is {wanted}"
    english = " ".join(english_words(number))
    return f"  {number:,}, {english}:\n      {written}, {verdict}"


def _outcome(report: Report) -> str:
    parts = []
    if report.printed:
        shown = textwrap.indent(report.printed.rstrip(), "    ")
        parts.append(f"Your code printed:\n\n{shown}")
    if report.complete:
        pairs = zip(NUMBERS, report.translations, strict=True)
        parts += [
            _filled(
                "All done. The trained model of the book now runs on your attention, and translates:"
            ),
            "\n".join(_sentence(*pair) for pair in pairs),
            _filled(
                "Ask it for another number with --translate 4321. Then break one of your functions and ask again."
            ),
        ]
    elif report.stage is not None:
        stage = report.stage
        parts += [
            _asked(stage, report.done + 1),
            _filled(f"Not yet. {report.message}"),
            _filled(
                f'Read: chapter "{stage.title}", section "{stage.section}" (notebooks/{stage.chapter}).'
            ),
        ]
    else:
        parts.append(_filled(f"Not yet. {report.message}"))
    return "\n\n".join(parts)


class _Progress:
    """One line a stage, written when it begins and ended when the next one does."""

    def __init__(self) -> None:
        self.stage = ""

    def begun(self, number: int, name: str) -> None:
        if self.stage:
            print("done")
        self.stage = name
        print(f"{number:4}  {name:<22}", end="", flush=True)

    def ended(self, word: str) -> None:
        if self.stage:
            print(word)


def _judged(path: Path) -> int:
    progress = _Progress()
    print(f"{path.name}, {len(STAGES)} functions and a model\n")
    try:
        report = examine(path, begun=progress.begun)
    except KeyboardInterrupt as stop:
        progress.ended("stopped")
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(stop.__traceback__)
            if frame.filename == str(path)
        ]
        where = f", in line {lines[-1]}" if lines else ""
        what = progress.stage or "the beginning of the file"
        print(f"\nStopped while {what} ran{where}.")
        return INTERRUPTED
    progress.ended("done" if report.complete else "not yet")
    if progress.stage:
        print()
    print(_outcome(report))
    return 0 if report.complete else 1


def _asked_for(path: Path, numbers: Sequence[int]) -> int:
    """Translate whatever the state of the file is."""
    try:
        code = code_of(path)
        written = translated(code, numbers)
    except (Fault, TypeError) as error:
        print(_filled(f"Not yet. {error}"))
        return 1
    except Exception as error:
        told = f"{type(error).__name__}: {error}".splitlines()[0]
        print(_filled(f"The model stopped. {told}"))
        return 1
    right = True
    for number, one in zip(numbers, written, strict=True):
        print(_sentence(number, one))
        right = right and one == "".join(german_words(number))
    return 0 if right else 1


def _number(text: str) -> int:
    number = int(text.replace(",", ""))
    if not 0 <= number < LIMIT:
        raise ValueError
    return number


_number.__name__ = f"number from 0 to {LIMIT - 1:,}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge a file, or let the model translate with it; 0 where all is right."""
    parser = argparse.ArgumentParser(
        prog="python -m attention_in_detail.project",
        description="Says how far your file is, and the first thing in it that is not right yet. It runs the code of the file.",
    )
    parser.add_argument(
        "file", type=Path, help="your file, as my_attention.py"
    )
    parser.add_argument(
        "--translate",
        metavar="NUMBER",
        type=_number,
        nargs="+",
        help="let the trained model translate numbers with the functions of the file, right or wrong",
    )
    given = parser.parse_args(arguments)
    # A console may not know the letters of a translation.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    if given.translate:
        return _asked_for(given.file, given.translate)
    return _judged(given.file)


if __name__ == "__main__":
    sys.exit(main())
