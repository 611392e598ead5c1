// Persistent blocks take rows from a queue, which is a counter in global memory, until it is empty.
#include <tkjit/gl.h>

constexpr int kThreads = 64;

__global__ void work_queue(const __grid_constant__ Globals g) {
    __shared__ float of_thread[kThreads];
    __shared__ int row;
    for (;;) {
        if (threadIdx.x == 0) row = atomicAdd(&g.next[0], 1);
        __syncthreads();
        if (row >= g.x.rows()) return;
        float largest = 0.f;
        for (int i = threadIdx.x; i < g.x.cols(); i += kThreads) largest = fmaxf(largest, fabsf(g.x(row, i)));
        of_thread[threadIdx.x] = largest;
        __syncthreads();
        for (int width = kThreads / 2; width > 0; width /= 2) {
            if (threadIdx.x < width) {
                of_thread[threadIdx.x] = fmaxf(of_thread[threadIdx.x], of_thread[threadIdx.x + width]);
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) g.y[row] = of_thread[0];
    }
}
