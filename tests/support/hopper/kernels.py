"""The kernels of this folder: a product for each element type and layout, and a kernel that moves a box."""

from dataclasses import dataclass
from pathlib import Path

import torch

import tkjit
from tkjit import In, InOut, Out, Tensor

DIRECTORY = Path(__file__).parent
TYPES = {  # PTX's name of a type: (its C++ name, its name in tensor maps, torch's dtype)
    "bf16": ("__nv_bfloat16", "BFLOAT16", torch.bfloat16),
    "f16": ("__half", "FLOAT16", torch.float16),
    "e4m3": ("__nv_fp8_e4m3", "UINT8", torch.float8_e4m3fn),
    "e5m2": ("__nv_fp8_e5m2", "UINT8", torch.float8_e5m2),
    "tf32": ("float", "FLOAT32", torch.float32),
    "s8": ("int8_t", "UINT8", torch.int8),
    "u8": ("uint8_t", "UINT8", torch.uint8),
}


@dataclass(frozen=True)
class Product:
    """``a @ b`` with a (64, K) and b (K, 64), where K elements are 128 bytes."""

    element: str
    swizzle: int = 128
    a_by_columns: bool = False
    b_by_rows: bool = False
    a_in_registers: bool = False

    def __str__(self) -> str:
        flags = [name for name in ("a_by_columns", "b_by_rows", "a_in_registers") if getattr(self, name)]
        return "-".join([self.element, str(self.swizzle), *flags])

    @property
    def dtype(self) -> torch.dtype:
        return TYPES[self.element][2]

    @property
    def kernel(self) -> tkjit.Kernel:
        cpp, name, dtype = TYPES[self.element]
        is_integer, size = self.element in ("s8", "u8"), dtype.itemsize
        k, sums = 128 // size, "s32" if is_integer else "f32"
        text = str(dtype).removeprefix("torch.")
        a_shape, b_shape = ((k, 64) if by else (64, k) for by in (self.a_by_columns, self.b_by_rows))
        result = "int32" if is_integer else "float32"

        @tkjit.kernel(
            DIRECTORY / "product.cu",
            entry="multiply_tile",
            args=True,
            host=True,
            defines={
                "ELEMENT": cpp,
                "SUM": "int32_t" if is_integer else "float",
                "TYPES": f'"{sums}.{self.element}.{self.element}"',
                "SHAPE": f'"m64n64k{32 // size}"',
                "MAP_TYPE": f"CU_TENSOR_MAP_DATA_TYPE_{name}",
                "SWIZZLE": self.swizzle,
                "SUMS_ARE_INTEGERS": int(is_integer),
                "TWO_BYTES": int(size == 2),
                "A_BY_COLUMNS": int(self.a_by_columns),
                "B_BY_ROWS": int(self.b_by_rows),
                "A_IN_REGISTERS": int(self.a_in_registers),
            },
        )
        def product(
            a: In[Tensor, text, a_shape[0], a_shape[1]],
            b: In[Tensor, text, b_shape[0], b_shape[1]],
            result: Out[Tensor, result, 64, 64],
        ) -> Tensor: ...

        return product

    def inputs(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Generate inputs in the kernel's layouts, with values whose products and sums are exact."""
        generator = torch.Generator().manual_seed(0)
        k = 128 // self.dtype.itemsize
        low = 0 if self.element == "u8" else -4
        a = torch.randint(low, 5, (64, k), generator=generator)
        b = torch.randint(low, 5, (k, 64), generator=generator)
        return (a.T if self.a_by_columns else a).contiguous().to(self.dtype), (
            (b if self.b_by_rows else b.T).contiguous().to(self.dtype)
        )

    def expected(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = a.double(), b.double()
        return (a.T if self.a_by_columns else a) @ (b if self.b_by_rows else b.T)


PRODUCTS = (
    *(Product("bf16", swizzle, a, b) for swizzle in (0, 32, 64, 128) for a in (False, True) for b in (False, True)),
    *(Product("f16", 128, b_by_rows=b) for b in (False, True)),
    *(Product(element, swizzle) for element in ("e4m3", "e5m2", "tf32", "s8", "u8") for swizzle in (0, 128)),
    *(Product(element, 128, a_in_registers=True) for element in ("bf16", "f16", "e4m3", "tf32", "s8")),
)


@tkjit.kernel(DIRECTORY / "boxes.cu", entry="move", args=True, host=True, computed={"D": "D", "R": "R", "C": "C"},
              fields="source target D R C x y z to_x to_y to_z adds nan")  # fmt: skip
def move_box(
    source: In[Tensor, "float32", "D", "R", "C"], target: InOut[Tensor, "float32", "D", "R", "C"],
    x: int, y: int, z: int, to_x: int, to_y: int, to_z: int, adds: int = 0, nan: int = 0,
) -> None: ...  # fmt: skip


# The coordinates at which a box is read, then those at which it is written; only reads may begin below zero.
BOXES = (
    (0, 0, 0, 0, 0, 0),
    (4, 2, 1, 4, 2, 1),
    (-4, -1, -1, 0, 0, 0),
    (12, 7, 4, 12, 7, 4),
    (40, 0, 0, 40, 0, 0),
    (0, 0, 0, 12, 7, 4),
)


@dataclass(frozen=True)
class SparseProduct:
    """``a @ b.T`` with a sparse a (64, K) and b (8, K), where K elements are 64 bytes.

    Of each four elements in a row of a, two are stored; of each two in tf32, one is.
    """

    element: str
    pair: int = 0

    def __str__(self) -> str:
        return f"sparse-{self.element}-{self.pair}"

    @property
    def dtype(self) -> torch.dtype:
        return TYPES[self.element][2]

    @property
    def k(self) -> int:
        return 64 // self.dtype.itemsize

    def define(self, source: str) -> tkjit.Kernel:
        is_integer = self.element in ("s8", "u8")
        signs = "" if is_integer else ", 1, 1, 0, 0" if self.dtype.itemsize == 2 else ", 1, 1"
        result = "int32" if is_integer else "float32"

        @tkjit.kernel(
            source,
            entry="sparse",
            args=True,
            grid=1,
            block=128,
            include_dirs=[DIRECTORY],
            defines={
                "SUM": "int32_t" if is_integer else "float",
                "SUMS_ARE_INTEGERS": int(is_integer),
                "SHAPE": f'"m64n8k{self.k}"',
                "TYPES": f'"{"s32" if is_integer else "f32"}.{self.element}.{self.element}"',
                "SIGNS": f'"{signs}"',
                "PAIR": self.pair,
            },
        )
        def sparse(
            a: In[Tensor, "uint8", 64, 32],
            metadata: In[Tensor, "int32", 128],
            b: In[Tensor, "uint8", 8, 64],
            result: Out[Tensor, result, 64, 8],
        ) -> Tensor: ...

        return sparse

    @property
    def kernel(self) -> tkjit.Kernel:
        return self.define((DIRECTORY / "sparse.cu").read_text())

    def inputs(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Generate the stored elements of a, their metadata, b, and the whole of a."""
        generator = torch.Generator().manual_seed(0)
        low = 0 if self.element == "u8" else -4
        b = torch.randint(low, 5, (8, self.k), generator=generator).to(self.dtype)
        width = 2 if self.element == "tf32" else 4
        groups = self.k // width
        stored = torch.randint(low, 5, (64, groups, width // 2), generator=generator).to(self.dtype)
        order = torch.rand(64, groups, width, generator=generator).argsort(-1)
        places = order[..., : width // 2].sort(-1).values
        whole = torch.zeros(64, groups, width, dtype=torch.float64)
        whole.scatter_(-1, places, stored.double())
        codes = 4 + 10 * places[..., 0] if width == 2 else places[..., 0] + 4 * places[..., 1]
        # an (upper or lower) half of a thread's metadata, or all of it for 8 bits, is for half of a row
        halves = (codes.reshape(64, 2, -1) << 4 * torch.arange(groups // 2)).sum(-1)
        metadata = torch.zeros(4, 8, 4, dtype=torch.int64)  # by warp, by group of four lanes, and by lane
        rows = halves.reshape(4, 2, 8, 2)  # by warp, upper rows, row, half of the row
        for half in range(2):
            if self.dtype.itemsize == 1:
                for upper in range(2):
                    metadata[..., 2 * half + upper] = rows[:, upper, :, half]
            else:
                metadata[..., 2 * self.pair + half] = rows[:, 0, :, half] | rows[:, 1, :, half] << 16
        metadata = metadata.where(metadata < 1 << 31, metadata - (1 << 32)).to(torch.int32).flatten()
        return stored.reshape(64, -1).view(torch.uint8), metadata, b.view(torch.uint8), whole.reshape(64, -1)


SPARSE_PRODUCTS = (
    *(SparseProduct("bf16", pair) for pair in (0, 1)),
    SparseProduct("tf32"),
    *(SparseProduct(element) for element in ("f16", "e4m3", "e5m2", "s8", "u8")),
)
