from dataclasses import replace

import numpy as np
import pytest
import torch

from attention_in_detail import (
    MultiHeadParameters,
    attention,
    cross_attention,
    merge_heads,
    multi_head_attention,
    multi_head_attention_by_head,
    padding_mask,
    repeat_heads,
    self_attention,
    split_heads,
)
from tests import reference
from tests.support import (
    B,
    D,
    D_k,
    D_out,
    D_q,
    D_v,
    S,
    T,
    assert_close,
    coin,
    each_library,
    h,
    leaves,
    normal,
    numpy_of,
    parameters,
)

Q, K, V = (
    normal(B, T, D_q, seed=1),
    normal(B, S, D_k, seed=2),
    normal(B, S, D_v, seed=3),
)
both_ways = pytest.mark.parametrize(
    "multi_head",
    [multi_head_attention_by_head, multi_head_attention],
    ids=["by head", "fused"],
)

# Each way to say which pairs are open: the array, and the axes (B, h, T, S) that it stands for.
FORMS = {
    "0 axes": ((), (1, 1, 1, 1)),
    "(S)": ((S,), (1, 1, 1, S)),
    "(T, S)": ((T, S), (1, 1, T, S)),
    "(1, S)": ((1, S), (1, 1, 1, S)),
    "(B, T, S)": ((B, T, S), (B, 1, T, S)),
    "(B, 1, S)": ((B, 1, S), (B, 1, 1, S)),
    "(1, T, 1)": ((1, T, 1), (1, 1, T, 1)),
    "(B, h, T, S)": ((B, h, T, S), (B, h, T, S)),
    "(B, 1, T, S)": ((B, 1, T, S), (B, 1, T, S)),
    "(1, h, 1, S)": ((1, h, 1, S), (1, h, 1, S)),
}
each_form = pytest.mark.parametrize(
    ("shape", "axes"), FORMS.values(), ids=FORMS
)


def spelled_out(x, axes):
    """``x`` with all four axes (B, h, T, S)."""
    return np.broadcast_to(np.reshape(x, axes), (B, h, T, S))


def expected(p, mask=None, bias=None, q=Q, k=K, v=V):
    """Batch entry by batch entry, head by head, number by number."""
    entries = [
        reference.multi_head(
            p,
            q[b],
            k[b],
            v[b],
            None if mask is None else mask[b],
            None if bias is None else bias[b],
        )
        for b in range(B)
    ]
    return [np.stack(part) for part in zip(*entries, strict=True)]


# ---- splitting ----


@each_library
def test_head_i_owns_its_own_columns(make):
    x = np.arange(2 * 3 * 8).reshape(2, 3, 8) * 1.0
    heads = numpy_of(split_heads(make(x), 4))
    assert heads.shape == (2, 4, 3, 2)
    for i in range(4):
        assert np.array_equal(heads[:, i], x[:, :, 2 * i : 2 * i + 2])


@pytest.mark.claim("def-split")
@each_library
def test_merging_puts_heads_side_by_side(make):
    heads = normal(2, 4, 3, 5)
    expected = np.concatenate([heads[:, i] for i in range(4)], axis=-1)
    assert_close(merge_heads(make(heads)), expected, 0)


def test_merging_undoes_splitting_and_the_other_way_round():
    x = normal(2, 5, 3, 8)
    assert np.array_equal(merge_heads(split_heads(x, 2)), x)
    assert np.array_equal(split_heads(merge_heads(x), 5), x)
    assert np.array_equal(split_heads(x[0, 0], 1)[0], x[0, 0])
    assert np.array_equal(split_heads(x[0, 0], 8)[..., 0], x[0, 0].T)


def test_splitting_and_merging_keep_empty_axes():
    assert split_heads(np.zeros((0, 4)), 2).shape == (2, 0, 2)
    assert merge_heads(np.zeros((2, 0, 2))).shape == (0, 4)


# ---- the formula ----


@pytest.mark.claim("def-multi-head")
@pytest.mark.parametrize(
    ("bias", "output"),
    [(True, True), (False, True), (True, False), (False, False)],
)
@both_ways
@each_library
def test_multi_head_attention_equals_its_formula(
    make, multi_head, bias, output
):
    p = parameters(bias=bias, output=output)
    out, weights = expected(p)
    ours = multi_head(
        parameters(make, bias=bias, output=output),
        make(Q),
        make(K),
        make(V),
        return_weights=True,
    )
    assert_close(ours[0], out)
    assert_close(ours[1], weights)
    assert type(ours[0]) is type(make(Q))


