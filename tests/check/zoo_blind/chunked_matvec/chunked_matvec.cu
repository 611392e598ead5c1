#include <tkjit/gl.h>

constexpr int kThreads = 64, kRows = 4;

__global__ void chunked_matvec(const __grid_constant__ Globals g) {
    __shared__ float chunk[kThreads];
    const int m = g.a.rows(), k = g.a.cols();
    const int first_row = (blockIdx.x * kThreads + threadIdx.x) * kRows;
    float sum[kRows] = {};
    for (int first = 0; first < k; first += kThreads) {
        const int width = min(kThreads, k - first);
        if (threadIdx.x < width) chunk[threadIdx.x] = g.x[first + threadIdx.x];
        __syncthreads();
        for (int r = 0; r < kRows; ++r) {
            if (first_row + r >= m) break;
            for (int c = 0; c < width; ++c) sum[r] += g.a(first_row + r, first + c) * chunk[c];
        }
        __syncthreads();
    }
    for (int r = 0; r < kRows; ++r) {
        if (first_row + r < m) g.y[first_row + r] = sum[r];
    }
}
