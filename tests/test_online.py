"""Attention by blocks is attention: equal, exact where nothing may be attended, and never a (T, S) array."""

import itertools
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_in_detail import (
    PartialAttention,
    attention,
    attention_weights,
    causal_mask,
    combine_masks,
    merge_partial,
    online,
    online_attention,
    partial_attention,
)
from attention_in_detail._blocks import open_blocks
from attention_in_detail.stored import stored_result
from tests.block_support import BIAS, MASK, SHUT_BIAS, each_case
from tests.support import (
    B,
    D_k,
    D_v,
    S,
    T,
    assert_close,
    each_library,
    normal,
    numpy_of,
)

Q, K, V = normal(B, T, D_k), normal(B, S, D_k), normal(B, S, D_v)
each_cut = pytest.mark.parametrize("cut", [(1, 1), (2, 3), (100, 100)])


def with_library(make, given):
    return {
        name: make(x) if isinstance(x, np.ndarray) else x
        for name, x in given.items()
    }


def blocks(cut):
    return {"query_block": cut[0], "key_block": cut[1]}


# ---- the whole ----


@pytest.mark.parametrize("offset", [None, -9, 0, 4])
@each_cut
@each_case
@each_library
def test_attention_by_blocks_is_attention(make, given, cut, offset):
    causal = None if offset is None else causal_mask(T, S, offset=offset)
    mask = combine_masks(given.get("mask"), causal)
    expected = attention(Q, K, V, **given | {"mask": mask})
    found = online_attention(
        make(Q),
        make(K),
        make(V),
        **with_library(make, given),
        causal_offset=offset,
        **blocks(cut),
    )
    assert type(found) is type(make(Q))
    assert_close(found, expected, 1e-14)


lengths = st.integers(1, 300)


