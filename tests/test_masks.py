import numpy as np
import pytest
import torch

from attention_in_detail import (
    attention,
    causal_mask,
    combine_masks,
    mask_from_torch_mha,
    mask_to_torch_mha,
    multi_head_attention,
    padding_mask,
    window_mask,
)
from attention_in_detail.masks import keep_rows
from attention_in_detail.parameters import MultiHeadParameters
from tests.support import (
    B,
    D,
    D_k,
    D_v,
    S,
    T,
    assert_close,
    coin,
    each_library,
    h,
    normal,
    open_mask,
)


def table(mask):
    """A mask as it is drawn on paper."""
    return [
        "".join("1" if open_ else "." for open_ in row)
        for row in np.asarray(mask).tolist()
    ]


# ---- causal ----


@pytest.mark.claim("def-causal-mask")
def test_causal_mask_opens_the_past_and_the_present():
    assert table(causal_mask(4)) == ["1...", "11..", "111.", "1111"]


def test_causal_mask_is_aligned_at_the_top_left_corner_unless_told():
    assert table(causal_mask(2, 4)) == ["1...", "11.."]
    assert table(causal_mask(4, 2)) == ["1.", "11", "11", "11"]


def test_causal_mask_with_an_offset_is_aligned_at_the_bottom_right_corner():
    assert table(causal_mask(2, 4, offset=2)) == ["111.", "1111"]
    assert table(causal_mask(4, 2, offset=-2)) == ["..", "..", "1.", "11"]
    assert table(causal_mask(1, 5, offset=4)) == ["11111"]


def test_causal_mask_of_no_queries_and_far_offsets():
    assert causal_mask(0, 3).shape == (0, 3)
    assert causal_mask(0).shape == (0, 0)
    assert causal_mask(2, 3, offset=99).all()
    assert not causal_mask(2, 3, offset=-99).any()


def test_causal_mask_comes_in_the_library_and_on_the_device_of_like():
    mask = causal_mask(2, 3, like=torch.zeros(1))
    assert isinstance(mask, torch.Tensor)
    assert mask.dtype == torch.bool
    assert mask.device.type == "cpu"
    assert (
        causal_mask(2, 3, like=torch.zeros(1, device="meta")).device.type
        == "meta"
    )
    numpy_mask = causal_mask(2, 3)
    assert isinstance(numpy_mask, np.ndarray)
    assert numpy_mask.dtype == np.bool_


def test_a_query_with_cached_keys_sees_them_all():
    """The last row of attention over a sequence, computed again with one query and offset S − T."""
    x = normal(6, 4)
    whole = attention(x, x, x, mask=causal_mask(6))
    last = attention(x[5:], x, x, mask=causal_mask(1, 6, offset=5))
    assert_close(last, whole[5:], 1e-15)
    assert (
        np.abs(
            attention(x[5:], x, x, mask=causal_mask(1, 6)) - whole[5:]
        ).max()
        > 0.1
    )


# ---- windows ----


def test_window_mask_opens_so_many_before_and_after():
    assert table(window_mask(5, before=2, after=1)) == [
        "11...",
        "111..",
        "1111.",
        ".1111",
        "..111",
    ]
    assert table(window_mask(3, before=0, after=0)) == ["1..", ".1.", "..1"]
    assert table(window_mask(3, before=0, after=2)) == ["111", ".11", "..1"]


def test_window_mask_of_more_keys_is_moved_by_the_offset():
    mask = {"before": 1, "after": 0}
    assert table(window_mask(2, 5, **mask)) == ["1....", "11..."]
    assert table(window_mask(2, 5, offset=3, **mask)) == ["..11.", "...11"]
    assert table(window_mask(4, 2, offset=-2, **mask)) == [
        "..",
        "..",
        "1.",
        "11",
    ]


@pytest.mark.claim("def-mask-kinds")
@pytest.mark.parametrize("offset", [-3, 0, 2])
@pytest.mark.parametrize("before", [0, 1, 4])
@pytest.mark.parametrize("after", [0, 2])
def test_window_mask_is_its_formula(before, after, offset):
    mask = window_mask(6, 7, before=before, after=after, offset=offset)
    assert mask.tolist() == [
        [-before <= j - (i + offset) <= after for j in range(7)]
        for i in range(6)
    ]


