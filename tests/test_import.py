import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import attention_in_detail
import attention_in_detail.nn
from tests.extension_support import ROOT
from tests.support import STRICT


def fresh(code):
    """Run ``code`` in a new interpreter, without the hook of these tests, and return what it prints."""
    source = str(Path(attention_in_detail.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, *STRICT, "-c", code],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    "name",
    [
        "torch",
        "matplotlib",
        "beartype",
        "keras",
        "jax",
        "array_api_strict",
        "IPython",
        "scipy",
    ],
)
def test_import_loads_no_library_but_its_own(name, loaded):
    assert name not in loaded


@pytest.fixture(scope="module")
def loaded():
    return fresh(
        "import sys, attention_in_detail as a\n"
        "x = a.sinusoidal_positions(3, 4)\n"
        "a.self_attention(a.MultiHeadParameters.init(4, 2, seed=0), x, mask=a.causal_mask(3))\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )


def test_the_import_that_was_measured_did_load_the_package(loaded):
    assert "attention_in_detail" in loaded
    assert "numpy" in loaded


def test_trained_models_load_no_library_before_they_are_asked_for():
    loaded = fresh(
        "import sys, attention_in_detail.models\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    assert "attention_in_detail" in loaded
    assert not {"safetensors", "tokenizers", "torch"} & set(loaded)


def test_every_public_name_is_there():
    assert attention_in_detail.__all__ == sorted(
        attention_in_detail.__all__
    )
    for name in attention_in_detail.__all__:
        assert callable(getattr(attention_in_detail, name))
        assert getattr(attention_in_detail, name).__doc__
    assert attention_in_detail.nn.__all__ == [
        "DecoderLayer",
        "EncoderLayer",
        "MultiHeadAttention",
        "Transformer",
    ]


# Names that stay: more may come, none may go.
PROMISED = [
    "MultiHeadParameters",
    "attention",
    "attention_weights",
    "causal_mask",
    "combine_masks",
    "cross_attention",
    "mask_from_torch_mha",
    "mask_to_torch_mha",
    "merge_heads",
    "multi_head_attention",
    "multi_head_attention_by_head",
    "padding_mask",
    "scores",
    "self_attention",
    "shape_checked",
    "show_source",
    "sinusoidal_positions",
    "softmax",
    "split_heads",
    "window_mask",
]


def test_the_names_promised_are_public():
    assert set(PROMISED) <= set(attention_in_detail.__all__)


def modules():
    found = pkgutil.walk_packages(
        attention_in_detail.__path__, "attention_in_detail."
    )
    return [
        m.name
        for m in found
        if not m.name.startswith("attention_in_detail.figures")
    ]


@pytest.mark.parametrize("name", modules())
def test_every_module_names_what_it_gives(name):
    module = importlib.import_module(name)
    assert module.__doc__
    for public in module.__all__:
        assert hasattr(module, public)


@pytest.mark.parametrize(
    "name",
    sorted(
        set(attention_in_detail.__all__)
        - {
            "AttentionGradients",
            "DecoderCache",
            "Hypothesis",
            "shape_checked",
            "show_source",
        }
    ),
)
def test_docstrings_give_formula_errors_and_source(name):
    text = getattr(attention_in_detail, name).__doc__
    for part in (".. math::", "Raises:", "Source:"):
        assert part in text


def test_the_package_is_marked_as_typed():
    assert (Path(attention_in_detail.__file__).parent / "py.typed").exists()


def test_what_the_reference_says_can_be_imported_can():
    """All that its first three pages list, from the package itself."""
    text = (ROOT / "book/api.md").read_text("utf8")
    pages = re.findall(r"^\| \{doc\}`(api/\w+)`", text, re.MULTILINE)
    assert "first three pages" in text
    assert len(pages) == len(list((ROOT / "book/api").glob("*.md")))
    listed = []
    for page in pages[:3]:
        blocks = re.findall(
            r"automodule:: (\S+)\n   :members:(.*)",
            (ROOT / f"book/{page}.md").read_text("utf8"),
        )
        for module, names in blocks:
            every = importlib.import_module(module).__all__
            listed += re.findall(r"\w+", names) or every
    assert len(listed) > 50
    assert set(listed) <= set(attention_in_detail.__all__)
