"""Routing: what a head reads and where it writes it, and why two heads in a row can do what one head alone cannot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from array_api_compat import array_namespace
from torch import Tensor
from torch.nn import functional as F

from attention_in_detail._checks import (
    checked,
    kind,
    need_axes,
    need_boolean,
    need_floating,
    need_integer,
    need_one_home,
)
from attention_in_detail._parameter_checks import need_own_keys
from attention_in_detail.head_scores import pattern_mass
from attention_in_detail.insights.direction import score_form
from attention_in_detail.insights.fitting import fit, need_training
from attention_in_detail.masks import causal_mask
from attention_in_detail.multi_head import (
    multi_head_attention,
    self_attention,
)
from attention_in_detail.notation import (
    Array,
    Bool,
    Float,
    Integer,
    Size,
)
from attention_in_detail.parameters import MultiHeadParameters
from attention_in_detail.scaled_dot_product import attention_weights

__all__ = [
    "NETWORKS",
    "READERS",
    "SIGNS",
    "SWAPPED",
    "AttentionOnly",
    "change_gauge",
    "circuits",
    "drawn_sequences",
    "fit_swapped",
    "head_writes",
    "measure_network",
    "train_network",
    "without_composition",
    "writes_by_circuits",
]

# ---- the two circuits of a head ---------------------------------------------------------


def need_parameters(parameters: Any, *, plain: bool = False) -> None:
    if not isinstance(parameters, MultiHeadParameters):
        raise TypeError(
            f"parameters must be MultiHeadParameters, not {kind(parameters)}"
        )
    if parameters.W_O is None:
        raise ValueError(
            "parameters have no W_O: without it a head writes to its own columns alone"
        )
    if plain:
        for name in ("b_Q", "b_K", "b_V"):
            if getattr(parameters, name) is not None:
                raise ValueError(
                    f"parameters have {name}, but the circuits hold no bias; make them with bias=False"
                )


def check_circuits(parameters: Any) -> None:
    need_parameters(parameters, plain=True)


def need_input(parameters: Any, x: Any) -> None:
    need_floating("x", x)
    need_axes("x", x, ["T", "D_q"])
    need_one_home({"parameters": parameters.W_Q, "x": x})
    for name in ("D_q", "D_k", "D_v"):
        if getattr(parameters, name) != x.shape[-1]:
            raise ValueError(
                f"x has width {x.shape[-1]}, but parameters have {name} = {getattr(parameters, name)}"
            )


def check_head_writes(parameters: Any, x: Any, *, mask: Any = None) -> None:
    need_parameters(parameters)
    need_input(parameters, x)
    need_mask(mask, x)


def check_writes_by_circuits(
    parameters: Any, x: Any, *, mask: Any = None
) -> None:
    need_parameters(parameters, plain=True)
    need_input(parameters, x)
    need_mask(mask, x)


def need_mask(mask: Any, x: Any) -> None:
    if mask is None:
        return
    need_boolean("mask", mask)
    T = x.shape[-2]
    if tuple(mask.shape) != (T, T):
        raise ValueError(
            f"mask has the shape {tuple(mask.shape)}, but x has T = {T}; one mask (T, T) holds for all heads"
        )


@checked(check_circuits)
def circuits(
    parameters: MultiHeadParameters,
) -> tuple[Float[Array, "h D_q D_k"], Float[Array, "h D_v D_out"]]:
    r"""Return the two matrices that say all about each head: what it compares, and what it carries over.

    .. math:: \mathrm{QK}_i = W^Q_i (W^K_i)^\top, \qquad \mathrm{OV}_i = W^V_i W^O_i

    Args:
        parameters: without biases of queries, keys and values.

    Returns:
        QK, shape (h, D_q, D_k), and OV, shape (h, D_v, D_out); each of rank at most
        D_h.

    Raises:
        TypeError: if ``parameters`` are of another class.
        ValueError: if they have such a bias, or no W_O.

    Source:
        Elhage et al. (2021), section "Attention Heads as Information Movement".
    """
    xp = array_namespace(parameters.W_Q)
    heads = [parameters.head(i) for i in range(parameters.heads)]
    return (
        xp.stack([score_form.unchecked(W.W_Q, W.W_K) for W in heads]),
        xp.stack([W.W_V @ W.W_O for W in heads]),
    )


@checked(check_head_writes)
def head_writes(
    parameters: MultiHeadParameters,
    x: Float[Array, "*batch T D_q"],
    *,
    mask: Bool[Array, "T T"] | None = None,
) -> Float[Array, "h *batch T D_out"]:
    r"""Return what each head adds to the output of self-attention.

    .. math:: \operatorname{SelfAttention}(X) = \sum_{i=1}^{h} H_i W^O_i + b^O

    Args:
        parameters: of h heads.
        x: shape (\*batch, T, D_q).
        mask: boolean, true = may attend, the same for all heads.

    Returns:
        H_i W_i^O of each head, shape (h, \*batch, T, D_out). b^O belongs to no head.

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if sizes do not fit, or there is no W_O.

    Source:
        Elhage et al. (2021), section "Attention Heads are Independent and Additive".
    """
    return array_namespace(x).stack(
        [
            self_attention.unchecked(parameters.head(i), x, mask=mask)
            for i in range(parameters.heads)
        ]
    )


@checked(check_writes_by_circuits)
def writes_by_circuits(
    parameters: MultiHeadParameters,
    x: Float[Array, "*batch T D_q"],
    *,
    mask: Bool[Array, "T T"] | None = None,
) -> Float[Array, "h *batch T D_out"]:
    r"""Return what :func:`head_writes` returns, without ever making a query, a key or a value.

    .. math:: \sigma\!\left(\frac{X\, \mathrm{QK}_i\, X^\top}{\sqrt{D_h}}\right) X\, \mathrm{OV}_i

    Args:
        parameters: without biases of queries, keys and values.
        x: shape (\*batch, T, D_q).
        mask: boolean, true = may attend, the same for all heads.

    Returns:
        Shape (h, \*batch, T, D_out).

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if sizes do not fit, or there is a bias or no W_O.

    Source:
        Elhage et al. (2021), section "Attention Heads as Information Movement".
    """
    QK, OV = circuits.unchecked(parameters)
    scale = parameters.D_h**-0.5
    written = []
    for i in range(parameters.heads):
        A = attention_weights.unchecked(
            x @ QK[i, ...], x, mask=mask, scale=scale
        )
        written.append(A @ x @ OV[i, ...])
    return array_namespace(x).stack(written)


def check_change_gauge(parameters: Any, G: Any, F: Any) -> None:
    need_parameters(parameters, plain=True)
    need_own_keys("parameters", parameters)
    wanted = (parameters.heads, parameters.D_h, parameters.D_h)
    for name, x in (("G", G), ("F", F)):
        need_floating(name, x)
        if tuple(x.shape) != wanted:
            raise ValueError(
                f"{name} has the shape {tuple(x.shape)}, but must have (h, D_h, D_h) = {wanted}"
            )
    need_one_home({"parameters": parameters.W_Q, "G": G, "F": F})


@checked(check_change_gauge)
def change_gauge(
    parameters: MultiHeadParameters,
    G: Float[Array, "h D_h D_h"],
    F: Float[Array, "h D_h D_h"],
) -> MultiHeadParameters:
    r"""Change every number of the projections, and nothing that a head does.

    .. math:: W^Q_i \to W^Q_i G_i, \quad W^K_i \to W^K_i G_i^{-\top}, \quad
        W^V_i \to W^V_i F_i, \quad W^O_i \to F_i^{-1} W^O_i

    Args:
        parameters: without biases of queries, keys and values.
        G: an invertible matrix for each head, shape (h, D_h, D_h).
        F: likewise.

    Returns:
        Parameters with the same circuits.

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if shapes do not fit, or there is a bias or no W_O.

    Source:
        Elementary. Elhage et al. (2021) call queries, keys and values steps on the way.
    """
    xp = array_namespace(parameters.W_Q)
    turned = []
    for i in range(parameters.heads):
        W, g, f = parameters.head(i), G[i, ...], F[i, ...]
        turned.append(
            (
                W.W_Q @ g,
                W.W_K @ xp.linalg.inv(g).mT,
                W.W_V @ f,
                xp.linalg.inv(f) @ W.W_O,
            )
        )
    W_Q, W_K, W_V, W_O = zip(*turned, strict=True)
    return replace(
        parameters,
        W_Q=xp.concat(W_Q, axis=1),
        W_K=xp.concat(W_K, axis=1),
        W_V=xp.concat(W_V, axis=1),
        W_O=xp.concat(W_O, axis=0),
    )


# ---- networks of attention alone ------------------------------------------------------------

# By name: the width and the number of heads of each layer, and whether the keys are
# made from the row before.
NETWORKS: Mapping[str, tuple[tuple[tuple[int, int], ...], bool]] = {
    "two layers": (((64, 2), (64, 2)), False),
    "one layer": (((64, 2),), False),
    "one layer, twice as wide": (((128, 4),), False),
    "one layer, keys from the row before": (((64, 2),), True),
}
READERS = ("queries", "keys", "values")
WORDS, T, D = 24, 24, 64
BATCH = 64


@dataclass(frozen=True, eq=False)
class AttentionOnly:
    r"""Layers of causal attention on a residual stream, with nothing between them.

    .. math:: X^{(0)}_t = E_t + P_t, \qquad X^{(l)} = X^{(l-1)} + \operatorname{MultiHead}_l(X^{(l-1)}),
        \qquad \text{logits} = X^{(L)} U

    Attributes:
        words: the embedding of each token, shape (V, D).
        places: the embedding of each position, shape (T, D).
        layers: the parameters of each layer.
        out: turns the stream into a number for each token, shape (D, V).
        keys_from_before: whether position j makes its key from row j − 1 (the first
            from its own).
    """

    words: Float[Tensor, "V D"]
    places: Float[Tensor, "T D"]
    layers: tuple[MultiHeadParameters, ...]
    out: Float[Tensor, "D V"]
    keys_from_before: bool = False

    def trained(self) -> list[Tensor]:
        """Return the tensors that training changes."""
        inner = [
            W for layer in self.layers for W in layer.arrays().values()
        ]
        return [self.words, self.places, *inner, self.out]

    def answer(
        self,
        tokens: Integer[Tensor, "B T"],
        *,
        from_start: str | None = None,
    ) -> tuple[Float[Tensor, "B T V"], list[Float[Tensor, "B h T T"]]]:
        """Return the logits and the weights of each layer.

        Whatever ``from_start`` names (``"queries"``, ``"keys"`` or ``"values"``) reads
        X^(0) in every layer, past all that earlier layers have written.
        """
        start = self.words[tokens] + self.places
        mask = causal_mask.unchecked(len(self.places), like=start)
        stream, kept = start, []
        for layer in self.layers:
            rows = {
                reader: start if reader == from_start else stream
                for reader in READERS
            }
            if self.keys_from_before:
                keys = rows["keys"]
                rows["keys"] = torch.cat(
                    [keys[..., :1, :], keys[..., :-1, :]], dim=-2
                )
            written, weights = multi_head_attention.unchecked(
                layer, **rows, mask=mask, return_weights=True
            )
            stream = stream + written
            kept.append(weights)
        return stream @ self.out, kept


def drawn_network(
    generator: torch.Generator,
    shapes: Sequence[tuple[int, int]],
    *,
    V: Size,
    T: Size,
    D: Size,
    spreads: tuple[float, float] = (0.3, 0.1),
    keys_from_before: bool = False,
) -> AttentionOnly:
    """Draw a network: width and heads of each layer, and how far embeddings of tokens and places spread."""

    def draw(rows: Size, columns: Size, spread: float) -> Tensor:
        drawn = torch.randn(
            rows, columns, generator=generator, dtype=torch.float64
        )
        return (drawn * spread).requires_grad_()

    return AttentionOnly(
        draw(V, D, spreads[0]),
        draw(T, D, spreads[1]),
        tuple(
            MultiHeadParameters(
                *(draw(D, width, D**-0.5) for _ in range(3)),
                draw(width, D, width**-0.5),
                heads=heads,
            )
            for width, heads in shapes
        ),
        draw(D, V, D**-0.5),
        keys_from_before,
    )


def check_sequences(size: Any, generator: Any) -> None:
    need_integer("size", size, least=1)
    if not isinstance(generator, torch.Generator):
        raise TypeError(
            f"generator must be a torch.Generator, not {kind(generator)}"
        )


@checked(check_sequences)
def drawn_sequences(
    size: Size, generator: torch.Generator
) -> tuple[Integer[Tensor, "B T"], Integer[Tensor, " B"]]:
    r"""Draw sequences that repeat themselves: a block of different tokens, over and over.

    .. math:: \text{token}_t = \text{block}_{t \bmod n}, \qquad n \in \{6, \dots, 12\}

    Args:
        size: how many sequences.
        generator: draws block and period n anew for each.

    Returns:
        The tokens, shape (B, T) with T = 24, and the periods n, shape (B,).

    Raises:
        TypeError: if ``size`` is not an integer or ``generator`` no torch.Generator.
        ValueError: if ``size`` is below 1.

    Source:
        In the spirit of Olsson et al. (2022), who repeat random tokens to find
        induction heads.
    """
    period = torch.randint(T // 4, T // 2 + 1, (size,), generator=generator)
    order = torch.rand(size, WORDS, generator=generator).argsort(-1)
    return order.gather(1, torch.arange(T) % period[:, None]), period


def asked(period: Integer[Tensor, " B"]) -> Bool[Tensor, "B asked"]:
    """Say at which positions, all but the last, the token stood before, so that the next can be known."""
    return torch.arange(T - 1) >= period[:, None]


def after_the_earlier(
    period: Integer[Tensor, " B"],
) -> Bool[Tensor, "B T T"]:
    """Return the pattern of the key right after the latest earlier occurrence of the query's token."""
    query, key = torch.arange(T)[:, None], torch.arange(T)[None, :]
    n = period[:, None, None]
    pattern = (key == query - n + 1) & (query >= n)
    pattern[:, -1] = False  # nothing comes after the last
    return pattern


