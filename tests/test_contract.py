"""The contract of a chapter, rule by rule, on every notebook; and each rule on a page that breaks it.

How a notebook is stored (byte by byte, without times) is checked by test_house.py; what re-running
it gives, by conftest.py at the root.
"""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import (
    new_code_cell,
    new_markdown_cell,
    new_notebook,
    new_output,
)

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = {
    path.stem: nbformat.read(path, as_version=4).cells for path in NOTEBOOKS
}
LONGEST_LINE = 76  # what a page shows without a scroll bar
# Which labels a block of a kind may have.
FORMS = {
    "prf:definition": "def-",
    "prf:theorem": "thm-",
    "prf:proposition": "prop-",
    "prf:remark": "rem-",
    "prf:observation": "obs-",
    "exercise": "ex-",
    "solution": "sol-",
}
OPENING = re.compile(r"^(:{3,}|`{3,})\{([\w:-]+)\} *(.*)$")


# ---- reading a page ----


def code(cells):
    return [cell for cell in cells if cell.cell_type == "code"]


def markdown(cells):
    return "\n\n".join(
        cell.source for cell in cells if cell.cell_type == "markdown"
    )


def prose(text):
    """A page without its fenced code, in which # is a comment."""
    return re.sub(
        r"^```(?!\{).*?^```$", "", text, flags=re.MULTILINE | re.DOTALL
    )


def headings(cells):
    return re.findall(r"^(#+) (.+?) *$", prose(markdown(cells)), re.M)


def section(cells, title):
    """What stands below a heading of level two, or None."""
    found = re.search(
        rf"^## {re.escape(title)} *$(.*?)(?=^## |\Z)",
        prose(markdown(cells)),
        re.MULTILINE | re.DOTALL,
    )
    return found and found[1]


def blocks(cells):
    """(kind, argument, options, body) for each directive, in order."""
    found, lines = [], markdown(cells).splitlines()
    for n, line in enumerate(lines):
        opening = OPENING.match(line)
        if opening is None:
            continue
        fence, kind, argument = opening.groups()
        options, body = {}, []
        for inner in lines[n + 1 :]:
            if inner.strip() == fence:
                break
            option = re.match(r"^:([\w-]+): *(.*)$", inner)
            if option and not any(map(str.strip, body)):
                options[option[1]] = option[2].strip()
            else:
                body.append(inner)
        found.append((kind, argument, options, "\n".join(body)))
    return found


def figure(cell):
    return cell.metadata.get("mystnb", {}).get("figure", {})


def printed(cells):
    """Every text that the outputs hold, pictures' alternatives too."""
    for cell in code(cells):
        for output in cell.outputs:
            yield output.get("text", "")
            for kind, data in output.get("data", {}).items():
                if kind.startswith("text/"):
                    yield data
            for told in output.get("metadata", {}).values():
                yield str(told.get("alt", "")) if told else ""


def labels(cells):
    """(kind, label) for each block, formula, figure and place that has one."""
    found = [
        (kind, options["label"])
        for kind, _, options, _ in blocks(cells)
        if "label" in options
    ]
    text = markdown(cells)
    found += [
        ("formula", label)
        for label in re.findall(r"^\$\$ *\(([^)]+)\)$", text, re.M)
    ]
    found += [
        ("place", label)
        for label in re.findall(r"^\(([^)\s]+)\)=$", text, re.M)
    ]
    found += [
        ("figure", figure(cell)["name"])
        for cell in code(cells)
        if figure(cell).get("name")
    ]
    return found


def package_functions():
    """The names of all functions at the top of a module of the package."""
    return {
        node.name
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.parse(path.read_text("utf8")).body
        if isinstance(node, ast.FunctionDef)
    }


PACKAGE_FUNCTIONS = package_functions()


# ---- the rules: each gives the faults of a page ----


def one_title(cells):
    titles = [title for level, title in headings(cells) if level == "#"]
    starts = cells[0].source.startswith("# ")
    return [] if len(titles) == 1 and starts else [f"titles: {titles}"]


