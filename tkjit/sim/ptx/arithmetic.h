// PTX ISA, "Integer Arithmetic", "Floating Point", "Half Precision", "Logic and Shift", and `cvt`.
//
// Approximate instructions return the exact instructions' results, which are within the ISA's error bounds.
#pragma once

#include "operands.h"

#include <tkjit/mma_tf32.cuh>

#include <math.h>

namespace tkjit::sim::ptx {

template <class T>
inline constexpr bool is_pair = std::is_same_v<T, __half2> || std::is_same_v<T, __nv_bfloat162> || std::is_same_v<T, float2>;
template <class T>
inline constexpr bool is_half = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

inline float to_float(float x) { return x; }
inline float to_float(__half x) { return __half2float(x); }
inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
inline T from_float(float x) {
    if constexpr (std::is_same_v<T, __half>) {
        return __float2half_rn(x);
    } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
        return __float2bfloat16_rn(x);
    } else {
        return static_cast<T>(x);
    }
}

/// Applies a function to each element of a pair, or to a single value. Halves are converted to float for it, and back.
template <class T, class Function, class... More>
inline T each(Function function, T x, More... more) {
    if constexpr (is_pair<T>) {
        T result;
        result.x = each(function, x.x, more.x...);
        result.y = each(function, x.y, more.y...);
        return result;
    } else if constexpr (is_half<T>) {
        return from_float<T>(function(to_float(x), to_float(more)...));
    } else {
        return function(x, more...);
    }
}

#define TKJIT_SIM_BINARY(name, expression)                                           \
    template <class T>                                                               \
    inline T name(T a, T b) {                                                        \
        return each([](auto a, auto b) { return expression; }, a, b);                \
    }
TKJIT_SIM_BINARY(add, static_cast<decltype(a)>(a + b))
TKJIT_SIM_BINARY(sub, static_cast<decltype(a)>(a - b))
#undef TKJIT_SIM_BINARY

/// If one operand is a NaN, returns the other. -0 is less than +0.
template <class T>
inline T min(T a, T b) {
    return each([](auto x, auto y) { if constexpr (std::is_floating_point_v<decltype(x)>) return fmin(x, y); else return y < x ? y : x; }, a, b);
}
template <class T>
inline T max(T a, T b) {
    return each([](auto x, auto y) { if constexpr (std::is_floating_point_v<decltype(x)>) return fmax(x, y); else return x < y ? y : x; }, a, b);
}
/// Returns a NaN if either operand is one.
template <class T>
inline T min_nan(T a, T b) {
    return each([](auto x, auto y) { return x != x || y != y ? x + y : y < x ? y : x; }, a, b);
}
template <class T>
inline T max_nan(T a, T b) {
    return each([](auto x, auto y) { return x != x || y != y ? x + y : x < y ? y : x; }, a, b);
}

template <class T>
inline T mul_lo(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
        return each([](auto x, auto y) { return x * y; }, a, b);
    }
}
template <class T>
inline T mul_hi(T a, T b) {
    if constexpr (std::is_signed_v<T>) {
        return static_cast<T>((static_cast<__int128>(a) * b) >> (8 * sizeof(T)));
    } else {
        return static_cast<T>((static_cast<unsigned __int128>(a) * b) >> (8 * sizeof(T)));
    }
}
template <class T>
inline auto mul_wide(T a, T b) {
    using Wide = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                                    std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
    return static_cast<Wide>(static_cast<Wide>(a) * static_cast<Wide>(b));
}

/// Computes a * b + c, rounded once.
template <class T>
inline T fma(T a, T b, T c) {
    if constexpr (is_pair<T>) {
        T result;
        result.x = fma(a.x, b.x, c.x);
        result.y = fma(a.y, b.y, c.y);
        return result;
    } else if constexpr (is_half<T>) {
        return __hfma(a, b, c);
    } else {
        if constexpr (sizeof(T) == 8) return __builtin_fma(a, b, c);
        return __builtin_fmaf(a, b, c);
    }
}
template <class T>
inline T fma_relu(T a, T b, T c) {
    return each([](auto x) { return x < 0 || x != x ? 0 * 0.0f : x; }, fma(a, b, c));
}

template <class T>
inline T div(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        return b == 0 ? static_cast<T>(-1) : static_cast<T>(a / b);
    } else {
        return each([](auto x, auto y) { return x / y; }, a, b);
    }
}
template <class T>
inline T rem(T a, T b) {
    return b == 0 ? a : static_cast<T>(a % b);
}
template <class T>
inline T neg(T a) {
    return each([](auto x) { return static_cast<decltype(x)>(-x); }, a);
}
template <class T>
inline T abs(T a) {
    return each([](auto x) { return x < 0 ? static_cast<decltype(x)>(-x) : static_cast<decltype(x)>(x + 0); }, a);
}

