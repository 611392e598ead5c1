// Prefix sums of block sums: each block waits until the one before it has published its sum, adds its own, and raises a
// flag. Blocks are numbered by tickets, so that a block waits only for blocks that have begun.
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
        __threadfence();  // the sum before the flag
        atomicExch(&g.flags[number], 1);
    }
}
