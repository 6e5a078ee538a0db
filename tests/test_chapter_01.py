"""What chapter 1, Notation, states.

Checked elsewhere:
- a checked function refuses what its annotation forbids, going in and coming
  out: test_notation.py,
  test_a_checked_function_refuses_what_its_annotation_forbids,
  test_a_checked_function_refuses_a_result_that_its_annotation_forbids
- entries of −∞ get the share 0, and a row of nothing else zeros:
  test_rows.py, test_softmax_of_minus_infinity_is_zero
- a shift of a row changes no share, for all input: test_properties.py,
  test_softmax_does_not_notice_a_shift_of_a_row
- batch axes broadcast, in every place: test_scaled_dot_product.py,
  test_batch_axes_of_all_that_is_given_broadcast
- true means may attend: test_classic_bugs.py,
  test_a_mask_shuts_by_minus_infinity_before_the_softmax
"""

import jaxtyping
import numpy as np
import pytest
import torch

from attention_in_detail import scores, shape_checked, softmax
from attention_in_detail._arrays import narrowed, widened
from attention_in_detail.notation import Array, Float
from tests.support import assert_close, normal

X = np.array([[2.0, 0, 0], [0, 3, 0], [0, 0, 1], [1, 0, 2]])
W = np.array([[1.0, 0], [0, 1], [2, -1]])
Q = np.array([[1.0, 0, 1], [0, 2, -1]])
K = X
CATS, SLEEP, ON, MATS = range(4)


# def-shape


@pytest.mark.claim("def-shape")
@pytest.mark.parametrize(
    ("shape", "holds"),
    [
        ("S D", True),
        ("4 3", True),
        ("S", False),
        ("S S", False),
        ("*batch S D", True),
    ],
)
@pytest.mark.parametrize("make", [np.asarray, torch.asarray])
def test_the_table_fits_the_annotations_that_the_page_says(
    make, shape, holds
):
    assert isinstance(make(X), Float[Array, shape]) == holds
    assert not isinstance(make(X.astype(int)), Float[Array, shape])


@pytest.mark.claim("def-shape")
def test_inner_sizes_must_agree_and_outer_ones_remain():
    def product(
        X: Float[Array, "S D"], W: Float[Array, "D D_v"]
    ) -> Float[Array, "S D_v"]:
        return X @ W

    assert shape_checked(product)(X, W).shape == (4, 2)
    with pytest.raises(jaxtyping.TypeCheckError, match="D=3"):
        shape_checked(product)(X, W[:2])


def test_an_annotation_is_a_comment_until_it_is_asked_for():
    def product(X: Float[Array, "S S"]) -> Float[Array, "7 7"]:
        return X @ W

    assert np.array_equal(product(X), X @ W)
    with pytest.raises(jaxtyping.TypeCheckError, match="S S"):
        shape_checked(product)(X)


def test_the_statement_of_the_scores_names_one_width_twice():
    said = {
        name: scores.__annotations__[name].dim_str
        for name in ("queries", "keys", "return")
    }
    assert said == {
        "queries": "*#batch T D_k",
        "keys": "*#batch S D_k",
        "return": "*#batch T S",
    }


def test_the_message_names_argument_axis_sizes_and_rule():
    with pytest.raises(ValueError, match="keys") as error:
        scores(Q, K[:, :2])
    assert str(error.value) == (
        "keys has D_k = 2, but queries has D_k = 3; "
        "queries and keys must share their width"
    )


def test_the_annotation_tells_the_story_of_the_page():
    with pytest.raises(TypeError) as error:
        shape_checked(scores)(Q, K[:, :2])
    lines = str(error.value).splitlines()
    for line in (
        "The problem arose whilst typechecking parameter 'keys'.",
        "Actual value: f64[4,2](numpy)",
        "Expected type: <class 'Float[Any, '*#batch S D_k']'>.",
        "T=2",
        "D_k=3",
    ):
        assert line in lines


# def-rows


