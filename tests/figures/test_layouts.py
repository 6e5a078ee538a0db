import re

import numpy as np
import pytest
from matplotlib.patches import Polygon

from attention_in_detail.figures import split_layouts
from tests.figures.reading import word, words


def both(T=3, h=3, D_h=2, seed=0):
    x = (
        np.random.default_rng(seed)
        .permutation(T * h * D_h)
        .reshape(T, h * D_h)
    )
    return x, x.reshape(T, h, D_h).swapaxes(0, 1), x.reshape(h, T, D_h)


def entries(picture, part):
    """Return the printed entries of one matrix as (rows, columns) of (row, column) counted from one."""
    cells = [
        w
        for w in words(picture)
        if (w.artist.get_gid() or "").startswith(f"cell:{part}:")
    ]
    lines = {}
    for w in sorted(cells, key=lambda w: (round(w.y), w.x)):
        lines.setdefault(round(w.y / 10), []).append(
            tuple(map(int, w.text.split(",")))
        )
    return [lines[k] for k in sorted(lines)]


@pytest.mark.parametrize("seed", range(3))
def test_every_entry_stands_where_the_arrays_put_it(seed):
    x, right, wrong = both(T=4, h=2, D_h=3, seed=seed)
    picture = split_layouts(x, right, wrong)
    place = {value: (t + 1, d + 1) for (t, d), value in np.ndenumerate(x)}
    for part, array in (
        ("x", x),
        *((f"right:{n}", a) for n, a in enumerate(right)),
        *((f"wrong:{n}", a) for n, a in enumerate(wrong)),
    ):
        assert entries(picture, part) == [
            [place[v] for v in row] for row in array
        ]


def test_misplaced_entries_are_marked_and_no_others():
    x, right, wrong = both()
    picture = split_layouts(x, right, wrong)
    marked = {
        m.get_gid()
        for m in picture.findobj(Polygon)
        if (m.get_gid() or "").startswith("misplaced")
    }
    assert marked == {
        f"misplaced:wrong:{h}:{i}:{j}"
        for h, i, j in zip(*np.nonzero(right != wrong), strict=True)
    }
    assert (
        f"{(right != wrong).sum()} of 18 entries are not where they belong."
        in picture.text_alternative
    )
    assert word(picture, "◥ not where it belongs")


def test_layouts_that_agree_carry_no_mark():
    x, right, _ = both()
    picture = split_layouts(x, right, right)
    assert not [
        m
        for m in picture.findobj(Polygon)
        if (m.get_gid() or "").startswith("misplaced")
    ]
    assert "0 of 18 entries are not" in picture.text_alternative
    assert not [w for w in words(picture) if "◥" in w.text]


def test_the_words_say_whose_entries_the_first_head_holds():
    x, right, wrong = both()
    said = split_layouts(
        x, right, wrong, tokens=["a", "b", "c"]
    ).text_alternative
    assert (
        "the rows of head 1 hold “a” columns 1 to 2; “b” columns 1 to 2; “c” columns 1 to 2. Wrong"
        in said
    )
    assert (
        "the rows of head 1 hold “a” columns 1 to 2; “a” columns 3 to 4; “a” columns 5 to 6;"
        in said
    )
    single = split_layouts(*both(T=2, h=3, D_h=1)).text_alternative
    assert "hold token 1 columns 1; token 2 columns 1." in single


def test_a_row_that_mixes_tokens_names_both():
    x, right, _ = both(T=2, h=1, D_h=3)
    mixed = x.reshape(3, 2).T.reshape(1, 2, 3)
    assert (
        "token 1 and token 2 columns"
        in split_layouts(x, right, mixed).text_alternative
    )


def test_both_ways_are_named():
    x, right, wrong = both()
    picture = split_layouts(
        x,
        right,
        wrong,
        right_label="split, then swap",
        wrong_label="reshape",
    )
    assert (
        word(picture, "✓ split, then swap").y < word(picture, "✗ reshape").y
    )
    assert "Right way, split, then swap: " in picture.text_alternative
    assert re.search(r"Wrong way, reshape: ", picture.text_alternative)


def test_colours_belong_to_the_heads_that_entries_come_from():
    x, right, wrong = both()
    picture = split_layouts(x, right, wrong)
    colour = {}
    with_places = [
        w
        for w in words(picture)
        if (w.artist.get_gid() or "").startswith("cell:")
    ]
    page = picture.axes[0]
    for w in with_places:
        below = [
            p
            for p in page.patches
            if hasattr(p, "get_bbox") and p.get_bbox().contains(w.x, w.y)
        ]
        head = (int(w.text.split(",")[1]) - 1) // 2
        colour.setdefault(head, set()).add(below[0].get_facecolor())
    assert [len(c) for c in colour.values()] == [1, 1, 1]
    assert len(set.union(*colour.values())) == 3


REFUSED = {
    "repeated": (
        lambda x, r, w: (x * 0, r, w),
        "x has entries that repeat; each must differ, to be found again",
    ),
    "length": (
        lambda x, r, w: (x, r[:, :2], w),
        "x has T = 3, right has T = 2; they must be equal",
    ),
    "width": (
        lambda x, r, w: (x, r, w[..., :1]),
        "x has D = 6, wrong has h · D_h = 3; they must be equal",
    ),
    "other entries": (
        lambda x, r, w: (x, r, w + 1),
        "wrong holds other entries than x",
    ),
    "heads": (
        lambda x, r, w: (x, r, x.reshape(2, 3, 3)),
        "right has h = 3, wrong has h = 2; they must be equal",
    ),
    "axes": (
        lambda x, r, w: (x, r[0], w),
        "right has 2 axes, shape (3, 2); 3 are needed: (h, T, D_h)",
    ),
    "size": (
        lambda x, r, w: (np.arange(108).reshape(9, 12), r, w),
        "x has T = 9, D = 12; up to 8 rows and 10 columns can be drawn",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_input_is_refused_in_one_line(case):
    change, line = REFUSED[case]
    with pytest.raises(ValueError) as error:  # noqa: PT011
        split_layouts(*change(*both()))
    assert str(error.value) == line


def test_tokens_must_be_as_many_as_rows():
    with pytest.raises(
        ValueError, match=r"^tokens has 2 entries, axis T of x has size 3$"
    ):
        split_layouts(*both(), tokens=["a", "b"])
