// Keeps a row's elements above a threshold, in order. A block of 128 threads handles one row; warps count with ballots.
#include <tkjit/gl.h>

constexpr unsigned kAllLanes = 0xffffffff;
constexpr int kThreads = 128, kWarpSize = 32, kWarps = kThreads / kWarpSize;

__global__ void compact(const __grid_constant__ Globals g) {
    __shared__ int kept_by_warp[kWarps];
    const int n = g.x.cols(), row = blockIdx.x;
    const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
    int kept = 0;  // in the row so far
    for (int first = 0; first < n; first += kThreads) {
        const int i = first + threadIdx.x;
        const float value = i < n ? g.x(row, i) : 0.f;
        const bool keep = i < n && value > g.threshold;
        const unsigned kept_lanes = __ballot_sync(kAllLanes, keep);
        if (lane == 0) kept_by_warp[warp] = __popc(kept_lanes);
        __syncthreads();
        int position = kept + __popc(kept_lanes & ((1u << lane) - 1));
        for (int other = 0; other < kWarps; other++) {
            if (other < warp) position += kept_by_warp[other];
            kept += kept_by_warp[other];
        }
        if (keep) g.y(row, position) = value;
        __syncthreads();  // all warps have read the counts
    }
    for (int i = kept + threadIdx.x; i < n; i += kThreads) g.y(row, i) = 0.f;
    if (threadIdx.x == 0) g.count[row] = kept;
}
