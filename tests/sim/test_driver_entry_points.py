"""Host code that asks the runtime for functions of the driver, as programs do that are not linked with it."""

import pytest
import torch
from support.define import host_function

import tkjit

pytestmark = pytest.mark.compiles
SOURCE = """
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime.h>
#include <stdexcept>

template <class Function>
Function driver_function(const char* name) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
    if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) throw std::runtime_error(name);
    return reinterpret_cast<Function>(found);
}

__global__ void copy(const __grid_constant__ CUtensorMap map, float* y) {
    __shared__ alignas(128) float tile[4 * 8];
    __shared__ uint64_t loaded;
    const unsigned place = __cvta_generic_to_shared(tile), barrier = __cvta_generic_to_shared(&loaded);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(int(sizeof tile)));
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            " [%0], [%1, {%2, %3}], [%4];" ::"r"(place), "l"(&map), "r"(0), "r"(0), "r"(barrier));
    }
    __syncthreads();
    asm volatile(
        "{\\n.reg .pred done;\\nwait: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\\n"
        "@!done bra wait;\\n}" ::"r"(barrier));
    y[threadIdx.x] = tile[threadIdx.x];
}

void copied(float* x, float* y, int rows, int missing) {
    const char* name = missing ? "cuNoFunction" : "cuTensorMapEncodeTiled";
    const auto encode = driver_function<PFN_cuTensorMapEncodeTiled_v12000>(name);
    CUtensorMap map;
    const cuuint64_t sizes[] = {8, cuuint64_t(rows)}, strides[] = {32};
    const cuuint32_t box[] = {8, 4}, steps[] = {1, 1};
    encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, x, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
           CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    copy<<<1, 32>>>(map, y);
}
"""
SIGNATURE = '(x: In[Tensor, "float32", "rows", 8], y: InOut[Tensor, "float32", 32], rows: int, missing: int)'


@pytest.fixture(scope="module")
def copied():
    return host_function(SOURCE, "copied", SIGNATURE)


def test_a_tensor_map_is_encoded_through_the_entry_point(copied):
    x, y = torch.randn(4, 8), torch.zeros(32)
    copied(x, y, 4, 0)
    assert torch.equal(y, x.flatten())


def test_an_unknown_function_is_reported(copied):
    with pytest.raises(tkjit.LaunchError, match="cuNoFunction"):
        copied(torch.randn(4, 8), torch.zeros(32), 4, 1)
