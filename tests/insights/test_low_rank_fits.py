import pytest
import torch

from attention_in_detail import attention
from attention_in_detail.insights.low_rank import (
    linformer_attention,
    mean_pooling,
    relative_error,
    total_variation,
)
from attention_in_detail.insights.low_rank_fits import (
    fit_heads,
    fit_projections,
)
from tests.support import normal


def target(T, S, seed=0):
    return torch.asarray(2 * normal(T, S, seed=seed)).softmax(-1)


def test_a_wide_head_makes_any_weights_and_a_narrow_one_does_not():
    P = target(8, 9)
    wide, narrow = (fit_heads(P, d, seed=0) for d in (8, 1))
    assert wide.shape == (8, 9)
    assert torch.allclose(wide.sum(-1), torch.ones(8, dtype=torch.float64))
    assert total_variation(wide, P) < 0.01
    assert total_variation(narrow, P) > 0.2


def test_one_seed_gives_one_fit():
    P = target(5, 6)
    one, two, three = (
        fit_heads(P, 2, seed=seed, steps=20) for seed in (0, 0, 1)
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, three)


def test_learned_projections_are_nearer_than_pooling():
    q, k, v = (
        torch.asarray(normal(6, 2, 8, 4, seed=seed)) for seed in range(3)
    )
    exact = attention(q, k, v)
    E, F = fit_projections(q, k, v, 4, seed=0, steps=200)
    assert E.shape == F.shape == (2, 4, 8)
    assert not E.requires_grad
    pool = torch.asarray(mean_pooling(4, 8))
    learned, pooled = (
        relative_error(linformer_attention(q, k, v, *pair), exact).mean()
        for pair in ((E, F), (pool, pool))
    )
    assert learned < 0.95 * pooled


def test_projections_begin_as_pooling():
    q, k, v = (torch.asarray(normal(2, 1, 6, 3, seed=n)) for n in range(3))
    E, F = fit_projections(q, k, v, 2, seed=0, steps=1)
    pool = torch.asarray(mean_pooling(2, 6))
    for found in (E, F):
        # One step of Adam moves each entry by no more than its rate.
        assert (found[0] - pool).abs().max() < 1.01e-3
        assert not torch.equal(found[0], pool)


x = torch.asarray(normal(2, 1, 6, 3))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: fit_heads(target(3, 4), 0, seed=0),
            ValueError,
            "width is 0, but must be at least 1",
        ),
        (
            lambda: fit_heads(
                torch.ones(3, dtype=torch.float64), 2, seed=0
            ),
            ValueError,
            "target needs at least the axes (T, S), but has the shape (3,)",
        ),
        (
            lambda: fit_projections(x[0], x, x, 2, seed=0),
            ValueError,
            "queries needs at least the axes (examples, heads, T, D_k), but has the shape (1, 6, 3)",
        ),
        (
            lambda: fit_projections(x, x, x[:, :, 1:], 2, seed=0),
            ValueError,
            "values has S = 5, but keys has S = 6; each key needs one value",
        ),
        (
            lambda: fit_projections(x, x, x, 4, seed=0),
            ValueError,
            "k = 4 does not divide S = 6; each run needs the same length",
        ),
    ],
)
def test_refusals(call, kind, message):
    with pytest.raises(kind) as refused:
        call()
    assert str(refused.value) == message
