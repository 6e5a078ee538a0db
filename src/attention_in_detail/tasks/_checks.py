"""Input checks of the tasks, as in ``attention_in_detail._checks``."""

import numbers as kinds
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj

from attention_in_detail._checks import (
    kind,
    library,
    need_flag,
    need_integer,
)
from attention_in_detail._layer_checks import need_part

__all__: list[str] = []

LIMIT, V_S, V_T = 1_000_000, 32, 29


def need_in_range(name: str, n: Any, limit: int) -> None:
    need_integer(name, n)
    if not 0 <= n < limit:
        raise ValueError(
            f"{name} is {n:,}, but must be from 0 to {limit - 1:,}"
        )


def check_number(number: Any) -> None:
    need_in_range("number", number, LIMIT)


def need_integers(name: str, ids: Any, limit: int) -> None:
    """Refuse what is no sequence of integers from 0 to below ``limit``."""
    if is_array_api_obj(ids) and ids.ndim != 1:
        raise ValueError(
            f"{name} needs one axis, but has the shape {tuple(ids.shape)}"
        )
    if not is_array_api_obj(ids) and (
        isinstance(ids, str) or not isinstance(ids, Sequence)
    ):
        raise TypeError(
            f"{name} must be a sequence of integers, not {kind(ids)}"
        )
    if not is_array_api_obj(ids):
        for n in ids:
            if isinstance(n, bool) or not isinstance(n, kinds.Integral):
                raise TypeError(f"{name} must hold integers, not {kind(n)}")
        extremes = [min(ids), max(ids)] if len(ids) else []
    else:
        xp = array_namespace(ids)
        if not xp.isdtype(ids.dtype, "integral"):
            raise TypeError(f"{name} must hold integers, not {kind(ids)}")
        extremes = [int(xp.min(ids)), int(xp.max(ids))] if len(ids) else []
    for n in extremes:
        if not 0 <= n < limit:
            raise ValueError(
                f"{name} holds {n:,}, but each must be from 0 to {limit - 1:,}"
            )


def check_batch(numbers: Any) -> None:
    need_integers("numbers", numbers, LIMIT)
    if len(numbers) == 0:
        raise ValueError("numbers is empty; a batch needs at least one")


def check_batches(numbers: Any, size: Any, *, seed: Any) -> None:
    check_batch(numbers)
    need_integer("size", size, least=1)
    need_integer("seed", seed, least=0)


def check_split_numbers(*, held_out: Any = 1000, seed: Any = 0) -> None:
    need_integer("held_out", held_out, least=1)
    if held_out >= LIMIT:
        raise ValueError(
            f"held_out is {held_out:,}, but must be below {LIMIT:,}, so that some are left to train on"
        )
    need_integer("seed", seed, least=0)


def check_words(ids: Any, vocabulary: Any) -> None:
    if isinstance(vocabulary, str) or not isinstance(vocabulary, Sequence):
        raise TypeError(
            f"vocabulary must be a sequence of tokens, not {kind(vocabulary)}"
        )
    need_integers("ids", ids, len(vocabulary))


def need_model_of_the_task(parameters: Any) -> None:
    need_part("parameters", parameters, "TransformerParameters")
    table = parameters.source_embedding
    if not isinstance(table, np.ndarray):
        raise TypeError(
            f"parameters must hold arrays of NumPy, not of {library(array_namespace(table))}; "
            "attention_in_detail.map_arrays converts them"
        )
    for name, found, size in (
        ("source", table.shape[0], V_S),
        ("target", parameters.target_embedding.shape[0], V_T),
    ):
        if found != size:
            raise ValueError(
                f"parameters has {found} {name} tokens, but the task has {size}"
            )


def check_model_and_numbers(parameters: Any, numbers: Any) -> None:
    need_model_of_the_task(parameters)
    check_batch(numbers)


def check_traced_translation(
    parameters: Any, number: Any, *, candidates: Any = 3
) -> None:
    need_model_of_the_task(parameters)
    check_number(number)
    need_integer("candidates", candidates, least=1)
    if candidates > V_T:
        raise ValueError(
            f"candidates is {candidates}, but the target has {V_T} tokens"
        )


def check_train(
    model: Any,
    batches: Any,
    loss: Any,
    *,
    steps: Any,
    warm_up: Any = 200,
    rate: Any = 2e-3,
    report: Any = None,
    every: Any = 50,
) -> None:
    need_part("model", model, "Module")
    if not isinstance(batches, Iterable):
        raise TypeError(
            f"batches must give one batch after another, not be {kind(batches)}"
        )
    if not callable(loss):
        raise TypeError(f"loss must be a function, not {kind(loss)}")
    need_schedule(steps, warm_up, rate, report, every)


def need_schedule(
    steps: Any,
    warm_up: Any = 200,
    rate: Any = 2e-3,
    report: Any = None,
    every: Any = 50,
) -> None:
    need_integer("steps", steps, least=1)
    need_integer("warm_up", warm_up, least=0)
    if isinstance(rate, bool) or not isinstance(rate, kinds.Real):
        raise TypeError(f"rate must be a number, not {kind(rate)}")
    if not 0 < rate < float("inf"):
        raise ValueError(f"rate is {rate}, but must be above 0 and finite")
    if report is not None and not callable(report):
        raise TypeError(
            f"report must be a function such as print, not {kind(report)}"
        )
    need_integer("every", every, least=1)


def check_train_number_words(
    *,
    seed: Any,
    steps: Any = 400,
    size: Any = 128,
    dtype: Any = "float32",
    norm_first: Any = False,
    report: Any = None,
) -> None:
    need_integer("seed", seed, least=0)
    need_integer("size", size, least=1)
    need_flag("norm_first", norm_first)
    need_schedule(steps, report=report)
    if dtype not in ("float32", "float64"):
        raise ValueError(
            f"dtype is {dtype!r}, but must be 'float32' or 'float64'"
        )


def check_model(model: Any) -> None:
    need_part("model", model, "Module")
    if not hasattr(model, "as_parameters"):
        raise TypeError(
            f"model must have as_parameters(), as the modules of this book do, but is {kind(model)}"
        )