def objectives_first(cells):
    after_title = cells[0].source.partition("\n")[2].strip()
    opening = OPENING.match(after_title.partition("\n")[0])
    if opening is None or opening[2] != "admonition":
        return ["no admonition below the title"]
    _, _, options, body = blocks(cells)[0]
    points = re.findall(r"^- ", body, re.M)
    faults = []
    if options.get("class") != "objectives":
        faults.append(f"its class is {options.get('class')}")
    if not 2 <= len(points) <= 4:
        faults.append(f"{len(points)} objectives")
    return faults


def picture_before_formula(cells):
    for cell in cells:
        if cell.cell_type == "markdown":
            shown = re.search(
                r"^(\$\$|\\begin\{|`{3,}\{math|:{3,}\{math)",
                cell.source,
                re.M,
            )
            if shown:
                return ["a displayed formula comes before any figure"]
        elif "show_source(" in cell.source:
            return ["a listing comes before any figure"]
        elif figure(cell):
            return []
    return ["no figure"]


def figures_are_named(cells):
    faults = []
    for cell in code(cells):
        drawn = any(
            kind.startswith("image/")
            for output in cell.outputs
            for kind in output.get("data", {})
        )
        if drawn != bool(figure(cell)):
            faults.append(f"{cell.source[:40]!r}: figure without data")
        elif drawn and not (
            figure(cell).get("caption", "").strip()
            and figure(cell).get("name")
        ):
            faults.append(f"{cell.source[:40]!r}: no caption or no name")
    return faults


def labels_have_their_form(cells):
    faults = []
    for kind, label in labels(cells):
        form = {"formula": "eq:", "figure": "fig-", "place": ""}.get(
            kind, FORMS.get(kind)
        )
        if form is None or not re.fullmatch(
            rf"{form}[a-z0-9]+(-[a-z0-9]+)*", label
        ):
            faults.append(f"{kind} {label}")
    return faults


def blocks_have_labels(cells):
    return [
        f"{kind} {argument}"
        for kind, argument, options, _ in blocks(cells)
        if (kind.startswith("prf:") or kind in FORMS)
        and kind != "prf:proof"
        and not options.get("label")
    ]


def proofs_are_blocks(cells):
    return re.findall(r"^\*Proof.*", markdown(cells), re.M)


def formulas(cells):
    """The source of each displayed formula."""
    return re.findall(
        r"^\$\$$(.*?)^\$\$", markdown(cells), re.MULTILINE | re.DOTALL
    )


def signs_keep_their_room(cells):
    """A sign that opens a line of a formula has something before it, if only {}: else it is set as that of a number."""
    return [
        line
        for formula in formulas(cells)
        for line in formula.splitlines()
        if re.match(r"\s*&?\s*(\\q?quad\s*)+[-+]", line)
    ]


def headers_have_words(cells):
    """The header cells of tables: a formula alone has no name for a screen reader."""
    return [
        header
        for row in re.findall(
            r"^\|(.*)\|\n\|[ :|-]+\|$", prose(markdown(cells)), re.M
        )
        for header in row.split("|")
        if header.strip()
        and not re.search(r"[A-Za-z]{2}", re.sub(r"\$[^$]*\$", "", header))
    ]


def short_lines(cells):
    return [
        f"{len(line)}: {line}"
        for cell in code(cells)
        for line in cell.source.splitlines()
        if len(line) > LONGEST_LINE
    ]


def no_copy_of_the_package(cells):
    return [
        node.name
        for cell in code(cells)
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.FunctionDef)
        and node.name in PACKAGE_FUNCTIONS
    ]


def exercises_are_solved(cells):
    found = blocks(cells)
    asked = [
        options.get("label")
        for kind, _, options, _ in found
        if kind == "exercise"
    ]
    solved = [
        argument
        for kind, argument, options, body in found
        if kind == "solution"
        and options.get("class") == "dropdown"
        and body.strip()
    ]
    faults = [] if len(asked) >= 3 else [f"{len(asked)} exercises"]
    if sorted(map(str, asked)) != sorted(solved):
        faults.append(f"asked {asked}, solved in a dropdown {solved}")
    return faults


def what_can_go_wrong(cells):
    return (
        []
        if (section(cells, "What can go wrong") or "").strip()
        else ["no such section"]
    )


