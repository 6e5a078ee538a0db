"""What training costs attention: products forward and backward, and what is kept in between."""

from dataclasses import dataclass
from typing import Any

from attention_in_detail._checks import checked, need_flag
from attention_in_detail.notation import Size
from attention_in_detail.parallelism import attention_cost, need_sizes

__all__ = ["TrainingCost", "training_cost"]


@dataclass(frozen=True)
class TrainingCost:
    """What one step forward and one step back do and keep, counted.

    Attributes:
        multiply_adds_forward: multiplications followed by an addition, in the two
            matrix products of the output.
        multiply_adds_backward: those in the products of the gradients, and of the
            scores if they are computed again.
        exponentials: evaluations of exp, forward and backward.
        bytes_kept: bytes of what stays from the step forward to the step back, besides
            queries, keys and values.
    """

    multiply_adds_forward: int
    multiply_adds_backward: int
    exponentials: int
    bytes_kept: int

    @property
    def multiply_adds(self) -> int:
        """Those of both steps."""
        return self.multiply_adds_forward + self.multiply_adds_backward


def check_training_cost(
    T: Any,
    S: Any,
    D_k: Any,
    D_v: Any,
    *,
    entries: Any = 1,
    itemsize: Any = 4,
    recompute: Any = True,
) -> None:
    need_sizes(
        T=T, S=S, D_k=D_k, D_v=D_v, entries=entries, itemsize=itemsize
    )
    need_flag("recompute", recompute)


@checked(check_training_cost)
def training_cost(
    T: Size,
    S: Size,
    D_k: Size,
    D_v: Size,
    *,
    entries: Size = 1,
    itemsize: Size = 4,
    recompute: bool = True,
) -> TrainingCost:
    r"""Count what attention and its gradients cost, with the weights kept or computed again.

    .. math:: \text{forward} = B\,T\,S\,(D_k + D_v), \qquad
        \text{backward} = 2\,B\,T\,S\,(D_k + D_v)\ [\, {} + B\,T\,S\,D_k \,]

    In brackets: the scores, computed again. Kept are then the output and two numbers a
    query, in place of the weights.

    Args:
        T: the number of queries.
        S: the number of keys.
        D_k: the width of queries and keys.
        D_v: the width of the values.
        entries: B, how many attentions there are: batch entries times heads.
        itemsize: bytes a number: 8 for float64, 4 for float32, 2 for half precision.
        recompute: whether the weights are computed again, or kept.

    Returns:
        The counts.

    Raises:
        TypeError: if a size is not an integer, or ``recompute`` not True or False.
        ValueError: if a size is below 1.

    Source:
        Dao et al. (2022), section 3.1 and appendix B.
    """
    forward = attention_cost(
        T, S, D_k, D_v, entries=entries, itemsize=itemsize
    )
    T, S, D_k, D_v, entries = map(int, (T, S, D_k, D_v, entries))
    pairs = entries * T * S
    kept = entries * T * (D_v + 2) if recompute else pairs
    return TrainingCost(
        multiply_adds_forward=forward.multiply_adds,
        multiply_adds_backward=2 * forward.multiply_adds
        + (pairs * D_k if recompute else 0),
        exponentials=(2 if recompute else 1) * pairs,
        bytes_kept=kept * int(itemsize),
    )
