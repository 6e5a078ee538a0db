"""What chapter 35, Attention in today's models, states.

Checked elsewhere, too:
- cached is uncached, bytes (def-today-cache, prop-today-cached, prop-today-bytes): test_causal_self_attention.py
- shared key heads (def-today-shared, prop-today-saves): test_multi_head.py, test_parameters.py
- rotary positions (def-today-rotary, thm-today-distance): test_rotary.py
- linear biases (def-today-bias, prop-today-bias): test_linear_biases.py
- windows with sinks (def-today-sinks): test_sinks.py
- soft caps (def-today-cap, prop-today-cap): test_capping.py
- a decoder alone (def-today-decoder, prop-today-generate, prop-today-reach): test_decoder_only.py
"""

import hashlib
import importlib
import inspect
import math
import re
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from attention_in_detail import (
    MultiHeadParameters,
    attention_weights,
    cache_bytes,
    cached_self_attention,
    causal_mask,
    decoder_only,
    generate,
    head_slopes,
    linear_bias,
    map_arrays,
    multi_head_attention,
    rotate,
    scores,
    sink_mask,
    softcap,
    softcap_derivative,
    trained,
    window_mask,
)
from attention_in_detail.exercises import exercises_of
from attention_in_detail.insights.results import experiment
from attention_in_detail.models.maps import stored_maps
from attention_in_detail.parallelism import attention_cost
from attention_in_detail.tasks.repeating import (
    PERIODS,
    VOCABULARY,
    draw_repeating,
    right_share,
)
from attention_in_detail.trained import trained_decoder_only
from tests.extension_support import ROOT
from tests.page_numbers import numbers_of, statement
from tests.support import assert_close, normal
from tests.test_contract import PAGES, code, markdown

GiB, MiB = 2**30, 2**20
PAGE = "35_todays_models"


def test_the_bars_of_the_first_figure():
    model = {"layers": 32, "D_h": 128}
    T = 32_768
    assert [
        cache_bytes(n, kv_heads=kv, **model) / GiB
        for n, kv in ((T, 32), (T, 8), (T, 1), (4096, 8))
    ] == [16, 4, 0.5, 0.5]


@pytest.mark.claim("prop-today-saves")
@pytest.mark.parametrize("kv_heads", [1, 2, 4, 8])
def test_sharing_saves_parameters_and_bytes_but_no_products(kv_heads):
    p = MultiHeadParameters.init(
        64, 8, kv_heads=kv_heads, bias=False, seed=0
    )
    assert p.count == 2 * 64**2 + 2 * 64 * p.D_kv
    size = {"layers": 3, "D_h": 8}
    share = cache_bytes(5, kv_heads=kv_heads, **size)
    assert share * 8 == cache_bytes(5, kv_heads=8, **size) * kv_heads
    cost = attention_cost(5, 5, p.D_h, p.D_h, entries=p.heads)
    assert cost.multiply_adds == 2 * 8 * 5 * 5 * 8


@pytest.mark.claim("thm-today-distance")
@pytest.mark.parametrize(("i", "j"), [(0, 0), (3, 8), (-4, 9), (50, 7)])
def test_two_turns_are_one_by_the_difference(i, j):
    q, k = normal(1, 8), normal(1, 8, seed=1)
    both = scores(rotate(q, np.array([i])), rotate(k, np.array([j])))
    assert_close(both, scores(q, rotate(k, np.array([j - i]))))


def test_the_hand_example_of_a_turn_is_a_cosine():
    x = np.array([[1.0, 0]])
    for i, j in ((3, 1), (0, 5)):
        z = scores(
            rotate(x, np.array([i])), rotate(x, np.array([j])), scale=1
        )
        assert abs(z[0, 0] - math.cos(i - j)) < 1e-15


@pytest.mark.claim("prop-today-bias")
def test_a_bias_that_does_not_know_the_query_gives_the_same_weights():
    slopes, causal = head_slopes(4), causal_mask(12)
    Q, K = normal(4, 12, 8), normal(4, 12, 8, seed=1)
    near = linear_bias(12, slopes=slopes)
    row = slopes[:, None, None] * np.arange(12.0)
    one, other = (
        attention_weights(Q, K, mask=causal, bias=bias)
        for bias in (near, row)
    )
    assert_close(one, other)
    both_ways = np.abs(
        attention_weights(Q, K, bias=near)
        - attention_weights(Q, K, bias=row)
    )
    assert both_ways.max() > 0.01