@pytest.mark.claim("def-rows")
def test_rows_are_vectors_without_a_direction_in_numpy():
    assert X[MATS].tolist() == [1, 0, 2]
    assert X[MATS].shape == (3,)
    assert Q[0] @ K[MATS] == 3 == scores(Q, K, scale=1)[0, MATS]
    as_column = K[MATS].reshape(3, 1)
    assert (Q[:1] @ as_column).tolist() == [[3]]


# prop-product-rows


@pytest.mark.claim("prop-product-rows")
def test_a_row_of_a_product_is_a_weighted_sum_of_rows():
    by_hand = [[2, 0], [0, 3], [2, -1], [5, -2]]
    assert (X @ W).tolist() == by_hand
    for x, row in zip(X, by_hand, strict=True):
        assert sum(x[c] * W[c] for c in range(3)).tolist() == row


@pytest.mark.claim("prop-product-rows")
def test_a_row_of_a_product_depends_on_no_other_row():
    assert np.array_equal(X[:2] @ W, (X @ W)[:2])
    other = X.copy()
    other[ON] += 1
    moved = (other @ W != X @ W).any(1)
    assert moved.tolist() == [False, False, True, False]


# prop-dot-products


@pytest.mark.claim("def-rows", "prop-dot-products")
def test_the_eight_dot_products_are_those_of_the_table():
    by_hand = [[2, 0, 1, 3], [0, 6, -1, -2]]
    assert scores(Q, K, scale=1).tolist() == by_hand
    for i in range(2):
        for j in range(4):
            assert sum(Q[i] * K[j]) == by_hand[i][j]
    assert np.argmax(by_hand, axis=1).tolist() == [MATS, SLEEP]


# def-softmax


@pytest.mark.claim("def-softmax")
def test_the_softmax_of_two_rows_of_logarithms_by_hand():
    shares = softmax(np.log([[1.0, 2, 5], [3, 3, 2]]))
    assert_close(shares, np.array([[1, 2, 5], [3, 3, 2]]) / 8, 1e-15)
    assert_close(shares.sum(1), np.ones(2), 1e-15)


@pytest.mark.claim("def-softmax")
def test_each_row_of_a_softmax_is_a_problem_of_its_own():
    Z = normal(3, 4)
    other = Z.copy()
    other[1, 2] += 1
    moved = (softmax(other) != softmax(Z)).any(1)
    assert moved.tolist() == [False, True, False]


def test_half_precision_is_widened_and_double_is_left_as_it_is():
    assert widened(X.astype(np.float16)).dtype == np.float32
    assert widened(X) is X
    assert narrowed(X, X.dtype) is X


# prop-softmax


@pytest.mark.claim("prop-softmax")
def test_shares_are_positive_sum_to_one_and_have_the_ratio_of_powers():
    Z = 3 * normal(4, 5)
    A = softmax(Z)
    assert (A > 0).all()
    assert_close(A.sum(1), np.ones(4), 1e-15)
    ratios = A[:, :, None] / A[:, None, :]
    assert_close(ratios, np.exp(Z[:, :, None] - Z[:, None, :]), 1e-12)


@pytest.mark.claim("prop-softmax")
def test_another_number_added_to_each_row_changes_nothing():
    Z = np.log([[1.0, 2, 5], [3, 3, 2]])
    shifted = Z + np.array([[100.0], [-7.0]])
    assert_close(softmax(shifted), softmax(Z), 1e-13)
    # A number added to a column does.
    moved = softmax(Z + np.array([1.0, 0, 0])) - softmax(Z)
    assert np.abs(moved).max() > 0.1


def test_a_thousand_overflows_nothing():
    shares = softmax(np.array([1000, 1000 + np.log(2)]))
    assert_close(shares, np.array([1, 2]) / 3, 1e-12)
    with np.errstate(over="ignore"):
        assert np.exp(1000.0) == np.inf


# def-batch


