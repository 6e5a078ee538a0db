"""Bugs that were shipped elsewhere, each planted in the package, each of the right shape, each noticed.

Those with a place of their own in the package stand in classic_bugs.py: here each is planted, moves
the result away from the formula, and is noticed by the tests named beside it. Then more bugs of
the same kinds; then those that no line of the package can have, each with its guard.
"""

import importlib
import itertools
import warnings
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import torch
from _pytest.mark import ParameterSet

from attention_in_detail import (
    EncoderLayerParameters,
    FeedForwardParameters,
    LayerNormParameters,
    MultiHeadParameters,
    attention,
    attention_weights,
    causal_mask,
    encoder_layer,
    mask_from_torch_mha,
    masks,
    multi_head,
    multi_head_attention,
    multi_head_attention_by_head,
    padding_mask,
    scores,
    softmax,
)
from attention_in_detail.nn import MultiHeadAttention
from attention_in_detail.planting import planted
from tests import reference
from tests.classic_bugs import BUGS
from tests.support import assert_close, leaves, normal, numpy_of

n = 4  # B = h = T = S = D_h: where everything is as long, every wrong axis has the right shape
X = normal(n, n, 16, seed=1)
P = MultiHeadParameters.init(16, n, seed=2)
Q, K, V = (normal(n, n, seed=s) for s in (3, 4, 5))
MASK = np.array(
    [[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]], bool
)
EMPTY = MASK & (np.arange(n) != 1)[:, None]  # its second row has no key
LENGTHS = np.array([1, 2, 3, 4])
both_ways = pytest.mark.parametrize(
    "way", [multi_head_attention, multi_head_attention_by_head]
)
each_bug = pytest.mark.parametrize("name", BUGS)


def assert_apart(wrong, right, by=0.05):
    """Same shape, other numbers."""
    wrong, right = numpy_of(wrong), numpy_of(right)
    assert wrong.shape == right.shape
    difference = np.abs(wrong - right)
    assert np.isnan(difference).any() or difference.max() > by


def right_multi_head(mask=None):
    """Output and weights by the formula, each batch entry alone, for a mask (B, h, T, S)."""
    entries = [
        reference.multi_head(
            P, X[b], X[b], X[b], None if mask is None else mask[b]
        )
        for b in range(n)
    ]
    return [np.stack(part) for part in zip(*entries, strict=True)]


def module_of(p, **options):
    module = MultiHeadAttention(p.D, p.heads, bias=False, **options)
    module = module.double()
    with torch.no_grad():
        for name, W in (
            ("query", p.W_Q),
            ("key", p.W_K),
            ("value", p.W_V),
            ("output", p.W_O),
        ):
            getattr(module, name).weight.copy_(torch.tensor(W).mT)
    return module


# ---- what each bug is shown on: what the package gives, and what the formula says ----


def heads():
    return multi_head_attention(P, X, X, X), right_multi_head()[0]


def converted():
    ignore = torch.tensor(~MASK[0])  # PyTorch's reading: true = ignore
    mask, _ = mask_from_torch_mha(None, ignore, heads=1)
    right = reference.attention(Q, K, V, np.tile(MASK[0], (n, 1)))[0]
    return attention(*map(torch.tensor, (Q, K, V)), mask=mask), right


def module():
    padding = padding_mask(torch.tensor(LENGTHS), n)
    right = right_multi_head(
        np.broadcast_to(numpy_of(padding)[:, None], (n, n, n, n))
    )
    return module_of(P)(torch.tensor(X), mask=padding), right[0]


def cached():
    mask = causal_mask(1, n, offset=n - 1)
    return attention(Q[-1:], K, V, mask=mask), reference.attention(
        Q[-1:], K, V
    )[0]


def maps():
    mask = np.broadcast_to(MASK, (n, n, n, n))
    return (
        multi_head_attention(P, X, X, X, mask=MASK, return_weights=True)[1],
        right_multi_head(mask)[1],
    )


def empty():
    right = reference.attention(Q, K, V, EMPTY)[0]
    return attention(Q, K, V, mask=EMPTY), right


def gradient():
    """Of the values, by a loss that leaves out the query that may attend to nothing."""
    (v,) = leaves(V)
    q, k = torch.tensor(Q), torch.tensor(K)
    y = attention(q, k, v, mask=torch.tensor(EMPTY))
    y[[0, 2, 3]].sum().backward()
    A = reference.attention(Q, K, V, EMPTY)[1]
    return v.grad, np.tile(A[[0, 2, 3]].sum(0)[:, None], (1, n))


def half():
    q, k = (torch.tensor(x).half() for x in (Q, K))
    A = attention_weights(q, k, mask=torch.tensor(EMPTY))
    right = reference.attention(numpy_of(q), numpy_of(k), V, EMPTY)[1]
    return A, right.astype(np.float16)


