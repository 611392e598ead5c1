// Allocates tensor memory for a block, reads it in the first four warps, and frees it.
#pragma once

#include <stdint.h>

__device__ uint32_t shared_address(const void* place) { return static_cast<uint32_t>(__cvta_generic_to_shared(place)); }

__device__ uint32_t allocate(uint32_t* slot, int columns) {
    if (threadIdx.x < 32)
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared_address(slot)), "r"(columns));
    asm volatile("tcgen05.fence::before_thread_sync;");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;");
    return *slot;
}

__device__ void free_all(uint32_t memory, int columns) {
    asm volatile("tcgen05.fence::before_thread_sync;");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;");
    if (threadIdx.x >= 32) return;
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(memory), "r"(columns));
}

__device__ void load_all(uint32_t memory, int columns, int* to, int stride) {
    for (int column = 0; column < columns; ++column) {
        uint32_t word;
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(word) : "r"(memory + (threadIdx.x / 32 << 21) + column));
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
        to[threadIdx.x * stride + column] = static_cast<int>(word);
    }
}
