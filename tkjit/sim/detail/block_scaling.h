// Converts the formats that block scaling uses from and to wider ones: e8m0, for the powers of two that scale a block,
// and e2m1, for the block's 4-bit numbers.
//
// Source: "OCP Microscaling Formats (MX) Specification", 5.3.3 and 5.4; PTX ISA, "cvt", for NaN and saturation.
#pragma once

#include "float_intrinsics.h"
#include "fp8_rounding.h"

#include <math.h>

enum __nv_fp4_interpretation_t { __NV_E2M1 };

using __nv_fp4_storage_t = unsigned char;
using __nv_fp4x2_storage_t = unsigned char;
using __nv_fp4x4_storage_t = unsigned short;

enum cudaRoundMode { cudaRoundNearest, cudaRoundZero, cudaRoundPosInf, cudaRoundMinInf };

namespace tkjit::sim {

constexpr unsigned char e8m0_nan = 0xff;
constexpr unsigned char e8m0_largest = 0xfe;
constexpr int e8m0_bias = 127;
constexpr unsigned char e2m1_largest = 7;

/// Rounds the magnitude towards zero or up; the sign is ignored.
inline unsigned char e8m0_bits(double value, __nv_saturation_t saturation, cudaRoundMode rounding) {
    if (value != value) return e8m0_nan;
    const unsigned char overflow = saturation == __NV_SATFINITE ? e8m0_largest : e8m0_nan;
    const double magnitude = fabs(value);
    if (__builtin_isinf(value)) return overflow;
    int exponent;  // magnitude is in [0.5, 1) times 2^exponent
    const bool is_power = frexp(magnitude, &exponent) == 0.5;
    const int code = exponent - 1 + e8m0_bias + (rounding == cudaRoundPosInf && !is_power);
    if (magnitude == 0 || code < 0) return 0;
    return code > e8m0_largest ? overflow : static_cast<unsigned char>(code);
}

inline float e8m0_value(unsigned char bits) {
    if (bits == e8m0_nan) return __uint_as_float(0x7fff0000);
    return bits == 0 ? 0x1p-127f : __uint_as_float(bits << 23);
}

inline float e2m1_value(unsigned char bits) {
    constexpr float magnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    const float magnitude = magnitudes[bits & 7];
    return bits & 8 ? -magnitude : magnitude;
}

/// Rounds to nearest even or towards zero. NaN and numbers that are too large become the largest number.
inline unsigned char e2m1_bits(double value, cudaRoundMode rounding) {
    if (value != value) return e2m1_largest;
    const double magnitude = fabs(value);
    unsigned char code = e2m1_largest;
    while (e2m1_value(code) > magnitude) --code;
    if (rounding == cudaRoundNearest && code < e2m1_largest) {
        const double middle = (e2m1_value(code) + e2m1_value(code + 1)) / 2;
        if (magnitude > middle || (magnitude == middle && code % 2)) ++code;
    }
    return static_cast<unsigned char>(code | (__builtin_signbit(value) ? 8 : 0));
}

}  // namespace tkjit::sim
