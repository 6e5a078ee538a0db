"""Which tests check which claim, and how that went: the pytest plugin behind the Evidence page.

``@pytest.mark.claim("thm-permutation")`` says that a test checks the statement with that label.
Loaded with ``-p tests.claims``, the plugin writes what it saw to the file that ``--evidence`` names.
A run of some tests alone would erase the evidence of the others, so nothing is written unasked.

The record says of which state of the code it is only when that is known: the run was whole, it tested
the package beside these tests, and nothing changed meanwhile. Otherwise it says why not, and a
strict build refuses it.
"""

from __future__ import annotations

import importlib.util
import json
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import pytest

from tools.fingerprint import of_claims

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ["numpy", "torch", "array-api-compat", "matplotlib"]
STARTED, CODE, RECORDER = (pytest.StashKey() for _ in range(3))
# Selections that leave out no ordinary test of a claim.
WHOLE = ("not slow", "claim and not slow")
# The worst of several cases or stages is what a test is said to have done.
WORST = ["failed", "skipped", "passed"]


def pytest_addoption(parser):
    parser.addoption(
        "--evidence",
        metavar="FILE",
        help="write which claims were checked, and how that went",
    )


def pytest_configure(config):
    config.stash[STARTED] = datetime.now(UTC)
    if config.getoption("--evidence"):
        config.stash[CODE] = of_claims(ROOT)
        config.stash[RECORDER] = Recorder()
        config.pluginmanager.register(config.stash[RECORDER])


def labels(item):
    return [
        label for mark in item.iter_markers("claim") for label in mark.args
    ]


def pytest_collection_modifyitems(items):
    for item in items:
        # With xdist, properties are what travels with a report.
        item.user_properties += [("claim", label) for label in labels(item)]


class Recorder:
    """Keeps, for each test of a claim, the worst that happened to any of its cases."""

    def __init__(self):
        self.seen = {}
        self.failed = set()

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.split("[")[0]
        # A test that is expected to fail shows nothing, whether it does or not.
        failed = report.failed or hasattr(report, "wasxfail")
        if failed:
            self.failed.add(name)
        claims = [
            value for key, value in report.user_properties if key == "claim"
        ]
        if not claims or (report.when != "call" and report.passed):
            return
        outcome = "failed" if failed else report.outcome
        test = self.seen.setdefault(
            name, {"claims": [], "outcome": "passed", "cases": 0}
        )
        test["claims"] = sorted({*test["claims"], *claims})
        test["cases"] += report.when == "call"
        test["outcome"] = min(test["outcome"], outcome, key=WORST.index)

    def tests(self):
        # A case that took its whole process with it is reported without its claims.
        for name in self.failed & set(self.seen):
            self.seen[name]["outcome"] = "failed"
        return dict(sorted(self.seen.items()))


def doubt(session):
    """Why the record cannot speak for the state of the code, in a few words; empty if it can."""
    option = session.config.option
    found = importlib.util.find_spec("attention_in_detail")
    if found is None or not Path(found.origin).resolve().is_relative_to(
        ROOT / "src"
    ):
        return "another copy of the package was tested"
    parts = [option.keyword, option.deselect, option.maxfail]
    parts += [getattr(option, "lf", False), getattr(option, "stepwise", 0)]
    if (
        any(parts)
        or option.markexpr not in WHOLE
        or session.config.args != ["tests"]
    ):
        return "only a part of the tests was run"
    if session.exitstatus not in (
        pytest.ExitCode.OK,
        pytest.ExitCode.TESTS_FAILED,
    ):
        return "the run was not finished"
    if of_claims(ROOT) != session.config.stash[CODE]:
        return "something changed while the tests ran"
    return ""


def versions():
    found = {"Python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name).split("+")[0]
        except metadata.PackageNotFoundError:
            continue
    return found


def pytest_sessionfinish(session):
    name = session.config.getoption("--evidence")
    if not name or hasattr(session.config, "workerinput"):
        return
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    why = doubt(session)
    record = {
        "when": f"{session.config.stash[STARTED]:%Y-%m-%d %H:%M} UTC",
        "code": "" if why else session.config.stash[CODE],
        "doubt": why,
        "versions": versions(),
        "tests": session.config.stash[RECORDER].tests(),
    }
    # Written beside and moved: a run that is cut off leaves the last record whole.
    written = path.with_suffix(".part")
    written.write_text(
        json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf8"
    )
    written.replace(path)
