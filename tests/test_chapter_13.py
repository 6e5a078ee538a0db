"""What chapter 13, Cross-attention in a real translator, states of the stored translations.

Checked elsewhere:
- the texts are those of the package's own engine, and where they differ
  its short list is the reason: tests/models/test_translator.py
- the recurrent unit by its definition: tests/models/test_recurrent.py
- what is stored is what the weights give, the drop and the forcing are
  what the page says: tests/models/test_crossings.py
"""

import numpy as np
import pytest

from attention_in_detail import cross_attention
from attention_in_detail.exercises import check
from attention_in_detail.figures import attention_viewer
from attention_in_detail.head_scores import pattern_mass, uniform_mass
from attention_in_detail.models import SSRUParameters, ssru, translator
from attention_in_detail.models.crossings import (
    stored_crossings,
    translation,
)
from tests.page_numbers import not_printed, numbers_of
from tests.translator_support import needs_weights, small_translator

KEPT = stored_crossings()
FOUND = KEPT[0]
SOURCE, TARGET, A = FOUND.source, FOUND.target, FOUND.weights


def mean(of):
    return np.mean([of(kept) for kept in KEPT], axis=0)


PAIRS = mean(lambda kept: pattern_mass(kept.weights, kept.pairs))
EARLIER = mean(lambda kept: pattern_mass(kept.weights, kept.pairs_before))
DROPS = mean(lambda kept: kept.drops)


def test_sentences_and_sizes():
    assert len(KEPT) == 6
    sentence = "The agreement on the European Economic Area was signed in August 1992."
    assert translation(sentence) is FOUND
    assert FOUND.text == (
        "O acordo sobre o Espaço Económico Europeu foi assinado em Agosto de 1992."
    )
    assert A.shape == (2, 8, 15, 14)
    rendered = [
        [SOURCE[s] for s in np.flatnonzero(row)] for row in FOUND.pairs
    ]
    assert rendered[TARGET.index("▁Agosto")] == ["▁August"]
    assert rendered[TARGET.index("▁de")] == []
    parou = KEPT[1].target.index("▁par")
    assert KEPT[1].target[parou + 1] == "ou"
    for t in (parou, parou + 1):
        assert KEPT[1].pairs[t].nonzero()[0] == [
            KEPT[1].source.index("▁stopped")
        ]


def test_each_decimal_of_the_text_is_one_that_a_cell_prints():
    in_solutions = [".85", ".03", ".02", ".84", ".924", "2.5"]  # below
    computed = [f"{np.log(2):.2f}", *in_solutions]
    assert not not_printed("13_real_translator", computed)


def test_viewer_holds_all_heads():
    viewer = attention_viewer(A, TARGET, SOURCE, layer=1, head=0, first=0)
    assert viewer.attributes["shape"] == "2 8 15 14"
    assert "one of 16 heads" in viewer.picture.text_alternative


@pytest.mark.parametrize(
    ("written", "read", "weight"),
    [
        ("▁Espaço", "▁Area", 0.96),
        ("▁Económico", "▁Economic", 0.92),
        ("▁Europeu", "▁European", 0.72),
        ("▁Agosto", "▁August", 0.98),
    ],
)
def test_the_crossing(written, read, weight):
    row = A[1, 0, TARGET.index(written)]
    assert SOURCE[row.argmax()] == read
    assert abs(row.max() - weight) < 0.006


@pytest.mark.claim("def-ssru")
def test_recurrent_unit_by_hand():
    unit = SSRUParameters(np.ones((1, 1)), np.zeros((1, 1)), np.zeros(1))
    y, state = ssru(unit, np.array([[4.0], [2.0], [-8.0]]))
    assert y.tolist() == [[2], [2], [0]]
    assert state.tolist() == [-3]


@pytest.mark.claim("obs-translator-heads")
@pytest.mark.parametrize(
    ("head", "pair", "before"),
    [
        ((1, 0), 0.92, 0.11),
        ((1, 6), 0.67, 0.13),
        ((1, 2), 0.49, 0.08),
        ((0, 5), 0.10, 0.86),
        ((0, 0), 0.31, 0.26),
        ((0, 4), 0.10, 0.45),
        ((0, 7), 0.31, 0.33),
    ],
)
def test_each_head_has_the_masses_of_the_table(head, pair, before):
    assert abs(PAIRS[head] - pair) < 0.006
    assert abs(EARLIER[head] - before) < 0.006


@pytest.mark.claim("obs-translator-heads")
def test_the_table_says_what_the_page_reads_in_it():
    chance = mean(lambda kept: uniform_mass(kept.pairs))
    assert abs(chance - 0.09) < 0.006
    first, second = np.sort(PAIRS.ravel())[::-1][:2]
    assert PAIRS.argmax() == 8  # L1H0
    assert first - second > 0.2
    assert PAIRS[1].min() > 5 * chance
    assert PAIRS[0].max() < 0.315
    assert EARLIER.argmax() == 5  # L0H5
    assert EARLIER[1].max() < 0.15
    said = [first, second, EARLIER.max(), 0.15]
    assert numbers_of("obs-translator-heads") == np.round(said, 2).tolist()


