"""Parameters of layers for the tests, every array drawn, and torch's own layers with the same sizes."""

import warnings

import numpy as np
import torch

from attention_in_detail import (
    DecoderLayerParameters,
    EncoderLayerParameters,
    FeedForwardParameters,
    LayerNormParameters,
    TransformerParameters,
)
from tests.support import D, h, normal, parameters

D_c, D_ff = 9, 6


def layer_norm_parameters(
    make=np.asarray, *, D=D, seed=0, shift=True, dtype=np.float64
):
    return LayerNormParameters(
        make((1 + normal(D, seed=seed) / 2).astype(dtype)),
        make(normal(D, seed=seed + 1).astype(dtype)) if shift else None,
    )


def feed_forward_parameters(
    make=np.asarray, *, D=D, seed=0, bias=True, dtype=np.float64, **options
):
    def draw(*shape, n):
        x = normal(*shape, seed=10 * seed + n) / np.sqrt(shape[0])
        return make(x.astype(dtype))

    return FeedForwardParameters(
        draw(D, D_ff, n=0),
        draw(D_ff, D, n=1),
        draw(D_ff, n=2) if bias else None,
        draw(D, n=3) if bias else None,
        **options,
    )


def attention_parameters(
    make=np.asarray,
    *,
    D=D,
    D_c=D,
    seed=0,
    heads=h,
    dtype=np.float64,
    kv_heads=None,
):
    widths = {"D": D, "D_q": D, "D_k": D_c, "D_v": D_c, "D_out": D}
    widths |= {"heads": heads, "kv_heads": kv_heads}
    return parameters(make, seed=seed, dtype=dtype, **widths)


def encoder_parameters(
    make=np.asarray,
    *,
    norm_first=False,
    activation="relu",
    seed=0,
    dtype=np.float64,
    D=D,
):
    given = {"D": D, "dtype": dtype}
    return EncoderLayerParameters(
        attention_parameters(make, seed=seed + 1, **given),
        layer_norm_parameters(make, seed=seed + 2, **given),
        feed_forward_parameters(
            make, seed=seed + 3, activation=activation, **given
        ),
        layer_norm_parameters(make, seed=seed + 4, **given),
        norm_first,
    )


def decoder_parameters(
    make=np.asarray,
    *,
    norm_first=False,
    activation="relu",
    seed=0,
    dtype=np.float64,
    D=D,
    D_c=D_c,
):
    given = {"D": D, "dtype": dtype}
    return DecoderLayerParameters(
        attention_parameters(make, seed=seed + 1, **given),
        layer_norm_parameters(make, seed=seed + 2, **given),
        attention_parameters(
            make, D_c=D_c, seed=seed + 5, heads=4, **given
        ),
        layer_norm_parameters(make, seed=seed + 6, **given),
        feed_forward_parameters(
            make, seed=seed + 3, activation=activation, **given
        ),
        layer_norm_parameters(make, seed=seed + 4, **given),
        norm_first,
    )


def drawn(module, seed=0):
    """Every parameter of a torch module drawn anew, biases and gains too."""
    torch.manual_seed(seed)
    for name, x in module.named_parameters():
        torch.nn.init.normal_(
            x, mean=float("norm" in name and "weight" in name), std=0.4
        )
    return module


def torch_layer(kind, seed=0, **options):
    """A ``torch.nn.TransformerEncoderLayer`` or ``DecoderLayer``, batch first, float64, without dropout."""
    made = getattr(torch.nn, f"Transformer{kind}Layer")
    given = {"dropout": 0.0, "batch_first": True, "dtype": torch.float64}
    return drawn(made(D, h, D_ff, **given | options), seed)


V_s, V_t = 11, 13


def transformer_parameters(
    make=np.asarray,
    *,
    norm_first=False,
    activation="relu",
    final_norm=True,
    seed=0,
    dtype=np.float64,
    layers=2,
    V_t=V_t,
):
    """A whole model with ``layers`` layers on each side, the decoder one more."""

    def draw(*shape, n):
        x = normal(*shape, seed=1000 * seed + n)
        return make(x.astype(dtype))

    def norm(n):
        return layer_norm_parameters(make, seed=n, dtype=dtype)

    options = {
        "norm_first": norm_first,
        "activation": activation,
        "dtype": dtype,
    }
    start = 100 * seed
    return TransformerParameters(
        draw(V_s, D, n=1),
        draw(V_t, D, n=2),
        tuple(
            encoder_parameters(make, seed=start + 10 * n, **options)
            for n in range(layers)
        ),
        tuple(
            decoder_parameters(make, D_c=D, seed=start + 10 * n, **options)
            for n in range(3, layers + 4)
        ),
        draw(D, V_t, n=3),
        draw(V_t, n=4),
        norm(5) if final_norm else None,
        norm(6) if final_norm else None,
    )


def tokens(*shape, V, seed=0):
    return np.random.default_rng([seed, *shape]).integers(0, V, shape)


def torch_transformer(seed=0, **options):
    """A ``torch.nn.Transformer``, two embeddings and an output, all drawn, float64."""
    given = {
        "num_encoder_layers": 2,
        "num_decoder_layers": 3,
        "dim_feedforward": D_ff,
        "dropout": 0.0,
        "batch_first": True,
        "dtype": torch.float64,
    }
    with warnings.catch_warnings():  # pre-norm has no fast path there
        warnings.simplefilter("ignore", UserWarning)
        made = torch.nn.Transformer(D, h, **given | options)
    parts = (
        torch.nn.Embedding(V_s, D, dtype=torch.float64),
        torch.nn.Embedding(V_t, D, dtype=torch.float64),
        torch.nn.Linear(D, V_t, dtype=torch.float64),
    )
    return [drawn(part, seed + n) for n, part in enumerate((made, *parts))]
