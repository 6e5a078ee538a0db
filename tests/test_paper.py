"""The book as one file: its settings, the form of its LaTeX, what is refused, and, slowly, the files themselves."""

from __future__ import annotations

import pickle
import re
import shutil
import subprocess
import sys
import types
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import pytest
import yaml
from docutils import nodes
from docutils.utils import new_document
from sphinx import addnodes

from tests.extension_support import extension

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tools"))

import build_book  # noqa: E402
import build_epub  # noqa: E402
import build_paper  # noqa: E402

paper_latex = extension("paper_latex")
book_files = extension("book_files")

# ---- settings ----


@pytest.mark.parametrize("form", ["pdf", "epub"])
def test_a_book_has_the_settings_of_the_pages(form):
    pages = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))
    book = build_paper.config(ROOT, form)
    for key in ("title", "author", "parse", "bibtex_bibfiles", "execute"):
        assert book[key] == pages[key]
    own = book["sphinx"]["local_extensions"]
    # Found from any folder.
    for name, folder in own.items():
        assert (Path(folder) / f"{name}.py").is_file()
    kept = set(pages["sphinx"]["local_extensions"])
    assert set(own) >= kept - set(build_paper.OF_THE_SITE)
    assert "on_paper" in own
    assert ("paper_latex" in own) == (form == "pdf")


def test_every_command_of_the_formulas_is_one_of_latex():
    pages = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))
    macros = pages["sphinx"]["config"]["mathjax3_config"]["tex"]["macros"]
    elements = build_paper.config(ROOT, "pdf")["sphinx"]["config"]
    preamble = elements["latex_elements"]["preamble"]
    assert macros
    for name, meaning in macros.items():
        assert f"\\renewcommand{{\\{name}}}{{{meaning}}}" in preamble


def test_what_a_book_leaves_out_of_the_front_page_is_there():
    text = (ROOT / "book/index.md").read_text("utf8")
    heads = {
        nodes.make_id(head)
        for head in re.findall(r"^## (.*)$", text, re.MULTILINE)
    }
    left_out = build_paper.config(ROOT, "pdf")["sphinx"]["config"]
    assert set(left_out["paper_leaves_out"]) < heads


# ---- what is refused ----

GOOD = (
    "This is XeTeX\nOverfull \\vbox (2.5pt too high) detected at line 9\n"
)
FAULTS = [
    "./a.tex:12: Undefined control sequence.",
    "LaTeX Warning: Reference `a:b' on page 3 undefined on input line 5.",
    "LaTeX Warning: Hyper reference `a:b' on page 3 undefined on input line 5.",
    "LaTeX Warning: Label `a' multiply defined.",
    "Missing character: There is no ⁻ (U+207B) in font [texgyre]!",
    "Overfull \\hbox (27.37498pt too wide) in paragraph at lines 1--2",
    "Overfull \\vbox (60.0pt too high) has occurred while \\output is active",
]


def test_a_good_log_has_no_faults():
    assert list(build_paper.tex_faults(GOOD)) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_log_is_found(fault):
    # TeX breaks lines after 79 bytes.
    broken = re.sub(r"(.{79})", r"\1\n", fault)
    assert len(list(build_paper.tex_faults(f"{GOOD}{broken}\n{GOOD}"))) == 1


