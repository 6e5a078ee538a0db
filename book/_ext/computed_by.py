"""Under an equation, the function of the package that computes it.

    $$
    Y = A V
    $$ (eq:output)

    {computed-by}`attention_in_detail.attention`

Several functions stand with commas between them. The name leads to the function on the API page; the equation is the
one directly above, which has to have a label. `equations` tells other extensions which function computes what.
"""

from __future__ import annotations

from dataclasses import dataclass

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Computed:
    """An equation and the full names of the functions that compute it."""

    docname: str
    label: str
    functions: tuple[str, ...]


class ComputedBy(nodes.General, nodes.Inline, nodes.TextElement):
    """The line under an equation."""


def reference(docname: str, name: str) -> pending_xref:
    """A link to a function or class on the API page; a wrong name is a warning."""
    short = name.rpartition(".")[2]
    return pending_xref(
        "",
        nodes.literal("", short, classes=["xref", "py", "py-obj"]),
        refdomain="py",
        reftype="obj",
        reftarget=name,
        refdoc=docname,
        refexplicit=True,
        refwarn=True,
    )


class ComputedByRole(SphinxRole):
    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        names = [
            name.strip() for name in self.text.split(",") if name.strip()
        ]
        node = ComputedBy("", "computed by ", functions=names)
        node.source, node.line = self.get_source_info()
        for number, name in enumerate(names):
            if number:
                node += nodes.Text(
                    " and " if number == len(names) - 1 else ", "
                )
            node += reference(self.env.docname, name)
        return [node], []


def equation_above(paragraph: nodes.Node) -> nodes.math_block | None:
    """The labelled equation that stands directly before a paragraph."""
    siblings = paragraph.parent.children
    before = siblings[: siblings.index(paragraph)]
    while before and isinstance(before[-1], nodes.target):
        before.pop()
    found = before[-1] if before else None
    # MyST wraps a labelled formula in nothing; a directive can stand in a container.
    if (
        isinstance(found, nodes.Element)
        and not isinstance(found, nodes.math_block)
        and len(found.children) == 1
    ):
        found = found[0]
    if isinstance(found, nodes.math_block) and found.get("label"):
        return found
    return None


def read(app: Sphinx, doctree: nodes.document) -> None:
    env = app.env
    found = []
    for node in doctree.findall(ComputedBy):
        paragraph = node.parent
        equation = (
            equation_above(paragraph) if len(paragraph) == 1 else None
        )
        if equation is None:
            log.warning(
                "{computed-by} has to be a paragraph of its own, directly under an equation with a label",
                location=node,
            )
            continue
        paragraph["classes"].append("computed-by")
        found.append(
            Computed(
                env.docname, equation["label"], tuple(node["functions"])
            )
        )
    if not hasattr(env, "computed_equations"):
        env.computed_equations = {}
    env.computed_equations[env.docname] = found


def equations(env: BuildEnvironment) -> list[Computed]:
    """All of them, page by page in the order of the contents."""
    found = getattr(env, "computed_equations", {})
    return [one for docname in sorted(found) for one in found[docname]]


def forget(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    getattr(env, "computed_equations", {}).pop(docname, None)


def unwrap(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Leave plain text and links, which any kind of output knows."""
    for node in list(doctree.findall(ComputedBy)):
        node.parent.children[
            node.parent.index(node) : node.parent.index(node) + 1
        ] = node.children
        for child in node.children:
            child.parent = node.parent


def setup(app: Sphinx) -> dict[str, object]:
    app.add_node(ComputedBy)
    app.add_role("computed-by", ComputedByRole())
    app.connect("doctree-read", read)
    app.connect("doctree-resolved", unwrap)
    app.connect("env-purge-doc", forget)
    return {
        "version": "1",
        # What is kept in the environment is not merged.
        "parallel_read_safe": False,
        "parallel_write_safe": True,
    }
