"""What chapter 23, Head roles and pruning, states.

Checked elsewhere:
- a gate is a factor on the rows of W_O, and leaves the bias alone:
  insights/test_pruning.py, test_a_gate_multiplies_what_its_head_adds
- importance, against differences: the same file,
  test_importance_is_the_mean_size_of_the_slope
- how often a hard concrete gate is open: the same file,
  test_open_probability_is_how_often_a_gate_is_open
- exact match is that of greedy decoding: insights/test_translator.py,
  test_exact_match_is_that_of_greedy_decoding
- the numbers of the page: its outputs are run again, and those in its text
  come from the stored result
"""

from fractions import Fraction

import numpy as np
import pytest
import torch

from attention_in_detail.insights.pruning import (
    attentions,
    gated,
    gates_without,
    hard_concrete,
    head_importance,
    learn_gates,
    pruning_order,
    tune_with_gates,
)
from attention_in_detail.insights.results import experiment
from attention_in_detail.insights.translator import (
    exact_match,
    gold_mass,
    load_translator,
    number_losses,
    split,
    tensor_batch,
    training_batches,
)
from tests.extension_support import ROOT

STORED = experiment("pruning")
MODEL = load_translator("float32")
KNOWN, HELD_OUT = split(0)
TEST, ASKED = tensor_batch(HELD_OUT[:200]), tensor_batch(KNOWN[:100])


def stored(key):
    return np.array(STORED[key].values)


def kept(gone, test=TEST):
    return exact_match(gated(MODEL, gates_without(MODEL, gone)), test)


# ---- the claims, over the seeds ----


def test_at_least_five_models_that_know_the_task():
    assert len(STORED.seeds) >= 5
    assert stored("accuracy").min() >= 0.98


@pytest.mark.claim("obs-pruning-kinds")
def test_over_the_seeds_cross_attention_is_worse_than_the_encoder_and_in_part_than_the_decoder():
    for percent, worse_than_decoder in ((50, 4), (75, 2)):
        cross, encoder, decoder = (
            stored(f"{kind}_{percent}")
            for kind in ("cross", "encoder", "decoder")
        )
        assert (cross < encoder).all()
        assert int((cross < decoder).sum()) == worse_than_decoder
    assert stored("cross_50").mean() < stored("encoder_50").mean() - 0.1


def test_a_quarter_of_any_kind_can_go():
    assert stored("encoder_25").min() > 0.95
    assert stored("decoder_25").mean() > 0.95
    assert stored("cross_25").mean() > 0.95


def test_most_heads_can_go_alone():
    assert stored("single_share").min() > 0.7


@pytest.mark.claim("obs-pruning-order")
def test_over_the_seeds_importance_measured_once_beats_chance():
    for percent in (25, 33):
        assert stored(f"once_{percent}").mean() > 0.9
        assert (
            stored(f"once_{percent}") > stored(f"random_{percent}")
        ).all()
    anew, chance = stored("anew_25"), stored("random_25")
    assert int((anew > chance).sum()) == 3
    assert stored("anew_33").mean() < stored("random_33").mean() + 0.02


def test_importance_goes_with_the_loss_without_the_head():
    assert stored("rank").min() > 0.5


def test_gates_keep_the_heads_that_look_at_the_right_word():
    assert (stored("gold_kept") > stored("gold_gone") + 0.05).all()


@pytest.mark.claim("obs-pruning-gates")
def test_over_the_seeds_gates_leave_few_heads_and_the_task():
    assert stored("left").max() <= 12
    assert stored("gates_accuracy").min() > 0.85
    assert stored("left_encoder").max() <= 1


@pytest.mark.claim("obs-pruning-chance")
def test_over_the_seeds_heads_drawn_by_chance_do_as_well_as_the_gates():
    """Heads chosen by chance, trained as long: what the page says that gates do not show."""
    gates = stored("gates_accuracy")
    assert (stored("random_tuned") >= gates).all()
    anywhere = stored("anywhere_tuned")
    assert int((anywhere >= gates).sum()) == 4
    assert (anywhere > gates - 0.015).all()
    assert stored("untuned").max() < 0.5