@pytest.mark.parametrize(
    ("form", "wanted"),
    [("pdf", build_paper.TEX_PACKAGES), ("epub", "nodejs")],
)
def test_what_is_missing_is_named_before_anything_is_built(
    form, wanted, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("NODE", "")
    monkeypatch.setattr(sys, "argv", ["build_paper.py", form, "--clean"])
    assert build_paper.main() == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("make: the ")
    assert wanted in told.err


# ---- LaTeX ----


def test_a_drawing_of_simple_parts_becomes_tikz():
    svg = (ROOT / "book/_static/attention_at_a_glance.svg").read_text(
        "utf8"
    )
    made = paper_latex.tikz(svg)
    tree = ET.fromstring(svg)

    def number(tag):
        return sum(1 for one in tree.iter() if one.tag.endswith("}" + tag))

    assert made.count(r"\node[") == number("text")
    assert made.count("circle[radius=") == number("circle")
    assert made.count(") rectangle (") == number("rect")
    assert made.count(" -- ") == number("path")
    # The colour of the query: #0b5c8f.
    assert "red,11;green,92;blue,143" in made
    assert r"weights of \textit{q₂}" in made


def table(*rows):
    made = nodes.table(classes=["colwidths-auto"])
    group = nodes.tgroup(cols=len(rows[0]))
    group += [nodes.colspec(colwidth=1) for _ in rows[0]]
    group += nodes.tbody(
        "",
        *(
            nodes.row(
                "",
                *(
                    nodes.entry("", nodes.paragraph("", text))
                    for text in row
                ),
            )
            for row in rows
        ),
    )
    made += group
    return made


def set_table(*rows):
    made = table(*rows)
    holder = nodes.container("", made)
    paper_latex.set_widths(made)
    assert "booktable" in holder[0].astext()
    return made, [one["colwidth"] for one in made.findall(nodes.colspec)]


def test_a_table_that_fits_keeps_its_own_widths():
    made, widths = set_table(["letter", "meaning"], ["S", "source length"])
    assert "colwidths-given" not in made["classes"]
    assert widths == [1, 1]


def test_a_wide_table_gets_widths_in_which_no_word_is_cut():
    made, widths = set_table(
        ["letter", "meaning"], ["S", "how many keys there are " * 8]
    )
    assert "colwidths-given" in made["classes"]
    assert sum(widths) == pytest.approx(100, abs=1)
    # "letter" has six letters of about eighty.
    assert 7 <= widths[0] < widths[1]


def test_a_long_table_may_go_over_pages():
    made, _ = set_table(*[["a", "b"]] * 30)
    assert "longtable" in made["classes"]


def test_the_page_of_a_node_is_that_of_its_file():
    inner = nodes.paragraph()
    start = addnodes.start_of_file("", nodes.section("", inner))
    start["docname"] = "notebooks/02_attention"
    assert paper_latex.docname_of(inner) == "notebooks/02_attention"
    assert paper_latex.docname_of(nodes.paragraph()) == ""


def test_a_description_of_a_function_is_no_box():
    assert not paper_latex.is_block(addnodes.desc())
    assert paper_latex.is_block(nodes.admonition())
    assert not paper_latex.is_block(nodes.paragraph())


# ---- what stays together on paper ----


def box(*children, docname="notebooks/02_attention"):
    return paper_latex.Box(
        "",
        nodes.title("", "Solution"),
        *children,
        labels=[r"\label{a}"],
        colour="solution",
        kind="solution",
        docname=docname,
    )


class Writer:
    """As much of Sphinx's writer as a box needs."""

    def __init__(self):
        self.body, self.curfilestack = [], ["solutions"]
        self.no_latex_floats, self.table = 0, None


def test_a_solution_that_has_moved_leads_to_places_of_its_own_page():
    writer, one = Writer(), box()
    paper_latex.visit_box(writer, one)
    assert writer.curfilestack[-1] == "notebooks/02_attention"
    paper_latex.depart_box(writer, one)
    assert writer.curfilestack == ["solutions"]


def test_an_exercise_of_another_page_has_its_number():
    """LaTeX counts no exercises, so a number that it looked up would be one of something else."""
    document = new_document("all")
    links = [
        addnodes.number_reference(
            "", "", nodes.inline("", "x"), title=title, refuri=uri
        )
        for title, uri in (
            ("Exercise %s", "%notebooks/01_a#ex-a-one"),
            ("Fig. %s", "%notebooks/01_a#fig-one"),
        )
    ]
    document += nodes.paragraph("", "", *links)
    document.settings.env = types.SimpleNamespace(
        sphinx_exercise_registry={
            "ex-a-one": {"docname": "notebooks/01_a"}
        },
        toc_fignumbers={
            "notebooks/01_a": {"exercise": {"ex-a-one": (4, 2)}}
        },
    )
    paper_latex.Book(document).exercises()
    raw, figure = document[0].children
    assert raw.astext() == r"\hyperref[exercise:ex-a-one]{Exercise 4.2}"
    assert figure is links[1]


def test_a_box_begins_where_its_title_and_what_follows_have_room():
    text, code = nodes.paragraph("", "a"), nodes.literal_block("", "a")
    assert paper_latex.room_for(box(text)) == paper_latex.room_for(box())
    assert paper_latex.room_for(box(text)) == 6
    assert paper_latex.room_for(box(code)) == 6
    code = nodes.literal_block("", "a\n" * 20)
    assert paper_latex.room_for(box(code)) == 25
    writer = Writer()
    paper_latex.visit_box(writer, box(code))
    made = "".join(writer.body)
    assert made.index(r"\bookroom{25}") < made.index(r"\label{a}")


def leads(paragraph, after):
    nodes.container("", paragraph, after)
    return paper_latex.leads_on(paragraph)


def test_the_name_of_a_table_or_a_statement_stays_with_it():
    link = nodes.reference("", "Notation", refuri="#a")
    rows, text = table(["a", "b"]), nodes.paragraph("", "It says")
    assert leads(nodes.paragraph("", "", link), rows)
    assert leads(nodes.paragraph("", "In short:"), rows)
    assert not leads(nodes.paragraph("", "A sentence."), rows)
    assert not leads(nodes.paragraph("", "", link.deepcopy()), text)
    named = nodes.paragraph("", "", link.deepcopy(), classes=["claim-name"])
    assert leads(named, text.deepcopy())
    last = nodes.paragraph("", "", link.deepcopy())
    nodes.container("", last)
    assert not paper_latex.leads_on(last)


def test_a_signature_stays_with_what_is_said_of_it():
    arguments = [addnodes.desc_parameter("", name) for name in "abc"]
    function = addnodes.desc(
        "",
        addnodes.desc_signature(
            "", "", addnodes.desc_parameterlist("", "", *arguments)
        ),
        addnodes.desc_signature("", ""),
        addnodes.desc_content(""),
    )
    assert paper_latex.signed(function) == 3


def test_what_checks_a_formula_stays_with_it():
    for first in (nodes.paragraph("", "Let"), nodes.bullet_list("")):
        small = nodes.paragraph("", "computed", classes=["computed-by"])
        holder = nodes.container(
            "",
            first,
            nodes.target(refid="b"),
            nodes.math_block("", "a"),
            small,
        )
        paper_latex.with_what_it_is_of(small)
        forbidden = r"\postdisplaypenalty=10000\relax{}"
        assert "".join(one.astext() for one in holder).split("\n") == [
            f"{first.astext().removesuffix(forbidden)}{forbidden}a\\booktogether",
            r"computed\postdisplaypenalty=0\relax{}",
        ]
        # A blank line would end the paragraph above the formula.
        inside = isinstance(first, nodes.paragraph)
        assert len(holder) == (5 if inside else 6)


def test_nothing_comes_between_a_place_and_its_name():
    section = nodes.section("", nodes.title("", "a"))
    holder = nodes.container("", nodes.target(refid="b"), section)
    paper_latex.put_before(section, r"\bookroom{12}")
    kinds = [one.tagname for one in holder]
    assert kinds == ["raw", "target", "section"]
    before = nodes.section(
        "", nodes.title("", "a"), nodes.target(refid="c")
    )
    after = nodes.section("", nodes.title("", "b"))
    holder = nodes.section("", before, after)
    paper_latex.put_before(after, r"\bookroom{12}")
    assert [one.tagname for one in before] == ["title", "raw", "target"]
    before.pop()
    before.pop()
    paper_latex.put_before(after, r"\bookroom{12}")
    assert [one.tagname for one in holder] == ["section", "raw", "section"]


def test_every_command_for_paper_is_defined():
    style = (ROOT / "book/_paper/paper.sty").read_text("utf8")
    code = (ROOT / "book/_ext/paper_latex.py").read_text("utf8")
    used = set(re.findall(r"\\(book[a-z]+)", code))
    assert {"bookroom", "booktogether", "booknumbered"} <= used
    for name in used - {"bookpart", "bookplainpart"}:
        assert f"command{{\\{name}}}" in style, name


@pytest.mark.parametrize(
    ("size", "width"),
    [
        # As on the screen; two on a page; words that can still be read; a page at most.
        ((400, 200), 264),
        ((480, 480), 262),
        ((400, 700), 160),
        ((400, 2000), 112),
        ((720, 200), 392),
    ],
)
def test_a_picture_on_paper_is_whole_and_can_be_read(size, width):
    on_paper = extension("on_paper")
    assert on_paper.on_page(*size) == pytest.approx(width, abs=1)


def test_the_file_says_its_title_its_authors_and_its_language():
    pages = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))
    said = build_paper.told(pages)
    for part in (
        f"pdftitle={{{pages['title']}}}",
        f"pdfauthor={{{pages['author']}}}",
        "pdflang={en}",
    ):
        assert part in said


