// Named barriers, for synchronising parts of a block. A block has 16 of them; __syncthreads is number 0.
//
// Source: PTX ISA, "barrier{.cta}". The number of threads is a multiple of 32, and includes the threads that arrive as
// well as those that wait.
#pragma once

#include <cuda_runtime.h>

#include <stdint.h>

namespace tkjit {

#ifdef TKJIT_SIM

/// Waits until `threads` threads have reached the barrier. Their earlier writes are visible afterwards.
inline void named_barrier_sync(uint32_t id, uint32_t threads, sim::Site site = sim::Site::here()) {
    sim::named_barrier_sync(id, threads, site);
}

/// Arrives at the barrier without waiting: the producer's side of a hand-over.
inline void named_barrier_arrive(uint32_t id, uint32_t threads, sim::Site site = sim::Site::here()) {
    sim::named_barrier_arrive(id, threads, site);
}

#else

/// Waits until `threads` threads have reached the barrier. Their earlier writes are visible afterwards.
__device__ __forceinline__ void named_barrier_sync(uint32_t id, uint32_t threads) {
    asm volatile("barrier.cta.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Arrives at the barrier without waiting: the producer's side of a hand-over.
__device__ __forceinline__ void named_barrier_arrive(uint32_t id, uint32_t threads) {
    asm volatile("barrier.cta.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

#endif

}  // namespace tkjit
