// Row sums. One warp copies a row's chunks to a ring with cp.async, and the copies of each lane arrive at the stage's
// mbarrier. Another warp adds up the chunks that have arrived.
#include <tkjit/cp_async.cuh>
#include <tkjit/gl.h>
#include <tkjit/mbarrier.cuh>

constexpr unsigned kAllLanes = 0xffffffff;
constexpr int kWarpSize = 32, kStages = 2, kVector = 4, kChunk = kWarpSize * kVector;

__global__ void row_sums_async(const __grid_constant__ Globals g) {
    __shared__ __align__(16) float stages[kStages][kChunk];
    __shared__ uint64_t full[kStages], empty[kStages];
    const int lane = threadIdx.x % kWarpSize, row = blockIdx.x, n = g.x.cols();
    const int chunks = (n + kChunk - 1) / kChunk;
    if (threadIdx.x < kStages) {
        tkjit::mbarrier_init(&full[threadIdx.x], kWarpSize);
        tkjit::mbarrier_init(&empty[threadIdx.x], 1);
    }
    __syncthreads();

    if (threadIdx.x < kWarpSize) {
        for (int chunk = 0; chunk < chunks; chunk++) {
            const int stage = chunk % kStages, round = chunk / kStages;
            tkjit::mbarrier_wait(&empty[stage], (round + 1) % 2);
            const int col = chunk * kChunk + lane * kVector;
            const bool inside = col < n;
            tkjit::cp_async_16_zero_fill(&stages[stage][lane * kVector], &g.x(row, inside ? col : 0), inside ? 16 : 0);
            tkjit::mbarrier_arrive_after_cp_async(&full[stage]);
        }
        tkjit::cp_async_wait_all();
        return;
    }
    float sum = 0.f;
    for (int chunk = 0; chunk < chunks; chunk++) {
        const int stage = chunk % kStages, round = chunk / kStages;
        tkjit::mbarrier_wait(&full[stage], round % 2);
        // not in the order of the copies, so that lanes read elements that other lanes have copied
        for (int i = lane; i < kChunk; i += kWarpSize) sum += stages[stage][i];
        __syncwarp();  // all lanes have read the stage
        if (lane == 0) tkjit::mbarrier_arrive(&empty[stage]);
    }
    for (int offset = kWarpSize / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(kAllLanes, sum, offset);
    if (lane == 0) g.y[row] = sum;
}
