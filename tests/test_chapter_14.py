"""What chapter 14, End to end, states of the stored model, and its hand example, exercises and traps.

Checked elsewhere:
- the model that is trained on the page reaches .98 and .85, with three seeds:
  tests/tasks/test_training.py; the stored one: tests/trained/test_trained.py,
  and there too: NumPy = torch, cached = uncached for greedy and beam token by
  token, beam of 1 = greedy
- number words, their alignment, that it crosses: tests/tasks/test_number_words.py
- the loss is the mean over real positions: tests/tasks/test_training.py
- parity with torch.nn.Transformer as a whole: tests/test_encoder_decoder.py
"""

import warnings
from dataclasses import replace
from functools import cache
from itertools import islice

import numpy as np
import pytest
import torch

from attention_in_detail import (
    FeedForwardParameters,
    LayerNormParameters,
    TransformerParameters,
    causal_mask,
    cross_attention,
    decoder_layer,
    embed,
    encode,
    encoder_layer,
    feed_forward,
    greedy_decode,
    layer_norm,
    map_arrays,
    padding_mask,
    relu,
    self_attention,
    sinusoidal_positions,
    softmax,
    transformer,
)
from attention_in_detail.stored import stored_result
from attention_in_detail.tasks.number_words import (
    END,
    GERMAN,
    LONGEST,
    START,
    batches,
    english_words,
    german_words,
    make_batch,
    split_numbers,
    words,
)
from attention_in_detail.tasks.scores import (
    alignment_scores,
    cross_weights,
    exact_share,
    translations,
)
from attention_in_detail.tasks.tracing import traced_translation
from attention_in_detail.trained import trained_number_words

MODEL = trained_number_words()
HELD_OUT = split_numbers()[1]
BATCH = make_batch([677])
SOURCE, TARGET = BATCH.source[0], BATCH.given[0]
S, T, D = 5, 6, 64
ASKED = {"start": START, "end": END, "limit": LONGEST + 1}


def assert_same(x, y):
    np.testing.assert_allclose(x, y, rtol=0, atol=1e-12)


# ---- the trace ----


def test_each_step_has_the_shape_of_the_table_and_together_they_are_the_model():
    assert (SOURCE.shape, TARGET.shape) == ((S,), (T,))
    X = embed(MODEL.source_embedding, SOURCE)
    assert X.shape == (S, D)
    picked = 8 * MODEL.source_embedding[SOURCE]
    assert_same(X, picked + sinusoidal_positions(S, D))
    for layer in MODEL.encoder_layers:
        assert layer.norm_first is False
        Y, A = self_attention(layer.attention, X, return_weights=True)
        assert A.shape == (4, S, S)
        assert A.min() > 0  # no weight is shut
        U = layer_norm(layer.attention_norm, X + Y)
        network = layer.feed_forward
        inner = relu(U @ network.W_1 + network.b_1)
        assert inner.shape == (S, 128)
        # no two tokens use the same of the first 16
        assert len(np.unique(inner[:, :16] > 0, axis=0)) == S
        next_X = layer_norm(
            layer.feed_forward_norm, U + inner @ network.W_2 + network.b_2
        )
        assert_same(next_X, encoder_layer(layer, X))
        X = next_X
    C = X
    assert C.shape == (S, D)
    assert_same(C, encode(MODEL, SOURCE))

    X = embed(MODEL.target_embedding, TARGET)
    for layer in MODEL.decoder_layers:
        Y, A = self_attention(
            layer.self_attention,
            X,
            mask=causal_mask(T),
            return_weights=True,
        )
        assert A.shape == (4, T, T)
        assert not np.triu(A, 1).any()
        assert (A[:, 0, 0] == 1).all()
        U = layer_norm(layer.self_attention_norm, X + Y)
        Y, A = cross_attention(
            layer.cross_attention, U, C, return_weights=True
        )
        assert A.shape == (4, T, S)
        R = layer_norm(layer.cross_attention_norm, U + Y)
        X = layer_norm(
            layer.feed_forward_norm, R + feed_forward(layer.feed_forward, R)
        )
    assert MODEL.encoder_norm is MODEL.decoder_norm is None
    G = X @ MODEL.W_output + MODEL.b_output
    assert G.shape == (T, 29)
    assert_same(G, transformer(MODEL, SOURCE, TARGET))
    [one] = cross_weights(MODEL, [677])
    assert_same(one.weights[1], A)
    probabilities = softmax(G)
    assert probabilities.max(-1).min() > 0.9  # one dark cell a row
    assert probabilities.argmax(-1).tolist() == BATCH.wanted[0].tolist()


