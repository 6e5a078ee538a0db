"""The Sphinx extensions of the book: each mend does what it says, and a picture without words stops the build."""

from __future__ import annotations

import base64
import io
import subprocess
import sys
import textwrap
import types

import nbformat
import numpy as np
import pytest
from bs4 import BeautifulSoup
from PIL import Image

from tests.extension_support import EXTENSIONS, ROOT, extension, loaded

WORDS = 'A line that rises from 1 to 3.\n\nThen it says "more" & <falls>.'


def test_every_extension_is_switched_on_and_explains_itself():
    settings = (ROOT / "_config.yml").read_text("utf8")
    paper = (ROOT / "tools/build_paper.py").read_text("utf8")
    for path in EXTENSIONS.glob("*.py"):
        on_the_site = f"    {path.stem}: book/_ext\n" in settings
        assert on_the_site or f'"{path.stem}"' in paper
        assert len(extension(path.stem).__doc__) > 80


def test_what_opens_the_pages_below_a_page_has_a_name():
    framed = extension("accessible_html").framed
    page = (
        '<li><a class="reference internal" href="api.html">API reference</a><details{}><summary{}>'
        '<span class="toctree-toggle" role="presentation"></span></summary></details></li>'
    )
    for state in ("", ' open="open"'):
        before = page.format(state, "")
        named = page.format(state, ' aria-label="Pages of API reference"')
        assert framed(before) == named
        assert framed(named) == named


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in EXTENSIONS.glob("*.py"))
)
def test_what_draws_a_node_is_named_after_a_form_not_after_a_builder(name):
    """Where one extension names the builder ``epub``, Sphinx gives that builder no node of any other's ``html``."""
    given = []

    class App:
        def add_node(self, node, **drawn):
            given.extend(drawn)

        def __getattr__(self, other):
            return lambda *args, **more: None

    extension(name).setup(App())
    assert set(given) <= {"html", "latex", "text", "man", "texinfo"}


# Assets


def test_thebe_and_only_thebe_is_dropped():
    def script(filename, body=""):
        return types.SimpleNamespace(
            filename=filename, attributes={"body": body}
        )

    kept = [script("doctools.js"), script(None, "let a = 1;"), "plain.js"]
    thebe = [
        script("https://example.org/thebe/index.js"),
        script("sphinx-thebe.js"),
        script(None, "const THEBE_JS_URL = 1"),
    ]
    module = extension("offline_assets")
    assert module.local_scripts([*thebe[:2], *kept, thebe[2]]) == kept
    body = (
        "<p>a</p>\n"
        '<script type="text/x-thebe-config">{\n"repo": 1}</script>\n'
        "<script>kernelName = 'python3'</script><p>b</p>"
    )
    assert module.THEBE_SETTINGS.sub("", body) == "<p>a</p><p>b</p>"


def test_the_icon_script_is_dropped_in_all_its_forms():
    other = '<script defer src="_static/scripts/bootstrap.js?digest=1"></script>'
    page = (
        '<link rel="preload" as="script" href="../_static/scripts/fontawesome.js?digest=1" />\n'
        '<script defer src="../_static/scripts/fontawesome.js?digest=1"></script>\n'
    )
    without = extension("offline_assets").without_icon_script
    assert without(page + other).strip() == other
    assert without(other) == other


def test_basic_css_is_put_where_it_was_imported():
    basic = "a { background: url(file.png) } b { background: url(\"data:x\"), url('x.png') }"
    theme = '/* first */\n@import "../basic.css";\np { color: red }'
    merged = extension("offline_assets").with_basic_inside(theme, basic)
    assert "@import" not in merged
    assert "url(../file.png)" in merged
    assert 'url("data:x")' in merged
    assert "url('../x.png')" in merged
    assert merged.index("file.png") < merged.index("color: red")


def test_mathjax_is_found_in_the_wheel():
    module = extension("offline_assets")
    for part in module.MATHJAX_PARTS:
        assert (module.mathjax_folder() / part).exists()


# Accessible HTML


def test_references_are_items_of_their_list():
    mended = extension("accessible_html").mended
    assert mended('<div role="doc-biblioentry">') == '<div role="listitem">'


def test_the_side_of_a_page_has_a_name(tmp_path):
    module = extension("accessible_html")
    side = f"<div {module.SIDE}><a href='index.html'>The book</a></div>"
    (tmp_path / "deeper").mkdir()
    pages = [tmp_path / "page.html", tmp_path / "deeper" / "page.html"]
    for page in pages:
        page.write_text(f"<body>{side}</body>", "utf8")
    (tmp_path / "page.txt").write_text(side, "utf8")
    html = types.SimpleNamespace(
        outdir=tmp_path, builder=types.SimpleNamespace(format="html")
    )
    for _ in range(2):  # building again changes nothing
        module.finish(html, None)
        for page in pages:
            found = BeautifulSoup(page.read_text("utf8"), "html.parser")
            assert len(found.select("[role=region][aria-label]")) == 1
    assert (tmp_path / "page.txt").read_text("utf8") == side


