"""A viewer on a page of the book: data and picture on the page, one script for all, the picture alone elsewhere."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile
from html import escape
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup

from attention_in_detail.figures import attention_viewer
from attention_in_detail.figures.viewer import script
from attention_in_detail.models.maps import stored_maps

ROOT = Path(__file__).resolve().parents[1]
EXTENSIONS = ROOT / "book" / "_ext"
HEADS = [(0, 2), (0, 0), (3, 1)]  # the second has the most lines
SETTINGS = f"""
import sys
sys.path.insert(0, {str(EXTENSIONS)!r})
extensions = ["myst_nb", "notebook_figures", "attention_viewer"]
nb_execution_mode = "off"
root_doc = "index"
numfig = True
epub_show_urls = "no"
version = "1"
copyright = "2026"
"""


def viewers():
    maps = stored_maps()[0]
    return [
        attention_viewer(
            maps.weights, maps.tokens, layer=layer, head=head, first=0
        )
        for layer, head in HEADS
    ]


def cell(number, data, metadata):
    figure = {
        "mystnb": {
            "figure": {
                "caption": f"Caption {number}.",
                "name": f"fig-v{number}",
            }
        }
    }
    code = nbformat.v4.new_code_cell(
        "viewer", metadata=figure, execution_count=number
    )
    code.outputs = [
        nbformat.v4.new_output(
            "execute_result",
            data,
            metadata=metadata,
            execution_count=number,
        )
    ]
    return code


def notebook(path, *cells):
    page = nbformat.v4.new_notebook(
        metadata={"language_info": {"name": "python"}},
        cells=[nbformat.v4.new_markdown_cell(f"# {path.stem}"), *cells],
    )
    nbformat.write(page, path)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("book")
    cells = [
        cell(number, *viewer._repr_mimebundle_())
        for number, viewer in enumerate(viewers(), 1)
    ]
    text = nbformat.v4.new_markdown_cell("See {numref}`fig-v2`.")
    notebook(folder / "viewers.ipynb", text, *cells)
    other = {"text/html": "<b>bold</b>", "text/plain": "bold"}
    notebook(folder / "other.ipynb", cell(9, other, {}))
    (folder / "index.md").write_text(
        "# Book\n\n```{toctree}\nviewers\nother\n```\n"
    )
    (folder / "conf.py").write_text(SETTINGS)
    return folder


def built(source, builder, *options):
    target = source.parent / f"{source.name}-{builder}"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "sphinx",
            "-qW",
            "--keep-going",
            *options,
            "-b",
            builder,
            "-d",
            f"{target}-doctrees",
            str(source),
            str(target),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def site(source):
    return built(source, "html")


def page_of(site, name):
    text = (site / f"{name}.html").read_text("utf8")
    return BeautifulSoup(text, "html.parser")


def test_each_viewer_has_its_data_and_its_picture(site):
    found = page_of(site, "viewers").select("figure attention-viewer")
    assert len(found) == len(HEADS)
    for viewer, tag in zip(viewers(), found, strict=True):
        assert tag.attrs == viewer.attributes
        light, dark = tag.find_all("img")
        for image in (light, dark):
            assert image["alt"] == viewer.text_alternative
            assert (int(image["width"]), int(image["height"])) == (
                viewer.picture.css_width,
                viewer.picture.css_height,
            )
        assert (site / light["src"]).read_bytes() == viewer.png()
        assert "hidden" in dark.attrs


def test_captions_numbers_words_and_references_are_those_of_a_figure(site):
    page = page_of(site, "viewers")
    captions = [caption.get_text() for caption in page.select("figcaption")]
    assert [
        f"Fig. {number} Caption {number}." in caption
        for number, caption in enumerate(captions, 1)
    ] == [True] * 3
    reference = page.select_one('section > p > a[href="#fig-v2"]')
    assert reference.get_text() == "Fig. 2"
    assert page.select("figure#fig-v2 attention-viewer")
    assert len(page.select("details.figure-in-words")) == 3


def test_the_script_is_one_file_that_only_pages_with_a_viewer_load(site):
    (tag,) = page_of(site, "viewers").select(
        'script[src*="attention_viewer.js"]'
    )
    assert "defer" in tag.attrs
    path, _, checksum = tag["src"].partition("?v=")
    assert checksum  # so that a changed script is not taken from a cache
    # The source itself, in what lets a viewer wait for its reader.
    text = (site / path).read_text("utf8")
    assert script() in text
    assert "IntersectionObserver" in text.replace(script(), "")
    for name in ("other", "index"):
        assert "attention_viewer" not in (site / f"{name}.html").read_text(
            "utf8"
        )
    assert "customElements" not in (site / "viewers.html").read_text("utf8")


def test_it_can_be_had_as_it_is(source):
    target = built(source, "dirhtml", "-D", "light_viewers=0")
    text = (target / "_static" / "attention_viewer.js").read_text("utf8")
    assert text == script()


def test_other_html_is_left_as_it_was(site):
    assert page_of(site, "other").select("div.cell_output b")


def test_three_viewers_of_all_heads_weigh_less_than_300_kb(site):
    tags = page_of(site, "viewers").select("attention-viewer")
    data = sum(
        len(f' {name}="{escape(value)}"'.encode())
        for tag in tags
        for name, value in tag.attrs.items()
    )
    pictures = sum((site / tag.img["src"]).stat().st_size for tag in tags)
    code = (site / "_static" / "attention_viewer.js").stat().st_size
    assert data > 3 * 72 * 15 * 15  # nothing was left out of the sum
    assert code + data < 130_000
    assert code + data + pictures < 300_000
    assert (site / "viewers.html").stat().st_size < data + 40_000


def test_an_epub_has_the_pictures_and_no_viewer(source):
    target = built(source, "epub")
    (book,) = target.glob("*.epub")
    with zipfile.ZipFile(book) as archive:
        names = archive.namelist()
        (name,) = [name for name in names if "viewers" in name]
        page = BeautifulSoup(archive.read(name), "html.parser")
    assert not page.find("attention-viewer")
    assert not [name for name in names if name.endswith("viewer.js")]
    images = page.find_all("img")
    assert [image["alt"] for image in images] == [
        viewer.text_alternative for viewer in viewers()
    ]
    assert {Path(image["src"]).name for image in images} <= {
        Path(name).name for name in names
    }


def test_latex_gets_the_pictures(source):
    target = built(source, "latex")
    (text,) = [path.read_text("utf8") for path in target.glob("*.tex")]
    assert text.count("\\sphinxincludegraphics") == 3
    assert "attention-viewer" not in text
    assert len(list(target.glob("*.png"))) == 3


def test_the_extension_finds_the_script_without_loading_matplotlib():
    code = (
        f"import sys; sys.path.insert(0, {str(EXTENSIONS)!r}); sys.modules['matplotlib'] = None\n"
        "import attention_viewer as extension; print(extension.script_file().is_file())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    )
    assert done.stdout.strip() == "True", done.stderr


def test_only_html_that_begins_with_the_tag_is_a_viewer():
    specification = importlib.util.spec_from_file_location(
        "book_viewer", EXTENSIONS / "attention_viewer.py"
    )
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    given = (
        '<attention-viewer a="1" queries="[&quot;x&quot;]">\n<img src="b">'
    )
    assert module.data_of(given) == {"a": "1", "queries": '["x"]'}
    assert module.data_of(f"<p>{given}</p>") is None
    assert module.data_of("<attention-viewers>") is None
