"""Direction: why token i may look at token j while j does not look back, and a head that has to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from array_api_compat import array_namespace
from torch import Tensor
from torch.nn import functional as F

from attention_in_detail._checks import (
    checked,
    kind,
    need_axes,
    need_floating,
    need_integer,
    need_one_home,
    need_same,
)
from attention_in_detail.head_scores import pattern_mass
from attention_in_detail.insights.fitting import fit, need_training
from attention_in_detail.masks import causal_mask
from attention_in_detail.multi_head import self_attention
from attention_in_detail.notation import (
    Array,
    Bool,
    Float,
    Integer,
    Size,
)
from attention_in_detail.parameters import MultiHeadParameters
from attention_in_detail.positions import sinusoidal_positions

__all__ = [
    "HEADS",
    "PreviousTokenHead",
    "cycle_log_ratios",
    "measure_head",
    "score_form",
    "skew_share",
    "stationary_distribution",
    "symmetric_and_skew",
    "train_head",
]

# ---- scores as a bilinear form -------------------------------------------------------


def check_score_form(W_Q: Any, W_K: Any) -> None:
    for name, W, rows in (("W_Q", W_Q, "D_q"), ("W_K", W_K, "D_k")):
        need_floating(name, W)
        need_axes(name, W, [rows, "D_h"])
    need_one_home({"W_Q": W_Q, "W_K": W_K})
    need_same(
        "W_K",
        W_K.shape[-1],
        "W_Q",
        W_Q.shape[-1],
        "D_h",
        "queries and keys must share their width",
    )


def need_square(name: str, x: Any, axes: tuple[str, str]) -> None:
    need_floating(name, x)
    need_axes(name, x, axes)
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(
            f"{name} must be square in its last two axes, but has the shape {tuple(x.shape)}"
        )


def check_form(M: Any) -> None:
    need_square("M", M, ("D", "D"))


def check_skew_share(M: Any) -> None:
    check_form(M)
    if not bool(array_namespace(M).all(size_squared(M) > 0)):
        raise ValueError("M is 0, and a part of nothing has no share")


def size_squared(M: Float[Array, "*batch D D"]) -> Float[Array, "*batch"]:
    """Return the sum of the squared entries."""
    return array_namespace(M).sum(M * M, axis=(-2, -1))


@checked(check_score_form)
def score_form(
    W_Q: Float[Array, "*batch D_q D_h"], W_K: Float[Array, "*batch D_k D_h"]
) -> Float[Array, "*batch D_q D_k"]:
    r"""Return the matrix by which a head compares two rows of its input.

    .. math:: M = W^Q (W^K)^\top, \qquad Z_{ij} = \frac{x_i^\top M x_j}{\sqrt{D_h}}

    Args:
        W_Q: shape (\*batch, D_q, D_h).
        W_K: shape (\*batch, D_k, D_h).

    Returns:
        Shape (\*batch, D_q, D_k), of rank at most D_h.

    Raises:
        TypeError: if an argument is not a floating array, or libraries, dtypes or
            devices are mixed.
        ValueError: if the widths D_h differ.

    Source:
        Vaswani et al. (2017), section 3.2.2; as one matrix in Elhage et al. (2021),
        section "Attention Heads as Information Movement".
    """
    return W_Q @ W_K.mT


@checked(check_form)
def symmetric_and_skew(
    M: Float[Array, "*batch D D"],
) -> tuple[Float[Array, "*batch D D"], Float[Array, "*batch D D"]]:
    r"""Cut a form into the part that is the same in both directions and the part that changes its sign.

    .. math:: S = \tfrac12 (M + M^\top), \qquad N = \tfrac12 (M - M^\top), \qquad M = S + N

    Args:
        M: shape (\*batch, D, D).

    Returns:
        S and N, shape (\*batch, D, D) each: Sᵀ = S and Nᵀ = −N.

    Raises:
        TypeError: if ``M`` is not a floating array.
        ValueError: if it is not square.

    Source:
        Linear algebra.
    """
    return (M + M.mT) / 2, (M - M.mT) / 2


@checked(check_skew_share)
def skew_share(M: Float[Array, "*batch D D"]) -> Float[Array, "*batch"]:
    r"""Return how much of a form is skew: 0 for a symmetric one, 1 where all is skew.

    .. math:: s(M) = \frac{\lVert N \rVert_F^2}{\lVert M \rVert_F^2}, \qquad N = \tfrac12 (M - M^\top)

    Args:
        M: shape (\*batch, D, D).

    Returns:
        In [0, 1], shape (\*batch,). The share of the symmetric part is 1 − s(M).

    Raises:
        TypeError: if ``M`` is not a floating array.
        ValueError: if it is not square, or 0.

    Source:
        Linear algebra: S and N are orthogonal in the Frobenius product.
    """
    _, skew = symmetric_and_skew.unchecked(M)
    return size_squared(skew) / size_squared(M)


# ---- weights: round trips and the walk that they describe ------------------------------


def check_cycles(weights: Any) -> None:
    need_square("weights", weights, ("T", "T"))
    if not bool(array_namespace(weights).all(weights > 0)):
        raise ValueError(
            "weights must be positive, but one is 0; a cycle through it has no ratio"
        )


@checked(check_cycles)
def cycle_log_ratios(
    weights: Float[Array, "*batch T T"],
) -> Float[Array, "*batch T T T"]:
    r"""Compare each round trip of three steps with the same trip the other way round.

    .. math:: C_{ijk} = \ln \frac{\alpha_{ij}\, \alpha_{jk}\, \alpha_{ki}}{\alpha_{ik}\, \alpha_{kj}\, \alpha_{ji}}

    The sums of the softmax cancel: with N the skew part of the scores, C is
    2 (N_ij + N_jk + N_ki), and 0 throughout where the scores are symmetric.

    Args:
        weights: of self-attention, all positive, shape (\*batch, T, T).

    Returns:
        Shape (\*batch, T, T, T).

    Raises:
        TypeError: if ``weights`` is not a floating array.
        ValueError: if it is not square, or an entry is not positive.

    Source:
        Kolmogorov's criterion for a reversible Markov chain: Kelly (1979).
    """
    logs = array_namespace(weights).log(weights)
    turn = logs - logs.mT  # ln α_ij − ln α_ji
    first = turn[..., :, :, None]  # i, j
    second = turn[..., None, :, :]  # j, k
    third = turn.mT[..., :, None, :]  # k, i, laid out as i, k
    return first + second + third


def check_stationary(scores: Any) -> None:
    need_square("scores", scores, ("T", "T"))
    xp = array_namespace(scores)
    apart = xp.max(xp.abs(scores - scores.mT))
    most = xp.max(xp.abs(scores))
    bound = 64 * xp.finfo(scores.dtype).eps * (1 + most)
    if not bool(apart <= bound):
        raise ValueError(
            f"scores must be symmetric, but two differ by {float(apart):.2g}; "
            "for others this formula does not hold"
        )


@checked(check_stationary)
def stationary_distribution(
    scores: Float[Array, "*batch T T"],
) -> Float[Array, "*batch T"]:
    r"""Return where a walk that steps by attention weights is found in the long run, if the scores are symmetric.

    .. math:: \pi_i = \frac{\sum_j e^{Z_{ij}}}{\sum_{r,j} e^{Z_{rj}}}, \qquad
        \pi_i \alpha_{ij} = \pi_j \alpha_{ji}, \qquad \pi^\top A = \pi^\top

    Args:
        scores: symmetric, shape (\*batch, T, T).

    Returns:
        Positive, with sum 1, shape (\*batch, T).

    Raises:
        TypeError: if ``scores`` is not a floating array.
        ValueError: if it is not square or not symmetric.

    Source:
        Detailed balance: Kelly (1979).
    """
    xp = array_namespace(scores)
    largest = xp.max(scores, axis=(-2, -1), keepdims=True)
    rows = xp.sum(xp.exp(scores - largest), axis=-1)
    return rows / xp.sum(rows, axis=-1, keepdims=True)


# ---- a head that has to know a direction -------------------------------------------------

# By name: whether queries and keys share their projection, whether a token may attend
# to itself, whether to later ones.
HEADS: Mapping[str, tuple[bool, bool, bool]] = {
    "separate": (False, True, True),
    "tied": (True, True, True),
    "tied, not itself": (True, False, True),
    "tied, not itself, causal": (True, False, False),
}
WORDS, T, D, PLACES = 16, 24, 32, 256
BATCH = 64


@dataclass(frozen=True, eq=False)
class PreviousTokenHead:
    """One head that shall put out the token before each token.

    Attributes:
        words: the embedding of each token, shape (V, D).
        places: sinusoidal positions, shape (P, D), not trained.
        attention: one head of width D, with D_out = V. Tied: ``W_K`` is ``W_Q``.
        mask: true where a query may attend, shape (T, T).
    """

    words: Float[Tensor, "V D"]
    places: Float[Tensor, "P D"]
    attention: MultiHeadParameters
    mask: Bool[Tensor, "T T"]

    def trained(self) -> list[Tensor]:
        """Return the tensors that training changes, each once."""
        a = self.attention
        tied = a.W_K is a.W_Q
        return [
            self.words,
            a.W_Q,
            *([] if tied else [a.W_K]),
            a.W_V,
            a.W_O,
        ]

    def read(
        self, tokens: Integer[Tensor, "B T"], start: Integer[Tensor, " B"]
    ) -> Float[Tensor, "B T D"]:
        """Return what the head is given: embedding plus position, the first token at place ``start``."""
        steps = torch.arange(tokens.shape[-1])
        return self.words[tokens] + self.places[start[:, None] + steps]

    def answer(
        self, tokens: Integer[Tensor, "B T"], start: Integer[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B T T"]]:
        """Return a number for each token of the vocabulary, largest at the answer, and the weights."""
        logits, weights = self_attention.unchecked(
            self.attention,
            self.read(tokens, start),
            mask=self.mask,
            return_weights=True,
        )
        return logits, weights[:, 0]


def drawn_head(name: str, generator: torch.Generator) -> PreviousTokenHead:
    """Draw a head before training."""
    tied, itself, later = HEADS[name]

    def draw(rows: Size, columns: Size, variance: float) -> Tensor:
        drawn = torch.randn(
            rows, columns, generator=generator, dtype=torch.float64
        )
        return (drawn * variance**0.5).requires_grad_()

    words = draw(WORDS, D, 1 / D)
    W_Q, W_K, W_V = (draw(D, D, 1 / D) for _ in range(3))
    mask = torch.ones((T, T), dtype=torch.bool)
    if not itself:
        mask = mask & ~torch.eye(T, dtype=torch.bool)
    if not later:
        mask = mask & causal_mask.unchecked(T, like=mask)
    return PreviousTokenHead(
        words,
        sinusoidal_positions.unchecked(PLACES, D, like=words.detach()),
        MultiHeadParameters(
            W_Q,
            W_Q if tied else W_K,
            W_V,
            draw(D, WORDS, 1 / D),
            heads=1,
        ),
        mask,
    )


def drawn_batch(
    size: Size, generator: torch.Generator
) -> tuple[Integer[Tensor, "B T"], Integer[Tensor, " B"]]:
    """Draw random tokens, and the place of the first: no place is the same token's for long."""
    tokens = torch.randint(WORDS, (size, T), generator=generator)
    return tokens, torch.randint(PLACES - T, (size,), generator=generator)


