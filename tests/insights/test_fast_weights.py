"""The memory of outer products: each function against its formula, in every library, and its refusals."""

import numpy as np
import pytest
import torch

from attention_in_detail.insights import fast_weights as fw
from tests.support import assert_close, each_library, normal

Q, K, V = (
    normal(6, 3, seed=1),
    normal(6, 3, seed=2),
    normal(6, 4, seed=3),
)


@pytest.mark.claim("def-fast-linear", "def-fast-weights")
@each_library
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("function", [fw.linear_attention, fw.fast_weights])
def test_both_ways_are_the_sum_over_the_steps_so_far(
    function, normalized, make
):
    q, k = fw.elu_plus_one(Q), fw.elu_plus_one(K)
    wanted = np.zeros((6, 4))
    for t in range(6):
        products = [q[t] @ k[s] for s in range(t + 1)]
        for s in range(t + 1):
            wanted[t] += products[s] * V[s]
        if normalized:
            wanted[t] /= sum(products)
    found = function(make(q), make(k), make(V), normalized=normalized)
    assert_close(found, wanted, 1e-13)


@pytest.mark.claim("def-fast-linear")
@pytest.mark.parametrize("function", [fw.linear_attention, fw.fast_weights])
def test_a_key_of_later_has_no_part(function):
    later = K.copy()
    later[4:] += 1
    one, two = function(Q, later, V), function(Q, K, V)
    assert np.array_equal(one[:4], two[:4])
    assert not np.allclose(one[4:], two[4:])


@pytest.mark.claim("def-fast-weights")
@each_library
def test_the_sum_is_one_outer_product_a_pair(make):
    wanted = sum(
        np.outer(v, k) for k, v in zip(K, V, strict=True)
    )  # (D_v, d)
    memory = fw.write_sum(make(K), make(V))
    assert_close(memory, wanted)
    assert_close(
        fw.read(memory, make(Q)), np.array([wanted @ q for q in Q])
    )


@pytest.mark.claim("def-fast-delta")
@each_library
@pytest.mark.parametrize("rate", [1.0, 0.3, 1])
def test_the_delta_rule_adds_what_is_missing(rate, make):
    wanted = normal(4, 3, seed=4)
    start = make(wanted.copy())
    for k, v in zip(K, V, strict=True):
        wanted = wanted + rate * np.outer(v - wanted @ k, k)
    found = fw.write_by_delta(make(K), make(V), rate=rate, memory=start)
    assert_close(found, wanted)
    assert_close(start, normal(4, 3, seed=4), 0)


@pytest.mark.claim("def-fast-delta")
@pytest.mark.parametrize(
    "rate", [0, 0.0, -0.3, np.nextafter(1, 2), 2, np.inf, np.nan]
)
def test_a_rate_that_is_not_above_zero_and_at_most_one_is_refused(rate):
    line = f"^rate is {rate}, but must be above 0, at most 1$"
    with pytest.raises(ValueError, match=line):
        fw.write_by_delta(K, V, rate=rate)


@pytest.mark.claim("def-fast-delta")
@pytest.mark.parametrize("rate", [1e-300, 0.5, np.nextafter(1, 0)])
def test_a_rate_between_is_taken_and_the_rate_is_one_unless_given(rate):
    first = fw.write_by_delta(K[:1], V[:1], rate=rate)
    assert_close(first, rate * np.outer(V[0], K[0]), 1e-15)
    assert_close(
        fw.write_by_delta(K[:1], V[:1]), np.outer(V[0], K[0]), 1e-15
    )


def test_without_a_memory_the_delta_rule_starts_at_zero():
    assert_close(
        fw.write_by_delta(K, V),
        fw.write_by_delta(K, V, memory=np.zeros((4, 3))),
        0,
    )


@each_library
def test_elu_plus_one(make):
    x = np.array([-800.0, -1, 0, 2, 800])
    found = fw.elu_plus_one(make(x))
    assert_close(found, np.array([0, np.exp(-1), 1, 3, 801]))


@each_library
def test_dpfp_by_hand(make):
    """r = (2, 0, 0, 3); shifted by one (3, 2, 0, 0), by two (0, 3, 2, 0)."""
    found = fw.dpfp(make(np.array([[2.0, -3.0]])), 2)
    assert_close(found, np.array([[6.0, 0, 0, 0, 0, 0, 0, 0]]), 0)
    found = fw.dpfp(make(np.array([[2.0, 3.0]])), 1)  # r = (2, 3, 0, 0)
    assert_close(found, np.array([[0.0, 6, 0, 0]]), 0)


