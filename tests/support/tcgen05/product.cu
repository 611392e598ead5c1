// Multiplies A by B without a swizzle. `how` has: the kind, the instruction descriptor, whether A comes from tensor memory,
// how often the product is added, the leading and the stride dimension of A and those of B, and the column of D.
#include "tensor_memory.cuh"

__device__ uint64_t descriptor(const void* place, uint32_t leading, uint32_t stride) {
    return (shared_address(place) & 0x3ffff) >> 4 | uint64_t(leading >> 4) << 16 | uint64_t(stride >> 4) << 32 | 1ull << 46;
}

__global__ void multiplied(Globals g) {
    __shared__ uint32_t slot;
    __shared__ alignas(128) char a[128 * 32], b[256 * 32];
    __shared__ uint64_t done;
    const int *how = g.how.raw_ptr, kind = how[0], times = how[3], columns = 512;
    for (int i = threadIdx.x; i < 128 * 32; i += 128) a[i] = g.a.raw_ptr[i];
    for (int i = threadIdx.x; i < 256 * 32; i += 128) b[i] = g.b.raw_ptr[i];
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared_address(&done)));
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    asm volatile("fence.proxy.async.shared::cta;");
    const uint32_t memory = allocate(&slot, columns);
    const uint64_t from_a = descriptor(a, how[4], how[5]), from_b = descriptor(b, how[6], how[7]);
    const uint32_t d = memory + how[8], instruction = how[1], a_place = memory + 256;
    if (how[2]) {  // A in tensor memory: 32 bytes of each row
        for (int i = 0; i < 8; ++i) {
            const uint32_t word = reinterpret_cast<const uint32_t*>(a)[threadIdx.x * 8 + i];
            asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(a_place + (threadIdx.x / 32 << 21) + i), "r"(word));
        }
        asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
        asm volatile("tcgen05.fence::before_thread_sync;");
        __syncthreads();
        asm volatile("tcgen05.fence::after_thread_sync;");
    }
    if (threadIdx.x == 0) {
        for (int time = 0; time < times; ++time) {
#define MULTIPLY(KIND)                                                                                                  \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %4, 0; tcgen05.mma.cta_group::1.kind::" KIND " [%0], %1, %2, %3, p; }" \
                 :: "r"(d), "l"(from_a), "l"(from_b), "r"(instruction), "r"(time))
            if (how[2]) asm volatile("{ .reg .pred p; setp.ne.u32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p; }"
                                     :: "r"(d), "r"(a_place), "l"(from_b), "r"(instruction), "r"(time));
            else if (kind == 0) MULTIPLY("f16");
            else if (kind == 1) MULTIPLY("tf32");
            else if (kind == 2) MULTIPLY("f8f6f4");
            else if (kind == 3) MULTIPLY("i8");
            else  // all lanes but the first of each quarter, and a quarter of the sums before
                asm volatile("{ .reg .pred p; setp.ne.u32 p, %4, 0;"
                             "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, {%5, %5, %5, %5}, p, 2; }"
                             :: "r"(d), "l"(from_a), "l"(from_b), "r"(instruction), "r"(time), "r"(1));
        }
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(shared_address(&done)));
    }
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }"
                 :: "r"(shared_address(&done)) : "memory");
    asm volatile("tcgen05.fence::after_thread_sync;");
    load_all(memory, 256, g.d.raw_ptr, 256);
    free_all(memory, columns);
}
