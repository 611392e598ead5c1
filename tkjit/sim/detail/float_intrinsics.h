// CUDA's floating-point intrinsics. Here the fast ones (`__expf`) are about as exact as the slow ones. They do not
// imitate a device's error, but they do give a device's results for undefined arguments.
#pragma once

#include "integer_intrinsics.h"

#include <math.h>

namespace tkjit::sim {

/// Keeps the compiler from contracting a rounded operation with the next: `__fmul_rn` promises a rounding.
template <class T>
inline T rounded(T value) {
#if defined(__x86_64__)
    asm("" : "+x"(value));
#elif defined(__aarch64__)
    asm("" : "+w"(value));
#endif
    return value;
}

/// Converts as devices do: a value that is out of range becomes the nearest limit. NaN becomes 0 or, if the source or
/// the result has 64 bits, a number with only the top bit set (PTX ISA, "cvt"). `value` is already integral.
template <class Integer, class Float>
inline Integer saturate(Float value) {
    constexpr int value_bits = 8 * sizeof(Integer) - (static_cast<Integer>(-1) < 0 ? 1 : 0);
    constexpr Integer largest = static_cast<Integer>(~0ull >> (64 - value_bits));
    constexpr Integer smallest = static_cast<Integer>(-1) < 0 ? static_cast<Integer>(-largest - 1) : 0;
    if (value != value) return sizeof(Float) == 8 || sizeof(Integer) == 8 ? 1ull << (8 * sizeof(Integer) - 1) : 0;
    // 2^value_bits is exact in every format; `largest` is not.
    if (value >= static_cast<Float>(2) * static_cast<Float>(1ull << (value_bits - 1))) return largest;
    if (value <= static_cast<Float>(smallest)) return smallest;
    return static_cast<Integer>(value);
}

}  // namespace tkjit::sim

inline int __float_as_int(float x) { return tkjit::sim::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return tkjit::sim::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return tkjit::sim::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return tkjit::sim::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return tkjit::sim::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return tkjit::sim::bit_cast<double>(x); }
inline int __double2loint(double x) { return static_cast<int>(__double_as_longlong(x)); }
inline int __double2hiint(double x) { return static_cast<int>(__double_as_longlong(x) >> 32); }
inline double __hiloint2double(int high, int low) {
    return __longlong_as_double(static_cast<long long>(high) << 32 | static_cast<unsigned>(low));
}

// To integers: to nearest even, towards zero, up, down.
#define TKJIT_SIM_TO_INTEGER(from, from_name, integer, integer_name)    \
    inline integer __##from_name##2##integer_name##_rn(from x) {        \
        return tkjit::sim::saturate<integer, from>(__builtin_rint(x));  \
    }                                                                   \
    inline integer __##from_name##2##integer_name##_rz(from x) {        \
        return tkjit::sim::saturate<integer, from>(__builtin_trunc(x)); \
    }                                                                   \
    inline integer __##from_name##2##integer_name##_ru(from x) {        \
        return tkjit::sim::saturate<integer, from>(__builtin_ceil(x));  \
    }                                                                   \
    inline integer __##from_name##2##integer_name##_rd(from x) {        \
        return tkjit::sim::saturate<integer, from>(__builtin_floor(x)); \
    }
TKJIT_SIM_TO_INTEGER(float, float, int, int)
TKJIT_SIM_TO_INTEGER(float, float, unsigned, uint)
TKJIT_SIM_TO_INTEGER(float, float, long long, ll)
TKJIT_SIM_TO_INTEGER(float, float, unsigned long long, ull)
TKJIT_SIM_TO_INTEGER(double, double, int, int)
TKJIT_SIM_TO_INTEGER(double, double, unsigned, uint)
TKJIT_SIM_TO_INTEGER(double, double, long long, ll)
TKJIT_SIM_TO_INTEGER(double, double, unsigned long long, ull)
#undef TKJIT_SIM_TO_INTEGER

inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __ll2float_rn(long long x) { return static_cast<float>(x); }
inline float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned x) { return x; }
inline double __ll2double_rn(long long x) { return static_cast<double>(x); }
inline double __ull2double_rn(unsigned long long x) { return static_cast<double>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }

inline float __fadd_rn(float a, float b) { return tkjit::sim::rounded(a + b); }
inline float __fsub_rn(float a, float b) { return tkjit::sim::rounded(a - b); }
inline float __fmul_rn(float a, float b) { return tkjit::sim::rounded(a * b); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __frsqrt_rn(float x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(x))); }
inline double __dadd_rn(double a, double b) { return tkjit::sim::rounded(a + b); }
inline double __dsub_rn(double a, double b) { return tkjit::sim::rounded(a - b); }
inline double __dmul_rn(double a, double b) { return tkjit::sim::rounded(a * b); }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline double __drcp_rn(double x) { return 1.0 / x; }
// of pairs, since CUDA 13
inline float2 __fadd2_rn(float2 a, float2 b) { return {__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y)}; }
inline float2 __fmul2_rn(float2 a, float2 b) { return {__fmul_rn(a.x, b.x), __fmul_rn(a.y, b.y)}; }
inline float2 __ffma2_rn(float2 a, float2 b, float2 c) { return {__fmaf_rn(a.x, b.x, c.x), __fmaf_rn(a.y, b.y, c.y)}; }
inline float __fmaf_ieee_rn(float a, float b, float c) { return fmaf(a, b, c); }

// The other rounding modes; their bodies are compiled once.
#define TKJIT_SIM_DIRECTED(type, name, parameters, expression) \
    type name##_rz parameters;                                 \
    type name##_ru parameters;                                 \
    type name##_rd parameters;
#include "directed_rounding.inc"
#undef TKJIT_SIM_DIRECTED

inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return powf(10.0f, x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __powf(float x, float y) { return exp2f(y * log2f(x)); }  // NaN for a negative x, as CUDA documents
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline void __sincosf(float x, float* sine, float* cosine) { *sine = sinf(x), *cosine = cosf(x); }
inline float __tanhf(float x) { return tanhf(x); }
/// A divisor above 2^126 gives 0, because its reciprocal is not a normal number.
inline float __fdividef(float a, float b) { return fabsf(b) > 0x1p126f ? a * (0.0f / b) : a / b; }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }  // NaN gives 0
