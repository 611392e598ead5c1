#include <stdint.h>

// Each block squares its own number and those of all blocks whose work it takes over.
__global__ void squares(Globals g) {
    __shared__ alignas(16) uint4 response;
    __shared__ uint64_t arrived;
    const uint32_t to = __cvta_generic_to_shared(&response), barrier = __cvta_generic_to_shared(&arrived);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barrier));
    asm volatile("fence.mbarrier_init.release.cluster;");
    uint32_t number = blockIdx.x, is_canceled = 1, phase = 0;
    while (is_canceled) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16;" :: "r"(barrier));
        asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" :: "r"(to), "r"(barrier));
        g.y.raw_ptr[number] = number * number;
        asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" :: "r"(barrier), "r"(phase) : "memory");
        asm volatile("{ .reg .pred p; .reg .b128 r; ld.shared.b128 r, [%2];"
                     "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, r; selp.u32 %0, 1, 0, p;"
                     "@p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %1, r; }"
                     : "=r"(is_canceled), "+r"(number) : "r"(to) : "memory");
        asm volatile("fence.proxy.async.shared::cta;");
        phase ^= 1;
    }
}
