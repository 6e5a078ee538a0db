"""Gates on heads, importance, the order of pruning, and gates that are learned."""

from dataclasses import replace
from itertools import repeat

import numpy as np
import pytest
import torch

from attention_in_detail import multi_head_attention
from attention_in_detail.encoder_decoder import transformer
from attention_in_detail.insights import translator
from attention_in_detail.insights.pruning import (
    KINDS,
    attentions,
    gated,
    gates_without,
    hard_concrete,
    head_importance,
    learn_gates,
    open_probability,
    pruning_order,
    settled_gates,
    tune_with_gates,
)
from attention_in_detail.insights.translator import (
    number_losses,
    tensor_batch,
)
from attention_in_detail.trees import map_arrays

h, D = 2, 16
NUMBERS = [7, 12, 421, 9999, 3020, 68]


def model(seed=0):
    made = translator._untrained(D, h, seed).double()
    p = made.requires_grad_(False).as_parameters()
    rng = np.random.default_rng(seed)  # biases too

    def shaken(x):
        return x + 0.1 * torch.from_numpy(rng.standard_normal(x.shape))

    return map_arrays(p, shaken)


def flat(parameters):
    """The arrays, in the order of their fields."""
    found = []
    map_arrays(parameters, lambda x: found.append(x) or x)
    return found


P, BATCH = model(), tensor_batch(NUMBERS)


def some_gates(seed=0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.uniform(-1, 2, (6, h)))


# ---- gates ----


