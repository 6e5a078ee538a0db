import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from attention_in_detail import (
    KeyValueCache,
    MultiHeadParameters,
    cache_bytes,
    cached_self_attention,
    capped_attention,
    causal_mask,
    head_slopes,
    linear_bias,
    map_arrays,
    merge_heads,
    multi_head_attention,
    repeat_heads,
    rotate,
    self_attention,
    sink_mask,
    split_heads,
    window_mask,
)
from tests.page_numbers import statement
from tests.support import (
    MAKERS,
    assert_close,
    each_library,
    normal,
    numpy_of,
    parameters,
)

WIDTH = 5


def grouped(make=np.asarray, kv_heads=2, dtype=np.float64, **options):
    """Six heads of width 4 that read one sequence of width 5."""
    widths = dict.fromkeys(("D_q", "D_k", "D_v"), WIDTH)
    given = {"D": 24, "heads": 6, "kv_heads": kv_heads} | widths | options
    return parameters(make, dtype=dtype, **given)


def in_pieces(p, x, cuts, **options):
    """The outputs of the pieces, one after the other, and the last cache."""
    cache, parts, at = None, [], 0
    for size in cuts:
        y, cache = cached_self_attention(
            p, x[..., at : at + size, :], cache, **options
        )
        parts.append(numpy_of(y))
        at += size
    return np.concatenate(parts, axis=-2), cache


VARIANTS = {
    "plain": {},
    "rotary": {"rotary_base": 10000.0},
    "slopes": {"slopes": head_slopes(6)},
    "window": {"before": 2},
    "window and sinks": {"before": 1, "sinks": 2},
    "cap": {"cap": 0.5},
    "all": {
        "rotary_base": 100.0,
        "slopes": head_slopes(6),
        "before": 1,
        "sinks": 2,
        "cap": 0.5,
    },
}
each_variant = pytest.mark.parametrize(
    "options", VARIANTS.values(), ids=VARIANTS
)


def taken_to(make, options, dtype=np.float64):
    return {
        name: make(x.astype(dtype)) if name == "slopes" else x
        for name, x in options.items()
    }


# ---- what it computes ----


@pytest.mark.claim("def-today-cache")
@each_library
def test_without_a_cache_it_is_causal_self_attention(make):
    p, x = grouped(make), make(normal(3, 7, WIDTH))
    output, cache = cached_self_attention(p, x)
    mask = causal_mask(7, like=x)
    assert_close(output, self_attention(p, x, mask=mask))
    assert cache.keys.shape == cache.values.shape == (3, 2, 7, 4)
    assert type(output) is type(x)


@each_library
def test_window_sinks_and_slopes_are_masks_and_a_bias(make):
    p, x = grouped(make), make(normal(3, 7, WIDTH))
    slopes = head_slopes(6, like=x)
    output, _ = cached_self_attention(
        p, x, slopes=slopes, before=2, sinks=1
    )
    mask = window_mask(7, before=2, after=0, like=x) | sink_mask(
        7, sinks=1, like=x
    )
    bias = linear_bias(7, slopes=slopes)
    every = make(np.stack([numpy_of(bias)] * 3))
    assert_close(output, self_attention(p, x, mask=mask, bias=every))


def test_rotary_turns_queries_and_keys_but_no_values_and_the_cap_follows():
    p, x = grouped(kv_heads=6), normal(7, WIDTH)
    output, cache = cached_self_attention(p, x, rotary_base=100.0, cap=0.5)
    q, k, v = (
        split_heads(x @ W + b, 6)
        for W, b in ((p.W_Q, p.b_Q), (p.W_K, p.b_K), (p.W_V, p.b_V))
    )
    places = np.arange(7)
    turned = rotate(k, places, base=100.0)
    assert_close(cache.keys, turned)
    assert_close(cache.values, v)
    H = capped_attention(
        rotate(q, places, base=100.0),
        turned,
        v,
        cap=0.5,
        mask=causal_mask(7),
    )
    assert_close(output, merge_heads(H) @ p.W_O + p.b_O)


def test_without_an_output_projection_the_heads_come_as_they_are():
    p, x = grouped(output=False), normal(7, WIDTH)
    output, _ = cached_self_attention(p, x)
    assert output.shape == (7, 24)
    assert_close(output, self_attention(p, x, mask=causal_mask(7)))


# ---- cached is uncached ----


def assert_same_but_for_rounding(actual, desired):
    """Equal to 1e-6, of the largest number where that is above 1.

    A number of float32 is off by up to 2**-24 of its size, about 6e-8, so that two sums of numbers near 8 cannot agree to
    an absolute 1e-6. A cut changes how many rows a product has, the library then adds in another order, and what differs
    grows in proportion to what is added. So the promise of 1e-6, nearly 17 such roundings, is one for numbers up to 1.
    """
    actual, desired = numpy_of(actual), numpy_of(desired)
    assert actual.shape == desired.shape
    size = max(1, np.abs(desired).max())
    assert np.abs(actual - desired).max() < 1e-6 * size


