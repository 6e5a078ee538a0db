"""Input checks of the Transformer and of decoding, as in ``_checks``."""

import math
from typing import Any

from array_api_compat import array_namespace

from attention_in_detail._checks import (
    kind,
    need_array,
    need_axes,
    need_boolean,
    need_broadcast,
    need_flag,
    need_floating,
    need_integer,
    need_nonempty,
    need_one_home,
    need_pairs,
    need_same,
)
from attention_in_detail._layer_checks import (
    check_encoder_module,
    need_attributes,
    need_exactly,
    need_part,
)

__all__: list[str] = []


# ---- parameters ----------------------------------------------------------------------


def check_transformer_parameters(
    source_embedding: Any,
    target_embedding: Any,
    encoder_layers: Any,
    decoder_layers: Any,
    W_output: Any,
    b_output: Any = None,
    encoder_norm: Any = None,
    decoder_norm: Any = None,
) -> None:
    need_exactly("source_embedding", source_embedding, ["V_s", "D"])
    need_exactly("target_embedding", target_embedding, ["V_t", "D"])
    need_exactly("W_output", W_output, ["D", "V_t"])
    home = {
        "W_output": W_output,
        "source_embedding": source_embedding,
        "target_embedding": target_embedding,
    }
    if b_output is not None:
        need_exactly("b_output", b_output, ["V_t"])
        home["b_output"] = b_output
    widths = {
        "source_embedding": source_embedding.shape[1],
        "target_embedding": target_embedding.shape[1],
    }
    for name, layers, wanted in (
        ("encoder_layers", encoder_layers, "EncoderLayerParameters"),
        ("decoder_layers", decoder_layers, "DecoderLayerParameters"),
    ):
        if not isinstance(layers, tuple):
            raise TypeError(f"{name} must be a tuple, not {kind(layers)}")
        if not layers:
            raise ValueError(f"{name} is empty, but needs at least 1 layer")
        for n, layer in enumerate(layers):
            need_part(f"{name}[{n}]", layer, wanted)
            widths[f"{name}[{n}]"] = layer.D
            first = layer.feed_forward.W_1
            home[f"{name}[{n}].feed_forward.W_1"] = first
    for name, norm in (
        ("encoder_norm", encoder_norm),
        ("decoder_norm", decoder_norm),
    ):
        if norm is not None:
            need_part(name, norm, "LayerNormParameters")
            widths[name] = norm.gain.shape[0]
            home[f"{name}.gain"] = norm.gain
    need_one_home(home)
    D, V_t = W_output.shape
    one_width = "one width runs through the model"
    for name, width in widths.items():
        need_same(name, width, "W_output", D, "D", one_width)
    for n, layer in enumerate(decoder_layers):
        need_same(
            f"decoder_layers[{n}]",
            layer.D_c,
            "W_output",
            D,
            "D_c",
            one_width,
        )
    need_even("W_output", D)
    hint = "both speak of the target's vocabulary"
    rows = target_embedding.shape[0]
    need_same("target_embedding", rows, "W_output", V_t, "V_t", hint)
    if b_output is not None:
        size = b_output.shape[0]
        need_same("b_output", size, "W_output", V_t, "V_t", hint)
    for name, size, axis in (
        ("source_embedding", source_embedding.shape[0], "V_s"),
        ("target_embedding", rows, "V_t"),
    ):
        need_nonempty(name, size, axis, "a vocabulary needs a token")


def need_even(name: str, D: int) -> None:
    if D == 0 or D % 2:
        raise ValueError(
            f"{name} has D = {D}, but D must be even and at least 2: positions are pairs of sines and cosines"
        )


def check_transformer_from_torch(
    _: Any,
    module: Any,
    source_embedding: Any,
    target_embedding: Any,
    output: Any,
) -> None:
    need_attributes(module, "Transformer", ("encoder", "decoder"))
    for name, x, wanted, attribute in (
        (
            "source_embedding",
            source_embedding,
            "Embedding",
            "num_embeddings",
        ),
        (
            "target_embedding",
            target_embedding,
            "Embedding",
            "num_embeddings",
        ),
        ("output", output, "Linear", "out_features"),
    ):
        if not hasattr(x, attribute):
            raise TypeError(
                f"{name} must be a torch.nn.{wanted}, not {kind(x)} (it has no {attribute})"
            )


# ---- tokens and masks ----------------------------------------------------------------


