"""What chapter 21, Direction, states: identities, the hand examples, and smaller runs of what it trains.

Checked elsewhere:
- the functions against loops, and their refusals: tests/insights/test_direction.py
- that numbers in the text are the stored ones: tests/test_insight_pages.py
"""

from functools import cache

import numpy as np
import pytest
import torch

from attention_in_detail import (
    MultiHeadParameters,
    attention_weights,
    scores,
)
from attention_in_detail.insights.direction import (
    cycle_log_ratios,
    measure_head,
    score_form,
    skew_share,
    stationary_distribution,
    symmetric_and_skew,
    train_head,
)
from attention_in_detail.insights.results import experiment
from attention_in_detail.models import load_minilm
from attention_in_detail.models.maps import stored_maps

STORED = experiment("direction")
X = np.array([[1.0, 0], [0, 1], [1, 1]])
M = np.array([[1.0, 2], [0, 1]])
UNIT = np.sqrt(2) * np.log(2)


def assert_near(x, y, tolerance=1e-12):
    np.testing.assert_allclose(x, y, rtol=0, atol=tolerance)


def random_head(seed, T=64, D=64, D_h=16):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((T, D))
    return x, *(rng.standard_normal((2, D, D_h)) / np.sqrt(D))


def values(key):
    return np.array(STORED[key].values)


@cache
def trained(name, steps):
    head = train_head(name, seed=5, steps=steps)
    return head, measure_head(head, seed=6)


# ---- by hand ----


def test_hand_example():
    S, N = symmetric_and_skew(M)
    assert np.array_equal(S, [[1, 1], [1, 1]])
    assert np.array_equal(N, [[0, 1], [-1, 0]])
    assert skew_share(M) == pytest.approx(1 / 3)
    assert np.array_equal(X @ M @ X.T, [[1, 2, 3], [0, 1, 1], [1, 3, 4]])
    A = attention_weights(X @ (UNIT * M), X)
    exact = [[2 / 14, 4 / 14, 8 / 14], [1 / 5, 2 / 5, 2 / 5]]
    assert_near(A, [*exact, [2 / 26, 8 / 26, 16 / 26]])
    assert_near(cycle_log_ratios(A)[0, 1, 2] / np.log(2), -2)


def test_hand_example_of_a_tied_head():
    W = np.sqrt(np.log(2)) * np.ones((2, 1))
    A = attention_weights(X @ W, X @ W)
    pi = stationary_distribution(scores(X @ W, X @ W))
    assert_near(pi, [1 / 5, 1 / 5, 3 / 5])
    assert_near([A[0, 2], A[2, 0]], [1 / 2, 1 / 6])
    assert_near(pi @ A, pi)


def test_exercise_by_hand():
    turn = np.array([[0.0, 1], [-1, 0]])
    assert skew_share(turn) == 1
    A = attention_weights(X @ (UNIT * turn), X)
    wanted = [[1 / 5, 2 / 5, 2 / 5], [1 / 4, 2 / 4, 1 / 4]]
    assert_near(A, [*wanted, [1 / 7, 4 / 7, 2 / 7]])


# ---- identities ----


@pytest.mark.claim("prop-cycle")
@pytest.mark.parametrize("seed", range(5))
def test_cycles_show_the_skew_part(seed):
    x, W_Q, W_K = random_head(seed)
    A = attention_weights(x @ W_Q, x @ W_K)
    _, N = symmetric_and_skew(scores(x @ W_Q, x @ W_K))
    wanted = 2 * (N[:, :, None] + N[None, :, :] + N.T[:, None, :])
    assert_near(cycle_log_ratios(A), wanted)
    assert np.abs(wanted).max() > 1  # there is something to see
    by_form = x @ symmetric_and_skew(score_form(W_Q, W_K))[1] @ x.T / 4
    assert_near(N, by_form)


@pytest.mark.claim("prop-reversible", "prop-itself")
@pytest.mark.parametrize("seed", range(5))
def test_tied_is_reversible_and_not_symmetric(seed):
    x, W, _ = random_head(seed)
    Z, A = scores(x @ W, x @ W), attention_weights(x @ W, x @ W)
    assert_near(Z, Z.T)
    assert np.linalg.norm(A - A.T) > 0.2 * np.linalg.norm(A)
    pi = stationary_distribution(Z)
    assert_near(pi[:, None] * A, (pi[:, None] * A).T)
    assert_near(pi @ A, pi)
    assert_near(cycle_log_ratios(A), 0, 1e-11)
    assert np.abs(np.linalg.eigvals(A).imag).max() < 1e-9
    own = np.diagonal(A)
    assert (np.outer(own, own) * (1 + 1e-12) >= A * A.T).all()


