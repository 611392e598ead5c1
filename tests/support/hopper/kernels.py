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
