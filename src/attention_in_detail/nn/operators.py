"""Which of PyTorch's operators a computation runs, and the largest array that one of them hands on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attention_in_detail._checks import checked, kind

__all__ = ["Operators", "operators_of"]


@dataclass(frozen=True)
class Operators:
    """What ran.

    Attributes:
        names: the operators below autograd, in the order of their first run.
        largest: how many numbers the largest array has that one of them returned; what
            an operator uses inside and throws away is not seen.
    """

    names: tuple[str, ...]
    largest: int


class _Watch(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, None] = {}
        self.largest = 0

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = operator(*args, **(kwargs or {}))
        self.names[operator.overloadpacket.__name__] = None
        several = result if isinstance(result, tuple | list) else (result,)
        for x in several:
            if isinstance(x, torch.Tensor):
                self.largest = max(self.largest, x.numel())
        return result


def check_operators_of(call: Any) -> None:
    if not callable(call):
        raise TypeError(
            f"call must be a function without arguments, not {kind(call)}; put lambda: before it"
        )


@checked(check_operators_of)
def operators_of(call: Callable[[], Any]) -> Operators:
    """Run a computation and note which operators PyTorch runs for it.

    Args:
        call: a function without arguments. What it returns is not kept.

    Returns:
        The operators and the size of their largest result.

    Raises:
        TypeError: if ``call`` is not a function.
    """
    with _Watch() as seen:
        call()
    return Operators(tuple(seen.names), seen.largest)
