// A histogram. Each block counts in shared memory, and adds its counts to the result at the end.
#include <tkjit/gl.h>
#include <tkjit/row.cuh>
#include <tkjit/shared_memory.cuh>

template <typename T>
__global__ void __launch_bounds__(256, 4) histogram(const __grid_constant__ Globals g) {
    TKJIT_DYNAMIC_SHARED(int, counts);
    const int bins = g.bins;
    for (int i = threadIdx.x; i < bins * g.copies; i += blockDim.x) counts[i] = 0;
    __syncthreads();

    int* const own = counts + threadIdx.x / 32 % g.copies * bins;
    const float low = g.low, high = g.high, scale = bins / (high - low);
    const size_t n = g.x.numel(), share = (n / gridDim.x + 8) / 8 * 8, begin = blockIdx.x * share;
    if (begin < n)
        tkjit::each_element(g.x.raw_ptr + begin, int(n - begin < share ? n - begin : share), [&](T element, int) {
            const float x = float(element);
            if (!(low < high && x >= low && x <= high)) return;
            const float bin = fminf(fmaxf((x - low) * scale, 0.f), bins - 1);  // also if the limits are infinite
            atomicAdd(&own[int(bin)], 1);
        });

    __syncthreads();
    for (int i = threadIdx.x; i < bins; i += blockDim.x) {
        int count = 0;
        for (int copy = 0; copy < g.copies; ++copy) count += counts[copy * bins + i];
        if (count) atomicAdd(&g.counts[i], count);
    }
}
