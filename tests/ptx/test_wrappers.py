"""The wrappers of tensor maps and wgmma in the simulator: exact results, and rejected inputs."""

from __future__ import annotations

import pytest
import torch
from support.hopper.wrapped import WRAPPED, Wrapped
from support.sampling import sample

import tkjit
from tkjit import In, InOut, Strided, Tensor

pytestmark = pytest.mark.compiles


@pytest.mark.parametrize("product", sample(WRAPPED, "e4m3-128", "bf16-64-adds", name=str), ids=str)
def test_a_product_is_exact(product: Wrapped):
    a, b = product.inputs()
    assert torch.equal(product.kernel(a, b).double(), product.expected(a, b))


MAPPED = """
#include <tkjit/tensor_map.cuh>
struct Problem { tkjit::tiled<float, 8, 32> x; };
__global__ void look(const __grid_constant__ Problem g) {
    if (g.x.raw_ptr && g.x.cols()) g.x.raw_ptr[0] = g.x.is_mapped ? g.x.rows() : -1;
}
"""


@tkjit.kernel(MAPPED, entry="look", struct="Problem", grid=1, block=1)
def look(x: InOut[Tensor, "float32", "B", "M", "N"]) -> None: ...


@pytest.mark.parametrize(
    ("shape", "offset", "seen"), [((2, 3, 4), 0, 6), ((2, 3, 5), 0, -1), ((2, 3, 4), 1, -1), ((0, 3, 4), 0, 0)]
)
def test_a_tensor_that_tma_cannot_copy_is_not_mapped(shape, offset, seen):
    size = torch.Size(shape).numel()
    x = torch.zeros(size + offset + 1)[offset : offset + size].view(shape)
    look(x)
    assert not size or x.flatten()[0] == seen


VIEWED = """
#include <tkjit/tensor_map.cuh>
struct View : tkjit::tiled<float, 8, 32, 128, RANK> {
    using made_from = tkjit::strided<float, RANK>;
    View(const made_from& matrix) : tiled(matrix) {}
};
struct Problem { View x; tkjit::gl<int> y; };
__global__ void look(const __grid_constant__ Problem g) { g.y[0] = g.x.is_mapped + 2 * g.x.is_repeated; }
"""


@tkjit.kernel(VIEWED, entry="look", struct="Problem", grid=1, block=1, defines={"RANK": 2})
def look_at_matrix(x: In[Strided, "float32", "M", "N"], y: InOut[Tensor, "int32", 1]) -> None: ...


@tkjit.kernel(VIEWED, entry="look", struct="Problem", grid=1, block=1, defines={"RANK": 3})
def look_at_batch(x: In[Strided, "float32", "B", "M", "N"], y: InOut[Tensor, "int32", 1]) -> None: ...


MATRIX, BATCH = torch.zeros(24, 40), torch.zeros(3, 24, 40)


@pytest.mark.parametrize(
    ("x", "seen"),
    [
        pytest.param(MATRIX, 1, id="contiguous"),
        pytest.param(MATRIX[3:9, 4:20], 1, id="slice"),
        pytest.param(MATRIX[:1, ::2].T, 0, id="column of a slice"),
        pytest.param(MATRIX[:, 1:], 0, id="odd address"),
        pytest.param(torch.zeros(24, 41)[:, :40], 0, id="odd rows"),
        pytest.param(MATRIX.T, 0, id="transposed"),
        pytest.param(MATRIX[0].expand(5, 40), 0, id="one row"),
        pytest.param(MATRIX[:1, :7], 1, id="a single row of any length"),
        pytest.param(MATRIX[:0], 0, id="empty"),
        pytest.param(BATCH, 1, id="batch"),
        pytest.param(BATCH.transpose(0, 1), 1, id="permuted batch"),
        pytest.param(MATRIX.expand(3, 24, 40), 3, id="repeated"),
        pytest.param(MATRIX.expand(0, 24, 40), 2, id="empty batch"),
        pytest.param(BATCH[:, :, 1:], 0, id="batch at an odd address"),
    ],
)
def test_strided_matrices_that_tma_can_copy(x, seen):
    y = torch.full((1,), -1, dtype=torch.int32)
    (look_at_matrix if x.dim() == 2 else look_at_batch)(x, y)
    assert y.item() == seen


@pytest.mark.parametrize("columns", [16, 64])
def test_a_tile_that_is_not_as_wide_as_its_swizzle_is_a_compile_error(columns):
    source = MAPPED.replace("8, 32>", f"8, {columns}>")

    @tkjit.kernel(source, entry="look", struct="Problem", grid=1, block=1)
    def wide(x: InOut[Tensor, "float32", "M", "N"]) -> None: ...

    with pytest.raises(tkjit.CompileError, match="a row of a tile has as many bytes as the swizzle"):
        wide(torch.zeros(8, 64))
