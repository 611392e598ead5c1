// `mma.sync` of half and bfloat16. mma_fragments.cuh describes the fragments' layout. Needs sm_80.
//
//     float sum[4] = {};
//     mma_m16n8k16<__nv_bfloat16>(sum, a, b, sum);
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "mma_fragments.cuh"

namespace tkjit {

namespace detail {

template <>
struct MmaElement<__half> {
    static constexpr char ptx[] = "f16";
#ifdef TKJIT_SIM
    static constexpr int bits = 16, least_exponent = sim::least_of_half;
    static float value(uint32_t bits) { return sim::half_value(static_cast<unsigned short>(bits)); }
#endif
};

template <>
struct MmaElement<__nv_bfloat16> {
    static constexpr char ptx[] = "bf16";
#ifdef TKJIT_SIM
    static constexpr int bits = 16, least_exponent = sim::least_of_float;
    static float value(uint32_t bits) { return sim::bfloat16_value(static_cast<unsigned short>(bits)); }
#endif
};

#ifdef TKJIT_SIM
/// Halves in pairs; the sum is rounded to half once, at the end.
struct MmaHalves {
    static constexpr bool is_half = true;
    using Register = uint32_t;
    using Sum = float;
    static Sum load(const uint32_t* registers, int i) {
        return sim::half_value(static_cast<unsigned short>(registers[i / 2] >> i % 2 * 16));
    }
    static void store(uint32_t* registers, int i, Sum sum) {
        const uint32_t other = registers[i / 2] & (i % 2 ? 0x0000ffff : 0xffff0000);
        registers[i / 2] = other | static_cast<uint32_t>(sim::half_bits(sum)) << i % 2 * 16;
    }
};
#endif

}  // namespace detail

/// d = a * b + c, summed in float.
///
/// Element : __nv_bfloat16 or __half, the type of A's and B's elements.
template <class Element>
TKJIT_MMA_WRAPPER mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                               const float (&c)[4] TKJIT_MMA_TAKE_SITE) {
    detail::multiply<detail::MmaShape16x8x16, Element, Element, detail::MmaFloats>(d, a, b, c TKJIT_MMA_PASS_SITE);
}

/// d = a * b + c, summed in float.
///
/// Element : __nv_bfloat16 or __half, the type of A's and B's elements.
template <class Element>
TKJIT_MMA_WRAPPER mma_m16n8k8(float (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[1],
                              const float (&c)[4] TKJIT_MMA_TAKE_SITE) {
    detail::multiply<detail::MmaShape16x8x8, Element, Element, detail::MmaFloats>(d, a, b, c TKJIT_MMA_PASS_SITE);
}

/// d = a * b + c, where c and d are halves.
///
/// Element : __half, the type of A's and B's elements.
template <class Element>
TKJIT_MMA_WRAPPER mma_m16n8k16(uint32_t (&d)[2], const uint32_t (&a)[4], const uint32_t (&b)[2],
                               const uint32_t (&c)[2] TKJIT_MMA_TAKE_SITE) {
    detail::multiply<detail::MmaShape16x8x16, Element, Element, detail::MmaHalves>(d, a, b, c TKJIT_MMA_PASS_SITE);
}

/// d = a * b + c, where c and d are halves.
///
/// Element : __half, the type of A's and B's elements.
template <class Element>
TKJIT_MMA_WRAPPER mma_m16n8k8(uint32_t (&d)[2], const uint32_t (&a)[2], const uint32_t (&b)[1],
                              const uint32_t (&c)[2] TKJIT_MMA_TAKE_SITE) {
    detail::multiply<detail::MmaShape16x8x8, Element, Element, detail::MmaHalves>(d, a, b, c TKJIT_MMA_PASS_SITE);
}

}  // namespace tkjit
