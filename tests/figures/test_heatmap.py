import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import QuadMesh

from attention_in_detail.figures import weights_heatmap
from attention_in_detail.figures.style import LIGHT, contrast
from tests.figures.reading import (
    ENGLISH,
    GERMAN,
    causal_weights,
    pixels,
    rows_of_weights,
    usual_pixel,
    word,
    words,
)

NUMBER = re.compile(r"^−?\d+(\.\d+)?$")


def printed(picture):
    """Return the numbers of the cells as rows from top to bottom, each from left to right."""
    cells = sorted(
        (w for w in words(picture) if NUMBER.match(w.text)),
        key=lambda w: (round(w.y), w.x),
    )
    lines = {}
    for w in cells:
        lines.setdefault(round(w.y / 8), []).append(
            float(w.text.replace("−", "-"))
        )
    return np.array([lines[k] for k in sorted(lines)])


@pytest.mark.parametrize("seed", range(4))
def test_the_cells_print_the_weights_in_their_order(seed):
    weights = rows_of_weights(seed, 4, 5)
    np.testing.assert_allclose(
        printed(weights_heatmap(weights)), weights, atol=0.005
    )
    np.testing.assert_allclose(
        printed(weights_heatmap(weights, digits=3)), weights, atol=0.0005
    )


def test_an_exact_integer_has_no_decimals_and_a_small_weight_is_not_zero():
    shown = [
        w.text
        for w in words(weights_heatmap([[1.0, 0.0], [0.996, 0.004]]))
        if NUMBER.match(w.text)
    ]
    assert sorted(shown) == ["0", "0.00", "1", "1.00"]


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(2, 6))
def test_query_i_stands_beside_row_i_and_key_j_above_column_j(seed, T, S):
    """A transposed map would put a number into another row than its query's."""
    weights = rows_of_weights(seed, T, S)
    queries, keys = (
        [f"query{i}" for i in range(T)],
        [f"key{j}" for j in range(S)],
    )
    picture = weights_heatmap(
        weights, query_tokens=queries, key_tokens=keys
    )
    i, j = np.unravel_index(weights.argmax(), weights.shape)
    places = {w.text: w for w in words(picture)}
    query, key = places[queries[i]], places[keys[j]]
    strongest = [
        w for w in words(picture) if w.text == f"{weights[i, j]:.2f}"
    ]
    cell = min(
        strongest, key=lambda w: abs(w.x - key.x) + abs(w.y - query.y)
    )
    assert abs(cell.y - query.y) < 3
    assert abs(cell.x - key.x) < 3
    assert query.right < cell.left
    assert key.bottom < cell.top


@pytest.mark.parametrize("size", [5, 20])
def test_the_strongest_cell_is_where_the_strongest_query_and_key_meet(size):
    weights = np.full((size - 1, size), 0.01)
    weights[1, 3] = 0.8
    queries, keys = (
        [f"q{i}" for i in range(size - 1)],
        [f"k{j}" for j in range(size)],
    )
    picture = weights_heatmap(
        weights, query_tokens=queries, key_tokens=keys, numbers=False
    )
    image = pixels(picture)

    def corner_colour(i, j):
        x, y = word(picture, keys[j]).x, word(picture, queries[i]).y
        return image[int(2 * y) - 11, int(2 * x) - 11] / 255

    np.testing.assert_allclose(
        corner_colour(1, 3), LIGHT.weights(1.0)[:3], atol=0.01
    )
    np.testing.assert_allclose(
        corner_colour(3, 1), LIGHT.weights(0.01 / 0.8)[:3], atol=0.01
    )


@given(st.integers(0, 10_000), st.integers(1, 7), st.integers(2, 7))
def test_the_text_alternative_names_the_strongest_key_of_each_query(
    seed, T, S
):
    weights = rows_of_weights(seed, T, S)
    queries, keys = (
        [f"query-{i}" for i in range(T)],
        [f"key-{j}" for j in range(S)],
    )
    said = weights_heatmap(
        weights, query_tokens=queries, key_tokens=keys
    ).text_alternative
    assert f"{T} queries (rows) by {S} keys (columns)" in said
    for i in range(T):
        j = weights[i].argmax()
        assert f"“query-{i}”: “key-{j}” ({weights[i, j]:.2f})" in said
    assert said.count("“query-") == said.count("“key-") == T
    assert "zero" not in said


def test_without_tokens_positions_count_from_one_on_the_axes_and_in_the_words():
    picture = weights_heatmap([[0.25, 0.75], [0.625, 0.375]])
    assert (
        "query 1: key 2 (0.75); query 2: key 1 (0.62)."
        in picture.text_alternative
    )
    assert abs(word(picture, "$q_{1}$").y - word(picture, "0.75").y) < 3
    assert abs(word(picture, "$k_{2}$").x - word(picture, "0.75").x) < 3


