"""Names on the API page: those that a reader knows from the code.

* The package re-exports what its modules define, so docstrings say ``attention_in_detail.attention``; the API page
  documents ``attention_in_detail.scaled_dot_product.attention``. A reference by the first name leads to the second.
* Python has resolved ``Mask`` to the three shapes that it stands for, and ``Array`` to ``Any``, before Sphinx sees a
  signature. The signature gets back what the source says.
"""

from __future__ import annotations

import importlib

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.typing import stringify_annotation

ALIASES = ("Mask", "Bias", "Scale")


def defined_as(name: str) -> str | None:
    """The full name of ``package.name`` where it is defined, or None if there is no such thing."""
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute)
        return f"{found.__module__}.{found.__qualname__}"
    except (ImportError, AttributeError, ValueError):
        return None


def resolve(
    app: Sphinx,
    env: BuildEnvironment,
    node: pending_xref,
    content: nodes.TextElement,
) -> nodes.Element | None:
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not target.startswith(
        "attention_in_detail."
    ):
        return None
    full = defined_as(target)
    if full is None or full == target:
        return None
    domain = env.get_domain("py")
    return domain.resolve_xref(
        env,
        node["refdoc"],
        app.builder,
        node["reftype"],
        full,
        node,
        content,
    )


def spelled_as_written(signature: str) -> str:
    """A signature with the aliases of ``attention_in_detail.notation`` in place of what they stand for."""
    notation = importlib.import_module("attention_in_detail.notation")
    for alias in ALIASES:
        if hasattr(notation, alias):
            signature = signature.replace(
                stringify_annotation(getattr(notation, alias), "smart"),
                alias,
            )
    return signature.replace("[Any,", "[Array,").replace(": Any", ": Array")


def rewrite(
    app, what, name, obj, options, signature, returns
) -> tuple[str | None, str | None]:
    return tuple(
        spelled_as_written(part) if part else part
        for part in (signature, returns)
    )


def setup(app: Sphinx) -> dict[str, object]:
    app.connect("autodoc-process-signature", rewrite)
    app.connect("missing-reference", resolve)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
