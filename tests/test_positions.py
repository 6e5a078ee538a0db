import math

import numpy as np
import pytest
import torch

from attention_in_detail import sinusoidal_positions
from tests.support import assert_close, each_library


@pytest.mark.claim("def-positions")
def test_positions_equal_their_formula():
    P = sinusoidal_positions(7, 6)
    for p in range(7):
        for c in range(3):
            angle = p / 10000 ** (2 * c / 6)
            assert P[p, 2 * c] == pytest.approx(math.sin(angle), abs=1e-15)
            assert P[p, 2 * c + 1] == pytest.approx(
                math.cos(angle), abs=1e-15
            )


@pytest.mark.claim("def-positions")
def test_positions_by_hand():
    assert_close(
        sinusoidal_positions(2, 2),
        np.array([[0, 1], [math.sin(1), math.cos(1)]]),
        1e-15,
    )
    assert sinusoidal_positions(1, 8)[0].tolist() == [0, 1] * 4


def test_moving_on_is_a_rotation_that_does_not_depend_on_where():
    """Source: Vaswani et al. (2017), section 3.5: P[p + n] is a linear function of P[p]."""
    P, c, n = sinusoidal_positions(50, 8), 1, 5
    angle = n / 10000 ** (2 * c / 8)
    turn = np.array(
        [
            [math.cos(angle), math.sin(angle)],
            [-math.sin(angle), math.cos(angle)],
        ]
    )
    assert_close(
        P[n:, 2 * c : 2 * c + 2], P[:-n, 2 * c : 2 * c + 2] @ turn.T, 1e-12
    )


def test_all_positions_differ_and_have_the_same_length():
    P = sinusoidal_positions(2000, 16)
    assert_close((P**2).sum(-1), np.full(2000, 8.0))
    assert len(np.unique(P.round(9), axis=0)) == 2000


@each_library
def test_positions_come_in_the_library_of_like(make):
    like = make(np.ones(1))
    P = sinusoidal_positions(5, 4, like=like)
    assert type(P) is type(like)
    assert_close(P, sinusoidal_positions(5, 4), 1e-15)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16]
)
def test_positions_are_computed_in_full_precision_and_rounded_once(dtype):
    """In float32 the angle 99,999 · rate would already be off by 0.004."""
    P = sinusoidal_positions(100_000, 4, like=torch.zeros(1, dtype=dtype))
    assert P.dtype == dtype
    assert torch.equal(
        P, torch.tensor(sinusoidal_positions(100_000, 4)).to(dtype)
    )


def test_no_positions_are_an_empty_array():
    assert sinusoidal_positions(0, 4).shape == (0, 4)
    assert sinusoidal_positions(3, 4).dtype == np.float64
