"""Train the small decoder of the chapter on models of today, and others from which one of its parts is missing."""

from numbers import Real
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attention_in_detail._checks import checked, need_integer
from attention_in_detail.causal_self_attention import need_variants
from attention_in_detail.decoder_only import (
    DecoderOnlyParameters,
    decoder_only,
)
from attention_in_detail.insights.fitting import fit
from attention_in_detail.layers import EncoderLayerParameters
from attention_in_detail.notation import Size
from attention_in_detail.parameters import MultiHeadParameters
from attention_in_detail.pointwise import (
    FeedForwardParameters,
    LayerNormParameters,
)
from attention_in_detail.tasks.repeating import (
    VOCABULARY,
    draw_repeating,
    repeated,
)
from attention_in_detail.trees import map_arrays

__all__ = ["train_decoder_only"]

D, D_FF, HEADS, LAYERS, BATCH = 32, 64, 4, 2, 64
STEPS = 400
# Seven keys before its own are what a block of eight letters needs, and no more.
BEFORE, CAP = 7, 30.0


def check_train_decoder_only(
    *,
    seed: Any,
    steps: Any = STEPS,
    kv_heads: Any = 2,
    rotary_base: Any = 10000.0,
    sinks: Any = 1,
    report: Any = None,
) -> None:
    need_integer("seed", seed, least=0)
    need_integer("steps", steps, least=2)
    like = MultiHeadParameters.init(D, HEADS, kv_heads=kv_heads, seed=0)
    need_variants(like, rotary_base, None, BEFORE, sinks, CAP)
    if report is not None:
        need_integer("report", report, least=1)


def drawn_decoder(
    seed: int, kv_heads: int, rotary_base: Real | None, sinks: int
) -> DecoderOnlyParameters:
    """Draw the parameters, tensors of float64 that want a gradient."""
    generator = torch.Generator().manual_seed(seed)

    def draw(rows: int, columns: int) -> Tensor:
        drawn = torch.randn(
            rows, columns, generator=generator, dtype=torch.float64
        )
        return drawn * rows**-0.5

    def norm() -> LayerNormParameters:
        return LayerNormParameters(torch.ones(D, dtype=torch.float64))

    like = torch.zeros(1, dtype=torch.float64)
    layers = tuple(
        EncoderLayerParameters(
            MultiHeadParameters.init(
                D,
                HEADS,
                kv_heads=kv_heads,
                bias=False,
                seed=LAYERS * seed + n,
                like=like,
            ),
            norm(),
            FeedForwardParameters(draw(D, D_FF), draw(D_FF, D)),
            norm(),
            True,
        )
        for n in range(LAYERS)
    )
    drawn = DecoderOnlyParameters(
        draw(D, len(VOCABULARY)).mT,
        layers,
        norm(),
        rotary_base=rotary_base,
        before=BEFORE,
        sinks=sinks,
        cap=CAP,
    )
    return map_arrays(drawn, lambda x: x.clone().requires_grad_())


@checked(check_train_decoder_only)
def train_decoder_only(
    *,
    seed: Size,
    steps: Size = STEPS,
    kv_heads: Size = 2,
    rotary_base: Real | None = 10000.0,
    sinks: Size = 1,
    report: Size | None = None,
) -> DecoderOnlyParameters:
    r"""Train a decoder to go on with sequences that repeat themselves.

    .. math:: -\operatorname{mean}_{i \ge m} \ln \sigma(G_i)_{t_{i+1}} \to \min

    Two pre-norm layers of width 32 with four heads, a window of seven keys before the
    query's own, a cap of 30. The mean is over the positions whose next token can be known.

    Args:
        seed: of what draws the weights and the batches.
        steps: how many, each with 64 sequences of 32 tokens.
        kv_heads: how many heads have keys and values of their own.
        rotary_base: as in :func:`attention_in_detail.cached_self_attention`. With None,
            nothing but mask and window tells one order from another.
        sinks: likewise. With 0, the number that a sequence begins with leaves the window.
        report: as in :func:`attention_in_detail.insights.fitting.fit`.

    Returns:
        The parameters, tensors of float64.

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if a number is out of range.

    Source:
        This book.
    """
    seed = int(seed)
    p = drawn_decoder(seed, kv_heads, rotary_base, sinks)
    leaves: list[Tensor] = []
    map_arrays(p, lambda x: leaves.append(x) or x)

    def loss_at(step: int) -> Tensor:
        # Batches that no other seed below 100,000 sees, and no test.
        drawn = draw_repeating.unchecked(
            BATCH, seed=100_000 * (step + 1) + seed
        )
        tokens = torch.from_numpy(drawn)
        logits, _ = decoder_only.unchecked(p, tokens)
        known = repeated.unchecked(tokens)[:, :-1]
        return F.cross_entropy(logits[:, :-1][known], tokens[:, 1:][known])

    fit(
        leaves,
        loss_at,
        steps=int(steps),
        learning_rate=1e-2,
        warmup=min(40, int(steps) - 1),
        report=report,
    )
    return map_arrays(p, lambda x: x.detach())
