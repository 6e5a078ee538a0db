"""Shared projections: the form, the fit, the control, and attention that uses them."""

import itertools

import numpy as np
import pytest

from attention_in_detail import (
    MultiHeadParameters,
    multi_head_attention,
    self_attention,
)
from attention_in_detail.insights.shared_projections import (
    SharedProjections,
    data_root,
    directions_for,
    fit_shared,
    own_projections,
    relative_error,
    score_products,
    strongest_shared,
    with_shared,
)

h, D_h, D = 3, 4, 12
D_q, D_k, D_v, D_out, T, S = 7, 8, 9, 5, 6, 10


def attention(seed=0, **options):
    sizes = {"D_q": D_q, "D_k": D_k, "D_v": D_v, "D_out": D_out}
    p = MultiHeadParameters.init(D, h, seed=seed, **sizes | options)
    rng = np.random.default_rng(seed)
    arrays = {
        name: x + 0.3 * rng.standard_normal(x.shape)
        for name, x in p.arrays().items()
    }
    return MultiHeadParameters(**arrays, heads=h)


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def some_shared(K=5, seed=1):
    return SharedProjections(
        normal(D_q, K, seed=seed),
        normal(D_k, K, seed=seed),
        normal(h, K, seed=seed),
    )


# ---- the form ----


def test_products_are_those_of_the_heads():
    p = attention()
    products = score_products(p)
    for i in range(h):
        own = slice(i * D_h, (i + 1) * D_h)
        wanted = p.W_Q[:, own] @ p.W_K[:, own].T
        assert np.allclose(products[i], wanted, rtol=0, atol=1e-12)


@pytest.mark.claim("def-shared-projections")
def test_products_of_shared_projections():
    found = some_shared()
    for i in range(h):
        wanted = found.A @ np.diag(found.mixing[i]) @ found.B.T
        assert np.allclose(found.products()[i], wanted, rtol=0, atol=1e-12)
    assert found.K == 5
    assert found.count == D_q * 5 + D_k * 5 + h * 5


@pytest.mark.claim("prop-shared-exact")
def test_all_directions_are_the_attention_as_it_stands():
    p = attention()
    whole = strongest_shared(p, D)
    assert relative_error(whole, score_products(p)) < 1e-12


def test_the_strongest_are_kept():
    p = attention()
    strength = np.linalg.norm(p.W_Q, axis=0) * np.linalg.norm(p.W_K, axis=0)
    kept = np.argsort(-strength)[:5]
    found = strongest_shared(p, 5)
    assert {tuple(column) for column in found.A.T} == {
        tuple(p.W_Q[:, k]) for k in kept
    }
    for k, column in zip(np.sort(kept), found.mixing.T, strict=True):
        assert column.argmax() == k // D_h
        assert column.sum() == 1


# ---- the fit ----


def test_a_tensor_of_that_form_is_found():
    products = some_shared(2).products()
    start = SharedProjections(
        *(
            x + 0.2 * normal(*x.shape, seed=9)
            for x in (
                some_shared(2).A,
                some_shared(2).B,
                some_shared(2).mixing,
            )
        )
    )
    found = fit_shared(products, start, rounds=200)
    assert relative_error(start, products) > 0.1
    assert relative_error(found, products) < 1e-6


def test_no_round_makes_it_worse():
    p = attention()
    products = score_products(p)
    errors = []
    found = strongest_shared(p, 5)
    for _ in range(12):
        errors.append(relative_error(found, products))
        found = fit_shared(products, found, rounds=1)
    assert all(b <= a + 1e-9 for a, b in itertools.pairwise(errors))
    assert errors[-1] < 0.9 * errors[0]


def test_each_factor_is_the_best_for_the_others():
    """After a round B is least squares: no other B is nearer."""
    products = score_products(attention())
    found = fit_shared(products, some_shared(4), rounds=1)
    best = relative_error(found, products)
    for seed in range(5):
        moved = SharedProjections(
            found.A,
            found.B + 0.01 * normal(D_k, 4, seed=seed),
            found.mixing,
        )
        assert relative_error(moved, products) > best


