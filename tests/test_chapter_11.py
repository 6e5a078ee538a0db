"""What the chapter Masks states.

Checked elsewhere:
- each mask, entry by entry, its library and device: test_masks.py
- wrong input: test_bad_input.py
- masks go to PyTorch's module and back for all their shapes: test_masks.py,
  test_masks_from_torch_mean_to_us_what_they_mean_there,
  test_masks_to_torch_take_the_form_that_torch_wants
- a shut key might as well not be there: test_properties.py,
  test_what_is_shut_for_all_may_be_anything
- equal to the layer of keras under masks: test_peers.py
"""

from itertools import pairwise

import keras
import numpy as np
import pytest
import torch
from torch.nn import functional as F

from attention_in_detail import (
    attention,
    attention_weights,
    causal_mask,
    combine_masks,
    mask_from_torch_mha,
    mask_to_torch_mha,
    padding_mask,
    scores,
    softmax,
    window_mask,
)
from attention_in_detail.nn import MultiHeadAttention
from tests.support import assert_close, coin, normal

# By hand: exponentials 1, 1, 2, 4, 8 for each query
Q = np.log(2) * np.ones((5, 1))
K = np.array([[0.0], [0], [1], [2], [3]])
V = np.array([[16.0], [0], [8], [4], [2]])
CAUSAL = causal_mask(5)
THREE = padding_mask(np.array(3), 5)
sdpa = F.scaled_dot_product_attention


def out(mask, keys=K):
    return attention(Q, keys, V, mask=mask)[:, 0]


def drawn(mask):
    return ["".join(".1"[int(x)] for x in row) for row in mask.tolist()]


# The definition


@pytest.mark.claim("def-padding-mask", "def-mask-attention")
@pytest.mark.parametrize("seed", range(5))
def test_weights_are_the_exponentials_over_the_sum_of_the_open_ones(seed):
    q, k = normal(4, 3, seed=seed), normal(6, 3, seed=seed + 10)
    mask = coin(4, 6, seed=seed + 20)
    mask[1] = False
    z, wanted = scores(q, k), np.zeros((4, 6))
    for i in range(4):
        of_open = [j for j in range(6) if mask[i, j]]
        total = sum(np.exp(z[i, r]) for r in of_open)
        for j in of_open:
            wanted[i, j] = np.exp(z[i, j]) / total
    assert_close(attention_weights(q, k, mask=mask), wanted, 1e-14)
    assert_close(softmax(np.where(mask, z, -np.inf)), wanted, 1e-14)
    assert not attention(q, k, k, mask=mask)[1].any()


@pytest.mark.claim("def-mask-kinds")
def test_the_kinds_of_mask_are_their_formulas_counted_from_one():
    T, S, o, n, m, real = 3, 6, 2, 1, 2, 4
    for i in range(1, T + 1):
        for j in range(1, S + 1):
            at = i - 1, j - 1
            assert causal_mask(T, S, offset=o)[at] == (j <= i + o)
            window = window_mask(T, S, before=n, after=m, offset=o)
            assert window[at] == (-n <= j - (i + o) <= m)
            assert padding_mask(np.array([real]), S)[0, 0, j - 1] == (
                j <= real
            )


# The pictures


def test_the_masks_that_are_drawn():
    padding = padding_mask(np.array([4]), 6)
    assert padding.shape == (1, 1, 6)
    window = window_mask(6, before=1, after=0)
    together = combine_masks(window, padding)
    assert together.shape == (1, 6, 6)
    assert drawn(together[0]) == [
        "1.....",
        "11....",
        ".11...",
        "..11..",
        "...1..",
        "......",
    ]
    assert together[0].sum(axis=1).tolist() == [1, 2, 2, 2, 1, 0]
    # Neither alone has such a row.
    assert window.any(axis=1).all()
    assert padding.any(axis=-1).all()
    both_sides = window_mask(6, before=1, after=1)
    assert both_sides.sum(axis=1).tolist() == [2, 3, 3, 3, 3, 2]
    assert not np.triu(window, 1).any()  # after=0 looks back only


