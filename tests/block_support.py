"""Masks, biases and scales with which exact attention by blocks and its gradients are tried."""

import numpy as np
import pytest

from tests.support import B, S, T, coin, normal

MASK, BIAS = coin(B, T, S, seed=2), normal(B, T, S, seed=3)
MASK[:, 1] = False
SHUT_BIAS = np.where(coin(B, T, S, seed=4), BIAS, -np.inf)
CASES = {
    "plain": {},
    "mask": {"mask": MASK},
    "bias": {"bias": BIAS},
    "mask and bias of −inf": {"mask": MASK, "bias": SHUT_BIAS},
    "scale": {"scale": -0.3, "mask": MASK[0]},
    "padding": {"mask": np.arange(S) < 4, "bias": BIAS[:, :, :1]},
    "number": {"mask": np.array(True), "bias": np.array(0.5)},
    "empty": {"mask": np.zeros((T, S), bool)},
}
each_case = pytest.mark.parametrize("given", CASES.values(), ids=CASES)