@pytest.mark.claim("prop-itself")
def test_separate_has_complex_eigenvalues_and_breaks_the_bound():
    x, W_Q, W_K = random_head(0)
    A = attention_weights(x @ W_Q, x @ W_K)
    assert np.abs(np.linalg.eigvals(A).imag).max() > 0.05
    own = np.diagonal(A)
    assert (np.outer(own, own) < A * A.T).any()


@pytest.mark.claim("prop-reversible")
def test_tied_weights_are_symmetric_where_row_sums_agree_and_nowhere_else():
    def weights(Z):
        return attention_weights(np.sqrt(len(Z)) * Z, np.eye(len(Z)))

    Z = np.random.default_rng(8).standard_normal((6, 6))
    A, R = weights(Z + Z.T), np.exp(Z + Z.T).sum(1)
    assert_near(A / A.T, R / R[:, None])
    assert np.abs(A - A.T).max() > 0.1
    ring = np.roll(np.eye(6), 1, 0) + np.roll(np.eye(6), 1, 1)
    assert_near(weights(ring), weights(ring).T)


@pytest.mark.claim("prop-itself")
@pytest.mark.parametrize("shut", [None, ~np.eye(9, dtype=bool)])
@pytest.mark.parametrize("seed", range(3))
def test_preference_for_the_previous_token_telescopes(seed, shut):
    x, W, W_K = random_head(seed, T=9)
    rows = np.arange(1, 8)

    def preference_and_fall(k):
        Z = scores(x @ W, k)
        A = attention_weights(x @ W, k, mask=shut)
        before, after = A[rows, rows - 1], A[rows, rows + 1]
        return np.log(before / after).mean(), (Z[1, 0] - Z[8, 7]) / 7

    assert_near(*preference_and_fall(x @ W))
    found, fall = preference_and_fall(x @ W_K)
    assert abs(found - fall) > 0.01  # symmetric scores are needed


def test_one_step_back_is_a_rotation():
    for rate in (1.0, 0.3, 0.01):
        c, s = np.cos(rate), np.sin(rate)
        R = np.array([[c, s], [-s, c]])
        assert skew_share(R) == pytest.approx(s**2)
        steps = np.arange(12)
        p = np.stack([np.sin(rate * steps), np.cos(rate * steps)], axis=-1)
        lag = steps[:, None] - steps[None, :]
        assert_near(p @ R @ p.T, np.cos(rate * (lag - 1)))
        symmetric, skew = symmetric_and_skew(R)
        assert_near(p @ symmetric @ p.T, c * np.cos(rate * lag))
        assert_near(p @ skew @ p.T, s * np.sin(rate * lag))


def test_exercise_bias_of_the_keys_keeps_the_balance():
    x, W, _ = random_head(2, T=6)
    bias = np.zeros((6, 6))
    bias[:, 2] = 1.5
    Z = scores(x @ W, x @ W)
    A = attention_weights(x @ W, x @ W, bias=bias)
    assert not np.allclose(Z + bias, (Z + bias).T)
    assert_near(cycle_log_ratios(A), 0, 1e-9)
    pi = stationary_distribution(Z + bias + bias.T)
    assert_near(pi @ A, pi)


def test_exercise_what_can_look_one_step_back_and_what_cannot():
    """The logarithms of previous over next, summed over the rows, are bounded where the page says no."""
    x, W, _ = random_head(4, T=40)
    rng = np.random.default_rng(4)
    b = rng.uniform(-10, 10, 40)
    i = np.arange(40)
    rows = i[1:-1]

    def summed(W_K, bias):
        A = attention_weights(x @ W, x @ W_K, bias=bias)
        return np.log(A[rows, rows - 1] / A[rows, rows + 1]).sum()

    for W_K, sign in ((W, 1), (-W, -1)):
        Z = sign * scores(x @ W, x @ W)
        ends = Z[1, 0] - Z[39, 38]
        assert_near(summed(W_K, None), ends, 1e-9)
        biased = summed(W_K, np.tile(b, (40, 1)))
        assert_near(biased, ends + b[0] + b[1] - b[38] - b[39], 1e-9)
    lag = np.log(10) * (i[:, None] - i[None, :] == 1)
    A = attention_weights(0 * x @ W, 0 * x @ W, bias=lag)
    assert_near(A[rows, rows - 1] / A[rows, rows + 1], 10, 1e-9)
    ring = np.stack([np.sin(i), np.cos(i)], axis=1)
    turn = np.array([[np.cos(1), np.sin(1)], [-np.sin(1), np.cos(1)]])
    Z = 10 * ring @ turn @ ring.T
    assert abs(Z).max() <= 10 + 1e-9
    assert (Z[rows, rows - 1] - Z[rows, rows + 1] > np.log(10)).all()


