"""Run the cells of one returned notebook and hand over what it answers: the part of marking in which code of others runs.

``tools/mark.py`` starts this, one process for each notebook, in a sandbox. What is to be done comes as JSON on the standard
input; what became of it goes to the standard output, a line of JSON each. The code that runs here is a stranger's: it can reach
whatever this process can, and write what it likes into its output. So nothing here knows a right answer, nothing that
goes out is more than numbers and words, and who reads it believes none of it.

Cells are run by ``exec`` and not by a kernel: no sockets, no second process, a start in half a second in place of two, and
pictures that nobody looks at are never drawn. ``%matplotlib`` and the like do nothing here, and commands of the shell are
refused.
"""

from __future__ import annotations

import base64
import builtins
import contextlib
import importlib.util
import json
import linecache
import os
import pickle
import resource
import shutil
import signal
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

# An array with more bytes than these is no answer to any exercise.
LARGEST = 1 << 20
MOST_WORDS, LONGEST = 200, 300
# Magics without which a notebook means the same.
IDLE = {
    *("autoreload", "colors", "conda", "config", "load_ext", "mamba"),
    *("matplotlib", "pip", "pylab", "reload_ext", "uv", "xmode"),
}
REFUSED = "is not done where notebooks are marked; answer in Python alone"


class TooLong(BaseException):
    """Raised in a cell that has had its time. No Exception: cells that catch all errors should not catch it."""


class Channel:
    """The way out. Standard input, output and errors lead nowhere from then on."""

    def __init__(self) -> None:
        self.end = os.dup(1)
        os.set_inheritable(self.end, False)
        self.lock = threading.Lock()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)

    def say(self, **record: Any) -> None:
        left = memoryview((json.dumps(record) + "\n").encode())
        try:
            with self.lock:
                while left:
                    left = left[os.write(self.end, left) :]
        except OSError:  # a cell has closed it
            os._exit(3)


# ---- what is handed over ------------------------------------------------------------


def short(text: Any) -> str:
    return str(text)[:LONGEST]


def plain_numbers(array: Any) -> dict[str, Any] | None:
    """An array in a form that cannot run; None if it is too large."""
    kind = {"b": "?", "i": "<i8", "u": "<u8", "f": "<f8"}[array.dtype.kind]
    if array.size * 8 > LARGEST:
        return None
    return {
        "dtype": kind,
        "shape": list(array.shape),
        "data": base64.b64encode(array.astype(kind).tobytes()).decode(),
    }


def plain(given: Any, judging: Any) -> dict[str, Any]:
    """What judging made of an answer, as JSON can say it."""
    if given is ...:
        return {"is": "nothing"}
    if isinstance(given, judging.Odd):
        return {"is": "odd", "words": short(given.words)}
    if isinstance(given, tuple):
        if len(given) > MOST_WORDS:
            return {"is": "odd", "words": "far too many words"}
        return {"is": "words", "words": [short(word) for word in given]}
    if isinstance(given, list):
        outcomes = []
        for one in given:
            numbers = one.numbers
            fault = short(one.fault)
            if numbers is not None:
                numbers = plain_numbers(numbers)
                fault = "" if numbers else "returned far too many numbers."
            outcomes.append({"numbers": numbers, "fault": fault})
            if fault:
                break
        return {"is": "outcomes", "outcomes": outcomes}
    numbers = plain_numbers(given)
    if numbers is None:
        return {"is": "odd", "words": "an array with far too many numbers"}
    return {"is": "numbers", **numbers}


class Recorded:
    """What ``check`` returns here. The verdict is made elsewhere."""

    label: str = ""
    right: bool | None = None
    message: str = "Handed in."

    def __repr__(self) -> str:
        return self.message


class Recorder:
    """The ``check`` that cells get: it hands the answer over, and says nothing of it."""

    def __init__(
        self, channel: Channel, judging: Any, exercises: dict[str, Any]
    ) -> None:
        self.channel, self.judging = channel, judging
        self.exercises = exercises
        self.cell = 0
        self.running = False

    def check(self, label: str, answer: Any) -> Recorded:
        if label not in self.exercises:
            raise ValueError(f"no exercise here has the label {label!r}")
        form = self.exercises[label]["form"]
        packed = self.exercises[label]["cases"]
        # Written by who marks, from the book's own exercises.
        cases = pickle.loads(base64.b64decode(packed)) if packed else ()
        try:
            given = self.judging.observed(form, answer, cases)
            told = plain(given, self.judging)
        except Exception as error:
            kind = type(error).__name__
            told = {
                "is": "odd",
                "words": f"something that cannot be looked at ({kind})",
            }
        self.channel.say(label=label, cell=self.cell, given=told)
        return Recorded()


# ---- where the cells run ------------------------------------------------------------


def limited(limits: dict[str, Any]) -> None:
    """Bounds that no code without the rights of the system can widen again."""
    seconds = int(limits["seconds"]) + 5
    bounds = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_FSIZE: limits["file"],
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_AS: limits["memory"],
    }
    if sys.platform == "linux":
        bounds[resource.RLIMIT_NPROC] = limits["processes"]
    for what, bound in bounds.items():
        highest = resource.getrlimit(what)[1]
        if highest != resource.RLIM_INFINITY:
            bound = min(bound, highest)
        try:
            resource.setrlimit(what, (bound, bound))
        except (OSError, ValueError):
            # macOS has no bound on memory; on Linux none may be missing.
            if sys.platform == "linux":
                raise
    with contextlib.suppress(OSError):
        # Where memory runs out all the same, this goes first.
        Path("/proc/self/oom_score_adj").write_text("1000")


