"""A small translator with many heads, which the chapters on pruning and on shared projections take apart."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from attention_in_detail._checks import checked, kind, need_integer
from attention_in_detail.encoder_decoder import (
    TransformerParameters,
    transformer,
)
from attention_in_detail.head_scores import pattern_mass
from attention_in_detail.insights.fitting import fit
from attention_in_detail.masks import padding_mask
from attention_in_detail.models._checks import check_load
from attention_in_detail.nn import Transformer
from attention_in_detail.notation import Array, Float, Integer, Size
from attention_in_detail.tasks.number_words import (
    ENGLISH,
    GERMAN,
    Batch,
    batches,
    gold_alignment,
    make_batch,
)
from attention_in_detail.trained import SHA256
from attention_in_detail.trained._files import trained_parameters
from attention_in_detail.trees import map_arrays

__all__ = [
    "NUMBERS",
    "exact_match",
    "gold_mass",
    "load_translator",
    "number_losses",
    "split",
    "tensor_batch",
    "train_translator",
    "training_batches",
]

NUMBERS = 10_000
"""The translator knows the numbers below it, from English words to German ones."""
HELD_OUT = 500
STEPS = 240


def check_split(seed: Any) -> None:
    need_integer("seed", seed, least=0)


def check_tensor_batch(numbers: Any) -> None:
    for number in numbers:
        need_integer("a number", number)
        if not 0 <= number < NUMBERS:
            raise ValueError(
                f"a number is {number}, but must be from 0 to {NUMBERS - 1:,}"
            )


def check_losses(parameters: Any, batch: Any) -> None:
    if not isinstance(parameters, TransformerParameters):
        raise TypeError(
            f"parameters must be TransformerParameters, not {kind(parameters)}"
        )
    if not isinstance(batch, Batch) or not isinstance(batch.source, Tensor):
        raise TypeError(
            f"batch must be one that tensor_batch gives, not {kind(batch)}"
        )


def check_train(
    seed: Any,
    *,
    steps: Any = STEPS,
    D: Any = 64,
    heads: Any = 8,
    report: Any = None,
) -> None:
    need_integer("seed", seed, least=0)
    need_integer("steps", steps, least=1)


@checked(check_split)
def split(
    seed: Size,
) -> tuple[Integer[Array, " N"], Integer[Array, " M"]]:
    """Split the numbers below :data:`NUMBERS` into those to train on and 500 that are held out.

    Args:
        seed: the same seed gives the same split.

    Returns:
        The numbers to train on and the held-out ones, each in an order of its own.

    Raises:
        TypeError: if ``seed`` is not an integer.
        ValueError: if it is negative.
    """
    order = np.random.default_rng(int(seed)).permutation(NUMBERS)
    return order[HELD_OUT:], order[:HELD_OUT]


@checked(check_tensor_batch)
def tensor_batch(numbers: Sequence[int] | Array) -> Batch:
    """Return the batch of these numbers with tensors in place of arrays.

    Args:
        numbers: one or more, from 0 to 9,999.

    Returns:
        What :func:`attention_in_detail.tasks.number_words.make_batch` gives, in torch.

    Raises:
        TypeError: if a number is not an integer.
        ValueError: if one is out of range.
    """
    return _tensors(make_batch(numbers))


def _tensors(batch: Batch) -> Batch:
    return Batch(*map(torch.from_numpy, vars(batch).values()))


def check_training_batches(seed: Any, *, noise: Any = 0) -> None:
    need_integer("seed", seed, least=0)
    need_integer("noise", noise, least=0)


@checked(check_training_batches)
def training_batches(seed: Size, *, noise: Size = 0) -> Iterator[Batch]:
    """Yield batches of 64 of the numbers to train on, without end.

    Args:
        seed: of the split.
        noise: another number gives other batches of the same split.

    Returns:
        An iterator over what :func:`tensor_batch` gives.

    Raises:
        TypeError: if a number is not an integer.
        ValueError: if one is negative.
    """
    numbers = split.unchecked(seed)[0]
    drawn = batches(numbers, 64, seed=1000 * int(noise) + int(seed))
    return map(_tensors, drawn)


def _run(
    parameters: TransformerParameters, batch: Batch, **options: Any
) -> Any:
    """Return the logits for each wanted token, told the ones before it, shape (B, T, V)."""
    mask = padding_mask.unchecked(
        batch.source_lengths, batch.source.shape[-1]
    )
    return transformer.unchecked(
        parameters, batch.source, batch.given, source_mask=mask, **options
    )


def _asked(batch: Batch) -> Tensor:
    """Say which wanted tokens are no padding, shape (B, T)."""
    places = torch.arange(batch.wanted.shape[-1])
    return places < batch.target_lengths[..., None]


@checked(check_losses)
def number_losses(
    parameters: TransformerParameters, batch: Batch
) -> Float[Tensor, " B"]:
    r"""Return the loss of each example: how surprised the model is by the whole German word.

    .. math:: L_b = -\sum_{t} \ln p(\text{wanted}_{b,t} \mid \text{source}_b, \text{given}_{b, \le t})

    Args:
        parameters: of the whole model, tensors.
        batch: from :func:`tensor_batch`.

    Returns:
        One number an example, shape (B,). Padding counts nothing.

    Raises:
        TypeError: if an argument is of another kind.
    """
    logits = _run(parameters, batch)
    surprise = F.cross_entropy(
        logits.mT, batch.wanted, reduction="none"
    )  # (B, T)
    return (surprise * _asked(batch)).sum(-1)


@checked(check_losses)
def exact_match(parameters: TransformerParameters, batch: Batch) -> float:
    """Return the share of examples whose every German token is right.

    Each token is asked for with the right ones before it. If all are right, the model
    that reads its own tokens says the same ones; if one is wrong, it says that wrong one
    too. So this is also the exact match of greedy decoding.

    Args:
        parameters: of the whole model, tensors.
        batch: from :func:`tensor_batch`.

    Returns:
        From 0 to 1.

    Raises:
        TypeError: if an argument is of another kind.
    """
    with torch.no_grad():
        said = _run(parameters, batch).argmax(-1)
    right = (said == batch.wanted) | ~_asked(batch)
    return float(right.all(-1).double().mean())


@checked(check_losses)
def gold_mass(
    parameters: TransformerParameters, batch: Batch
) -> Float[Tensor, "N h"]:
    """Say how much each head of the cross-attention looks at the word that is being translated.

    The query that is to say a German token is asked how much of its weight falls on the
    English word of that token; "und" and the end translate no word and are not asked.

    Args:
        parameters: of the whole model, tensors.
        batch: from :func:`tensor_batch`.

    Returns:
        The mean over the batch of :func:`attention_in_detail.head_scores.pattern_mass`
        for each layer and head: 1 for a head that always looks at that word.

    Raises:
        TypeError: if an argument is of another kind.
    """
    with torch.no_grad():
        *_, crossed = _run(parameters, batch, return_weights=True)
    weights = torch.stack(crossed)  # (N, B, h, T, S)
    found = []
    for b, number in enumerate(batch.numbers.tolist()):
        gold = gold_alignment.unchecked(number)
        pattern = torch.zeros(weights.shape[-2:], dtype=torch.bool)
        for t, place in enumerate(gold):
            if place is not None:
                pattern[t, place] = True
        found.append(pattern_mass.unchecked(weights[:, b], pattern))
    return torch.stack(found).mean(0)


@checked(check_train)
def train_translator(
    seed: Size,
    *,
    steps: Size = STEPS,
    D: Size = 64,
    heads: Size = 8,
    report: Size | None = None,
) -> TransformerParameters:
    """Train a translator of English number words into German ones.

    2 encoder and 2 decoder layers, pre-norm, feed-forward networks 2·D wide inside;
    batches of 64 of the numbers that :func:`split` gives for the seed.

    Args:
        seed: of the split, of the first weights and of the batches.
        steps: how many.
        D: the width.
        heads: of each attention; divides D.
        report: as in :func:`attention_in_detail.insights.fitting.fit`.

    Returns:
        The parameters, tensors of float32 without gradients.

    Raises:
        TypeError: if a number is not an integer.
        ValueError: if one is out of range.
    """
    model = _untrained(D, heads, seed)
    drawn = training_batches.unchecked(seed)

    def loss_at(step: int) -> Tensor:
        batch = next(drawn)
        losses = number_losses.unchecked(model.as_parameters(), batch)
        return losses.sum() / batch.target_lengths.sum()

    fit(
        model.parameters(),
        loss_at,
        steps=steps,
        learning_rate=3e-3,
        warmup=int(steps) // 10,
        report=report,
    )
    return model.requires_grad_(False).as_parameters()


def _untrained(D: Size, heads: Size, seed: Size) -> Transformer:
    with torch.random.fork_rng():
        torch.manual_seed(int(seed))
        return Transformer(
            len(ENGLISH),
            len(GERMAN),
            D,
            heads,
            encoder_layers=2,
            decoder_layers=2,
            D_ff=2 * int(D),
            norm_first=True,
        )


@checked(check_load)
def load_translator(
    dtype: Literal["float32", "float64"] = "float64",
) -> TransformerParameters:
    """Load the translator that is stored with this book: ``train_translator(0)``, rounded to float16 once.

    Args:
        dtype: the precision of the parameters.

    Returns:
        The parameters, tensors without gradients.

    Raises:
        ValueError: if ``dtype`` is another.
        WeightsError: if the file of weights is missing or is not the one known.
    """
    kept = trained_parameters("translator", SHA256["translator"], dtype)
    return map_arrays(kept, torch.from_numpy)
