"""Self-attention as a decoder of today computes it: causal, from a cache, with whichever changes are asked for."""

from numbers import Real
from typing import Any

from array_api_compat import array_namespace, device

from attention_in_detail._checks import (
    checked,
    kind,
    need_axes,
    need_flag,
    need_floating,
    need_integer,
    need_nonempty,
    need_one_home,
    need_same,
)
from attention_in_detail.caching import KeyValueCache
from attention_in_detail.capping import capped_attention, need_cap
from attention_in_detail.linear_biases import linear_bias
from attention_in_detail.masks import causal_mask, window_mask
from attention_in_detail.multi_head import (
    merge_heads,
    projected,
    repeat_heads,
    stored_heads,
)
from attention_in_detail.notation import Array, Float, Size
from attention_in_detail.parameters import MultiHeadParameters
from attention_in_detail.rotary import need_base, rotate
from attention_in_detail.scaled_dot_product import attention
from attention_in_detail.sinks import sink_mask

__all__ = ["cached_self_attention"]


def check_cached_self_attention(
    parameters: Any,
    x: Any,
    cache: Any = None,
    *,
    rotary_base: Any = None,
    slopes: Any = None,
    before: Any = None,
    sinks: Any = 0,
    cap: Any = None,
    return_weights: Any = False,
) -> None:
    need_flag("return_weights", return_weights)
    if not isinstance(parameters, MultiHeadParameters):
        raise TypeError(
            f"parameters must be a MultiHeadParameters, not {kind(parameters)}"
        )
    need_floating("x", x)
    need_axes("x", x, ["T", "D_q"])
    need_one_home({"x": x, "parameters.W_Q": parameters.W_Q})
    for axis in ("D_q", "D_k", "D_v"):
        need_same(
            "x",
            x.shape[-1],
            f"parameters.W_{axis[2:].upper()}",
            getattr(parameters, axis),
            axis,
            "queries, keys and values all come from x",
        )
    need_nonempty("x", x.shape[-2], "T", "there is no token to attend from")
    need_variants(parameters, rotary_base, slopes, before, sinks, cap)
    if cache is not None:
        need_own_cache(parameters, x, cache, tuple(x.shape[:-2]))


def need_variants(
    parameters: Any,
    rotary_base: Any,
    slopes: Any,
    before: Any,
    sinks: Any,
    cap: Any,
) -> None:
    """Refuse what does not fit the parameters, or says nothing."""
    if rotary_base is not None:
        need_base("rotary_base", rotary_base)
        if parameters.D_h % 2:
            raise ValueError(
                f"parameters have D_h = {parameters.D_h}, but rotary positions turn coordinates in pairs"
            )
    if slopes is not None:
        need_floating("slopes", slopes)
        need_one_home({"parameters.W_Q": parameters.W_Q, "slopes": slopes})
        if tuple(slopes.shape) != (parameters.heads,):
            raise ValueError(
                f"slopes has the shape {tuple(slopes.shape)}, but parameters has h = {parameters.heads} heads"
            )
    need_integer("sinks", sinks, least=0)
    if before is not None:
        need_integer("before", before, least=0)
    elif sinks:
        raise ValueError(
            f"sinks is {sinks}, but before is None; without a window all keys before stay open"
        )
    if cap is not None:
        need_cap(cap)


def need_own_cache(
    parameters: Any,
    x: Any,
    cache: Any,
    batch: tuple[int, ...],
    *,
    name: str = "x",
    home: str = "x",
    own: str = "cache",
) -> None:
    """Refuse a cache of another batch or another attention; the texts are the names of batch, home and cache."""
    if not isinstance(cache, KeyValueCache):
        raise TypeError(f"{own} must be a KeyValueCache, not {kind(cache)}")
    need_one_home({home: x, own: cache.keys})
    lead = tuple(cache.keys.shape[:-2])
    wanted = (*batch, parameters.h_kv)
    if lead != wanted:
        raise ValueError(
            f"{own} has (*batch, h_kv) = {lead}, but {name} and parameters have {wanted}; it belongs to another attention"
        )
    for part in ("keys", "values"):
        need_same(
            f"{own}.{part}",
            getattr(cache, part).shape[-1],
            "parameters",
            parameters.D_h,
            "D_h",
            "it belongs to another attention",
        )


