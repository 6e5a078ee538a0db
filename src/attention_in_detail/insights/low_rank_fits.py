"""What gradient descent finds: heads of a given width for given weights, and projections along a sequence."""

from typing import Any

import torch
from torch import Tensor

from attention_in_detail._checks import (
    checked,
    need_axes,
    need_floating,
    need_integer,
    need_one_home,
    need_same,
)
from attention_in_detail.insights.fitting import fit
from attention_in_detail.insights.low_rank import (
    linformer_attention,
    mean_pooling,
    relative_error,
)
from attention_in_detail.notation import Float, Size
from attention_in_detail.scaled_dot_product import (
    attention,
    attention_weights,
    scores,
)

__all__ = ["fit_heads", "fit_projections"]


def check_fit_heads(
    target: Any, width: Any, *, seed: Any, steps: Any = 400
) -> None:
    need_floating("target", target)
    need_axes("target", target, ["T", "S"])
    need_integer("width", width, least=1)
    need_integer("seed", seed)


def check_fit_projections(
    queries: Any,
    keys: Any,
    values: Any,
    k: Any,
    *,
    seed: Any,
    steps: Any = 200,
) -> None:
    given = {
        "queries": (queries, "T", "D_k"),
        "keys": (keys, "S", "D_k"),
        "values": (values, "S", "D_v"),
    }
    for name, (x, *axes) in given.items():
        need_floating(name, x)
        need_axes(name, x, ["examples", "heads", *axes])
    need_one_home({name: x for name, (x, *_) in given.items()})
    need_same(
        "values",
        values.shape[-2],
        "keys",
        keys.shape[-2],
        "S",
        "each key needs one value",
    )
    need_integer("k", k, least=1)
    need_integer("seed", seed)


@checked(check_fit_heads)
def fit_heads(
    target: Float[Tensor, "T S"],
    width: Size,
    *,
    seed: Size,
    steps: Size = 400,
) -> Float[Tensor, "T S"]:
    r"""Look for queries and keys of a given width whose weights are a given matrix.

    .. math:: \min_{Q, K} \frac1T \sum_{i,j} P_{ij}
        \log \frac{P_{ij}}{\sigma(Q K^\top / \sqrt{D_h})_{ij}}

    Queries and keys are free: the rows need not come from any input. So what cannot be
    reached here, no head of this width can reach.

    Args:
        target: P, rows that sum to 1, shape (T, S).
        width: D_h.
        seed: of the first queries and keys.
        steps: of Adam.

    Returns:
        The weights that were found, shape (T, S).

    Raises:
        TypeError: if ``target`` is not floating or a number not an integer.
        ValueError: if ``width`` is below 1.

    Source:
        Bhojanapalli et al. (2020) ask which weights a head can have.
    """
    g = torch.Generator().manual_seed(int(seed))
    T, S = target.shape
    queries, keys = (
        torch.randn(n, int(width), generator=g, dtype=target.dtype)
        for n in (T, S)
    )
    leaves = [x.requires_grad_() for x in (queries, keys)]

    def loss_at(step: int) -> Tensor:
        found = scores(*leaves).log_softmax(-1)
        return torch.nn.functional.kl_div(
            found, target, reduction="batchmean"
        )

    fit(leaves, loss_at, steps=steps, learning_rate=0.1)
    with torch.no_grad():
        return attention_weights(*leaves)


@checked(check_fit_projections)
def fit_projections(
    queries: Float[Tensor, "examples heads T D_k"],
    keys: Float[Tensor, "examples heads S D_k"],
    values: Float[Tensor, "examples heads S D_v"],
    k: Size,
    *,
    seed: Size,
    steps: Size = 200,
) -> tuple[Float[Tensor, "heads k S"], Float[Tensor, "heads k S"]]:
    """Learn projections along the sequence, a pair for each head, so that its output changes least.

    They begin as mean pooling. The loss is the mean over heads of the squared relative
    error; a step sees two of the examples.

    Args:
        queries: of several inputs, shape (examples, heads, T, D_k).
        keys: shape (examples, heads, S, D_k).
        values: shape (examples, heads, S, D_v).
        k: the rows of a projection; divides S.
        seed: of the choice of examples.
        steps: of Adam.

    Returns:
        E and F, each of shape (heads, k, S).

    Raises:
        TypeError: if an array is not floating or a number not an integer.
        ValueError: if an axis is missing, or k does not divide S.

    Source:
        Wang et al. (2020): E and F are learned there with the whole model.
    """
    g = torch.Generator().manual_seed(int(seed))
    heads, S = keys.shape[1], keys.shape[2]
    pooling = torch.asarray(mean_pooling(k, S)).to(keys.dtype)
    E, F = (
        pooling.repeat(heads, 1, 1).clone().requires_grad_()
        for _ in range(2)
    )

    def loss_at(step: int) -> Tensor:
        n = torch.randint(len(queries), (2,), generator=g)
        q, kk, v = queries[n], keys[n], values[n]
        with torch.no_grad():
            exact = attention(q, kk, v)
        found = linformer_attention(q, kk, v, E, F)
        return (relative_error(found, exact) ** 2).mean()

    fit([E, F], loss_at, steps=steps, learning_rate=1e-3)
    return E.detach(), F.detach()
