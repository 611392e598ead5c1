// Converts the bits of half (1-5-10) and bfloat16 (1-8-7) from and to wider formats, rounding once, to nearest even.
//
// A NaN becomes 0x7fff, as in the devices' conversion instructions.
#pragma once

#include "float_intrinsics.h"

#include <math.h>

namespace tkjit::sim {

inline constexpr unsigned short canonical_nan16 = 0x7fff;

/// Rounds `value` to float "to odd": if any bits are cut off, the last bit is set. Rounding the result to a format that
/// is at least two bits narrower gives the same as rounding `value` itself (Boldo and Melquiond, "When double rounding
/// is odd").
inline float round_to_odd(double value) {
    const float nearest = static_cast<float>(value);
    if (nearest == value || value != value) return nearest;
    unsigned bits = __float_as_uint(nearest);
    if (fabs(static_cast<double>(nearest)) > fabs(value)) bits--;  // towards zero; infinity becomes the largest float
    return __uint_as_float(bits | 1);
}

/// Rounds an integer to float "to odd". Integers need separate code, because not even double can hold 64 bits.
inline float round_to_odd(unsigned long long value) {
    if (value >> 53) value = (value | (value & 0x7ff ? 0x800 : 0)) & ~0x7ffull;
    return round_to_odd(static_cast<double>(value));
}
inline float round_to_odd(long long value) {
    return value < 0 ? -round_to_odd(0ull - static_cast<unsigned long long>(value))
                     : round_to_odd(static_cast<unsigned long long>(value));
}
inline float round_to_odd(int value) { return round_to_odd(static_cast<double>(value)); }
inline float round_to_odd(unsigned value) { return round_to_odd(static_cast<double>(value)); }

/// Computes `a * b + c` in double, rounded to odd. The product of two 16-bit floats is exact in double. Knuth's two-sum
/// finds the sum's error, which determines the last bit.
inline float fma_to_odd(float a, float b, float c) {
    const double product = static_cast<double>(a) * b;
    const double sum = product + c;
    const double virtual_c = sum - product;
    const double error = (product - (sum - virtual_c)) + (c - virtual_c);
    unsigned long long bits = static_cast<unsigned long long>(__double_as_longlong(sum));
    if (error == 0 || error != error || bits & 1) return round_to_odd(sum);
    bits += (error > 0) == (sum > 0) ? 1 : -1ull;
    return round_to_odd(__longlong_as_double(static_cast<long long>(bits)));
}

inline unsigned short bfloat16_bits(float value) {
    const unsigned bits = __float_as_uint(value);
    if (value != value) return canonical_nan16;
    return static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float bfloat16_value(unsigned short bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }

/// The portable conversions, which use integer arithmetic on the bits.
inline unsigned short half_bits_portable(float value) {
    const unsigned bits = __float_as_uint(value);
    const unsigned sign = bits >> 16 & 0x8000;
    const unsigned magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return canonical_nan16;
    if (magnitude >= 0x477ff000) return sign | 0x7c00;  // from 65520, half way to 2^16
    if (magnitude < 0x38800000) {                       // below 2^-14: subnormal, a multiple of 2^-24
        // Adding 0.5 lets the addition itself round at 2^-24.
        return sign | (__float_as_uint(__uint_as_float(magnitude) + 0.5f) - __float_as_uint(0.5f));
    }
    const unsigned rebiased = magnitude - (112u << 23);
    return sign | (rebiased + 0xfff + (rebiased >> 13 & 1)) >> 13;
}

inline float half_value_portable(unsigned short bits) {
    const unsigned sign = static_cast<unsigned>(bits & 0x8000) << 16;
    const unsigned magnitude = bits & 0x7fff;
    if (magnitude > 0x7c00) return __uint_as_float(0x7fffffff);
    if (magnitude == 0x7c00) return __uint_as_float(sign | 0x7f800000);
    if (magnitude < 0x0400) return __uint_as_float(sign | __float_as_uint(static_cast<float>(magnitude) * 0x1p-24f));
    return __uint_as_float(sign | ((magnitude << 13) + (112u << 23)));
}

#ifdef __F16C__
// Uses builtins instead of <immintrin.h>, which alone takes half a second to compile.
typedef float Float4 __attribute__((vector_size(16)));
typedef short Short8 __attribute__((vector_size(16)));

inline unsigned short half_bits(float value) {
    if (value != value) return canonical_nan16;
    return static_cast<unsigned short>(__builtin_ia32_vcvtps2ph(Float4{value, 0, 0, 0}, 0)[0]);
}
inline float half_value(unsigned short bits) {
    const float value = __builtin_ia32_vcvtph2ps(Short8{static_cast<short>(bits), 0, 0, 0, 0, 0, 0, 0})[0];
    return value == value ? value : __uint_as_float(0x7fffffff);
}
#else
inline unsigned short half_bits(float value) { return half_bits_portable(value); }
inline float half_value(unsigned short bits) { return half_value_portable(bits); }
#endif

/// Returns `bits`, which is `value` rounded to nearest. But if this was a rounding in the wrong direction, returns the
/// neighbouring number's bits.
enum class Direction { towards_zero, up, down };
inline unsigned short redirect(unsigned short bits, float rounded_value, float value, Direction direction) {
    if (rounded_value == value || value != value) return bits;
    const bool went_up = rounded_value > value;
    const bool negative = bits & 0x8000;
    const bool wanted_up = direction == Direction::towards_zero ? negative : direction == Direction::up;
    if (went_up == wanted_up) return bits;
    return went_up == negative ? bits + 1 : bits - 1;  // away from zero if it went up and is negative
}

}  // namespace tkjit::sim
