"""Which heads a small translator needs: one at a time, step by step, and with gates that are learned."""

from __future__ import annotations

from typing import Any

import numpy as np
from running import SEEDS, run

from attention_in_detail.insights.pruning import (
    KINDS,
    gated,
    gates_without,
    head_importance,
    learn_gates,
    pruning_order,
    tune_with_gates,
)
from attention_in_detail.insights.translator import (
    exact_match,
    gold_mass,
    number_losses,
    split,
    tensor_batch,
    train_translator,
    training_batches,
)

HEADS, STEP = 48, 4
STEPS, PENALTY = 200, 0.1
CURVES: dict[str, list[list[float]]] = {}

LABELS = {
    "accuracy": ("exact match of the whole model", ".3f"),
    "single_share": (
        "share of heads that alone cost under 0.01 of it",
        ".3f",
    ),
    "single_worst": ("what the worst single head costs", ".3f"),
    "rank": (
        "rank correlation of importance and loss without the head",
        ".2f",
    ),
    **{
        f"{kind}_{percent}": (
            f"exact match with {percent} % of the {kind} heads pruned",
            ".3f",
        )
        for percent in (25, 50, 75)
        for kind in KINDS
    },
    **{
        f"{order}_{percent}": (
            f"exact match with {percent} % of all heads pruned, {words}",
            ".3f",
        )
        for percent in (25, 33)
        for order, words in (
            ("once", "importance measured once"),
            ("anew", "importance measured anew every 4 heads"),
            ("random", "random order"),
        )
    },
    "left": ("heads that the gates leave, of 48", ".1f"),
    "left_encoder": ("of these, encoder", ".1f"),
    "left_decoder": ("of these, decoder", ".1f"),
    "left_cross": ("of these, cross", ".1f"),
    "gates_accuracy": ("exact match with the gates", ".3f"),
    "untuned": ("the same heads in the model before tuning", ".3f"),
    "random_tuned": (
        "as many random heads of each attention, tuned as long",
        ".3f",
    ),
    "anywhere_tuned": (
        "as many random heads anywhere, tuned as long",
        ".3f",
    ),
    "gold_kept": (
        "weight on the right word, cross heads that stayed",
        ".2f",
    ),
    "gold_gone": (
        "weight on the right word, cross heads that went",
        ".2f",
    ),
}


def ranks(x: Any) -> np.ndarray:
    return np.asarray(x).ravel().argsort().argsort()


def measure(seed: int) -> dict[str, float]:
    p = train_translator(seed)
    known, held_out = split(seed)
    asked = tensor_batch(known[:100])  # where importance is measured
    test = tensor_batch(held_out)
    rng = np.random.default_rng(seed)

    def kept(gone: Any) -> float:
        return exact_match(gated(p, gates_without(p, gone)), test)

    def curve(order: Any, step: int) -> list[float]:
        return [kept(order[:n]) for n in range(0, len(order) + 1, step)]

    def note(name: str, values: list[float]) -> list[float]:
        CURVES.setdefault(name, []).append([round(v, 4) for v in values])
        return values

    whole = kept([])
    loss = float(number_losses(p, test).mean())
    alone = [gates_without(p, [n]) for n in range(HEADS)]
    costs = np.array(
        [whole - exact_match(gated(p, g), test) for g in alone]
    )
    losses = [float(number_losses(gated(p, g), test).mean()) for g in alone]
    found = {
        "accuracy": whole,
        "single_share": float((costs < 0.01).mean()),
        "single_worst": float(costs.max()),
        "rank": float(
            np.corrcoef(
                ranks(head_importance(p, asked)),
                ranks(np.array(losses) - loss),
            )[0, 1]
        ),
    }
    for kind in KINDS:
        order = pruning_order(p, asked, kinds=(kind,), every=2)
        values = note(kind, curve(order, 2))
        found |= {f"{kind}_{n}": values[n * 8 // 100] for n in (25, 50, 75)}
    once = note("once", curve(pruning_order(p, asked), STEP))
    anew = note("anew", curve(pruning_order(p, asked, every=STEP), STEP))
    at_random = note(
        "random",
        np.mean(
            [curve(rng.permutation(HEADS), STEP) for _ in range(5)], axis=0
        ).tolist(),
    )
    for name, values in (
        ("once", once),
        ("anew", anew),
        ("random", at_random),
    ):
        found |= {f"{name}_25": values[3], f"{name}_33": values[4]}

    def batches() -> Any:
        return training_batches(seed, noise=1)

    tuned, gates = learn_gates(
        p, batches(), steps=STEPS, penalty=PENALTY, seed=seed
    )
    stay = gates > 0
    count = stay.sum(1).tolist()
    found |= {
        "left": sum(count),
        "left_encoder": sum(count[:2]),
        "left_decoder": sum(count[2:4]),
        "left_cross": sum(count[4:]),
        "gates_accuracy": exact_match(gated(tuned, gates), test),
        "untuned": exact_match(gated(p, stay.to(gates.dtype)), test),
    }

    def tuned_with(staying: list[int]) -> float:
        gone = sorted(set(range(HEADS)) - set(staying))
        chosen = gates_without(p, gone)
        tuned = tune_with_gates(p, batches(), chosen, steps=STEPS)
        return exact_match(gated(tuned, chosen), test)

    found["random_tuned"] = tuned_with(
        [
            8 * n + int(i)
            for n, k in enumerate(count)
            for i in rng.permutation(8)[:k]
        ]
    )
    found["anywhere_tuned"] = tuned_with(
        rng.permutation(HEADS)[: sum(count)].tolist()
    )
    gold, crossed = gold_mass(p, test), stay[4:]
    found["gold_kept"] = float(gold[crossed].mean())
    found["gold_gone"] = float(gold[~crossed].mean())
    return found


def more() -> dict[str, Any]:
    return {
        name: {
            "mean": np.mean(values, axis=0).round(4).tolist(),
            "least": np.min(values, axis=0).tolist(),
            "most": np.max(values, axis=0).tolist(),
        }
        for name, values in CURVES.items()
    }


if __name__ == "__main__":
    run(
        "pruning",
        measure,
        LABELS,
        seeds=SEEDS,
        packages=("numpy", "torch"),
        more=more,
    )
