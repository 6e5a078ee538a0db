"""A frozen Transformer on a task that it was never trained for: only its norms, its input and its output are tuned."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from attention_in_detail._checks import checked, need_integer
from attention_in_detail.insights.fitting import fit
from attention_in_detail.layers import EncoderLayerParameters
from attention_in_detail.masks import causal_mask
from attention_in_detail.nn import EncoderLayer
from attention_in_detail.notation import Size

__all__ = [
    "PARTS",
    "STARTS",
    "RowReader",
    "accuracy",
    "glyph_images",
    "layers_of",
    "moved",
    "pretrain_on_copying",
    "restart",
    "tune",
]

# Ten digits, five pixels wide and seven high, one text a row.
GLYPHS = (
    "01110 10001 10011 10101 11001 10001 01110",
    "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00110 01000 10000 11111",
    "11110 00001 00001 01110 00001 00001 11110",
    "00010 00110 01010 10010 11111 00010 00010",
    "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110",
    "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110",
    "01110 10001 10001 01111 00001 00010 01100",
)
SIDE = 8  # pixels: of an image, wide and high
NOISE = (
    0.2  # standard deviation of what is added to a pixel, which is 0 or 1
)
SYMBOLS, COPIED = 16, 24  # of the copying task: vocabulary and length
PARTS = ("input", "positions", "output", "norms", "layers")
STARTS = ("pretrained", "scrambled", "narrow", "glorot")

Start = Literal["pretrained", "scrambled", "narrow", "glorot"]


def check_images(rng: Any, count: Any) -> None:
    need_integer("count", count, least=1)


@checked(check_images)
def glyph_images(
    rng: np.random.Generator, count: Size
) -> tuple[Tensor, Tensor]:
    r"""Draw digits: each at a random place of a noisy image.

    .. math:: X = G_y \text{ shifted by } (r, c) + 0.2 \, \varepsilon, \qquad \varepsilon \sim N(0, 1)

    Args:
        rng: the source of chance.
        count: how many images.

    Returns:
        Images, shape (count, 8, 8), float64, and their digits, shape (count,).

    Raises:
        TypeError: if ``count`` is not an integer.
        ValueError: if ``count`` is below 1.

    Source:
        Drawn for this book, so that no file of images is needed.
    """
    shapes = np.array(
        [[list(row) for row in glyph.split()] for glyph in GLYPHS]
    ).astype(float)
    digits = rng.integers(len(GLYPHS), size=count)
    images = NOISE * rng.standard_normal((count, SIDE, SIDE))
    high, wide = shapes.shape[1:]
    for image, digit in zip(images, digits, strict=True):
        row = rng.integers(SIDE - high + 1)
        column = rng.integers(SIDE - wide + 1)
        image[row : row + high, column : column + wide] += shapes[digit]
    return torch.tensor(images), torch.tensor(digits)


class RowReader(torch.nn.Module):
    r"""Encoder layers that read an image row by row: each row of pixels is a token.

    .. math:: \operatorname{logits} = W_{\text{out}} \, \frac{1}{T} \sum_i
        \operatorname{layers}(\operatorname{norm}(X W_{\text{in}} + P))_i

    Args:
        layers: encoder layers of one width D; they become part of the module.
        seed: of what the task needs anew: input, positions and output.
    """

    def __init__(self, layers: Sequence[EncoderLayer], seed: int) -> None:
        super().__init__()
        D = layers[0].attention_norm.weight.shape[0]
        chance = torch.Generator().manual_seed(seed)

        def drawn(*shape: int, scale: float) -> torch.nn.Parameter:
            # In float64, so that every precision starts from the same numbers.
            x = torch.randn(shape, generator=chance, dtype=torch.float64)
            like = layers[0].attention_norm.weight
            return torch.nn.Parameter((scale * x).to(like.dtype))

        self.W_in = drawn(SIDE, D, scale=SIDE**-0.5)
        self.positions = drawn(SIDE, D, scale=0.02)
        self.W_out = drawn(D, len(GLYPHS), scale=D**-0.5)
        self.norm = torch.nn.LayerNorm(D, dtype=self.W_in.dtype)
        self.layers = torch.nn.ModuleList(layers)

    def tokens(self, images: Tensor) -> Tensor:
        """Return what the layers read, shape (batch, T, D)."""
        rows = images.to(self.W_in.dtype) @ self.W_in
        return self.norm(rows + self.positions)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits, shape (batch, classes), of images of shape (batch, T, T)."""
        x = self.tokens(images)
        for layer in self.layers:
            x = layer(x)
        return x.mean(dim=1) @ self.W_out

    def part(self, name: str) -> list[torch.nn.Parameter]:
        """Return the parameters of one of ``PARTS``; "layers" are all of the layers but their norms."""
        norms = [
            parameter
            for module in self.modules()
            if isinstance(module, torch.nn.LayerNorm)
            for parameter in module.parameters()
        ]
        chosen = {
            "input": [self.W_in],
            "positions": [self.positions],
            "output": [self.W_out],
            "norms": norms,
        }
        if name in chosen:
            return chosen[name]
        known = {id(x) for parts in chosen.values() for x in parts}
        return [x for x in self.parameters() if id(x) not in known]


