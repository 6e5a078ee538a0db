"""What chapter 25, Low rank, states: on small cases here, and of the stored experiment.

Checked elsewhere: the functions, by hand and against each other, in tests/insights/test_low_rank.py and
test_low_rank_fits.py; the two tasks and the model in tests/insights/test_look_up.py.
"""

import numpy as np
import pytest
import torch

from attention_in_detail import (
    attention,
    attention_weights,
    causal_mask,
    scores,
    softmax,
)
from attention_in_detail.insights.look_up import draw_items, train_reader
from attention_in_detail.insights.low_rank import (
    linformer_attention,
    mean_pooling,
    random_projection,
    rank_for_energy,
    relative_error,
    spectrum_share,
    truncated,
)
from attention_in_detail.insights.results import experiment
from attention_in_detail.models.maps import stored_maps
from tests.support import normal

STORED = experiment("low_rank")


def values(key):
    return np.array(STORED[key].values)


@pytest.mark.claim("prop-rank-raised")
def test_scores_of_rank_one_give_weights_of_rank_three_by_hand():
    q = np.array([[0.0], [1.0], [2.0]])
    k = np.log(2) * q
    A = attention_weights(q, k)
    by_hand = [
        [1 / 3, 1 / 3, 1 / 3],
        [1 / 7, 2 / 7, 4 / 7],
        [1 / 21, 4 / 21, 16 / 21],
    ]
    assert np.allclose(A, by_hand)
    assert np.linalg.matrix_rank(scores(q, k)) == 1
    assert np.linalg.matrix_rank(A) == 3
    assert np.linalg.det(A) == pytest.approx(6 / 441)


@pytest.mark.claim("prop-rank-raised")
@pytest.mark.parametrize("seed", range(5))
def test_one_coordinate_is_enough_for_full_rank(seed):
    q, k = normal(5, 1, seed=seed), normal(5, 1, seed=seed + 9)
    A = attention_weights(3 * q, k)
    assert abs(np.linalg.det(A)) > 0
    assert np.linalg.matrix_rank(A, rtol=1e-14) == 5
    # Of queries or keys that are not different, one row or column is another's multiple.
    for n, x in enumerate((q, k)):
        same = x.copy()
        same[1] = same[0]
        pair = (3 * same, k) if n == 0 else (3 * q, same)
        assert np.linalg.matrix_rank(attention_weights(*pair)) == 4
    # Neither the size nor the number of pairs matters, as long as all differ.
    for T in (2, 3, 8):
        q, k = (2.0 * np.arange(T)[:, None] / T for _ in range(2))
        A = attention_weights(q, -k)
        assert np.linalg.matrix_rank(A, rtol=1e-14) == T


@pytest.mark.parametrize("seed", range(5))
def test_the_softmax_raises_the_rank_and_sharpness_the_need(seed):
    rng = np.random.default_rng(seed)
    q, k = (rng.standard_normal((64, 8)) for _ in range(2))
    assert np.linalg.matrix_rank(scores(q, k)) == 8
    assert np.linalg.matrix_rank(attention_weights(q, k)) == 64
    at = [
        spectrum_share(attention_weights(q, k, scale=c / np.sqrt(8)))[7]
        for c in (0.5, 1, 4)
    ]
    assert at[0] > at[1] > at[2]


def test_the_logarithm_of_the_weights_has_rank_one_more_than_the_width():
    A = attention_weights(normal(9, 3), normal(9, 3, seed=1))
    assert np.linalg.matrix_rank(np.log(A)) <= 4


def test_width_one_less_than_the_keys_is_enough():
    P = softmax(normal(6, 5))
    Z = np.log(P) - np.log(P[:, -1:])
    assert np.allclose(attention_weights(2 * Z[:, :4], np.eye(5, 4)), P)


def test_the_two_tasks_want_opposite_spectra():
    needed = {}
    for task in ("look up", "most frequent"):
        reader = train_reader(task, S=16, D=16, seed=0, steps=200)
        test = draw_items(
            task, 32, 16, 16, torch.Generator().manual_seed(1)
        )
        assert reader.right(test).double().mean() > 0.9
        weights = attention_weights(*reader.projected(test)[:2]).numpy()
        needed[task] = rank_for_energy(weights).mean()
    assert needed["look up"] > 12
    assert needed["most frequent"] < 2


@pytest.mark.claim("obs-rank-look-up")
def test_a_short_sequence_keeps_the_majority_and_loses_the_look_up_here_too():
    right = {}
    for task in ("look up", "most frequent"):
        pair = [
            (
                torch.asarray(random_projection(2, 16, seed=n)) / 3
            ).requires_grad_()
            for n in range(2)
        ]
        reader = train_reader(
            task,
            lambda q, k, v, pair=pair: linformer_attention(q, k, v, *pair),
            pair,
            S=16,
            D=16,
            seed=0,
            steps=200,
        )
        test = draw_items(
            task, 32, 16, 16, torch.Generator().manual_seed(1)
        )
        right[task] = reader.right(test).double().mean()
    assert right["most frequent"] > 0.9
    assert right["look up"] < 0.5


@pytest.mark.claim("obs-rank-energy")
def test_real_weights_are_thin_and_their_shuffled_rows_are_not_here_too():
    """On short sentences; the experiment has texts of 256 tokens."""
    rng = np.random.default_rng(0)
    for maps in stored_maps():
        A = np.asarray(maps.weights, dtype=float)
        real, shuffled = (
            spectrum_share(x)[..., 3].mean()
            for x in (A, rng.permuted(A, axis=-1))
        )
        assert real > 0.9
        assert real > shuffled + 0.15
        assert np.linalg.matrix_rank(A).mean() > A.shape[-1] - 1