# ---- ePub ----

PAGE = """<html xmlns="http://www.w3.org/1999/xhtml"><head><title>t</title>
<link rel="stylesheet" type="text/css" href="../_static/reader.css?v=1"/>
<link rel="stylesheet" type="text/css" href="../_static/togglebutton.css"/>
<script src="../_static/a.js"></script></head><body onload="f()">
<p>Let <span class="math notranslate nohighlight">\\(x &lt; y\\)</span>.</p>
<div class="math notranslate nohighlight" id="equation-a">
<span class="eqno">(2.1)</span>\\[a = b\\]</div>
<div class="solution dropdown admonition"><p class="admonition-title">Solution</p><p>4</p></div>
</body></html>"""


def test_formulas_of_a_page_are_found_with_their_form():
    page = ET.fromstring(PAGE)
    found = [build_epub.source(one) for one in build_epub.formulas(page)]
    assert found == [("x < y", False), ("a = b", True)]


def test_a_page_of_an_epub_has_mathml_and_no_scripts():
    page = ET.fromstring(PAGE)
    build_epub.without_scripts(page)
    build_epub.open_on_demand(page)
    mathml = '<math xmlns="http://www.w3.org/1998/Math/MathML" data-x="1"><mi data-y="2">a</mi></math>'
    for one in list(build_epub.formulas(page)):
        build_epub.set_formula(one, mathml)
    text = build_epub.written(page)
    ET.fromstring(text)
    assert (
        text.count('<math xmlns="http://www.w3.org/1998/Math/MathML"') == 2
    )
    assert '<span class="eqno">(2.1)</span><math' in text
    assert 'alttext="x &lt; y"' in text
    assert "<details" in text
    assert "<summary" in text
    assert "reader.css" in text
    for gone in ("script", "onload", "togglebutton", "data-", "\\("):
        assert gone not in text
    assert build_epub.properties(page) == "mathml"


