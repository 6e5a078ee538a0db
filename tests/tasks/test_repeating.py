import numpy as np
import pytest
import torch

from attention_in_detail.tasks.repeating import (
    LETTERS,
    PERIODS,
    VOCABULARY,
    draw_repeating,
    repeated,
    right_share,
    spelled,
    tokens_of,
)
from tests.support import MAKERS, each_library

TEXT = "5 a b d d c a b d d c a b"


def test_a_text_and_its_tokens():
    assert tokens_of(TEXT).tolist() == [
        6,
        0,
        1,
        3,
        3,
        2,
        0,
        1,
        3,
        3,
        2,
        0,
        1,
    ]
    assert spelled(tokens_of(TEXT)) == TEXT
    assert tuple("abcd345678") == VOCABULARY


def test_every_sequence_repeats_itself_after_as_many_letters_as_it_says():
    drawn = draw_repeating(300, length=40, seed=1)
    assert drawn.shape == (300, 40)
    seen = set()
    for row in drawn:
        n = int(VOCABULARY[row[0]])
        seen.add(n)
        assert set(row[1:]) <= set(range(len(LETTERS)))
        for i in range(n + 1, 40):
            assert row[i] == row[i - n]
    assert seen == set(PERIODS)
    # A letter alone does not tell the next: in most blocks one stands twice.
    twice = [len(set(row[1:9])) < 8 for row in drawn if row[0] == 9]
    assert all(twice)


def test_a_seed_says_all():
    one, two, other = (draw_repeating(9, seed=s) for s in (1, 1, 2))
    assert one.shape == (9, 32)
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


@each_library
def test_from_where_on_the_next_token_can_be_known(make):
    known = repeated(make(np.stack([tokens_of(TEXT), tokens_of(TEXT)])))
    assert np.asarray(known).tolist() == [[False] * 5 + [True] * 8] * 2


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_only_what_can_be_known_counts(library):
    make, t = MAKERS[library], tokens_of(TEXT)
    right = np.eye(10)[np.roll(t, -1)]
    wrong = np.roll(right, 1, axis=-1)
    known = np.arange(len(t))[:, None] >= 5
    assert right_share(make(np.where(known, right, wrong)), make(t)) == 1
    assert right_share(make(np.where(known, wrong, right)), make(t)) == 0
    # Seven are asked for: the last position has no next one.
    some = np.where(np.arange(len(t))[:, None] >= 7, right, wrong)
    assert right_share(make(some), make(t)) == 5 / 7


def test_tokens_of_torch_stay_there():
    tokens = torch.from_numpy(draw_repeating(3, seed=0))
    assert repeated(tokens).dtype == torch.bool
