"""Products of nvcuda::wmma on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from support.simulator.compiled import SOURCES, Library, compile_source

pytestmark = pytest.mark.compiles
SHAPES = {16: (16, 16, 16), 32: (32, 8, 16), 8: (8, 32, 16)}
# for each name in the source: the type of A and B in memory, and the type of C
TYPES = {
    "half": (np.float16, np.float32),
    "half_to_half": (np.float16, np.float16),
    "int8": (np.int8, np.int32),
    "uint8": (np.uint8, np.int32),
    "bfloat16": (np.uint16, np.float32),
}
CASES = [(name, *SHAPES[m]) for name in TYPES for m in SHAPES] + [("tf32", 16, 16, 8), ("float64", 8, 8, 4)]
TYPES |= {"tf32": (np.float32, np.float32), "float64": (np.float64, np.float64)}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return compile_source(SOURCES / "wmma.cu", tmp_path_factory.mktemp("wmma"))


@pytest.mark.slow
@pytest.mark.parametrize("by_rows", [0, 1])
@pytest.mark.parametrize("name, m, n, k", CASES)
def test_products(library, name, m, n, k, by_rows):
    rng = np.random.default_rng(m + n + k)
    low = 0 if name == "uint8" else -4
    a, b, c = (rng.integers(low, 5, shape) for shape in [(m, k), (k, n), (m, n)])
    order, other = ("C", "F") if by_rows else ("F", "C")
    stored, summed = TYPES[name]

    def in_memory(matrix: np.ndarray, arrangement: str) -> np.ndarray:
        if name == "bfloat16":
            matrix = matrix.astype(np.float32).view(np.uint32) >> 16
        return matrix.astype(stored).ravel(order=arrangement)

    result = c.astype(summed).ravel(order=order)
    launched = library.launch(f"{name}_{m}_{by_rows}", 1, 32, in_memory(a, order), in_memory(b, other), result)
    assert launched is None
    np.testing.assert_array_equal(result.reshape((m, n), order=order), 3 * (a @ b) + c)


def test_a_part_of_a_warp_is_rejected(library):
    zeros = np.zeros(256, np.int8)
    assert "all 32 lanes" in library.launch("int8_16_1", 1, 16, zeros, zeros, np.zeros(256, np.int32))
