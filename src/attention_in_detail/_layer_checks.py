"""Input checks of the pointwise functions and of the layers, as in ``_checks``."""

import math
import numbers
from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Any

from attention_in_detail._checks import (
    kind,
    need_axes,
    need_boolean,
    need_broadcast,
    need_flag,
    need_floating,
    need_integer,
    need_nonempty,
    need_one_home,
    need_same,
)
from attention_in_detail._multi_head_checks import need_head_mask
from attention_in_detail._parameter_checks import check_module

__all__: list[str] = []

ONE_WIDTH = "one width runs through the layer"


def need_part(name: str, x: Any, wanted: str) -> None:
    """Refuse what is not of the class of that name, which this module cannot import."""
    if wanted not in (c.__name__ for c in type(x).__mro__):
        article = "an" if wanted.startswith((*"AEIOU", "SS")) else "a"
        raise TypeError(f"{name} must be {article} {wanted}, not {kind(x)}")


def need_exactly(name: str, x: Any, axes: Sequence[str]) -> None:
    need_floating(name, x)
    need_axes(name, x, axes)
    if x.ndim > len(axes):
        raise ValueError(
            f"{name} needs the axes ({', '.join(axes)}), but has the shape {tuple(x.shape)}"
        )


# ---- pointwise -----------------------------------------------------------------------


def check_floating(x: Any) -> None:
    need_floating("x", x)


def check_layer_norm_parameters(
    gain: Any, shift: Any = None, eps: Any = 1e-5
) -> None:
    need_exactly("gain", gain, ["D"])
    need_nonempty(
        "gain", gain.shape[0], "D", "a row needs at least one entry"
    )
    if shift is not None:
        need_exactly("shift", shift, ["D"])
        need_one_home({"gain": gain, "shift": shift})
        need_same(
            "shift",
            shift.shape[0],
            "gain",
            gain.shape[0],
            "D",
            "both have one number per column",
        )
    need_eps(eps)


def need_eps(eps: Any) -> None:
    if isinstance(eps, bool) or not isinstance(eps, numbers.Real):
        raise TypeError(f"eps must be a number, not {kind(eps)}")
    if not 0 < eps < math.inf:
        raise ValueError(
            f"eps is {eps}, but must be above 0 and finite, so that a row of equal entries has a norm"
        )


def check_norm_from_torch(_: Any, module: Any) -> None:
    need_attributes(
        module, "LayerNorm", ("weight", "bias", "eps", "normalized_shape")
    )
    if module.weight is None:
        raise ValueError(
            "module has elementwise_affine=False, which has no counterpart here; make it with a gain"
        )


def check_layer_norm(parameters: Any, x: Any) -> None:
    need_part("parameters", parameters, "LayerNormParameters")
    need_floating("x", x)
    need_axes("x", x, ["D"])
    need_one_home({"x": x, "parameters.gain": parameters.gain})
    need_same(
        "x",
        x.shape[-1],
        "parameters.gain",
        parameters.gain.shape[0],
        "D",
        "a norm has one gain per column",
    )


def check_feed_forward_parameters(
    W_1: Any,
    W_2: Any,
    b_1: Any = None,
    b_2: Any = None,
    activation: Any = "relu",
) -> None:
    need_exactly("W_1", W_1, ["D", "D_ff"])
    need_exactly("W_2", W_2, ["D_ff", "D"])
    for name, b, axis in (("b_1", b_1, "D_ff"), ("b_2", b_2, "D")):
        if b is not None:
            need_exactly(name, b, [axis])
    need_one_home({"W_1": W_1, "W_2": W_2, "b_1": b_1, "b_2": b_2})
    D, D_ff = W_1.shape
    need_nonempty("W_1", D, "D", "a row needs at least one entry")
    need_nonempty("W_1", D_ff, "D_ff", "the inner row needs one too")
    need_same(
        "W_2",
        W_2.shape[0],
        "W_1",
        D_ff,
        "D_ff",
        "W_2 has one row per column of W_1",
    )
    need_same(
        "W_2",
        W_2.shape[1],
        "W_1",
        D,
        "D",
        "the output is as wide as the input",
    )
    for name, b, size, axis in (
        ("b_1", b_1, D_ff, "D_ff"),
        ("b_2", b_2, D, "D"),
    ):
        if b is not None:
            need_same(
                name,
                b.shape[0],
                "W_1",
                size,
                axis,
                "a bias has one number per column",
            )
    need_activation(activation)


def need_activation(activation: Any) -> None:
    if not isinstance(activation, str):
        raise TypeError(
            f"activation must be 'relu' or 'gelu', not {kind(activation)}"
        )
    if activation not in ("relu", "gelu"):
        raise ValueError(
            f"activation is {activation!r}, but must be 'relu' or 'gelu'"
        )


