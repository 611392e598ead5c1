// Two blocks multiply together: each has half of the rows of A and half of the columns of B. The first block issues the
// product, which arrives at the mbarriers of both. Scales come to tensor memory by tcgen05.cp. `how` has: the kind, the
// instruction descriptor, and the leading dimensions of A and B.
#include "tensor_memory.cuh"

__device__ uint64_t descriptor(const void* place, uint32_t leading) {
    return (shared_address(place) & 0x3ffff) >> 4 | uint64_t(leading >> 4) << 16 | 8ull << 32 | 1ull << 46;
}

__global__ void multiplied(Globals g) {
    __shared__ uint32_t slot;
    __shared__ alignas(128) char a[128 * 32], b[128 * 32], scales_a[512], scales_b[2][512];
    __shared__ uint64_t done;
    const int *how = g.how.raw_ptr;
    const unsigned rank = blockIdx.x;
    for (int i = threadIdx.x; i < 128 * 32; i += 128) a[i] = g.a(rank, i), b[i] = g.b(rank, i);
    for (int i = threadIdx.x; i < 512; i += 128) {
        scales_a[i] = g.scales_a(rank, i);
        scales_b[0][i] = g.scales_b(0, i), scales_b[1][i] = g.scales_b(1, i);
    }
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared_address(&done)));
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    asm volatile("fence.proxy.async.shared::cta;");
    if (threadIdx.x < 32) {
        asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 512;" :: "r"(shared_address(&slot)));
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
    }
    asm volatile("tcgen05.fence::before_thread_sync;");
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
    asm volatile("tcgen05.fence::after_thread_sync;");
    const uint32_t memory = slot, sa = memory + 300, sb = memory + 320, instruction = how[1];
    if (rank == 0 && threadIdx.x == 0) {
        const uint64_t from_a = descriptor(a, how[2]), from_b = descriptor(b, how[3]);
#define MULTIPLY(KIND)                                                                                                  \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, 0, 0; tcgen05.mma.cta_group::2.kind::" KIND " [%0], %1, %2, %3, [%4], [%5], p; }" \
                 :: "r"(memory), "l"(from_a), "l"(from_b), "r"(instruction), "r"(sa), "r"(sb))
        if (how[0] == 0) {
            asm volatile("{ .reg .pred p; setp.ne.u32 p, 0, 0; tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p; }"
                         :: "r"(memory), "l"(from_a), "l"(from_b), "r"(instruction));
        } else {
            asm volatile("tcgen05.cp.cta_group::2.32x128b.warpx4 [%0], %1;" :: "r"(sa), "l"(descriptor(scales_a, 128)));
            for (int half = 0; half < 2; ++half)
                asm volatile("tcgen05.cp.cta_group::2.32x128b.warpx4 [%0], %1;" :: "r"(sb + 4 * half), "l"(descriptor(scales_b[half], 128)));
            if (how[0] == 1) MULTIPLY("mxf8f6f4.block_scale.scale_vec::1X");
            else if (how[0] == 2) MULTIPLY("mxf4.block_scale.scale_vec::2X");
            else MULTIPLY("mxf4nvf4.block_scale.scale_vec::4X");
        }
        const uint16_t both = 3;
        asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                     :: "r"(shared_address(&done)), "h"(both));
    }
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }"
                 :: "r"(shared_address(&done)) : "memory");
    asm volatile("tcgen05.fence::after_thread_sync;");
    load_all(memory, 256, g.d.raw_ptr + rank * 128 * 256, 256);
    asm volatile("tcgen05.fence::before_thread_sync;");
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (threadIdx.x < 32) asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 512;" :: "r"(memory));
}
