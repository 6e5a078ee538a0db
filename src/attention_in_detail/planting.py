"""Put a bug into a function of the package for a moment, to see what it does and who notices."""

import __future__

import difflib
import inspect
import textwrap
import threading
import types
from collections.abc import Callable
from typing import Any

from attention_in_detail._checks import checked
from attention_in_detail.sources import show_source

__all__ = ["Planted", "planted"]

# Held while a bug is in place: a second thread that plants one waits.
_planting = threading.RLock()


def check_planted(function: Any, old: Any, new: Any) -> None:
    for name, text in (("old", old), ("new", new)):
        if not isinstance(text, str):
            raise TypeError(
                f"{name} must be a text, not {type(text).__name__}"
            )
    bare = inspect.unwrap(function) if callable(function) else function
    if not isinstance(bare, types.FunctionType):
        raise TypeError(
            f"function must be a function written in Python, not {type(function).__name__}"
        )
    if bare.__closure__:
        raise TypeError(
            f"function must stand at the top of a module or class, but {bare.__qualname__} has variables of another one"
        )
    code = show_source(bare).code
    if not old.strip():
        raise ValueError("old is empty; give a piece of the code")
    if code.count(old) != 1:
        raise ValueError(
            f"old stands {code.count(old)} times in the code of {bare.__qualname__}, but must stand there once"
        )
    if new == old:
        raise ValueError("new is the same as old; nothing would be planted")
    try:
        made = _compiled(bare, code.replace(old, new))
    except SyntaxError as error:
        raise ValueError(
            f"with new, {bare.__qualname__} is no Python any more: {error.msg}"
        ) from None
    if bare.__name__ not in made.co_names:
        raise ValueError(
            f"with new, nothing is called {bare.__name__} any more"
        )


class Planted:
    """A function of the package with one piece of its source changed.

    Call it, and the changed function runs alone: whatever it calls is the package's
    own. Open it in a ``with`` statement, and inside the block the whole package
    runs with the change, whoever calls the function and under whatever name; after it,
    and after an error in it, all is as before. Other threads go on with the right one.
    A notebook displays it as the lines before and after.

    Attributes:
        function: the changed function, with the input check of the original.
        name: what the original is called.
        before: the source of the original, without its docstring.
        after: the source of the changed function.
    """

    def __init__(
        self, original: types.FunctionType, before: str, after: str
    ) -> None:
        self.name = original.__qualname__
        self.before, self.after = before, after
        self._original = original
        # A copy: the changed function takes its own name there and not in the module.
        namespace = dict(original.__globals__)
        exec(_compiled(original, after), namespace)
        self.function: Callable[..., Any] = namespace[original.__name__]
        self.function.__doc__ = original.__doc__
        self._kept: list[tuple[Any, ...]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the changed function."""
        return self.function(*args, **kwargs)

    def __enter__(self) -> "Planted":
        """Let the package run with the change, in this thread."""
        _planting.acquire()
        f = self._original
        # Everybody who imported the function holds this one object: its code is what can be changed for all.
        kept = f.__code__, f.__defaults__, f.__kwdefaults__
        right = types.FunctionType(
            kept[0], f.__globals__, f.__name__, kept[1]
        )
        right.__kwdefaults__ = kept[2]
        wrong, thread = inspect.unwrap(self.function), threading.get_ident()

        def chosen() -> Callable[..., Any]:
            return wrong if threading.get_ident() == thread else right

        self._kept.append(kept)
        f.__defaults__, f.__kwdefaults__ = None, {"_chosen": chosen}
        f.__code__ = inspect.unwrap(_stand_in).__code__.replace(
            co_filename=kept[0].co_filename,
            co_firstlineno=kept[0].co_firstlineno,
        )
        return self

    def __exit__(self, *error: object) -> None:
        """Put the function back."""
        f = self._original
        f.__code__, f.__defaults__, f.__kwdefaults__ = self._kept.pop()
        _planting.release()

    def changes(self) -> list[str]:
        """Return the lines that differ: "-" before those of the original, "+" before the changed ones."""
        found = difflib.unified_diff(
            self.before.splitlines(), self.after.splitlines(), n=0
        )
        # Without the names of files at the top and the numbers of lines.
        lines = [line for line in list(found)[2:] if line[0] != "@"]
        texts = textwrap.dedent("\n".join(line[1:] for line in lines))
        return [
            f"{line[0]} {text}".rstrip()
            for line, text in zip(lines, texts.split("\n"), strict=True)
        ]

    def __repr__(self) -> str:
        return "\n".join([f"in {self.name}:", *self.changes()])

    def _repr_markdown_(self) -> str:
        return f"```diff\n{self!r}\n```"


def _compiled(original: types.FunctionType, code: str) -> types.CodeType:
    """Compile a changed source as its module was: with annotations kept as texts, or not."""
    flags = (
        original.__code__.co_flags & __future__.annotations.compiler_flag
    )
    name = f"<{original.__qualname__}, planted>"
    return compile(code, name, "exec", flags, dont_inherit=True)


def _stand_in(*args: Any, _chosen: Any, **kwargs: Any) -> Any:
    return _chosen()(*args, **kwargs)


@checked(check_planted)
def planted(function: Callable[..., Any], old: str, new: str) -> Planted:
    """Change one piece of a function's source, in a copy.

    Args:
        function: of this package, at the top of a module or a method of a class.
        old: a piece of its source, as :func:`attention_in_detail.show_source` shows it.
            It must stand there exactly once.
        new: what to put in its place.

    Returns:
        The changed function, to be called, to be put in place for a while by ``with``,
        or to be looked at. The package itself stays as it is.

    Raises:
        TypeError: if ``function`` is no Python function, or depends on the variables of
            another one; if ``old`` or ``new`` is no text.
        ValueError: if ``old`` does not stand in it once, ``new`` is the same, or the
            result is no Python or has lost its name.
    """
    original = inspect.unwrap(function)
    before = show_source(original).code
    return Planted(original, before, before.replace(old, new))
