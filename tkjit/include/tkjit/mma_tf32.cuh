// `mma.sync` of tf32. mma_fragments.cuh describes the fragments' layout.
// Needs sm_80.
//
//     const uint32_t a[2] = {to_tf32(x), to_tf32(y)};
//     mma_m16n8k4<tf32>(sum, a, b, sum);
#pragma once

#include "mma_fragments.cuh"
#include "tf32.cuh"

namespace tkjit {

namespace detail {

template <>
struct MmaElement<tf32> {
    static constexpr char ptx[] = "tf32";
#ifdef TKJIT_SIM
    static constexpr int bits = 32, least_exponent = sim::least_of_float;
    /// Truncates floats that were not rounded to tf32.
    static float value(uint32_t bits) { return __uint_as_float(bits & ~0x1fffu); }
#endif
};

}  // namespace detail

/// d = a * b + c, summed in float. Element : tf32.
template <class Element>
TKJIT_MMA_WRAPPER mma_m16n8k8(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                              const float (&c)[4] TKJIT_MMA_TAKE_SITE) {
    detail::multiply<detail::MmaShape16x8x8, Element, Element, detail::MmaFloats>(d, a, b, c TKJIT_MMA_PASS_SITE);
}

/// d = a * b + c, summed in float. Element : tf32.
template <class Element>
TKJIT_MMA_WRAPPER mma_m16n8k4(float (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[1],
                              const float (&c)[4] TKJIT_MMA_TAKE_SITE) {
    detail::multiply<detail::MmaShape16x8x4, Element, Element, detail::MmaFloats>(d, a, b, c TKJIT_MMA_PASS_SITE);
}

}  // namespace tkjit
