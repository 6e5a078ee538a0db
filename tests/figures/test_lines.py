import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_in_detail.figures import attention_lines
from tests.figures.reading import (
    ENGLISH,
    GERMAN,
    causal_weights,
    rows_of_weights,
    word,
    words,
)


def lines(picture):
    """Return from (i, j) to the line that is drawn for this query and key."""
    found = {}
    for axes in picture.axes:
        for line in axes.lines:
            if line.get_gid():
                _, i, j = line.get_gid().split(":")
                found[int(i), int(j)] = line
    return found


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(2, 6))
def test_each_line_runs_from_its_query_to_its_key(seed, T, S):
    weights = rows_of_weights(seed, T, S)
    queries, keys = (
        [f"query{i}" for i in range(T)],
        [f"key{j}" for j in range(S)],
    )
    picture = attention_lines(
        weights, query_tokens=queries, key_tokens=keys
    )
    places = {w.text: w for w in words(picture)}
    drawn = lines(picture)
    assert set(drawn) == {
        (i, j) for i, j in np.ndindex(T, S) if weights[i, j] >= 0.05
    }
    for (i, j), line in drawn.items():
        (x0, y0), (x1, y1) = line.get_xydata()[[0, -1]]
        query, key = places[queries[i]], places[keys[j]]
        assert abs(y0 - query.y) < 3
        assert abs(y1 - key.y) < 3
        assert query.right < x0 < x1 < key.left


@pytest.mark.parametrize("seed", range(5))
def test_the_text_alternative_names_the_strongest_key_and_counts_the_lines(
    seed,
):
    weights = rows_of_weights(seed, 4, 5)
    picture = attention_lines(
        weights, query_tokens=GERMAN, key_tokens=ENGLISH
    )
    for i, row in enumerate(weights):
        assert (
            f"“{GERMAN[i]}”: “{ENGLISH[row.argmax()]}” ({row.max():.2f})"
            in picture.text_alternative
        )
    count = (weights >= 0.05).sum()
    assert (
        f"{count} lines with a weight of 0.05 or more."
        in picture.text_alternative
    )
    assert (
        "Lines from 4 queries on the left to 5 keys on the right."
        in picture.text_alternative
    )


def test_wider_and_stronger_lines_mean_more_weight():
    drawn = lines(attention_lines([[0.5, 0.3, 0.15, 0.05]]))
    widths = [drawn[0, j].get_linewidth() for j in range(4)]
    assert widths == sorted(widths, reverse=True)
    assert len(set(widths)) == 4
    opacity = [drawn[0, j].get_alpha() for j in range(1, 4)]
    assert opacity == sorted(opacity, reverse=True)
    assert len(set(opacity)) == 3


def test_heavier_lines_lie_on_top_of_lighter_ones():
    weights = rows_of_weights(2, 5, 5)
    drawn = lines(attention_lines(weights))
    order = [weights[place] for place in drawn]
    assert order == sorted(order)


def test_the_strongest_line_has_its_own_colour_and_its_weight_beside_the_query():
    weights = rows_of_weights(3, 4, 5)
    picture = attention_lines(weights, query_tokens=GERMAN)
    for (i, j), line in lines(picture).items():
        other = lines(picture)[i, (weights[i].argmax())]
        assert (line.get_color() == other.get_color()) == (
            j == weights[i].argmax()
        )
    for i, token in enumerate(GERMAN):
        beside = [
            w
            for w in words(picture)
            if w.text == f"{weights[i].max():.2f}"
            and abs(w.y - word(picture, token).y) < 3
        ]
        assert len(beside) == 1
        assert beside[0].left > word(picture, token).right


def test_the_threshold_decides_which_lines_are_drawn():
    weights = [[0.5, 0.3, 0.2, 0.0]]
    assert set(lines(attention_lines(weights, threshold=0.25))) == {
        (0, 0),
        (0, 1),
    }
    assert set(lines(attention_lines(weights, threshold=0))) == {
        (0, 0),
        (0, 1),
        (0, 2),
    }
    said = attention_lines(weights, threshold=0.5).text_alternative
    assert "1 line with a weight of 0.5 or more." in said
    assert said.endswith("1 of 4 weights is exactly zero.")


def test_one_query_may_be_shown_alone():
    weights = rows_of_weights(0, 4, 5)
    picture = attention_lines(
        weights, query_tokens=GERMAN, key_tokens=ENGLISH, query=2
    )
    assert {i for i, _ in lines(picture)} == {2}
    assert (
        f"Strongest key of each query: “sass”: “{ENGLISH[weights[2].argmax()]}”"
        in picture.text_alternative
    )
    assert "Katze" not in picture.text_alternative
    assert word(picture, "Katze")


def test_a_query_that_attends_to_nothing_has_no_line_and_no_number():
    weights = causal_weights(0, 3)
    weights[1] = 0
    picture = attention_lines(weights)
    assert {i for i, _ in lines(picture)} == {0, 2}
    assert (
        "query 2: nothing, all weights are zero" in picture.text_alternative
    )
    assert not [w for w in words(picture) if w.text == "0"]


def test_a_title_and_labels_stand_on_top():
    picture = attention_lines(
        [[0.5, 0.5]],
        title="Alignment",
        query_label="English",
        key_label="German",
    )
    assert (
        word(picture, "Alignment").y
        < word(picture, "English").y
        < word(picture, "$q_{1}$").y
    )
    assert word(picture, "English").x < word(picture, "German").x
    assert picture.text_alternative.startswith(
        "Alignment. Lines from 1 English on the left to 2 German"
    )


REFUSED = {
    "tokens": (
        {"query_tokens": ["a"]},
        "query_tokens has 1 entries, axis T of weights has size 2",
    ),
    "key tokens": (
        {"key_tokens": ["a"]},
        "key_tokens has 1 entries, axis S of weights has size 3",
    ),
    "threshold": (
        {"threshold": 1.5},
        "threshold is 1.5; it must lie between 0 and 1",
    ),
    "query": ({"query": 2}, "query is 2; the queries have indices 0 to 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_input_is_refused_in_one_line(case):
    options, line = REFUSED[case]
    with pytest.raises(ValueError) as error:  # noqa: PT011
        attention_lines(np.full((2, 3), 1 / 3), **options)
    assert str(error.value) == line
