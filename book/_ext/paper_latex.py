"""The book as LaTeX: its parts and chapters, its boxes, its code, its tables, its solutions at the end.

Sphinx makes one tree of all pages before it writes LaTeX. Here that tree gets the form of a printed book; what the
commands written here look like is settled in ``book/_paper/paper.sty``.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.builders.latex.nodes import math_reference, thebibliography
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.texescape import escape

# Blocks of the book, and which of the colours in paper.sty they have.
COLOURS = {
    "definition": "definition",
    "notation": "definition",
    "theorem": "theorem",
    "proposition": "theorem",
    "lemma": "theorem",
    "corollary": "theorem",
    "property": "theorem",
    "remark": "remark",
    "observation": "remark",
    "example": "remark",
    "exercise": "exercise",
    "solution": "solution",
    "warning": "warning",
    "caution": "warning",
    "danger": "warning",
    "important": "warning",
}
NAMED = (nodes.admonition, nodes.note, nodes.warning, nodes.tip)
NAMED += (nodes.caution, nodes.danger, nodes.important, nodes.hint)
PART = re.compile(r"Part [IVXLC]+: (.*)")


def tex(code: str) -> nodes.raw:
    return nodes.raw("", code, format="latex")


def docname_of(node: nodes.Node) -> str:
    """The page that a node of the large tree comes from."""
    while node is not None:
        if isinstance(node, addnodes.start_of_file):
            return node["docname"]
        node = node.parent
    return ""


def label(docname: str, name: str) -> str:
    return rf"\phantomsection\label{{\detokenize{{{docname}:{name}}}}}"


# ---- boxes ----


class Box(nodes.Admonition, nodes.Element):
    """A block with a coloured edge. Its first child is its title."""


class Proof(nodes.General, nodes.Element):
    """A proof: running text between the word and the sign."""


UNBROKEN = (Box, nodes.literal_block, nodes.container, nodes.table)


def room_for(box: Box) -> int:
    """How many lines there have to be on a page for a box to begin on it: its title, and something below it."""
    if len(box) < 2 or not isinstance(box[1], UNBROKEN):
        return 6
    # Lines of code are lower than those of text, and no page ends among them inside a box.
    lines = len(box[1].astext().splitlines())
    return 5 + min(lines, 40)


def visit_box(self, node: Box) -> None:
    # A solution has moved: what it names, and what it leads to, are still those of its page.
    self.curfilestack.append(node["docname"] or self.curfilestack[-1])
    self.body.append(f"\n\\bookroom{{{room_for(node)}}}\n")
    self.body.append("".join(node["labels"]))
    self.body.append(rf"\begin{{bookbox}}{{{node['colour']}}}")
    self.no_latex_floats += 1
    if self.table:
        self.table.has_problematic = True


def depart_box(self, node: Box) -> None:
    self.body.append("\\end{bookbox}\n")
    self.no_latex_floats -= 1
    self.curfilestack.pop()


def visit_proof(self, node: Proof) -> None:
    self.body.append("\n\\begin{bookproof}\n")


def depart_proof(self, node: Proof) -> None:
    self.body.append("\n\\end{bookproof}\n")


def number_of(env: BuildEnvironment, block: nodes.Element) -> str:
    """The number of a statement, the same as on the site."""
    entry = env.proof_list.get(block["label"])
    if entry is None or entry["nonumber"]:
        return ""
    numbers = env.toc_fignumbers.get(entry["docname"], {})
    number = numbers.get(entry["countertype"], {}).get(block["label"], ())
    return ".".join(map(str, number))


def boxed(env: BuildEnvironment, block: nodes.Element) -> nodes.Element:
    """A block in the form that is written: a box with a colour, or a proof."""
    classes, docname = block["classes"], docname_of(block)
    if "proof" in classes and "realtype" not in block:
        (inner,) = [
            child
            for child in block.children
            if isinstance(child, nodes.admonition)
        ] or [block]
        # The sign stands in the last line, where that is one of text.
        end = (
            "\\bookqed{}"
            if isinstance(inner[-1], nodes.paragraph)
            else "\\bookqed\n"
        )
        (
            inner[-1] if isinstance(inner[-1], nodes.paragraph) else inner
        ).append(tex(end))
        return Proof("", *inner.children)
    children = list(block.children)
    has_title = bool(children) and isinstance(children[0], nodes.title)
    title = nodes.title("", block.tagname.title())
    title = children.pop(0) if has_title else title
    if "realtype" in block:
        name = f"{block['realtype'].title()} {number_of(env, block)}"
        title.insert(0, nodes.Text(name.strip()))
    kind = next(
        (one for one in (*classes, block.tagname) if one in COLOURS), ""
    )
    labels = [label(docname, name) for name in block["ids"]]
    if kind == "exercise":
        labels += [
            rf"\phantomsection\label{{exercise:{name}}}"
            for name in block["ids"]
        ]
    # A section inside a box has no title, and is no section of the book.
    inside = []
    for child in children:
        inside += (
            child.children if isinstance(child, nodes.section) else [child]
        )
    return Box(
        "",
        title,
        *inside,
        colour=COLOURS.get(kind, "neutral"),
        kind=kind,
        docname=docname,
        labels=labels,
    )


def is_block(node: nodes.Node) -> bool:
    if not isinstance(node, nodes.Admonition) or isinstance(node, Box):
        return False
    kinds = {"proof", "exercise", "solution"}
    return isinstance(node, NAMED) or bool(kinds & set(node["classes"]))


# ---- the picture of the front page ----

UNIT = 0.55  # a pixel of the picture in points
COLOUR = re.compile(r"(?:var\([^,]*,\s*)?#([0-9a-fA-F]{6})\)?")


def colour_of(value: str) -> str:
    found = COLOUR.fullmatch(value)
    return (
        f"{{rgb,255:red,{int(found[1][:2], 16)};green,{int(found[1][2:4], 16)};blue,{int(found[1][4:], 16)}}}"
        if found
        else "black"
    )


def drawn(element: ET.Element, given: dict[str, str]) -> Iterator[str]:
    """TikZ for the lines, circles, rectangles and words of an SVG."""
    kind = element.tag.rpartition("}")[2]
    has = {**given, **element.attrib}
    if kind in ("svg", "g"):
        for child in element:
            yield from drawn(child, has)
        return
    if kind not in ("path", "circle", "rect", "text"):
        return
    options = []
    if has.get("stroke", "none") != "none" and kind != "text":
        options += [
            f"draw={colour_of(has['stroke'])}",
            f"line width={float(has['stroke-width']) * UNIT:.2f}pt",
        ]
    if kind == "rect" and has.get("fill", "none") != "none":
        options.append(f"fill={colour_of(has['fill'])}")
    if "opacity" in has:
        options.append(f"opacity={has['opacity']}")
    if has.get("stroke-linecap"):
        options.append("line cap=round")
    if "stroke-dasharray" in has:
        options.append("dashed")
    told = ",".join(options)
    if kind == "path":
        points = re.findall(r"[ML]([\d.]+) ([\d.]+)", has["d"])
        line = " -- ".join(f"({x},{y})" for x, y in points)
        yield rf"\path[{told}] {line};"
    elif kind == "circle":
        radius = f"{float(has['r']) * UNIT}pt"
        yield rf"\path[{told}] ({has['cx']},{has['cy']}) circle[radius={radius}];"
    elif kind == "rect":
        x, y, width, height = (
            float(has[name]) for name in ("x", "y", "width", "height")
        )
        corners = f"rounded corners={float(has.get('rx', 0)) * UNIT}pt"
        yield rf"\path[{told},{corners}] ({x},{y}) rectangle ({x + width},{y + height});"
    else:
        words = element.text or ""
        if has.get("font-style") == "italic":
            words = rf"\textit{{{words}}}"
        for child in element:
            inner = child.text or ""
            if child.get("font-style") == "italic":
                inner = rf"\textit{{{inner}}}"
            words += inner + (child.tail or "")
        if has.get("font-weight") == "600":
            words = rf"\textbf{{{words}}}"
        place = (
            "base" if has.get("text-anchor") == "middle" else "base west"
        )
        size = float(has["font-size"]) * UNIT
        font = rf"\fontsize{{{size:.1f}}}{{{size * 1.2:.1f}}}\selectfont"
        yield rf"\node[anchor={place},inner sep=0pt,font={font}] at ({has['x']},{has['y']}) {{{words}}};"


def tikz(svg: str) -> str:
    """An SVG of simple parts as a TikZ picture."""
    lines = "\n".join(drawn(ET.fromstring(svg), {}))
    return (
        f"\\begin{{center}}\n\\begin{{tikzpicture}}[x={UNIT}pt,y=-{UNIT}pt]\n"
        f"{lines}\n\\end{{tikzpicture}}\n\\end{{center}}\n"
    )


def words_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", "", html).split())


# ---- tables ----


def needed(cell: nodes.Element) -> int:
    """How many letters wide a cell is when nothing in it breaks."""
    formulas = sum(
        len(re.sub(r"\\[a-z]+|[{}_^ ]", "", one.astext()))
        for one in cell.findall(nodes.math)
    )
    words = re.sub(r"\s+", " ", cell.astext())
    hidden = sum(len(one.astext()) for one in cell.findall(nodes.math))
    return max(len(words) - hidden + formulas, 1)


def unbroken(cell: nodes.Element) -> int:
    """The longest word, or formula, which no line end divides."""
    words = [
        part
        for text in cell.findall(nodes.Text)
        if not isinstance(text.parent, nodes.math)
        for part in text.split()
    ]
    formulas = [
        needed(nodes.entry("", nodes.math("", one.astext())))
        for one in cell.findall(nodes.math)
    ]
    return max([*map(len, words), *formulas], default=1)


LINE = 80  # letters of a table that fit into a line


def set_widths(table: nodes.table) -> None:
    """Columns as wide as their text where all of it fits; else in proportion, with no word broken."""
    table.parent.insert(
        table.parent.index(table), tex("\n\\begin{booktable}\n")
    )
    table.parent.insert(
        table.parent.index(table) + 1, tex("\n\\end{booktable}\n")
    )
    (group,) = table.findall(nodes.tgroup)
    columns = list(group.findall(nodes.colspec))
    rows = list(group.findall(nodes.row))
    cells = [
        [row[number] for row in rows] for number in range(len(columns))
    ]
    wide = [max(map(needed, column)) for column in cells]
    long = len(rows) > 18
    if long:
        table["classes"].append("longtable")
    room = LINE - 3 * len(wide)
    if sum(wide) <= room and not long:
        return
    share = [float(max(one, 4)) for one in wide]
    if sum(wide) > room:
        # A column with long text takes lines, one with short text takes width; no word is cut.
        least = [
            min(max(map(unbroken, column)) + 1, 30) for column in cells
        ]
        share = [one**0.6 for one in share]
        scale = room / sum(share)
        share = [
            max(one * scale, word)
            for one, word in zip(share, least, strict=True)
        ]
    for column, one in zip(columns, share, strict=True):
        column["colwidth"] = round(100 * one / sum(share))
    table["classes"] = [
        one for one in table["classes"] if one != "colwidths-auto"
    ]
    table["classes"].append("colwidths-given")


# ---- what stays together ----


def put_before(node: nodes.Node, code: str) -> None:
    # The name of a place stays with it: otherwise Sphinx would write it twice. That of a section may end the one before.
    parent, place = node.parent, node.parent.index(node)
    while place and isinstance(parent[place - 1], nodes.section):
        parent = parent[place - 1]
        place = len(parent)
    if not place or not isinstance(parent[place - 1], nodes.target):
        parent, place = node.parent, node.parent.index(node)
    while place and isinstance(parent[place - 1], nodes.target):
        place -= 1
    parent.insert(place, tex(code))


def put_after(node: nodes.Node, code: str) -> None:
    node.parent.insert(node.parent.index(node) + 1, tex(code))


def follower(node: nodes.Node) -> nodes.Node | None:
    place = node.parent.index(node) + 1
    return node.parent[place] if place < len(node.parent) else None


def signed(described: addnodes.desc) -> int:
    """How many lines the longest signature of a function takes: one for each argument."""
    return max(
        len(list(one.findall(addnodes.desc_parameter)))
        for one in described.findall(addnodes.desc_signature)
    )


def leads_on(paragraph: nodes.paragraph) -> bool:
    """Whether it is the name of what follows, or says of a table that it follows."""
    after = follower(paragraph)
    if after is None:
        return False
    if isinstance(after, nodes.table):
        if paragraph.astext().rstrip().endswith(":"):
            return True
    elif "claim-name" not in paragraph["classes"]:
        return False
    return all(
        isinstance(one, (nodes.reference, nodes.strong))
        or not one.astext().strip()
        for one in paragraph
    )


def with_what_it_is_of(paragraph: nodes.paragraph) -> None:
    """Small print stays with what it speaks of: TeX may break a page behind a formula, unless it is told."""
    place = paragraph.parent.index(paragraph)
    before = paragraph.parent[place - 1] if place else None
    put_before(paragraph, "\\booktogether\n")
    if isinstance(before, nodes.math_block):
        place = before.parent.index(before)
        while place and isinstance(before.parent[place - 1], nodes.target):
            place -= 1
        said = before.parent[place - 1] if place else None
        forbidden = tex("\\postdisplaypenalty=10000\\relax{}")
        # In the line above, since a blank line would end it.
        if isinstance(said, nodes.paragraph):
            said.append(forbidden)
        else:
            before.parent.insert(place, forbidden)
        paragraph.append(tex("\\postdisplaypenalty=0\\relax{}"))


# ---- the whole ----


class Book(SphinxPostTransform):
    """Give the large tree the form of a book."""

    # After everything else has found its place and its references.
    default_priority = 900
    builders = ("latex",)

    def run(self, **given: object) -> None:
        # Sphinx moves the pages into the tree and leaves them the parents that they had.
        for node in self.document.findall(nodes.Element):
            for child in node.children:
                child.parent = node
        chapters = self.chapters()
        self.name_chapters(chapters)
        self.draw()
        for block in list(self.document.findall(is_block)):
            # A block in another has its turn, wherever it stands by then.
            block.replace_self(boxed(self.env, block))
        self.together()
        self.cells()
        self.small_print()
        for table in list(self.document.findall(nodes.table)):
            set_widths(table)
        self.equations()
        self.exercises()
        self.solutions(chapters)
        self.references()
        self.front()

    def chapters(self) -> dict[str, str]:
        """The number of each chapter, '' for those without, in the order of the book; marks parts on the way."""
        front = self.env.get_doctree(self.config.root_doc)
        toctrees = list(front.findall(addnodes.toctree))
        numbers: dict[str, str] = {}
        for tree in toctrees:
            for docname in tree["includefiles"]:
                number = self.env.toc_secnumbers.get(docname, {}).get("")
                numbers[docname] = str(number[0]) if number else ""
        first = {
            tree["includefiles"][0]: tree.get("caption") or ""
            for tree in toctrees
            if tree["includefiles"]
        }
        size = {
            tree["includefiles"][0]: len(tree["includefiles"])
            for tree in toctrees
            if tree["includefiles"]
        }
        for start in list(self.document.findall(addnodes.start_of_file)):
            docname = start["docname"]
            parts = []
            if docname in first:
                numbered = PART.fullmatch(first[docname])
                title = numbered[1] if numbered else first[docname]
                command = "bookpart" if numbered else "bookplainpart"
                # A single page needs no leaf before it.
                if size[docname] > 1 or numbered:
                    parts.append(tex(f"\\{command}{{{escape(title)}}}\n"))
            if docname in numbers:
                parts.append(
                    tex(
                        f"\\booknumbered{{{numbers[docname]}}}\n"
                        if numbers[docname]
                        else "\\bookunnumbered\n"
                    )
                )
            if docname in self.config.paper_small:
                parts.append(tex("\\begin{booksmall}\n"))
                start.append(tex("\n\\end{booksmall}\n"))
            # Inside, so that it follows the scope that Sphinx opens for a page.
            start[0:0] = parts
        return numbers

    def name_chapters(self, chapters: dict[str, str]) -> None:
        """Behind the title of another chapter stands its number."""
        titles = {
            self.env.titles[docname].astext(): number
            for docname, number in chapters.items()
            if number
        }
        for link in self.document.findall(nodes.reference):
            number = titles.get(link.astext(), "")
            said = link.parent.astext()
            before = said[: said.find(link.astext())].rstrip(" (").lower()
            if (
                number
                and link.get("internal")
                and not before.endswith(("chapter", f"chapter {number},"))
                and not any(
                    isinstance(link.parent, kind)
                    for kind in (nodes.title, nodes.term)
                )
            ):
                link += nodes.Text(f" (chapter\u00a0{number})")

    def draw(self) -> None:
        for raw in list(self.document.findall(nodes.raw)):
            if "html" not in raw["format"].split():
                continue
            html = raw.astext()
            if "<svg" in html:
                raw.replace_self(tex(tikz(html[html.index("<svg") :])))
            elif html.startswith("<figcaption"):
                words = escape(words_of(html))
                raw.replace_self(tex(f"\\bookcaption{{{words}}}\n"))

    def cells(self) -> None:
        for container in list(self.document.findall(nodes.container)):
            classes = container["classes"]
            for kind in ("cell_input", "cell_output"):
                if kind in classes:
                    name = kind.replace("_", "")
                    container.insert(0, tex(f"\n\\begin{{book{name}}}\n"))
                    container.append(tex(f"\n\\end{{book{name}}}\n"))
            container["classes"] = []

    def together(self) -> None:
        """What says what comes next stands on the same page: headings, names of statements and of tables."""
        for section in list(self.document.findall(nodes.section)):
            if isinstance(section[1:2] and section[1], UNBROKEN):
                put_before(section, "\\bookroom{12}\n")
        for described in list(self.document.findall(addnodes.desc)):
            put_before(
                described, f"\\bookroom{{{signed(described) + 6}}}\n"
            )
        for paragraph in list(self.document.findall(nodes.paragraph)):
            if leads_on(paragraph):
                put_before(paragraph, "\\bookroom{8}\n")
                put_after(paragraph, "\\booktogether\n")

    def small_print(self) -> None:
        for paragraph in list(self.document.findall(nodes.paragraph)):
            classes = paragraph["classes"]
            for kind in ("computed-by", "evidence"):
                if kind in classes:
                    name = kind.replace("-", "")
                    paragraph.insert(0, tex(f"\\begin{{book{name}}}%\n"))
                    paragraph.append(tex(f"\\end{{book{name}}}"))
                    with_what_it_is_of(paragraph)

    def solutions(self, chapters: dict[str, str]) -> None:
        """All solutions stand at the end, chapter by chapter; below an exercise stands where."""
        by_chapter: dict[str, list[Box]] = {}
        for box in list(self.document.findall(Box)):
            if box["kind"] == "solution":
                by_chapter.setdefault(box["docname"], []).append(box)
                name = re.search(r"\\label.*", box["labels"][0])[0]
                name = name.removeprefix(r"\label{").removesuffix("}")
                box.replace_self(tex(f"\n\\booksolvedat{{{name}}}\n"))
        if not by_chapter:
            return
        chapter = nodes.section("", ids=["solutions"])
        chapter += nodes.title("", "Solutions to the exercises")
        for docname, boxes in by_chapter.items():
            section = nodes.section("", ids=[f"solutions-{docname}"])
            title = self.env.titles[docname].astext()
            if chapters.get(docname):
                title = f"Chapter {chapters[docname]}: {title}"
            section += nodes.title("", title)
            section += boxes
            chapter += section
        start = addnodes.start_of_file(docname="solutions")
        start += [tex("\\bookunnumbered\n"), chapter]
        last = list(self.document.findall(addnodes.start_of_file))[-1]
        # Before the last page, which is the bibliography.
        last.parent.insert(last.parent.index(last), start)

    def equations(self) -> None:
        """A link to an equation leads to the label that LaTeX knows, and has its number."""
        domain = self.env.get_domain("math")
        places = {
            f"%{docname}#{nodes.make_id(f'equation-{name}')}": (
                docname,
                name,
            )
            for name, (docname, _) in domain.equations.items()
        }
        for link in list(self.document.findall(nodes.reference)):
            if link.get("refuri") in places:
                docname, name = places[link["refuri"]]
                link.replace_self(
                    math_reference("", docname=docname, target=name)
                )

    def exercises(self) -> None:
        """A reference to an exercise of another page has the number of the site; LaTeX would put what it counted last."""
        known = getattr(self.env, "sphinx_exercise_registry", {})
        for link in list(self.document.findall(addnodes.number_reference)):
            name = link.get("refuri", "").rpartition("#")[2]
            if name not in known:
                continue
            numbers = self.env.toc_fignumbers[known[name]["docname"]]
            number = ".".join(map(str, numbers["exercise"][name]))
            said = escape(link["title"] % number)
            link.replace_self(tex(f"\\hyperref[exercise:{name}]{{{said}}}"))

    def references(self) -> None:
        """The list of references stands on the page that announces it; Sphinx puts it behind everything."""
        lists = list(self.document.findall(thebibliography))
        pages = [
            start
            for start in self.document.findall(addnodes.start_of_file)
            if start["docname"] == self.config.paper_references
        ]
        for one in lists:
            if pages:
                one.parent.remove(one)
                pages[0].append(one)

    def front(self) -> None:
        """What the front page says is the first chapter, with its sections one level down."""
        root = next(self.document.findall(nodes.section))
        chapter = nodes.section("", ids=["about-this-book"])
        chapter += nodes.title("", "About this book")
        for child in list(root.children):
            if isinstance(child, nodes.title) or (
                isinstance(child, nodes.compound)
                and "toctree-wrapper" in child["classes"]
            ):
                continue
            root.remove(child)
            chapter += child
        root.insert(1, [tex("\\bookunnumbered\n"), chapter])


def setup(app: Sphinx) -> dict[str, object]:
    # Pages in smaller type, and the one that holds the list of references.
    app.add_config_value("paper_small", [], "")
    app.add_config_value("paper_references", "", "")
    app.add_node(Box, latex=(visit_box, depart_box))
    app.add_node(Proof, latex=(visit_proof, depart_proof))
    app.add_post_transform(Book)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