@pytest.mark.claim("def-today-sinks")
def test_a_row_opens_no_more_than_window_and_sinks():
    mask = window_mask(30, before=4, after=0) | sink_mask(30, sinks=3)
    assert mask.sum(-1).max() == 4 + 1 + 3
    assert mask.sum(-1)[:4].tolist() == [1, 2, 3, 4]


@pytest.mark.claim("prop-today-moves")
@given(st.integers(0, 10**6))
def test_what_a_mask_shuts_is_what_it_moves(seed):
    rng = np.random.default_rng(seed)
    q, k = rng.standard_normal((2, 6, 5))
    mask = rng.random((6, 6)) < 0.5
    mask[:, 0] = True
    whole = attention_weights(q, k)
    masked = attention_weights(q, k, mask=mask)
    kept = (whole * mask).sum(-1)
    assert_close(masked, whole * mask / kept[:, None])
    assert_close(np.abs(whole - masked).sum(-1) / 2, 1 - kept)


@pytest.mark.claim("prop-today-cap")
@given(st.floats(-300, 300), st.floats(0.5, 100))
def test_bounds_of_a_cap(z, cap):
    x = np.array(z)
    moved = abs(float(softcap(x, cap)) - z)
    assert moved <= abs(z) ** 3 / (3 * cap**2) * (1 + 1e-9) + 1e-12
    assert 0 <= softcap_derivative(x, cap) <= 1
    assert softcap_derivative(np.array(5 * cap), cap) < 2e-4


def kept_in_windows():
    """Mean weight that a window of five keeps in each sentence: alone, with the first token, with one other."""
    found = []
    for maps in stored_maps():
        A = maps.weights.astype(float)
        n = A.shape[-1]
        near = window_mask(n, before=2, after=2)
        with_one = [
            (A * (near | (np.arange(n) == j))).sum(-1).mean()
            for j in range(n)
        ]
        found.append(
            [
                (A * near).sum(-1).mean(),
                with_one[0],
                np.mean(with_one[1:]),
            ]
        )
    return np.array(found)


@pytest.mark.claim("obs-today-sinks")
def test_the_first_token_of_a_trained_encoder_holds_weight():
    found = kept_in_windows()
    said = numbers_of("obs-today-sinks")
    window, first, other = found.mean(0)
    computed = [window, first, other, 1 - window, 1 - first]
    assert [round(x, 3) for x in computed] == said
    assert first > 1.9 * window
    gains = found[:, 1:] - found[:, :1]
    assert (gains[:, 0] > 3 * gains[:, 1]).all()


# What open models use

TABLE = {
    "Llama": ("llama.LlamaConfig", 32, 32, None, None),
    "Mistral": ("mistral.MistralConfig", 32, 8, 4096, None),
    "Gemma 2": ("gemma2.Gemma2Config", 8, 4, 4096, 50.0),
    "GPT-OSS": ("gpt_oss.GptOssConfig", 64, 8, 128, None),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_table_is_what_transformers_builds(name):
    path, heads, kv_heads, window, cap = TABLE[name]
    module, _, kind = path.partition(".")
    folder = f"transformers.models.{module}"
    config = getattr(
        importlib.import_module(f"{folder}.configuration_{module}"), kind
    )()
    assert config.num_attention_heads == heads
    assert config.num_key_value_heads == kv_heads
    assert getattr(config, "sliding_window", None) == window
    assert getattr(config, "attn_logit_softcapping", None) == cap
    if name in ("Gemma 2", "GPT-OSS"):
        kinds = config.layer_types
        assert kinds[::2] == ["sliding_attention"] * len(kinds[::2])
        assert kinds[1::2] == ["full_attention"] * len(kinds[1::2])


def test_the_other_rows_of_the_table():
    from transformers.models.falcon.configuration_falcon import FalconConfig
    from transformers.models.gptj.configuration_gptj import GPTJConfig

    falcon, gptj = FalconConfig(), GPTJConfig()
    assert falcon.multi_query
    assert not falcon.new_decoder_architecture
    assert (falcon.num_attention_heads, falcon.alibi) == (71, False)
    assert (gptj.n_head, gptj.rotary_dim) == (16, 64)
    assert gptj.n_embd // gptj.n_head == 256


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("gptj", "rotate_every_two"),
        ("bloom", "build_alibi_tensor"),
        ("llama", "rotate_half"),
        ("falcon", "rotate_half"),
        ("mistral", "rotate_half"),
        ("gemma2", "rotate_half"),
        ("gpt_oss", "_apply_rotary_emb"),
        ("gpt_oss", "self.sinks"),
    ],
)
def test_the_code_has_what_the_table_says(module, words):
    model = importlib.import_module(
        f"transformers.models.{module}.modeling_{module}"
    )
    assert words in inspect.getsource(model)