def check_train_head(
    name: Any, *, seed: Any, steps: Any = 400, report: Any = None
) -> None:
    need_training(name, HEADS, seed, steps, report)


@checked(check_train_head)
def train_head(
    name: str, *, seed: Size, steps: Size = 400, report: Size | None = None
) -> PreviousTokenHead:
    r"""Train one head, without a mask unless the name says so, to put out the token before each token.

    .. math:: -\frac{1}{T-1} \sum_{t=2}^{T} \ln \sigma(Y_t)_{\text{token } t-1} \to \min

    Args:
        name: one of ``HEADS``: ``"separate"`` for projections of their own, ``"tied"``
            for W_K = W_Q, and the latter with keys shut by a mask.
        seed: of the generator that draws the weights and the batches.
        steps: how many.
        report: as in :func:`attention_in_detail.insights.fitting.fit`.

    Returns:
        The head, in float64.

    Raises:
        TypeError: if ``name`` is not a text or a number not an integer.
        ValueError: if there is no such head, or a number is too small.

    Source:
        The masks are those of Kitaev et al. (2020), section 2, for queries and keys
        that share a projection.
    """
    generator = torch.Generator().manual_seed(int(seed))
    head = drawn_head(name, generator)

    def loss_at(_: int) -> Tensor:
        tokens, start = drawn_batch(BATCH, generator)
        logits, _weights = head.answer(tokens, start)
        # The first token has none before it, and is not asked.
        return F.cross_entropy(logits[:, 1:].mT, tokens[:, :-1])

    fit(
        head.trained(),
        loss_at,
        steps=int(steps),
        learning_rate=1e-2,
        warmup=min(50, int(steps) - 1),
        report=report,
    )
    return head


