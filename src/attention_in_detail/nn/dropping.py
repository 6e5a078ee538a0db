"""Dropout whose draws are the same on any processor."""

from numbers import Real

import torch
from torch import Tensor

from attention_in_detail.notation import Float

__all__ = ["dropped"]


def dropped(
    x: Float[Tensor, "*shape"], probability: Real, training: bool
) -> Float[Tensor, "*shape"]:
    r"""Set each number to 0 with a probability, in training, and scale up the rest.

    .. math:: y = \frac{b\, x}{1 - p}, \qquad b = 0 \text{ with probability } p, \text{ else } 1

    ``torch.nn.functional.dropout`` computes the same of its own draws, which on a CPU
    depend on the maker of the processor. These follow ``torch.rand``.

    Args:
        x: any shape.
        probability: p, at least 0 and below 1.
        training: whether to drop at all.

    Returns:
        The same shape; ``x`` itself if nothing is dropped.

    Source:
        Srivastava et al. (2014), section 4, with the scale in training.
    """
    if not training or probability == 0:
        return x
    draw = torch.rand(x.shape, dtype=torch.float32, device=x.device)
    return x * (draw >= probability) / (1 - probability)