def sources_of(module):
    """The text of a model's configuration and of its code."""
    return [
        inspect.getsource(
            importlib.import_module(
                f"transformers.models.{module}.{part}_{module}"
            )
        )
        for part in ("configuration", "modeling")
    ]


ROTARY = {
    "gptj": "adjacent",
    "llama": "halves",
    "falcon": "halves",
    "mistral": "halves",
    "gemma2": "halves",
    "gpt_oss": "halves",
}


@pytest.mark.parametrize("module", ROTARY)
def test_the_library_turns_the_pairs_that_the_table_says(module):
    """Its own function, on the angles of the definition, gives what `rotate` gives; with the other pairs it does not."""
    model = importlib.import_module(
        f"transformers.models.{module}.modeling_{module}"
    )
    x, places = torch.asarray(normal(2, 5, 8)), torch.arange(5)
    theta = 10000.0 ** (-torch.arange(4, dtype=torch.float64) / 4)
    angles = (places[:, None] * theta)[None]  # (1, T, D_h/2)
    cos, sin = angles.cos(), angles.sin()
    if module == "gptj":  # its heads stand behind the positions
        turned = model.apply_rotary_pos_emb(
            x.swapaxes(0, 1)[None], sin, cos
        )[0].swapaxes(0, 1)
    else:
        if module != "gpt_oss":
            cos, sin = (torch.cat([y, y], dim=-1) for y in (cos, sin))
        turned, same = (
            y[0]
            for y in model.apply_rotary_pos_emb(*[x[None]] * 2, cos, sin)
        )
        assert torch.equal(turned, same)
    pairs = ROTARY[module]
    other = "halves" if pairs == "adjacent" else "adjacent"
    assert_close(turned, rotate(x, places, pairs=pairs))
    assert (turned - rotate(x, places, pairs=other)).abs().max() > 0.1


@pytest.mark.parametrize("module", ROTARY)
def test_attention_of_the_library_turns_what_it_projects(module):
    model = importlib.import_module(
        f"transformers.models.{module}.modeling_{module}"
    )
    (kind,) = (
        getattr(model, name)
        for name in (
            "GPTJAttention",
            "LlamaAttention",
            "FalconAttention",
            "MistralAttention",
            "Gemma2Attention",
            "GptOssAttention",
        )
        if hasattr(model, name)
    )
    assert "apply_rotary_pos_emb(" in inspect.getsource(kind.forward)


@pytest.mark.pinned
@pytest.mark.parametrize(
    ("module", "has_one"),
    [
        ("gptj", False),
        ("bloom", False),
        ("llama", False),
        ("falcon", False),
        ("mistral", True),
        ("gemma2", True),
        ("gpt_oss", True),
    ],
)
def test_a_window_is_where_the_table_has_one(module, has_one):
    configuration, model = sources_of(module)
    assert ("window" in configuration.lower()) == has_one
    assert ("window" in model.lower()) == has_one
    assert ("create_sliding_window_causal_mask" in model) == has_one
    assert "create_causal_mask" in model


def test_bloom_projects_to_as_many_keys_as_queries():
    from transformers.models.bloom.configuration_bloom import BloomConfig
    from transformers.models.bloom.modeling_bloom import BloomAttention

    layer = BloomAttention(BloomConfig(hidden_size=12, n_head=3), 0)
    assert layer.query_key_value.weight.shape == (3 * 12, 12)


