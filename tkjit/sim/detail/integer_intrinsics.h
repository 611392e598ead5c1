// CUDA's integer intrinsics, and `min` and `max` as overloads in the global namespace.
#pragma once

#include "math_functions.h"
#include "vector_types.h"

namespace tkjit::sim {

template <class To, class From>
inline To bit_cast(From value) {
    static_assert(sizeof(To) == sizeof(From));
    To result;
    __builtin_memcpy(static_cast<void*>(&result), &value, sizeof(To));
    return result;
}

/// Picks four of the eight bytes in `y:x`. Each byte has a selector of four bits; if a selector's top bit is set, the
/// byte's sign is used instead.
inline unsigned permute_bytes(unsigned x, unsigned y, unsigned selectors) {
    const unsigned long long bytes = static_cast<unsigned long long>(y) << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned selector = selectors >> 4 * i;
        unsigned byte = bytes >> 8 * (selector & 7) & 0xff;
        if (selector & 8) byte = byte & 0x80 ? 0xff : 0;
        result |= byte << 8 * i;
    }
    return result;
}

}  // namespace tkjit::sim

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }

inline unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
inline unsigned long long __brevll(unsigned long long x) {
    return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 |
           __brev(static_cast<unsigned>(x >> 32));
}

/// Like PTX's `prmt`, but ignores the selectors' top bits, as an H100 and the CUDA Math API do.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selectors) {
    return tkjit::sim::permute_bytes(x, y, selectors & 0x7777);
}

inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
inline long long __mul64hi(long long a, long long b) {
    return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
inline unsigned __sad(int a, int b, unsigned c) {
    return c + (a > b ? unsigned(a) - unsigned(b) : unsigned(b) - unsigned(a));
}
inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a > b ? a - b : b - a); }
inline int __hadd(int a, int b) { return static_cast<int>((static_cast<long long>(a) + b) >> 1); }
inline int __rhadd(int a, int b) { return static_cast<int>((static_cast<long long>(a) + b + 1) >> 1); }
inline unsigned __uhadd(unsigned a, unsigned b) { return (a & b) + ((a ^ b) >> 1); }
inline unsigned __urhadd(unsigned a, unsigned b) { return (a | b) - ((a ^ b) >> 1); }

inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    const unsigned long long joined = static_cast<unsigned long long>(high) << 32 | low;
    return static_cast<unsigned>(joined << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    const unsigned long long joined = static_cast<unsigned long long>(high) << 32 | low;
    return static_cast<unsigned>(joined >> (shift & 31));
}

// These clamp the shift to 32 bits; the two functions above wrap it.
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

/// Finds the n-th set bit, where n = |offset|, and returns its position. It counts from bit `base` upwards, or
/// downwards if `offset` is negative. If `offset` is 0, it checks whether bit `base` itself is set. Returns all ones if
/// there is no such bit.
inline unsigned __fns(unsigned mask, unsigned base, int offset) {
    const int step = offset < 0 ? -1 : 1;
    int remaining = offset == 0 ? 1 : step * offset;
    for (int bit = static_cast<int>(base); bit >= 0 && bit < 32; bit += step) {
        if (mask >> bit & 1 && --remaining == 0) return static_cast<unsigned>(bit);
        if (offset == 0) break;
    }
    return ~0u;
}

/// Adds the dot product of four signed (unsigned) bytes to `c`.
inline int __dp4a(int a, int b, int c) {
    unsigned sum = static_cast<unsigned>(c);  // unsigned, so that it wraps
    for (int i = 0; i < 4; i++) sum += static_cast<signed char>(a >> 8 * i) * static_cast<signed char>(b >> 8 * i);
    return static_cast<int>(sum);
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; i++) c += (a >> 8 * i & 0xff) * (b >> 8 * i & 0xff);
    return c;
}
inline int __dp4a(char4 a, char4 b, int c) {
    return __dp4a(tkjit::sim::bit_cast<int>(a), tkjit::sim::bit_cast<int>(b), c);
}
inline unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) {
    return __dp4a(tkjit::sim::bit_cast<unsigned>(a), tkjit::sim::bit_cast<unsigned>(b), c);
}