def test_exercise_nearly_every_real_head_is_below_what_chance_gives():
    drawn = [
        skew_share(
            score_form(
                *np.random.default_rng(seed).standard_normal((2, 384, 32))
            )
        )
        for seed in range(20)
    ]
    assert max(abs(share - 1 / 2) for share in drawn) < 0.01
    real = np.array(experiment("direction").more["minilm_heads"])
    assert (real < min(drawn)).sum() == 70
    assert round(16 * np.log(4), 2) == 22.18


def test_exercise_a_symmetric_form_without_sharing():
    _, W, _ = random_head(3)
    G = np.random.default_rng(1).standard_normal((16, 16))
    W_Q, W_K = W @ G, W @ np.linalg.inv(G).T
    assert not np.allclose(W_Q, W_K)
    assert_near(score_form(W_Q, W_K), score_form(W, W), 1e-9)
    assert np.linalg.eigvalsh(-score_form(W, W)).min() < -0.1


# ---- the heads that are trained ----


@pytest.mark.claim("obs-direction-tied")
def test_a_separate_head_finds_the_previous_token():
    _, found = trained("separate", 120)
    assert found["accuracy"] > 0.95
    assert found["previous"] > 0.65
    assert found["next"] < 0.05
    assert found["skew"] < 0.4  # it began at one half


@pytest.mark.claim("obs-direction-tied")
def test_a_tied_head_does_not_find_the_previous_token():
    _, found = trained("tied", 160)
    assert found["accuracy"] < 0.5
    assert found["itself"] > found["previous"]
    assert found["previous"] - found["next"] < 0.15


@pytest.mark.claim("obs-direction-shut")
def test_tied_without_itself_hardly_knows_a_direction():
    head, found = trained("tied, not itself", 160)
    assert found["accuracy"] > trained("tied", 160)[1]["accuracy"] + 0.25
    assert 0.45 < found["previous"] < 0.6
    assert 0.3 < found["next"] < found["previous"]
    generator = torch.Generator().manual_seed(7)
    tokens = torch.randint(16, (1, 24), generator=generator)
    start = torch.tensor([100])
    with torch.no_grad():
        x = head.read(tokens, start)[0]
        A = head.answer(tokens, start)[1][0].numpy()
        Z = scores(x @ head.attention.W_Q, x @ head.attention.W_K).numpy()
    rows = np.arange(1, 23)
    before, after = A[rows, rows - 1], A[rows, rows + 1]
    fall = (Z[1, 0] - Z[23, 22]) / 22
    assert_near(np.log(before / after).mean(), fall, 1e-9)


@pytest.mark.claim("obs-direction-causal")
def test_control_a_causal_mask_gives_the_direction_back():
    _, found = trained("tied, not itself, causal", 90)
    assert found["accuracy"] > 0.98
    assert found["previous"] > 0.9


# ---- what is stored ----


@pytest.mark.claim("obs-direction-tied")
def test_over_the_seeds_a_tied_head_misses_what_a_separate_one_finds():
    assert len(STORED.seeds) >= 5
    assert values("separate_accuracy").min() > 0.98
    assert values("separate_previous").min() > 0.8
    assert values("separate_next").max() < 0.02
    assert values("tied_accuracy").max() < 0.5
    lead = values("tied_previous") - values("tied_next")
    assert 0 < lead.min() <= lead.max() < 0.1
    assert (values("tied_itself") > values("tied_previous")).all()
    assert values("separate_skew").max() < 0.35


@pytest.mark.claim("obs-direction-shut")
def test_over_the_seeds_a_shut_diagonal_brings_answers_and_no_direction():
    assert values("shut_accuracy").min() > 0.98
    lead = values("shut_previous") - values("shut_next")
    assert 0 < lead.min() <= lead.max() < 0.15
    assert values("shut_previous").max() < 0.6