def test_no_rounds_leave_the_start():
    start = some_shared()
    found = fit_shared(start.products(), start, rounds=0)
    assert found.A is start.A


# ---- the control ----


def test_own_projections_are_the_best_of_their_rank():
    products = score_products(attention())
    found = own_projections(products, 2 * h)
    for M, near in zip(products, found.products(), strict=True):
        assert np.linalg.matrix_rank(near) == 2
        lost = np.linalg.svd(M, compute_uv=False)[2:]
        assert abs(np.linalg.norm(M - near) - np.linalg.norm(lost)) < 1e-12
    assert ((found.mixing != 0).sum(0) == 1).all()
    whole = own_projections(products, h * D_h)
    assert relative_error(whole, products) < 1e-12


def test_the_error_is_1_for_nothing():
    products = score_products(attention())
    nothing = SharedProjections(
        np.zeros((D_q, 1)), np.zeros((D_k, 1)), np.zeros((h, 1))
    )
    assert relative_error(nothing, products) == 1


def test_directions():
    x = np.diag([3.0, 1.0, 0.0])  # energy 9, 1, 0
    assert directions_for(x) == 1
    assert directions_for(x, 0.91) == 2
    assert directions_for(x, 1.0) == 2
    rotated = np.linalg.qr(normal(3, 3))[0] @ x
    assert directions_for(rotated, 0.91) == 2


def test_the_root_turns_the_size_of_products_into_the_size_of_scores():
    x, M = normal(50, 4) @ normal(4, 4) + 3, normal(4, 4, seed=2)
    mean, root, inverse = data_root(x)
    scores = (x - mean) @ M @ (x - mean).T
    size = np.linalg.norm(root @ M @ root)
    assert np.isclose(np.sqrt(np.mean(scores**2)), size, rtol=1e-5)
    assert np.allclose(root @ inverse, np.eye(4), rtol=0, atol=1e-8)


# ---- attention with them ----


