"""Exercises of the chapter *Layer norm and transfer*. PyTorch is loaded only where layers are made."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.pointwise import LayerNormParameters, layer_norm

__all__ = ["EXERCISES"]

# ---- numbers: the first two layers of MiniLM in the place of small ones ----

T, CLASSES, WIDTH, DEPTH = 8, 10, 384, 2
TASK = T * WIDTH + T * WIDTH + WIDTH * CLASSES  # W_in, P, W_out
NORMS = 1 + 2 * DEPTH
WEIGHTS = 4 * WIDTH**2 + 2 * WIDTH * (4 * WIDTH)
BIASES = 4 * WIDTH + 4 * WIDTH + WIDTH  # attention, then the network


def _counts(
    *,
    task: int = TASK,
    norms: int = NORMS,
    each: int = 2,
    biases: int = BIASES,
) -> Any:
    """Numbers that are tuned and numbers that are frozen."""
    return np.array(
        [
            task + norms * each * WIDTH,
            DEPTH * (WEIGHTS + biases),
        ]
    )


# ---- a norm ----


def _norm(x: Any, gain: Any, shift: Any, eps: float) -> Any:
    return layer_norm(LayerNormParameters(gain, shift, eps), x)


def _norm_by_hand(
    x: Any,
    gain: Any,
    shift: Any,
    eps: float,
    *,
    axis: int | None = -1,
    less: int = 0,
    root: bool = True,
) -> Any:
    spread = x.var(axis, keepdims=True, ddof=less) + eps
    unit = (x - x.mean(axis, keepdims=True)) / (
        np.sqrt(spread) if root else spread
    )
    return gain * unit + shift


def _beside_the_root(x: Any, gain: Any, shift: Any, eps: float) -> Any:
    """With epsilon added to the root, and not to what is under it."""
    rest = x - x.mean(-1, keepdims=True)
    return gain * rest / (x.std(-1, keepdims=True) + eps) + shift


def _gain_first(x: Any, gain: Any, shift: Any, eps: float) -> Any:
    ones = np.ones_like(gain)
    return _norm(gain * x + shift, ones, np.zeros_like(shift), eps)


def _plus_first(x: Any, gain: Any, shift: Any, eps: float) -> Any:
    return gain * (_norm_by_hand(x, np.ones_like(gain), shift, eps))


def _norm_cases() -> Iterator[Case]:
    rng = np.random.default_rng(28)
    for name, shape, eps in (
        ("four rows", (4, 3), 1e-5),
        ("a batch", (2, 3, 5), 1e-5),
        ("rows that hardly vary", (3, 3), 0.5),
    ):
        x = 3 + rng.standard_normal(shape)
        gain, shift = rng.standard_normal((2, shape[-1]))
        yield Case(name, (x, gain, shift, eps))


# ---- two images ----

IMAGES = np.array([[[3.0, 1], [0, 2]], [[0, 1], [3, 2]]])


def _unit(x: Any) -> Any:
    return _norm(x, np.ones(2), np.zeros(2), 1e-12)


def _means(axis: int = 1) -> Any:
    """The mean row of each image, without the norm and with it."""
    return np.concatenate(
        [IMAGES.mean(axis), _unit(IMAGES).mean(axis)]
    ).round(6)


# ---- the size of matrices ----

FACTORS = (1, 2, 5, 10)


@cache
def _moved(
    *,
    everything: bool = False,
    piled_up: bool = False,
    parts: tuple[str, ...] = ("",),
) -> Any:
    """How far narrow layers, multiplied by a number, move their input."""
    import torch

    from attention_in_detail.insights.layer_norm import (
        RowReader,
        glyph_images,
        moved,
        restart,
    )
    from attention_in_detail.nn import EncoderLayer

    images, _ = glyph_images(np.random.default_rng(3), 4)
    blank = [
        EncoderLayer(64, 4, norm_first=True).double() for _ in range(2)
    ]
    found, so_far = [], 1
    for factor in FACTORS:
        so_far *= factor
        layers = restart(blank, "narrow", seed=0)
        with torch.no_grad():
            for layer in layers:
                for name, x in layer.named_parameters():
                    if (x.ndim == 2 or everything) and any(
                        part in name for part in parts
                    ):
                        x *= so_far if piled_up else factor
        found.append(moved(RowReader(layers, seed=0), images))
    return np.array(found)


EXERCISES = (
    Exercise(
        "ex-transfer-count",
        "by hand",
        (1,),
        2,
        _counts,
        (
            Mistake(
                lambda: _counts(norms=NORMS - 1),
                "Those that are tuned: the norm before the layers is missing.",
            ),
            Mistake(
                lambda: _counts(norms=NORMS - DEPTH),
                "Those that are tuned: not all norms are counted. Each layer has two, and one stands before the layers.",
            ),
            Mistake(
                lambda: _counts(norms=DEPTH),
                "Those that are tuned: a layer has more norms than one, and one more stands before the layers.",
            ),
            Mistake(
                lambda: _counts(norms=0),
                "Those that are tuned: no norm is counted. Their gains and shifts are tuned.",
            ),
            Mistake(
                lambda: _counts(each=1),
                "Those that are tuned: a norm has a gain and a shift for each coordinate.",
            ),
            Mistake(
                lambda: _counts(task=TASK - T * WIDTH),
                "Those that are tuned: the new input or the positions are missing, or all norms within the layers.",
            ),
            Mistake(
                lambda: _counts(biases=0),
                "Those that are frozen: the biases of the attention and of the network are missing.",
            ),
            Mistake(
                lambda: _counts(biases=BIASES - WIDTH),
                "Those that are frozen: a short bias of each layer is missing. Each of the matrices has one, as wide as what "
                "it hands on.",
            ),
            Mistake(
                lambda: _counts(biases=BIASES - 4 * WIDTH),
                "Those that are frozen: in each layer the biases of the attention are missing, or the wide one of the network.",
            ),
            Mistake(
                lambda: _counts() // np.array([1, DEPTH]),
                "Those that are frozen: that is one layer.",
            ),
        ),
        axes=("answer",),
    ),
    Exercise(
        "ex-transfer-norm",
        "implement",
        (1,),
        1,
        _norm,
        (
            Mistake(
                lambda *given: _norm_by_hand(*given, axis=-2),
                "Mean and variance were taken along the rows' axis, so that rows learn of each other. A norm works on each row "
                "alone, along the last axis.",
            ),
            Mistake(
                lambda *given: _norm_by_hand(*given, axis=None),
                "Mean and variance run over all rows together. Each row has its own.",
            ),
            Mistake(
                lambda *given: _norm_by_hand(*given, axis=0),
                "Mean and variance run down axis=0. Each row has its own, along the last axis.",
            ),
            Mistake(
                _beside_the_root,
                "Epsilon was added to the root. Add it to the variance, under the root.",
            ),
            Mistake(
                lambda *given: _norm_by_hand(*given, less=1),
                "The variance was divided by D − 1. Here it is the mean of the squares: divide by D.",
            ),
            Mistake(
                lambda *given: _norm_by_hand(*given, root=False),
                "It divides by the variance. Divide by its root.",
            ),
            Mistake(
                lambda x, gain, shift, eps: _norm_by_hand(
                    x, gain, shift, 0.0
                ),
                "ε is left out. It matters for rows that hardly vary.",
            ),
            Mistake(
                _gain_first,
                "Gain and shift came first, and the norm took most of them back. First the unit row, then the gain, then the "
                "shift.",
            ),
            Mistake(
                _plus_first,
                "The shift was multiplied by the gain. It is added last.",
            ),
        ),
        cases=_norm_cases,
        axes=("D",),
    ),
    Exercise(
        "ex-transfer-hand",
        "by hand",
        (3,),
        1,
        _means,
        (
            Mistake(
                lambda: _means(axis=2),
                "These are means in each row. The mean of the rows runs over the tokens, one number for each column.",
            ),
            Mistake(
                lambda: 2 * _means(),
                "These are sums. The mean divides by the number of rows.",
            ),
            Mistake(
                lambda: np.concatenate(
                    [_means()[:2], _unit(IMAGES)[:, 0].round(6)]
                ),
                "With the norm, these are the first rows of the images. The mean runs over both rows.",
            ),
            Mistake(
                lambda: _means()[[0, 1, 0, 1]],
                "The last two are the first two: the norm has not been at work.",
            ),
        ),
        axes=("case", "D"),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-transfer-keeps",
        "measure",
        (2,),
        2,
        lambda: ("yes", "yes", "yes", "no", "no"),
        (
            Mistake(
                lambda: ("yes", "yes", "yes", "yes", "yes"),
                "Then shuffling would change nothing at all. What depends on where an entry stands?",
            ),
            Mistake(
                lambda: ("yes", "yes", "yes", "yes", "no"),
                "Look at the fourth again: the sum of the squares of all singular values is kept. Is each of them? Shuffle a "
                "matrix of rank 1.",
            ),
            Mistake(
                lambda: ("yes", "yes", "yes", "no", "yes"),
                "Look at the fifth again: the page prints it for each start.",
            ),
            Mistake(
                lambda: ("yes", "yes", "no", "no", "no"),
                "Look at the third again: it is made of the entries alone, wherever they stand.",
            ),
        ),
        choices=("yes", "no"),
    ),
    Exercise(
        "ex-transfer-scale",
        "measure",
        (3,),
        2,
        _moved,
        (
            Mistake(
                lambda: _moved(everything=True),
                "All parameters were multiplied, the gains of the norms too. Only the matrices are meant.",
            ),
            Mistake(
                lambda: _moved(piled_up=True),
                "The factors have piled up: the matrices were multiplied in place, and then again. Make the narrow start anew "
                "for each factor.",
            ),
            Mistake(
                lambda: _moved(parts=("attention",)),
                "Only the matrices of the attention were multiplied. The feed-forward network has two as well.",
            ),
            Mistake(
                lambda: _moved(parts=("widening", "narrowing")),
                "Only the matrices of the feed-forward network were multiplied. The attention has four as well.",
            ),
        ),
        axes=("factor",),
        tolerance=1e-3,
    ),
    Exercise("ex-transfer-gain", "prove", (1, 3), 3),
)
