"""Input checks of the backward pass and of attention by blocks, as in ``_checks``."""

from typing import Any

from attention_in_detail._checks import (
    check_attention,
    kind,
    need_axes,
    need_broadcast,
    need_floating,
    need_integer,
    need_one_home,
    need_same,
)

__all__: list[str] = []


def check_attention_gradients(
    queries: Any,
    keys: Any,
    values: Any,
    output_gradient: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    scale: Any = None,
) -> None:
    check_attention(
        queries, keys, values, mask=mask, bias=bias, scale=scale
    )
    need_floating("output_gradient", output_gradient)
    need_one_home({"queries": queries, "output_gradient": output_gradient})
    given = {"queries": queries, "keys": keys, "values": values}
    batch = need_broadcast(
        {
            name: tuple(x.shape[:-2])
            for name, x in (given | {"mask": mask, "bias": bias}).items()
            if x is not None
        }
    )
    shape = (*batch, queries.shape[-2], values.shape[-1])
    if tuple(output_gradient.shape) != shape:
        raise ValueError(
            f"output_gradient has the shape {tuple(output_gradient.shape)}, but the output has {shape}; "
            "each number of the output has one derivative"
        )


def check_partial_attention(
    queries: Any,
    keys: Any,
    values: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    scale: Any = None,
) -> None:
    check_attention(
        queries, keys, values, mask=mask, bias=bias, scale=scale
    )


def check_online_attention(
    queries: Any,
    keys: Any,
    values: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    scale: Any = None,
    causal_offset: Any = None,
    query_block: Any = 1,
    key_block: Any = 1,
) -> None:
    check_attention(
        queries, keys, values, mask=mask, bias=bias, scale=scale
    )
    if causal_offset is not None:
        need_integer("causal_offset", causal_offset)
    need_integer("query_block", query_block, least=1)
    need_integer("key_block", key_block, least=1)


def check_part(output: Any, largest: Any, total: Any) -> None:
    rows = {"largest": largest, "total": total}
    need_floating("output", output)
    need_axes("output", output, ["T", "D_v"])
    for name, x in rows.items():
        need_floating(name, x)
        need_axes(name, x, ["T"])
    need_one_home({"output": output, **rows})
    batches = {"output": tuple(output.shape[:-2])}
    for name, x in rows.items():
        need_same(
            name,
            x.shape[-1],
            "output",
            output.shape[-2],
            "T",
            "each query has one number",
        )
        batches[name] = tuple(x.shape[:-1])
    need_broadcast(batches)


def check_merge(one: Any, other: Any) -> None:
    for name, part in (("one", one), ("other", other)):
        if not all(
            hasattr(part, field) for field in ("output", "largest", "total")
        ):
            raise TypeError(
                f"{name} must be a PartialAttention, not {kind(part)}"
            )
    need_one_home({"one.output": one.output, "other.output": other.output})
    for back, axis in ((2, "T"), (1, "D_v")):
        need_same(
            "other.output",
            other.output.shape[-back],
            "one.output",
            one.output.shape[-back],
            axis,
            "both must answer the same queries",
        )
    need_broadcast(
        {
            "one.output": tuple(one.output.shape[:-2]),
            "other.output": tuple(other.output.shape[:-2]),
        }
    )
