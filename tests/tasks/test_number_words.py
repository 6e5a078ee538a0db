"""Number words, read back by readers of the tests' own, and against lists written by hand."""

import subprocess
import sys
from itertools import islice

import numpy as np
import pytest

from attention_in_detail.tasks import number_words as nw
from attention_in_detail.tasks.number_words import (
    END,
    ENGLISH,
    GERMAN,
    START,
    batches,
    english_words,
    german_words,
    gold_alignment,
    make_batch,
    split_numbers,
    words,
)

# From the rules of the two languages, written by hand.
KNOWN = {
    0: ("zero", "null"),
    1: ("one", "eins"),
    7: ("seven", "sieben"),
    10: ("ten", "zehn"),
    11: ("eleven", "elf"),
    12: ("twelve", "zwölf"),
    13: ("thirteen", "dreizehn"),
    16: ("sixteen", "sechzehn"),
    17: ("seventeen", "siebzehn"),
    18: ("eighteen", "achtzehn"),
    20: ("twenty", "zwanzig"),
    21: ("twenty one", "einundzwanzig"),
    30: ("thirty", "dreißig"),
    66: ("sixty six", "sechsundsechzig"),
    77: ("seventy seven", "siebenundsiebzig"),
    100: ("one hundred", "einhundert"),
    101: ("one hundred one", "einhunderteins"),
    111: ("one hundred eleven", "einhundertelf"),
    116: ("one hundred sixteen", "einhundertsechzehn"),
    677: ("six hundred seventy seven", "sechshundertsiebenundsiebzig"),
    999: ("nine hundred ninety nine", "neunhundertneunundneunzig"),
    1_000: ("one thousand", "eintausend"),
    1_001: ("one thousand one", "eintausendeins"),
    1_984: (
        "one thousand nine hundred eighty four",
        "eintausendneunhundertvierundachtzig",
    ),
    10_000: ("ten thousand", "zehntausend"),
    12_013: ("twelve thousand thirteen", "zwölftausenddreizehn"),
    21_021: (
        "twenty one thousand twenty one",
        "einundzwanzigtausendeinundzwanzig",
    ),
    101_101: (
        "one hundred one thousand one hundred one",
        "einhunderteintausendeinhunderteins",
    ),
    300_040: ("three hundred thousand forty", "dreihunderttausendvierzig"),
    717_016: (
        "seven hundred seventeen thousand sixteen",
        "siebenhundertsiebzehntausendsechzehn",
    ),
    999_999: (
        "nine hundred ninety nine thousand nine hundred ninety nine",
        "neunhundertneunundneunzigtausendneunhundertneunundneunzig",
    ),
}
# Every number below 2,100, and a thousand from each of other places.
RANGES = [
    range(2_100),
    range(9_500, 10_500),
    range(99_500, 100_500),
    range(999_000, 1_000_000),
    range(7, 1_000_000, 997),
]
SAMPLE = sorted({n for numbers in RANGES for n in numbers})

IN_ENGLISH = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
)
IN_GERMAN = (
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf eins sech sieb zwanzig dreißig vierzig fünfzig "
    "sechzig siebzig achtzig neunzig"
)
NUMBERS = [*range(20), *range(20, 100, 10)]
ZAHLEN = [*range(13), 1, 6, 7, *range(20, 100, 10)]
ENGLISH_VALUES = dict(zip(IN_ENGLISH.split(), NUMBERS, strict=True))
GERMAN_VALUES = dict(zip(IN_GERMAN.split(), ZAHLEN, strict=True))


def value(tokens, values, hundred, thousand):
    """Read a number: below each "thousand" and "hundred" stands how many, and all else adds up."""
    total = group = 0
    for token in tokens:
        if token == thousand:
            total, group = 1000 * group, 0
        elif token == hundred:
            group *= 100
        elif token != "und":
            group += values[token]
    return total + group


@pytest.mark.parametrize("number", KNOWN)
def test_known_pairs(number):
    english, german = KNOWN[number]
    assert " ".join(english_words(number)) == english
    assert "".join(german_words(number)) == german


def test_tokens_of_the_example():
    assert german_words(677) == [
        "sechs",
        "hundert",
        "sieben",
        "und",
        "siebzig",
    ]


def test_words_are_read_back_as_their_number():
    for n in SAMPLE:
        assert (
            value(english_words(n), ENGLISH_VALUES, "hundred", "thousand")
            == n
        )
        assert (
            value(german_words(n), GERMAN_VALUES, "hundert", "tausend") == n
        )


def test_each_number_has_its_own_words():
    for say in (english_words, german_words):
        assert len({" ".join(say(n)) for n in SAMPLE}) == len(SAMPLE)
        assert len({"".join(say(n)) for n in SAMPLE}) == len(SAMPLE)


def test_vocabularies():
    assert (len(ENGLISH), len(GERMAN)) == (32, 29)
    assert len(set(ENGLISH)) == 32
    assert len(set(GERMAN)) == 29
    said = {word for n in SAMPLE for word in english_words(n)}
    assert said == set(ENGLISH) - {"<pad>", "<end>"}
    said = {word for n in SAMPLE for word in german_words(n)}
    assert said == set(GERMAN) - {"<start>", "<end>"}
    longest = max(len(german_words(n)) for n in SAMPLE)
    assert longest + 1 == nw.LONGEST


