"""Three passes, two passes and one give the same mean; each reads what its name says."""

import numpy as np
import pytest
import torch

from attention_in_detail import attention, partial_attention, scores
from attention_in_detail.passes import (
    one_pass,
    running_sum,
    three_passes,
    two_passes,
)
from tests.support import (
    B,
    D_k,
    D_v,
    S,
    T,
    assert_close,
    coin,
    each_library,
    normal,
    numpy_of,
)

Q, K, V = normal(B, T, D_k), normal(B, S, D_k), normal(B, S, D_v)
Z = scores(Q, K)
SHUT = np.where(coin(B, T, S, seed=4), Z, -np.inf)
SHUT[:, 1] = -np.inf
ALL = (three_passes, two_passes, one_pass)
each_way = pytest.mark.parametrize("way", ALL, ids=lambda f: f.__name__)
FIELDS = ("output", "largest", "total")


@pytest.mark.parametrize("z", [Z, SHUT, 1e3 * Z], ids=["", "shut", "steep"])
@each_way
@each_library
def test_each_way_gives_what_attention_to_these_keys_gives(make, way, z):
    found = way(make(z), make(V))
    # Queries of zeros: the bias alone makes the scores.
    expected = partial_attention(0 * Q, K, V, bias=z)
    assert type(found.output) is type(make(V))
    for name in FIELDS:
        assert_close(getattr(found, name), getattr(expected, name), 1e-14)
    if z is Z:
        assert_close(found.output, attention(Q, K, V), 1e-14)


@each_library
def test_largest_score_and_sum_in_one_pass(make):
    for z in (Z, SHUT):
        largest, total = running_sum(make(z))
        expected = three_passes(z, V)
        assert_close(largest, expected.largest, 0)
        assert_close(total, expected.total, 1e-14)


@each_way
def test_what_came_so_far_is_what_the_first_scores_give(way):
    for n in range(1, S + 1):
        found = way(Z[..., :n], V[..., :n, :])
        expected = attention(Q, K[:, :n], V[:, :n])
        assert_close(found.output, expected, 1e-14)


SHAPES = {
    "values for all": ((B, T, S), (S, D_v)),
    "scores for all": ((T, S), (B, S, D_v)),
    "axes of one": ((2, 1, T, S), (4, S, D_v)),
    "no query": ((B, 0, S), (B, S, D_v)),
    "values of no width": ((T, S), (B, S, 0)),
}


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
@each_way
def test_batch_axes_broadcast_in_passes(way, shapes):
    z, v = (normal(*shape, seed=n) for n, shape in enumerate(shapes))
    found = way(z, v).output
    expected = np.exp(z) / np.exp(z).sum(-1, keepdims=True) @ v
    assert_close(found, expected, 1e-14)


@each_way
def test_half_precision_is_summed_in_float32(way):
    z, v = torch.tensor(Z).half(), torch.tensor(V).half()
    found = way(z, v)
    assert found.output.dtype == torch.float32
    exact = way(z.double(), v.double())
    for name in FIELDS:
        assert_close(getattr(found, name), getattr(exact, name), 1e-6)


class Counted(np.ndarray):
    """Notes each reading of a part by its index."""

    read = 0

    def __getitem__(self, index):
        Counted.read += 1
        return np.asarray(self)[index]


def reads(call, z):
    Counted.read = 0
    call(z.view(Counted))
    return Counted.read / z.shape[-1]


@pytest.mark.claim("def-linear-three")
def test_three_passes_read_each_score_three_times():
    assert reads(lambda z: three_passes.unchecked(z, V), Z) == 3


@pytest.mark.claim("prop-linear-two")
def test_two_passes_read_each_score_twice():
    assert reads(lambda z: two_passes.unchecked(z, V), Z) == 2
    assert reads(running_sum.unchecked, Z) == 1


@pytest.mark.claim("prop-linear-one")
def test_one_pass_reads_each_score_and_each_value_once():
    assert reads(lambda z: one_pass.unchecked(z, V), Z) == 1
    assert reads(lambda v: one_pass.unchecked(Z, v), V) == S / D_v
    seen = numpy_of(one_pass(Z, V).output)
    assert_close(seen, attention(Q, K, V), 1e-14)
