// Two products, the second of which uses the first from tensor memory, as attention does. The first four warps scale the first
// product, and the other four also read it. A test removes a line with one of the marks at the ends of lines, or uncomments
// one with a mark at its beginning.
#include "tensor_memory.cuh"

#include <cuda_bf16.h>

constexpr int products = 64, scaled = 128;  // columns of the second product and of A for it

__device__ uint64_t descriptor(const void* place, uint32_t leading) {
    return (shared_address(place) & 0x3ffff) >> 4 | uint64_t(leading >> 4) << 16 | 8ull << 32 | 1ull << 46;
}

__device__ void commit(uint64_t* barrier) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(shared_address(barrier)));
}

__device__ void wait(uint64_t* barrier) {
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }"
                 ::"r"(shared_address(barrier)) : "memory");
}

__device__ void before_meeting() { asm volatile("tcgen05.fence::before_thread_sync;"); }
__device__ void after_meeting() { asm volatile("tcgen05.fence::after_thread_sync;"); }

// A has 128 rows and B 64, both of 16 elements: in units of eight elements, each with all rows
__global__ void chain(Globals g) {
    __shared__ uint32_t slot;
    __shared__ alignas(128) __nv_bfloat16 a[2 * 128 * 8], b[2 * 64 * 8];
    __shared__ uint64_t first_done, second_done;
    const uint32_t instruction = 1 << 4 | 1 << 7 | 1 << 10 | 64 >> 3 << 17 | 128 >> 4 << 24;
    for (int i = threadIdx.x; i < 128 * 16; i += 256) a[i % 16 / 8 * 1024 + i / 16 * 8 + i % 8] = g.a(i / 16, i % 16);
    for (int i = threadIdx.x; i < 64 * 16; i += 256) b[i % 16 / 8 * 512 + i / 16 * 8 + i % 8] = g.b(i / 16, i % 16);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&first_done)));
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&second_done)));
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    asm volatile("fence.proxy.async.shared::cta;");  // proxy fence
    const uint32_t memory = allocate(&slot, 256), own = memory + (threadIdx.x / 32 % 4 << 21);
    const uint64_t from_b = descriptor(b, 64 * 16);
    if (threadIdx.x == 0) {
        int adds = 0;
        //adds first// adds = 1;
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }"
                     ::"r"(memory), "l"(descriptor(a, 128 * 16)), "l"(from_b), "r"(instruction), "r"(adds));
        commit(&first_done);  // first commit
    }
    wait(&first_done);  // first wait
    after_meeting();  // after the first product
    float sums[8];
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
                 : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3]), "=f"(sums[4]), "=f"(sums[5]), "=f"(sums[6]), "=f"(sums[7])
                 : "r"(own));
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");  // load wait
    float total = 0;
    for (int i = 0; i < 8; ++i) total += sums[i];
    uint32_t place = own + scaled;
    //alias// place = own;
    if (threadIdx.x < 128) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(total, 2);
        const uint32_t word = *reinterpret_cast<const uint32_t*>(&pair);
        asm volatile("tcgen05.st.sync.aligned.32x32b.x8.b32 [%0], {%1, %1, %1, %1, %1, %1, %1, %1};" ::"r"(place), "r"(word));
        asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");  // store wait
    }
    before_meeting();  // before the second product
    __syncthreads();  // meeting
    if (threadIdx.x == 0) {
        after_meeting();  // at the second product
        asm volatile("{ .reg .pred p; setp.ne.u32 p, 0, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p; }"
                     ::"r"(memory + products), "r"(place), "l"(from_b), "r"(instruction));
        commit(&second_done);
    }
    //reuse// b[threadIdx.x] = 0;
    wait(&second_done);  // second wait
    after_meeting();
    b[threadIdx.x] = 0;  // the product has read it
    if (threadIdx.x < 128) load_all(memory + products, 64, reinterpret_cast<int*>(g.c.raw_ptr), 64);  // results
    free_all(memory, 256);
}
