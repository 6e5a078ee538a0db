"""The picture of a weighted sum: what it draws, what it says, what it refuses."""

import numpy as np
import pytest

from attention_in_detail.figures.style import (
    DARK,
    LIGHT,
    contrast,
)
from attention_in_detail.figures.weighted_sum import (
    hull_of,
    share,
    weighted_sum,
)

VALUES = np.array([[8.0, 4], [6, 8], [0, 8], [0, 0], [8, 0]])
WEIGHTS = np.array([8.0, 4, 2, 1, 1]) / 16


def drawn(picture, gid):
    """The artists with this group id, in the order in which they were drawn."""
    return picture.findobj(lambda artist: artist.get_gid() == gid)


def words(picture, gid):
    return [artist.get_text() for artist in drawn(picture, gid)]


def test_the_area_of_each_disc_is_its_weight():
    picture = weighted_sum(VALUES, WEIGHTS)
    areas = np.array(
        [drawn(picture, f"disc:{j}")[0].radius ** 2 for j in range(5)]
    )
    np.testing.assert_allclose(
        areas / areas.sum(), WEIGHTS, rtol=0, atol=1e-12
    )


def test_the_output_is_drawn_at_the_weighted_mean():
    picture = weighted_sum(VALUES, WEIGHTS)
    at = {
        j: np.concatenate(drawn(picture, f"value:{j}")[0].get_data())
        for j in range(5)
    }
    output = np.concatenate(drawn(picture, "output")[0].get_data())
    mean = sum(w * at[j] for j, w in enumerate(WEIGHTS))
    np.testing.assert_allclose(output, mean, rtol=0, atol=1e-9)
    assert words(picture, "output label") == ["output (6, 5)"]


def test_x_and_y_have_the_same_scale_and_y_points_up():
    picture = weighted_sum(VALUES, WEIGHTS)
    v3, v4, v5 = (
        np.concatenate(drawn(picture, f"value:{j}")[0].get_data())
        for j in (2, 3, 4)
    )
    assert v3[1] < v4[1]  # pixels count from the top
    np.testing.assert_allclose(v4[1] - v3[1], v5[0] - v4[0])


def test_each_value_is_named_with_its_weight():
    picture = weighted_sum(
        VALUES, WEIGHTS, labels=["a", "b", "c", "d", "e"]
    )
    said = [words(picture, f"label:{j}")[0] for j in range(5)]
    assert said == [
        "a: 0.5",
        "b: 0.25",
        "c: 0.125",
        "d: 0.0625",
        "e: 0.0625",
    ]


def test_names_do_not_cover_discs_or_each_other():
    picture = weighted_sum(VALUES, WEIGHTS)
    boxes = [
        drawn(picture, f"label:{j}")[0].get_window_extent()
        for j in range(5)
    ]
    boxes.append(drawn(picture, "output label")[0].get_window_extent())
    discs = [
        drawn(picture, f"disc:{j}")[0].get_window_extent() for j in range(5)
    ]
    for n, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:n])
        assert not any(box.overlaps(disc) for disc in discs)
        assert picture.bbox.x0 <= box.x0
        assert box.x1 <= picture.bbox.x1


# Versions of matplotlib differ by half a pixel in how high a formula is.
@pytest.mark.pinned
def test_no_line_goes_through_a_name_where_there_is_room():
    way = np.array([[0.2, 7.5], [3, 5.1], [6, 5]])
    picture = weighted_sum(VALUES, WEIGHTS, output_label="$y$", trail=way)
    named = [drawn(picture, f"label:{j}")[0] for j in range(5)]
    named += drawn(picture, "output label")
    ways = [
        drawn(picture, gid)[0]
        for gid in ("hull", "trail", *(f"line:{j}" for j in range(5)))
    ]
    for line in ways:
        path = line.get_transform().transform_path(line.get_path())
        for name in named:
            box = name.get_window_extent()
            assert not path.intersects_bbox(box, filled=False), (
                line.get_gid(),
                name.get_text(),
            )