@st.composite
def problems(draw):
    T, S = draw(lengths), draw(lengths)
    D_k, D_v = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    arrays = [
        rng.standard_normal(shape)
        for shape in ((T, D_k), (S, D_k), (S, D_v))
    ]
    given = {}
    if draw(st.booleans()):
        given["mask"] = rng.random((T, S)) < draw(st.floats(0, 1))
    if draw(st.booleans()):
        bias = rng.standard_normal((T, S))
        given["bias"] = np.where(rng.random((T, S)) < 0.9, bias, -np.inf)
    offset = draw(st.none() | st.integers(-S, S))
    # Ten or eleven blocks along an axis at most: single rows have tests of their own.
    cut = [draw(st.integers(max(1, n // 10), 300)) for n in (T, S)]
    return arrays, given, offset, blocks(cut)


@settings(max_examples=20)
@given(problems())
def test_any_lengths_and_any_blocks_give_attention(problem):
    arrays, given, offset, cut = problem
    T, S = len(arrays[0]), len(arrays[1])
    causal = None if offset is None else causal_mask(T, S, offset=offset)
    mask = combine_masks(given.get("mask"), causal)
    for dtype, tolerance in (("float64", 1e-12), ("float32", 2e-6)):
        q, k, v = (x.astype(dtype) for x in arrays)
        own = {
            name: x if name == "mask" else x.astype(dtype)
            for name, x in given.items()
        }
        expected = attention(q, k, v, **own | {"mask": mask})
        for make in (np.asarray, torch.asarray):
            found = online_attention(
                *map(make, (q, k, v)),
                **with_library(make, own),
                causal_offset=offset,
                **cut,
            )
            assert_close(found, expected, tolerance)


@pytest.mark.slow
@settings(max_examples=300)
@given(problems())
def test_many_lengths_and_blocks_give_attention(problem):
    arrays, given, offset, cut = problem
    T, S = len(arrays[0]), len(arrays[1])
    causal = None if offset is None else causal_mask(T, S, offset=offset)
    mask = combine_masks(given.get("mask"), causal)
    for dtype, tolerance in (("float64", 1e-12), ("float32", 2e-6)):
        q, k, v = (x.astype(dtype) for x in arrays)
        own = {
            name: x if name == "mask" else x.astype(dtype)
            for name, x in given.items()
        }
        assert_close(
            online_attention(q, k, v, **own, causal_offset=offset, **cut),
            attention(q, k, v, **own | {"mask": mask}),
            tolerance,
        )


SHAPES = {
    "keys for all": ((B, T, D_k), (S, D_k), (B, S, D_v)),
    "axes of one": ((2, 1, T, D_k), (4, S, D_k), (1, S, D_v)),
    "values alone": ((T, D_k), (S, D_k), (B, S, D_v)),
    "no query": ((B, 0, D_k), (S, D_k), (S, D_v)),
    "no batch entry": ((0, T, D_k), (S, D_k), (S, D_v)),
    "values of no width": ((T, D_k), (S, D_k), (B, S, 0)),
}


@pytest.mark.parametrize("offset", [None, 0, -9])
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
@each_library
def test_batch_axes_broadcast_by_blocks_as_at_once(make, shapes, offset):
    arrays = [
        make(normal(*shape, seed=n)) for n, shape in enumerate(shapes)
    ]
    n = arrays[0].shape[-2]
    mask = (
        None
        if offset is None
        else causal_mask(n, S, offset=offset, like=arrays[0])
    )
    found = online_attention(
        *arrays, causal_offset=offset, query_block=2, key_block=3
    )
    assert_close(found, attention(*arrays, mask=mask), 1e-14)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"]
)
def test_half_precision_by_blocks_is_float32_rounded_once(dtype):
    half = [torch.tensor(x).to(dtype) for x in (Q, K, V, BIAS)]
    wide = [x.float() for x in half]
    cut = blocks((2, 3))
    found = online_attention(*half[:3], bias=half[3], **cut)
    exact = online_attention(*wide[:3], bias=wide[3], **cut)
    assert found.dtype == dtype
    assert torch.equal(found, exact.to(dtype))
    large = torch.full((2, 4), 300.0, dtype=dtype)
    assert (
        online_attention(large, large, large, key_block=1).isfinite().all()
    )


def test_whole_numbers_of_numpy_cut_too():
    found = online_attention(
        Q,
        K,
        V,
        causal_offset=np.int8(2),
        query_block=np.uint8(2),
        key_block=np.int64(3),
    )
    assert_close(
        found, attention(Q, K, V, mask=causal_mask(T, S, offset=2)), 1e-14
    )


def test_inputs_are_not_changed_by_blocks():
    arrays = [x.copy() for x in (Q, K, V, MASK, SHUT_BIAS)]
    for x in arrays:
        x.setflags(write=False)
    q, k, v, mask, bias = arrays
    assert online_attention(
        q, k, v, mask=mask, bias=bias, key_block=2
    ).any()


# ---- nothing attended, NaN, large numbers ----


@each_cut
@each_library
def test_a_query_that_may_attend_to_nothing_gets_zeros_by_blocks(make, cut):
    q = Q.copy()
    q[:, 1] = np.nan
    found = numpy_of(
        online_attention(
            make(q), make(K), make(V), mask=make(MASK), **blocks(cut)
        )
    )
    assert (found[:, 1] == 0).all()
    assert np.isfinite(found).all()


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
@each_cut
@each_library
def test_nan_in_the_padding_has_no_effect_by_blocks(make, cut, poison):
    k, v = K.copy(), V.copy()
    k[:, 4:], v[:, 4:] = poison, poison
    for options in (
        {"mask": np.arange(S) < 4},
        {"bias": np.where(np.arange(S) < 4, 0.0, -np.inf)},
        {"causal_offset": 3 - T + 1},
    ):
        found = online_attention(
            make(Q),
            make(k),
            make(v),
            **with_library(make, options),
            **blocks(cut),
        )
        offset = options.get("causal_offset")
        mask = None if offset is None else causal_mask(T, 4, offset=offset)
        expected = attention(Q, K[:, :4], V[:, :4], mask=mask)
        assert_close(found, expected, 1e-14)


@each_cut
def test_nan_that_takes_part_shows_by_blocks(cut):
    q, v = Q[0].copy(), V[0].copy()
    q[1, 0] = v[5, 2] = np.nan
    found = online_attention(q, K[0], V[0], **blocks(cut))
    assert np.isnan(found).all(-1).tolist() == [False, True, False]
    found = online_attention(Q[0], K[0], v, **blocks(cut))
    assert np.isnan(found).all(0).tolist() == [n == 2 for n in range(D_v)]
    bias = BIAS[0].copy()
    bias[2, 6] = np.nan
    found = online_attention(Q[0], K[0], V[0], bias=bias, **blocks(cut))
    assert np.isnan(found).all(-1).tolist() == [False, False, True]


@each_cut
def test_finite_input_gives_finite_output_by_blocks(cut):
    most = np.float32(3e38)
    v = np.full((S, 2), most, np.float32)
    q, k = Q[0].astype("f4"), K[0].astype("f4")
    assert_close(
        online_attention(q, k, v, **blocks(cut)) / most,
        np.ones((T, 2)),
        1e-6,
    )
    steep = online_attention(1e4 * Q[0], 1e4 * K[0], V[0], **blocks(cut))
    assert_close(steep, attention(1e4 * Q[0], 1e4 * K[0], V[0]), 1e-14)


# ---- merging ----


def parts_of(cuts, given=None, make=np.asarray):
    given = given or {}
    edges = [0, *cuts, S]
    return [
        partial_attention(
            make(Q),
            make(K[:, a:b]),
            make(V[:, a:b]),
            **{
                name: make(x if x.shape[-1] == 1 else x[..., a:b])
                for name, x in given.items()
            },
        )
        for a, b in itertools.pairwise(edges)
    ]


def assert_same(one, other, tolerance=1e-14):
    for name in ("output", "largest", "total"):
        assert_close(getattr(one, name), getattr(other, name), tolerance)


PAIRS = {"mask": MASK, "bias": SHUT_BIAS}


@each_library
def test_a_partial_result_is_attention_to_these_keys_alone(make):
    [part] = parts_of([], PAIRS, make)
    assert_close(part.output, attention(Q, K, V, **PAIRS), 1e-14)
    z = Q @ K.mT / np.sqrt(D_k) + np.where(MASK, SHUT_BIAS, -np.inf)
    assert_close(part.largest, z.max(-1), 1e-14)
    shift = np.where(np.isinf(z.max(-1)), 0, z.max(-1))
    sums = np.exp(z - shift[..., None]).sum(-1)
    assert_close(part.total, sums, 1e-14)
    empty = numpy_of(part.largest) == -np.inf
    assert empty.any()
    assert (numpy_of(part.total)[empty] == 0).all()


@each_library
def test_merging_disjoint_sets_of_keys_gives_attention_to_all(make):
    one, other = parts_of([3], PAIRS, make)
    [whole] = parts_of([], PAIRS, make)
    assert_same(merge_partial(one, other), whole)


def test_the_order_of_two_does_not_matter():
    one, other = parts_of([3], PAIRS)
    assert_same(merge_partial(one, other), merge_partial(other, one), 0)


def test_it_does_not_matter_which_of_three_merge_first():
    a, b, c = parts_of([2, 3], PAIRS)
    left = merge_partial(merge_partial(a, b), c)
    right = merge_partial(a, merge_partial(b, c))
    assert_same(left, right)
    [whole] = parts_of([], PAIRS)
    assert_same(left, whole)


@each_library
def test_merging_with_nothing_attended_changes_nothing(make):
    [part] = parts_of([], PAIRS, make)
    nothing = online.nothing_attended((B, T, D_v), like=make(V))
    for merged in (
        merge_partial(part, nothing),
        merge_partial(nothing, part),
    ):
        assert_same(merged, part, 0)
    shut = partial_attention(
        make(Q), make(K), make(V), mask=make(np.zeros((T, S), bool))
    )
    assert_same(shut, nothing, 0)
    assert_same(merge_partial(nothing, nothing), nothing, 0)


def test_a_merge_is_a_weighted_mean_of_the_two_outputs():
    one, other = parts_of([3])
    share = attention_weights(Q, K)[..., :3].sum(-1, keepdims=True)
    assert_close(
        merge_partial(one, other).output,
        share * one.output + (1 - share) * other.output,
        1e-14,
    )


def test_a_partial_result_cannot_be_changed():
    [part] = parts_of([])
    with pytest.raises(AttributeError):
        part.total = 0
    assert part != PartialAttention(part.output, part.largest, part.total)


# ---- what is never made, and what is not computed ----


class Watched(np.ndarray):
    """Notes the size of every array that comes from it."""

    largest = 0

    def __array_finalize__(self, source):
        Watched.largest = max(Watched.largest, self.size)

    def __array_function__(self, function, types, args, kwargs):
        result = super().__array_function__(function, types, args, kwargs)
        return (
            result.view(Watched)
            if isinstance(result, np.ndarray)
            else result
        )


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"causal_offset": 0},
        {"mask": np.arange(100) < 60},
        {"bias": np.arange(100.0)[:, None]},
    ],
    ids=["plain", "causal", "padding", "bias"],
)
def test_no_array_of_all_pairs_is_made(given):
    n, width = 100, 1
    q, k, v = (
        normal(n, width, seed=seed).view(Watched) for seed in range(3)
    )
    given = {
        name: x.view(Watched) if isinstance(x, np.ndarray) else x
        for name, x in given.items()
    }
    Watched.largest = 0
    online_attention(q, k, v, **given, query_block=10, key_block=20)
    assert Watched.largest == 10 * 20  # a block; an input has 100
    attention(q, k, v)
    assert Watched.largest == n * n


