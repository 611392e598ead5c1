// Copies a matrix from shared to tensor memory, with each shape in its own columns.
#include "tensor_memory.cuh"

__global__ void copied(Globals g) {
    __shared__ uint32_t slot;
    __shared__ alignas(128) char rows[128 * 32];
    __shared__ uint64_t done;
    for (int i = threadIdx.x; i < 128 * 32; i += 128) rows[i] = g.x.raw_ptr[i];
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared_address(&done)));
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    asm volatile("fence.proxy.async.shared::cta;");
    const uint32_t memory = allocate(&slot, 64), own = memory + (threadIdx.x / 32 << 21);
    for (int column = 0; column < 48; ++column)
        asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(own + column), "r"(-1));
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    asm volatile("tcgen05.fence::before_thread_sync;");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("tcgen05.fence::after_thread_sync;");
        // units of 16 bytes, each with all 128 rows
        const uint64_t matrix = (shared_address(rows) & 0x3ffff) >> 4 | uint64_t(128) << 16 | 8ull << 32 | 1ull << 46;
#define COPY(SHAPE, COLUMN) asm volatile("tcgen05.cp.cta_group::1." SHAPE " [%0], %1;" :: "r"(memory + COLUMN), "l"(matrix))
        COPY("128x256b", 0);
        COPY("4x256b", 8);
        COPY("128x128b", 16);
        COPY("64x128b.warpx2::02_13", 24);
        COPY("64x128b.warpx2::01_23", 32);
        COPY("32x128b.warpx4", 40);
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(shared_address(&done)));
    }
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }"
                 :: "r"(shared_address(&done)) : "memory");
    asm volatile("tcgen05.fence::after_thread_sync;");
    load_all(memory, 48, g.words.raw_ptr, 48);
    free_all(memory, 64);
}