// ---- bits

template <class T>
inline T not_(T a) {
    if constexpr (std::is_same_v<T, bool>) return !a;
    return static_cast<T>(~a);
}
template <class T>
inline T cnot(T a) {
    return a == 0;
}
template <class T>
inline T and_(T a, T b) {
    return static_cast<T>(a & b);
}
template <class T>
inline T or_(T a, T b) {
    return static_cast<T>(a | b);
}
template <class T>
inline T xor_(T a, T b) {
    return static_cast<T>(a ^ b);
}
template <class T>
inline uint32_t popc(T a) {
    return static_cast<uint32_t>(__builtin_popcountll(a));
}
template <class T>
inline uint32_t clz(T a) {
    return a == 0 ? 8 * sizeof(T) : static_cast<uint32_t>(__builtin_clzll(a)) - (64 - 8 * sizeof(T));
}
inline uint32_t brev(uint32_t a) { return __brev(a); }
inline uint64_t brev(uint64_t a) { return __brevll(a); }

/// A shift by the width or more gives 0, except that a signed right shift fills all bits with the sign.
template <class T>
inline T shl(T a, uint32_t by) {
    return by >= 8 * sizeof(T) ? 0 : static_cast<T>(a << by);
}
template <class T>
inline T shr(T a, uint32_t by) {
    constexpr uint32_t bits = 8 * sizeof(T);
    if (by >= bits) return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : 0;
    return static_cast<T>(a >> by);
}
template <bool wraps>
inline uint32_t shf_l(uint32_t low, uint32_t high, uint32_t by) {
    const uint32_t n = wraps ? by & 31 : by > 32 ? 32 : by;
    return static_cast<uint32_t>((static_cast<uint64_t>(high) << 32 | low) << n >> 32);
}
template <bool wraps>
inline uint32_t shf_r(uint32_t low, uint32_t high, uint32_t by) {
    const uint32_t n = wraps ? by & 31 : by > 32 ? 32 : by;
    return static_cast<uint32_t>((static_cast<uint64_t>(high) << 32 | low) >> n);
}
template <class T>
inline T bfe(T a, uint32_t position, uint32_t length) {
    const uint32_t bits = 8 * sizeof(T), from = position & 255, count = length & 255;
    T result = 0;
    const uint32_t last = from + count > bits ? bits - 1 : from + count - 1;
    for (uint32_t i = 0; i < bits; i++) {
        const uint32_t at = i < count && from + i < bits ? from + i : last;
        const bool is_sign = i >= count || from + i >= bits;
        const bool bit = count == 0 || (is_sign && std::is_unsigned_v<T>) ? false : a >> at & 1;
        result = static_cast<T>(result | static_cast<T>(bit) << i);
    }
    return result;
}
template <class T>
inline T bfi(T a, T b, uint32_t position, uint32_t length) {
    const uint32_t bits = 8 * sizeof(T), from = position & 255, count = length & 255;
    for (uint32_t i = 0; i < count && from + i < bits; i++) {
        b = static_cast<T>((b & ~(T(1) << (from + i))) | (a >> i & 1) << (from + i));
    }
    return b;
}
inline uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
    uint32_t result = 0;
    for (unsigned i = 0; i < 8; i++) {
        if (table >> i & 1) result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    }
    return result;
}
inline uint32_t prmt(uint32_t a, uint32_t b, uint32_t selector) { return permute_bytes(a, b, selector); }

// ---- functions

#define TKJIT_SIM_FUNCTION(name, of_float, of_double)                                        \
    template <class T>                                                                       \
    inline T name(T a) {                                                                     \
        return each(                                                                         \
            [](auto x) {                                                                     \
                if constexpr (sizeof(x) == 8) return of_double;                              \
                else return of_float;                                                        \
            },                                                                               \
            a);                                                                              \
    }
TKJIT_SIM_FUNCTION(exp2, exp2f(x), ::exp2(x))
TKJIT_SIM_FUNCTION(log2, log2f(x), ::log2(x))
TKJIT_SIM_FUNCTION(rcp, 1.0f / x, 1.0 / x)
TKJIT_SIM_FUNCTION(sqrt, sqrtf(x), ::sqrt(x))
TKJIT_SIM_FUNCTION(rsqrt, 1.0f / sqrtf(x), 1.0 / ::sqrt(x))
TKJIT_SIM_FUNCTION(sin, sinf(x), ::sin(x))
TKJIT_SIM_FUNCTION(cos, cosf(x), ::cos(x))
TKJIT_SIM_FUNCTION(tanh, tanhf(x), ::tanh(x))
#undef TKJIT_SIM_FUNCTION