@pytest.mark.pinned
def test_each_row_of_the_table_has_its_source():
    """In the pinned version, file by file, with names that stand there."""
    text = markdown(PAGES[PAGE])
    rows = re.findall(
        r"^\| (?!model)([\w -]+?) \| (?:rotary|linear)", text, re.M
    )
    found = re.findall(
        r"^- ([\w -]+): `(\w+)/configuration_\2\.py` \((.+?)\), "
        r"`\2/modeling_\2\.py` \((.+?)\)\.$",
        text,
        re.M,
    )
    assert [row[0] for row in found] == rows
    assert len(rows) == 7
    for _, module, *named in found:
        for names, source in zip(named, sources_of(module), strict=True):
            for name in re.findall(r"`(\w+)`", names):
                assert re.search(rf"\b{name}\b", source)
    (version,) = re.findall(r"in transformers ([\d.]+\d),", text)
    pins = (ROOT / "requirements.txt").read_text("utf8").split()
    assert f"transformers=={version}" in pins


# What each change costs


def rows_of_costs():
    """What the page prints: a name, parameters, MiB and products."""
    (cell,) = (
        one for one in code(PAGES[PAGE]) if "token_products(S" in one.source
    )
    (output,) = cell.outputs
    _, _, *lines = output.text.splitlines()
    assert max(map(len, lines)) <= 76
    return [re.split(r"  +", line) for line in lines]


def counted(kv_heads=32, kept=32_768, extra=0):
    """Parameters, bytes and products of a layer, from arrays that take no room, and products by torch."""
    D, D_h = 4096, 128
    D_kv = kv_heads * D_h
    W, narrow = (np.broadcast_to(np.float16(0), (D, n)) for n in (D, D_kv))
    p = MultiHeadParameters(
        W, narrow, narrow, W, heads=32, kv_heads=kv_heads
    )
    shape = (1, kv_heads, kept, D_h)
    keys = np.broadcast_to(np.float16(0), shape)
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        x = torch.empty(1, D)
        for M in (p.W_Q, p.W_K, p.W_V, p.W_O):
            x @ torch.empty(*M.shape)
        q, k = torch.empty(32, 1, D_h), torch.empty(32, kept, D_h)
        (q @ k.mT) @ k
    products = counter.get_total_flops() // 2 + extra
    return p.count, 2 * keys.nbytes, products


def test_the_costs_of_each_change_are_those_of_the_page():
    base = counted()
    S, D, h = 32_768, 4096, 32
    # All rows: as many projections, and as many queries, as positions.
    projections = 4 * D * D
    scored = base[2] - projections
    expected = {
        "at first": base,
        "no cache": (base[0], 0, S * (projections + scored)),
        "8 key heads": counted(kv_heads=8),
        "1 key head": counted(kv_heads=1),
        "rotary": counted(extra=sum([2 * 128] * (32 + 32))),
        "linear biases": counted(extra=sum([S] * h)),
        "window, sinks": counted(kept=4 + 4096),
        "soft cap": counted(extra=sum([2 * S] * h)),
    }
    printed = rows_of_costs()
    assert [row[0] for row in printed] == list(expected)
    for (name, *said), (parameters, held, products) in zip(
        printed, expected.values(), strict=True
    ):
        said = [float(one.replace(",", "")) for one in said]
        if name == "at first":
            assert (parameters, held) == (2**26, 2**29)
        else:
            parameters -= base[0]
            products -= base[2]
        right = [parameters / 1e6, held / MiB, products / 1e6]
        assert np.abs(np.array(said) - right).max() <= 0.005 + 1e-6


def test_what_the_page_says_of_its_costs():
    """Sharing takes as many products as parameters; no other idea but a window takes any."""
    _, *others = rows_of_costs()
    shared = [row for row in others if row[1] != "0"]
    assert [row[0] for row in shared] == ["8 key heads", "1 key head"]
    for _, parameters, _, products in shared:
        assert parameters == products
    fewer = {row[0] for row in others if row[3].startswith("-")}
    assert fewer == {"8 key heads", "1 key head", "window, sinks"}


# Exercises


def test_bytes_of_windows_by_hand():
    size = {"layers": 13, "kv_heads": 4, "D_h": 256}
    assert cache_bytes(1, **size | {"layers": 26}) == 106_496
    both = cache_bytes(8192, **size) + cache_bytes(4096, **size)
    assert both == 654_311_424 == 624 * MiB
    assert cache_bytes(8192, **size | {"layers": 26}) == 832 * MiB


