"""Mark a folder of returned notebooks: what each answers to the exercises of its chapter, as a table.

    python tools/mark.py FOLDER [--out marks.csv] [--jobs N] [--seconds S] [--memory MIB] [--trust]

The folder may be as a learning platform exports it: a file for each student, or a folder for each, nested at will, of several
chapters. Every file gets a row, also one that is no notebook. The columns:

* ``student``: the folder directly in FOLDER that holds the file, or the name of the file where it lies there itself,
* ``file``, ``chapter``: where it lies, and which chapter of the book it answers,
* ``happened``: "ok", "error in a cell", "too long", "too much memory", "too many processes", "too much handed over",
  "ended itself", "interrupted"; or why it was not run: "malformed", "too large", "empty", "no notebook", "no exercises",
  "checkpoint", "link", "unreadable", "empty folder", "no ordinary file"; "not marked" would be a fault of this program,
* ``details``: the same in words, with the number of the code cell, counted from 1, and the error,
* ``points``, ``of``: how many answers are right, of how many that can be judged,
* for each exercise two columns, ``ex-...`` and ``ex-... words``: "right", "not yet", "no answer", "not reached", and what
  the student would have been told; for a proof or an explanation "read it", with what the student wrote, or "no answer".

Cells run in their order in a fresh Python; one that fails does not stop those below it. The last answer to an exercise counts.

Each notebook runs in a process of its own, inside bubblewrap: no network, a system that can only be read, of which it sees
only Python and the book's package without its exercises, an empty folder in memory for its files, and nothing of this
machine's homes or of the other notebooks. Time, memory, processes, and the size of files are limited. What comes out is
numbers and words; they are judged outside, where no code of a student runs. So a notebook cannot give itself a verdict.
It can hand over an answer that somebody else found: exercises and solutions are open, and nothing here can tell who had
the idea.

Without bubblewrap nothing is run. ``--trust`` goes on without it: the limits remain, and all else is open to the notebooks.
"""

from __future__ import annotations

import argparse
import base64
import codecs
import contextlib
import csv
import dataclasses
import errno
import functools
import importlib
import inspect
import io
import itertools
import json
import marshal
import os
import pickle
import platform
import re
import select
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import attention_in_detail
from attention_in_detail.exercises import CHAPTERS, Exercise, exercises_of
from attention_in_detail.exercises import judging as judging_module
from attention_in_detail.exercises.judging import (
    Case,
    Odd,
    Outcome,
    observed,
    verdict_on,
)

PACKAGE = Path(attention_in_detail.__file__).resolve().parent
RUNNER = Path(__file__).resolve().with_name("run_answers.py")
MIB = 1 << 20
# Where things lie in the sandbox.
INSIDE = Path("/marking")
# Parts of the system without which Python does not start, or does not find a library or itself by name.
SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store"),
    *("/etc/alternatives", "/etc/fonts", "/etc/hosts", "/etc/ld.so.cache"),
    *("/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime"),
    "/etc/nsswitch.conf",
)
MISSING = (
    "bubblewrap is missing, in which returned notebooks run without harm. Install the package 'bubblewrap' "
    "(Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap). --trust goes on without it: whatever "
    "the notebooks do is then done to this machine, in your name"
)
OLD = "bubblewrap is too old: 0.7 or newer is needed, which can limit the size of a folder in memory"
REFUSES = (
    "bubblewrap is there, but makes no sandbox on this machine ({reason}). Often users may not make namespaces of their own: "
    "the setting kernel.unprivileged_userns_clone, or on Ubuntu kernel.apparmor_restrict_unprivileged_userns"
)
LABEL = re.compile(r"""\bcheck\s*\(\s*(?:label\s*=\s*)?["'](ex-[\w-]+)""")
# With the wide signs too, which spreadsheets may read like the others.
FORMULA = re.compile(
    r"""^(?=\s*[{0}])|(?<=;)(?=[\s"]*[{0}])""".format(
        r"=+\-@\uff1d\uff0b\uff0d\uff20"
    )
)
# Users that no system has.
FIRST_USER = 1_700_000_000
SHORTEST_POLL = 0.05
MOST_LINES, MOST_WORDS = 10_000, 200


class CannotMark(RuntimeError):
    """Marking cannot begin."""


@dataclass(frozen=True)
class Limits:
    """What a notebook may use.

    Attributes:
        seconds: from the start of its process to its end.
        memory: of all its processes, in bytes; and of the addresses of one.
        processes: how many at a time.
        file: bytes in one file that it writes.
        disk: bytes in all of them.
        notebook: bytes of the notebook itself.
        handed: bytes that it hands over, in at most ``MOST_LINES`` lines.
    """

    seconds: float = 300.0
    memory: int = 2048 * MIB
    processes: int = 64
    file: int = 64 * MIB
    disk: int = 256 * MIB
    notebook: int = 16 * MIB
    handed: int = 8 * MIB


# ---- texts of others ----------------------------------------------------------------


def clean(text: Any, length: int = 400) -> str:
    """A text of unknown origin in one line that can be written and shown: no control characters, no halves of signs."""
    text = str(text)[: 4 * length]
    text = text.encode("utf8", "backslashreplace").decode("utf8")
    text = "".join(
        sign
        if sign.isprintable()
        else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )
    return text if len(text) <= length else text[: length - 1] + "…"


def name_of(path: str) -> str:
    """A name of a file as it can be shown: bytes that are no text, and ends of lines, become escapes."""
    told = os.fsencode(path).decode("utf8", "backslashreplace")
    return clean(told, 1000)


