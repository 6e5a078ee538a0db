"""What chapter 35, Attention in today's models, states.

Checked elsewhere, too:
- cached is uncached, bytes (def-today-cache, prop-today-cached, prop-today-bytes): test_causal_self_attention.py
- shared key heads (def-today-shared, prop-today-saves): test_multi_head.py, test_parameters.py
- rotary positions (def-today-rotary, thm-today-distance): test_rotary.py
- linear biases (def-today-bias, prop-today-bias): test_linear_biases.py
- windows with sinks (def-today-sinks): test_sinks.py
- soft caps (def-today-cap, prop-today-cap): test_capping.py
"""

import importlib
import inspect
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_in_detail import (
    MultiHeadParameters,
    attention_weights,
    cache_bytes,
    causal_mask,
    head_slopes,
    linear_bias,
    rotate,
    scores,
    sink_mask,
    softcap,
    softcap_derivative,
    window_mask,
)
from attention_in_detail.models.maps import stored_maps
from attention_in_detail.parallelism import attention_cost
from tests.page_numbers import numbers_of
from tests.support import assert_close, normal

GiB, MiB = 2**30, 2**20


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
        ("gpt_oss", "self.sinks"),
    ],
)
def test_the_code_has_what_the_table_says(module, words):
    code = importlib.import_module(
        f"transformers.models.{module}.modeling_{module}"
    )
    assert words in inspect.getsource(code)


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
