import contextlib
from itertools import combinations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from attention_in_detail.figures import style


def test_contrast_of_known_colours():
    assert style.contrast("black", "white") == pytest.approx(21)
    assert style.contrast("white", "black") == pytest.approx(21)
    assert style.contrast("#777777", "white") == pytest.approx(
        4.48, abs=0.005
    )
    assert style.contrast("#ff0000", "white") == pytest.approx(
        4.00, abs=0.005
    )
    assert style.contrast("#123456", "#123456") == 1


def test_the_two_grounds_leave_ink_the_root_of_their_contrast():
    grounds = style.contrast(style.LIGHT_GROUND, style.DARK_GROUND)
    for ground in (style.LIGHT_GROUND, style.DARK_GROUND):
        assert style.contrast(style.INK, ground) == pytest.approx(
            grounds**0.5, abs=0.1
        )
        # What running text needs.
        assert style.contrast(style.INK, ground) >= 4.5


@pytest.mark.parametrize("colour", style.SERIES)
@pytest.mark.parametrize("ground", [style.LIGHT_GROUND, style.DARK_GROUND])
def test_series_reach_three_to_one(colour, ground):
    assert style.contrast(colour, ground) >= 3


def linear(colour):
    c = np.array(to_rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIE L*a*b* of a linear sRGB colour."""
    to_xyz = np.array(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ]
    )
    f = np.cbrt(
        to_xyz @ np.clip(rgb, 0, 1) / np.array([0.95047, 1, 1.08883])
    )
    return np.array(
        [116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])]
    )


# Full colour blindness as matrices on linear RGB: Machado, Oliveira and Fernandes (2009), severity 1.
SIGHTS = {
    "all colours": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


@pytest.mark.parametrize("sight", SIGHTS)
def test_series_stay_apart_for_colour_blind_readers(sight):
    seen = [
        lab(np.array(SIGHTS[sight]) @ linear(colour))
        for colour in style.SERIES
    ]
    for (i, a), (j, b) in combinations(enumerate(seen), 2):
        assert np.linalg.norm(a - b) >= 18, f"series {i} and {j}"


def test_each_series_has_a_marker_and_a_line_of_its_own():
    assert (
        len(set(style.MARKERS))
        == len(set(map(str, style.DASHES)))
        == len(set(style.SERIES))
        == 6
    )


def test_weights_darken_all_the_way_and_scores_from_zero_both_ways():
    brightness = [
        style.relative_luminance(c)
        for c in style.WEIGHTS_MAP(np.linspace(0, 1, 101))
    ]
    assert (np.diff(brightness) < 0).all()
    brightness = [
        style.relative_luminance(c)
        for c in style.SCORES_MAP(np.linspace(0, 1, 101))
    ]
    assert (np.diff(brightness[:50]) > 0).all()
    assert (np.diff(brightness[51:]) < 0).all()


@pytest.mark.parametrize(
    "colours",
    [style.WEIGHTS_MAP, style.SCORES_MAP],
    ids=["weights", "scores"],
)
def test_text_on_any_cell_reaches_the_contrast_of_running_text(colours):
    for cell in colours(np.linspace(0, 1, 101)):
        chosen = style.text_colour(cell)
        assert style.contrast(chosen, cell) >= 4.5
        other = {
            style.DARK_TEXT: style.LIGHT_TEXT,
            style.LIGHT_TEXT: style.DARK_TEXT,
        }[chosen]
        assert style.contrast(chosen, cell) >= style.contrast(other, cell)


def test_the_palest_cell_ends_visibly_on_the_light_page():
    assert style.contrast(style.INK, style.PAPER) >= 3
    for tint, edge in zip(style.TINTS, style.SERIES, strict=True):
        assert style.contrast(style.DARK_TEXT, tint) >= 7
        assert style.contrast(edge, style.LIGHT_GROUND) >= 3


def test_the_drawing_style_ends_with_its_context_even_after_an_error():
    with mpl.rc_context({"font.size": 41}):
        with style.drawing_style():
            assert mpl.rcParams["font.size"] == style.points(style.TEXT)
        assert mpl.rcParams["font.size"] == 41
        with contextlib.suppress(RuntimeError), style.drawing_style():
            raise RuntimeError
        assert mpl.rcParams["font.size"] == 41


def test_ninety_six_css_pixels_are_seventy_two_points():
    assert style.points(96) == 72
