"""What chapter 29, Quadratic cost, states: on small cases here, and of the stored experiment.

Checked elsewhere: the patterns, the forms of attention and their counts, in
tests/insights/test_quadratic_cost.py; the two tasks in tests/insights/test_look_up.py.
"""

import json
import re
from math import factorial

import numpy as np
import pytest
import torch

from attention_in_detail import attention, window_mask
from attention_in_detail.exercises.cost import ARENA
from attention_in_detail.insights.look_up import draw_items, train_reader
from attention_in_detail.insights.quadratic_cost import (
    global_mask,
    layers_to_reach,
    linear_attention_to_all,
    linear_cost,
    linformer_cost,
    random_mask,
    sparse_cost,
    union_of_masks,
)
from attention_in_detail.insights.results import experiment
from attention_in_detail.parallelism import attention_cost
from tests.extension_support import ROOT
from tests.support import normal

STORED = experiment("quadratic_cost")
PATTERNS = (
    "window",
    "random",
    "window_global",
    "big_bird",
    "no_global",
    "wide_window",
    "many_random",
)


def values(key):
    return np.array(STORED[key].values)


def full(T, D=64):
    return attention_cost(T, T, D, D).multiply_adds


@pytest.mark.claim("def-cost-sparse")
def test_pairs_of_a_window_and_a_global_token_by_hand():
    mask = union_of_masks(
        window_mask(6, before=1, after=1), global_mask(6, 1)
    )
    assert mask.sum() == 24
    assert sparse_cost(24, 6, 6, 64, 64).multiply_adds == 3072
    assert full(6) == 4608


@pytest.mark.claim("def-cost-linear")
def test_linear_attention_by_hand():
    q, k, v = (
        np.array([[0.0]]),
        np.array([[0.0], [1]]),
        np.array([[3.0], [6]]),
    )
    assert linear_attention_to_all(q, k, v) == pytest.approx(5)


@pytest.mark.claim("prop-cost-linear")
def test_the_weights_of_linear_attention_are_positive_and_of_low_rank():
    q, k = 2 * normal(40, 5), 2 * normal(40, 5, seed=1)
    # Values of the identity give back the weights.
    A = linear_attention_to_all(q, k, np.eye(40))
    assert (A > 0).all()
    assert np.allclose(A.sum(axis=1), 1)
    assert np.linalg.matrix_rank(A) == 5
    assert np.linalg.matrix_rank(attention(q, k, np.eye(40))) > 30


@pytest.mark.claim("def-cost-sparse")
def test_big_birds_pattern_is_a_union_of_three():
    T, g, r = 40, 2, 3
    known = union_of_masks(
        window_mask(T, before=1, after=1), global_mask(T, g)
    )
    pattern = union_of_masks(
        known, random_mask(T, r, seed=0, besides=known)
    )
    near = np.abs(np.subtract.outer(np.arange(T), np.arange(T))) <= 1
    near[:g] = near[:, :g] = True
    assert (pattern >= near).all()
    assert ((pattern & ~near).sum(axis=1)[g:] == r).all()


def test_where_the_counts_cross():
    assert linformer_cost(256, 256, 64, 64, 128).multiply_adds == full(256)
    assert linformer_cost(257, 257, 64, 64, 128).multiply_adds < full(257)
    assert linear_cost(64, 64, 64, 64).multiply_adds > full(64)
    assert linear_cost(65, 65, 64, 64).multiply_adds < full(65)
    assert sparse_cost(385 * 384, 385, 385, 64, 64).multiply_adds < full(
        385
    )
    assert linear_cost(128, 128, 128, 128).multiply_adds > full(128, 128)
    assert linear_cost(129, 129, 128, 128).multiply_adds < full(129, 128)
    assert linformer_cost(512, 512, 128, 128, 256).multiply_adds == full(
        512, 128
    )
    per_token = linear_cost(1, 1, 128, 128).multiply_adds
    assert per_token == 32_896
    assert linformer_cost(1, 1, 128, 128, 256).multiply_adds == 131_072