def what_to_read_next(cells):
    text = section(cells, "Read next")
    if text is None:
        return ["no such section"]
    return [] if re.search(r"\{cite:[tp]\}`\w+", text) else ["no citation"]


def parts_in_order(cells):
    """What can go wrong, then exercises, then what to read: the last three."""
    titles = [title for level, title in headings(cells) if level == "##"]
    last = ["What can go wrong", "Exercises", "Read next"]
    return [] if titles[-3:] == last else [f"it ends with {titles[-3:]}"]


def pictures_have_words(cells):
    return [
        f"{cell.source[:40]!r}: {kind}"
        for cell in code(cells)
        for output in cell.outputs
        for kind in output.get("data", {})
        if kind.startswith("image/")
        and not output.metadata.get(kind, {}).get("alt", "").strip()
    ]


# A place on a machine, or a file of the kernel.
PLACE = re.compile(
    r"(?<![\w.:/~-])/(?:home|opt|root|srv|tmp|Users|usr|var|work)/\w"
    r"|\b[A-Z]:\\\w|site-packages|ipykernel_"
)
# Zero with a minus; −0.76 is none.
MINUS_ZERO = re.compile(r"(?<![\w.])[-−]0(?:\.0*)?(?![\w.])")


def outputs_name_no_place(cells):
    return [
        found[0]
        for text in printed(cells)
        for found in PLACE.finditer(text)
    ]


def outputs_have_no_minus_zero(cells):
    return [
        text[max(0, found.start() - 20) : found.end()]
        for text in printed(cells)
        for found in MINUS_ZERO.finditer(text)
    ]


def imports_first(cells):
    """And what some imports read: names of the environment, set to a text."""
    first = code(cells)[0].source
    return [
        ast.unparse(node)
        for node in ast.parse(first).body
        if not isinstance(node, ast.Import | ast.ImportFrom)
        and not re.fullmatch(
            r"os\.environ\['\w+'\] = '\w+'", ast.unparse(node)
        )
    ]


def imports_nowhere_else(cells):
    return [
        ast.unparse(node)
        for cell in code(cells)[1:]
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]


def run_from_top_to_bottom(cells):
    counts = [cell.execution_count for cell in code(cells)]
    wanted = list(range(1, len(counts) + 1))
    return [] if counts == wanted else [f"execution counts {counts}"]


RULES = [
    one_title,
    objectives_first,
    picture_before_formula,
    figures_are_named,
    labels_have_their_form,
    blocks_have_labels,
    proofs_are_blocks,
    signs_keep_their_room,
    headers_have_words,
    short_lines,
    no_copy_of_the_package,
    exercises_are_solved,
    what_can_go_wrong,
    what_to_read_next,
    parts_in_order,
    pictures_have_words,
    outputs_name_no_place,
    outputs_have_no_minus_zero,
    imports_first,
    imports_nowhere_else,
    run_from_top_to_bottom,
]
each_rule = pytest.mark.parametrize(
    "rule", RULES, ids=lambda rule: rule.__name__
)


def labels_used_twice(pages):
    counts = Counter(
        label for cells in pages.values() for _, label in labels(cells)
    )
    return [label for label, n in counts.items() if n > 1]


# ---- the chapters ----


@pytest.mark.parametrize("name", PAGES)
@each_rule
def test_chapter_keeps_the_contract(rule, name):
    assert rule(PAGES[name]) == []


def test_no_label_is_used_twice_in_the_book():
    prose_pages = {
        path.stem: [new_markdown_cell(path.read_text("utf8"))]
        for path in (ROOT / "book").glob("*.md")
    }
    assert labels_used_twice(PAGES | prose_pages) == []


def test_part_one_is_there_and_its_labels_are_read():
    assert len(PAGES) >= 7
    kinds = Counter(
        kind for cells in PAGES.values() for kind, _ in labels(cells)
    )
    assert set(FORMS) | {"formula", "figure", "place"} <= set(kinds)
    assert kinds["exercise"] >= 21
    assert {"attention", "softmax", "self_attention"} <= PACKAGE_FUNCTIONS


# ---- each rule finds its faults ----