def test_more_than_eight_queries_are_shortened_to_their_count():
    weights = rows_of_weights(0, 20, 5)
    said = weights_heatmap(weights).text_alternative
    assert "…and 12 more queries." in said
    for i in range(20):
        assert (
            f"query {i + 1}: key {weights[i].argmax() + 1} " in said
        ) == (i < 8)


def test_masked_weights_and_closed_queries_are_told():
    weights = causal_weights(0, 4)
    weights[3] = 0
    said = weights_heatmap(weights).text_alternative
    assert "query 4: nothing, all weights are zero" in said
    assert said.endswith("10 of 16 weights are exactly zero.")
    assert weights_heatmap([[0.0, 1.0]]).text_alternative.endswith(
        "1 of 2 weights is exactly zero."
    )


def test_keys_that_share_the_largest_weight_are_all_named():
    said = weights_heatmap(
        [[0.4, 0.4, 0.2], [1 / 3, 1 / 3, 1 / 3]]
    ).text_alternative
    assert "query 1: key 1 and key 2 (0.40 each)" in said
    assert "query 2: all 3 keys alike (0.33)" in said
    many = [[0.22, 0.22, 0.22, 0.22, 0.12]]
    assert (
        "query 1: 4 keys alike (0.22)"
        in weights_heatmap(many).text_alternative
    )


def test_a_token_that_occurs_twice_is_named_with_its_position():
    tokens = ["the", "cat", "the"]
    said = weights_heatmap(
        np.eye(3), query_tokens=tokens, key_tokens=tokens
    ).text_alternative
    assert "“the” (position 1): “the” (position 1) (1)" in said
    assert "“cat”: “cat” (1)" in said
    assert "“the” (position 3): “the” (position 3) (1)" in said


def test_tokens_are_drawn_letter_by_letter_unless_they_are_mathematics_as_a_whole():
    picture = weights_heatmap(
        [[0.25, 0.75]],
        query_tokens=["costs $5 or $6"],
        key_tokens=["$x_1$", "two\nlines"],
    )
    assert not word(picture, "costs $5 or $6").artist.get_parse_math()
    assert word(picture, "$x_1$").artist.get_parse_math()
    assert word(picture, "two↵lines")
    assert (
        "“costs $5 or $6”: “two↵lines” (0.75)" in picture.text_alternative
    )
    assert (
        "x_1"
        in weights_heatmap(
            [[0.75, 0.25]], key_tokens=["$x_1$", "b"]
        ).text_alternative
    )


def test_a_title_heads_the_map_and_its_words():
    picture = weights_heatmap(
        [[0.5, 0.5]], title=r"Weights with $\sqrt{D_k}$"
    )
    assert (
        word(picture, r"Weights with $\sqrt{D_k}$").y
        < word(picture, "keys").y
    )
    assert picture.text_alternative.startswith(
        "Weights with root of D_k. Heat map of attention weights, 1 "
    )


def test_a_long_title_breaks_into_lines():
    title = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    lines = [
        w
        for w in words(weights_heatmap([[0.5, 0.5]], title=title))
        if w.text.split()[0] in title.split()
    ]
    assert len(lines) > 1
    assert (
        " ".join(w.text for w in sorted(lines, key=lambda w: w.y)) == title
    )


def test_labels_of_the_axes_can_be_named():
    picture = weights_heatmap(
        [[0.5, 0.5]], query_label="English", key_label="German"
    )
    assert word(picture, "English").x < word(picture, "German").x
    assert word(picture, "German").y < word(picture, "English").y
    assert (
        "1 English (rows) by 2 German (columns)" in picture.text_alternative
    )


def test_words_of_the_caller_take_the_place_of_those_from_the_data():
    assert (
        weights_heatmap(
            [[0.5, 0.5]], text_alternative="Two halves."
        ).text_alternative
        == "Two halves."
    )


def dots(picture):
    """Return the places of the dots on strongest keys, in cells from the top left corner, a row after another."""
    return sorted(
        (
            tuple(place)
            for axes in picture.axes
            for line in axes.lines
            if line.get_gid() == "strongest"
            for place in line.get_xydata()
        ),
        key=lambda place: place[::-1],
    )


