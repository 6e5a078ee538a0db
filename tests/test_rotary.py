import cmath
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_in_detail import rotate, scores
from tests.support import B, T, assert_close, each_library, leaves, normal

each_pairing = pytest.mark.parametrize("pairs", ["adjacent", "halves"])
D_h, S = 6, 7


def by_complex_numbers(x, positions, *, base=10000.0, pairs="adjacent"):
    """Each pair as one complex number, multiplied by one of length 1: a way of its own."""
    D_h = x.shape[-1]
    turned = np.empty_like(x)
    for row, p, out in zip(x, positions, turned, strict=True):
        for c in range(D_h // 2):
            a, b = (
                (2 * c, 2 * c + 1)
                if pairs == "adjacent"
                else (c, c + D_h // 2)
            )
            z = complex(row[a], row[b])
            z *= cmath.exp(1j * float(p) * base ** (-2 * c / D_h))
            out[a], out[b] = z.real, z.imag
    return turned


@pytest.mark.claim("def-today-rotary")
@pytest.mark.parametrize("base", [10000.0, 500_000, 2])
@each_pairing
@each_library
def test_pairs_turn_as_complex_numbers_do(make, pairs, base):
    x, p = normal(4, D_h), np.array([0, 3, -2, 70_000])
    ours = rotate(make(x), make(p), base=base, pairs=pairs)
    assert_close(ours, by_complex_numbers(x, p, base=base, pairs=pairs))
    assert type(ours) is type(make(x))


@pytest.mark.claim("def-today-rotary")
def test_a_turn_by_hand():
    """A quarter turn would need the position π/2; two pairs turn by 1 and by 1/100."""
    x = np.array([[1.0, 0, 0, 1]])
    one = rotate(x, np.array([1]))
    slow = 1 / 100
    assert_close(
        one,
        np.array(
            [[math.cos(1), math.sin(1), -math.sin(slow), math.cos(slow)]]
        ),
        1e-15,
    )
    assert np.array_equal(rotate(x, np.array([0])), x)


@pytest.mark.claim("thm-today-distance")
@each_pairing
@each_library
def test_scores_of_turned_rows_depend_on_the_distance_alone(make, pairs):
    """Pairs of positions with one distance have one score, wherever they lie, below 0 too."""
    q, k = normal(D_h), normal(D_h, seed=1)
    p = np.arange(-20, 21)
    many = np.ones((41, 1))
    z = np.asarray(
        scores(
            rotate(make(q * many), make(p), pairs=pairs),
            rotate(make(k * many), make(p), pairs=pairs),
        )
    )
    for distance in range(-40, 41):
        diagonal = np.diagonal(z, -distance)
        assert np.ptp(diagonal) < 1e-12
    assert all(
        abs(z[i, 0] - z[j, 0]) > 1e-6 for i, j in pairwise(range(41))
    )


@pytest.mark.claim("thm-today-distance")
@given(
    st.integers(-(10**5), 10**5),
    st.integers(0, 10**6),
    st.sampled_from(["adjacent", "halves"]),
)
def test_moving_all_positions_by_the_same_changes_no_score(
    shift, seed, pairs
):
    rng = np.random.default_rng(seed)
    q, k = rng.standard_normal((2, 5, 8))
    i, j = rng.integers(-50, 50, (2, 5))

    def z(more):
        return scores(
            rotate(q, i + more, pairs=pairs),
            rotate(k, j + more, pairs=pairs),
        )

    # An angle of 100,000 is rounded at the 11th digit.
    assert_close(z(shift), z(0), 1e-12 * max(1, abs(shift)))


@each_pairing
def test_no_row_gets_longer_or_shorter_and_turns_add_up(pairs):
    x, p = normal(T, D_h), np.array([4, -9, 1000])
    turned = rotate(x, p, pairs=pairs)
    assert_close((turned**2).sum(-1), (x**2).sum(-1))
    assert_close(
        rotate(turned, -p, pairs=pairs),
        x,
    )
    assert_close(
        rotate(turned, p + 1, pairs=pairs),
        rotate(x, 2 * p + 1, pairs=pairs),
    )


def test_one_pairing_is_the_other_with_its_coordinates_reordered():
    """So weights for one become weights for the other: reorder the columns of W_Q and W_K."""
    x, p = normal(T, D_h), np.array([1, 5, 8])
    order = [0, 2, 4, 1, 3, 5]
    assert_close(
        rotate(x, p)[:, order],
        rotate(x[:, order], p, pairs="halves"),
        1e-15,
    )


# ---- equal to transformers ----


def test_halves_are_those_of_llama_in_transformers():
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import (
        LlamaRotaryEmbedding,
        apply_rotary_pos_emb,
    )

    q, k = (torch.tensor(normal(B, 2, S, 8, seed=n)) for n in (1, 2))
    positions = torch.arange(3, 3 + S)
    rates = 10000.0 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    angles = (positions[:, None] * rates).repeat(1, 2)[None]
    theirs = apply_rotary_pos_emb(q, k, angles.cos(), angles.sin())
    config = LlamaConfig(hidden_size=16, num_attention_heads=2, head_dim=8)
    cos, sin = LlamaRotaryEmbedding(config)(q.float(), positions[None])
    whole = apply_rotary_pos_emb(q.float(), k.float(), cos, sin)
    for x, one, other in zip((q, k), theirs, whole, strict=True):
        ours = rotate(x, positions, pairs="halves")
        assert_close(ours, one)
        assert_close(
            rotate(x.float(), positions, pairs="halves"), other, 1e-6
        )
        assert (rotate(x, positions) - ours).abs().max() > 0.1


def test_adjacent_pairs_are_those_of_gpt_j_in_transformers():
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb

    x = torch.tensor(normal(B, S, 2, 8))  # there the heads come last
    p = torch.arange(S)
    angles = p[:, None] * 10000.0 ** (
        -torch.arange(0, 8, 2, dtype=torch.float64) / 8
    )
    sin, cos = (f(angles).expand(B, -1, -1) for f in (torch.sin, torch.cos))
    theirs = apply_rotary_pos_emb(x, sin, cos).transpose(1, 2)
    assert_close(rotate(x.transpose(1, 2), p), theirs)


# ---- axes, kinds ----


@each_pairing
@each_library
def test_positions_may_have_batch_axes_of_their_own(make, pairs):
    x, p = normal(T, D_h), np.array([[0, 1, 2], [5, 4, 4]])
    turned = rotate(make(x), make(p), pairs=pairs)
    assert turned.shape == (2, T, D_h)
    heads = normal(2, 4, T, D_h)
    many = rotate(make(heads), make(p[:, None]), pairs=pairs)
    for b in range(2):
        assert_close(turned[b, ...], rotate(x, p[b], pairs=pairs), 1e-15)
        assert_close(
            many[b, ...], rotate(heads[b], p[b], pairs=pairs), 1e-15
        )


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16]
)
def test_angles_are_computed_in_full_precision(dtype):
    """In float32 the angle 16,777,217 would be another one."""
    x = torch.tensor(normal(2, 4)).to(dtype)
    p = torch.tensor([2**24 + 1, 5], dtype=torch.int32)
    turned = rotate(x, p)
    assert turned.dtype == dtype
    tolerance = 1e-6 if dtype == torch.float32 else 0.01
    assert_close(turned, rotate(x.double(), p), tolerance)


def test_the_gradient_turns_back():
    x, y, p = normal(T, D_h), normal(T, D_h, seed=1), np.array([2, -7, 30])
    (leaf,) = leaves(x)
    (rotate(leaf, torch.tensor(p)) * torch.tensor(y)).sum().backward()
    assert_close(leaf.grad, rotate(y, -p))


def test_no_rows_and_unsigned_positions():
    assert rotate(normal(0, 4), np.arange(0)).shape == (0, 4)
    x = normal(3, 2)
    assert_close(
        rotate(x, np.arange(3, dtype=np.uint8)), rotate(x, np.arange(3)), 0
    )
