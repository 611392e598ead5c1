// `mma.sync` of tf32, which is float with a mantissa of ten bits. mma_fragments.cuh describes the fragments' layout.
// Needs sm_80.
//
//     const uint32_t a[2] = {to_tf32(x), to_tf32(y)};
//     mma_m16n8k4<tf32>(sum, a, b, sum);
#pragma once

#include "mma_fragments.cuh"

namespace tkjit {

/// Tag for the format. Its numbers are passed as the bits of a float.
struct tf32 {};

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

/// `value` rounded to tf32, ties away from zero. Source: PTX ISA, "cvt.rna.tf32.f32".
__device__ __forceinline__ uint32_t to_tf32(float value) {
#ifdef TKJIT_SIM
    if (value != value) return 0x7fffffff;
    const uint32_t bits = __float_as_uint(value);
    return (bits & 0x7f800000) == 0x7f800000 ? bits : (bits + 0x1000) & ~0x1fffu;
#else
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
#endif
}

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
