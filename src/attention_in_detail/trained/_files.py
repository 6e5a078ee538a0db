"""Parameters as a file: one array each, named by its place in the tree, and the tree itself as text."""

import io
import json
from dataclasses import fields, is_dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from attention_in_detail._known_files import WeightsError, known_content
from attention_in_detail.decoder_only import DecoderOnlyParameters
from attention_in_detail.encoder_decoder import TransformerParameters
from attention_in_detail.layers import (
    DecoderLayerParameters,
    EncoderLayerParameters,
)
from attention_in_detail.notation import Array
from attention_in_detail.parameters import MultiHeadParameters
from attention_in_detail.pointwise import (
    FeedForwardParameters,
    LayerNormParameters,
)

__all__ = ["content_of", "parameters_of", "trained_parameters"]

# A file may make these, and nothing else.
_KINDS = {
    kind.__name__: kind
    for kind in (
        DecoderLayerParameters,
        DecoderOnlyParameters,
        EncoderLayerParameters,
        FeedForwardParameters,
        LayerNormParameters,
        MultiHeadParameters,
        TransformerParameters,
    )
}
_HELP = "restore it: git checkout -- src/attention_in_detail/trained, or install the package anew"


def content_of(parameters: Any, dtype: str = "float16") -> bytes:
    """Return a file with these parameters: the same bytes for the same numbers.

    Args:
        parameters: of any kind of this package, arrays of NumPy.
        dtype: in which the numbers are stored.
    """
    arrays: dict[str, Array] = {}

    def tree(x: Any, name: str) -> Any:
        if is_array_api_obj(x):
            arrays[name[1:]] = x.astype(dtype)
            return {"array": name[1:]}
        if isinstance(x, tuple):
            return [tree(part, f"{name}.{n}") for n, part in enumerate(x)]
        if is_dataclass(x):
            parts = {
                f.name: tree(getattr(x, f.name), f"{name}.{f.name}")
                for f in fields(x)
                # kv_heads came later: files from before it stay as they are.
                if f.name != "kv_heads" or x.kv_heads is not None
            }
            return {"kind": type(x).__name__, "parts": parts}
        return x  # heads, eps, norm_first, activation, None

    text = json.dumps(tree(parameters, ""))
    file = io.BytesIO()
    np.savez_compressed(file, tree=np.array(text), **arrays)
    return file.getvalue()


def parameters_of(content: bytes, dtype: str = "float64") -> Any:
    """Return the parameters of such a file, as arrays of NumPy in ``dtype``."""
    with np.load(io.BytesIO(content), allow_pickle=False) as kept:

        def grown(x: Any) -> Any:
            if isinstance(x, list):
                return tuple(grown(part) for part in x)
            if not isinstance(x, dict):
                return x
            if "array" in x:
                return kept[x["array"]].astype(dtype)
            parts = {name: grown(y) for name, y in x["parts"].items()}
            return _KINDS[x["kind"]](**parts)

        return grown(json.loads(str(kept["tree"])))


def trained_parameters(name: str, sha256: str, dtype: str) -> Any:
    """Return what is stored as ``<name>.npz`` beside this module, after its hash is checked.

    Raises:
        WeightsError: if the file is missing or its content is another.
    """
    file = Path(str(resources.files(__package__))) / f"{name}.npz"
    what = f"trained/{file.name} of the package attention_in_detail"
    if not file.is_file():
        raise WeightsError(f"{what} is missing; {_HELP}")
    return parameters_of(
        known_content(file, sha256, what=what, remedy=_HELP), dtype
    )
