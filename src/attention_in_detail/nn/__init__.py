"""The modules for PyTorch. The functions of :mod:`attention_in_detail` serve torch tensors too; these carry parameters."""

from attention_in_detail.nn.layers import DecoderLayer, EncoderLayer
from attention_in_detail.nn.multi_head import MultiHeadAttention
from attention_in_detail.nn.transformer import Transformer

__all__ = [
    "DecoderLayer",
    "EncoderLayer",
    "MultiHeadAttention",
    "Transformer",
]