# By hand


def test_the_outputs_are_as_worked_by_hand():
    assert_close(out(None), np.full(5, 4.0), 1e-13)
    assert_close(out(CAUSAL), np.array([16.0, 8, 8, 6, 4]), 1e-13)
    both = combine_masks(CAUSAL, THREE)
    assert_close(out(both), np.array([16.0, 8, 8, 8, 8]), 1e-13)
    window = window_mask(5, before=1, after=0)
    assert_close(out(window)[4], np.array(8 / 3), 1e-13)


@pytest.mark.claim("def-mask-attention")
def test_the_weights_are_as_worked_by_hand():
    powers = np.array([1.0, 1, 2, 4, 8])
    assert_close(
        attention_weights(Q, K), np.tile(powers / 16, (5, 1)), 1e-15
    )
    sums = np.array([1.0, 2, 4, 8, 16])
    assert np.cumsum(powers).tolist() == sums.tolist()
    assert_close(
        attention_weights(Q, K, mask=CAUSAL),
        np.tril(np.tile(powers, (5, 1))) / sums[:, None],
        1e-15,
    )
    both = attention_weights(Q, K, mask=combine_masks(CAUSAL, THREE))
    assert_close(both[2:], np.tile([0.25, 0.25, 0.5, 0, 0], (3, 1)), 1e-15)
    window = window_mask(5, before=1, after=0)
    assert_close(
        attention_weights(Q, K, mask=window)[4],
        np.array([0, 0, 0, 1 / 3, 2 / 3]),
        1e-15,
    )


# Before the softmax, not after


def test_masked_after_the_softmax_the_future_has_a_say():
    changed = K.copy()
    changed[4] = 0
    after = attention_weights(Q, K) * CAUSAL
    assert_close(after[1], np.array([1, 1, 0, 0, 0]) / 16, 1e-15)
    assert_close((after @ V)[1, 0], np.array(1.0), 1e-13)
    moved = attention_weights(Q, changed) * CAUSAL
    assert_close(moved[1], np.array([1, 1, 0, 0, 0]) / 9, 1e-15)
    before = [
        attention_weights(Q, k, mask=CAUSAL)[:4] for k in (K, changed)
    ]
    assert np.array_equal(*before)
    assert_close(before[0][1], np.array([0.5, 0.5, 0, 0, 0]), 1e-15)
    assert_close(out(CAUSAL)[1], np.array(8.0), 1e-13)


# Two corners


def test_the_corners_that_are_drawn():
    assert drawn(causal_mask(2, 5)) == ["1....", "11..."]
    assert drawn(causal_mask(2, 5, offset=3)) == ["1111.", "11111"]


def test_a_cache_needs_the_bottom_right_corner():
    newest = [
        attention(Q[4:], K, V, mask=causal_mask(1, 5, offset=o))[0, 0]
        for o in (4, 0)
    ]
    assert_close(np.array(newest), np.array([4.0, 16.0]), 1e-13)
    assert_close(newest[0], out(CAUSAL)[4], 1e-15)


@pytest.mark.claim("obs-is-causal")
@pytest.mark.parametrize("T", [1, 2, 3])
def test_is_causal_of_torch_takes_the_top_left_corner(T):
    q, k, v = (torch.tensor(x) for x in (Q, K, V))
    theirs = sdpa(q[5 - T :], k, v, is_causal=True)
    assert_close(
        theirs, attention(Q[5 - T :], K, V, mask=causal_mask(T, 5))
    )
    assert theirs[0, 0].item() == pytest.approx(16)


# What true means


def layers(seed=0):
    torch.manual_seed(seed)
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    return theirs, MultiHeadAttention.from_torch(theirs)


def keras_layer():
    return keras.layers.MultiHeadAttention(num_heads=2, key_dim=4)


