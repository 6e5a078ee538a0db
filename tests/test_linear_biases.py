import math

import numpy as np
import pytest
import torch

from attention_in_detail import (
    attention_weights,
    causal_mask,
    head_slopes,
    linear_bias,
    multi_head_attention,
)
from tests.page_numbers import PAGES, markdown
from tests.support import (
    B,
    D_k,
    D_q,
    D_v,
    S,
    T,
    assert_close,
    each_library,
    h,
    normal,
    parameters,
)


def published_slopes(n):
    """What the code that the authors published does, in its own way: it calls itself."""
    if math.log2(n).is_integer():
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]
    closest = 2 ** math.floor(math.log2(n))
    return (
        published_slopes(closest)
        + published_slopes(2 * closest)[0::2][: n - closest]
    )


@pytest.mark.parametrize("heads", [*range(1, 34), 40, 71, 112])
def test_slopes_are_those_that_were_published(heads):
    ours = head_slopes(heads)
    assert_close(ours, np.array(published_slopes(heads)), 1e-15)
    assert len(set(ours.tolist())) == heads
    assert ((ours > 0) & (ours < 1)).all()


def test_slopes_by_hand():
    assert head_slopes(8).tolist() == [2.0**-n for n in range(1, 9)]
    assert head_slopes(2).tolist() == [2.0**-4, 2.0**-8]
    assert head_slopes(3).tolist() == [2.0**-4, 2.0**-8, 2.0**-2]
    assert head_slopes(np.int8(1)).tolist() == [2.0**-8]


@pytest.mark.parametrize("heads", [3, 5, 6, 7, 12, 40, 71])
def test_the_first_slope_that_fills_up_is_the_steepest(heads):
    """So they do not lie between the others, as a page and a docstring once said."""
    slopes = head_slopes(heads)
    power = 2 ** int(math.log2(heads))
    own, more = slopes[:power], slopes[power:]
    assert_close(own, head_slopes(power), 0)
    assert_close(more, head_slopes(2 * power)[::2][: heads - power], 0)
    assert more[0] > own.max()
    assert (more[1:] < more[0]).all()
    assert "between" not in head_slopes.__doc__.split("Args:")[0]
    assert "slopes from between" not in markdown(PAGES["35_todays_models"])


@pytest.mark.claim("def-today-bias")
@each_library
@pytest.mark.parametrize("offset", [0, 4, -1])
def test_the_bias_is_its_formula(make, offset):
    slopes = np.array([0.5, 0.25, 2.0])
    b = linear_bias(T, S, slopes=make(slopes), offset=offset)
    expected = [
        [[-m * abs(i + offset - j) for j in range(S)] for i in range(T)]
        for m in slopes
    ]
    assert_close(b, np.array(expected), 0)
    assert type(b) is type(make(slopes))
    assert linear_bias(T, slopes=make(slopes)).shape == (3, T, T)
    assert linear_bias(0, S, slopes=make(slopes)).shape == (3, 0, S)


@pytest.mark.claim("prop-today-bias")
def test_weights_are_those_of_bloom_in_transformers():
    """There the bias is m · j, without the query: a row of scores may be shifted as a whole."""
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    for heads in (4, 6):
        mask = torch.ones(1, S, dtype=torch.long)
        theirs = build_alibi_tensor(mask, heads, torch.float64)
        slopes = head_slopes(heads, like=theirs)
        q, k = (torch.tensor(normal(heads, S, 4, seed=n)) for n in (1, 2))
        causal = causal_mask(S, like=q)
        ours = linear_bias(S, slopes=slopes)
        assert theirs.shape == (heads, 1, S)
        assert not torch.equal(ours, theirs.expand(ours.shape))
        assert_close(
            attention_weights(q, k, mask=causal, bias=ours),
            attention_weights(q, k, mask=causal, bias=theirs),
            1e-6,
        )


def test_a_query_that_comes_later_has_the_same_bias():
    slopes = head_slopes(3)
    whole = linear_bias(S, slopes=slopes)
    assert_close(
        linear_bias(2, S, slopes=slopes, offset=S - 2), whole[:, -2:], 0
    )


def test_the_bias_goes_to_each_head_of_multi_head_attention():
    p, slopes = parameters(), head_slopes(h)
    q, k, v = (normal(B, n, w) for n, w in ((T, D_q), (S, D_k), (S, D_v)))
    bias = linear_bias(T, S, slopes=slopes, offset=2)
    every = np.broadcast_to(bias, (B, h, T, S))
    assert_close(
        multi_head_attention(p, q, k, v, bias=every),
        np.stack(
            [
                multi_head_attention(p, q[b], k[b], v[b], bias=bias)
                for b in range(B)
            ]
        ),
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_rounded_once(dtype):
    slopes = head_slopes(6, like=torch.zeros(1, dtype=dtype))
    b = linear_bias(300, slopes=slopes)
    assert b.dtype == slopes.dtype == dtype
    exact = linear_bias(300, slopes=slopes.float())
    assert torch.equal(b, exact.to(dtype))