@pytest.mark.parametrize("shape", [(9, 4), (4, 9)])
def test_larger_maps_have_a_scale_and_mark_the_strongest_key_instead_of_numbers(
    shape,
):
    weights = rows_of_weights(1, *shape)
    picture = weights_heatmap(weights)
    assert word(picture, "weight    ● strongest key of the query")
    scale = [w for w in words(picture) if NUMBER.match(w.text)]
    assert [w.text for w in sorted(scale, key=lambda w: w.x)] == [
        "0",
        f"{weights.max() / 2:.2f}",
        f"{weights.max():.2f}",
    ]
    assert dots(picture) == [
        (row.argmax() + 0.5, i + 0.5) for i, row in enumerate(weights)
    ]
    assert (
        len(
            [
                w
                for w in words(weights_heatmap(weights, numbers=True))
                if NUMBER.match(w.text)
            ]
        )
        == weights.size
    )


def test_a_query_without_a_key_gets_no_dot():
    weights = causal_weights(0, 9)
    weights[4] = 0
    rows = [y - 0.5 for _, y in dots(weights_heatmap(weights))]
    assert rows == [0, 1, 2, 3, 5, 6, 7, 8]


def test_a_common_maximum_gives_maps_the_same_colours():
    def colour(weights, **options):
        picture = weights_heatmap(weights, **options)
        cell = word(picture, "0.25")
        return usual_pixel(
            pixels(picture),
            cell.left - 4,
            cell.top - 4,
            cell.right + 4,
            cell.bottom + 4,
        )

    a, b = [[0.25, 0.75]], [[0.25, 0.3]]
    assert not np.array_equal(colour(a), colour(b))
    np.testing.assert_array_equal(
        colour(a, maximum=1), colour(b, maximum=1)
    )


def test_scores_have_signs_and_colours_around_zero():
    z = np.array([[-2.0, 0.5], [0.0, 1.25]])
    picture = weights_heatmap(
        z,
        kind="scores",
        numbers=False,
        query_tokens=["a", "b"],
        key_tokens=["c", "d"],
    )
    image = pixels(picture)

    def colour(query, key):
        x, y = word(picture, key).x, word(picture, query).y
        return image[int(2 * y) - 20, int(2 * x) - 20] / 255

    np.testing.assert_allclose(
        colour("a", "c"), LIGHT.scores(0.0)[:3], atol=0.02
    )
    np.testing.assert_allclose(
        colour("b", "c"), LIGHT.scores(0.5)[:3], atol=0.02
    )
    np.testing.assert_allclose(
        colour("b", "d"), LIGHT.scores(0.5 + 1.25 / 4)[:3], atol=0.02
    )
    minus = [w for w in words(picture) if w.text == "−"]
    assert len(minus) == 1
    assert abs(minus[0].x - word(picture, "c").x) < 3
    assert abs(minus[0].y - word(picture, "a").y) < 5
    assert (
        "Largest score of each query: “a”: “d” (0.50); “b”: “d” (1.25)."
        in picture.text_alternative
    )
    assert "Scores lie between −2 and 1.25." in picture.text_alternative


def test_scores_print_minus_infinity_where_a_mask_shuts_keys_out():
    z = np.array([[-1.5, -np.inf], [-np.inf, -np.inf]])
    picture = weights_heatmap(z, kind="scores")
    assert sorted(w.text for w in words(picture) if "−" in w.text) == [
        "−1.50",
        "−∞",
        "−∞",
        "−∞",
    ]
    assert (
        "query 1: key 1 (−1.50); query 2: none, all are shut out."
        in picture.text_alternative
    )
    assert (
        "3 of 4 scores are −∞: shut out by a mask."
        in picture.text_alternative
    )
    assert (
        "between"
        not in weights_heatmap(z[1:], kind="scores").text_alternative
    )


def test_a_mask_ticks_what_may_be_attended():
    mask = np.array(
        [[True, False, False], [True, True, True], [False, False, False]]
    )
    picture = weights_heatmap(
        mask,
        kind="mask",
        query_tokens=["a", "b", "c"],
        key_tokens=["d", "e", "f"],
    )
    ticks = [w for w in words(picture) if w.text == "✓"]
    found = {
        (
            min("abc", key=lambda t: abs(word(picture, t).y - w.y)),
            min("def", key=lambda t: abs(word(picture, t).x - w.x)),
        )
        for w in ticks
    }
    assert len(ticks) == 4
    assert found == {("a", "d"), ("b", "d"), ("b", "e"), ("b", "f")}
    assert (
        "“a”: “d”; “b”: every key; “c”: no key. 4 of 9 cells are open."
        in picture.text_alternative
    )
    assert word(picture, "✓ may attend")


def test_a_mask_names_up_to_eight_keys_and_counts_more():
    mask = np.arange(12)[None] < np.array([8, 9])[:, None]
    said = weights_heatmap(mask, kind="mask").text_alternative
    assert (
        "query 1: key 1, key 2, key 3, key 4, key 5, key 6, key 7 and key 8;"
        in said
    )
    assert "query 2: 9 of 12 keys." in said


