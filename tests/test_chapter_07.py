"""What chapter 7, Cross-attention, states.

Checked elsewhere:
- queries come from the target, keys and values from the source:
  test_multi_head.py,
  test_cross_attention_takes_queries_from_x_and_the_rest_from_the_context
- the newest row alone is a row of the square map: test_masks.py,
  test_a_query_with_cached_keys_sees_them_all
- padding is as if it were cut off, for all input (prop-shut-key):
  test_properties.py, test_padding_is_as_if_it_were_cut_off,
  test_what_is_shut_for_all_may_be_anything
- a padding mask, entry by entry, and length 0: test_masks.py,
  test_padding_mask_opens_as_many_keys_as_the_length_says
- a bias of −inf shuts as a mask does: test_scaled_dot_product.py,
  test_mask_and_bias_of_minus_infinity_shut_alike
- a weight of 0 does not stop NaN: test_classic_bugs.py,
  test_zero_weight_is_not_enough_against_nan
- masks go to PyTorch's module and mean there what they mean here:
  test_masks.py, test_masks_to_torch_take_the_form_that_torch_wants
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from attention_in_detail import (
    MultiHeadParameters,
    attention,
    attention_weights,
    causal_mask,
    combine_masks,
    cross_attention,
    mask_to_torch_mha,
    multi_head_attention,
    padding_mask,
    self_attention,
    softmax,
)
from tests.page_numbers import not_printed, numbers_of
from tests.support import assert_close, normal

# What elle, n', a, pas, de, voiture and the French for red ask for:
# person, having, negation, colour, thing
ASKED = np.array(
    [
        [4, 0, 0, 0, 0],
        [0, 0, 4, 0, 0],
        [0, 4, 0, 0, 0],
        [0, 0, 4, 0, 0],
        [0, 0, 3, 1, 3],
        [0, 0, 0, 0, 4],
        [0, 0, 0, 4, 0],
    ]
)
UNIT = np.sqrt(5) * np.log(2)
QUERIES, KEYS = UNIT * ASKED, np.eye(5)  # she, has, no, red, car
VALUES = np.array([[10.0, 0], [0, 10], [5, 5], [0, 20], [20, 0]])
NO, RED, CAR = 2, 3, 4
DE, VOITURE, FRENCH_RED = 4, 5, 6

T, S, D_Q, D_C, D, H, D_OUT = 7, 5, 6, 4, 8, 2, 3
X, C = normal(2, T, D_Q, seed=1), normal(2, S, D_C, seed=2)
P = replace(
    MultiHeadParameters.init(
        D, H, D_q=D_Q, D_k=D_C, D_v=D_C, D_out=D_OUT, bias=False, seed=8
    ),
    b_O=normal(D_OUT, seed=3),
)
LENGTHS = np.array([5, 3])
MASK = padding_mask(LENGTHS, S)


def apart(one, other):
    return np.abs(one - other).max() > 0.05


# An alignment, by hand


def test_each_row_of_the_alignment_is_as_worked_by_hand():
    powers = np.array([[2**n for n in row] for row in ASKED.tolist()])
    assert powers.sum(1).tolist() == [20] * 7
    assert powers[DE].tolist() == [1, 1, 8, 2, 8]
    assert_close(attention_weights(QUERIES, KEYS), powers / 20, 1e-15)
    assert UNIT.round(2) == 1.55


def test_lines_of_the_first_figure():
    """Eight of 0.3 and more: three meet at "no", "de" has two, some cross."""
    heavy = np.argwhere(attention_weights(QUERIES, KEYS) >= 0.3)
    assert len(heavy) == 8
    assert (heavy[:, 1] == NO).sum() == 3
    assert (heavy[:, 0] == DE).sum() == 2
    assert any(
        i < k and j > m
        for i, j in heavy.tolist()
        for k, m in heavy.tolist()
    )


def test_a_column_may_collect_any_amount():
    A = attention_weights(QUERIES, KEYS)
    assert_close(A[[1, 3, DE], NO], np.array([0.8, 0.8, 0.4]), 1e-15)
    assert_close(A.sum(1), np.ones(7), 1e-15)
    assert A.sum(0)[NO] > 2
    assert A.sum(0)[RED] < 1.2


def test_the_output_of_de_is_as_worked_by_hand():
    y = np.array([1, 1, 8, 2, 8]) @ VALUES
    assert y.tolist() == [210, 90]
    assert_close(
        attention(QUERIES, KEYS, VALUES)[DE], np.array([10.5, 4.5])
    )


def test_the_tables_come_out_of_cross_attention_with_one_hot_words():
    tables = MultiHeadParameters(QUERIES, KEYS, np.eye(5), VALUES, heads=1)
    through = cross_attention(tables, np.eye(7), np.eye(5))
    assert_close(through, attention(QUERIES, KEYS, VALUES), 1e-14)


# def-cross-attention


@pytest.mark.claim("def-cross-attention")
def test_cross_attention_is_the_sum_over_heads_of_its_formula():
    for x, c in zip(X, C, strict=True):
        total = P.b_O
        for i in range(H):
            own = slice(4 * i, 4 * i + 4)
            Q_i, K_i, V_i = (
                x @ P.W_Q[:, own],
                c @ P.W_K[:, own],
                c @ P.W_V[:, own],
            )
            powers = np.exp(Q_i @ K_i.T / np.sqrt(D / H))
            A_i = powers / powers.sum(1, keepdims=True)
            total = total + A_i @ V_i @ P.W_O[own]
        assert_close(cross_attention(P, x, c), total, 1e-12)


# Beside random vectors


def random_map(seed):
    draw = np.random.default_rng(seed)
    x, c = draw.standard_normal((7, 16)), draw.standard_normal((5, 12))
    p = MultiHeadParameters.init(8, 1, D_q=16, D_k=12, D_v=12, seed=seed)
    return cross_attention(p, x, c, return_weights=True)[1][0]


ALIGNED = ASKED >= 3


def share(weights):
    return (weights * ALIGNED).sum(axis=1)


@pytest.mark.claim("obs-random-alignment")
def test_one_line_of_the_random_map_is_heavier_than_any_by_hand():
    strongest = random_map(0).max(axis=1)
    assert strongest.max().round(2) == 0.92
    by_hand = attention_weights(QUERIES, KEYS).max()
    assert by_hand == pytest.approx(0.8, abs=1e-15)
    assert strongest.max() > by_hand
    assert numbers_of("obs-random-alignment") == [
        strongest.max().round(2),
        by_hand.round(2),
    ]
    assert (strongest < 0.8).sum() == 6
    assert (strongest >= 0.295).all()


def test_each_decimal_of_the_text_is_one_that_a_cell_prints():
    # Of the random map, and of an exercise below.
    computed = [f"{random_map(0).max():.2f}", "0.48"]
    computed += [f"{8 / 17:.3f}", f"{16 / 33:.3f}"]
    assert not not_printed("07_cross_attention", computed)


def test_the_random_map_puts_less_on_the_aligned_words_than_an_even_one():
    even = share(np.full((7, 5), 1 / 5)).mean()
    assert Fraction(int(ALIGNED.sum()), 7 * 5) == Fraction(8, 35)
    assert_close(even, np.array(8 / 35), 1e-14)
    assert share(random_map(0)).mean() < even
    by_hand = share(attention_weights(QUERIES, KEYS))
    assert_close(by_hand, np.full(7, 0.8), 1e-14)


# prop-cross-attention-rows


@pytest.mark.claim("prop-cross-attention-rows")
def test_a_row_depends_on_its_own_target_row_and_on_the_source():
    Y = cross_attention(P, X[0], C[0])
    rows = [cross_attention(P, X[0, i : i + 1], C[0]) for i in range(T)]
    assert_close(np.concatenate(rows), Y, 1e-13)
    for j in range(S):
        other = C[0].copy()
        other[j] += 1
        moved = np.abs(cross_attention(P, X[0], other) - Y).max(1)
        assert (moved > 1e-4).all()


@pytest.mark.claim("prop-cross-attention-rows")
def test_the_order_of_the_source_does_not_matter():
    order = [3, 0, 4, 2, 1]
    Y = cross_attention(P, X[0], C[0])
    assert_close(cross_attention(P, X[0], C[0, order]), Y, 1e-13)
    # Unless it is in C.
    where = normal(S, D_C, seed=5)
    assert apart(
        cross_attention(P, X[0], C[0, order] + where),
        cross_attention(P, X[0], C[0] + where),
    )


# def-padding-mask


def test_the_padding_mask_of_the_two_sentences():
    assert MASK.shape == (2, 1, 5)
    for b, length in enumerate(LENGTHS):
        for j in range(S):
            assert MASK[b, 0, j] == (j < length)


@pytest.mark.claim("def-padding-mask")
def test_padded_source_positions_have_the_weight_zero_exactly():
    Y, A = cross_attention(P, X, C, mask=MASK, return_weights=True)
    assert not A[1, :, :, 3:].any()
    assert (A[1, :, :, :3] > 0).all()
    assert (A[1, :, 3:, :3] > 0).all()  # padded rows have weights too
    assert_close(A.sum(-1), np.ones((2, H, T)), 1e-14)
    alone = cross_attention(P, X[1, :3], C[1, :3])
    assert_close(Y[1, :3], alone, 1e-13)


# prop-shut-key


@pytest.mark.claim("prop-shut-key")
def test_a_row_is_what_attention_gives_over_its_open_keys():
    mask = np.array([[1, 0, 1, 1, 0], [0, 1, 0, 0, 0]], bool)
    q, k, v = normal(2, 3), normal(5, 3), normal(5, 2)
    Y = attention(q, k, v, mask=mask)
    for i, row in enumerate(mask):
        assert_close(
            Y[i], attention(q[i : i + 1], k[row], v[row])[0], 1e-14
        )


def test_nan_in_the_padding_has_no_effect_and_without_a_mask_spoils_all():
    spoiled = C.copy()
    spoiled[1, 3:] = np.nan
    Y = cross_attention(P, X, C, mask=MASK)
    assert np.array_equal(cross_attention(P, X, spoiled, mask=MASK), Y)
    rows = np.isnan(cross_attention(P, X, spoiled)).any(2).sum(1)
    assert rows.tolist() == [0, 7]
    assert np.isnan(0 * np.nan)


# Mask keys, not padded queries


def test_padding_of_the_target_moves_no_real_row_and_no_loss_over_them():
    other, goal = X.copy(), normal(2, T, D_OUT, seed=6)
    other[1, 3:] = normal(4, D_Q, seed=7)
    real = np.arange(T) < np.array([[7], [3]])
    errors = [
        ((cross_attention(P, x, C, mask=MASK) - goal) ** 2).mean(2)
        for x in (X, other)
    ]
    assert errors[0][real].mean() == errors[1][real].mean()
    assert abs(errors[0].mean() - errors[1].mean()) > 1e-3


def test_a_padded_row_that_is_masked_as_well_becomes_the_output_bias():
    both = MASK & (np.arange(T) < np.array([[7], [3]]))[..., None]
    Y, masked = (cross_attention(P, X, C, mask=m) for m in (MASK, both))
    assert np.array_equal(masked[1, 3:], np.tile(P.b_O, (4, 1)))
    assert_close(masked[1, :3], Y[1, :3], 1e-14)


# Before the softmax, and with −∞


def test_masked_before_the_softmax_and_after_it():
    z = np.log(2) * np.array([2.0, 0, 0, 0, 0])
    is_open = np.array([True, True, True, False, False])
    query, keys = np.ones((1, 1)), z[:, None]  # so that the scores are z
    before = attention_weights(query, keys, mask=is_open, scale=1)[0]
    assert_close(before, np.array([4, 1, 1, 0, 0]) / 6, 1e-15)
    after = attention_weights(query, keys, scale=1)[0] * is_open
    assert_close(after, np.array([4, 1, 1, 0, 0]) / 8, 1e-15)
    assert_close(after.sum(), np.array(3 / 4), 1e-15)


def test_a_large_negative_number_averages_where_minus_infinity_gives_nothing():
    assert_close(softmax(np.full(5, -1e9)), np.full(5, 0.2), 1e-15)
    assert not softmax(np.full(5, -np.inf)).any()
    # With an ordinary open key both give 0.
    for low in (-1e9, -np.inf):
        assert softmax(np.array([0.3, low, low]))[1:].tolist() == [0, 0]
    powers = np.exp(np.full(5, -np.inf))
    with np.errstate(invalid="ignore"):
        assert np.isnan(powers / powers.sum()).all()


def test_adding_a_large_negative_number_depends_on_the_precision():
    z = np.log(2) * np.array([2.0, 0, 0, 0, 0])
    assert_close(softmax(z - 1e9), softmax(z), 1e-6)
    assert np.spacing(np.float32(1e9)) == 64
    single = softmax(z.astype(np.float32) - np.float32(1e9))
    assert_close(single, np.full(5, 0.2), 1e-7)


def test_a_bias_of_minus_infinity_shuts_and_a_finite_one_tilts():
    Y = cross_attention(P, X, C, mask=MASK)
    shut = np.where(MASK, 0, -np.inf)
    assert_close(cross_attention(P, X, C, bias=shut), Y, 1e-14)
    plain, more, less = (
        cross_attention(
            P,
            X,
            C,
            bias=np.array([b, 0.0, 0, 0, 0]),
            return_weights=True,
        )[1][..., 0]
        for b in (0.0, 1.0, -1.0)
    )
    assert (more > plain).all()
    assert (less < plain).all()


# A source of length 0


@pytest.mark.claim("def-padding-mask")
def test_an_empty_source_gives_no_weight_and_the_output_bias():
    mask = padding_mask(np.array([5, 0]), S)
    Y, A = cross_attention(P, X, C, mask=mask, return_weights=True)
    assert not A[1].any()
    assert np.array_equal(Y[1], np.tile(P.b_O, (T, 1)))
    assert_close(Y[0], cross_attention(P, X[0], C[0]), 1e-14)


# Where it sits


def test_a_causal_mask_shuts_the_padding_at_the_end_from_real_rows():
    p = MultiHeadParameters.init(6, 2, seed=4)
    causal, padding = causal_mask(T), padding_mask(np.array([7, 3]), T)
    alone = self_attention(p, X, mask=causal)
    both = self_attention(p, X, mask=combine_masks(causal, padding))
    assert_close(alone[1, :3], both[1, :3], 1e-14)
    assert apart(alone[1, 3:], both[1, 3:])


# Alignment is older than the Transformer


def test_weight_may_move_between_words_of_one_value_unnoticed():
    alike = VALUES.copy()
    alike[RED] = alike[CAR]
    A = attention_weights(QUERIES, KEYS)
    swapped = attention_weights(QUERIES, KEYS[[0, 1, 2, 4, 3]])
    assert_close(A[VOITURE], np.array([1, 1, 1, 1, 16]) / 20, 1e-15)
    assert_close(swapped[VOITURE], np.array([1, 1, 1, 16, 1]) / 20, 1e-15)
    assert_close(A @ alike, swapped @ alike, 1e-14)
    assert apart(A @ VALUES, swapped @ VALUES)


# What can go wrong: keys and values from the wrong sequence

PLAIN = MultiHeadParameters.init(8, 2, seed=10)


def test_a_context_of_another_width_is_refused():
    with pytest.raises(ValueError, match=r"context has D_k = 6") as error:
        cross_attention(P, X[0], X[0])
    assert str(error.value).endswith(
        "W_K has one row per column of context"
    )


def test_with_equal_widths_only_the_shape_of_the_weights_tells():
    x, context = normal(7, 8, seed=1), normal(5, 8, seed=2)
    outputs, shapes = [], []
    for given in (context, x):
        y, w = cross_attention(PLAIN, x, given, return_weights=True)
        outputs.append(y)
        shapes.append(w.shape)
    assert outputs[0].shape == outputs[1].shape
    assert shapes == [(2, 7, 5), (2, 7, 7)]
    assert apart(*outputs)


CALLS = {
    "right": (lambda x, c: (x, c, c), False, True),
    "both from the target": (lambda x, c: (x, x, x), False, False),
    "values from the target": (lambda x, c: (x, c, x), True, True),
    "keys from the target": (lambda x, c: (x, x, c), True, True),
}


@pytest.mark.parametrize(
    ("call", "reordered", "altered"), CALLS.values(), ids=CALLS
)
def test_only_the_right_call_stays_when_reordered_and_moves_when_altered(
    call, reordered, altered
):
    x, c, noise = (normal(5, 8, seed=s) for s in (3, 4, 5))
    first, second, third = (
        multi_head_attention(PLAIN, *call(x, given))
        for given in (c, c[[2, 0, 1, 4, 3]], c + noise)
    )
    assert apart(first, second) == reordered
    assert apart(first, third) == altered


# What can go wrong: the mask inside out


def test_an_inverted_mask_shuts_the_full_sentence_and_opens_the_padding():
    _, A = cross_attention(P, X, C, mask=~MASK, return_weights=True)
    assert not A[0].any()
    assert not A[1, :, :, :3].any()
    assert_close(A[1, :, :, 3:].sum(-1), np.ones((H, T)), 1e-14)


def test_row_sums_miss_an_inverted_mask_where_each_sentence_has_padding():
    mask = padding_mask(np.array([4, 3]), S)
    _, A = cross_attention(P, X, C, mask=~mask, return_weights=True)
    assert_close(A.sum(-1), np.ones((2, H, T)), 1e-14)


def test_other_padding_finds_an_inverted_mask():
    refilled = C.copy()
    refilled[1, 3:] = normal(2, D_C, seed=8)
    for mask, found in ((MASK, False), (~MASK, True)):
        one, other = (
            cross_attention(P, X, c, mask=mask) for c in (C, refilled)
        )
        assert np.array_equal(one, other) != found


def test_the_mask_for_the_module_of_torch_is_turned():
    attn_mask, key_padding_mask = mask_to_torch_mha(MASK, heads=2)
    assert attn_mask is None
    assert key_padding_mask.tolist() == [
        [False] * 5,
        [False, False, False, True, True],
    ]


# ex-cross-attention-hand


def test_with_red_shut_its_translation_gets_an_average_and_de_is_as_worked_by_hand():
    mask = np.array([True, True, True, False, True])
    Y, A = attention(QUERIES, KEYS, VALUES, mask=mask, return_weights=True)
    assert_close(A[FRENCH_RED], np.array([1, 1, 1, 0, 1]) / 4, 1e-15)
    assert_close(Y[FRENCH_RED], np.array([8.75, 3.75]), 1e-14)
    assert_close(A[DE], np.array([1, 1, 8, 0, 8]) / 18, 1e-15)
    assert_close(Y[DE], np.array([210, 50]) / 18, 1e-14)
    assert Y[DE].round(2).tolist() == [11.67, 2.78]


# ex-cross-attention-pair


def test_strength_four_is_the_least_that_gives_both_words_048():
    for n in range(1, 7):
        query = np.sqrt(3) * np.log(2) * np.array([[0.0, n, n]])
        weights = attention_weights(query, np.eye(3))[0]
        both = 2**n / (2 ** (n + 1) + 1)
        assert_close(weights[1:], np.array([both, both]), 1e-14)
        assert (both >= 0.48) == (n >= 4)
        assert both < 0.5
    assert round(8 / 17, 3) == 0.471
    assert round(16 / 33, 3) == 0.485


def test_with_unequal_strengths_the_weaker_word_gets_less_than_a_third():
    for more in range(1, 6):
        query = np.sqrt(3) * np.log(2) * np.array([[0.0, 6 + more, 6]])
        assert attention_weights(query, np.eye(3))[0, 2] < 1 / 3


# ex-cross-attention-after


def test_masking_afterwards_and_dividing_is_the_same_until_it_underflows():
    one, is_open = np.ones((1, 1)), np.array([True, True, False])

    def after(z):
        weights = softmax(z) * is_open
        with np.errstate(invalid="ignore"):
            return weights / weights.sum()

    def before(z):
        return attention_weights(one, z[:, None], mask=is_open)[0]

    z = np.array([0.3, -1.2, 2.0])
    assert_close(after(z), before(z), 1e-14)
    z = np.array([0.0, 0, 800])
    assert np.isnan(after(z)).all()
    assert before(z).tolist() == [0.5, 0.5, 0]
