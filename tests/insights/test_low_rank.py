import math

import numpy as np
import pytest
import torch

from attention_in_detail import attention, attention_weights, scores
from attention_in_detail.insights.low_rank import (
    circle_heads,
    linformer_attention,
    mean_pooling,
    random_projection,
    rank_for_energy,
    relative_error,
    relative_projection_error,
    spectrum_share,
    total_variation,
    truncated,
)
from tests.support import normal

DIAGONAL = np.diag([4.0, 3.0, 0.0])


@pytest.mark.claim("def-rank-energy")
def test_energy_of_a_diagonal_by_hand():
    assert np.allclose(spectrum_share(DIAGONAL), [16 / 25, 1, 1])
    assert np.allclose(spectrum_share(DIAGONAL, power=1), [4 / 7, 1, 1])


@pytest.mark.claim("def-rank-energy")
def test_energy_is_what_the_best_matrix_of_the_rank_holds():
    A = normal(5, 7, 9)
    held = spectrum_share(A)
    assert held.shape == (5, 7)
    for k in range(1, 8):
        missed = relative_error(truncated(A, k), A) ** 2
        assert np.allclose(1 - held[:, k - 1], missed)
        assert (np.linalg.matrix_rank(truncated(A, k)) == k).all()
    assert np.allclose(truncated(A, 100), A)


def test_no_other_matrix_of_the_rank_is_nearer():
    A = normal(6, 8)
    best = relative_error(truncated(A, 2), A)
    for seed in range(20):
        other = normal(6, 2, seed=seed) @ normal(2, 8, seed=seed)
        scale = (other * A).sum() / (other**2).sum()
        assert relative_error(scale * other, A) > best


@pytest.mark.claim("def-rank-energy")
def test_rank_for_energy_by_hand():
    assert rank_for_energy(DIAGONAL, 0.6) == 1
    assert rank_for_energy(DIAGONAL, 16 / 25) == 1
    assert rank_for_energy(DIAGONAL, 0.7) == 2
    assert rank_for_energy(DIAGONAL, 1) == 2
    both = np.stack([np.eye(10), np.full((10, 10), 0.1)])
    assert rank_for_energy(both).tolist() == [9, 1]


@pytest.mark.claim("def-rank-linformer")
def test_projected_attention_with_the_identity_is_attention():
    q, k, v = normal(5, 3, 4), normal(5, 7, 4), normal(5, 7, 6)
    found = linformer_attention(q, k, v, np.eye(7), np.eye(7))
    assert np.allclose(found, attention(q, k, v))


@pytest.mark.claim("def-rank-linformer")
def test_projected_attention_by_hand():
    q = np.array([[1.0]])
    k = np.log([[4.0], [1.0], [1.0], [1.0]])
    v = np.array([[2.0], [4.0], [10.0], [20.0]])
    E = mean_pooling(2, 4)  # keys ln 2 and 0, values 3 and 15
    assert np.allclose(linformer_attention(q, k, v, E, E), (2 * 3 + 15) / 3)


@pytest.mark.claim("def-rank-linformer")
def test_keys_and_values_have_projections_of_their_own():
    q, k, v = (torch.asarray(normal(7, 4, seed=n)) for n in range(3))
    E, F = (torch.asarray(normal(2, 7, seed=n)) for n in (3, 4))
    assert torch.allclose(
        linformer_attention(q, k, v, E, F), attention(q, E @ k, F @ v)
    )
    assert not torch.allclose(
        linformer_attention(q, k, v, E, F), attention(q, F @ k, E @ v)
    )


def test_pooling_takes_means_of_runs():
    E = mean_pooling(2, 6)
    assert E.shape == (2, 6)
    assert np.allclose(E @ np.arange(6.0), [1, 4])


def test_a_random_projection_keeps_lengths_in_the_mean():
    R = [random_projection(5, 8, seed=n) for n in range(2000)]
    assert R[0].shape == (5, 8)
    mean = np.mean([r.T @ r for r in R], axis=0)
    assert np.allclose(mean, np.eye(8), atol=0.06)
    assert np.array_equal(R[1], random_projection(5, 8, seed=1))
    assert not np.array_equal(R[0], R[1])


@pytest.mark.claim("prop-rank-random")
def test_error_of_a_random_projection_is_what_many_show():
    A = attention_weights(normal(9, 3), normal(8, 3))
    V = normal(8, 2)
    squares = [
        relative_error(
            A @ (R := random_projection(6, 8, seed=n)).T @ (R @ V), A @ V
        )
        ** 2
        for n in range(4000)
    ]
    predicted = relative_projection_error(A, V, 6) ** 2
    assert np.mean(squares) == pytest.approx(predicted, rel=0.1)


