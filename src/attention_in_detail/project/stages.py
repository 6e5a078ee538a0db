"""The stages of the project: what each function takes and gives, what is right, and which mistakes are known.

Right answers are those of the package. Wrong ones are computed with it too, each with one change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attention_in_detail.exercises import exercises_of
from attention_in_detail.exercises._drawn import drawn_arrays
from attention_in_detail.exercises.judging import Case, Exercise, Mistake
from attention_in_detail.masks import causal_mask, padding_mask
from attention_in_detail.multi_head import (
    MultiHeadParameters,
    merge_heads,
    multi_head_attention,
    projected,
    self_attention,
    split_heads,
)
from attention_in_detail.rows import softmax
from attention_in_detail.scaled_dot_product import (
    attention,
    attention_weights,
    scores,
)

__all__ = ["STAGES", "Stage"]

MINUS_INFINITY = float("-inf")
A_BILLION = -1e9


@dataclass(frozen=True)
class Stage:
    """One function to write.

    Attributes:
        call: the function as it is called, as in ``"split_heads(x, heads)"``.
        task: what it takes and gives, in a few sentences.
        chapter: the notebook that explains it, as in ``"05_multi_head"``.
        title: of that chapter.
        section: the heading there.
        exercise: what judges the function.
        boolean: whether the result is a mask, True and False.
    """

    call: str
    task: str
    chapter: str
    title: str
    section: str
    exercise: Exercise
    boolean: bool = False

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.call.partition("(")[0]


def _asked(
    name: str,
    right: Any,
    cases: Any,
    axes: tuple[str, ...],
    *mistakes: tuple[Any, str],
) -> Exercise:
    return Exercise(
        f"project-{name.replace('_', '-')}",
        "implement",
        (),
        2,
        right,
        tuple(Mistake(*one) for one in mistakes),
        cases,
        axes,
    )


# ---- scores --------------------------------------------------------------------------


def _score_cases() -> Iterator[Case]:
    Q, K = drawn_arrays(1, (3, 4), (5, 4))
    yield Case("three queries and five keys", (Q, K))
    Q, K = drawn_arrays(2, (3, 3), (3, 3))
    yield Case("as many queries as keys", (Q, K))
    Q, K = drawn_arrays(3, (2, 3, 4), (2, 5, 4))
    yield Case("a batch of two in front", (Q, K))


def _scores_with(power: float, axis: int = -1, of: int = 0) -> Any:
    """Scores that are multiplied by a size to this power: of the queries, or of the keys."""

    def wrong(*arrays: Any) -> Any:
        return scores(*arrays, scale=arrays[of].shape[axis] ** power)

    return wrong


def _reversed_axes(queries: Any, keys: Any) -> Any:
    """NumPy's ``.T`` turns round all axes, those of the batch too."""
    return queries @ keys.T / np.sqrt(queries.shape[-1])


SCORES = _asked(
    "scores",
    scores,
    _score_cases,
    ("T", "S"),
    (
        _scores_with(0.0),
        "The dot products are right, and are not scaled: wide queries would get large scores for their width alone.",
    ),
    (
        _scores_with(-1.0),
        "The scores are divided by D_k. That is too much: the spread of a dot product grows like the root of its width.",
    ),
    (
        _scores_with(0.5),
        "The scores grow with the root of D_k; they are to shrink.",
    ),
    (
        _scores_with(-0.5, axis=-2),
        "The scale comes from T, the number of queries. It belongs to the width of queries and keys.",
    ),
    (
        _scores_with(-0.5, axis=-2, of=1),
        "The scale comes from S, the number of keys. It belongs to the width of queries and keys.",
    ),
    (
        _scores_with(-0.5, axis=1),
        "Right without a batch. With one, shape[1] is the number of rows; count axes from the back.",
    ),
    (
        _scores_with(-0.5, axis=1, of=1),
        "Right without a batch. With one, shape[1] of the keys is how many there are; count axes from the back.",
    ),
    (
        lambda queries, keys: np.swapaxes(scores(queries, keys), -1, -2),
        "Rows and columns are swapped: a row belongs to a query, a column to a key.",
    ),
    (
        _reversed_axes,
        "Right without a batch. With one, .T turns round all axes; only the last two are to be swapped.",
    ),
)


# ---- softmax -------------------------------------------------------------------------


