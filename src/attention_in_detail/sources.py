"""Show a function's real source on a page, so that text and code cannot drift apart."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Source", "show_source"]


@dataclass(frozen=True)
class Source:
    """Python source that a notebook shows highlighted."""

    code: str

    def __repr__(self) -> str:
        return self.code

    def _repr_markdown_(self) -> str:
        return f"```python\n{self.code}\n```"


def show_source(
    function: Callable[..., Any], *, docstring: bool = False
) -> Source:
    """Return the source of an imported function or class, as it stands in the package.

    Args:
        function: what to show. Of a public function of this package that is the
            formula, with its decorator that names the input check.
        docstring: whether to keep docstrings. A chapter leaves them out: the page
            itself says what they say.

    Returns:
        An object that a notebook displays as highlighted code and ``print`` as plain
        text.

    Raises:
        TypeError: if there is no source, as for a built-in.
    """
    try:
        code = textwrap.dedent(inspect.getsource(function)).rstrip()
    except (OSError, TypeError):
        raise TypeError(
            f"the source of {function!r} cannot be read; was it typed into a prompt?"
        ) from None
    if docstring:
        return Source(code)
    lines = code.splitlines()
    dropped: set[int] = set()
    for node in ast.walk(ast.parse(code)):
        if (
            isinstance(node, ast.FunctionDef | ast.ClassDef)
            and ast.get_docstring(node) is not None
        ):
            said = node.body[0]
            dropped.update(
                range(said.lineno - 1, said.end_lineno or said.lineno)
            )
            # The empty line after a class's docstring goes with it.
            if (
                said.end_lineno
                and said.end_lineno < len(lines)
                and not lines[said.end_lineno].strip()
            ):
                dropped.add(said.end_lineno)
    return Source(
        "\n".join(line for n, line in enumerate(lines) if n not in dropped)
    )