def test_a_bare_norm_gives_mean_0_and_variance_1():
    X = embed(MODEL.source_embedding, SOURCE)
    bare = layer_norm(LayerNormParameters(np.ones(D)), X)
    np.testing.assert_allclose(bare.mean(-1), 0, atol=1e-12)
    np.testing.assert_allclose(bare.var(-1), 1, atol=1e-4)


def test_viewer_shows_all_heads_while_the_model_writes_by_itself():
    written, _ = greedy_decode(MODEL, SOURCE, **ASKED)
    assert [GERMAN[n] for n in written] == [*german_words(677), "<end>"]
    read = np.array([START, *written[:-1]])
    *_, crossed = transformer(MODEL, SOURCE, read, return_weights=True)
    crossed = np.stack(crossed)
    assert crossed.shape == (2, 4, T, S)
    # it writes what it was given before, so it looks where it looked before
    [one] = cross_weights(MODEL, [677])
    assert_same(crossed, one.weights)


def test_the_lines_of_the_first_figure_cross():
    [one] = cross_weights(MODEL, [677])
    A = one.weights[1, 2]
    assert one.german == [*german_words(677), "<end>"]
    assert A.argmax(-1)[[0, 1, 2, 4]].tolist() == [0, 1, 3, 2]
    assert A[[0, 1, 2, 4]].max(-1).min() > 0.5


@pytest.mark.claim("def-norm-feed-forward")
def test_last_steps_by_hand():
    norm = LayerNormParameters(np.ones(2), eps=1e-12)
    network = FeedForwardParameters(np.eye(2), np.diag([2.0, 5.0]))
    W = np.log(2) * np.array([[1.0, 1, 0], [-1, 0, 0]])
    u = layer_norm(norm, np.array([[3.0, 1.0]]))
    np.testing.assert_allclose(u, [[1, -1]], atol=1e-9)
    r = relu(u @ network.W_1)
    np.testing.assert_allclose(r, [[1, 0]], atol=1e-9)
    inner = feed_forward(network, u)
    np.testing.assert_allclose(inner, [[2, 0]], atol=1e-9)
    y = layer_norm(norm, u + inner)
    np.testing.assert_allclose(y, [[1, -1]], atol=1e-9)
    np.testing.assert_allclose(
        softmax(y @ W), [[4 / 7, 2 / 7, 1 / 7]], atol=1e-9
    )


# ---- torch ----


@pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
def test_layer_by_layer_equal_to_torch(norm_first):
    torch.manual_seed(0)
    options = {"dropout": 0.0, "batch_first": True, "dtype": torch.float64}
    with warnings.catch_warnings():  # pre-norm has no fast path there
        warnings.simplefilter("ignore", UserWarning)
        peer = torch.nn.Transformer(
            64, 4, 2, 2, 128, norm_first=norm_first, **options
        ).eval()
    ends = [
        torch.nn.Embedding(32, 64, dtype=torch.float64),
        torch.nn.Embedding(29, 64, dtype=torch.float64),
        torch.nn.Linear(64, 29, dtype=torch.float64),
    ]
    p = TransformerParameters.from_torch(peer, *ends)
    p = map_arrays(p, lambda x: x.detach().numpy())
    batch = make_batch([677, 3, 717_016])
    mask = padding_mask(batch.source_lengths, batch.source.shape[1])
    padded = torch.tensor(~mask[:, 0])
    length = batch.given.shape[1]
    shut = torch.tensor(~causal_mask(length))
    x = embed(p.source_embedding, batch.source)
    y = embed(p.target_embedding, batch.given)
    their_x, their_y = torch.tensor(x), torch.tensor(y)
    real = mask[:, 0]
    with torch.no_grad():
        for ours, theirs in zip(
            p.encoder_layers, peer.encoder.layers, strict=True
        ):
            x = encoder_layer(ours, x, mask=mask)
            their_x = theirs(their_x, src_key_padding_mask=padded)
            assert_same(x[real], their_x.numpy()[real])
        x = layer_norm(p.encoder_norm, x)
        their_x = peer.encoder.norm(their_x)
        for ours, theirs in zip(
            p.decoder_layers, peer.decoder.layers, strict=True
        ):
            y = decoder_layer(
                ours, y, x, mask=causal_mask(length), context_mask=mask
            )
            their_y = theirs(
                their_y,
                their_x,
                tgt_mask=shut,
                memory_key_padding_mask=padded,
            )
            assert_same(y, their_y.numpy())
        their_logits = ends[2](peer.decoder.norm(their_y)).numpy()
    logits = transformer(p, batch.source, batch.given, source_mask=mask)
    assert_same(logits, their_logits)


# ---- what the trained model does ----


