// Dot products of float16 rows, in pairs; __syncthreads_and tells whether all sums are finite.
#include <cuda_fp16.h>
#include <tkjit/gl.h>

constexpr int kThreads = 64;

__global__ void half_dot(const __grid_constant__ Globals g) {
    __shared__ float of_thread[kThreads];
    const int pairs = g.x.cols() / 2, row = blockIdx.x;
    const __half2* x = reinterpret_cast<const __half2*>(&g.x(row, 0));
    const __half2* y = reinterpret_cast<const __half2*>(&g.y(row, 0));
    float sum = 0.f;
    for (int i = threadIdx.x; i < pairs; i += kThreads) {
        const float2 a = __half22float2(__ldg(&x[i])), b = __half22float2(__ldg(&y[i]));
        sum += a.x * b.x + a.y * b.y;
    }
    of_thread[threadIdx.x] = sum;
    const bool all_finite = __syncthreads_and(isfinite(sum));
    for (int width = kThreads / 2; width >= 32; width /= 2) {
        if (threadIdx.x < width) of_thread[threadIdx.x] += of_thread[threadIdx.x + width];
        __syncthreads();
    }
    if (threadIdx.x >= 32) return;
    sum = of_thread[threadIdx.x];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset);
    if (threadIdx.x == 0) g.z[row] = all_finite ? sum : 0.f;
}
