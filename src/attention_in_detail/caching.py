"""What a decoder has already computed: keys and values of the tokens before, and of the source."""

import math
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace, device

from attention_in_detail._arrays import as_places, itemsize
from attention_in_detail._checks import checked, named
from attention_in_detail._transformer_checks import (
    check_append,
    check_cache_bytes,
    check_decode_step,
    check_decoder_cache,
    check_key_value_cache,
    check_take,
)
from attention_in_detail.encoder_decoder import (
    TransformerParameters,
    decoder_run,
)
from attention_in_detail.layers import decoder_steps
from attention_in_detail.masks import causal_mask, keep_rows
from attention_in_detail.multi_head import (
    merge_heads,
    projected,
    repeat_heads,
    split_heads,
    stored_heads,
)
from attention_in_detail.notation import Array, Bool, Float, Integer, Size
from attention_in_detail.parameters import MultiHeadParameters
from attention_in_detail.scaled_dot_product import attention

__all__ = [
    "DecoderCache",
    "KeyValueCache",
    "cache_bytes",
    "decode_step",
    "decoder_cache",
]


@dataclass(frozen=True, eq=False)
class KeyValueCache:
    r"""The projected keys and values of one attention, all key heads.

    .. math:: K W^K : (h_{kv}, S, D_k), \qquad V W^V : (h_{kv}, S, D_v)

    A cache is never changed: :meth:`append` and :meth:`take` return new ones.

    Attributes:
        keys: shape (h_kv, S, D_k), behind the batch axes; without grouped heads h_kv = h.
        values: shape (h_kv, S, D_v), behind the same.

    Raises:
        TypeError: if an array is not floating, or libraries, dtypes or devices are
            mixed.
        ValueError: if lengths or leading axes differ.

    Source:
        Shazeer (2019), section 2.4.
    """

    keys: Array  # (*batch, h_kv, S, D_k)
    values: Array  # (*batch, h_kv, S, D_v)

    def __new__(cls, *args: Any, **kwargs: Any) -> "KeyValueCache":
        if args or kwargs:
            named(check_key_value_cache, cls.__name__)(*args, **kwargs)
        return super().__new__(cls)

    @property
    def length(self) -> int:
        """How many positions S are in it."""
        return self.keys.shape[-2]

    @property
    def bytes(self) -> int:
        """How many bytes keys and values take, as :func:`cache_bytes` counts them."""
        return sum(
            math.prod(x.shape) * itemsize(x)
            for x in (self.keys, self.values)
        )

    @checked(check_append)
    def append(
        self,
        keys: Float[Array, "*batch h_kv T D_k"],
        values: Float[Array, "*batch h_kv T D_v"],
    ) -> "KeyValueCache":
        r"""Return a cache with T more positions at the end.

        Args:
            keys: shape (\*batch, h_kv, T, D_k).
            values: shape (\*batch, h_kv, T, D_v).

        Returns:
            A new cache, of length S + T.

        Raises:
            TypeError: if libraries, dtypes or devices are mixed.
            ValueError: if widths or leading axes differ from the cache's.
        """
        xp = array_namespace(keys)
        return KeyValueCache(
            xp.concat([self.keys, keys], axis=-2),
            xp.concat([self.values, values], axis=-2),
        )

    @checked(check_take)
    def take(self, rows: Integer[Array, " n"]) -> "KeyValueCache":
        """Return a cache of the chosen batch entries; an entry may be chosen often.

        Args:
            rows: the numbers of the entries, shape (n,).

        Returns:
            A new cache, of batch size n.

        Raises:
            TypeError: if ``rows`` are not integers.
            ValueError: if there is no such entry, or not one batch axis.
        """
        xp, rows = array_namespace(self.keys), as_places(rows)
        return KeyValueCache(
            xp.take(self.keys, rows, axis=0),
            xp.take(self.values, rows, axis=0),
        )


@checked(check_cache_bytes)
def cache_bytes(
    length: Size,
    *,
    layers: Size,
    kv_heads: Size,
    D_h: Size,
    batch: Size = 1,
    itemsize: Size = 2,
) -> int:
    r"""Count the bytes that the keys and values of a whole model take.

    .. math:: \text{bytes} = 2\, B\, L\, h_{kv}\, S\, D_h \times \text{itemsize}

    The 2 stands for keys and values. The number of query heads is not in it.

    Args:
        length: the number of positions, S.
        layers: the number of layers, L, each with a cache of its own.
        kv_heads: the number of key heads in each, h_kv.
        D_h: the width of one head.
        batch: the number of sequences, B.
        itemsize: bytes a number: 4 for float32, 2 for half precision.

    Returns:
        The bytes: the sum of :attr:`KeyValueCache.bytes` over the layers.

    Raises:
        TypeError: if a size is not an integer.
        ValueError: if ``length`` is negative, or another size below 1.

    Source:
        Shazeer (2019), section 2.4.
    """
    sizes = (batch, layers, kv_heads, length, D_h, itemsize)
    return 2 * math.prod(map(int, sizes))


