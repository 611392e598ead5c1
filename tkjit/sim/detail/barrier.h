// Barriers: __syncthreads and its reductions, PTX's named barriers for a block, and the grid's barrier.
#pragma once

#include "block.h"
#include "site.h"

namespace tkjit::sim {

/// Waits until `expected` threads are at barrier `id`, or, if that is 0, all threads that have not exited. Returns the
/// number of true predicates.
unsigned arrive_and_wait(unsigned id, unsigned expected, Operation operation, bool predicate, Site site);

/// PTX `barrier.sync id, threads`: waits until `threads` threads have arrived. `bar.sync` is aligned: the lanes of a warp have to
/// execute it together.
void named_barrier_sync(unsigned id, unsigned threads, Site site = Site::here(), bool is_aligned = false);

/// PTX `barrier.arrive id, threads`: arrives at the barrier and continues without waiting.
void named_barrier_arrive(unsigned id, unsigned threads, Site site = Site::here());

/// Waits for all threads of all blocks. The launch must be cooperative, so that all its blocks run at the same time.
void sync_grid(Site site = Site::here());

inline void sync_threads(Site site) { arrive_and_wait(0, 0, Operation::syncthreads, false, site); }
}  // namespace tkjit::sim

inline void __syncthreads(tkjit::sim::Site site = tkjit::sim::Site::here()) {
    tkjit::sim::sync_threads(site);
}

/// Returns the number of threads whose predicate is not zero.
inline int __syncthreads_count(int predicate, tkjit::sim::Site site = tkjit::sim::Site::here()) {
    return tkjit::sim::arrive_and_wait(0, 0, tkjit::sim::Operation::syncthreads_count, predicate != 0, site);
}

inline int __syncthreads_and(int predicate, tkjit::sim::Site site = tkjit::sim::Site::here()) {
    return tkjit::sim::arrive_and_wait(0, 0, tkjit::sim::Operation::syncthreads_and, predicate == 0, site) == 0;
}

inline int __syncthreads_or(int predicate, tkjit::sim::Site site = tkjit::sim::Site::here()) {
    return tkjit::sim::arrive_and_wait(0, 0, tkjit::sim::Operation::syncthreads_or, predicate != 0, site) != 0;
}

// Each call counts as a separate place, even two calls in one macro, because the lanes of a warp must not wait at
// different calls.
#define TKJIT_SIM_PLACE ::tkjit::sim::Site::here().numbered(__COUNTER__)
#define __syncthreads() __syncthreads(TKJIT_SIM_PLACE)
#define __syncthreads_count(...) __syncthreads_count(__VA_ARGS__, TKJIT_SIM_PLACE)
#define __syncthreads_and(...) __syncthreads_and(__VA_ARGS__, TKJIT_SIM_PLACE)
#define __syncthreads_or(...) __syncthreads_or(__VA_ARGS__, TKJIT_SIM_PLACE)