def in_a_table(value: Any) -> Any:
    """A text that no spreadsheet takes for a formula, nor what follows a ``;``, at which many of them part the cells."""
    return FORMULA.sub("'", value) if isinstance(value, str) else value


# ---- what is in the folder ----------------------------------------------------------


@dataclass
class Returned:
    """A file, or what else lies in the folder, and what became of it."""

    path: str  # below the folder
    happened: str = ""
    details: str = ""
    chapter: str = ""
    cells: list[str] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)
    states: dict[str, tuple[str, str]] = field(default_factory=dict)
    points: int | None = None
    of: int | None = None

    @property
    def student(self) -> str:
        first, _, rest = self.path.partition(os.sep)
        return name_of(first if rest else os.path.splitext(first)[0])


def everything_in(
    folder: Path, leave_out: Path | None = None
) -> Iterator[tuple[str, str]]:
    """(path below the folder, what it is) of all that lies in it, in the order of the names. Links are not followed."""

    def inside(below: str) -> list[os.DirEntry[str]]:
        with os.scandir(folder / below) as found:
            return sorted(found, key=lambda one: os.fsencode(one.name))

    place = folder.resolve()
    if leave_out is not None:
        leave_out = leave_out.parent.resolve() / leave_out.name
    todo = [("", True)]
    while todo:
        below, is_folder = todo.pop()
        if not is_folder:
            yield below, "file"
            continue
        try:
            found = inside(below)
        except OSError as error:
            yield below or ".", f"unreadable: {error.strerror}"
            continue
        if not found and below:
            yield below, "empty folder"
        for one in reversed(found):
            path = os.path.join(below, one.name)
            if leave_out is not None and place / path == leave_out:
                continue
            todo.append((path, one.is_dir(follow_symlinks=False)))


def content(path: Path, largest: int) -> bytes:
    """The bytes of an ordinary file; raises ValueError with a reason that the table knows."""
    if path.is_symlink():
        raise ValueError("link: it leads elsewhere, and is not followed")
    # A pipe would be waited for; it is looked at before anything is read from it.
    how = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        place = os.open(path, how)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise ValueError("no ordinary file: nothing to read") from None
        raise ValueError(f"unreadable: {error.strerror}") from None
    with open(place, "rb") as file:
        found = os.fstat(place)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("no ordinary file: nothing to read")
        if path.suffix.lower() != ".ipynb":
            kind = path.suffix.lower()
            packed = kind in {".zip", ".gz", ".7z", ".rar", ".tar", ".xz"}
            hint = "; it is not opened here, unpack it first"
            raise ValueError(
                f"no notebook: its name ends with {kind or 'nothing'}{hint if packed else ''}"
            )
        if not found.st_size:
            raise ValueError("empty: no byte in it")
        if found.st_size > largest:
            raise ValueError(
                f"too large: {found.st_size / MIB:.0f} MiB, of at most {largest / MIB:.0f}"
            )
        try:
            return file.read(largest + 1)
        except OSError as error:
            raise ValueError(f"unreadable: {error.strerror}") from None


def cells_of(raw: bytes) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The cells of a notebook, each with its kind and its text, and the notebook's metadata; or ValueError."""
    try:
        notebook = json.loads(raw.removeprefix(codecs.BOM_UTF8))
    except (ValueError, RecursionError, MemoryError) as error:
        reason = clean(error, 100)
        raise ValueError(f"malformed: it is no JSON ({reason})") from None
    if not isinstance(notebook, dict) or not isinstance(
        notebook.get("cells"), list
    ):
        raise ValueError("malformed: it has no list of cells")
    found = []
    for number, cell in enumerate(notebook["cells"], 1):
        source = cell.get("source") if isinstance(cell, dict) else None
        if isinstance(source, list) and all(
            isinstance(line, str) for line in source
        ):
            source = "".join(source)
        if not isinstance(source, str):
            raise ValueError(f"malformed: cell {number} holds no text")
        found.append({**cell, "source": source})
    about = notebook.get("metadata")
    return found, about if isinstance(about, dict) else {}


def mine(metadata: Any) -> dict[str, Any]:
    """What the command that made the notebook wrote into its metadata, if it is still there."""
    found = (
        metadata.get("attention_in_detail")
        if isinstance(metadata, dict)
        else None
    )
    return found if isinstance(found, dict) else {}


@functools.cache
def labels() -> dict[str, str]:
    """The chapter of each exercise."""
    return {
        one.label: chapter
        for chapter in CHAPTERS
        for one in exercises_of(chapter)
    }


def chapter_of(
    sources: list[str], metadata: dict[str, Any], name: str
) -> str:
    """The chapter whose exercises the cells ask for; else the one that the notebook or its name says it is; else none."""
    asked = Counter(
        labels()[label]
        for source in sources
        for label in LABEL.findall(source)
        if label in labels()
    )
    told = mine(metadata).get("chapter")
    if asked:
        most = max(asked.values())
        likely = [one for one in CHAPTERS if asked[one] == most]
        return told if told in likely else likely[0]
    if isinstance(told, str) and told in CHAPTERS:
        return told
    return next((one for one in CHAPTERS if one in name), "")


