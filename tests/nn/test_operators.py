"""What runs is noted by name, with the largest array that an operator hands on."""

import torch

from attention_in_detail.nn.operators import operators_of


def test_operators_are_named_once_in_their_order():
    x = torch.ones(3, 5)
    found = operators_of(lambda: (x.exp() * x).exp().sum())
    assert found.names == ("exp", "mul", "sum")
    assert found.largest == 15


def test_several_results_are_all_seen():
    x = torch.ones(4, 6)
    found = operators_of(lambda: torch.ops.aten.max.dim(x, 0))
    assert found.names == ("max",)
    assert found.largest == 6


def test_a_number_is_no_array():
    x = torch.ones(())
    assert operators_of(lambda: x.item()).largest == 0


def test_gradients_are_operators_too():
    x = torch.ones(7, requires_grad=True)
    names = operators_of(lambda: x.exp().sum().backward()).names
    assert {"exp", "sum", "mul"} <= set(names)


def test_nothing_is_noted_afterwards():
    found = operators_of(lambda: torch.ones(2))
    torch.ones(9).exp()
    assert found.largest == 2
    assert "exp" not in found.names
