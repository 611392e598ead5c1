// A barrier between blocks on different devices, one per device, through flags in memory that all devices can access.
//
//     tkjit::device_barrier(g.signals, blockIdx.x, g.dev_idx, g.num_devices);
//
// `signals` is a parallel layout of 32-bit integers with num_devices integers per slot, which are zero before and after
// each use. Blocks that wait for each other use the same slot, and no two barriers may use one slot at the same time. All
// of the blocks must be resident on their devices, so the grid must not have more blocks than the GPU runs at once.
//
// Source: PTX ISA, "Memory Consistency Model": a release and an acquire at system scope synchronize.
#pragma once

#include <cuda_runtime.h>

#include <tkjit/pgl.h>

#include <stdint.h>

namespace tkjit {

namespace detail {

#ifdef TKJIT_SIM

inline bool replace_release(uint32_t* flag, uint32_t from, uint32_t to) {
    return __atomic_compare_exchange_n(flag, &from, to, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}
inline bool replace_acquire(uint32_t* flag, uint32_t from, uint32_t to) {
    return __atomic_compare_exchange_n(flag, &from, to, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}
inline void wait_a_little(sim::Site site) { sim::yield_to_devices(site); }

#else

__device__ __forceinline__ bool replace_release(uint32_t* flag, uint32_t from, uint32_t to) {
    uint32_t seen;
    asm volatile("atom.release.sys.global.cas.b32 %0, [%1], %2, %3;" : "=r"(seen) : "l"(flag), "r"(from), "r"(to) : "memory");
    return seen == from;
}
__device__ __forceinline__ bool replace_acquire(uint32_t* flag, uint32_t from, uint32_t to) {
    uint32_t seen;
    asm volatile("atom.acquire.sys.global.cas.b32 %0, [%1], %2, %3;" : "=r"(seen) : "l"(flag), "r"(from), "r"(to) : "memory");
    return seen == from;
}

#endif

}  // namespace detail

#ifdef TKJIT_SIM
#define TKJIT_DEVICE_BARRIER_SITE , sim::Site site = sim::Site::here()
#define TKJIT_WAIT_A_LITTLE detail::wait_a_little(site)
#else
#define TKJIT_DEVICE_BARRIER_SITE
#define TKJIT_WAIT_A_LITTLE ((void)0)
#endif

/// Waits until the blocks of this slot on all devices have arrived. Their threads then see everything that any of them
/// wrote before the barrier. Every thread of the block must call this function.
template <class Signals>
__device__ void device_barrier(const Signals& signals, int slot, int dev_idx, int num_devices TKJIT_DEVICE_BARRIER_SITE) {
    static_assert(sizeof(typename Signals::dtype) == 4, "signals are 32-bit integers");
    __syncthreads();
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const int threads = blockDim.x * blockDim.y * blockDim.z;
    const auto flags_of = [&](int device) {
        return reinterpret_cast<uint32_t*>(signals[device].raw_ptr) + size_t(slot) * num_devices;
    };
    // a thread with several peers signals all of them before it waits for any; if a flag is still 1, that peer has not
    // left the previous barrier
    for (int peer = thread; peer < num_devices;) {
        if (detail::replace_release(flags_of(peer) + dev_idx, 0, 1)) peer += threads;
        else TKJIT_WAIT_A_LITTLE;
    }
    for (int peer = thread; peer < num_devices;) {
        if (detail::replace_acquire(flags_of(dev_idx) + peer, 1, 0)) peer += threads;
        else TKJIT_WAIT_A_LITTLE;
    }
    __syncthreads();
}

#undef TKJIT_DEVICE_BARRIER_SITE
#undef TKJIT_WAIT_A_LITTLE

}  // namespace tkjit
