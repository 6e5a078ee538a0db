"""How numbers are printed in the figures, and so in their words."""

import pytest

from attention_in_detail.figures._words import number


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1e-17, "0.00"),
        (-1e-17, "0.00"),
        (2.0, "2"),
        (2.0 + 4e-16, "2"),  # the last digit differs between processors
        (5.0 - 9e-16, "5"),
        (-3.0 + 4e-16, "−3"),
        (2.0 + 1e-6, "2.00"),
        (0.125, "0.12"),
        (-0.001, "0.00"),
        (float("-inf"), "−∞"),
    ],
)
def test_a_number_is_printed_the_same_on_any_processor(value, words):
    assert number(value) == words
