// Sums squares in chunks. A producer warp loads chunks and passes them to a consumer warp through two buffers. Each
// buffer has two named barriers, "full" and "empty": at each, one warp arrives and the other one waits.
#include <tkjit/gl.h>
#include <tkjit/named_barrier.cuh>

constexpr unsigned kAllLanes = 0xffffffff;
constexpr int kWarpSize = 32, kBuffers = 2, kChunk = 64;
constexpr int kFull = 1, kEmpty = kFull + kBuffers;  // the first ID of each kind; 0 is __syncthreads
constexpr int kBoth = 2 * kWarpSize;                 // the number of threads that a barrier counts

__global__ void hand_over(const __grid_constant__ Globals g) {
    __shared__ float buffers[kBuffers][kChunk];
    const int lane = threadIdx.x % kWarpSize, row = blockIdx.x, n = g.x.cols();
    const int chunks = (n + kChunk - 1) / kChunk;
    const bool is_producer = threadIdx.x < kWarpSize;

    if (is_producer) {
        for (int chunk = 0; chunk < chunks; chunk++) {
            const int buffer = chunk % kBuffers;
            if (chunk >= kBuffers) tkjit::named_barrier_sync(kEmpty + buffer, kBoth);
            for (int i = lane; i < kChunk; i += kWarpSize) {
                const int col = chunk * kChunk + i;
                buffers[buffer][i] = col < n ? g.x(row, col) : 0.f;
            }
            tkjit::named_barrier_arrive(kFull + buffer, kBoth);
        }
        return;
    }
    float sum = 0.f;
    for (int chunk = 0; chunk < chunks; chunk++) {
        const int buffer = chunk % kBuffers;
        tkjit::named_barrier_sync(kFull + buffer, kBoth);
        for (int i = lane; i < kChunk; i += kWarpSize) sum += buffers[buffer][i] * buffers[buffer][i];
        // the last chunks' buffers are not refilled, so nobody waits for them
        if (chunk + kBuffers < chunks) tkjit::named_barrier_arrive(kEmpty + buffer, kBoth);
    }
    for (int offset = kWarpSize / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(kAllLanes, sum, offset);
    if (lane == 0) g.y[row] = sum;
}