def test_the_exercise_has_the_table_of_the_page():
    cells = json.loads(
        (ROOT / "notebooks/29_quadratic_cost.ipynb").read_text("utf8")
    )["cells"]
    page = "\n".join("".join(cell["source"]) for cell in cells)
    rows = re.findall(
        r"^\| ([\w ()]+) \| \{reported\}`([\d.]+)` \| \{reported\}`([\d.]+)` \|$",
        page,
        re.M,
    )
    read = [(float(mean), float(speed)) for _, mean, speed in rows]
    assert read == list(ARENA.values())
    for (name, *_), ours in zip(rows, ARENA, strict=True):
        assert name.startswith(ours)


def test_at_256_tokens_blocks_of_64_leave_no_pair_out():
    known = union_of_masks(
        window_mask(4, before=1, after=1), global_mask(4, 1)
    )
    drawn = random_mask(4, 2, seed=0, besides=known)
    assert union_of_masks(known, drawn).all()


def test_twice_the_length_is_four_times_the_pairs():
    assert full(512) == 4 * full(256)


def test_layers_to_reach():
    T = 256
    near = window_mask(T, before=6, after=6)
    assert layers_to_reach(near) == 43
    assert layers_to_reach(random_mask(T, 13, seed=0)) == 4
    known = union_of_masks(
        window_mask(T, before=3, after=3), global_mask(T, 2)
    )
    drawn = random_mask(T, 4, seed=0, besides=known)
    assert layers_to_reach(union_of_masks(known, drawn)) == 2
    for r in (1, 4, 32):
        mask = union_of_masks(random_mask(T, r, seed=0), global_mask(T, 1))
        assert layers_to_reach(mask) == 2
    alone = [
        layers_to_reach(random_mask(T, r, seed=0))
        for r in (1, 2, 4, 8, 16, 32)
    ]
    assert alone == [None, None, None, 5, 4, 3]


def test_without_positive_features_weights_are_no_means():
    rng = np.random.default_rng(5)
    q, k = (rng.standard_normal((64, 8)) for _ in range(2))
    products = q @ k.T
    weights = products / products.sum(axis=1, keepdims=True)
    assert np.allclose(weights.sum(axis=1), 1)
    assert weights.max() > 10
    assert weights.min() < -10
    assert np.allclose(linear_attention_to_all(q, k, np.ones((64, 1))), 1)
    v = rng.standard_normal((64, 1))
    y = linear_attention_to_all(q, k, v)
    assert v.min() < y.min() <= y.max() < v.max()


def test_the_softmax_has_features_without_end():
    n = np.arange(20)
    root = np.sqrt([float(factorial(i)) for i in n])
    found = (0.7**n / root) @ (1.3**n / root)
    assert found == pytest.approx(np.exp(0.7 * 1.3))


@pytest.mark.claim("obs-cost-mixtures", "obs-cost-patterns")
@pytest.mark.parametrize(
    ("name", "look_up", "frequent"),
    [
        ("full", True, True),
        ("window", False, False),
        ("random", False, False),
        ("big_bird", False, False),
        ("linear", False, True),
    ],
)
def test_what_each_form_learns_here_too(name, look_up, frequent):
    # Six keys of 16 for a query, or about as many.
    some = union_of_masks(
        window_mask(16, before=1, after=1), global_mask(16, 1)
    )
    drawn = random_mask(16, 2, seed=0, besides=some)
    open_pairs = {
        "window": window_mask(16, before=3, after=2),
        "random": random_mask(16, 6, seed=0),
        "big_bird": union_of_masks(some, drawn),
    }

    def under(name):
        mask = torch.asarray(open_pairs[name])
        return lambda q, k, v: attention(q, k, v, mask=mask)

    mixes = {"full": attention, "linear": linear_attention_to_all}
    mix = mixes[name] if name in mixes else under(name)
    for task, learned in (
        ("look up", look_up),
        ("most frequent", frequent),
    ):
        reader = train_reader(task, mix, S=16, D=16, seed=0, steps=160)
        test = draw_items(
            task, 64, 16, 16, torch.Generator().manual_seed(1)
        )
        assert (reader.right(test).double().mean() > 0.8) == learned


