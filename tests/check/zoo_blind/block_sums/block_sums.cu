#include <tkjit/gl.h>

constexpr unsigned kAllLanes = 0xffffffff;
constexpr int kWarpSize = 32, kWarps = 8;

__global__ void block_sums(const __grid_constant__ Globals g) {
    __shared__ float of_warp[kWarps];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
    float sum = 0.f;
    if (i < g.x.cols()) sum = g.x[i];
    for (int offset = kWarpSize / 2; offset > 0; offset /= 2) sum += __shfl_down_sync(kAllLanes, sum, offset);
    if (lane == 0) of_warp[warp] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0.f;
        for (int w = 0; w < kWarps; ++w) total += of_warp[w];
        g.y[blockIdx.x] = total;
    }
}
