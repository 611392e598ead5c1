// CUDA's SIMD intrinsics: two 16-bit or four 8-bit integers in an `unsigned`.
//
// Source: CUDA Math API, "SIMD Intrinsics". In the names, `u` and `s` mean unsigned and signed; `us` and `ss` mean
// unsigned and signed with saturation. For each element that meets the condition, `vcmp` sets all bits, and `vset` sets
// one.
#pragma once

namespace tkjit::sim {

typedef unsigned char Unsigned8x4 __attribute__((vector_size(4)));
typedef signed char Signed8x4 __attribute__((vector_size(4)));
typedef unsigned short Unsigned16x2 __attribute__((vector_size(4)));
typedef short Signed16x2 __attribute__((vector_size(4)));

template <class Vector>
inline unsigned sum_of_elements(Vector x) {
    unsigned sum = 0;
    for (unsigned i = 0; i < sizeof(x) / sizeof(x[0]); i++) sum += x[i];
    return sum;
}

}  // namespace tkjit::sim

// n: 2 or 4; U, S: the vector types; `most`: the largest signed element. Sums use unsigned elements, which wrap. In a
// saturated signed sum, the first operand's sign decides which limit it becomes. __vavgs rounds away from zero: an odd
// sum goes up if it is positive, and down if not.
#define TKJIT_SIM_SIMD_2(name, n, U, S, expression)          \
    inline unsigned name##n(unsigned left, unsigned right) { \
        const U a = (U)left, b = (U)right;                   \
        const S sa = (S)left, sb = (S)right;                 \
        (void)a, (void)b, (void)sa, (void)sb;                \
        return (unsigned)(expression);                       \
    }
#define TKJIT_SIM_SIMD_COMPARISON(name, n, U, S, condition) \
    TKJIT_SIM_SIMD_2(__vcmp##name, n, U, S, condition)      \
    TKJIT_SIM_SIMD_2(__vset##name, n, U, S, (condition) & 1)

#define TKJIT_SIM_SIMD(n, U, S, most)                                                                                 \
    TKJIT_SIM_SIMD_2(__vadd, n, U, S, a + b)                                                                             \
    TKJIT_SIM_SIMD_2(__vsub, n, U, S, a - b)                                                                             \
    TKJIT_SIM_SIMD_2(__vaddus, n, U, S, (a + b) | (U)(a + b < a))                                                        \
    TKJIT_SIM_SIMD_2(__vsubus, n, U, S, (a - b) & (U)(a > b))                                                            \
    TKJIT_SIM_SIMD_2(__vaddss, n, U, S, ((S)((a ^ (a + b)) & (b ^ (a + b))) < 0) ? ((S)(sa < 0) ^ most) : (S)(a + b)) \
    TKJIT_SIM_SIMD_2(__vsubss, n, U, S, ((S)((a ^ b) & (a ^ (a - b))) < 0) ? ((S)(sa < 0) ^ most) : (S)(a - b))       \
    TKJIT_SIM_SIMD_2(__vhaddu, n, U, S, (a & b) + ((a ^ b) >> 1))                                                        \
    TKJIT_SIM_SIMD_2(__vavgu, n, U, S, (a | b) - ((a ^ b) >> 1))                                                         \
    TKJIT_SIM_SIMD_2(__vabsdiffu, n, U, S, a > b ? a - b : b - a)                                                        \
    TKJIT_SIM_SIMD_2(__vabsdiffs, n, U, S, sa > sb ? a - b : b - a)                                                      \
    TKJIT_SIM_SIMD_2(__vmaxu, n, U, S, a > b ? a : b)                                                                    \
    TKJIT_SIM_SIMD_2(__vmaxs, n, U, S, sa > sb ? sa : sb)                                                                \
    TKJIT_SIM_SIMD_2(__vminu, n, U, S, a < b ? a : b)                                                                    \
    TKJIT_SIM_SIMD_2(__vmins, n, U, S, sa < sb ? sa : sb)                                                                \
    TKJIT_SIM_SIMD_COMPARISON(eq, n, U, S, a == b)                                                                       \
    TKJIT_SIM_SIMD_COMPARISON(ne, n, U, S, a != b)                                                                       \
    TKJIT_SIM_SIMD_COMPARISON(geu, n, U, S, a >= b)                                                                      \
    TKJIT_SIM_SIMD_COMPARISON(gtu, n, U, S, a > b)                                                                       \
    TKJIT_SIM_SIMD_COMPARISON(leu, n, U, S, a <= b)                                                                      \
    TKJIT_SIM_SIMD_COMPARISON(ltu, n, U, S, a < b)                                                                       \
    TKJIT_SIM_SIMD_COMPARISON(ges, n, U, S, sa >= sb)                                                                    \
    TKJIT_SIM_SIMD_COMPARISON(gts, n, U, S, sa > sb)                                                                     \
    TKJIT_SIM_SIMD_COMPARISON(les, n, U, S, sa <= sb)                                                                    \
    TKJIT_SIM_SIMD_COMPARISON(lts, n, U, S, sa < sb)                                                                     \
    inline unsigned __vsadu##n(unsigned a, unsigned b) {                                                                 \
        return tkjit::sim::sum_of_elements((U)__vabsdiffu##n(a, b));                                                     \
    }                                                                                                                    \
    inline unsigned __vsads##n(unsigned a, unsigned b) {                                                                 \
        return tkjit::sim::sum_of_elements((U)__vabsdiffs##n(a, b));                                                     \
    }                                                                                                                    \
    inline unsigned __vneg##n(unsigned a) { return __vsub##n(0, a); }                                                    \
    inline unsigned __vnegss##n(unsigned a) { return __vsubss##n(0, a); }                                                \
    inline unsigned __vabs##n(unsigned a) { return (unsigned)((S)a < 0 ? (U)__vneg##n(a) : (U)a); }                      \
    inline unsigned __vabsss##n(unsigned a) { return (unsigned)((S)a < 0 ? (U)__vnegss##n(a) : (U)a); }                  \
    inline unsigned __vavgs##n(unsigned left, unsigned right) {                                                          \
        const S a = (S)left, b = (S)right, odd = (a ^ b) & 1;                                                            \
        const S floor = (a & b) + ((a ^ b) >> 1);                                                                        \
        return (unsigned)(floor + ((S)(floor >= 0) & odd));                                                              \
    }
TKJIT_SIM_SIMD(4, tkjit::sim::Unsigned8x4, tkjit::sim::Signed8x4, 0x7f)
TKJIT_SIM_SIMD(2, tkjit::sim::Unsigned16x2, tkjit::sim::Signed16x2, 0x7fff)
#undef TKJIT_SIM_SIMD
#undef TKJIT_SIM_SIMD_COMPARISON
#undef TKJIT_SIM_SIMD_2