def test_a_window_without_a_near_end_is_a_causal_mask():
    for offset in (-1, 0, 3):
        wide = window_mask(4, 6, before=99, after=0, offset=offset)
        assert np.array_equal(wide, causal_mask(4, 6, offset=offset))
    assert window_mask(4, 6, before=99, after=99).all()


def test_window_mask_of_no_queries_and_far_offsets():
    assert window_mask(0, 3, before=1, after=1).shape == (0, 3)
    assert window_mask(0, before=1, after=1).shape == (0, 0)
    for offset in (-99, 99):
        far = window_mask(2, 3, before=1, after=1, offset=offset)
        assert not far.any()


@each_library
def test_window_mask_comes_in_the_library_of_like(make):
    mask = window_mask(2, 3, before=1, after=0, like=make(np.zeros(1)))
    assert type(mask) is type(make(np.zeros(1)))
    assert table(mask) == ["1..", "11."]


def test_window_mask_comes_on_the_device_of_like():
    like = torch.zeros(1, device="meta")
    mask = window_mask(2, 3, before=1, after=0, like=like)
    assert mask.device.type == "meta"
    assert mask.dtype == torch.bool
    assert isinstance(window_mask(2, before=1, after=0), np.ndarray)


# ---- padding ----


@pytest.mark.claim("def-padding-mask")
@each_library
def test_padding_mask_opens_as_many_keys_as_the_length_says(make):
    mask = padding_mask(make(np.array([0, 1, 3, 4])), 4)
    assert type(mask) is type(make(np.zeros(1)))
    assert tuple(mask.shape) == (4, 1, 4)
    assert table(np.asarray(mask)[:, 0]) == ["....", "1...", "111.", "1111"]


def test_padding_mask_keeps_the_batch_axes_of_the_lengths():
    mask = padding_mask(np.array([[1, 2, 3], [0, 2, 1]]), 3)
    assert mask.shape == (2, 3, 1, 3)
    assert table(mask[1, :, 0]) == ["...", "11.", "1.."]
    assert padding_mask(np.zeros((0,), int), 3).shape == (0, 1, 3)
    assert padding_mask(np.zeros((2, 0), int), 3).shape == (2, 0, 1, 3)


@each_library
def test_padding_mask_of_one_sequence_has_no_batch_axis(make):
    mask = padding_mask(make(np.array(2)), 4)
    assert tuple(mask.shape) == (1, 4)
    assert table(mask) == ["11.."]


@pytest.mark.parametrize(
    "name", ["uint8", "int8", "int16", "int32", "int64"]
)
@each_library
def test_lengths_of_few_bits_reach_beyond_their_range(make, name):
    """Compared in uint8 or int8, the key 300 would count as 44."""
    mask = np.asarray(
        padding_mask(make(np.array([0, 100, 127], name)), 1000)
    )
    assert mask[:, 0].sum(-1).tolist() == [0, 100, 127]
    assert mask[2, 0, :127].all()


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64"])
def test_unsigned_lengths_of_numpy_are_read(name):
    mask = padding_mask(np.array([3, 300], name), 1000)
    assert mask[:, 0].sum(-1).tolist() == [3, 300]


def test_padding_mask_comes_on_the_device_of_the_lengths():
    assert isinstance(padding_mask(torch.tensor([1, 2]), 3), torch.Tensor)


def test_padding_mask_leaves_the_lengths_as_they_were():
    lengths = torch.tensor([1, 2])
    padding_mask(lengths, 3)
    assert lengths._version == 0
    assert lengths.tolist() == [1, 2]


# ---- together ----


@pytest.mark.claim("def-mask-kinds")
@each_library
def test_combined_masks_allow_what_each_allows(make):
    one, two, three = (
        coin(B, 1, S, seed=1),
        coin(T, S, seed=2),
        coin(S, seed=3),
    )
    combined = combine_masks(make(one), None, make(two), make(three))
    assert np.array_equal(np.asarray(combined), one & two & three)
    assert np.array_equal(np.asarray(combine_masks(make(one))), one)


def test_combined_masks_of_nothing_are_nothing():
    assert combine_masks() is None
    assert combine_masks(None, None) is None


def test_combining_changes_no_mask():
    one, two = (
        torch.tensor(coin(T, S, seed=1)),
        torch.tensor(coin(T, S, seed=2)),
    )
    combine_masks(one, two)
    assert one._version == two._version == 0
    assert np.array_equal(one, coin(T, S, seed=1))


# ---- torch's convention ----


