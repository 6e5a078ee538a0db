"""What chapter 12, What real heads look at, states of the stored maps, and of
five sentences that it was not written from.

Checked elsewhere:
- the encoder is this book's own, and equal to transformers' BertModel:
  tests/models/test_minilm.py,
  test_hidden_states_and_weights_equal_those_of_transformers
- a sentence in a padded batch gets the maps that it gets alone: the same
  file, test_padding_changes_nothing
- sizes of the model: the same file, test_sizes
- silencing takes away what a head adds, and nothing else: the same file,
  test_silencing_a_head_takes_away_what_it_adds_and_nothing_else
- what is stored is what the weights give: tests/models/test_maps.py
- the mass, by hand and against loops: test_head_scores.py
"""

from dataclasses import replace

import numpy as np
import pytest

from attention_in_detail import self_attention
from attention_in_detail.head_scores import (
    pattern_mass,
    patterns,
    uniform_mass,
)
from attention_in_detail.models import encode, load_minilm, without_head
from attention_in_detail.models.maps import head_maps, stored_maps
from tests.page_numbers import not_printed, numbers_of, statement

KEPT = stored_maps()
TIRED, WIDE, ALICE, DOG, ADA = KEPT
CHANGE = np.mean([kept.changes for kept in KEPT], axis=0)
CLEAR = np.mean([kept.weights.max(-1).mean(-1) for kept in KEPT], axis=0)
NOT_USED = (
    "The cat chased the rat, but the rat bit the cat.",
    "A red car hit a blue car near the old bridge.",
    "She said that he said that they said nothing.",
    "Paris is in France, and Rome is in Italy.",
    "My sister sold her house because her sister wanted it.",
)


def best_head(mass):
    return divmod(int(mass.argmax()), mass.shape[-1])


def rank_correlation(a, b):
    ranks = [x.ravel().argsort().argsort() for x in (a, b)]
    return np.corrcoef(ranks)[0, 1]


def masses(name):
    found = [
        (pattern_mass(kept.weights, P), uniform_mass(P))
        for kept in KEPT
        if (P := patterns(kept.tokens)[name]).any()
    ]
    mass = np.mean([mass for mass, _ in found], axis=0)
    return mass, np.mean([u for _, u in found])


@pytest.mark.claim("obs-real-heads")
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
def test_each_pattern_has_the_best_head_of_the_table(
    name, uniform, all_heads, best, most
):
    mass, share = masses(name)
    assert np.unravel_index(mass.argmax(), mass.shape) == best
    assert abs(share - uniform) < 0.006
    assert abs(mass.mean() - all_heads) < 0.006
    assert abs(mass.max() - most) < 0.006


@pytest.mark.claim("obs-real-heads")
def test_the_sink_is_about_seven_times_its_share():
    mass, share = masses("first")
    assert 6.5 < mass.mean() / share < 7.5
    assert numbers_of("obs-real-heads") == [mass[4, 5].round(2)]


def test_the_same_word_has_two_heads():
    found = []
    for kept in KEPT:
        P = patterns(kept.tokens)["same word"]
        if P.any():
            again = {kept.tokens[i] for i in np.flatnonzero(P.any(1))}
            mass = pattern_mass(kept.weights, P).round(2)
            found.append((mass[0, 8], mass[2, 9], again))
            if kept is DOG:
                assert best_head(mass) == (2, 9)
                # L0H8 follows "the", and no other word.
                on_it = (kept.weights[0, 8] * P).sum(axis=-1)
                the = np.array([token == "the" for token in kept.tokens])
                asked = P.any(axis=1)
                assert on_it[asked & the].min() > 0.5
                assert on_it[asked & ~the].max() < 0.2
    assert [again for _, _, again in found] == [
        {"the"},
        {"the"},
        {"the", "old", "man", "saw", "dog"},
    ]
    assert np.allclose([a for a, _, _ in found], [0.34, 0.34, 0.31])
    assert np.allclose([b for _, b, _ in found], [0.06, 0.06, 0.73])


def test_each_decimal_of_the_text_is_one_that_a_cell_prints():
    in_solutions = [".44", ".032", ".125", ".065"]  # tested below
    assert not not_printed("12_real_heads", in_solutions)


def test_some_head_of_72_lies_above_uniform_on_pairs_drawn_at_random():
    """As many keys for each query as the pattern has, none of them itself."""
    rng = np.random.default_rng(0)
    for name in ("same word", "punctuation"):
        above = 0
        for _ in range(100):
            found = []
            for kept in KEPT:
                P = patterns(kept.tokens)[name]
                if not P.any():
                    continue
                drawn = np.zeros_like(P)
                for i, n in enumerate(P.sum(axis=1)):
                    others = np.delete(np.arange(len(P)), i)
                    drawn[i, rng.choice(others, n, replace=False)] = True
                found.append(
                    pattern_mass(kept.weights, drawn) - uniform_mass(drawn)
                )
            above += np.mean(found, axis=0).max() > 0
        assert above >= 95, name


