"""Attention in Detail: the shared implementation of the book.

Every function takes and returns arrays of one library (NumPy, PyTorch, or another that
keeps to the Python array API standard). In every mask true means *may attend*. Nothing
here imports torch: what needs it lives in :mod:`attention_in_detail.nn`.
"""

from attention_in_detail.backward import (
    AttentionGradients,
    attention_gradients,
)
from attention_in_detail.caching import (
    DecoderCache,
    KeyValueCache,
    cache_bytes,
    decode_step,
    decoder_cache,
)
from attention_in_detail.capping import (
    capped_attention,
    softcap,
    softcap_derivative,
)
from attention_in_detail.causal_self_attention import (
    cached_self_attention,
)
from attention_in_detail.decoder_only import (
    DecoderOnlyParameters,
    decoder_only,
    generate,
)
from attention_in_detail.decoding import (
    Hypothesis,
    beam_decode,
    greedy_decode,
)
from attention_in_detail.encoder_decoder import (
    TransformerParameters,
    decode,
    embed,
    encode,
    transformer,
)
from attention_in_detail.layers import (
    DecoderLayerParameters,
    EncoderLayerParameters,
    decoder_layer,
    encoder_layer,
)
from attention_in_detail.linear_biases import head_slopes, linear_bias
from attention_in_detail.masks import (
    causal_mask,
    combine_masks,
    mask_from_torch_mha,
    mask_to_torch_mha,
    padding_mask,
    window_mask,
)
from attention_in_detail.multi_head import (
    MultiHeadParameters,
    cross_attention,
    merge_heads,
    multi_head_attention,
    multi_head_attention_by_head,
    repeat_heads,
    self_attention,
    split_heads,
)
from attention_in_detail.notation import shape_checked
from attention_in_detail.online import (
    PartialAttention,
    merge_partial,
    online_attention,
    partial_attention,
)
from attention_in_detail.pointwise import (
    FeedForwardParameters,
    LayerNormParameters,
    feed_forward,
    gelu,
    layer_norm,
    relu,
)
from attention_in_detail.positions import sinusoidal_positions
from attention_in_detail.rotary import rotate
from attention_in_detail.rows import softmax, softmax_jacobian
from attention_in_detail.scaled_dot_product import (
    attention,
    attention_weights,
    scores,
)
from attention_in_detail.sinks import sink_mask
from attention_in_detail.sources import show_source
from attention_in_detail.trees import map_arrays

__version__ = "0.1.0"

__all__ = [
    "AttentionGradients",
    "DecoderCache",
    "DecoderLayerParameters",
    "DecoderOnlyParameters",
    "EncoderLayerParameters",
    "FeedForwardParameters",
    "Hypothesis",
    "KeyValueCache",
    "LayerNormParameters",
    "MultiHeadParameters",
    "PartialAttention",
    "TransformerParameters",
    "attention",
    "attention_gradients",
    "attention_weights",
    "beam_decode",
    "cache_bytes",
    "cached_self_attention",
    "capped_attention",
    "causal_mask",
    "combine_masks",
    "cross_attention",
    "decode",
    "decode_step",
    "decoder_cache",
    "decoder_layer",
    "decoder_only",
    "embed",
    "encode",
    "encoder_layer",
    "feed_forward",
    "gelu",
    "generate",
    "greedy_decode",
    "head_slopes",
    "layer_norm",
    "linear_bias",
    "map_arrays",
    "mask_from_torch_mha",
    "mask_to_torch_mha",
    "merge_heads",
    "merge_partial",
    "multi_head_attention",
    "multi_head_attention_by_head",
    "online_attention",
    "padding_mask",
    "partial_attention",
    "relu",
    "repeat_heads",
    "rotate",
    "scores",
    "self_attention",
    "shape_checked",
    "show_source",
    "sink_mask",
    "sinusoidal_positions",
    "softcap",
    "softcap_derivative",
    "softmax",
    "softmax_jacobian",
    "split_heads",
    "transformer",
    "window_mask",
]
