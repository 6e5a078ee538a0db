"""Let the API page be built where PyTorch is not installed, and come out the same where it is.

Autodoc imports what it documents, and ``attention_in_detail.nn`` imports torch. Autodoc's own mock will not do:
its attributes are instances, and an annotation such as ``Float[torch.Tensor, "T D"]`` needs a class. So for the
length of a build, ``torch`` is a module whose every attribute is an empty class. Nothing of it is ever called.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import ClassVar

from sphinx.application import Sphinx

NAME = "torch"


class StandIn(ModuleType):
    """A module in which every name is an empty class, made when it is first asked for."""

    # Python looks for ``torch.nn`` only in a package, and a package has a path.
    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {"__module__": self.__name__})
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname, path=None, target=None):
        if fullname == NAME or fullname.startswith(NAME + "."):
            return importlib.machinery.ModuleSpec(
                fullname, self, is_package=True
            )
        return None

    def create_module(self, spec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def install() -> None:
    """Put the stand-in before any real torch, unless one is loaded already (as in a test run)."""
    if NAME not in sys.modules and not any(
        isinstance(finder, Finder) for finder in sys.meta_path
    ):
        sys.meta_path.insert(0, Finder())


def remove() -> None:
    sys.meta_path[:] = [
        finder for finder in sys.meta_path if not isinstance(finder, Finder)
    ]
    for name in [
        name
        for name, module in sys.modules.items()
        if isinstance(module, StandIn)
    ]:
        del sys.modules[name]


def setup(app: Sphinx) -> dict[str, object]:
    app.connect("builder-inited", lambda app: install())
    app.connect("build-finished", lambda app, failure: remove())
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