def test_both_states_of_a_mask_differ_in_brightness_too():
    picture = weights_heatmap([[1, 0]], kind="mask")
    for drawing in (picture, picture.on_dark()):
        (cells,) = drawing.findobj(QuadMesh)
        shut, opened = cells.cmap(0.0), cells.cmap(1.0)
        assert contrast(shut, opened) > 5


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16]
)
def test_tensors_are_drawn_with_or_without_gradient(dtype):
    weights = torch.tensor([[0.25, 0.75]], dtype=dtype, requires_grad=True)
    assert (
        weights_heatmap(weights).png()
        == weights_heatmap([[0.25, 0.75]]).png()
    )
    mask = torch.tensor([[True, False]])
    assert (
        weights_heatmap(mask, kind="mask").png()
        == weights_heatmap([[1, 0]], kind="mask").png()
    )


def test_arguments_are_not_changed():
    weights = rows_of_weights(0, 4, 5)
    before = weights.copy()
    weights_heatmap(weights, query_tokens=GERMAN, key_tokens=ENGLISH).png()
    np.testing.assert_array_equal(weights, before)


REFUSED = {
    "three axes": (
        np.ones((1, 2, 2)) / 2,
        {},
        r"weights has 3 axes, shape (1, 2, 2); 2 are needed: (T, S)",
    ),
    "no entries": (
        np.ones((0, 2)),
        {},
        r"weights is empty: its shape is (0, 2)",
    ),
    "not a number": (
        [[0.5, np.nan]],
        {},
        r"weights is not finite: entry (0, 1) is nan",
    ),
    "infinite": (
        [[0.5, -np.inf]],
        {},
        r"weights is not finite: entry (0, 1) is -inf",
    ),
    "negative": (
        [[0.5, 0.5], [-0.5, 1]],
        {},
        r"weights must lie between 0 and 1: entry (1, 0) is -0.5",
    ),
    "above one": (
        [[0.5, 1.5]],
        {},
        r"weights must lie between 0 and 1: entry (0, 1) is 1.5",
    ),
    "words": ([["a", "b"]], {}, r"weights is not an array of real numbers"),
    "complex": ([[1j, 0]], {}, r"weights is not an array of real numbers"),
    "ragged": (
        [[1.0], [0.5, 0.5]],
        {},
        r"weights is not an array of real numbers",
    ),
    "query tokens": (
        [[0.5, 0.5]],
        {"query_tokens": ["a", "b"]},
        r"query_tokens has 2 entries, axis T of weights has size 1",
    ),
    "key tokens": (
        [[0.5, 0.5]],
        {"key_tokens": ["a"]},
        r"key_tokens has 1 entries, axis S of weights has size 2",
    ),
    "one string": (
        [[0.5, 0.5]],
        {"key_tokens": "ab"},
        r"key_tokens is one string; a list of S = 2 strings is needed",
    ),
    "kind": (
        [[0.5, 0.5]],
        {"kind": "heat"},
        r"kind is 'heat'; it must be one of 'weights', 'scores', 'mask'",
    ),
    "maximum": (
        [[0.5, 0.5]],
        {"maximum": 0},
        r"maximum is 0; the value of the strongest colour must be positive",
    ),
    "scores of plus infinity": (
        [[np.inf, 0]],
        {"kind": "scores"},
        r"weights is not finite: entry (0, 0) is inf",
    ),
    "a mask of weights": (
        [[0.5, 1]],
        {"kind": "mask"},
        r"weights is to be a mask of true and false: entry (0, 0) is 0.5",
    ),
    "no words": (
        [[0.5, 0.5]],
        {"text_alternative": ""},
        r"text_alternative is empty: say in words what the picture shows",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_input_is_refused_in_one_line(case):
    weights, options, line = REFUSED[case]
    with pytest.raises(ValueError) as error:  # noqa: PT011
        weights_heatmap(weights, **options)
    assert str(error.value) == line


def test_rounding_above_one_is_no_error():
    assert "(1.00)" in weights_heatmap([[1 + 1e-7, 0.0]]).text_alternative


@pytest.mark.parametrize("kind", ["weights", "scores", "mask"])
def test_the_legend_may_have_words_of_its_own(kind):
    def legends(picture):
        return [
            text.get_text()
            for axes in picture.axes
            for text in axes.texts
            if text.get_gid() == "legend"
        ]

    options = {"kind": kind, "numbers": False}
    plain = weights_heatmap([[0, 1]], **options)
    own = weights_heatmap([[0, 1]], legend="above 0", **options)
    assert legends(own) == ["above 0"] != legends(plain)
    assert own.text_alternative == plain.text_alternative