# ---- the alignment ----

N = None
ALIGNED = {  # by hand
    0: [0],
    1: [0],
    13: [0, 0],  # drei zehn: thirteen
    20: [0],
    21: [1, N, 0],  # ein und zwanzig: twenty one
    100: [0, 1],
    101: [0, 1, 2],
    677: [0, 1, 3, N, 2],  # sieben before siebzig, seventy before seven
    1_000: [0, 1],
    1_016: [0, 1, 2, 2],
    45_000: [1, N, 0, 2],
    45_067: [1, N, 0, 2, 4, N, 3],
    212_012: [0, 1, 2, 3, 4],
    999_999: [0, 1, 3, N, 2, 4, 5, 6, 8, N, 7],
}


@pytest.mark.parametrize("number", ALIGNED)
def test_alignment_by_hand(number):
    assert gold_alignment(number) == ALIGNED[number]


# What each German token may translate.
MEANING = {
    "hundert": {"hundred"},
    "tausend": {"thousand"},
    "zehn": {
        "ten",
        *(word for word in ENGLISH_VALUES if word.endswith("teen")),
    },
}


def test_alignment_joins_words_of_one_meaning():
    for n in SAMPLE:
        english = english_words(n)
        for token, place in zip(
            german_words(n), gold_alignment(n), strict=True
        ):
            if token == "und":
                assert place is None
                continue
            theirs = english[place]
            if token in MEANING:
                assert theirs in MEANING[token]
            else:
                number = ENGLISH_VALUES[theirs]
                ours = GERMAN_VALUES[token]
                assert number == ours or number == 10 + ours  # …teen


def test_alignment_covers_every_english_word_and_crosses():
    for n in SAMPLE:
        places = [p for p in gold_alignment(n) if p is not None]
        assert set(places) == set(range(len(english_words(n))))
        crosses = places != sorted(places)
        assert crosses == ("und" in german_words(n))


# ---- batches ----


def test_batch_by_hand():
    batch = make_batch([21, 3, 100])
    english = [[ENGLISH[i] for i in row] for row in batch.source]
    assert english == [
        ["twenty", "one", "<end>"],
        ["three", "<end>", "<pad>"],
        ["one", "hundred", "<end>"],
    ]
    given = [[GERMAN[i] for i in row] for row in batch.given]
    assert given == [
        ["<start>", "ein", "und", "zwanzig"],
        ["<start>", "drei", "<end>", "<end>"],
        ["<start>", "ein", "hundert", "<end>"],
    ]
    wanted = [[GERMAN[i] for i in row] for row in batch.wanted]
    assert wanted == [
        ["ein", "und", "zwanzig", "<end>"],
        ["drei", "<end>", "<end>", "<end>"],
        ["ein", "hundert", "<end>", "<end>"],
    ]
    assert batch.numbers.tolist() == [21, 3, 100]
    assert batch.source_lengths.tolist() == [3, 2, 3]
    assert batch.target_lengths.tolist() == [4, 2, 3]


def test_words_are_read_off_ids_up_to_the_end():
    batch = make_batch(SAMPLE[::50])
    for n, source, wanted in zip(
        batch.numbers, batch.source, batch.wanted, strict=True
    ):
        assert words(source, ENGLISH) == english_words(n)
        assert words(wanted, GERMAN) == german_words(n)
    assert words([5, 6], GERMAN) == ["drei", "vier"]
    assert words([START, END, 5], GERMAN) == ["<start>"]


def test_split_is_a_split_and_follows_its_seed():
    training, held_out = split_numbers(held_out=500, seed=3)
    assert len(held_out) == 500
    both = np.concatenate([training, held_out])
    assert np.array_equal(np.sort(both), np.arange(1_000_000))
    assert np.array_equal(held_out, split_numbers(held_out=500, seed=3)[1])
    assert set(held_out) != set(split_numbers(held_out=500, seed=4)[1])
    assert len(split_numbers()[1]) == 1000


def test_no_held_out_number_is_trained_on():
    training, held_out = split_numbers()
    drawn = np.concatenate(
        [b.numbers for b in islice(batches(training, 128, seed=0), 200)]
    )
    assert not np.isin(drawn, held_out).any()
    assert np.isin(drawn, training).all()
    # An eighth of each batch are short numbers.
    assert 0.12 < (drawn < 1000).mean() < 0.13
    # If all numbers could be drawn, some held-out ones would be.
    drawn = np.concatenate(
        [
            b.numbers
            for b in islice(batches(np.arange(1_000_000), 128, seed=0), 200)
        ]
    )
    assert np.isin(drawn, held_out).sum() > 10


def test_batches_follow_their_seed():
    def first(seed, numbers=range(5, 2000)):
        two = list(islice(batches(numbers, 16, seed=seed), 2))
        return np.stack([batch.numbers for batch in two])

    assert np.array_equal(first(1), first(1))
    assert not np.array_equal(first(1), first(2))
    assert not np.array_equal(first(1)[0], first(1)[1])
    assert (first(1, range(5000, 6000)) >= 5000).all()


def test_the_words_need_numpy_only():
    code = (
        "import sys, attention_in_detail.tasks.scores, attention_in_detail.trained\n"
        "print('torch' in sys.modules, 'num2words' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    )
    assert done.stdout.split() == ["False", "False"], done.stderr