@pytest.mark.claim("def-shared-projections")
@pytest.mark.parametrize("K", [2, 5, 9])
@pytest.mark.parametrize("bias", [True, False])
def test_the_scores_are_those_of_the_form(K, bias):
    """Against the formula, head by head, with the weights of the softmax."""
    p, shared = attention(bias=bias), some_shared(K)
    x, y, v = normal(T, D_q), normal(S, D_k), normal(S, D_v)
    found, weights = multi_head_attention(
        with_shared(p, shared), x, y, v, return_weights=True
    )
    wanted = 0 if p.b_O is None else p.b_O
    for i in range(h):
        one = p.head(i)
        u = one.W_K @ (np.zeros(D_h) if one.b_Q is None else one.b_Q)
        z = (x @ shared.A * shared.mixing[i]) @ (y @ shared.B).T + y @ u
        z = np.exp(z / np.sqrt(D_h))
        A = z / z.sum(1, keepdims=True)
        assert np.allclose(weights[i], A, rtol=0, atol=1e-12)
        values = v @ one.W_V + (0 if one.b_V is None else one.b_V)
        wanted = wanted + A @ values @ one.W_O
    assert np.allclose(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.claim("prop-shared-exact")
def test_all_directions_change_nothing():
    """Not even with biases: that of the keys drops out of the softmax."""
    p = attention()
    new = with_shared(p, strongest_shared(p, D))
    x, y, v = normal(T, D_q), normal(S, D_k), normal(S, D_v)
    assert np.allclose(
        multi_head_attention(new, x, y, v),
        multi_head_attention(p, x, y, v),
        rtol=0,
        atol=1e-12,
    )


def test_a_center_changes_nothing_where_all_directions_are_kept():
    p = attention(D_q=D, D_k=D, D_v=D, D_out=D)
    whole = strongest_shared(p, D)
    x = normal(T, D)
    wanted = self_attention(p, x)
    for center in (None, x.mean(0)):
        found = self_attention(with_shared(p, whole, center=center), x)
        assert np.allclose(found, wanted, rtol=0, atol=1e-12)
    less = strongest_shared(p, 3)
    one, other = (
        self_attention(with_shared(p, less, center=c), x)
        for c in (None, x.mean(0))
    )
    assert not np.allclose(one, other)


def test_the_center_is_taken_from_the_queries():
    """Against the formula, where the projections lose something."""
    p, shared = attention(D_q=D, D_k=D, D_v=D, D_out=D), None
    shared = strongest_shared(p, 4)
    x = normal(T, D)
    center = x.mean(0)
    new = with_shared(p, shared, center=center)
    _, weights = self_attention(new, x, return_weights=True)
    for i in range(h):
        one = p.head(i)
        u = one.W_K @ (center @ one.W_Q + one.b_Q)
        z = ((x - center) @ shared.products()[i] + u) @ x.T
        z = np.exp(z / np.sqrt(D_h))
        A = z / z.sum(1, keepdims=True)
        assert np.allclose(weights[i], A, rtol=0, atol=1e-12)


# ---- refusals ----

P = attention()
M = score_products(P)
REFUSALS = [
    (
        lambda: score_products(M),
        TypeError,
        "attention must be MultiHeadParameters, not float64",
    ),
    (
        lambda: strongest_shared(P, 13),
        ValueError,
        "K is 13, but the heads have 12 directions in all",
    ),
    (
        lambda: strongest_shared(P, 0),
        ValueError,
        "K is 0, but must be at least 1",
    ),
    (
        lambda: fit_shared(M[0], some_shared()),
        ValueError,
        "products need the axes (h, D_q, D_k), but have the shape (7, 8)",
    ),
    (
        lambda: fit_shared(M, M),
        TypeError,
        "start must be SharedProjections, not float64",
    ),
    (
        lambda: fit_shared(M[:2], some_shared()),
        ValueError,
        "start has (h, D_q, D_k) = (3, 7, 8), but products have (2, 7, 8)",
    ),
    (
        lambda: fit_shared(M, some_shared(), rounds=-1),
        ValueError,
        "rounds is -1, but must be at least 0",
    ),
    (
        lambda: own_projections(M, 4),
        ValueError,
        "K is 4, but 3 heads need a multiple of 3",
    ),
    (
        lambda: relative_error(some_shared(), M[:, :3]),
        ValueError,
        "shared has (h, D_q, D_k) = (3, 7, 8), but products have (3, 3, 8)",
    ),
    (
        lambda: directions_for(M),
        ValueError,
        "x needs two axes, but has the shape (3, 7, 8)",
    ),
    (
        lambda: directions_for(M[0], 1.5),
        ValueError,
        "share is 1.5, but must be above 0 and at most 1",
    ),
    (
        lambda: data_root(M),
        ValueError,
        "x needs two axes, but has the shape (3, 7, 8)",
    ),
    (
        lambda: with_shared(P, None),
        TypeError,
        "shared must be SharedProjections, not NoneType",
    ),
    (
        lambda: with_shared(attention(D_q=4), some_shared()),
        ValueError,
        "shared has (h, D_q, D_k) = (3, 7, 8), but attention has (3, 4, 8)",
    ),
    (
        lambda: with_shared(P, some_shared(), center=np.zeros(3)),
        ValueError,
        "center has the shape (3,), but D_q is 7",
    ),
    (
        lambda: with_shared(
            MultiHeadParameters(P.W_Q, P.W_K, P.W_V, heads=h), some_shared()
        ),
        ValueError,
        "attention has no W_O: its heads would come out padded with zeros",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSALS)
def test_refusals(call, error, message):
    with pytest.raises(error) as found:
        call()
    assert str(found.value) == message


def test_arrays_of_another_library_are_refused():
    torch = pytest.importorskip("torch")
    like = torch.zeros(1, dtype=torch.float64)
    p = MultiHeadParameters.init(D, h, seed=0, like=like)
    with pytest.raises(
        TypeError,
        match=r"^attention must hold arrays of NumPy, not torch.float64$",
    ):
        score_products(p)