def blocks_computed(monkeypatch, **given):
    seen, real = [], partial_attention.unchecked

    def noting(queries, keys, values, **options):
        seen.append((queries.shape[-2], keys.shape[-2]))
        return real(queries, keys, values, **options)

    monkeypatch.setattr(partial_attention, "unchecked", noting)
    q, k, v = normal(10, 3), normal(12, 3), normal(12, 2)
    online_attention(q, k, v, query_block=2, key_block=3, **given)
    return seen


def needed(offset):
    """How many blocks of (2, 3) hold an open pair, counted by the mask."""
    open_ = causal_mask(10, 12, offset=offset).reshape(5, 2, 4, 3)
    return int(open_.any((1, 3)).sum())


@pytest.mark.parametrize("offset", [-20, -9, -3, 0, 2, 11, 20])
def test_a_block_that_the_offset_shuts_is_not_computed(monkeypatch, offset):
    seen = blocks_computed(monkeypatch, causal_offset=offset)
    assert len(seen) == needed(offset)
    assert set(seen) <= {(2, 3)}


def test_all_blocks_are_computed_without_an_offset(monkeypatch):
    assert len(blocks_computed(monkeypatch)) == 20
    assert [needed(n) for n in (-20, 0, 20)] == [0, 12, 20]


def test_only_blocks_on_the_edge_have_a_causal_mask():
    cut = {"query_block": 2, "key_block": 3, "causal_offset": 2}
    for rows, columns in open_blocks(10, 12, **cut):
        for place, mask in columns:
            part = causal_mask(10, 12, offset=2)[rows, place]
            assert part.any()
            assert (mask is None) == part.all()
            if mask is not None:
                assert np.array_equal(mask(like=None), part)


