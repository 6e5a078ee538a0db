"""Change the code of the core modules in many small ways, and see whether a test notices.

    python tools/mutants.py [--step 3/3] [--fresh] [masks rows ...]

Each change is a mutant: `<` for `<=`, an argument left out, a line left out, a number one higher. A
mutant is noticed when a test fails. One that no test notices is either equivalent, which means that
no input tells the two apart, or shows what the tests leave open. Each such mutant stands with its
reason in tests/mutants.toml. The result goes to book/mutants.json, and the book shows it.

The changes are those that mutmut makes, and the leaving out of a statement. mutmut's own runner is
not used: it leaves out every function with a decorator, and here all public functions have one.
Instead the tests are collected once; then, for each mutant, a process of its own puts the changed
code into the function that is there, and runs the tests until one fails.

A run that was stopped goes on where it was. A mutant is tried again when its module has changed, or
the tests that decided it. With --fresh, all are.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import datetime
import gc
import hashlib
import importlib
import inspect
import json
import os
import platform
import re
import resource
import select
import signal
import sys
import time
import tomllib
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider
from mutmut.mutation.file_mutation import MutationVisitor
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "attention_in_detail"
CORE = [
    "rows",
    "scaled_dot_product",
    "masks",
    "multi_head",
    "parameters",
    "positions",
]
# The tests that decide, and what they share. A module's own tests are tried first.
TESTS = [
    "tests/test_rows.py",
    "tests/test_scaled_dot_product.py",
    "tests/test_masks.py",
    "tests/test_multi_head.py",
    "tests/test_parameters.py",
    "tests/test_positions.py",
    "tests/test_array_api_strict.py",
    "tests/test_properties.py",
    "tests/test_bad_input.py::test_whole_numbers_of_numpy_are_whole_numbers",
    "tests/test_bad_input.py::test_whole_numbers_of_few_bits_do_not_overflow",
]
SHARED = ["tests/conftest.py", "tests/support.py", "tests/reference.py"]
REASONS = ROOT / "tests/mutants.toml"
RESULT = ROOT / "book/mutants.json"
PROGRESS = ROOT / "_build/mutants.jsonl"
LEAST = 95.0  # percent of the mutants that are not equivalent
SPARE = 10  # seconds of the processor that a mutant may take beyond five times what the tests take
LEFT_OUT = "(left out)"
IMPORT = "import"  # what notices a mutant whose module cannot be imported


# ---- code, without what does not matter ----------------------------------------------


def code_hash(text: str) -> str:
    """A hash of Python code that comments, docstrings and layout do not change; the same on every Python."""
    return hashlib.sha256(_told(ast.parse(text)).encode()).hexdigest()[:16]


def _told(node: Any) -> str:
    if isinstance(node, ast.Constant):
        return repr(node.value)
    if isinstance(node, list):
        return "[" + ",".join(map(_told, node)) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {
        name: value
        for name, value in ast.iter_fields(node)
        if value not in (None, []) and name not in ("kind", "type_ignores")
    }
    body = fields.get("body")
    if isinstance(body, list) and _is_text(body[0]):
        fields["body"] = body[1:]
    told = ",".join(f"{name}={_told(x)}" for name, x in fields.items())
    return f"{type(node).__name__}({told})"


def _is_text(statement: ast.AST) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def module_path(module: str) -> Path:
    return ROOT / f"src/{PACKAGE}/{module}.py"


def hash_of(path: str | Path) -> str:
    return code_hash((ROOT / path).read_text(encoding="utf-8"))


def test_files() -> list[str]:
    return list(dict.fromkeys(name.partition("::")[0] for name in TESTS))


def tests_hash() -> str:
    hashes = "".join(map(hash_of, [*test_files(), *SHARED]))
    return hashlib.sha256(hashes.encode()).hexdigest()[:16]


# ---- mutants -------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """A module with one change: in which function, what stood there, and what stands there now."""

    module: str
    function: str
    before: str
    after: str
    at: int  # 1, or which of several places that read the same
    source: Callable[[], str] = field(repr=False, compare=False)

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        return (
            self.module,
            self.function,
            self.before,
            self.after,
            self.at,
        )


def leave_out_if(node: cst.If) -> Iterator[cst.CSTNode]:
    """`if`, its condition and its body."""
    if node.orelse is None:
        yield cst.SimpleStatementLine([cst.Pass()])


def leave_out_step(
    node: cst.SimpleStatementLine,
) -> Iterator[cst.CSTNode]:
    """A call for its effect, or an assignment that makes something new of what the name stood for."""
    [statement, *_] = node.body
    if isinstance(statement, cst.Assign):
        targets = set().union(*map(_names, statement.targets))
        again = bool(targets & _names(statement.value))
    else:
        again = isinstance(statement, cst.Expr) and isinstance(
            statement.value, cst.Call
        )
    if again:
        yield cst.SimpleStatementLine([cst.Pass()])


def _names(node: cst.CSTNode) -> set[str]:
    found = {node.value} if isinstance(node, cst.Name) else set()
    return found.union(*map(_names, node.children))


OPERATORS = [
    *mutation_operators,
    (cst.If, leave_out_if),
    (cst.SimpleStatementLine, leave_out_step),
]


class Visitor(MutationVisitor):
    """mutmut's, which passes over functions with a decorator because of how its runner works."""

    METADATA_DEPENDENCIES = (
        *MutationVisitor.METADATA_DEPENDENCIES,
        ParentNodeProvider,
    )

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.FunctionDef):
            return False
        return super()._skip_node_and_children(node)


