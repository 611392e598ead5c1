// Counts how often each label occurs: lanes with equal labels elect one of them, which adds for all. A counter in a
// global variable shows which block is the last one, and that block finds the most frequent label.
#include <tkjit/gl.h>

constexpr int kLabels = 32, kThreads = 64;

__device__ unsigned finished_blocks;

__global__ void votes(const __grid_constant__ Globals g) {
    __shared__ bool is_last;
    const int i = blockIdx.x * kThreads + threadIdx.x;
    const bool has_label = i < g.labels.cols();
    const unsigned voters = __ballot_sync(0xffffffff, has_label);
    if (has_label) {
        const int label = g.labels[i] % kLabels;
        const unsigned equal = __match_any_sync(voters, label);
        const bool is_elected = __ffs(equal) - 1 == int(threadIdx.x % warpSize);
        if (is_elected) atomicAdd(&g.counts[label], __popc(equal));
    }
    __threadfence();  // orders each thread's counts before the block's arrival
    __syncthreads();
    if (threadIdx.x == 0) is_last = atomicInc(&finished_blocks, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (!is_last || threadIdx.x >= kLabels) return;
    __threadfence();
    // the count in the high bits, the label in the low ones: the maximum has the most votes, then the lowest label
    const int votes_of_label = atomicAdd(&g.counts[threadIdx.x], 0);
    const int best = __reduce_max_sync(0xffffffff, votes_of_label * kLabels + kLabels - 1 - int(threadIdx.x));
    if (threadIdx.x == 0) g.winner[0] = kLabels - 1 - best % kLabels;
}
