"""Training: the only place of the book where weights are learned. Needs torch.

One thread and one seed: the same call gives the same weights on the same machine. In
float64 the rounding of another machine moves them in the last digits only.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from attention_in_detail._checks import checked
from attention_in_detail.encoder_decoder import TransformerParameters
from attention_in_detail.masks import padding_mask
from attention_in_detail.nn.transformer import Transformer
from attention_in_detail.notation import Float, Size
from attention_in_detail.tasks._checks import (
    check_model,
    check_train,
    check_train_number_words,
)
from attention_in_detail.tasks.number_words import (
    ENGLISH,
    GERMAN,
    Batch,
    batches,
    split_numbers,
)
from attention_in_detail.trees import map_arrays

__all__ = [
    "numpy_parameters",
    "teacher_forced_loss",
    "train",
    "train_number_words",
]

WIDTHS = {
    "D": 64,
    "heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "D_ff": 128,
}
"""The sizes of the model of number words."""
DROPOUT = 0.05
"""Of the model of number words. Without any, the heads share the work, and none points at the gold word often."""


@checked(check_train)
def train(
    model: torch.nn.Module,
    batches: Iterable[Any],
    loss: Callable[[Any, Any], Float[Tensor, ""]],
    *,
    steps: Size,
    warm_up: Size = 200,
    rate: float = 2e-3,
    report: Callable[[str], None] | None = None,
    every: Size = 50,
) -> list[float]:
    r"""Take AdamW steps against the gradient of ``loss(model, batch)``, one a batch.

    .. math:: \eta_n = \eta \cdot \begin{cases} n / n_w & n \le n_w \\
        \tfrac12 \bigl(1 + \cos(\pi\, \tfrac{n - n_w}{N - n_w})\bigr) & n > n_w \end{cases}

    N is ``steps``, n_w is ``warm_up`` (or N, if that is less), η is ``rate``.

    Args:
        model: what is trained, in place; it is in training mode meanwhile, and in
            evaluation mode after.
        batches: gives as many batches as steps are taken.
        loss: from the model and a batch to a number.
        steps: how many to take.
        warm_up: over how many steps the rate rises.
        rate: the highest.
        report: is given a line of text now and then; ``print`` shows it.
        every: after how many steps.

    Returns:
        The loss of each step, before the step was taken.

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if a number is out of range, or the batches end too early.

    Source:
        Loshchilov and Hutter (2019), algorithm 2 (AdamW); the cosine is theirs of 2017.
    """
    optimiser = torch.optim.AdamW(model.parameters(), lr=float(rate))
    losses, steps, given = [], int(steps), iter(batches)
    model.train()
    with one_thread():
        for n in range(1, steps + 1):
            batch = next(given, None)
            if batch is None:
                raise ValueError(
                    f"batches ended after {n - 1}, but steps is {steps}"
                )
            for group in optimiser.param_groups:
                group["lr"] = rate * share_of_rate(n, steps, int(warm_up))
            optimiser.zero_grad()
            found = loss(model, batch)
            found.backward()
            optimiser.step()
            losses.append(float(found.detach()))
            if report is not None and n % int(every) == 0:
                report(f"step {n:4}: loss {losses[-1]:.3f}")
    model.eval()
    return losses


def share_of_rate(n: int, steps: int, warm_up: int) -> float:
    """Return which share of the highest rate step n of 1, …, ``steps`` has."""
    warm_up = min(warm_up, steps)
    if n <= warm_up:
        return n / warm_up
    done = (n - warm_up) / (steps - warm_up)
    return (1 + math.cos(math.pi * done)) / 2


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread: sums then have one order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def teacher_forced_loss(
    model: Transformer, batch: Batch
) -> Float[Tensor, ""]:
    r"""Return the mean of −log P(right token) over all real target positions of a batch.

    .. math:: -\frac1N \sum_{b} \sum_{i=1}^{\ell_b} \log P(t_{b,i} \mid t_{b,1}, \dots, t_{b,i-1}, s_b)

    The decoder is given the right tokens before each position, whatever it would have
    said itself: *teacher forcing*.

    Args:
        model: of the task.
        batch: from :func:`attention_in_detail.tasks.number_words.make_batch`.

    Returns:
        A number with a gradient.
    """
    source, given, wanted = (
        torch.from_numpy(x)
        for x in (batch.source, batch.given, batch.wanted)
    )
    lengths = torch.from_numpy(batch.source_lengths)
    # With the weights asked for, dropout is the same on every processor.
    logits, *_ = model(
        source,
        given,
        source_mask=padding_mask.unchecked(lengths, source.shape[1]),
        return_weights=True,
    )
    real = padding_mask.unchecked(
        torch.from_numpy(batch.target_lengths), wanted.shape[1]
    )[:, 0]  # (B, T)
    return F.cross_entropy(logits[real], wanted[real])


@checked(check_train_number_words)
def train_number_words(
    *,
    seed: Size,
    steps: Size = 400,
    size: Size = 128,
    dtype: Literal["float32", "float64"] = "float32",
    norm_first: bool = False,
    report: Callable[[str], None] | None = None,
) -> tuple[Transformer, list[float]]:
    """Train a small Transformer on English to German number words, by teacher forcing.

    The held-out numbers of :func:`attention_in_detail.tasks.number_words.split_numbers`
    are never seen, whatever the seed is.

    Args:
        seed: of the first weights, the batches and the dropout; what torch has drawn
            before and draws after has no part in it.
        steps: how many to take.
        size: how many numbers a batch has.
        dtype: in which to compute. Both start from the same weights.
        norm_first: pre-norm or post-norm layers.
        report: as in :func:`train`.

    Returns:
        The model, in evaluation mode, and the loss of each step.

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if a number is out of range, or ``dtype`` is another.
    """
    training, _ = split_numbers.unchecked()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(seed))
        model = Transformer(
            len(ENGLISH),
            len(GERMAN),
            norm_first=norm_first,
            dropout=DROPOUT,
            **WIDTHS,
        ).double()
        model.reset_parameters()  # drawn in float64, whatever comes after
        model = model.to(getattr(torch, dtype))
        losses = train.unchecked(
            model,
            batches.unchecked(training, size, seed=seed),
            teacher_forced_loss,
            steps=steps,
            report=report,
        )
    return model, losses


@checked(check_model)
def numpy_parameters(model: Transformer) -> TransformerParameters:
    """Return copies of a model's weights as arrays of NumPy, for the functions.

    Args:
        model: any module of this book.

    Returns:
        Its parameters, in their dtype; later training does not change them.

    Raises:
        TypeError: if ``model`` is no such module.
    """
    return map_arrays.unchecked(
        model.as_parameters(), lambda x: x.detach().cpu().numpy().copy()
    )
