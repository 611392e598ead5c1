// One mistake in the use of tensor memory for each value of `which`, and none for others.
#include "tensor_memory.cuh"

__global__ void wrong(Globals g) {
    __shared__ uint32_t slot;
    const int which = g.which.raw_ptr[0], warp = threadIdx.x / 32;
    g.y.raw_ptr[0] = 0;
    if (which == 0) allocate(&slot, 48);
    const uint32_t memory = allocate(&slot, 64), word = 1;
    uint32_t loaded;
#define LOAD(ADDRESS) asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(loaded) : "r"(ADDRESS))
    if (which == 1) allocate(&slot, 512);
    if (which == 2) return;
    if (which == 3) LOAD(memory + (96 << 16));
    if (which == 4) LOAD(memory + (warp << 21) + 64);
    if (which == 5) LOAD(memory + (warp << 21) + threadIdx.x % 2);
    if (which == 6 && threadIdx.x == 0)
        asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" :: "r"(memory), "l"(uint64_t(8) << 32));
    if (which == 7 && threadIdx.x == 0)
        asm volatile("{ .reg .pred p; setp.ne.u32 p, 0, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %1, %2, p; }"
                     :: "r"(memory), "l"(1ull << 46), "r"(1 << 4 | 4 << 17 | 16 << 24));
    if (which == 8 && threadIdx.x < 32) {
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" :: "r"(shared_address(&slot)));
    }
    if (which == 9 && threadIdx.x < 16) LOAD(memory);
    free_all(memory, which == 10 ? 32 : 64);
}
