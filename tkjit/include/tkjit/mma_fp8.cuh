// `mma.sync` of the 8-bit floats e4m3 and e5m2, in any mix. mma_fragments.cuh describes the fragments' layout.
//
// Needs sm_89. On sm_90 the tensor cores support 8-bit floats only through wgmma, so nvcc compiles these instructions to
// a conversion to half and half's mma.
#pragma once

#include "mma_f16.cuh"
#ifdef TKJIT_SIM
#include <cuda_fp8.h>
#endif

// Declarations are enough here; <cuda_fp8.h> is a long file.
struct __nv_fp8_e4m3;
struct __nv_fp8_e5m2;

namespace tkjit {

namespace detail {

template <>
struct MmaElement<__nv_fp8_e4m3> {
    static constexpr char ptx[] = "e4m3";
#ifdef TKJIT_SIM
    static constexpr int bits = 8;
    static float value(uint32_t bits) { return sim::e4m3_value(static_cast<unsigned char>(bits)); }
#endif
};

template <>
struct MmaElement<__nv_fp8_e5m2> {
    static constexpr char ptx[] = "e5m2";
#ifdef TKJIT_SIM
    static constexpr int bits = 8;
    static float value(uint32_t bits) { return sim::e5m2_value(static_cast<unsigned char>(bits)); }
#endif
};

}  // namespace detail

/// d = a * b + c, summed in float.
///
/// A, B : __nv_fp8_e4m3 or __nv_fp8_e5m2, each.
template <class A, class B = A>
TKJIT_MMA_WRAPPER mma_m16n8k32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                               const float (&c)[4] TKJIT_MMA_TAKE_SITE) {
    detail::multiply<detail::MmaShape16x8x32, A, B, detail::MmaFloats>(d, a, b, c TKJIT_MMA_PASS_SITE);
}

/// d = a * b + c, where c and d are halves.
///
/// A, B : __nv_fp8_e4m3 or __nv_fp8_e5m2, each.
template <class A, class B = A>
TKJIT_MMA_WRAPPER mma_m16n8k32(uint32_t (&d)[2], const uint32_t (&a)[4], const uint32_t (&b)[2],
                               const uint32_t (&c)[2] TKJIT_MMA_TAKE_SITE) {
    detail::multiply<detail::MmaShape16x8x32, A, B, detail::MmaHalves>(d, a, b, c TKJIT_MMA_PASS_SITE);
}

/// d = a * b + c, summed in float.
///
/// A, B : __nv_fp8_e4m3 or __nv_fp8_e5m2, each.
template <class A, class B = A>
TKJIT_MMA_WRAPPER mma_m16n8k16(float (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[1],
                               const float (&c)[4] TKJIT_MMA_TAKE_SITE) {
    detail::multiply<detail::MmaShape16x8x16, A, B, detail::MmaFloats>(d, a, b, c TKJIT_MMA_PASS_SITE);
}

/// d = a * b + c, where c and d are halves.
///
/// A, B : __nv_fp8_e4m3 or __nv_fp8_e5m2, each.
template <class A, class B = A>
TKJIT_MMA_WRAPPER mma_m16n8k16(uint32_t (&d)[2], const uint32_t (&a)[2], const uint32_t (&b)[1],
                               const uint32_t (&c)[2] TKJIT_MMA_TAKE_SITE) {
    detail::multiply<detail::MmaShape16x8x16, A, B, detail::MmaHalves>(d, a, b, c TKJIT_MMA_PASS_SITE);
}

}  // namespace tkjit
