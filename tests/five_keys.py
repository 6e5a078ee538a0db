"""The example by hand of chapters 03 and 31: one query, five keys, values in the plane."""

import numpy as np

QUERY = np.log(2) * np.array([[2.0, 1, 1, 0]])
KEYS = np.array(
    [
        [3.0, 0, 0, 1],
        [1, 1, 1, 0],
        [0, 1, 1, 2],
        [0, 1, -1, 1],
        [-1, 1, 1, 0],
    ]
)
VALUES = np.array([[8.0, 4], [6, 8], [0, 8], [0, 0], [8, 0]])