def looked_at(
    folder: Path, path: str, what: str, limits: Limits
) -> Returned:
    """What lies there, and whether there is something to run: then nothing has happened yet."""
    one = Returned(path)
    reason = what
    if what == "file":
        reason = ""
        try:
            if ".ipynb_checkpoints" in path.split(os.sep):
                raise ValueError(
                    "checkpoint: a copy that Jupyter keeps of another file"
                )
            cells, about = cells_of(content(folder / path, limits.notebook))
            one.cells = [
                cell["source"]
                for cell in cells
                if cell.get("cell_type") == "code"
            ]
            if not any(source.strip() for source in one.cells):
                raise ValueError("empty: no code in it")
            name = name_of(os.path.basename(path))
            one.chapter = chapter_of(one.cells, about, name)
            if not one.chapter:
                raise ValueError("no exercises: none of the book is in it")
            for cell in cells:
                label = mine(cell.get("metadata")).get("exercise")
                if (
                    cell.get("cell_type") == "markdown"
                    and isinstance(label, str)
                    and label in labels()
                ):
                    one.written[label] = cell["source"]
        except ValueError as error:
            reason = str(error)
    one.happened, _, details = reason.partition(": ")
    one.details = clean(details)
    return one


# ---- what is asked for --------------------------------------------------------------


#: What stands in a student's notebook where a proof or an explanation is to be written.
WRITE_HERE = "*Write your answer here.*"


@dataclass(frozen=True)
class Asked:
    """An exercise, its cases, and these in the form in which they go into a sandbox."""

    exercise: Exercise
    cases: tuple[Any, ...]
    packed: str


class Packer(pickle.Pickler):
    """Packs the arguments of cases, functions among them, so that they can be unpacked where no exercise can be imported."""

    def reducer_override(self, what: Any) -> Any:
        if isinstance(what, types.ModuleType):
            return importlib.import_module, (what.__name__,)
        for name in ("FunctionType", "CellType"):
            if what is getattr(types, name):
                return getattr, (types, name)
        if isinstance(what, types.CodeType):
            return marshal.loads, (marshal.dumps(what),)
        if isinstance(what, types.CellType):
            return types.CellType, (what.cell_contents,)
        if not isinstance(what, types.FunctionType):
            return NotImplemented
        place = sys.modules.get(what.__module__)
        known = getattr(place, what.__qualname__, None)
        if ".exercises" not in what.__module__:
            if known is what:
                return NotImplemented
            if getattr(known, "unchecked", None) is what:
                return getattr, (known, "unchecked")
        # Without what checks its arguments, which holds on to more than can be packed.
        what = inspect.unwrap(what)
        around = {
            name: what.__globals__[name]
            for name in names_in(what.__code__)
            if name in what.__globals__
        }
        # Its name could tell what is right, like the names of the cases.
        code = what.__code__.replace(co_name="f", co_filename="")
        if hasattr(code, "co_qualname"):
            code = code.replace(co_qualname="f")
        return types.FunctionType, (
            code,
            around,
            "f",
            what.__defaults__,
            what.__closure__,
        )


def names_in(code: types.CodeType) -> set[str]:
    """The names that a function, and those inside it, may take from its module."""
    found = set(code.co_names)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            found |= names_in(inner)
    return found


def packed(cases: tuple[Case, ...]) -> str:
    """Cases as text that goes into a sandbox, without their names, which could tell what is right."""
    nameless = tuple(dataclasses.replace(one, name="") for one in cases)
    stream = io.BytesIO()
    Packer(stream).dump(nameless)
    return base64.b64encode(stream.getvalue()).decode()


@functools.cache
def asked_in(chapter: str) -> dict[str, Asked]:
    """The exercises of a chapter. Right values are worked out once."""
    found = {}
    for one in exercises_of(chapter):
        cases = () if one.cases is None else tuple(one.cases())
        try:
            text = packed(cases) if cases else ""
        except (pickle.PicklingError, TypeError, ValueError) as error:
            raise CannotMark(
                f"the cases of {one.label} cannot be carried into a sandbox: {error}"
            ) from None
        if one.form in {"numbers", "words"}:
            assert one.right is not None
            one = dataclasses.replace(
                one,
                right=functools.cache(one.right),
                mistakes=tuple(
                    dataclasses.replace(
                        mistake, answer=functools.cache(mistake.answer)
                    )
                    for mistake in one.mistakes
                ),
            )
        elif cases:
            one = dataclasses.replace(one, cases=lambda cases=cases: cases)
        found[one.label] = Asked(one, cases, text)
    return found


def numbers_from(told: Any) -> np.ndarray:
    """An array that was handed over. Nothing is believed: ValueError for whatever is not exactly that."""
    if not isinstance(told, dict):
        raise ValueError("no numbers")
    dtype, shape, data = (told.get(k) for k in ("dtype", "shape", "data"))
    if dtype not in ("?", "<i8", "<u8", "<f8"):
        raise ValueError("numbers of an unknown kind")
    if not (
        isinstance(shape, list)
        and len(shape) <= 16
        and all(type(size) is int and 0 <= size < 1 << 24 for size in shape)
        and isinstance(data, str)
    ):
        raise ValueError("no shape")
    raw = base64.b64decode(data, validate=True)
    if dtype == "?" and not set(raw) <= {0, 1}:
        raise ValueError("truth values that are neither")
    return np.frombuffer(raw, dtype).reshape(shape).copy()


def given_from(told: Any, asked: Asked) -> Any:
    """What was handed over, as ``verdict_on`` takes it; ValueError for what ``observed`` could not have made."""
    if not isinstance(told, dict):
        raise ValueError("nothing readable")
    kind, form = told.get("is"), asked.exercise.form
    if kind == "nothing":
        return ...
    if kind == "odd":
        return Odd(clean(told.get("words")))
    if kind == form == "numbers":
        return numbers_from(told)
    if kind == form == "words":
        words = told.get("words")
        if (
            not isinstance(words, list)
            or len(words) > MOST_WORDS
            or not all(isinstance(word, str) for word in words)
        ):
            raise ValueError("no words")
        return observed("words", [clean(word, 100) for word in words])
    outcomes = told.get("outcomes")
    if (
        kind != "outcomes"
        or form != "function"
        or not isinstance(outcomes, list)
    ):
        raise ValueError("another form")
    found = []
    for one in outcomes[: len(asked.cases)]:
        if not isinstance(one, dict):
            raise ValueError("no outcome")
        if fault := clean(one.get("fault") or ""):
            return [*found, Outcome(None, fault)]
        found.append(Outcome(numbers_from(one.get("numbers"))))
    if len(found) != len(asked.cases):
        raise ValueError("too few outcomes")
    return found