def test_turned_by_one_position_nothing_is_said():
    q, k = normal(5, 8), normal(5, 8, seed=1)
    same = np.full(5, 4)
    assert_close(scores(rotate(q, same), rotate(k, same)), scores(q, k))


def test_one_of_four_tests_sees_keys_that_are_all_turned_alike():
    """And none of them fails where each key is turned by its own position."""
    q, k = normal(1, 8), normal(1, 8, seed=1)
    Q, K = np.repeat(q, 5, axis=0), np.repeat(k, 5, axis=0)

    def right(at):
        return scores(rotate(Q, at), rotate(K, at))

    def alike(at):
        turned = [np.full(5, place) for place in at]
        return np.stack(
            [
                scores(rotate(Q, p), rotate(K, p))[i]
                for i, p in enumerate(turned)
            ]
        )

    at = np.arange(5)
    lengths = np.linalg.norm(rotate(K, at), axis=1)
    for program, fails in (
        (right, ["no", "no", "no", "no"]),
        (alike, ["no", "no", "no", "yes"]),
    ):
        Z = program(at)
        diagonals = [np.ptp(np.diagonal(Z, d)) for d in range(-4, 5)]
        holds = [
            np.allclose(lengths, np.linalg.norm(K, axis=1)),
            np.allclose(program(at + 7), Z),
            max(diagonals) < 1e-9,
            np.allclose(Z, right(at)),
        ]
        assert ["no" if one else "yes" for one in holds] == fails
    own = {one.label: one.right for one in exercises_of(PAGE)}
    assert list(own["ex-today-break"]()) == fails
    text = statement("ex-today-break")
    assert "4. The scores are those of queries and keys that" in text


def grouped_means(W_K, heads, kv_heads):
    """What the exercise on sharing asks for, by loops."""
    D_h, g = W_K.shape[1] // heads, heads // kv_heads
    return np.concatenate(
        [
            sum(
                W_K[:, i * D_h : (i + 1) * D_h]
                for i in range(k * g, (k + 1) * g)
            )
            / g
            for k in range(kv_heads)
        ],
        axis=1,
    )


@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
def test_the_mean_of_each_group_undoes_repeating(kv_heads):
    """What was repeated comes back, so that such a model computes what it did."""
    p = MultiHeadParameters.init(
        12, 6, kv_heads=kv_heads, bias=False, seed=4
    )
    repeated_ = np.concatenate([p.head(i).W_K for i in range(6)], axis=1)
    right = {one.label: one.right for one in exercises_of(PAGE)}
    assert_close(right["ex-today-share"](repeated_, 6, kv_heads), p.W_K)
    W_K = normal(12, 12)
    assert_close(
        right["ex-today-share"](W_K, 6, kv_heads),
        grouped_means(W_K, 6, kv_heads),
    )


# The model


MODEL = trained_decoder_only()
FRESH = draw_repeating(300, seed=35)


def stored(name):
    """What the experiment measured with each seed."""
    return np.array(experiment("decoder_only")[name].values)


def share(tokens=FRESH, **changed):
    p = replace(MODEL, **changed)
    return right_share(decoder_only(p, tokens)[0], tokens)


def test_the_stored_model_is_small_and_known():
    content = resources.files(trained).joinpath("decoder_only.npz")
    content = content.read_bytes()
    known = hashlib.sha256(content).hexdigest()
    assert known == trained.SHA256["decoder_only"]
    assert len(content) < 40_000
    sizes = []
    map_arrays(MODEL, lambda x: sizes.append(x.size) or x)
    assert sum(sizes) == 14_816
    assert (MODEL.rotary_base, MODEL.before) == (10_000.0, 7)
    assert (MODEL.sinks, MODEL.cap) == (1, 30.0)
    for layer in MODEL.layers:
        assert layer.norm_first
        assert (layer.attention.heads, layer.attention.h_kv) == (4, 2)


@pytest.mark.claim("prop-today-generate")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_stored_model_writes_the_same_with_its_cache_and_without(dtype):
    p, prompts = trained_decoder_only(dtype), FRESH[:20, :9]
    one = generate(p, prompts, 25)
    other = generate(p, prompts, 25, cached=False)
    assert np.array_equal(one, other)
    written = np.concatenate([prompts, one], axis=1)
    assert (one == written[:, :25]).mean() < 0.9  # not copied as it is
    whole, _ = decoder_only(p, written)
    cache, rows = None, []
    for i in range(written.shape[1]):
        logits, cache = decoder_only(p, written[:, i : i + 1], cache)
        rows.append(logits)
    apart = np.abs(np.concatenate(rows, axis=1) - whole).max()
    least = 1e-12 if dtype == "float64" else 1e-6
    assert apart < least * np.abs(whole).max()


