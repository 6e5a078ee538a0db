import math

import numpy as np
import pytest
import torch

from attention_in_detail import softmax, softmax_jacobian
from tests import reference
from tests.support import (
    assert_close,
    each_library,
    each_precision,
    leaves,
    normal,
)


def test_softmax_of_logarithms_gives_their_shares():
    assert_close(
        softmax(np.log([1.0, 2.0, 5.0])), np.array([1, 2, 5]) / 8, 1e-15
    )


@pytest.mark.claim("def-softmax")
@each_library
def test_softmax_equals_its_formula(make):
    z = normal(3, 5)
    assert_close(
        softmax(make(z)), np.array([reference.softmax(row) for row in z])
    )


@pytest.mark.parametrize("axis", [-3, -2, -1, 0, 1, 2])
@each_library
def test_softmax_runs_along_the_axis_that_is_named(make, axis):
    z = normal(2, 3, 4)
    expected = np.apply_along_axis(reference.softmax, axis, z)
    assert_close(softmax(make(z), axis=axis), expected)


@each_precision
@each_library
def test_softmax_keeps_library_and_dtype(make, dtype):
    z = make(normal(2, 3, dtype=dtype))
    weights = softmax(z)
    assert type(weights) is type(z)
    assert weights.dtype == z.dtype


@each_library
def test_softmax_neither_overflows_nor_vanishes(make):
    z = make(
        np.array(
            [
                [1e308, 1e308],
                [-1e308, -1e308],
                [1e308, -1e308],
                [1000.0, 999.0],
            ]
        )
    )
    odds = 1 / (1 + math.exp(-1))
    with np.errstate(
        over="ignore"
    ):  # of the difference −2e308, whose exponential is 0 all the same
        weights = softmax(z)
    assert_close(
        weights,
        np.array([[0.5, 0.5], [0.5, 0.5], [1.0, 0.0], [odds, 1 - odds]]),
    )


@each_library
def test_softmax_of_minus_infinity_is_zero(make):
    z = make(np.array([[-np.inf, 0.0, 0.0], [-np.inf, -np.inf, -np.inf]]))
    assert_close(softmax(z), np.array([[0, 0.5, 0.5], [0, 0, 0]]), 0)


def test_softmax_of_minus_infinity_passes_a_gradient_of_exactly_zero():
    (z,) = leaves([[-math.inf] * 3, [0.0, 1.0, -math.inf]])
    (softmax(z) * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert (z.grad[0] == 0).all()
    assert z.grad[1, 2] == 0
    assert (z.grad[1, :2] != 0).all()


def test_nan_and_infinity_make_nan_along_their_axis_only():
    z = np.array(
        [[0.0, np.nan], [0.0, np.inf], [-np.inf, np.nan], [0.0, 0.0]]
    )
    with np.errstate(invalid="ignore"):
        weights = softmax(z)
    assert np.isnan(weights).tolist() == [
        [True, True],
        [True, True],
        [True, True],
        [False, False],
    ]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_float32_rounded_once(dtype):
    z = torch.tensor(normal(50, 300) * 4).to(dtype)
    weights = softmax(z)
    assert weights.dtype == dtype
    assert torch.equal(weights, softmax(z.float()).to(dtype))


def test_half_precision_of_numpy_is_float32_rounded_once():
    z = (normal(50, 300) * 4).astype(np.float16)
    weights = softmax(z)
    assert weights.dtype == np.float16
    np.testing.assert_array_equal(
        weights, softmax(z.astype(np.float32)).astype(np.float16)
    )


@each_library
def test_softmax_leaves_what_it_is_given_as_it_was(make):
    rows = np.array([[0.5, -2.0, 3.0], [-np.inf, 1.0, -np.inf]])
    z = make(rows.copy())
    softmax(z)
    assert_close(z, rows, 0)


def test_softmax_keeps_empty_axes_beside_the_one_it_sums():
    assert softmax(np.zeros((0, 3))).shape == (0, 3)
    assert softmax(np.zeros((2, 0, 3)), axis=0).shape == (2, 0, 3)


def test_softmax_has_the_derivative_of_its_formula():
    (z,) = leaves(normal(2, 4))
    assert torch.autograd.gradcheck(softmax, (z,))
    assert torch.autograd.gradcheck(lambda z: softmax(z, axis=0), (z,))


@each_library
def test_softmax_jacobian_is_what_differentiation_gives(make):
    z = normal(2, 3, 4)
    rows = [
        torch.autograd.functional.jacobian(softmax, torch.tensor(row))
        for row in z.reshape(6, 4)
    ]
    expected = torch.stack(rows).reshape(2, 3, 4, 4)
    jacobian = softmax_jacobian(softmax(make(z)))
    assert type(jacobian) is type(make(z))
    assert_close(jacobian, expected)


def test_softmax_jacobian_is_symmetric_and_its_rows_sum_to_zero():
    jacobian = softmax_jacobian(softmax(normal(5)))
    assert_close(jacobian, jacobian.T, 0)
    assert_close(jacobian.sum(-1), np.zeros(5), 1e-15)
    assert np.abs(jacobian).max() > 0.01


def test_softmax_jacobian_of_a_saturated_row_is_zero():
    assert (softmax_jacobian(np.array([0.0, 1.0, 0.0])) == 0).all()


def test_softmax_jacobian_keeps_float32():
    assert softmax_jacobian(np.ones(3, np.float32)).dtype == np.float32