/// Multiplies two 16-bit integers in `a` by the two lower (`_lo`) or upper (`_hi`) bytes of `b`, and adds both products
/// to `c`.
#define TKJIT_SIM_DP2A(name, first_byte)                                                                              \
    inline int name(int a, int b, int c) {                                                                            \
        const int low = static_cast<short>(a) * static_cast<signed char>(b >> 8 * first_byte);                        \
        const int high = (a >> 16) * static_cast<signed char>(b >> 8 * (first_byte + 1));                             \
        return static_cast<int>(static_cast<unsigned>(c) + static_cast<unsigned>(low) + static_cast<unsigned>(high)); \
    }                                                                                                                 \
    inline unsigned name(unsigned a, unsigned b, unsigned c) {                                                        \
        return c + (a & 0xffff) * (b >> 8 * first_byte & 0xff) + (a >> 16) * (b >> 8 * (first_byte + 1) & 0xff);      \
    }                                                                                                                 \
    inline int name(short2 a, char4 b, int c) {                                                                       \
        return name(tkjit::sim::bit_cast<int>(a), tkjit::sim::bit_cast<int>(b), c);                                   \
    }                                                                                                                 \
    inline unsigned name(ushort2 a, uchar4 b, unsigned c) {                                                           \
        return name(tkjit::sim::bit_cast<unsigned>(a), tkjit::sim::bit_cast<unsigned>(b), c);                         \
    }
TKJIT_SIM_DP2A(__dp2a_lo, 0)
TKJIT_SIM_DP2A(__dp2a_hi, 2)
#undef TKJIT_SIM_DP2A

// As in CUDA's math_functions.h: mixed signedness compares as unsigned, mixed precision as double.
#define TKJIT_SIM_MIN_MAX(result, a_type, b_type) \
    constexpr result min(a_type a, b_type b) {    \
        const auto x = static_cast<result>(a);    \
        const auto y = static_cast<result>(b);    \
        return y < x ? y : x;                     \
    }                                             \
    constexpr result max(a_type a, b_type b) {    \
        const auto x = static_cast<result>(a);    \
        const auto y = static_cast<result>(b);    \
        return x < y ? y : x;                     \
    }
TKJIT_SIM_MIN_MAX(int, int, int)
TKJIT_SIM_MIN_MAX(unsigned, unsigned, unsigned)
TKJIT_SIM_MIN_MAX(unsigned, int, unsigned)
TKJIT_SIM_MIN_MAX(unsigned, unsigned, int)
TKJIT_SIM_MIN_MAX(long, long, long)
TKJIT_SIM_MIN_MAX(unsigned long, unsigned long, unsigned long)
TKJIT_SIM_MIN_MAX(unsigned long, long, unsigned long)
TKJIT_SIM_MIN_MAX(unsigned long, unsigned long, long)
TKJIT_SIM_MIN_MAX(long long, long long, long long)
TKJIT_SIM_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
TKJIT_SIM_MIN_MAX(unsigned long long, long long, unsigned long long)
TKJIT_SIM_MIN_MAX(unsigned long long, unsigned long long, long long)
#undef TKJIT_SIM_MIN_MAX
// If one operand is a NaN, the other operand is returned, as fmin and fmax do.
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(float a, double b) { return fmin(a, b); }
inline double max(float a, double b) { return fmax(a, b); }
inline double min(double a, float b) { return fmin(a, b); }
inline double max(double a, float b) { return fmax(a, b); }

inline unsigned umin(unsigned a, unsigned b) { return min(a, b); }
inline unsigned umax(unsigned a, unsigned b) { return max(a, b); }
inline long long llmin(long long a, long long b) { return min(a, b); }
inline long long llmax(long long a, long long b) { return max(a, b); }
inline unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
inline unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }
