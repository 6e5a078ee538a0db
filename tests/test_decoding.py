import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_in_detail import (
    KeyValueCache,
    beam_decode,
    decode,
    decode_step,
    decoder_cache,
    encode,
    greedy_decode,
    padding_mask,
    transformer,
)
from tests.layer_support import (
    V_s,
    V_t,
    attention_parameters,
    tokens,
    transformer_parameters,
)
from tests.support import B, S, assert_close, each_library, normal, numpy_of

SOURCE = tokens(B, S, V=V_s, seed=1)
LENGTHS = np.array([7, 1, 4, 6, 2])
MASK = padding_mask(LENGTHS, S)
START, END = 0, 1
GIVEN = {"start": START, "end": END, "limit": 6}
pre_and_post = pytest.mark.parametrize(
    "norm_first", [False, True], ids=["post", "pre"]
)

# Whole decodings are slow.
a_quarter = settings(max_examples=settings.default.max_examples // 4)
a_tenth = settings(max_examples=settings.default.max_examples // 10)


def log_softmax(z):
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


# ---- the cache ----


@each_library
def test_appending_gives_a_new_cache(make):
    k, v = normal(B, 2, 3, 4), normal(B, 2, 3, 5)
    cache = KeyValueCache(make(k), make(v))
    more = cache.append(make(k[:, :, :1]), make(v[:, :, :1]))
    assert (cache.length, more.length) == (3, 4)
    assert_close(more.keys, np.concatenate([k, k[:, :, :1]], -2), 0)
    assert_close(more.values, np.concatenate([v, v[:, :, :1]], -2), 0)
    assert_close(cache.keys, k, 0)
    chosen = cache.take(make(np.array([4, 0, 4])))
    assert_close(chosen.keys, k[[4, 0, 4]], 0)
    assert_close(chosen.values, v[[4, 0, 4]], 0)
    with pytest.raises(AttributeError):
        cache.keys = make(k)


@pytest.mark.claim("prop-cache")
@a_quarter
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=4),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(), (1,), (3,), (2, 2)]),
    st.integers(0, 10**6),
)
def test_cached_is_uncached_however_the_target_is_cut(
    cuts, norm_first, masked, batch, seed
):
    p = transformer_parameters(norm_first=norm_first, seed=seed % 5)
    n = sum(cuts)
    source = tokens(*batch, S, V=V_s, seed=seed)
    target = tokens(*batch, n, V=V_t, seed=seed)
    mask = None
    if masked:
        lengths = np.random.default_rng(seed).integers(1, S + 1, batch)
        mask = padding_mask(lengths, S)
    memory = encode(p, source, source_mask=mask)
    expected = decode(p, target, memory, source_mask=mask)
    cache, at = decoder_cache(p, memory, source_mask=mask), 0
    for size in cuts:
        assert cache.length == at
        logits, cache = decode_step(p, target[..., at : at + size], cache)
        assert_close(logits, expected[..., at : at + size, :])
        at += size


@pytest.mark.claim("prop-cache")
@pre_and_post
@each_library
def test_cached_is_uncached_token_by_token(make, norm_first):
    p = transformer_parameters(make, norm_first=norm_first)
    target = tokens(B, 5, V=V_t)
    mask = make(MASK)
    memory = encode(p, make(SOURCE), source_mask=mask)
    expected = decode(p, make(target), memory, source_mask=mask)
    cache = decoder_cache(p, memory, source_mask=mask)
    for t in range(5):
        logits, cache = decode_step(p, make(target[:, t : t + 1]), cache)
        assert_close(logits[:, 0, :], expected[:, t, :])


def test_nan_in_padded_memory_reaches_no_logit():
    p = transformer_parameters()
    memory = encode(p, SOURCE, source_mask=MASK)
    spoilt = np.where(MASK.swapaxes(-1, -2), memory, np.nan)
    step = tokens(B, 1, V=V_t)
    one, _ = decode_step(
        p, step, decoder_cache(p, memory, source_mask=MASK)
    )
    two, _ = decode_step(
        p, step, decoder_cache(p, spoilt, source_mask=MASK)
    )
    assert_close(one, two)
    assert_close(decode(p, step, spoilt, source_mask=MASK), one)


def test_a_step_leaves_its_cache_as_it_was():
    p = transformer_parameters()
    start = decoder_cache(p, encode(p, SOURCE))
    step = tokens(B, 1, V=V_t)
    one, first = decode_step(p, step, start)
    two, _ = decode_step(p, step, start)
    assert np.array_equal(one, two)
    assert (start.length, first.length) == (0, 1)


@pytest.mark.claim("prop-cache")
def test_a_cache_of_chosen_rows_is_the_cache_of_their_sources():
    p, rows = transformer_parameters(), np.array([3, 3, 0])
    memory = encode(p, SOURCE, source_mask=MASK)
    first, second = tokens(B, 2, V=V_t), tokens(3, 1, V=V_t)
    _, cache = decode_step(
        p, first, decoder_cache(p, memory, source_mask=MASK)
    )
    logits, _ = decode_step(p, second, cache.take(rows))
    whole = np.concatenate([first[rows], second], -1)
    expected = transformer(p, SOURCE[rows], whole, source_mask=MASK[rows])
    assert_close(logits, expected[:, -1:])


# ---- greedy ----


def by_hand(p, source, limit):
    """Greedy decoding of one source, spelled out."""
    found, total = [START], 0.0
    while len(found) <= limit:
        logs = log_softmax(transformer(p, source, np.array(found))[-1])
        found.append(int(logs.argmax()))
        total += logs.max()
        if found[-1] == END:
            break
    return found[1:], total


@pytest.mark.claim("def-transformer")
@pytest.mark.parametrize("cached", [True, False])
@pre_and_post
@each_library
def test_greedy_takes_the_most_probable_token_each_time(
    make, norm_first, cached
):
    # A vocabulary of 3: the end token comes early for some, never for others.
    options = {"norm_first": norm_first, "V_t": 3}
    p = transformer_parameters(**options)
    found, total = greedy_decode(
        transformer_parameters(make, **options),
        make(SOURCE),
        **GIVEN,
        source_mask=make(MASK),
        cached=cached,
    )
    lengths = set()
    for b in range(B):
        row, logs = by_hand(p, SOURCE[b, : LENGTHS[b]], 6)
        lengths.add(len(row))
        padded = row + [END] * (found.shape[1] - len(row))
        assert numpy_of(found)[b].tolist() == padded
        assert_close(total[b], np.asarray(logs), 1e-11)
    assert found.shape[1] == max(lengths)


def test_greedy_without_a_batch_axis_and_with_an_empty_one():
    p = transformer_parameters()
    one, total = greedy_decode(p, SOURCE[2], **GIVEN)
    many, totals = greedy_decode(p, SOURCE, **GIVEN)
    assert one.tolist() == many[2].tolist()[: len(one)]
    assert_close(total, totals[2])
    none, _ = greedy_decode(p, SOURCE[:0], **GIVEN)
    assert none.shape[0] == 0


def test_the_limit_is_a_limit():
    p = transformer_parameters()
    for limit in (1, 4):
        found, _ = greedy_decode(p, SOURCE, start=0, end=1, limit=limit)
        assert found.shape == (B, limit)


# ---- beams ----


seeds = st.integers(0, 4)


@pytest.mark.claim("def-beam")
@a_tenth
@given(seeds, st.integers(0, B - 1), st.booleans(), st.booleans())
def test_a_beam_of_width_1_is_greedy(seed, b, norm_first, cached):
    p = transformer_parameters(seed=seed, norm_first=norm_first, V_t=4)
    mask = MASK[b, 0]
    [best] = beam_decode(
        p, SOURCE[b], width=1, **GIVEN, source_mask=mask, cached=cached
    )
    found, total = greedy_decode(p, SOURCE[b], **GIVEN, source_mask=mask)
    assert list(best.tokens) == found.tolist()
    assert_close(np.asarray(best.log_probability), total, 1e-11)


@pytest.mark.claim("prop-cache")
@a_tenth
@given(seeds, st.integers(1, 6), st.integers(0, B - 1), st.booleans())
def test_beams_cached_are_beams_uncached(seed, width, b, norm_first):
    p = transformer_parameters(seed=seed, norm_first=norm_first)
    one, two = (
        beam_decode(p, SOURCE[b], width=width, **GIVEN, cached=cached)
        for cached in (True, False)
    )
    assert [x.tokens for x in one] == [x.tokens for x in two]
    assert_close(
        np.array([x.log_probability for x in one]),
        np.array([x.log_probability for x in two]),
        1e-11,
    )


def every_sequence(p, source, V, limit):
    """The log-probability of each sequence that ends, or is cut at the limit."""
    found = {}
    for n in range(1, limit + 1):
        for row in itertools.product(range(V), repeat=n):
            if END in row[:-1] or (n < limit and row[-1] != END):
                continue
            logs = log_softmax(
                transformer(p, source, np.array([START, *row[:-1]]))
            )
            found[row] = sum(logs[i, t] for i, t in enumerate(row))
    return found


@pytest.mark.claim("def-beam")
@pytest.mark.parametrize("seed", range(3))
@pre_and_post
def test_a_beam_that_forgets_nothing_finds_what_trying_all_finds(
    seed, norm_first
):
    V, limit = 3, 3
    p = transformer_parameters(seed=seed, norm_first=norm_first, V_t=V)
    all_ = every_sequence(p, SOURCE[0], V, limit)
    assert math.isclose(sum(math.exp(x) for x in all_.values()), 1)
    ranked = sorted(all_, key=all_.get, reverse=True)
    found = beam_decode(
        p, SOURCE[0], width=V**limit, start=START, end=END, limit=limit
    )
    assert [x.tokens for x in found] == ranked
    for one in found:
        assert math.isclose(one.log_probability, all_[one.tokens])


def beam_by_hand(p, source, *, width, limit):
    """The beam as it is defined, each beginning read by the whole model; and the finished ones that fell out again."""
    kept, finished = {(): 0.0}, set()
    for _ in range(limit):
        found = {row: total for row, total in kept.items() if END in row}
        for row in set(kept) - set(found):
            logits = transformer(p, source, np.array([START, *row]))
            for token, log in enumerate(log_softmax(logits[-1])):
                found[*row, token] = kept[row] + log
        best = sorted(found, key=found.get, reverse=True)[:width]
        kept = {row: found[row] for row in best}
        finished |= {row for row in kept if END in row}
    return kept, finished - set(kept)


@pytest.mark.claim("def-beam")
@pytest.mark.parametrize(("width", "seed"), [(3, 4), (4, 6)])
def test_a_beam_keeps_the_most_probable_beginnings_at_each_length(
    width, seed
):
    p = transformer_parameters(seed=seed, V_t=4)
    p = replace(p, W_output=p.W_output / 8)  # less sure of itself
    given = {"width": width, "limit": 4}
    kept, fallen = beam_by_hand(p, SOURCE[0], **given)
    assert len(fallen) == 1  # finished ones and others are compared
    found = beam_decode(p, SOURCE[0], start=START, end=END, **given)
    assert [one.tokens for one in found] == list(kept)
    for one in found:
        assert math.isclose(one.log_probability, kept[one.tokens])


def test_a_wider_beam_finds_what_greedy_misses():
    better = 0
    for seed in (3, 4):  # drawn models that mislead the greedy one
        p = transformer_parameters(seed=seed, V_t=4)
        p = replace(p, W_output=p.W_output / 4)  # less sure of itself
        for b in range(B):
            one, two = (
                beam_decode(p, SOURCE[b], width=width, **GIVEN)
                for width in (1, 4)
            )
            assert len(two) == 4
            scores = [x.log_probability for x in two]
            assert scores == sorted(scores, reverse=True)
            better += scores[0] > one[0].log_probability + 0.5
    assert better >= B


@pytest.mark.claim("def-beam")
def test_a_beam_scores_what_the_model_says():
    p = transformer_parameters()
    for found in beam_decode(p, SOURCE[3], width=5, **GIVEN):
        row = np.array([START, *found.tokens[:-1]])
        logs = log_softmax(transformer(p, SOURCE[3], row))
        total = sum(logs[i, t] for i, t in enumerate(found.tokens))
        assert math.isclose(found.log_probability, total)


@each_library
def test_beams_are_the_same_in_every_library(make):
    options = {"norm_first": True, "V_t": 5}
    expected = beam_decode(
        transformer_parameters(**options),
        SOURCE[2],
        width=3,
        **GIVEN,
        source_mask=MASK[2],
    )
    found = beam_decode(
        transformer_parameters(make, **options),
        make(SOURCE[2]),
        width=3,
        **GIVEN,
        source_mask=make(MASK[2]),
    )
    assert [x.tokens for x in found] == [x.tokens for x in expected]


def test_torch_and_numpy_take_the_same_tokens_in_float32():
    options = {"dtype": np.float32, "norm_first": True}
    one, _ = greedy_decode(
        transformer_parameters(**options), SOURCE, **GIVEN
    )
    two, _ = greedy_decode(
        transformer_parameters(torch.asarray, **options),
        torch.tensor(SOURCE),
        **GIVEN,
    )
    assert one.tolist() == two.tolist()


# ---- fewer key heads than query heads ----


@each_library
def test_a_decoder_of_shared_key_heads_keeps_each_once(make):
    """Cached = uncached, in both attentions of each layer; the cache is as much smaller."""
    p = transformer_parameters(make)
    shared = [
        replace(
            layer,
            self_attention=attention_parameters(
                make, heads=4, kv_heads=2, seed=n
            ),
            cross_attention=attention_parameters(
                make, heads=4, kv_heads=1, seed=n + 5
            ),
        )
        for n, layer in enumerate(p.decoder_layers)
    ]
    p = replace(p, decoder_layers=tuple(shared))
    target, mask = tokens(B, 5, V=V_t), make(MASK)
    memory = encode(p, make(SOURCE), source_mask=mask)
    expected = decode(p, make(target), memory, source_mask=mask)
    cache = decoder_cache(p, memory, source_mask=mask)
    for at in (slice(0, 2), slice(2, 3), slice(3, 5)):
        logits, cache = decode_step(p, make(target[:, at]), cache)
        assert_close(logits, expected[:, at, :])
    assert cache.own[0].keys.shape == (B, 2, 5, 2)
    assert cache.context[0].values.shape == (B, 1, S, 2)