def peak(call):
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    result = call()
    highest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (highest - before - result.nbytes) / 2**20


def test_memory_does_not_grow_with_the_number_of_pairs():
    q, k, v = (normal(1024, 8, seed=n) for n in range(3))
    cut = blocks((64, 64))
    assert peak(lambda: online_attention(q, k, v, **cut)) < 1
    assert peak(lambda: attention(q, k, v)) > 1024**2 * 8 / 2**20


def test_the_stored_measurement_says_what_the_blocks_are_for():
    """Not a timed test: it reads what bench/online_attention.py stored."""
    measured = stored_result("online_attention")
    rows = {row["T"]: row for row in measured["over_lengths"]}
    assert measured["threads"] == 1
    assert rows[8192]["time"]["high"] < 1
    assert rows[16384]["mib_by_blocks"] < 64
    assert rows[8192]["mib_at_once"] > 100 * rows[8192]["mib_by_blocks"]
    assert measured["query_block"] == online.QUERY_BLOCK
    assert measured["key_block"] == online.KEY_BLOCK


@pytest.mark.slow
def test_sixteen_thousand_positions_take_less_than_64_mib():
    q, k, v = (
        normal(16384, 64, seed=n, dtype=np.float32) for n in range(3)
    )
    for offset in (None, 0):
        used = peak(
            lambda o=offset: online_attention(q, k, v, causal_offset=o)
        )
        assert used < 64
