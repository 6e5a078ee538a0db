"""The page that lists all statements of the book, and the one that lists its equations.

    :::{evidence}
    :::

repeats each labelled statement, chapter by chapter, with the tests that check it and what the last run said.

    :::{computed-equations}
    :::

lists the numbered equations that a function of the package computes.

    :::{stored-measurements}
    :::

lists what is measured once and stored, and whether the code that measured it is still that of the book.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

import provenance
from computed_by import equations, reference
from docutils import nodes
from evidence import (
    Claim,
    Record,
    checks,
    claims,
    line,
    reading_order,
    record_of,
    rests_on_stored,
    worst,
)
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import docname_join
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode
from test_sources import Test


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
    kept = sum(
        rests_on_stored(found.get(claim.label, [])) for claim in stated
    )
    said += (
        f" For {number - kept} of them something was computed again. The other {kept} were compared with what "
        "was measured once and stored, as the list says under each."
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
                f"It does not speak for these pages: {record.doubt or 'something in the book has changed since'}. "
                "What follows is what the run said.",
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


class StoredDirective(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        root = Path(self.env.srcdir)
        rows = []
        for one in provenance.stored(root):
            when = one.date
            if one.again:
                when += f", first seed again {one.again}"
            rows.append(
                [
                    [nodes.literal("", one.name)],
                    # A date stays on one line.
                    [
                        nodes.Text(
                            when.replace("-", "\N{NON-BREAKING HYPHEN}")
                        )
                    ],
                    [
                        nodes.Text(
                            "the same" if one.same_code else "has changed"
                        )
                    ],
                ]
            )
        return [
            table(
                [],
                ["script", "measured", "code"],
                [35, 35, 30],
                rows,
            )
        ]


class Lists(SphinxPostTransform):
    """Writes the lists: when all pages are read, and before the references of this one are resolved."""

    default_priority = 5

    def run(self, **given: object) -> None:
        app, docname = self.app, self.env.docname
        for place in list(self.document.findall(EvidenceList)):
            place.replace_self(build_list(app, docname))
        for place in list(self.document.findall(FormulaList)):
            place.replace_self(build_formulas(app, docname))


def load_mathjax(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """The list repeats formulas of other pages, which Sphinx does not see when it decides where to load MathJax."""
    for docname in getattr(env, "evidence_pages", ()):
        env.get_domain("math").data["has_equations"][docname] = True
    return []


def setup(app: Sphinx) -> dict[str, object]:
    for node in (EvidenceList, FormulaList):
        app.add_node(node)
    app.add_directive("evidence", EvidenceDirective)
    app.add_directive("computed-equations", FormulaDirective)
    app.add_directive("stored-measurements", StoredDirective)
    app.add_post_transform(Lists)
    app.connect("env-updated", load_mathjax)
    return {
        "version": "1",
        # What is kept in the environment is not merged.
        "parallel_read_safe": False,
        "parallel_write_safe": True,
    }
