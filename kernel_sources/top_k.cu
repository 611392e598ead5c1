// The k largest elements of each row, sorted. A block selects the elements of a row, and sorts them in shared memory. It sorts
// all elements of a short row.
#include <tkjit/gl.h>

#include "radix_select.cuh"

constexpr int kMost = 1024;

/// Sorts keys from the largest to the smallest. Source: Batcher, "Sorting networks and their applications", 1968.
__device__ void sort(uint64_t* keys, int count) {
    for (int run = 2; run <= count; run *= 2)
        for (int distance = run / 2; distance > 0; distance /= 2) {
            __syncthreads();
            for (int i = threadIdx.x; i < count / 2; i += blockDim.x) {
                const int first = 2 * i - (i & (distance - 1)), second = first + distance;
                const uint64_t a = keys[first], b = keys[second];
                if ((a < b) == ((first & run) == 0)) keys[first] = b, keys[second] = a;
            }
        }
    __syncthreads();
}

template <typename T>
__global__ void __launch_bounds__(1024) top_k(const __grid_constant__ Globals g) {
    __shared__ uint64_t keys[kMost];
    __shared__ int found;
    const int n = g.x.cols(), k = g.k, sorted = n <= kMost ? n : k;
    const T* const row = g.x.raw_ptr + size_t(blockIdx.x) * n;
    const auto key = [](T x, int i) { return radix::key_of(x, i); };
    radix::Threshold threshold;
    if (sorted < n) threshold = radix::select(row, n, radix::varying_bits<T>(n), unsigned(k), key, [](T, int) { return 1u; });

    int count = 1;  // a power of two
    while (count < sorted) count *= 2;
    for (int i = threadIdx.x; i < count; i += blockDim.x) keys[i] = 0;
    if (threadIdx.x == 0) found = 0;
    __syncthreads();
    tkjit::each_element(row, n, [&](T x, int i) {
        if (threshold.selects(key(x, i))) keys[sorted == n ? i : atomicAdd(&found, 1)] = key(x, i);
    });
    sort(keys, count);
    for (int i = threadIdx.x; i < k; i += blockDim.x) {
        const size_t to = size_t(blockIdx.x) * k + i;
        const unsigned index = ~unsigned(keys[i]);
        g.values[to] = row[index];
        g.indices[to] = index;
    }
}
