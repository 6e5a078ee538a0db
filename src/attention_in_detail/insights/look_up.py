"""A small model that reads a list of items: it looks one up, or says what most of them are.

Both tasks have the same input and the same model. Only what is asked differs, and with it
whether a query needs one item or all of them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from attention_in_detail._checks import checked, need_integer
from attention_in_detail.insights.fitting import fit
from attention_in_detail.notation import Float, Integer, Size
from attention_in_detail.scaled_dot_product import attention

__all__ = ["Items", "Reader", "draw_items", "train_reader"]

TASKS = ("look up", "most frequent")
CLASSES = 8
FAVOURED = 0.2  # the share of items that one class gets on top of its own

Mix = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Items:
    """Lists of items, and what is asked of each.

    Attributes:
        keys: by what an item is found: random numbers, shape (B, S, D).
        classes: what it carries, from 0 to 7, shape (B, S).
        questions: one a position, shape (B, S, D). In the look-up each is the key of
            one item of the list, in random order; else they mean nothing.
        answers: the class that is asked for, shape (B, S).
        places: at which item the answer of a look-up stands, shape (B, S).
    """

    keys: Float[Tensor, "B S D"]
    classes: Integer[Tensor, "B S"]
    questions: Float[Tensor, "B S D"]
    answers: Integer[Tensor, "B S"]
    places: Integer[Tensor, "B S"]


def check_draw(
    task: Any, B: Any, S: Any, D: Any, generator: Any = None
) -> None:
    need_task(task)
    for name, size in (("B", B), ("S", S), ("D", D)):
        need_integer(name, size, least=1)


def need_task(task: Any) -> None:
    if task not in TASKS:
        raise ValueError(
            f"task is {task!r}, but can be: {', '.join(TASKS)}"
        )


@checked(check_draw)
def draw_items(
    task: Literal["look up", "most frequent"],
    B: Size,
    S: Size,
    D: Size,
    generator: torch.Generator | None = None,
) -> Items:
    """Draw lists of items with their questions, in float64.

    Args:
        task: ``"look up"`` asks for the class of the item that has a given key; ``"most
            frequent"`` asks, at every position, which class the list has most of.
        B: how many lists.
        S: how many items each.
        D: the width of a key.
        generator: the source of the random numbers.

    Returns:
        The lists.

    Raises:
        ValueError: if there is no such task, or a size is below 1.
        TypeError: if a size is not an integer.
    """
    B, S, D = int(B), int(S), int(D)
    keys = torch.randn(B, S, D, generator=generator, dtype=torch.float64)
    classes = torch.randint(CLASSES, (B, S), generator=generator)
    places = torch.rand(B, S, generator=generator).argsort(dim=1)
    if task == "look up":
        questions = keys.gather(1, places[..., None].expand(B, S, D))
        return Items(
            keys, classes, questions, classes.gather(1, places), places
        )
    favoured = torch.randint(CLASSES, (B, 1), generator=generator)
    take = torch.rand(B, S, generator=generator) < FAVOURED
    classes = torch.where(take, favoured, classes)
    counts = torch.stack([(classes == n).sum(1) for n in range(CLASSES)], 1)
    questions = torch.randn(
        B, S, D, generator=generator, dtype=torch.float64
    )
    answers = counts.argmax(1)[:, None].expand(B, S)
    return Items(keys, classes, questions, answers, places)


@dataclass(frozen=True)
class Reader:
    """A trained model of one attention.

    Attributes:
        table: one row a class, shape (8, D): what an item carries into the values.
        W_Q: shape (D, D).
        W_K: shape (D, D).
        W_V: shape (D, D).
        W_O: shape (D, 8): from the output to a score for each class.
        mix: what stands for attention: from queries, keys and values to the output.
    """

    table: Tensor
    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor
    W_O: Tensor
    mix: Mix

    def projected(self, items: Items) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of the items, each of shape (B, S, D)."""
        return (
            items.questions @ self.W_Q,
            items.keys @ self.W_K,
            self.table[items.classes] @ self.W_V,
        )

    def scores(self, items: Items) -> Tensor:
        """Return a score for each class at each position, shape (B, S, 8)."""
        return self.mix(*self.projected(items)) @ self.W_O

    def right(self, items: Items) -> Tensor:
        """Return where the answer is right, shape (B, S)."""
        with torch.no_grad():
            return self.scores(items).argmax(-1) == items.answers


def check_train(
    task: Any,
    mix: Any = None,
    more: Any = (),
    *,
    S: Any = 32,
    D: Any = 32,
    seed: Any,
    steps: Any = 400,
    report: Any = None,
) -> None:
    need_task(task)
    need_integer("S", S, least=1)
    need_integer("D", D, least=1)
    need_integer("seed", seed)


@checked(check_train)
def train_reader(
    task: Literal["look up", "most frequent"],
    mix: Mix = attention,
    more: Iterable[Tensor] = (),
    *,
    S: Size = 32,
    D: Size = 32,
    seed: Size,
    steps: Size = 400,
    report: Size | None = None,
) -> Reader:
    """Train the model on fresh lists, with Adam.

    Args:
        task: as in :func:`draw_items`.
        mix: from queries, keys and values to an output; attention, or what is to be
            compared with it.
        more: what ``mix`` has of its own to be trained.
        S: the number of items in a list.
        D: the width.
        seed: one result a seed.
        steps: how many; each sees 16 lists.
        report: as in :func:`attention_in_detail.insights.fitting.fit`.

    Returns:
        The model.

    Raises:
        ValueError: if there is no such task, or a size is below 1.
        TypeError: if a size is not an integer.
    """
    g = torch.Generator().manual_seed(int(seed))
    D = int(D)
    shapes = [(CLASSES, D), (D, D), (D, D), (D, D), (D, CLASSES)]
    own = [
        (
            torch.randn(*shape, generator=g, dtype=torch.float64)
            / (1 if shape[0] == CLASSES else D**0.5)
        ).requires_grad_()
        for shape in shapes
    ]
    reader = Reader(*own, mix)

    def loss_at(step: int) -> Tensor:
        items = draw_items.unchecked(task, 16, S, D, g)
        return cross_entropy(
            reader.scores(items).flatten(0, 1), items.answers.flatten()
        )

    fit(
        [*own, *more],
        loss_at,
        steps=steps,
        learning_rate=1e-2,
        warmup=20,
        report=report,
    )
    for x in (*own, *more):
        x.requires_grad_(False)
    return reader