@pytest.mark.claim("prop-rank-random")
def test_error_of_a_random_projection_by_hand():
    A, V = np.array([[0.5, 0.5]]), np.array([[1.0], [3.0]])
    # |A|² = 1/2, |V|² = 10, |AV|² = 4
    assert relative_projection_error(A, V, 9) == pytest.approx(0.5)


@pytest.mark.claim("def-rank-distance")
def test_errors_by_hand():
    exact, other = np.array([[3.0, 4.0]]), np.array([[3.0, 3.0]])
    assert relative_error(other, exact) == pytest.approx(0.2)
    here, there = np.array([[1.0, 0], [0.5, 0.5]]), np.eye(2)
    assert total_variation(here, there) == pytest.approx(0.25)
    assert total_variation(there, there) == 0
    assert total_variation(there, there[::-1].copy()) == 1


@pytest.mark.claim("prop-rank-circle")
@pytest.mark.parametrize("c", [1.0, 30.0, 900.0])
def test_two_coordinates_reach_any_permutation_within_the_bound(c):
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(17)
        weights = attention_weights(*circle_heads(order, 17, scale=c))
        bound = 16 * math.exp(-c * (1 - math.cos(2 * math.pi / 17)))
        assert (weights[np.arange(17), order] >= 1 - bound).all()
        assert (weights.argmax(axis=1) == order).all()


@pytest.mark.claim("prop-rank-circle")
def test_scores_on_the_circle_are_cosines_of_the_distance():
    order = np.array([2, 2, 0, 4])
    q, k = circle_heads(order, 5, scale=7.0)
    apart = np.arange(5) - order[:, None]
    wanted = 7.0 * np.cos(2 * np.pi * apart / 5)
    assert np.allclose(scores(q, k), wanted, rtol=0, atol=1e-12)
    assert np.allclose(np.linalg.norm(k, axis=1), 1)


def test_several_queries_may_want_one_key():
    q, k = circle_heads(np.array([2, 2, 0]), 5, scale=100.0)
    assert q.shape == (3, 2)
    assert k.shape == (5, 2)
    assert attention_weights(q, k).argmax(axis=1).tolist() == [2, 2, 0]


two, wide = normal(2, 6), normal(3, 6)
REFUSALS = [
    (
        lambda: spectrum_share([1.0]),
        TypeError,
        "matrix must be an array of NumPy, PyTorch or another array library, not list",
    ),
    (
        lambda: spectrum_share(normal(3)),
        ValueError,
        "matrix needs at least the axes (T, S), but has the shape (3,)",
    ),
    (
        lambda: spectrum_share(two, power=0),
        ValueError,
        "power is 0, but must be at least 1",
    ),
    (
        lambda: rank_for_energy(two, 1.5),
        ValueError,
        "share is 1.5, but must be above 0 and at most 1",
    ),
    (
        lambda: truncated(two, 0),
        ValueError,
        "rank is 0, but must be at least 1",
    ),
    (
        lambda: linformer_attention(
            two, wide, wide, normal(2, 4), normal(2, 3)
        ),
        ValueError,
        "key_projection has S = 4, but keys has S = 3; it is made for one length",
    ),
    (
        lambda: linformer_attention(
            two, wide, wide, normal(2, 3), normal(1, 3)
        ),
        ValueError,
        "value_projection has k = 1, but key_projection has k = 2; each projected key needs one projected value",
    ),
    (
        lambda: mean_pooling(3, 8),
        ValueError,
        "k = 3 does not divide S = 8; each run needs the same length",
    ),
    (
        lambda: random_projection(2, 3, seed=-1),
        ValueError,
        "seed is -1, but must be at least 0",
    ),
    (
        lambda: relative_error(two, wide),
        ValueError,
        "approximate has the shape (2, 6), but exact has (3, 6)",
    ),
    (
        lambda: relative_projection_error(two, wide, 2),
        ValueError,
        "values has S = 3, but weights has S = 6; each key needs one value",
    ),
    (
        lambda: circle_heads(np.array([0.5]), 3, scale=1.0),
        TypeError,
        "targets must hold integers, not float64: the key of each query",
    ),
    (
        lambda: circle_heads(np.array([3]), 3, scale=1.0),
        ValueError,
        "targets holds 3 to 3, but there are the keys 0 to 2",
    ),
    (
        lambda: circle_heads(np.array([0]), 3, scale=0.0),
        ValueError,
        "scale is 0.0, but must be positive and finite",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), REFUSALS)
def test_refusals(call, kind, message):
    with pytest.raises(kind) as refused:
        call()
    assert str(refused.value) == message