def check_feed_forward(parameters: Any, x: Any) -> None:
    need_part("parameters", parameters, "FeedForwardParameters")
    need_floating("x", x)
    need_axes("x", x, ["T", "D"])
    need_one_home({"x": x, "parameters.W_1": parameters.W_1})
    need_same(
        "x",
        x.shape[-1],
        "parameters.W_1",
        parameters.W_1.shape[0],
        "D",
        "W_1 has one row per column of x",
    )


# ---- the parameters of layers --------------------------------------------------------


def check_encoder_parameters(
    attention: Any,
    attention_norm: Any,
    feed_forward: Any,
    feed_forward_norm: Any,
    norm_first: Any = False,
) -> None:
    need_part("attention", attention, "MultiHeadParameters")
    need_feed_forward(
        "attention",
        attention,
        {"attention_norm": attention_norm},
        feed_forward,
        feed_forward_norm,
        norm_first,
    )
    need_self_attention("attention", attention)


def check_decoder_parameters(
    self_attention: Any,
    self_attention_norm: Any,
    cross_attention: Any,
    cross_attention_norm: Any,
    feed_forward: Any,
    feed_forward_norm: Any,
    norm_first: Any = False,
) -> None:
    need_part("self_attention", self_attention, "MultiHeadParameters")
    need_part("cross_attention", cross_attention, "MultiHeadParameters")
    need_feed_forward(
        "self_attention",
        self_attention,
        {
            "self_attention_norm": self_attention_norm,
            "cross_attention_norm": cross_attention_norm,
        },
        feed_forward,
        feed_forward_norm,
        norm_first,
    )
    need_one_home(
        {
            "self_attention.W_Q": self_attention.W_Q,
            "cross_attention.W_Q": cross_attention.W_Q,
        }
    )
    need_self_attention("self_attention", self_attention)
    D = self_attention.D_q
    for axis in ("D_q", "D_out"):
        need_same(
            "cross_attention",
            getattr(cross_attention, axis),
            "self_attention",
            D,
            axis,
            ONE_WIDTH,
        )
    need_same(
        "cross_attention.W_V",
        cross_attention.D_v,
        "cross_attention.W_K",
        cross_attention.D_k,
        "D_c",
        "keys and values come from one context",
    )


def need_self_attention(name: str, attention: Any) -> None:
    for axis, matrix in (("D_k", "W_K"), ("D_v", "W_V"), ("D_out", "W_O")):
        need_same(
            f"{name}.{matrix}",
            getattr(attention, axis),
            f"{name}.W_Q",
            attention.D_q,
            "D",
            ONE_WIDTH,
        )


def need_feed_forward(
    first: str,
    attention: Any,
    norms: dict[str, Any],
    feed_forward: Any,
    feed_forward_norm: Any,
    norm_first: Any,
) -> None:
    """Refuse norms and feed-forward parameters that are none, or do not fit the attention."""
    norms = norms | {"feed_forward_norm": feed_forward_norm}
    for name, norm in norms.items():
        need_part(name, norm, "LayerNormParameters")
    need_part("feed_forward", feed_forward, "FeedForwardParameters")
    need_flag("norm_first", norm_first)
    home = {
        f"{first}.W_Q": attention.W_Q,
        "feed_forward.W_1": feed_forward.W_1,
    }
    home |= {f"{name}.gain": norm.gain for name, norm in norms.items()}
    need_one_home(home)
    D = attention.D_q
    widths = {name: norm.gain.shape[0] for name, norm in norms.items()}
    widths["feed_forward"] = feed_forward.W_1.shape[0]
    for name, width in widths.items():
        need_same(name, width, first, D, "D", ONE_WIDTH)


# ---- reading torch's modules ---------------------------------------------------------


def need_attributes(module: Any, name: str, wanted: Sequence[str]) -> None:
    missing = [one for one in wanted if not hasattr(module, one)]
    if missing:
        raise TypeError(
            f"module must be a torch.nn.{name}, not {kind(module)} (it has no {missing[0]})"
        )


def check_encoder_from_torch(_: Any, module: Any) -> None:
    need_torch_layer(module, "TransformerEncoderLayer", ("norm2",))


def check_decoder_from_torch(_: Any, module: Any) -> None:
    need_torch_layer(
        module, "TransformerDecoderLayer", ("multihead_attn", "norm3")
    )


def need_torch_layer(module: Any, name: str, wanted: Sequence[str]) -> None:
    parts = ("self_attn", "linear1", "linear2", "norm1")
    rest = ("activation", "norm_first")
    need_attributes(module, name, (*parts, *wanted, *rest))
    bend = module.activation
    called = getattr(bend, "__name__", type(bend).__name__).lower()
    if called not in ("relu", "gelu") or (
        getattr(bend, "approximate", "none") != "none"
    ):
        shown = getattr(bend, "__name__", bend)
        raise ValueError(
            f"module has the activation {shown}, but only relu and the exact gelu have a counterpart here"
        )


# ---- layers --------------------------------------------------------------------------


