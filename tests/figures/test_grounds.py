"""Two drawings in one image: what a page gets on either ground is what was drawn for it."""

import base64
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import conftest
from attention_in_detail.figures import Picture, head_grid, weights_heatmap
from attention_in_detail.figures._grounds import (
    MOST,
    as_png,
    shared_palette,
)
from attention_in_detail.figures._palette import with_palette
from tests.figures.reading import rows_of_weights, shown

PALETTE = (
    Path(__file__).parents[2]
    / "src/attention_in_detail/figures/_palette.py"
)


def random_pair(seed, height, width, colours):
    """Two drawings of the same areas, each in colours of its own."""
    draw = np.random.default_rng(seed)
    areas = draw.integers(0, colours, (height, width))
    inks = draw.integers(0, 256, (2, colours, 3)).astype(np.uint8)
    return [ink[areas] for ink in inks]


@pytest.mark.parametrize("colours", [1, 2, 17, MOST])
def test_few_colours_are_kept_exactly_on_both_grounds(colours):
    drawings = random_pair(colours, 30, 40, colours)
    numbers, palettes = shared_palette(drawings)
    assert numbers.shape == (30, 40)
    for drawing, palette in zip(drawings, palettes, strict=True):
        assert len(palette) <= colours
        np.testing.assert_array_equal(palette[numbers], drawing)


def test_one_drawing_has_one_palette():
    (drawing, _) = random_pair(0, 5, 6, 4)
    numbers, (palette,) = shared_palette([drawing])
    np.testing.assert_array_equal(palette[numbers], drawing)


def test_of_many_colours_those_of_areas_are_kept():
    drawings = random_pair(1, 100, 100, 3)
    rare = random_pair(2, 10, 100, 1000)
    for drawing, few in zip(drawings, rare, strict=True):
        drawing[:10] = few
    numbers, palettes = shared_palette(drawings)
    assert numbers.max() == MOST - 1
    for drawing, palette in zip(drawings, palettes, strict=True):
        np.testing.assert_array_equal(palette[numbers][10:], drawing[10:])


def test_a_small_change_of_the_drawing_changes_little():
    """What the last digits of a computation may change: a cell takes the next colour of its map."""
    weights = rows_of_weights(3, 4, 12, 12)
    other = weights.copy()
    other[2, 5] += 0.004 * np.eye(12)[3]
    for one, two in zip(
        shown(head_grid(weights, maximum=1)),
        shown(head_grid(np.clip(other, 0, 1), maximum=1)),
        strict=True,
    ):
        assert (one != two).any()
        assert ((one - two) ** 2).mean() ** 0.5 < 0.25


def test_fewer_colours_can_be_asked_for():
    drawings = random_pair(8, 20, 30, 40)
    _, palettes = shared_palette(drawings, 16)
    assert [len(palette) for palette in palettes] == [16, 16]


def test_a_png_says_its_palette_and_nothing_of_its_making():
    drawings = random_pair(4, 8, 9, 5)
    numbers, palettes = shared_palette(drawings)
    png = as_png(numbers, palettes[0])
    assert png == as_png(numbers, palettes[0])
    with Image.open(io.BytesIO(png)) as image:
        assert image.info == {}
        np.testing.assert_array_equal(image.convert("RGB"), drawings[0])
    dark = with_palette(png, palettes[1].tobytes())
    with Image.open(io.BytesIO(dark)) as image:
        image.load()  # refuses a wrong checksum
        np.testing.assert_array_equal(image.convert("RGB"), drawings[1])
    assert with_palette(dark, palettes[0].tobytes()) == png


def test_a_palette_that_does_not_fit_is_refused():
    numbers, (palette, _) = shared_palette(random_pair(5, 8, 9, 5))
    png = as_png(numbers, palette)
    with pytest.raises(ValueError, match=r"^palette has 12 bytes, that of"):
        with_palette(png, palette.tobytes()[:12])
    stream = io.BytesIO()
    Image.new("RGB", (2, 2)).save(stream, "PNG")
    with pytest.raises(ValueError, match=r"that of the PNG has 0$"):
        with_palette(stream.getvalue(), b"123")


def test_the_module_of_palettes_needs_nothing_but_python():
    done = subprocess.run(
        [
            sys.executable,
            "-S",
            "-I",
            "-c",
            f"import runpy; print(runpy.run_path({str(PALETTE)!r})['with_palette'].__name__)",
        ],
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "with_palette", done.stderr


def test_a_notebook_stores_the_colours_for_a_dark_page_and_little_more():
    picture = weights_heatmap(rows_of_weights(6, 4, 5))
    data, metadata = picture._repr_mimebundle_()
    palette = base64.b64decode(metadata["image/png"]["dark_palette"])
    assert len(palette) <= 3 * MOST
    png = base64.b64decode(data["image/png"])
    assert png == picture.png()
    with Image.open(io.BytesIO(with_palette(png, palette))) as image:
        np.testing.assert_array_equal(
            np.asarray(image.convert("RGB")), shown(picture)[1]
        )


def test_a_picture_made_by_hand_has_one_drawing():
    picture = Picture(60, 40, text_alternative="Nothing.")
    assert picture.on_dark() is None
    _, metadata = picture._repr_mimebundle_()
    assert "dark_palette" not in metadata["image/png"]


def test_the_second_drawing_does_not_follow_the_data_of_the_caller():
    weights = rows_of_weights(7, 3, 4)
    picture = weights_heatmap(weights)
    before = picture.on_dark()._pixels()
    weights[:] = weights[::-1].copy()
    np.testing.assert_array_equal(picture.on_dark()._pixels(), before)


def test_a_figure_that_is_another_one_on_a_dark_page_is_found():
    compare = conftest.image_difference
    weights = np.array([[0.2, 0.8], [0.6, 0.4]])

    def output(change=None):
        data, metadata = weights_heatmap(weights)._repr_mimebundle_()
        if change:
            change(metadata["image/png"])
        return [{"data": data, "metadata": metadata}]

    def other_colours(about):
        palette = base64.b64decode(about["dark_palette"])
        about["dark_palette"] = base64.b64encode(palette[::-1]).decode()

    def a_shade(about):
        palette = bytearray(base64.b64decode(about["dark_palette"]))
        palette[0] ^= 1
        about["dark_palette"] = base64.b64encode(palette).decode()

    assert compare(output(), output()) is None
    assert compare(output(a_shade), output()) is None
    assert "on a dark page" in compare(output(other_colours), output())
    assert "inks for a dark page" in compare(
        output(lambda about: about.pop("dark_palette")), output()
    )
    assert compare(output(other_colours), output(), pixels=False) is None
