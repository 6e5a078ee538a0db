"""Numbers in the text that an experiment measured: shown as written, and refused when the stored result says otherwise.

    {measured}`0.369 ± 0.007 <direction tied_accuracy>`
    {measured}`0.37 to 0.38 <direction tied_accuracy range>`

The last word, if there is a third, says what of the quantity is meant: mean, spread, median, least, most or
range. `tools/fill_measured.py` writes the numbers; nobody types them.

    {reported}`0.15`

is a number that a paper reports, and nothing here can check.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole

from attention_in_detail.insights.results import experiment, parse_measured


class MeasuredRole(SphinxRole):
    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        try:
            shown, name, key, what = parse_measured(self.text)
            stored = experiment(name)[key].text(what)
            if shown != stored:
                raise ValueError(
                    f"the text says {shown!r}, but stored is {stored!r}; run python tools/fill_measured.py"
                )
        except ValueError as error:
            told = self.inliner.reporter.error(
                f"measured: {error}", line=self.lineno
            )
            problem = self.inliner.problematic(
                self.rawtext, self.rawtext, told
            )
            return [problem], [told]
        return [nodes.inline(shown, shown, classes=["measured"])], []


class ReportedRole(SphinxRole):
    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        return [
            nodes.inline(self.text, self.text, classes=["reported"])
        ], []


def name_tables(app: Sphinx, document: nodes.document) -> None:
    """The tables of an experiment have a class, by which a narrow screen lays them out in another way."""
    for table in document.findall(nodes.table):
        head = next(table.findall(nodes.entry), None)
        if head is not None and head.astext() == "Measured":
            table["classes"].append("results")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", name_tables)
    app.add_role("measured", MeasuredRole())
    app.add_role("reported", ReportedRole())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
