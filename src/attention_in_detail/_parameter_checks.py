"""Input checks of ``MultiHeadParameters`` and of the module that carries them, as in ``_checks``."""

import numbers
from typing import Any

from attention_in_detail._checks import (
    kind,
    need_axes,
    need_flag,
    need_floating,
    need_integer,
    need_one_home,
    need_same,
)

__all__: list[str] = []


def check_parameters(
    W_Q: Any,
    W_K: Any,
    W_V: Any,
    W_O: Any = None,
    b_Q: Any = None,
    b_K: Any = None,
    b_V: Any = None,
    b_O: Any = None,
    *,
    heads: Any,
    kv_heads: Any = None,
) -> None:
    need_integer("heads", heads, least=1)
    need_key_heads(heads, kv_heads)
    projections = {"W_Q": W_Q, "W_K": W_K, "W_V": W_V}
    biases = {"b_Q": b_Q, "b_K": b_K, "b_V": b_V}
    for name, x in {
        **projections,
        "W_O": W_O,
        **biases,
        "b_O": b_O,
    }.items():
        if x is None and name not in projections:
            continue
        need_floating(name, x)
        axes = ("rows", "columns") if name.startswith("W") else ("size",)
        need_axes(name, x, axes)
        if x.ndim > len(axes):
            shape = tuple(x.shape)
            raise ValueError(
                f"{name} needs {len(axes)} axes, but has the shape {shape}"
            )
    need_one_home({**projections, "W_O": W_O, **biases, "b_O": b_O})

    D = W_Q.shape[1]
    if kv_heads is None:
        hint = "all heads together share one width"
        for name in ("W_K", "W_V"):
            columns = projections[name].shape[1]
            need_same(name, columns, "W_Q", D, "D", hint)
    else:
        need_key_columns(D, heads, kv_heads, projections)
    for name, b in biases.items():
        if b is not None:
            shared = kv_heads is not None and name != "b_Q"
            need_same(
                name,
                b.shape[0],
                f"W_{name[2:]}" if shared else "W_Q",
                W_K.shape[1] if shared else D,
                "D_kv" if shared else "D",
                "a bias has one number per column",
            )
    if W_O is not None:
        hint = "W_O has one row per column of the concatenated heads"
        need_same("W_O", W_O.shape[0], "W_Q", D, "D", hint)
    if b_O is not None:
        if W_O is None:
            raise ValueError(
                "b_O is given, but W_O is None; the output's bias goes with its projection"
            )
        columns = W_O.shape[1]
        hint = "a bias has one number per column"
        need_same("b_O", b_O.shape[0], "W_O", columns, "D_out", hint)
    need_division(D, heads)


def check_head(parameters: Any, i: Any) -> None:
    need_integer("i", i, least=0)
    if i >= parameters.heads:
        raise ValueError(
            f"i is {i}, but heads = {parameters.heads}; heads are counted from 0"
        )


def check_init(
    _: Any,
    D: Any,
    heads: Any,
    *,
    kv_heads: Any = None,
    D_q: Any = None,
    D_k: Any = None,
    D_v: Any = None,
    D_out: Any = None,
    bias: Any = True,
    output: Any = True,
    seed: Any,
    like: Any = None,
) -> None:
    need_widths(
        D,
        heads,
        kv_heads=kv_heads,
        D_q=D_q,
        D_k=D_k,
        D_v=D_v,
        D_out=D_out,
        bias=bias,
        output=output,
    )
    need_integer("seed", seed, least=0)
    if like is not None:
        need_floating("like", like)


def check_module(
    _: Any,
    D: Any,
    heads: Any,
    *,
    kv_heads: Any = None,
    D_q: Any = None,
    D_k: Any = None,
    D_v: Any = None,
    D_out: Any = None,
    bias: Any = True,
    output: Any = True,
    dropout: Any = 0.0,
) -> None:
    need_widths(
        D,
        heads,
        kv_heads=kv_heads,
        D_q=D_q,
        D_k=D_k,
        D_v=D_v,
        D_out=D_out,
        bias=bias,
        output=output,
    )
    if isinstance(dropout, bool) or not isinstance(dropout, numbers.Real):
        raise TypeError(f"dropout must be a number, not {kind(dropout)}")
    if not 0 <= dropout < 1:
        raise ValueError(
            f"dropout is {dropout}, but must be at least 0 and below 1"
        )


def check_from_torch(_: Any, module: Any) -> None:
    wanted = (
        "num_heads",
        "in_proj_weight",
        "in_proj_bias",
        "out_proj",
        "bias_k",
        "bias_v",
        "add_zero_attn",
    )
    missing = [name for name in wanted if not hasattr(module, name)]
    if missing:
        raise TypeError(
            "module must be a torch.nn.MultiheadAttention, "
            f"not {kind(module)} (it has no {missing[0]})"
        )
    for name, is_there in (
        (
            "add_bias_kv",
            module.bias_k is not None or module.bias_v is not None,
        ),
        ("add_zero_attn", module.add_zero_attn),
    ):
        if is_there:
            raise ValueError(
                f"module has {name}=True, which has no counterpart here; make it without"
            )


def need_widths(
    D: Any,
    heads: Any,
    *,
    kv_heads: Any,
    D_q: Any,
    D_k: Any,
    D_v: Any,
    D_out: Any,
    bias: Any,
    output: Any,
) -> None:
    need_integer("D", D, least=1)
    for name, width in {
        "D_q": D_q,
        "D_k": D_k,
        "D_v": D_v,
        "D_out": D_out,
    }.items():
        if width is not None:
            need_integer(name, width, least=1)
    need_integer("heads", heads, least=1)
    need_key_heads(heads, kv_heads)
    need_flag("bias", bias)
    need_flag("output", output)
    need_division(D, heads)
    if D_out is not None and not output:
        raise ValueError(
            f"D_out is {D_out}, but output is False; without W_O the output has D = {D}"
        )


def need_division(D: Any, heads: Any) -> None:
    if D == 0 or int(D) % int(heads):  # NumPy integers of few bits overflow
        raise ValueError(
            f"heads = {heads} does not divide D = {D}; "
            "each head needs the same width D / heads >= 1"
        )


def need_key_heads(heads: Any, kv_heads: Any) -> None:
    if kv_heads is None:
        return
    need_integer("kv_heads", kv_heads, least=1)
    if int(heads) % int(kv_heads):
        raise ValueError(
            f"kv_heads = {kv_heads} does not divide heads = {heads}; "
            "each key head serves the same number of query heads"
        )


def need_key_columns(
    D: int, heads: Any, kv_heads: Any, projections: dict[str, Any]
) -> None:
    """Refuse projections of keys and values that have not the width of ``kv_heads`` heads."""
    need_division(D, heads)
    D_h = D // int(heads)
    wanted = int(kv_heads) * D_h
    for name in ("W_K", "W_V"):
        columns = projections[name].shape[1]
        if columns != wanted:
            raise ValueError(
                f"{name} has D_kv = {columns}, but kv_heads = {kv_heads} heads of "
                f"width D_h = {D_h} have D_kv = {wanted}"
            )


def need_own_keys(name: str, parameters: Any) -> None:
    """Refuse heads that share keys, where a function changes or ranks the columns of each."""
    if parameters.h_kv != parameters.heads:
        raise ValueError(
            f"{name} has kv_heads = {parameters.h_kv} for heads = {parameters.heads}, "
            "but here each head needs keys of its own"
        )
