// A block of 128 threads handles one row. Mean and variance are reduced with shuffles in warps, then in shared memory.
#include <tkjit/gl.h>

constexpr unsigned kAllLanes = 0xffffffff;
constexpr int kWarpSize = 32, kWarps = 4;
constexpr float kEpsilon = 1e-5f;

// Returns the block's sum to every thread.
template <typename T>
__device__ T block_sum(T value) {
    __shared__ T of_warp[kWarps];
    const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
    for (int offset = kWarpSize / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
    if (lane == 0) of_warp[warp] = value;
    __syncthreads();
    value = 0;
    for (int i = 0; i < kWarps; i++) value += of_warp[i];
    __syncthreads();  // of_warp may be reused by the next sum
    return value;
}

__global__ void layernorm(const __grid_constant__ Globals g) {
    const int n = g.x.cols(), row = blockIdx.x;
    float sum = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += g.x(row, i);
    const float mean = block_sum(sum) / n;
    float squares = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const float centred = g.x(row, i) - mean;
        squares += centred * centred;
    }
    const float scale = rsqrtf(block_sum(squares) / n + kEpsilon);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        g.y(row, i) = (g.x(row, i) - mean) * scale * g.weight[i] + g.bias[i];
    }
}
