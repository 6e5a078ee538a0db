"""What holds for every figure: it can be read on its ground, its words keep their room, its pixels show
its data."""

import subprocess
import sys
from hashlib import sha256
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb, to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.text import Text

from attention_in_detail.figures import (
    attention_lines,
    bars,
    curves,
    head_grid,
    matrix_blocks,
    matrix_products,
    split_layouts,
    weights_heatmap,
)
from attention_in_detail.figures.style import (
    DARK,
    LIGHT,
    contrast,
    drawing_style,
)
from tests.figures.reading import (
    ALL,
    SAMPLES,
    over,
    pixels,
    shown,
    usual_pixel,
    words,
)

each_sample = pytest.mark.parametrize("name", SAMPLES)
each_figure = pytest.mark.parametrize("name", ALL)
ROOT = Path(__file__).parents[2]


def needed(pixel, used):
    """The contrast of words: on the open page, and in a cell."""
    on_the_ground = np.allclose(pixel / 255, to_rgb(used.ground))
    return 7 if on_the_ground else 4.5


def assert_words_stand_out(found, below, used):
    for w in found:
        pixel = usual_pixel(below, w.left, w.top, w.right, w.bottom)
        reached = contrast(
            over(w.artist.get_color(), pixel), over("none", pixel)
        )
        assert reached >= needed(pixel, used), (
            f"{w.text!r} reaches {reached:.2f} : 1"
        )


def assert_words_are_seen(found, image, used):
    """Seen in the pixels that a page shows, where the strokes of small letters are soft at their edges."""
    for w in found:
        box = image[
            int(2 * w.top) : int(2 * w.bottom) + 1,
            int(2 * w.left) : int(2 * w.right) + 1,
        ]
        colours = np.unique(box.reshape(-1, 3), axis=0) / 255
        below = usual_pixel(image, w.left, w.top, w.right, w.bottom)
        reached = max(contrast(c, below / 255) for c in colours)
        assert reached >= needed(below, used), (
            f"{w.text!r} is seen with {reached:.2f} : 1"
        )


