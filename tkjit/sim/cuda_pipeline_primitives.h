// The simulator's `cuda_pipeline_primitives.h`: a thread's asynchronous copies to shared memory. As on a device, a copy
// lands when its thread waits for it.
//
// Source: CUDA C++ Programming Guide, "Pipeline Primitives Interface".
#pragma once

#include "cuda_runtime.h"

#include <tkjit/mbarrier.cuh>

typedef uint64_t __mbarrier_t;

/// Copies 4, 8 or 16 bytes, the last `zero_filled` of them as zeros.
inline void __pipeline_memcpy_async(void* __restrict__ shared, const void* __restrict__ global, size_t bytes,
                                    size_t zero_filled = 0, tkjit::sim::Site site = tkjit::sim::Site::here()) {
    tkjit::sim::issue_copy(shared, global, unsigned(bytes), unsigned(bytes - zero_filled), site);
}

/// Makes the copies since the last commit a batch.
inline void __pipeline_commit() { tkjit::sim::commit_copies(); }

/// Waits for all batches but the last `pending`.
inline void __pipeline_wait_prior(unsigned pending) { tkjit::sim::wait_for_copies(pending); }

/// Arrives at a barrier once the thread's copies have landed; the arrival is among the barrier's count.
inline void __pipeline_arrive_on(__mbarrier_t* barrier, tkjit::sim::Site site = tkjit::sim::Site::here()) {
    tkjit::mbarrier_arrive_after_cp_async(barrier, site);
}