@pytest.mark.parametrize("kind", ["mask", "bias"])
@each_form
@both_ways
@each_library
def test_the_number_of_axes_says_what_a_mask_or_bias_speaks_of(
    make, multi_head, shape, axes, kind
):
    p = parameters()
    given = np.asarray(
        normal(*shape, seed=3) if kind == "bias" else coin(*shape, seed=3)
    )
    out, weights = expected(p, **{kind: spelled_out(given, axes)})
    ours = multi_head(
        parameters(make),
        make(Q),
        make(K),
        make(V),
        **{kind: make(given)},
        return_weights=True,
    )
    assert_close(ours[0], out)
    assert_close(ours[1], weights)


@pytest.mark.parametrize("bias_form", ["(S)", "(B, T, S)", "(B, h, T, S)"])
@pytest.mark.parametrize(
    "mask_form", ["(T, S)", "(B, 1, S)", "(1, h, 1, S)"]
)
@both_ways
def test_mask_and_bias_may_have_different_axes(
    multi_head, mask_form, bias_form
):
    p = parameters()
    mask, bias = (
        coin(*FORMS[mask_form][0], seed=1),
        normal(*FORMS[bias_form][0], seed=2),
    )
    bias = np.where(coin(*bias.shape, seed=5, p=0.8), bias, -np.inf)
    out, weights = expected(
        p,
        spelled_out(mask, FORMS[mask_form][1]),
        spelled_out(bias, FORMS[bias_form][1]),
    )
    ours = multi_head(p, Q, K, V, mask=mask, bias=bias, return_weights=True)
    assert_close(ours[0], out)
    assert_close(ours[1], weights)


@both_ways
def test_without_a_batch_axis_three_axes_are_heads(multi_head):
    p = parameters()
    mask, bias = coin(h, T, S, seed=1), normal(h, T, S, seed=2)
    out, weights = reference.multi_head(p, Q[0], K[0], V[0], mask, bias)
    ours = multi_head(
        p, Q[0], K[0], V[0], mask=mask, bias=bias, return_weights=True
    )
    assert_close(ours[0], out)
    assert_close(ours[1], weights)


@both_ways
def test_with_two_batch_axes_four_axes_are_batch_and_five_have_heads(
    multi_head,
):
    p = parameters()
    q, k, v = (np.stack([x, 2 * x]) for x in (Q, K, V))
    mask, bias = coin(2, B, T, S, seed=1), normal(2, B, h, T, S, seed=2)
    ours = multi_head(p, q, k, v, mask=mask, bias=bias)
    for n in range(2):
        per_head = np.broadcast_to(mask[n][:, None], (B, h, T, S))
        assert_close(
            ours[n], expected(p, per_head, bias[n], q[n], k[n], v[n])[0]
        )


@both_ways
@each_library
def test_a_padding_mask_falls_on_the_batch_where_batch_heads_and_queries_are_as_many(
    make, multi_head
):
    """B = h = T = 4: a mask on the wrong axis would broadcast without an error."""
    n = 4
    p = parameters(D=8, heads=n)
    q, k, v = (
        normal(n, n, D_q, seed=1),
        normal(n, S, D_k, seed=2),
        normal(n, S, D_v, seed=3),
    )
    lengths = np.array([1, 3, 5, 7])
    output, weights = multi_head(
        parameters(make, D=8, heads=n),
        make(q),
        make(k),
        make(v),
        mask=padding_mask(make(lengths), S),
        return_weights=True,
    )
    for b in range(n):
        alone = reference.multi_head(
            p, q[b], k[b, : lengths[b]], v[b, : lengths[b]]
        )
        assert_close(numpy_of(output)[b], alone[0])
        assert_close(numpy_of(weights)[b, :, :, : lengths[b]], alone[1])


