// Converts the bits of the 8-bit floats e4m3 (1-4-3, no infinity) and e5m2 (1-5-2) from and to wider formats, rounding
// once, to nearest even.
//
// Source: "FP8 Formats for Deep Learning" (arXiv:2209.05433), and PTX ISA, "cvt", for NaN and saturation.
#pragma once

#include "float16_rounding.h"
#include "float_intrinsics.h"

#include <math.h>

enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

using __nv_fp8_storage_t = unsigned char;
using __nv_fp8x2_storage_t = unsigned short;
using __nv_fp8x4_storage_t = unsigned int;

namespace tkjit::sim {

struct Fp8Format {
    int mantissa_bits;
    unsigned exponent_rebias;  // float's bias less this format's
    unsigned largest_code;     // of a finite number
    unsigned overflow_code;    // of a number too large, without saturation: infinity, or NaN if there is no infinity
    float smallest_normal;     // smaller numbers are multiples of the smallest subnormal
    float subnormal_rounder;   // a float whose last bit has the value of the smallest subnormal
};

constexpr Fp8Format e4m3_format{3, 127 - 7, 0x7e, 0x7f, 0x1p-6f, 0x1p14f};
constexpr Fp8Format e5m2_format{2, 127 - 15, 0x7b, 0x7c, 0x1p-14f, 0x1p7f};
constexpr unsigned char canonical_nan8 = 0x7f;

inline unsigned char fp8_bits(float value, __nv_saturation_t saturation, __nv_fp8_interpretation_t interpretation) {
    if (value != value) return canonical_nan8;
    const Fp8Format& format = interpretation == __NV_E4M3 ? e4m3_format : e5m2_format;
    const unsigned sign = __float_as_uint(value) >> 24 & 0x80;
    const float magnitude = fabsf(value);
    unsigned code;
    if (magnitude < format.smallest_normal) {
        // The addition rounds at the rounder's last bit. There is no product here that could be contracted with it.
        code = __float_as_uint(magnitude + format.subnormal_rounder) - __float_as_uint(format.subnormal_rounder);
    } else {
        const int dropped_bits = 23 - format.mantissa_bits;
        const unsigned rebiased = __float_as_uint(magnitude) - (format.exponent_rebias << 23);
        code = (rebiased + (1u << (dropped_bits - 1)) - 1 + (rebiased >> dropped_bits & 1)) >> dropped_bits;
    }
    if (code > format.largest_code) code = saturation == __NV_SATFINITE ? format.largest_code : format.overflow_code;
    return static_cast<unsigned char>(sign | code);
}

/// CUDA computes this conversion in software, where a NaN keeps its sign and, in e5m2, the last bit of its payload.
inline unsigned char fp8_bits(double value, __nv_saturation_t saturation, __nv_fp8_interpretation_t interpretation) {
    if (value == value) return fp8_bits(round_to_odd(value), saturation, interpretation);
    const unsigned long long bits = static_cast<unsigned long long>(__double_as_longlong(value));
    const unsigned payload = interpretation == __NV_E4M3 ? 0x7f : 0x7e | (bits >> 50 & 1);
    return static_cast<unsigned char>((bits >> 56 & 0x80) | payload);
}

inline float e4m3_value(unsigned char bits) {
    if ((bits & 0x7f) == 0x7f) return __uint_as_float(0x7fffffff);
    // Read as the top of a float's exponent and mantissa, the seven bits are too small by the difference of the biases.
    // Subnormals come out right, because they are then subnormal floats.
    const float magnitude = __uint_as_float((bits & 0x7fu) << 20) * 0x1p120f;
    return bits & 0x80 ? -magnitude : magnitude;
}

/// An e5m2 is the upper byte of a half.
inline float e5m2_value(unsigned char bits) { return half_value(static_cast<unsigned short>(bits << 8)); }

inline float fp8_value(unsigned char bits, __nv_fp8_interpretation_t interpretation) {
    return interpretation == __NV_E4M3 ? e4m3_value(bits) : e5m2_value(bits);
}

}  // namespace tkjit::sim
