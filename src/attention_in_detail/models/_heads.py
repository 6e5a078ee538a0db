"""What silences a head, in whatever model it sits."""

from dataclasses import replace

import numpy as np

from attention_in_detail.parameters import MultiHeadParameters

__all__ = ["silenced"]


def silenced(
    parameters: MultiHeadParameters, head: int
) -> MultiHeadParameters:
    """Return the parameters with the rows of W_O of one head set to 0."""
    first = int(head) * parameters.D_h
    W_O = np.array(parameters.W_O)
    W_O[first : first + parameters.D_h] = 0
    return replace(parameters, W_O=W_O)