def judged(asked: Asked, told: Any) -> tuple[str, str]:
    """State and words for an answer that was handed over."""
    try:
        given = given_from(told, asked)
        with np.errstate(all="ignore"):
            verdict = verdict_on(asked.exercise, given)
    except Exception as error:  # numbers that nobody thought of
        return (
            "not yet",
            f"This answer cannot be compared ({type(error).__name__}).",
        )
    state = {True: "right", False: "not yet", None: "no answer"}
    return state[verdict.right], clean(verdict.message)


# ---- where it runs ------------------------------------------------------------------

# Calls of the system that are refused in a sandbox, and their numbers (x86_64, aarch64). With the first ones memory can be
# held that belongs to no process, so that nobody would count it; those after reach other processes, the keys of the teacher,
# or parts of the kernel that no exercise needs and in which holes are found.
REFUSED_CALLS = {
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186),
    "mq_open": (240, 180), "io_uring_setup": (425, 425),
    "ptrace": (101, 117), "pidfd_getfd": (438, 438), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "unshare": (272, 97), "setns": (308, 268),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsmount": (432, 432),
}  # fmt: skip
# Sockets that end in the sandbox: AF_UNIX, AF_INET, AF_INET6, AF_NETLINK. Some others know no namespaces: AF_VSOCK leads from
# a virtual machine to the one that it runs on.
SOCKETS = (1, 2, 10, 16)
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


def rules_of_calls(machine: str) -> bytes:
    """Which calls of the system a sandbox may make, as a program for the kernel; empty for a machine that is not known."""
    if machine not in MACHINES or sys.byteorder != "little":
        return b""
    column, kind = MACHINES[machine]
    mmap, clone, clone3 = ((9, 222), (56, 220), (435, 435))
    socket = (41, 198)
    load, equal, at_least, any_of = 0x20, 0x15, 0x35, 0x45
    and_, answer = 0x54, 0x06
    fine, refused, unknown = 0x7FFF0000, 0x00050001, 0x00050026
    number, architecture, first, fourth = 0, 4, 16, 40
    steps: list[tuple[int, int, int, int]] = []

    def add(code: int, value: int, yes: int = 0, no: int = 0) -> None:
        steps.append((code, yes, no, value))

    add(load, architecture)
    add(equal, kind, yes=1)
    add(answer, refused)
    add(load, number)
    # The calls of x86_64 under their second numbers.
    add(at_least, 0x40000000, no=1)
    add(answer, refused)
    for one in REFUSED_CALLS.values():
        add(equal, one[column], no=1)
        add(answer, refused)
    # Its flags cannot be looked at; where there is no such call, programs use the one before it.
    add(equal, clone3[column], no=1)
    add(answer, unknown)
    # New processes, but not with a system of their own, in which they would be root.
    add(equal, clone[column], no=4)
    add(load, first)
    add(any_of, 0x7E020000, no=1)
    add(answer, refused)
    add(answer, fine)
    add(equal, socket[column], no=3 + len(SOCKETS))
    add(load, first)
    for n in range(len(SOCKETS), 0, -1):
        add(equal, SOCKETS[-n], yes=n)
    add(answer, refused)
    add(answer, fine)
    # Memory shared with other processes only in a file, where its size is limited.
    add(equal, mmap[column], no=5)
    add(load, fourth)
    add(and_, 0x21)
    add(equal, 0x21, no=1)
    add(answer, refused)
    add(answer, fine)
    add(answer, fine)
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def is_above_limits() -> bool:
    """Whether this is root, whose processes the system does not limit, and who can become any other user."""
    try:
        known = Path("/proc/self/uid_map").read_text().split()
    except OSError:
        return False
    return os.geteuid() == 0 and known == ["0", "0", "4294967295"]


