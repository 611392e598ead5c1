"""A copy sees a thread's change of its tensor map only after a proxy fence for tensor maps.

Source: PTX ISA, "tensormap.replace", "tensormap.cp_fenceproxy", "membar / fence".
"""

from __future__ import annotations

from functools import partial

import pytest
import torch
from support.define import define

from tkjit.testing import KernelCheckError, check

pytestmark = pytest.mark.compiles
slow = partial(pytest.param, marks=pytest.mark.slow)

# A block changes the map of x so that it begins at row 8, and copies the tile there, as CUTLASS's grouped products do.
SOURCE = """
#include <tkjit/bulk_copy.cuh>
#include <tkjit/tensor_map.cuh>

struct Globals {
    tkjit::tiled<float, 8, 32> x;
    tkjit::gl<float> y;
};

struct alignas(128) Map {
    CUtensorMap map;
};
__device__ Map in_memory;

__global__ void __launch_bounds__(64) shifted(const __grid_constant__ Globals g) {
    __shared__ alignas(1024) float tile[8 * 32];
    __shared__ Map in_shared;
    __shared__ uint64_t loaded;
    const unsigned changed = __cvta_generic_to_shared(&in_shared);
    if (threadIdx.x == 0) {
        in_shared.map = g.x.map;
        asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(changed),
                     "l"(g.x.raw_ptr + 8 * 32) : "memory");
        asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;" ::"r"(changed),
                     "r"(g.x.rows() - 8) : "memory");
        tkjit::mbarrier_init(&loaded, 1);
        tkjit::fence_mbarrier_init();
    }
    __syncthreads();
    PUBLISH
    __syncthreads();
    if (threadIdx.x == 32) {
        ACQUIRE
        tkjit::mbarrier_arrive_expect_bytes(&loaded, sizeof tile);
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            " [%0], [%1, {%2, %3}], [%4];" ::"r"(unsigned(__cvta_generic_to_shared(tile))), "l"(&in_memory), "r"(0),
            "r"(0), "r"(unsigned(__cvta_generic_to_shared(&loaded))) : "memory");
    }
    tkjit::mbarrier_wait(&loaded, 0);
    for (int i = threadIdx.x; i < 8 * 32; i += 64) {
        const int row = i / 32, col = i % 32;
        g.y(row, col) = tile[row * 32 + (col / 4 ^ row) * 4 + col % 4];
    }
}
"""
COPY = (
    'if (threadIdx.x < 32) asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu'
    '.sync.aligned [%0], [%1], 128;" :: "l"(&in_memory), "r"(changed) : "memory");'
)
PLAIN_COPY = "if (threadIdx.x == 0) in_memory = in_shared;"
RELEASE = 'asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");'
RELEASED_COPY = f"if (threadIdx.x == 0) {{ in_memory = in_shared; {RELEASE} }}"
ACQUIRE = 'asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(&in_memory) : "memory");'
SIGNATURE = '(x: In[Tensor, "float32", 16, 32, tkjit.Align(16)], y: Out[Tensor, "float32", 8, 32]) -> Tensor'


def kernel_of(publish: str, acquire: str):
    source = SOURCE.replace("PUBLISH", publish).replace("ACQUIRE", acquire)
    return define(source, SIGNATURE.replace("tkjit.", ""), entry="shifted", grid=1, block=64, struct="Globals")


@pytest.mark.parametrize("publish", [COPY, slow(RELEASED_COPY)])
def test_a_changed_tensor_map(publish):
    kernel = kernel_of(publish, ACQUIRE)
    x = torch.randn(16, 32)
    torch.testing.assert_close(kernel(x), x[8:])
    assert check(kernel, modes=["race"], strict=True).findings == []


@pytest.mark.parametrize(("publish", "acquire"), [(COPY, ""), (PLAIN_COPY, ACQUIRE), slow(RELEASED_COPY, "")])
def test_a_changed_tensor_map_without_a_fence(publish, acquire):
    kernel = kernel_of(publish, acquire)
    with pytest.raises(KernelCheckError) as caught:
        check(kernel, modes=["race"])
    (finding,) = caught.value.report.findings
    assert finding.kind == "proxy" and "a copy reads its tensor map at in_memory + " in finding.text


STORED = """
#include <tkjit/bulk_copy.cuh>
#include <tkjit/tensor_map.cuh>

struct Globals {
    tkjit::gl<float> x;
    tkjit::tiled<float, 8, 32> y;
};

__global__ void __launch_bounds__(64) stored(const __grid_constant__ Globals g) {
    __shared__ alignas(1024) float tile[8 * 32];
    for (int i = threadIdx.x; i < 8 * 32; i += 64) {
        const int row = i / 32, col = i % 32;
        tile[row * 32 + (col / 4 ^ row) * 4 + col % 4] = g.x(row, col);
    }
    tkjit::fence_async_proxy();
    __syncthreads();
    if (threadIdx.x < LANES) {
        tkjit::tensor_store(g.y, 0, 0, tile);
        tkjit::bulk_store_commit();
        tkjit::bulk_store_wait<0>();
    }
}
"""


@pytest.mark.parametrize(("lanes", "kinds"), [(32, set()), slow(64, {"race"})])
def test_the_lanes_of_a_warp_store_one_box_together(lanes, kinds):
    """As the epilogues of CUTLASS do."""
    signature = '(x: In[Tensor, "float32", 8, 32], y: Out[Tensor, "float32", 8, 32, Align(16)]) -> Tensor'
    source = STORED.replace("LANES", str(lanes))
    kernel = define(source, signature, entry="stored", grid=1, block=64, struct="Globals")
    try:
        found = check(kernel, modes=["race", "init"]).findings
    except KernelCheckError as error:
        found = error.report.findings
    assert {finding.kind for finding in found} == kinds