def mutants_of(module: str, text: str) -> list[Mutant]:
    """All mutants of a module's text that are Python and differ from it."""
    visitor = Visitor(OPERATORS, IgnoredCode(set(), set(), set()))
    wrapper = MetadataWrapper(cst.parse_module(text))
    tree = wrapper.visit(visitor)
    parents = wrapper.resolve(ParentNodeProvider)
    found: list[Mutant] = []
    seen: Counter[tuple[str, ...]] = Counter()
    for mutation in visitor.mutations:
        old, new = mutation.original_node, mutation.mutated_node
        function = _place(old, parents)
        if not function:
            continue  # imports and the list of public names
        before, after = _shown(tree, old, new, parents)
        if before == after or not _is_python(after):
            continue
        seen[function, before, after] += 1
        at = seen[function, before, after]
        source = partial(_changed, tree, old, new)
        found.append(Mutant(module, function, before, after, at, source))
    return found


def _changed(tree: cst.Module, old: Any, new: Any) -> str:
    return tree.deep_replace(old, new).code


def _is_python(line: str) -> bool:
    try:
        ast.parse(line.removeprefix("if "))
    except SyntaxError:
        return line == LEFT_OUT
    return True


def _place(node: Any, parents: Any) -> str:
    """The function, method or class that holds a node, by its qualified name."""
    names: list[str] = []
    while node is not None:
        if isinstance(node, cst.FunctionDef):
            names = [node.name.value]  # an inner function is part of it
        elif isinstance(node, cst.ClassDef):
            names = [node.name.value, *names]
        node = parents.get(node)
    return ".".join(names)


def _shown(
    tree: cst.Module, old: cst.CSTNode, new: cst.CSTNode, parents: Any
) -> tuple[str, str]:
    """What stood there and what stands there, each in one line: a statement, a condition or a parameter."""
    if isinstance(old, cst.If):
        return f"if {_line(tree, old.test)}: ...", LEFT_OUT
    if isinstance(old, cst.SimpleStatementLine):
        return _line(tree, old), LEFT_OUT
    unit = old
    while not isinstance(unit, (cst.BaseSmallStatement, cst.Param)):
        parent = parents[unit]
        if isinstance(parent, (cst.BaseStatement, cst.Module)):
            break
        unit = parent
    changed = new if unit is old else unit.deep_replace(old, new)
    word = "if " if isinstance(parents[unit], cst.If) else ""
    return word + _line(tree, unit), word + _line(tree, changed)


