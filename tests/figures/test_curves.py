import numpy as np
import pytest

from attention_in_detail.figures import curves
from attention_in_detail.figures.style import LIGHT
from tests.figures.reading import word

LABELS = {"x_label": "width", "y_label": "variance"}


def series(picture):
    return {
        line.get_label(): line
        for axes in picture.axes
        for line in axes.lines
        if (line.get_gid() or "").startswith("series:")
    }


def ticks(picture):
    axes = picture.axes[1]
    return [t.get_text() for t in axes.get_xticklabels()], [
        t.get_text() for t in axes.get_yticklabels()
    ]


def test_each_series_is_drawn_through_its_points_with_its_own_marker_and_dashes():
    x = np.arange(5.0)
    values = {
        name: np.random.default_rng(n).normal(size=5)
        for n, name in enumerate("abcdef")
    }
    drawn = series(curves(x, values, **LABELS))
    for name, y in values.items():
        np.testing.assert_array_equal(
            drawn[name].get_xydata(), np.column_stack([x, y])
        )
    for look in ("get_marker", "get_color"):
        assert len({getattr(line, look)() for line in drawn.values()}) == 6
    assert (
        len(
            {
                (line.get_linestyle(), str(line._unscaled_dash_pattern))
                for line in drawn.values()
            }
        )
        == 6
    )


def test_names_stand_at_the_ends_of_their_lines_in_ink():
    picture = curves(
        [0, 1],
        {"low": [0, 0], "high": [0, 1], "middle": [0, 0.5]},
        **LABELS,
    )
    assert (
        word(picture, "high").y
        < word(picture, "middle").y
        < word(picture, "low").y
    )
    axes = picture.axes[1]
    for name, end in (("low", 0), ("high", 1), ("middle", 0.5)):
        y = picture.css_height - axes.transData.transform((1, end))[1]
        assert abs(word(picture, name).y - y) < 3
        assert word(picture, name).artist.get_color() == LIGHT.words


def test_names_of_lines_that_end_together_keep_apart_and_in_order():
    values = {f"series {n}": [1, 0.001 * n] for n in range(6)}
    picture = curves([0, 1], values, **LABELS)
    heights = [word(picture, name).y for name in values]
    assert heights == sorted(heights, reverse=True)
    assert min(-np.diff(heights)) >= 15


def test_long_names_go_below_the_picture():
    name = "a series whose name takes more room than the margin has"
    picture = curves([0, 1], {name: [0, 1], "b": [1, 0]}, **LABELS)
    assert word(picture, name).y > word(picture, "width").y


def test_a_logarithmic_axis_is_logarithmic_and_its_ticks_are_numbers_of_the_data():
    x = 4.0 * 2 ** np.arange(9)
    picture = curves(x, {"a": x}, **LABELS, log_x=True, log_y=True)
    axes = picture.axes[1]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert ticks(picture) == (
        ["4", "16", "64", "256", "1,024"],
        ["10", "100", "1,000"],
    )
    assert (
        "variance (logarithmic) against width (logarithmic), 4 to 1,024."
        in picture.text_alternative
    )


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([2e6, 9e6], "$2 \\cdot 10^{6}$"),
        ([1e-7, 1e-5], "$10^{-6}$"),
        ([2.0, 6.0], "5"),
    ],
)
def test_logarithmic_ticks_are_short(y, expected):
    assert (
        expected in ticks(curves([1, 2], {"a": y}, **LABELS, log_y=True))[1]
    )


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([0, 1], "0.5"),
        ([-2, 2], "−2"),
        ([0, 2e-6], "$1 \\cdot 10^{-6}$"),
        ([0, 4e6], "$2 \\cdot 10^{6}$"),
    ],
)
def test_linear_ticks_are_plain_numbers(y, expected):
    picture = curves([0, 1], {"a": y}, **LABELS)
    assert expected in ticks(picture)[1]
    assert 3 <= len(ticks(picture)[1]) <= 7


def test_the_words_tell_the_course_of_each_series():
    x = [1, 2, 3, 4]
    said = curves(
        x,
        {
            "hill": [0, 5, 2, 1],
            "fall": [3, 2, 1, 0.5],
            "$D_k$": [2, 1, 0.25, 3],
        },
        **LABELS,
        title="Courses",
    ).text_alternative
    assert said == (
        "Courses. Line chart of variance against width, 1 to 4. hill: 0 at first, 1 at last, highest 5 at 2. "
        "fall: 3 at first, 0.5 at last. D_k: 2 at first, 3 at last, lowest 0.25 at 3."
    )


def test_small_and_large_numbers_are_said_with_powers_of_ten():
    said = curves([0, 1], {"a": [1.5e-7, -2e8]}, **LABELS).text_alternative
    assert "a: 1.5 × 10^−7 at first, −2 × 10^8 at last." in said


def test_bands_lie_around_their_series_and_are_told():
    picture = curves(
        [0, 1],
        {"a": [1, 2], "b": [3, 4]},
        **LABELS,
        bands={"b": ([2, 3.5], [4, 4.5])},
    )
    bands = [c for axes in picture.axes for c in axes.collections]
    assert len(bands) == 1
    low, high = bands[0].get_datalim(picture.axes[1].transData).intervaly
    assert (low, high) == (2, 4.5)
    assert (
        "b: 3 at first, 4 at last, last band 3.5 to 4.5."
        in picture.text_alternative
    )


def test_only_some_points_of_long_series_carry_markers():
    picture = curves(np.arange(100), {"a": np.arange(100)}, **LABELS)
    assert series(picture)["a"].get_markevery() == 9


def test_labels_and_title_stand_around_the_axes():
    picture = curves([0, 1], {"a": [0, 1]}, **LABELS, title="A title")
    assert (
        word(picture, "A title").y
        < word(picture, "variance").y
        < word(picture, "width").y
    )


REFUSED = {
    "none": ({}, {}, "series has 0 entries; 1 to 6 can be told apart"),
    "seven": (
        {str(n): [0, 1] for n in range(7)},
        {},
        "series has 7 entries; 1 to 6 can be told apart",
    ),
    "length": (
        {"a": [0, 1, 2]},
        {},
        "x has n = 2, series['a'] has n = 3; they must be equal",
    ),
    "not finite": (
        {"a": [0, np.nan]},
        {},
        "series['a'] is not finite: entry (1,) is nan",
    ),
    "axes": (
        {"a": [[0, 1]]},
        {},
        "series['a'] has 2 axes, shape (1, 2); 1 are needed: (n,)",
    ),
    "log x": (
        {"a": [1, 1]},
        {"log_x": True},
        "x has values of zero or less, which a logarithmic scale cannot show",
    ),
    "log y": (
        {"a": [0, 1]},
        {"log_y": True},
        "series has values of zero or less, which a logarithmic scale cannot show",
    ),
    "band": (
        {"a": [0, 1]},
        {"bands": {"b": ([0, 1], [0, 1])}},
        "bands has 'b', which is not in series",
    ),
    "band length": (
        {"a": [0, 1]},
        {"bands": {"a": ([0, 1], [0])}},
        "x has n = 2, bands['a'] has n = 1; they must be equal",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_input_is_refused_in_one_line(case):
    values, options, line = REFUSED[case]
    with pytest.raises(ValueError) as error:  # noqa: PT011
        curves([0, 1], values, **LABELS, **options)
    assert str(error.value) == line


def test_x_must_rise():
    with pytest.raises(
        ValueError, match=r"^x must rise from each entry to the next$"
    ):
        curves([0, 1, 1], {"a": [0, 1, 2]}, **LABELS)
