// Bulk copies (`cp.async.bulk`): one thread starts the copy of many bytes, and the copy engine does it. Needs sm_90.
//
// Both addresses and the size are multiples of 16 bytes. A copy to shared memory completes on an mbarrier, whose phase
// must expect the copy's bytes (see mbarrier.cuh). A copy to global memory is a *store*; wait for stores in groups:
//
//     tkjit::fence_async_proxy();                       // each thread that wrote the tile
//     __syncthreads();
//     if (threadIdx.x == 0) {
//         tkjit::bulk_store_to_global(global, tile, sizeof(tile));
//         tkjit::bulk_store_commit();
//         tkjit::bulk_store_wait_read<0>();             // from here, the tile may be overwritten
//                                                       // (bulk_store_wait<0>() waits until the data is in global memory)
//     }
//
// Source: PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk".
#pragma once

#include <stdint.h>

#include "mbarrier.cuh"
#include "shared_memory.cuh"

namespace tkjit {

#ifdef TKJIT_SIM

/// Copies `bytes` from global to shared memory. In the simulator a copy lands when the thread waits for it.
inline void bulk_copy_to_shared(void* shared_destination, const void* global_source, uint32_t bytes, uint64_t* barrier,
                                sim::Site site = sim::Site::here()) {
    sim::bulk_copy(shared_destination, global_source, bytes, barrier, site);
}

/// Copies `bytes` from shared to global memory.
inline void bulk_store_to_global(void* global_destination, const void* shared_source, uint32_t bytes,
                                 sim::Site site = sim::Site::here()) {
    sim::bulk_store(global_destination, shared_source, bytes, site);
}

/// Groups the thread's stores since the last commit.
inline void bulk_store_commit() { sim::commit_bulk_stores(); }

/// Waits until at most the last `pending_groups` groups of this thread are in flight.
template <int pending_groups>
inline void bulk_store_wait() {
    sim::wait_for_bulk_stores(pending_groups);
}

/// Like bulk_store_wait, but waits only until the sources have been read.
template <int pending_groups>
inline void bulk_store_wait_read() {
    sim::wait_for_bulk_stores(pending_groups, true);
}

/// Makes this thread's writes to shared memory visible to asynchronous copies.
inline void fence_async_proxy() { sim::fence_async_proxy(true, false); }

#else

/// Copies `bytes` from global to shared memory.
__device__ __forceinline__ void bulk_copy_to_shared(void* shared_destination, const void* global_source, uint32_t bytes,
                                                    uint64_t* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(shared_destination)),
                 "l"(__cvta_generic_to_global(global_source)), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

/// Copies `bytes` from shared to global memory.
__device__ __forceinline__ void bulk_store_to_global(void* global_destination, const void* shared_source,
                                                     uint32_t bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                     __cvta_generic_to_global(global_destination)),
                 "r"(shared_address(shared_source)), "r"(bytes)
                 : "memory");
}

/// Groups the thread's stores since the last commit.
__device__ __forceinline__ void bulk_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

/// Waits until at most the last `pending_groups` groups of this thread are in flight.
template <int pending_groups>
__device__ __forceinline__ void bulk_store_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(pending_groups) : "memory");
}

/// Like bulk_store_wait, but waits only until the sources have been read.
template <int pending_groups>
__device__ __forceinline__ void bulk_store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending_groups) : "memory");
}

/// Makes this thread's writes to shared memory visible to asynchronous copies.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#endif

}  // namespace tkjit