@pytest.mark.claim("obs-true-means")
def test_three_read_true_as_open_and_the_layer_of_torch_as_shut():
    theirs, ours = layers()
    x, mask = torch.randn(1, 3, 8), torch.eye(3, dtype=torch.bool)
    _, by_keras = keras_layer()(
        x, x, attention_mask=mask[None], return_attention_scores=True
    )
    by_function = sdpa(x, x, torch.eye(3)[None], attn_mask=mask)
    _, by_ours = ours(x, mask=mask, return_weights=True)
    for weights in (by_function, *by_keras[0], *by_ours[0]):
        assert_close(weights.reshape(3, 3), torch.eye(3), 1e-6)
    _, by_layer = theirs(x, x, x, attn_mask=mask)
    assert not by_layer[0][mask].any()
    assert_close(by_layer[0].sum(-1), torch.ones(3), 1e-6)


def test_the_converters_carry_a_mask_to_torch_and_back():
    theirs, ours = layers()
    x = torch.randn(2, 5, 8)
    mask = combine_masks(
        causal_mask(5, like=x), padding_mask(torch.tensor([5, 3]), 5)
    )
    attn_mask, key_padding_mask = mask_to_torch_mha(mask, heads=2)
    assert tuple(attn_mask.shape) == (4, 5, 5)
    assert key_padding_mask is None
    output, _ = theirs(x, x, x, attn_mask=attn_mask)
    assert_close(ours(x, mask=mask), output, 1e-5)
    back, bias = mask_from_torch_mha(attn_mask, heads=2)
    assert bias is None
    assert torch.equal(back, mask[:, None].expand(2, 2, 5, 5))
    # As it is, it means something else.
    lost, _ = theirs(x, x, x, attn_mask=~attn_mask)
    assert not torch.allclose(lost[:, 1:4], output[:, 1:4], atol=1e-2)


# A query that may attend to nothing

X = torch.tensor(normal(1, 4, 8, seed=3), dtype=torch.float32)
ZERO = torch.zeros(1, 4, 8)
EMPTY = causal_mask(4, like=X)
EMPTY[2] = False
IGNORE, _ = mask_to_torch_mha(EMPTY, heads=2)


def kind(output, of_zero):
    row, mean = output[0, 2], of_zero[0, 2]
    if row.isnan().any():
        return "NaN"
    if not row.any():
        return "zeros"
    return "mean" if torch.allclose(row, mean, atol=1e-5) else "else"


def test_the_output_of_a_zero_query_is_the_mean_of_the_values():
    assert_close(sdpa(ZERO, X, X)[0, 2], X[0].mean(0), 1e-6)
    assert_close(
        layers()[1](ZERO, X)[0, 2], layers()[0](ZERO, X, X)[0][0, 2], 1e-6
    )
    assert kind(X, ZERO) == "else"


@pytest.mark.claim("obs-empty-row")
def test_the_function_of_torch_gives_zeros():
    assert kind(sdpa(X, X, X, attn_mask=EMPTY), sdpa(ZERO, X, X)) == "zeros"


def test_the_lowest_number_added_gives_the_mean():
    lowest = torch.where(EMPTY, 0.0, torch.finfo(X.dtype).min)
    assert kind(sdpa(X, X, X, lowest), sdpa(ZERO, X, X)) == "mean"
    # The scores are swallowed: all four become equal.
    z = scores(X, X)[0, 2] + lowest[2]
    assert len(set(z.tolist())) == 1


@pytest.mark.claim("obs-empty-row")
@pytest.mark.parametrize(
    ("train", "need", "wanted"),
    [
        (True, True, "NaN"),
        (True, False, "zeros"),
        (False, True, "NaN"),
        (False, False, "NaN"),
    ],
)
def test_the_layer_of_torch_gives_zeros_or_nan(train, need, wanted):
    theirs, _ = layers()
    theirs.train(train)
    with torch.set_grad_enabled(train):
        output, _ = theirs(X, X, X, attn_mask=IGNORE, need_weights=need)
        assert kind(output, theirs(ZERO, X, X)[0]) == wanted


