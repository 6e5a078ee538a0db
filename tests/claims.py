"""Which tests check which claim, and how that went: the pytest plugin behind the Evidence page.

``@pytest.mark.claim("thm-permutation")`` says that a test checks the statement with that label.
Loaded with ``-p tests.claims``, the plugin writes what it saw to the file that ``--evidence`` names.
A run of some tests alone would erase the evidence of the others, so nothing is written unasked.
"""

from __future__ import annotations

import json
import os
import platform
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

import pytest

PACKAGES = ["numpy", "torch", "array-api-compat", "matplotlib"]
STARTED, SEEN = pytest.StashKey(), pytest.StashKey()
# The worst of several cases or stages is what a test is said to have done.
WORST = ["failed", "skipped", "passed"]


def pytest_addoption(parser):
    parser.addoption(
        "--evidence",
        metavar="FILE",
        help="write which claims were checked, and how that went",
    )


def pytest_configure(config):
    config.stash[STARTED] = datetime.now(timezone.utc)
    config.stash[SEEN] = {}
    config.pluginmanager.register(Recorder(config.stash[SEEN]))


def labels(item):
    return [
        label
        for mark in item.iter_markers("claim")
        for label in mark.args
    ]


def pytest_collection_modifyitems(items):
    for item in items:
        # With xdist, properties are what travels with a report.
        item.user_properties += [("claim", label) for label in labels(item)]


class Recorder:
    """Keeps, for each test of a claim, the worst that happened to any of its cases."""

    def __init__(self, seen):
        self.seen = seen

    def pytest_runtest_logreport(self, report):
        claims = [
            value for key, value in report.user_properties if key == "claim"
        ]
        if not claims or (report.when != "call" and report.passed):
            return
        # A test that is expected to fail shows nothing, whether it does or not.
        outcome = (
            "failed" if hasattr(report, "wasxfail") else report.outcome
        )
        name = report.nodeid.split("[")[0]
        test = self.seen.setdefault(
            name, {"claims": [], "outcome": "passed", "cases": 0}
        )
        test["claims"] = sorted({*test["claims"], *claims})
        test["cases"] += report.when == "call"
        test["outcome"] = min(test["outcome"], outcome, key=WORST.index)


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
    record = {
        "when": f"{session.config.stash[STARTED]:%Y-%m-%d %H:%M} UTC",
        "code": os.environ.get("EVIDENCE_CODE", ""),
        "versions": versions(),
        "tests": dict(sorted(session.config.stash[SEEN].items())),
    }
    # Written beside and moved: a run that is cut off leaves the last record whole.
    written = path.with_suffix(".part")
    written.write_text(
        json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf8"
    )
    written.replace(path)
