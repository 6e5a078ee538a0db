import numpy as np
import pytest
import torch
from matplotlib.patches import Rectangle

from attention_in_detail.figures import matrix_products
from tests.figures.reading import rows_of_weights, word, words


def arrays(seed, T=4, S=5, D_k=3, D_v=2):
    draw = np.random.default_rng(seed)
    Q, K, V = (
        draw.normal(size=(T, D_k)),
        draw.normal(size=(S, D_k)),
        draw.normal(size=(S, D_v)),
    )
    A = rows_of_weights(seed, T, S)
    return Q, K, V, {"scores": Q @ K.T, "weights": A, "output": A @ V}


def grid(picture, name):
    """Return the words in the cells of one matrix, found by their places: (rows, columns) of Word."""
    shape = [
        w
        for w in words(picture)
        if w.artist.get_gid() and w.artist.get_gid().startswith(f"{name}:")
    ]
    lines = {}
    for w in sorted(shape, key=lambda w: (round(w.y), w.x)):
        lines.setdefault(round(w.y / 10), []).append(w)
    return [lines[k] for k in sorted(lines)]


def numbers(picture, name):
    return np.array(
        [
            [float(w.text.replace("−", "-")) for w in row]
            for row in grid(picture, name)
        ]
    )


@pytest.mark.parametrize("seed", range(3))
def test_every_matrix_prints_its_own_numbers_and_keys_stand_transposed(
    seed,
):
    Q, K, V, results = arrays(seed)
    picture = matrix_products(Q, K, V, **results)
    expected = {
        "$Q$": Q,
        r"$K^\top$": K.T,
        "$V$": V,
        "$Z$": results["scores"],
        "$A$": results["weights"],
        "$Y$": results["output"],
    }
    for name, matrix in expected.items():
        np.testing.assert_allclose(
            numbers(picture, name), matrix, atol=0.005
        )


def test_an_entry_of_a_result_lies_where_its_row_meets_its_column():
    Q, K, V, results = arrays(0)
    picture = matrix_products(Q, K, V, **results)
    for left, above, result in (
        ("$Q$", r"$K^\top$", "$Z$"),
        ("$A$", "$V$", "$Y$"),
    ):
        left, above, result = (
            grid(picture, name) for name in (left, above, result)
        )
        for i, row in enumerate(result):
            for j, entry in enumerate(row):
                assert abs(entry.y - left[i][0].y) < 1
                assert abs(entry.x - above[0][j].x) < 1
        assert left[0][-1].right < result[0][0].left
        assert above[-1][0].bottom < result[0][0].top
    assert (
        grid(picture, "$Z$")[-1][0].bottom < grid(picture, "$V$")[0][0].top
    )


def test_rows_and_columns_are_named_after_their_vectors():
    Q, K, V, results = arrays(1)
    picture = matrix_products(Q, K, V, **results)
    for i, row in enumerate(grid(picture, "$Q$")):
        assert abs(word(picture, f"$q_{{{i + 1}}}$").y - row[0].y) < 3
    for j, entry in enumerate(grid(picture, r"$K^\top$")[0]):
        assert abs(word(picture, f"$k_{{{j + 1}}}$").x - entry.x) < 3
    for j, row in enumerate(grid(picture, "$V$")):
        assert abs(word(picture, f"$v_{{{j + 1}}}$").y - row[0].y) < 3


def test_all_shapes_stand_on_the_picture_and_in_its_words():
    Q, K, V, results = arrays(0)
    picture = matrix_products(Q, K, V, **results)
    for shape in (
        "(T, D_k)$ = (4, 3)",
        "(D_k, S)$ = (3, 5)",
        "(S, D_v)$ = (5, 2)",
        "(T, D_v)$ = (4, 2)",
    ):
        assert word(picture, f"${shape}")
    assert (
        len([w for w in words(picture) if w.text == "$(T, S)$ = (4, 5)"])
        == 2
    )
    said = picture.text_alternative
    assert "Q, 4 by 3, times K transposed, 3 by 5, gives Z, 4 by 5" in said
    assert "A, 4 by 5, times V, 5 by 2, gives Y, 4 by 2" in said


def test_the_words_give_the_rows_of_the_results():
    Q, K, V, results = arrays(2)
    said = matrix_products(Q, K, V, **results).text_alternative
    for name, key in (("Z", "scores"), ("A", "weights"), ("Y", "output")):
        rows = "; ".join(
            ", ".join(f"{x:.2f}".replace("-", "−") for x in row)
            for row in results[key]
        )
        assert f"Rows of {name}: {rows}." in said


def test_the_formula_can_say_another_scale():
    Q, K, V, _ = arrays(0)
    assert word(matrix_products(Q, K, V), r"$Z = Q\,K^\top / \sqrt{D_k}$")
    picture = matrix_products(Q, K, V, scores_formula=r"$Z = Q\,K^\top$")
    assert word(picture, r"$Z = Q\,K^\top$")
    assert "First, Z = Q K^T: Q," in picture.text_alternative