def test_long_signatures_are_no_list_of_definitions():
    signature = (
        '<dl>\n<dd><em class="sig-param">x</em>,</dd>\n'
        '<dd><em class="sig-param">y</em>,</dd>\n</dl>'
    )
    definitions = "<dl>\n<dt>term</dt>\n<dd>meaning</dd>\n</dl>"
    page = BeautifulSoup(
        extension("accessible_html").mended(signature + definitions),
        "html.parser",
    )
    assert [line.get_text() for line in page.select("span.sig-line")] == [
        "x,",
        "y,",
    ]
    assert len(page.find_all("dl")) == 1


def test_a_mark_stays_with_its_formula():
    formula = '<span class="math notranslate nohighlight">\\(x\\)</span>'
    tied = extension("formula_lines").tied
    for before, after in (("", "."), ("(", ""), ("(", "),"), ("", "-th")):
        touching = f"{before}{formula}{after}"
        assert (
            tied(f"a {touching} b")
            == f'a <span class="tied">{touching}</span> b'
        )
    assert tied(f"a {formula} b") == f"a {formula} b"


# The API page


def test_the_stand_in_for_torch_is_made_of_classes():
    code = """
        import torch_stand_in

        torch_stand_in.install()
        import torch
        import torch.nn.functional as F
        from jaxtyping import Float
        from torch import Tensor, nn

        assert isinstance(torch, torch_stand_in.StandIn)
        assert isinstance(nn.Module, type) and nn.Module is torch.nn.Module
        assert isinstance(F, torch_stand_in.StandIn)
        Float[Tensor, "T D"]
        assert not hasattr(torch, "__file_that_is_not__")
        torch_stand_in.remove()
        import sys

        assert "torch" not in sys.modules and "torch.nn" not in sys.modules
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=EXTENSIONS,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_names_are_found_where_they_are_defined():
    defined_as = extension("api_names").defined_as
    full = "attention_in_detail.scaled_dot_product.attention"
    assert defined_as("attention_in_detail.attention") == full
    assert defined_as(full) == full
    assert defined_as("attention_in_detail.nowhere") is None
    assert defined_as("no_such_package.name") is None


def test_signatures_say_what_the_source_says():
    from sphinx.util.inspect import signature, stringify_signature

    from attention_in_detail import attention

    text = stringify_signature(
        signature(attention), unqualified_typehints=True
    )
    shown = extension("api_names").spelled_as_written(text)
    assert "mask: Mask | None = None, bias: Bias | None = None" in shown
    assert "Float[Array, '*#batch T D_k']" in shown
    assert "Any" not in shown


# Pictures


@pytest.mark.parametrize(
    ("metadata", "missing"),
    [
        ({"alt": WORDS, "width": 10, "height": 5}, 0),
        ({"alt": WORDS, "width": 10.5, "height": 5}, 0),
        ({"width": 10, "height": 5}, 1),
        ({"alt": " ", "width": 10, "height": 5}, 1),
        (
            {
                "alt": "<Figure size 640x480 with 1 Axes>",
                "width": 10,
                "height": 5,
            },
            1,
        ),
        ({"alt": "../_images/a.png", "width": 10, "height": 5}, 1),
        ({"alt": "0123456789abcdef01", "width": 10, "height": 5}, 1),
        ({"alt": WORDS, "width": 0, "height": True}, 2),
        ({"alt": WORDS, "width": "10px"}, 2),
        ({}, 3),
    ],
)
def test_what_is_missing_from_a_picture_is_told(metadata, missing):
    assert len(extension("notebook_figures").faults(metadata)) == missing


def png():
    stream = io.BytesIO()
    Image.new("RGBA", (4, 2)).save(stream, "PNG")
    return base64.b64encode(stream.getvalue()).decode()


@pytest.fixture
def built(tmp_path):
    """Build a book of one notebook that shows one picture; return what Sphinx says and the page."""

    def build(
        metadata, cell_metadata=None, picture_data=None, builder="html"
    ):
        book = nbformat.v4.new_notebook(
            metadata={"language_info": {"name": "python"}}
        )
        picture = nbformat.v4.new_code_cell(
            "picture", metadata=cell_metadata or {}, execution_count=1
        )
        picture.outputs = [
            nbformat.v4.new_output(
                "execute_result",
                data={
                    "image/png": picture_data or png(),
                    "text/plain": "Figure: words",
                },
                metadata={"image/png": metadata} if metadata else {},
                execution_count=1,
            )
        ]
        book.cells = [nbformat.v4.new_markdown_cell("# A page"), picture]
        source = tmp_path / "source"
        source.mkdir()
        nbformat.write(book, source / "chapter.ipynb")
        (source / "conf.py").write_text(
            f"import sys; sys.path.insert(0, {str(EXTENSIONS)!r})\n"
            "extensions = ['myst_nb', 'notebook_figures']\nversion = copyright = '1'\n"
            "nb_execution_mode = 'off'\nroot_doc = 'chapter'\nnumfig = True\n"
        )
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "sphinx",
                "-q",
                "-W",
                "--keep-going",
                "-b",
                builder,
                "-d",
                "doctrees",
                "source",
                builder,
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        pages = [*(tmp_path / builder).glob("chapter.*html")]
        text = pages[0].read_text("utf8") if pages else ""
        return done, BeautifulSoup(text, "html.parser")

    return build


@pytest.mark.parametrize("caption", [None, "What to see."])
def test_words_and_size_of_a_picture_reach_the_page(built, caption):
    figure = {"mystnb": {"figure": {"caption": caption, "name": "fig-a"}}}
    done, page = built(
        {"alt": WORDS, "width": 200, "height": 100},
        figure if caption else None,
    )
    assert done.returncode == 0, done.stderr
    (image,) = page.select("div.cell_output img")
    assert image["alt"] == WORDS
    assert (image["width"], image["height"]) == ("200", "100")
    # Pictures are there before a reader, a printer or a screenshot gets to them.
    assert image.get("loading") is None
    assert (
        "dark-light" in image["class"]
    )  # the theme then leaves it as it is
    assert "style" not in image.attrs
    (words,) = page.select("details.figure-in-words")
    assert words.summary.get_text() == "This figure in words"
    assert [part.get_text() for part in words.find_all("p")] == WORDS.split(
        "\n\n"
    )
    if caption:
        assert caption in page.figure.figcaption.get_text()
        assert words.find_previous_sibling("figure") is page.figure


def two_drawings():
    """A PNG, white above and black below, and the palette that makes it black above and white below."""
    image = Image.new("P", (4, 2), 0)
    image.putpalette([255, 255, 255, 0, 0, 0])
    image.paste(1, (0, 1, 4, 2))
    stream = io.BytesIO()
    image.save(stream, "PNG", optimize=True)
    palette = base64.b64encode(bytes([0, 0, 0, 255, 255, 255])).decode()
    return base64.b64encode(stream.getvalue()).decode(), palette


@pytest.mark.parametrize("caption", [None, "What to see."])
def test_a_figure_drawn_twice_has_two_pictures_of_which_one_is_hidden(
    built, tmp_path, caption
):
    figure = {"mystnb": {"figure": {"caption": caption, "name": "fig-a"}}}
    picture, palette = two_drawings()
    about = {"alt": WORDS, "width": 2, "height": 1, "dark_palette": palette}
    done, page = built(about, figure if caption else None, picture)
    assert done.returncode == 0, done.stderr
    light, dark = page.select("div.cell_output img")
    assert light["alt"] == dark["alt"] == WORDS
    for image, name in ((light, "on-light"), (dark, "on-dark")):
        assert name in image["class"]
        assert (image["width"], image["height"]) == ("2", "1")
        assert image["loading"] == "lazy"
    assert "hidden" in dark.attrs
    assert "hidden" not in light.attrs
    assert light.find_next_sibling() is dark
    colours = []
    for image in (light, dark):
        with Image.open(tmp_path / "html" / image["src"]) as file:
            colours.append(np.asarray(file.convert("L")))
    np.testing.assert_array_equal(colours[0], [[255] * 4, [0] * 4])
    np.testing.assert_array_equal(colours[1], [[0] * 4, [255] * 4])
    # One text alternative below both.
    (words,) = page.select("details.figure-in-words")
    assert dark.find_next("details") is words


@pytest.mark.parametrize("builder", ["epub", "latex"])
def test_a_book_has_the_drawing_for_a_light_page_alone(
    built, tmp_path, builder
):
    picture, palette = two_drawings()
    about = {"alt": WORDS, "width": 2, "height": 1, "dark_palette": palette}
    done, page = built(about, None, picture, builder)
    assert done.returncode == 0, done.stderr
    folder = "_images" if builder == "epub" else "."
    (file,) = (tmp_path / builder / folder).glob("*.png")
    assert file.read_bytes() == base64.b64decode(picture)
    if builder == "epub":
        (image,) = page.select("div.cell_output img")
        assert image["alt"] == WORDS


def test_a_picture_without_words_stops_the_build(built):
    done, page = built(None)
    assert done.returncode != 0
    assert "chapter.ipynb" in done.stderr
    assert "cell 2" in done.stderr
    assert "no text alternative" in done.stderr
    assert page.select("div.cell_output img")  # shown all the same


def test_the_picture_of_the_front_page_is_drawn_from_its_numbers():
    module = loaded(
        ROOT / "book" / "_pictures" / "attention_at_a_glance.py"
    )
    assert module.TARGET.read_text("utf8") == module.draw()
    for scores in module.SCORES.values():
        assert sum(module.softmax(scores)) == pytest.approx(1)
    shown = [
        float(module.short(w)) for w in module.softmax(module.SCORES[2])
    ]
    assert round(sum(shown), 2) == 1  # what the reader adds up
