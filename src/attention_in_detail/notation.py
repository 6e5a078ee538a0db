"""The notation of the book as annotations that can be checked.

On the page ``X : (S, D)`` says that X is a real matrix of S rows and D columns. In the
code the same sentence is ``x: Float[Array, "S D"]``. Leading batch axes are written
``*batch``; ``#`` before an axis allows the size 1, which broadcasts; so ``"*#batch T
D_k"`` reads: any number of batch axes that broadcast, then T rows of width D_k.
"""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, TypeVar

from jaxtyping import Bool, Float, Integer, jaxtyped

__all__ = [
    "Array",
    "Bias",
    "Bool",
    "Float",
    "Integer",
    "Mask",
    "Scale",
    "Size",
    "shape_checked",
]

# Any library's array: the annotations look at shape and dtype alone, so NumPy, PyTorch and others all pass.
Array = Any

# A mask or bias for scores of shape (*batch, T, S). One row holds for all queries, one number for everything.
Mask = Bool[Array, "*#batch #T #S"] | Bool[Array, " #S"] | Bool[Array, ""]
Bias = (
    Float[Array, "*#batch #T #S"] | Float[Array, " #S"] | Float[Array, ""]
)

# A size, of Python or of NumPy.
Size = Integral

# What multiplies q·k: a number, or an array without axes, which may carry a gradient.
Scale = Real | Float[Array, ""]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def shape_checked(function: _Function) -> _Function:
    """Return ``function`` with the shapes and dtypes of its annotations checked at each call.

    The package's own input checks need no switch: they always run, once, at the public
    function. This one is for reading and for tests. It checks every array that goes in
    or comes out against the annotation that the page shows.

    Args:
        function: a function whose signature carries jaxtyping annotations. Of a public
            function of this package the formula inside is wrapped, without the ordinary
            checks in front of it.

    Returns:
        A function with the same signature.

    Raises:
        ImportError: if ``beartype``, which does the checking, is not installed.
        jaxtyping.TypeCheckError: later, at a call in which an array does not fit its
            annotation.
    """
    try:
        from beartype import beartype
    except ImportError:
        message = "shape_checked needs beartype to check annotations: pip install beartype"
        raise ImportError(message) from None
    return jaxtyped(typechecker=beartype)(
        getattr(function, "unchecked", function)
    )
