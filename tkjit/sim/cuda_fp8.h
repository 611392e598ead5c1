// The simulator's `cuda_fp8.h`: the 8-bit floats e4m3 and e5m2, pairs and quadruples of them.
//
// Constructors saturate to the largest finite number, as CUDA's do; torch's casts do not. Not here: e8m0, the scale of
// block-scaled formats.
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "detail/fp8_rounding.h"

// ---- from wider formats; the element in the low bits comes first
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturation,
                                                __nv_fp8_interpretation_t interpretation) {
    return tkjit::sim::fp8_bits(x, saturation, interpretation);
}
inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturation,
                                                 __nv_fp8_interpretation_t interpretation) {
    return tkjit::sim::fp8_bits(x, saturation, interpretation);
}
inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t saturation,
                                                  __nv_fp8_interpretation_t interpretation) {
    return tkjit::sim::fp8_bits(tkjit::sim::half_value(x.x), saturation, interpretation);
}
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, __nv_saturation_t saturation,
                                                      __nv_fp8_interpretation_t interpretation) {
    return tkjit::sim::fp8_bits(tkjit::sim::bfloat16_value(x.x), saturation, interpretation);
}

#define TKJIT_SIM_PAIR_TO_FP8(name, pair, element_name, first, second)                                                 \
    inline __nv_fp8x2_storage_t name(pair x, __nv_saturation_t saturation, __nv_fp8_interpretation_t interpretation) { \
        const unsigned low = __nv_cvt_##element_name##_to_fp8(first, saturation, interpretation);                      \
        const unsigned high = __nv_cvt_##element_name##_to_fp8(second, saturation, interpretation);                    \
        return static_cast<__nv_fp8x2_storage_t>(high << 8 | low);                                                     \
    }
TKJIT_SIM_PAIR_TO_FP8(__nv_cvt_float2_to_fp8x2, float2, float, x.x, x.y)
TKJIT_SIM_PAIR_TO_FP8(__nv_cvt_double2_to_fp8x2, double2, double, x.x, x.y)
TKJIT_SIM_PAIR_TO_FP8(__nv_cvt_halfraw2_to_fp8x2, __half2_raw, halfraw, __half_raw{x.x}, __half_raw{x.y})
TKJIT_SIM_PAIR_TO_FP8(__nv_cvt_bfloat16raw2_to_fp8x2, __nv_bfloat162_raw, bfloat16raw, __nv_bfloat16_raw{x.x},
                      __nv_bfloat16_raw{x.y})
#undef TKJIT_SIM_PAIR_TO_FP8

// ---- to half, which holds every value of both
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t interpretation) {
    return {tkjit::sim::half_bits(tkjit::sim::fp8_value(x, interpretation))};
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t interpretation) {
    return {__nv_cvt_fp8_to_halfraw(x & 0xff, interpretation).x, __nv_cvt_fp8_to_halfraw(x >> 8, interpretation).x};
}

// ---- the types
#define TKJIT_SIM_FP8_NAME e4m3
#define TKJIT_SIM_FP8_INTERPRETATION __NV_E4M3
#include "detail/fp8_type.inc"

#define TKJIT_SIM_FP8_NAME e5m2
#define TKJIT_SIM_FP8_INTERPRETATION __NV_E5M2
#include "detail/fp8_type.inc"