def check_train_network(
    name: Any, *, seed: Any, steps: Any = 200, report: Any = None
) -> None:
    need_training(name, NETWORKS, seed, steps, report)


@checked(check_train_network)
def train_network(
    name: str, *, seed: Size, steps: Size = 200, report: Size | None = None
) -> AttentionOnly:
    r"""Train a network to foretell the next token of a sequence that repeats itself.

    .. math:: -\operatorname{mean}_{t \ge n} \ln \sigma(\text{logits}_t)_{\text{token } t+1} \to \min

    Args:
        name: one of ``NETWORKS``.
        seed: of the generator that draws the weights and the batches.
        steps: how many.
        report: as in :func:`attention_in_detail.insights.fitting.fit`.

    Returns:
        The network, in float64.

    Raises:
        TypeError: if ``name`` is not a text or a number not an integer.
        ValueError: if there is no such network, or a number is too small.

    Source:
        Elhage et al. (2021) train such networks on text.
    """
    generator = torch.Generator().manual_seed(int(seed))
    shapes, keys_from_before = NETWORKS[name]
    network = drawn_network(
        generator,
        shapes,
        V=WORDS,
        T=T,
        D=D,
        keys_from_before=keys_from_before,
    )

    def loss_at(_: int) -> Tensor:
        tokens, period = drawn_sequences.unchecked(BATCH, generator)
        logits, _weights = network.answer(tokens)
        where = asked(period)
        return F.cross_entropy(logits[:, :-1][where], tokens[:, 1:][where])

    fit(
        network.trained(),
        loss_at,
        steps=int(steps),
        learning_rate=1e-2,
        warmup=min(40, int(steps) - 1),
        report=report,
    )
    return network


