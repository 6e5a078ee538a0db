"""The drawing of an array with named axes says the sizes and the numbers of its data."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from attention_in_detail.figures.labelled_array import labelled_array
from attention_in_detail.figures.style import (
    DARK,
    LIGHT,
    contrast,
)
from tests.figures.reading import words

X = np.array([[2.0, 0, 0], [0, 3, 0], [0, 0, 1], [1, 0, -2.25]])  # (S, D)
STACK = np.stack(
    [X, X + 1, X + 2, X + 3, X + 4]
)  # (B, S, D), all sizes distinct
WORDS = ["cats", "sleep", "on", "mats"]
FEATURES = ["thing", "action", "place"]


def texts(picture):
    """All words of a picture, by the name that the drawing gave them."""
    return {
        text.get_gid(): text for axes in picture.axes for text in axes.texts
    }


def patches(picture, name):
    found = [patch for axes in picture.axes for patch in axes.patches]
    return [
        patch for patch in found if str(patch.get_gid()).startswith(name)
    ]


def said_at(picture, gid):
    return texts(picture)[gid].get_text()


def test_matrix_carries_its_numbers_names_and_sizes():
    picture = labelled_array(X, row_labels=WORDS, column_labels=FEATURES)
    assert said_at(picture, "symbol") == "$X$   $(S, D)$ = (4, 3)"
    assert said_at(picture, "size:rows") == "$S$ = 4"
    assert said_at(picture, "size:columns") == "$D$ = 3"
    assert "size:sheets" not in texts(picture)
    assert said_at(picture, "cell:0:0") == "2"
    assert said_at(picture, "cell:3:2") == "−2.25"
    assert [said_at(picture, f"row:{n}") for n in range(4)] == WORDS
    assert [said_at(picture, f"column:{n}") for n in range(3)] == FEATURES
    assert len(patches(picture, "sheet:")) == 1


def test_text_alternative_of_a_matrix_is_made_from_its_data():
    picture = labelled_array(
        X,
        symbol="$K$",
        axes=["S", "D_k"],
        row_labels=WORDS,
        column_labels=FEATURES,
        highlight=3,
        highlight_label="$k_4$",
    )
    assert picture.text_alternative == (
        "The array K with the axes (S, D_k) = (4, 3). Rows: "
        "“cats”: thing 2, action 0, place 0; “sleep”: thing 0, action 3, place 0; "
        "“on”: thing 0, action 0, place 1; “mats”: thing 1, action 0, place −2.25. "
        "Framed: “mats”, labelled k_4."
    )


def test_rows_and_columns_without_names_are_numbered():
    said = labelled_array(X[:2], highlight=0).text_alternative
    assert "Rows: row 1: 2, 0, 0; row 2: 0, 3, 0." in said
    assert said.endswith("Framed: row 1.")


def test_stack_shows_the_first_sheet_in_front_of_three_others():
    picture = labelled_array(STACK, row_labels=WORDS)
    assert said_at(picture, "symbol") == "$X$   $(B, S, D)$ = (5, 4, 3)"
    assert said_at(picture, "size:sheets") == "$B$ = 5"
    assert said_at(picture, "cell:0:0") == "2"
    said = picture.text_alternative
    assert "(B, S, D) = (5, 4, 3), drawn as 4 of 5 sheets" in said
    assert "Front sheet: “cats”: 2, 0, 0;" in said
    sheets = sorted(
        patches(picture, "sheet:"), key=lambda sheet: sheet.get_zorder()
    )
    assert [sheet.get_gid() for sheet in sheets] == [
        f"sheet:{n}" for n in (3, 2, 1, 0)
    ]
    corners = [sheet.get_xy() for sheet in sheets]
    assert all(a[0] > b[0] and a[1] > b[1] for a, b in pairwise(corners))


@pytest.mark.parametrize(
    ("B", "said"), [(1, "one sheet."), (2, "drawn as 2 sheets")]
)
def test_short_stack_is_drawn_whole(B, said):
    picture = labelled_array(STACK[:B])
    assert said in picture.text_alternative
    assert len(patches(picture, "sheet:")) == B
    assert said_at(picture, "size:sheets") == f"$B$ = {B}"


def test_highlight_frames_its_row():
    picture = labelled_array(X, highlight=2, highlight_label="$x_3$")
    (frame,) = patches(picture, "highlight")
    (sheet,) = patches(picture, "sheet:")
    assert frame.get_height() == pytest.approx(sheet.get_height() / 4)
    assert frame.get_y() == pytest.approx(
        sheet.get_y() + sheet.get_height() / 2
    )
    assert said_at(picture, "highlight label") == "$x_3$"
    assert not patches(labelled_array(X), "highlight")


def test_own_text_alternative_and_digits():
    said = labelled_array(
        X, text_alternative="A small table."
    ).text_alternative
    assert said == "A small table."
    assert said_at(labelled_array(X, digits=1), "cell:3:2") in (
        "−2.2",
        "−2.3",
    )


@pytest.mark.parametrize(
    "picture",
    [
        labelled_array(
            X, row_labels=WORDS, column_labels=FEATURES, highlight=3
        ),
        labelled_array(X, highlight=3, highlight_label="$x_4$"),
        labelled_array(STACK, row_labels=WORDS, column_labels=FEATURES),
        labelled_array(STACK[:, :2] * 1234.5, axes=["B", "T", "D_k"]),
        labelled_array(np.ones((8, 8)) * 1e5),
        labelled_array([[[1]]]),
    ],
)
def test_words_stay_on_the_picture_apart_and_readable(picture):
    found = words(picture)
    for w in found:
        assert 0 <= w.left < w.right <= picture.css_width, w
        assert 0 <= w.top < w.bottom <= picture.css_height, w
        assert (
            w.artist.get_fontsize()
            * 96
            / 72
            * min(1, 350 / picture.css_width)
            >= 7.9
        )
    for a, b in combinations(found, 2):
        across = min(a.right, b.right) - max(a.left, b.left)
        down = min(a.bottom, b.bottom) - max(a.top, b.top)
        assert across <= 1 or down <= 6, f"{a.text!r} meets {b.text!r}"
    assert picture.css_width <= 480


def test_colours_can_be_told_from_their_ground_and_numbers_from_their_cells():
    light = labelled_array(STACK, highlight=1)
    for picture, used in ((light, LIGHT), (light.on_dark(), DARK)):
        frames = [
            p
            for p in picture.axes[0].patches
            if p.get_linewidth() and not p.get_fill()
        ]
        assert len(frames) == 5  # four sheets and the row
        for frame in frames:
            assert contrast(frame.get_edgecolor(), used.ground) >= 3
        (front,) = patches(picture, "sheet:0")
        number = texts(picture)["cell:0:0"].get_color()
        assert contrast(number, front.get_facecolor()) >= 7


def test_same_data_gives_the_same_bytes_and_stays_as_it_was():
    before = STACK.copy()
    assert labelled_array(STACK).png() == labelled_array(STACK).png()
    assert np.array_equal(STACK, before)


@pytest.mark.parametrize(
    ("array", "options", "message"),
    [
        (np.ones(3), {}, "array has 1 axes"),
        (np.ones((2, 2, 2, 2)), {}, "array has 4 axes"),
        (np.ones((9, 2)), {}, "array has S = 9, D = 2; up to 8 rows"),
        (np.ones((2, 9)), {}, "array has S = 2, D = 9; up to 8 rows"),
        (np.ones((0, 2)), {}, "array is empty"),
        ([[1, np.inf]], {}, "array is not finite"),
        ([["a"]], {}, "array is not an array of real numbers"),
        (X, {"axes": ["S"]}, "axes has 1 entries"),
        (X, {"row_labels": WORDS[:2]}, "row_labels has 2 entries, axis S"),
        (
            X,
            {"column_labels": WORDS},
            "column_labels has 4 entries, axis D",
        ),
        (
            X,
            {"highlight": 4},
            "highlight is 4; rows have the indices 0 to 3",
        ),
        (
            X,
            {"highlight": -1},
            "highlight is -1; rows have the indices 0 to 3",
        ),
        (X, {"text_alternative": ""}, "text_alternative is empty"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_line(
    array, options, message
):
    with pytest.raises(
        ValueError, match=message.replace("(", r"\(")
    ) as caught:
        labelled_array(array, **options)
    assert "\n" not in str(caught.value)
