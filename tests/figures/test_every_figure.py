"""What holds for every figure: it can be read on both grounds, its words keep their room, its pixels show its data."""

import subprocess
import sys
from hashlib import sha256
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
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
    DARK_GROUND,
    LIGHT_GROUND,
    contrast,
    drawing_style,
)
from tests.figures.reading import (
    SAMPLES,
    on_ground,
    pixels,
    usual_pixel,
    words,
)

GROUNDS = [to_rgb(LIGHT_GROUND), to_rgb(DARK_GROUND)]
each_sample = pytest.mark.parametrize("name", SAMPLES)
ROOT = Path(__file__).parents[2]


def lowest_contrast(colour, pixel):
    """Return the lower contrast, on the two grounds, of a colour (with its alpha) over a pixel."""
    contrasts = []
    for ground in GROUNDS:
        below = on_ground(pixel, ground)
        over = on_ground(np.array(to_rgba(colour)) * 255, below)
        contrasts.append(contrast(over, below))
    return min(contrasts)


@each_sample
def test_words_have_contrast_with_what_lies_below_them_on_both_grounds(
    name,
):
    picture = SAMPLES[name](0)
    found = words(picture)
    assert found
    for w in found:
        w.artist.set_visible(False)
    below = pixels(picture)
    for w in found:
        reached = lowest_contrast(
            w.artist.get_color(),
            usual_pixel(below, w.left, w.top, w.right, w.bottom),
        )
        assert reached >= 4.5, f"{w.text!r} reaches {reached:.2f} : 1"


@each_sample
def test_lines_and_markers_have_contrast_with_what_lies_below_them_on_both_grounds(
    name,
):
    picture = SAMPLES[name](0)
    lines = [line for axes in picture.axes for line in axes.lines]
    spots = []
    with drawing_style():
        for line in lines:
            places = line.get_transform().transform(
                np.column_stack(line.get_data())
            )
            spots += [
                (line, x, picture.css_height - y)
                for x, y in (
                    places[0],
                    places[len(places) // 2],
                    places[-1],
                )
            ]
    for artist in picture.findobj(lambda a: isinstance(a, Line2D | Text)):
        artist.set_visible(False)
    below = pixels(picture)
    for line, x, y in spots:
        row, column = (
            int(np.clip(2 * place, 0, size - 1))
            for place, size in ((y, below.shape[0]), (x, below.shape[1]))
        )
        colour = (*to_rgb(line.get_color()), line.get_alpha() or 1.0)
        reached = lowest_contrast(colour, below[row, column])
        assert reached >= 3, (
            f"line {line.get_gid()} at ({x:.0f}, {y:.0f}) reaches {reached:.2f} : 1"
        )


@each_sample
def test_frames_have_contrast_with_both_grounds(name):
    for patch in SAMPLES[name](0).findobj(
        lambda a: isinstance(a, Rectangle) and a.get_linewidth() > 0
    ):
        if patch.get_visible() and patch.get_edgecolor()[3] > 0:
            assert lowest_contrast(patch.get_edgecolor(), (0, 0, 0, 0)) >= 3


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
def test_the_ground_is_transparent_and_something_is_drawn(name):
    image = pixels(SAMPLES[name](0))
    for corner in (image[0, 0], image[0, -1], image[-1, 0], image[-1, -1]):
        assert corner[3] == 0
    assert (image[..., 3] == 255).sum() > 200
    assert image.shape[:2] == (
        2 * SAMPLES[name](0).css_height,
        2 * SAMPLES[name](0).css_width,
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


@pytest.mark.slow
def test_every_process_draws_the_same_bytes_whatever_the_readers_settings():
    script = (
        "import matplotlib\n"
        "matplotlib.rcParams.update({'font.size': 30, 'lines.linewidth': 9, 'text.color': 'red', 'savefig.dpi': 31,"
        " 'axes.facecolor': 'yellow', 'figure.autolayout': True, 'savefig.bbox': 'tight', 'mathtext.fontset': 'cm'})\n"
        "from hashlib import sha256\n"
        "from tests.figures.reading import SAMPLES\n"
        "for name, draw in SAMPLES.items():\n"
        "    print(sha256(draw(0).png()).hexdigest())\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        timeout=300,
    )
    here = [sha256(draw(0).png()).hexdigest() for draw in SAMPLES.values()]
    assert run.stdout.split() == here


def test_drawing_twice_gives_the_same_bytes():
    picture = SAMPLES["curves"](0)
    assert picture.png() == picture.png()
