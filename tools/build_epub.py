"""From the pages that Sphinx writes for an ePub to a file that readers take: called by build_paper.py.

* Formulas become MathML, by MathJax in Node: it knows all of TeX that the site uses, and its operators, spaces and
  alignments are those of the site. A formula that it cannot read stops the build.
* Scripts go, and with them what only they use. A solution opens without one.
* The list of contents of the package says which pages have formulas or drawings, as the standard asks.
* The package is put together in a fixed order with a fixed date: two builds of one state are the same to the byte.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

# Where Node and MathJax are, the extensions of the book know.
sys.path.append(str(Path(__file__).resolve().parents[1] / "book/_ext"))

from offline_assets import mathjax_folder
from set_formulas import find_node

__all__ = ["find_node"]

XHTML = "http://www.w3.org/1999/xhtml"
MATHML = "http://www.w3.org/1998/Math/MathML"
SVG = "http://www.w3.org/2000/svg"
OPF = "http://www.idpf.org/2007/opf"
SPACES = {
    "": XHTML,
    "epub": "http://www.idpf.org/2007/ops",
    "m": MATHML,
    "svg": SVG,
    "ncx": "http://www.daisy.org/z3986/2005/ncx/",
    "dc": "http://purl.org/dc/elements/1.1/",
}
WORKER = Path(__file__).with_name("mathml.cjs")
# The style sheets that a page may ask for; nothing else of _static belongs into the package.
STYLES = ("_static/pygments.css", "_static/reader.css")

Formula = tuple[str, bool]


class Fault(Exception):
    """What is wrong with the ePub."""


def converted(
    node: str, tex: Mapping[str, object], items: list[Formula]
) -> dict[Formula, str]:
    """The MathML of each formula."""
    order = {"folder": str(mathjax_folder()), "tex": tex, "items": items}
    done = subprocess.run(
        [node, str(WORKER)],
        input=json.dumps(order),
        capture_output=True,
        encoding="utf8",
    )
    if done.returncode:
        raise Fault(f"Node failed: {done.stderr[-2000:]}")
    told = json.loads(done.stdout)
    faults = [
        f"{fault}: {item[0]}"
        for item, (_, fault) in zip(items, told, strict=True)
        if fault
    ]
    if faults:
        raise Fault("formulas cannot be set:\n" + "\n".join(faults[:10]))
    return {
        item: mathml for item, (mathml, _) in zip(items, told, strict=True)
    }


def named(tag: str) -> str:
    return f"{{{XHTML}}}{tag}"


def classes(element: ET.Element) -> list[str]:
    return element.get("class", "").split()


def is_formula(element: ET.Element) -> bool:
    return "math" in classes(element) and element.tag in (
        named("span"),
        named("div"),
    )


def source(element: ET.Element) -> Formula:
    """The formula in an element, and whether it is a display."""
    # The number of an equation stands before it.
    text = (element.text or "") + "".join(
        child.tail or "" for child in element
    )
    text = text.strip()
    for start, end in (("\\(", "\\)"), ("\\[", "\\]")):
        if text.startswith(start) and text.endswith(end):
            return text[2:-2].strip(), start == "\\["
    return text, element.tag == named("div")


def formulas(page: ET.Element) -> Iterator[ET.Element]:
    return (one for one in page.iter() if is_formula(one))


def set_formula(element: ET.Element, mathml: str) -> None:
    made = ET.fromstring(mathml)
    made.set("alttext", source(element)[0])
    for part in made.iter():
        for name in list(part.attrib):
            # What MathJax notes for itself, and what MathML 3 does not know.
            if name.startswith("data-"):
                del part.attrib[name]
    element.text = None
    numbers = [one for one in element if "eqno" in classes(one)]
    for child in list(element):
        element.remove(child)
    for one in numbers:
        one.tail = None
        element.append(one)
    element.append(made)


def open_on_demand(page: ET.Element) -> None:
    """A box with the class dropdown opens in a reader that can do it, and stands open elsewhere."""
    for box in page.iter(named("div")):
        if "dropdown" not in classes(box):
            continue
        title = box[0]
        if "admonition-title" not in classes(title):
            raise Fault("a box to be opened has no title")
        box.tag = named("details")
        title.tag = named("summary")


# Ids that extensions give to each block alike; nothing leads to them.
ALIKE = {"proof", "proof-content", "exercise-content", "solution-content"}


def without_twins(page: ET.Element) -> None:
    for element in page.iter():
        if element.get("id") in ALIKE:
            del element.attrib["id"]


def without_scripts(page: ET.Element) -> None:
    for parent in page.iter():
        for child in list(parent):
            if child.tag == named("script") or (
                child.tag == named("link")
                and child.get("rel") == "stylesheet"
                and child.get("href", "").partition("?")[0].lstrip("./")
                not in STYLES
            ):
                parent.remove(child)
        for name in [one for one in parent.attrib if one.startswith("on")]:
            del parent.attrib[name]


def properties(page: ET.Element) -> str:
    """What the package has to say of a page."""
    tags = {one.tag for one in page.iter()}
    found = [
        name
        for name, tag in (
            ("mathml", f"{{{MATHML}}}math"),
            ("svg", f"{{{SVG}}}svg"),
        )
        if tag in tags
    ]
    return " ".join(found)


DOCTYPE = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE html>\n'


# Elements without content, which HTML lets stand open.
OPEN = re.compile(r"<(img|br|hr|wbr)\b([^<>]*?)\s*/?>")


def read_page(path: Path) -> ET.Element:
    text = path.read_text("utf8")
    try:
        return ET.fromstring(OPEN.sub(r"<\1\2/>", text))
    except ET.ParseError as error:
        raise Fault(f"{path.name} is no XHTML: {error}") from None


def written(page: ET.Element) -> str:
    for prefix, uri in SPACES.items():
        ET.register_namespace(prefix, uri)
    text = ET.tostring(page, encoding="unicode")
    # Formulas and drawings in their own default namespace, as readers have them from the web.
    for prefix, root, uri in (("m", "math", MATHML), ("svg", "svg", SVG)):
        text = text.replace(f' xmlns:{prefix}="{uri}"', "")
        text = text.replace(f"<{prefix}:{root}", f'<{root} xmlns="{uri}"')
        text = text.replace(f"<{prefix}:", "<").replace(
            f"</{prefix}:", "</"
        )
    return DOCTYPE + text


def contents(opf: str, wanted: set[str], has: Mapping[str, str]) -> str:
    """The package's list: without the files that stay out, with what each page has."""
    for prefix, uri in (("", OPF), ("dc", SPACES["dc"])):
        ET.register_namespace(prefix, uri)
    package = ET.fromstring(opf)
    manifest = package.find(f"{{{OPF}}}manifest")
    spine = package.find(f"{{{OPF}}}spine")
    kept = set()
    for item in list(manifest):
        href = item.get("href")
        if href not in wanted:
            manifest.remove(item)
            continue
        kept.add(item.get("id"))
        if told := has.get(href):
            before = item.get("properties")
            item.set("properties", f"{before} {told}" if before else told)
    for entry in list(spine):
        if entry.get("idref") not in kept:
            spine.remove(entry)
    guide = package.find(f"{{{OPF}}}guide")
    for entry in list(guide) if guide is not None else []:
        if entry.get("href") not in wanted:
            guide.remove(entry)
    if guide is not None and not len(guide):
        package.remove(guide)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(
        package, encoding="unicode"
    )