def test_the_text_alternative_comes_from_the_data():
    assert weighted_sum(
        VALUES[:2], [0.75, 0.25], title="Two"
    ).text_alternative == (
        "Two. 2 values in the plane, each under a disc whose area is its weight: "
        "v_1 at (8, 4), weight 0.75; v_2 at (6, 8), weight 0.25. "
        "Their weighted mean (output) lies at (7.5, 5), inside their dashed hull."
    )
    own = weighted_sum(VALUES, WEIGHTS, text_alternative="my own words")
    assert own.text_alternative == "my own words"


def test_a_trail_is_drawn_and_told():
    trail = np.array([[8.0, 4], [6, 5], [4.4, 4]])
    picture = weighted_sum(VALUES, WEIGHTS, trail=trail)
    assert picture.text_alternative.endswith(
        "A line through 3 outputs runs from (8, 4) to (4.4, 4)."
    )
    assert len(drawn(picture, "trail")[0].get_xdata()) == 3
    assert not drawn(weighted_sum(VALUES, WEIGHTS), "trail")


@pytest.mark.parametrize(
    ("weights", "said"),
    [(0.0, "0"), (1e-9, "<0.001"), (1 / 3, "0.333"), (1.0, "1")],
)
def test_weights_have_three_significant_digits(weights, said):
    assert share(weights) == said


def test_the_hull_has_the_outer_points_as_corners():
    inner = np.array([[4.0, 4], [6, 4], [8, 2]])  # the last lies on an edge
    hull = hull_of(np.vstack([inner, VALUES]))
    np.testing.assert_array_equal(hull[0], hull[-1])
    assert {tuple(p) for p in hull} == {tuple(p) for p in VALUES}


@pytest.mark.parametrize("seed", range(20))
def test_every_output_lies_in_the_hull(seed):
    rng = np.random.default_rng(seed)
    places = rng.standard_normal((9, 2))
    hull = hull_of(places)
    output = rng.dirichlet(np.full(9, 0.3)) @ places
    along, to = np.diff(hull, axis=0), output - hull[:-1]
    assert (along[:, 0] * to[:, 1] - along[:, 1] * to[:, 0] > -1e-12).all()


@pytest.mark.parametrize(
    "values",
    [
        [[1.0, 2]],
        [[1.0, 2], [1, 2]],
        [[0.0, 1], [2, 1], [5, 1]],
        [[0.0, 0], [1, 1], [2, 2]],
    ],
    ids=["one point", "twice the same", "level", "on a line"],
)
def test_values_without_an_area_are_drawn(values):
    n = len(values)
    picture = weighted_sum(values, np.full(n, 1 / n))
    assert f"{n} values" in picture.text_alternative
    assert picture.png() == weighted_sum(values, np.full(n, 1 / n)).png()


def test_colours_stand_out_on_both_grounds():
    for used in (LIGHT, DARK):
        rim, trail = used.series[:2]
        assert contrast(rim, used.ground) >= 3
        assert contrast(trail, used.ground) >= 3
        assert contrast(trail, used.tints[0]) >= 3  # over a disc


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((VALUES[0], WEIGHTS), "values has 1 axes"),
        (
            (np.ones((5, 3)), WEIGHTS),
            "values has D_v = 3; a picture in the plane needs D_v = 2",
        ),
        ((VALUES * np.nan, WEIGHTS), "values is not finite"),
        (
            (VALUES, WEIGHTS[:4]),
            "values has S = 5, weights has S = 4; they must be equal",
        ),
        ((VALUES, -WEIGHTS), "weights must lie between 0 and 1"),
        ((VALUES, WEIGHTS / 2), "weights must sum to 1; their sum is 0.5"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_line(arguments, line):
    with pytest.raises(ValueError, match=line) as refused:
        weighted_sum(*arguments)
    assert "\n" not in str(refused.value)


def test_labels_and_trail_are_checked():
    with pytest.raises(
        ValueError,
        match="labels has 1 entries, axis S of values has size 5",
    ):
        weighted_sum(VALUES, WEIGHTS, labels=["a"])
    with pytest.raises(ValueError, match="trail has D_v = 3"):
        weighted_sum(VALUES, WEIGHTS, trail=np.ones((2, 3)))