def test_guessing_at_random():
    assert round(float(np.log(len(GERMAN))), 2) == 3.37


def test_numbers_that_the_page_translates():
    numbers = [16, 677, 21_021, 717_016]
    assert translations(MODEL, numbers) == [
        german_words(n) for n in numbers
    ]


@cache
def scores_of_heads():
    return alignment_scores(MODEL, HELD_OUT)


@pytest.mark.claim("obs-alignment")
def test_the_head_of_the_figures_is_the_best():
    scores = scores_of_heads()
    assert np.unravel_index(scores.argmax(), scores.shape) == (1, 2)
    assert scores.max() > 0.95


def test_where_und_looks():
    counts = np.zeros(3)
    for one in cross_weights(MODEL, HELD_OUT):
        for i, token in enumerate(one.german):
            if token == "und":
                strongest = one.weights[1, 2, i].argmax()
                places = [one.gold[i + 1], one.gold[i - 1], strongest]
                counts[places.index(strongest)] += 1
    assert counts[0] / counts.sum() > 0.995


def test_the_second_und_of_the_figure_hesitates():
    [one] = cross_weights(MODEL, [45_067])
    second = len(one.german) - 3
    assert one.german[second] == "und"
    sixty, seven = (one.english.index(word) for word in ("sixty", "seven"))
    row = one.weights[1, 2, second]
    assert min(row[sixty], row[seven]) > 0.4
    assert abs(row[sixty] - row[seven]) < 0.1


def test_zero_comes_out_wrong_and_was_seen_five_times():
    assert translations(MODEL, [0]) != [["null"]]
    training, _ = split_numbers()
    seen = islice(batches(training, 128, seed=0), 400)
    zeros, drawn = 0, 0
    for batch in seen:
        zeros += int((batch.numbers == 0).sum())
        drawn += len(batch.numbers)
    assert (zeros, drawn) == (5, 51_200)
    wordings = [english_words(n) for n in range(0, 1_000_000, 1_000)]
    assert sum("zero" in wording for wording in wordings) == 1


@pytest.mark.claim("obs-head-seeds")
def test_which_head_is_best_changes_with_the_seed():
    runs = stored_result("number_words")["runs"]
    assert [run["seed"] for run in runs] == [0, 1, 2]
    scores = np.array([run["heads"] for run in runs])  # (runs, L, h)
    assert min(run["exact"] for run in runs) >= 0.98
    assert scores.max((1, 2)).min() >= 0.85
    assert scores.max((1, 2)).min() >= 0.95
    assert scores[0].round(2).max() == 0.99
    best = [divmod(int(one.argmax()), 4) for one in scores]
    assert [layer for layer, _ in best] == [1, 1, 1]
    assert len({head for _, head in best}) == 3
    assert (
        0.7 < scores.mean((1, 2)).min() < scores.mean((1, 2)).max() < 0.85
    )
    assert max(run["seconds"] for run in runs) < 60


# ---- what can go wrong ----


def test_without_a_causal_mask_every_row_sees_the_last_token():
    altered = TARGET.copy()
    altered[-1] = GERMAN.index("achtzig")
    assert GERMAN[TARGET[-1]] == "siebzig"
    C, layer = encode(MODEL, SOURCE), MODEL.decoder_layers[0]
    for mask, stays in (
        (causal_mask(T), [1, 1, 1, 1, 1, 0]),
        (None, [0] * 6),
    ):
        before, after = (
            decoder_layer(
                layer, embed(MODEL.target_embedding, t), C, mask=mask
            )
            for t in (TARGET, altered)
        )
        same = np.isclose(before, after, rtol=0, atol=1e-12).all(-1)
        assert same.tolist() == stays


def test_without_an_offset_only_the_first_row_is_right():
    table = MODEL.target_embedding
    right = embed(table, TARGET)
    for offsets, wanted in (
        (range(T), [1] * T),
        ([0] * T, [1, 0, 0, 0, 0, 0]),
    ):
        single = [
            embed(table, TARGET[i : i + 1], offset=n)[0]
            for i, n in enumerate(offsets)
        ]
        same = np.isclose(single, right, rtol=0, atol=1e-12).all(-1)
        assert same.tolist() == wanted


def test_padding_that_nobody_shut_is_read_like_words():
    batch = make_batch(HELD_OUT[:200])
    shares = []
    mask = padding_mask(batch.source_lengths, batch.source.shape[1])
    for m in (mask, None):
        tokens, _ = greedy_decode(
            MODEL, batch.source, source_mask=m, **ASKED
        )
        right = [
            words(row, GERMAN) == german_words(n)
            for row, n in zip(tokens, batch.numbers, strict=True)
        ]
        shares.append(np.mean(right))
    assert [round(float(share), 2) for share in shares] == [1.0, 0.93]