def _line(tree: cst.Module, node: cst.CSTNode) -> str:
    text = re.sub(r"(^|\s)#.*", "", tree.code_for_node(node), flags=re.M)
    text = " ".join(text.split())
    text = re.sub(r",? (?=[)\]}])", "", text)
    return re.sub(r"(?<=[(\[{]) ", "", text).removesuffix(",")


# ---- planting ------------------------------------------------------------------------


def bare(thing: Any) -> types.FunctionType | None:
    """The function as it was written, below what decorators have put around it."""
    if isinstance(thing, property):
        thing = thing.fget
    thing = inspect.unwrap(getattr(thing, "__func__", thing))
    return thing if isinstance(thing, types.FunctionType) else None


def functions_in(namespace: dict[str, Any]) -> dict[str, Any]:
    """The functions and methods that a module defines, by their qualified names."""
    things = list(namespace.values())
    for thing in namespace.values():
        if isinstance(thing, type):
            things += vars(thing).values()
    found = {f.__code__.co_qualname: f for f in map(bare, things) if f}
    return {
        name: function
        for name, function in found.items()
        if function.__code__.co_filename == namespace["__file__"]
    }


def living_functions(files: set[str]) -> dict[tuple[str, str], list[Any]]:
    """Every function object that runs code of these files; some checks are copies under another name."""
    living = defaultdict(list)
    for thing in gc.get_objects():
        # Not isinstance: some objects answer to a look at their class.
        if type(thing) is types.FunctionType:
            code = thing.__code__
            if code.co_filename in files:
                living[code.co_filename, code.co_qualname].append(thing)
    return living


def plant(living: Any, module: str, source: str, names: Any = None) -> None:
    """Give the functions that are there (all, or those of ``names``) the code that ``source`` has for them."""
    real = sys.modules[f"{PACKAGE}.{module}"]
    fresh = types.ModuleType(real.__name__)
    fresh.__file__ = real.__file__
    loader = real.__spec__.loader
    code = loader.source_to_code(source.encode(), real.__file__)
    exec(code, fresh.__dict__)
    changed = functions_in(fresh.__dict__)
    for name in names or changed:
        if name not in changed:
            plant_class(getattr(real, name), getattr(fresh, name))
            continue
        olds = living[real.__file__, name]
        if not olds:
            raise RuntimeError(f"{module}.{name}: nothing to put it into")
        for old in olds:
            old.__code__ = changed[name].__code__
            old.__defaults__ = changed[name].__defaults__
            old.__kwdefaults__ = changed[name].__kwdefaults__


def plant_class(old: type, new: type) -> None:
    """Give a data class the fields of another."""
    fields = set(old.__dataclass_fields__)
    for name in fields | {
        "__init__",
        "__dataclass_fields__",
        "__match_args__",
    }:
        if name in vars(new):
            setattr(old, name, vars(new)[name])
        elif name in vars(old):
            delattr(old, name)


# ---- trying --------------------------------------------------------------------------


@dataclass
class Outcome:
    """What became of a mutant: the test that noticed it, or why none did."""

    killer: str  # empty: none
    seconds: float  # of the processor
    wrong: str = ""  # a time-out or a crash, which is no notice
    modules: list[str] = field(default_factory=list)


