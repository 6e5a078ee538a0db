"""Train a small model: one loop for every experiment, the same on every machine."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from attention_in_detail._checks import checked, kind, need_integer

__all__ = ["fit"]


def need_training(
    name: Any, known: Iterable[str], seed: Any, steps: Any, report: Any
) -> None:
    """Refuse what no training of a named model can run with."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a text, not {kind(name)}")
    if name not in known:
        raise ValueError(
            f"name is {name!r}, but can be: {'; '.join(known)}"
        )
    need_integer("seed", seed, least=0)
    need_integer("steps", steps, least=1)
    if report is not None:
        need_integer("report", report, least=1)


def check_fit(
    parameters: Any,
    loss_at: Any,
    *,
    steps: Any,
    learning_rate: Any = 1e-3,
    warmup: Any = 0,
    report: Any = None,
) -> None:
    need_integer("steps", steps, least=1)
    need_integer("warmup", warmup, least=0)
    if report is not None:
        need_integer("report", report, least=1)
    if not learning_rate > 0:
        raise ValueError(
            f"learning_rate is {learning_rate}, but must be positive"
        )


@checked(check_fit)
def fit(
    parameters: Iterable[Tensor],
    loss_at: Callable[[int], Tensor],
    *,
    steps: int,
    learning_rate: float = 1e-3,
    warmup: int = 0,
    report: int | None = None,
) -> list[float]:
    r"""Minimize a loss with Adam.

    The learning rate grows linearly over the first ``warmup`` steps, then falls along half a
    cosine to 0.

    Args:
        parameters: the tensors to train, in place.
        loss_at: gives the loss of a step; steps are counted from 0. All that is drawn at
            random is its matter, so that one seed gives one result.
        steps: how many.
        learning_rate: the largest.
        warmup: the steps over which it grows.
        report: after how many steps a line is printed; None prints nothing.

    Returns:
        The loss of each step.

    Raises:
        ValueError: if a number is out of its range, or the loss is not finite: training
            has diverged.
        TypeError: if a count is not an integer.

    Source:
        Kingma and Ba (2015), algorithm 1, without weight decay.
    """
    optimizer = torch.optim.Adam(list(parameters), lr=learning_rate)
    losses = []
    for step in range(steps):
        rate = learning_rate
        if step < warmup:
            rate *= (step + 1) / warmup
        else:
            done = (step - warmup) / (steps - warmup)
            rate *= 0.5 * (1 + math.cos(math.pi * done))
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = loss_at(step)
        if not bool(torch.isfinite(loss)):
            raise ValueError(
                f"the loss is {float(loss.detach())} at step {step}: training has diverged; "
                "lower learning_rate"
            )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        if report and ((step + 1) % report == 0 or step + 1 == steps):
            print(
                f"step {step + 1:>4} of {steps}   loss {losses[-1]:.3f}",
                flush=True,
            )
    return losses