def package_without_answers(judging: str, recorder_of: Any) -> Recorder:
    """Put in place of the exercises a module that has ``check`` and nothing that knows an answer."""
    name = "attention_in_detail.exercises"
    specification = importlib.util.spec_from_file_location(
        f"{name}.judging", judging
    )
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[f"{name}.judging"] = module
    specification.loader.exec_module(module)
    recorder: Recorder = recorder_of(module)
    stand_in = types.ModuleType(name)
    stand_in.check = recorder.check  # type: ignore[attr-defined]
    stand_in.Verdict = Recorded  # type: ignore[attr-defined]
    sys.modules[name] = stand_in
    import attention_in_detail

    attention_in_detail.exercises = stand_in  # type: ignore[attr-defined]
    return recorder


class Shell:
    """What ``get_ipython()`` gives to cells with lines that are no Python."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace = namespace

    def run_line_magic(self, name: str, line: str, *_: Any) -> None:
        if name == "time":
            exec(line, self.namespace)
        elif name not in IDLE:
            raise RuntimeError(f"%{name} {REFUSED}")

    def run_cell_magic(self, name: str, line: str, body: str) -> None:
        if name not in {"time", "capture"}:
            raise RuntimeError(f"%%{name} {REFUSED}")
        exec(body, self.namespace)

    def system(self, command: str) -> None:
        if not command.lstrip().startswith(("pip ", "python -m pip ")):
            raise RuntimeError(f"!{command} {REFUSED}")

    def getoutput(self, command: str) -> None:
        raise RuntimeError(f"!{command} {REFUSED}")


def compiled(source: str, name: str) -> types.CodeType:
    """The code of a cell; where it is more than Python, as IPython reads it."""
    try:
        return compile(source, name, "exec", dont_inherit=True)
    except SyntaxError:
        if not any(
            line.lstrip().startswith(("%", "!", "?"))
            or line.rstrip().endswith("?")
            or "= %" in line
            or "= !" in line
            for line in source.splitlines()
        ):
            raise
        try:
            from IPython.core.inputtransformer2 import TransformerManager
        except ImportError:
            source = without_magics(source)
        else:
            source = TransformerManager().transform_cell(source)
        return compile(source, name, "exec", dont_inherit=True)


def without_magics(source: str) -> str:
    """Lines that only IPython understands left out; for where there is no IPython."""
    if source.lstrip().startswith("%%"):
        return ""
    lines = []
    for line in source.splitlines():
        rest = line.lstrip()
        if rest.startswith(("%", "!", "?")):
            line = line[: len(line) - len(rest)] + "pass"
        lines.append(line)
    return "\n".join(lines)


def told(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, TooLong):
        return "it took too long"
    try:
        text = (str(error).splitlines() or [""])[0]
        return short(f"{type(error).__name__}: {text}".removesuffix(": "))
    except (
        BaseException
    ):  # its text is made by the cell, which may do anything
        return "an error that cannot be told"


def run(job: dict[str, Any], channel: Channel, recorder: Recorder) -> None:
    """Run all cells. One that fails does not stop those below it."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    space = vars(module)
    shell = Shell(space)
    space["get_ipython"] = lambda: shell
    space["display"] = lambda *things, **options: None
    builtins.display = space["display"]  # type: ignore[attr-defined]

    end = job["began"] + job["limits"]["seconds"]

    def late(*_: Any) -> None:
        again()
        if recorder.running:
            raise TooLong

    def again() -> None:
        # A cell that goes on for ever is stopped while time is left for the others: each time a third of what is left.
        left = max(end - time.time(), 0.01)
        signal.setitimer(signal.ITIMER_REAL, left * 2 / 3)

    signal.signal(signal.SIGALRM, late)
    again()
    for number, source in enumerate(job["cells"], 1):
        recorder.cell = number
        channel.say(cell=number)
        name = f"<cell {number}>"
        linecache.cache[name] = (
            len(source),
            None,
            source.splitlines(keepends=True),
            name,
        )
        try:
            recorder.running = True
            exec(compiled(source, name), space)
            recorder.running = False
        except BaseException as error:  # SystemExit among them
            recorder.running = False
            memory = isinstance(error, MemoryError)
            late_ = isinstance(error, TooLong)
            channel.say(
                cell=number, error=told(error), memory=memory, late=late_
            )
    signal.setitimer(signal.ITIMER_REAL, 0)


def main() -> None:
    job = json.load(sys.stdin.buffer)
    channel = Channel()
    limited(job["limits"])
    if job["user"] is not None:
        # Root would be above the bound on processes.
        os.setgroups([])
        os.setgid(job["user"])
        os.setuid(job["user"])
    if job["fonts"]:
        # Fonts take seconds to be looked through; it was done before.
        shutil.copytree(job["fonts"], os.environ["MPLCONFIGDIR"])
    sys.path.insert(0, job["package"])
    recorder = package_without_answers(
        job["judging"],
        lambda judging: Recorder(channel, judging, job["exercises"]),
    )
    run(job, channel, recorder)
    channel.say(done=True)
    # Whatever still runs beside the cells ends here.
    os._exit(0)


if __name__ == "__main__":
    main()