class Runner:
    """A pytest plugin: collects the tests once, and runs them for each mutant in a process of its own."""

    def __init__(
        self, todo: list[Mutant], known: dict[Any, str], workers: int
    ) -> None:
        self.todo, self.workers = todo, workers
        self.killers: dict[Any, Counter[str]] = defaultdict(Counter)
        self.known = known  # what noticed a mutant in an earlier run
        self.failed = ""
        self.error = "stopped before the end; run it again to go on"
        self.done = lambda mutant, outcome: None
        self.limit = 600.0
        self.tests = 0

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed = report.nodeid

    def pytest_runtestloop(self, session: Any) -> bool:
        if session.testsfailed or not session.items:
            self.error = "the tests cannot be collected"
            return True
        self.items, self.tests = session.items, len(session.items)
        sources = {
            module: module_path(module).read_text(encoding="utf-8")
            for module in CORE
        }
        self.living = living_functions(
            {sys.modules[f"{PACKAGE}.{m}"].__file__ for m in CORE}
        )
        [(_, base)] = self.all_of([sources], 1)
        if base.killer or base.wrong:
            self.error = f"without a mutant, {base.killer or base.wrong}"
            return True
        # What the tests import as they go is imported here, once for all processes below.
        for name in base.modules:
            if name not in sys.modules:
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
        gc.collect()
        gc.freeze()
        print(
            f"      {self.tests} tests, {base.seconds:.0f} s of computing where nothing is changed",
            flush=True,
        )
        # A mutant may run slower. The limit is of the processor, so that a busy machine does not matter.
        self.limit = 5 * base.seconds + SPARE
        for mutant, outcome in self.all_of(self.todo, self.workers):
            if outcome.killer:
                self.killers[mutant.module, mutant.function][
                    outcome.killer
                ] += 1
            self.done(mutant, outcome)
        self.error = ""
        return True

    def all_of(
        self, todo: list[Any], workers: int
    ) -> Iterator[tuple[Any, Outcome]]:
        """Try some at a time; give each with its outcome, as soon as it is known."""
        waiting, running = list(reversed(todo)), {}
        while waiting or running:
            while waiting and len(running) < workers:
                job = waiting.pop()
                mine, its = os.pipe()
                process = os.fork()
                if process == 0:
                    os.close(mine)
                    self.child(job, its)
                os.close(its)
                running[mine] = job, process
            ready, _, _ = select.select(list(running), [], [])
            for mine in ready:
                job, process = running.pop(mine)
                with os.fdopen(mine, encoding="utf-8") as stream:
                    said = stream.read()
                _, status, used = os.wait4(process, 0)
                seconds = used.ru_utime + used.ru_stime
                if said:
                    killer, modules = json.loads(said)
                    yield job, Outcome(killer, seconds, modules=modules)
                else:
                    number = os.WTERMSIG(status)
                    late = number in (signal.SIGXCPU, signal.SIGALRM)
                    why = "time-out" if late else f"crash ({status})"
                    yield job, Outcome("", seconds, why)

    def child(self, job: Any, answer: int) -> None:
        """Plant one mutant, or all modules as they are; run tests until one fails; say which."""
        status = 1
        try:
            silence = os.open(os.devnull, os.O_WRONLY)
            for stream in (1, 2):
                os.dup2(silence, stream)
            limit = int(self.limit)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
            signal.alarm(20 * limit)
            told = [self.verdict(job), sorted(sys.modules)]
            with os.fdopen(answer, "w", encoding="utf-8") as stream:
                json.dump(told, stream)
            status = 0
        finally:
            os._exit(status)

    def verdict(self, job: Any) -> str:
        if isinstance(job, dict):
            for module, source in job.items():
                plant(self.living, module, source)
        else:
            try:
                plant(self.living, job.module, job.source(), [job.function])
            except RuntimeError:
                raise
            except Exception:
                return IMPORT
        for item in self.in_order(job):
            item.config.hook.pytest_runtest_protocol(
                item=item, nextitem=None
            )
            if self.failed:
                return self.failed
        return ""

    def in_order(self, job: Any) -> list[Any]:
        """What noticed it before; what noticed others in the same function; the module's own tests; the rest."""
        if isinstance(job, dict):
            return self.items
        near = self.killers[job.module, job.function]
        own = f"tests/test_{job.module}.py"

        def rank(item: Any) -> tuple[bool, int, bool]:
            name = item.nodeid
            return (
                name != self.known.get(job.key),
                -near[name],
                not name.startswith(own),
            )

        return sorted(self.items, key=rank)


# ---- what is known already -----------------------------------------------------------


def read_progress() -> dict[Any, dict[str, Any]]:
    """The outcomes of runs before this one, by mutant."""
    known = {}
    if PROGRESS.is_file():
        for line in PROGRESS.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:  # cut off
                continue
            known[tuple(entry["key"])] = entry
    return known


def still_holds(entry: dict[str, Any], now: dict[str, str]) -> bool:
    """Whether an outcome was of the code that is there now: the module's, and that of the tests that decided it."""
    tests = entry["killer"].partition("::")[0] or "all"
    return (
        not entry["wrong"]
        and entry["code"] == now[entry["key"][0]]
        and entry["tests"] == now.get(tests, "")
    )


