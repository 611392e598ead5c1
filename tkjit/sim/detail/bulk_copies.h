// mbarriers, and the bulk copies (`cp.async.bulk`) that complete on them or in groups.
//
// A copy lands only when a thread waits for it, so a kernel that forgets to wait reads the old contents. The wrappers
// for kernels are <tkjit/mbarrier.cuh> and <tkjit/bulk_copy.cuh>.
#pragma once

#include "site.h"
#include "tensor_map.h"

#include <stdint.h>

namespace tkjit::sim {

/// Initialises an mbarrier, which keeps its state in its own 64 bits, as on a device. Source: PTX ISA, "Contents of the
/// mbarrier object".
void mbarrier_init(uint64_t* barrier, unsigned count, Site site);
void mbarrier_invalidate(uint64_t* barrier, Site site);

/// Whether an operation on an mbarrier orders other accesses: an arrival those before it (release), a wait those after it
/// (acquire).
enum class Ordering : bool { relaxed, ordered };

/// Adds to the bytes that the phase waits for, then counts `count` arrivals. Returns the state before, whose lowest bit is the
/// phase's parity.
uint64_t mbarrier_arrive(uint64_t* barrier, unsigned count, unsigned expected_bytes, Site site,
                         Ordering ordering = Ordering::ordered);

/// Counts arrivals of threads that take no part in later phases: PTX ISA, `mbarrier.arrive_drop`.
uint64_t mbarrier_arrive_and_drop(uint64_t* barrier, unsigned count, unsigned expected_bytes, Site site,
                                  Ordering ordering = Ordering::ordered);

/// Counts bytes as arrived, without a copy: PTX ISA, `mbarrier.complete_tx`.
void mbarrier_complete_bytes(uint64_t* barrier, unsigned bytes, Site site);

/// Polls: returns whether the phase with this parity is over.
bool mbarrier_test(uint64_t* barrier, unsigned parity, Site site, Ordering ordering = Ordering::ordered);
void mbarrier_wait(uint64_t* barrier, unsigned parity, Site site, Ordering ordering = Ordering::ordered);

/// Copies from global to shared memory. When the copy lands, its `bytes` arrive at the barrier.
void bulk_copy(void* shared_destination, const void* global_source, unsigned bytes, uint64_t* barrier, Site site);

/// The same for several blocks of the cluster: each rank whose bit is set gets the bytes, and has its own mbarrier.
void bulk_copy_to_blocks(void* shared_destination, const void* global_source, unsigned bytes, uint64_t* barrier,
                         unsigned ranks, Site site);

/// PTX ISA, `st.async`.
void store_async(void* to, const void* value, unsigned bytes, uint64_t* barrier, Site site);

/// Copies from shared to global memory. The copy belongs to the running thread's bulk group.
void bulk_store(void* global_destination, const void* shared_source, unsigned bytes, Site site);

/// Like bulk_store, but reduces each element into global memory with an atomic operation.
void bulk_reduce(Reduction reduction, TensorType type, void* global_destination, const void* shared_source, unsigned bytes,
                 Site site);

/// Lets asynchronous operations see what the thread knows to be written: `fence.proxy.async`.
void fence_async_proxy(bool shared, bool global);

/// PTX ISA, `fence.proxy.tensormap`.
void release_tensor_maps();
void acquire_tensor_maps();

/// Lets asynchronous copies see the mbarriers that the thread has initialised: `fence.mbarrier_init`.
void fence_mbarrier_init();

/// Puts the thread's stores since the last commit into a group.
void commit_bulk_stores();

/// Lands all of the running thread's groups except the last `pending_groups`.
void wait_for_bulk_stores(unsigned pending_groups, bool only_reads = false);

}  // namespace tkjit::sim