@pytest.mark.claim("def-gates", "prop-gates")
@pytest.mark.parametrize("n", range(6))
def test_a_gate_multiplies_what_its_head_adds(n):
    gates = some_gates()
    before, after = (attentions(p)[n][2] for p in (P, gated(P, gates)))
    rng = np.random.default_rng(1)
    x, c = (torch.from_numpy(rng.standard_normal((t, D))) for t in (3, 4))
    wanted = before.b_O + sum(
        gates[n, i] * multi_head_attention(before.head(i), x, c, c)
        for i in range(h)
    )
    found = multi_head_attention(after, x, c, c)
    assert torch.allclose(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.claim("prop-gates")
def test_gates_multiply_the_rows_of_the_output_matrix_and_nothing_else():
    gates = some_gates()
    for n, (one, other) in enumerate(
        zip(attentions(P), attentions(gated(P, gates)), strict=True)
    ):
        before, after = one[2].arrays(), other[2].arrays()
        assert set(before) == set(after)
        factors = gates[n].repeat_interleave(D // h)[:, None]
        assert torch.equal(after.pop("W_O"), factors * before["W_O"])
        for name, x in after.items():
            assert torch.equal(x, before[name])


def test_attentions_are_named_in_order():
    found = attentions(P)
    assert [(kind, layer) for kind, layer, _ in found] == [
        (kind, layer) for kind in KINDS for layer in range(2)
    ]
    assert found[1][2] is P.encoder_layers[1].attention
    assert found[2][2] is P.decoder_layers[0].self_attention
    assert found[5][2] is P.decoder_layers[1].cross_attention


@pytest.mark.claim("def-gates")
def test_open_gates_change_nothing():
    whole = gated(P, gates_without(P, []))
    assert torch.equal(number_losses(whole, BATCH), number_losses(P, BATCH))


def test_without_cross_attention_the_source_does_not_matter():
    shut = gated(P, gates_without(P, range(4 * h, 6 * h)))
    said = [
        transformer(shut, source[None], BATCH.given[:1])
        for source in BATCH.source[2:4]
    ]
    assert torch.equal(*said)
    said = [
        transformer(P, source[None], BATCH.given[:1])
        for source in BATCH.source[2:4]
    ]
    assert not torch.allclose(*said)


def test_gates_without_counts_along_the_rows():
    gates = gates_without(P, [1, 2 * h, np.int64(5 * h + 1)])
    assert gates.tolist() == [
        [1, 0],
        [1, 1],
        [0, 1],
        [1, 1],
        [1, 1],
        [1, 0],
    ]


# ---- importance ----


@pytest.mark.claim("def-importance")
@pytest.mark.parametrize("gates", [None, some_gates(3)])
def test_importance_is_the_mean_size_of_the_slope(gates):
    """Against differences: each gate a little up, a little down."""
    found = head_importance(P, BATCH, gates)
    at = torch.ones(6, h).double() if gates is None else gates
    step = 1e-5
    for n in range(6):
        for i in range(h):
            ends = []
            for sign in (1, -1):
                moved = at.clone()
                moved[n, i] += sign * step
                ends.append(number_losses(gated(P, moved), BATCH))
            slope = (ends[0] - ends[1]) / (2 * step)
            assert abs(float(found[n, i] - slope.abs().mean())) < 1e-7


@pytest.mark.claim("def-importance")
def test_examples_do_not_cancel():
    gates = gates_without(P, []).requires_grad_()
    number_losses(gated(P, gates), BATCH).mean().backward()
    found = head_importance(P, BATCH)
    assert (found >= gates.grad.abs() - 1e-12).all()
    assert (found > 1.2 * gates.grad.abs()).any()


def test_the_order_starts_with_the_least_share_of_its_attention():
    raw = head_importance(P, BATCH).numpy()
    share = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    assert pruning_order(P, BATCH) == share.ravel().argsort().tolist()
    cross = pruning_order(P, BATCH, kinds=("cross",))
    assert sorted(cross) == list(range(4 * h, 6 * h))
    wanted = [4 * h + i for i in share[4:].ravel().argsort()]
    assert cross == wanted


def test_importance_is_measured_anew_without_the_heads_that_went():
    kinds, gone = ("decoder", "cross"), []
    while len(gone) < 4 * h:
        raw = head_importance(P, BATCH, gates_without(P, gone)).numpy()
        norms = np.linalg.norm(raw, axis=1, keepdims=True)
        share = (raw / np.maximum(norms, 1e-30)).ravel()
        share[[*range(2 * h), *gone]] = np.inf
        gone.append(int(share.argmin()))
    assert pruning_order(P, BATCH, kinds=kinds, every=1) == gone
    assert pruning_order(P, BATCH, kinds=kinds) != gone


# ---- gates that are learned ----


@pytest.mark.claim("def-hard-concrete")
def test_hard_concrete_at_points_done_by_hand():
    """u = 1/2 and log α = 0: s = 1/2, stretched to 1/2. Far out it is cut."""
    half = torch.tensor([0.5, 0.5, 0.5]).double()
    gates = hard_concrete(torch.tensor([0.0, 9.0, -9.0]).double(), half)
    assert torch.allclose(
        gates, torch.tensor([0.5, 1, 0]).double(), atol=1e-12
    )
    # logit(.8) = ln 4; s = 4^(3/2) / (1 + 4^(3/2)) = 8/9, stretched 8/9 · 1.2 − .1
    one = hard_concrete(
        torch.zeros(1).double(), torch.tensor([0.8], dtype=torch.float64)
    )
    assert abs(float(one) - (8 / 9 * 1.2 - 0.1)) < 1e-12


@pytest.mark.claim("def-hard-concrete")
@pytest.mark.parametrize("log_alpha", [-3.0, -1.0, 0.0, 2.0])
def test_open_probability_is_how_often_a_gate_is_open(log_alpha):
    noise = torch.from_numpy(np.random.default_rng(0).random(200_000))
    alpha = torch.full_like(noise, log_alpha)
    often = float((hard_concrete(alpha, noise) > 0).double().mean())
    assert abs(often - float(open_probability(alpha[0]))) < 0.004


def test_a_gate_between_has_a_derivative_and_one_at_the_end_has_none():
    alpha = torch.tensor([0.0, 9.0], dtype=torch.float64).requires_grad_()
    hard_concrete(alpha, torch.tensor([0.5, 0.5]).double()).sum().backward()
    assert alpha.grad[0] > 0.1
    assert alpha.grad[1] == 0


def test_settled_gates_have_no_noise_and_reach_both_ends():
    found = settled_gates(torch.tensor([-9.0, 0.0, 9.0]).double())
    assert torch.allclose(
        found, torch.tensor([0, 0.5, 1]).double(), atol=1e-12
    )
    # where σ(log α) · 1.2 = .1 the gate is shut
    edge = torch.logit(torch.tensor([0.1 / 1.2 - 1e-6, 0.1 / 1.2 + 1e-6]))
    assert (settled_gates(edge) > 0).tolist() == [False, True]


def trained(penalty, seed=0):
    return learn_gates(
        P,
        repeat(BATCH),
        steps=8,
        penalty=penalty,
        seed=seed,
        learning_rate=0.05,
    )


def test_a_high_price_shuts_all_gates_and_none_leaves_them_open():
    before = [x.clone() for x in flat(P)]
    _, shut = trained(5.0)
    tuned, still_open = trained(0.0)
    assert not (shut > 0).any()
    assert (still_open > 0).sum() > 6
    assert all(map(torch.equal, flat(P), before))
    assert not any(x.requires_grad for x in flat(tuned))
    losses = [
        number_losses(gated(p, g), BATCH).mean()
        for p, g in ((P, gates_without(P, [])), (tuned, still_open))
    ]
    assert losses[1] < losses[0]


def test_gates_repeat_themselves_with_the_seed():
    one, two, three = (trained(0.3, seed)[1] for seed in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, three)


def test_tuning_does_not_move_what_a_shut_gate_hides():
    gone = [0, 2 * h + 1, 5 * h]
    gates = gates_without(P, gone)
    tuned = tune_with_gates(P, repeat(BATCH), gates, steps=3)
    D_h = D // h
    for n, (before, after) in enumerate(
        zip(attentions(P), attentions(tuned), strict=True)
    ):
        for i in range(h):
            rows = slice(i * D_h, (i + 1) * D_h)
            same = torch.equal(before[2].W_O[rows], after[2].W_O[rows])
            assert same == (n * h + i in gone)


# ---- refusals ----


def other_heads():
    """A model whose encoder has another number of heads."""
    layers = tuple(
        replace(layer, attention=replace(layer.attention, heads=4))
        for layer in P.encoder_layers
    )
    return replace(P, encoder_layers=layers)


ONES = torch.ones(6, h).double()
REFUSALS = [
    (
        lambda: attentions(3),
        TypeError,
        "parameters must be TransformerParameters, not int",
    ),
    (
        lambda: attentions(other_heads()),
        ValueError,
        "the attentions have [4, 4, 2, 2, 2, 2] heads, but gates need the same number in each",
    ),
    (
        lambda: gated(P, ONES.bool()),
        TypeError,
        "gates must be a floating array, not torch.bool; convert it first",
    ),
    (
        lambda: gated(P, ONES.mT),
        ValueError,
        "gates have the shape (2, 6), but there are 6 attentions of 2 heads",
    ),
    (
        lambda: gates_without(P, [0.5]),
        TypeError,
        "a head must be an integer, not float",
    ),
    (
        lambda: gates_without(P, [12]),
        ValueError,
        "there is no head 12: the 12 heads are counted from 0",
    ),
    (
        lambda: head_importance(P, NUMBERS),
        TypeError,
        "batch must be one that tensor_batch gives, not list",
    ),
    (
        lambda: head_importance(P, BATCH, ONES[:1]),
        ValueError,
        "gates have the shape (1, 2), but there are 6 attentions of 2 heads",
    ),
    (
        lambda: pruning_order(P, BATCH, kinds=("cross", "all")),
        ValueError,
        "kinds is ('cross', 'all'), but must hold some of: encoder, decoder, cross",
    ),
    (
        lambda: pruning_order(P, BATCH, every=0),
        ValueError,
        "every is 0, but must be at least 1",
    ),
    (
        lambda: hard_concrete(1, ONES),
        TypeError,
        "log_alpha must be an array of NumPy, PyTorch or another array library, not int",
    ),
    (
        lambda: hard_concrete(ONES, ONES),
        ValueError,
        "noise must lie between 0 and 1, both left out",
    ),
    (
        lambda: open_probability(ONES.int()),
        TypeError,
        "log_alpha must be a floating array, not torch.int32; convert it first",
    ),
    (
        lambda: settled_gates(None),
        TypeError,
        "log_alpha must be an array of NumPy, PyTorch or another array library, not NoneType",
    ),
    (
        lambda: learn_gates(P, [BATCH], steps=1, penalty=0.1, seed=0),
        TypeError,
        "drawn must be an iterator over batches, not list",
    ),
    (
        lambda: learn_gates(P, repeat(BATCH), steps=1, penalty=-1, seed=0),
        ValueError,
        "penalty is -1, but must be 0 or more",
    ),
    (
        lambda: tune_with_gates(P, repeat(BATCH), ONES[0], steps=1),
        ValueError,
        "gates have the shape (2,), but there are 6 attentions of 2 heads",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSALS)
def test_refusals(call, error, message):
    with pytest.raises(error) as found:
        call()
    assert str(found.value) == message