def reasons() -> dict[Any, dict[str, str]]:
    """Why a mutant is not noticed, by mutant."""
    told = tomllib.loads(REASONS.read_text(encoding="utf-8"))
    return {
        (
            one["module"],
            one["function"],
            one["before"],
            one["after"],
            one.get("at", 1),
        ): {"verdict": verdict, "reason": one["reason"]}
        for verdict in ("equivalent", "survived")
        for one in told.get(verdict, [])
    }


def as_toml(key: tuple[str, str, str, str, int]) -> str:
    names = ("module", "function", "before", "after", "at")
    rows = [
        f"{name} = {json.dumps(value, ensure_ascii=False)}"
        for name, value in zip(names, key, strict=True)
        if name != "at" or value > 1
    ]
    return "\n".join(["[[equivalent]]", *rows, 'reason = ""'])


# ---- the result ----------------------------------------------------------------------


def summary(
    mutants: list[Mutant], outcomes: dict[Any, dict[str, Any]], told: Any
) -> dict[str, Any]:
    """What the book shows of one module."""
    keys = [mutant.key for mutant in mutants]
    lived = [key for key in keys if not outcomes[key]["killer"]]
    equivalent = [
        key
        for key in lived
        if key in told and told[key]["verdict"] == "equivalent"
    ]
    killed, judged = (
        len(keys) - len(lived),
        len(keys) - len(equivalent),
    )
    killers = Counter(
        outcomes[key]["killer"].split("[")[0]
        for key in keys
        if outcomes[key]["killer"]
    )
    return {
        "mutants": len(keys),
        "killed": killed,
        "equivalent": len(equivalent),
        "survived": len(lived) - len(equivalent),
        "score": round(100 * killed / judged, 1),
        "seconds": round(sum(outcomes[key]["seconds"] for key in keys)),
        "not_noticed": [
            {
                "function": key[1],
                "before": key[2],
                "after": key[3],
                **({"at": key[4]} if key[4] > 1 else {}),
                **told.get(
                    key,
                    {
                        "verdict": outcomes[key]["wrong"] or "survived",
                        "reason": "",
                    },
                ),
            }
            for key in lived
        ],
        "noticed_by": dict(
            sorted(killers.items(), key=lambda pair: (-pair[1], pair[0]))
        ),
    }


def write_result(modules: dict[str, Any], tests: int) -> None:
    packages = ["mutmut", "pytest", "numpy", "torch"]
    found = {name: metadata.version(name) for name in packages}
    found = {name: v.partition("+")[0] for name, v in found.items()}
    result = {
        "date": datetime.date.today().isoformat(),
        "versions": {"Python": platform.python_version(), **found},
        "tests": {"number": tests, "files": TESTS, "code": tests_hash()},
        "least": LEAST,
        "modules": modules,
    }
    part = RESULT.with_suffix(".part")
    text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    part.write_text(text, encoding="utf-8")
    part.replace(RESULT)


def complaints(
    module: str, result: dict[str, Any], mutants: list[Mutant], told: Any
) -> list[str]:
    """What has to be put right before the result is good."""
    keys = [mutant.key for mutant in mutants]
    lived = {
        (module, x["function"], x["before"], x["after"], x.get("at", 1))
        for x in result["not_noticed"]
    }
    out = [
        f"{module}: no test notices this, and no reason is given:\n{as_toml(key)}"
        for key in sorted(lived)
        if key not in told
    ]
    for key in told:
        if key[0] == module and key not in lived:
            why = (
                "a test notices it: take the reason out"
                if key in keys
                else "there is no such mutant any more"
            )
            out.append(f"{module}: {why}:\n{as_toml(key)}")
    if result["score"] < LEAST:
        out.append(
            f"{module}: {result['score']} % noticed, at least {LEAST} % is wanted"
        )
    return out


# ---- the command ---------------------------------------------------------------------