def argument():
    z = Q.copy()
    softmax(z)
    return z, Q


def in_use():
    torch.manual_seed(0)
    dropping = module_of(P, dropout=0.5).eval()
    return dropping(torch.tensor(X)), right_multi_head()[0]


def post_norm():
    norm = LayerNormParameters(np.ones(16), np.zeros(16))
    W = normal(16, 16, seed=9) / 4
    feed = FeedForwardParameters(W, W.T)
    p = EncoderLayerParameters(P, norm, feed, norm)

    def normed(x):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)

    y = normed(X + right_multi_head()[0])
    return encoder_layer(p, X), normed(y + np.maximum(y @ W, 0) @ W.T)


SHOWN = {
    "merged without the swap": heads,
    "split without the swap": heads,
    "the root of the wrong width": heads,
    "true read as ignore": converted,
    "two conventions in one package": module,
    "the wrong corner": cached,
    "maps without the mask": maps,
    "the mean of the padding": empty,
    "one NaN for all": gradient,
    "a billion in half precision": half,
    "the argument is changed": argument,
    "dropout in use": in_use,
    "the norm on the other side": post_norm,
}


def together(*bugs):
    """All these bugs in place at once."""
    stack = ExitStack()
    for bug in bugs:
        stack.enter_context(bug)
    return stack


@each_bug
def test_a_bug_keeps_the_shape_and_leaves_the_formula(name):
    tolerance = 1e-3 if name == "a billion in half precision" else 1e-12
    before, right = SHOWN[name]()
    assert_close(before, right, tolerance)
    with together(*BUGS[name].planted()):
        wrong, right_still = SHOWN[name]()
    assert_apart(wrong, right)
    # The formula is written apart from the package: no bug reaches it.
    assert_close(right_still, right, 0)
    after, _ = SHOWN[name]()
    assert np.array_equal(numpy_of(after), numpy_of(before))


# ---- who notices ----


def found(name):
    """The function of a test that is given as "file::name" below tests/."""
    path, _, function = name.partition("::")
    module = ".".join(("tests", *Path(path).with_suffix("").parts))
    return getattr(importlib.import_module(module), function)


def cases(test):
    """The arguments of each case of a test, as pytest would give them."""
    choices = []
    for mark in getattr(test, "pytestmark", []):
        if mark.name != "parametrize":
            continue
        names, values = mark.args
        names = (
            [one.strip() for one in names.split(",")]
            if isinstance(names, str)
            else names
        )
        given = [
            value.values
            if isinstance(value, ParameterSet)
            else (value if len(names) > 1 else (value,))
            for value in values
        ]
        choices.append(
            [dict(zip(names, one, strict=True)) for one in given]
        )
    for chosen in itertools.product(*choices):
        yield {key: one[key] for one in chosen for key in one}


def notices(test, bug):
    """Whether an assertion of one case of a test fails with the bug, and holds without it."""
    for given in cases(test):
        try:
            # Where NumPy warns of the bug, that is not what is to count.
            with warnings.catch_warnings(), together(*bug.planted()):
                warnings.simplefilter("ignore")
                test(**given)
        except AssertionError:
            test(**given)
            return True
    return False


@pytest.mark.claim("obs-bugs-noticed")
@pytest.mark.parametrize(
    ("name", "test"),
    [(name, test) for name, bug in BUGS.items() for test in bug.noticed_by],
)
def test_a_planted_bug_makes_each_test_fail_that_is_named_beside_it(
    name, test
):
    assert notices(found(test), BUGS[name])


def test_a_test_that_sees_no_difference_does_not_notice():
    """With one head there is nothing to swap."""
    bug = BUGS["merged without the swap"]
    assert not notices(
        found(
            "test_multi_head.py::test_one_head_of_full_width_is_attention_between_projections"
        ),
        bug,
    )


# ---- more of the same kinds: heads ----


def test_both_swaps_forgotten_do_not_cancel():
    bugs = [
        BUGS[f"{name} without the swap"].planted()[0]
        for name in ("split", "merged")
    ]
    with together(*bugs):
        assert_apart(
            multi_head_attention(P, X, X, X), right_multi_head()[0]
        )


@both_ways
def test_heads_are_neighbouring_columns_and_not_every_hth(way):
    turned = P.W_Q.reshape(16, n, n).swapaxes(1, 2).reshape(16, 16)
    strided = MultiHeadParameters(turned, P.W_K, P.W_V, P.W_O, heads=n)
    assert_apart(way(strided, X, X, X), right_multi_head()[0])
    assert_close(way(P, X, X, X), right_multi_head()[0])


