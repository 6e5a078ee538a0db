"""Heads that share one projection of the queries and one of the keys, each with its own mixture of what is shared."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attention_in_detail._checks import (
    checked,
    kind,
    need_floating,
    need_integer,
)
from attention_in_detail._parameter_checks import need_own_keys
from attention_in_detail.notation import Array, Float, Size
from attention_in_detail.parameters import MultiHeadParameters

__all__ = [
    "SharedProjections",
    "data_root",
    "directions_for",
    "fit_shared",
    "own_projections",
    "relative_error",
    "score_products",
    "strongest_shared",
    "with_shared",
]


# ---- checks ----


def check_score_products(attention: Any) -> None:
    if not isinstance(attention, MultiHeadParameters):
        raise TypeError(
            f"attention must be MultiHeadParameters, not {kind(attention)}"
        )
    if not isinstance(attention.W_Q, np.ndarray):
        raise TypeError(
            f"attention must hold arrays of NumPy, not {kind(attention.W_Q)}"
        )


def check_strongest(attention: Any, K: Any) -> None:
    check_score_products(attention)
    need_own_keys("attention", attention)
    need_integer("K", K, least=1)
    if K > attention.D:
        raise ValueError(
            f"K is {K}, but the heads have {attention.D} directions in all"
        )


def check_products(products: Any) -> None:
    need_floating("products", products)
    if products.ndim != 3:
        raise ValueError(
            f"products need the axes (h, D_q, D_k), but have the shape {tuple(products.shape)}"
        )


def check_fit_shared(
    products: Any, start: Any, *, rounds: Any = 30
) -> None:
    check_products(products)
    check_shared("start", start, products)
    need_integer("rounds", rounds, least=0)


def check_shared(name: str, shared: Any, products: Any) -> None:
    if not isinstance(shared, SharedProjections):
        raise TypeError(
            f"{name} must be SharedProjections, not {kind(shared)}"
        )
    wanted = tuple(products.shape)
    shape = (len(shared.mixing), len(shared.A), len(shared.B))
    if shape != wanted:
        raise ValueError(
            f"{name} has (h, D_q, D_k) = {shape}, but products have {wanted}"
        )


def check_own(products: Any, K: Any) -> None:
    check_products(products)
    need_integer("K", K, least=1)
    if K % len(products):
        raise ValueError(
            f"K is {K}, but {len(products)} heads need a multiple of {len(products)}"
        )


def check_error(shared: Any, products: Any) -> None:
    check_products(products)
    check_shared("shared", shared, products)


def check_directions(x: Any, share: Any = 0.9) -> None:
    need_floating("x", x)
    if x.ndim != 2:
        raise ValueError(
            f"x needs two axes, but has the shape {tuple(x.shape)}"
        )
    if not 0 < share <= 1:
        raise ValueError(
            f"share is {share}, but must be above 0 and at most 1"
        )


def check_with_shared(
    attention: Any, shared: Any, *, center: Any = None
) -> None:
    check_score_products(attention)
    if not isinstance(shared, SharedProjections):
        raise TypeError(
            f"shared must be SharedProjections, not {kind(shared)}"
        )
    wanted = (attention.heads, attention.D_q, attention.D_k)
    shape = (len(shared.mixing), len(shared.A), len(shared.B))
    if shape != wanted:
        raise ValueError(
            f"shared has (h, D_q, D_k) = {shape}, but attention has {wanted}"
        )
    if attention.W_O is None:
        raise ValueError(
            "attention has no W_O: its heads would come out padded with zeros"
        )
    if center is not None:
        need_floating("center", center)
        if tuple(center.shape) != (attention.D_q,):
            raise ValueError(
                f"center has the shape {tuple(center.shape)}, but D_q is {attention.D_q}"
            )


def check_data_root(x: Any) -> None:
    need_floating("x", x)
    if x.ndim != 2:
        raise ValueError(
            f"x needs two axes, but has the shape {tuple(x.shape)}"
        )


# ---- the form ----


@dataclass(frozen=True, eq=False)
class SharedProjections:
    r"""One projection of the queries and one of the keys for all heads, and a mixing vector for each.

    .. math:: M_i = A \operatorname{diag}(m_i)\, B^\top

    Attributes:
        A: projects queries, shape (D_q, K).
        B: projects keys, shape (D_k, K).
        mixing: row i is m_i, shape (h, K).
    """

    A: Float[Array, "D_q K"]
    B: Float[Array, "D_k K"]
    mixing: Float[Array, "h K"]

    @property
    def K(self) -> int:
        """The shared width."""
        return self.A.shape[1]

    @property
    def count(self) -> int:
        """How many numbers these are."""
        return self.A.size + self.B.size + self.mixing.size

    def products(self) -> Float[Array, "h D_q D_k"]:
        """Return A diag(m_i) Bᵀ for each head."""
        return (self.A * self.mixing[:, None, :]) @ self.B.T


@checked(check_score_products)
def score_products(
    attention: MultiHeadParameters,
) -> Float[Array, "h D_q D_k"]:
    r"""Return what each head multiplies a query and a key with: all that its scores depend on, but for biases.

    .. math:: M_i = W^Q_i (W^K_i)^\top

    Args:
        attention: arrays of NumPy.

    Returns:
        One matrix a head, of rank at most D_h.

    Raises:
        TypeError: if ``attention`` is of another kind or library.

    Source:
        Cordonnier, Loukas and Jaggi (2020).
    """
    heads = [attention.head(i) for i in range(attention.heads)]
    return np.stack([head.W_Q @ head.W_K.T for head in heads])


@checked(check_strongest)
def strongest_shared(
    attention: MultiHeadParameters, K: Size
) -> SharedProjections:
    r"""Return the K strongest of the directions that the heads have, each used by its own head only.

    .. math:: A = W^Q, \quad B = W^K, \quad m_{ik} = [\,k \text{ belongs to head } i\,]

    With K = D this *is* the attention as it stands. With fewer, those with the largest
    product of norms are kept.

    Args:
        attention: arrays of NumPy.
        K: how many, at most D.

    Returns:
        A start for :func:`fit_shared`.

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if K is out of range.

    Source:
        Cordonnier, Loukas and Jaggi (2020).
    """
    W_Q, W_K = attention.W_Q, attention.W_K
    strength = np.linalg.norm(W_Q, axis=0) * np.linalg.norm(W_K, axis=0)
    kept = np.sort(np.argsort(-strength, kind="stable")[: int(K)])
    blocks = np.repeat(np.eye(attention.heads), attention.D_h, axis=1)
    return SharedProjections(W_Q[:, kept], W_K[:, kept], blocks[:, kept])


@checked(check_fit_shared)
def fit_shared(
    products: Float[Array, "h D_q D_k"],
    start: SharedProjections,
    *,
    rounds: Size = 30,
) -> SharedProjections:
    r"""Fit shared projections to the products of all heads by alternating least squares.

    .. math:: \min_{A, B, m}\; \sum_i \lVert A \operatorname{diag}(m_i)\, B^\top - M_i \rVert_F^2

    With two of the three fixed, the third is an ordinary least squares problem. A round
    solves for mixing, A and B in turn.

    Args:
        products: from :func:`score_products`.
        start: where to begin; K is its width.
        rounds: how many.

    Returns:
        What was found: a local minimum at best.

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if the sizes do not fit.

    Source:
        Kolda and Bader (2009): the CP decomposition of a tensor.
    """
    A, B, m = start.A, start.B, start.mixing
    for _ in range(int(rounds)):
        # on the right: M, summed against the two factors that are fixed
        m = _solved(A, B, np.sum((products @ B) * A, axis=1))
        A = _solved(m, B, np.sum((products @ B) * m[:, None, :], axis=0))
        turned = products.transpose(0, 2, 1)
        B = _solved(m, A, np.sum((turned @ A) * m[:, None, :], axis=0))
    return SharedProjections(A, B, m)


def _solved(
    x: Float[Array, "I K"], y: Float[Array, "J K"], z: Float[Array, "N K"]
) -> Float[Array, "N K"]:
    """Solve the normal equations of the factor that is free, x and y being fixed."""
    gram = (x.T @ x) * (y.T @ y)
    # A trace of the identity on top keeps it solvable where two directions coincide.
    ridge = 1e-10 * np.trace(gram) * np.eye(len(gram))
    return np.linalg.solve(gram + ridge, z.T).T


@checked(check_own)
def own_projections(
    products: Float[Array, "h D_q D_k"], K: Size
) -> SharedProjections:
    r"""Give each head K / h directions of its own, the best there are: the control, which shares nothing.

    .. math:: M_i \approx U_i \Sigma_i V_i^\top

    The first K / h singular triples of each product; no other matrix of that rank is
    nearer.

    Args:
        products: from :func:`score_products`.
        K: the width of all heads together; a multiple of h.

    Returns:
        In the form of shared projections, in which each direction has one user.

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if h does not divide K.

    Source:
        Eckart and Young (1936).
    """
    own = int(K) // len(products)
    U, s, V = np.linalg.svd(products, full_matrices=False)
    return SharedProjections(
        np.concatenate(U[:, :, :own] * s[:, None, :own], axis=1),
        np.concatenate(V[:, :own].transpose(0, 2, 1), axis=1),
        np.repeat(np.eye(len(products)), own, axis=1),
    )


@checked(check_error)
def relative_error(
    shared: SharedProjections, products: Float[Array, "h D_q D_k"]
) -> float:
    r"""Return how far shared projections are from the products.

    .. math:: \sqrt{\sum_i \lVert A \operatorname{diag}(m_i) B^\top - M_i \rVert_F^2 \Big/ \sum_i \lVert M_i \rVert_F^2}

    Args:
        shared: the approximation.
        products: from :func:`score_products`.

    Returns:
        0 for an exact one, 1 for none.

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if the sizes do not fit.
    """
    off = np.linalg.norm(shared.products() - products)
    return float(off / np.linalg.norm(products))


@checked(check_directions)
def directions_for(
    x: Float[Array, "rows columns"], share: float = 0.9
) -> int:
    r"""Return how many directions hold a share of the energy of a matrix.

    .. math:: \min \Bigl\{ k : \sum_{j \le k} \sigma_j^2 \ge p \sum_j \sigma_j^2 \Bigr\}

    Args:
        x: any matrix, with singular values σ.
        share: the p of the formula.

    Returns:
        At most the rank.

    Raises:
        TypeError: if ``x`` is not floating.
        ValueError: if ``x`` has not two axes, or ``share`` is out of range.

    Source:
        Cordonnier, Loukas and Jaggi (2020) plot this share against k.
    """
    energy = np.cumsum(np.linalg.svd(x, compute_uv=False) ** 2)
    return int(np.sum(energy < share * energy[-1] * (1 - 1e-12))) + 1


@checked(check_data_root)
def data_root(
    x: Float[Array, "N D"],
) -> tuple[Float[Array, " D"], Float[Array, "D D"], Float[Array, "D D"]]:
    r"""Return the mean of some rows, the root of their covariance, and its inverse.

    .. math:: C = \frac1N \sum_n (x_n - \mu)^\top (x_n - \mu), \qquad
        \operatorname{mean}_{n,n'} \bigl((x_n - \mu) M (x_{n'} - \mu)^\top\bigr)^2 = \lVert C^{1/2} M C^{1/2} \rVert_F^2

    So the size of a product between two roots is the size of the scores that it gives on
    these rows. A millionth of the mean variance is added in each direction, to have an
    inverse.

    Args:
        x: rows, such as the inputs of an attention.

    Returns:
        μ, C^(1/2) and C^(−1/2).

    Raises:
        TypeError: if ``x`` is not floating.
        ValueError: if it has not two axes.
    """
    mean = np.mean(x, axis=0)
    C = (x - mean).T @ (x - mean) / len(x)
    C = C + 1e-6 * np.trace(C) / len(C) * np.eye(len(C))
    values, vectors = np.linalg.eigh(C)
    root = (vectors * np.sqrt(values)) @ vectors.T
    inverse = (vectors / np.sqrt(values)) @ vectors.T
    return mean, root, inverse


@checked(check_with_shared)
def with_shared(
    attention: MultiHeadParameters,
    shared: SharedProjections,
    *,
    center: Float[Array, " D_q"] | None = None,
) -> MultiHeadParameters:
    r"""Return multi-head attention whose scores come from shared projections; values and output stay.

    .. math:: s_i(x, y) = \bigl((x - \mu) A \operatorname{diag}(m_i) B^\top y^\top + u_i y^\top\bigr) / \sqrt{D_h},
        \qquad u_i = (\mu W^Q_i + b^Q_i)(W^K_i)^\top

    u_i is what a head adds to a key for every query: it stays exact. What a head adds to
    a query for every key has no effect after the softmax, so the bias of the keys drops
    out.

    It is written as parameters of plain heads, wider ones: head i has the columns of
    A diag(m_i) and of B, one more for u_i, and zeros where its values are narrower.

    Args:
        attention: the one to change, arrays of NumPy.
        shared: from :func:`fit_shared` or another.
        center: μ, the mean of the queries; None means 0.

    Returns:
        Parameters for the functions of this package. They hold A and B once for each
        head; a layer that stores them once needs ``shared.count`` numbers.

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if the sizes do not fit.

    Source:
        Cordonnier, Loukas and Jaggi (2020).
    """
    K, D_h = shared.K, attention.D_h
    width = max(K + 1, D_h)
    scale = np.sqrt(width / D_h)  # attention will divide by √width
    blocks: dict[str, list[Any]] = {
        name: [] for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_V")
    }

    def widened(x: Any, axis: int = -1) -> Any:
        more = [(0, 0)] * x.ndim
        more[axis] = (0, width - x.shape[axis])
        return np.pad(x, more)

    for i, m in enumerate(shared.mixing):
        head = attention.head(i)
        mixed = shared.A * m
        q = np.zeros(D_h) if head.b_Q is None else head.b_Q
        offset = np.zeros(K)
        if center is not None:
            q, offset = q + center @ head.W_Q, -center @ mixed
        u = head.W_K @ q
        blocks["W_Q"].append(scale * widened(mixed))
        blocks["b_Q"].append(scale * widened(np.append(offset, 1.0)))
        blocks["W_K"].append(widened(np.column_stack([shared.B, u])))
        blocks["W_V"].append(widened(head.W_V))
        b_V = np.zeros(D_h) if head.b_V is None else head.b_V
        blocks["b_V"].append(widened(b_V))
        blocks["W_O"].append(widened(head.W_O, axis=0))
    return MultiHeadParameters(
        np.concatenate(blocks["W_Q"], axis=1),
        np.concatenate(blocks["W_K"], axis=1),
        np.concatenate(blocks["W_V"], axis=1),
        np.concatenate(blocks["W_O"], axis=0),
        b_Q=np.concatenate(blocks["b_Q"]),
        b_V=np.concatenate(blocks["b_V"]),
        b_O=attention.b_O,
        heads=attention.heads,
    )