@pytest.mark.claim("def-batch")
def test_products_transposes_and_softmax_act_on_each_sheet_by_itself():
    batch = normal(5, 4, 3)
    for b in range(5):
        assert np.array_equal((batch @ W)[b], batch[b] @ W)
        assert np.array_equal(batch.mT[b], batch[b].T)
        assert_close(softmax(batch)[b], softmax(batch[b]), 1e-15)


@pytest.mark.claim("def-batch")
@pytest.mark.parametrize("queries", [Q, Q[None]])
def test_two_rows_are_compared_with_each_of_five_sentences(queries):
    batch = normal(5, 4, 3)
    z = scores(queries, batch)
    assert z.shape == (5, 2, 4)
    for b in range(5):
        assert_close(z[b], scores(Q, batch[b]), 1e-14)


def test_two_unequal_sizes_in_front_cannot_be_matched():
    with pytest.raises(ValueError, match="batch axis") as error:
        scores(np.stack([Q, Q, Q]), normal(5, 4, 3))
    assert str(error.value) == (
        "keys has size 5 on batch axis -1, but queries has 3 there; "
        "they must be equal, or one of them 1"
    )


# What can go wrong


def test_t_reverses_all_axes_and_mt_the_last_two():
    batch = normal(5, 4, 3)
    assert batch.mT.shape == (5, 3, 4)
    assert batch.T.shape == (3, 4, 5)
    with pytest.raises(ValueError, match="matmul"):
        batch @ batch.T
    assert_close(X.T, X.mT, 0)


def test_t_on_a_stack_of_equal_sizes_mixes_the_sheets():
    cube = np.random.default_rng(0).integers(-3, 4, size=(3, 3, 3)) * 1.0
    right, wrong = cube @ cube.mT, cube @ cube.T
    assert_close(right, np.einsum("bid,bjd->bij", cube, cube), 0)
    assert_close(wrong, np.einsum("bid,jdb->bij", cube, cube), 0)
    for product in (right, wrong):
        assert isinstance(product, Float[Array, "B S S"])
    assert (right != wrong).mean() > 0.5
    alone = cube[0] @ cube[0].T
    assert np.array_equal(right[0], alone)
    assert not np.array_equal(wrong[0], alone)
    other = cube.copy()
    other[2] += 1
    assert np.array_equal((other @ other.mT)[0], right[0])
    assert not np.array_equal((other @ other.T)[0], wrong[0])


def test_in_the_cube_of_the_page_one_entry_of_27_agrees():
    rng = np.random.default_rng(1)
    rng.integers(0, 4, size=(5, 4, 3))
    cube = rng.integers(-3, 4, size=(3, 3, 3)).astype(float)
    assert (cube @ cube.mT == cube @ cube.T).sum() == 1


# ex-notation-hand


def test_the_third_row_is_as_worked_by_hand():
    row = np.array([1.0, 0, -1]) @ K.T
    assert row.tolist() == [2, 0, -1, -1]
    shares = softmax(np.log(2) * row)
    assert_close(shares, np.array([8, 2, 1, 1]) / 12, 1e-15)
    assert shares.argmax() == CATS
    assert_close(shares[CATS] / shares[ON], np.array(8.0), 1e-14)


# ex-notation-break


def test_transposed_keys_are_refused_only_where_the_sizes_differ():
    with pytest.raises(
        ValueError, match="keys has D_k = 4, but queries ha"
    ):
        scores(Q, K.T, scale=1)
    for function in (scores, shape_checked(scores)):
        assert function(Q, K[1:].T, scale=1)[0].tolist() == [1, 3, 2]
        assert function(Q, K[1:], scale=1)[0].tolist() == [0, 1, 3]


# ex-notation-shift


def test_rows_of_the_same_shares_differ_by_one_number():
    """From the shares alone the row comes back, up to its height."""
    z = 3 * normal(6)
    back = np.log(softmax(z)) - z
    assert_close(back, np.full(6, back[0]), 1e-13)
    assert_close(back[0], -np.log(np.exp(z).sum()), 1e-13)
