"""A decoder without an encoder, as language models of today are: tokens in, logits of the next token out, with a cache."""

from dataclasses import dataclass
from numbers import Real
from typing import Any

from array_api_compat import array_namespace

from attention_in_detail._arrays import as_places
from attention_in_detail._checks import (
    checked,
    kind,
    named,
    need_flag,
    need_integer,
    need_nonempty,
    need_one_home,
    need_same,
)
from attention_in_detail._layer_checks import need_exactly, need_part
from attention_in_detail._transformer_checks import (
    need_token_array,
    need_vocabulary,
)
from attention_in_detail.caching import KeyValueCache
from attention_in_detail.causal_self_attention import (
    cached_self_attention,
    need_own_cache,
    need_variants,
)
from attention_in_detail.layers import EncoderLayerParameters, encoder_steps
from attention_in_detail.notation import Array, Float, Integer, Size
from attention_in_detail.pointwise import LayerNormParameters, layer_norm

__all__ = ["DecoderOnlyParameters", "decoder_only", "generate"]


def check_decoder_only_parameters(
    embedding: Any,
    layers: Any,
    norm: Any = None,
    *,
    rotary_base: Any = None,
    before: Any = None,
    sinks: Any = 0,
    cap: Any = None,
) -> None:
    need_exactly("embedding", embedding, ["V", "D"])
    need_nonempty(
        "embedding", embedding.shape[0], "V", "a vocabulary needs a token"
    )
    if not isinstance(layers, tuple):
        raise TypeError(f"layers must be a tuple, not {kind(layers)}")
    if not layers:
        raise ValueError("layers is empty, but needs at least 1 layer")
    home, widths = {"embedding": embedding}, {}
    for n, layer in enumerate(layers):
        name = f"layers[{n}]"
        need_part(name, layer, "EncoderLayerParameters")
        widths[name] = layer.D
        home[f"{name}.attention.W_Q"] = layer.attention.W_Q
    if norm is not None:
        need_part("norm", norm, "LayerNormParameters")
        widths["norm"] = norm.gain.shape[0]
        home["norm.gain"] = norm.gain
    need_one_home(home)
    D = embedding.shape[1]
    for name, width in widths.items():
        hint = "one width runs through the model"
        need_same(name, width, "embedding", D, "D", hint)
    for layer in layers:
        need_variants(
            layer.attention, rotary_base, None, before, sinks, cap
        )


@dataclass(frozen=True, eq=False)
class DecoderOnlyParameters:
    r"""The parameters of a decoder without an encoder, and which changes to attention it has.

    .. math:: E : (V, D)

    Its layers are encoder layers: what makes them a decoder is the causal mask. The
    embedding stands at both ends. Linear biases are not among the changes.

    Attributes:
        embedding: one row a token, shape (V, D); logits are products with it.
        layers: one or more, of any number of key heads.
        norm: after the last layer, or None. Pre-norm layers need it.
        rotary_base: as in :func:`attention_in_detail.cached_self_attention`.
        before: likewise.
        sinks: likewise.
        cap: likewise.

    Raises:
        TypeError: if a part is of a wrong kind, or libraries, dtypes or devices are
            mixed.
        ValueError: if widths do not fit, there is no layer, or a number is out of
            range.

    Source:
        Radford et al. (2018), section 3.1, for the form; the parts name theirs.
    """

    embedding: Float[Array, "V D"]
    layers: tuple[EncoderLayerParameters, ...]
    norm: LayerNormParameters | None = None
    rotary_base: Real | None = None
    before: Size | None = None
    sinks: Size = 0
    cap: Real | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> "DecoderOnlyParameters":
        if args or kwargs:
            named(check_decoder_only_parameters, cls.__name__)(
                *args, **kwargs
            )
        return super().__new__(cls)

    @property
    def D(self) -> int:
        """The width of the model."""
        return self.embedding.shape[1]


def need_model(parameters: Any, name: str, tokens: Any) -> None:
    need_part("parameters", parameters, "DecoderOnlyParameters")
    need_token_array(name, tokens, "T")
    need_one_home(
        {"parameters.embedding": parameters.embedding, name: tokens},
        dtype=False,
    )


def check_decoder_only(
    parameters: Any,
    tokens: Any,
    cache: Any = None,
    *,
    return_weights: Any = False,
) -> None:
    need_flag("return_weights", return_weights)
    need_model(parameters, "tokens", tokens)
    if cache is not None:
        if not isinstance(cache, tuple):
            raise TypeError(f"cache must be a tuple, not {kind(cache)}")
        layers, own = len(cache), len(parameters.layers)
        if layers != own:
            raise ValueError(
                f"cache has {layers} layers, but parameters has {own}; it belongs to another model"
            )
        batch = tuple(tokens.shape[:-1])
        for n, known in enumerate(cache):
            need_own_cache(
                parameters.layers[n].attention,
                parameters.embedding,
                known,
                batch,
                name="tokens",
                home="parameters.embedding",
                own=f"cache[{n}]",
            )
        lengths = [known.length for known in cache]
        if len(set(lengths)) > 1:
            raise ValueError(
                f"cache has layers of lengths {lengths}; all layers have read the same tokens"
            )
    need_vocabulary("tokens", tokens, parameters.embedding.shape[0])


