// Prefix sums of block sums: each block waits until the previous one has published its sum, adds its own sum, and sets
// a flag. Tickets number the blocks, so that a block waits only for blocks that have started.
#include <tkjit/gl.h>

constexpr int kThreads = 64;

__global__ void chained_sum(const __grid_constant__ Globals g) {
    __shared__ float values[kThreads];
    __shared__ int number;
    if (threadIdx.x == 0) number = atomicAdd(&g.tickets[0], 1);
    __syncthreads();
    const int i = number * kThreads + threadIdx.x;
    values[threadIdx.x] = i < g.x.cols() ? g.x[i] : 0.f;
    __syncthreads();
    for (int width = kThreads / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) values[threadIdx.x] += values[threadIdx.x + width];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        float before = 0.f;
        if (number > 0) {
            while (atomicAdd(&g.flags[number - 1], 0) == 0) {
            }
            __threadfence();
            before = g.sums[number - 1];
        }
        g.sums[number] = before + values[0];
        __threadfence();  // orders the sum before the flag
        atomicExch(&g.flags[number], 1);
    }
}