@pytest.mark.parametrize(
    ("heads", "batch_first", "gradients", "wanted"),
    [
        (2, True, False, "NaN"),
        (4, True, False, "NaN"),
        (1, True, False, "zeros"),
        (2, False, False, "zeros"),
        (2, True, True, "zeros"),
    ],
)
def test_in_use_the_layer_of_torch_gives_nan_on_its_shorter_path_only(
    heads, batch_first, gradients, wanted
):
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(8, heads, batch_first=batch_first)
    theirs.eval()
    axes = (0, 1) if batch_first else (1, 0)
    x, zero = (one.movedim((0, 1), axes) for one in (X, ZERO))
    ignore, _ = mask_to_torch_mha(EMPTY, heads=heads)
    with torch.set_grad_enabled(gradients):
        output, mean = (
            theirs(one, x, x, attn_mask=mask, need_weights=False)[0]
            for one, mask in ((x, ignore), (zero, None))
        )
    output, mean = (one.movedim(axes, (0, 1)) for one in (output, mean))
    assert kind(output, mean) == wanted


@pytest.mark.claim("obs-empty-row")
@pytest.mark.parametrize(
    ("need", "wanted"), [(False, "mean"), (True, "zeros")]
)
def test_the_layer_of_keras_gives_zeros_or_the_mean(need, wanted):
    layer = keras_layer()
    output = layer(
        X, X, attention_mask=EMPTY[None], return_attention_scores=need
    )
    output = output[0] if need else output
    assert kind(output, layer(ZERO, X)) == wanted


@pytest.mark.claim("rem-empty-row")
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("need", [True, False])
def test_ours_gives_zeros_and_a_gradient_of_zero(train, need):
    _, ours = layers()
    ours.train(train)
    x = X.clone().requires_grad_()
    output = ours(x, mask=EMPTY, return_weights=need)
    output = output[0] if need else output
    assert kind(output, ours(ZERO, X)) == "zeros"
    output[0, 2].sum().backward(retain_graph=True)
    assert not x.grad.any()
    output.sum().backward()
    assert x.grad.isfinite().all()
    assert x.grad.any()


@pytest.mark.claim("rem-empty-row")
def test_what_is_left_of_an_empty_row_is_the_bias_of_the_output():
    _, ours = layers()
    torch.nn.init.normal_(ours.output.bias)
    assert torch.equal(ours(X, mask=EMPTY)[0, 2], ours.output.bias)


@pytest.mark.claim("obs-nan-gradient")
def test_one_empty_row_spoils_every_gradient_of_the_layer_of_torch():
    """In a loss that leaves this row out."""
    theirs, ours = layers()
    theirs(X, X, X, attn_mask=IGNORE)[0][0, [0, 1, 3]].sum().backward()
    assert theirs.in_proj_weight.grad.isnan().all()
    assert theirs.in_proj_weight.numel() == 192
    ours(X, mask=EMPTY)[0, [0, 1, 3]].sum().backward()
    assert all(p.grad.isfinite().all() for p in ours.parameters())


@pytest.mark.claim("prop-empty-row")
def test_when_an_empty_row_can_occur():
    for lengths in range(1, 6):
        right = padding_mask(np.array(lengths), 5)
        for offset in (0, 1, 4):
            causal = causal_mask(5, offset=offset)
            assert combine_masks(causal, right).any(axis=1).all()
    window = window_mask(5, before=1, after=0)
    assert not combine_masks(window, THREE).any(axis=1).all()
    left = (np.arange(5) >= 2)[None]
    assert not combine_masks(CAUSAL, left).any(axis=1).all()
    assert not combine_masks(CAUSAL, padding_mask(np.array(0), 5)).any()


# Mask keys, not padded queries


