import sys

import jaxtyping
import numpy as np
import pytest
import torch

from attention_in_detail import attention, scores, shape_checked
from attention_in_detail.notation import (
    Array,
    Bias,
    Bool,
    Float,
    Integer,
    Mask,
)


def product(
    x: Float[Array, "S D"], W: Float[Array, "D E"]
) -> Float[Array, "S E"]:
    return x @ W


def test_a_checked_function_computes_what_it_computed():
    x, W = np.ones((2, 3)), np.ones((3, 4))
    assert np.array_equal(shape_checked(product)(x, W), x @ W)
    assert shape_checked(product).__name__ == "product"


@pytest.mark.claim("def-shape")
@pytest.mark.parametrize("make", [np.ones, torch.ones])
def test_a_checked_function_refuses_what_its_annotation_forbids(make):
    with pytest.raises(jaxtyping.TypeCheckError, match="W"):
        shape_checked(product)(make((2, 3)), make((4, 4)))
    with pytest.raises(jaxtyping.TypeCheckError, match="x"):
        shape_checked(product)(make(3), make((3, 4)))


def test_a_checked_function_refuses_a_result_that_its_annotation_forbids():
    def wrong(x: Float[Array, "S D"]) -> Float[Array, "D S"]:
        return x

    with pytest.raises(jaxtyping.TypeCheckError, match="return value"):
        shape_checked(wrong)(np.ones((2, 3)))
    assert shape_checked(wrong)(np.ones((2, 2))).shape == (2, 2)


def test_a_checked_public_function_says_which_axis_does_not_fit():
    q, k = np.ones((4, 3)), np.ones((5, 2))
    with pytest.raises(jaxtyping.TypeCheckError, match="D_k=3") as caught:
        shape_checked(scores)(q, k)
    assert "*#batch S D_k" in str(caught.value)
    x = np.ones((4, 3))
    assert np.array_equal(
        shape_checked(attention)(x, x, x), attention(x, x, x)
    )


def test_annotations_tell_floats_booleans_and_integers_apart():
    floats, booleans, integers = (
        np.ones(2),
        np.ones(2, bool),
        np.ones(2, int),
    )
    for annotation, own in (
        (Float, floats),
        (Bool, booleans),
        (Integer, integers),
    ):
        for x in (floats, booleans, integers):
            assert isinstance(x, annotation[Array, "n"]) == (x is own)
    assert isinstance(
        torch.ones(2, dtype=torch.bfloat16), Float[Array, "n"]
    )


def test_masks_and_biases_may_lack_axes():
    for shape in ((), (3,), (2, 3), (5, 2, 3)):
        assert isinstance(np.ones(shape, bool), Mask)
        assert isinstance(np.ones(shape), Bias)
        assert not isinstance(np.ones(shape), Mask)
        assert not isinstance(np.ones(shape, bool), Bias)


def test_without_beartype_one_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "beartype", None)
    with pytest.raises(ImportError, match="pip install beartype") as caught:
        shape_checked(product)
    assert "\n" not in str(caught.value)
