"""Loops equal products; counts equal what a slow count finds; a ratio is a ratio."""

import math
from importlib import resources

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attention_in_detail import (
    MultiHeadParameters,
    attention,
    cached_self_attention,
    head_slopes,
    multi_head_attention,
)
from attention_in_detail.parallelism import (
    Ratio,
    attention_cost,
    attention_entry_by_entry,
    attention_query_by_query,
    measure_ratio,
    multi_head_cost,
    token_products,
)
from attention_in_detail.stored import stored_result

STORED = ", ".join(
    sorted(
        path.name.removesuffix(".json")
        for path in resources.files("attention_in_detail.stored").iterdir()
        if path.name.endswith(".json")
    )
)


def draw(*shapes):
    rng = np.random.default_rng(11)
    return [rng.standard_normal(shape) for shape in shapes]


@pytest.mark.claim("prop-parallel-queries")
def test_a_loop_over_queries_equals_one_product():
    q, k, v = draw((2, 4, 3), (5, 3), (2, 5, 6))
    np.testing.assert_allclose(
        attention_query_by_query(q, k, v),
        attention(q, k, v),
        rtol=0,
        atol=1e-12,
    )


@pytest.mark.claim("prop-parallel-entries")
def test_a_loop_over_entries_equals_one_product():
    q, k, v = draw((2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 7))
    np.testing.assert_allclose(
        attention_entry_by_entry(q, k, v),
        attention(q, k, v),
        rtol=0,
        atol=1e-12,
    )


def test_entries_do_not_see_each_other():
    q, k, v = draw((2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 7))
    before = attention_entry_by_entry(q, k, v)
    v[1, 2] += 1
    after = attention_entry_by_entry(q, k, v)
    changed = (before != after).any(axis=(-1, -2))
    assert changed.tolist() == [[False, False, False], [False, False, True]]


@pytest.mark.claim("prop-attention-cost")
def test_cost_counts_every_multiplication():
    """Counted again as a program of loops would do them."""
    T, S, D_k, D_v, B = 3, 4, 5, 6, 2
    products = sum(
        1
        for _ in range(B)
        for _ in range(T)
        for _ in range(S)
        for _ in range(D_k)
    )
    sums = sum(
        1
        for _ in range(B)
        for _ in range(T)
        for _ in range(D_v)
        for _ in range(S)
    )
    cost = attention_cost(T, S, D_k, D_v, entries=B, itemsize=8)
    assert cost.multiply_adds == products + sums
    assert cost.exponentials == B * T * S
    q, k, v = (
        np.zeros((B, T, D_k)),
        np.zeros((B, S, D_k)),
        np.zeros((B, S, D_v)),
    )
    y, A = attention(q, k, v, return_weights=True)
    assert (
        cost.bytes_in_and_out == q.nbytes + k.nbytes + v.nbytes + y.nbytes
    )
    assert cost.bytes_between == 2 * A.nbytes


def multiply_adds(call):
    """Those that torch counts: each is two operations."""
    with FlopCounterMode(display=False) as counter:
        call()
    twice = counter.get_total_flops()
    assert twice % 2 == 0
    return twice // 2


@pytest.mark.claim("prop-attention-cost")
@pytest.mark.parametrize("sizes", [(3, 4, 5, 6), (8, 2, 7, 1)])
def test_attention_multiplies_as_often_as_its_cost_says(sizes):
    T, S, D_k, D_v = sizes
    B, h = 2, 3
    q, k, v = (
        torch.asarray(x)
        for x in draw((B, h, T, D_k), (B, h, S, D_k), (B, h, S, D_v))
    )
    cost = attention_cost(*sizes, entries=B * h)
    assert multiply_adds(lambda: attention(q, k, v)) == cost.multiply_adds


@pytest.mark.claim("prop-multi-head-cost")
@pytest.mark.parametrize("heads", [1, 2, 8])
@pytest.mark.parametrize(("B", "T", "D"), [(1, 3, 8), (5, 7, 16)])
def test_multi_head_attention_multiplies_as_often_as_its_cost_says(
    heads, B, T, D
):
    p = MultiHeadParameters.init(D, heads, seed=1, like=torch.ones(1))
    (x,) = (torch.asarray(x, dtype=torch.float32) for x in draw((B, T, D)))
    found = multiply_adds(lambda: multi_head_attention(p, x, x, x))
    assert found == multi_head_cost(T, D, heads, batch=B).multiply_adds
    assert found == B * (4 * T * D**2 + 2 * T**2 * D)


