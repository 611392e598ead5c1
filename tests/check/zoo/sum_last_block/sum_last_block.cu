// Each block sums its part and takes a ticket. The block with the last ticket sums the parts.
#include <tkjit/gl.h>

constexpr unsigned kAllLanes = 0xffffffff;
constexpr int kThreads = 64, kWarpSize = 32;

// Returns the sum of the block's values in thread 0.
__device__ float block_sum(float value) {
    __shared__ float of_warp[kThreads / kWarpSize];
    for (int offset = kWarpSize / 2; offset > 0; offset /= 2) value += __shfl_down_sync(kAllLanes, value, offset);
    if (threadIdx.x % kWarpSize == 0) of_warp[threadIdx.x / kWarpSize] = value;
    __syncthreads();
    float sum = 0.f;
    for (int i = 0; i < kThreads / kWarpSize; i++) sum += of_warp[i];
    __syncthreads();
    return sum;
}

__global__ void sum_last_block(const __grid_constant__ Globals g) {
    __shared__ bool is_last;
    float sum = 0.f;
    for (int i = blockIdx.x * kThreads + threadIdx.x; i < g.x.cols(); i += gridDim.x * kThreads) sum += g.x[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        g.parts[blockIdx.x] = sum;
        __threadfence();  // orders the part before the ticket
        is_last = atomicAdd(&g.tickets[0], 1) == int(gridDim.x) - 1;
    }
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    sum = 0.f;
    for (int i = threadIdx.x; i < int(gridDim.x); i += kThreads) sum += g.parts[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        g.total[0] = sum;
        g.tickets[0] = 0;  // for the next launch
    }
}
