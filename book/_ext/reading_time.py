"""How long a chapter takes to read: one line under its title, counted when the book is built.

A chapter is a notebook. Words are counted at the pace of a text that is read to be understood; a formula on a line of its
own, a line of code or of output and a figure cost their time each (`PACE`). Exercises, their solutions, and what stands
closed or as evidence under a statement count nothing. The sum is rounded to five minutes: no reader is known better than that.
``reading_time: false`` in ``_config.yml`` leaves the line out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx

# Seconds for one of each. 200 words a minute.
PACE = {
    "words": 0.3,
    "formulas": 15,
    "lines of code": 3,
    "lines of output": 1,
    "figures": 20,
}
STEP = 5  # minutes
NOT_READ = {"exercise", "solution", "evidence", "computed-by"}
NOT_READ |= {"sidebar", "toctree-wrapper"}
WORD = re.compile(r"\w+(?:[’'.\-]\w+)*")


class ReadingTime(nodes.General, nodes.Element):
    """The line, with its minutes."""


def is_read(node: nodes.Node) -> bool:
    if not isinstance(node, nodes.Element):
        return True
    if set(node.get("classes", ())) & NOT_READ:
        return False
    # Lists that open on demand, and what only readers of the site meet, are of extensions of the book, told by name.
    return type(node).__name__ not in (
        "FigureInWords",
        "SymbolsHere",
        "LiveBar",
        "LiveNotice",
        "exercise_node",
        "exercise_enumerable_node",
        "solution_node",
        "comment",
        "raw",
        "system_message",
    )


def walk(
    node: nodes.Node, output: bool = False
) -> Iterator[tuple[nodes.Node, bool]]:
    """What is read, each with whether it stands in an output."""
    if not is_read(node):
        return
    yield node, output
    if isinstance(
        node, nodes.literal_block | nodes.math_block | nodes.math
    ):
        return
    if isinstance(node, nodes.Element):
        output = output or "cell_output" in node.get("classes", ())
    for child in node.children:
        yield from walk(child, output)


def counted(document: nodes.Node) -> Counter[str]:
    found: Counter[str] = Counter()
    for node, output in walk(document):
        if isinstance(node, nodes.Text):
            found["words"] += len(WORD.findall(node.astext()))
        elif isinstance(node, nodes.math):
            found["words"] += 1
        elif isinstance(node, nodes.math_block):
            found["formulas"] += 1
        elif isinstance(node, nodes.image):
            found["figures"] += 1
        elif isinstance(node, nodes.literal_block):
            # A listing is code, though it comes as an output.
            printed = output and node.get("language") not in (
                "python",
                "ipython3",
            )
            kind = "lines of output" if printed else "lines of code"
            lines = node.astext().splitlines()
            found[kind] += sum(bool(line.strip()) for line in lines)
    return found


def minutes(found: Counter[str]) -> int:
    seconds = sum(number * PACE[kind] for kind, number in found.items())
    return max(STEP, STEP * round(seconds / 60 / STEP))


def exercises(document: nodes.Node) -> int:
    return sum(
        type(node).__name__ in ("exercise_node", "exercise_enumerable_node")
        for node in document.findall(nodes.Element)
    )


def add_line(app: Sphinx, doctree: nodes.document, name: str) -> None:
    if not app.config.reading_time or app.builder.format != "html":
        return
    title = next(iter(doctree.findall(nodes.title)), None)
    path = str(app.env.doc2path(name))
    if title is None or not path.endswith(".ipynb"):
        return
    line = ReadingTime(
        minutes=minutes(counted(doctree)), exercises=exercises(doctree)
    )
    title.parent.insert(title.parent.index(title) + 1, line)


def visit_line(self, node: ReadingTime) -> None:
    more = ", without the exercises" if node["exercises"] else ""
    self.body.append(
        f'<p class="reading-time">About {node["minutes"]}\N{NO-BREAK SPACE}minutes to read{more}</p>\n'
    )
    raise nodes.SkipNode


def skip(self, node: nodes.Node) -> None:
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, object]:
    app.add_config_value("reading_time", True, "html")
    app.add_node(
        ReadingTime,
        html=(visit_line, None),
        latex=(skip, None),
        text=(skip, None),
        man=(skip, None),
        texinfo=(skip, None),
    )
    # After live.py, whose button then stands below the line.
    app.connect("doctree-resolved", add_line, priority=600)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