def good_page():
    """A chapter in small that keeps every rule."""
    exercises = "\n\n".join(
        f":::{{exercise}} Number {n}\n:label: ex-small-{n}\n\nWhat?\n:::\n\n"
        f":::{{solution}} ex-small-{n}\n:label: sol-small-{n}\n"
        ":class: dropdown\n\n```python\n# That.\n```\n:::"
        for n in (1, 2, 3)
    )
    picture = new_output(
        "display_data",
        data={"image/png": "iVBORw==", "text/plain": "Figure: −0.5 to 2"},
        metadata={"image/png": {"alt": "A line from −0.5 to 2."}},
    )
    cells = [
        new_markdown_cell(
            "# Small\n\n:::{admonition} What you will be able to do\n"
            ":class: objectives\n- One.\n- Two.\n\nYou need nothing.\n:::"
            "\n\n## The idea\n\nA line."
        ),
        new_code_cell("import numpy as np", execution_count=1),
        new_code_cell(
            "draw(np.eye(2))",
            execution_count=2,
            outputs=[picture],
            metadata={
                "mystnb": {
                    "figure": {"name": "fig-small", "caption": "It."}
                }
            },
        ),
        new_markdown_cell(
            "## The formula\n\n:::{prf:definition} Small\n"
            ":label: def-small\n\n$$\nx\n$$ (eq:small)\n:::\n\n"
            ":::{prf:proof}\nSee {prf:ref}`def-small`.\n:::\n\n"
            "(a-place)=\n### More"
        ),
        new_code_cell(
            "def helper(x):\n    return x\n\n\nprint(helper(-0.25))",
            execution_count=3,
            outputs=[
                new_output("stream", name="stdout", text="-0.25 [-0.05]\n")
            ],
        ),
        new_markdown_cell(
            "## What can go wrong\n\nMuch.\n\n## Exercises\n\n"
            f"{exercises}\n\n## Read next\n\n"
            "{cite:t}`vaswani2017attention`, and https://a.org/home/b."
        ),
    ]
    return new_notebook(cells=cells).cells


def replaced(n, old, new):
    """A change of the text of cell n."""

    def change(cells):
        assert old in cells[n].source
        cells[n].source = cells[n].source.replace(old, new)

    return change


def with_output(text):
    def change(cells):
        cells[4].outputs[0].text = text

    return change


def with_figure(**changes):
    def change(cells):
        cells[2].metadata["mystnb"]["figure"].update(changes)

    return change


def without_figure_data(cells):
    cells[2].metadata.pop("mystnb")


def without_words(cells):
    cells[2].outputs[0].metadata["image/png"].pop("alt")


def words_of_spaces(cells):
    cells[2].outputs[0].metadata["image/png"]["alt"] = "  "


def figure_last(cells):
    cells.insert(4, cells.pop(2))


def listing_first(cells):
    cells.insert(2, new_code_cell("show_source(np.eye)"))


def without_figure(cells):
    cells.pop(2)
    cells.pop(2)


def never_run(cells):
    cells[4].execution_count = None


def run_out_of_order(cells):
    cells[2].execution_count, cells[4].execution_count = 3, 2


def words_name_a_place(cells):
    alt = "drawn at /" + "tmp/x.png"
    cells[2].outputs[0].metadata["image/png"]["alt"] = alt