class Place:
    """Where notebooks run: inside bubblewrap, or, with trust, not."""

    login = "student"

    def __init__(self, folder: Path, limits: Limits, trust: bool) -> None:
        self.folder, self.limits = folder.resolve(), limits
        self.program = None if trust else shutil.which("bwrap")
        # Each sandbox of root belongs to a user of its own, who owns nothing.
        self.users = None
        if not trust and is_above_limits():
            self.users = itertools.count(FIRST_USER)
        self.options: list[str] = []
        self.fonts = ""
        if trust:
            return
        if self.program is None:
            raise CannotMark(MISSING)
        help_ = subprocess.run(
            [self.program, "--help"], capture_output=True, text=True
        )
        known = help_.stdout + help_.stderr
        if "--size" not in known:
            raise CannotMark(OLD)
        if self.users is not None:
            for right in ("CAP_SETUID", "CAP_SETGID"):
                self.options += ["--cap-add", right]
        else:
            self.options = ["--unshare-user"]
            if "--disable-userns" in known:
                self.options += ["--disable-userns"]

    def shown(self) -> list[str]:
        """Folders and files of this machine that the sandbox shows, none of them inside another."""
        executable = Path(sys.executable)
        wanted = [
            *SYSTEM,
            *(sys.prefix, sys.base_prefix, sys.exec_prefix),
            *(sys.base_exec_prefix, os.path.realpath(sys.prefix)),
            str(executable.parent),
            str(executable.resolve().parent),
            str(PACKAGE),
        ]
        # Links of a virtual environment may lead to others.
        link = executable
        while link.is_symlink():
            link = Path(os.path.normpath(link.parent / link.readlink()))
            wanted.append(str(link.parent))
        found: list[str] = []
        for one in sorted(
            {os.path.abspath(path) for path in wanted},
            key=lambda path: path.count("/"),
        ):
            if one == "/" or not os.path.exists(one):
                continue
            if not any(Path(one).is_relative_to(held) for held in found):
                found.append(one)
        return found

    def hidden(self, shown: list[str]) -> list[str]:
        """Folders in those that it must not show: exercises with their answers, the notebooks of others, homes."""
        wanted = {
            str(Path(entry) / PACKAGE.name / "exercises")
            for entry in [*sys.path, str(PACKAGE.parent)]
        }
        wanted |= {str(self.folder), str(Path.home())}
        # The parts of the book with solutions, where it lies in a folder with programs, as in many containers.
        wanted |= {
            str(RUNNER.parents[1] / name)
            for name in (".git", "_build", "notebooks", "tests", "tools")
        }
        # Copies of the package that belong to other Pythons.
        for held in [*shown, "/usr/local"]:
            for start in ("lib*", "envs/*/lib*"):
                copy = f"{PACKAGE.name}/exercises"
                there = f"{start}/python3*/*-packages/{copy}"
                wanted |= set(map(str, Path(held).glob(there)))
        found = []
        for one in sorted(wanted):
            path = Path(one)
            within = any(path.is_relative_to(held) for held in shown)
            holds = any(Path(held).is_relative_to(path) for held in shown)
            # In a hidden folder there is no place for another one.
            twice = any(path.is_relative_to(other) for other in found)
            if path.is_dir() and within and not holds and not twice:
                found.append(one)
        return found

    @contextlib.contextmanager
    def rules(self) -> Iterator[tuple[int, ...]]:
        """An open file with the rules of calls, for one sandbox: bubblewrap reads it to its end."""
        program = rules_of_calls(platform.machine())
        if not (self.program and program):
            yield ()
            return
        end, start = os.pipe()
        try:
            os.write(start, program)
            os.close(start)
            yield (end,)
        finally:
            os.close(end)

    def walls(
        self,
        binds: dict[str, str],
        rules: tuple[int, ...],
        writable: dict[str, str] | None = None,
    ) -> list[str]:
        """The call of bubblewrap, up to the command that is to run in it."""
        shown = self.shown()
        size = str(self.limits.disk)
        call = [
            str(self.program),
            *("--unshare-pid", "--unshare-net", "--unshare-ipc"),
            *("--unshare-uts", "--unshare-cgroup-try"),
            *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
            *("--hostname", "localhost", *self.options),
            *("--proc", "/proc", "--dev", "/dev"),
            # Of this one memory could be made that no process holds.
            *(
                "--ro-bind",
                "/dev/null",
                "/dev/zero",
                "--remount-ro",
                "/dev",
            ),
            *("--perms", "1777", "--size", size, "--tmpfs", "/dev/shm"),
            *("--perms", "1777", "--size", size, "--tmpfs", "/tmp"),
        ]
        # The folders on the way there, which else only the owner could pass.
        passed = {Path("/"), Path("/tmp")}
        for one in [*shown, str(INSIDE / "any")]:
            for above in reversed(Path(one).parents):
                if above not in passed:
                    passed.add(above)
                    call += ["--perms", "0755", "--dir", str(above)]
        for one in shown:
            call += ["--ro-bind", one, one]
        for one in self.hidden(shown):
            call += ["--tmpfs", one, "--remount-ro", one]
        for source, target in binds.items():
            call += ["--ro-bind", source, target]
        for source, target in (writable or {}).items():
            call += ["--bind", source, target]
        return [
            *call,
            *("--perms", "0777", "--dir", "/tmp/work"),
            *("--chdir", "/tmp/work"),
            *("--remount-ro", "/"),
            *(part for one in rules for part in ("--seccomp", str(one))),
            # The first process is held to the rules like all others; where bubblewrap is that itself, it is not. It can
            # be reached by those of the same user, and lives as long as the process outside that stands for it.
            *("--as-pid-1", "/bin/sh", "-c", '"$@"; exit $?', "sh"),
        ]

    def environment(self, home: str) -> dict[str, str]:
        return {
            "HOME": home,
            "TMPDIR": home,
            "MPLCONFIGDIR": f"{home}/matplotlib",
            "MPLBACKEND": "Agg",
            "USER": self.login,
            "LOGNAME": self.login,
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
        }

    def prepare(self, folder: Path) -> None:
        """Try whether a sandbox can be made; in the same go look through the fonts, which takes seconds."""
        fonts = folder / "fonts"
        fonts.mkdir()
        belongs = ""
        if self.users is not None:
            user = next(self.users)
            belongs = f"os.setgid({user}); os.setuid({user})\n"
            folder.chmod(0o711)
            fonts.chmod(0o777)
        code = (
            f"import os; {belongs}"
            f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n"
            "import attention_in_detail\n"
            "try: import matplotlib.font_manager\n"
            "except ImportError: pass"
        )
        command = [sys.executable, "-I", "-B", "-c", code]
        environment = self.environment("/tmp")
        with self.rules() as rules:
            if self.program:
                walls = self.walls(
                    {}, rules, {str(fonts): "/tmp/matplotlib"}
                )
                command = [*walls, *command]
            else:
                environment["MPLCONFIGDIR"] = str(fonts)
            done = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                pass_fds=rules,
            )
        if self.program and "bwrap:" in done.stderr:
            reason = clean(done.stderr.strip().splitlines()[0], 200)
            raise CannotMark(REFUSES.format(reason=reason))
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no word"]
            raise CannotMark(
                f"Python does not start where notebooks are to run: {clean(lines[-1], 200)}"
            )
        # From now on nobody else writes there.
        fonts.chmod(0o755)
        if any(fonts.iterdir()):
            self.fonts = str(fonts)

    def command(
        self, home: str, rules: tuple[int, ...] = ()
    ) -> tuple[list[str], dict[str, Any]]:
        """What to start, and what its job has to say about where things are."""
        judging = str(judging_module.__file__)
        runner, fonts = str(RUNNER), self.fonts
        walls: list[str] = []
        if self.program:
            binds = {runner: str(INSIDE / "run.py")}
            binds[judging] = str(INSIDE / "judging.py")
            if fonts:
                binds[fonts] = str(INSIDE / "fonts")
                fonts = binds[fonts]
            walls = self.walls(binds, rules)
            runner, judging = binds[runner], binds[judging]
        about = {
            "judging": judging,
            "fonts": fonts,
            "package": str(PACKAGE.parent),
        }
        return [*walls, sys.executable, "-I", "-B", runner], about