def test_masking_queries_lets_the_padding_in():
    real = padding_mask(np.array(2), 5)
    both = combine_masks(real, real.T)
    assert_close(out(real), np.full(5, 8.0), 1e-13)
    assert_close(out(real.T), np.array([4.0, 4, 0, 0, 0]), 1e-13)
    assert_close(out(both), np.array([8.0, 8, 0, 0, 0]), 1e-13)
    assert out(both).mean().round(4) == 3.2
    assert out(real.T).mean().round(4) == 1.6
    # Unlike queries: then the mean over all rows is wrong for "keys" too.
    q, k = Q * np.arange(1, 6)[:, None], K.copy()
    k[0] = 1
    y = attention(q, k, V, mask=real)[:, 0]
    assert abs(y.mean() - y[:2].mean()) > 0.5


# Minus infinity, not −1e9

Z = np.log(2) * torch.arange(4)
KINDS = [torch.float16, torch.bfloat16, torch.float32]


@pytest.mark.parametrize(
    ("dtype", "stored", "weight"),
    [
        (torch.float16, "-inf", None),
        (torch.bfloat16, "-9.982e+08", 0.25),
        (torch.float32, "-1e+09", 0.25),
    ],
)
def test_minus_1e9_added_to_an_empty_row(dtype, stored, weight):
    shut = torch.tensor(-1e9).to(dtype)
    assert f"{shut.item():.4g}" == stored
    weights = torch.softmax(Z.to(dtype) + shut, dim=-1)
    if weight is None:
        assert weights.isnan().all()
    else:
        assert weights.tolist() == [weight] * 4


@pytest.mark.parametrize("dtype", KINDS)
def test_the_lowest_number_added_twice_is_minus_infinity(dtype):
    lowest = torch.tensor(torch.finfo(dtype).min, dtype=dtype)
    once = torch.softmax(Z.to(dtype) + lowest, dim=-1)
    assert once.tolist() == [0.25] * 4
    assert torch.softmax(Z.to(dtype) + lowest + lowest, -1).isnan().all()
    # Shut by both masks: −inf. Shut by one: the average is over these.
    zero = torch.zeros_like(lowest)
    first = torch.stack([zero, lowest, lowest, lowest])
    second = torch.stack([lowest, lowest, zero, zero])
    z = Z.to(dtype) + first + second
    assert z.isinf().tolist() == [False, True, False, False]
    assert_close(
        torch.softmax(z, -1).float(),
        torch.tensor([1, 0, 1, 1]) / 3,
        2e-3,
    )


@pytest.mark.parametrize("dtype", KINDS)
def test_ours_gives_zeros_in_every_precision(dtype):
    nothing = torch.zeros(1, 4, dtype=torch.bool)
    weights = attention_weights(
        torch.ones(1, 1, dtype=dtype), Z.to(dtype)[:, None], mask=nothing
    )
    assert weights.dtype == dtype
    assert not weights.any()


@pytest.mark.parametrize("dtype", KINDS)
def test_with_an_open_key_both_give_the_weight_zero(dtype):
    shut = torch.tensor([0, 0, -1e9, -1e9]).to(dtype)
    weights = torch.softmax(Z.to(dtype) + shut, dim=-1)
    assert not weights[2:].any()
    assert_close(weights[:2].float(), torch.tensor([1 / 3, 2 / 3]), 5e-3)


def test_float16_ends_at_65504():
    assert torch.finfo(torch.float16).max == 65504


# What can go wrong


@pytest.mark.claim("obs-true-means")
def test_an_inverted_mask_that_shapes_sums_and_counts_do_not_give_away():
    theirs, _ = layers()
    x, again = torch.randn(2, 1, 6, 8)
    again = torch.cat([x[:, :3], again[:, 3:]], dim=1)
    mask = padding_mask(torch.tensor([3]), 6)
    _, right = mask_to_torch_mha(mask, heads=2)
    moved = []
    for given in (right, mask[:, 0]):
        y, weights = theirs(x, x, x, key_padding_mask=given)
        assert tuple(y.shape) == (1, 6, 8)
        assert tuple(weights.shape) == (1, 6, 6)
        assert_close(weights.sum(-1), torch.ones(1, 6), 1e-6)
        assert ((weights > 0).sum(-1) == 3).all()
        z, _ = theirs(again, again, again, key_padding_mask=given)
        moved.append((y - z)[0, :3].abs().max().item())
    assert moved[0] < 1e-6
    assert moved[1] > 1e-2


