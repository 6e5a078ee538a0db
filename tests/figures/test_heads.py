import numpy as np
import pytest

from attention_in_detail.figures import head_grid
from attention_in_detail.figures.style import LIGHT
from tests.figures.reading import (
    ENGLISH,
    GERMAN,
    pixels,
    rows_of_weights,
    word,
    words,
)


def maps(picture):
    """Return for each head, in their order, what gives the place of a point of its cells, in pixels from the bottom left.

    The centre of cell (i, j) is the point (j + ½, i + ½).
    """
    [page] = picture.axes
    found = {
        mesh.get_gid(): mesh.get_coordinates() for mesh in page.collections
    }

    def placed(corners):
        (left, top), (right, bottom) = corners[0, 0], corners[1, 1]

        def place(x, y):
            return page.transData.transform(
                (left + x * (right - left), top + y * (bottom - top))
            )

        return place

    count = len([gid for gid in found if gid and gid.startswith("head:")])
    return [placed(found[f"head:{n}"]) for n in range(count)]


@pytest.mark.parametrize("seed", range(3))
def test_each_map_shows_its_head_with_rows_as_queries(seed):
    weights = rows_of_weights(seed, 3, 4, 5)
    picture = head_grid(weights, maximum=1)
    image = pixels(picture)
    for place, head in zip(maps(picture), weights, strict=True):
        for (i, j), weight in np.ndenumerate(head):
            x, y = place(j + 0.2, i + 0.2) * 2
            np.testing.assert_allclose(
                image[len(image) - int(y) - 1, int(x)] / 255,
                LIGHT.weights(float(weight))[:3],
                atol=0.02,
            )


def test_dots_mark_the_strongest_key_of_each_query():
    weights = rows_of_weights(0, 3, 4, 5)
    weights[1, 2] = 0  # a query without a key
    picture = head_grid(weights)
    [page] = picture.axes
    dots = np.concatenate(
        [
            page.transData.transform(line.get_xydata())
            for line in page.lines
            if line.get_gid() == "strongest"
        ]
    )
    wanted = [
        place(head[i].argmax() + 0.5, i + 0.5)
        for place, head in zip(maps(picture), weights, strict=True)
        for i in range(len(head))
        if head[i].any()
    ]
    assert len(dots) == len(wanted) == 11
    for one in wanted:
        assert np.abs(dots - one).max(axis=1).min() < 1e-6


def test_heads_stand_in_rows_of_the_asked_length():
    picture = head_grid(rows_of_weights(0, 5, 4, 4), columns=3)
    titles = [word(picture, f"head {n + 1}") for n in range(5)]
    assert len({round(t.y) for t in titles[:3]}) == 1
    assert titles[3].y > titles[2].y + 50
    assert [t.x for t in titles[:3]] == sorted(t.x for t in titles[:3])
    assert abs(titles[3].x - titles[0].x) < 1


def test_tokens_stand_beside_the_first_maps_and_above_the_first_row():
    picture = head_grid(
        rows_of_weights(0, 4, 4, 5),
        query_tokens=GERMAN,
        key_tokens=ENGLISH,
        columns=2,
    )
    beside = [w for w in words(picture) if w.text in GERMAN]
    above = [w for w in words(picture) if w.text in ENGLISH]
    assert len(beside) == 2 * 4
    assert len(above) == 2 * 5
    first = maps(picture)[0]
    for i, token in enumerate(GERMAN):
        y = picture.css_height - first(0, i + 0.5)[1]
        assert min(abs(w.y - y) for w in beside if w.text == token) < 3
    for j, token in enumerate(ENGLISH):
        x = first(j + 0.5, 0)[0]
        assert min(abs(w.x - x) for w in above if w.text == token) < 3


@pytest.mark.parametrize("seed", range(4))
def test_the_words_give_the_largest_weight_of_each_head(seed):
    weights = rows_of_weights(seed, 3, 4, 5)
    said = head_grid(
        weights, query_tokens=GERMAN, key_tokens=ENGLISH
    ).text_alternative
    for n, head in enumerate(weights):
        i, j = np.unravel_index(head.argmax(), head.shape)
        assert (
            f"head {n + 1}: {head.max():.2f} from “{GERMAN[i]}” to “{ENGLISH[j]}”"
            in said
        )
    assert (
        "3 heat maps of attention weights, one for each head, each of 4 queries (rows) by 5 keys (columns)."
        in said
    )


def test_the_words_tell_what_the_strongest_keys_follow():
    n = 5
    own, before, after = np.eye(n), np.eye(n, k=-1), np.eye(n, k=1)
    first = np.zeros((n, n))
    first[:, 0] = 1
    said = head_grid(
        [own, before, after, first], titles=["a", "b", "c", "d"]
    ).text_alternative
    assert (
        "a: 1 from query 1 to key 1, strongest key most often its own position (5 of 5 queries)"
        in said
    )
    assert (
        "b: 1 from query 2 to key 1, strongest key most often the position before it (4 of 5 queries)"
        in said
    )
    assert (
        "c: 1 from query 1 to key 2, strongest key most often the position after it (4 of 5 queries)"
        in said
    )
    assert (
        "d: 1 from query 1 to key 1, strongest key most often key 1 (5 of 5 queries)"
        in said
    )
    assert (
        "most often key 1 (2 of 2 queries)"
        in head_grid([[[1.0, 0, 0], [1, 0, 0]]]).text_alternative
    )


def test_more_than_eight_heads_are_shortened_to_their_count():
    said = head_grid(rows_of_weights(0, 12, 3, 4)).text_alternative
    assert "…and 4 more heads." in said
    assert "head 8:" in said
    assert "head 9:" not in said


def test_all_heads_share_one_scale():
    weights = rows_of_weights(0, 2, 3, 4)
    assert word(head_grid(weights), f"{weights.max():.2f}")
    assert word(head_grid(weights, maximum=1), "1")


def test_titles_can_be_given():
    picture = head_grid(
        rows_of_weights(0, 2, 3, 4), titles=["layer 3, head 7", "$h$"]
    )
    assert word(picture, "layer 3, head 7").x < word(picture, "$h$").x


REFUSED = {
    "two axes": (
        np.full((2, 3), 1 / 3),
        {},
        "weights has 2 axes, shape (2, 3); 3 are needed: (h, T, S)",
    ),
    "query tokens": (
        np.full((2, 2, 3), 1 / 3),
        {"query_tokens": ["a"]},
        "query_tokens has 1 entries, axis T of weights has size 2",
    ),
    "key tokens": (
        np.full((2, 2, 3), 1 / 3),
        {"key_tokens": ["a"]},
        "key_tokens has 1 entries, axis S of weights has size 3",
    ),
    "titles": (
        np.full((2, 2, 3), 1 / 3),
        {"titles": ["a"]},
        "titles has 1 entries, axis h of weights has size 2",
    ),
    "columns": (
        np.full((2, 2, 3), 1 / 3),
        {"columns": 0},
        "columns is 0; at least one map must stand in a row",
    ),
    "maximum": (
        np.full((2, 2, 3), 1 / 3),
        {"maximum": -1},
        "maximum is -1; the value of the strongest colour must be positive",
    ),
    "scores": (
        -np.ones((1, 2, 2)),
        {},
        "weights must lie between 0 and 1: entry (0, 0, 0) is -1",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_input_is_refused_in_one_line(case):
    weights, options, line = REFUSED[case]
    with pytest.raises(ValueError) as error:  # noqa: PT011
        head_grid(weights, **options)
    assert str(error.value) == line
