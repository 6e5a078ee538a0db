import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attention_in_detail import attention, combine_masks, window_mask
from attention_in_detail.insights.low_rank import linformer_attention
from attention_in_detail.insights.quadratic_cost import (
    block_attention,
    global_mask,
    in_blocks,
    layers_to_reach,
    linear_attention_to_all,
    linear_cost,
    linformer_cost,
    query_block_attention,
    random_mask,
    sparse_cost,
    union_of_masks,
)
from attention_in_detail.parallelism import attention_cost
from tests.support import coin, normal, open_mask


def test_union_is_or():
    a, b, c = (coin(3, 4, seed=n) for n in range(3))
    assert np.array_equal(union_of_masks(a, b, c), a | b | c)
    assert np.array_equal(union_of_masks(a), a)
    assert not np.array_equal(union_of_masks(a, b), combine_masks(a, b))
    assert torch.equal(
        union_of_masks(torch.asarray(a), torch.asarray(b)),
        torch.asarray(a | b),
    )


def test_global_tokens_see_all_and_are_seen_by_all():
    assert global_mask(4, 1).astype(int).tolist() == [
        [1, 1, 1, 1],
        [1, 0, 0, 0],
        [1, 0, 0, 0],
        [1, 0, 0, 0],
    ]
    assert not global_mask(3, 0).any()
    assert global_mask(5, 2).sum() == 25 - 9


def test_random_keys_are_new_and_as_many_as_asked():
    near = window_mask(20, before=1, after=1)
    mask = random_mask(20, 3, seed=0, besides=near)
    assert (mask.sum(axis=1) == 3).all()
    assert not (mask & near).any()
    assert np.array_equal(mask, random_mask(20, 3, seed=0, besides=near))
    assert not np.array_equal(
        mask, random_mask(20, 3, seed=1, besides=near)
    )
    assert (random_mask(20, 3, seed=0).sum(axis=1) == 3).all()
    # Where fewer are left, fewer are drawn.
    few = random_mask(
        4, 3, seed=0, besides=window_mask(4, before=1, after=1)
    )
    assert few.sum(axis=1).tolist() == [2, 1, 1, 2]


def test_random_keys_are_drawn_evenly():
    share = np.mean(
        [random_mask(6, 2, seed=n) for n in range(3000)], axis=0
    )
    assert np.allclose(share, 1 / 3, atol=0.04)


def test_blocks_of_a_pattern():
    pattern = np.array([[True, False], [False, True]])
    assert in_blocks(pattern, 2).astype(int).tolist() == [
        [1, 1, 0, 0],
        [1, 1, 0, 0],
        [0, 0, 1, 1],
        [0, 0, 1, 1],
    ]


@pytest.mark.claim("def-cost-reach")
@pytest.mark.parametrize(
    ("mask", "layers"),
    [
        (np.ones((5, 5), dtype=bool), 1),
        (global_mask(9, 1), 2),
        (window_mask(9, before=1, after=1), 8),
        (window_mask(9, before=3, after=3), 3),
        (window_mask(9, before=3, after=0), None),  # nobody looks ahead
        (np.eye(3, dtype=bool), None),
        (np.eye(1, dtype=bool), 1),
    ],
)
def test_layers_until_all_are_reached(mask, layers):
    assert layers_to_reach(mask) == layers


