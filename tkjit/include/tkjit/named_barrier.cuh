// Named barriers: 16 to a block, of which __syncthreads is number 0, for parts of a block that meet on their own.
//
// Source: PTX ISA, "barrier{.cta}". The number of threads is a multiple of 32, and counts those that arrive and those
// that wait.
#pragma once

#include <cuda_runtime.h>

#include <stdint.h>

namespace tkjit {

#ifdef TKJIT_SIM

/// Waits until `threads` threads have come to the barrier; what they wrote before is seen after.
inline void named_barrier_sync(uint32_t id, uint32_t threads, sim::Site site = sim::Site::here()) {
    sim::named_barrier_sync(id, threads, site);
}

/// Counts as having come, and goes on: the producer's side of a hand-over.
inline void named_barrier_arrive(uint32_t id, uint32_t threads, sim::Site site = sim::Site::here()) {
    sim::named_barrier_arrive(id, threads, site);
}

#else

/// Waits until `threads` threads have come to the barrier; what they wrote before is seen after.
__device__ __forceinline__ void named_barrier_sync(uint32_t id, uint32_t threads) {
    asm volatile("barrier.cta.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Counts as having come, and goes on: the producer's side of a hand-over.
__device__ __forceinline__ void named_barrier_arrive(uint32_t id, uint32_t threads) {
    asm volatile("barrier.cta.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

#endif

}  // namespace tkjit