@pytest.mark.claim("prop-multi-head-cost")
def test_heads_change_the_exponentials_and_not_the_products():
    one, eight = multi_head_cost(16, 64, 1), multi_head_cost(16, 64, 8)
    assert (
        one.multiply_adds
        == eight.multiply_adds
        == 4 * 16 * 64**2 + 2 * 16**2 * 64
    )
    assert eight.exponentials == 8 * one.exponentials == 8 * 16**2
    assert eight.bytes_between == 8 * one.bytes_between


@pytest.mark.claim("prop-multi-head-cost")
def test_multi_head_cost_counts_the_four_matrices_and_the_batch():
    cost = multi_head_cost(3, 8, 2, batch=5, itemsize=2)
    assert cost.bytes_in_and_out == 2 * (2 * 5 * 3 * 8 + 4 * 8 * 8)
    assert cost.multiply_adds == 5 * (4 * 3 * 8 * 8 + 2 * 3 * 3 * 8)


class Number:
    """A number that counts the products in which it stands on the left, a division as one."""

    products = 0

    def __init__(self, value):
        self.value = float(getattr(value, "value", value))

    def __add__(self, other):
        return Number(self.value + Number(other).value)

    __radd__ = __add__

    def __mul__(self, other):
        Number.products += 1
        return Number(self.value * Number(other).value)

    def __truediv__(self, other):
        Number.products += 1
        return Number(self.value / Number(other).value)


numbers = np.vectorize(Number, otypes=[object])


def dot(x, y):
    return sum(a * b for a, b in zip(x, y, strict=True))


