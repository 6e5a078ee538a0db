"""Under each labelled statement, the tests that check it; and the page that lists all statements.

A statement is a block of sphinx-proof (definition, theorem, remark, observation and so on). A test names the
statements that it checks with ``@pytest.mark.claim("label")``. ``make test`` writes how that went to the file
`evidence_file`; without it a page says what would check each statement, and that it was not run here.

    :::{evidence}
    :::

makes the list, chapter by chapter. Where EVIDENCE_STRICT is set, the build fails when a statement has no passing
test, when a test names a statement that there is not, or when the record is of other code than this.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import test_sources
from computed_by import equations, reference
from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import docname_join, logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode
from test_sources import Test

log = logging.getLogger(__name__)

# Blocks that state nothing to be checked.
NO_CLAIM = ("example", "proof")
# What a run can say of a test, the worst first.
OUTCOMES = ("failed", "skipped", "not run", "passed")
LABEL = re.compile(r"^:label:\s*(\S+)\s*$", re.MULTILINE)


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

    def outcome(self, test: Test) -> str:
        return self.outcomes.get(f"tests/{test.key}", "not run")


def read_record(path: Path) -> Record:
    if not path.is_file():
        return Record()
    read = json.loads(path.read_text("utf8"))
    return Record(
        read["when"],
        read["code"],
        tuple(read["versions"].items()),
        {name: test["outcome"] for name, test in read["tests"].items()},
    )


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
                found |= set(LABEL.findall(path.read_text("utf8")))
            elif path.suffix == ".ipynb":
                for cell in json.loads(path.read_text("utf8"))["cells"]:
                    found |= set(LABEL.findall("".join(cell["source"])))
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
        yield (
            f"the record of the tests ({record.when}) is of other code than this: run `make test` again",
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
        outcomes = [record.outcome(test) for test in found]
        if not found:
            yield (
                f"no test says that it checks {claim.label}",
                claim.docname,
            )
        for test, outcome in zip(found, outcomes, strict=True):
            if outcome == "failed" or (
                outcome != "passed" and "passed" not in outcomes
            ):
                yield (
                    f"{claim.label} is checked by tests/{test.key}, which has {outcome}".replace(
                        "has not run", "was not run"
                    ).replace("has skipped", "was skipped"),
                    claim.docname,
                )


def judge(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """At the end of reading: complain if asked to, and see that the tests that are linked have their pages."""
    found = checks(app)
    stated = claims(env)
    for claim in stated:
        for test in found.get(claim.label, []):
            test_sources.keep(env, claim.docname, test)
    # The list repeats formulas of other pages, which Sphinx does not see when it decides where to load MathJax.
    for docname in getattr(env, "evidence_pages", ()):
        env.get_domain("math").data["has_equations"][docname] = True
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


def links(
    app: Sphinx, docname: str, record: Record, tests: list[Test]
) -> list[nodes.Node]:
    made: list[nodes.Node] = []
    for test in tests:
        if made:
            made.append(nodes.Text("; "))
        made.append(test_sources.link(app, docname, test, test.words))
        if record.outcome(test) == "failed":
            made.append(nodes.strong("", " (failed)"))
    return made


def line(
    app: Sphinx, docname: str, record: Record, tests: list[Test]
) -> nodes.paragraph:
    """The line under a statement."""
    state = worst(record, tests)
    mark, words = SAID[state]
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


class EvidenceList(nodes.General, nodes.Element):
    """The place of the list of all statements."""


class EvidenceDirective(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        if not hasattr(self.env, "evidence_pages"):
            self.env.evidence_pages = set()
        self.env.evidence_pages.add(self.env.docname)
        return [EvidenceList()]


ENDS = (".", "!", "?")
# A statement is repeated as far as the first end of a sentence beyond so many letters.
ENOUGH = 240


def statement(
    app: Sphinx, docname: str, claim: Claim
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """The title of a block and its text, or the beginning of a long one, with nothing in it that other pages point at."""
    doctree = app.env.get_doctree(claim.docname)
    for block in doctree.findall(nodes.Admonition):
        if isinstance(block, nodes.Element) and claim.label in block.get(
            "ids", []
        ):
            title = without_brackets(plain(docname, block[0].children))
            section = next(block.findall(nodes.section))
            return title, first_sentences(docname, section.children)
    return [], []


def without_brackets(title: list[nodes.Node]) -> list[nodes.Node]:
    """sphinx-proof puts a title into brackets."""
    if title and isinstance(title[0], nodes.Text):
        title[0] = nodes.Text(title[0].astext().lstrip().removeprefix("("))
    if title and isinstance(title[-1], nodes.Text):
        title[-1] = nodes.Text(
            title[-1].astext().rstrip().removesuffix(")")
        )
    return title


def first_sentences(
    docname: str, children: list[nodes.Node]
) -> list[nodes.Node]:
    """Paragraphs, formulas and lists, until enough is said and a sentence ends."""
    taken: list[nodes.Node] = []
    for node in children:
        if isinstance(node, nodes.paragraph):
            if "computed-by" in node["classes"]:
                continue
            taken.append(
                nodes.paragraph("", "", *plain(docname, node.children))
            )
        elif isinstance(node, nodes.math_block):
            # Its number stays where it is.
            taken.append(
                nodes.math_block(
                    node.rawsource,
                    node.astext(),
                    nowrap=node.get("nowrap", False),
                    label=None,
                    number=None,
                    docname=node.get("docname"),
                )
            )
        elif isinstance(node, (nodes.bullet_list, nodes.enumerated_list)):
            items = [
                nodes.list_item(
                    "", *first_sentences(docname, item.children)
                )
                for item in node.children
            ]
            taken.append(type(node)("", *items, **node.attributes))
        else:
            continue
        said = sum(len(one.astext()) for one in taken)
        if said > ENOUGH and node.astext().rstrip().endswith(ENDS):
            break
    return taken


def plain(docname: str, children: list[nodes.Node]) -> list[nodes.Node]:
    """A copy of running text for another page, without its anchors."""
    copied: list[nodes.Node] = []
    for node in children:
        if isinstance(node, nodes.Text):
            copied.append(nodes.Text(node.astext()))
        elif isinstance(node, pending_xref):
            copied.append(moved(docname, node))
        elif isinstance(node, (nodes.math, nodes.literal)):
            copied.append(node.deepcopy())
        elif isinstance(node, (nodes.emphasis, nodes.strong)):
            copied.append(
                type(node)("", "", *plain(docname, node.children))
            )
        else:
            copied.append(nodes.Text(node.astext()))
    return copied


def moved(docname: str, link: pending_xref) -> pending_xref:
    """A reference that stands on another page now, and still leads where it did."""
    copied = link.deepcopy()
    if copied["reftype"] == "doc":
        target = docname_join(link["refdoc"], link["reftarget"])
        copied["reftarget"] = f"/{target}"
    copied["refdoc"] = docname
    copied["ids"] = []  # a citation has one, which stays where it is
    return copied


def number_of(env: BuildEnvironment, claim: Claim) -> str:
    entry = env.proof_list[claim.label]
    numbers = env.toc_fignumbers.get(claim.docname, {}).get(
        entry["countertype"], {}
    )
    return ".".join(map(str, numbers.get(claim.label, ())))


def table(
    caption: list[nodes.Node],
    heads: list[str],
    widths: list[int],
    rows: list[list[list[nodes.Node]]],
) -> nodes.table:
    def row(cells: list[list[nodes.Node]]) -> nodes.row:
        return nodes.row(
            "",
            *(
                nodes.entry("", nodes.paragraph("", "", *cell))
                for cell in cells
            ),
        )

    group = nodes.tgroup("", cols=len(heads))
    group += [nodes.colspec(colwidth=width) for width in widths]
    group += nodes.thead("", row([[nodes.Text(head)] for head in heads]))
    group += nodes.tbody("", *(row(cells) for cells in rows))
    made = nodes.table("", classes=["evidence-table"])
    if caption:
        made += nodes.title("", "", *caption)
    made += group
    return made


def heading(title: str, name: str, *content: nodes.Node) -> nodes.section:
    section = nodes.section("", ids=[name], names=[name])
    section += nodes.title("", title)
    section += content
    return section


def listed(
    app: Sphinx,
    docname: str,
    claim: Claim,
    record: Record,
    tests: list[Test],
) -> nodes.container:
    """A statement as the list shows it: where it stands, what it says, what checks it."""
    title, says = statement(app, docname, claim)
    name = f"{claim.kind.title()} {number_of(app.env, claim)}".strip()
    to_claim = make_refnode(
        app.builder,
        docname,
        claim.docname,
        claim.label,
        nodes.inline("", name),
    )
    head = nodes.paragraph("", "", to_claim, classes=["claim-name"])
    if title:
        head += [nodes.Text(" "), nodes.strong("", "", *title)]
    return nodes.container(
        "",
        head,
        *says,
        line(app, docname, record, tests),
        classes=["claim"],
    )


def of_the_run(
    app: Sphinx, record: Record, stated: list[Claim], found: dict
) -> list[nodes.Node]:
    """In words: how many statements, how many are confirmed, when, with what."""
    states = [worst(record, found.get(claim.label, [])) for claim in stated]
    number = len(stated)
    if not record.when:
        said = f"This book states {number} things in labelled blocks. "
        said += "Their tests were not yet run where these pages were built. With a copy of the book, "
        return [
            nodes.paragraph(
                "",
                said,
                nodes.literal("", "make test"),
                nodes.Text(" runs them."),
            )
        ]
    passed = states.count("passed")
    said = (
        f"This book states {number} things in labelled blocks. In the last run of the tests, "
        + (
            "every one of them was confirmed."
            if passed == number
            else f"{passed} were confirmed and {number - passed} were not."
        )
    )
    versions = ", ".join(
        f"{name} {version}" for name, version in record.versions
    )
    told = [
        nodes.paragraph("", said),
        nodes.paragraph("", f"The run: {record.when}, with {versions}."),
    ]
    code = os.environ.get("EVIDENCE_CODE", "")
    if record.code != code:
        told.append(
            nodes.paragraph(
                "",
                "Since that run something in the book has changed. What follows is what the run said.",
            )
        )
    return told


def build_list(app: Sphinx, docname: str) -> list[nodes.Node]:
    env, record, found = app.env, record_of(app), checks(app)
    stated = claims(env)
    made = of_the_run(app, record, stated, found)
    by_page: dict[str, list[Claim]] = {}
    for claim in stated:
        by_page.setdefault(claim.docname, []).append(claim)

    overview = []
    sections = []
    for number, (page, on_page) in enumerate(by_page.items(), start=1):
        title = env.titles[page].astext()
        name = f"evidence-{number}"
        blocks = [
            listed(app, docname, claim, record, found.get(claim.label, []))
            for claim in on_page
        ]
        sections.append(heading(title, name, *blocks))
        confirmed = sum(
            worst(record, found.get(claim.label, [])) == "passed"
            for claim in on_page
        )
        to_section = nodes.reference("", title, refid=name, internal=True)
        overview.append(
            [
                [to_section],
                [nodes.Text(str(len(on_page)))],
                [
                    nodes.Text(
                        str(confirmed) if record.when else "not run here"
                    )
                ],
            ]
        )
    made.append(
        table(
            [], ["chapter", "claims", "confirmed"], [60, 20, 20], overview
        )
    )
    return [*made, *sections]


class FormulaList(nodes.General, nodes.Element):
    """The place of the list of equations and the functions that compute them."""


class FormulaDirective(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        return [FormulaList()]


def build_formulas(app: Sphinx, docname: str) -> list[nodes.Node]:
    env = app.env
    domain = env.get_domain("math")
    rows = []
    order = {page: number for number, page in enumerate(reading_order(env))}
    for one in sorted(
        equations(env), key=lambda one: order.get(one.docname, len(order))
    ):
        # Resolved by its domain, so that the number is the one of the chapter.
        to_equation = domain.resolve_xref(
            env,
            docname,
            app.builder,
            "eq",
            one.label,
            pending_xref(""),
            nodes.inline(),
        )
        functions: list[nodes.Node] = []
        for name in one.functions:
            if functions:
                functions.append(nodes.Text(", "))
            functions.append(reference(docname, name))
        rows.append(
            [
                [nodes.Text(env.titles[one.docname].astext())],
                [to_equation],
                functions,
            ]
        )
    return [
        table(
            [], ["chapter", "equation", "computed by"], [45, 15, 40], rows
        )
    ]


class Evidence(SphinxPostTransform):
    """Writes lines and lists: when all pages are read, and before the references of this one are resolved."""

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
        for place in list(self.document.findall(EvidenceList)):
            place.replace_self(build_list(app, docname))
        for place in list(self.document.findall(FormulaList)):
            place.replace_self(build_formulas(app, docname))


def setup(app: Sphinx) -> dict[str, object]:
    app.add_config_value("evidence_file", "_build/evidence.json", "html")
    app.add_config_value(
        "evidence_strict", bool(os.environ.get("EVIDENCE_STRICT")), ""
    )
    for node in (EvidenceList, FormulaList):
        app.add_node(node)
    app.add_directive("evidence", EvidenceDirective)
    app.add_directive("computed-equations", FormulaDirective)
    app.add_post_transform(Evidence)
    app.connect("env-updated", judge)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