# ---- one run ------------------------------------------------------------------------


def children(pid: int) -> list[int]:
    found = []
    try:
        for task in os.scandir(f"/proc/{pid}/task"):
            text = Path(task.path, "children").read_text()
            found += [int(one) for one in text.split()]
    except (OSError, ValueError):
        pass
    return found


def tree(pid: int, most: int) -> list[int]:
    """A process and all that it started, until there are more than ``most``."""
    found, todo = [pid], [pid]
    while todo and len(found) <= most:
        new = children(todo.pop())
        found += new
        todo += new
    return found


def memory_of(pids: list[int], bound: int) -> int:
    """Bytes that processes hold. What several share is counted once, if the quick count is above the bound."""
    page = os.sysconf("SC_PAGE_SIZE")
    held: dict[int, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = Path(f"/proc/{pid}/statm").read_text()
            held[pid] = page * int(text.split()[1])
    if sum(held.values()) <= bound:
        return sum(held.values())
    for pid in held:
        # A process can keep others from reading this; then the quick count of it stays.
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            found = re.findall(r"^Pss: +(\d+)", text, re.M)
            held[pid] = 1024 * int(found[0])
    return sum(held.values())


def memory_of_names(pids: list[int]) -> int:
    """Bytes that the files in a sandbox take beside what is in them: a million empty ones are a GiB."""
    for pid in reversed(pids):
        with contextlib.suppress(OSError):
            root = f"/proc/{pid}/root"
            if os.path.samefile(root, "/"):
                continue
            found = [os.statvfs(root + one) for one in ("/tmp", "/dev/shm")]
            return sum(1024 * (one.f_files - one.f_ffree) for one in found)
    return 0


def tasks_of_this_user() -> int:
    """How many threads the user has."""
    count = 0
    try:
        for one in os.scandir("/proc"):
            with contextlib.suppress(OSError):
                if one.name.isdigit() and one.stat().st_uid == os.getuid():
                    count += len(os.listdir(f"{one.path}/task"))
    except OSError:
        return 1 << 16
    return count


def counted_with_others(place: Place) -> bool:
    """Whether the system counts all threads of the user against the bound on processes, and not those of a sandbox alone."""
    if place.users is not None:
        return False
    numbers = re.findall(r"\d+", os.uname().release)[:2]
    # Since 5.14 Linux counts for each namespace of users.
    is_new = tuple(map(int, numbers)) >= (5, 14)
    return not (place.program and sys.platform == "linux" and is_new)


@dataclass
class Run:
    """What one process did: lines that it handed over, and why it ended."""

    records: list[dict[str, Any]] = field(default_factory=list)
    ended: str = ""  # empty: by itself
    code: int | None = None


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process is over. Its number stays taken, so that nothing else can be ended in its place."""
    how = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, process.pid, how) is not None


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started."""
    # The first in a sandbox takes all others in it along. Outside, the group goes at once, then whoever left it.
    found = tree(process.pid, 1000)[1:]
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    for pid in found:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def lines_of(raw: bytes) -> list[dict[str, Any]]:
    found = []
    for line in raw.split(b"\n", MOST_LINES)[:MOST_LINES]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError, MemoryError):
            continue
        if isinstance(record, dict):
            found.append(record)
    return found


def watched(
    process: subprocess.Popen[bytes],
    began: float,
    limits: Limits,
    stop: threading.Event,
) -> tuple[bytes, str]:
    """Read what a process hands over until it ends, or until it has to."""
    assert process.stdout is not None
    end = process.stdout.fileno()
    os.set_blocking(end, False)
    got = bytearray()
    looked, is_open, lines = 0.0, True, 0
    something = select.poll()
    something.register(end, select.POLLIN)
    while True:
        if is_open:
            ready = something.poll(1000 * SHORTEST_POLL)
        else:
            ready = []
            time.sleep(SHORTEST_POLL)
        if ready:
            piece = os.read(end, 1 << 16)
            got += piece
            is_open = bool(piece)
            lines += piece.count(b"\n")
        if len(got) > limits.handed or lines > MOST_LINES:
            return bytes(got), "too much handed over"
        if not ready and has_ended(process):
            return bytes(got), ""
        now = time.monotonic()
        if stop.is_set():
            return bytes(got), "interrupted"
        if now - began > limits.seconds:
            return bytes(got), "too long"
        if now - looked > SHORTEST_POLL:
            looked = now
            pids = tree(process.pid, limits.processes + 4)
            if len(pids) > limits.processes + 3:
                return bytes(got), "too many processes"
            bound = limits.memory - memory_of_names(pids)
            if memory_of(pids, bound) > bound:
                return bytes(got), "too much memory"