@both_ways
def test_a_bias_per_head_reaches_its_head_where_batch_heads_and_queries_are_as_many(
    multi_head,
):
    n = 4
    p = parameters(D=8, heads=n)
    q, k, v = (
        normal(n, n, D_q, seed=1),
        normal(n, S, D_k, seed=2),
        normal(n, S, D_v, seed=3),
    )
    slopes = np.arange(n)[:, None, None] * normal(1, S)
    output = multi_head(p, q, k, v, bias=slopes[None])
    for b in range(n):
        full = np.broadcast_to(slopes, (n, n, S))
        assert_close(
            output[b],
            reference.multi_head(p, q[b], k[b], v[b], bias=full)[0],
        )


def test_one_head_of_full_width_is_attention_between_projections():
    p = parameters(heads=1, bias=False)
    plain = attention(Q @ p.W_Q, K @ p.W_K, V @ p.W_V) @ p.W_O
    assert_close(multi_head_attention(p, Q, K, V), plain)


@pytest.mark.claim("thm-sum-over-heads")
def test_the_output_is_the_sum_of_what_the_heads_give():
    p = parameters()
    total = (
        sum(multi_head_attention(p.head(i), Q, K, V) for i in range(h))
        + p.b_O
    )
    assert_close(multi_head_attention(p, Q, K, V), total)


def test_heads_are_counted_in_the_order_of_their_columns():
    p = parameters()
    _, weights = multi_head_attention(p, Q, K, V, return_weights=True)
    for i in range(h):
        _, alone = multi_head_attention(
            p.head(i), Q, K, V, return_weights=True
        )
        assert_close(weights[:, i], alone[:, 0])


@both_ways
def test_as_many_heads_as_columns_and_keys_alike(multi_head):
    p = parameters(heads=D)
    out, weights = multi_head(p, Q, K, V, return_weights=True)
    assert weights.shape == (B, D, T, S)
    assert_close(out[0], reference.multi_head(p, Q[0], K[0], V[0])[0])


# ---- who gives queries, keys and values ----


@pytest.mark.claim("def-self-attention")
def test_self_attention_takes_everything_from_x():
    p = parameters(D_k=D_q, D_v=D_q)
    mask, bias = coin(B, T, T, seed=1), normal(h, 1, T)[None]
    ours = self_attention(p, Q, mask=mask, bias=bias, return_weights=True)
    theirs = expected(
        p,
        spelled_square(mask),
        np.broadcast_to(bias, (B, h, T, T)),
        Q,
        Q,
        Q,
    )
    assert_close(ours[0], theirs[0])
    assert_close(ours[1], theirs[1])
    assert np.array_equal(
        self_attention(p, Q, mask=mask, bias=bias), ours[0]
    )


def spelled_square(mask):
    return np.broadcast_to(mask[:, None], (B, h, T, T))


@pytest.mark.claim("def-cross-attention")
def test_cross_attention_takes_queries_from_x_and_the_rest_from_the_context():
    p = parameters(D_v=D_k)
    mask, bias = coin(B, T, S, seed=1), normal(S)
    ours = cross_attention(
        p, Q, K, mask=mask, bias=bias, return_weights=True
    )
    theirs = expected(
        p,
        np.broadcast_to(mask[:, None], (B, h, T, S)),
        np.broadcast_to(bias, (B, h, T, S)),
        Q,
        K,
        K,
    )
    assert_close(ours[0], theirs[0])
    assert_close(ours[1], theirs[1])
    assert np.array_equal(
        cross_attention(p, Q, K, mask=mask, bias=bias), ours[0]
    )


# ---- batch axes ----

BROADCASTS = {
    "queries alone": ((4,), (), (), None),
    "keys alone": ((), (4,), (), None),
    "values alone": ((), (), (4,), None),
    "mask alone": ((1,), (1,), (), (4,)),
    "keys and mask": ((), (4,), (), (4,)),
    "values and mask": ((), (), (4,), (4,)),
    "each its own": ((4, 1, 1), (6, 1), (1, 2), (1, 6, 1)),
    "an empty batch": ((0,), (1,), (), (1,)),
    "many": ((2, 1, 1, 3), (2, 1, 1), (1,), (2, 1, 1, 1)),
}