@pytest.mark.claim("obs-rank-factors")
def test_real_weights_have_thin_factors_that_a_random_projection_misses():
    for maps in stored_maps():
        A = np.asarray(maps.weights, dtype=float)
        V = normal(A.shape[-1], 32)
        R = random_projection(4, A.shape[-1], seed=1)
        best, random, uniform = (
            np.median(relative_error(y, A @ V))
            for y in (
                truncated(A, 4) @ V,
                A @ R.T @ (R @ V),
                np.full_like(A, 1 / A.shape[-1]) @ V,
            )
        )
        assert best < 0.2
        assert best < 0.3 * uniform
        assert random > 1


def test_the_future_leaks_through_a_projection():
    x = normal(8, 4)
    changed = x.copy()
    changed[-1] = 1.0
    E = mean_pooling(2, 8)
    mask = causal_mask(8)
    one, two = (attention(y, y, y, mask=mask)[0] for y in (x, changed))
    assert np.allclose(one, two)
    one, two = (linformer_attention(y, y, y, E, E)[0] for y in (x, changed))
    assert not np.allclose(one, two)


def test_uniform_weights_and_permutations_by_hand():
    assert rank_for_energy(np.full((32, 32), 1 / 32)) == 1
    assert rank_for_energy(np.eye(32)[::-1].copy()) == 29


def test_in_the_limit_the_rank_is_the_number_of_winners():
    rng = np.random.default_rng(3)
    q, k = (rng.standard_normal((64, 32)) for _ in range(2))
    winners = len(set(scores(q, k).argmax(axis=1).tolist()))
    A = attention_weights(q, k, scale=1e4)
    assert np.linalg.matrix_rank(A, tol=1e-3) == winners == 41
    assert rank_for_energy(A) == 35


# ---- the stored experiment ----


@pytest.mark.claim("obs-rank-energy")
def test_over_the_seeds_the_softmax_raises_the_rank_of_random_and_real_heads():
    assert set(values("random_logit_rank")) == {32}
    assert set(values("random_weight_rank")) == {256}
    assert (values("real_logit_rank") <= 32).all()
    assert (values("real_full_rank") > 200).all()


@pytest.mark.claim("obs-rank-energy", "cor-rank")
def test_over_the_seeds_real_heads_are_near_thin_and_their_shuffled_rows_are_not():
    assert (values("real_energy") > 0.85).all()
    assert (values("real_energy") > values("shuffled_energy") + 0.15).all()
    assert (values("real_rank_median") < 16).all()
    assert (values("real_rank_most") > 100).all()


def test_figure_of_the_energy():
    energy, at = STORED.more["energy"], STORED.more["ranks"].index(32)
    assert energy["layer 5"][at] > 0.99
    assert energy["layer 1"][at] <= energy["random head"][at]
    for name in ("layer 5", "layer 3", "layer 1", "random head"):
        for n in range(at + 1):
            assert energy[name][n] > energy["rows shuffled"][n] + 0.2


@pytest.mark.claim("obs-rank-factors")
def test_over_the_seeds_thin_factors_exist_and_blind_projections_do_not_find_them():
    assert (values("error_svd") < 0.15).all()
    assert (values("error_pool") > 4 * values("error_svd")).all()
    assert (values("error_pool") < values("error_uniform")).all()
    assert (values("error_learned") < values("error_pool_short")).all()
    assert (values("error_learned") > values("error_svd")).all()
    assert (values("error_random") > 1).all()
    assert (values("error_uniform") < 1).all()
    assert values("error_jl").mean() > 1


def test_the_error_of_a_random_projection_is_as_predicted():
    ratio = values("error_jl") / values("jl_predicted")
    assert ((ratio > 0.7) & (ratio < 1.4)).all()


@pytest.mark.claim("obs-rank-rows")
def test_over_the_seeds_as_many_rows_as_the_proof_takes_are_not_enough():
    # n = 256, epsilon = 1/2: 5 ln n / (1/4 - 1/8)
    assert np.ceil(5 * np.log(256) / (1 / 4 - 1 / 8)) == 222
    assert (values("jl_222") > 1 / 2).sum() == 4
    assert values("jl_222").mean() > 0.7


@pytest.mark.claim("obs-rank-rows")
@pytest.mark.parametrize("k", [1, 8, 222, 4000])
def test_no_number_of_rows_is_enough_where_values_cancel(k):
    a, w = np.array([[1 / 2, 1 / 2]]), np.array([[1.0], [-1.0]])
    assert a @ w == 0
    for seed in range(20):
        R = random_projection(k, 2, seed=seed)
        wrong = (a @ R.T @ (R @ w)).item()
        assert wrong == pytest.approx(-np.diff((R**2).sum(axis=0))[0] / 2)
        assert abs(wrong) > 1e-6


@pytest.mark.claim("obs-rank-look-up")
def test_over_the_seeds_a_short_sequence_keeps_the_majority_and_loses_the_look_up():
    assert (values("look_up_full") > 0.98).all()
    assert (values("look_up_8") < 0.45).all()
    assert (values("frequent_1") > 0.95).all()
    assert (values("frequent_8") > 0.95).all()
    assert (values("look_up_rank") > 25).all()
    assert (values("frequent_rank") < 2).all()
    means = [STORED[f"look_up_{k}"].mean for k in (1, 4, 8, 16, 32)]
    assert means == sorted(means)


def test_stored_narrow_heads():
    assert (values("dense_4") > 0.2).all()
    assert (values("dense_32") < 0.01).all()
    assert (values("permutation_4") < 0.02).all()
    assert (values("circle_1000") < 1e-7).all()
    dense = [STORED[f"dense_{d}"].mean for d in (1, 2, 4, 8, 16, 32)]
    assert dense == sorted(dense, reverse=True)