def _softmax_cases() -> Iterator[Case]:
    [z] = drawn_arrays(4, (3, 5))
    yield Case("three rows", (z,))
    [z] = drawn_arrays(5, (2, 3, 4))
    yield Case("a batch of two in front", (z,))
    large = np.array([[1000.0, 1001, 999], [0, 1, 2]])
    yield Case("entries of a thousand", (large,))
    yield Case("an entry of -inf", (np.array([[0.5, MINUS_INFINITY, 1]]),))
    nothing = np.full(3, MINUS_INFINITY)
    yield Case("a row of -inf only", (np.stack([z[0, 0, :3], nothing]),))


def _exponentials(z: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.exp(z - z.max(-1, keepdims=True))


def _unshifted(z: Any) -> Any:
    with np.errstate(all="ignore"):
        e = np.exp(z)
        return e / e.sum(-1, keepdims=True)


def _unshifted_but_safe(z: Any) -> Any:
    """Its rows of −inf only are 0, and its large entries overflow."""
    shut = np.isneginf(z).all(-1, keepdims=True)
    return np.where(shut, 0.0, _unshifted(z))


def _not_a_number(z: Any) -> Any:
    with np.errstate(all="ignore"):
        e = _exponentials(z)
        return e / e.sum(-1, keepdims=True)


def _largest_of_all(z: Any) -> Any:
    with np.errstate(all="ignore"):
        e = np.exp(z - z.max())
        return e / e.sum(-1, keepdims=True)


def _over_everything(z: Any) -> Any:
    with np.errstate(all="ignore"):
        e = np.exp(z - z.max())
        return e / e.sum()


def _along_columns(z: Any) -> Any:
    return softmax(z, axis=-2)


def _averaged(z: Any) -> Any:
    return softmax(np.maximum(z, A_BILLION))


SOFTMAX = _asked(
    "softmax",
    softmax,
    _softmax_cases,
    ("T", "S"),
    (
        _along_columns,
        "Each column sums to 1. A softmax of scores runs along the last axis: the weights of one query sum to 1.",
    ),
    (
        _over_everything,
        "All entries together sum to 1. Each row is to do so by itself: keep the axis of the rows when you sum.",
    ),
    (
        _exponentials,
        "The entries of a row do not sum to 1 yet.",
    ),
    (
        _unshifted,
        "Right for small entries. The exponential of 1000 is more than a float can hold: "
        "which number can you take off a row beforehand without changing the quotient?",
    ),
    (
        _unshifted_but_safe,
        "The row of -inf is right. The exponential of 1000 is more than a float can hold: "
        "which number can you take off a row beforehand without changing the quotient?",
    ),
    (
        _largest_of_all,
        "The largest entry of all rows is taken off. A row that lies far below it keeps nothing: "
        "each row has a largest entry of its own.",
    ),
    (
        _not_a_number,
        "Nearly: a row of -inf only gives NaN. Its largest entry is -inf, and -inf minus itself is no number; "
        "nor is its sum one to divide by. The task says what such a row gives.",
    ),
    (
        _averaged,
        "A row of -inf only gets equal weights: a query that may look at nothing would get the mean of what it must not see.",
    ),
)


# ---- weights, with a mask and a bias -------------------------------------------------


def _weight_cases() -> Iterator[Case]:
    Q, K, b = drawn_arrays(6, (3, 4), (5, 4), (3, 5))
    some = np.array([[1, 0, 1, 1, 0], [0, 1, 0, 0, 0], [1, 1, 1, 1, 1]])
    none = np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 0, 1, 1]])
    yield Case("no mask", (Q, K))
    yield Case("a bias", (Q, K), {"bias": b})
    yield Case("a mask", (Q, K), {"mask": some > 0})
    yield Case("a mask and a bias", (Q, K), {"mask": some > 0, "bias": b})
    yield Case("a query that may see nothing", (Q, K), {"mask": none > 0})
    Q, K, b = drawn_arrays(7, (2, 3, 4), (2, 5, 4), (3, 5))
    mask = np.array([[[1, 1, 1, 0, 0]], [[1, 1, 1, 1, 1]]]) > 0
    yield Case("a batch, and a mask for each entry", (Q, K), {"mask": mask})


def _weights_but(
    *,
    mask: Any = lambda mask: mask,
    bias: Any = lambda bias: bias,
) -> Any:
    """Weights with another mask or bias than was given."""

    def wrong(queries: Any, keys: Any, given: Any, added: Any) -> Any:
        return attention_weights(
            queries,
            keys,
            mask=None if given is None else mask(given),
            bias=None if added is None else bias(added),
        )

    return _named_as_asked(wrong)


