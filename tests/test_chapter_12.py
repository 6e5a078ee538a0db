"""What chapter 12, What real heads look at, states of the stored maps.

Checked elsewhere:
- the encoder is this book's own, and equal to transformers' BertModel:
  tests/models/test_minilm.py,
  test_hidden_states_and_weights_equal_those_of_transformers
- a sentence in a padded batch gets the maps that it gets alone: the same
  file, test_padding_changes_nothing
- silencing takes away what a head adds, and nothing else: the same file,
  test_silencing_a_head_takes_away_what_it_adds_and_nothing_else
- what is stored is what the weights give: tests/models/test_maps.py
- the mass, by hand and against loops: test_head_scores.py
"""

from dataclasses import replace

import numpy as np
import pytest

from attention_in_detail import MultiHeadParameters, self_attention
from attention_in_detail.head_scores import (
    pattern_mass,
    patterns,
    uniform_mass,
)
from attention_in_detail.models.maps import head_maps, stored_maps

KEPT = stored_maps()
TIRED, WIDE, ALICE, DOG, ADA = KEPT
CHANGE = np.mean([kept.changes for kept in KEPT], axis=0)


def masses(name):
    found = [
        (pattern_mass(kept.weights, P), uniform_mass(P))
        for kept in KEPT
        if (P := patterns(kept.tokens)[name]).any()
    ]
    mass = np.mean([mass for mass, _ in found], axis=0)
    return mass, np.mean([u for _, u in found])


@pytest.mark.parametrize(
    ("name", "uniform", "all_heads", "best", "most"),
    [
        ("previous", 0.06, 0.10, (0, 2), 1.00),
        ("next", 0.06, 0.06, (1, 8), 0.65),
        ("first", 0.06, 0.45, (4, 5), 0.89),
        ("same word", 0.08, 0.05, (0, 8), 0.33),
        ("punctuation", 0.09, 0.05, (3, 11), 0.37),
    ],
)
def test_table_of_patterns(name, uniform, all_heads, best, most):
    mass, share = masses(name)
    assert np.unravel_index(mass.argmax(), mass.shape) == best
    assert abs(share - uniform) < 0.006
    assert abs(mass.mean() - all_heads) < 0.006
    assert abs(mass.max() - most) < 0.006


def test_the_sink_is_about_seven_times_its_share():
    mass, share = masses("first")
    assert 6.5 < mass.mean() / share < 7.5


def test_sentences_and_sizes():
    assert len(KEPT) == 5
    assert all(kept.weights.shape[:2] == (6, 12) for kept in KEPT)
    assert head_maps(DOG.sentence) is DOG
    assert len(DOG.tokens) == 17


def test_the_clearest_head_puts_all_but_a_trace_one_step_back():
    previous = np.diagonal(DOG.weights[0, 2], -1)
    assert previous.min() > 0.98
    assert DOG.weights[0, 2, 0, 0] > 0.98  # the first looks at itself


def test_captions_of_the_layers():
    # L0H8: the strongest key of four queries is their word elsewhere
    twin = patterns(DOG.tokens)["same word"]
    strongest = DOG.weights[0, 8].argmax(-1)
    assert twin[np.arange(17), strongest].sum() == 4
    # layer 2: [CLS] is the darkest column of all maps
    assert not DOG.weights[2].mean(-2).argmax(-1).any()
    # L3H11: columns 8 and 16 are the comma and the full stop
    assert [DOG.tokens[n - 1] for n in (8, 16)] == [",", "."]
    assert (DOG.weights[3, 11].argmax(-1) == 15).sum() == 15
    assert DOG.weights[3, 11].mean(-2)[7] < 0.07
    # L4H5 is little else than the sink
    assert DOG.weights[4, 5].mean(-2)[0] > 0.9