@checked(check_cached_self_attention)
def cached_self_attention(
    parameters: MultiHeadParameters,
    x: Float[Array, "*batch T D_q"],
    cache: KeyValueCache | None = None,
    *,
    rotary_base: Real | None = None,
    slopes: Float[Array, " h"] | None = None,
    before: Size | None = None,
    sinks: Size = 0,
    cap: Real | None = None,
    return_weights: bool = False,
) -> (
    tuple[Float[Array, "*batch T D_out"], KeyValueCache]
    | tuple[
        Float[Array, "*batch T D_out"],
        KeyValueCache,
        Float[Array, "*batch h T S"],
    ]
):
    r"""Attend from some new positions to all that came before, and remember their keys and values.

    .. math:: Y = \operatorname{merge}\bigl(\operatorname{Attention}(R Q,\; \operatorname{repeat}([K_{\text{old}}, R K]),\;
        \operatorname{repeat}([V_{\text{old}}, V]))\bigr)\, W^O

    Token by token, in pieces or at once, the outputs are the same: position i sees the
    positions up to i, wherever the sequence is cut. R turns by the position if
    ``rotary_base`` is given; keys are kept as they were turned.

    Args:
        parameters: the projections; D_q = D_k = D_v is the width of ``x``, and
            ``kv_heads`` may be fewer than ``heads``.
        x: the next T positions, shape (\*batch, T, D_q), T at least 1.
        cache: of the positions before, from an earlier call; None at the beginning.
        rotary_base: base of :func:`attention_in_detail.rotate`, pairs adjacent; None
            turns nothing.
        slopes: of :func:`attention_in_detail.linear_bias`, shape (h,); None adds none.
        before: how many keys before its own a query may attend to; None means all.
        sinks: how many first keys stay open beyond that; needs ``before``.
        cap: of :func:`attention_in_detail.softcap`; None caps nothing.
        return_weights: also return the attention weights.

    Returns:
        The pair of output, shape (\*batch, T, D_out), and a new cache with these
        positions in it. The old one stays as it was. No key leaves it, not even where a
        window has shut it for good. With ``return_weights`` a third: the weights of each
        head on all S positions so far, shape (\*batch, h, T, S).

    Raises:
        TypeError: if an argument is of a wrong kind, or libraries, dtypes or devices
            are mixed.
        ValueError: if sizes do not fit, T is 0, the cache is of another batch or
            attention, or ``sinks`` come without ``before``.

    Source:
        Shazeer (2019), section 2.4, for the cache; the parts name theirs.
    """
    xp, where = array_namespace(x), device(x)
    q, k, v = stored_heads(parameters, x, x, x, mask=None, bias=None)
    first = 0 if cache is None else cache.length
    T = x.shape[-2]
    if rotary_base is not None:
        p = xp.arange(first, first + T, device=where)
        q = rotate.unchecked(q, p, base=rotary_base)
        k = rotate.unchecked(k, p, base=rotary_base)
    known = KeyValueCache(k, v) if cache is None else cache.append(k, v)
    S = known.length
    if before is None:
        mask = causal_mask.unchecked(T, S, offset=first, like=x)
    else:
        mask = window_mask.unchecked(
            T, S, before=before, after=0, offset=first, like=x
        ) | sink_mask.unchecked(T, S, sinks=sinks, offset=first, like=x)
    bias = None
    if slopes is not None:
        bias = linear_bias.unchecked(T, S, slopes=slopes, offset=first)
    k = repeat_heads.unchecked(known.keys, parameters.sharing)
    v = repeat_heads.unchecked(known.values, parameters.sharing)
    given = {"mask": mask, "bias": bias, "return_weights": True}
    if cap is None:
        H, A = attention.unchecked(q, k, v, **given)
    else:
        H, A = capped_attention.unchecked(q, k, v, cap=cap, **given)
    merged = merge_heads.unchecked(H)  # (*batch, T, D)
    output = projected(merged, parameters.W_O, parameters.b_O)
    return (output, known, A) if return_weights else (output, known)
