"""Hopper's inline PTX on the CPU against references: products with wgmma, boxes with tensor maps."""

from __future__ import annotations

import pytest
import torch
from support.define import define
from support.hopper.kernels import BOXES, PRODUCTS, SPARSE_PRODUCTS, Product, SparseProduct, move_box
from support.sampling import sample

import tkjit

pytestmark = pytest.mark.compiles
USUAL = ("bf16-0-a_by_columns-b_by_rows", "e4m3-128", "bf16-128-a_in_registers")


@pytest.mark.parametrize("product", sample(PRODUCTS, *USUAL, name=str), ids=str)
def test_a_product_equals_its_reference(product: Product):
    a, b = product.inputs()
    assert torch.equal(product.kernel(a, b).double(), product.expected(a, b))


@pytest.mark.parametrize("product", sample(SPARSE_PRODUCTS, "sparse-bf16-1", "sparse-tf32-0", name=str), ids=str)
def test_a_product_of_a_sparse_matrix_equals_its_reference(product: SparseProduct):
    a, metadata, b, whole = product.inputs()
    expected = whole @ b.view(product.dtype).double().T
    assert torch.equal(product.kernel(a, metadata, b).double(), expected)


def test_invalid_metadata_of_a_sparse_matrix_is_an_error():
    a, metadata, b, _ = SparseProduct("bf16").inputs()
    metadata[5] = 0
    with pytest.raises(tkjit.LaunchError, match=r"wgmma\.sp: the metadata 0x0 is invalid"):
        SparseProduct("bf16").kernel(a, metadata, b)


@pytest.mark.parametrize("at", BOXES, ids=str)
@pytest.mark.parametrize("adds", [0, 1])
def test_a_moved_box_equals_its_reference(at, adds):
    source, target = torch.randn(5, 9, 16), torch.randn(5, 9, 16)
    expected = target.clone()
    # the padding covers elements outside of the tensor
    x, y, z, to_x, to_y, to_z = at
    read = torch.nn.functional.pad(source, [48] * 6)[48 + z :, 48 + y :, 48 + x :][:2, :4, :8]
    written = expected[to_z : to_z + 2, to_y : to_y + 4, to_x : to_x + 8]
    inside = tuple(map(slice, written.shape))
    written.copy_(read[inside] + 1 + (written if adds else 0))
    move_box(source, target, *at, adds=adds)
    assert torch.allclose(target, expected)


@pytest.mark.parametrize("adds", [0, 1])
@pytest.mark.parametrize(("x", "to_x"), [(13, 0), (-3, 0), (12, 1)], ids=["read", "read below zero", "written"])
def test_a_box_must_begin_at_a_multiple_of_16_bytes(x, to_x, adds):
    """An H100 ends such a kernel, and the kernels of the next test, with an illegal instruction."""
    at = to_x or x
    message = rf"coordinate {at} of the innermost dimension is {4 * at} bytes; it must be a multiple of 16 bytes"
    with pytest.raises(tkjit.LaunchError, match=message):
        move_box(torch.randn(5, 9, 16), torch.randn(5, 9, 16), x, 0, 0, to_x, 0, 0, adds=adds)


@pytest.mark.parametrize("adds", [0, 1])
@pytest.mark.parametrize(("dim", "to"), [(0, (-4, 0, 0)), (1, (0, -1, 0)), (2, (0, 0, -1))])
def test_a_box_cannot_be_written_below_zero(dim, to, adds):
    message = rf"to global memory: coordinate {to[dim]} of dimension {dim} is below zero"
    with pytest.raises(tkjit.LaunchError, match=message):
        move_box(torch.randn(5, 9, 16), torch.randn(5, 9, 16), 0, 0, 0, *to, adds=adds)


@pytest.mark.parametrize("nan", [0, 1])
def test_elements_outside_of_the_tensor_are_filled(nan):
    target = torch.zeros(5, 9, 16)
    move_box(torch.ones(5, 9, 16), target, 12, 0, 0, 0, 0, 0, nan=nan)
    assert torch.equal(target[:2, :4, :4], torch.full((2, 4, 4), 2.0))
    filled = target[:2, :4, 4:8]
    assert filled.isnan().all() if nan else torch.equal(filled, torch.ones(2, 4, 4))


REDUCE = """
#include <tkjit/bulk_copy.cuh>

__global__ void reduce(ELEMENT* y, const ELEMENT* x) {
    __shared__ alignas(128) ELEMENT tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    tkjit::fence_async_proxy();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint." KIND " [%0], [%1], %2, %3;"
                     ::"l"(y), "r"(unsigned(__cvta_generic_to_shared(tile))), "n"(sizeof tile), "l"(0ull) : "memory");
        tkjit::bulk_store_commit();
        tkjit::bulk_store_wait<0>();
    }
}
"""


@pytest.mark.parametrize(
    ("kind", "cpp", "dtype", "combine"),
    [
        ("add.f32", "float", "float32", torch.add),
        pytest.param("min.s32", "int", "int32", torch.minimum, marks=pytest.mark.slow),
        pytest.param("xor.b32", "int", "int32", torch.bitwise_xor, marks=pytest.mark.slow),
    ],
)
def test_three_blocks_reduce_into_global_memory(kind, cpp, dtype, combine):
    defines = {"ELEMENT": cpp, "KIND": f'"{kind}"'}
    signature = f'(y: InOut[Tensor, "{dtype}", 64], x: In[Tensor, "{dtype}", 64])'
    reduce = define(REDUCE, signature, entry="reduce", args=True, grid=3, block=64, defines=defines)
    y, x = (torch.randint(-99, 99, (64,)).to(getattr(torch, dtype)) for _ in "yx")
    expected = combine(combine(combine(y, x), x), x)
    reduce(y, x)
    assert torch.equal(y, expected)
    assert tkjit.testing.check(reduce, y, x, modes=["race"]).findings == []
