// The simulator's `cuda_pipeline_primitives.h`: a thread's asynchronous copies to shared memory. Here a copy is made when its
// thread waits for it. A device may make it at any time before.
//
// Source: CUDA C++ Programming Guide, "Pipeline Primitives Interface".
#pragma once

#include "cuda_runtime.h"

#include <tkjit/mbarrier.cuh>

typedef uint64_t __mbarrier_t;

/// Copies 4, 8 or 16 bytes, of which the last `zero_filled` become zeros.
inline void __pipeline_memcpy_async(void* __restrict__ shared, const void* __restrict__ global, size_t bytes,
                                    size_t zero_filled = 0, tkjit::sim::Site site = tkjit::sim::Site::here()) {
    tkjit::sim::issue_copy(shared, global, unsigned(bytes), unsigned(bytes - zero_filled), site);
}

/// Groups the copies since the last commit into a batch.
inline void __pipeline_commit() { tkjit::sim::commit_copies(); }

/// Waits for all but the last `pending` batches.
inline void __pipeline_wait_prior(unsigned pending) { tkjit::sim::wait_for_copies(pending); }

/// Arrives at a barrier once the thread's copies have landed. The barrier's count must include this arrival.
inline void __pipeline_arrive_on(__mbarrier_t* barrier, tkjit::sim::Site site = tkjit::sim::Site::here()) {
    tkjit::mbarrier_arrive_after_cp_async(barrier, site);
}