def step_by_numbers(p, x, cache, seen, *, turned, sloped, capped):
    """The output for the last row of x, which sees the kept keys of the positions `seen` and its own; and the products."""
    Number.products = 0
    at, row = len(x) - 1, numbers(x[-1])
    q, k, v = (
        np.array([dot(row, w) for w in W.T]).reshape(-1, p.D_h)
        for W in (p.W_Q, p.W_K, p.W_V)
    )
    if turned:
        for y in (*q, *k):
            for c in range(p.D_h // 2):
                angle = at * 10000.0 ** (-2 * c / p.D_h)
                cos, sin = math.cos(angle), math.sin(angle)
                a, b = y[2 * c : 2 * c + 2]
                y[2 * c : 2 * c + 2] = a * cos + b * -sin, a * sin + b * cos
    slopes, heads = head_slopes(p.heads), []
    for i in range(p.heads):
        j = i // p.sharing
        keys = [*cache.keys[j][seen], k[j]]
        values = [*cache.values[j][seen], v[j]]
        z = [Number(dot(q[i], y).value / math.sqrt(p.D_h)) for y in keys]
        if capped:
            z = [Number(math.tanh((one / 0.5).value)) * 0.5 for one in z]
        if sloped:
            back = [at - place for place in (*seen, at)]
            z = [
                one + Number(-n) * slopes[i]
                for one, n in zip(z, back, strict=True)
            ]
        E = [math.exp(one.value) for one in z]
        A = [Number(e / sum(E)) for e in E]
        heads += [dot(A, column) for column in zip(*values, strict=True)]
    y = [dot(heads, w).value for w in p.W_O.T]
    return np.array(y), Number.products


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize(
    ("turned", "sloped", "capped", "windowed"),
    [
        (False, False, False, False),
        (True, False, False, False),
        (False, True, False, False),
        (False, False, True, False),
        (False, False, False, True),
        (True, True, True, True),
    ],
)
def test_a_step_by_numbers_that_count_multiplies_as_often(
    kv_heads, turned, sloped, capped, windowed
):
    """And gives what the step with the cache gives: nothing was left out."""
    p = MultiHeadParameters.init(
        16, 4, kv_heads=kv_heads, bias=False, seed=2
    )
    (x,) = draw((9, 16))
    options = {
        "rotary_base": 10000.0 if turned else None,
        "slopes": head_slopes(4) if sloped else None,
        "cap": 0.5 if capped else None,
        "before": 3 if windowed else None,
        "sinks": 2 if windowed else 0,
    }
    seen = [0, 1, 5, 6, 7] if windowed else list(range(8))
    _, cache = cached_self_attention(p, x[:-1], **options)
    right, _ = cached_self_attention(p, x[-1:], cache, **options)
    flags = {"turned": turned, "sloped": sloped, "capped": capped}
    y, products = step_by_numbers(p, x, cache, seen, **flags)
    assert np.abs(y - right[0]).max() < 1e-12
    assert products == token_products(
        len(seen) + 1, 16, 4, kv_heads=kv_heads, **flags
    )


def test_products_of_a_token_by_hand():
    """Width 4 and 2 heads: four matrices of 16 numbers, 2 · 3 keys · 4 products; 16 for turning, 6 and 12 for scores."""
    assert token_products(3, 4, 2) == 64 + 24
    assert token_products(3, 4, 2, kv_heads=1) == 48 + 24
    assert token_products(3, 4, 2, turned=True) == 64 + 24 + 16
    assert token_products(3, 4, 2, sloped=True) == 64 + 24 + 6
    assert token_products(3, 4, 2, capped=True) == 64 + 24 + 12
    long = token_products(np.int32(2**20), np.int32(4096), np.int8(32))
    assert long == 4 * 4096**2 + 2 * 2**20 * 4096


def test_a_ratio_says_how_many_times_more_work_took_longer():
    """Not a timed test: a thousand times the work is more, on any machine."""
    ratio = measure_ratio(
        lambda: sum(range(200_000)), lambda: sum(range(200)), pairs=5
    )
    assert ratio.median > 1
    assert ratio.low <= ratio.median <= ratio.high
    assert ratio.pairs == 5


def test_a_ratio_reads_as_a_sentence():
    assert (
        str(Ratio(2.0, 1.5, 2.5, 9))
        == "2 times as long (middle half of 9: 1.5 to 2.5)"
    )


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: attention_query_by_query(np.ones((2, 3)), np.ones((2, 4)), np.ones((2, 4))),
            ValueError,
            "keys has D_k = 4, but queries has D_k = 3; "
            "queries and keys must share their width",
        ),
        (
            lambda: attention_query_by_query(np.ones((0, 3)), np.ones((2, 3)), np.ones((2, 4))),
            ValueError,
            "queries has T = 0, but must have T >= 1; a loop needs at least one round",
        ),
        (
            lambda: attention_entry_by_entry(np.ones((2, 1, 3)), np.ones((5, 3)), np.ones((2, 5, 3))),
            ValueError,
            "keys has the leading axes (), but queries has (2,); the loop needs the same for all",
        ),
        (
            lambda: attention_entry_by_entry(*[np.ones((0, 5, 3))] * 3),
            ValueError,
            "queries has the leading axes (0,); a loop needs at least one round",
        ),
        (lambda: attention_cost(0, 1, 1, 1), ValueError, "T is 0, but must be at least 1"),
        (
            lambda: multi_head_cost(4, 6, 4),
            ValueError,
            "heads = 4 does not divide D = 6; each head needs the same width D / heads >= 1",
        ),
        (lambda: token_products(0, 4, 2), ValueError, "S is 0, but must be at least 1"),
        (
            lambda: token_products(3, 6, 4),
            ValueError,
            "heads = 4 does not divide D = 6; each head needs the same width D / heads >= 1",
        ),
        (
            lambda: token_products(3, 8, 4, kv_heads=3),
            ValueError,
            "kv_heads = 3 does not divide heads = 4; each key head needs the same number of heads",
        ),
        (
            lambda: token_products(3, 6, 2, turned=True),
            ValueError,
            "D / heads is 3, but must be even: coordinates are turned in pairs",
        ),
        (lambda: token_products(3, 8, 4, capped=30.0), TypeError, "capped must be True or False, not float"),
        (lambda: measure_ratio(int, int, pairs=1), ValueError, "pairs is 1, but must be at least 2"),
        (lambda: stored_result("nothing"), ValueError, "name is 'nothing', but what is stored is: " + STORED),
    ],
)  # fmt: skip
def test_wrong_input_is_refused_in_one_line(call, kind, message):
    with pytest.raises(kind) as error:
        call()
    assert str(error.value) == message


def test_the_stored_result_says_on_what_it_was_measured():
    result = stored_result("parallelism")
    assert result["threads"] == 1
    assert set(result["versions"]) == {"python", "numpy"}
    assert result["machine"]
    assert len(result["date"]) == 10


@pytest.mark.claim("obs-parallel-heads")
def test_the_stored_result_supports_what_the_chapter_says():
    """Loops over queries lose everywhere; fused heads win when small and lose when large."""
    result = stored_result("parallelism")
    assert all(row["low"] > 2 for row in result["over_queries"])
    heads = {
        (row["D"], row["h"], row["T"]): row for row in result["over_heads"]
    }
    assert heads[64, 16, 16]["low"] > 2
    assert heads[512, 8, 512]["high"] < 1
    batch = {(row["B"], row["T"]): row for row in result["over_batch"]}
    assert batch[64, 4]["low"] > 5
    assert batch[8, 512]["high"] < 1