def test_the_list_of_contents_leaves_out_and_says_what_pages_have():
    opf = (
        '<package xmlns="http://www.idpf.org/2007/opf"><manifest>'
        '<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/>'
        '<item id="n" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>'
        '<item id="j" href="_static/j.js" media-type="text/javascript"/></manifest>'
        '<spine><itemref idref="a"/><itemref idref="j"/></spine></package>'
    )
    made = build_epub.contents(
        opf,
        {"a.xhtml", "nav.xhtml"},
        {"a.xhtml": "mathml svg", "nav.xhtml": ""},
    )
    tree = ET.fromstring(made)
    items = {one.get("href"): one for one in tree[0]}
    assert set(items) == {"a.xhtml", "nav.xhtml"}
    assert items["a.xhtml"].get("properties") == "mathml svg"
    assert items["nav.xhtml"].get("properties") == "nav"
    assert [one.get("idref") for one in tree[1]] == ["a"]


def test_a_package_is_the_same_each_time_and_begins_with_its_type(tmp_path):
    files = {
        "b.xhtml": b"b",
        "a.xhtml": b"a",
        "mimetype": b"application/epub+zip",
    }
    for name in ("one", "two"):
        build_epub.pack(
            dict(reversed(files.items())), tmp_path / name, 1767225600
        )
    assert (tmp_path / "one").read_bytes() == (
        tmp_path / "two"
    ).read_bytes()
    with zipfile.ZipFile(tmp_path / "one") as package:
        assert package.namelist() == ["mimetype", "a.xhtml", "b.xhtml"]
        assert (
            package.getinfo("mimetype").compress_type == zipfile.ZIP_STORED
        )