def _named_as_asked(function: Any) -> Any:
    """Take mask and bias by the names that the cases give them."""

    def called(*arrays: Any, mask: Any = None, bias: Any = None) -> Any:
        return function(*arrays, mask, bias)

    return called


def _masked_scores(closed: float) -> Any:
    """Shut scores are set to a number."""

    def wrong(queries: Any, keys: Any, mask: Any, bias: Any) -> Any:
        z = scores(queries, keys)
        z = z if bias is None else z + bias
        return softmax(z if mask is None else np.where(mask, z, closed))

    return _named_as_asked(wrong)


def _masked_after(queries: Any, keys: Any, mask: Any, bias: Any) -> Any:
    weights = attention_weights(queries, keys, bias=bias)
    return weights if mask is None else weights * mask


def _bias_after(queries: Any, keys: Any, mask: Any, bias: Any) -> Any:
    weights = attention_weights(queries, keys, mask=mask)
    return weights if bias is None else weights + bias


def _bias_scaled(queries: Any, keys: Any, mask: Any, bias: Any) -> Any:
    b = None if bias is None else bias / np.sqrt(queries.shape[-1])
    return attention_weights(queries, keys, mask=mask, bias=b)


def _mask_times_infinity(
    queries: Any, keys: Any, mask: Any, bias: Any
) -> Any:
    z = scores(queries, keys)
    z = z if bias is None else z + bias
    with np.errstate(all="ignore"):
        return softmax(z if mask is None else z + ~mask * MINUS_INFINITY)


def _mask_added(queries: Any, keys: Any, mask: Any, bias: Any) -> Any:
    z = scores(queries, keys)
    z = z if bias is None else z + bias
    return softmax(z if mask is None else z + mask)


WEIGHTS = _asked(
    "attention_weights",
    attention_weights,
    _weight_cases,
    ("T", "S"),
    (
        _weights_but(mask=np.logical_not),
        "The mask is read the wrong way round. Here True means: may attend.",
    ),
    (
        _weights_but(mask=np.ones_like),
        "The mask has no effect.",
    ),
    (
        _weights_but(bias=np.zeros_like),
        "The bias has no effect.",
    ),
    (
        _named_as_asked(_masked_after),
        "The mask comes after the softmax: shut keys have taken their share of the sum, and the rows no longer sum to 1.",
    ),
    (
        _named_as_asked(_bias_after),
        "The bias is added to the weights. It belongs to the scores.",
    ),
    (
        _named_as_asked(_bias_scaled),
        "The bias is divided by the scale too. It is added to scores that are scaled already.",
    ),
    (
        _masked_scores(A_BILLION),
        "A query that may see nothing gets equal weights: a large negative number is still a number, and equal ones tie.",
    ),
    (
        _masked_scores(0.0),
        "Shut scores are set to 0, and the exponential of 0 is not 0.",
    ),
    (
        _named_as_asked(_mask_added),
        "The mask is added to the scores, as 1 and 0. It is to decide which scores count at all.",
    ),
    (
        _named_as_asked(_mask_times_infinity),
        "There is a NaN in every row with an open key: 0 times infinity is no number. "
        "Choose between two values instead of multiplying.",
    ),
)


# ---- the blend -----------------------------------------------------------------------


def _blend_cases() -> Iterator[Case]:
    Q, K, V, b = drawn_arrays(9, (4, 4), (4, 4), (4, 4), (4, 4))
    yield Case("all sizes alike", (Q, K, V))
    mask = np.tri(4) > 0
    yield Case("a mask", (Q, K, V), {"mask": mask})
    yield Case("a bias", (Q, K, V), {"bias": b})
    Q, K, V = drawn_arrays(8, (3, 4), (5, 4), (5, 2))
    yield Case("three queries and five keys", (Q, K, V))
    Q, K, V = drawn_arrays(10, (2, 3, 4), (2, 5, 4), (2, 5, 3))
    yield Case("a batch of two in front", (Q, K, V))


def _blend_but(change: Any) -> Any:
    def wrong(Q: Any, K: Any, V: Any, mask: Any, bias: Any) -> Any:
        return change(Q, K, V, mask, bias)

    return _named_as_asked(wrong)