@checked(check_decoder_only)
def decoder_only(
    parameters: DecoderOnlyParameters,
    tokens: Integer[Array, "*batch T"],
    cache: tuple[KeyValueCache, ...] | None = None,
    *,
    return_weights: bool = False,
) -> (
    tuple[Float[Array, "*batch T V"], tuple[KeyValueCache, ...]]
    | tuple[
        Float[Array, "*batch T V"],
        tuple[KeyValueCache, ...],
        tuple[Float[Array, "*batch h T S"], ...],
    ]
):
    r"""Say for each token what could come next.

    .. math:: X^{(0)} = E_{t}, \qquad X^{(l)} = \operatorname{Layer}_l(X^{(l-1)}), \qquad
        G = \operatorname{norm}(X^{(L)})\, E^\top

    Args:
        parameters: of the whole model.
        tokens: the next tokens, shape (\*batch, T), T at least 1.
        cache: of the tokens before, one of each layer, from an earlier call; None at
            the beginning.
        return_weights: also return the attention weights of each layer.

    Returns:
        The pair of logits, shape (\*batch, T, V), and the new caches. With
        ``return_weights`` a third: the weights of each layer, shape (\*batch, h, T, S).

    Raises:
        TypeError: if an argument is of a wrong kind, or libraries or devices are mixed.
        ValueError: if a token is not in the vocabulary, T is 0, or the cache is of
            another batch or model, or of layers that have not read the same tokens.

    Source:
        Radford et al. (2018), section 3.1.
    """
    p, xp = parameters, array_namespace(tokens)
    flat = as_places(xp.reshape(tokens, (-1,)))
    x = xp.reshape(
        xp.take(p.embedding, flat, axis=0),
        (*tokens.shape, p.embedding.shape[1]),
    )
    grown, seen = [], []
    for n, layer in enumerate(p.layers):

        def attend(y: Array, n: int = n) -> tuple[Array, Array]:
            output, known, A = cached_self_attention.unchecked(
                p.layers[n].attention,
                y,
                None if cache is None else cache[n],
                rotary_base=p.rotary_base,
                before=p.before,
                sinks=p.sinks,
                cap=p.cap,
                return_weights=True,
            )
            grown.append(known)
            return output, A

        x, A = encoder_steps(layer, x, attend)
        if return_weights:
            seen.append(A)
    if p.norm is not None:
        x = layer_norm.unchecked(p.norm, x)
    logits = x @ p.embedding.mT  # (*batch, T, V)
    if return_weights:
        return logits, tuple(grown), tuple(seen)
    return logits, tuple(grown)


def check_generate(
    parameters: Any, prompt: Any, steps: Any, *, cached: Any = True
) -> None:
    need_integer("steps", steps, least=1)
    need_flag("cached", cached)
    need_model(parameters, "prompt", prompt)
    need_vocabulary("prompt", prompt, parameters.embedding.shape[0])


@checked(check_generate)
def generate(
    parameters: DecoderOnlyParameters,
    prompt: Integer[Array, "*batch T"],
    steps: Size,
    *,
    cached: bool = True,
) -> Integer[Array, "*batch steps"]:
    r"""Continue a prompt, each time with the most probable token.

    .. math:: t_{T} = \operatorname*{arg\,max}_t\; G_{T-1,\,t}

    Of equally probable tokens the first in the vocabulary is taken. With torch, call it
    under ``torch.no_grad()``: nothing here needs a gradient.

    Args:
        parameters: of the whole model.
        prompt: the tokens to begin with, shape (\*batch, T).
        steps: how many tokens to add.
        cached: whether to keep keys and values; without, all tokens go through the
            model again for each new one. The tokens are the same.

    Returns:
        The new tokens, shape (\*batch, steps).

    Raises:
        TypeError: if an argument is of a wrong kind, or libraries or devices are mixed.
        ValueError: if a token is not in the vocabulary, or a size is below 1.

    Source:
        Elementary.
    """
    xp, T = array_namespace(prompt), prompt.shape[-1]
    tokens, cache, new = xp.astype(prompt, xp.int64), None, prompt
    for _ in range(int(steps)):
        if cached:
            logits, cache = decoder_only.unchecked(parameters, new, cache)
        else:
            logits, _ = decoder_only.unchecked(parameters, tokens)
        best = xp.argmax(logits[..., -1, :], axis=-1)
        new = xp.astype(best, xp.int64)[..., None]
        tokens = xp.concat([tokens, new], axis=-1)
    return tokens[..., T:]