@pytest.mark.claim("obs-other-sentences")
@pytest.mark.parametrize("sentence", NOT_USED)
def test_on_other_sentences_the_heads_do_the_same(sentence):
    maps = head_maps(sentence)
    assert sentence not in [kept.sentence for kept in KEPT]
    mass = {
        name: pattern_mass(maps.weights, P)
        for name, P in patterns(maps.tokens).items()
    }
    assert best_head(mass["previous"]) == (0, 2)
    assert best_head(mass["next"]) == (1, 8)
    assert best_head(mass["punctuation"]) == (3, 11)
    low, high = numbers_of("obs-other-sentences")
    assert (low, high) == (0.4, 0.5)
    assert low < mass["first"].mean() < high
    assert mass["same word"][2, 9] > mass["same word"][0, 8]
    assert (best_head(mass["same word"]) == (2, 9)) == (
        sentence in (NOT_USED[0], NOT_USED[1], NOT_USED[3])
    )


def test_sentences_and_sizes():
    assert len(KEPT) == 5
    assert DOG.weights.shape == (6, 12, 17, 17)
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
    # layer 2: [CLS] is the strongest column of all maps
    assert not DOG.weights[2].mean(-2).argmax(-1).any()
    # ten dots of L2H9 lie on the word of the query, elsewhere
    strongest = DOG.weights[2, 9].argmax(-1)
    assert twin[np.arange(17), strongest].sum() == 10
    # L3H11: columns 8 and 16 are the comma and the full stop
    assert [DOG.tokens[n - 1] for n in (8, 16)] == [",", "."]
    assert (DOG.weights[3, 11].argmax(-1) == 15).sum() == 15
    assert DOG.weights[3, 11].mean(-2)[7] < 0.07
    # L4H5 is little else than the sink
    assert DOG.weights[4, 5].mean(-2)[0] > 0.9


@pytest.mark.claim("obs-pronoun")
def test_where_it_and_he_look():
    found = {}
    for kept, query, keys in (
        (TIRED, "it", ("animal", "street")),
        (WIDE, "it", ("animal", "street")),
        (ALICE, "he", ("alice", "bob")),
    ):
        row = kept.weights[:, :, kept.tokens.index(query)]
        for key in keys:
            j = kept.tokens.index(key)
            found[kept.sentence[-7:-1], key] = (
                round(float(row[3, 1, j]), 2),
                best_head(row[..., j]),
                round(float(row[..., j].max()), 2),
            )
    assert list(found.values()) == [
        (0.69, (3, 1), 0.69),
        (0.05, (5, 5), 0.21),
        (0.32, (5, 11), 0.54),
        (0.15, (5, 1), 0.23),
        (0.74, (3, 1), 0.74),
        (0.10, (2, 4), 0.44),
    ]
    said = [on_it for on_it, _, _ in found.values()]
    assert numbers_of("obs-pronoun") == said
    for kept in (TIRED, WIDE):  # the caption: "animal" still wins
        at = kept.tokens.index("it")
        assert kept.tokens[kept.weights[3, 1, at].argmax()] == "animal"
    # the two sentences differ in one token
    assert [
        n
        for n, pair in enumerate(
            zip(TIRED.tokens, WIDE.tokens, strict=True)
        )
        if len(set(pair)) == 2
    ] == [12]


@pytest.mark.claim("obs-silenced-heads")
@pytest.mark.parametrize(
    ("head", "change", "place", "in_layer"),
    [
        ((0, 2), 0.082, 23, 2),
        ((4, 5), 0.028, 72, 12),
        ((3, 1), 0.080, 26, 6),
        ((5, 11), 0.239, 1, 1),
    ],
)
def test_silencing_a_head_changes_as_much_as_the_page_says(
    head, change, place, in_layer
):
    one = CHANGE[head]
    assert abs(one - change) < 0.0006
    assert (one < CHANGE).sum() + 1 == place
    assert (one < CHANGE[head[0]]).sum() + 1 == in_layer


def test_the_last_layer_has_the_largest_numbers():
    assert CHANGE.mean(-1).argmax() == 5
    assert CHANGE[5].mean() > 1.5 * CHANGE[:5].mean(-1).max()