def need_token_array(name: str, tokens: Any, axis: str) -> None:
    need_array(name, tokens)
    if not array_namespace(tokens).isdtype(tokens.dtype, "integral"):
        raise TypeError(
            f"{name} must be an array of integers, not {kind(tokens)}"
        )
    need_axes(name, tokens, [axis])
    need_nonempty(
        name, tokens.shape[-1], axis, "a sequence needs at least one token"
    )


def need_vocabulary(
    name: str, tokens: Any, size: int, one: str = "token"
) -> None:
    """Refuse numbers that are not in the vocabulary; the last check, since it reads them."""
    if math.prod(tokens.shape) == 0:
        return
    xp = array_namespace(tokens)
    wide = xp.astype(tokens, xp.int64)
    lowest, highest = int(xp.min(wide)), int(xp.max(wide))
    if lowest < 0 or highest >= size:
        wrong = lowest if lowest < 0 else highest
        raise ValueError(
            f"{name} has the {one} {wrong}, but a {one} must be from 0 to {size - 1}"
        )


def need_token(name: str, token: Any, size: int) -> None:
    need_integer(name, token, least=0)
    if token >= size:
        raise ValueError(
            f"{name} is {token}, but a token must be from 0 to {size - 1}"
        )


def need_batch_mask(
    name: str,
    mask: Any,
    batch_axes: int,
    T: int,
    S: int,
    of: tuple[str, str],
) -> tuple[int, ...]:
    """Refuse a mask that does not fit; it holds for all heads. Return its batch axes."""
    if mask.ndim > 2 and mask.ndim != batch_axes + 2:
        raise ValueError(
            f"{name} has {mask.ndim} axes, but with {batch_axes} batch axes it needs at most 2, "
            f"or {batch_axes + 2} (*batch, T, S); it holds for all heads"
        )
    need_pairs(name, mask, T, S, of=of)
    return tuple(mask.shape[:-2])


def need_source_mask(
    mask: Any, batch_axes: int, S: int, of: str
) -> tuple[int, ...]:
    """Refuse a mask of the source that does not hold for every query."""
    if mask.ndim >= 2 and mask.shape[-2] != 1:
        raise ValueError(
            f"source_mask has T = {mask.shape[-2]}, but must have T = 1: "
            "it shuts source positions for every query, as padding_mask does"
        )
    return need_batch_mask("source_mask", mask, batch_axes, 1, S, (of, of))


def need_as_many_axes(name: str, x: Any, other: str, axes: int) -> None:
    if x != axes:
        raise ValueError(
            f"{name} has {x} batch axes, but {other} has {axes}; give both as many"
        )


def check_embed(table: Any, tokens: Any, *, offset: Any = 0) -> None:
    need_exactly("table", table, ["V", "D"])
    need_even("table", table.shape[1])
    need_token_array("tokens", tokens, "T")
    need_integer("offset", offset, least=0)
    need_one_home({"table": table, "tokens": tokens}, dtype=False)
    need_vocabulary("tokens", tokens, table.shape[0])


def check_encode(
    parameters: Any,
    source: Any,
    *,
    source_mask: Any = None,
    return_weights: Any = False,
) -> None:
    need_source(parameters, source, source_mask)
    need_flag("return_weights", return_weights)
    need_vocabulary("source", source, parameters.source_embedding.shape[0])


def need_source(parameters: Any, source: Any, source_mask: Any) -> None:
    need_part("parameters", parameters, "TransformerParameters")
    need_token_array("source", source, "S")
    if source_mask is not None:
        need_boolean("source_mask", source_mask, hint="")
    table = parameters.source_embedding
    need_one_home(
        {
            "source": source,
            "source_mask": source_mask,
            "parameters.source_embedding": table,
        },
        dtype=False,
    )
    batches = {"source": tuple(source.shape[:-1])}
    if source_mask is not None:
        batches["source_mask"] = need_source_mask(
            source_mask, source.ndim - 1, source.shape[-1], "source"
        )
    need_broadcast(batches)


def check_decode(
    parameters: Any,
    target: Any,
    memory: Any,
    *,
    target_mask: Any = None,
    source_mask: Any = None,
    return_weights: Any = False,
) -> None:
    need_part("parameters", parameters, "TransformerParameters")
    need_memory(parameters, memory, source_mask)
    need_target(parameters, target, target_mask, memory.ndim - 2, "memory")
    need_flag("return_weights", return_weights)
    need_one_home({"memory": memory, "target": target}, dtype=False)
    need_broadcast(
        {
            "memory": tuple(memory.shape[:-2]),
            "target": tuple(target.shape[:-1]),
        }
    )
    need_vocabulary("target", target, parameters.target_embedding.shape[0])


