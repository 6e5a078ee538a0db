"""Trained models, run through the functions of this book.

Their weights come from installed packages, are read in place and checked by their hash.
The package itself imports nothing from here.
"""

from attention_in_detail.models._installed import WeightsError
from attention_in_detail.models.minilm import (
    MiniLM,
    encode,
    load_minilm,
    without_head,
)
from attention_in_detail.models.recurrent import SSRUParameters, ssru
from attention_in_detail.models.translator import (
    RecurrentDecoderLayer,
    Translation,
    Translator,
    load_translator,
    read_source,
    recurrent_decoder_layer,
    translate,
    without_cross_head,
    write_target,
)

__all__ = [
    "MiniLM",
    "RecurrentDecoderLayer",
    "SSRUParameters",
    "Translation",
    "Translator",
    "WeightsError",
    "encode",
    "load_minilm",
    "load_translator",
    "read_source",
    "recurrent_decoder_layer",
    "ssru",
    "translate",
    "without_cross_head",
    "without_head",
    "write_target",
]