def _transposed(Q: Any, K: Any, V: Any, mask: Any, bias: Any) -> Any:
    A = attention_weights(Q, K, mask=mask, bias=bias)
    return np.swapaxes(A, -1, -2) @ V


BLEND = _asked(
    "attention",
    attention,
    _blend_cases,
    ("T", "D_v"),
    (
        _blend_but(
            lambda Q, K, V, mask, bias: attention(Q, K, V, bias=bias)
        ),
        "The mask is not handed on.",
    ),
    (
        _blend_but(
            lambda Q, K, V, mask, bias: attention(Q, K, V, mask=mask)
        ),
        "The bias is not handed on.",
    ),
    (
        _blend_but(
            lambda Q, K, V, mask, bias: attention(
                Q, K, K, mask=mask, bias=bias
            )
        ),
        "The keys are blended. Keys say how much of each position is taken, values what.",
    ),
    (
        _blend_but(
            lambda Q, K, V, mask, bias: attention_weights(
                Q, K, mask=mask, bias=bias
            )
        ),
        "These are the weights. The last step is missing: a blend of the rows of the values.",
    ),
    (
        _blend_but(
            lambda Q, K, V, mask, bias: (
                np.swapaxes(V, -1, -2)
                @ attention_weights(Q, K, mask=mask, bias=bias)
            )
        ),
        "The product is the wrong way round: each row of weights is to meet the columns of the values.",
    ),
    (
        _blend_but(_transposed),
        "The weights are transposed before the product: their columns, one for each key, are to meet the rows of the values.",
    ),
)


# ---- heads ---------------------------------------------------------------------------


def _heads_in_front(x: Any, heads: int) -> Any:
    """The head axis is the first one, and the batch comes after it."""
    return np.array(np.split(x, heads, axis=-1))


def _split_exercise() -> Exercise:
    """That of the chapter, with one more mistake."""
    [found] = [
        one
        for one in exercises_of("05_multi_head")
        if one.label == "ex-multi-head-split"
    ]
    in_front = Mistake(
        _heads_in_front,
        "Right without a batch. With one, the heads stand in front of it: their axis belongs directly before the positions.",
    )
    return replace(
        found,
        label="project-split-heads",
        goals=(),
        mistakes=(*found.mistakes, in_front),
    )


def _merge_cases() -> Iterator[Case]:
    yield Case("one head", (np.arange(8.0).reshape(1, 2, 4),))
    yield Case("two heads", (np.arange(24.0).reshape(2, 3, 4),))
    yield Case(
        "as many heads as positions", (np.arange(18.0).reshape(3, 3, 2),)
    )
    yield Case("a batch", (np.arange(48.0).reshape(2, 2, 3, 4),))


def _flattened(x: Any) -> Any:
    *batch, h, T, D_h = x.shape
    return x.reshape(*batch, T, h * D_h)


def _merged_columns(x: Any) -> Any:
    """The heads alternate, column by column."""
    *batch, h, T, D_h = x.shape
    return np.moveaxis(x, -3, -1).reshape(*batch, T, h * D_h)


def _first_axes(x: Any) -> Any:
    *batch, h, T, D_h = x.shape
    return np.swapaxes(x, 0, 1).reshape(*batch, T, h * D_h)


MERGE = _asked(
    "merge_heads",
    merge_heads,
    _merge_cases,
    ("T", "D"),
    (
        _flattened,
        "It reshapes at once, and a row gets pieces of several positions. "
        "The head axis must stand beside the features before the two become one.",
    ),
    (
        _merged_columns,
        "The heads alternate column by column. The features of one head are to stay neighbours.",
    ),
    (
        lambda x: x.sum(-3),
        "The heads are added. They are to stand side by side; the sum comes later, in W_O.",
    ),
    (
        _first_axes,
        "Right without a batch. With one, axes counted from the front are others: count from the back.",
    ),
    (
        lambda x: np.concatenate(x, axis=-1),
        "Right without a batch. With one, its entries are put side by side: the heads are no longer the first axis.",
    ),
    (
        lambda x: np.swapaxes(x, -3, -2),
        "The axes are in the right order. The last two are to become one.",
    ),
)


# ---- projections ---------------------------------------------------------------------


