"""Parameters are arrays in a tree of dataclasses: the same change for each array."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from array_api_compat import is_array_api_obj

from attention_in_detail._checks import checked
from attention_in_detail._layer_checks import check_map_arrays
from attention_in_detail.notation import Array

__all__ = ["map_arrays"]

_Tree = TypeVar("_Tree")


@checked(check_map_arrays)
def map_arrays(
    parameters: _Tree, function: Callable[[Array], Array]
) -> _Tree:
    r"""Return the same parameters with ``function`` of each array in its place.

    .. math:: \{W, b, \dots\} \mapsto \{f(W), f(b), \dots\}

    So a model that torch has trained runs in NumPy: ``map_arrays(model.as_parameters(),
    lambda x: x.detach().numpy())``.

    Args:
        parameters: of any kind of this package.
        function: from array to array.

    Returns:
        New parameters of the same kind, checked anew. What is not an array (heads,
        norm_first, …) stays.

    Raises:
        TypeError: if ``parameters`` are none of this package, ``function`` cannot be
            called, or what it gives does not fit together.
        ValueError: if what it gives does not fit together.

    Source:
        Elementary.
    """
    return _mapped(parameters, function)


def _mapped(x: Any, function: Callable[[Array], Array]) -> Any:
    if is_array_api_obj(x):
        return function(x)
    if isinstance(x, tuple):
        return tuple(_mapped(part, function) for part in x)
    if is_dataclass(x):
        parts = {f.name: getattr(x, f.name) for f in fields(x)}
        return type(x)(
            **{name: _mapped(y, function) for name, y in parts.items()}
        )
    return x
