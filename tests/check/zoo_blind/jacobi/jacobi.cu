#include <cuda/atomic>

#include <tkjit/gl.h>

constexpr unsigned kBlocks = 4;  // few enough to run concurrently on any device

__device__ unsigned arrived = 0;  // a multiple of kBlocks between launches

__device__ void grid_barrier() {
    __syncthreads();
    if (threadIdx.x == 0) {
        cuda::atomic_ref<unsigned, cuda::thread_scope_device> counter(arrived);
        const unsigned ticket = counter.fetch_add(1, cuda::memory_order_acq_rel);
        const unsigned complete = (ticket / kBlocks + 1) * kBlocks;
        while (int(counter.load(cuda::memory_order_acquire) - complete) < 0) __nanosleep(20);
    }
    __syncthreads();
}

__device__ void smooth(const float* from, float* to, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float left = i > 0 ? from[i - 1] : 0.f, right = i + 1 < n ? from[i + 1] : 0.f;
        to[i] = (left + from[i] + right) / 3.f;
    }
}

__global__ void jacobi(const __grid_constant__ Globals g) {
    const int n = g.x.cols();
    smooth(g.x.raw_ptr, g.once.raw_ptr, n);
    grid_barrier();
    smooth(g.once.raw_ptr, g.twice.raw_ptr, n);
}