@pytest.mark.claim("obs-direction-causal")
def test_over_the_seeds_a_causal_mask_gives_the_direction_back():
    assert values("causal_accuracy").min() > 0.98
    assert values("causal_previous").min() > 0.95
    assert (
        values("causal_previous").min() > values("separate_previous").max()
    )


def test_random_heads_over_the_seeds():
    assert values("cycle_error").max() < 1e-12
    assert values("balance_error").max() < 1e-12
    assert (np.abs(values("form_skew") - 0.5) < 0.02).all()
    assert values("tied_self").min() > 0.8
    assert values("separate_self").max() < 0.1
    assert values("tied_asymmetry").max() < 0.4
    assert values("separate_asymmetry").min() > 0.9


@pytest.mark.claim("obs-direction-minilm")
def test_real_heads_are_a_little_more_symmetric_than_shuffled_ones():
    share = np.array(STORED.more["minilm_heads"])
    assert share.shape == (6, 12)
    assert_near(share.mean(-1), STORED.more["minilm_layers"], 1e-3)
    assert_near(share.mean(), STORED["minilm_skew"].mean, 1e-3)
    assert values("minilm_skew").min() > 0.35
    assert values("minilm_skew").max() < 0.45
    assert (np.abs(values("minilm_shuffled") - 0.5) < 0.01).all()
    assert share[0, 2] < 0.5
    assert (share > 0.1).all()


def forms_of(layers, order=slice(None)):
    """What each head compares rows by, the rows of W_K in an order."""
    heads = [
        (p.head(i).W_Q, p.head(i).W_K[order])
        for p in layers
        for i in range(p.heads)
    ]
    return score_form(*(np.array(W) for W in zip(*heads, strict=True)))


@pytest.mark.claim("obs-direction-minilm")
@pytest.mark.parametrize("share", [0.1, 0.4, 0.8])
def test_the_skew_share_of_a_made_up_model_is_found_and_shuffling_hides_it(
    share,
):
    """Two layers of three heads of full width, with forms of a given share."""
    D, h, rng = 60, 3, np.random.default_rng(5)
    layers = []
    for _ in range(2):
        W_Q = rng.standard_normal((h, D, D))
        S, N = symmetric_and_skew(rng.standard_normal((h, D, D)))
        S, N = (
            P / np.linalg.norm(P, axis=(-2, -1), keepdims=True)
            for P in (S, N)
        )
        forms = np.sqrt(1 - share) * S + np.sqrt(share) * N
        W_K = np.linalg.solve(W_Q, forms).mT
        W_Q, W_K = (np.concatenate([*W], axis=1) for W in (W_Q, W_K))
        layers.append(MultiHeadParameters(W_Q, W_K, W_Q, W_Q.T, heads=h))
    found = skew_share(forms_of(layers))
    assert found.shape == (6,)
    assert_near(found, np.full(6, share), 1e-9)
    shuffled = skew_share(forms_of(layers, rng.permutation(D)))
    assert_near(shuffled.mean(), 0.5, 0.03)


@pytest.mark.claim("obs-direction-minilm")
def test_the_real_model_has_the_stored_shares_and_shuffled_one_half():
    layers = [layer.attention for layer in load_minilm().layers]
    share = skew_share(forms_of(layers)).reshape(6, 12)
    assert_near(share, STORED.more["minilm_heads"], 1e-3)
    assert_near(share.mean(), STORED["minilm_skew"].mean, 1e-3)
    order = np.random.default_rng(7).permutation(384)
    shuffled = skew_share(forms_of(layers, order)).mean()
    assert_near(shuffled, STORED["minilm_shuffled"].mean, 5e-3)
    assert share.mean() < shuffled - 0.05


def test_weights_of_the_real_model_are_far_from_symmetric():
    for maps, kept in zip(
        stored_maps(), STORED["minilm_asymmetry"].values, strict=True
    ):
        A = maps.weights
        apart = np.linalg.norm(A - A.mT, axis=(-2, -1))
        found = (apart / np.linalg.norm(A, axis=(-2, -1))).mean()
        assert_near(found, kept, 1e-3)
        assert found > 1


def test_first_figure():
    A = stored_maps()[3].weights[0, 2]
    rows = np.arange(1, len(A))
    assert (A.argmax(-1)[1:] == rows - 1).all()
    assert (A.T.argmax(-1) > np.arange(len(A))).sum() == 15