def test_for_a_causal_mask_a_change_of_the_last_token_moves_the_last_row():
    x = normal(6, 4)
    y = x.copy()
    y[5] += 1
    for mask, moved in ((causal_mask(6), 1), (~causal_mask(6), 5)):
        first = attention(x, x, x, mask=mask)
        second = attention(y, y, y, mask=mask)
        assert (first != second).any(axis=1).sum() == moved


def test_a_nan_query_goes_missing_in_torch_where_there_are_few_keys():
    _, ours = layers()
    lost = torch.full((1, 2, 1, 4), torch.nan)
    for S, seen in ((2, False), (64, True)):
        others = torch.ones(1, 2, S, 4)
        theirs = sdpa(lost, others, others)
        assert theirs.isnan().all() if seen else not theirs.any()
        assert attention(lost, others, others).isnan().all()
        assert (
            ours(lost.reshape(1, 1, 8), X[:, :1].expand(1, S, 8))
            .isnan()
            .all()
        )
        # It takes an axis for the heads.
        assert sdpa(lost[0], others[0], others[0]).isnan().all()


def test_where_few_keys_end_depends_on_the_dtype():
    ends = []
    for dtype in (torch.float32, torch.float64):
        lost = torch.full((1, 1, 1, 4), torch.nan, dtype=dtype)
        keys = [torch.ones(1, 1, S, 4, dtype=dtype) for S in range(1, 65)]
        seen = [bool(sdpa(lost, k, k).isnan().all()) for k in keys]
        ends.append(seen.index(True))
        assert not any(seen[: ends[-1]])
        assert all(seen[ends[-1] :])
    assert ends[0] > ends[1] > 0


# Exercises


def test_ex_mask_hand():
    window = window_mask(5, before=1, after=1)
    assert_close(
        attention_weights(Q, K, mask=window)[2],
        np.array([0, 1, 2, 4, 0]) / 7,
        1e-15,
    )
    assert_close(out(window)[2], np.array(32 / 7), 1e-13)
    assert round(32 / 7, 2) == 4.57
    assert_close(
        out(combine_masks(window, THREE))[3:], np.array([8.0, 0]), 1e-13
    )


def test_ex_mask_left():
    mask = combine_masks(CAUSAL, (np.arange(5) >= 2)[None, :])
    assert mask.any(axis=1).tolist() == [False, False, True, True, True]
    cured = mask | np.eye(5, dtype=bool)
    assert cured.any(axis=1).all()
    x = np.random.default_rng(0).standard_normal((5, 4))
    first, second = (attention(x, x, x, mask=m) for m in (mask, cured))
    assert np.array_equal(first[2:], second[2:])
    assert not np.array_equal(first[:2], second[:2])


@pytest.mark.parametrize(("n", "L"), [(1, 2), (2, 3), (3, 2)])
def test_ex_mask_reach(n, L):
    mask = window_mask(10, before=n, after=0)
    reach = np.linalg.matrix_power(mask.astype(int), L) > 0
    assert np.array_equal(reach, window_mask(10, before=n * L, after=0))
    x = normal(10, 4, seed=n)
    rows = [x]
    for _ in range(L):
        rows.append(attention(rows[-1], rows[-1], rows[-1], mask=mask))
    assert all(a.shape == b.shape for a, b in pairwise(rows))
    # The last row, before and after a change of one row of the first input
    for changed in range(10):
        y = x.copy()
        y[changed] += 1
        for _ in range(L):
            y = attention(y, y, y, mask=mask)
        moved = not np.array_equal(y[9], rows[-1][9])
        assert moved == (changed >= 9 - n * L)
