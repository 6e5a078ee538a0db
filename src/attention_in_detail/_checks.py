"""Input checks of the public functions: plain code, before any arithmetic, one line of message.

Each check has the signature of the function that it guards. Every message names the
argument, then the axis and both sizes where there are any, then what to do.
"""

import functools
import inspect
import math
import numbers
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from array_api_compat import array_namespace, device, is_array_api_obj

__all__ = ["checked"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def checked(check: Callable[..., None]) -> Callable[[_Function], _Function]:
    """Make ``check`` run before the decorated function; its ``unchecked`` is the bare function, for inner calls.

    The decorator is the outermost: a run-time check of the annotations, where one is
    switched on, comes second.
    """

    def decorate(function: _Function) -> _Function:
        guard = named(check, function.__qualname__)

        @functools.wraps(function)
        def public(*args: Any, **kwargs: Any) -> Any:
            guard(*args, **kwargs)
            return function(*args, **kwargs)

        public.unchecked = function  # type: ignore[attr-defined]
        return public  # type: ignore[return-value]

    return decorate


def named(check: Callable[..., None], name: str) -> Callable[..., None]:
    """Return ``check`` under the name of what it guards.

    Python's own error for a missing argument then names what the reader called.
    """
    check = inspect.unwrap(
        check
    )  # past a run-time check of its annotations
    guard = types.FunctionType(
        check.__code__,
        check.__globals__,
        name.rpartition(".")[2],
        check.__defaults__,
        check.__closure__,
    )
    guard.__kwdefaults__ = check.__kwdefaults__
    guard.__qualname__ = name
    return guard


# ---- kinds ---------------------------------------------------------------------------


def kind(x: Any) -> str:
    """Name what ``x`` is, for a message."""
    return str(x.dtype) if is_array_api_obj(x) else type(x).__name__


def need_array(name: str, x: Any) -> None:
    if not is_array_api_obj(x):
        raise TypeError(
            f"{name} must be an array of NumPy, PyTorch or another array library, not {kind(x)}"
        )


def need_floating(name: str, x: Any) -> None:
    need_array(name, x)
    if not array_namespace(x).isdtype(x.dtype, "real floating"):
        raise TypeError(
            f"{name} must be a floating array, not {kind(x)}; convert it first"
        )


def need_boolean(
    name: str, x: Any, *, hint: str = "; for additive scores use bias="
) -> None:
    need_array(name, x)
    if not array_namespace(x).isdtype(x.dtype, "bool"):
        raise TypeError(
            f"{name} must be boolean (true = may attend), not {kind(x)}{hint}"
        )


def need_integer(name: str, x: Any, *, least: int | None = None) -> None:
    if isinstance(x, bool) or not isinstance(x, numbers.Integral):
        raise TypeError(f"{name} must be an integer, not {kind(x)}")
    if least is not None and x < least:
        raise ValueError(f"{name} is {x}, but must be at least {least}")


def need_flag(name: str, x: Any) -> None:
    if not isinstance(x, bool):
        raise TypeError(f"{name} must be True or False, not {kind(x)}")


def need_one_home(arrays: dict[str, Any], *, dtype: bool = True) -> None:
    """Refuse arrays of more than one library, dtype or device; None is passed over, booleans have their own dtype."""
    present = {name: x for name, x in arrays.items() if x is not None}
    (first, base), *others = present.items()
    for name, x in others:
        ours, theirs = array_namespace(base), array_namespace(x)
        if theirs is not ours:
            raise TypeError(
                f"{name} is an array of {library(theirs)}, but {first} of {library(ours)}; convert one of them"
            )
        if (
            dtype
            and x.dtype != base.dtype
            and not theirs.isdtype(x.dtype, "bool")
        ):
            raise TypeError(
                f"{name} has dtype {x.dtype}, but {first} has {base.dtype}; convert one of them"
            )
        if device(x) != device(base):
            raise TypeError(
                f"{name} is on device {device(x)}, but {first} on {device(base)}; move one of them"
            )


def library(namespace: Any) -> str:
    return namespace.__name__.removeprefix("array_api_compat.").partition(
        "."
    )[0]


# ---- sizes ---------------------------------------------------------------------------


def need_axes(name: str, x: Any, axes: Sequence[str]) -> None:
    """Refuse an array with fewer axes than its last ones have names."""
    if x.ndim < len(axes):
        raise ValueError(
            f"{name} needs at least the axes ({', '.join(axes)}), but has the shape {tuple(x.shape)}"
        )


def need_same(
    name: str, size: int, other: str, other_size: int, axis: str, hint: str
) -> None:
    if size != other_size:
        raise ValueError(
            f"{name} has {axis} = {size}, but {other} has {axis} = {other_size}; {hint}"
        )


def need_nonempty(name: str, size: int, axis: str, hint: str) -> None:
    if size == 0:
        raise ValueError(
            f"{name} has {axis} = 0, but must have {axis} >= 1; {hint}"
        )


def need_broadcast(
    shapes: dict[str, tuple[int, ...]], *, axis: str = "batch axis"
) -> tuple[int, ...]:
    """Return the broadcast shape of axes; refuse sizes that differ where neither is 1."""
    sizes: list[int] = []  # from the last axis on
    owners: list[str] = []
    for name, shape in shapes.items():
        for back, size in enumerate(reversed(shape)):
            if back == len(sizes):
                sizes.append(size)
                owners.append(name)
            elif sizes[back] == 1:
                sizes[back], owners[back] = size, name
            elif size not in (1, sizes[back]):
                raise ValueError(
                    f"{name} has size {size} on {axis} {-1 - back}, but {owners[back]} has {sizes[back]} there; "
                    "they must be equal, or one of them 1"
                )
    return tuple(reversed(sizes))


def need_pairs(
    name: str,
    x: Any,
    T: int,
    S: int,
    *,
    of: tuple[str, str] = ("queries", "keys"),
) -> None:
    """Refuse a mask or bias whose last two axes do not fit (T, S); 1 or a missing axis stands for all."""
    shape = tuple(x.shape)
    for back, axis, size, owner in ((1, "S", S, of[1]), (2, "T", T, of[0])):
        if len(shape) >= back and shape[-back] not in (1, size):
            raise ValueError(
                f"{name} has {axis} = {shape[-back]}, but {owner} has {axis} = {size}; "
                f"its shape is (*batch, T, S), where 1 stands for all"
            )


def need_scale(scale: Any, queries: Any) -> None:
    if scale is None:
        return
    if isinstance(scale, numbers.Real) and not isinstance(scale, bool):
        try:
            finite = math.isfinite(scale)
        except OverflowError:  # a whole number beyond the floats
            finite = False
        if not finite:
            raise ValueError(
                "scale must be a finite number; to shut a pair use mask="
            )
        return
    if not is_array_api_obj(scale) or scale.ndim != 0:
        what = (
            f"an array of shape {tuple(scale.shape)}"
            if is_array_api_obj(scale)
            else kind(scale)
        )
        raise TypeError(
            f"scale must be a number or a 0-d array, not {what}"
        )
    need_floating("scale", scale)
    need_one_home({"queries": queries, "scale": scale}, dtype=False)


# ---- the public functions ------------------------------------------------------------


def check_softmax(z: Any, axis: Any = -1) -> None:
    need_floating("z", z)
    need_integer("axis", axis)
    need_axes("z", z, ["S"])
    if not -z.ndim <= axis < z.ndim:
        raise ValueError(
            f"axis is {axis}, but z has {z.ndim} axes; choose one from {-z.ndim} to {z.ndim - 1}"
        )
    if z.shape[axis] == 0:
        raise ValueError(
            f"z has size 0 on axis {axis}, but needs at least 1; "
            "the softmax of nothing is not defined"
        )


def check_softmax_jacobian(weights: Any) -> None:
    need_floating("weights", weights)
    need_axes("weights", weights, ["S"])


def check_scores(queries: Any, keys: Any, *, scale: Any = None) -> None:
    check_attention_weights(queries, keys, scale=scale)


def check_attention_weights(
    queries: Any,
    keys: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    scale: Any = None,
) -> None:
    check_attention(
        queries,
        keys,
        None,
        mask=mask,
        bias=bias,
        scale=scale,
        _with_values=False,
    )


def check_attention(
    queries: Any,
    keys: Any,
    values: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    scale: Any = None,
    return_weights: Any = False,
    _with_values: bool = True,
) -> None:
    given = {"queries": (queries, "T", "D_k"), "keys": (keys, "S", "D_k")}
    if _with_values:
        given["values"] = (values, "S", "D_v")
    for name, (x, *axes) in given.items():
        need_floating(name, x)
        need_axes(name, x, axes)
    need_masks(mask, bias)
    need_flag("return_weights", return_weights)
    need_one_home(
        {
            **{name: x for name, (x, *_) in given.items()},
            "mask": mask,
            "bias": bias,
        }
    )
    need_scale(scale, queries)
    need_same(
        "keys",
        keys.shape[-1],
        "queries",
        queries.shape[-1],
        "D_k",
        "queries and keys must share their width",
    )
    need_nonempty(
        "keys",
        keys.shape[-1],
        "D_k",
        "a score needs at least one coordinate",
    )
    need_nonempty(
        "keys", keys.shape[-2], "S", "a query needs at least one key"
    )
    if _with_values:
        need_same(
            "values",
            values.shape[-2],
            "keys",
            keys.shape[-2],
            "S",
            "each key needs one value",
        )
    batches = {name: tuple(x.shape[:-2]) for name, (x, *_) in given.items()}
    for name, x in (("mask", mask), ("bias", bias)):
        if x is not None:
            need_pairs(name, x, queries.shape[-2], keys.shape[-2])
            batches[name] = tuple(x.shape[:-2])
    need_broadcast(batches)


def need_masks(mask: Any, bias: Any) -> None:
    if mask is not None:
        need_boolean("mask", mask)
    if bias is not None:
        need_array("bias", bias)
        if array_namespace(bias).isdtype(bias.dtype, "bool"):
            raise TypeError(
                "bias must be a floating array, not boolean; for true = may attend use mask="
            )
        need_floating("bias", bias)


def check_causal_mask(
    T: Any, S: Any = None, *, offset: Any = 0, like: Any = None
) -> None:
    need_integer("T", T, least=0)
    if S is not None:
        need_integer("S", S, least=1)
    need_integer("offset", offset)
    if like is not None:
        need_array("like", like)


def check_window_mask(
    T: Any,
    S: Any = None,
    *,
    before: Any,
    after: Any,
    offset: Any = 0,
    like: Any = None,
) -> None:
    check_causal_mask(T, S, offset=offset, like=like)
    need_integer("before", before, least=0)
    need_integer("after", after, least=0)


def check_padding_mask(lengths: Any, S: Any) -> None:
    need_array("lengths", lengths)
    xp = array_namespace(lengths)
    if not xp.isdtype(lengths.dtype, "integral"):
        raise TypeError(
            f"lengths must be an array of integers, not {kind(lengths)}"
        )
    need_integer("S", S, least=1)
    if math.prod(lengths.shape) == 0:
        return
    wide = xp.astype(
        lengths, xp.int64
    )  # torch knows no minimum of its uint16
    lowest, highest = int(xp.min(wide)), int(xp.max(wide))
    if lowest < 0:
        raise ValueError(
            f"lengths has a length of {lowest}, but a length must be at least 0"
        )
    if highest > S:
        raise ValueError(
            f"lengths has a length of {highest}, but S = {S}; cut the sequence or make S larger"
        )


def check_combine_masks(*masks: Any) -> None:
    present = {
        f"masks[{n}]": mask
        for n, mask in enumerate(masks)
        if mask is not None
    }
    for name, mask in present.items():
        need_boolean(name, mask)
    if present:
        need_one_home(present)
        need_broadcast(
            {name: tuple(mask.shape) for name, mask in present.items()},
            axis="axis",
        )


def check_mask_from_torch_mha(
    attn_mask: Any = None, key_padding_mask: Any = None, *, heads: Any
) -> None:
    need_integer("heads", heads, least=1)
    present = {"attn_mask": attn_mask, "key_padding_mask": key_padding_mask}
    present = {
        name: mask for name, mask in present.items() if mask is not None
    }
    for name, mask in present.items():
        need_array(name, mask)
        if not array_namespace(mask).isdtype(
            mask.dtype, ("bool", "real floating")
        ):
            raise TypeError(
                f"{name} must be boolean (true = ignore) or floating (added to the scores), not {kind(mask)}"
            )
        axes = (
            ("(T, S) or (B*h, T, S)", (2, 3))
            if name == "attn_mask"
            else ("(B, S) or (S,)", (1, 2))
        )
        if mask.ndim not in axes[1]:
            raise ValueError(
                f"{name} must have the axes {axes[0]}, but has the shape {tuple(mask.shape)}"
            )
    if present:
        need_one_home(present, dtype=False)
    if (
        attn_mask is not None
        and attn_mask.ndim == 3
        and attn_mask.shape[0] % int(heads)
    ):
        raise ValueError(
            f"attn_mask has B*h = {attn_mask.shape[0]}, but heads = {heads} does not divide it"
        )
    if len(present) == 2:
        need_same(
            "key_padding_mask",
            key_padding_mask.shape[-1],
            "attn_mask",
            attn_mask.shape[-1],
            "S",
            "both speak of the same keys",
        )
        if attn_mask.ndim == 3:
            batch = attn_mask.shape[0] // int(heads)
            own = (
                key_padding_mask.shape[0]
                if key_padding_mask.ndim == 2
                else 1
            )
            need_same(
                "key_padding_mask",
                own,
                "attn_mask",
                batch,
                "B",
                f"attn_mask has B*h rows of masks, heads = {heads}",
            )


def check_mask_to_torch_mha(mask: Any, *, heads: Any) -> None:
    need_integer("heads", heads, least=1)
    if mask is None:
        return
    need_boolean("mask", mask)
    if mask.ndim not in (2, 3, 4):
        raise ValueError(
            f"mask must have the axes (T, S), (B, T, S) or (B, h, T, S), but has the shape {tuple(mask.shape)}"
        )
    if mask.ndim == 4 and mask.shape[1] not in (1, heads):
        raise ValueError(
            f"mask has h = {mask.shape[1]}, but heads = {heads}; its head axis must be 1 or that"
        )


def check_sinusoidal_positions(
    length: Any, D: Any, *, like: Any = None
) -> None:
    need_integer("length", length, least=0)
    need_integer("D", D, least=2)
    if operator.index(D) % 2:
        raise ValueError(
            f"D is {D}, but must be even: sines and cosines come in pairs"
        )
    if like is not None:
        need_floating("like", like)