def check_layers_of(parameters: Any, *, dtype: Any = torch.float32) -> None:
    for layer in parameters:
        if not isinstance(layer, EncoderLayerParameters):
            raise TypeError(
                f"parameters must be EncoderLayerParameters, not {type(layer).__name__}"
            )


@checked(check_layers_of)
def layers_of(
    parameters: Sequence[EncoderLayerParameters],
    *,
    dtype: torch.dtype = torch.float32,
) -> list[EncoderLayer]:
    """Return modules that hold the numbers of trained layers, as those of MiniLM.

    Args:
        parameters: of each layer, of any array library.
        dtype: of the modules.

    Returns:
        One module a layer: the same function.

    Raises:
        TypeError: if ``parameters`` are of another kind.
    """
    made = []
    for p in parameters:
        layer = EncoderLayer(
            p.attention.D,
            p.attention.heads,
            D_ff=p.feed_forward.W_1.shape[1],
            activation=p.feed_forward.activation,
            norm_first=p.norm_first,
            eps=p.attention_norm.eps,
        ).to(dtype)
        with torch.no_grad():
            copy_into(layer.as_parameters(), p)
        made.append(layer)
    return made


def copy_into(target: Any, source: Any) -> None:
    """Copy array by array; both are parameters of one kind."""
    for name, kept in vars(target).items():
        given = getattr(source, name)
        if isinstance(kept, Tensor):
            kept.copy_(torch.as_tensor(np.asarray(given)))
        elif hasattr(kept, "__dataclass_fields__"):
            copy_into(kept, given)


def check_restart(layers: Any, how: Any, seed: Any) -> None:
    if how not in STARTS:
        raise ValueError(f"how is {how!r}, but can be: {', '.join(STARTS)}")
    need_integer("seed", seed, least=0)


@checked(check_restart)
def restart(
    layers: Sequence[EncoderLayer], how: Start, seed: int
) -> list[EncoderLayer]:
    r"""Return copies of trained layers, with their numbers kept, shuffled or drawn anew.

    "pretrained" keeps them. "scrambled" permutes the entries of each array: mean and spread
    stay, and nothing of what was learned about *which* entry is which. The others draw the matrices anew,
    with biases 0 and gains 1: "narrow" from N(0, 0.02²), "glorot" from N(0, 2 / (m + n)) for an
    (m, n) matrix.

    Args:
        layers: are not changed.
        how: one of these four.
        seed: of the permutations and draws.

    Returns:
        New layers.

    Raises:
        ValueError: if ``how`` is another.

    Source:
        The scale 0.02: Devlin et al.'s code; Glorot and Bengio (2010), for the last.
    """
    from copy import deepcopy

    made = [deepcopy(layer) for layer in layers]
    chance = torch.Generator().manual_seed(int(seed))
    with torch.no_grad():
        for layer in made:
            norms = {
                id(parameter)
                for module in layer.modules()
                if isinstance(module, torch.nn.LayerNorm)
                for parameter in (module.weight,)
            }
            for parameter in layer.parameters():
                if how == "scrambled":
                    order = torch.randperm(
                        parameter.numel(), generator=chance
                    )
                    parameter.copy_(
                        parameter.flatten()[order].view_as(parameter)
                    )
                elif how != "pretrained" and parameter.ndim == 2:
                    scale = (
                        0.02
                        if how == "narrow"
                        else (2 / sum(parameter.shape)) ** 0.5
                    )
                    drawn = torch.randn(
                        parameter.shape,
                        generator=chance,
                        dtype=torch.float64,
                    )
                    parameter.copy_(scale * drawn)
                elif how != "pretrained":
                    parameter.fill_(float(id(parameter) in norms))
    return made


def check_tune(model: Any, parts: Any, **_: Any) -> None:
    for part in parts:
        if part not in PARTS:
            raise ValueError(
                f"parts holds {part!r}, but can hold: {', '.join(PARTS)}"
            )
    if not parts:
        raise ValueError("parts must name at least one part")