def test_head_that_looks_one_piece_back():
    at = A[0, 5].argmax(-1)
    assert np.array_equal(at[1:], A[1, 0].argmax(-1)[:-1])
    assert SOURCE[at[0]] == "</s>"
    assert SOURCE[at[TARGET.index("▁Económico")]] == "▁Area"


def test_captions_of_the_layers():
    at = A[1].argmax(-1)[:, 4:7]
    assert (at == at[0]).all(-1).sum() == 6
    assert TARGET[4:7] == ["▁Espaço", "▁Económico", "▁Europeu"]
    assert A[1, 0, -1].max() < 0.15
    assert A[1, 1:, -1].max(-1).min() > 0.25
    # layer 0: the share of the rows but the first that have their dot on the path
    path = (A[0, :, 1:].argmax(-1) == A[1, 0].argmax(-1)[:-1]).mean(-1)
    assert path[5] == 1
    assert path[4] > 0.75
    assert np.delete(path, [4, 5]).max() < 0.3


def test_at_the_end_the_guided_head_alone_looks_nowhere():
    largest = np.array([kept.weights[1, :, -1].max(-1) for kept in KEPT])
    assert abs(largest[:, 0].min() - 0.10) < 0.006
    assert abs(largest[:, 0].max() - 0.15) < 0.006
    assert largest[:, 1:].min() > 0.25


@needs_weights
def test_settings_in_the_file_name_the_last_layer():
    content = translator.WEIGHTS.read()
    assert b"transformer-guided-alignment-layer: last" in content
    assert b"dec-cell: ssru" in content
    assert b"transformer-decoder-autoreg: rnn" in content


@pytest.mark.claim("obs-translator-silenced")
@pytest.mark.parametrize(
    ("head", "drop", "changed"),
    [
        ((1, 0), 0.00, 0),
        ((0, 5), 0.83, 6),
        ((1, 3), 0.32, 4),
        ((1, 2), 0.17, 5),
    ],
)
def test_silencing_a_head_changes_as_much_as_the_page_says(
    head, drop, changed
):
    layer, number = head
    texts = [kept.texts[layer][number] for kept in KEPT]
    assert abs(DROPS[head] - drop) < 0.006
    assert (
        sum(t != k.text for t, k in zip(texts, KEPT, strict=True))
        == changed
    )


@pytest.mark.claim("obs-translator-silenced")
def test_silencing_the_two_clear_heads():
    assert DROPS.argmax() == 5  # L0H5
    assert numbers_of("obs-translator-silenced") == [DROPS.max().round(2)]
    assert DROPS.round(2).min() == 0  # no bar of the figure points down
    # both maps are clear: no other head has a larger mean of its largest weights
    clear = mean(lambda kept: kept.weights.max(-1).mean(-1))
    assert set(np.argsort(-clear.ravel())[:2]) == {5, 8}
    without = FOUND.texts[0][5]
    assert without == (
        "O acordo de Agosto de 1992 sobre o Espaço Económico e o Acordo sobre o Espaço é assinado."
    )
    assert without.count("Espaço") == 2
    assert KEPT[2].texts[0][5] == "Ela vendeu a antiga casa de casa."


def test_turned_heads_at_one_place():
    t = TARGET.index("▁Espaço")
    assert set(FOUND.forced_head[t]) == {"▁Espaço"}
    turned = dict(zip(SOURCE, FOUND.forced_layer[t], strict=True))
    for source, written in (
        ("▁European", "▁Europeu"),
        ("▁agreement", "▁acordo"),
        ("▁signed", "▁assinado"),
        ("▁Area", "▁Espaço"),
        ("▁August", "▁mês"),
    ):
        assert turned[source] == written


@pytest.mark.claim("obs-translator-turned")
@pytest.mark.parametrize(
    ("name", "stays", "becomes"),
    [("forced_head", 0.99, 0.00), ("forced_layer", 0.19, 0.44)],
)
def test_turned_heads_at_every_place(name, stays, becomes):
    stayed, became = [], []
    for kept in KEPT:
        pieces = getattr(kept, name)
        for t, written in enumerate(kept.target):
            for s in range(len(kept.source)):
                P = kept.pairs
                if P[t, s] or not P[t].any() or not P[:, s].any():
                    continue
                own = {kept.target[n] for n in np.flatnonzero(P[:, s])}
                stayed.append(pieces[t][s] == written)
                became.append(pieces[t][s] in own - {written})
                if written in own:
                    became[-1] = False
    assert len(stayed) == 685
    assert abs(np.mean(stayed) - stays) < 0.006
    assert abs(np.mean(became) - becomes) < 0.006
    said = [np.mean(stayed), np.mean(became)]
    said = np.round(said, 2).tolist()
    head, *layer = numbers_of("obs-translator-turned")
    assert ([head, 0] if name == "forced_head" else layer) == said


