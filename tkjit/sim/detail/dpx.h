// CUDA's DPX functions: maxima and minima of up to three integers, of which two may be added first. They take 32-bit
// integers, or pairs of 16-bit integers in an `unsigned`. Sums wrap. `_relu` replaces negative results by zero.
//
// Source: CUDA Math API, "Integer Intrinsics" and "SIMD Intrinsics"; CUDA C++ Programming Guide, "DPX".
#pragma once

#include "simd_intrinsics.h"

namespace tkjit::sim {

// Element by element, if T is a vector.
template <class T>
inline T greater_of(T a, T b) {
    return a > b ? a : b;
}
template <class T>
inline T lesser_of(T a, T b) {
    return a < b ? a : b;
}
template <class T, class Unsigned>
inline T wrapping_sum(T a, T b) {
    return (T)((Unsigned)a + (Unsigned)b);
}

inline void set_predicates(int compared, bool* predicate) { *predicate = compared; }
template <class Vector>
inline void set_predicates(Vector compared, bool* high, bool* low) {
    *high = compared[1];
    *low = compared[0];
}

}  // namespace tkjit::sim

// `suffix` is that of the functions, T the type of their arguments, and E that of the elements; U is E without a sign.
// `declared` declares the parameters for the results of a comparison, whose names follow.
#define TKJIT_SIM_DPX(suffix, T, E, U, declared, ...)                                                              \
    inline T __viaddmax_##suffix(T a, T b, T c) {                                                                  \
        return (T)tkjit::sim::greater_of(tkjit::sim::wrapping_sum<E, U>((E)a, (E)b), (E)c);                        \
    }                                                                                                              \
    inline T __viaddmin_##suffix(T a, T b, T c) {                                                                  \
        return (T)tkjit::sim::lesser_of(tkjit::sim::wrapping_sum<E, U>((E)a, (E)b), (E)c);                         \
    }                                                                                                              \
    inline T __vimax3_##suffix(T a, T b, T c) {                                                                    \
        return (T)tkjit::sim::greater_of(tkjit::sim::greater_of((E)a, (E)b), (E)c);                                \
    }                                                                                                              \
    inline T __vimin3_##suffix(T a, T b, T c) {                                                                    \
        return (T)tkjit::sim::lesser_of(tkjit::sim::lesser_of((E)a, (E)b), (E)c);                                  \
    }                                                                                                              \
    inline T __vibmax_##suffix(T a, T b, declared) {                                                               \
        tkjit::sim::set_predicates((E)a >= (E)b, __VA_ARGS__);                                                     \
        return (T)tkjit::sim::greater_of((E)a, (E)b);                                                              \
    }                                                                                                              \
    inline T __vibmin_##suffix(T a, T b, declared) {                                                               \
        tkjit::sim::set_predicates((E)a <= (E)b, __VA_ARGS__);                                                     \
        return (T)tkjit::sim::lesser_of((E)a, (E)b);                                                               \
    }
#define TKJIT_SIM_DPX_RELU(suffix, T, E)                                                                              \
    inline T __viaddmax_##suffix##_relu(T a, T b, T c) {                                                              \
        return (T)tkjit::sim::greater_of((E)__viaddmax_##suffix(a, b, c), E{});                                       \
    }                                                                                                                 \
    inline T __viaddmin_##suffix##_relu(T a, T b, T c) {                                                              \
        return (T)tkjit::sim::greater_of((E)__viaddmin_##suffix(a, b, c), E{});                                       \
    }                                                                                                                 \
    inline T __vimax3_##suffix##_relu(T a, T b, T c) {                                                                \
        return (T)tkjit::sim::greater_of((E)__vimax3_##suffix(a, b, c), E{});                                         \
    }                                                                                                                 \
    inline T __vimin3_##suffix##_relu(T a, T b, T c) {                                                                \
        return (T)tkjit::sim::greater_of((E)__vimin3_##suffix(a, b, c), E{});                                         \
    }                                                                                                                 \
    inline T __vimax_##suffix##_relu(T a, T b) { return __vimax3_##suffix##_relu(a, b, b); }                          \
    inline T __vimin_##suffix##_relu(T a, T b) { return __vimin3_##suffix##_relu(a, b, b); }
#define TKJIT_SIM_DPX_TWO bool *high, bool *low
TKJIT_SIM_DPX(s32, int, int, unsigned, bool* predicate, predicate)
TKJIT_SIM_DPX(u32, unsigned, unsigned, unsigned, bool* predicate, predicate)
TKJIT_SIM_DPX(s16x2, unsigned, tkjit::sim::Signed16x2, tkjit::sim::Unsigned16x2, TKJIT_SIM_DPX_TWO, high, low)
TKJIT_SIM_DPX(u16x2, unsigned, tkjit::sim::Unsigned16x2, tkjit::sim::Unsigned16x2, TKJIT_SIM_DPX_TWO, high, low)
TKJIT_SIM_DPX_RELU(s32, int, int)
TKJIT_SIM_DPX_RELU(s16x2, unsigned, tkjit::sim::Signed16x2)
#undef TKJIT_SIM_DPX_TWO
#undef TKJIT_SIM_DPX_RELU
#undef TKJIT_SIM_DPX
