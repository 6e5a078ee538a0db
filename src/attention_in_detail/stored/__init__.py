"""Results that a benchmark measured and stored, with the machine, the versions and the date."""

import json
from importlib import resources
from typing import Any

import numpy as np

from attention_in_detail.notation import Array

__all__ = ["stored_arrays", "stored_result"]


def stored_result(name: str) -> dict[str, Any]:
    """Return a stored result by name.

    Args:
        name: such as ``"parallelism"``: the benchmark ``bench/<name>.py`` wrote it.

    Returns:
        What was measured, and ``machine``, ``versions`` and ``date``.

    Raises:
        ValueError: if there is no result of that name.
    """
    folder = resources.files(__name__)
    known = sorted(
        entry.name.removesuffix(".json")
        for entry in folder.iterdir()
        if entry.name.endswith(".json")
    )
    if name not in known:
        raise ValueError(
            f"name is {name!r}, but what is stored is: {', '.join(known)}"
        )
    return json.loads(folder.joinpath(f"{name}.json").read_text("utf8"))


def stored_arrays(name: str) -> dict[str, Array]:
    """Return stored arrays by name.

    Args:
        name: such as ``"minilm"``: the program ``bench/<name>.py`` wrote them.

    Returns:
        Each array by its own name.
    """
    file = resources.files(__name__).joinpath(f"{name}.npz")
    with (
        file.open("rb") as opened,
        np.load(opened, allow_pickle=False) as kept,
    ):
        return dict(kept)