@pytest.mark.parametrize("nu", [1, 2, 3])
def test_dpfp_is_the_product_of_entries_nu_apart(nu):
    x = normal(5, 4, seed=5)
    r = np.maximum(np.concatenate([x, -x], axis=1), 0)
    found = fw.dpfp(x, nu)
    assert found.shape == (5, 2 * nu * 4)
    for i in range(1, nu + 1):
        for j in range(8):
            assert_close(
                found[:, (i - 1) * 8 + j], r[:, j] * r[:, (j - i) % 8], 0
            )


@each_library
def test_unit_rows_have_length_one_and_their_direction(make):
    found = fw.unit_rows(make(K))
    assert_close(found, K / np.linalg.norm(K, axis=1, keepdims=True), 1e-15)


@each_library
def test_the_error_and_the_share_by_hand(make):
    stored = make(np.array([[3.0, 0], [0, 4]]))
    assert fw.recall_error(stored, stored) == 0
    nothing = make(np.zeros((2, 2)))
    assert fw.recall_error(nothing, stored) == 1
    found = make(np.array([[0.0, 3], [0, 4]]))  # off by 18 of 25
    assert fw.recall_error(found, stored) == pytest.approx(np.sqrt(18 / 25))
    assert fw.nearest_share(found, stored) == 0.5
    assert fw.nearest_share(stored, stored) == 1


@pytest.mark.claim("prop-fast-equal")
def test_gradients_pass_through_both_ways():
    found = []
    for function in (fw.linear_attention, fw.fast_weights):
        q, k, v = (torch.tensor(x, requires_grad=True) for x in (Q, K, V))
        function(q, k, v).square().sum().backward()
        found.append((q.grad, k.grad, v.grad))
    for one, two in zip(*found, strict=True):
        assert_close(one, two, 1e-11)


# ---- refusals ----

f32 = K.astype(np.float32)
REFUSED = [
    (
        lambda: fw.linear_attention(Q[:5], K, V),
        ValueError,
        "keys has T = 6, but queries has T = 5; each step brings one query and one key of one width",
    ),
    (
        lambda: fw.fast_weights(Q[:, :2], K, V),
        ValueError,
        "keys has d = 3, but queries has d = 2; each step brings one query and one key of one width",
    ),
    (
        lambda: fw.linear_attention(Q, K, V[:5]),
        ValueError,
        "values has n = 5, but keys has n = 6; each key needs one value",
    ),
    (
        lambda: fw.fast_weights(Q, K, V, normalized=1),
        TypeError,
        "normalized must be True or False, not int",
    ),
    (
        lambda: fw.linear_attention(f32, K, V),
        TypeError,
        "keys has dtype float64, but queries has float32; convert one of them",
    ),
    (
        lambda: fw.write_sum([[1.0]], V),
        TypeError,
        "keys must be an array of NumPy, PyTorch or another array library, not list",
    ),
    (
        lambda: fw.write_sum(K[None], V),
        ValueError,
        "keys needs the axes (n, d), but has the shape (1, 6, 3)",
    ),
    (
        lambda: fw.write_by_delta(K, V, rate=True),
        TypeError,
        "rate must be a number, not bool",
    ),
    (
        lambda: fw.write_by_delta(K, V, rate=1.5),
        ValueError,
        "rate is 1.5, but must be above 0, at most 1",
    ),
    (
        lambda: fw.write_by_delta(K, V, memory=np.zeros((3, 4))),
        ValueError,
        "memory has the shape (3, 4), but values and keys need (4, 3)",
    ),
    (
        lambda: fw.read(np.zeros((4, 3)), V),
        ValueError,
        "queries has d = 4, but memory has d = 3; a memory is read with what is as wide as its keys",
    ),
    (
        lambda: fw.elu_plus_one(np.arange(3)),
        TypeError,
        "x must be a floating array, not int64; convert it first",
    ),
    (
        lambda: fw.dpfp(K, 1.0),
        TypeError,
        "nu must be an integer, not float",
    ),
    (
        lambda: fw.dpfp(K, 0),
        ValueError,
        "nu is 0, but must be at least 1",
    ),
    (
        lambda: fw.dpfp(K, 6),
        ValueError,
        "nu is 6, but at most 5 for D_k = 3",
    ),
    (
        lambda: fw.unit_rows(np.array(1.0)),
        ValueError,
        "x needs at least the axes (d), but has the shape ()",
    ),
    (
        lambda: fw.recall_error(V, V[:5]),
        ValueError,
        "found has the shape (6, 4), but stored (5, 4)",
    ),
    (
        lambda: fw.nearest_share(V[0], V),
        ValueError,
        "found needs at least the axes (n, D_v), but has the shape (4,)",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED)
def test_a_wrong_call_is_refused_in_one_line(call, kind, message):
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == message