@pytest.mark.skipif(build_epub.find_node() is None, reason="no Node.js")
def test_formulas_become_mathml_and_one_that_cannot_is_named():
    node = build_epub.find_node()
    items = [
        ("x \\in \\R", False),
        ("\\begin{aligned}a &= b\\\\c &= d\\end{aligned}", True),
    ]
    made = build_epub.converted(
        node, {"macros": {"R": "\\mathbb{R}"}}, items
    )
    assert "ℝ" in made[items[0]] or "double-struck" in made[items[0]]
    assert made[items[1]].count("<mtr>") == 2
    with pytest.raises(build_epub.Fault, match=r"\\nonsense"):
        build_epub.converted(node, {}, [("\\nonsense", False)])


# ---- links from the front page ----


def test_only_a_file_of_this_very_state_is_linked(tmp_path):
    for form in ("pdf", "epub"):
        folder = tmp_path / "_build" / form
        folder.mkdir(parents=True)
        (folder / f"attention-in-detail.{form}").write_bytes(b"x")
    assert build_book.book_files(tmp_path, "now") == []
    (tmp_path / "_build/pdf/.built-from").write_text("now")
    (tmp_path / "_build/epub/.built-from").write_text("before")
    assert build_book.book_files(tmp_path, "now") == ["pdf"]


def test_the_line_on_the_front_page_has_links_and_sizes(tmp_path):
    path = tmp_path / "attention-in-detail.pdf"
    path.write_bytes(bytes(2_340_000))
    said = book_files.line({"pdf": path}, "../")
    assert 'href="../files/attention-in-detail.pdf"' in said
    assert "(2.3 MB)" in said
    assert "ePub" not in said


# ---- the files themselves ----

NO_TEX = (
    "XeLaTeX or its faces are not there: README.md says what to install"
)
EDGE = build_paper.EDGE
NO_CHECK = "epubcheck and Java are not there"