def need_memory(parameters: Any, memory: Any, source_mask: Any) -> None:
    need_floating("memory", memory)
    need_axes("memory", memory, ["S", "D"])
    if source_mask is not None:
        need_boolean("source_mask", source_mask, hint="")
    need_one_home(
        {
            "memory": memory,
            "source_mask": source_mask,
            "parameters.W_output": parameters.W_output,
        }
    )
    need_same(
        "memory",
        memory.shape[-1],
        "parameters",
        parameters.D,
        "D",
        "it is what the encoder of the same model gives",
    )
    need_nonempty(
        "memory", memory.shape[-2], "S", "a query needs at least one key"
    )
    batches = {"memory": tuple(memory.shape[:-2])}
    if source_mask is not None:
        batches["source_mask"] = need_source_mask(
            source_mask, memory.ndim - 2, memory.shape[-2], "memory"
        )
    need_broadcast(batches)


def need_target(
    parameters: Any,
    target: Any,
    target_mask: Any,
    batch_axes: int,
    other: str,
) -> None:
    need_token_array("target", target, "T")
    need_as_many_axes("target", target.ndim - 1, other, batch_axes)
    if target_mask is not None:
        need_boolean("target_mask", target_mask, hint="")
    table = parameters.target_embedding
    need_one_home(
        {
            "target": target,
            "target_mask": target_mask,
            "parameters.target_embedding": table,
        },
        dtype=False,
    )
    batches = {"target": tuple(target.shape[:-1])}
    if target_mask is not None:
        T = target.shape[-1]
        batches["target_mask"] = need_batch_mask(
            "target_mask",
            target_mask,
            target.ndim - 1,
            T,
            T,
            ("target", "target"),
        )
    need_broadcast(batches)


def check_transformer(
    parameters: Any,
    source: Any,
    target: Any,
    *,
    source_mask: Any = None,
    target_mask: Any = None,
    return_weights: Any = False,
) -> None:
    need_source(parameters, source, source_mask)
    need_target(parameters, target, target_mask, source.ndim - 1, "source")
    need_flag("return_weights", return_weights)
    need_broadcast(
        {
            "source": tuple(source.shape[:-1]),
            "target": tuple(target.shape[:-1]),
        }
    )
    need_vocabulary("source", source, parameters.source_embedding.shape[0])
    need_vocabulary("target", target, parameters.target_embedding.shape[0])


# ---- decoding ------------------------------------------------------------------------


def check_key_value_cache(keys: Any, values: Any) -> None:
    for name, x, width in (
        ("keys", keys, "D_k"),
        ("values", values, "D_v"),
    ):
        need_floating(name, x)
        need_axes(name, x, ["h", "S", width])
    need_one_home({"keys": keys, "values": values})
    need_same(
        "values",
        values.shape[-2],
        "keys",
        keys.shape[-2],
        "S",
        "each key needs one value",
    )
    need_equal_axes("values", values.shape[:-2], "keys", keys.shape[:-2])


def need_equal_axes(
    name: str, axes: Any, other: str, other_axes: Any
) -> None:
    if tuple(axes) != tuple(other_axes):
        raise ValueError(
            f"{name} has the leading axes {tuple(axes)}, but {other} has {tuple(other_axes)}; they must be equal"
        )


def check_append(cache: Any, keys: Any, values: Any) -> None:
    check_key_value_cache(keys, values)
    for name, x, own in (
        ("keys", keys, cache.keys),
        ("values", values, cache.values),
    ):
        need_one_home({f"the cache's {name}": own, name: x})
        need_equal_axes(name, x.shape[:-2], "the cache", own.shape[:-2])
        need_same(
            name,
            x.shape[-1],
            "the cache",
            own.shape[-1],
            "D_k" if name == "keys" else "D_v",
            "what is appended is as wide",
        )


def check_cache_bytes(
    length: Any,
    *,
    layers: Any,
    kv_heads: Any,
    D_h: Any,
    batch: Any = 1,
    itemsize: Any = 2,
) -> None:
    need_integer("length", length, least=0)
    for name, size in {
        "layers": layers,
        "kv_heads": kv_heads,
        "D_h": D_h,
        "batch": batch,
        "itemsize": itemsize,
    }.items():
        need_integer(name, size, least=1)


