"""Input checks of the models' functions, as in ``attention_in_detail._checks``."""

from typing import Any

from array_api_compat import array_namespace

from attention_in_detail._checks import (
    check_padding_mask,
    kind,
    need_array,
    need_axes,
    need_integer,
    need_nonempty,
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
    for name, number, count in (
        ("layer", layer, len(model.layers)),
        ("head", head, heads),
    ):
        need_integer(name, number, least=0)
        if number >= count:
            raise ValueError(
                f"{name} is {number}, but the model has {count}; they are counted from 0"
            )
