"""Dropout drops as often as it says, keeps the mean, and draws what torch.rand draws."""

import pytest
import torch

from attention_in_detail.nn.dropping import dropped


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_left_is_scaled_up(probability, dtype):
    torch.manual_seed(0)
    x = torch.ones(300, 100, dtype=dtype)
    y = dropped(x, probability, True)
    assert y.dtype == dtype
    left = y[y != 0]
    assert torch.allclose(
        left, torch.full_like(left, 1 / (1 - probability))
    )
    assert abs(len(left) / x.numel() - (1 - probability)) < 0.01
    assert (x == 1).all()


def test_the_draws_are_those_of_rand_in_either_precision():
    x = torch.ones(40, 50)
    torch.manual_seed(3)
    kept = torch.rand(40, 50) >= 0.3
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(3)
        assert torch.equal(dropped(x.to(dtype), 0.3, True) != 0, kept)


def test_nothing_is_dropped_or_drawn_without_cause():
    x = torch.ones(3)
    state = torch.random.get_rng_state()
    assert dropped(x, 0.5, False) is x
    assert dropped(x, 0.0, True) is x
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_gradient_passes_where_the_number_passed():
    torch.manual_seed(0)
    x = torch.ones(50, requires_grad=True)
    y = dropped(x, 0.5, True)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