def need_network(network: Any) -> None:
    if not isinstance(network, AttentionOnly):
        raise TypeError(
            f"network must be an AttentionOnly, not {kind(network)}"
        )


def check_measure_network(network: Any, *, seed: Any) -> None:
    need_network(network)
    need_integer("seed", seed, least=0)


@checked(check_measure_network)
def measure_network(
    network: AttentionOnly, *, seed: Size
) -> tuple[float, list[list[float]], list[list[float]]]:
    r"""Measure a network on 500 sequences.

    .. math:: \text{previous} = \operatorname{mean}_{t > 1} \alpha_{t,t-1}, \qquad
        \text{induction} = \operatorname{mean}_{t \ge n} \alpha_{t,t-n+1}

    Args:
        network: from :func:`train_network`.
        seed: of the sequences.

    Returns:
        The share of right answers; and for each layer and head the mean weight on the
        previous token, and on the token after the earlier occurrence of the query's.

    Raises:
        TypeError: if ``network`` is no such network, or ``seed`` not an integer.
        ValueError: if ``seed`` is negative.

    Source:
        In the spirit of the prefix-matching score of Olsson et al. (2022).
    """
    tokens, period = drawn_sequences.unchecked(
        500, torch.Generator().manual_seed(int(seed))
    )
    with torch.no_grad():
        logits, kept = network.answer(tokens)
    before = torch.eye(T, dtype=torch.bool).roll(-1, dims=1).tril()
    after = after_the_earlier(period)[:, None]
    count = after.sum()
    return (
        right_share(logits, tokens, period),
        [
            pattern_mass.unchecked(weights, before).mean(0).tolist()
            for weights in kept
        ],
        [
            ((weights * after).sum((0, 2, 3)) / count).tolist()
            for weights in kept
        ],
    )