def test_what_is_not_given_is_an_empty_block_of_its_shape():
    Q, K, V, _ = arrays(0)
    picture = matrix_products(Q, K, V)
    assert not grid(picture, "$Z$")
    assert not grid(picture, "$A$")
    assert not grid(picture, "$Y$")
    assert len(grid(picture, "$V$")) == 5
    assert "Rows of" not in picture.text_alternative


def test_the_framed_row_runs_through_four_matrices():
    Q, K, V, results = arrays(0)
    picture = matrix_products(Q, K, V, **results, highlight=2)
    frames = [
        p for p in picture.findobj(Rectangle) if p.get_gid() == "highlight"
    ]
    assert len(frames) == 4
    for frame, name in zip(
        sorted(frames, key=lambda f: (f.get_y(), f.get_x())),
        ("$Q$", "$Z$", "$A$", "$Y$"),
        strict=True,
    ):
        row = grid(picture, name)[2]
        assert frame.get_y() < row[0].y < frame.get_y() + frame.get_height()
        assert (
            frame.get_x()
            < row[0].x
            < row[-1].x
            < frame.get_x() + frame.get_width()
        )
    assert picture.text_alternative.endswith(
        "The row of query 3 is framed in Q, Z, A and Y."
    )
    assert not [
        p
        for p in matrix_products(Q, K, V).findobj(Rectangle)
        if p.get_gid() == "highlight"
    ]


def test_larger_matrices_are_blocks_without_numbers():
    Q, K, V, results = arrays(0, T=4, S=7)
    picture = matrix_products(Q, K, V, **results)
    assert not grid(picture, "$Q$")
    assert "Rows of" not in picture.text_alternative
    assert word(picture, "$(T, D_k)$ = (4, 3)")


def test_masked_scores_and_exact_integers_are_printed_as_such():
    picture = matrix_products(
        [[1.0]],
        [[2.0], [3.0]],
        [[4.0], [5.0]],
        scores=[[2, -np.inf]],
        weights=[[1, 0]],
    )
    assert [w.text for w in grid(picture, "$Z$")[0]] == ["2", "−∞"]
    assert [w.text for w in grid(picture, "$A$")[0]] == ["1", "0"]


def test_tensors_are_drawn():
    Q, K, V, results = arrays(3)
    tensors = [torch.tensor(x, requires_grad=True) for x in (Q, K, V)]
    assert (
        matrix_products(
            *tensors, weights=torch.tensor(results["weights"])
        ).png()
        == matrix_products(Q, K, V, weights=results["weights"]).png()
    )


REFUSED = {
    "width of the keys": (
        {"keys": (5, 4)},
        "queries has D_k = 3, keys has D_k = 4; they must be equal",
    ),
    "length of the values": (
        {"values": (6, 2)},
        "keys has S = 5, values has S = 6; they must be equal",
    ),
    "rows of the scores": (
        {"scores": (3, 5)},
        "queries has T = 4, scores has T = 3; they must be equal",
    ),
    "columns of the weights": (
        {"weights": (4, 6)},
        "keys has S = 5, weights has S = 6; they must be equal",
    ),
    "rows of the output": (
        {"output": (5, 2)},
        "queries has T = 4, output has T = 5; they must be equal",
    ),
    "width of the output": (
        {"output": (4, 3)},
        "values has D_v = 2, output has D_v = 3; they must be equal",
    ),
    "a batch": (
        {"queries": (1, 4, 3)},
        "queries has 3 axes, shape (1, 4, 3); 2 are needed: (T, D_k)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_sizes_that_do_not_fit_are_refused_in_one_line(case):
    shapes, line = REFUSED[case]
    given = {
        name: np.ones(shape)
        for name, shape in {
            "queries": (4, 3),
            "keys": (5, 3),
            "values": (5, 2),
            **shapes,
        }.items()
    }
    with pytest.raises(ValueError) as error:  # noqa: PT011
        matrix_products(
            given.pop("queries"),
            given.pop("keys"),
            given.pop("values"),
            **given,
        )
    assert str(error.value) == line


@pytest.mark.parametrize("highlight", [-1, 4])
def test_a_query_that_is_not_there_cannot_be_framed(highlight):
    Q, K, V, _ = arrays(0)
    with pytest.raises(
        ValueError,
        match=f"^highlight is {highlight}; the queries have indices 0 to 3$",
    ):
        matrix_products(Q, K, V, highlight=highlight)


def test_weights_beyond_one_are_refused():
    Q, K, V, _ = arrays(0)
    with pytest.raises(
        ValueError,
        match=r"^weights must lie between 0 and 1: entry \(0, 0\) is 2$",
    ):
        matrix_products(Q, K, V, weights=np.full((4, 5), 2.0))