# ---- scale and softmax ----


@both_ways
@pytest.mark.parametrize(
    "wrong",
    [1.0, 1 / 4, 1 / 16, 16**-0.5 / 4],
    ids=["none", "1/√D", "1/D", "1/D_h^1.5"],
)
def test_scores_of_a_head_are_divided_by_the_root_of_its_own_width(
    way, wrong
):
    """Here D_h = 4, so that 1/√D_h = 1/2."""
    assert_close(way(P, X, X, X), right_multi_head()[0])
    with planted(attention_weights, "scale=scale", f"scale={wrong}"):
        assert_apart(way(P, X, X, X), right_multi_head()[0])


def test_the_module_divides_by_the_root_of_the_width_of_a_head():
    for return_weights in (False, True):
        output = module_of(P)(
            torch.tensor(X), return_weights=return_weights
        )
        assert_close(
            output[0] if return_weights else output, right_multi_head()[0]
        )


@pytest.mark.parametrize("axis", [-2, -3, -4])
def test_the_softmax_runs_over_keys_and_not_over_queries_heads_or_batch(
    axis,
):
    with planted(
        attention_weights,
        "softmax.unchecked(z)",
        f"softmax.unchecked(z, axis={axis})",
    ):
        assert_apart(
            multi_head_attention(P, X, X, X), right_multi_head()[0]
        )


@pytest.mark.parametrize(
    ("old", "new"),
    [("weights @ v", "weights.mT @ v"), ("q, k, b = ", "k, q, b = ")],
    ids=["weights turned", "queries for keys"],
)
def test_rows_are_queries_and_columns_are_keys(old, new):
    with planted(attention, old, new):
        assert_apart(attention(Q, K, V), reference.attention(Q, K, V)[0])


# ---- masks ----


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("z, constant(-xp.inf, z)", "constant(-xp.inf, z), z"),
        ("xp.where(is_open,", "xp.where(is_open.mT,"),
        # Zero is no way to shut a score: e⁰ = 1.
        ("constant(-xp.inf, z)", "constant(0.0, z)"),
        # After the softmax the rows no longer sum to one.
        (
            """        z = xp.where(is_open, z, constant(-xp.inf, z))
    return narrowed(softmax.unchecked(z), queries.dtype)""",
            """        return xp.where(is_open, softmax.unchecked(z), constant(0.0, z))
    return narrowed(softmax.unchecked(z), queries.dtype)""",
        ),
    ],
    ids=["inverted", "turned", "zero", "after the softmax"],
)
def test_a_mask_shuts_by_minus_infinity_before_the_softmax(old, new):
    right = reference.attention(Q, K, V, MASK)[0]
    assert_close(attention(Q, K, V, mask=MASK), right)
    with planted(attention_weights, old, new):
        assert_apart(attention(Q, K, V, mask=MASK), right)


@pytest.mark.parametrize("low", ["-1e9", "-1e4", "xp.finfo(z.dtype).min"])
def test_a_row_that_may_attend_to_nothing_is_no_average_of_the_padding(low):
    with planted(
        attention_weights, "constant(-xp.inf, z)", f"constant({low}, z)"
    ):
        wrong = attention(Q, K, V, mask=EMPTY)
    right = attention(Q, K, V, mask=EMPTY)
    assert_close(wrong[1], V.mean(0))
    assert (right[1] == 0).all()
    assert_apart(wrong, right)


def test_a_large_score_is_no_match_for_a_shut_pair():
    """With a score of some 1e10 a shut key beats −1e9 that was added; −inf it cannot beat."""
    k = K.copy()
    k[3] *= 1e10
    mask = np.ones((n, n), bool)
    mask[1:, 3] = False
    right = reference.attention(Q, k, V, mask)[1]
    assert_close(attention_weights(Q, k, mask=mask), right)
    with planted(
        attention_weights,
        "xp.where(is_open, z, constant(-xp.inf, z))",
        "z + xp.where(is_open, constant(0.0, z), constant(-1e9, z))",
    ):
        wrong = attention_weights(Q, k, mask=mask)
    assert (wrong[1:, 3] > 0.9).any()


@pytest.mark.parametrize("new", ["j < i + offset", "j >= i + offset"])
def test_a_query_sees_its_own_position_and_none_after(new):
    right = reference.attention(Q, K, V, np.tril(np.ones((n, n), bool)))[0]
    assert_close(attention(Q, K, V, mask=causal_mask(n)), right)
    with planted(causal_mask, "j <= i + offset", new):
        assert_apart(attention(Q, K, V, mask=causal_mask(n)), right)


