// The simulator's `cuda_fp4.h`: the 4-bit float e2m1, and pairs and quadruples of it.
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_fp8.h"
#include "detail/block_scaling.h"

// ---- conversions from wider formats; the first element of a pair goes to the low bits
#define TKJIT_SIM_TO_FP4(source, type, value)                                                                         \
    inline __nv_fp4_storage_t __nv_cvt_##source##_to_fp4(type x, __nv_fp4_interpretation_t, cudaRoundMode rounding) { \
        return tkjit::sim::e2m1_bits(value, rounding);                                                                \
    }
TKJIT_SIM_TO_FP4(float, float, x)
TKJIT_SIM_TO_FP4(double, double, x)
TKJIT_SIM_TO_FP4(halfraw, __half_raw, tkjit::sim::half_value(x.x))
TKJIT_SIM_TO_FP4(bfloat16raw, __nv_bfloat16_raw, tkjit::sim::bfloat16_value(x.x))
#undef TKJIT_SIM_TO_FP4

#define TKJIT_SIM_PAIR_TO_FP4(name, pair, element_name, first, second)                                             \
    inline __nv_fp4x2_storage_t name(pair x, __nv_fp4_interpretation_t interpretation, cudaRoundMode rounding) {   \
        const unsigned low = __nv_cvt_##element_name##_to_fp4(first, interpretation, rounding);                    \
        const unsigned high = __nv_cvt_##element_name##_to_fp4(second, interpretation, rounding);                  \
        return static_cast<__nv_fp4x2_storage_t>(high << 4 | low);                                                 \
    }
TKJIT_SIM_PAIR_TO_FP4(__nv_cvt_float2_to_fp4x2, float2, float, x.x, x.y)
TKJIT_SIM_PAIR_TO_FP4(__nv_cvt_double2_to_fp4x2, double2, double, x.x, x.y)
TKJIT_SIM_PAIR_TO_FP4(__nv_cvt_halfraw2_to_fp4x2, __half2_raw, halfraw, __half_raw{x.x}, __half_raw{x.y})
TKJIT_SIM_PAIR_TO_FP4(__nv_cvt_bfloat16raw2_to_fp4x2, __nv_bfloat162_raw, bfloat16raw, __nv_bfloat16_raw{x.x},
                      __nv_bfloat16_raw{x.y})
#undef TKJIT_SIM_PAIR_TO_FP4

// ---- conversions to half, which can represent every value
inline __half_raw __nv_cvt_fp4_to_halfraw(__nv_fp4_storage_t x, __nv_fp4_interpretation_t) {
    return {tkjit::sim::half_bits(tkjit::sim::e2m1_value(x))};
}
inline __half2_raw __nv_cvt_fp4x2_to_halfraw2(__nv_fp4x2_storage_t x, __nv_fp4_interpretation_t interpretation) {
    return {__nv_cvt_fp4_to_halfraw(x & 0xf, interpretation).x, __nv_cvt_fp4_to_halfraw(x >> 4, interpretation).x};
}

// ---- the types
struct __align__(1) __nv_fp4_e2m1 {
    __nv_fp4_storage_t __x;

    __nv_fp4_e2m1() = default;
    explicit __nv_fp4_e2m1(__half value) : __nv_fp4_e2m1(static_cast<float>(value)) {}
    explicit __nv_fp4_e2m1(__nv_bfloat16 value) : __nv_fp4_e2m1(static_cast<float>(value)) {}
    explicit __nv_fp4_e2m1(float value) : __x(tkjit::sim::e2m1_bits(value, cudaRoundNearest)) {}
    explicit __nv_fp4_e2m1(double value) : __x(tkjit::sim::e2m1_bits(value, cudaRoundNearest)) {}

    explicit operator float() const { return tkjit::sim::e2m1_value(__x); }
    explicit operator double() const { return float(*this); }
    explicit operator __half() const { return __nv_cvt_fp4_to_halfraw(__x, __NV_E2M1); }
    explicit operator __nv_bfloat16() const { return float(*this); }
    explicit operator bool() const { return (__x & 7) != 0; }
};

struct __align__(1) __nv_fp4x2_e2m1 {
    __nv_fp4x2_storage_t __x;

    __nv_fp4x2_e2m1() = default;
    explicit __nv_fp4x2_e2m1(__half2 pair) : __x(__nv_cvt_halfraw2_to_fp4x2(pair, __NV_E2M1, cudaRoundNearest)) {}
    explicit __nv_fp4x2_e2m1(__nv_bfloat162 pair)
        : __x(__nv_cvt_bfloat16raw2_to_fp4x2(pair, __NV_E2M1, cudaRoundNearest)) {}
    explicit __nv_fp4x2_e2m1(float2 pair) : __x(__nv_cvt_float2_to_fp4x2(pair, __NV_E2M1, cudaRoundNearest)) {}
    explicit __nv_fp4x2_e2m1(double2 pair) : __x(__nv_cvt_double2_to_fp4x2(pair, __NV_E2M1, cudaRoundNearest)) {}

    explicit operator __half2() const { return __nv_cvt_fp4x2_to_halfraw2(__x, __NV_E2M1); }
    explicit operator float2() const { return {tkjit::sim::e2m1_value(__x & 0xf), tkjit::sim::e2m1_value(__x >> 4)}; }
};

struct __align__(2) __nv_fp4x4_e2m1 {
    __nv_fp4x4_storage_t __x;

    __nv_fp4x4_e2m1() = default;
    explicit __nv_fp4x4_e2m1(float4 four)
        : __x(static_cast<__nv_fp4x4_storage_t>(__nv_fp4x2_e2m1(float2{four.x, four.y}).__x |
                                                __nv_fp4x2_e2m1(float2{four.z, four.w}).__x << 8)) {}

    explicit operator float4() const {
        const auto value = [this](int index) { return tkjit::sim::e2m1_value(__x >> 4 * index & 0xf); };
        return {value(0), value(1), value(2), value(3)};
    }
};