@dataclass(frozen=True, eq=False)
class DecoderCache:
    """What the decoder of one model keeps between two tokens; made by :func:`decoder_cache`, never changed.

    Attributes:
        own: for each layer, of the target's tokens so far.
        context: for each layer, of the source.
        context_mask: which source positions may be attended to, or None.
    """

    own: tuple[KeyValueCache, ...]
    context: tuple[KeyValueCache, ...]
    context_mask: Array | None = None

    @property
    def length(self) -> int:
        """How many target tokens are in it."""
        return self.own[0].length

    @checked(check_take)
    def take(self, rows: Integer[Array, " n"]) -> "DecoderCache":
        """Return a cache of the chosen batch entries; an entry may be chosen often.

        Args:
            rows: the numbers of the entries, shape (n,).

        Returns:
            A new cache, of batch size n.

        Raises:
            TypeError: if ``rows`` are not integers.
            ValueError: if there is no such entry, or not one batch axis.
        """
        mask, take = self.context_mask, KeyValueCache.take.unchecked
        if mask is not None and mask.ndim > 2:
            places = as_places(rows)
            mask = array_namespace(mask).take(mask, places, axis=0)
        return DecoderCache(
            tuple(take(cache, rows) for cache in self.own),
            tuple(take(cache, rows) for cache in self.context),
            mask,
        )


@checked(check_decoder_cache)
def decoder_cache(
    parameters: TransformerParameters,
    memory: Float[Array, "*batch S D"],
    *,
    source_mask: Bool[Array, "..."] | None = None,
) -> DecoderCache:
    r"""Project the source's keys and values once, for all tokens to come.

    .. math:: C\, W^K, \quad C\, W^V \quad \text{for each decoder layer}

    Args:
        parameters: of the whole model.
        memory: what :func:`attention_in_detail.encode` gives, shape (\*batch, S, D).
        source_mask: as in :func:`attention_in_detail.encode`.

    Returns:
        A cache with no target token in it yet.

    Raises:
        TypeError: if an argument is of a wrong kind, or libraries, dtypes or devices
            are mixed.
        ValueError: if sizes do not fit.

    Source:
        Shazeer (2019), section 2.4.
    """
    xp = array_namespace(memory)
    *batch, S, _ = memory.shape
    mask = source_mask
    if mask is not None and mask.ndim > 2:
        mask = xp.broadcast_to(mask, (*batch, 1, S))
    elif mask is not None and mask.ndim < 2:
        mask = xp.broadcast_to(mask, (1, S))
    kept = keep_rows(memory, mask, of="keys")
    own, context, split = [], [], split_heads.unchecked
    for layer in parameters.decoder_layers:
        p, q = layer.self_attention, layer.cross_attention
        none = xp.zeros(
            (*batch, p.h_kv, 0, p.D_h),
            dtype=memory.dtype,
            device=device(memory),
        )
        own.append(KeyValueCache(none, none))
        context.append(
            KeyValueCache(
                split(projected(kept, q.W_K, q.b_K), q.h_kv),
                split(projected(kept, q.W_V, q.b_V), q.h_kv),
            )
        )
    return DecoderCache(tuple(own), tuple(context), mask)


@checked(check_decode_step)
def decode_step(
    parameters: TransformerParameters,
    tokens: Integer[Array, "*batch T"],
    cache: DecoderCache,
) -> tuple[Float[Array, "*batch T V_t"], DecoderCache]:
    r"""Decode some more tokens, without computing again what came before.

    .. math:: \operatorname{decode}(t_{1 \dots n+T}, C)_{n+1 \dots n+T}

    Equal to the last T rows of :func:`attention_in_detail.decode` of all tokens so far:
    in a causal decoder the rows before do not depend on what comes after.

    Args:
        parameters: of the whole model.
        tokens: the next T ≥ 1 target tokens, shape (\*batch, T), with the batch axes of
            the cache.
        cache: of the tokens before.

    Returns:
        The pair of logits, shape (\*batch, T, V_t), and a new cache with these tokens
        in it. The old one stays as it was.

    Raises:
        TypeError: if an argument is of a wrong kind, or libraries or devices are mixed.
        ValueError: if a token is not in the vocabulary, or the cache is of another
            batch or model.

    Source:
        Shazeer (2019), section 2.4.
    """
    grown = []

    def layer(n: int, x: Array) -> tuple[Array, Array, Array]:
        p = parameters.decoder_layers[n]

        def attend(y: Array) -> tuple[Array, Array]:
            q, k, v = stored_heads(
                p.self_attention, y, y, y, mask=None, bias=None
            )
            known = cache.own[n].append(k, v)
            grown.append(known)
            T, S = q.shape[-2], known.length
            mask = causal_mask.unchecked(T, S, offset=S - T, like=q)
            return _attended(p.self_attention, q, known, mask)

        def attend_to_context(y: Array) -> tuple[Array, Array]:
            a = p.cross_attention
            q = split_heads.unchecked(projected(y, a.W_Q, a.b_Q), a.heads)
            mask = cache.context_mask
            if mask is not None and mask.ndim > 2:
                mask = mask[..., None, :, :]  # one mask for all heads
            return _attended(a, q, cache.context[n], mask)

        return decoder_steps(p, x, attend, attend_to_context)

    logits, _, _ = decoder_run(
        parameters, tokens, layer, offset=cache.length
    )
    new = DecoderCache(tuple(grown), cache.context, cache.context_mask)
    return logits, new


def _attended(
    p: MultiHeadParameters,
    queries: Float[Array, "*batch h T D_h"],
    known: KeyValueCache,
    mask: Bool[Array, "..."] | None,
) -> tuple[Float[Array, "*batch T D"], Float[Array, "*batch h T S"]]:
    """Attend to what a cache holds; return the output and the weights."""
    H, weights = attention.unchecked(
        queries,
        repeat_heads.unchecked(known.keys, p.sharing),
        repeat_heads.unchecked(known.values, p.sharing),
        mask=mask,
        return_weights=True,
    )
    return projected(merge_heads.unchecked(H), p.W_O, p.b_O), weights