def run(
    place: Place, cells: list[str], chapter: str, stop: threading.Event
) -> Run:
    """Run the cells of a notebook, somewhere where they can do no harm."""
    limits = place.limits
    done = Run()
    with (
        tempfile.TemporaryDirectory(
            prefix="marking-", ignore_cleanup_errors=True
        ) as home,
        place.rules() as rules,
    ):
        command, about = place.command(home, rules)
        job = {
            **about,
            "cells": cells,
            "exercises": {
                label: {"form": one.exercise.form, "cases": one.packed}
                for label, one in asked_in(chapter).items()
            },
            "began": time.time(),
            "limits": {
                "seconds": limits.seconds,
                "memory": limits.memory,
                "file": limits.file,
                "processes": limits.processes
                + (
                    tasks_of_this_user()
                    if counted_with_others(place)
                    else 0
                ),
            },
            "user": None if place.users is None else next(place.users),
        }
        inside = "/tmp" if place.program else home
        with tempfile.TemporaryFile() as paper:
            paper.write(json.dumps(job).encode())
            paper.seek(0)
            began = time.monotonic()
            process = subprocess.Popen(
                command,
                stdin=paper,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=place.environment(inside),
                cwd=home,
                start_new_session=True,
                pass_fds=rules,
            )
        assert process.stdout is not None
        with process.stdout:
            try:
                got, done.ended = watched(process, began, limits, stop)
            finally:
                kill(process)
    done.code = process.returncode
    done.records = lines_of(got)
    return done


def cell_number(record: dict[str, Any]) -> int:
    number = record.get("cell")
    return number if type(number) is int and 0 < number < 1 << 20 else 0


def told_of(one: Returned, done: Run, limits: Limits) -> None:
    """Fill in what happened to a notebook, and what each of its answers is."""
    answers: dict[str, Any] = {}
    errors: dict[int, str] = {}
    last, finished, memory, late = 0, False, False, False
    for record in done.records:
        last = max(last, cell_number(record))
        finished |= record.get("done") is True
        if isinstance(record.get("error"), str):
            errors.setdefault(
                cell_number(record), clean(record["error"], 200)
            )
            memory |= record.get("memory") is True
            late |= record.get("late") is True
        label, told = record.get("label"), record.get("given")
        # The last answer counts; three dots below it do not take it back.
        if (
            isinstance(label, str)
            and isinstance(told, dict)
            and (told.get("is") != "nothing" or label not in answers)
        ):
            answers[label] = told
    where = f"in code cell {last}" if last else "before the first cell"
    first = next(iter(errors), 0)
    more = f", and in {len(errors) - 1} more" if len(errors) > 1 else ""
    in_cells = f"code cell {first}: {errors.get(first)}{more}"
    if done.ended:
        one.happened = done.ended
        bound = {
            "too long": f"more than {limits.seconds:g} s",
            "too much memory": f"more than {limits.memory // MIB} MiB",
            "too many processes": f"more than {limits.processes}",
            "too much handed over": f"more than {limits.handed // MIB} MiB, or than {MOST_LINES} lines",
        }.get(done.ended, "marking was stopped")
        one.details = f"{where}: {bound}"
    elif not finished:
        one.happened, code = "ended itself", done.code or 0
        # A program in a sandbox that a signal ends reports it as 128 more.
        number = -code if code < 0 else code - 128 if code > 128 else 0
        signals = {int(one): one.name for one in signal.Signals}
        how = signals.get(number, f"exit status {code}")
        one.details = f"{where}: {how}"
    elif errors:
        one.happened = (
            "too much memory"
            if memory
            else "too long"
            if late
            else "error in a cell"
        )
        one.details = in_cells
    else:
        one.happened = "ok"
    cells_with: dict[str, int] = {}
    for number, source in enumerate(one.cells, 1):
        for label in LABEL.findall(source):
            cells_with.setdefault(label, number)
    one.points = one.of = 0
    for label, asked in asked_in(one.chapter).items():
        if asked.exercise.right is None:
            text = one.written.get(label, "").strip()
            empty = text in ("", WRITE_HERE)
            one.states[label] = (
                ("no answer", "")
                if empty
                else ("read it", clean(text, 2000))
            )
            continue
        one.of += 1
        if label in answers:
            state, words = judged(asked, answers[label])
        elif label not in cells_with:
            state, words = "no answer", "No cell asks for it."
        elif (number := cells_with[label]) in errors:
            state = "not reached"
            words = f"Code cell {number}: {errors[number]}."
        else:
            state, words = "not reached", "The run ended before it."
        one.points += state == "right"
        one.states[label] = (state, words)
    one.details = clean(one.details)


# ---- the table ----------------------------------------------------------------------


