"""The loop that trains: it minimizes, it is reproducible, and it says when it diverges."""

import pytest
import torch

from attention_in_detail.insights.fitting import fit

TARGET = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)


def fitted(**options):
    x = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    losses = fit(
        [x],
        lambda step: ((x - TARGET) ** 2).sum(),
        **{"steps": 400, "learning_rate": 0.1} | options,
    )
    return x.detach(), losses


def test_it_finds_the_minimum():
    x, losses = fitted()
    assert torch.allclose(x, TARGET, rtol=0, atol=1e-3)
    assert losses[0] == 14
    assert losses[-1] < 1e-6


def test_it_gives_the_same_twice():
    assert fitted()[1] == fitted()[1]


def test_the_rate_warms_up_and_ends_at_nothing():
    """Adam's first step is the learning rate itself, whatever the gradient."""
    x, _ = fitted(steps=1, learning_rate=0.1, warmup=0)
    assert torch.allclose(x.abs(), torch.full((3,), 0.1).double())
    slow, _ = fitted(steps=1, learning_rate=0.1, warmup=10)
    assert torch.allclose(slow.abs(), torch.full((3,), 0.01).double())
    whole, _ = fitted(steps=2, learning_rate=0.1)
    steady = 0.1 + 0.1 / 2  # the second of two steps: half of the rate
    assert torch.allclose(
        whole.abs(), torch.full((3,), steady).double(), atol=3e-3
    )


def test_progress_is_printed(capsys):
    fitted(steps=5, report=2)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("loss")[0].strip() for line in lines] == [
        "step    2 of 5",
        "step    4 of 5",
        "step    5 of 5",
    ]
    fitted(steps=5)
    assert capsys.readouterr().out == ""


def test_a_loss_that_is_not_finite_ends_it():
    x = torch.zeros(1, requires_grad=True)
    with pytest.raises(
        ValueError, match="the loss is nan at step 0: training has diverged"
    ):
        fit([x], lambda step: (x * float("nan")).sum(), steps=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps is 0"),
        ({"warmup": -1}, "warmup is -1"),
        ({"report": 0}, "report is 0"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0, but must be"),
    ],
)
def test_numbers_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fitted(**options)


def test_a_count_has_to_be_an_integer():
    with pytest.raises(TypeError, match="steps"):
        fitted(steps=1.5)