def test_labels_moved_by_one_exchange_the_two_heads():
    moved = mean(
        lambda kept: pattern_mass(kept.weights[..., 1:, :], kept.pairs[:-1])
    )
    assert abs(moved[0, 5] - 0.86) < 0.006
    assert abs(moved[1, 0] - 0.11) < 0.006


def test_source_and_target_exchanged_show_in_the_shape_alone():
    layer = small_translator().decoder_layers[0]
    rng = np.random.default_rng(0)
    x, C = rng.normal(size=(3, 8)), rng.normal(size=(5, 8))
    p = layer.cross_attention
    _, right = cross_attention(p, x, C, return_weights=True)
    _, wrong = cross_attention(p, C, x, return_weights=True)
    assert right.shape[-2:] == (3, 5)
    assert wrong.shape[-2:] == (5, 3)
    _, hidden = cross_attention(p, C[:3], x, return_weights=True)
    assert (
        hidden.shape
        == cross_attention(p, x, C[:3], return_weights=True)[1].shape
    )


def test_exercise_mass_by_hand():
    weights = np.array([[0.25, 0.75], [0.5, 0.5]])
    P = np.array([[0, 1], [1, 0]], dtype=bool)
    before = np.array([[0, 0], [0, 1]], dtype=bool)
    assert pattern_mass(weights, P) == 5 / 8
    assert pattern_mass(weights, before) == 1 / 2
    assert uniform_mass(P) == uniform_mass(before) == 1 / 2


def test_exercise_drop_by_hand():
    factors = np.array([1 / 2, 1 / 4, 1 / 2]) / [1 / 4, 1 / 4, 1 / 16]
    assert factors.tolist() == [2, 1, 8]
    drop = np.log(factors).mean()
    assert drop == pytest.approx(4 / 3 * np.log(2))
    assert (round(drop, 3), round(np.exp(drop), 1)) == (0.924, 2.5)


def test_exercise_a_negative_state_is_not_forgotten():
    unit = SSRUParameters(
        np.ones((1, 1)), np.zeros((1, 1)), np.array([np.log(3)])
    )
    y, _ = ssru(unit, np.array([[32.0], [0], [-32], [64]]))
    assert np.allclose(y[:, 0], [8, 6, 0, 107 / 8], rtol=0, atol=1e-12)


def test_exercise_at_the_end_l1h0_has_the_smallest_largest_weight():
    for kept in KEPT:
        largest = kept.weights[1, :, -1].max(-1)
        assert largest.argmin() == 0


@pytest.mark.parametrize(
    ("of_a_row", "words"),
    [
        (lambda A, P: (A * P).max(1)[P.any(1)].mean(), "one of them"),
        (
            lambda A, P: A[P.any(1), P[P.any(1)].argmax(1)].mean(),
            "one of them",
        ),
        (lambda A, P: (A * P).sum() / P.sum(), "not by the pairs"),
    ],
    ids=["largest", "first", "by pairs"],
)
def test_exercise_a_piece_that_renders_two_pieces(of_a_row, words):
    def answer(A, P):
        return of_a_row(A[1:], P[:-1])

    verdict = check("ex-translator-before", answer)
    assert verdict.right is False
    assert words in verdict.message
    two = [k.pairs_before.sum(1).max() for k in KEPT]
    assert max(two) > 1  # as on the page


def test_exercise_twice_the_same_words():
    dog = KEPT[4]
    rows = [t for t, piece in enumerate(dog.target) if piece == "▁cão"]
    keys = [s for s, piece in enumerate(dog.source) if piece == "▁dog"]
    at = np.ix_(rows, keys)
    for weights, expected in (
        (dog.weights[1, 0], [[0.98, 0], [0, 0.98]]),
        (dog.weights[1, 1:].mean(0), [[0.85, 0.03], [0.02, 0.84]]),
    ):
        assert abs(weights[at] - expected).max() < 0.006


def test_exercise_a_turned_layer_gives_one_row():
    p = small_translator().decoder_layers[0].cross_attention
    rng = np.random.default_rng(1)
    x, C = rng.normal(size=(4, 8)), rng.normal(size=(5, 8))
    Y = cross_attention(p, x, C, mask=np.arange(5) == 2)
    expected = (C[2] @ p.W_V + p.b_V) @ p.W_O + p.b_O
    assert np.allclose(Y, expected, rtol=0, atol=1e-12)