@pytest.mark.parametrize("case", BROADCASTS.values(), ids=BROADCASTS)
@both_ways
@each_library
def test_batch_axes_broadcast(make, multi_head, case):
    p = parameters()
    shapes = (T, D_q), (S, D_k), (S, D_v)
    q, k, v = (
        normal(*b, *s, seed=n)
        for n, (b, s) in enumerate(zip(case, shapes, strict=False))
    )
    mask = None if case[3] is None else coin(*case[3], T, S)
    batch = np.broadcast_shapes(*(b for b in case if b is not None))
    output, weights = multi_head(
        parameters(make),
        make(q),
        make(k),
        make(v),
        mask=None if mask is None else make(mask),
        return_weights=True,
    )
    assert tuple(output.shape) == (*batch, T, D_out)
    assert tuple(weights.shape) == (*batch, h, T, S)
    q, k, v = (
        np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (q, k, v)
    )
    for b in np.ndindex(*batch):
        own = (
            None
            if mask is None
            else np.broadcast_to(mask, (*batch, T, S))[b]
        )
        own = None if own is None else np.broadcast_to(own, (h, T, S))
        out, A = reference.multi_head(p, q[b], k[b], v[b], own)
        assert_close(numpy_of(output)[b], out)
        assert_close(numpy_of(weights)[b], A)


@both_ways
@each_library
def test_no_queries_give_nothing(make, multi_head):
    output, weights = multi_head(
        parameters(make),
        make(Q[:, :0]),
        make(K),
        make(V),
        return_weights=True,
    )
    assert tuple(output.shape) == (B, 0, D_out)
    assert tuple(weights.shape) == (B, h, 0, S)
    mask = make(np.ones((B, 1, S), bool))
    assert tuple(
        multi_head(
            parameters(make), make(Q[:, :0]), make(K), make(V), mask=mask
        ).shape
    ) == (B, 0, D_out)


# ---- what is shut ----


def shut_query(how, i=1):
    """Query i may attend to nothing."""
    mask = np.ones((B, T, S), bool)
    mask[:, i] = False
    bias = np.where(mask, normal(B, T, S), -np.inf)
    return {"mask": mask} if how == "mask" else {"bias": bias}


@pytest.mark.parametrize("how", ["mask", "bias"])
@both_ways
@each_library
def test_a_query_that_may_attend_to_nothing_gets_the_output_bias_alone(
    make, multi_head, how
):
    given = {name: make(x) for name, x in shut_query(how).items()}
    for output in (True, False):
        p = parameters(make, output=output)
        out, weights = multi_head(
            p, make(Q), make(K), make(V), **given, return_weights=True
        )
        alone = numpy_of(p.b_O) if output else np.zeros(D)
        assert (numpy_of(out)[:, 1] == alone).all()
        assert (numpy_of(weights)[:, :, 1] == 0).all()
        assert_close(numpy_of(weights)[:, :, 0].sum(-1), np.ones((B, h)))


def torch_parameters(**options):
    """Parameters that want a gradient."""
    return parameters(
        lambda x: torch.tensor(x, requires_grad=True), **options
    )


@pytest.mark.parametrize("how", ["mask", "bias"])
@both_ways
def test_a_query_that_may_attend_to_nothing_passes_no_gradient(
    multi_head, how
):
    given = {name: torch.tensor(x) for name, x in shut_query(how).items()}
    others = {name: x[:, [0, 2]] for name, x in given.items()}
    grads = []
    for rows, masks in (([0, 1, 2], given), ([0, 2], others)):
        p = torch_parameters()
        q, k, v = leaves(Q[:, rows], K, V)
        out, weights = multi_head(p, q, k, v, **masks, return_weights=True)
        keep = [n for n, r in enumerate(rows) if r != 1]
        loss = out[:, keep].square().sum()
        if 1 in rows:
            loss = (
                loss
                + out[:, 1].square().sum()
                + weights[:, :, 1].square().sum()
            )
        loss.backward()
        grads.append((q.grad, k.grad, v.grad, p))
    (q_all, *kv_all, p_all), (q_two, *kv_two, p_two) = grads
    assert (q_all[:, 1] == 0).all()
    assert_close(q_all[:, [0, 2]], q_two)
    for one, two in zip(kv_all, kv_two, strict=True):
        assert_close(one, two)
    for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V"):
        assert_close(getattr(p_all, name).grad, getattr(p_two, name).grad)