@pytest.mark.claim("def-cost-sparse")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("make", [np.asarray, torch.asarray])
def test_block_attention_is_attention_under_the_mask(make, seed):
    pattern = open_mask(4, 3, seed=seed)
    q, k, v = (
        make(normal(2, rows, width, seed=seed))
        for rows, width in ((12, 5), (9, 5), (9, 7))
    )
    # Blocks of three queries by three keys.
    found = block_attention(q, k, v, pattern)
    wanted = attention(q, k, v, mask=make(in_blocks(pattern, 3)))
    assert found.shape == (2, 12, 7)
    assert np.allclose(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.claim("def-cost-sparse")
def test_what_is_shut_has_no_effect():
    pattern = window_mask(4, before=1, after=0)
    q, k, v = (normal(8, 3, seed=n) for n in range(3))
    other_k, other_v = k.copy(), v.copy()
    other_k[6:], other_v[6:] = 7.0, 7.0
    same = block_attention(q, other_k, other_v, pattern)[:6]
    assert np.array_equal(same, block_attention(q, k, v, pattern)[:6])


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_query_blocks_are_attention(size):
    q, k, v = normal(2, 7, 3), normal(2, 5, 3), normal(2, 5, 4)
    assert np.allclose(
        query_block_attention(q, k, v, size=size),
        attention(q, k, v),
        rtol=0,
        atol=1e-14,
    )
    assert query_block_attention(q[:, :0], k, v, size=2).shape == (2, 0, 4)


@pytest.mark.claim("def-cost-linear", "prop-cost-linear")
def test_linear_attention_is_its_sum_over_pairs():
    q, k, v = (
        torch.asarray(3 * normal(2, rows, width))
        for rows, width in ((6, 5), (7, 5), (7, 4))
    )
    phi_q, phi_k = (torch.nn.functional.elu(x) + 1 for x in (q, k))
    products = phi_q @ phi_k.mT
    weights = products / products.sum(-1, keepdim=True)
    found = linear_attention_to_all(q, k, v)
    assert torch.allclose(found, weights @ v)
    assert np.allclose(
        linear_attention_to_all(q.numpy(), k.numpy(), v.numpy()), found
    )
    assert (weights > 0).all()
    assert torch.linalg.matrix_rank(weights[0]) <= 5


def test_linear_attention_of_large_entries_is_finite():
    x = torch.full((3, 2), 2000.0, requires_grad=True)
    y = linear_attention_to_all(x, x, x)
    y.sum().backward()
    assert torch.allclose(y, x)
    assert x.grad.isfinite().all()


@pytest.mark.claim("def-cost-sparse", "obs-cost-time")
def test_counts_are_those_of_torch():
    q, k, v = torch.ones(24, 5), torch.ones(18, 5), torch.ones(18, 7)
    E = torch.ones(4, 18)
    pattern = window_mask(6, before=1, after=1)
    pairs = int(in_blocks(pattern, 1).sum()) * 4 * 3
    for function, cost in (
        (lambda: attention(q, k, v), attention_cost(24, 18, 5, 7)),
        (
            lambda: query_block_attention(q, k, v, size=5),
            attention_cost(24, 18, 5, 7),
        ),
        (
            lambda: linformer_attention(q, k, v, E, E),
            linformer_cost(24, 18, 5, 7, 4),
        ),
        (
            lambda: linear_attention_to_all(q, k, v),
            linear_cost(24, 18, 5, 7),
        ),
        (
            lambda: block_attention(q, k, v, pattern),
            sparse_cost(pairs, 24, 18, 5, 7),
        ),
    ):
        with FlopCounterMode(display=False) as counter:
            function()
        assert counter.get_total_flops() == 2 * cost.multiply_adds


def test_all_pairs_cost_what_attention_costs():
    assert sparse_cost(6 * 7, 6, 7, 3, 4, itemsize=2) == attention_cost(
        6, 7, 3, 4, itemsize=2
    )


def test_bytes_by_hand():
    cost = linformer_cost(6, 8, 3, 5, 2, itemsize=2)
    assert cost.exponentials == 12
    assert cost.bytes_in_and_out == ((6 + 8) * 8 + 2 * 2 * 8) * 2
    assert cost.bytes_between == (2 * 12 + 2 * 8) * 2
    cost = linear_cost(6, 8, 3, 5, itemsize=2)
    assert cost.exponentials == 14 * 3
    assert cost.bytes_in_and_out == 14 * 8 * 2
    assert cost.bytes_between == (14 * 3 + 3 * 5 + 3 + 6) * 2


yes, x = np.ones((2, 2), dtype=bool), normal(4, 3)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (union_of_masks, ValueError, "a union needs at least one mask"),
        (
            lambda: union_of_masks(yes, x),
            TypeError,
            "masks[1] must be boolean (true = may attend), not float64",
        ),
        (
            lambda: global_mask(0, 1),
            ValueError,
            "T is 0, but must be at least 1",
        ),
        (
            lambda: global_mask(3, -1),
            ValueError,
            "count is -1, but must be at least 0",
        ),
        (
            lambda: random_mask(3, 1, seed=0, besides=yes),
            ValueError,
            "besides has the shape (2, 2), but must have (3, 3)",
        ),
        (
            lambda: random_mask(3, 1, seed=-1),
            ValueError,
            "seed is -1, but must be at least 0",
        ),
        (
            lambda: in_blocks(yes, 0),
            ValueError,
            "size is 0, but must be at least 1",
        ),
        (
            lambda: in_blocks(yes[0], 2),
            ValueError,
            "pattern needs at least the axes (T, S), but has the shape (2,)",
        ),
        (
            lambda: layers_to_reach(yes[:1]),
            ValueError,
            "mask has the shape (1, 2), but must be square",
        ),
        (
            lambda: block_attention(x, x, x, np.ones((3, 2), dtype=bool)),
            ValueError,
            "pattern has 3 blocks, which do not divide the 4 queries",
        ),
        (
            lambda: block_attention(x, x, x, np.zeros((2, 2), dtype=bool)),
            ValueError,
            "pattern has a block of queries without any key",
        ),
        (
            lambda: query_block_attention(x, x, x, size=0),
            ValueError,
            "size is 0, but must be at least 1",
        ),
        (
            lambda: linear_attention_to_all(x, x[:, :2], x),
            ValueError,
            "keys has D_k = 2, but queries has D_k = 3; queries and keys must share their width",
        ),
        (
            lambda: sparse_cost(0, 1, 1, 1, 1),
            ValueError,
            "pairs is 0, but must be at least 1",
        ),
        (
            lambda: linformer_cost(1, 1, 1, 1, 1.0),
            TypeError,
            "k must be an integer, not float",
        ),
        (
            lambda: linear_cost(1, 0, 1, 1),
            ValueError,
            "S is 0, but must be at least 1",
        ),
    ],
)
def test_refusals(call, kind, message):
    with pytest.raises(kind) as refused:
        call()
    assert str(refused.value) == message
