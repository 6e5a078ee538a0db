"""What is sent between processes: counted while it happens, and computed beforehand."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attention_in_detail._checks import checked
from attention_in_detail.distributed._checks import check_traffic
from attention_in_detail.notation import Size

__all__ = ["SentBytes", "Traffic", "traffic"]


class SentBytes(TorchDispatchMode):
    """Counts, inside a ``with`` block, what this process hands to ``torch.distributed``.

    Looks at the operations themselves, not at who calls them.

    Attributes:
        passed: bytes that go to one other rank.
        summed: bytes of arrays that all ranks add up.
    """

    def __init__(self) -> None:
        super().__init__()
        self.passed = self.summed = 0

    def __torch_dispatch__(
        self,
        function: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        name = function.name()
        if name.startswith("c10d::send"):
            self.passed += sum(map(_bytes, args[0]))
        elif name.startswith("_c10d_functional::all_reduce"):
            self.summed += _bytes(args[0])
        return function(*args, **(kwargs or {}))


def _bytes(x: Tensor) -> int:
    return x.numel() * x.element_size()


@dataclass(frozen=True)
class Traffic:
    """What one rank hands over.

    Attributes:
        ranks: how many ranks there are.
        passed: bytes that go to one other rank.
        summed: bytes of arrays that all ranks add up.
    """

    ranks: int
    passed: int
    summed: int

    @property
    def sent(self) -> int:
        """How many bytes leave the rank. Sums are made in a ring, which sends 2 (n − 1)/n of what is summed, rounded up."""
        return (
            self.passed
            - (-2 * (self.ranks - 1) * self.summed) // self.ranks
        )


@checked(check_traffic)
def traffic(
    way: str,
    T: Size,
    D: Size,
    *,
    ranks: Size,
    batch: Size = 1,
    itemsize: Size = 4,
    backward: bool = False,
) -> Traffic:
    r"""Count what one rank sends for one self-attention over T positions of width D.

    .. math:: \text{ring: } (n - 1)\, \frac{2 B T D}{n}\, b, \qquad
        \text{heads: } 2\, \frac{n - 1}{n}\, B T D\, b

    With b bytes a number. In a ring each rank passes its keys and values on n − 1
    times; going back it does so again, and passes the gradients of both n times, in
    float32 at least. With split heads the ranks add up one array of the output's size,
    and going back one of the input's.

    Args:
        way: ``"ring"`` or ``"heads"``.
        T: the number of positions of all ranks together.
        D: the width of all heads together; also of input and output.
        ranks: n; divides T.
        batch: B, how many sequences.
        itemsize: b, bytes a number: 8 for float64, 4 for float32, 2 for half
            precision.
        backward: whether to count the way back too.

    Returns:
        The counts.

    Raises:
        TypeError: if a size is not an integer, or ``backward`` not True or False.
        ValueError: if ``way`` is unknown, a size is below 1, or ``ranks`` does not
            divide T.

    Source:
        Liu, Zaharia and Abbeel (2023), section 3; Shoeybi et al. (2019), section 3.
    """
    n, itemsize = int(ranks), int(itemsize)
    numbers = int(batch) * int(T) * int(D)
    if way == "heads":
        return Traffic(n, 0, numbers * itemsize * (2 if backward else 1))
    if n == 1:
        return Traffic(1, 0, 0)
    pair = 2 * numbers // n  # keys and values of one rank
    passed = (n - 1) * pair * itemsize
    if backward:
        passed = 2 * passed + n * pair * max(itemsize, 4)
    return Traffic(n, passed, 0)