def check_encoder_layer(
    parameters: Any,
    x: Any,
    *,
    mask: Any = None,
    return_weights: Any = False,
) -> None:
    need_part("parameters", parameters, "EncoderLayerParameters")
    need_layer(
        {"x": (x, "T", "D", parameters.D)},
        {"mask": mask},
        {"parameters.attention.W_Q": parameters.attention.W_Q},
        return_weights,
    )
    need_layer_masks({"x": x}, {"mask": (mask, "x", parameters.attention)})


def check_decoder_layer(
    parameters: Any,
    x: Any,
    context: Any,
    *,
    mask: Any = None,
    context_mask: Any = None,
    return_weights: Any = False,
) -> None:
    need_part("parameters", parameters, "DecoderLayerParameters")
    need_layer(
        {
            "x": (x, "T", "D", parameters.D),
            "context": (context, "S", "D_c", parameters.D_c),
        },
        {"mask": mask, "context_mask": context_mask},
        {"parameters.self_attention.W_Q": parameters.self_attention.W_Q},
        return_weights,
    )
    need_layer_masks(
        {"x": x}, {"mask": (mask, "x", parameters.self_attention)}
    )
    need_layer_masks(
        {"x": x, "context": context},
        {
            "context_mask": (
                context_mask,
                "context",
                parameters.cross_attention,
            )
        },
    )


def need_layer(
    given: dict[str, tuple[Any, str, str, int]],
    masks: dict[str, Any],
    home: dict[str, Any],
    return_weights: Any,
) -> None:
    """Refuse wrong kinds, homes, widths and empty lengths."""
    for name, (x, *axes, _) in given.items():
        need_floating(name, x)
        need_axes(name, x, axes)
    for name, mask in masks.items():
        if mask is not None:
            need_boolean(name, mask, hint="")
    need_flag("return_weights", return_weights)
    arrays = {name: x for name, (x, *_) in given.items()}
    need_one_home({**arrays, **masks, **home})
    for name, (x, length, axis, width) in given.items():
        need_same(
            name,
            x.shape[-1],
            "parameters",
            width,
            axis,
            f"{name} has as many columns as the parameters have rows for it",
        )
        need_nonempty(
            name, x.shape[-2], length, "a query needs at least one key"
        )


def need_layer_masks(
    arrays: dict[str, Any], masks: dict[str, tuple[Any, str, Any]]
) -> None:
    """Refuse masks whose axes, sizes or heads do not fit, and batches that do not broadcast."""
    batch_axes = max(x.ndim for x in arrays.values()) - 2
    batches = {name: tuple(x.shape[:-2]) for name, x in arrays.items()}
    T = arrays["x"].shape[-2]
    for name, (mask, keys, attention) in masks.items():
        if mask is not None:
            batches[name] = need_head_mask(
                name,
                mask,
                batch_axes,
                T,
                arrays[keys].shape[-2],
                attention.heads,
                of=("x", keys),
            )
    need_broadcast(batches)


# ---- the modules ---------------------------------------------------------------------


def check_encoder_module(
    _: Any,
    D: Any,
    heads: Any,
    *,
    D_ff: Any = None,
    activation: Any = "relu",
    norm_first: Any = False,
    dropout: Any = 0.0,
    eps: Any = 1e-5,
    bias: Any = True,
) -> None:
    check_module(_, D, heads, bias=bias, dropout=dropout)
    if D_ff is not None:
        need_integer("D_ff", D_ff, least=1)
    need_activation(activation)
    need_flag("norm_first", norm_first)
    need_eps(eps)


def check_decoder_module(
    _: Any,
    D: Any,
    heads: Any,
    *,
    D_c: Any = None,
    D_ff: Any = None,
    activation: Any = "relu",
    norm_first: Any = False,
    dropout: Any = 0.0,
    eps: Any = 1e-5,
    bias: Any = True,
) -> None:
    if D_c is not None:
        need_integer("D_c", D_c, least=1)
    check_encoder_module(
        _,
        D,
        heads,
        D_ff=D_ff,
        activation=activation,
        norm_first=norm_first,
        dropout=dropout,
        eps=eps,
        bias=bias,
    )


def check_encoder_forward(
    module: Any, x: Any, *, mask: Any = None, return_weights: Any = False
) -> None:
    check_encoder_layer(
        module.as_parameters(), x, mask=mask, return_weights=return_weights
    )


def check_decoder_forward(
    module: Any,
    x: Any,
    context: Any,
    *,
    mask: Any = None,
    context_mask: Any = None,
    return_weights: Any = False,
) -> None:
    check_decoder_layer(
        module.as_parameters(),
        x,
        context,
        mask=mask,
        context_mask=context_mask,
        return_weights=return_weights,
    )


# ---- trees ---------------------------------------------------------------------------


def check_map_arrays(parameters: Any, function: Any) -> None:
    if isinstance(parameters, type) or not is_dataclass(parameters):
        raise TypeError(
            f"parameters must be parameters of this package, not {kind(parameters)}"
        )
    if not callable(function):
        raise TypeError(
            f"function must be a function of an array, not {kind(function)}"
        )