def at_most_one(p, outputs):
    """The same layer with what it adds up last made small enough for these outputs to be at most 1."""
    scale = 1 / max(1, 1.001 * float(np.abs(outputs).max()))
    return replace(p, W_O=scale * p.W_O, b_O=scale * p.b_O)


@pytest.mark.claim("prop-today-cached")
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=6),
    st.sampled_from([1, 2, 3, 6]),
    st.integers(0, 3),
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(), (2,), (2, 1)]),
    st.sampled_from(["numpy", "torch"]),
    st.integers(0, 10**6),
)
# Outputs up to 3.4: two that differ by 1.2e-6.
@example([1, 1, 1, 2, 3, 4], 3, 1, 3, False, True, (), "torch", 2)
def test_cached_is_uncached_however_the_sequence_is_cut(
    cuts, kv_heads, before, sinks, rotary, sloped, batch, library, seed
):
    """In float32, with a window, sinks and shared key heads together; positions turned or with slopes, or not."""
    make, dtype = MAKERS[library], np.float32
    p = grouped(make, kv_heads, dtype, seed=seed % 7)
    x = make(normal(*batch, sum(cuts), WIDTH, seed=seed, dtype=dtype))
    options = {
        "before": before,
        "sinks": sinks,
        "rotary_base": 10000.0 if rotary else None,
        "slopes": head_slopes(6, like=x) if sloped else None,
    }
    whole, full = cached_self_attention(p, x, **options)
    pieces, cache = in_pieces(p, x, cuts, **options)
    assert cache.length == full.length == sum(cuts)
    assert_same_but_for_rounding(pieces, whole)
    assert_same_but_for_rounding(cache.keys, full.keys)
    assert_same_but_for_rounding(cache.values, full.values)
    # And to 1e-6 itself, where outputs are at most 1.
    small = at_most_one(p, numpy_of(whole))
    whole, _ = cached_self_attention(small, x, **options)
    pieces, _ = in_pieces(small, x, cuts, **options)
    assert np.abs(numpy_of(whole)).max() <= 1
    assert np.abs(pieces - numpy_of(whole)).max() < 1e-6


def test_rounding_grows_with_the_scores():
    """So no bound by the size of the outputs alone holds for all models: the proposition states none."""
    x, lost = normal(64, 128), []
    for factor in (1, 4, 16):
        p = MultiHeadParameters.init(128, 4, seed=1)
        p = replace(p, W_Q=factor * p.W_Q, W_K=factor * p.W_K)
        exact, _ = cached_self_attention(p, x)
        short = map_arrays(p, lambda y: y.astype(np.float32))
        rounded, _ = cached_self_attention(short, x.astype(np.float32))
        apart = np.abs(rounded - exact).max()
        lost.append(apart / np.abs(exact).max())
    assert lost[0] < 1e-6
    assert lost[0] < lost[1] < lost[2]
    assert lost[2] > 1e-6
    assert "float32" not in statement("prop-today-cached")


@pytest.mark.parametrize(
    ("heads", "kv_heads", "seed", "options", "T", "cuts"),
    [
        (4, None, 35, {}, 12, [7, 1, 1, 3]),
        (4, None, 35, {}, 12, [1] * 12),
        (
            8,
            2,
            3,
            {
                "rotary_base": 10000.0,
                "slopes": head_slopes(8),
                "before": 4,
                "sinks": 2,
                "cap": 30.0,
            },
            40,
            [25, 1, 1, 6, 7],
        ),
    ],
    ids=["plain", "token by token", "all at once"],
)
def test_a_layer_of_the_page_is_as_exact_as_the_page_says(
    heads, kv_heads, seed, options, T, cuts
):
    """The trained model is held to the same in test_chapter_35.py."""
    p = MultiHeadParameters.init(32, heads, kv_heads=kv_heads, seed=seed)
    p = map_arrays(p, lambda y: y.astype(np.float32))
    options = taken_to(np.asarray, options, np.float32)
    for drawn in range(20):
        x = normal(T, 32, seed=drawn, dtype=np.float32)
        whole, _ = cached_self_attention(p, x, **options)
        apart = np.abs(in_pieces(p, x, cuts, **options)[0] - whole).max()
        assert apart < 1e-6 * np.abs(whole).max()


@pytest.mark.claim("prop-today-cached")
@each_variant
@each_library
def test_cached_is_uncached_token_by_token_in_each_variant(make, options):
    p, x = grouped(make), make(normal(2, 6, WIDTH))
    options = taken_to(make, options)
    whole, _ = cached_self_attention(p, x, **options)
    assert_close(in_pieces(p, x, [1] * 6, **options)[0], whole)
    assert_close(in_pieces(p, x, [4, 1, 1], **options)[0], whole)