def try_all(
    mutants: list[Mutant], now: dict[str, str], *, fresh: bool
) -> tuple[dict[Any, dict[str, Any]], int]:
    """The outcome of each mutant, from this run or an earlier one, and the number of tests."""
    import pytest

    known = read_progress()
    outcomes = {
        key: entry
        for key, entry in known.items()
        if not fresh and still_holds(entry, now)
    }
    todo = [mutant for mutant in mutants if mutant.key not in outcomes]
    total, lived, began = len(mutants), 0, time.monotonic()
    print(
        f"      {total} mutants, {total - len(todo)} of them decided before",
        flush=True,
    )
    PROGRESS.parent.mkdir(exist_ok=True)
    runner = Runner(
        todo,
        {key: entry["killer"] for key, entry in known.items()},
        int(os.environ.get("WORKERS") or 2),
    )
    shown = began
    with PROGRESS.open("a", encoding="utf-8") as log:

        def done(mutant: Mutant, outcome: Outcome) -> None:
            nonlocal lived, shown
            tests = outcome.killer.partition("::")[0] or "all"
            outcomes[mutant.key] = entry = {
                "key": mutant.key,
                "killer": outcome.killer,
                "wrong": outcome.wrong,
                "seconds": round(outcome.seconds, 2),
                "code": now[mutant.module],
                "tests": now.get(tests, ""),
            }
            log.write(json.dumps(entry, ensure_ascii=False) + "\n")
            log.flush()
            lived += not outcome.killer
            if outcome.wrong:
                print(f"      {outcome.wrong}: {mutant}", flush=True)
            if time.monotonic() - shown > 10 or mutant is todo[-1]:
                shown = time.monotonic()
                left = sum(m.key not in outcomes for m in todo)
                print(
                    f"      {mutant.module}: {total - left} of {total} decided, "
                    f"{lived} not noticed, {shown - began:.0f} s",
                    flush=True,
                )

        runner.done = done
        quiet = ["-qq", "--no-header", "--no-summary", "--capture=no"]
        pytest.main(
            [*quiet, "-p", "no:cacheprovider", "-m", "not slow", *TESTS],
            plugins=[runner],
        )
    if runner.error:
        raise SystemExit(f"make mutants: {runner.error}")
    return outcomes, runner.tests


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--step", default="1/1")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("modules", nargs="*", help=" ".join(CORE))
    options = parser.parse_args(
        None if arguments is None else list(arguments)
    )
    if unknown := set(options.modules) - set(CORE):
        parser.error(f"no core module: {' '.join(sorted(unknown))}")
    chosen = [
        m for m in CORE if m in options.modules or not options.modules
    ]
    print(f"[{options.step}] mutants of {', '.join(chosen)}", flush=True)
    os.chdir(ROOT)
    os.environ["HYPOTHESIS_PROFILE"] = "few"
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    mutants = {
        m: mutants_of(m, module_path(m).read_text(encoding="utf-8"))
        for m in chosen
    }
    now = {m: hash_of(module_path(m)) for m in CORE}
    now |= {name: hash_of(name) for name in test_files()}
    now["all"] = tests_hash()
    outcomes, tests = try_all(
        [mutant for m in chosen for mutant in mutants[m]],
        now,
        fresh=options.fresh,
    )
    told, bad = reasons(), []
    stored = (
        json.loads(RESULT.read_text(encoding="utf-8"))["modules"]
        if RESULT.is_file()
        else {}
    )
    for m in chosen:
        stored[m] = {
            "code": now[m],
            **summary(mutants[m], outcomes, told),
        }
        bad += complaints(m, stored[m], mutants[m], told)
    write_result({m: stored[m] for m in CORE if m in stored}, tests)
    print("\n\n".join(bad), end="\n" if bad else "")
    print("-" * 72)
    for m in chosen:
        one = stored[m]
        print(
            f"{m:<20}{one['mutants']:>5} mutants, {one['killed']:>4} noticed, {one['equivalent']:>3} equivalent, "
            f"{one['survived']:>3} not noticed: {one['score']} %"
        )
    print(
        f"stored in {RESULT.relative_to(ROOT)}"
        + (f"; {len(bad)} to put right, see above" if bad else "")
    )
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
