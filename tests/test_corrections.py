"""What the book's corrections to its two source documents state: each is a labelled block there, and marked here."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attention_in_detail import (
    MultiHeadParameters,
    attention,
    attention_weights,
    causal_mask,
    cross_attention,
    multi_head_attention,
    padding_mask,
    scores,
    self_attention,
    sinusoidal_positions,
    softmax,
    split_heads,
)
from attention_in_detail.insights.results import experiment
from attention_in_detail.nn import MultiHeadAttention
from tests.support import (
    D,
    D_h,
    D_k,
    D_out,
    D_q,
    D_v,
    S,
    T,
    assert_close,
    h,
    normal,
    parameters,
)

Q, K, V = (
    normal(T, D_k, seed=1),
    normal(S, D_k, seed=2),
    normal(S, D_v, seed=3),
)
X, P = normal(6, 16, seed=4), MultiHeadParameters.init(16, 4, seed=5)
ORDER = np.array([3, 0, 5, 1, 4, 2])


# ---- the first document ----


@pytest.mark.claim("cor-order")
def test_attention_is_equivariant_in_queries_and_not_invariant():
    """1: the order of the queries is the order of the outputs."""
    order = [2, 0, 1]
    assert_close(
        attention(Q[order], K, V), attention(Q, K, V)[order], 1e-15
    )
    assert (
        np.abs(attention(Q[order], K, V) - attention(Q, K, V)).max() > 0.1
    )


@pytest.mark.claim("cor-order")
def test_attention_is_invariant_when_keys_and_values_are_permuted_together():
    """1: and only together."""
    order = np.roll(np.arange(S), 2)
    assert_close(
        attention(Q, K[order], V[order]), attention(Q, K, V), 1e-14
    )
    assert (
        np.abs(attention(Q, K[order], V) - attention(Q, K, V)).max() > 0.1
    )
    assert (
        np.abs(attention(Q, K, V[order]) - attention(Q, K, V)).max() > 0.1
    )


@pytest.mark.claim("cor-order")
def test_self_attention_is_equivariant():
    """1: f(PX) = P f(X), and f(PX) ≠ f(X)."""
    assert_close(
        self_attention(P, X[ORDER]), self_attention(P, X)[ORDER], 1e-14
    )
    assert (
        np.abs(self_attention(P, X[ORDER]) - self_attention(P, X)).max()
        > 0.1
    )


@pytest.mark.claim("cor-order")
def test_a_causal_mask_breaks_equivariance():
    """1."""
    mask = causal_mask(6)
    turned = self_attention(P, X[ORDER], mask=mask)
    assert (
        np.abs(turned - self_attention(P, X, mask=mask)[ORDER]).max() > 0.1
    )


@pytest.mark.claim("cor-order")
def test_positions_break_equivariance():
    """1: they stay where they are while the rows change places."""
    positions = sinusoidal_positions(6, 16)
    turned = self_attention(P, X[ORDER] + positions)
    assert (
        np.abs(turned - self_attention(P, X + positions)[ORDER]).max() > 0.1
    )


@pytest.mark.claim("thm-sum-over-heads")
@pytest.mark.claim("cor-output-projection")
def test_the_output_is_the_sum_over_heads_of_what_each_writes():
    """2: Concat(H) W_O = Σ H_i W_O_i."""
    heads = [
        multi_head_attention(without_output(P).head(i), X, X, X)
        for i in range(4)
    ]
    written = sum(H @ P.W_O[4 * i : 4 * i + 4] for i, H in enumerate(heads))
    assert_close(self_attention(P, X), written, 1e-14)


def without_output(p):
    return MultiHeadParameters(p.W_Q, p.W_K, p.W_V, heads=p.heads)


@pytest.mark.claim("cor-output-projection")
def test_without_an_output_projection_the_heads_stand_side_by_side():
    """2: and the width of all heads is also that of the output."""
    heads = [
        multi_head_attention(without_output(P).head(i), X, X, X)
        for i in range(4)
    ]
    assert_close(
        self_attention(without_output(P), X),
        np.concatenate(heads, axis=-1),
        1e-15,
    )
    assert multi_head_attention(
        parameters(output=False),
        normal(T, D_q),
        normal(S, D_k),
        normal(S, D_v),
    ).shape == (T, D)
    assert multi_head_attention(
        parameters(), normal(T, D_q), normal(S, D_k), normal(S, D_v)
    ).shape == (T, D_out)


@pytest.mark.claim("cor-compatibility")
def test_the_score_comes_before_the_softmax_and_the_weight_after_it():
    """3: any number, for one query and one key; a share, for one query and all keys."""
    z, weights = scores(Q, K), attention_weights(Q, K)
    assert z.min() < 0
    assert np.abs(z.sum(-1) - 1).min() > 0.1
    assert_close(weights, softmax(z), 0)
    assert_close(weights.sum(-1), np.ones(T), 1e-15)
    other = K.copy()
    other[-1] += 1
    assert np.array_equal(scores(Q, other)[:, :-1], z[:, :-1])
    assert (attention_weights(Q, other) != weights).all()


@pytest.mark.claim("cor-head-scale")
def test_scores_of_a_head_are_divided_by_the_root_of_its_width():
    """4: D_h, neither D nor the width that enters the projection."""
    p = parameters(bias=False)
    _, weights = multi_head_attention(
        p,
        normal(T, D_q),
        normal(S, D_k),
        normal(S, D_v),
        return_weights=True,
    )
    q, k = normal(T, D_q) @ p.W_Q[:, :D_h], normal(S, D_k) @ p.W_K[:, :D_h]
    assert_close(weights[0], softmax(q @ k.T / np.sqrt(D_h)), 1e-14)
    for width in (D, D_k, D_q):
        assert (
            np.abs(weights[0] - softmax(q @ k.T / np.sqrt(width))).max()
            > 0.01
        )


@pytest.mark.claim("cor-key-blocks")
def test_the_blocks_of_the_projected_keys_have_one_row_a_key():
    """5: (S, D_h)."""
    assert split_heads(normal(S, D_k) @ parameters().W_K, h).shape == (
        h,
        S,
        D_h,
    )


@pytest.mark.claim("cor-value-rows", "cor-value-width")
def test_values_may_have_another_width_than_keys():
    """6, and 4 of the second document."""
    assert attention(Q, K, V).shape == (T, D_v)
    assert D_v != D_k


@pytest.mark.claim("cor-self-attention", "cor-four-against-five")
def test_in_self_attention_there_are_as_many_queries_as_keys():
    """7, and 3 of the second document: 4 against 5 is cross-attention, or a part of a map."""
    four, five = X[:4], X[:5]
    _, own = self_attention(P, five, return_weights=True)
    assert own.shape == (4, 5, 5)
    _, crossed = cross_attention(P, four, five, return_weights=True)
    assert crossed.shape == (4, 4, 5)
    # The same rows of one sequence: four of the five may ask.
    assert_close(crossed, own[:, :4], 1e-15)
    assert attention_weights(Q, K).shape == (T, S)
    assert T != S


@pytest.mark.claim("cor-split")
def test_reshaping_straight_to_heads_has_the_shape_and_not_the_numbers():
    """8."""
    x = np.arange(24.0).reshape(6, 4)
    straight, right = x.reshape(2, 6, 2), split_heads(x, 2)
    assert straight.shape == right.shape
    assert (straight != right).mean() > 0.5
    # Straight, the second "head" begins with the fourth position; it should with the first.
    assert straight[1, 0].tolist() == x[3, :2].tolist()
    assert right[1, 0].tolist() == x[0, 2:].tolist()


@pytest.mark.claim("cor-similarity")
def test_weights_are_not_symmetric():
    """9."""
    weights = self_attention(P, X, return_weights=True)[1]
    assert np.abs(weights - weights.swapaxes(-1, -2)).max() > 0.1


@pytest.mark.claim("cor-roles")
def test_heads_may_trade_places_so_that_no_role_belongs_to_a_number():
    """10: with their rows of W_O the output stays; the maps change places."""
    order = np.r_[8:12, 0:4, 12:16, 4:8]
    traded = MultiHeadParameters(
        P.W_Q[:, order],
        P.W_K[:, order],
        P.W_V[:, order],
        P.W_O[order],
        heads=4,
    )
    y, weights = self_attention(P, X, return_weights=True)
    z, moved = self_attention(traded, X, return_weights=True)
    assert_close(z, y, 1e-14)
    assert_close(moved, weights[[2, 0, 3, 1]], 1e-14)
    assert np.abs(moved - weights).max() > 0.1


@pytest.mark.claim("cor-missing")
def test_what_the_notes_leave_out_changes_what_comes_out():
    """11: masks, the root, dropout, batch axes, positions."""
    plain = attention(X, X, X)
    for other in (
        attention(X, X, X, mask=causal_mask(6)),
        attention(X, X, X, mask=padding_mask(np.array(4), 6)),
        attention(X, X, X, scale=1),
        attention(*[X + sinusoidal_positions(6, 16)] * 3),
    ):
        assert np.abs(other - plain).max() > 0.1
    batch = np.stack([X, X[ORDER]])
    assert_close(
        attention(batch, batch, batch), np.stack([plain, plain[ORDER]])
    )
    torch.manual_seed(0)
    layer = MultiHeadAttention(16, 4, dropout=0.5).double()
    x = torch.tensor(X)[None]
    dropped, kept = layer(x), layer.eval()(x)
    assert (dropped - kept).abs().max() > 0.1


# ---- the second document ----


@pytest.mark.claim("cor-division")
@pytest.mark.parametrize("width", [4, 64, 1024])
def test_scores_of_unit_variance_need_the_root_of_the_width(width):
    """1: std(q·k) = √D_k; divided by D_k the weights flatten, by nothing they saturate."""
    q, k = normal(300, width, seed=1), normal(300, width, seed=2)
    assert abs(scores(q, k, scale=1).std() / width**0.5 - 1) < 0.05
    assert abs(scores(q, k).std() - 1) < 0.05
    assert abs(scores(q, k, scale=1 / width).std() * width**0.5 - 1) < 0.05


@pytest.mark.claim("cor-division")
def test_divided_by_the_width_the_weights_are_flat_and_undivided_saturated():
    """1, at D_k = 1024 and 300 keys: the largest weight, on average."""
    q, k = normal(300, 1024, seed=1), normal(300, 1024, seed=2)
    largest = {
        name: attention_weights(q, k, scale=scale).max(-1).mean()
        for name, scale in (("none", 1), ("√D_k", None), ("D_k", 1 / 1024))
    }
    assert largest["none"] > 0.8
    assert 0.01 < largest["√D_k"] < 0.1
    assert largest["D_k"] < 1.15 / 300


@pytest.mark.claim("prop-not-symmetric")
@pytest.mark.claim("cor-shared-projections")
def test_shared_projections_make_scores_symmetric_and_weights_not():
    """2: W_Q = W_K."""
    W = normal(16, 8, seed=6) / 4
    z = scores(X @ W, X @ W)
    assert_close(z, z.T, 1e-15)
    weights = attention_weights(X @ W, X @ W)
    assert np.abs(weights - weights.T).max() > 0.1


@pytest.mark.claim("cor-pruned-heads")
def test_a_pruned_head_is_gone_from_the_sum_and_pruned_weights_are_not():
    """5: what is left is an attention of fewer heads; single weights of 0 leave every head."""
    W_O = P.W_O.copy()
    W_O[:4] = 0
    fewer = MultiHeadParameters(
        P.W_Q[:, 4:], P.W_K[:, 4:], P.W_V[:, 4:], P.W_O[4:], heads=3
    )
    pruned = self_attention(replace(P, W_O=W_O), X)
    assert_close(pruned, self_attention(fewer, X), 1e-14)
    assert fewer.count < P.count
    smallest = np.abs(P.W_O) < np.quantile(np.abs(P.W_O), 0.25)
    thinned = replace(P, W_O=np.where(smallest, 0, P.W_O))
    assert (thinned.W_O == 0).sum() == (W_O == 0).sum()
    for i in range(4):
        share = multi_head_attention(thinned.head(i), X, X, X)
        assert np.abs(share).max() > 0.1


def values(name, key):
    return np.array(experiment(name)[key].values)


@pytest.mark.claim("cor-shared-directions")
def test_a_head_uses_its_directions_and_all_heads_together_few():
    """6, in a real encoder: most of the 32 of a head, a sixth of the 384 of all."""
    assert values("shared_projections", "minilm_head").min() > 0.7 * 32
    assert values("shared_projections", "minilm_product").max() < 384 / 5


@pytest.mark.claim("cor-cross-heads")
def test_with_half_of_its_heads_gone_cross_attention_suffers_most():
    """7: on average over the trained models, and against the encoder in each."""
    left = {
        kind: values("pruning", f"{kind}_50")
        for kind in ("cross", "encoder", "decoder")
    }
    assert (left["cross"] < left["encoder"]).all()
    means = {kind: shares.mean() for kind, shares in left.items()}
    assert min(means, key=means.get) == "cross"


@pytest.mark.claim("cor-rank")
def test_the_softmax_raises_the_rank_from_64_to_512():
    """8: QKᵀ has at most rank D_k, its softmax can have full rank."""
    q, k = normal(512, 64, seed=1), normal(512, 64, seed=2)
    assert np.linalg.matrix_rank(scores(q, k)) == 64
    assert np.linalg.matrix_rank(attention_weights(q, k)) == 512


@pytest.mark.claim("cor-fast-weights")
def test_without_the_softmax_attention_is_an_associative_memory():
    """9: Σ v_j k_jᵀ read by q; exact for orthonormal keys, and others interfere."""
    keys, values = (
        np.linalg.qr(normal(8, 8, seed=1))[0][:5],
        normal(5, 3, seed=2),
    )
    memory = sum(np.outer(v, k) for v, k in zip(values, keys, strict=True))
    assert_close(keys @ memory.T, values, 1e-14)
    assert_close(scores(keys, keys, scale=1) @ values, values, 1e-14)
    others = normal(5, 8, seed=3)
    others /= np.linalg.norm(others, axis=-1, keepdims=True)
    assert (
        np.abs(scores(others, others, scale=1) @ values - values).max()
        > 0.1
    )
    assert np.abs(attention(keys, keys, values) - values).max() > 0.1


@pytest.mark.claim("cor-rank-collapse")
def test_pure_attention_collapses_to_rank_one_and_skip_connections_prevent_it():
    """10: what is left of X when its mean row is taken off, relative to X, after 12 layers."""

    def left_after(layers, skip):
        x = X
        for n in range(layers):
            p = MultiHeadParameters.init(16, 4, seed=n, bias=False)
            x = self_attention(p, x) + (x if skip else 0)
            x = x / np.linalg.norm(x)
        return np.linalg.norm(x - x.mean(0))

    assert left_after(12, skip=False) < 1e-6
    assert left_after(12, skip=True) > 1e4 * left_after(12, skip=False)


@pytest.mark.claim("cor-layer-norm")
@pytest.mark.parametrize(
    "size", ["small_norms_in_out", "real_fast", "real_slow"]
)
def test_shuffled_weights_do_nearly_as_well_as_trained_ones(size):
    """11, where norms, input, positions and output are tuned."""
    trained, shuffled = (
        values("layer_norm", f"{size}_{how}").mean()
        for how in ("pretrained", "scrambled")
    )
    assert shuffled > trained - 0.1


@pytest.mark.claim("cor-linear-cost")
def test_what_costs_less_loses_something_on_a_task_that_looks_up():
    """12: faster, and right half as often."""
    assert values("quadratic_cost", "look_up_full").min() > 0.98
    for form in ("linformer", "big_bird"):
        assert values("quadratic_cost", f"ratio_{form}").min() > 1
        assert values("quadratic_cost", f"look_up_{form}").max() < 0.6
