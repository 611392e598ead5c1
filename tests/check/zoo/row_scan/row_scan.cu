// A block of 128 threads scans one row: first each warp's part of shared memory, then the warps' sums.
#include <tkjit/gl.h>

constexpr int kThreads = 128, kWarpSize = 32, kWarps = kThreads / kWarpSize;

// Returns the sum of the values of this thread and of all earlier threads in the block.
__device__ float block_scan(float value, float* of_thread, float* of_warp) {
    const int thread = threadIdx.x, lane = thread % kWarpSize, warp = thread / kWarpSize;
    of_thread[thread] = value;
    __syncwarp();
    for (int distance = 1; distance < kWarpSize; distance *= 2) {
        const float other = lane >= distance ? of_thread[thread - distance] : 0.f;
        __syncwarp();  // all lanes have read before any lane overwrites
        of_thread[thread] += other;
        __syncwarp();
    }
    if (lane == kWarpSize - 1) of_warp[warp] = of_thread[thread];
    __syncthreads();
    float before = 0.f;
    for (int i = 0; i < warp; i++) before += of_warp[i];
    return before + of_thread[thread];
}

__global__ void row_scan(const __grid_constant__ Globals g) {
    __shared__ float of_thread[kThreads], of_warp[kWarps], carry;
    const int n = g.x.cols(), row = blockIdx.x;
    if (threadIdx.x == 0) carry = 0.f;
    for (int first = 0; first < n; first += kThreads) {
        const int i = first + threadIdx.x;
        const float sum = block_scan(i < n ? g.x(row, i) : 0.f, of_thread, of_warp);
        if (i < n) g.y(row, i) = carry + sum;
        __syncthreads();  // all threads have read the carry; the next scan's barrier comes before the next read
        if (threadIdx.x == kThreads - 1) carry += sum;
    }
}
