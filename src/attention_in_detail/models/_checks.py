"""Input checks of the models' functions, as in ``attention_in_detail._checks``."""

from collections.abc import Sequence
from typing import Any

from array_api_compat import array_namespace

from attention_in_detail._checks import (
    check_padding_mask,
    kind,
    need_array,
    need_axes,
    need_boolean,
    need_integer,
    need_nonempty,
    need_one_home,
    need_same,
)
from attention_in_detail._layer_checks import need_exactly, need_part
from attention_in_detail._multi_head_checks import check_cross_attention
from attention_in_detail._transformer_checks import (
    need_token_array,
    need_vocabulary,
)

__all__: list[str] = []


def check_load(dtype: Any = "float32") -> None:
    if dtype not in ("float32", "float64"):
        raise ValueError(
            f"dtype is {dtype!r}, but must be 'float32' or 'float64'"
        )


def check_text(sentence: Any) -> None:
    if not isinstance(sentence, str):
        raise TypeError(f"sentence must be a text, not {kind(sentence)}")


def check_sentence(_: Any, sentence: Any) -> None:
    check_text(sentence)


def check_sentences(_: Any, sentences: Any) -> None:
    if isinstance(sentences, str):
        raise TypeError(
            "sentences must be a list of texts, not one text; put it in a list"
        )
    for sentence in sentences:
        check_text(sentence)
    if len(sentences) == 0:
        raise ValueError("sentences must hold at least one text")


def check_encode(model: Any, ids: Any, lengths: Any = None) -> None:
    need_array("ids", ids)
    xp = array_namespace(ids)
    if not xp.isdtype(ids.dtype, "integral"):
        raise TypeError(
            f"ids must be an array of integers, not {kind(ids)}"
        )
    need_axes("ids", ids, ["T"])
    T = ids.shape[-1]
    need_nonempty("ids", T, "T", "a sentence has at least one token")
    longest, vocabulary = model.positions.shape[0], model.words.shape[0]
    if longest < T:
        raise ValueError(
            f"ids has T = {T}, but the model has positions for {longest}; cut the sentence"
        )
    if lengths is not None:
        check_padding_mask(lengths, T)
        if tuple(lengths.shape) != tuple(ids.shape[:-1]):
            raise ValueError(
                f"lengths has the shape {tuple(lengths.shape)}, but ids has the batch axes "
                f"{tuple(ids.shape[:-1])}; each sentence needs one length"
            )
    if 0 in ids.shape:
        return
    lowest, highest = int(xp.min(ids)), int(xp.max(ids))
    if lowest < 0 or highest >= vocabulary:
        wrong = lowest if lowest < 0 else highest
        raise ValueError(
            f"ids holds {wrong}, but the vocabulary has the numbers 0 to {vocabulary - 1}"
        )


def check_without_head(model: Any, layer: Any, head: Any) -> None:
    heads = model.layers[0].attention.heads
    need_head(layer, head, len(model.layers), heads)


def check_without_cross_head(model: Any, layer: Any, head: Any) -> None:
    need_part("model", model, "Translator")
    layers = model.decoder_layers
    need_head(layer, head, len(layers), layers[0].cross_attention.heads)


def need_head(layer: Any, head: Any, layers: int, heads: int) -> None:
    for name, number, count in (
        ("layer", layer, layers),
        ("head", head, heads),
    ):
        need_integer(name, number, least=0)
        if number >= count:
            raise ValueError(
                f"{name} is {number}, but the model has {count}; they are counted from 0"
            )


# ---- the translator ------------------------------------------------------------------


def check_ssru_parameters(W: Any, W_f: Any, b_f: Any) -> None:
    for name, x, axes in (
        ("W", W, ["D", "D"]),
        ("W_f", W_f, ["D", "D"]),
        ("b_f", b_f, ["D"]),
    ):
        need_exactly(name, x, axes)
    need_one_home({"W": W, "W_f": W_f, "b_f": b_f})
    D = W.shape[0]
    if W.shape[1] != D:
        raise ValueError(
            f"W needs the shape (D, D), but has {tuple(W.shape)}"
        )
    for name, size in (
        ("W_f", W_f.shape[0]),
        ("W_f", W_f.shape[1]),
        ("b_f", b_f.shape[0]),
    ):
        need_same(name, size, "W", D, "D", "the unit has one width")


