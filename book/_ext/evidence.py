"""Under each labelled statement, the tests that check it, and a strict build that refuses what has none.

A statement is a block of sphinx-proof (definition, theorem, remark, observation and so on). A test names the
statements that it checks with ``@pytest.mark.claim("label")``. ``make test`` writes how that went to the file
`evidence_file`; without it a page says what would check each statement, and that it was not run here.

Where EVIDENCE_STRICT is set, the build fails when a statement has no passing test, when a test names a statement
that there is not, or when the record cannot speak for this code. `evidence_list` makes the page of all statements.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import test_sources
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from test_sources import Test

log = logging.getLogger(__name__)

# Blocks that state nothing to be checked.
NO_CLAIM = ("example", "proof")
# What a run can say of a test.
HAS = {
    "passed": "has passed",
    "failed": "has failed",
    "skipped": "was skipped",
    "not run": "was not run",
}
STATED = re.compile(
    r"\{prf:\w+\}[^\n]*\n(?:[ \t]*:(?!label)[^\n]*\n)*[ \t]*:label:[ \t]*(\S+)"
)


@dataclass(frozen=True)
class Claim:
    """A labelled statement, and where it stands."""

    label: str
    docname: str
    kind: str

    @property
    def anonymous(self) -> bool:
        """Whether the label is one that sphinx-proof made up."""
        return re.fullmatch(rf"{self.kind}-\d+", self.label) is not None


@dataclass(frozen=True)
class Record:
    """What the last run of the tests wrote down; empty if there was none."""

    when: str = ""
    code: str = ""
    versions: tuple[tuple[str, str], ...] = ()
    outcomes: dict[str, str] = field(default_factory=dict)
    marks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    doubt: str = ""

    def outcome(self, test: Test) -> str:
        return self.outcomes.get(f"tests/{test.key}", "not run")


def read_record(path: Path) -> Record:
    """The record of the last run. One that is damaged, or of an earlier form, is none: there is always a book."""
    try:
        read = json.loads(path.read_text("utf8"))
        tests = read["tests"].items()
        return Record(
            read["when"],
            read["code"],
            tuple(read["versions"].items()),
            {name: test["outcome"] for name, test in tests},
            {name: tuple(test["claims"]) for name, test in tests},
            read["doubt"],
        )
    except FileNotFoundError:
        return Record()
    except (ValueError, LookupError, TypeError, AttributeError):
        log.info("%s cannot be read: as if the tests were not run", path)
        return Record()


def record_of(app: Sphinx) -> Record:
    return read_record(Path(app.confdir) / app.config.evidence_file)


def claims(env: BuildEnvironment) -> list[Claim]:
    """Every statement of the pages that are built, in the order of the book."""
    order = {
        docname: number for number, docname in enumerate(reading_order(env))
    }
    found = [
        Claim(label, entry["docname"], entry["realtype"])
        for label, entry in getattr(env, "proof_list", {}).items()
        if entry["realtype"] not in NO_CLAIM
    ]
    # On one page they are read in their order, and Python's sort keeps it.
    return sorted(
        found, key=lambda claim: order.get(claim.docname, len(order))
    )


def reading_order(env: BuildEnvironment) -> Iterator[str]:
    """The pages, as the table of contents brings them."""
    todo = [env.config.root_doc]
    while todo:
        docname = todo.pop(0)
        yield docname
        todo = [*env.toctree_includes.get(docname, []), *todo]


def checks(app: Sphinx) -> dict[str, list[Test]]:
    """The tests of each label."""
    found: dict[str, list[Test]] = {}
    for test in test_sources.tests_of(app).values():
        for label in test.claims:
            found.setdefault(label, []).append(test)
    return found


def labels_left_out(app: Sphinx) -> set[str]:
    """Labels of pages that are there, but not in the table of contents: a course may leave chapters out."""
    found: set[str] = set()
    for folder in ("book", "notebooks"):
        for path in sorted((Path(app.srcdir) / folder).glob("*")):
            docname = (
                path.relative_to(app.srcdir).with_suffix("").as_posix()
            )
            if docname in app.env.found_docs:
                continue
            if path.suffix == ".md":
                found |= set(STATED.findall(path.read_text("utf8")))
            elif path.suffix == ".ipynb":
                for cell in json.loads(path.read_text("utf8"))["cells"]:
                    if cell["cell_type"] == "markdown":
                        text = "".join(cell["source"])
                        found |= set(STATED.findall(text))
    return found


def faults(
    stated: list[Claim],
    tests: dict[str, Test],
    left_out: set[str],
    record: Record,
    code: str,
) -> Iterator[tuple[str, str | None]]:
    """(what is wrong, the page where) for each fault of the evidence."""
    if not record.when:
        yield (
            "there is no record of a run of the tests: run `make test` first",
            None,
        )
        return
    if record.code != code:
        why = record.doubt or "it is of other code than this"
        yield (
            f"the record of the tests ({record.when}) proves nothing here: {why}; run `make test` again",
            None,
        )
    # What was run has to be what was read: a mark under another name would else be red unseen.
    marks = {
        f"tests/{test.key}": set(test.claims) for test in tests.values()
    }
    for name, labels in record.marks.items():
        if marks.get(name) != set(labels):
            yield (
                f"{name} ran as a check of {', '.join(labels)}, which its lines do not say",
                None,
            )
    known = {claim.label for claim in stated}
    by_label: dict[str, list[Test]] = {}
    for test in tests.values():
        for fault in test.faults:
            yield f"tests/{test.file}, {fault}", None
        for label in test.claims:
            by_label.setdefault(label, []).append(test)
            if label not in known | left_out:
                yield (
                    f"tests/{test.key} names a claim that no page states: {label}",
                    None,
                )
    for claim in stated:
        if claim.anonymous:
            yield f"a {claim.kind} has no label of its own", claim.docname
            continue
        found = by_label.get(claim.label, [])
        if all(test.slow for test in found):
            yield (
                f"no test of an ordinary run says that it checks {claim.label}",
                claim.docname,
            )
        for test in found:
            outcome = record.outcome(test)
            if outcome != "passed" and not (
                test.slow and outcome == "not run"
            ):
                yield (
                    f"{claim.label} is checked by tests/{test.key}, which {HAS[outcome]}",
                    claim.docname,
                )


def judge(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """At the end of reading: complain if asked to, and see that the tests that are linked have their pages."""
    found = checks(app)
    stated = claims(env)
    for claim in stated:
        for test in found.get(claim.label, []):
            test_sources.keep(env, claim.docname, test)
    if app.config.evidence_strict:
        for fault, docname in faults(
            stated,
            test_sources.tests_of(app),
            labels_left_out(app),
            record_of(app),
            os.environ.get("EVIDENCE_CODE", ""),
        ):
            log.warning(fault, location=docname, type="evidence")
    return []


def worst(record: Record, tests: list[Test]) -> str:
    """What to say of a statement as a whole: a failure counts, and one that passed is enough."""
    outcomes = {record.outcome(test) for test in tests}
    if "failed" in outcomes:
        return "failed"
    return "passed" if "passed" in outcomes else "not run"


SAID = {
    "passed": ("\u2713 ", "Checked by"),
    "failed": ("\u2717 ", "NOT confirmed by the last run of"),
    "not run": ("", "Not yet run here; it is checked by"),
}
# Where every test of an ordinary run compares with what was measured before, and measures nothing again.
STORED = "Agrees with what was measured and stored:"


def rests_on_stored(tests: list[Test]) -> bool:
    """Whether no ordinary run measures again what is stated."""
    ordinary = [test for test in tests if not test.slow]
    return bool(ordinary) and all(test.stored for test in ordinary)


def links(
    app: Sphinx, docname: str, record: Record, tests: list[Test]
) -> list[nodes.Node]:
    made: list[nodes.Node] = []
    for test in tests:
        if made:
            made.append(nodes.Text("; "))
        made.append(test_sources.link(app, docname, test, test.words))
        outcome = record.outcome(test)
        if outcome == "failed":
            made.append(nodes.strong("", " (failed)"))
        elif record.when and test.slow:
            made.append(nodes.Text(" (a slow check, run apart)"))
        elif record.when and outcome != "passed":
            made.append(nodes.Text(f" ({outcome})"))
    return made


def line(
    app: Sphinx, docname: str, record: Record, tests: list[Test]
) -> nodes.paragraph:
    """The line under a statement."""
    state = worst(record, tests)
    mark, words = SAID[state]
    if state == "passed" and rests_on_stored(tests):
        words = STORED
    if not tests:
        mark, words = "", "No test checks this yet."
    return nodes.paragraph(
        "",
        "",
        nodes.inline("", mark + words, classes=["evidence-verdict"]),
        nodes.Text(" " if tests else ""),
        *links(app, docname, record, tests),
        classes=["evidence", f"evidence-{state.replace(' ', '-')}"],
    )


class Evidence(SphinxPostTransform):
    """Writes the lines: when all pages are read, so that a block knows whether it states something."""

    default_priority = 5

    def run(self, **given: object) -> None:
        app, docname = self.app, self.env.docname
        stated = {claim.label for claim in claims(self.env)}
        record, found = record_of(app), checks(app)
        for block in list(self.document.findall(nodes.Admonition)):
            if (
                isinstance(block, nodes.Element)
                and block.get("label") in stated
            ):
                block += line(
                    app, docname, record, found.get(block["label"], [])
                )


def setup(app: Sphinx) -> dict[str, object]:
    app.add_config_value("evidence_file", "_build/evidence.json", "html")
    app.add_config_value(
        "evidence_strict", bool(os.environ.get("EVIDENCE_STRICT")), ""
    )
    app.add_post_transform(Evidence)
    app.connect("env-updated", judge)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
