"""Products with the wrappers of ``tkjit/include/tkjit``, for each element type, and for widths from 32 to 256."""

from dataclasses import dataclass

import torch

import tkjit
from support.hopper.kernels import DIRECTORY, TYPES
from tkjit import CExpr, In, Out, Tensor


@dataclass(frozen=True)
class Wrapped:
    """``a @ b`` with a (64, K) and b (K, n), where K elements are 128 bytes.

    Memory has b as (n, K), or as (K, n) if ``b_is_columns``; it has a as (K, 64) if ``a_is_columns``.

    Parameters
    ----------
    rows, columns : int
        The result's extents, if they are smaller than the tile.
    adds : bool
        Whether the tile is also added to the result after it has been stored.
    """

    element: str
    n: int
    b_is_columns: bool = False
    a_is_columns: bool = False
    rows: int = 64
    columns: int = 0
    adds: bool = False

    def __str__(self) -> str:
        flags = [
            "a-columns" * self.a_is_columns,
            "columns" * self.b_is_columns,
            "part" * bool(self.columns),
            "adds" * self.adds,
        ]
        return "-".join([self.element, str(self.n), *filter(None, flags)])

    @property
    def kernel(self) -> tkjit.Kernel:
        cpp, _, dtype = TYPES[self.element]
        is_integer = self.element == "s8"
        text = str(dtype).removeprefix("torch.")
        result = "int32" if is_integer else "float32"
        a_shape = ("K", "M") if self.a_is_columns else ("M", "K")
        b_shape = ("K", "N") if self.b_is_columns else ("N", "K")

        @tkjit.kernel(
            DIRECTORY / "wrappers.cu",
            entry="multiply",
            struct="Globals",
            grid=1,
            block=128,
            shared_memory=CExpr("sizeof(Shared)"),
            defines={
                "ELEMENT": cpp,
                "SUM": "int" if is_integer else "float",
                "WIDTH": self.n,
                "COLUMNS": int(self.b_is_columns),
                "A_COLUMNS": int(self.a_is_columns),
                "ADDS": int(self.adds),
            },
        )
        def product(
            a: In[Tensor, text, a_shape[0], a_shape[1]],
            b: In[Tensor, text, b_shape[0], b_shape[1]],
            d: Out[Tensor, result, "M", "N"],
        ) -> Tensor: ...

        return product

    def inputs(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Generate inputs whose products and sums are exact."""
        generator = torch.Generator().manual_seed(0)
        dtype = TYPES[self.element][2]
        k, n = 128 // dtype.itemsize, self.columns or self.n
        a = torch.randint(-4, 5, (self.rows, k), generator=generator)
        b = torch.randint(-4, 5, (k, n), generator=generator)
        return (a.T if self.a_is_columns else a).contiguous().to(dtype), (
            b if self.b_is_columns else b.T
        ).contiguous().to(dtype)

    def expected(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return ((a.T if self.a_is_columns else a).double() @ (b if self.b_is_columns else b.T).double()) * (
            2 if self.adds else 1
        )


WRAPPED = (
    *(Wrapped("bf16", n, True) for n in (64, 128, 192, 256)),
    *(Wrapped("bf16", n) for n in (32, 96, 160, 224, 256)),
    *(Wrapped(element, n) for element in ("e4m3", "e5m2", "tf32", "s8") for n in (32, 128)),
    Wrapped("f16", 64, True),
    Wrapped("bf16", 64, True, True),
    Wrapped("f16", 96, False, True),
    Wrapped("f16", 64),
    Wrapped("bf16", 128, True, rows=33, columns=72),
    Wrapped("bf16", 64, adds=True),
)
