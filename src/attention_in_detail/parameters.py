"""The parameters of multi-head attention, and how its heads are cut from them."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from attention_in_detail._arrays import library_of
from attention_in_detail._checks import checked, named
from attention_in_detail._parameter_checks import (
    check_from_torch,
    check_head,
    check_init,
    check_parameters,
)
from attention_in_detail.notation import Array, Float, Size

__all__ = ["MultiHeadParameters"]


@dataclass(frozen=True, eq=False)
class MultiHeadParameters:
    r"""The projections of multi-head attention.

    .. math:: W^Q = [W^Q_1, \dots, W^Q_h], \quad W^K = [W^K_1, \dots, W^K_h], \quad W^V = [W^V_1, \dots, W^V_h],
        \quad D_h = D / h

    Head i owns the columns from i·D_h to (i+1)·D_h of each, and the rows of the same
    numbers of W^O. With fewer key heads, h_kv of them, W_K and W_V have D_kv = h_kv·D_h
    columns, and head i reads those of key head ⌊i · h_kv / h⌋: h/h_kv query heads in a
    row share one. Two sets of parameters are the same only if they are one object:
    arrays have no plain ``==``.

    Attributes:
        W_Q: projection of the queries, shape (D_q, D).
        W_K: projection of the keys, shape (D_k, D_kv); D_kv is D without ``kv_heads``.
        W_V: projection of the values, shape (D_v, D_kv).
        W_O: projection of the concatenated heads, shape (D, D_out); None leaves the
            concatenation as it is.
        b_Q: added to the projected queries, shape (D,), or None.
        b_K: added to the projected keys, shape (D_kv,), or None.
        b_V: added to the projected values, shape (D_kv,), or None.
        b_O: added to the output, once, shape (D_out,), or None.
        heads: the number of heads h; divides D.
        kv_heads: the number of key heads h_kv, which are the value heads too; divides h.
            None means h.

    Raises:
        TypeError: if an array is not floating, a number of heads not an integer, or
            libraries, dtypes or devices are mixed.
        ValueError: if sizes do not fit, ``heads`` does not divide D, or ``kv_heads``
            does not divide ``heads``.

    Source:
        Vaswani et al. (2017), section 3.2.2; one key head: Shazeer (2019), section 3;
        some: Ainslie et al. (2023), section 2.2.
    """

    W_Q: Float[Array, "D_q D"]
    W_K: Float[Array, "D_k D_kv"]
    W_V: Float[Array, "D_v D_kv"]
    W_O: Float[Array, "D D_out"] | None = None
    b_Q: Float[Array, " D"] | None = None
    b_K: Float[Array, " D_kv"] | None = None
    b_V: Float[Array, " D_kv"] | None = None
    b_O: Float[Array, " D_out"] | None = None
    heads: Size = field(kw_only=True)
    kv_heads: Size | None = field(default=None, kw_only=True)

    def __new__(cls, *args: Any, **kwargs: Any) -> "MultiHeadParameters":
        # The check comes before __init__, so before any run-time check of the
        # annotations. Copying and unpickling call without arguments.
        if args or kwargs:
            named(check_parameters, cls.__name__)(*args, **kwargs)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        # A NumPy integer of few bits would overflow in what is computed from it.
        object.__setattr__(self, "heads", int(self.heads))
        if self.kv_heads is not None:
            object.__setattr__(self, "kv_heads", int(self.kv_heads))

    def arrays(self) -> dict[str, Array]:
        """Return the arrays that are there, by name."""
        named = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name not in ("heads", "kv_heads")
        }
        return {name: x for name, x in named.items() if x is not None}

    @property
    def D(self) -> int:
        """The width of all heads together."""
        return self.W_Q.shape[1]

    @property
    def D_h(self) -> int:
        """The width of one head, D / h."""
        return self.D // self.heads

    @property
    def h_kv(self) -> int:
        """How many key heads there are, h where ``kv_heads`` is None."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def D_kv(self) -> int:
        """The width of all key heads together, h_kv · D_h."""
        return self.h_kv * self.D_h

    @property
    def sharing(self) -> int:
        """How many query heads share one key head, h / h_kv."""
        return self.heads // self.h_kv

    @property
    def D_q(self) -> int:
        """The width of the queries that are given."""
        return self.W_Q.shape[0]

    @property
    def D_k(self) -> int:
        """The width of the keys that are given."""
        return self.W_K.shape[0]

    @property
    def D_v(self) -> int:
        """The width of the values that are given."""
        return self.W_V.shape[0]

    @property
    def D_out(self) -> int:
        """The width of the output."""
        return self.D if self.W_O is None else self.W_O.shape[1]

    @property
    def count(self) -> int:
        """How many numbers these parameters are."""
        return sum(int(np.prod(x.shape)) for x in self.arrays().values())

    @checked(check_head)
    def head(self, i: Size) -> "MultiHeadParameters":
        r"""Return the blocks of head i, as the parameters of attention with one head.

        .. math:: W^Q_i : (D_q, D_h), \quad W^K_i : (D_k, D_h), \quad W^V_i : (D_v, D_h), \quad W^O_i : (D_h, D_{out})

        The bias of the output belongs to no head and is left out.

        Args:
            i: the number of the head, from 0 to h − 1.

        Returns:
            Views of the columns that head i uses, and of its rows of W_O; ``heads`` is 1.

        Raises:
            TypeError: if ``i`` is not an integer.
            ValueError: if there is no head i.

        Source:
            Vaswani et al. (2017), section 3.2.2.
        """
        own = self._columns(int(i))
        shared = self._columns(int(i) // self.sharing)
        blocks = {
            name: x[..., shared if name[2:] in ("K", "V") else own]
            for name, x in self.arrays().items()
            if name not in ("W_O", "b_O")
        }
        blocks["W_O"] = None if self.W_O is None else self.W_O[own, :]
        return replace(self, **blocks, b_O=None, heads=1, kv_heads=None)

    def _columns(self, i: int) -> slice:
        """Return where block i of width D_h lies."""
        return slice(i * self.D_h, (i + 1) * self.D_h)

    @classmethod
    @checked(check_init)
    def init(
        cls,
        D: Size,
        heads: Size,
        *,
        kv_heads: Size | None = None,
        D_q: Size | None = None,
        D_k: Size | None = None,
        D_v: Size | None = None,
        D_out: Size | None = None,
        bias: bool = True,
        output: bool = True,
        seed: Size,
        like: Array | None = None,
    ) -> "MultiHeadParameters":
        r"""Draw parameters: each entry normal with variance 1 / (number of rows), each bias 0.

        .. math:: W_{rc} \sim \mathcal{N}(0, 1/\text{rows})

        So entries of unit variance stay at unit variance through each projection.

        Args:
            D: the width of all heads together.
            heads: the number of heads; divides D.
            kv_heads: the number of key heads; divides ``heads``. None means ``heads``.
            D_q: width of the queries; None means D. Likewise ``D_k``, ``D_v``,
                ``D_out``.
            D_k: see ``D_q``.
            D_v: see ``D_q``.
            D_out: see ``D_q``.
            bias: whether to have biases.
            output: whether to have W_O (and its bias).
            seed: of NumPy's generator. The same seed gives the same numbers in every
                library.
            like: a floating array whose library, dtype and device to use; None means
                NumPy, float64.

        Returns:
            The parameters.

        Raises:
            TypeError: if a size or the seed is not an integer, or ``like`` not a
                floating array.
            ValueError: if a size is below 1, ``heads`` does not divide D, ``kv_heads`` not
                ``heads``, or ``D_out`` is given without an output.

        Source:
            The variance follows LeCun et al. (1998), section 4.6.
        """
        xp, where = library_of(like)
        dtype = xp.float64 if like is None else like.dtype
        D, heads = int(D), int(heads)
        rng = np.random.default_rng(int(seed))

        def draw(rows: Any, columns: Any) -> Any:
            drawn = rng.standard_normal((rows, columns)) / np.sqrt(rows)
            return xp.astype(xp.asarray(drawn, device=where), dtype)

        def zeros(size: Any) -> Any:
            return (
                xp.zeros((size,), dtype=dtype, device=where)
                if bias
                else None
            )

        # As in __post_init__; and the root of a NumPy integer of few bits is a rounded one.
        rows = [
            D if size is None else int(size) for size in (D_q, D_k, D_v)
        ]
        D_kv = D if kv_heads is None else D // heads * int(kv_heads)
        widths = (D, D_kv, D_kv)
        columns = D if D_out is None else int(D_out)
        return cls(
            *(draw(*shape) for shape in zip(rows, widths, strict=True)),
            draw(D, columns) if output else None,
            *(zeros(width) for width in widths),
            zeros(columns) if output else None,
            heads=heads,
            kv_heads=kv_heads,
        )

    @classmethod
    @checked(check_from_torch)
    def from_torch(cls, module: Any) -> "MultiHeadParameters":
        r"""Read the weights of a ``torch.nn.MultiheadAttention``.

        .. math:: W = W_{\text{torch}}^\top

        torch stores each projection transposed, and the first three packed into one
        where their widths agree. The arrays are views of the module's own: gradients
        flow to it.

        Args:
            module: a ``torch.nn.MultiheadAttention``.

        Returns:
            The parameters, as torch tensors.

        Raises:
            TypeError: if ``module`` has not the attributes of one.
            ValueError: if it was made with ``add_bias_kv`` or ``add_zero_attn``, which
                have no counterpart here.

        Source:
            Documentation of ``torch.nn.MultiheadAttention``, PyTorch 2.13.
        """
        D = module.embed_dim
        if module.in_proj_weight is not None:
            weights = [
                module.in_proj_weight[n * D : (n + 1) * D] for n in range(3)
            ]
        else:
            weights = [
                module.q_proj_weight,
                module.k_proj_weight,
                module.v_proj_weight,
            ]
        packed = module.in_proj_bias
        biases = [
            None if packed is None else packed[n * D : (n + 1) * D]
            for n in range(3)
        ]
        out = module.out_proj
        return cls(
            *(W.mT for W in weights),
            out.weight.mT,
            *biases,
            out.bias,
            heads=module.num_heads,
        )
