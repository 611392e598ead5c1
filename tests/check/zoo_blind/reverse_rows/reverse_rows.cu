#include <tkjit/bulk_copy.cuh>
#include <tkjit/gl.h>

constexpr int kWidth = 256;

__global__ void reverse_rows(const __grid_constant__ Globals g) {
    __shared__ alignas(16) float row[kWidth];
    row[kWidth - 1 - threadIdx.x] = g.x(blockIdx.x, threadIdx.x);
    tkjit::fence_async_proxy();
    __syncthreads();
    if (threadIdx.x == 0) {
        tkjit::bulk_store_to_global(&g.y(blockIdx.x, 0), row, sizeof(row));
        tkjit::bulk_store_commit();
        tkjit::bulk_store_wait<0>();
    }
}
