#include <tkjit/cp_async.cuh>
#include <tkjit/gl.h>

constexpr int kThreads = 64, kTile = 4 * kThreads, kSegment = 4096, kStages = 3;

__global__ void segment_energy(const __grid_constant__ Globals g) {
    __shared__ alignas(16) float ring[kStages][kTile];
    __shared__ float of_thread[kThreads];
    const int n = g.x.cols(), thread = threadIdx.x;
    const int first = blockIdx.x * kSegment;
    const int steps = (min(kSegment, n - first) + kTile - 1) / kTile;

    const auto fetch = [&](int step) {
        const int i = first + step * kTile + 4 * thread;
        const int present = max(0, min(4, n - i));
        const float* source = present > 0 ? &g.x[i] : g.x.raw_ptr;
        tkjit::cp_async_16_zero_fill(&ring[step % kStages][4 * thread], source, present * sizeof(float));
    };

    for (int step = 0; step < kStages - 1; ++step) {
        if (step < steps) fetch(step);
        tkjit::cp_async_commit();
    }
    float sum = 0.f;
    for (int step = 0; step < steps; ++step) {
        tkjit::cp_async_wait<kStages - 2>();
        __syncthreads();  // the tile has arrived, and the previous one is no longer read
        if (step + kStages - 1 < steps) fetch(step + kStages - 1);
        tkjit::cp_async_commit();  // even if the group is empty, so that the wait counts correctly at the end
        for (int i = thread; i < kTile; i += kThreads) sum += ring[step % kStages][i] * ring[step % kStages][i];
    }
    of_thread[thread] = sum;
    __syncthreads();
    if (thread == 0) {
        float total = 0.f;
        for (int t = 0; t < kThreads; ++t) total += of_thread[t];
        g.y[blockIdx.x] = total;
    }
}