FAULTS = [
    (one_title, replaced(3, "### More", "# More")),
    (one_title, replaced(0, "# Small", "## Small")),
    (objectives_first, replaced(0, "- Two.\n", "")),
    (objectives_first, replaced(0, "- Two.", "- Two.\n- 3\n- 4\n- 5")),
    (objectives_first, replaced(0, ":class: objectives\n", "")),
    (objectives_first, replaced(0, "# Small\n", "# Small\n\nHello.\n")),
    (picture_before_formula, figure_last),
    (picture_before_formula, listing_first),
    (picture_before_formula, without_figure),
    (figures_are_named, with_figure(caption=" ")),
    (figures_are_named, with_figure(name="")),
    (figures_are_named, without_figure_data),
    (labels_have_their_form, replaced(3, "def-small\n", "definition\n")),
    (labels_have_their_form, replaced(3, "def-small\n", "thm-small\n")),
    (labels_have_their_form, replaced(3, "eq:small", "eq-small")),
    (labels_have_their_form, replaced(3, "(a-place)", "(sec:a)")),
    (labels_have_their_form, replaced(5, "ex-small-1\n", "Ex-small-1\n")),
    (labels_have_their_form, replaced(5, "sol-small-1", "s-small-1")),
    (labels_have_their_form, with_figure(name="small")),
    (blocks_have_labels, replaced(3, ":label: def-small\n", "")),
    (blocks_have_labels, replaced(5, ":label: sol-small-2\n", "")),
    (
        proofs_are_blocks,
        replaced(3, "(a-place)", "*Proof.* So.\n\n(a-place)"),
    ),
    (
        signs_keep_their_room,
        replaced(3, "\nx\n", "\nx \\\\\n&\\quad + y\n"),
    ),
    (
        headers_have_words,
        replaced(0, "A line.", "| a word | $x$ |\n|---|---|\n| 1 | 2 |"),
    ),
    (
        headers_have_words,
        replaced(0, "A line.", "| one | $\\max$ |\n|---|---|\n| 1 | 2 |"),
    ),
    (short_lines, replaced(4, "print", "p" * 64)),
    (no_copy_of_the_package, replaced(4, "helper", "softmax")),
    (
        exercises_are_solved,
        replaced(5, ":::{exercise} Number 1", ":::{note} 1"),
    ),
    (exercises_are_solved, replaced(5, ":class: dropdown\n", "")),
    (exercises_are_solved, replaced(5, "n} ex-small-3", "n} ex-small-2")),
    (what_can_go_wrong, replaced(5, "What can go wrong", "Traps")),
    (what_can_go_wrong, replaced(5, "Much.", "")),
    (what_to_read_next, replaced(5, "## Read next", "")),
    (what_to_read_next, replaced(5, "{cite:t}", "")),
    (parts_in_order, replaced(5, "## Exercises", "## Questions")),
    (parts_in_order, replaced(5, "Much.", "## More")),
    (pictures_have_words, without_words),
    (pictures_have_words, words_of_spaces),
    (outputs_name_no_place, with_output("File /" + "home/x.py")),
    (outputs_name_no_place, with_output("in C:\\x.py")),
    (outputs_name_no_place, words_name_a_place),
    (outputs_have_no_minus_zero, with_output("[-0.  1.]")),
    (outputs_have_no_minus_zero, with_output("x = -0.00")),
    (outputs_have_no_minus_zero, with_output("(1, −0)")),
    (imports_first, replaced(1, "as np", "as np\nnp.eye(2)")),
    (imports_first, replaced(1, "as np", "as np\nos.environ['A'] = f()")),
    (imports_first, replaced(1, "as np", "as np\nx['A'] = 'b'")),
    (imports_nowhere_else, replaced(4, "print", "import math\nprint")),
    (run_from_top_to_bottom, never_run),
    (run_from_top_to_bottom, run_out_of_order),
]


@each_rule
def test_a_good_page_passes(rule):
    assert rule(good_page()) == []


@pytest.mark.parametrize(
    ("rule", "change"),
    FAULTS,
    ids=[f"{rule.__name__} {n}" for n, (rule, _) in enumerate(FAULTS)],
)
def test_a_fault_is_found(rule, change):
    page = good_page()
    change(page)
    assert rule(page) != []


def test_what_an_import_reads_may_be_set_before_it():
    page = good_page()
    set_first = 'import os\n\nos.environ["A"] = "b"\nimport numpy as np'
    replaced(1, "import numpy as np", set_first)(page)
    assert imports_first(page) == []


def test_every_rule_has_a_fault_that_it_finds():
    assert {rule for rule, _ in FAULTS} == set(RULES)


def test_a_label_that_is_used_twice_is_found():
    page = good_page()
    assert labels_used_twice({"one": page}) == []
    twice = labels_used_twice({"one": page, "two": copy.deepcopy(page)})
    assert {"def-small", "eq:small", "fig-small", "a-place"} <= set(twice)
    assert len(twice) == len(labels(page)) == 10
