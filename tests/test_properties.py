"""What holds for all input, tried on input that hypothesis makes up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attention_in_detail import (
    MultiHeadParameters,
    attention,
    attention_weights,
    causal_mask,
    combine_masks,
    mask_from_torch_mha,
    mask_to_torch_mha,
    merge_heads,
    multi_head_attention,
    multi_head_attention_by_head,
    padding_mask,
    scores,
    self_attention,
    softmax,
    split_heads,
)
from tests import reference
from tests.support import assert_close

sizes = st.integers(1, 5)
numbers = st.floats(-20, 20, width=32)
seeds = st.integers(0, 2**32 - 1)


def matrices(*shape, elements=numbers):
    return arrays.arrays(np.float64, shape, elements=elements)


@st.composite
def problems(draw, batch=()):
    """Queries, keys, values, mask and bias (with some −inf) of fitting sizes."""
    T, S, D_k, D_v = (draw(sizes) for _ in range(4))
    bias = draw(matrices(*batch, T, S, elements=numbers | st.just(-np.inf)))
    return (
        draw(matrices(*batch, T, D_k)),
        draw(matrices(*batch, S, D_k)),
        draw(matrices(*batch, S, D_v)),
        {"mask": draw(arrays.arrays(bool, (*batch, T, S))), "bias": bias},
    )


def orders(draw, n):
    return np.array(draw(st.permutations(range(n))))


# ---- softmax ----

rows = matrices(3, 4, elements=st.floats(-1e4, 1e4))


@given(rows)
def test_softmax_gives_positive_weights_that_sum_to_one(z):
    weights = softmax(z)
    assert (weights >= 0).all()
    assert_close(weights.sum(-1), np.ones(3), 1e-14)


@pytest.mark.claim("prop-softmax")
@given(rows, st.floats(-1e4, 1e4))
def test_softmax_does_not_notice_a_shift_of_a_row(z, shift):
    assert_close(softmax(z + shift), softmax(z), 1e-10)


@given(rows)
def test_softmax_keeps_the_order(z):
    weights = softmax(z)
    for row, own in zip(z, weights, strict=True):
        assert (np.diff(own[np.argsort(row, kind="stable")]) >= 0).all()


@given(matrices(4), st.floats(0.01, 0.9))
def test_a_higher_temperature_lowers_the_largest_weight(z, factor):
    assert softmax(z * factor).max() <= softmax(z).max() + 1e-15


# ---- attention ----


@pytest.mark.claim("def-attention")
@given(problems())
def test_attention_is_its_formula(problem):
    q, k, v, given_ = problem
    output, weights = attention(q, k, v, **given_, return_weights=True)
    expected, expected_weights = reference.attention(q, k, v, **given_)
    assert_close(output, expected, 1e-9)
    assert_close(weights, expected_weights, 1e-9)


@given(problems())
def test_rows_of_weights_sum_to_one_or_to_zero_where_nothing_is_open(
    problem,
):
    q, k, _, given_ = problem
    weights = attention_weights(q, k, **given_)
    open_ = given_["mask"] & (given_["bias"] > -np.inf)
    assert_close(weights.sum(-1), open_.any(-1) * 1.0, 1e-14)
    assert (weights[~open_] == 0).all()
    assert (weights >= 0).all()


@pytest.mark.claim("prop-weighted-sum")
@given(problems())
def test_the_output_lies_among_the_values_attended_to(problem):
    q, k, v, given_ = problem
    output = attention(q, k, v, **given_)
    open_ = given_["mask"] & (given_["bias"] > -np.inf)
    for i, row in enumerate(open_):
        if row.any():
            slack = 1e-13 * (1 + np.abs(v).max())
            assert (output[i] >= v[row].min(0) - slack).all()
            assert (output[i] <= v[row].max(0) + slack).all()
        else:
            assert (output[i] == 0).all()


@pytest.mark.claim("thm-permutation")
@given(problems(), st.data())
def test_attention_is_equivariant_in_its_queries(problem, data):
    q, k, v, given_ = problem
    order = orders(data.draw, len(q))
    turned = {name: x[order] for name, x in given_.items()}
    assert_close(
        attention(q[order], k, v, **turned),
        attention(q, k, v, **given_)[order],
        1e-12,
    )


@pytest.mark.claim("thm-permutation")
@given(problems(), st.data())
def test_attention_does_not_notice_the_order_of_keys_with_their_values(
    problem, data
):
    q, k, v, given_ = problem
    order = orders(data.draw, len(k))
    turned = {name: x[:, order] for name, x in given_.items()}
    output, weights = attention(q, k, v, **given_, return_weights=True)
    other, other_weights = attention(
        q, k[order], v[order], **turned, return_weights=True
    )
    assert_close(other, output, 1e-12)
    assert_close(other_weights, weights[:, order], 1e-12)


@given(problems(), st.floats(-5, 5))
def test_a_shift_of_all_scores_of_a_query_changes_nothing(problem, shift):
    q, k, v, given_ = problem
    moved = given_ | {"bias": given_["bias"] + shift}
    assert_close(
        attention(q, k, v, **moved), attention(q, k, v, **given_), 1e-10
    )


@given(problems(), st.floats(0.1, 3))
def test_scale_works_on_queries_keys_and_scores_alike(problem, factor):
    q, k, v, given_ = problem
    width = q.shape[-1] ** -0.5
    scaled = attention(q, k, v, **given_, scale=factor * width)
    assert_close(attention(factor * q, k, v, **given_), scaled, 1e-9)
    assert_close(attention(q, factor * k, v, **given_), scaled, 1e-9)
    assert_close(scores(q, k, scale=factor), factor * (q @ k.T), 1e-12)


@given(problems(), st.floats(-3, 3), st.floats(-3, 3))
def test_the_output_is_linear_in_the_values(problem, a, b):
    q, k, v, given_ = problem
    w = np.cos(v)
    mixed = a * attention(q, k, v, **given_) + b * attention(
        q, k, w, **given_
    )
    assert_close(attention(q, k, a * v + b * w, **given_), mixed, 1e-11)


@pytest.mark.claim("def-batch", "prop-parallel-entries")
@given(
    problems(batch=(2, 3)), st.lists(st.booleans(), min_size=5, max_size=5)
)
def test_what_has_no_batch_axes_holds_for_all(problem, kept):
    """Each of the five either has its batch axes or only its first entry, without them."""
    q, k, v, given_ = problem
    five = q, k, v, given_["mask"], given_["bias"]
    some = [
        x if keep else x[0, 0] for x, keep in zip(five, kept, strict=True)
    ]
    full = [np.broadcast_to(x, (2, 3, *x.shape[-2:])) for x in some]
    ours = attention(*some[:3], mask=some[3], bias=some[4])
    for b in np.ndindex(2, 3):
        alone = attention(
            *(x[b] for x in full[:3]), mask=full[3][b], bias=full[4][b]
        )
        assert_close(ours[b] if any(kept) else ours, alone, 1e-12)


@pytest.mark.claim("prop-shut-key")
@given(problems(), st.data())
def test_what_is_shut_for_all_may_be_anything(problem, data):
    q, k, v, given_ = problem
    j = data.draw(st.integers(0, len(k) - 1))
    mask = given_["mask"].copy()
    mask[:, j] = False
    k_other, v_other = k.copy(), v.copy()
    k_other[j], v_other[j] = (
        data.draw(st.sampled_from([0.0, 1e300, np.nan, np.inf])),
        np.nan,
    )
    bias = given_["bias"]
    one = attention(q, k, v, mask=mask, bias=bias)
    assert np.array_equal(
        attention(q, k_other, v_other, mask=mask, bias=bias), one
    )


# ---- masks ----


@pytest.mark.claim("def-causal-mask")
@given(sizes, sizes, st.integers(-6, 6), st.data())
def test_causality(T, S, offset, data):
    """Changing a key and value changes no output before the query that may see it first."""
    rng = np.random.default_rng(data.draw(seeds))
    q, k, v = (
        rng.normal(size=(T, 3)),
        rng.normal(size=(S, 3)),
        rng.normal(size=(S, 2)),
    )
    mask = causal_mask(T, S, offset=offset)
    j = data.draw(st.integers(0, S - 1))
    k2, v2 = k.copy(), v.copy()
    k2[j], v2[j] = k2[j] + 1, v2[j] - 1
    changed = (
        attention(q, k, v, mask=mask) != attention(q, k2, v2, mask=mask)
    ).any(-1)
    first = max(0, j - offset)
    assert not changed[:first].any()
    assert changed[first:].all()


@pytest.mark.claim("prop-shut-key")
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=4), st.integers(6, 9)
)
def test_padding_is_as_if_it_were_cut_off(lengths, S):
    rng = np.random.default_rng(len(lengths))
    q, k, v = (rng.normal(size=(len(lengths), n, 3)) for n in (2, S, S))
    output = attention(q, k, v, mask=padding_mask(np.array(lengths), S))
    for b, n in enumerate(lengths):
        alone = (
            attention(q[b], k[b, :n], v[b, :n]) if n else np.zeros((2, 3))
        )
        assert_close(output[b], alone, 1e-12)


@given(st.data(), sizes, sizes, st.integers(1, 3), st.integers(1, 3))
def test_masks_go_to_torch_and_come_back(data, T, S, B, heads):
    mask = data.draw(
        arrays.arrays(
            bool, (B, data.draw(st.sampled_from([1, heads])), T, S)
        )
    )
    back, bias = mask_from_torch_mha(
        *mask_to_torch_mha(mask, heads=heads), heads=heads
    )
    assert bias is None
    back = back if back.ndim == 4 else back[:, None]
    assert np.array_equal(
        np.broadcast_to(back, (B, heads, T, S)),
        np.broadcast_to(mask, (B, heads, T, S)),
    )


@given(st.data())
def test_combining_is_all_of_them_in_any_order(data):
    shapes = data.draw(
        arrays.mutually_broadcastable_shapes(
            num_shapes=3, max_dims=3, max_side=3
        )
    )
    masks = [
        data.draw(arrays.arrays(bool, shape))
        for shape in shapes.input_shapes
    ]
    expected = masks[0] & masks[1] & masks[2]
    assert np.array_equal(combine_masks(*masks), expected)
    assert np.array_equal(
        combine_masks(masks[2], None, masks[0], masks[1]), expected
    )


# ---- heads ----


@pytest.mark.claim("def-split")
@given(sizes, sizes, sizes, st.integers(0, 3), seeds)
def test_merging_undoes_splitting(heads, D_h, T, batch, seed):
    x = np.random.default_rng(seed).normal(size=(batch, T, heads * D_h))
    cut = split_heads(x, heads)
    assert cut.shape == (batch, heads, T, D_h)
    assert np.array_equal(merge_heads(cut), x)


multi_head_problems = st.tuples(
    sizes, st.integers(1, 3), *[sizes] * 6, st.floats(0, 1), seeds
)


def multi_head_problem(
    heads, D_h, D_q, D_k, D_v, D_out, T, S, openness, seed
):
    """Parameters, queries, keys, values and a mask for each head."""
    widths = {"D_q": D_q, "D_k": D_k, "D_v": D_v, "D_out": D_out}
    p = MultiHeadParameters.init(heads * D_h, heads, **widths, seed=seed)
    rng = np.random.default_rng(seed)
    q, k, v = (rng.normal(size=s) for s in ((T, D_q), (S, D_k), (S, D_v)))
    return p, q, k, v, rng.random((heads, T, S)) < openness


@pytest.mark.claim("thm-one-product")
@given(multi_head_problems)
def test_fused_by_head_and_the_formula_are_one(problem):
    p, q, k, v, mask = multi_head_problem(*problem)
    expected, weights = reference.multi_head(p, q, k, v, mask)
    for multi_head in (multi_head_attention, multi_head_attention_by_head):
        ours = multi_head(p, q, k, v, mask=mask, return_weights=True)
        assert_close(ours[0], expected, 1e-11)
        assert_close(ours[1], weights, 1e-11)


@pytest.mark.claim("rem-roles")
@given(multi_head_problems, st.data())
def test_the_order_of_the_heads_does_not_matter(problem, data):
    """Heads may change places if their columns, their rows of W_O and their masks go with them."""
    p, q, k, v, mask = multi_head_problem(*problem)
    order = orders(data.draw, p.heads)
    columns = (order[:, None] * p.D_h + np.arange(p.D_h)).ravel()
    turned = MultiHeadParameters(
        p.W_Q[:, columns],
        p.W_K[:, columns],
        p.W_V[:, columns],
        p.W_O[columns],
        heads=p.heads,
    )
    output, weights = multi_head_attention(
        p, q, k, v, mask=mask, return_weights=True
    )
    other, other_weights = multi_head_attention(
        turned, q, k, v, mask=mask[order], return_weights=True
    )
    assert_close(other, output, 1e-12)
    assert_close(other_weights, weights[order], 1e-12)


@pytest.mark.claim("thm-self-attention-equivariant")
@given(st.integers(2, 6), seeds, st.data())
def test_self_attention_is_equivariant_and_a_causal_mask_breaks_that(
    T, seed, data
):
    rng = np.random.default_rng(seed)
    p, x = (
        MultiHeadParameters.init(4, 2, D_q=3, D_k=3, D_v=3, seed=1),
        rng.normal(size=(T, 3)),
    )
    order = orders(data.draw, T)
    assert_close(
        self_attention(p, x[order]), self_attention(p, x)[order], 1e-12
    )
    mask = causal_mask(T)
    if (order != np.arange(T)).any():
        causal = (
            self_attention(p, x[order], mask=mask)
            - self_attention(p, x, mask=mask)[order]
        )
        assert np.abs(causal).max() > 1e-9


@pytest.mark.parametrize(
    "multi_head", [multi_head_attention, multi_head_attention_by_head]
)
@given(multi_head_problems, st.integers(0, 3))
def test_a_batch_is_its_entries_one_by_one(multi_head, problem, batch):
    p, q, k, v, mask = multi_head_problem(*problem)
    scale = 1.0 + np.arange(batch)[:, None, None]
    output = multi_head(p, scale * q, k, v, mask=mask[None])
    assert output.shape == (batch, len(q), p.D_out)
    for b in range(batch):
        assert_close(
            output[b], multi_head(p, scale[b] * q, k, v, mask=mask), 1e-12
        )