def test_what_it_writes_repeats_the_block():
    rows = FRESH[:60, :25]
    for m in (4, 8):
        own = rows[periods(rows) == m]
        written = generate(MODEL, own[:, : m + 1], 24 - m)
        assert np.array_equal(written, own[:, m + 1 :])


def periods(tokens):
    return np.array([int(VOCABULARY[t]) for t in tokens[:, 0]])


def test_where_the_heads_of_the_figure_look():
    """Layer 1: four back, and at the number; layer 2: the rest of the way, or a block further."""
    _, _, (one, two) = decoder_only(MODEL, FRESH, return_weights=True)
    assert strongest_back(one[:, 1]) == dict.fromkeys(PERIODS, 4)
    assert strongest_back(two[:, 0]) == {3: 1, 4: 3, 5: 0, 6: 1, 7: 2, 8: 3}
    at_number = one[:, 3, 9:, 0].mean(-1)
    for m in PERIODS:
        assert 0.3 < at_number[periods(FRESH) == m].mean() < 0.75
    for m, back in strongest_back(two[:, 0]).items():
        assert (4 + back - (m - 1)) % m == 0


def strongest_back(A):
    said = periods(FRESH)
    back = np.stack(
        [np.diagonal(A, -d, 1, 2)[:, 9 - d :].mean(-1) for d in range(8)],
        axis=-1,
    )
    return {m: int(back[said == m].mean(0).argmax()) for m in PERIODS}


def test_four_places_back_are_enough_and_three_are_not():
    assert share() > 0.995
    assert share(before=4) > 0.995
    assert share(before=3) < 0.6


def test_the_most_frequent_letter_is_right_in_nearly_half_of_the_cases():
    """Without any order: letters of a block may be equal."""
    logits = np.zeros((*FRESH.shape, len(VOCABULARY)))
    for i in range(1, FRESH.shape[1]):
        logits[:, i] = logits[:, i - 1]
        logits[np.arange(len(FRESH)), i, FRESH[:, i]] += 1
    found = right_share(logits, FRESH)
    assert 0.42 < found < 0.5
    assert (stored("no_positions") > found + 0.1).all()


@pytest.mark.claim("obs-today-parts")
def test_the_stored_model_needs_its_sink_and_its_positions_and_no_cap():
    assert share(sinks=0) < 0.7
    assert share(rotary_base=None) < 0.6
    assert share(cap=None) > 0.995


@pytest.mark.claim("obs-today-parts")
def test_the_measured_parts_stand_apart():
    whole, no_sink = stored("whole"), stored("no_sink")
    assert len(whole) == 5
    assert (whole > 0.99).all()
    assert (stored("one_head") > 0.99).all()
    assert (stored("no_positions") < 0.7).all()
    assert (no_sink > 0.99).sum() == 1
    assert abs(np.sort(no_sink)[:4].mean() - 0.9) < 0.03
    assert (whole > no_sink).all()
    for name in ("without_sink", "without_positions"):
        assert (stored(name) < 0.7).all()
    assert_close(stored("without_cap"), whole, 1e-3)


@pytest.mark.claim("obs-today-long")
def test_far_from_its_sink_the_stored_model_errs_and_near_it_does_not():
    long = draw_repeating(40, length=200, seed=36)
    near = np.concatenate([long[:, :1], long[:, -31:]], axis=1)
    assert share(long) < 0.97
    assert share(near) > 0.995
    assert (stored("near") > stored("long") + 0.02).all()


@pytest.mark.parametrize("sinks", [0, 2])
def test_what_a_window_has_shut_can_be_thrown_away(sinks):
    p = MultiHeadParameters.init(16, 4, kv_heads=2, seed=3)
    x = normal(12, 16)
    whole, _ = cached_self_attention(p, x, before=3, sinks=sinks)
    kept = x[[*range(sinks), 8, 9, 10, 11]]
    assert_close(multi_head_attention(p, x[11:], kept, kept), whole[11:])