@pytest.mark.parametrize("offset", [0, 3])
def test_causality_is_aligned_as_the_offset_says(offset):
    x, y = normal(6, n, seed=8), normal(6, n, seed=9)
    last = attention(x[-2:], x, y, mask=causal_mask(2, 6, offset=4))
    whole = attention(x, x, y, mask=causal_mask(6))[-2:]
    assert_close(last, whole)
    mask = causal_mask(2, 6, offset=offset)
    assert_apart(attention(x[-2:], x, y, mask=mask), whole)


@both_ways
def test_padded_keys_are_not_averaged_in(way):
    right = np.stack(
        [
            reference.multi_head(P, X[b], X[b, : b + 1], X[b, : b + 1])[0]
            for b in range(n)
        ]
    )
    mask = padding_mask(LENGTHS, n)
    assert_close(way(P, X, X, X, mask=mask), right)
    assert_apart(way(P, X, X, X), right)
    # Padding set to zero still takes its share: e⁰ = 1.
    zeroed = np.where(mask[:, 0, :, None], X, 0.0)
    assert_apart(way(P, X, zeroed, zeroed), right)


@both_ways
def test_a_padding_mask_falls_on_no_wrong_axis(way):
    """B = h = T = S: on any axis it has the right shape."""
    mask = padding_mask(LENGTHS, n)  # (B, 1, S)
    right = right_multi_head(np.broadcast_to(mask[:, None], (n, n, n, n)))[
        0
    ]
    assert_close(way(P, X, X, X, mask=mask), right)
    for wrong in (
        mask[:, 0, :],  # (B, S) read as (T, S)
        mask[None],  # (1, B, 1, S) read as heads
        np.swapaxes(mask, 1, 2),  # queries shut, not keys
    ):
        assert_apart(way(P, X, X, X, mask=wrong), right)
    with planted(multi_head.with_head_axis, "x[..., None, :, :]", "x"):
        assert_apart(way(P, X, X, X, mask=mask), right)


# ---- what takes no part ----

KEPT = planted(masks.keep_rows, "if is_open is None:", "if True:")
UNSHUT = planted(
    multi_head.without_shut_rows, "may_attend(mask, bias)", "None"
)


def test_zero_weight_is_not_enough_against_nan():
    """0 · NaN is NaN: without the rows set to zero, the padding reaches the output."""
    x = X.copy()
    x[:, 3] = np.nan
    mask = np.arange(n) < 3

    def output():
        return multi_head_attention(P, X, x, x, mask=mask)

    assert np.isfinite(output()).all()
    with KEPT:
        assert np.isnan(output()).all()


def test_nan_in_the_padding_would_reach_a_projection_through_a_gradient_of_zero():
    x = torch.tensor(X)
    x[:, 3] = torch.nan
    mask = torch.arange(n) < 3

    def gradient():
        W = torch.tensor(P.W_K, requires_grad=True)
        p = MultiHeadParameters(W, W, W, heads=n)
        multi_head_attention(
            p, torch.tensor(X), x, x, mask=mask
        ).sum().backward()
        return W.grad

    assert gradient().isfinite().all()
    with UNSHUT:
        assert gradient().isnan().any()


def test_the_bias_of_the_output_is_added_once_and_not_by_each_head():
    b = np.ones(16)
    with_bias = MultiHeadParameters(
        P.W_Q, P.W_K, P.W_V, P.W_O, b_O=b, heads=n
    )
    for way in (multi_head_attention, multi_head_attention_by_head):
        assert_close(way(with_bias, X, X, X), way(P, X, X, X) + 1)


# ---- the module ----


def test_dropout_does_not_stay_on_outside_training():
    torch.manual_seed(0)
    module = module_of(P, dropout=0.5)
    x = torch.tensor(X)
    assert_apart(module(x).detach(), module.eval()(x).detach())
    assert_close(module.eval()(x), module.eval()(x), 0)
    assert_close(module.eval()(x), right_multi_head()[0])


def test_the_weights_shown_are_those_that_made_the_output():
    """Maps that were computed again, without the mask, would not give the output."""
    module = module_of(P)
    mask = padding_mask(torch.tensor(LENGTHS), n)
    x = torch.tensor(X)
    output, weights = module(x, mask=mask, return_weights=True)
    values = torch.tensor(X @ P.W_V)
    heads = weights @ values.unflatten(-1, (n, n)).transpose(-2, -3)
    assert_close(module.output(heads.transpose(-2, -3).flatten(-2)), output)
    assert_apart(module(x, return_weights=True)[1], weights)


def test_a_bias_that_was_passed_in_is_not_changed():
    z = scores(Q, K)
    before = z.copy()
    attention(Q, K, V, mask=MASK, bias=z)
    assert np.array_equal(z, before)