def pack(files: Mapping[str, bytes], target: Path, epoch: int) -> None:
    """The file of type first and not compressed, as the standard asks; then the others by name."""
    when = time.gmtime(max(epoch, 315532800))[:6]  # a zip begins in 1980
    names = ["mimetype", *sorted(set(files) - {"mimetype"})]
    with zipfile.ZipFile(target, "w") as package:
        for name in names:
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            entry.compress_type = (
                zipfile.ZIP_STORED
                if name == "mimetype"
                else zipfile.ZIP_DEFLATED
            )
            package.writestr(entry, files[name])


def make(
    folder: Path, target: Path, tex: Mapping, node: str, epoch: int
) -> int:
    """From what Sphinx wrote into `folder` to the file `target`; return the number of formulas."""
    opf = (folder / "content.opf").read_text("utf8")
    listed = re.findall(r'<item\b[^>]*\bhref="([^"]+)"', opf)
    wanted = {
        name
        for name in listed
        if name in STYLES
        or not name.startswith(("_static/", "index.html", ".buildinfo"))
    }
    pages = {
        name: read_page(folder / name)
        for name in sorted(wanted)
        if name.endswith(".xhtml")
    }
    for page in pages.values():
        without_scripts(page)
        without_twins(page)
        open_on_demand(page)
    items = list(
        dict.fromkeys(
            source(one) for page in pages.values() for one in formulas(page)
        )
    )
    made = converted(node, tex, items)
    number = 0
    for page in pages.values():
        for one in list(formulas(page)):
            set_formula(one, made[source(one)])
            number += 1
    has = {name: properties(page) for name, page in pages.items()}
    files = {
        name: (folder / name).read_bytes()
        for name in sorted(wanted - set(pages))
    }
    files |= {name: written(page).encode() for name, page in pages.items()}
    files["mimetype"] = b"application/epub+zip"
    files["META-INF/container.xml"] = (
        folder / "META-INF/container.xml"
    ).read_bytes()
    files["content.opf"] = contents(opf, wanted, has).encode()
    pack(files, target, epoch)
    return number
