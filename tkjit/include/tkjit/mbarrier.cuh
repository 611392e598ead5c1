// mbarriers: barriers in shared memory that count arrivals of threads and bytes of asynchronous copies. Needs sm_80, and
// sm_90 for the functions that count bytes.
//
//     __shared__ uint64_t full;
//     if (threadIdx.x == 0) {
//         tkjit::mbarrier_init(&full, 1);
//         tkjit::fence_mbarrier_init();
//     }
//     __syncthreads();
//     if (threadIdx.x == 0) {
//         tkjit::mbarrier_arrive_expect_bytes(&full, sizeof(tile));
//         tkjit::bulk_copy_to_shared(tile, global, sizeof(tile), &full);
//     }
//     tkjit::mbarrier_wait(&full, 0);   // then 1, 0, 1, ...: the parity of the phase to wait for
//
// Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
#pragma once

#include <stdint.h>

#include "shared_memory.cuh"

namespace tkjit {

#ifdef TKJIT_SIM

/// Turns 8 bytes of shared memory into a barrier whose phases need `count` arrivals each. One thread calls it; the others
/// may use the barrier after a __syncthreads.
inline void mbarrier_init(uint64_t* barrier, uint32_t count, sim::Site site = sim::Site::here()) {
    sim::mbarrier_init(barrier, count, site);
}

/// Makes the initialisation visible to asynchronous copies.
inline void fence_mbarrier_init() { sim::fence_mbarrier_init(); }

/// Frees the memory for other uses.
inline void mbarrier_invalidate(uint64_t* barrier, sim::Site site = sim::Site::here()) {
    sim::mbarrier_invalidate(barrier, site);
}

/// Counts `count` arrivals. Threads that wait for the phase see this thread's earlier writes.
inline void mbarrier_arrive(uint64_t* barrier, uint32_t count = 1, sim::Site site = sim::Site::here()) {
    sim::mbarrier_arrive(barrier, count, 0, site);
}

/// Adds `bytes` to the bytes that the phase waits for, without arriving.
inline void mbarrier_expect_bytes(uint64_t* barrier, uint32_t bytes, sim::Site site = sim::Site::here()) {
    sim::mbarrier_arrive(barrier, 0, bytes, site);
}

/// Adds `bytes` to the bytes that the phase waits for, and arrives.
inline void mbarrier_arrive_expect_bytes(uint64_t* barrier, uint32_t bytes, sim::Site site = sim::Site::here()) {
    sim::mbarrier_arrive(barrier, 1, bytes, site);
}

/// Arrives once the thread's cp.async copies have landed; the barrier's count must include this arrival.
inline void mbarrier_arrive_after_cp_async(uint64_t* barrier, sim::Site site = sim::Site::here()) {
    sim::arrive_after_copies(barrier, true, site);
}

/// Whether the phase of this parity is over. Does not wait.
inline bool mbarrier_test(uint64_t* barrier, uint32_t parity, sim::Site site = sim::Site::here()) {
    return sim::mbarrier_test(barrier, parity, site);
}

/// Waits until the phase of this parity is over. A new barrier's phase has parity 0, so a wait for 1 returns at once.
inline void mbarrier_wait(uint64_t* barrier, uint32_t parity, sim::Site site = sim::Site::here()) {
    sim::mbarrier_wait(barrier, parity, site);
}

#else

/// Turns 8 bytes of shared memory into a barrier whose phases need `count` arrivals each. One thread calls it; the others
/// may use the barrier after a __syncthreads.
__device__ __forceinline__ void mbarrier_init(uint64_t* barrier, uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}

/// Makes the initialisation visible to asynchronous copies.
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Frees the memory for other uses.
__device__ __forceinline__ void mbarrier_invalidate(uint64_t* barrier) {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

/// Counts `count` arrivals. Threads that wait for the phase see this thread's earlier writes.
__device__ __forceinline__ void mbarrier_arrive(uint64_t* barrier, uint32_t count = 1) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}

/// Adds `bytes` to the bytes that the phase waits for, without arriving.
__device__ __forceinline__ void mbarrier_expect_bytes(uint64_t* barrier, uint32_t bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

/// Adds `bytes` to the bytes that the phase waits for, and arrives.
__device__ __forceinline__ void mbarrier_arrive_expect_bytes(uint64_t* barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

/// Arrives once the thread's cp.async copies have landed; the barrier's count must include this arrival.
__device__ __forceinline__ void mbarrier_arrive_after_cp_async(uint64_t* barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

/// Whether the phase of this parity is over. Does not wait.
__device__ __forceinline__ bool mbarrier_test(uint64_t* barrier, uint32_t parity) {
    uint32_t is_over;
    asm volatile(
        "{\n"
        "    .reg .pred over;\n"
        "    mbarrier.test_wait.parity.shared::cta.b64 over, [%1], %2;\n"
        "    selp.u32 %0, 1, 0, over;\n"
        "}"
        : "=r"(is_over)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
    return is_over;
}

/// Waits until the phase of this parity is over. A new barrier's phase has parity 0, so a wait for 1 returns at once.
__device__ __forceinline__ void mbarrier_wait(uint64_t* barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
    // `try_wait` lets the hardware put the thread to sleep for a while; %= makes the labels unique
    asm volatile(
        "{\n"
        "    .reg .pred over;\n"
        "again_%=:\n"
        "    mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
        "    @!over bra again_%=;\n"
        "}" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
#else
    while (!mbarrier_test(barrier, parity)) {
    }
#endif
}

#endif

}  // namespace tkjit
