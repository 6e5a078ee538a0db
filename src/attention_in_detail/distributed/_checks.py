"""Input checks of what runs over processes, as in ``attention_in_detail._checks``."""

import math
import sys
from numbers import Real
from typing import Any

from attention_in_detail._checks import (
    check_attention,
    kind,
    need_flag,
    need_integer,
)
from attention_in_detail.parallelism import need_sizes

__all__: list[str] = []


def need_number(name: str, x: Any) -> None:
    """Refuse what is not a finite number above 0."""
    if isinstance(x, bool) or not isinstance(x, Real):
        raise TypeError(f"{name} must be a number, not {kind(x)}")
    if not math.isfinite(x) or x <= 0:
        raise ValueError(
            f"{name} is {x}, but must be a finite number above 0"
        )


def need_even_parts(name: str, length: Any, ranks: Any) -> None:
    need_integer("ranks", ranks, least=1)
    need_integer(name, length, least=1)
    if int(length) % int(ranks):
        raise ValueError(
            f"{name} is {length}, but ranks = {ranks} does not divide it; each rank holds the same number of rows"
        )


def need_rank(rank: Any, ranks: Any) -> None:
    need_integer("ranks", ranks, least=1)
    need_integer("rank", rank)
    if not 0 <= rank < ranks:
        raise ValueError(
            f"rank is {rank}, but with ranks = {ranks} it must be from 0 to {int(ranks) - 1}"
        )


def check_own_rows(length: Any, rank: Any, ranks: Any) -> None:
    need_even_parts("length", length, ranks)
    need_rank(rank, ranks)


def check_held_block(rank: Any, step: Any, ranks: Any) -> None:
    need_rank(rank, ranks)
    need_integer("step", step, least=0)


def check_ring_schedule(
    T: Any, S: Any, *, ranks: Any, causal_offset: Any = None
) -> None:
    need_even_parts("T", T, ranks)
    need_even_parts("S", S, ranks)
    if causal_offset is not None:
        need_integer("causal_offset", causal_offset)


def check_ring_attention(
    queries: Any,
    keys: Any,
    values: Any,
    *,
    causal_offset: Any = None,
    scale: Any = None,
    query_block: Any = 1,
    key_block: Any = 1,
    group: Any = None,
) -> None:
    for name, x in (
        ("queries", queries),
        ("keys", keys),
        ("values", values),
    ):
        need_tensor(name, x)
    if scale is not None and not isinstance(scale, Real):
        raise TypeError(f"scale must be a number, not {kind(scale)}")
    check_attention(queries, keys, values, scale=scale)
    if causal_offset is not None:
        need_integer("causal_offset", causal_offset)
    need_integer("query_block", query_block, least=1)
    need_integer("key_block", key_block, least=1)


def need_tensor(name: str, x: Any) -> None:
    import torch

    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, not {kind(x)}")


def check_split_over_ranks(module: Any, mesh: Any = None) -> None:
    from attention_in_detail.nn import MultiHeadAttention

    if not isinstance(module, MultiHeadAttention):
        raise TypeError(
            f"module must be an attention_in_detail.nn.MultiHeadAttention, not {type(module).__name__}"
        )
    if module.output is None:
        raise ValueError(
            "module has no output projection, and nothing else adds up what the ranks found; make it with output=True"
        )
    if module.dropout:
        raise ValueError(
            f"module has dropout = {module.dropout}, but the ranks would not draw what one process draws; set it to 0"
        )


def need_even_heads(heads: int, ranks: int, axis: str = "h") -> None:
    if heads % ranks:
        good = [n for n in range(1, heads + 1) if heads % n == 0]
        raise ValueError(
            f"module has {axis} = {heads} heads, but there are {ranks} ranks; each takes the same number of heads: "
            f"start {', '.join(map(str, good))} processes"
        )


def check_process_group(
    *,
    ranks: Any = None,
    timeout: Any = 20.0,
    start: Any = None,
    backend: Any = None,
) -> None:
    need_number("timeout", timeout)
    if start is not None:
        need_number("start", start)
    if ranks is not None:
        need_integer("ranks", ranks, least=1)
    if backend not in (None, "gloo", "nccl"):
        raise ValueError(
            f"backend is {backend!r}, but must be 'gloo', 'nccl' or None"
        )


def check_run_processes(
    function: Any, ranks: Any, *args: Any, timeout: Any = 20.0
) -> None:
    need_integer("ranks", ranks, least=1)
    need_number("timeout", timeout)
    name = getattr(function, "__qualname__", kind(function))
    main = sys.modules["__main__"]
    here = getattr(function, "__module__", None) == "__main__"
    if (
        not callable(function)
        or "<" in name
        or (here and not hasattr(main, "__file__"))
    ):
        raise TypeError(
            f"function is {name}, which another process cannot import; put it into a module"
        )


def check_traffic(
    way: Any,
    T: Any,
    D: Any,
    *,
    ranks: Any,
    batch: Any = 1,
    itemsize: Any = 4,
    backward: Any = False,
) -> None:
    if way not in ("heads", "ring"):
        raise ValueError(f"way is {way!r}, but must be 'heads' or 'ring'")
    if way == "ring":
        need_even_parts("T", T, ranks)
    need_sizes(T=T, D=D, ranks=ranks, batch=batch, itemsize=itemsize)
    need_flag("backward", backward)


def check_on_paper(
    T: Any,
    D: Any,
    *,
    ring: Any,
    beside: Any = 1,
    itemsize: Any = 2,
    multiply_adds_per_second: Any,
    bytes_per_second: Any,
    bytes_per_second_beside: Any = None,
    backward: Any = False,
) -> None:
    need_even_parts("T", T, ring)
    need_sizes(D=D, beside=beside, itemsize=itemsize)
    if D % beside:
        raise ValueError(
            f"D is {D}, but beside = {beside} does not divide it; each device takes the same width"
        )
    speeds = {
        "multiply_adds_per_second": multiply_adds_per_second,
        "bytes_per_second": bytes_per_second,
    }
    if bytes_per_second_beside is not None:
        speeds["bytes_per_second_beside"] = bytes_per_second_beside
    for name, x in speeds.items():
        need_number(name, x)
    need_flag("backward", backward)