def torch_module(seed=0):
    torch.manual_seed(seed)
    module = torch.nn.MultiheadAttention(
        D, h, kdim=D_k, vdim=D_v, batch_first=True, dtype=torch.float64
    )
    for bias in (module.in_proj_bias, module.out_proj.bias):
        torch.nn.init.normal_(bias)
    return module


Q, K, V = (
    torch.tensor(normal(B, *s, seed=n))
    for n, s in enumerate([(T, D), (S, D_k), (S, D_v)])
)
# True = ignore here. Each query keeps a key, also where masks of two kinds meet.
IGNORE = torch.tensor(~open_mask(T, S, seed=1) & (np.arange(S) != 0))
IGNORE_PER_HEAD = torch.tensor(
    ~open_mask(B * h, T, S, seed=2) & (np.arange(S) != 0)
)
IGNORE_PADDING = torch.tensor(
    ~open_mask(B, S, seed=3) & (np.arange(S) != 0)
)


def additive(ignore, seed):
    numbers = torch.tensor(normal(*ignore.shape, seed=seed))
    return torch.where(ignore, -torch.inf, numbers)


MHA_MASKS = {
    "attn_mask": {"attn_mask": IGNORE},
    "attn_mask per head": {"attn_mask": IGNORE_PER_HEAD},
    "float attn_mask": {"attn_mask": additive(IGNORE, 4)},
    "float attn_mask per head": {"attn_mask": additive(IGNORE_PER_HEAD, 5)},
    "key_padding_mask": {"key_padding_mask": IGNORE_PADDING},
    "float key_padding_mask": {
        "key_padding_mask": additive(IGNORE_PADDING, 6)
    },
    "both": {"attn_mask": IGNORE, "key_padding_mask": IGNORE_PADDING},
    "both per head": {
        "attn_mask": IGNORE_PER_HEAD,
        "key_padding_mask": IGNORE_PADDING,
    },
    "both float": {
        "attn_mask": additive(IGNORE, 4),
        "key_padding_mask": additive(IGNORE_PADDING, 6),
    },
    "both float per head": {
        "attn_mask": additive(IGNORE_PER_HEAD, 5),
        "key_padding_mask": additive(IGNORE_PADDING, 6),
    },
}
# torch warns when one mask is boolean and the other floating; ours takes both.
MIXED = {
    "float and bool": {
        "attn_mask": additive(IGNORE, 4),
        "key_padding_mask": IGNORE_PADDING,
    },
    "bool and float per head": {
        "attn_mask": IGNORE_PER_HEAD,
        "key_padding_mask": additive(IGNORE_PADDING, 6),
    },
}


@pytest.mark.filterwarnings("ignore:Support for mismatched:UserWarning")
@pytest.mark.parametrize(
    "masks", (MHA_MASKS | MIXED).values(), ids=MHA_MASKS | MIXED
)
def test_masks_from_torch_mean_to_us_what_they_mean_there(masks):
    module = torch_module()
    theirs, their_weights = module(
        Q, K, V, **masks, average_attn_weights=False
    )
    mask, bias = mask_from_torch_mha(**masks, heads=h)
    ours, weights = multi_head_attention(
        MultiHeadParameters.from_torch(module),
        Q,
        K,
        V,
        mask=mask,
        bias=bias,
        return_weights=True,
    )
    assert_close(ours, theirs)
    assert_close(weights, their_weights)
    if mask is not None:
        inverted = multi_head_attention(
            MultiHeadParameters.from_torch(module),
            Q,
            K,
            V,
            mask=~mask,
            bias=bias,
        )
        assert (inverted - theirs).abs().max() > 0.1


@pytest.mark.parametrize(
    "masks",
    [
        {
            "attn_mask": IGNORE_PER_HEAD[:h],
            "key_padding_mask": IGNORE_PADDING[0],
        },
        {"attn_mask": IGNORE, "key_padding_mask": IGNORE_PADDING[0]},
        {"attn_mask": IGNORE},
        {"key_padding_mask": IGNORE_PADDING[0]},
        {"key_padding_mask": additive(IGNORE_PADDING[0], 6)},
    ],
)
def test_masks_from_torch_without_a_batch_axis(masks):
    module = torch_module()
    theirs, their_weights = module(
        Q[0], K[0], V[0], **masks, average_attn_weights=False
    )
    mask, bias = mask_from_torch_mha(**masks, heads=h)
    ours, weights = multi_head_attention(
        MultiHeadParameters.from_torch(module),
        Q[0],
        K[0],
        V[0],
        mask=mask,
        bias=bias,
        return_weights=True,
    )
    assert_close(ours, theirs)
    assert_close(weights, their_weights)


