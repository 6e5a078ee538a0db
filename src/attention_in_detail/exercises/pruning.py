"""Exercises of the chapter *Head roles and pruning*. PyTorch is loaded only where a gate is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.insights.results import experiment

__all__ = ["EXERCISES"]

# ---- a gate by hand ----

NOISE = np.array([1 / 2, 4 / 5])


def _logit(p: Any) -> Any:
    return np.log(p) - np.log(1 - p)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _gates(
    power: int = 1, *, stretched: bool = True, turned: bool = True
) -> Any:
    """Two gates and the u from which a gate is 1, with the temperature taken to a power."""
    from attention_in_detail.insights.pruning import (
        LEAST,
        MOST,
        TEMPERATURE,
    )

    beta = TEMPERATURE**power
    s = _sigmoid(_logit(NOISE) / beta)
    xi = s * (MOST - LEAST) + LEAST if stretched else s
    end = (1 - LEAST) / (MOST - LEAST)
    return np.array([*xi, _sigmoid(beta * _logit(end)) if turned else end])


def _gate_values() -> Any:
    """The same from the function of the chapter, but for the border."""
    import torch

    from attention_in_detail.insights.pruning import hard_concrete

    xi = hard_concrete(
        torch.zeros(2, dtype=torch.float64), torch.tensor(NOISE)
    )
    return np.array([*xi.tolist(), _gates()[2]])


# ---- gates as a factor ----


def _gated(W_O: Any, xi: Any) -> Any:
    return W_O * np.repeat(xi, len(W_O) // len(xi))[:, None]


def _gate_cases() -> Iterator[Case]:
    rng = np.random.default_rng(23)
    for name, h, D_h in (
        ("three heads of width 2", 3, 2),
        ("two heads of width 4", 2, 4),
    ):
        D = h * D_h
        yield Case(name, (rng.standard_normal((D, D)), rng.uniform(size=h)))
    yield Case(
        "a head that is taken away",
        (rng.standard_normal((4, 4)), np.array([1.0, 0.0])),
    )
    yield Case(
        "two heads of width 3 on rows of width 4",
        (rng.standard_normal((6, 4)), rng.uniform(size=2)),
    )


def _width_of_rows(W_O: Any, xi: Any) -> Any:
    D_h, changed = W_O.shape[1] // len(xi), W_O.copy()
    for i, gate in enumerate(xi):
        changed[i * D_h : (i + 1) * D_h] *= gate
    return changed


# ---- importance ----


def _slopes(Y: Any, G: Any) -> Any:
    return (Y * G[:, None]).sum((-2, -1))


def _importance(Y: Any, G: Any) -> Any:
    return np.abs(_slopes(Y, G)).mean(0)


def _importance_cases() -> Iterator[Case]:
    rng = np.random.default_rng(2)
    for name, B, h in (
        ("four examples and three heads", 4, 3),
        ("as many heads as positions", 5, 2),
    ):
        Y = rng.standard_normal((B, h, 2, 6))
        yield Case(name, (Y, rng.standard_normal((B, 2, 6))))


# ---- how many heads can go ----

KINDS = ("encoder", "decoder", "cross")
LEFT = 0.9


def _spared(ends: tuple[str, ...] = ("mean", "least")) -> Any:
    """How many heads of 16 can go, two at a time, before the exact match falls below the limit."""
    more = experiment("pruning").more
    return np.array(
        [
            [2 * (np.sum(np.array(more[kind][end]) >= LEFT) - 1)]
            for end in ends
            for kind in KINDS
        ]
    ).reshape(len(ends), len(KINDS))


EXERCISES = (
    Exercise(
        "ex-pruning-hand",
        "by hand",
        (3,),
        2,
        _gate_values,
        (
            Mistake(
                lambda: _gates(stretched=False),
                "The gates are s: the stretch from γ to ζ is missing. Without it no gate would ever be 0 or 1.",
            ),
            Mistake(
                lambda: _gates(0),
                "The temperature β is left out: divide the logarithms by it before the σ.",
            ),
            Mistake(
                lambda: _gates(-1),
                "The temperature β was multiplied in. Divide by it.",
            ),
            Mistake(
                lambda: _gates(turned=False),
                "The last number is an s. Go back to the u that gives it: undo σ first, then the division by β.",
            ),
        ),
        axes=("question",),
        tolerance=1e-3,
    ),
    Exercise(
        "ex-pruning-gate",
        "implement",
        (1,),
        1,
        _gated,
        (
            Mistake(
                lambda W_O, xi: (
                    W_O * np.tile(xi, len(W_O) // len(xi))[:, None]
                ),
                "The gates come in turns, row by row. The rows of a head stand together: a block of D_h rows for each gate.",
            ),
            Mistake(
                lambda W_O, xi: (
                    W_O * np.repeat(xi, W_O.shape[1] // len(xi))
                ),
                "The gates stand on the columns. The columns are coordinates of the output, which all heads share; a head owns "
                "rows.",
            ),
            Mistake(
                _width_of_rows,
                "The width of a head was taken from D. Take it from the axis on which the heads stand side by side.",
            ),
            Mistake(
                lambda W_O, xi: _gated(W_O, 1 - xi),
                "The wrong way round: a gate of 1 leaves its head as it is.",
            ),
            Mistake(
                lambda W_O, xi: _gated(W_O, xi / xi.sum()),
                "The gates were divided by their sum. They are no weights of a mean: with all of them at 1 the model must "
                "stay as it is.",
            ),
        ),
        cases=_gate_cases,
        axes=("h·D_h", "D"),
    ),
    Exercise(
        "ex-pruning-slopes",
        "implement",
        (2,),
        2,
        _importance,
        (
            Mistake(
                lambda Y, G: np.abs(_slopes(Y, G).mean(0)),
                "The mean came before the size: an example that a head helps and one that it harms cancel.",
            ),
            Mistake(
                lambda Y, G: np.abs(Y * G[:, None]).sum((-2, -1)).mean(0),
                "The size was taken of each entry. A slope is a sum over all entries, with their signs; then comes its size.",
            ),
            Mistake(
                lambda Y, G: np.abs(_slopes(Y, G)).sum(0),
                "Summed up over the examples. Take the mean, or importance grows with the number of examples.",
            ),
            Mistake(
                lambda Y, G: _slopes(Y, G).mean(0),
                "The size is missing: importance is zero or more. And it is taken before the mean.",
            ),
            Mistake(
                lambda Y, G: np.linalg.norm(Y, axis=(-2, -1)).mean(0),
                "That is how much each head adds. What the loss makes of it is missing: multiply by G.",
            ),
        ),
        cases=_importance_cases,
        axes=("h",),
    ),
    Exercise(
        "ex-pruning-shows",
        "explain",
        (3,),
        2,
        lambda: ("shown", "not shown", "shown", "not shown", "shown"),
        (
            Mistake(
                lambda: ("shown",) * 5,
                "Two of them are not. Which of the sentences would the heads that were drawn by chance contradict?",
            ),
            Mistake(
                lambda: (
                    "shown",
                    "shown",
                    "shown",
                    "not shown",
                    "shown",
                ),
                "Look at the second again, and at the control: what did heads drawn by chance reach?",
            ),
            Mistake(
                lambda: ("shown", "not shown", "shown", "shown", "shown"),
                "Look at the fourth again: how much weight on the right word have the heads that go, and how much have uniform "
                "weights?",
            ),
            Mistake(
                lambda: (
                    "shown",
                    "not shown",
                    "shown",
                    "not shown",
                    "not shown",
                ),
                "Look at the fifth again: the table has the same heads in the model before it was trained on.",
            ),
            Mistake(
                lambda: ("not shown",) * 5,
                "Three of them stand in the tables. Compare the numbers of the section with each sentence.",
            ),
        ),
        choices=("shown", "not shown"),
    ),
    Exercise(
        "ex-pruning-spare",
        "measure",
        (4,),
        1,
        _spared,
        (
            Mistake(
                lambda: _spared() // 2,
                "These are steps of the figure. In one step two heads go.",
            ),
            Mistake(
                lambda: _spared() + 2,
                "With so many gone the limit is already passed. Asked for is the last number that still keeps it.",
            ),
            Mistake(
                lambda: _spared(("mean", "most")),
                "The second row is that of the best model. Asked for is the one that suffers most.",
            ),
            Mistake(
                lambda: 16 - _spared(),
                "So many stay. Asked for is how many go.",
            ),
            Mistake(
                lambda: _spared(("least", "mean")),
                "The two rows are exchanged: the mean comes first.",
            ),
        ),
        axes=("model", "kind"),
    ),
    Exercise("ex-pruning-prove", "prove", (2,), 3),
)