# ---- the stored experiment ----


@pytest.mark.claim("obs-cost-heads")
def test_patterns_of_like_density():
    for name in ("big_bird", "no_global", "wide_window", "many_random"):
        assert (abs(values(f"density_{name}") - 0.41) < 0.04).all()
    for name in PATTERNS:
        assert (values(f"mass_{name}") < 0.8).all()
        assert (values(f"worst_{name}") <= values(f"mass_{name}")).all()


def test_random_pairs_cover_what_their_density_says():
    for name in ("random", "many_random"):
        assert np.allclose(
            values(f"mass_{name}"), values(f"density_{name}"), atol=0.05
        )


@pytest.mark.claim("obs-cost-heads")
def test_over_the_seeds_near_and_far_keys_keep_most_of_real_heads():
    mean = {
        name: STORED[f"cosine_{name}"].mean
        for name in (
            *PATTERNS,
            "pool_128",
            "linear",
            "uniform",
            "other_text",
        )
    }
    assert mean["big_bird"] > 0.85
    assert mean["window"] < mean["window_global"] < mean["big_bird"]
    for control in ("wide_window", "many_random"):
        assert (
            values(f"cosine_{control}") < values("cosine_big_bird")
        ).all()
    worse = values("cosine_no_global") < values("cosine_big_bird")
    assert worse.sum() == 4
    assert abs(mean["no_global"] - mean["big_bird"]) < 0.05
    assert mean["linear"] < 0.5
    assert mean["uniform"] < 0.5
    assert mean["other_text"] < mean["big_bird"] - 0.3
    assert (
        values("mass_window_global") > values("mass_window") + 0.1
    ).all()


@pytest.mark.claim("obs-cost-mixtures")
def test_over_the_seeds_mixtures_keep_the_majority_and_lose_the_look_up():
    assert (values("look_up_full") > 0.98).all()
    for name in ("linformer", "linear"):
        assert (values(f"look_up_{name}") < 0.6).all()
    for name in ("full", "linformer", "linear"):
        assert (values(f"frequent_{name}") > 0.95).all()


@pytest.mark.claim("obs-cost-patterns")
def test_over_the_seeds_patterns_lose_both_in_one_layer():
    for name in ("big_bird", "window", "random"):
        assert (values(f"look_up_{name}") < 0.55).all()
        assert (values(f"frequent_{name}") < 0.75).all()
        assert (values(f"frequent_{name}") > 0.5).all()
    # What lies on 12 open pairs of 32 is found, the rest guessed.
    assert 12 / 32 + 20 / 32 / 8 == 29 / 64
    assert STORED["look_up_random"].mean == pytest.approx(29 / 64, abs=0.02)
    assert STORED["look_up_window"].mean < 29 / 64
    assert STORED["look_up_big_bird"].mean > 29 / 64


@pytest.mark.claim("obs-cost-time")
def test_over_the_seeds_each_form_saves_time_at_4096():
    assert (values("ratio_linear") > 20).all()
    assert (values("ratio_big_bird") > 4).all()
    assert (values("ratio_query_blocks") > 1).all()
    assert (values("ratio_linformer") > 5).all()
    mean = {
        name: STORED[f"ratio_{name}"].mean
        for name in ("window", "big_bird", "query_blocks")
    }
    assert mean["window"] > mean["big_bird"] > 1
    known = union_of_masks(
        window_mask(64, before=1, after=1), global_mask(64, 1)
    )
    drawn = random_mask(64, 2, seed=0, besides=known)
    counted = 64**2 / union_of_masks(known, drawn).sum()
    assert round(counted, 1) == 9.3
    for line in STORED.more["ratios"].values():
        assert len(line) == len(STORED.more["lengths"])
    # At 256 tokens little is won, and by blocks nothing.
    at_first = {name: y[0] for name, y in STORED.more["ratios"].items()}
    assert at_first["big_bird"] < 1
    assert at_first["linear"] > 1
