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

__all__ = [
    "MiniLM",
    "WeightsError",
    "encode",
    "load_minilm",
    "without_head",
]