def _projection_cases() -> Iterator[Case]:
    x, W, b = drawn_arrays(12, (4, 4), (4, 4), (4,))
    yield Case("a square matrix", (x, W, b))
    x, W, b = drawn_arrays(11, (3, 4), (4, 5), (5,))
    yield Case("a bias", (x, W, b))
    yield Case("no bias", (x, W, None))
    x, W, b = drawn_arrays(13, (2, 3, 4), (4, 5), (5,))
    yield Case("a batch of two in front", (x, W, b))


def _plus(product: Any, b: Any) -> Any:
    return product if b is None else product + b


PROJECTION = _asked(
    "project",
    lambda x, W, b: projected(x, W, b),
    _projection_cases,
    ("T", "columns"),
    (
        lambda x, W, b: x @ W,
        "The bias is missing.",
    ),
    (
        lambda x, W, b: _plus(x @ W.T, b),
        "The matrix is transposed. Here a projection has one row for each feature that comes in; "
        "torch.nn.Linear stores it the other way.",
    ),
    (
        lambda x, W, b: _plus(np.swapaxes(W, -1, -2) @ x, b),
        "The product is the wrong way round: each row of x is to meet the columns of W.",
    ),
    (
        lambda x, W, b: x @ W + b,
        "Without a bias, b is None, and None cannot be added.",
    ),
)


# ---- multi-head attention ------------------------------------------------------------


def _parameters(
    seed: int, D: int, heads: int, **widths: Any
) -> MultiHeadParameters:
    """Random ones, with biases that are not 0."""
    p = MultiHeadParameters.init(D, heads, seed=seed, **widths)
    rng = np.random.default_rng(seed)
    drawn = {
        name: rng.standard_normal(x.shape)
        for name, x in p.arrays().items()
        if name.startswith("b_")
    }
    return replace(p, **drawn)


def _multi_head_cases() -> Iterator[Case]:
    p = _parameters(14, 6, 3, D_q=4, D_k=5, D_v=7, D_out=2)
    Q, K, V = drawn_arrays(14, (3, 4), (5, 5), (5, 7))
    yield Case("all sizes different", (p, Q, K, V))
    p = _parameters(15, 6, 2, bias=False)
    [x] = drawn_arrays(15, (3, 6))
    yield Case("no biases", (p, x, x, x))
    mask = np.tri(3) > 0
    yield Case("a mask", (p, x, x, x), {"mask": mask})
    p = _parameters(16, 4, 2)
    Q, K, V = drawn_arrays(16, (2, 3, 4), (2, 3, 4), (2, 3, 4))
    mask = np.array([[[1, 1, 1]], [[1, 0, 0]]]) > 0
    named = {"mask": mask}
    yield Case("a mask for each entry of a batch", (p, Q, K, V), named)


def _multi_head_but(**changes: Any) -> Any:
    """Multi-head attention with parameters changed: each change takes them and gives the new ones of that name."""

    def wrong(
        p: MultiHeadParameters, Q: Any, K: Any, V: Any, mask: Any = None
    ) -> Any:
        made = {name: change(p) for name, change in changes.items()}
        return multi_head_attention(replace(p, **made), Q, K, V, mask=mask)

    return wrong


def _whole_width(p: Any, Q: Any, K: Any, V: Any, mask: Any = None) -> Any:
    """Scores divided by the root of D and not of D_h."""
    small = np.sqrt(p.D_h / p.D)
    b = None if p.b_Q is None else small * p.b_Q
    sharper = replace(p, W_Q=small * p.W_Q, b_Q=b)
    return multi_head_attention(sharper, Q, K, V, mask=mask)


def _one_wide_head(p: Any, Q: Any, K: Any, V: Any, mask: Any = None) -> Any:
    whole = replace(p, heads=1)
    return multi_head_attention(whole, Q, K, V, mask=mask)


def _heads_of(p: Any, Q: Any, K: Any, V: Any) -> list[Any]:
    return [
        split_heads(projected(x, W, b), p.heads)
        for x, W, b in (
            (Q, p.W_Q, p.b_Q),
            (K, p.W_K, p.b_K),
            (V, p.W_V, p.b_V),
        )
    ]


def _without_head_axis(
    p: Any, Q: Any, K: Any, V: Any, mask: Any = None
) -> Any:
    """A mask for each entry of a batch falls on heads."""
    H = attention(*_heads_of(p, Q, K, V), mask=mask)
    return projected(merge_heads(H), p.W_O, p.b_O)


def _without_mask(p: Any, Q: Any, K: Any, V: Any, mask: Any = None) -> Any:
    return multi_head_attention(p, Q, K, V)


