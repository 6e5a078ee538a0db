"""Which heads a trained model needs: gates on heads, importance by gradient, pruning, and gates that are learned."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor
from torch.func import grad, vmap

from attention_in_detail._checks import (
    checked,
    kind,
    need_floating,
    need_integer,
)
from attention_in_detail.encoder_decoder import TransformerParameters
from attention_in_detail.insights.fitting import fit
from attention_in_detail.insights.translator import (
    check_losses,
    number_losses,
)
from attention_in_detail.notation import Array, Float, Size
from attention_in_detail.parameters import MultiHeadParameters
from attention_in_detail.tasks.number_words import Batch
from attention_in_detail.trees import map_arrays

__all__ = [
    "KINDS",
    "attentions",
    "gated",
    "gates_without",
    "hard_concrete",
    "head_importance",
    "learn_gates",
    "open_probability",
    "pruning_order",
    "settled_gates",
    "tune_with_gates",
]

KINDS = ("encoder", "decoder", "cross")
"""The three kinds of attention, in the order in which gates name them."""

# From Louizos, Welling and Kingma (2018): how far the gate is stretched, and its temperature.
LEAST, MOST, TEMPERATURE = -0.1, 1.1, 2 / 3
# Adam moves each number by about the learning rate a step, whatever its gradient. The gates
# must go further than the weights, so they are this many times a number that Adam trains.
GATE_SCALE = 50.0


# ---- checks ----


def check_attentions(parameters: Any) -> None:
    if not isinstance(parameters, TransformerParameters):
        raise TypeError(
            f"parameters must be TransformerParameters, not {kind(parameters)}"
        )
    heads = [part.heads for _, _, part in attentions.unchecked(parameters)]
    if len(set(heads)) > 1:
        raise ValueError(
            f"the attentions have {heads} heads, but gates need the same number in each"
        )


def check_gated(parameters: Any, gates: Any) -> None:
    check_attentions(parameters)
    need_floating("gates", gates)
    wanted = gates_shape(parameters)
    if tuple(gates.shape) != wanted:
        raise ValueError(
            f"gates have the shape {tuple(gates.shape)}, but there are {wanted[0]} attentions of {wanted[1]} heads"
        )


def check_importance(
    parameters: Any, batch: Any, gates: Any = None
) -> None:
    check_attentions(parameters)
    check_losses(parameters, batch)
    if gates is not None:
        check_gated(parameters, gates)


def check_order(
    parameters: Any, batch: Any, *, kinds: Any = KINDS, every: Any = None
) -> None:
    check_importance(parameters, batch)
    if isinstance(kinds, str) or not kinds or not set(kinds) <= set(KINDS):
        raise ValueError(
            f"kinds is {kinds!r}, but must hold some of: {', '.join(KINDS)}"
        )
    if every is not None:
        need_integer("every", every, least=1)


def check_without(parameters: Any, heads: Any) -> None:
    check_attentions(parameters)
    count = math.prod(gates_shape(parameters))
    for head in heads:
        need_integer("a head", head)
        if not 0 <= head < count:
            raise ValueError(
                f"there is no head {head}: the {count} heads are counted from 0"
            )


def check_log_alpha(log_alpha: Any) -> None:
    need_floating("log_alpha", log_alpha)


def check_hard_concrete(log_alpha: Any, noise: Any) -> None:
    check_log_alpha(log_alpha)
    need_floating("noise", noise)
    if not bool(((noise > 0) & (noise < 1)).all()):
        raise ValueError("noise must lie between 0 and 1, both left out")


def check_learn(
    parameters: Any,
    drawn: Any,
    *,
    steps: Any,
    penalty: Any,
    seed: Any,
    learning_rate: Any = 1e-3,
    report: Any = None,
) -> None:
    check_attentions(parameters)
    need_iterator(drawn)
    need_integer("seed", seed, least=0)
    if not penalty >= 0:
        raise ValueError(f"penalty is {penalty}, but must be 0 or more")


def check_tune(
    parameters: Any,
    drawn: Any,
    gates: Any,
    *,
    steps: Any,
    learning_rate: Any = 1e-3,
    report: Any = None,
) -> None:
    check_gated(parameters, gates)
    need_iterator(drawn)


def need_iterator(drawn: Any) -> None:
    if not isinstance(drawn, Iterator):
        raise TypeError(
            f"drawn must be an iterator over batches, not {kind(drawn)}"
        )


def gates_shape(parameters: TransformerParameters) -> tuple[int, int]:
    """Return the number of attentions and of heads in each."""
    found = attentions.unchecked(parameters)
    return len(found), found[0][2].heads


# ---- gates ----


@checked(check_attentions)
def attentions(
    parameters: TransformerParameters,
) -> list[tuple[str, int, MultiHeadParameters]]:
    """List the attentions of a Transformer, in the order in which gates name them.

    Args:
        parameters: of the whole model.

    Returns:
        For each the kind, the number of its layer and its parameters: first those of the
        encoder, then the decoder's self-attentions, then the cross-attentions.

    Raises:
        TypeError: if ``parameters`` are of another kind.
        ValueError: if the attentions have different numbers of heads.
    """
    encoder, decoder = parameters.encoder_layers, parameters.decoder_layers
    parts = (
        (encoder, "attention"),
        (decoder, "self_attention"),
        (decoder, "cross_attention"),
    )
    return [
        (name, n, getattr(layer, part))
        for name, (layers, part) in zip(KINDS, parts, strict=True)
        for n, layer in enumerate(layers)
    ]


@checked(check_gated)
def gated(
    parameters: TransformerParameters, gates: Float[Array, "L h"]
) -> TransformerParameters:
    r"""Return the model in which the output of each head is multiplied by its gate.

    .. math:: \sum_i \xi_i H_i W^O_i = \sum_i H_i (\xi_i W^O_i)

    So a gate on a head is a factor on the rows of W_O that the head owns, and the layers
    stay as they are.

    Args:
        parameters: of the whole model.
        gates: ξ, a row for each of :func:`attentions`, a column for each head.

    Returns:
        New parameters. Gates of 1 change nothing; a gate of 0 takes its head away.

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if the shape of ``gates`` does not fit.

    Source:
        Michel, Levy and Neubig (2019).
    """
    parts = [
        with_gates(part, row)
        for (_, _, part), row in zip(
            attentions.unchecked(parameters), gates, strict=True
        )
    ]
    return with_attentions(parameters, parts)


def with_attentions(
    parameters: TransformerParameters, parts: Sequence[MultiHeadParameters]
) -> TransformerParameters:
    """Put other parameters in place of each of :func:`attentions`, in their order."""
    given = iter(parts)
    encoder = [
        replace(layer, attention=next(given))
        for layer in parameters.encoder_layers
    ]
    own = [next(given) for _ in parameters.decoder_layers]
    decoder = [
        replace(layer, self_attention=part, cross_attention=next(given))
        for layer, part in zip(parameters.decoder_layers, own, strict=True)
    ]
    return replace(
        parameters,
        encoder_layers=tuple(encoder),
        decoder_layers=tuple(decoder),
    )


def with_gates(
    attention: MultiHeadParameters, gates: Float[Array, " h"]
) -> MultiHeadParameters:
    """Multiply the rows of W_O that head i owns by gate i."""
    h, D_h = attention.heads, attention.D_h
    blocks = attention.W_O.reshape(h, D_h, attention.D_out)
    blocks = blocks * gates[:, None, None]
    return replace(attention, W_O=blocks.reshape(h * D_h, attention.D_out))


@checked(check_without)
def gates_without(
    parameters: TransformerParameters, heads: Sequence[Size]
) -> Float[Tensor, "L h"]:
    """Return gates of 1, and of 0 for some heads.

    Args:
        parameters: of the whole model.
        heads: their numbers: head i of attention l of :func:`attentions` is l·h + i.

    Returns:
        Gates for :func:`gated`.

    Raises:
        TypeError: if a number is not an integer, or ``parameters`` of another kind.
        ValueError: if there is no such head.
    """
    gates = torch.ones(
        gates_shape(parameters), dtype=parameters.W_output.dtype
    )
    for head in heads:
        gates.view(-1)[int(head)] = 0
    return gates


# ---- importance ----


@checked(check_importance)
def head_importance(
    parameters: TransformerParameters,
    batch: Batch,
    gates: Float[Tensor, "L h"] | None = None,
) -> Float[Tensor, "L h"]:
    r"""Say how much the loss of an example moves, in the mean, when the gate of a head does.

    .. math:: I_i = \frac{1}{B} \sum_b \left| \frac{\partial L_b}{\partial \xi_i} \right|

    The size is taken before the mean: an example that a head helps and one that it
    harms do not cancel.

    Args:
        parameters: of the whole model.
        batch: from :func:`attention_in_detail.insights.translator.tensor_batch`.
        gates: where the derivative is taken; None means all 1.

    Returns:
        One number a head, zero or more.

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if the shape of ``gates`` does not fit.

    Source:
        Michel, Levy and Neubig (2019).
    """
    if gates is None:
        gates = gates_without.unchecked(parameters, ())
    names = [f.name for f in fields(batch)]

    def loss(gates: Tensor, *example: Tensor) -> Tensor:
        one = Batch(*(x[None] for x in example))
        return number_losses.unchecked(
            gated.unchecked(parameters, gates), one
        )[0]

    each = vmap(grad(loss), in_dims=(None, *[0] * len(names)))
    slopes = each(gates, *(getattr(batch, name) for name in names))
    return slopes.abs().mean(0)


@checked(check_order)
def pruning_order(
    parameters: TransformerParameters,
    batch: Batch,
    *,
    kinds: Sequence[str] = KINDS,
    every: Size | None = None,
) -> list[int]:
    r"""Order heads from the first that can go to the last.

    .. math:: \tilde I_{l,i} = I_{l,i} \Big/ \sqrt{\textstyle\sum_j I_{l,j}^2}

    The least important head of all goes first; importance is compared after it is
    divided by its norm in each attention l.

    Args:
        parameters: of the whole model.
        batch: on which importance is measured.
        kinds: of the attentions whose heads may go.
        every: after how many heads importance is measured anew, without those that
            went; None measures it once.

    Returns:
        The numbers of the heads, as in :func:`gates_without`.

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if ``kinds`` names another kind, or ``every`` is below 1.

    Source:
        Michel, Levy and Neubig (2019).
    """
    h = gates_shape(parameters)[1]
    left = [
        n * h + i
        for n, (name, _, _) in enumerate(attentions.unchecked(parameters))
        if name in kinds
        for i in range(h)
    ]
    gone: list[int] = []
    while left:
        gates = gates_without.unchecked(parameters, gone)
        importance = head_importance.unchecked(parameters, batch, gates)
        norms = importance.norm(dim=1, keepdim=True)
        score = (importance / norms.clamp_min(1e-30)).flatten()
        left.sort(key=lambda head: float(score[head]))
        count = len(left) if every is None else int(every)
        gone, left = gone + left[:count], left[count:]
    return gone


# ---- gates that are learned ----


@checked(check_hard_concrete)
def hard_concrete(
    log_alpha: Float[Tensor, "*gates"], noise: Float[Tensor, "*gates"]
) -> Float[Tensor, "*gates"]:
    r"""Draw gates that are often exactly 0 or 1, yet have a derivative.

    .. math:: s &= \sigma\bigl((\ln u - \ln(1 - u) + \log\alpha) / \beta\bigr) \\
        \xi &= \min(1, \max(0, s\,(\zeta - \gamma) + \gamma))

    σ is the logistic function, β = 2/3, γ = −0.1, ζ = 1.1.

    Args:
        log_alpha: one number a gate: large opens it, small shuts it.
        noise: u, between 0 and 1, drawn uniformly.

    Returns:
        The gates ξ, from 0 to 1.

    Raises:
        TypeError: if an argument is not floating.
        ValueError: if the noise is not between 0 and 1.

    Source:
        Louizos, Welling and Kingma (2018).
    """
    s = torch.sigmoid((torch.logit(noise) + log_alpha) / TEMPERATURE)
    return (s * (MOST - LEAST) + LEAST).clamp(0, 1)


@checked(check_log_alpha)
def open_probability(
    log_alpha: Float[Tensor, "*gates"],
) -> Float[Tensor, "*gates"]:
    r"""Return the probability that a gate of :func:`hard_concrete` is not 0.

    .. math:: P(\xi > 0) = \sigma(\log\alpha - \beta \ln(-\gamma / \zeta))

    Its sum over the gates is the expected number of heads that are left: what the
    penalty pushes down.

    Args:
        log_alpha: one number a gate.

    Returns:
        From 0 to 1 each.

    Raises:
        TypeError: if ``log_alpha`` is not floating.

    Source:
        Louizos, Welling and Kingma (2018).
    """
    return torch.sigmoid(log_alpha - TEMPERATURE * math.log(-LEAST / MOST))


@checked(check_log_alpha)
def settled_gates(
    log_alpha: Float[Tensor, "*gates"],
) -> Float[Tensor, "*gates"]:
    r"""Return the gates that are used once training is over: without noise.

    .. math:: \xi = \min(1, \max(0, \sigma(\log\alpha)\,(\zeta - \gamma) + \gamma))

    Args:
        log_alpha: one number a gate.

    Returns:
        The gates ξ, from 0 to 1; those of 0 are shut.

    Raises:
        TypeError: if ``log_alpha`` is not floating.

    Source:
        Louizos, Welling and Kingma (2018).
    """
    s = torch.sigmoid(log_alpha)
    return (s * (MOST - LEAST) + LEAST).clamp(0, 1)


@checked(check_learn)
def learn_gates(
    parameters: TransformerParameters,
    drawn: Iterator[Batch],
    *,
    steps: Size,
    penalty: float,
    seed: Size,
    learning_rate: float = 1e-3,
    report: Size | None = None,
) -> tuple[TransformerParameters, Float[Tensor, "L h"]]:
    r"""Train a model further, with gates that each cost a penalty while they are open.

    .. math:: \text{loss} + \lambda \sum_{l,i} P(\xi_{l,i} > 0)

    Args:
        parameters: of the trained model; they are not changed.
        drawn: gives a batch for each step.
        steps: how many.
        penalty: λ, the price of a head, in loss a token.
        seed: of the noise.
        learning_rate: of the weights; the gates learn 50 times as fast.
        report: as in :func:`attention_in_detail.insights.fitting.fit`.

    Returns:
        The new parameters, before gates, and the gates, settled.

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if a number is out of its range.

    Source:
        Voita et al. (2019).
    """
    shape, dtype = gates_shape(parameters), parameters.W_output.dtype
    # Gates begin open: σ(2) is .88.
    lever = torch.full(shape, 2 / GATE_SCALE, dtype=dtype).requires_grad_()
    rng = torch.Generator().manual_seed(int(seed))

    def drawn_gates() -> tuple[Tensor, Tensor]:
        noise = torch.rand(shape, generator=rng, dtype=dtype)
        gates = hard_concrete.unchecked(
            GATE_SCALE * lever, noise.clamp(1e-6, 1 - 1e-6)
        )
        still_open = open_probability.unchecked(GATE_SCALE * lever)
        return gates, penalty * still_open.sum()

    new = _trained(
        parameters,
        drawn,
        drawn_gates,
        [lever],
        steps=steps,
        learning_rate=learning_rate,
        report=report,
    )
    return new, settled_gates.unchecked(GATE_SCALE * lever.detach())


@checked(check_tune)
def tune_with_gates(
    parameters: TransformerParameters,
    drawn: Iterator[Batch],
    gates: Float[Tensor, "L h"],
    *,
    steps: Size,
    learning_rate: float = 1e-3,
    report: Size | None = None,
) -> TransformerParameters:
    """Train a model further with gates that stay as they are: the control of :func:`learn_gates`.

    Args:
        parameters: of the trained model; they are not changed.
        drawn: gives a batch for each step.
        gates: of 0 and 1, or any others.
        steps: how many.
        learning_rate: of the weights.
        report: as in :func:`attention_in_detail.insights.fitting.fit`.

    Returns:
        The new parameters, before gates.

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if the shape of ``gates`` does not fit, or a number is out of its
            range.
    """
    return _trained(
        parameters,
        drawn,
        lambda: (gates, torch.zeros_like(gates[0, 0])),
        [],
        steps=steps,
        learning_rate=learning_rate,
        report=report,
    )


def _trained(
    parameters: TransformerParameters,
    drawn: Iterator[Batch],
    drawn_gates: Callable[[], tuple[Tensor, Tensor]],
    levers: list[Tensor],
    **options: Any,
) -> TransformerParameters:
    """Train a copy of the weights, and ``levers``, on the loss a token under gates that come with their price."""
    weights: list[Tensor] = []

    def leaf(x: Tensor) -> Tensor:
        weights.append(x.detach().clone().requires_grad_())
        return weights[-1]

    new = map_arrays(parameters, leaf)

    def loss_at(step: int) -> Tensor:
        batch, (gates, price) = next(drawn), drawn_gates()
        losses = number_losses.unchecked(gated.unchecked(new, gates), batch)
        return losses.sum() / batch.target_lengths.sum() + price

    fit([*weights, *levers], loss_at, **options)
    return map_arrays(new, Tensor.detach)
