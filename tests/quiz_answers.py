"""What the package says to the questions of the quiz: `computed` of a question in book/quiz.yml names a function of this file.

A function returns either the number that the right option states and no other option does, or a list that says for each
option, in order, whether it holds; None stands for one whose claim is about something that is not computed. What an option
claims is computed, never typed.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np

from attention_in_detail import (
    MultiHeadParameters,
    attention,
    attention_gradients,
    attention_weights,
    cache_bytes,
    cached_self_attention,
    causal_mask,
    cross_attention,
    mask_from_torch_mha,
    merge_partial,
    multi_head_attention,
    online_attention,
    padding_mask,
    rotate,
    scores,
    self_attention,
    softmax,
    split_heads,
)
from attention_in_detail.head_scores import pattern_mass, patterns
from attention_in_detail.insights.fast_weights import (
    read,
    unit_rows,
    write_sum,
)
from attention_in_detail.insights.quadratic_cost import (
    linear_attention_to_all,
)
from attention_in_detail.online import PartialAttention
from attention_in_detail.parallelism import (
    attention_cost,
    multi_head_cost,
)
from attention_in_detail.traffic import block_bytes
from tests.classic_bugs import BUGS


def same(one, other, within=1e-12):
    return one.shape == other.shape and np.allclose(
        one, other, rtol=0, atol=within
    )


def rng(seed=0):
    return np.random.default_rng(seed)


def plain(D, heads=1, seed=1):
    """Projections that are drawn, without biases."""
    return MultiHeadParameters.init(D, heads, bias=False, seed=seed)


# ---- Part I ----


def unevenness(weights):
    return (weights**2).sum(axis=-1)


def shifted_rows():
    z = rng().standard_normal((2, 5))
    before = softmax(z)
    after = softmax(z + np.array([[10.0], [3.0]]))
    more = after.sum(axis=-1) - before.sum(axis=-1)
    change = unevenness(after) - unevenness(before)
    return [
        bool(more[0] > 1e-9 and more[1] < -1e-9),
        same(before, after),
        bool((change < -1e-9).all()),
        bool((change > 1e-9).all()),
    ]


def doubled_scores():
    z = np.log([[3.0, 1.0]])
    first, second = softmax(2 * z)[0]
    return first / second


def transposed_stack():
    x = rng().standard_normal((3, 3, 3))
    try:
        found = x @ x.T
    except ValueError:
        return [False, False, False, True]
    other = x.copy()
    other[2] += 1
    mixed = not same((other @ other.T)[0], found[0])
    rows, columns = x @ x.mT, x.mT @ x
    return [
        mixed and found.shape == rows.shape,
        same(found, rows),
        same(found, columns),
        False,
    ]


def wrong_axis():
    """Whether a check fails; on the right weights none does."""
    z = rng().standard_normal((5, 5))

    def checks(A):
        return [
            A.shape == z.shape,
            bool((A > 0).all()),
            bool(np.allclose(A.sum(axis=-1), 1)),
            math.isclose(A.sum(), 5),
        ]

    if not all(checks(softmax(z))):
        raise ValueError("a check fails where nothing is wrong")
    return [not passes for passes in checks(softmax(z, axis=0))]


def output_shape():
    return attention(
        np.zeros((6, 4)), np.zeros((9, 4)), np.zeros((9, 7))
    ).shape


def deviation_of_a_score():
    drawn = rng()
    q, k = (drawn.standard_normal((400, 64)) for _ in range(2))
    return round(float(scores(q, k, scale=1.0).std()), 1)


def traded_places():
    X = rng().standard_normal((5, 6))
    order = [0, 3, 2, 1, 4]
    before = self_attention(plain(6), X)
    after = self_attention(plain(6), X[order])
    moves = ~np.isclose(before, after, rtol=0, atol=1e-12).all(axis=1)
    as_sets = same(
        np.sort(before.ravel()), np.sort(after.ravel()), within=1e-12
    )
    return [
        not moves.any(),
        bool(moves.all()),
        moves.tolist() == [False, True, False, True, False] and not as_sets,
        same(after, before[order]),
    ]


def order_of_the_past():
    X = rng().standard_normal((6, 8))
    M = causal_mask(6)

    def last(order, layers):
        Y = X[order]
        for seed in range(layers):
            Y = self_attention(plain(8, seed=seed + 1), Y, mask=M)
        return Y[-1]

    whole = [0, 1, 2, 3, 4, 5]
    far, near = [1, 0, 2, 3, 4, 5], [0, 1, 2, 4, 3, 5]

    def moved(order, layers):
        return not same(last(order, layers), last(whole, layers), 1e-9)

    one, two = moved(far, 1), moved(far, 2)
    return [
        one,
        not one and not moved(near, 1) and two,
        not one and not two,
        moved(near, 1) and not one,
    ]


def what_is_symmetric():
    X = rng().standard_normal((5, 6)) @ plain(6).W_Q
    Z, A = scores(X, X), attention_weights(X, X)
    found = (same(Z, Z.T), same(A, A.T))
    return [
        found == (True, True),
        found == (False, True),
        found == (False, False),
        found == (True, False),
    ]


def coordinates_that_a_head_reads():
    parameters = plain(64, heads=8)
    X = rng().standard_normal((4, 64))
    _, before = self_attention(parameters, X, return_weights=True)
    reads = []
    for place in range(64):
        other = X.copy()
        other[1, place] += 1
        _, after = self_attention(parameters, other, return_weights=True)
        reads.append(not same(after[1], before[1]))
    second = split_heads(X @ parameters.W_Q, 8)[1]
    alike = same(second, split_heads(X @ parameters.W_Q, 8)[0])
    # The values of the first head are made others: the second must not notice.
    W_V = parameters.W_V.copy()
    W_V[:, :8] += 1
    bare = replace(parameters, W_O=None)
    of_all = self_attention(bare, X)
    first = self_attention(replace(bare, W_V=W_V), X)
    return [
        [n for n, one in enumerate(reads) if one] == [*range(8, 16)],
        all(reads) and not alike,
        not same(first[:, 8:16], of_all[:, 8:16]),
        all(reads) and alike,
    ]


def parameters_of_16_heads():
    return MultiHeadParameters.init(64, 16, seed=0).count


def rank_of_a_head():
    D, heads = 16, 8  # as many heads as the question says
    parameters = plain(D, heads)
    W_Q, W_K = parameters.W_Q[:, :2], parameters.W_K[:, :2]
    product = W_Q @ W_K.T
    free = rng().standard_normal((D, D))
    rank = np.linalg.matrix_rank
    return [
        bool(rank(product) == D // heads and rank(free) == D),
        bool(rank(product) == rank(free)),
        same(free, free.T),
        free.size < W_Q.size + W_K.size,
    ]


def divisor_of_a_head():
    """From the weights of one head: two keys whose dot products with the query differ by 1."""
    D, heads = 512, 8
    one = np.zeros((D, D))
    one[0, 0] = 1
    parameters = MultiHeadParameters(one, one, one, one, heads=heads)
    x = np.zeros((2, D))
    x[:, 0] = [1.0, 0.0]
    _, A = multi_head_attention(
        parameters, x[:1], x, x, return_weights=True
    )
    return 1 / math.log(A[0, 0, 0] / A[0, 0, 1])


def lines_that_split():
    T, h, D_h = 3, 2, 2
    x = rng().standard_normal((T, h * D_h))
    right = split_heads(x, h)
    return [
        same(found, right)
        for found in (
            x.reshape(h, T, D_h),
            x.reshape(h, D_h, T).swapaxes(1, 2),
            x.reshape(T, h, D_h).swapaxes(0, 1),
            x.reshape(T, h, D_h).reshape(h, T, D_h),
        )
    ]


def without_the_output_matrix():
    D, h = 8, 2
    p = plain(D, h)
    X = rng().standard_normal((5, D))
    side_by_side = self_attention(replace(p, W_O=None), X)
    H = split_heads(side_by_side, h)  # (h, T, D_h)
    blocks = p.W_O.reshape(h, D // h, D)
    Y = self_attention(p, X)
    # One number for each head, the best that there is.
    parts = np.stack([side_by_side.copy() for _ in range(h)])
    parts[0, :, D // h :] = 0
    parts[1, :, : D // h] = 0
    basis = parts.reshape(h, -1).T
    fit = basis @ np.linalg.lstsq(basis, Y.ravel(), rcond=None)[0]
    return [
        same(side_by_side, Y),
        same((H @ blocks).sum(axis=0), Y),
        same(np.tile(H.mean(axis=0), h), Y),
        same(fit.reshape(Y.shape), Y, within=1e-6),
    ]


def cost_of_twice_the_length():
    short, long = (attention_cost(T, T, 64, 64) for T in (100, 200))
    return long.multiply_adds / short.multiply_adds


def roles_in_cross_attention():
    p = plain(8, heads=2)
    x, c = rng().standard_normal((2, 4, 8))
    right = cross_attention(p, x, c)
    return [
        same(multi_head_attention(p, *given), right)
        for given in ((c, x, x), (x, c, c), (x, x, c), (x, c, x))
    ]


def what_padding_needs():
    """Whether the real rows come out as without any padding."""
    p = plain(8, heads=2)
    X = rng().standard_normal((6, 8))
    alone = self_attention(p, X[:4])
    keys = padding_mask(np.array([4]), 6)[0]  # (1, S)
    padded = np.where(keys.T, X, 0.0)

    def real(mask, x=X):
        return same(self_attention(p, x, mask=mask)[:4], alone)

    both = keys & keys.T
    return [
        real(keys),
        real(np.broadcast_to(keys.T, (6, 6))),
        real(both) and not real(keys),
        real(None, padded),
    ]


# ---- Part II ----


def masked_after():
    z = rng().standard_normal((3, 5))
    is_open = np.array([True, True, False, True, False])
    other = np.where(is_open, z, z + 1)  # the shut keys are changed
    late, late_other = (
        np.where(is_open, softmax(s), 0) for s in (z, other)
    )
    early = softmax(np.where(is_open, z, -np.inf))
    return [
        same(late, early),
        bool((late[:, ~is_open] > 0).any()),
        bool(np.isnan(late).any()),
        bool((late.sum(axis=-1) < 1 - 1e-9).all())
        and not same(late, late_other),
    ]


def inverted_mask():
    """Whether a check fails with the mask inside out; with the right one none does."""
    p = plain(8, heads=2)
    drawn = rng()
    X = drawn.standard_normal((6, 8))
    refilled = X.copy()
    refilled[3:] = drawn.standard_normal((3, 8))
    mask = padding_mask(np.array([3]), 6)[0]

    def checks(given):
        Y, A = self_attention(p, X, mask=given, return_weights=True)
        A = A.mean(axis=0)[None]
        moved = self_attention(p, refilled, mask=given)
        return [
            bool(np.allclose(A.sum(axis=-1), 1)),
            bool(((A == 0).sum(axis=-1) == 3).all()),
            same(Y[:3], moved[:3]),
            A.shape == (1, 6, 6),
        ]

    if not all(checks(mask)):
        raise ValueError("a check fails where nothing is wrong")
    return [not passes for passes in checks(~mask)]


def keys_open_to_a_new_token():
    found = np.flatnonzero(causal_mask(1, 5)[0]).tolist()
    return [
        found == [0, 1, 2, 3, 4],
        found == [4],
        found == [0],
        found == [],
    ]


def row_without_a_key():
    drawn = rng()
    q, k, v = (drawn.standard_normal((3, 4)) for _ in range(3))
    mask = causal_mask(3)
    mask[1] = False
    row = attention(q, k, v, mask=mask)[1]
    gradients = attention_gradients(q, k, v, np.ones((3, 4)), mask=mask)
    return [
        same(row, v.mean(axis=0)),
        bool(np.isnan(row).any()),
        same(row, v[1]),
        same(row, np.zeros(4)) and not gradients.queries[1].any(),
    ]


def a_billion_off():
    z = np.linspace(-10, 10, 9, dtype=np.float32)  # the question's range
    found = softmax(z + np.float32(-1e9))
    return [
        same(found, np.full(9, 1 / 9, np.float32), 1e-7),
        not found.any(),
        bool(np.isnan(found).all()),
        same(found, softmax(z), 1e-6),
    ]


def left_of_the_diagonal():
    A = np.roll(np.eye(6), -1, axis=1)  # row i has its 1 in column i - 1
    A[0] = np.eye(6)[0]
    found = patterns(["a", "b", "c", "d", "e", "f"])
    itself = np.eye(6, dtype=bool)
    itself[0] = False  # the first row has no key on its left
    return [
        bool(pattern_mass(A, pattern) > 0.9)
        for pattern in (
            found["next"],
            found["previous"],
            itself,
            found["first"],
        )
    ]


def future_open():
    """Whether a check fails without the causal mask; with it none does."""
    p = plain(8, heads=2)
    X = rng().standard_normal((5, 8))
    other = X.copy()
    other[-1] += 1

    def checks(mask):
        Y, A = self_attention(p, X, mask=mask, return_weights=True)
        moved = self_attention(p, other, mask=mask)
        return [
            Y.shape == X.shape,
            same(Y[:-1], moved[:-1]),
            bool((A.sum(axis=-1) < 1 + 1e-9).all()),
        ]

    if not all(checks(causal_mask(5))):
        raise ValueError("a check fails where nothing is wrong")
    shape, rows, sums = (not passes for passes in checks(None))
    # That a loss falls with the answer among the inputs: the row has a weight on the token that it is to foretell.
    _, A = self_attention(p, X, return_weights=True)
    hidden = not (np.diagonal(A, 1, axis1=-2, axis2=-1) > 0).all()
    return [shape, rows, hidden, sums]


def with_a_cache():
    X = rng().standard_normal((5, 8))
    found = {}
    for layers in (1, 3):
        whole, last = X, X[-1:]
        for seed in range(layers):
            p = plain(8, heads=2, seed=seed)
            _, cache = cached_self_attention(p, whole[:-1])
            last, _ = cached_self_attention(p, last, cache)
            whole = self_attention(p, whole, mask=causal_mask(5))
        found[layers] = (
            same(last[0], whole[-1]),
            np.abs(last[0] - whole[-1]).max(),
        )
    (one, _), (three, error) = found[1], found[3]
    return [
        one and three,
        not one and error < 0.1,
        one and not three,
        not one and not three and error >= 0.1,
    ]


# ---- Parts III and IV ----


def rank_from_one_coordinate():
    drawn = rng()
    q, k = (drawn.permutation(6.0 + np.arange(6))[:, None] for _ in "qk")
    A = attention_weights(q / 6, k / 3)
    return np.linalg.matrix_rank(A)


def exact_memory():
    drawn = rng()
    V = drawn.standard_normal((6, 4))
    orthogonal = np.linalg.qr(drawn.standard_normal((8, 8)))[0][:6]
    random = unit_rows(drawn.standard_normal((6, 8)))  # fewer than 8

    def exact(K):
        return same(read(write_sum(K, V), K), V, 1e-9)

    by_chance, by_right = exact(random), exact(orthogonal)
    return [by_chance and by_right, by_chance, by_chance, by_right]


def what_linear_attention_loses():
    drawn = rng()
    q, k = (drawn.standard_normal((9, 2)) for _ in range(2))
    # With a unit vector for each value the output is the weights.
    A = linear_attention_to_all(q, k, np.eye(9))
    full = attention_weights(q, k)
    rank = np.linalg.matrix_rank
    return [
        not np.allclose(A.sum(axis=-1), 1),
        not (A > 0).all(),
        bool(rank(A) == 2 and rank(full) == 9),
        same(A, full),
    ]


def row_of_the_gradient():
    drawn = rng()
    q, k, v, dY = (drawn.standard_normal((4, 3)) for _ in range(4))
    # A bias that is added to the scores has the gradient dZ.
    dZ = attention_gradients(q, k, v, dY, bias=np.zeros((4, 4))).bias
    A, dA = attention_weights(q, k), dY @ v.T
    sums = dZ.sum(axis=-1)
    zero, one = same(sums, np.zeros(4)), same(sums, np.ones(4))
    weighted = same(sums, (A * dA).sum(axis=-1))
    return [zero, one, weighted, not (zero or one or weighted)]


def blocks_at_twice_the_length():
    drawn = rng()
    q, k, v = (drawn.standard_normal((30, 4)) for _ in range(3))
    exact = same(
        online_attention(q, k, v, query_block=7, key_block=4),
        attention(q, k, v),
    )
    # Time is that of the products; what is held: a block, and two numbers and an output for each query.
    lengths = [512 * 2**n for n in range(9)]
    time, memory = (
        [attention_cost(T, T, 64, 64).multiply_adds for T in lengths],
        [
            T * (64 + 2) + block_bytes(512, 512, 64, 64, itemsize=1)
            for T in lengths
        ],
    )
    times, memories = (
        [long / short for short, long in pairwise(one)]
        for one in (time, memory)
    )
    doubles = set(times) == {2}
    at_most = all(1 < one <= 2 for one in memories)
    as_long = set(memories) == {2}
    return [
        exact and doubles and as_long,
        exact and set(times) == {4} and at_most,
        not exact and doubles and as_long,
        exact and doubles and set(memories) == {1},
    ]


def output_of_two_halves():
    halves = [
        PartialAttention(
            np.array([[output]]), np.array([largest]), np.array([total])
        )
        for output, largest, total in (
            (8.0, math.log(4), 1.5),
            (4.0, math.log(8), 1.25),
        )
    ]
    return merge_partial(*halves).output.item()


def share_of_the_projections():
    def parts(T):
        """Multiply-adds and exponentials: of all, and of the kernel."""
        whole = multi_head_cost(T, 512, 8)
        kernel = attention_cost(T, T, 64, 64, entries=8)
        return whole, kernel

    (short, inner), (long, wide) = parts(128), parts(8192)
    first, last = (
        one.multiply_adds / other.multiply_adds
        for one, other in ((short, inner), (long, wide))
    )
    softmax_counts_less = (
        wide.exponentials / wide.multiply_adds
        < inner.exponentials / inner.multiply_adds
    )
    return [None, softmax_counts_less, None, first > 5 > 1.5 > last]


def mebibytes_of_a_cache():
    return cache_bytes(4096, layers=32, kv_heads=8, D_h=128) / 2**20


def scores_moved_by_seven():
    drawn = rng()
    q, k = (drawn.standard_normal((6, 8)) for _ in range(2))
    at = np.arange(6)

    def by_positions(p):
        return scores(rotate(q, p), rotate(k, p))

    changed = ~np.isclose(by_positions(at), by_positions(at + 7))
    turned = not same(by_positions(at), scores(q, k), 1e-3)
    far = np.abs(at[:, None] - at) > 2
    return [
        not changed.any() and turned,
        bool(changed.all()),
        bool(changed[far].all() and not changed[~far].any()),
        not changed.any() and not turned,
    ]


def what_a_kind_example_finds():
    """Whether a bug that is planted in the package moves the output of one head without a mask."""
    x, p = rng().standard_normal((5, 4)), plain(4, heads=1)
    right = self_attention(p, x)
    found = []
    for name in (
        "merged without the swap",
        "the root of the wrong width",
        "true read as ignore",
    ):
        with contextlib.ExitStack() as stack:
            for bug in BUGS[name].planted():
                stack.enter_context(bug)
            given, _ = mask_from_torch_mha(heads=1)
            found.append(not same(self_attention(p, x, mask=given), right))
    merged, width, ignored = found
    return [merged, width, not any(found), ignored]
