import numpy as np
import pytest

from attention_in_detail.figures import bars
from attention_in_detail.figures.style import contrast
from tests.figures.reading import word, words


def drawn(picture, kind):
    return [
        p
        for axes in picture.axes
        for p in (*axes.patches, *axes.lines)
        if (p.get_gid() or "").startswith(kind)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_lengths_are_proportional_to_the_values(seed):
    values = np.random.default_rng(seed).uniform(0, 10, 4)
    picture = bars(list("abcd"), values, value_label="size")
    lengths = [np.ptp(p.get_xy()[:, 0]) for p in drawn(picture, "bar:")]
    np.testing.assert_allclose(
        np.array(lengths) / max(lengths), values / values.max()
    )
    assert (
        len({p.get_xy()[:, 0].min() for p in drawn(picture, "bar:")}) == 1
    )


def test_label_and_number_belong_to_their_bar():
    picture = bars(["one", "two"], [1.234, 56.7], value_label="size")
    for label, number, bar in zip(
        ("one", "two"),
        ("1.23", "56.7"),
        drawn(picture, "bar:"),
        strict=True,
    ):
        corners = bar.get_xy()
        assert abs(word(picture, number).y - corners[:, 1].mean()) < 10
        assert word(picture, number).left > corners[:, 0].max()
        assert word(picture, label).bottom < corners[:, 1].max()
        assert word(picture, label).y < word(picture, number).y
    assert word(picture, "one").y < word(picture, "two").y


def test_the_words_give_every_number():
    said = bars(
        ["$h$ = 1", "b"], [0.004, 1200], value_label="ms", title="Times"
    ).text_alternative
    assert said == "Times. Bars for ms. h = 1: 0.004; b: 1,200."


def test_a_reference_is_a_dashed_line_at_its_value():
    picture = bars(
        ["a", "b"],
        [2, 4],
        value_label="ratio",
        reference=2,
        reference_label="as fast",
    )
    lines = drawn(picture, "reference")
    ends = [p.get_xy()[:, 0].max() for p in drawn(picture, "bar:")]
    # The second bar lies below its line, which has another colour there.
    assert len(lines) == 3
    for line in lines:
        assert set(line.get_xdata()) == {ends[0]}
        assert line.get_linestyle() != "-"
    assert abs(word(picture, "as fast").x - ends[0]) < 3
    assert picture.text_alternative.endswith("A dashed line at 2: as fast.")
    assert bars(
        ["a"], [2], value_label="ratio", reference=3
    ).text_alternative.endswith("A dashed line at 3.")


def test_a_reference_keeps_clear_of_the_names_and_shows_on_a_bar():
    picture = bars(
        ["many going up", "just as many", "nearly there"],
        [9, 1, 1.9],
        value_label="n",
        reference=2,
    )
    lines = drawn(picture, "reference")
    for line in lines:
        for w in words(picture):
            upper, lower = line.get_ydata()
            beside = not w.left < line.get_xdata()[0] < w.right
            assert beside or upper > w.bottom or lower < w.top, w.text
    over = [
        line
        for line in lines
        if contrast(line.get_color(), drawn(picture, "bar:")[0].get_fc())
        >= 3
    ]
    assert len(over) == 1


def test_a_reference_beyond_the_bars_stays_on_the_scale():
    picture = bars(["a"], [2], value_label="ratio", reference=8)
    length = np.ptp(drawn(picture, "bar:")[0].get_xy()[:, 0])
    start = drawn(picture, "bar:")[0].get_xy()[:, 0].min()
    assert drawn(picture, "reference")[0].get_xdata()[
        0
    ] - start == pytest.approx(4 * length)


def test_a_logarithmic_scale_has_dots_at_equal_ratios_and_no_bars():
    picture = bars(
        ["a", "b", "c"], [1, 10, 100], value_label="ratio", log=True
    )
    ends = [line.get_xdata()[-1] for line in drawn(picture, "bar:")]
    assert np.diff(ends)[0] == pytest.approx(np.diff(ends)[1])
    assert not picture.axes[0].patches
    assert word(picture, "ratio (logarithmic scale)")
    assert (
        picture.text_alternative
        == "Dots on a logarithmic scale for ratio. a: 1; b: 10; c: 100."
    )


def test_equal_values_on_a_logarithmic_scale_are_drawn():
    ends = [
        line.get_xdata()[-1]
        for line in drawn(
            bars(["a", "b"], [5, 5], value_label="n", log=True), "bar:"
        )
    ]
    assert ends[0] == ends[1] > 14


def test_zeros_alone_are_drawn():
    picture = bars(["a", "b"], [0, 0], value_label="n")
    assert len([w for w in words(picture) if w.text == "0"]) == 2


REFUSED = {
    "labels": (
        (["a"], [1, 2]),
        {},
        "labels has 1 entries, axis n of values has size 2",
    ),
    "negative": (
        (["a"], [-1]),
        {},
        "values must be zero or more, so that bars start at zero",
    ),
    "negative reference": (
        (["a"], [1]),
        {"reference": -2},
        "values must be zero or more, so that bars start at zero",
    ),
    "log of zero": (
        (["a"], [0]),
        {"log": True},
        "values has values of zero or less, which a logarithmic scale cannot show",
    ),
    "axes": (
        (["a"], [[1]]),
        {},
        "values has 2 axes, shape (1, 1); 1 are needed: (n,)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_input_is_refused_in_one_line(case):
    arguments, options, line = REFUSED[case]
    with pytest.raises(ValueError) as error:  # noqa: PT011
        bars(*arguments, value_label="n", **options)
    assert str(error.value) == line


def test_labels_must_be_strings():
    from attention_in_detail.figures._data import words_of

    with pytest.raises(
        ValueError, match=r"^labels is to hold strings; entry 1 is 7$"
    ):
        words_of("labels", ["a", 7], "n", 2, "values")
