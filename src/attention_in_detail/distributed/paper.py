"""What attention over many devices would need: memory, bytes and seconds, from stated assumptions."""

from dataclasses import dataclass
from numbers import Real

from attention_in_detail._checks import checked
from attention_in_detail.distributed._checks import check_on_paper
from attention_in_detail.distributed.counting import traffic
from attention_in_detail.notation import Size
from attention_in_detail.recomputing import training_cost

__all__ = ["OnPaper", "on_paper"]


@dataclass(frozen=True)
class OnPaper:
    """One self-attention of one layer over many devices, as computed by ``on_paper``.

    Attributes:
        positions: how many positions a device holds.
        bytes_held: bytes of its queries, keys, values and output, and of the keys and
            values that arrive meanwhile.
        bytes_of_weights: bytes of the weights of one head, which nobody stores.
        multiply_adds: those of one device.
        bytes_passed: bytes that it sends to the next place of the ring.
        bytes_summed: bytes that it sends to the devices that share its positions.
        seconds_computing: how long its multiply-adds take.
        seconds_passing: how long its bytes to the next place take.
        seconds_summing: how long its bytes to the devices beside it take.
        enough_positions: from how many positions a device on, computing with a block
            takes at least as long as sending it, on the way forward.
    """

    positions: int
    bytes_held: int
    bytes_of_weights: int
    multiply_adds: int
    bytes_passed: int
    bytes_summed: int
    seconds_computing: float
    seconds_passing: float
    seconds_summing: float
    enough_positions: float

    @property
    def seconds(self) -> float:
        """How long it takes where keys and values travel while the device computes, and sums wait."""
        return (
            max(self.seconds_computing, self.seconds_passing)
            + self.seconds_summing
        )


@checked(check_on_paper)
def on_paper(
    T: Size,
    D: Size,
    *,
    ring: Size,
    beside: Size = 1,
    itemsize: Size = 2,
    multiply_adds_per_second: Real,
    bytes_per_second: Real,
    bytes_per_second_beside: Real | None = None,
    backward: bool = False,
) -> OnPaper:
    r"""Compute what one self-attention over T positions of width D needs on each device.

    .. math:: t = \frac{T}{n}, \qquad
        \text{computing} = n \cdot \frac{2\, t^2 D}{g\, P}, \qquad
        \text{passing} = (n - 1) \cdot \frac{2\, t D\, b}{g\, L}, \qquad
        \text{enough} = \frac{b P}{L}

    n places in a ring, each with g devices that share its heads, P multiply-adds and L
    bytes a second, b bytes a number.

    Assumed: nothing is masked; the batch is one sequence; a device reaches its speed;
    it sends and receives at the same time, and computes meanwhile; the projections,
    the other parts of a layer and what starting a message costs are left out.

    Args:
        T: the number of positions.
        D: the width of all heads together.
        ring: n, how many places the ring has; divides T.
        beside: g, among how many devices the heads of a place are split; divides D.
        itemsize: b, bytes a number.
        multiply_adds_per_second: P of one device.
        bytes_per_second: L, from a device to the next place of the ring.
        bytes_per_second_beside: from a device to those of its own place; None means L.
        backward: whether to count the way back too, with the weights computed again.

    Returns:
        Counts and times.

    Raises:
        TypeError: if a size is not an integer, or a speed not a number.
        ValueError: if a size is below 1, a speed not above 0, or ``ring`` does not
            divide T or ``beside`` D.

    Source:
        The bound on the positions: Liu, Zaharia and Abbeel (2023), section 3.
    """
    T, D, n, g, b = map(int, (T, D, ring, beside, itemsize))
    t, width = T // n, D // g
    cost = training_cost(t, T, width, width)
    work = cost.multiply_adds if backward else cost.multiply_adds_forward
    kinds = {"itemsize": b, "backward": backward}
    passed = traffic("ring", T, width, ranks=n, **kinds).sent
    summed = traffic("heads", t, D, ranks=g, **kinds).sent
    near = (
        bytes_per_second
        if bytes_per_second_beside is None
        else bytes_per_second_beside
    )
    return OnPaper(
        positions=t,
        bytes_held=6 * t * width * b,
        bytes_of_weights=T * T * b,
        multiply_adds=work,
        bytes_passed=passed,
        bytes_summed=summed,
        seconds_computing=work / multiply_adds_per_second,
        seconds_passing=passed / bytes_per_second,
        seconds_summing=summed / near,
        enough_positions=b * multiply_adds_per_second / bytes_per_second,
    )
