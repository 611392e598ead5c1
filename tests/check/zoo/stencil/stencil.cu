// A moving average. Each block loads its part of the row, with a halo on both sides, into dynamic shared memory.
#include <tkjit/gl.h>
#include <tkjit/shared_memory.cuh>

__global__ void stencil(const __grid_constant__ Globals g) {
    TKJIT_DYNAMIC_SHARED(float, window);
    const int n = g.y.cols(), radius = g.radius;
    const int i = blockIdx.x * blockDim.x + threadIdx.x, local = threadIdx.x + radius;
    const auto at = [&](int index) { return index >= 0 && index < n ? g.x[index] : 0.f; };
    window[local] = at(i);
    if (int(threadIdx.x) < radius) {
        window[threadIdx.x] = at(i - radius);
        window[local + blockDim.x] = at(i + blockDim.x);
    }
    __syncthreads();
    if (i >= n) return;
    float sum = 0.f;
    for (int offset = -radius; offset <= radius; offset++) sum += window[local + offset];
    g.y[i] = sum / (2 * radius + 1);
}
