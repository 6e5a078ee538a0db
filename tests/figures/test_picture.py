import base64
import io
import subprocess
import sys

import matplotlib as mpl
import pytest
from IPython.core.formatters import DisplayFormatter
from matplotlib.figure import Figure
from PIL import Image

from attention_in_detail.figures import Picture


def drawn():
    picture = Picture(120, 80, text_alternative="A line that rises.")
    axes = picture.axes_at(20, 10, 90, 60)
    axes.plot([0, 1], [0, 1], color="black")
    return picture


def dark_box(picture):
    """The box around all that is dark on the white ground: left, top, right, bottom."""
    image = Image.open(io.BytesIO(picture.png())).convert("L")
    return image.point(lambda grey: 255 * (grey < 128)).getbbox()


def test_a_notebook_gets_the_image_and_the_words():
    data, metadata = drawn()._repr_mimebundle_()
    assert set(data) == {"image/png", "text/plain"}
    assert data["text/plain"] == "Figure: A line that rises."
    assert metadata == {
        "image/png": {
            "alt": "A line that rises.",
            "width": 120,
            "height": 80,
        }
    }
    image = Image.open(
        io.BytesIO(base64.b64decode(data["image/png"], validate=True))
    )
    assert image.size == (240, 160)
    assert image.mode == "P"


def test_ipython_shows_it_through_the_bundle():
    data, metadata = DisplayFormatter().format(drawn())
    assert data["text/plain"] == "Figure: A line that rises."
    assert base64.b64decode(data["image/png"]) == drawn().png()
    assert metadata["image/png"]["alt"] == "A line that rises."


def test_the_png_names_no_software_and_no_date():
    assert Image.open(io.BytesIO(drawn().png())).info == {}


@pytest.mark.parametrize("width", [1, 97, 333, 479, 719, 720])
def test_the_png_is_exactly_twice_the_css_size(width):
    picture = Picture(width, width + 3, text_alternative="nothing")
    assert Image.open(io.BytesIO(picture.png())).size == (
        2 * width,
        2 * width + 6,
    )


@pytest.mark.parametrize("alternative", ["", "  \n"])
def test_a_picture_without_words_is_refused(alternative):
    with pytest.raises(
        ValueError,
        match=r"^text_alternative is empty: say in words what the picture shows$",
    ):
        Picture(100, 100, text_alternative=alternative)


def test_words_cannot_be_taken_away_later():
    picture = drawn()
    with pytest.raises(ValueError, match="text_alternative is empty"):
        picture.text_alternative = " "
    picture.text_alternative = "Other\n  words."
    assert (
        picture._repr_mimebundle_()[0]["text/plain"]
        == "Figure: Other words."
    )


@pytest.mark.parametrize("width", [0, 721])
def test_a_width_that_no_page_has_is_refused(width):
    with pytest.raises(
        ValueError,
        match=f"^width is {width} css pixels, a page has room for 1 to 720$",
    ):
        Picture(width, 100, text_alternative="wide")


def test_a_height_of_nothing_is_refused():
    with pytest.raises(
        ValueError, match=r"^height is 0 css pixels, at least 1 is needed$"
    ):
        Picture(100, 0, text_alternative="flat")


def test_axes_stand_where_they_were_asked_for():
    picture = Picture(200, 100, text_alternative="A black field.")
    picture.axes_at(40, 10, 60, 20).set_axis_off()
    picture.axes[0].axvspan(0, 1, color="black", linewidth=0)
    picture.axes[0].set_xlim(0, 1)
    assert dark_box(picture) == (80, 20, 200, 60)


def test_the_page_counts_css_pixels_from_the_top_left_corner():
    picture = Picture(200, 100, text_alternative="A black field.")
    picture.page().fill(
        [10, 30, 30, 10], [5, 5, 25, 25], color="black", linewidth=0
    )
    assert dark_box(picture) == (20, 10, 60, 50)


def test_the_readers_settings_come_back():
    before = mpl.rcParams.copy()
    drawn().png()
    assert mpl.rcParams.copy() == before


def test_importing_and_drawing_leaves_pyplot_alone_and_changes_no_setting():
    script = (
        "import sys, matplotlib\n"
        "before = matplotlib.rcParams.copy()\n"
        "from attention_in_detail.figures import weights_heatmap\n"
        "assert matplotlib.rcParams.copy() == before\n"
        "weights_heatmap([[0.25, 0.75]]).png()\n"
        "assert matplotlib.rcParams.copy() == before\n"
        "print('matplotlib.pyplot' in sys.modules, 'torch' in sys.modules)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert run.stdout.split() == ["False", "False"]


def test_it_is_a_figure_that_matplotlib_can_save_elsewhere(tmp_path):
    picture = drawn()
    assert isinstance(picture, Figure)
    picture.savefig(tmp_path / "picture.svg")
    assert "<svg" in (tmp_path / "picture.svg").read_text()