@pytest.mark.claim("obs-silenced-heads")
def test_what_silencing_changes_is_that_of_the_model():
    """For the heads of the page and the sentences that test_maps.py leaves out."""
    model = load_minilm()
    for kept in KEPT[2:]:
        ids = model.ids(kept.sentence)
        whole = encode(model, ids)[0][-1]
        for layer, head in ((0, 2), (4, 5), (3, 1), (5, 11)):
            other = encode(without_head(model, layer, head), ids)[0][-1]
            change = np.linalg.norm(other - whole) / np.linalg.norm(whole)
            assert abs(change - kept.changes[layer, head]) < 1e-4


@pytest.mark.claim("obs-silenced-heads")
def test_the_statement_has_the_places_of_the_clear_heads():
    place = (CHANGE[0, 2] < CHANGE).sum() + 1
    assert f"comes {place}rd, though second in its" in statement(
        "obs-silenced-heads"
    )
    assert f"of all {CHANGE.size} heads" in statement("obs-silenced-heads")
    assert CHANGE.argmin() == np.ravel_multi_index((4, 5), CHANGE.shape)
    assert CHANGE.argmax() == np.ravel_multi_index((5, 11), CHANGE.shape)


@pytest.mark.claim("obs-silenced-heads")
def test_none_of_the_five_patterns_finds_l5h11_nor_any_head_of_its_layer():
    for name in patterns(DOG.tokens):
        assert best_head(masses(name)[0])[0] != 5


@pytest.mark.claim("obs-silenced-heads", "obs-clear-maps")
def test_a_clear_map_is_no_sign_of_a_large_change():
    assert abs(rank_correlation(CLEAR, CHANGE) + 0.31) < 0.006
    without_last = rank_correlation(CLEAR[:5], CHANGE[:5])
    assert abs(without_last + 0.16) < 0.006
    assert numbers_of("obs-clear-maps") == [
        round(float(rank_correlation(CLEAR, CHANGE)), 2),
        round(float(without_last), 2),
    ]
    first, second = np.argsort(-CLEAR.ravel())[:2]
    assert divmod(first, 12) == (0, 2)
    assert divmod(second, 12) == (4, 5)
    assert CLEAR[5].mean() < CLEAR[1:5].mean(-1).min()
    # 60 heads in a random order
    rng = np.random.default_rng(0)
    random = np.array(
        [
            rank_correlation(CLEAR[:5], rng.permutation(CHANGE[:5].ravel()))
            for _ in range(2000)
        ]
    )
    assert (abs(random) > abs(without_last)).mean() > 0.1


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
    assert round(float(mass.mean()), 3) == 0.032
    share = mass.mean() / np.mean([u for _, u in found])
    assert 0.4 < share < 0.6  # half
    assert round(float(mass.max()), 3) == 0.125
    assert divmod(int(mass.argmax()), 12) == (0, 0)
    assert round(float(np.mean([u for _, u in found])), 3) == 0.065


def test_exercise_drawn_patterns_have_a_best_head_and_the_mean_one_that_holds_the_sink():
    best, mean = [], []
    for seed in range(20):
        P = np.zeros((17, 17), dtype=bool)
        keys = np.random.default_rng(seed).integers(17, size=17)
        P[np.arange(17), keys] = True
        mass = pattern_mass(DOG.weights, P)
        best.append(mass.max() * 17)
        mean.append((mass.mean() * 17, (keys == 0).sum()))
    assert sum(x > 1.5 for x in best) == 19
    assert sum(x > 1.5 for x, _ in mean) == 1
    # The draw with the largest mean is one that names [CLS] most often.
    assert max(mean)[1] == max(count for _, count in mean)


def test_exercise_equal_values_hide_the_weights():
    model = load_minilm()
    layer, own = model.layers[0], slice(2 * 32, 3 * 32)
    p = layer.attention
    W_V, b_V = np.array(p.W_V), np.array(p.b_V)
    W_V[:, own] = 0
    with_bias = replace(p, W_V=W_V)
    b_V[own] = 0
    nothing = replace(with_bias, b_V=b_V)
    x = encode(model, model.ids(DOG.sentence))[0][0]
    W_O = np.array(p.W_O)
    W_O[own] = 0
    for changed, moves in ((p, True), (with_bias, True), (nothing, False)):
        Y, A = self_attention(changed, x, return_weights=True)
        now = self_attention(replace(changed, W_O=W_O), x)
        assert abs(A - DOG.weights[0]).max() < 1e-3  # as clear as it was
        assert (abs(Y - now).max() > 1e-3) == moves
        if changed is with_bias:  # the same row everywhere
            assert np.ptp(Y - now, axis=0).max() < 1e-5
        elif changed is nothing:
            assert np.allclose(Y, now, rtol=0, atol=1e-5)
