// Hopper's instructions as inline PTX, in a header, as in libraries.
#pragma once

#include <cuda_runtime.h>
#include <stdint.h>

__device__ inline uint32_t shared(const void* address) { return static_cast<uint32_t>(__cvta_generic_to_shared(address)); }

__device__ inline void barrier_init(uint64_t& barrier, uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(shared(&barrier)), "r"(count) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}
__device__ inline void barrier_expect(uint64_t& barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(shared(&barrier)), "r"(bytes) : "memory");
}
__device__ inline void barrier_wait(uint64_t& barrier, uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred P1;\n"
        "LAB_WAIT:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n"
        "@P1 bra.uni DONE;\n"
        "bra.uni LAB_WAIT;\n"
        "DONE:\n"
        "}\n" ::"r"(shared(&barrier)),
        "r"(parity)
        : "memory");
}
__device__ inline bool elected() {
    uint32_t is_leader = 0;
    asm volatile("{.reg .pred P;\n elect.sync _|P, %1;\n selp.u32 %0, 1, 0, P;}\n" : "+r"(is_leader) : "r"(0xFFFFFFFF));
    return is_leader;
}

__device__ inline void load_2d(void* to, const void* map, uint64_t& barrier, int x, int y) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
            shared(to)),
        "l"(map), "r"(shared(&barrier)), "r"(x), "r"(y)
        : "memory");
}
__device__ inline void load_3d(void* to, const void* map, uint64_t& barrier, int x, int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::
            "r"(shared(to)),
        "l"(map), "r"(shared(&barrier)), "r"(x), "r"(y), "r"(z)
        : "memory");
}
__device__ inline void store_3d(const void* map, const void* from, int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
                 "r"(shared(from)), "r"(x), "r"(y), "r"(z)
                 : "memory");
}
__device__ inline void add_3d(const void* map, const void* from, int x, int y, int z) {
    asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
                 "r"(shared(from)), "r"(x), "r"(y), "r"(z)
                 : "memory");
}
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;"); }
__device__ inline void wait_for_stores() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(0) : "memory"); }
__device__ inline void fence_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ inline void multiply_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void multiply_wait() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(0) : "memory");
}
__device__ inline uint64_t descriptor(const void* at, uint32_t leading, uint32_t stride, uint64_t swizzle) {
    return (shared(at) & 0x3FFFF) >> 4 | uint64_t(leading >> 4) << 16 | uint64_t(stride >> 4) << 32 | swizzle << 62;
}