def check_measure_head(head: Any, *, seed: Any) -> None:
    if not isinstance(head, PreviousTokenHead):
        raise TypeError(
            f"head must be a PreviousTokenHead, not {kind(head)}"
        )
    need_integer("seed", seed, least=0)


@checked(check_measure_head)
def measure_head(
    head: PreviousTokenHead, *, seed: Size
) -> dict[str, float]:
    r"""Measure a head on 512 sequences.

    .. math:: \text{previous} = \frac{1}{T-1} \sum_{t=2}^{T} \alpha_{t,t-1}, \qquad
        \text{next} = \frac{1}{T-1} \sum_{t=1}^{T-1} \alpha_{t,t+1}

    Args:
        head: from :func:`train_head`.
        seed: of the sequences.

    Returns:
        ``accuracy``, the share of right answers; the mean weights on the ``previous``
        token, the ``next`` and the token ``itself``; and the ``skew`` share of
        W_Q W_Kᵀ.

    Raises:
        TypeError: if ``head`` is no such head, or ``seed`` not an integer.
        ValueError: if ``seed`` is negative.

    Source:
        The weights as :func:`attention_in_detail.head_scores.pattern_mass`.
    """
    tokens, start = drawn_batch(
        512, torch.Generator().manual_seed(int(seed))
    )
    with torch.no_grad():
        logits, weights = head.answer(tokens, start)
        right = logits[:, 1:].argmax(-1) == tokens[:, :-1]
        form = score_form.unchecked(head.attention.W_Q, head.attention.W_K)
        masses = {
            where: pattern_mass.unchecked(weights, beside(shift)).mean()
            for where, shift in (
                ("previous", -1),
                ("next", 1),
                ("itself", 0),
            )
        }
        found = {
            "accuracy": right.to(weights.dtype).mean(),
            **masses,
            "skew": skew_share.unchecked(form),
        }
    return {name: float(value) for name, value in found.items()}


def beside(shift: int) -> Bool[Tensor, "T T"]:
    """Return the pattern of the key that lies ``shift`` places after the query."""
    steps = torch.arange(T)
    return steps[None, :] - steps[:, None] == shift