@pytest.mark.parametrize(
    "form", ["(B, 1, S)", "(B, h, T, S)", "bias (S)", "bias (B, h, T, S)"]
)
@both_ways
@each_library
def test_nan_in_the_padding_reaches_no_output(make, multi_head, form):
    open_ = np.arange(S) < 4
    k, v = K.copy(), V.copy()
    k[:, ~open_], v[:, ~open_] = np.nan, np.nan
    name, given = shut_keys(form, open_)
    output, weights = multi_head(
        parameters(make),
        make(Q),
        make(k),
        make(v),
        **{name: make(given)},
        return_weights=True,
    )
    out, A = expected(parameters(), k=K[:, :4], v=V[:, :4])
    assert_close(output, out)
    assert_close(numpy_of(weights)[..., :4], A)
    assert (numpy_of(weights)[..., 4:] == 0).all()


def shut_keys(form, open_):
    shape = FORMS[form.removeprefix("bias ")][0]
    mask = np.broadcast_to(open_, shape)
    return (
        ("bias", np.where(mask, 0.0, -np.inf))
        if form.startswith("bias")
        else ("mask", mask.copy())
    )


@pytest.mark.parametrize(
    "form", ["(B, 1, S)", "(B, h, T, S)", "bias (S)", "bias (B, h, T, S)"]
)
@both_ways
def test_nan_in_the_padding_reaches_no_gradient_of_input_or_projection(
    multi_head, form
):
    open_ = np.arange(S) < 4
    name, given = shut_keys(form, open_)
    p, clean = torch_parameters(), torch_parameters()
    k_given, v_given = K.copy(), V.copy()
    k_given[:, ~open_], v_given[:, ~open_] = np.nan, np.nan
    q, k, v = leaves(Q, k_given, v_given)
    multi_head(
        p, q, k, v, **{name: torch.tensor(given)}
    ).square().sum().backward()
    q2, k2, v2 = leaves(Q, K[:, :4], V[:, :4])
    multi_head(clean, q2, k2, v2).square().sum().backward()
    assert_close(q.grad, q2.grad)
    for x, x2 in ((k, k2), (v, v2)):
        assert (x.grad[:, 4:] == 0).all()
        assert_close(x.grad[:, :4], x2.grad)
    for name, W in p.arrays().items():
        assert_close(W.grad, getattr(clean, name).grad)


@both_ways
def test_nan_in_a_query_that_may_attend_to_nothing_reaches_no_gradient(
    multi_head,
):
    p = torch_parameters()
    q_given = Q.copy()
    q_given[:, 1] = np.nan
    q, k, v = leaves(q_given, K, V)
    out = multi_head(
        p, q, k, v, mask=torch.tensor(shut_query("mask")["mask"])
    )
    out.sum().backward()
    assert out.isfinite().all()
    for x in (q, k, v, *p.arrays().values()):
        assert x.grad.isfinite().all()


@pytest.mark.parametrize("which", ["queries", "keys", "values"])
@both_ways
def test_nan_that_one_head_alone_may_see_leaves_the_other_heads_alone(
    multi_head, which
):
    """Without W_O the columns of the output are the heads: the second sees no NaN."""
    given = {"queries": Q.copy(), "keys": K.copy(), "values": V.copy()}
    mask = np.ones((1, h, T, S), bool)
    if which == "queries":
        mask[:, 1, 1] = False
        given["queries"][:, 1] = np.nan
    else:
        mask[:, 1, :, 5] = False
        given[which][:, 5] = np.nan
    p = parameters(output=False)
    output = multi_head(p, **given, mask=mask)
    clean = multi_head(p, Q, K, V, mask=mask)
    assert np.isnan(output[..., :4]).any()
    assert_close(output[..., 4:], clean[..., 4:])


@both_ways
def test_a_key_that_one_head_alone_may_see_reaches_that_head_alone(
    multi_head,
):
    mask = np.ones((1, h, T, S), bool)
    mask[0, 1, :, 5] = False
    k = K.copy()
    k[:, 5] = np.nan
    _, weights = multi_head(
        parameters(), Q, k, V, mask=mask, return_weights=True
    )
    assert np.isnan(weights[:, 0]).all()
    _, A = expected(parameters(), np.broadcast_to(mask, (B, h, T, S)))
    assert_close(weights[:, 1], A[:, 1])


