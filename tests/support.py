"""Arrays for the tests: seeded numbers, in NumPy and in PyTorch, and sizes that all differ."""

import array_api_strict
import numpy as np
import pytest
import torch

from attention_in_detail import MultiHeadParameters

# No two sizes are equal, so that a swapped axis cannot go unseen; the width of a head is 4.
B, T, S, D_q, D_k, D_v, D, h, D_out = 5, 3, 7, 10, 9, 11, 8, 2, 6
D_h = D // h

# For a new interpreter: every warning is an error, but those of old matplotlib (see pyproject.toml).
STRICT = ["-W", "error"]
for _module in (
    "matplotlib._fontconfig_pattern",
    "matplotlib._mathtext",
    "pyparsing.util",
):
    STRICT += ["-W", f"ignore::DeprecationWarning:{_module}"]

TOLERANCE = {"float32": 1e-6, "float64": 1e-12}


def normal(*shape, seed=0, dtype=np.float64):
    return (
        np.random.default_rng([seed, *shape])
        .standard_normal(shape)
        .astype(dtype)
    )


def coin(*shape, seed=0, p=0.6):
    """A boolean array, true with probability p."""
    return np.random.default_rng([seed, *shape]).random(shape) < p


def open_mask(*shape, seed=0, p=0.6):
    """A random mask in which each query may attend to at least one key."""
    mask = coin(*shape, seed=seed, p=p)
    first = np.arange(shape[-1]) == np.random.default_rng(seed).integers(
        shape[-1]
    )
    return mask | (~mask.any(-1, keepdims=True) & first)


def numpy_of(x):
    """A NumPy array of float64 or bool, from any library."""
    if isinstance(x, torch.Tensor):
        x = x.detach()
        x = x.numpy() if x.dtype == torch.bool else x.double().numpy()
    elif type(x).__module__.startswith("array_api_strict"):
        x = np.from_dlpack(x)
    return np.asarray(x, dtype=bool if x.dtype == bool else np.float64)


MAKERS = {
    "numpy": np.asarray,
    "torch": torch.asarray,
    "strict": array_api_strict.asarray,
}
each_library = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
each_precision = pytest.mark.parametrize("dtype", ["float32", "float64"])


def leaves(*arrays, dtype=torch.float64):
    """Torch tensors that want a gradient."""
    return [
        torch.tensor(np.asarray(x), dtype=dtype, requires_grad=True)
        for x in arrays
    ]


def assert_close(actual, desired, tolerance=1e-12):
    """Assert equality: of shape, of NaN, and of numbers up to ``tolerance`` times max(1, size)."""
    actual, desired = numpy_of(actual), numpy_of(desired)
    assert actual.shape == desired.shape
    np.testing.assert_allclose(
        actual, desired, rtol=tolerance, atol=tolerance
    )


def parameters(
    make=np.asarray,
    *,
    dtype=np.float64,
    bias=True,
    output=True,
    seed=0,
    **sizes,
):
    """Parameters with every array drawn, biases too; sizes that all differ unless given."""
    sizes = {
        "D": D,
        "D_q": D_q,
        "D_k": D_k,
        "D_v": D_v,
        "D_out": D_out,
        "heads": h,
        "kv_heads": None,
    } | sizes
    D_kv = sizes["D"]
    if sizes["kv_heads"] is not None:
        D_kv = sizes["D"] // sizes["heads"] * sizes["kv_heads"]
    columns = sizes["D"], D_kv, D_kv
    rows = sizes["D_q"], sizes["D_k"], sizes["D_v"]

    def draw(*shape, n):
        return make(
            (
                normal(*shape, seed=100 * seed + n) / np.sqrt(shape[0])
            ).astype(dtype)
        )

    return MultiHeadParameters(
        *(
            draw(*shape, n=n)
            for n, shape in enumerate(zip(rows, columns, strict=True))
        ),
        draw(sizes["D"], sizes["D_out"], n=3) if output else None,
        *(
            draw(size, n=4 + n) if bias else None
            for n, size in enumerate(columns)
        ),
        draw(sizes["D_out"], n=7) if bias and output else None,
        heads=sizes["heads"],
        kv_heads=sizes["kv_heads"],
    )