def test_the_curves_of_the_figure_are_those_of_the_table():
    for kind in ("encoder", "decoder", "cross"):
        mean = STORED.more[kind]["mean"]
        for percent in (25, 50, 75):
            wanted = STORED[f"{kind}_{percent}"].mean
            assert abs(mean[percent * 8 // 100] - wanted) < 1e-3
    assert stored("accuracy").mean() == pytest.approx(
        STORED.more["cross"]["mean"][0], abs=1e-3
    )


# ---- the short version ----


@pytest.mark.claim("obs-pruning-kinds")
def test_cross_attention_gives_way_before_the_encoder_here_too():
    """And with three quarters gone the decoder is worse still, as the page says of this model."""
    asked, left = tensor_batch(KNOWN[:50]), {}
    for kind in ("encoder", "decoder", "cross"):
        order = pruning_order(MODEL, asked, kinds=(kind,), every=4)
        left[kind] = [kept(order[:n]) for n in (8, 12, 16)]
    assert left["cross"][0] < left["encoder"][0] - 0.02
    assert left["cross"][1] < left["encoder"][1] - 0.2
    assert left["decoder"][1] < left["cross"][1] - 0.1
    assert left["cross"][2] == 0


@pytest.mark.claim("obs-pruning-order")
def test_importance_orders_better_than_chance_here_too():
    chance = [
        kept(np.random.default_rng(n).permutation(48)[:16].tolist())
        for n in range(4)
    ]
    assert kept(pruning_order(MODEL, ASKED, every=8)[:16]) > np.mean(chance)


def test_without_the_sizes_examples_cancel():
    gates = gates_without(MODEL, []).requires_grad_()
    number_losses(gated(MODEL, gates), ASKED).mean().backward()
    importance = head_importance(MODEL, ASKED)
    small = gates.grad.abs() < importance / 2
    assert int(small.sum()) > 10


def test_every_cross_head_is_on_the_right_word_more_than_its_share():
    gold = gold_mass(MODEL, TEST)
    share = (1 / TEST.source_lengths.double()).mean()
    assert float(gold.min()) > 1.3 * float(share)


@pytest.mark.claim("obs-pruning-chance")
def test_tuning_repairs_what_chance_took():
    """A smaller version of the control: 24 heads left, 15 steps."""
    gone = np.random.default_rng(0).permutation(48)[:24].tolist()
    gates = gates_without(MODEL, gone)
    tuned = tune_with_gates(
        MODEL, training_batches(0, noise=1), gates, steps=15
    )
    assert exact_match(gated(tuned, gates), TEST) > kept(gone) + 0.2


@pytest.mark.claim("obs-pruning-gates")
def test_a_price_lowers_the_gates():
    _, gates = learn_gates(
        MODEL,
        training_batches(0, noise=1),
        steps=4,
        penalty=0.1,
        seed=0,
        learning_rate=0.01,
    )
    assert gates.shape == (6, 8)
    assert float(gates.mean()) < 0.9


# ---- by hand ----


def test_the_example_of_two_heads():
    a = torch.tensor([[1.0, 2.0], [1.0, -2.0]])
    t = torch.tensor([2.0, -2.0])
    slopes = 2 * (a.sum(1) - t)[:, None] * a
    assert slopes.tolist() == [[2, 4], [2, -4]]
    assert slopes.abs().mean(0).tolist() == [2, 4]
    assert slopes.mean(0).tolist() == [2, 0]


@pytest.mark.claim("def-hard-concrete")
def test_a_hard_concrete_gate_by_hand():
    zero = torch.zeros((), dtype=torch.float64)
    at = [
        float(hard_concrete(zero, torch.tensor(u, dtype=torch.float64)))
        for u in (0.5, 0.8)
    ]
    assert np.allclose(at, [1 / 2, float(Fraction(29, 30))], atol=1e-12)
    edge = 11 ** (2 / 3) / (1 + 11 ** (2 / 3))
    assert 0.8 < edge < 0.84
    for u, wanted in ((edge - 1e-6, False), (edge + 1e-6, True)):
        xi = hard_concrete(zero, torch.tensor(u, dtype=torch.float64))
        assert bool(xi == 1) is wanted


def test_a_gate_of_zero_has_a_slope_and_the_number_of_open_gates_has_none():
    """The example by hand, with its second head shut; and what the price counts, beside the gates as they are."""
    gates = torch.tensor([1.0, 0.0], requires_grad=True)
    ((gates @ torch.tensor([1.0, 2.0]) - 2) ** 2).backward()
    assert gates.grad[1] != 0
    some = np.array([0.3, 0.7, 0.0])
    moved = some + np.array([1e-6, -1e-6, 0])
    assert np.count_nonzero(some) == np.count_nonzero(moved) == 2
    for name in ("notebooks/23_pruning.ipynb", "slides/23_pruning.md"):
        page = (ROOT / name).read_text("utf8")
        assert "has no slope" not in page
        assert "is flat wherever it does not jump" in page


def test_the_slope_is_the_product_of_output_and_gradient():
    rng = np.random.default_rng(0)
    Y = torch.from_numpy(rng.standard_normal((2, 3, 4)))
    b = torch.from_numpy(rng.standard_normal(4))
    gates = torch.ones(2, dtype=torch.float64).requires_grad_()
    y = (gates[:, None, None] * Y).sum(0) + b
    y.retain_grad()
    (y**3).sum().backward()
    wanted = (Y * y.grad).sum((1, 2))
    assert torch.allclose(gates.grad, wanted, rtol=0, atol=1e-12)


def test_two_attentions_miss_their_heads_most():
    """The exercise: the best single head of each attention."""
    best, few = [], tensor_batch(HELD_OUT[:100])
    for n in range(len(attentions(MODEL))):
        found = []
        for i in range(8):
            gone = [8 * n + j for j in range(8) if j != i]
            found.append(kept(gone, few))
        best.append(max(found))
    # the first self-attention of the decoder and the first cross-attention
    assert all(0.5 < best[n] < 0.7 for n in (2, 4))
    assert all(best[n] > 0.9 for n in (0, 1, 3, 5))