def assert_lines_stand_out(picture, below):
    for line in (line for axes in picture.axes for line in axes.lines):
        with drawing_style():
            places = line.get_transform().transform(
                np.column_stack(line.get_data())
            )
        for x, y in (places[0], places[len(places) // 2], places[-1]):
            down = picture.css_height - y
            row, column = (
                int(np.clip(2 * place, 0, size - 1))
                for place, size in (
                    (down, below.shape[0]),
                    (x, below.shape[1]),
                )
            )
            pixel = below[row, column]
            colour = (*to_rgb(line.get_color()), line.get_alpha() or 1.0)
            reached = contrast(over(colour, pixel), over("none", pixel))
            assert reached >= 3, (
                f"line {line.get_gid()} at ({x:.0f}, {down:.0f}) reaches {reached:.2f} : 1"
            )


def assert_frames_stand_out(picture, used):
    for patch in picture.findobj(
        lambda a: isinstance(a, Rectangle) and a.get_linewidth() > 0
    ):
        if patch.get_visible() and patch.get_edgecolor()[3] > 0:
            assert contrast(patch.get_edgecolor(), used.ground) >= 3


def assert_shown_as_drawn(picture, image, used):
    drawn = picture._pixels()
    assert image.shape == drawn.shape
    ground = np.array(to_rgb(used.ground)) * 255
    for corner in ((0, 0), (0, -1), (-1, 0), (-1, -1)):
        np.testing.assert_allclose(image[corner], ground)
    assert (image != ground).any(axis=2).sum() > 200
    # The shades at the edges of letters share colours; areas do not.
    off = np.abs(image - drawn)
    assert (off**2).mean() ** 0.5 < 2
    assert (off.max(axis=-1) > 24).mean() < 0.002


@each_figure
def test_a_figure_reads_on_the_ground_of_either_drawing(name):
    picture = ALL[name](0)
    drawings = (picture, picture.on_dark())
    for drawing, image, used in zip(
        drawings, shown(picture), (LIGHT, DARK), strict=True
    ):
        assert_shown_as_drawn(drawing, image, used)
        assert_frames_stand_out(drawing, used)
        found = words(drawing)
        assert found
        assert_words_are_seen(found, image, used)
        for artist in drawing.findobj(
            lambda a: isinstance(a, Line2D | Text)
        ):
            artist.set_visible(False)
        below = pixels(drawing)
        assert_words_stand_out(found, below, used)
        assert_lines_stand_out(drawing, below)


def colours_of(picture):
    """The colours that a picture is drawn in, without those of single cells of a map."""
    found = set()
    for artist in picture.findobj(
        lambda a: isinstance(a, Patch | Line2D | Text)
    ):
        pairs = (
            [artist.get_edgecolor(), artist.get_facecolor()]
            if isinstance(artist, Patch)
            else [artist.get_color()]
        )
        if artist.get_visible():
            found |= {
                to_hex(colour) for colour in pairs if to_rgba(colour)[3]
            }
    return found


@each_figure
def test_the_drawings_differ_in_their_inks_and_in_nothing_else(name):
    light = ALL[name](0)
    dark = light.on_dark()
    assert dark.text_alternative == light.text_alternative
    told = [
        [(w.text, w.left, w.top) for w in words(picture)]
        for picture in (light, dark)
    ]
    assert told[0] == told[1]
    own = [
        {used.words, used.rule, used.paper} | {*used.series, *used.tints}
        for used in (LIGHT, DARK)
    ]
    assert not colours_of(dark) & own[0]
    assert not colours_of(light) & own[1]


@each_sample
@pytest.mark.parametrize("seed", range(3))
def test_words_stay_inside_the_picture_and_apart_from_each_other(
    name, seed
):
    picture = SAMPLES[name](seed)
    found = words(picture)
    for w in found:
        assert w.left >= 0, w
        assert w.top >= 0, w
        assert w.right <= picture.css_width, w
        assert w.bottom <= picture.css_height, w
    for a, b in combinations(found, 2):
        across = min(a.right, b.right) - max(a.left, b.left)
        down = min(a.bottom, b.bottom) - max(a.top, b.top)
        # The box of a text has room above and below its letters, which neighbours may share.
        assert across <= 1 or down <= 6, (
            f"{a.text!r} and {b.text!r} share {across:.0f} by {down:.0f} pixels"
        )


@each_sample
def test_type_is_readable_on_a_phone(name):
    """A screen of 390 pixels leaves 350 to a picture: figures of up to 560 pixels keep type of 8 pixels there."""
    picture = SAMPLES[name](0)
    assert picture.css_width <= 720
    shrink = min(1, 350 / picture.css_width)
    for w in words(picture):
        size = w.artist.get_fontsize() * 96 / 72
        assert size >= 10, w
        if picture.css_width <= 560:
            assert size * shrink >= 7.9, (
                f"{w.text!r} is {size * shrink:.1f} pixels on a phone"
            )


@each_sample
def test_other_data_make_another_picture(name):
    first, second = SAMPLES[name](0), SAMPLES[name](1)
    if name in (
        "large blocks",
        "layouts",
    ):  # their entries are not drawn, or only by their place
        np.testing.assert_array_equal(pixels(first), pixels(second))
        return
    a, b = pixels(first), pixels(second)
    assert a.shape != b.shape or (a != b).any(axis=2).sum() > 50


@each_sample
def test_the_words_carry_no_signs_of_typesetting(name):
    said = SAMPLES[name](0).text_alternative
    assert not set("$\\{}") & set(said)
    assert not {"nan", "inf", "None"} & set(said.split())
    assert said.endswith(".")


X = np.arange(4).reshape(2, 2)
WITH_WORDS = {
    "attention_lines": lambda words: attention_lines([[0.5, 0.5]], **words),
    "bars": lambda words: bars(["a"], [1], value_label="n", **words),
    "curves": lambda words: curves(
        [0, 1], {"a": [0, 1]}, x_label="x", y_label="y", **words
    ),
    "head_grid": lambda words: head_grid([[[0.5, 0.5]]], **words),
    "matrix_blocks": lambda words: matrix_blocks(
        X,
        ["A"],
        symbol="W",
        row_name="D_q",
        column_name="D",
        block_name="D_h",
        **words,
    ),
    "matrix_products": lambda words: matrix_products(X, X, X, **words),
    "split_layouts": lambda words: split_layouts(
        X, X[None], X[None], **words
    ),
    "weights_heatmap": lambda words: weights_heatmap([[0.5, 0.5]], **words),
}


@pytest.mark.parametrize("function", WITH_WORDS)
def test_words_of_the_caller_take_the_place_of_those_from_the_data(
    function,
):
    draw = WITH_WORDS[function]
    words_of_caller = {"text_alternative": "In other words."}
    assert draw(words_of_caller).text_alternative == "In other words."
    assert draw({}).text_alternative != "In other words."


# One of each function, and none of those that take long.
FEW = [
    name
    for name in SAMPLES
    if not name.startswith(("many", "long", "large"))
]


@pytest.mark.slow
def test_every_process_draws_the_same_bytes_whatever_the_readers_settings():
    script = (
        "import matplotlib\n"
        "matplotlib.rcParams.update({'font.size': 30, 'lines.linewidth': 9, 'text.color': 'red', 'savefig.dpi': 31,"
        " 'axes.facecolor': 'yellow', 'figure.autolayout': True, 'savefig.bbox': 'tight', 'mathtext.fontset': 'cm'})\n"
        "from hashlib import sha256\n"
        "from tests.figures.reading import SAMPLES\n"
        f"for name in {FEW}:\n"
        "    stored = repr(SAMPLES[name](0)._repr_mimebundle_())\n"
        "    print(sha256(stored.encode()).hexdigest())\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        timeout=300,
    )
    stored = [repr(SAMPLES[name](0)._repr_mimebundle_()) for name in FEW]
    here = [sha256(text.encode()).hexdigest() for text in stored]
    assert run.stdout.split() == here


def test_drawing_twice_gives_the_same_bytes():
    picture = SAMPLES["curves"](0)
    assert picture.png() == picture.png()
