// `mma.sync` of signed and unsigned bytes, in any mix, summed in 32 bits. mma_fragments.cuh describes the fragments'
// layout. Needs sm_80; m8n8k16 needs sm_75.
//
// A sum that overflows wraps around. The `_satfinite` forms clamp the sum to the nearest limit instead.
#pragma once

#include "mma_fragments.cuh"

namespace tkjit {

namespace detail {

template <>
struct MmaElement<int8_t> {
    static constexpr char ptx[] = "s8";
#ifdef TKJIT_SIM
    static constexpr int bits = 8;
    static int32_t value(uint32_t bits) { return static_cast<int8_t>(bits); }
#endif
};

template <>
struct MmaElement<uint8_t> {
    static constexpr char ptx[] = "u8";
#ifdef TKJIT_SIM
    static constexpr int bits = 8;
    static int32_t value(uint32_t bits) { return static_cast<uint8_t>(bits); }
#endif
};

}  // namespace detail

/// d = a * b + c. A and B are int8_t or uint8_t, in any mix.
///     template <class A, class B = A>
///     void mma_m16n8k32(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const int32_t (&c)[4]);
///     void mma_m16n8k32_satfinite(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const int32_t (&c)[4]);
///     void mma_m16n8k16(int32_t (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[1], const int32_t (&c)[4]);
///     void mma_m16n8k16_satfinite(int32_t (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[1], const int32_t (&c)[4]);
///     void mma_m8n8k16(int32_t (&d)[2], const uint32_t (&a)[1], const uint32_t (&b)[1], const int32_t (&c)[2]);
///     void mma_m8n8k16_satfinite(int32_t (&d)[2], const uint32_t (&a)[1], const uint32_t (&b)[1], const int32_t (&c)[2]);
#define TKJIT_MMA_INT8(name, shape, accumulator, c_registers, a_registers, b_registers)                             \
    template <class A, class B = A>                                                                                 \
    TKJIT_MMA_WRAPPER name(int32_t (&d)[c_registers], const uint32_t (&a)[a_registers],                             \
                           const uint32_t (&b)[b_registers], const int32_t (&c)[c_registers] TKJIT_MMA_TAKE_SITE) { \
        detail::multiply<detail::shape, A, B, detail::accumulator>(d, a, b, c TKJIT_MMA_PASS_SITE);                 \
    }
TKJIT_MMA_INT8(mma_m16n8k32, MmaShape16x8x32, MmaIntegers, 4, 4, 2)
TKJIT_MMA_INT8(mma_m16n8k32_satfinite, MmaShape16x8x32, MmaSaturatedIntegers, 4, 4, 2)
TKJIT_MMA_INT8(mma_m16n8k16, MmaShape16x8x16, MmaIntegers, 4, 2, 1)
TKJIT_MMA_INT8(mma_m16n8k16_satfinite, MmaShape16x8x16, MmaSaturatedIntegers, 4, 2, 1)
TKJIT_MMA_INT8(mma_m8n8k16, MmaShape8x8x16, MmaIntegers, 2, 1, 1)
TKJIT_MMA_INT8(mma_m8n8k16_satfinite, MmaShape8x8x16, MmaSaturatedIntegers, 2, 1, 1)
#undef TKJIT_MMA_INT8

}  // namespace tkjit
