import contextlib
from itertools import combinations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from attention_in_detail.figures import style

each_ground = pytest.mark.parametrize(
    "used", [style.LIGHT, style.DARK], ids=["light", "dark"]
)


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


@each_ground
def test_words_and_rules_stand_out_from_their_ground(used):
    assert style.contrast(used.words, used.ground) >= 7
    assert style.contrast(used.rule, used.ground) >= 4.5


def test_no_ink_could_do_this_on_both_grounds():
    """What a colour in the middle reaches, and why each figure is drawn twice."""
    grounds = style.contrast(style.LIGHT.ground, style.DARK.ground)
    assert grounds**0.5 < 4.5
    for used, other in (
        (style.LIGHT, style.DARK),
        (style.DARK, style.LIGHT),
    ):
        assert style.contrast(used.words, other.ground) < 3


@each_ground
@pytest.mark.parametrize("n", range(6))
def test_series_reach_three_to_one_on_the_ground_and_on_what_they_edge(
    used, n
):
    assert style.contrast(used.series[n], used.ground) >= 3
    assert style.contrast(used.series[n], used.tints[n]) >= 3


@each_ground
def test_lines_over_tints_and_paper_can_be_seen(used):
    for tint in used.tints:  # the row that is framed, the trail of outputs
        assert style.contrast(used.series[1], tint) >= 3
    assert style.contrast(used.series[1], used.paper) >= 3
    assert style.contrast(used.rule, used.paper) >= 3


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


@each_ground
@pytest.mark.parametrize("sight", SIGHTS)
def test_series_stay_apart_for_colour_blind_readers(used, sight):
    seen = [
        lab(np.array(SIGHTS[sight]) @ linear(colour))
        for colour in used.series
    ]
    for (i, a), (j, b) in combinations(enumerate(seen), 2):
        assert np.linalg.norm(a - b) >= 22, f"series {i} and {j}"


def test_a_series_has_the_same_hue_on_both_grounds():
    """So that a text may call it by its colour beside its name."""
    for n, pair in enumerate(
        zip(style.LIGHT.series, style.DARK.series, strict=True)
    ):
        (_, a, b), (_, c, d) = (lab(linear(colour)) for colour in pair)
        turn = np.degrees(np.arctan2(b, a) - np.arctan2(d, c))
        assert abs((turn + 180) % 360 - 180) < 25, f"series {n}"


def test_each_series_has_a_marker_and_a_line_of_its_own():
    assert (
        len(set(style.MARKERS))
        == len(set(map(str, style.DASHES)))
        == len(set(style.LIGHT.series))
        == len(set(style.DARK.series))
        == 6
    )


@each_ground
def test_weights_leave_the_ground_all_the_way_and_scores_from_zero_both_ways(
    used,
):
    away = [
        style.contrast(c, used.ground)
        for c in used.weights(np.linspace(0, 1, 101))
    ]
    assert (np.diff(away) > 0).all()
    assert away[-1] >= 7
    away = [
        style.contrast(c, used.ground)
        for c in used.scores(np.linspace(0, 1, 101))
    ]
    assert (np.diff(away[:50]) < 0).all()
    assert (np.diff(away[51:]) > 0).all()
    assert min(away[0], away[-1]) >= 7


@each_ground
def test_scores_are_blue_above_zero_and_brown_below(used):
    for share in (0.0, 0.2):
        red, _, blue, _ = used.scores(share)
        assert red > blue + 0.2
    for share in (0.8, 1.0):
        red, _, blue, _ = used.scores(share)
        assert blue > red + 0.1


@each_ground
@pytest.mark.parametrize("name", ["weights", "scores"])
def test_text_on_any_cell_reaches_the_contrast_of_running_text(used, name):
    for cell in getattr(used, name)(np.linspace(0, 1, 101)):
        chosen = style.text_colour(cell)
        assert style.contrast(chosen, cell) >= 4.5
        other = {
            style.DARK_TEXT: style.LIGHT_TEXT,
            style.LIGHT_TEXT: style.DARK_TEXT,
        }[chosen]
        assert style.contrast(chosen, cell) >= style.contrast(other, cell)


@each_ground
def test_numbers_on_tints_and_paper_reach_seven_to_one(used):
    for fill in (*used.tints, used.paper):
        assert style.contrast(style.text_colour(fill), fill) >= 7


def test_inks_end_with_their_drawing_even_after_an_error():
    assert style.inks() is style.LIGHT
    with style.drawing_style(style.DARK):
        with style.drawing_style():
            assert style.inks() is style.DARK
            assert mpl.rcParams["text.color"] == style.DARK.words
        with style.drawing_style(style.LIGHT):
            assert mpl.rcParams["text.color"] == style.LIGHT.words
        assert style.inks() is style.DARK
    with contextlib.suppress(RuntimeError), style.drawing_style(style.DARK):
        raise RuntimeError
    assert style.inks() is style.LIGHT


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
