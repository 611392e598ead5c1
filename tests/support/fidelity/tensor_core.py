"""mma in all shapes and types, ldmatrix, stmatrix, cp.async and setmaxnreg."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from support.fidelity.case import Bound, Case

import tkjit
from tkjit import In, Out, Tensor

HERE = Path(__file__).parent
BITS = {"half": 16, "bfloat16": 16, "e4m3": 8, "e5m2": 8, "int8": 8, "uint8": 8, "tf32": 32}
CPP = {"half": "__half", "bfloat16": "__nv_bfloat16", "e4m3": "__nv_fp8_e4m3", "e5m2": "__nv_fp8_e5m2"} | {
    "int8": "int8_t",
    "uint8": "uint8_t",
    "tf32": "tkjit::tf32",
}
TORCH = {"half": torch.float16, "bfloat16": torch.bfloat16, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2} | {
    "int8": torch.int8,
    "uint8": torch.uint8,
    "tf32": torch.float32,
}


@dataclass(frozen=True)
class Product:
    """A wrapper of an mma instruction.

    A is (m, k) of type ``a``, B (k, 8) of type ``b``, C and D (m, 8) of type ``sum``: float, half or int32.
    """

    m: int
    k: int
    a: str
    b: str
    sum: str
    saturates: bool = False

    @property
    def call(self) -> str:
        arguments = CPP[self.a] if self.a == self.b else f"{CPP[self.a]}, {CPP[self.b]}"
        return f"mma_m{self.m}n8k{self.k}{'_satfinite' * self.saturates}<{arguments}>"

    @property
    def name(self) -> str:
        return f"{self.call} into {self.sum}"

    def line(self, index: int) -> str:
        register = {"float": "float", "half": "uint32_t", "int32": "int32_t"}[self.sum]
        d_registers = self.m // 8 if self.sum == "half" else self.m // 4
        a_registers, b_registers = (rows * self.k * BITS[self.a] // 1024 for rows in (self.m, 8))
        return f"PRODUCT({index}, {register}, {d_registers}, {a_registers}, {b_registers}, {self.call})"

    # The positions below follow the PTX ISA's figures, lane by lane.

    def a_matrix(self, words: np.ndarray) -> np.ndarray:
        elements = _elements(words, self.a)
        matrix = np.full((self.m, self.k), np.nan)
        for lane in range(32):
            for i in range(self.m * self.k // 32):
                register, e = divmod(i, elements.shape[2])
                row = lane // 4 + (8 if register in (1, 3) else 0)
                column = lane % 4 * elements.shape[2] + e + (4 * elements.shape[2] if register >= 2 else 0)
                matrix[row, column] = elements[lane, register, e]
        return matrix

    def b_matrix(self, words: np.ndarray) -> np.ndarray:
        elements = _elements(words, self.b)
        matrix = np.full((self.k, 8), np.nan)
        for lane in range(32):
            for i in range(self.k * 8 // 32):
                register, e = divmod(i, elements.shape[2])
                row = lane % 4 * elements.shape[2] + e + 4 * elements.shape[2] * register
                matrix[row, lane // 4] = elements[lane, register, e]
        return matrix

    def lanes_sums(self, words: np.ndarray) -> np.ndarray:
        """Return the (32, m / 4) elements of C or D in the lanes' registers."""
        dtype = {"float": np.float32, "half": np.float16, "int32": np.int32}[self.sum]
        return np.ascontiguousarray(words).view(dtype)[:, : self.m // 4]

    def lanes_of(self, matrix: np.ndarray) -> np.ndarray:
        """Distribute an (m, 8) matrix over the lanes, as (32, m / 4) elements."""
        lane = np.arange(32)[:, None]
        i = np.arange(self.m // 4)
        return matrix[lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2]

    def exact(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        product = self.lanes_of(self.a_matrix(a) @ self.b_matrix(b)) + self.lanes_sums(c).astype(np.float64)
        if self.sum != "int32":
            return product.astype(np.float32 if self.sum == "float" else np.float16)
        sums = product.astype(np.int64)
        return (np.clip(sums, -(2**31), 2**31 - 1) if self.saturates else sums).astype(np.int32)

    def magnitude(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
        """Return the largest sum of absolute values, to which rounding errors are relative."""
        product = np.abs(self.a_matrix(a)) @ np.abs(self.b_matrix(b))
        return float((self.lanes_of(product) + np.abs(self.lanes_sums(c).astype(np.float64))).max())


def _elements(words: np.ndarray, name: str) -> np.ndarray:
    """Unpack words into values of shape (32, registers, elements)."""
    packed = torch.from_numpy(np.ascontiguousarray(words)).view(TORCH[name]).double().numpy()
    return packed.reshape(32, words.shape[1], 32 // BITS[name])


def _random_words(generator: np.random.Generator, name: str) -> np.ndarray:
    """Generate (32, 4) registers of random elements."""
    count = 4 * 32 // BITS[name]
    if name.endswith("int8"):
        return generator.integers(0, 256, (32, count), dtype=np.uint8).view(np.int32)
    numbers = torch.from_numpy(generator.standard_normal((32, count)).astype(np.float32)).to(TORCH[name])
    words = numbers.view(torch.int32).numpy()
    return words & ~0x1FFF if name == "tf32" else words


def _random_sums(generator: np.random.Generator, name: str) -> np.ndarray:
    if name == "int32":
        return generator.choice(np.array([2**31 - 1, -(2**31), 1000, -1000], np.int32), (32, 4))
    dtype, count = (np.float16, 8) if name == "half" else (np.float32, 4)
    return generator.standard_normal((32, count)).astype(dtype).view(np.int32)


def family(name: str, products: list[Product], device_error: float) -> Case:
    """Make a case of all products. A device's error is at most ``device_error`` times the sum of absolute values."""
    lines = "\n    ".join(product.line(index) for index, product in enumerate(products))
    source = (HERE / "tensor_core.cu").read_text().replace("// PRODUCTS", lines)
    count = len(products)

    def multiply(
        a: In[Tensor, "int32", count, 32, 4],
        b: In[Tensor, "int32", count, 32, 4],
        c: In[Tensor, "int32", count, 32, 4],
        d: Out[Tensor, "int32", count, 32, 4],
    ) -> Tensor: ...

    multiply.__name__ = multiply.__qualname__ = name
    kernel = tkjit.kernel(source, entry="multiply_all", grid=1, block=32)(multiply)

    def inputs() -> tuple[torch.Tensor, ...]:
        generator = np.random.default_rng(11)
        stacks = [
            (
                _random_words(generator, product.a),
                _random_words(generator, product.b),
                _random_sums(generator, product.sum),
            )
            for product in products
        ]
        return tuple(torch.from_numpy(np.stack(arrays)) for arrays in zip(*stacks, strict=True))

    def expected(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Mapping[str, np.ndarray]:
        return {p.name: p.exact(a[i].numpy(), b[i].numpy(), c[i].numpy()) for i, p in enumerate(products)}

    a, b, c = (tensor.numpy() for tensor in inputs())
    magnitudes = {p.name: p.magnitude(a[i], b[i], c[i]) for i, p in enumerate(products) if p.sum != "int32"}
    is_half = {product.name: product.sum == "half" for product in products}
    return Case(
        name,
        kernel,
        inputs,
        lambda d: {p.name: p.lanes_sums(d[i].numpy()) for i, p in enumerate(products)},
        expected,
        {key: _bound(magnitude, 32 * 2.0**-24, is_half[key], 1) for key, magnitude in magnitudes.items()},
        {key: _bound(magnitude, device_error, is_half[key], 2) for key, magnitude in magnitudes.items()},
    )


def _bound(magnitude: float, error: float, is_half: bool, roundings: int) -> Bound:
    """Bound an error relative to the magnitude; for halves, add the roundings of the result and intermediate sums."""
    return lambda wanted: magnitude * (error + (roundings * 2.0**-11 if is_half else 0)) + np.zeros_like(wanted)


def _pairs(*names: str) -> list[tuple[str, str]]:
    return [(a, b) for a in names for b in names]


MMA = {
    "mma_f16": family(
        "mma_f16",
        [Product(16, k, t, t, "float") for k in (8, 16) for t in ("half", "bfloat16")]
        + [Product(16, k, "half", "half", "half") for k in (8, 16)],
        32 * 2.0**-23,
    ),
    # The tensor cores of sm_89 keep about 13 bits of a sum of 8-bit products.
    "mma_fp8": family(
        "mma_fp8",
        [Product(16, k, a, b, s) for k in (16, 32) for a, b in _pairs("e4m3", "e5m2") for s in ("float", "half")],
        2.0**-11,
    ),
    "mma_int8": family(
        "mma_int8",
        [
            Product(m, k, a, b, "int32", saturates)
            for m, k in ((8, 16), (16, 16), (16, 32))
            for a, b in _pairs("int8", "uint8")
            for saturates in (False, True)
        ],
        0,
    ),
    "mma_tf32": family("mma_tf32", [Product(16, k, "tf32", "tf32", "float") for k in (4, 8)], 32 * 2.0**-23),
}


@tkjit.kernel(HERE / "matrices.cu", entry="move_matrices", grid=1, block=32)
def matrices(
    x: In[Tensor, "int32", 128],
    copied: Out[Tensor, "int32", 2, 128],
    loaded: Out[Tensor, "int32", 6, 128],
    stored: Out[Tensor, "int32", 6, 128],
): ...


@tkjit.kernel(HERE / "registers.cu", entry="move_registers", grid=1, block=256)
def registers(x: In[Tensor, "int32", 256], y: Out[Tensor, "int32", 256]) -> Tensor: ...


def random_words(count: int) -> tuple[torch.Tensor]:
    return (torch.from_numpy(np.random.default_rng(3).integers(1, 2**31, count).astype(np.int32)),)


def moved_matrices(x: torch.Tensor) -> Mapping[str, np.ndarray]:
    """Compute the expected results of move_matrices.

    Source: PTX ISA. Lane l holds row l / 4, columns 2 (l % 4) and 2 (l % 4) + 1 of each matrix or of its transpose.
    """
    halves = x.numpy().view(np.uint16).reshape(4, 8, 8)
    by_lane = x.numpy().reshape(32, 4)
    copied = np.stack([x.numpy(), _kept_bytes(x.numpy())])
    loaded, stored = np.zeros((2, 6, 32, 4), np.int32)
    for mode in range(6):
        count, is_transposed = (1, 2, 4)[mode % 3], mode >= 3
        source = halves.transpose(0, 2, 1) if is_transposed else halves
        words = np.ascontiguousarray(source).view(np.int32).reshape(4, 32).T
        loaded[mode, :, :count] = words[:, :count]
        matrices = np.ascontiguousarray(by_lane.T[:count]).view(np.uint16).reshape(count, 8, 8)
        matrices = matrices.transpose(0, 2, 1) if is_transposed else matrices
        stored[mode].reshape(-1)[: 32 * count] = np.ascontiguousarray(matrices).view(np.int32).reshape(-1)
    return {"copied": copied, "loaded": loaded.reshape(6, 128), "stored": stored.reshape(6, 128)}


def _kept_bytes(words: np.ndarray) -> np.ndarray:
    """Keep the first l % 17 of lane l's 16 bytes, and replace the rest by zeros."""
    rows = words.view(np.uint8).reshape(32, 16)
    kept = np.where(np.arange(16) < (np.arange(32) % 17)[:, None], rows, 0).astype(np.uint8)
    return kept.reshape(-1).view(np.int32)


def named(copied: torch.Tensor, loaded: torch.Tensor, stored: torch.Tensor) -> Mapping[str, np.ndarray]:
    """Name the results, and clear the words that ldmatrix .x1 and .x2 do not load."""
    return {"copied": copied.numpy(), "loaded": _given(loaded.numpy()), "stored": stored.numpy()}


def _given(loaded: np.ndarray) -> np.ndarray:
    count = np.array([1, 2, 4, 1, 2, 4])[:, None, None]
    return np.where(np.arange(4) < count, loaded.reshape(6, 32, 4), 0).reshape(6, 128)


CASES = [
    *MMA.values(),
    Case("matrices", matrices, lambda: random_words(128), named, moved_matrices),
    Case(
        "registers",
        registers,
        lambda: random_words(256),
        lambda y: {"y": y.numpy()},
        lambda x: {"y": np.where(np.arange(256) < 128, x.numpy() + 1, x.numpy() * 2)},
    ),
]