def check_ssru(parameters: Any, x: Any, state: Any = None) -> None:
    need_part("parameters", parameters, "SSRUParameters")
    need_exactly("x", x, ["T", "D"])
    need_nonempty("x", x.shape[0], "T", "a state needs one row at least")
    given = {"x": x, "parameters.W": parameters.W}
    if state is not None:
        need_exactly("state", state, ["D"])
        given["state"] = state
    need_one_home(given)
    D, hint = parameters.W.shape[0], "the unit has one width"
    need_same("x", x.shape[1], "parameters.W", D, "D", hint)
    if state is not None:
        need_same("state", state.shape[0], "parameters.W", D, "D", hint)


def check_recurrent_decoder_layer(
    parameters: Any,
    x: Any,
    context: Any,
    state: Any = None,
    *,
    mask: Any = None,
) -> None:
    need_part("parameters", parameters, "RecurrentDecoderLayer")
    check_ssru(parameters.recurrent, x, state)
    need_exactly("context", context, ["S", "D"])
    if mask is not None:
        need_boolean("mask", mask, hint="")
    check_cross_attention(parameters.cross_attention, x, context, mask=mask)


def check_pieces(model: Any, ids: Any) -> None:
    need_part("model", model, "Translator")
    need_pieces("ids", ids, "S", model.embedding.shape[0])


def check_source(model: Any, ids: Any) -> None:
    check_pieces(model, ids)


def check_target(
    model: Any, context: Any, ids: Any, *, mask: Any = None
) -> None:
    need_part("model", model, "Translator")
    need_exactly("context", context, ["S", "D"])
    need_nonempty("context", context.shape[0], "S", "a source has a piece")
    vocabulary, D = model.embedding.shape
    hint = "the context is as wide as the model"
    need_same("context", context.shape[1], "the model", D, "D", hint)
    need_one_home({"context": context, "the model": model.embedding})
    need_piece_axis("ids", ids, "T")
    if mask is not None:
        need_boolean("mask", mask, hint="")
        layers = model.decoder_layers
        wanted = (
            len(layers),
            layers[0].cross_attention.heads,
            ids.shape[0],
            context.shape[0],
        )
        if tuple(mask.shape) != wanted:
            raise ValueError(
                f"mask has the shape {tuple(mask.shape)}, but the weights have (L, h, T, S) = {wanted}"
            )
    need_vocabulary("ids", ids, vocabulary)


def need_piece_axis(name: str, ids: Any, axis: str) -> None:
    need_token_array(name, ids, axis)
    if ids.ndim > 1:
        raise ValueError(
            f"{name} needs the axis ({axis},), but has the shape {tuple(ids.shape)}"
        )


def need_pieces(name: str, ids: Any, axis: str, vocabulary: int) -> None:
    need_piece_axis(name, ids, axis)
    need_vocabulary(name, ids, vocabulary)


def check_translate(
    model: Any, sentence: Any, *, among: Any = None
) -> None:
    need_part("model", model, "Translator")
    check_text(sentence)
    if not sentence.strip():
        raise ValueError("sentence holds no word: nothing to translate")
    if among is not None:
        need_pieces("among", among, "C", model.embedding.shape[0])
        if not bool((among == 0).any()):
            raise ValueError(
                "among has not the number 0, that of </s>: no translation would end"
            )


def check_forced(model: Any, sentence: Any, heads: Any) -> None:
    check_translate(model, sentence)
    if isinstance(heads, str) or not isinstance(heads, Sequence):
        raise TypeError(
            f"heads must be a list of numbers, not {kind(heads)}"
        )
    if len(heads) == 0:
        raise ValueError("heads must hold at least one number")
    layers = model.decoder_layers
    for head in heads:
        need_head(0, head, len(layers), layers[0].cross_attention.heads)