@both_ways
def test_nan_that_takes_part_shows(multi_head):
    q = Q.copy()
    q[2, 1, 0] = np.nan
    output = multi_head(parameters(), q, K, V)
    lost = np.isnan(output).all(-1)
    assert lost[2, 1]
    assert lost.sum() == 1


# ---- gradients and manners ----


@both_ways
def test_gradients_are_those_of_the_formula(multi_head):
    p = torch_parameters()
    mask, bias = (
        torch.tensor(coin(1, 1, S)),
        torch.tensor(normal(1, h, T, S), requires_grad=True),
    )
    inputs = leaves(Q[:1], K[:1], V[:1])
    names = list(p.arrays())

    def function(q, k, v, bias, *arrays):
        own = type(p)(**dict(zip(names, arrays, strict=True)), heads=h)
        return multi_head(
            own, q, k, v, mask=mask, bias=bias, return_weights=True
        )

    assert torch.autograd.gradcheck(
        function, (*inputs, bias, *p.arrays().values()), fast_mode=True
    )


def test_fused_and_by_head_have_the_same_gradients():
    grads = []
    for multi_head in (multi_head_attention_by_head, multi_head_attention):
        p, inputs = torch_parameters(), leaves(Q, K, V)
        mask = torch.tensor(coin(B, h, T, S, seed=9))
        multi_head(p, *inputs, mask=mask).square().sum().backward()
        grads.append([x.grad for x in (*inputs, *p.arrays().values())])
    for one, two in zip(*grads, strict=True):
        assert_close(one, two)


@both_ways
@each_library
def test_asking_for_the_weights_does_not_change_the_output(
    make, multi_head
):
    p, mask = parameters(make), make(coin(B, 1, S))
    output, _ = multi_head(
        p, make(Q), make(K), make(V), mask=mask, return_weights=True
    )
    assert_close(
        multi_head(p, make(Q), make(K), make(V), mask=mask), output, 0
    )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@both_ways
