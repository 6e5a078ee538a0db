"""Input checks of the multi-head functions, as in ``_checks``."""

from typing import Any

from attention_in_detail._checks import (
    need_axes,
    need_broadcast,
    need_flag,
    need_floating,
    need_integer,
    need_masks,
    need_nonempty,
    need_one_home,
    need_pairs,
    need_same,
)
from attention_in_detail.parameters import MultiHeadParameters

__all__: list[str] = []


def check_split_heads(x: Any, heads: Any) -> None:
    need_floating("x", x)
    need_axes("x", x, ["T", "D"])
    need_integer("heads", heads, least=1)
    if x.shape[-1] == 0 or x.shape[-1] % int(heads):
        raise ValueError(
            f"x has D = {x.shape[-1]}, but heads = {heads} does not divide it; each head needs the same width"
        )


def check_merge_heads(x: Any) -> None:
    need_floating("x", x)
    need_axes("x", x, ["h", "T", "D_h"])


def check_repeat_heads(x: Any, times: Any) -> None:
    need_floating("x", x)
    need_axes("x", x, ["h_kv", "S", "D_h"])
    need_integer("times", times, least=1)


def check_multi_head(
    parameters: Any,
    queries: Any,
    keys: Any,
    values: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    return_weights: Any = False,
) -> None:
    _check(
        parameters,
        {
            "queries": (queries, "T", "D_q"),
            "keys": (keys, "S", "D_k"),
            "values": (values, "S", "D_v"),
        },
        mask,
        bias,
        return_weights,
        names=("queries", "keys"),
    )


def check_self_attention(
    parameters: Any,
    x: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    return_weights: Any = False,
) -> None:
    _check(
        parameters,
        {"x": (x, "T", "D_q")},
        mask,
        bias,
        return_weights,
        names=("x", "x"),
    )


def check_cross_attention(
    parameters: Any,
    x: Any,
    context: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    return_weights: Any = False,
) -> None:
    _check(
        parameters,
        {"x": (x, "T", "D_q"), "context": (context, "S", "D_k")},
        mask,
        bias,
        return_weights,
        names=("x", "context"),
    )


def _check(
    parameters: Any,
    given: dict[str, tuple[Any, str, str]],
    mask: Any,
    bias: Any,
    return_weights: Any,
    *,
    names: tuple[str, str],
) -> None:
    if not isinstance(parameters, MultiHeadParameters):
        raise TypeError(
            f"parameters must be a MultiHeadParameters, not {type(parameters).__name__}"
        )
    for name, (x, *axes) in given.items():
        need_floating(name, x)
        need_axes(name, x, axes)
    need_masks(mask, bias)
    need_flag("return_weights", return_weights)
    arrays = {name: x for name, (x, _, _) in given.items()}
    need_one_home(
        {
            **arrays,
            "mask": mask,
            "bias": bias,
            "parameters.W_Q": parameters.W_Q,
        }
    )

    # Where queries, keys and values come from, and the matrix that takes their width.
    sources = list(arrays)
    for name, matrix, axis in (
        (sources[0], "W_Q", "D_q"),
        (sources[min(1, len(sources) - 1)], "W_K", "D_k"),
        (sources[-1], "W_V", "D_v"),
    ):
        rows = getattr(parameters, matrix).shape[0]
        need_same(
            name,
            arrays[name].shape[-1],
            f"parameters.{matrix}",
            rows,
            axis,
            f"{matrix} has one row per column of {name}",
        )
    queries, keys, values = (
        arrays[names[0]],
        arrays[names[1]],
        arrays[sources[-1]],
    )
    need_nonempty(
        names[1], keys.shape[-2], "S", "a query needs at least one key"
    )
    need_same(
        sources[-1],
        values.shape[-2],
        names[1],
        keys.shape[-2],
        "S",
        "each key needs one value",
    )

    batch_axes = max(x.ndim for x in arrays.values()) - 2
    batches = {name: tuple(x.shape[:-2]) for name, x in arrays.items()}
    T, S = queries.shape[-2], keys.shape[-2]
    for name, x in (("mask", mask), ("bias", bias)):
        if x is not None:
            batches[name] = need_head_mask(
                name, x, batch_axes, T, S, parameters.heads, of=names
            )
    need_broadcast(batches)


def need_head_mask(
    name: str,
    x: Any,
    batch_axes: int,
    T: int,
    S: int,
    heads: int,
    *,
    of: tuple[str, str],
) -> tuple[int, ...]:
    """Refuse a mask or bias whose axes, sizes or heads do not fit; return its batch axes."""
    if x.ndim > 2 and x.ndim not in (batch_axes + 2, batch_axes + 3):
        raise ValueError(
            f"{name} has {x.ndim} axes, but with {batch_axes} batch axes it needs at most 2, or {batch_axes + 2} "
            f"(*batch, T, S), or {batch_axes + 3} (*batch, h, T, S)"
        )
    need_pairs(name, x, T, S, of=of)
    per_head = x.ndim > 2 and x.ndim == batch_axes + 3
    if per_head and x.shape[-3] not in (1, heads):
        raise ValueError(
            f"{name} has h = {x.shape[-3]}, but parameters has h = {heads}; "
            "its head axis must be that, or 1 for all heads"
        )
    return tuple(x.shape[: -3 if per_head else -2])


def check_forward(
    module: Any,
    queries: Any,
    keys: Any = None,
    values: Any = None,
    *,
    mask: Any = None,
    bias: Any = None,
    causal_offset: Any = None,
    return_weights: Any = False,
) -> None:
    if keys is None and values is not None:
        raise ValueError(
            "values is given, but keys is None; give both, or neither for self-attention"
        )
    if causal_offset is not None:
        need_integer("causal_offset", causal_offset)
    given = {"queries": (queries, "T", "D_q")}
    if keys is not None:
        given["keys"] = (keys, "S", "D_k")
    if values is not None:
        given["values"] = (values, "S", "D_v")
    _check(
        module.as_parameters(),
        given,
        mask,
        bias,
        return_weights,
        names=("queries", "queries" if keys is None else "keys"),
    )
