// Finds the largest element and its index. A lock protects them, because no atomic operation here updates both at once.
#include <cuda/atomic>
#include <tkjit/gl.h>

constexpr unsigned kAllLanes = 0xffffffff;
constexpr int kWarpSize = 32;

__device__ void acquire(int& lock) {
    cuda::atomic_ref<int, cuda::thread_scope_device> is_held(lock);
    while (is_held.exchange(1, cuda::memory_order_acquire)) {
    }
}

__device__ void release(int& lock) {
    cuda::atomic_ref<int, cuda::thread_scope_device> is_held(lock);
    is_held.store(0, cuda::memory_order_release);
}

__device__ bool is_better(float value, int index, float best, int where) {
    return value > best || (value == best && index < where);
}

// One warp per block.
__global__ void spin_lock(const __grid_constant__ Globals g) {
    float best = -INFINITY;
    int where = g.x.cols();
    for (int i = blockIdx.x * kWarpSize + threadIdx.x; i < g.x.cols(); i += gridDim.x * kWarpSize) {
        if (is_better(g.x[i], i, best, where)) best = g.x[i], where = i;
    }
    for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
        const float other = __shfl_xor_sync(kAllLanes, best, offset);
        const int its_index = __shfl_xor_sync(kAllLanes, where, offset);
        if (is_better(other, its_index, best, where)) best = other, where = its_index;
    }
    if (threadIdx.x > 0) return;
    acquire(g.lock[0]);
    if (is_better(best, where, g.largest[0], g.index[0])) {
        g.largest[0] = best;
        g.index[0] = where;
    }
    release(g.lock[0]);
}