def _unmerged(p: Any, Q: Any, K: Any, V: Any, mask: Any = None) -> Any:
    """Merged by a reshape alone, whatever the own function does."""
    m = mask if mask is None or mask.ndim < 3 else mask[:, None]
    H = attention(*_heads_of(p, Q, K, V), mask=m)
    return projected(_flattened(H), p.W_O, p.b_O)


def _inner_bias(p: Any, Q: Any, K: Any, V: Any, mask: Any = None) -> Any:
    """The output's bias alone is added."""
    bare = replace(p, b_Q=None, b_K=None, b_V=None)
    return multi_head_attention(bare, Q, K, V, mask=mask)


MULTI_HEAD = _asked(
    "multi_head_attention",
    multi_head_attention,
    _multi_head_cases,
    ("T", "D_out"),
    (
        _multi_head_but(W_O=lambda p: None, b_O=lambda p: None),
        "The heads stand side by side, and that is all. The output projection is missing.",
    ),
    (
        _whole_width,
        "The scores are divided by the root of D, the width of all heads. Each head has a width of its own.",
    ),
    (
        _one_wide_head,
        "That is one head of the whole width. Queries, keys and values are to be cut into heads before they are compared.",
    ),
    (
        _without_head_axis,
        "The mask of a batch falls on the heads. Queries have one axis more once they are cut, "
        "and the mask needs it in the same place.",
    ),
    (
        _without_mask,
        "The mask is not handed on.",
    ),
    (
        _unmerged,
        "The heads are put together by a reshape that mixes positions. You have a function that does it well.",
    ),
    (
        _multi_head_but(b_O=lambda p: None),
        "The bias of the output projection is missing.",
    ),
    (
        _inner_bias,
        "The biases of queries, keys and values are missing.",
    ),
    (
        _multi_head_but(
            b_Q=lambda p: None,
            b_K=lambda p: None,
            b_V=lambda p: None,
            b_O=lambda p: None,
        ),
        "No bias is added: there may be four of them.",
    ),
)


def _self_cases() -> Iterator[Case]:
    p = _parameters(17, 6, 2)
    [x] = drawn_arrays(17, (4, 6))
    yield Case("four positions", (p, x))
    yield Case("a mask", (p, x), {"mask": np.tri(4) > 0})
    [x] = drawn_arrays(18, (2, 3, 6))
    mask = np.array([[[1, 1, 0]], [[1, 1, 1]]]) > 0
    yield Case("a batch, and a mask for each entry", (p, x), {"mask": mask})


def _self_but(change: Any) -> Any:
    def wrong(p: Any, x: Any, mask: Any = None) -> Any:
        return change(p, x, mask)

    return wrong


SELF = _asked(
    "self_attention",
    self_attention,
    _self_cases,
    ("T", "D_out"),
    (
        _self_but(lambda p, x, mask: self_attention(p, x)),
        "The mask is not handed on.",
    ),
    (
        _self_but(
            lambda p, x, mask: multi_head_attention(
                p,
                projected(x, p.W_Q, p.b_Q),
                projected(x, p.W_K, p.b_K),
                projected(x, p.W_V, p.b_V),
                mask=mask,
            )
        ),
        "Everything is projected twice: the function of the stage before does it already.",
    ),
    (
        _self_but(lambda p, x, mask: x + self_attention(p, x, mask=mask)),
        "The input is added to the output. That is the residual connection of a layer, and the layer sees to it.",
    ),
)


# ---- masks ---------------------------------------------------------------------------


def _numbers(mask: Any) -> np.ndarray:
    """A mask as numbers, which can be subtracted."""
    return np.asarray(mask).astype(float)


def _causal_cases() -> Iterator[Case]:
    yield Case("four positions", (4, 4))
    yield Case("more keys than queries", (2, 5))
    yield Case("an offset", (2, 5), {"offset": 3})
    yield Case("a negative offset", (3, 4), {"offset": -1})


def _causal(T: int, S: int, offset: int = 0) -> np.ndarray:
    return _numbers(causal_mask(T, S, offset=offset))


def _causal_but(change: Any) -> Any:
    def wrong(T: int, S: int, offset: int = 0) -> np.ndarray:
        return _numbers(change(T, S, offset))

    return wrong