def built(form):
    done = subprocess.run(
        [sys.executable, ROOT / "tools/build_paper.py", form],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return ROOT / "_build" / form / f"attention-in-detail.{form}"


@pytest.mark.slow
@pytest.mark.skipif(bool(build_paper.missing_for_pdf()), reason=NO_TEX)
def test_the_pdf_is_built_and_nothing_in_it_is_cut_or_unresolved():
    """Building refuses what the log tells; here is that the file has every chapter, and its formulas their numbers."""
    made = built("pdf")
    assert made.read_bytes().startswith(b"%PDF-")
    latex = ROOT / "_build/pdf/_build/latex"
    contents = (latex / "attention-in-detail.toc").read_text("utf8")
    listed = yaml.safe_load((ROOT / "_toc.yml").read_text("utf8"))
    number = sum(len(part["chapters"]) for part in listed["parts"])
    # And two of its own: about this book, and the solutions.
    assert contents.count(r"\contentsline {chapter}") == number + 2
    if shutil.which("pdftotext"):
        text = subprocess.check_output(["pdftotext", made, "-"], text=True)
        assert "??" not in text


PAPER = ROOT / "_build/pdf/_build"


@pytest.mark.slow
@pytest.mark.skipif(bool(build_paper.missing_for_pdf()), reason=NO_TEX)
def test_figures_and_formulas_have_the_numbers_of_the_pages_on_paper_too():
    """TeX counts them itself; what is counted for the pages is in what Sphinx keeps."""
    built("pdf")
    aux = (PAPER / "latex/attention-in-detail.aux").read_text("utf8")
    on_paper = dict(re.findall(r"\\newlabel\{([^}]*)\}\{\{([^{}]*)\}", aux))
    kept = pickle.loads(
        (PAPER / ".doctrees/environment.pickle").read_bytes()
    )
    places = {
        (page, nodes.make_id(f"equation-{name}")): f"equation:{page}:{name}"
        for name, (page, _) in kept.domaindata["math"]["objects"].items()
    }
    compared = 0
    for page, kinds in kept.toc_fignumbers.items():
        for kind in ("figure", "displaymath"):
            for name, number in kinds.get(kind, {}).items():
                place = places.get((page, name), f"{page}:{name}")
                said = ".".join(map(str, number))
                assert on_paper[place] == said, (page, name)
                compared += 1
    assert compared > 150


@pytest.mark.slow
@pytest.mark.skipif(
    bool(build_paper.missing_for_pdf())
    or None in map(shutil.which, ("pdffonts", "pdfinfo", "pdftotext")),
    reason=f"{NO_TEX}, or the tools that read a PDF",
)
def test_the_pdf_brings_its_faces_and_no_word_stands_over_the_edge():
    made = built("pdf")

    def told(*command):
        return subprocess.check_output(command, text=True)

    _, _, *faces = told("pdffonts", made).splitlines()
    # After the name: type, encoding, then whether it is embedded.
    assert faces
    assert all(
        re.search(r"\byes (yes|no) +(yes|no) ", one) for one in faces
    )
    title = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))[
        "title"
    ]
    assert re.search(rf"^Title: +{title}$", told("pdfinfo", made), re.M)
    words = re.findall(
        r'<word xMin="([\d.]+)" .*xMax="([\d.]+)".*>(.*)</word>',
        told("pdftotext", "-bbox", made, "-"),
    )
    assert len(words) > 50_000
    # An inch on either side is free; text of A4 is 595 points wide.
    beyond = [
        word
        for left, right, word in words
        if float(left) < 72 - EDGE or float(right) > 595 - 72 + EDGE
    ]
    assert beyond == []


def epubcheck():
    for path in ("/usr/share/java/epubcheck.jar", "/usr/bin/epubcheck"):
        if shutil.which("java") and Path(path).is_file():
            return ["java", "-jar", path]
    return None


@pytest.mark.slow
@pytest.mark.skipif(build_epub.find_node() is None, reason="no Node.js")
def test_the_epub_is_built_with_every_formula():
    made = built("epub")
    with zipfile.ZipFile(made) as package:
        pages = [
            package.read(name).decode()
            for name in package.namelist()
            if name.endswith(".xhtml")
        ]
    assert sum(page.count("<math ") for page in pages) > 1000
    assert not any("<script" in page for page in pages)


@pytest.mark.slow
@pytest.mark.skipif(
    epubcheck() is None or build_epub.find_node() is None, reason=NO_CHECK
)
def test_epubcheck_finds_no_fault():
    done = subprocess.run(
        [*epubcheck(), built("epub")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "ERROR" not in done.stderr + done.stdout
