"""The formulas of the book once more, as loops over Python floats: what the tests compare with."""

import math

import numpy as np


def softmax(row):
    """Weights of one row of scores; −inf gets 0, and a row of nothing else stays 0."""
    top = max(row)
    if top == -math.inf:
        return [0.0] * len(row)
    powers = [math.exp(z - top) for z in row]
    return [p / math.fsum(powers) for p in powers]


def attention(queries, keys, values, mask=None, bias=None, scale=None):
    """Output and weights of two-dimensional arrays, one number at a time."""
    T, S, D_k, D_v = len(queries), len(keys), len(keys[0]), len(values[0])
    scale = 1 / math.sqrt(D_k) if scale is None else scale
    output, weights = np.zeros((T, D_v)), np.zeros((T, S))
    for i in range(T):
        row = []
        for j in range(S):
            z = scale * math.fsum(
                float(queries[i][c]) * float(keys[j][c]) for c in range(D_k)
            )
            z += 0.0 if bias is None else float(bias[i][j])
            row.append(z if mask is None or mask[i][j] else -math.inf)
        weights[i] = softmax(row)
        for c in range(D_v):
            # Only what takes part is added up, so that a NaN in the padding counts for nothing.
            output[i, c] = math.fsum(
                a * float(values[j][c])
                for j, a in enumerate(weights[i])
                if a
            )
    return output, weights


def batched(function, batch, *arrays, **keywords):
    """Call ``function`` for each batch entry; what is broadcast is broadcast here, by name."""
    index = list(np.ndindex(*batch))
    results = [
        function(
            *(_entry(x, batch, b) for x in arrays),
            **{n: _entry(x, batch, b) for n, x in keywords.items()},
        )
        for b in index
    ]
    return [
        np.reshape(np.stack(part), (*batch, *part[0].shape))
        for part in zip(*results, strict=True)
    ]


def _entry(x, batch, b):
    if x is None or np.ndim(x) == 0:
        return x
    return np.broadcast_to(x, (*batch, *np.shape(x)[-2:]))[b]


def multi_head(p, queries, keys, values, mask=None, bias=None):
    """Output and weights (h, T, S) of two-dimensional arrays; mask and bias have the axes (h, T, S)."""
    D_h = p.D // p.heads
    sharing = p.heads // p.h_kv
    q, k, v = (
        np.asarray(x) @ np.asarray(W) + (0 if b is None else np.asarray(b))
        for x, W, b in (
            (queries, p.W_Q, p.b_Q),
            (keys, p.W_K, p.b_K),
            (values, p.W_V, p.b_V),
        )
    )
    T, S = len(q), len(k)
    side_by_side, weights = np.zeros((T, p.D)), np.zeros((p.heads, T, S))
    for i in range(p.heads):
        own = slice(i * D_h, (i + 1) * D_h)
        first = i // sharing * D_h
        shared = slice(first, first + D_h)
        side_by_side[:, own], weights[i] = attention(
            q[:, own],
            k[:, shared],
            v[:, shared],
            None if mask is None else mask[i],
            None if bias is None else bias[i],
        )
    output = (
        side_by_side if p.W_O is None else side_by_side @ np.asarray(p.W_O)
    )
    return output + (0 if p.b_O is None else np.asarray(p.b_O)), weights