def right_share(
    logits: Float[Tensor, "B T V"],
    tokens: Integer[Tensor, "B T"],
    period: Integer[Tensor, " B"],
) -> float:
    """Return how many of the answers that are asked for are right."""
    right = logits[:, :-1].argmax(-1) == tokens[:, 1:]
    return float(right[asked(period)].double().mean())


@checked(check_measure_network)
def without_composition(
    network: AttentionOnly, *, seed: Size
) -> dict[str, float]:
    r"""Let the queries, the keys or the values of later layers read past what earlier layers wrote.

    .. math:: \text{keys of layer 2}: \quad X^{(1)} W^K \to X^{(0)} W^K

    Args:
        network: from :func:`train_network`; it is not trained again.
        seed: of 500 sequences.

    Returns:
        The share of right answers with each of ``READERS`` cut off in turn.

    Raises:
        TypeError: if ``network`` is no such network, or ``seed`` not an integer.
        ValueError: if ``seed`` is negative.

    Source:
        The three kinds of composition of Elhage et al. (2021).
    """
    tokens, period = drawn_sequences.unchecked(
        500, torch.Generator().manual_seed(int(seed))
    )
    with torch.no_grad():
        return {
            reader: right_share(
                network.answer(tokens, from_start=reader)[0], tokens, period
            )
            for reader in READERS
        }