CAUSAL = _asked(
    "causal_mask",
    _causal,
    _causal_cases,
    ("T", "S"),
    (
        _causal_but(lambda T, S, n: ~causal_mask(T, S, offset=n)),
        "True and False are exchanged: True means may attend, and a position may look back.",
    ),
    (
        _causal_but(lambda T, S, n: causal_mask(S, T, offset=-n).T),
        "Each position looks ahead: rows are queries, columns are keys.",
    ),
    (
        _causal_but(lambda T, S, n: causal_mask(T, S, offset=n - 1)),
        "No position may look at itself: the first would have nothing to look at. Back includes here.",
    ),
    (
        _causal_but(lambda T, S, n: causal_mask(T, S)),
        "The offset has no effect.",
    ),
    (
        _causal_but(lambda T, S, n: causal_mask(T, S, offset=-n)),
        "The offset goes the wrong way: an offset above 0 opens keys, since the queries stand further back in the sequence.",
    ),
    (
        _causal_but(lambda T, S, n: causal_mask(T, S, offset=S - T)),
        "The last query is aligned with the last key, whatever the offset. Where the queries stand is for the caller to say.",
    ),
)


def _padding_cases() -> Iterator[Case]:
    yield Case("three sequences", (np.array([2, 4, 3]), 4))
    yield Case("as many sequences as keys", (np.array([1, 3, 2]), 3))
    yield Case("an empty sequence", (np.array([0, 2]), 3))


def _padding(lengths: Any, S: int) -> np.ndarray:
    return _numbers(padding_mask(lengths, S))


def _padding_but(change: Any) -> Any:
    def wrong(lengths: Any, S: int) -> np.ndarray:
        return _numbers(change(lengths, S))

    return wrong


PADDING = _asked(
    "padding_mask",
    _padding,
    _padding_cases,
    ("batch", "1", "S"),
    (
        _padding_but(lambda n, S: ~padding_mask(n, S)),
        "True and False are exchanged: True means may attend, and padding may not be attended to.",
    ),
    (
        _padding_but(lambda n, S: np.arange(S) <= n[:, None, None]),
        "One position too many is open: positions are counted from 0.",
    ),
    (
        _padding_but(lambda n, S: padding_mask(n, S)[:, 0]),
        "There is one row for each sequence, and no axis for the queries. "
        "Without it the mask would be read as one of queries by keys.",
    ),
    (
        _padding_but(lambda n, S: np.swapaxes(padding_mask(n, S), -1, -2)),
        "The axis of size 1 stands last. So it shuts queries; it is keys that are padded.",
    ),
    (
        _padding_but(
            lambda n, S: np.arange(S) >= S - n[:, None, None],
        ),
        "The padding is taken for the beginning. It stands at the end.",
    ),
)


# ---- cross-attention -----------------------------------------------------------------


def _cross_cases() -> Iterator[Case]:
    p = _parameters(19, 6, 2)
    x, context = drawn_arrays(20, (2, 4, 6), (2, 4, 6))
    yield Case("sequences of one length", (p, x, context))
    mask = np.array([[[1, 1, 0, 0]], [[1, 1, 1, 1]]]) > 0
    yield Case("a padded context", (p, x, context), {"mask": mask})
    x, context = drawn_arrays(19, (3, 6), (5, 6))
    yield Case("three positions and a context of five", (p, x, context))


def _cross_but(change: Any) -> Any:
    def wrong(p: Any, x: Any, context: Any, mask: Any = None) -> Any:
        return change(p, x, context, mask)

    return wrong


def _cross(p: Any, x: Any, context: Any, mask: Any = None) -> Any:
    return multi_head_attention(p, x, context, context, mask=mask)


CROSS = _asked(
    "cross_attention",
    _cross,
    _cross_cases,
    ("T", "D_out"),
    (
        _cross_but(lambda p, x, c, mask: _cross(p, x, c)),
        "The mask is not handed on.",
    ),
    (
        _cross_but(lambda p, x, c, mask: _cross(p, c, x, mask)),
        "The two sequences are exchanged: the context is to answer, and here it asks.",
    ),
    (
        _cross_but(lambda p, x, c, mask: _cross(p, x, x, mask)),
        "Keys and values come from x itself. The context has no effect.",
    ),
    (
        _cross_but(
            lambda p, x, c, mask: multi_head_attention(
                p, x, c, x, mask=mask
            )
        ),
        "The values come from x. What a key says where to find, the value beside it holds: both are of one sequence.",
    ),
    (
        _cross_but(
            lambda p, x, c, mask: multi_head_attention(
                p, x, x, c, mask=mask
            )
        ),
        "The keys come from x. What a key says where to find, the value beside it holds: both are of one sequence.",
    ),
)


