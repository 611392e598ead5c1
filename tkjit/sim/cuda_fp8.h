// The simulator's `cuda_fp8.h`: the 8-bit floats e4m3 and e5m2, and e8m0, the scale of block-scaled formats; pairs and
// quadruples of them.
//
// Constructors saturate to the largest finite number, as CUDA's do; torch's casts do not.
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "detail/block_scaling.h"
#include "detail/fp8_rounding.h"

// ---- conversions from wider formats; the first element of a pair goes to the low bits
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

// ---- conversions to half, which can represent every value of both formats
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

// ---- scales
#define TKJIT_SIM_TO_E8M0(source, type, value)                                                               \
    inline __nv_fp8_storage_t __nv_cvt_##source##_to_e8m0(type x, __nv_saturation_t saturation, cudaRoundMode rounding) { \
        return tkjit::sim::e8m0_bits(value, saturation, rounding);                                           \
    }
TKJIT_SIM_TO_E8M0(float, float, x)
TKJIT_SIM_TO_E8M0(double, double, x)
TKJIT_SIM_TO_E8M0(bfloat16raw, __nv_bfloat16_raw, tkjit::sim::bfloat16_value(x.x))
#undef TKJIT_SIM_TO_E8M0

#define TKJIT_SIM_PAIR_TO_E8M0(name, pair, source, first, second)                                                    \
    inline __nv_fp8x2_storage_t name(pair x, __nv_saturation_t saturation, cudaRoundMode rounding) {                \
        const unsigned low = __nv_cvt_##source##_to_e8m0(first, saturation, rounding);                              \
        return static_cast<__nv_fp8x2_storage_t>(__nv_cvt_##source##_to_e8m0(second, saturation, rounding) << 8 | low); \
    }
TKJIT_SIM_PAIR_TO_E8M0(__nv_cvt_float2_to_e8m0x2, float2, float, x.x, x.y)
TKJIT_SIM_PAIR_TO_E8M0(__nv_cvt_double2_to_e8m0x2, double2, double, x.x, x.y)
TKJIT_SIM_PAIR_TO_E8M0(__nv_cvt_bfloat162raw_to_e8m0x2, __nv_bfloat162_raw, bfloat16raw, __nv_bfloat16_raw{x.x},
                       __nv_bfloat16_raw{x.y})
#undef TKJIT_SIM_PAIR_TO_E8M0

inline __nv_bfloat16_raw __nv_cvt_e8m0_to_bf16raw(__nv_fp8_storage_t x) {
    return {static_cast<unsigned short>(__float_as_uint(tkjit::sim::e8m0_value(x)) >> 16)};
}
inline __nv_bfloat162_raw __nv_cvt_e8m0x2_to_bf162raw(__nv_fp8x2_storage_t x) {
    return {__nv_cvt_e8m0_to_bf16raw(x & 0xff).x, __nv_cvt_e8m0_to_bf16raw(x >> 8).x};
}

struct __align__(1) __nv_fp8_e8m0 {
    __nv_fp8_storage_t __x;

    __nv_fp8_e8m0() = default;
    explicit __nv_fp8_e8m0(__half value) : __nv_fp8_e8m0(static_cast<float>(value)) {}
    explicit __nv_fp8_e8m0(__nv_bfloat16 value) : __nv_fp8_e8m0(static_cast<float>(value)) {}
    explicit __nv_fp8_e8m0(float value) : __nv_fp8_e8m0(static_cast<double>(value)) {}
    explicit __nv_fp8_e8m0(double value) : __x(tkjit::sim::e8m0_bits(value, __NV_SATFINITE, cudaRoundPosInf)) {}

    explicit operator float() const { return tkjit::sim::e8m0_value(__x); }
    explicit operator double() const { return float(*this); }
    explicit operator __nv_bfloat16() const { return __nv_cvt_e8m0_to_bf16raw(__x); }
    explicit operator __half() const { return float(*this); }
};

struct __align__(2) __nv_fp8x2_e8m0 {
    __nv_fp8x2_storage_t __x;

    __nv_fp8x2_e8m0() = default;
    explicit __nv_fp8x2_e8m0(__half2 pair) : __nv_fp8x2_e8m0(__half22float2(pair)) {}
    explicit __nv_fp8x2_e8m0(__nv_bfloat162 pair) : __nv_fp8x2_e8m0(__bfloat1622float2(pair)) {}
    explicit __nv_fp8x2_e8m0(float2 pair) : __x(__nv_cvt_float2_to_e8m0x2(pair, __NV_SATFINITE, cudaRoundPosInf)) {}
    explicit __nv_fp8x2_e8m0(double2 pair) : __x(__nv_cvt_double2_to_e8m0x2(pair, __NV_SATFINITE, cudaRoundPosInf)) {}

    explicit operator float2() const { return {tkjit::sim::e8m0_value(__x & 0xff), tkjit::sim::e8m0_value(__x >> 8)}; }
    explicit operator __half2() const { return __float22half2_rn(float2(*this)); }
    explicit operator __nv_bfloat162() const { return __nv_cvt_e8m0x2_to_bf162raw(__x); }
};

struct __align__(4) __nv_fp8x4_e8m0 {
    __nv_fp8x4_storage_t __x;

    __nv_fp8x4_e8m0() = default;
    explicit __nv_fp8x4_e8m0(__half2 low, __half2 high) : __nv_fp8x4_e8m0(__nv_fp8x2_e8m0(low), __nv_fp8x2_e8m0(high)) {}
    explicit __nv_fp8x4_e8m0(__nv_bfloat162 low, __nv_bfloat162 high)
        : __nv_fp8x4_e8m0(__nv_fp8x2_e8m0(low), __nv_fp8x2_e8m0(high)) {}
    explicit __nv_fp8x4_e8m0(float4 four)
        : __nv_fp8x4_e8m0(__nv_fp8x2_e8m0(float2{four.x, four.y}), __nv_fp8x2_e8m0(float2{four.z, four.w})) {}
    explicit __nv_fp8x4_e8m0(double4 four)
        : __nv_fp8x4_e8m0(__nv_fp8x2_e8m0(double2{four.x, four.y}), __nv_fp8x2_e8m0(double2{four.z, four.w})) {}

    explicit operator float4() const {
        const auto value = [this](int index) { return tkjit::sim::e8m0_value(__x >> 8 * index & 0xff); };
        return {value(0), value(1), value(2), value(3)};
    }

  private:
    __nv_fp8x4_e8m0(__nv_fp8x2_e8m0 low, __nv_fp8x2_e8m0 high) : __x(low.__x | static_cast<unsigned>(high.__x) << 16) {}
};
