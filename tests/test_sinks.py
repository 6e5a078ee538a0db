import numpy as np
import pytest
import torch

from attention_in_detail import (
    attention,
    causal_mask,
    sink_mask,
    window_mask,
)
from tests.support import assert_close, normal


def table(mask):
    """A mask as it is drawn on paper."""
    return [
        "".join("1" if open_ else "." for open_ in row)
        for row in np.asarray(mask).tolist()
    ]


@pytest.mark.claim("def-today-sinks")
def test_a_window_that_keeps_its_sinks():
    window = window_mask(6, before=1, after=0)
    assert table(window | sink_mask(6, sinks=2)) == [
        "1.....",
        "11....",
        "111...",
        "1111..",
        "11.11.",
        "11..11",
    ]


def test_no_query_sees_a_sink_that_comes_after_it():
    assert table(sink_mask(3, 5, sinks=4)) == ["1....", "11...", "111.."]
    assert table(sink_mask(2, 4, sinks=0)) == ["....", "...."]


@pytest.mark.claim("def-today-sinks")
@pytest.mark.parametrize("offset", [-2, 0, 3])
@pytest.mark.parametrize("sinks", [0, 1, 4, 9])
def test_sink_mask_is_its_formula(sinks, offset):
    assert sink_mask(5, 7, sinks=sinks, offset=offset).tolist() == [
        [j < sinks and j <= i + offset for j in range(7)] for i in range(5)
    ]
    union = sink_mask(5, 7, sinks=sinks, offset=offset)
    assert not (union & ~causal_mask(5, 7, offset=offset)).any()


def test_sinks_come_in_the_library_and_on_the_device_of_like():
    mask = sink_mask(2, 3, sinks=1, like=torch.zeros(1))
    assert mask.dtype == torch.bool
    meta = torch.zeros(1, device="meta")
    assert sink_mask(2, sinks=1, like=meta).device.type == "meta"
    assert isinstance(sink_mask(2, sinks=np.int8(1)), np.ndarray)


@pytest.mark.claim("def-today-sinks")
@pytest.mark.parametrize("sinks", [0, 3])
@pytest.mark.parametrize("before", [0, 4])
def test_so_many_keys_are_enough_however_long_the_sequence(sinks, before):
    """What a window has shut may leave: the last query needs its sinks and the keys before it alone."""
    n = 50
    q, k, v = (normal(n, 4, seed=s) for s in range(3))
    mask = window_mask(n, before=before, after=0) | sink_mask(
        n, sinks=sinks
    )
    assert mask.sum(-1).max() == sinks + before + 1
    kept = [*range(sinks), *range(n - before - 1, n)]
    assert_close(
        attention(q[-1:], k[kept], v[kept]),
        attention(q, k, v, mask=mask)[-1:],
        1e-14,
    )
