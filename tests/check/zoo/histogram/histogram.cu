// Each block counts in shared memory, and then adds its counts to the result.
#include <tkjit/gl.h>

constexpr int kBins = 64;

__global__ void histogram(const __grid_constant__ Globals g) {
    __shared__ int counts[kBins];
    for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) counts[bin] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < g.x.cols(); i += gridDim.x * blockDim.x) {
        const int bin = g.x[i] & (kBins - 1);
        atomicAdd(&counts[bin], 1);
    }
    __syncthreads();
    for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) {
        if (counts[bin]) atomicAdd(&g.total[bin], counts[bin]);
    }
}