def table(rows: list[Returned]) -> list[list[Any]]:
    """The rows of the table, the names of its columns first."""
    there = {one.chapter for one in rows if one.states}
    columns = [
        label
        for chapter in CHAPTERS
        if chapter in there
        for label in asked_in(chapter)
    ]
    found: list[list[Any]] = [
        [
            *("student", "file", "chapter", "happened", "details"),
            *("points", "of"),
            *(
                name
                for label in columns
                for name in (label, f"{label} words")
            ),
        ]
    ]
    for one in rows:
        found.append(
            [
                one.student,
                name_of(one.path),
                one.chapter,
                one.happened,
                one.details,
                "" if one.points is None else one.points,
                "" if one.of is None else one.of,
                *(
                    part
                    for label in columns
                    for part in one.states.get(label, ("", ""))
                ),
            ]
        )
    return [[in_a_table(value) for value in row] for row in found]


def written(rows: list[Returned], path: Path) -> None:
    """Write the table in one move: there is the old one or the whole new one, never a part."""
    # A new file under a name that nobody knows: what lies there might be a link to somewhere else.
    part = path.with_name(f".{path.name}.{os.urandom(8).hex()}.part")
    try:
        # With a mark at its start, by which spreadsheets know the encoding.
        with part.open("x", encoding="utf-8-sig", newline="") as file:
            csv.writer(file).writerows(table(rows))
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def say(text: str) -> None:
    """Write a line to the terminal. If it cannot show it, or nobody reads any more, marking goes on."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    text = text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        print(text, flush=True)
    except OSError:
        # What is still to be written would fail again at the end.
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Without an end by Ctrl-C: what is left takes moments, and all that was done would be lost."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for one in (signal.SIGINT, signal.SIGTERM):
            before[one] = signal.signal(one, signal.SIG_IGN)
    try:
        yield
    finally:
        for one, what in before.items():
            signal.signal(one, what or signal.SIG_DFL)


def mark(
    folder: Path, out: Path, limits: Limits, jobs: int, trust: bool
) -> tuple[list[Returned], bool]:
    """Mark a folder. Returns the rows, and whether all of it was marked.

    Raises:
        CannotMark: if there is no such folder, nowhere to write to, or no sandbox.
    """
    if not folder.is_dir():
        raise CannotMark(f"there is no folder {folder}")
    if not out.parent.is_dir():
        raise CannotMark(f"there is no folder for {out}")
    if out.is_dir() or not os.access(out.parent, os.W_OK):
        raise CannotMark(f"the table cannot be written to {out}")
    if os.name != "posix":
        raise CannotMark("this runs on Linux; on Windows, in WSL")
    place = Place(folder, limits, trust)
    found = list(everything_in(folder, out))
    rows: list[Returned | None] = [None] * len(found)
    stop = threading.Event()
    shown = 0

    def one(number: int) -> None:
        path, what = found[number]
        new = rows[number] = Returned(path, "interrupted")
        if stop.is_set():
            return
        try:
            new = looked_at(folder, path, what, limits)
            if not new.happened:
                done = run(place, new.cells, new.chapter, stop)
                told_of(new, done, limits)
        except Exception as error:  # a fault of ours costs no other row
            new.happened = "not marked"
            new.details = clean(f"{type(error).__name__}: {error}")
        new.cells, new.written = [], {}
        rows[number] = new

    with (
        contextlib.ExitStack() as at_the_end,
        tempfile.TemporaryDirectory(prefix="marking-") as scratch,
    ):
        place.prepare(Path(scratch))
        for chapter in CHAPTERS:  # once, not in each thread
            asked_in(chapter)
        pool = ThreadPoolExecutor(max(1, jobs))
        try:
            futures: dict[Future[None], int] = {
                pool.submit(one, number): number
                for number in range(len(found))
            }
            for future in as_completed(futures):
                future.result()
                shown += 1
                new = rows[futures[future]]
                assert new is not None
                points = (
                    "" if new.of is None else f", {new.points} of {new.of}"
                )
                say(
                    f"[{shown} of {len(found)}] {name_of(new.path)}: {new.happened}{points}"
                )
        except KeyboardInterrupt:
            stop.set()
        except BaseException:
            stop.set()
            raise
        finally:
            at_the_end.enter_context(undisturbed())
            pool.shutdown(cancel_futures=stop.is_set())
        finished = [
            row or Returned(found[number][0], "interrupted")
            for number, row in enumerate(rows)
        ]
        written(finished, out)
    return finished, not stop.is_set()


def stopped(*_: Any) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="mark",
        description="Mark a folder of returned notebooks.",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("marks.csv"),
        help="the table to write (default: marks.csv)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else 1,
        help="how many run at a time (default: one for each processor)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=Limits.seconds,
        help="time for one notebook (default: %(default)g)",
    )
    parser.add_argument(
        "--memory",
        type=int,
        default=Limits.memory // MIB,
        help="memory for one notebook, in MiB (default: %(default)d)",
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run without a sandbox: whatever the notebooks do is done to this machine",
    )
    given = parser.parse_args(arguments)
    if (
        given.jobs < 1
        or not 0 < given.seconds < 1e8
        or not 0 < given.memory < 1e8
    ):
        parser.error(
            "--jobs, --seconds and --memory are above 0, and finite"
        )
    limits = Limits(seconds=given.seconds, memory=given.memory * MIB)
    signal.signal(signal.SIGTERM, stopped)
    try:
        rows, whole = mark(
            given.folder, given.out, limits, given.jobs, given.trust
        )
    except CannotMark as error:
        print(f"mark: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("mark: stopped before it began", file=sys.stderr)
        return 130
    count = Counter(one.happened for one in rows)
    told = ", ".join(f"{many} {name}" for name, many in count.most_common())
    say(
        f"{len(rows)} files: {told or 'none'}. Table: {name_of(str(given.out))}"
    )
    return 0 if whole else 130


if __name__ == "__main__":
    sys.exit(main())
