"""What functions of readers are tried on, drawn at random and the same each time."""

from __future__ import annotations

import numpy as np

__all__ = ["drawn_arrays"]


def drawn_arrays(seed: int, *sizes: tuple[int, ...]) -> list[np.ndarray]:
    """One array of normal numbers of each size, with a generator of its own for each call."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(size) for size in sizes]