PARAMETERS = (
    "parameters has the matrices W_Q, W_K, W_V, W_O, the biases b_Q, b_K, b_V, b_O (each may be None), "
    "and heads, the number h."
)

#: In the order in which they are written. The axes of a batch, any number of them, stand in front of those named here.
STAGES = (
    Stage(
        "scores(queries, keys)",
        "queries: (T, D_k), keys: (S, D_k). Returns (T, S): the dot product of each query with each key, "
        "divided by the root of D_k.",
        "02_attention",
        "Attention",
        "The definition",
        SCORES,
    ),
    Stage(
        "softmax(z)",
        "z: (T, S), or any shape. Returns the same shape: weights, none negative, that sum to 1 along the last axis. "
        "Entries may be large, and may be -inf, whose weight is 0. Where a whole row is -inf, all its weights are 0.",
        "03_compatibility",
        "The compatibility function",
        "A softmax that does not overflow",
        SOFTMAX,
    ),
    Stage(
        "attention_weights(queries, keys, mask=None, bias=None)",
        "Returns (T, S): the softmax of the scores. bias: floats, (T, S), are added to the scores. "
        "mask: booleans that broadcast to (T, S); True means that the query may attend to the key. "
        "A key that is shut has the weight 0; a query that may attend to nothing has weights 0.",
        "11_masks",
        "Masks",
        "The definition",
        WEIGHTS,
    ),
    Stage(
        "attention(queries, keys, values, mask=None, bias=None)",
        "values: (S, D_v). Returns (T, D_v): for each query the blend of the values under its weights.",
        "02_attention",
        "Attention",
        "Two matrix products, by hand",
        BLEND,
    ),
    Stage(
        "split_heads(x, heads)",
        "x: (T, D). Returns (h, T, D_h) with D_h = D / h: head i gets the columns from i D_h on, D_h neighbours.",
        "05_multi_head",
        "Multi-head attention",
        "Reshape, then swap",
        _split_exercise(),
    ),
    Stage(
        "merge_heads(x)",
        "x: (h, T, D_h). Returns (T, h D_h): the heads side by side. It undoes split_heads.",
        "05_multi_head",
        "Multi-head attention",
        "Reshape, then swap",
        MERGE,
    ),
    Stage(
        "project(x, W, b)",
        "x: (T, rows), W: (rows, columns), b: (columns,) or None. Returns (T, columns): x times W, plus b.",
        "05_multi_head",
        "Multi-head attention",
        "All heads in one product",
        PROJECTION,
    ),
    Stage(
        "multi_head_attention(parameters, queries, keys, values, mask=None)",
        f"{PARAMETERS} queries: (T, D_q), keys: (S, D_k), values: (S, D_v). Returns (T, D_out). "
        "mask: (T, S) or (*batch, T, S), where 1 may stand for T; it holds for all heads.",
        "05_multi_head",
        "Multi-head attention",
        "The definition: one head at a time",
        MULTI_HEAD,
    ),
    Stage(
        "self_attention(parameters, x, mask=None)",
        "x: (T, D). Returns (T, D_out): queries, keys and values all come from x.",
        "02_attention",
        "Attention",
        "Self-attention: all three from one sequence",
        SELF,
    ),
    Stage(
        "causal_mask(T, S, offset=0)",
        "Returns booleans, (T, S): query i may attend to key j up to j = i + offset.",
        "11_masks",
        "Masks",
        "Two corners",
        CAUSAL,
        boolean=True,
    ),
    Stage(
        "padding_mask(lengths, S)",
        "lengths: (batch,), integers. Returns booleans, (batch, 1, S): the first keys of each sequence, as many as it is long, "
        "may be attended to by all queries; what follows is padding.",
        "07_cross_attention",
        "Cross-attention",
        "Padding: two sentences in one batch",
        PADDING,
        boolean=True,
    ),
    Stage(
        "cross_attention(parameters, x, context, mask=None)",
        "x: (T, D_q), context: (S, D_k). Returns (T, D_out): the positions of x ask, those of the context answer.",
        "07_cross_attention",
        "Cross-attention",
        "One sequence asks, the other answers",
        CROSS,
    ),
)
