// A histogram with atomics on shared memory and through cuda::atomic_ref, and counts aggregated over equal lanes.
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

__global__ void histogram(const int* values, int* bins, int n, int bin_count) {
    extern __shared__ int own_bins[];
    for (int i = threadIdx.x; i < bin_count; i += blockDim.x) own_bins[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd_block(&own_bins[values[i] % bin_count], 1);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < bin_count; i += blockDim.x) {
        cuda::atomic_ref<int, cuda::thread_scope_device> bin(bins[i]);
        bin.fetch_add(own_bins[i], cuda::memory_order_relaxed);
    }
}

// Uses one atomic for all lanes that increment the same counter.
__global__ void count_multiples(const int* values, int* counts, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const cg::coalesced_group group = cg::labeled_partition(cg::coalesced_threads(), values[i] % 5);
    if (group.thread_rank() == 0) atomicAdd(&counts[values[i] % 5], int(group.size()));
}

cudaError_t count(const int* values, int* bins, int* counts, int n, int bin_count, cudaStream_t stream) {
    cudaError_t error = cudaMemsetAsync(bins, 0, bin_count * sizeof(int), stream);
    if (error != cudaSuccess) return error;
    error = cudaMemsetAsync(counts, 0, 5 * sizeof(int), stream);
    if (error != cudaSuccess) return error;
    error = cudaFuncSetAttribute(histogram, cudaFuncAttributeMaxDynamicSharedMemorySize, bin_count * sizeof(int));
    if (error != cudaSuccess) return error;
    histogram<<<4, 96, bin_count * sizeof(int), stream>>>(values, bins, n, bin_count);
    count_multiples<<<(n + 63) / 64, 64, 0, stream>>>(values, counts, n);
    return cudaGetLastError();
}
