// mbarriers, and the bulk copies (`cp.async.bulk`) that complete on them or in groups.
//
// A copy lands when somebody waits for it, and not before: a kernel that forgot to wait finds what was there until
// then. The wrappers for kernels are <tkjit/mbarrier.cuh> and <tkjit/bulk_copy.cuh>.
#pragma once

#include "site.h"

#include <stdint.h>

namespace tkjit::sim {

/// An mbarrier in its own 64 bits, as on a device. Source: PTX ISA, "Contents of the mbarrier object".
void mbarrier_init(uint64_t* barrier, unsigned count, Site site);
void mbarrier_invalidate(uint64_t* barrier, Site site);

/// Raises the bytes that the phase waits for, then counts `count` arrivals.
void mbarrier_arrive(uint64_t* barrier, unsigned count, unsigned expected_bytes, Site site);

/// Whether the phase of this parity is over; lands a copy if it is not.
bool mbarrier_test(uint64_t* barrier, unsigned parity, Site site);
void mbarrier_wait(uint64_t* barrier, unsigned parity, Site site);

/// Copies from global to shared memory; `bytes` of the barrier's phase arrive with it.
void bulk_copy(void* shared_destination, const void* global_source, unsigned bytes, uint64_t* barrier, Site site);

/// Copies from shared to global memory, in the running thread's bulk group.
void bulk_store(void* global_destination, const void* shared_source, unsigned bytes, Site site);

/// Makes the thread's stores since the last commit a group.
void commit_bulk_stores();

/// Lands all but the last `pending_groups` groups of the running thread.
void wait_for_bulk_stores(unsigned pending_groups);

}  // namespace tkjit::sim