def test_masks_from_torch_are_boolean_or_bias_by_their_dtype():
    mask, bias = mask_from_torch_mha(
        IGNORE, additive(IGNORE_PADDING, 6), heads=h
    )
    assert mask.dtype == torch.bool
    assert mask.shape == (T, S)
    assert bias.dtype == torch.float64
    assert bias.shape == (B, 1, S)
    assert mask_from_torch_mha(heads=h) == (None, None)
    mask, bias = mask_from_torch_mha(additive(IGNORE, 4), heads=h)
    assert mask is None
    mask, bias = mask_from_torch_mha(IGNORE, heads=h)
    assert bias is None


def test_masks_of_torch_are_not_changed():
    masks = IGNORE_PER_HEAD.clone(), additive(IGNORE_PADDING, 6)
    mask_from_torch_mha(*masks, heads=h)
    assert [m._version for m in masks] == [0, 0]
    assert torch.equal(masks[0], IGNORE_PER_HEAD)


OURS = {
    "(T, S)": open_mask(T, S, seed=1),
    "(B, T, S)": open_mask(B, T, S, seed=2),
    "(B, 1, S)": open_mask(B, 1, S, seed=3),
    "(B, h, T, S)": open_mask(B, h, T, S, seed=4),
    "(B, 1, T, S)": open_mask(B, 1, T, S, seed=5),
    "(B, 1, 1, S)": open_mask(B, 1, 1, S, seed=6),
}


@pytest.mark.parametrize("mask", OURS.values(), ids=OURS)
def test_masks_to_torch_mean_there_what_they_mean_to_us(mask):
    module, mask = torch_module(), torch.tensor(mask)
    ours, weights = multi_head_attention(
        MultiHeadParameters.from_torch(module),
        Q,
        K,
        V,
        mask=mask,
        return_weights=True,
    )
    attn_mask, key_padding_mask = mask_to_torch_mha(mask, heads=h)
    theirs, their_weights = module(
        Q,
        K,
        V,
        attn_mask=attn_mask,
        key_padding_mask=key_padding_mask,
        average_attn_weights=False,
    )
    assert_close(ours, theirs)
    assert_close(weights, their_weights)


@pytest.mark.parametrize("mask", OURS.values(), ids=OURS)
def test_masks_come_back_from_torch_as_they_went(mask):
    back, bias = mask_from_torch_mha(
        *mask_to_torch_mha(mask, heads=h), heads=h
    )
    assert bias is None
    full = np.broadcast_to(
        mask if mask.ndim == 4 or mask.ndim == 2 else mask[:, None],
        (B, h, T, S),
    )
    assert np.array_equal(
        np.broadcast_to(
            back if back.ndim == 4 or back.ndim == 2 else back[:, None],
            full.shape,
        ),
        full,
    )


def test_masks_to_torch_take_the_form_that_torch_wants():
    for shape, attn, padding in (
        ((T, S), (T, S), None),
        ((B, T, S), (B * h, T, S), None),
        ((B, 1, S), None, (B, S)),
        ((B, h, T, S), (B * h, T, S), None),
        ((B, h, 1, S), (B * h, 1, S), None),
        ((B, 1, 1, S), None, (B, S)),
    ):
        given = mask_to_torch_mha(np.ones(shape, bool), heads=h)
        assert [None if m is None else m.shape for m in given] == [
            attn,
            padding,
        ]
    assert mask_to_torch_mha(None, heads=h) == (None, None)


# ---- rows that take no part ----


@each_library
@pytest.mark.parametrize(
    ("of", "kept"),
    [
        ("queries", [True, False, True]),
        ("keys", [True, True, False, False]),
    ],
)
def test_a_row_that_takes_no_part_becomes_zero_and_the_others_stay(
    make, of, kept
):
    """Whatever stands in the padding, NaN too: what is computed from it later is computed from zeros."""
    is_open = make(np.array([[1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0]]) > 0)
    x = normal(len(kept), 5)
    padded = np.where(np.array(kept)[:, None], x, np.nan)
    assert_close(
        keep_rows(make(padded), is_open, of=of),
        np.where(np.array(kept)[:, None], x, 0.0),
    )
