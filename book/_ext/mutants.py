"""The result of `make mutants`, as a table, and each change that no test noticed, with the reason.

    :::{mutants}
    :::

reads ``mutants.json`` beside the page. What stands there is refused by the tests when it is of other code.
"""

from __future__ import annotations

import json
from pathlib import Path

from docutils import nodes
from evidence_list import table
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

HEADS = ["module", "changes", "noticed", "equivalent", "missed", "score"]


def row(module: str, one: dict) -> list[list[nodes.Node]]:
    cells = [
        str(one[key])
        for key in ("mutants", "killed", "equivalent", "survived")
    ]
    return [
        [nodes.literal("", module)],
        *([nodes.Text(cell)] for cell in cells),
        [nodes.Text(f"{one['score']:.1f}\u00a0%")],
    ]


def unnoticed(module: str, one: dict) -> nodes.list_item:
    said = "equivalent" if one["verdict"] == "equivalent" else "missed"
    item = nodes.list_item()
    item += nodes.paragraph(
        "",
        "",
        nodes.literal("", f"{module}.{one['function']}"),
        nodes.Text(f", {said}. {one['reason']}"),
    )
    lines = f"- {one['before']}\n+ {one['after'] or '(left out)'}"
    item += nodes.literal_block(lines, lines, language="diff")
    return item


class MutantsDirective(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        path = (
            Path(self.env.doc2path(self.env.docname)).parent
            / "mutants.json"
        )
        self.env.note_dependency(str(path))
        stored = json.loads(path.read_text("utf8"))
        modules = stored["modules"]
        versions = ", ".join(
            f"{name} {version}"
            for name, version in stored["versions"].items()
        )
        tests = stored["tests"]["number"]
        number = {
            key: sum(one[key] for one in modules.values())
            for key in ("mutants", "killed", "equivalent", "survived")
        }
        made: list[nodes.Node] = [
            nodes.paragraph(
                "",
                f"Of {number['mutants']} changes the tests noticed {number['killed']}. {number['equivalent']} are "
                f"equivalent, and {number['survived']} were missed.",
            ),
            nodes.paragraph(
                "",
                f"Measured on {stored['date']} with the {tests} tests that look at these modules, {versions}.",
            ),
            table(
                [],
                HEADS,
                [28, 14, 14, 16, 14, 14],
                [row(module, one) for module, one in modules.items()],
            ),
        ]
        listing = nodes.bullet_list()
        listing += [
            unnoticed(module, entry)
            for module, one in modules.items()
            for entry in one["not_noticed"]
        ]
        return [*made, listing] if listing.children else made


def setup(app: Sphinx) -> dict[str, object]:
    app.add_directive("mutants", MutantsDirective)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