# ---- exercises ----


def test_exercise_count():
    sizes = []
    map_arrays(MODEL, lambda x: sizes.append(x.size) or x)
    assert sum(sizes) == 173_213 == 167_424 + 3_904 + 1_885
    assert 4 * (64**2 + 64) == 16_640
    assert 2 * 64 * 128 + 128 + 64 == 16_576
    assert 16_640 + 16_576 + 2 * 128 == 33_472
    assert 2 * 16_640 + 16_576 + 3 * 128 == 50_240
    assert 2 * (33_472 + 50_240) == 167_424


def test_exercise_silence():
    last = MODEL.decoder_layers[1]
    a = last.cross_attention
    shares = []
    for heads in ([0], [1], [2], [3], [0, 1, 2, 3]):
        W_O = a.W_O.copy()
        for i in heads:
            W_O[16 * i : 16 * (i + 1)] = 0
        silent = replace(last, cross_attention=replace(a, W_O=W_O))
        layers = (MODEL.decoder_layers[0], silent)
        other = replace(MODEL, decoder_layers=layers)
        shares.append(exact_share(other, HELD_OUT[:50]))
    assert shares == [1.0, 1.0, 1.0, 1.0, 0.34]
    scores = scores_of_heads()[1].round(2).tolist()
    assert scores == [0.69, 0.77, 0.97, 0.87]


def test_exercise_silence_with_columns_gives_the_same_five_shares():
    """By one pass over the right tokens, as in the solution."""
    batch = make_batch(HELD_OUT[:50])
    mask = padding_mask(batch.source_lengths, batch.source.shape[1])
    real = padding_mask(batch.target_lengths, batch.wanted.shape[1])[:, 0]
    first, last = MODEL.decoder_layers
    a = last.cross_attention
    shares = []
    for heads in ([0], [1], [2], [3], [0, 1, 2, 3]):
        W_O = a.W_O.copy()
        for i in heads:
            W_O[:, 16 * i : 16 * (i + 1)] = 0
        other = replace(last, cross_attention=replace(a, W_O=W_O))
        changed = replace(MODEL, decoder_layers=(first, other))
        found = transformer(
            changed, batch.source, batch.given, source_mask=mask
        ).argmax(-1)
        hits = (found == batch.wanted) | ~real
        shares.append(float(hits.all(-1).mean()))
    assert shares == [1.0, 1.0, 1.0, 1.0, 0.34]


def test_exercise_loss_and_beam_by_hand():
    foretold = np.array([1 / 2, 1 / 4, 1, 1 / 16])
    loss = -np.log(foretold).mean()
    assert loss == pytest.approx(7 / 4 * np.log(2))
    assert round(loss, 3) == 1.213
    padded = -np.log([*foretold, 1 / 2, 1 / 2]).mean()
    assert padded == pytest.approx(9 / 6 * np.log(2))
    texts = np.array([[0.6], [0.4]]) * [[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]]
    assert texts[0].max() == pytest.approx(0.30)
    assert np.unravel_index(texts.argmax(), texts.shape) == (1, 1)
    assert texts.max() == pytest.approx(0.32)


def test_exercise_one_pass():
    """Exact greedily is right in every row under teacher forcing, number by number."""
    numbers = HELD_OUT[:300]
    batch = make_batch(numbers)
    mask = padding_mask(batch.source_lengths, batch.source.shape[1])
    logits = transformer(MODEL, batch.source, batch.given, source_mask=mask)
    right = logits.argmax(-1) == batch.wanted
    real = padding_mask(batch.target_lengths, batch.wanted.shape[1])[:, 0]
    found = translations(MODEL, numbers)
    exact = [
        row == german_words(n)
        for row, n in zip(found, numbers, strict=True)
    ]
    assert (right | ~real).all(-1).tolist() == exact


# ---- what readers are invited to ask ----


def test_of_the_numbers_that_end_in_01_eight_of_ten_come_out_wrong():
    numbers = [0, 16, 61, 45_067, 677, *range(1, 1000, 100)]
    found = translations(MODEL, numbers)
    right = {
        n: tokens == german_words(n)
        for n, tokens in zip(numbers, found, strict=True)
    }
    assert [n for n, yes in right.items() if yes] == [
        *(16, 61, 45_067, 677),
        *(101, 801),
    ]
    hesitates = traced_translation(MODEL, 201).candidates[2]
    assert [one.token for one in hesitates[:2]] == ["ein", "eins"]
    assert hesitates[1].probability > 0.4
