// `cp.async`: asynchronous copies of 16 bytes from global to shared memory, in groups. Needs sm_80.
//
//     cp_async_16(&tile[i], &global[i]);
//     cp_async_commit();
//     cp_async_wait<0>();   // the thread sees its own copies
//     __syncthreads();      // the block sees them all
//
// Source: PTX ISA, "cp.async", "cp.async.commit_group", "cp.async.wait_group".
#pragma once

#include <stdint.h>

#include "shared_memory.cuh"

namespace tkjit {

#ifdef TKJIT_SIM

/// Copies 16 bytes; both addresses are aligned to 16. In the simulator the copy happens when the thread waits for it.
inline void cp_async_16(void* shared_destination, const void* global_source, sim::Site site = sim::Site::here()) {
    sim::issue_copy(shared_destination, global_source, 16, 16, site);
}

/// Reads only the first `source_bytes` (0 to 16) and fills the rest of the 16 with zeros: for a tile's ragged edge.
inline void cp_async_16_zero_fill(void* shared_destination, const void* global_source, uint32_t source_bytes,
                                  sim::Site site = sim::Site::here()) {
    sim::issue_copy(shared_destination, global_source, 16, source_bytes, site);
}

/// Groups the copies since the last commit.
inline void cp_async_commit() { sim::commit_copies(); }

/// Waits until at most the last `pending_groups` groups of this thread are in flight.
template <int pending_groups>
inline void cp_async_wait() {
    sim::wait_for_copies(pending_groups);
}

/// Waits for all copies of this thread, committed or not.
inline void cp_async_wait_all() { sim::wait_for_all_copies(); }

#else

/// Copies 16 bytes; both addresses are aligned to 16. `.cg` bypasses L1, because shared memory serves as the cache here.
__device__ __forceinline__ void cp_async_16(void* shared_destination, const void* global_source) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared_destination)),
                 "l"(__cvta_generic_to_global(global_source))
                 : "memory");
}

/// Reads only the first `source_bytes` (0 to 16) and fills the rest of the 16 with zeros: for a tile's ragged edge.
__device__ __forceinline__ void cp_async_16_zero_fill(void* shared_destination, const void* global_source,
                                                      uint32_t source_bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared_destination)),
                 "l"(__cvta_generic_to_global(global_source)), "r"(source_bytes)
                 : "memory");
}

/// Groups the copies since the last commit.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most the last `pending_groups` groups of this thread are in flight.
template <int pending_groups>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending_groups) : "memory");
}

/// Waits for all copies of this thread, committed or not.
__device__ __forceinline__ void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

#endif

}  // namespace tkjit
