import numpy as np
import pytest

from attention_in_detail.figures import matrix_blocks
from tests.figures.reading import word, words

NAMES = {
    "symbol": "$W^Q$",
    "row_name": "D_q",
    "column_name": "D",
    "block_name": "D_h",
}


def numbers(picture, label_count):
    """Return the printed numbers of each block, rows from top to bottom."""
    found = []
    for n in range(label_count):
        cells = [
            w
            for w in words(picture)
            if (w.artist.get_gid() or "").startswith(f"cell:{n}:")
        ]
        lines = {}
        for w in sorted(cells, key=lambda w: (round(w.y), w.x)):
            lines.setdefault(round(w.y / 10), []).append(
                float(w.text.replace("−", "-"))
            )
        found.append(np.array([lines[k] for k in sorted(lines)]))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_column_blocks_hold_the_columns_of_the_matrix_side_by_side(seed):
    matrix = np.random.default_rng(seed).normal(size=(4, 6))
    picture = matrix_blocks(matrix, ["A", "B", "C"], **NAMES)
    for block, columns in zip(
        numbers(picture, 3), np.split(matrix, 3, axis=1), strict=True
    ):
        np.testing.assert_allclose(block, columns, atol=0.05)
    places = [word(picture, label) for label in "ABC"]
    assert (
        places[0].right < places[1].left < places[1].right < places[2].left
    )
    assert len({round(p.y) for p in places}) == 1


def test_row_blocks_hold_the_rows_of_the_matrix_one_below_the_other():
    matrix = np.random.default_rng(0).normal(size=(6, 5))
    picture = matrix_blocks(matrix, ["A", "B"], along="rows", **NAMES)
    for block, rows in zip(
        numbers(picture, 2), np.split(matrix, 2, axis=0), strict=True
    ):
        np.testing.assert_allclose(block, rows, atol=0.05)
    assert word(picture, "A").bottom < word(picture, "B").top


def test_sizes_stand_on_the_picture_and_in_its_words():
    picture = matrix_blocks(
        np.zeros((4, 6)), ["$W_1$", "$W_2$", "$W_3$"], **NAMES
    )
    assert word(picture, "$W^Q$   $(D_q, D)$ = (4, 6)")
    assert word(picture, "$D_q$ = 4")
    assert word(picture, "$D$ = 3 · $D_h$ = 6")
    assert len([w for w in words(picture) if w.text == "$D_h$ = 2"]) == 3
    assert picture.text_alternative == (
        "The matrix W^Q of shape (D_q, D) = (4, 6) as 3 blocks side by side, W_1, W_2, W_3, each of shape (4, 2): D_h = 2."
    )


def test_sizes_of_row_blocks_stand_on_the_picture_and_in_its_words():
    picture = matrix_blocks(
        np.zeros((6, 5)),
        ["A", "B"],
        along="rows",
        symbol="$W^O$",
        row_name="D",
        column_name="D_o",
        block_name="D_h",
    )
    assert word(picture, "$D$ = 2 · $D_h$ = 6")
    assert word(picture, "$D_o$ = 5")
    assert len([w for w in words(picture) if w.text == "$D_h$ = 3"]) == 2
    assert (
        "one below the other, A, B, each of shape (3, 5): D_h = 3."
        in picture.text_alternative
    )


def test_numbers_can_be_left_out_and_do_not_stand_in_large_matrices():
    def cells(picture):
        return [
            w
            for w in words(picture)
            if (w.artist.get_gid() or "").startswith("cell:")
        ]

    assert (
        len(cells(matrix_blocks(np.ones((4, 6)), ["A", "B"], **NAMES)))
        == 24
    )
    assert not cells(
        matrix_blocks(np.ones((4, 6)), ["A", "B"], numbers=False, **NAMES)
    )
    assert not cells(
        matrix_blocks(np.ones((64, 64)), ["A", "B"], numbers=True, **NAMES)
    )


def test_a_number_that_rounds_to_zero_has_no_sign():
    shown = {
        w.text
        for w in words(matrix_blocks([[-0.01, -1.0]], ["A"], **NAMES))
    }
    assert {"0.0", "−1"} <= shown


REFUSED = {
    "division": (
        np.ones((4, 5)),
        ["A", "B"],
        {},
        "matrix has columns = 5, which 2 blocks do not divide",
    ),
    "division of rows": (
        np.ones((5, 4)),
        ["A", "B"],
        {"along": "rows"},
        "matrix has rows = 5, which 2 blocks do not divide",
    ),
    "no blocks": (
        np.ones((4, 4)),
        [],
        {},
        "matrix has columns = 4, which 0 blocks do not divide",
    ),
    "axis": (
        np.ones((4, 4)),
        ["A"],
        {"along": "heads"},
        "along is 'heads'; it must be 'columns' or 'rows'",
    ),
    "axes": (
        np.ones(4),
        ["A"],
        {},
        "matrix has 1 axes, shape (4,); 2 are needed: (rows, columns)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_input_is_refused_in_one_line(case):
    matrix, blocks, options, line = REFUSED[case]
    with pytest.raises(ValueError) as error:  # noqa: PT011
        matrix_blocks(matrix, blocks, **NAMES, **options)
    assert str(error.value) == line