def check_take(cache: Any, rows: Any) -> None:
    need_array("rows", rows)
    if not array_namespace(rows).isdtype(rows.dtype, "integral"):
        raise TypeError(
            f"rows must be an array of integers, not {kind(rows)}"
        )
    need_exactly_one_axis("rows", rows)
    keys = cache.keys if hasattr(cache, "keys") else cache.context[0].keys
    need_one_home({"the cache": keys, "rows": rows}, dtype=False)
    if keys.ndim != 4:
        raise ValueError(
            f"rows chooses among batch entries, but the cache has {keys.ndim - 3} batch axes, not 1"
        )
    need_vocabulary("rows", rows, keys.shape[0], "row")


def need_exactly_one_axis(name: str, x: Any) -> None:
    if x.ndim != 1:
        raise ValueError(
            f"{name} needs the axes (n), but has the shape {tuple(x.shape)}"
        )


def check_decoder_cache(
    parameters: Any, memory: Any, *, source_mask: Any = None
) -> None:
    need_part("parameters", parameters, "TransformerParameters")
    need_memory(parameters, memory, source_mask)


def check_decode_step(parameters: Any, tokens: Any, cache: Any) -> None:
    need_part("parameters", parameters, "TransformerParameters")
    need_part("cache", cache, "DecoderCache")
    need_token_array("tokens", tokens, "T")
    keys = cache.context[0].keys
    need_one_home(
        {"parameters.W_output": parameters.W_output, "cache": keys}
    )
    need_one_home({"cache": keys, "tokens": tokens}, dtype=False)
    layers, own = len(cache.context), len(parameters.decoder_layers)
    if layers != own:
        raise ValueError(
            f"cache has {layers} layers, but parameters has {own}; it belongs to another model"
        )
    need_equal_axes("tokens", tokens.shape[:-1], "cache", keys.shape[:-3])
    need_vocabulary("tokens", tokens, parameters.target_embedding.shape[0])


def check_greedy_decode(
    parameters: Any,
    source: Any,
    *,
    start: Any,
    end: Any,
    limit: Any,
    source_mask: Any = None,
    cached: Any = True,
) -> None:
    need_source(parameters, source, source_mask)
    size = parameters.target_embedding.shape[0]
    need_token("start", start, size)
    need_token("end", end, size)
    need_integer("limit", limit, least=1)
    need_flag("cached", cached)
    need_vocabulary("source", source, parameters.source_embedding.shape[0])


def check_beam_decode(
    parameters: Any,
    source: Any,
    *,
    width: Any,
    start: Any,
    end: Any,
    limit: Any,
    source_mask: Any = None,
    cached: Any = True,
) -> None:
    need_integer("width", width, least=1)
    need_array("source", source)
    if source.ndim > 1:
        raise ValueError(
            f"source needs the axes (S), but has the shape {tuple(source.shape)}; beams are of one source"
        )
    check_greedy_decode(
        parameters,
        source,
        start=start,
        end=end,
        limit=limit,
        source_mask=source_mask,
        cached=cached,
    )


# ---- the module ----------------------------------------------------------------------


def check_transformer_module(
    _: Any,
    V_s: Any,
    V_t: Any,
    D: Any,
    heads: Any,
    *,
    encoder_layers: Any = 6,
    decoder_layers: Any = 6,
    D_ff: Any = None,
    activation: Any = "relu",
    norm_first: Any = False,
    final_norm: Any = None,
    dropout: Any = 0.0,
    eps: Any = 1e-5,
    bias: Any = True,
) -> None:
    for name, size in {
        "V_s": V_s,
        "V_t": V_t,
        "encoder_layers": encoder_layers,
        "decoder_layers": decoder_layers,
    }.items():
        need_integer(name, size, least=1)
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
    if int(D) % 2:
        raise ValueError(
            f"D is {D}, but must be even: sines and cosines come in pairs"
        )
    if final_norm is not None:
        need_flag("final_norm", final_norm)


def check_transformer_forward(
    module: Any,
    source: Any,
    target: Any,
    *,
    source_mask: Any = None,
    target_mask: Any = None,
    return_weights: Any = False,
) -> None:
    check_transformer(
        module.as_parameters(),
        source,
        target,
        source_mask=source_mask,
        target_mask=target_mask,
        return_weights=return_weights,
    )
