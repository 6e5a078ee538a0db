import copy
import io

import numpy as np
import pytest
import torch

from attention_in_detail import (
    causal_mask,
    multi_head_attention,
    padding_mask,
)
from attention_in_detail.nn import MultiHeadAttention
from attention_in_detail.nn.multi_head import FEW_KEYS
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
    h,
    leaves,
    normal,
    numpy_of,
    open_mask,
)

Q, K, V = (
    torch.tensor(normal(B, *s, seed=n))
    for n, s in enumerate([(T, D_q), (S, D_k), (S, D_v)])
)
both_paths = pytest.mark.parametrize(
    "return_weights", [False, True], ids=["kernel", "weights"]
)


def module(seed=0, dtype=torch.float64, **options):
    torch.manual_seed(seed)
    options = {"D_q": D_q, "D_k": D_k, "D_v": D_v, "D_out": D_out} | options
    if options.get("output") is False:
        del options["D_out"]
    made = MultiHeadAttention(D, h, **options)
    for name, x in made.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(x)
    return made.to(dtype)


def output_of(result):
    return result[0] if isinstance(result, tuple) else result


MASKS = {
    "none": {},
    "(T, S)": {"mask": open_mask(T, S, seed=1)},
    "(S)": {"mask": np.arange(S) < 4},
    "0 axes": {"mask": np.array(True)},
    "(B, 1, S)": {"mask": open_mask(B, 1, S, seed=2)},
    "(B, T, S)": {"mask": open_mask(B, T, S, seed=3)},
    "(B, h, T, S)": {"mask": open_mask(B, h, T, S, seed=4)},
    "(1, h, 1, S)": {"mask": open_mask(1, h, 1, S, seed=5)},
    "with empty rows": {"mask": coin(B, h, T, S, seed=6, p=0.2)},
    "bias (S)": {"bias": normal(S)},
    "bias (B, h, T, S)": {"bias": normal(B, h, T, S)},
    "bias with −inf": {
        "bias": np.where(
            coin(B, 1, T, S, seed=7, p=0.2), normal(B, 1, T, S), -np.inf
        )
    },
    "bias 0 axes": {"bias": np.array(0.3)},
    "both": {
        "mask": coin(B, 1, S, seed=8, p=0.5),
        "bias": normal(1, h, T, S),
    },
    "nothing": {"mask": np.array(False)},
    "nothing by bias": {"bias": np.full((T, S), -np.inf)},
}
each_mask = pytest.mark.parametrize("given", MASKS.values(), ids=MASKS)


# ---- equal to the functions ----


@pytest.mark.parametrize(
    "options", [{}, {"bias": False}, {"output": False}], ids=str
)
@pytest.mark.parametrize(
    "mode", ["train", "eval", "eval without gradients"]
)
@each_mask
def test_the_module_is_the_function_whatever_is_asked_for(
    given, mode, options
):
    """With and without weights, in training and not, with and without gradients: one output."""
    given = {name: torch.tensor(x) for name, x in given.items()}
    ours = module(**options).train(mode == "train")
    expected, expected_weights = multi_head_attention(
        ours.as_parameters(), Q, K, V, **given, return_weights=True
    )
    with torch.set_grad_enabled(mode != "eval without gradients"):
        alone = ours(Q, K, V, **given)
        output, weights = ours(Q, K, V, **given, return_weights=True)
    assert_close(alone, expected)
    assert_close(output, expected)
    assert_close(weights, expected_weights)
    assert (
        alone.requires_grad
        == output.requires_grad
        == (mode != "eval without gradients")
    )


@each_mask
def test_gradients_are_those_of_the_function(given):
    given = {name: torch.tensor(x) for name, x in given.items()}
    results = []
    for way in ("function", "kernel", "weights"):
        ours, inputs = module(), leaves(Q, K, V)
        masks = {
            name: x.clone().requires_grad_(name == "bias")
            for name, x in given.items()
        }
        if way == "function":
            output = multi_head_attention(
                ours.as_parameters(), *inputs, **masks
            )
        else:
            output = output_of(
                ours(*inputs, **masks, return_weights=way == "weights")
            )
        output.square().sum().backward()
        extra = [masks["bias"].grad] if "bias" in masks else []
        results.append(
            [x.grad for x in (*inputs, *ours.parameters())] + extra
        )
    for grads in zip(*results, strict=True):
        for x in grads:
            assert x is not None
            assert_close(x, grads[0])