// ---- cvt

/// Source: PTX ISA, "Rounding Modifiers". The modifiers that end in `i` round to integers.
enum class Rounding { none, rn, rna, rz, rm, rp, rni, rzi, rmi, rpi };

template <Rounding rounding, class T>
inline T round_to_integer(T x) {
    if constexpr (rounding == Rounding::rni || rounding == Rounding::rn) return __builtin_nearbyint(x);
    if constexpr (rounding == Rounding::rmi || rounding == Rounding::rm) return __builtin_floor(x);
    if constexpr (rounding == Rounding::rpi || rounding == Rounding::rp) return __builtin_ceil(x);
    return __builtin_trunc(x);
}

/// Converts a float to an integer. Returns the type's nearest integer if the float is out of range, and 0 for a NaN.
template <class To>
inline To saturate(double x) {
    if (x != x) return 0;
    constexpr To low = std::is_signed_v<To> ? static_cast<To>(To(1) << (8 * sizeof(To) - 1)) : To(0);
    constexpr To high = static_cast<To>(~low);
    if (x <= static_cast<double>(low)) return low;
    return x >= static_cast<double>(high) ? high : static_cast<To>(x);
}

template <class To, Rounding rounding, bool saturates, class From>
inline To cvt(From x) {
    if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
        if constexpr (!saturates) return static_cast<To>(x);
        const __int128 wide = x;
        constexpr To low = std::is_signed_v<To> ? static_cast<To>(To(1) << (8 * sizeof(To) - 1)) : To(0);
        constexpr To high = static_cast<To>(~low);
        return wide < low ? low : wide > high ? high : static_cast<To>(x);
    } else if constexpr (std::is_integral_v<To>) {
        if constexpr (std::is_same_v<From, double>) {
            return saturate<To>(round_to_integer<rounding>(x));
        } else {
            return saturate<To>(static_cast<double>(round_to_integer<rounding>(to_float(x))));
        }
    } else if constexpr (std::is_same_v<To, __half2> && std::is_same_v<From, __nv_fp8x2_e4m3>) {
        return static_cast<__half2>(x);
    } else if constexpr (std::is_same_v<To, __half2> && std::is_same_v<From, __nv_fp8x2_e5m2>) {
        return static_cast<__half2>(x);
    } else if constexpr (std::is_same_v<To, __nv_fp8x2_e4m3> || std::is_same_v<To, __nv_fp8x2_e5m2>) {
        return To(x);
    } else if constexpr (std::is_same_v<To, ::tkjit::tf32>) {  // rounded to 10 bits of mantissa, ties away from 0
        const uint32_t bits = __builtin_bit_cast(uint32_t, x);
        return as<To>(rounding == Rounding::rz ? bits & 0xffffe000u : (bits + 0x1000u) & 0xffffe000u);
    } else if constexpr (std::is_same_v<To, float> || std::is_same_v<To, double>) {
        constexpr bool is_number = std::is_integral_v<From> || std::is_same_v<From, double>;
        To result;
        if constexpr (is_number) {
            result = static_cast<To>(x);
        } else {
            result = static_cast<To>(to_float(x));
        }
        if constexpr (rounding >= Rounding::rni) result = static_cast<To>(round_to_integer<rounding>(result));
        if constexpr (saturates) result = result > 1 ? To(1) : result > 0 ? result : To(0);
        return result;
    } else if constexpr (std::is_same_v<To, __half>) {
        if constexpr (rounding == Rounding::rz) return __float2half_rz(static_cast<float>(x));
        return __float2half_rn(static_cast<float>(x));
    } else {
        static_assert(std::is_same_v<To, __nv_bfloat16>, "the simulator does not support this cvt");
        if constexpr (rounding == Rounding::rz) return __float2bfloat16_rz(static_cast<float>(x));
        return __float2bfloat16_rn(static_cast<float>(x));
    }
}

/// Converts two floats to a pair, with the second in the low bits.
template <class To, Rounding rounding, bool saturates>
inline To cvt(float high, float low) {
    if constexpr (std::is_same_v<To, __nv_fp8x2_e4m3> || std::is_same_v<To, __nv_fp8x2_e5m2>) {
        return To(float2{low, high});
    } else if constexpr (std::is_same_v<To, __half2>) {
        return {cvt<__half, rounding, saturates>(low), cvt<__half, rounding, saturates>(high)};
    } else {
        return {cvt<__nv_bfloat16, rounding, saturates>(low), cvt<__nv_bfloat16, rounding, saturates>(high)};
    }
}

}  // namespace tkjit::sim::ptx