@checked(check_tune)
def tune(
    model: RowReader,
    parts: Sequence[str],
    *,
    seed: int,
    steps: Size = 150,
    batch: Size = 32,
    learning_rate: float = 1e-3,
    report: Size | None = None,
) -> list[float]:
    """Train the named parts of a model on the images; everything else stays frozen.

    Args:
        model: is trained in place.
        parts: some of ``PARTS``.
        seed: of the images, which are drawn anew at each step.
        steps: of Adam.
        batch: images a step.
        learning_rate: the largest, as in :func:`attention_in_detail.insights.fitting.fit`.
        report: print a line after so many steps.

    Returns:
        The loss of each step.

    Raises:
        ValueError: if ``parts`` is empty or names no part.

    Source:
        Lu, Grover, Abbeel and Mordatch (2021).
    """
    trained = [x for part in parts for x in model.part(part)]
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for parameter in trained:
        parameter.requires_grad_(True)
    rng = np.random.default_rng(seed)

    def loss_at(step: int) -> Tensor:
        images, digits = glyph_images.unchecked(rng, batch)
        return F.cross_entropy(model(images), digits)

    return fit(
        trained,
        loss_at,
        steps=steps,
        learning_rate=learning_rate,
        warmup=10,
        report=report,
    )


def accuracy(
    model: torch.nn.Module, *, seed: int = 1_000_000, count: Size = 1000
) -> float:
    """Return the share of digits that a model names right, on images that no training seed draws.

    Args:
        model: as it is.
        seed: of the images.
        count: how many.

    Returns:
        From 0 to 1.
    """
    images, digits = glyph_images(np.random.default_rng(seed), count)
    with torch.no_grad():
        right = model(images).argmax(dim=-1) == digits
    return float(right.double().mean())


def moved(model: RowReader, images: Tensor) -> float:
    r"""Return how far the layers carry their input: 0 for layers that do nothing.

    .. math:: \frac{\lVert \operatorname{layers}(X) - X \rVert_F}{\lVert X \rVert_F}

    Args:
        model: as it is.
        images: shape (batch, T, T).

    Returns:
        A number from 0 on.
    """
    with torch.no_grad():
        x = y = model.tokens(images)
        for layer in model.layers:
            y = layer(y)
    return float((y - x).norm() / x.norm())


def check_pretrain(seed: Any, **options: Any) -> None:
    need_integer("seed", seed, least=0)


@checked(check_pretrain)
def pretrain_on_copying(
    seed: int,
    *,
    D: Size = 64,
    heads: Size = 4,
    depth: Size = 2,
    steps: Size = 300,
    report: Size | None = None,
) -> tuple[list[EncoderLayer], float]:
    """Train small layers on sequences that repeat: the next token is the one a period ago.

    A sequence of 24 tokens repeats a random word of 4 to 8 distinct ones of 16 symbols. The layers run under a causal
    mask and predict each next token; those of the first period cannot be known.

    Args:
        seed: of weights and sequences.
        D: the width.
        heads: of each layer.
        depth: the number of layers.
        steps: of Adam.
        report: print a line after so many steps.

    Returns:
        The trained layers, in float64, and the share of right predictions after the
        first period, on 500 new sequences.

    Raises:
        ValueError: if ``seed`` is negative.

    Source:
        The task is that of Elhage et al. (2021), "Induction heads": text that repeats.
    """
    torch.manual_seed(seed)
    layers = [
        EncoderLayer(D, heads, norm_first=True).double()
        for _ in range(depth)
    ]
    for layer in layers:
        # Again, in float64: draws in float32 are rounded in another way on another CPU.
        layer.reset_parameters()
    chance = torch.Generator().manual_seed(seed)
    table = torch.nn.Parameter(
        torch.randn(SYMBOLS, D, generator=chance, dtype=torch.float64)
    )
    places = torch.nn.Parameter(
        0.1 * torch.randn(COPIED, D, generator=chance, dtype=torch.float64)
    )
    W_out = torch.nn.Parameter(
        torch.randn(D, SYMBOLS, generator=chance, dtype=torch.float64)
        * D**-0.5
    )
    mask = causal_mask(COPIED, like=table)
    rng = np.random.default_rng(seed)

    def run(count: int) -> tuple[Tensor, Tensor, Tensor]:
        periods = rng.integers(4, 9, size=count)
        words = rng.permuted(
            np.tile(np.arange(SYMBOLS), (count, 1)), axis=1
        )
        at = np.arange(COPIED + 1)[None, :] % periods[:, None]
        tokens = torch.tensor(np.take_along_axis(words, at, axis=1))
        known = torch.tensor(
            np.arange(1, COPIED + 1)[None, :] >= periods[:, None]
        )
        x = table[tokens[:, :-1]] + places
        for layer in layers:
            x = layer(x, mask=mask)
        return F.layer_norm(x, (D,)) @ W_out, tokens[:, 1:], known

    def loss_at(step: int) -> Tensor:
        logits, wanted, known = run(32)
        return F.cross_entropy(logits[known], wanted[known])

    trained = [x for layer in layers for x in layer.parameters()]
    fit(
        [table, places, W_out, *trained],
        loss_at,
        steps=steps,
        learning_rate=3e-3,
        warmup=30,
        report=report,
    )
    with torch.no_grad():
        logits, wanted, known = run(500)
        right = (logits.argmax(dim=-1) == wanted)[known]
    return layers, float(right.double().mean())