@each_variant
@each_library
def test_the_weights_are_those_that_blend_the_values(make, options):
    p, x = grouped(make, output=False), make(normal(2, 6, WIDTH))
    options = taken_to(make, options)
    _, cache = cached_self_attention(p, x[..., :4, :], **options)
    for piece, known in ((x, None), (x[..., 4:, :], cache)):
        output, _ = cached_self_attention(p, piece, known, **options)
        same, after, A = cached_self_attention(
            p, piece, known, return_weights=True, **options
        )
        assert_close(same, output, 0)
        assert A.shape == (2, 6, piece.shape[1], 6)
        values = repeat_heads(after.values, 3)
        assert_close(merge_heads(A @ values), output)


@each_variant
def test_each_variant_says_something_of_its_own(options):
    p, x = grouped(), normal(2, 6, WIDTH)
    plain, _ = cached_self_attention(p, x)
    other, _ = cached_self_attention(p, x, **options)
    apart = np.abs(plain - other).max(axis=(0, -1))
    assert (apart.max() > 1e-3) == bool(options)
    assert apart[0] < 1e-12  # the first query sees itself alone


@pytest.mark.claim("def-today-cache")
def test_the_other_corner_shuts_what_came_before():
    """Aligned at the first key, a step would see the beginning of the sequence and nothing else."""
    p, x = grouped(), normal(6, WIDTH)
    whole, _ = cached_self_attention(p, x)
    first, _ = cached_self_attention(p, x[:1])

    def last(offset):
        mask = causal_mask(1, 6, offset=offset)
        return multi_head_attention(p, x[5:], x, x, mask=mask)

    assert_close(last(5), whole[5:])
    assert_close(last(0), first)
    assert np.abs(first - whole[5:]).max() > 0.01


def test_moving_on_changes_nothing_where_positions_turn():
    """With rotary positions, what the scores see is the distance: a window forgets where it began."""
    p = grouped()
    x = normal(9, WIDTH)
    late, _ = cached_self_attention(p, x, rotary_base=100.0, before=2)
    early, _ = cached_self_attention(p, x[4:], rotary_base=100.0, before=2)
    assert_close(late[6:], early[2:])
    assert np.abs(late[4] - early[0]).max() > 1e-3


def test_a_step_leaves_its_cache_as_it_was():
    p, x = grouped(), normal(6, WIDTH)
    _, first = cached_self_attention(p, x[:4])
    keys = first.keys.copy()
    one, more = cached_self_attention(p, x[4:], first)
    two, _ = cached_self_attention(p, x[4:], first)
    assert np.array_equal(one, two)
    assert (first.length, more.length) == (4, 6)
    assert np.array_equal(first.keys, keys)


def test_gradients_reach_what_the_cache_holds():
    p = grouped(lambda x: torch.tensor(x, requires_grad=True))
    x = torch.tensor(normal(5, WIDTH), requires_grad=True)
    _, cache = cached_self_attention(p, x[:4])
    y, _ = cached_self_attention(p, x[4:], cache)
    y.square().sum().backward()
    cached = x.grad.clone()
    x.grad = None
    whole, _ = cached_self_attention(p, x)
    whole[4:].square().sum().backward()
    assert_close(cached, x.grad)
    assert x.grad[0].abs().max() > 0


# ---- bytes ----


@pytest.mark.claim("prop-today-bytes")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("kv_heads", [1, 2, 6])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_bytes_as_computed_are_those_of_the_arrays(
    library, kv_heads, dtype
):
    make = MAKERS[library]
    p = grouped(make, kv_heads, np.dtype(dtype))
    x = make(normal(3, 7, WIDTH, dtype=np.dtype(dtype)))
    _, cache = cached_self_attention(p, x)
    held = sum(y.nbytes for y in (cache.keys, cache.values))
    assert (
        held
        == cache.bytes
        == cache_bytes(
            7,
            layers=1,
            kv_heads=kv_heads,
            D_h=4,
            batch=3,
            itemsize=np.dtype(dtype).itemsize,
        )
    )


@pytest.mark.claim("prop-today-bytes")
def test_bytes_of_a_cache_by_hand():
    """2 · 32 layers · 32 heads · 128 · 2 bytes: half a megabyte a token; a quarter of that with 8 key heads."""
    model = {"layers": 32, "D_h": 128}
    assert cache_bytes(1, kv_heads=32, **model) == 524_288
    assert cache_bytes(1, kv_heads=8, **model) == 131_072
    assert cache_bytes(0, kv_heads=8, **model) == 0
    long = cache_bytes(
        np.int32(2**20), kv_heads=np.int8(8), batch=64, **model
    )
    assert long == 64 * 2**20 * 131_072
    uneven = KeyValueCache(normal(2, 5, 3), normal(2, 5, 7))
    assert uneven.bytes == 2 * 5 * (3 + 7) * 8
    half = KeyValueCache(*(torch.zeros(2, 5, 3).bfloat16(),) * 2)
    assert half.bytes == 2 * 2 * 5 * 3 * 2
    assert math.isclose(long / 2**40, 8.0)