def test_dtype_is_kept(multi_head, dtype):
    p = parameters(dtype=dtype)
    q, k, v = (x.astype(dtype) for x in (Q, K, V))
    output, weights = multi_head(p, q, k, v, return_weights=True)
    assert output.dtype == weights.dtype == dtype
    out, A = expected(parameters())
    assert_close(output, out, 1e-6 if dtype == "float32" else 1e-2)
    assert_close(weights, A, 1e-6 if dtype == "float32" else 1e-2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@both_ways
def test_half_precision_of_torch_is_close_to_the_formula(multi_head, dtype):
    p = parameters(lambda x: torch.tensor(x).to(dtype))
    q, k, v = (torch.tensor(x).to(dtype) for x in (Q, K, V))
    output, weights = multi_head(
        p,
        q,
        k,
        v,
        mask=torch.tensor(shut_query("mask")["mask"]),
        return_weights=True,
    )
    assert output.dtype == weights.dtype == dtype
    out, A = expected(
        parameters(),
        np.broadcast_to(shut_query("mask")["mask"][:, None], (B, h, T, S)),
    )
    assert_close(output, out, 0.05)
    assert_close(weights, A, 0.05)


@both_ways
def test_inputs_are_never_changed(multi_head):
    p = torch_parameters()
    tensors = [
        torch.tensor(x)
        for x in (Q, K, V, coin(B, 1, S), normal(B, h, T, S))
    ]
    q, k, v, mask, bias = tensors
    multi_head(p, q, k, v, mask=mask, bias=bias, return_weights=True)
    for x in (*tensors, *p.arrays().values()):
        assert x._version == 0


def test_numpy_and_torch_agree():
    mask = coin(B, h, T, S)
    ours = multi_head_attention(
        parameters(), Q, K, V, mask=mask, return_weights=True
    )
    theirs = multi_head_attention(
        parameters(torch.tensor),
        *map(torch.tensor, (Q, K, V)),
        mask=torch.tensor(mask),
        return_weights=True,
    )
    for one, two in zip(ours, theirs, strict=True):
        assert_close(one, two, 1e-13)


# ---- fewer key heads than query heads ----


def grouped(make=np.asarray, kv_heads=2, **options):
    """Six heads of width 4; two key heads serve three of them each, unless told otherwise."""
    return parameters(make, D=24, heads=6, kv_heads=kv_heads, **options)


def spread_out(p):
    """Plain heads with the same numbers: each block of keys and values written once for each head that reads it."""
    blocks = [p.head(i) for i in range(p.heads)]
    arrays = {
        name: np.concatenate(
            [numpy_of(getattr(block, name)) for block in blocks], axis=-1
        )
        for name in ("W_K", "W_V", "b_K", "b_V")
    }
    own = {n: numpy_of(getattr(p, n)) for n in ("W_Q", "W_O", "b_Q", "b_O")}
    return MultiHeadParameters(**own, **arrays, heads=p.heads)


@each_library
def test_key_heads_are_repeated_not_tiled(make):
    x = normal(B, 2, S, 4)
    for times, order in ((1, [0, 1]), (3, [0, 0, 0, 1, 1, 1])):
        assert_close(repeat_heads(make(x), times), x[:, order], 0)
    y = make(x)
    assert repeat_heads(y, np.int8(1)) is y
    assert repeat_heads(y, np.int8(100)).shape == (B, 200, S, 4)
    assert repeat_heads(make(x[0, :, :0]), 2).shape == (4, 0, 4)


@pytest.mark.claim("def-today-shared")
@pytest.mark.parametrize("kv_heads", [1, 2, 3])
@both_ways
@each_library
def test_shared_key_heads_equal_the_formula(make, multi_head, kv_heads):
    mask, bias = coin(B, 6, T, S, seed=6), normal(B, 6, T, S, seed=7)
    out, weights = expected(grouped(kv_heads=kv_heads), mask, bias)
    ours = multi_head(
        grouped(make, kv_heads=kv_heads),
        make(Q),
        make(K),
        make(V),
        mask=make(mask),
        bias=make(bias),
        return_weights=True,
    )
    assert_close(ours[0], out)
    assert_close(ours[1], weights)


@pytest.mark.claim("prop-today-saves")
@pytest.mark.parametrize("kv_heads", [1, 2, 3])
@both_ways
def test_shared_key_heads_are_heads_whose_keys_are_repeated_by_hand(
    multi_head, kv_heads
):
    p = grouped(kv_heads=kv_heads)
    assert_close(
        multi_head(p, Q, K, V),
        multi_head(spread_out(p), Q, K, V),
        1e-14,
    )
    tiled = np.tile(numpy_of(p.W_K), 6 // kv_heads)
    other = replace(spread_out(p), W_K=tiled)
    apart = np.abs(multi_head(other, Q, K, V) - multi_head(p, Q, K, V))
    assert (apart.max() > 0.01) == (kv_heads > 1)


@pytest.mark.parametrize("kv_heads", [1, 2, 3])
@both_ways
def test_gradients_of_shared_key_heads_are_sums_over_those_that_share(
    multi_head, kv_heads
):
    def gradients(p):
        names = list(p.arrays())
        given = leaves(*(numpy_of(x) for x in p.arrays().values()))
        shared = replace(p, **dict(zip(names, given, strict=True)))
        inputs = [torch.tensor(x) for x in (Q, K, V)]
        multi_head(shared, *inputs).square().sum().backward()
        return {
            name: x.grad.numpy()
            for name, x in zip(names, given, strict=True)
        }

    p = grouped(kv_heads=kv_heads)
    ours, plain = gradients(p), gradients(spread_out(p))
    for name in ("W_Q", "W_O", "b_Q", "b_O"):
        assert_close(ours[name], plain[name])
    for name in ("W_K", "W_V", "b_K", "b_V"):
        lead = plain[name].shape[:-1]
        parts = plain[name].reshape(*lead, kv_heads, 6 // kv_heads, 4)
        assert_close(ours[name], parts.sum(-2).reshape(*lead, 4 * kv_heads))


@both_ways
def test_as_many_key_heads_as_heads_give_the_same_to_the_last_bit(
    multi_head,
):
    p = parameters()
    same = replace(p, kv_heads=h)
    assert np.array_equal(multi_head(p, Q, K, V), multi_head(same, Q, K, V))