def test_what_it_looks_at():
    found = {}
    for kept, query, keys in (
        (TIRED, "it", ("animal", "street")),
        (WIDE, "it", ("animal", "street")),
        (ALICE, "he", ("alice", "bob")),
    ):
        row = kept.weights[:, :, kept.tokens.index(query)]
        for key in keys:
            j = kept.tokens.index(key)
            wins = int((row.argmax(-1) == j).sum())
            found[kept.sentence[-7:-1], key] = (
                round(float(row[3, 1, j]), 2),
                wins,
            )
    assert list(found.values()) == [
        (0.69, 3),
        (0.05, 1),
        (0.32, 4),
        (0.15, 2),
        (0.74, 10),
        (0.10, 5),
    ]
    # the two sentences differ in one token
    assert [
        n
        for n, pair in enumerate(
            zip(TIRED.tokens, WIDE.tokens, strict=True)
        )
        if len(set(pair)) == 2
    ] == [12]


@pytest.mark.parametrize(
    ("head", "change", "place", "in_layer"),
    [
        ((0, 2), 0.082, 23, 2),
        ((4, 5), 0.028, 72, 12),
        ((3, 1), 0.080, 26, 6),
        ((5, 11), 0.239, 1, 1),
    ],
)
def test_what_silencing_changes(head, change, place, in_layer):
    one = CHANGE[head]
    assert abs(one - change) < 0.0006
    assert (one < CHANGE).sum() + 1 == place
    assert (one < CHANGE[head[0]]).sum() + 1 == in_layer


def test_the_last_layer_has_the_largest_numbers():
    assert CHANGE.mean(-1).argmax() == 5
    assert CHANGE[5].mean() > 1.5 * CHANGE[:5].mean(-1).max()


def test_a_clear_map_goes_with_a_smaller_change_if_with_anything():
    clear = np.mean(
        [kept.weights.max(-1).mean(-1) for kept in KEPT], axis=0
    )
    orders = [x.ravel().argsort().argsort() for x in (clear, CHANGE)]
    assert abs(np.corrcoef(orders)[0, 1] + 0.31) < 0.006
    first, second = np.argsort(-clear.ravel())[:2]
    assert divmod(first, 12) == (0, 2)
    assert divmod(second, 12) == (4, 5)


def test_a_flipped_map_looks_the_other_way_and_its_rows_give_it_away():
    A = DOG.weights[0, 2]
    found = patterns(DOG.tokens)
    assert pattern_mass(A, found["previous"]) > 0.99
    assert pattern_mass(A.T, found["next"]) > 0.99
    assert pattern_mass(A.T, found["previous"]) < 0.005
    assert np.allclose(A.sum(-1), 1, atol=0.01)
    assert not np.allclose(A.T.sum(-1), 1, atol=0.01)


def test_exercise_sink_by_hand():
    A = np.array([[0.5, 0.25, 0.25], [0.75, 0.25, 0], [0.125, 0.75, 0.125]])
    first = np.array([[0, 0, 0], [1, 0, 0], [1, 0, 0]], dtype=bool)
    assert pattern_mass(A, first) == 7 / 16
    assert uniform_mass(first) == pytest.approx(1 / 3)


def test_exercise_sep_is_no_sink():
    found = []
    for kept in KEPT:
        P = np.zeros(kept.weights.shape[-2:], dtype=bool)
        P[:-1, -1] = True
        found.append((pattern_mass(kept.weights, P), uniform_mass(P)))
    mass = np.mean([mass for mass, _ in found], axis=0)
    assert round(float(mass.mean()), 2) == 0.03
    assert round(float(mass.max()), 2) == 0.13
    assert divmod(int(mass.argmax()), 12) == (0, 0)
    assert round(float(np.mean([u for _, u in found])), 2) == 0.06


def test_exercise_equal_values_hide_the_weights():
    p = MultiHeadParameters.init(8, 2, seed=3)
    x = np.random.default_rng(3).normal(size=(5, 8))
    W_V = np.array(p.W_V)
    W_V[:, :4] = 0  # head 0 mixes nothing
    W_O = np.array(p.W_O)
    W_O[:4] = 0
    nothing = replace(p, W_V=W_V)
    silenced = replace(nothing, W_O=W_O)
    Y, A = self_attention(nothing, x, return_weights=True)
    now, seen = self_attention(silenced, x, return_weights=True)
    assert np.array_equal(A, seen)
    assert np.allclose(Y, now, rtol=0, atol=1e-12)