@both_paths
def test_float32_equals_float64(return_weights):
    bias = torch.tensor(normal(1, h, T, S))
    wide = output_of(
        module()(Q, K, V, bias=bias, return_weights=return_weights)
    )
    narrow = module(dtype=torch.float32)(
        Q.float(),
        K.float(),
        V.float(),
        bias=bias.float(),
        return_weights=return_weights,
    )
    assert output_of(narrow).dtype == torch.float32
    assert_close(output_of(narrow), wide, 2e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@both_paths
def test_half_precision_keeps_its_dtype_and_the_rules(
    return_weights, dtype
):
    mask = torch.ones(B, T, S, dtype=torch.bool)
    mask[:, 1] = False
    ours = module(dtype=dtype)
    result = ours(
        *(x.to(dtype) for x in (Q, K, V)),
        mask=mask,
        return_weights=return_weights,
    )
    assert output_of(result).dtype == dtype
    assert torch.equal(
        output_of(result)[:, 1], ours.output.bias.expand(B, D_out)
    )
    assert_close(output_of(result), module()(Q, K, V, mask=mask), 0.06)


def test_missing_keys_mean_self_attention_and_missing_values_mean_the_keys():
    ours = module(D_k=D_q, D_v=D_q)
    assert_close(ours(Q), ours(Q, Q, Q), 0)
    mask = causal_mask(T, like=Q)
    for one, other in zip(
        ours(Q, mask=mask, return_weights=True),
        ours(Q, Q, Q, mask=mask, return_weights=True),
        strict=True,
    ):
        assert_close(one, other, 0)
    ours = module(D_v=D_k)
    assert_close(ours(Q, K), ours(Q, K, K), 0)


@pytest.mark.parametrize("offset", [0, 1, S - T, -1, -T])
@pytest.mark.parametrize(
    "mask", [None, open_mask(B, 1, S, seed=2), coin(B, h, T, S), coin(T, S)]
)
@both_paths
def test_a_causal_offset_is_a_causal_mask(mask, offset, return_weights):
    mask = None if mask is None else torch.tensor(mask)
    causal = causal_mask(T, S, offset=offset, like=Q)
    # With its axes (B, 1, T, S) for all heads of a batch entry.
    both = (
        causal
        if mask is None
        else (mask if mask.ndim != 3 else mask[:, None]) & causal
    )
    expected = multi_head_attention(
        module().as_parameters(), Q, K, V, mask=both, return_weights=True
    )
    result = module()(
        Q,
        K,
        V,
        mask=mask,
        causal_offset=offset,
        return_weights=return_weights,
    )
    assert_close(output_of(result), expected[0])
    if return_weights:
        assert_close(result[1], expected[1])


def test_no_causal_offset_shuts_nothing_and_zero_is_one():
    x = torch.tensor(normal(2, 4, D))
    ours = module(D_q=D, D_k=D, D_v=D)
    assert_close(ours(x, causal_offset=None), ours(x), 0)
    assert (ours(x, causal_offset=0) - ours(x)).abs().max() > 0.01


def recorded(monkeypatch, name):
    """Let a function of ``torch.nn.functional`` note how it is called."""
    calls, real = [], getattr(torch.nn.functional, name)

    def noting(*given, **named):
        calls.append((given, named))
        return real(*given, **named)

    monkeypatch.setattr(torch.nn.functional, name, noting)
    return calls


def test_one_input_is_projected_in_one_product(monkeypatch):
    """Beside the output's there is one product for each input, and not for each projection."""
    ours = module(D_k=D_q, D_v=D_q, output=False)
    products = recorded(monkeypatch, "linear")
    for inputs, columns in (
        ((Q,), [3 * D]),
        ((Q, Q, Q), [3 * D]),
        ((Q, Q.clone()), [D, 2 * D]),
        ((Q, Q.clone(), Q), [2 * D, D]),
        ((Q, Q.clone(), Q.clone()), [D, D, D]),
    ):
        products.clear()
        output = ours(*inputs)
        assert [given[1].shape[0] for given, _ in products] == columns
        assert_close(output, ours(Q, Q.clone(), Q.clone()))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("causal_offset", [None, 0, 1])
@each_mask
def test_self_attention_in_one_product_is_the_function(
    given, causal_offset, bias
):
    """Outputs and gradients, where queries, keys and values are one; S queries, so that each mask fits."""
    given = {
        name: torch.tensor(
            x if x.ndim < 2 or x.shape[-2] == 1 else x[..., :1, :]
        )
        for name, x in given.items()
    }
    results = []
    for way in ("function", "kernel", "weights"):
        ours = module(D_q=D_v, D_k=D_v, bias=bias)
        (x,) = leaves(V)
        if way == "function":
            mask = given.get("mask")
            if causal_offset is not None:
                causal = causal_mask(S, offset=causal_offset, like=x)
                if mask is not None and mask.ndim == 3:
                    mask = mask[:, None]
                mask = causal if mask is None else mask & causal
            output = multi_head_attention(
                ours.as_parameters(), x, x, x, **given | {"mask": mask}
            )
        else:
            output = output_of(
                ours(
                    x,
                    **given,
                    causal_offset=causal_offset,
                    return_weights=way == "weights",
                )
            )
        output.square().sum().backward()
        grads = [p.grad for p in ours.parameters()]
        results.append([output, x.grad, *grads])
    for one in zip(*results, strict=True):
        for y in one:
            assert_close(y, one[0])


@both_paths
def test_padding_of_one_input_that_is_shut_both_ways_reaches_nothing(
    return_weights,
):
    """As queries and as keys; a row shut only as a key is still needed as a query."""
    real = torch.arange(S) < 4
    mask = real[:, None] & real
    x = V.clone()
    x[:, 4:] = torch.nan
    ours, (x,) = module(D_q=D_v, D_k=D_v), leaves(x)
    output = output_of(ours(x, mask=mask, return_weights=return_weights))
    output.square().sum().backward()
    clean, (y,) = module(D_q=D_v, D_k=D_v), leaves(V[:, :4])
    expected = clean(y)
    (
        expected.square().sum()
        + (S - 4) * B * clean.output.bias.square().sum()
    ).backward()
    assert_close(output[:, :4], expected)
    assert_close(x.grad[:, :4], y.grad)
    assert (x.grad[:, 4:] == 0).all()
    for p, q in zip(ours.parameters(), clean.parameters(), strict=True):
        assert_close(p.grad, q.grad)
    key_alone = ours(V, mask=real, return_weights=return_weights)
    assert_close(output_of(key_alone), clean(V, V[:, :4].clone()), 1e-12)


@pytest.mark.parametrize("n", [FEW_KEYS - 1, FEW_KEYS, FEW_KEYS + 37])
def test_the_kernel_knows_the_causal_mask_itself(monkeypatch, n):
    """Where no other mask is given, and the keys are not few: it then skips what is shut."""
    torch.manual_seed(0)
    ours = MultiHeadAttention(D, h).double()
    x, y = leaves(normal(2, n, D), normal(2, n, D))
    asked = recorded(monkeypatch, "scaled_dot_product_attention")
    output = ours(x, causal_offset=0)
    assert asked[0][1].get("is_causal", False) == (n >= FEW_KEYS)
    expected = multi_head_attention(
        ours.as_parameters(), y, y, y, mask=causal_mask(n, like=y)
    )
    assert_close(output, expected)
    output.square().sum().backward()
    expected.square().sum().backward()
    assert_close(x.grad, y.grad)
    asked.clear()
    for given in (
        {"causal_offset": 1},
        {"causal_offset": 0, "mask": torch.ones(n) > 0},
        {"causal_offset": 0, "bias": torch.zeros(n).double()},
    ):
        ours(x, **given)
    ours(x, x[:, 1:], causal_offset=0)
    ours(x[:, 1:], x, causal_offset=0)
    assert not any(named.get("is_causal") for _, named in asked)


def test_the_weights_can_be_differentiated_twice():
    """By finite differences, with a mask whose rows may be empty."""
    torch.manual_seed(0)
    ours = MultiHeadAttention(4, 2).double()
    mask = torch.tensor(coin(2, 2, 3, 3, seed=1, p=0.7))
    mask[:, :, 1] = False
    (x,) = leaves(normal(2, 3, 4))

    def both(x):
        return ours(x, mask=mask, return_weights=True)

    assert torch.autograd.gradcheck(both, x)
    assert torch.autograd.gradgradcheck(both, x)


# ---- what is shut ----


@pytest.mark.parametrize("how", ["mask", "bias"])
@both_paths
def test_a_query_that_may_attend_to_nothing_gets_the_output_bias_and_no_gradient(
    return_weights, how
):
    mask = torch.ones(B, 1, T, S, dtype=torch.bool)
    mask[:, :, 1] = False
    bias = torch.where(
        mask, torch.tensor(normal(1, h, T, S)), -torch.inf
    ).requires_grad_()
    given = {"mask": mask} if how == "mask" else {"bias": bias}
    ours, (q, k, v) = module(), leaves(Q, K, V)
    result = ours(q, k, v, **given, return_weights=return_weights)
    output = output_of(result)
    assert torch.equal(output[:, 1], ours.output.bias.expand(B, D_out))
    if return_weights:
        assert (result[1][:, :, 1] == 0).all()
    output.square().sum().backward()
    assert (q.grad[:, 1] == 0).all()
    assert (q.grad[:, [0, 2]] != 0).all()
    for x in (k, v, *ours.parameters()):
        assert x.grad.isfinite().all()
    if how == "bias":
        assert (bias.grad[:, :, 1] == 0).all()
        assert (bias.grad[:, :, 0] != 0).any()


@pytest.mark.parametrize("how", ["mask", "bias"])
def test_the_kernel_is_never_asked_for_a_row_without_keys(monkeypatch, how):
    """What kernels do there differs: 0, NaN, or NaN in the gradient alone."""
    asked = []
    real = torch.nn.functional.scaled_dot_product_attention

    def kernel(q, k, v, *, attn_mask, dropout_p):
        open_ = (
            attn_mask
            if attn_mask.dtype == torch.bool
            else attn_mask > -torch.inf
        )
        asked.append(bool(open_.any(-1).all()))
        return real(q, k, v, attn_mask=attn_mask, dropout_p=dropout_p)

    monkeypatch.setattr(
        torch.nn.functional, "scaled_dot_product_attention", kernel
    )
    open_ = torch.tensor(coin(B, h, T, S, seed=6, p=0.2))
    assert not open_.any(-1).all()
    bias = torch.where(open_, 0.0, -torch.inf).double()
    module()(
        Q, K, V, **({"mask": open_} if how == "mask" else {"bias": bias})
    )
    assert asked == [True]


@both_paths
@pytest.mark.parametrize("how", ["mask", "bias"])
@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_the_padding_reaches_no_output_and_no_gradient(
    return_weights, how, poison
):
    open_ = torch.arange(S) < 4
    given = (
        {"mask": open_}
        if how == "mask"
        else {"bias": torch.where(open_, 0.0, -torch.inf).double()}
    )
    k_given, v_given = K.clone(), V.clone()
    k_given[:, 4:], v_given[:, 4:] = poison, poison
    ours, inputs = module(), leaves(Q, k_given, v_given)
    output = output_of(
        ours(*inputs, **given, return_weights=return_weights)
    )
    output.square().sum().backward()
    clean, clean_inputs = module(), leaves(Q, K[:, :4], V[:, :4])
    expected = clean(*clean_inputs)
    expected.square().sum().backward()
    assert_close(output, expected)
    assert_close(inputs[0].grad, clean_inputs[0].grad)
    for x, y in zip(inputs[1:], clean_inputs[1:], strict=True):
        assert (x.grad[:, 4:] == 0).all()
        assert_close(x.grad[:, :4], y.grad)
    for x, y in zip(ours.parameters(), clean.parameters(), strict=True):
        assert_close(x.grad, y.grad)


@both_paths
def test_padding_falls_on_the_batch_where_batch_heads_and_queries_are_as_many(
    return_weights,
):
    n = 4
    torch.manual_seed(0)
    ours = MultiHeadAttention(8, n).double()
    x = torch.tensor(normal(n, n, 8))
    lengths = torch.tensor([1, 2, 3, 4])
    output = output_of(
        ours(
            x, mask=padding_mask(lengths, n), return_weights=return_weights
        )
    )
    for b in range(n):
        assert_close(output[b], ours(x[b], x[b, : b + 1]))


@pytest.mark.parametrize("dropout", [0.0, 1e-12])
@pytest.mark.parametrize("which", ["queries", "keys", "values"])
@both_paths
def test_nan_that_one_head_alone_may_see_leaves_the_other_heads_alone(
    return_weights, which, dropout
):
    """Without W_O the columns of the output are the heads: the second sees no NaN."""
    given = {"queries": Q.clone(), "keys": K.clone(), "values": V.clone()}
    mask = torch.ones(1, h, T, S, dtype=torch.bool)
    if which == "queries":
        mask[:, 1, 1] = False
        given["queries"][:, 1] = torch.nan
    else:
        mask[:, 1, :, 5] = False
        given[which][:, 5] = torch.nan
    ours = module(output=False, dropout=dropout)
    result = ours(**given, mask=mask, return_weights=return_weights)
    clean = ours.eval()(Q, K, V, mask=mask)
    assert output_of(result)[..., :4].isnan().any()
    assert_close(output_of(result)[..., 4:], clean[..., 4:], 1e-11)


@both_paths
def test_nan_that_takes_part_shows(return_weights):
    q, k, v = Q.clone(), K.clone(), V.clone()
    q[2, 1, 0] = torch.nan
    lost = (
        output_of(module()(q, k, v, return_weights=return_weights))
        .isnan()
        .all(-1)
    )
    assert lost[2, 1]
    assert lost.sum() == 1
    v[0, 3, 0] = torch.nan
    output = output_of(module()(Q, k, v, return_weights=return_weights))
    assert output[0].isnan().all()
    assert output[1:].isfinite().all()


@pytest.mark.parametrize("keys", [1, 2, 7, 15, 16, 33, FEW_KEYS, 70])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("which", ["query", "all keys"])
@both_paths
def test_nan_in_all_scores_of_a_query_shows_however_few_they_are(
    return_weights, which, dtype, keys
):
    """The kernel for CPUs, asked without a mask, gives 0 there: PyTorch 2.13."""
    ours = module(dtype=dtype)
    q = Q.to(dtype, copy=True)
    k, v = (torch.tensor(normal(B, keys, n)).to(dtype) for n in (D_k, D_v))
    (q if which == "query" else k)[0, :, 0] = torch.nan
    output = output_of(ours(q, k, v, return_weights=return_weights))
    assert output[0].isnan().all()
    assert output[1:].isfinite().all()


# ---- batch axes ----

BROADCASTS = {
    "none": ((), (), (), None),
    "queries alone": ((4,), (), (), None),
    "keys alone": ((), (4,), (), None),
    "values alone": ((), (), (4,), None),
    "mask alone": ((1,), (1,), (), (4,)),
    "keys and mask": ((), (4,), (), (4,)),
    "values and mask": ((), (), (4,), (4,)),
    "each its own": ((4, 1, 1), (6, 1), (1, 2), (1, 6, 1)),
    "an empty batch": ((0,), (1,), (), (1,)),
}


@pytest.mark.parametrize("training_with_dropout", [False, True])
@pytest.mark.parametrize("case", BROADCASTS.values(), ids=BROADCASTS)
def test_batch_axes_broadcast(case, training_with_dropout):
    """With a dropout of 1e-12 nothing is dropped, but the code for it runs."""
    ours = module(dropout=1e-12 if training_with_dropout else 0.0)
    shapes = (T, D_q), (S, D_k), (S, D_v)
    q, k, v = (
        torch.tensor(normal(*b, *s))
        for b, s in zip(case, shapes, strict=False)
    )
    mask = None if case[3] is None else torch.tensor(coin(*case[3], T, S))
    expected = multi_head_attention(
        ours.as_parameters(), q, k, v, mask=mask, return_weights=True
    )
    assert_close(ours(q, k, v, mask=mask), expected[0], 1e-11)
    output, weights = ours(q, k, v, mask=mask, return_weights=True)
    assert_close(output, expected[0], 1e-11)
    assert_close(weights, expected[1], 1e-11)


@both_paths
@pytest.mark.parametrize(
    "given", [{}, {"causal_offset": 0}, {"bias": torch.zeros(S).double()}]
)
def test_no_queries_give_nothing(return_weights, given):
    output = output_of(
        module()(Q[:, :0], K, V, **given, return_weights=return_weights)
    )
    assert output.shape == (B, 0, D_out)


# ---- dropout ----


def test_dropout_is_off_outside_training():
    dropping, plain = module(dropout=0.5).eval(), module()
    assert_close(dropping(Q, K, V), plain(Q, K, V), 0)
    for x, y in zip(
        dropping(Q, K, V, return_weights=True),
        plain(Q, K, V, return_weights=True),
        strict=True,
    ):
        assert_close(x, y, 0)


@both_paths
def test_dropout_keeps_the_expectation(return_weights):
    """Mean of 4,000 draws; each weight is kept with probability 0.7 and then divided by it."""
    ours, n = module(dropout=0.3, output=False), 4000
    q, k, v = Q[:1], K[:1], V[:1]
    expected = ours.eval()(q, k, v)
    with torch.no_grad():
        drawn = output_of(
            ours.train()(
                q.expand(n, T, D_q),
                k.expand(n, S, D_k),
                v.expand(n, S, D_v),
                return_weights=return_weights,
            )
        )
    error = (drawn.mean(0) - expected[0]).abs()
    spread = drawn.std(0) / n**0.5
    assert (drawn.std(0) > 0.01).all()
    assert (error < 5 * spread).all()


@both_paths
def test_dropout_drops_as_often_as_it_says(return_weights):
    """One key of weight 1, a value of 1: the output is 0 in 30 of 100 draws, else 1/0.7."""
    torch.manual_seed(0)
    ours = MultiHeadAttention(
        1, 1, bias=False, output=False, dropout=0.3
    ).double()
    with torch.no_grad():
        ours.value.weight.fill_(1)
        output = output_of(
            ours(
                torch.ones(10_000, 1, 1).double(),
                return_weights=return_weights,
            )
        )
    assert ((output == 0) | ((output - 1 / 0.7).abs() < 1e-12)).all()
    assert abs((output == 0).double().mean() - 0.3) < 0.02


def test_weights_are_returned_as_they_were_before_dropout():
    ours, plain = module(dropout=0.5), module()
    mask = torch.tensor(open_mask(B, 1, S, seed=2))
    output, weights = ours(Q, K, V, mask=mask, return_weights=True)
    expected, expected_weights = plain(
        Q, K, V, mask=mask, return_weights=True
    )
    assert_close(weights, expected_weights, 0)
    assert (output - expected).abs().max() > 0.1


@both_paths
def test_dropout_follows_the_generator_of_torch(return_weights):
    ours = module(dropout=0.5)
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(
            output_of(ours(Q, K, V, return_weights=return_weights))
        )
    assert_close(outputs[0], outputs[1], 0)
    assert (outputs[0] - outputs[2]).abs().max() > 0.1


def test_without_dropout_nothing_is_drawn():
    ours = module(dropout=0.5).eval(), module()
    state = torch.random.get_rng_state()
    for one in ours:
        one(Q, K, V)
        one(Q, K, V, return_weights=True)
    assert torch.equal(torch.random.get_rng_state(), state)


@both_paths
def test_dropout_and_padding_and_empty_rows_together(return_weights):
    mask = torch.ones(B, T, S, dtype=torch.bool)
    mask[:, 1] = False
    mask[:, :, 4:] = False
    k_given, v_given = K.clone(), V.clone()
    k_given[:, 4:], v_given[:, 4:] = torch.nan, torch.nan
    ours, (q, k, v) = module(dropout=0.4), leaves(Q, k_given, v_given)
    output = output_of(
        ours(q, k, v, mask=mask, return_weights=return_weights)
    )
    output.square().sum().backward()
    assert torch.equal(output[:, 1], ours.output.bias.expand(B, D_out))
    assert (q.grad[:, 1] == 0).all()
    for x in (
        output,
        q.grad,
        k.grad,
        v.grad,
        *(x.grad for x in ours.parameters()),
    ):
        assert x.isfinite().all()


# ---- the module itself ----


def test_the_module_has_the_parameters_that_it_says():
    shapes = {
        name: tuple(x.shape) for name, x in module().named_parameters()
    }
    assert shapes == {
        "query.weight": (D, D_q),
        "query.bias": (D,),
        "key.weight": (D, D_k),
        "key.bias": (D,),
        "value.weight": (D, D_v),
        "value.bias": (D,),
        "output.weight": (D_out, D),
        "output.bias": (D_out,),
    }
    names = {
        name
        for name, _ in MultiHeadAttention(
            4, 2, bias=False, output=False
        ).named_parameters()
    }
    assert names == {"query.weight", "key.weight", "value.weight"}
    assert {x.shape for x in MultiHeadAttention(4, 2).parameters()} == {
        (4, 4),
        (4,),
    }


def test_weights_start_as_glorot_and_bengio_and_biases_at_zero():
    torch.manual_seed(0)
    ours = MultiHeadAttention(200, 2, D_q=100, D_out=400)
    for linear, rows, columns in (
        (ours.query, 100, 200),
        (ours.key, 200, 200),
        (ours.output, 200, 400),
    ):
        bound = (6 / (rows + columns)) ** 0.5
        assert linear.weight.abs().max() <= bound
        assert abs(linear.weight.std() / (bound / 3**0.5) - 1) < 0.02
        assert not linear.bias.any()


def test_resetting_draws_anew_from_the_generator_of_torch():
    ours = module()
    before = {name: x.clone() for name, x in ours.named_parameters()}
    torch.manual_seed(5)
    ours.reset_parameters()
    torch.manual_seed(5)
    again = MultiHeadAttention(
        D, h, D_q=D_q, D_k=D_k, D_v=D_v, D_out=D_out
    ).double()
    torch.manual_seed(5)
    again.reset_parameters()
    for name, x in ours.named_parameters():
        assert not torch.equal(x, before[name])
        assert torch.equal(x, dict(again.named_parameters())[name])
    assert not ours.key.bias.any()


def test_parameters_are_views_of_the_modules_own():
    ours = module()
    p = ours.as_parameters()
    assert p.heads == h
    (p.W_K.sum() + 2 * p.b_O.sum()).backward()
    assert (ours.key.weight.grad == 1).all()
    assert (ours.output.bias.grad == 2).all()
    with torch.no_grad():
        ours.query.weight.zero_()
    assert not p.W_Q.any()


def test_the_module_can_be_copied_stored_and_read_back():
    ours, stored = module(), io.BytesIO()
    torch.save(ours.state_dict(), stored)
    stored.seek(0)
    other = module(seed=1)
    assert (other(Q, K, V) - ours(Q, K, V)).abs().max() > 0.1
    other.load_state_dict(torch.load(stored))
    assert_close(other(Q, K, V), ours(Q, K, V), 0)
    assert_close(copy.deepcopy(ours)(Q, K, V), ours(Q, K, V), 0)


def test_the_module_says_its_heads_and_dropout():
    assert "heads=2, dropout=0.25" in repr(module(dropout=0.25))


def test_inputs_are_never_changed():
    tensors = [x.clone() for x in (Q, K, V)]
    mask, bias = (
        torch.tensor(coin(B, 1, S)),
        torch.tensor(normal(B, h, T, S)),
    )
    for dropout in (0.0, 0.5):
        for return_weights in (False, True):
            module(dropout=dropout)(
                *tensors,
                mask=mask,
                bias=bias,
                causal_offset=1,
                return_weights=return_weights,
            )
    for x, original in zip(tensors, (Q, K, V), strict=True):
        assert x._version == 0
        assert torch.equal(x, original)
    assert mask._version == bias._version == 0


def test_layout_in_memory_does_not_matter():
    ours = module()
    q, k, v = (x.mT.contiguous().mT for x in (Q, K, V))
    mask = torch.tensor(open_mask(B, T, S, seed=3))
    expected = ours(Q, K, V, mask=mask)
    assert not q.is_contiguous()
    for return_weights in (False, True):
        assert_close(
            output_of(
                ours(
                    q,
                    k,
                    v,
                    mask=mask.mT.contiguous().mT,
                    return_weights=return_weights,
                )
            ),
            expected,
        )


# ---- from torch and back ----


def peer(dtype=torch.float64, **options):
    torch.manual_seed(3)
    made = torch.nn.MultiheadAttention(
        D, h, batch_first=True, dtype=dtype, **options
    )
    for x in (made.in_proj_bias, made.out_proj.bias):
        if x is not None:
            torch.nn.init.normal_(x)
    return made


OPTIONS = [
    {},
    {"kdim": D_k, "vdim": D_v},
    {"bias": False},
    {"dropout": 0.25},
    {"vdim": D_v, "bias": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_from_torch_and_back_again_nothing_is_lost(options):
    theirs = peer(**options).eval()
    ours = MultiHeadAttention.from_torch(theirs)
    back = ours.to_torch()
    q, k, v = (
        torch.tensor(normal(B, n, w))
        for n, w in ((T, D), (S, theirs.kdim), (S, theirs.vdim))
    )
    expected, weights = theirs(q, k, v, average_attn_weights=False)
    result = ours(q, k, v, return_weights=True)
    assert_close(result[0], expected)
    assert_close(result[1], weights)
    assert_close(back(q, k, v)[0], expected)
    assert ours.dropout == back.dropout == options.get("dropout", 0.0)
    for name, x in theirs.state_dict().items():
        assert torch.equal(back.state_dict()[name], x)
    assert back.state_dict().keys() == theirs.state_dict().keys()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dtype_and_mode_are_kept_both_ways(dtype, training):
    ours = MultiHeadAttention.from_torch(peer(dtype).train(training))
    back = ours.to_torch()
    for one in (ours, back):
        assert one.training == training
        assert {x.dtype for x in one.parameters()} == {dtype}
    assert back.batch_first


def test_the_copies_share_no_memory():
    theirs = peer()
    ours = MultiHeadAttention.from_torch(theirs)
    back = ours.to_torch()
    with torch.no_grad():
        for x in ours.parameters():
            x.zero_()
    assert all(x.any() for x in (*theirs.parameters(), *back.parameters()))


def test_the_copies_can_be_trained():
    ours = MultiHeadAttention.from_torch(peer())
    x = torch.tensor(normal(B, T, D))
    ours(x).square().sum().backward()
    ours.to_torch()(x, x, x)[0].square().sum().backward()
    assert all(
        p.grad is not None and p.requires_grad for p in ours.parameters()
    )


def test_a_peer_that_is_not_batch_first_is_read_alike():
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(D, h, dtype=torch.float64)
    x = torch.tensor(normal(B, T, D))
    turned = x.transpose(0, 1)
    expected = theirs(turned, turned, turned)[0].transpose(0, 1)
    assert_close(MultiHeadAttention.from_torch(theirs)(x), expected)


def test_as_parameters_is_what_numpy_needs_too():
    ours, mask = module(), open_mask(B, 1, S, seed=2)
    p = ours.as_parameters()
    arrays = {name: numpy_of(x) for name, x in p.arrays().items()}
    assert_close(
        ours(Q, K, V, mask=torch.tensor(mask)),
        multi_head_attention(
            type(p)(**arrays, heads=h),
            Q.numpy(),
            K.numpy(),
            V.numpy(),
            mask=mask,
        ),
    )


# ---- fewer key heads than query heads ----


def grouped(kv_heads, dtype=torch.float64, heads=6, **options):
    """Heads of width 4, six unless told otherwise."""
    torch.manual_seed(4)
    widths = {"D_q": D_q, "D_k": D_k, "D_v": D_v, "D_out": D_out}
    made = MultiHeadAttention(
        4 * heads, heads, kv_heads=kv_heads, **widths | options
    )
    for name, x in made.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(x)
    return made.to(dtype)


GROUPED_MASKS = {
    "none": {},
    "(T, S)": {"mask": open_mask(T, S, seed=1)},
    "(B, h, T, S)": {"mask": open_mask(B, 6, T, S, seed=4)},
    "with empty rows": {"mask": coin(B, 6, T, S, seed=6, p=0.2)},
    "bias": {"bias": normal(B, 6, T, S)},
}


@pytest.mark.parametrize("kv_heads", [1, 2, 3])
@pytest.mark.parametrize("given", GROUPED_MASKS.values(), ids=GROUPED_MASKS)
def test_a_module_of_shared_key_heads_is_the_function_with_its_gradients(
    given, kv_heads
):
    given = {name: torch.tensor(x) for name, x in given.items()}
    results = []
    for way in ("function", "kernel", "weights"):
        ours, inputs = grouped(kv_heads), leaves(Q, K, V)
        if way == "function":
            output = multi_head_attention(
                ours.as_parameters(), *inputs, **given
            )
        else:
            output = output_of(
                ours(*inputs, **given, return_weights=way == "weights")
            )
        output.square().sum().backward()
        grads = [x.grad for x in (*inputs, *ours.parameters())]
        results.append([output, *grads])
    for one in zip(*results, strict=True):
        for x in one:
            assert_close(x, one[0])


@pytest.mark.parametrize("kv_heads", [1, 2, 3])
@pytest.mark.parametrize("way", ["function", "module"])
def test_shared_key_heads_are_those_of_the_kernel_with_gradients(
    way, kv_heads
):
    """scaled_dot_product_attention with ``enable_gqa``, which repeats them itself."""
    results = []
    for peer_ in (False, True):
        ours, inputs = grouped(kv_heads), leaves(Q, K, V)
        if peer_:
            q, k, v = (
                linear(x).unflatten(-1, (-1, 4)).transpose(-2, -3)
                for linear, x in zip(
                    (ours.query, ours.key, ours.value), inputs, strict=True
                )
            )
            assert k.shape == (B, kv_heads, S, 4)
            heads = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, enable_gqa=True
            )
            output = ours.output(heads.transpose(-2, -3).flatten(-2))
        elif way == "module":
            output = ours(*inputs)
        else:
            output = multi_head_attention(ours.as_parameters(), *inputs)
        output.square().sum().backward()
        grads = [x.grad for x in (*inputs, *ours.parameters())]
        results.append([output, *grads])
    for one, other in zip(*results, strict=True):
        assert_close(one, other)


def test_shared_key_heads_in_self_attention_are_one_product(monkeypatch):
    ours = grouped(2, D_k=D_q, D_v=D_q, output=False, D_out=None)
    products = recorded(monkeypatch, "linear")
    output = ours(Q)
    assert [given[1].shape[0] for given, _ in products] == [24 + 8 + 8]
    assert_close(output, ours(Q, Q.clone(), Q.clone()))


def test_shared_key_heads_and_a_causal_offset():
    ours = grouped(2, D_k=D_q, D_v=D_q)
    x = torch.tensor(normal(2, FEW_KEYS, D_q))
    assert_close(
        ours(x, causal_offset=0),
        multi_head_attention(
            ours.as_parameters(),
            x,
            x,
            x,
            mask=causal_mask(FEW_KEYS, like=x),
        ),
    )


def test_as_many_key_heads_as_heads_are_the_same_module():
    """State, numbers drawn, output, what it says of itself and the call of the kernel."""
    torch.manual_seed(1)
    own = MultiHeadAttention(24, 6)
    torch.manual_seed(1)
    same = MultiHeadAttention(24, 6, kv_heads=6)
    assert own.state_dict().keys() == same.state_dict().keys()
    for name, x in own.state_dict().items():
        assert torch.equal(same.state_dict()[name], x)
    x = torch.randn(2, 5, 24)
    assert torch.equal(own(x), same(x))
    assert repr(own) == repr(same)
    assert same.as_parameters().kv_heads is None
    assert_close(same.to_torch()(x, x, x)[0], own(x), 1e-6)


def test_the_module_says_its_key_heads_and_keeps_them():
    ours = grouped(np.int8(2))
    assert "heads=6, kv_heads=2, dropout" in repr(ours)
    assert ours.key.weight.shape == (8, D_k)
    assert ours.value.bias.shape == (8,)
    other = grouped(2)
    other.reset_parameters()
    other.load_state_dict(ours.state_dict())
    assert_close(other(Q, K, V), ours(Q, K, V), 0)
    assert ours.as_parameters().count == sum(
        x.numel() for x in ours.parameters()
    )