# ---- four sequences that one head cannot tell apart ---------------------------------------

# a = 0, b = 1, c = 2, d = 3. Each ends in a; what came after the earlier a is b, d, d, b.
SWAPPED = (
    (0, 1, 2, 3, 0),
    (0, 3, 2, 1, 0),
    (2, 1, 0, 3, 0),
    (2, 3, 0, 1, 0),
)
SIGNS = (1.0, -1.0, -1.0, 1.0)


def check_fit_swapped(heads: Any, *, seed: Any, steps: Any = 600) -> None:
    need_integer("heads", heads, least=1)
    if 16 % heads:
        raise ValueError(f"heads is {heads}, but must divide the width 16")
    need_integer("seed", seed, least=0)
    need_integer("steps", steps, least=1)


@checked(check_fit_swapped)
def fit_swapped(
    heads: Size, *, seed: Size, steps: Size = 600
) -> list[float]:
    r"""Train one layer to continue four sequences that differ in who stands beside whom.

    .. math:: \text{margin} = \pm (\text{logit}_b - \text{logit}_d), \qquad + \text{ where b is right}

    Args:
        heads: how many share the width of 16.
        seed: of the weights.
        steps: how many.

    Returns:
        The margin of each sequence of ``SWAPPED``; above 0 the answer is right.

    Raises:
        TypeError: if a number is not an integer.
        ValueError: if one is too small, or ``heads`` does not divide 16.

    Source:
        This book.
    """
    network = drawn_network(
        torch.Generator().manual_seed(int(seed)),
        ((16, int(heads)),),
        V=4,
        T=5,
        D=16,
        spreads=(1.0, 1.0),
    )
    tokens = torch.tensor(SWAPPED)
    signs = torch.tensor(SIGNS, dtype=torch.float64)

    def margins() -> Tensor:
        logits = network.answer(tokens)[0][:, -1]
        return signs * (logits[:, 1] - logits[:, 3])

    fit(
        network.trained(),
        lambda _: F.softplus(-margins()).mean(),
        steps=int(steps),
        learning_rate=1e-2,
    )
    with torch.no_grad():
        return margins().tolist()
