// Common parts of the `mma.sync` wrappers: the layout of the fragments, and the implementations for GPU and simulator.
//
// Source: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and its neighbours, which follow one
// layout. D = A B + C, where A is m x k, B is k x 8, C and D are m x 8. A 32-bit register of A or B packs p elements
// (two of 16 bits, four of 8, one tf32), the first in the low bits. With e the element in a register, group = lane / 4
// and thread = lane % 4, a lane holds
//
//   a[i]  A[group + 8 (i % 2)][p thread + 4 p (i / 2) + e]    m = 8 has only a[0]
//   b[i]  B[p thread + 4 p i + e][group]
//   c[i]  C[group + 8 (i / 2)][2 thread + i % 2]              float and int32_t
//   c[i]  C[group + 8 i][2 thread + e]                        halves, packed in pairs
//
// and d is like c. `d` and `c` may be the same array. All 32 lanes of the warp take part.
#pragma once

#include <cuda_runtime.h>
#include <stdint.h>

namespace tkjit::detail {

/// An element type's name in PTX and, in the simulator, its value. Undefined for types that mma does not multiply.
template <class Element>
struct MmaElement;

#define TKJIT_MMA_SHAPE(m_, k_)                          \
    struct MmaShape##m_##x8x##k_ {                       \
        static constexpr int m = m_, k = k_;             \
        static constexpr char ptx[] = "m" #m_ "n8k" #k_; \
    }
TKJIT_MMA_SHAPE(8, 16);
TKJIT_MMA_SHAPE(16, 4);
TKJIT_MMA_SHAPE(16, 8);
TKJIT_MMA_SHAPE(16, 16);
TKJIT_MMA_SHAPE(16, 32);
#undef TKJIT_MMA_SHAPE

// The overflow behaviour of integer sums.
struct MmaWraps {
    static constexpr char ptx[] = "";
};
struct MmaSaturates {
    static constexpr char ptx[] = ".satfinite";
};

}  // namespace tkjit::detail

#ifdef TKJIT_SIM

#include "../../sim/detail/numerics.h"

#define TKJIT_MMA_WRAPPER inline void
#define TKJIT_MMA_TAKE_SITE , sim::Site site = sim::Site::here()
#define TKJIT_MMA_PASS_SITE , site

namespace tkjit::detail {

// These structs say how a lane's registers hold the elements of C and D, and which type sums are computed in. A lane's
// element i is C[group + 8 (i / 2)][2 thread + i % 2].
struct MmaFloats {
    static constexpr bool is_half = false;
    using Register = float;
    using Sum = float;
    static Sum load(const float* registers, int i) { return registers[i]; }
    static void store(float* registers, int i, Sum sum) { registers[i] = sum; }
};
struct MmaIntegers {
    using Register = int32_t;
    using Sum = uint32_t;  // wraps
    static Sum load(const int32_t* registers, int i) { return static_cast<Sum>(registers[i]); }
    static void store(int32_t* registers, int i, Sum sum) { registers[i] = static_cast<int32_t>(sum); }
};
struct MmaSaturatedIntegers {
    using Register = int32_t;
    using Sum = int64_t;
    static Sum load(const int32_t* registers, int i) { return registers[i]; }
    static void store(int32_t* registers, int i, Sum sum) {
        registers[i] = static_cast<int32_t>(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
    }
};

/// A lane's fragments.
template <class Register>
struct MmaOperands {
    const uint32_t* a;
    const uint32_t* b;
    const Register* c;
    Register* d;
};

/// Adds like a device's tensor cores, if TKJIT_SIM_NUMERICS asks for it and the behaviour is known: for 16-bit floats and
/// tf32. Hopper adds all products of an instruction at once and keeps 25 bits. Ampere adds half of them at a time and
/// keeps 24 bits.
template <class A, class Accumulator, int m, int k, class Sum>
bool add_as_hardware(const Sum (&a)[m][k], const Sum (&b)[k][8], Sum (&d)[m][8]) {
    if constexpr (requires { MmaElement<A>::least_exponent; }) {
        if (!sim::numerics_are_hardwares()) return false;
        constexpr bool is_hopper = TKJIT_SIM_CUDA_ARCH >= 900, is_half = Accumulator::is_half;
        constexpr int least = MmaElement<A>::least_exponent;
        constexpr int least_sum = is_half ? sim::least_of_half : sim::least_of_float;
        constexpr int part = is_hopper || k * MmaElement<A>::bits < 256 ? k : k / 2;
        constexpr sim::FusedSum fused{is_hopper ? 25 : 24, is_half ? 10 : 23, least, least, least_sum, least_sum, is_half};
        for (int row = 0; row < m; row++) {
            for (int col = 0; col < 8; col++) {
                for (int i = 0; i < k; i += part) d[row][col] = fused(&a[row][i], &b[i][col], 8, part, d[row][col]);
            }
        }
        return true;
    }
    return false;
}

/// One warp's product, which one lane computes from all lanes' fragments. Products are exact, and each addition of floats
/// rounds to float. A device keeps more bits in some additions and fewer in others.
template <class Shape, class A, class B, class Accumulator>
__attribute__((noinline)) void multiply_fragments(sim::Lanes<MmaOperands<typename Accumulator::Register>> lanes) {
    constexpr int m = Shape::m, k = Shape::k;
    constexpr int bits = MmaElement<A>::bits, packed = 32 / bits;
    static_assert(MmaElement<B>::bits == bits);
    constexpr int a_registers = m / 8 * k / (4 * packed), b_registers = k / (4 * packed), c_elements = m / 4;
    using Sum = typename Accumulator::Sum;
    typedef Sum Row __attribute__((vector_size(8 * sizeof(Sum))));  // the eight columns of a row of B, C or D
    using Operands = MmaOperands<typename Accumulator::Register>;
    Sum a[m][k];
    alignas(Row) Sum b[k][8];
    alignas(Row) Sum d[m][8];
    lanes.for_each([&](int lane, Operands& operands) {
        const int group = lane / 4, thread = lane % 4;
        for (int i = 0; i < a_registers; i++) {
            Sum* elements = &a[group + 8 * (i % 2)][packed * thread + 4 * packed * (i / 2)];
            for (int e = 0; e < packed; e++) {
                elements[e] = static_cast<Sum>(MmaElement<A>::value(operands.a[i] >> bits * e));
            }
        }
        for (int i = 0; i < b_registers; i++) {
            const int row = packed * thread + 4 * packed * i;
            for (int e = 0; e < packed; e++) {
                b[row + e][group] = static_cast<Sum>(MmaElement<B>::value(operands.b[i] >> bits * e));
            }
        }
        for (int i = 0; i < c_elements; i++) {
            d[group + 8 * (i / 2)][2 * thread + i % 2] = Accumulator::load(operands.c, i);
        }
    });
    if (!add_as_hardware<A, Accumulator>(a, b, d)) {
        Row b_rows[k];
        __builtin_memcpy(b_rows, b, sizeof(b));
        for (int row = 0; row < m; row++) {
            Row sum;
            __builtin_memcpy(&sum, d[row], sizeof(sum));
            for (int i = 0; i < k; i++) sum += a[row][i] * b_rows[i];
            __builtin_memcpy(d[row], &sum, sizeof(sum));
        }
    }
    lanes.for_each([&](int lane, Operands& operands) {
        const int group = lane / 4, thread = lane % 4;
        for (int i = 0; i < c_elements; i++) {
            Accumulator::store(operands.d, i, d[group + 8 * (i / 2)][2 * thread + i % 2]);
        }
    });
}

template <class Shape, class A, class B, class Accumulator>
inline void multiply(typename Accumulator::Register* d, const uint32_t* a, const uint32_t* b,
                     const typename Accumulator::Register* c, sim::Site site) {
    sim::require_full_warp(sim::Operation::mma, site);
    MmaOperands<typename Accumulator::Register> operands{a, b, c, d};
    sim::collective(~0u, sim::Operation::mma, operands, multiply_fragments<Shape, A, B, Accumulator>, site);
}

}  // namespace tkjit::detail

#else

#define TKJIT_MMA_WRAPPER __device__ __forceinline__ void
#define TKJIT_MMA_TAKE_SITE
#define TKJIT_MMA_PASS_SITE

namespace tkjit::detail {

struct MmaFloats {};
struct MmaHalves {};
struct MmaIntegers : MmaWraps {};
struct MmaSaturatedIntegers : MmaSaturates {};

// One overload for each number of registers. The constraint "C" inserts a string into the instruction's text.

template <class Shape, class A, class B, class Accumulator>
TKJIT_MMA_WRAPPER multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const float (&c)[4]) {
    asm volatile(
        "mma.sync.aligned.%14.row.col.f32.%15.%16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]),
          "C"(Shape::ptx), "C"(MmaElement<A>::ptx), "C"(MmaElement<B>::ptx));
}

template <class Shape, class A, class B, class Accumulator>
TKJIT_MMA_WRAPPER multiply(float (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[1], const float (&c)[4]) {
    asm volatile("mma.sync.aligned.%11.row.col.f32.%12.%13.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]), "C"(Shape::ptx),
                   "C"(MmaElement<A>::ptx), "C"(MmaElement<B>::ptx));
}

template <class Shape, class A, class B, class Accumulator>
TKJIT_MMA_WRAPPER multiply(uint32_t (&d)[2], const uint32_t (&a)[4], const uint32_t (&b)[2], const uint32_t (&c)[2]) {
    asm volatile("mma.sync.aligned.%10.row.col.f16.%11.%12.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"
                 : "=r"(d[0]), "=r"(d[1])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]),
                   "C"(Shape::ptx), "C"(MmaElement<A>::ptx), "C"(MmaElement<B>::ptx));
}

template <class Shape, class A, class B, class Accumulator>
TKJIT_MMA_WRAPPER multiply(uint32_t (&d)[2], const uint32_t (&a)[2], const uint32_t (&b)[1], const uint32_t (&c)[2]) {
    asm volatile("mma.sync.aligned.%7.row.col.f16.%8.%9.f16 {%0, %1}, {%2, %3}, {%4}, {%5, %6};"
                 : "=r"(d[0]), "=r"(d[1])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c[0]), "r"(c[1]), "C"(Shape::ptx), "C"(MmaElement<A>::ptx),
                   "C"(MmaElement<B>::ptx));
}

template <class Shape, class A, class B, class Accumulator>
TKJIT_MMA_WRAPPER multiply(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const int32_t (&c)[4]) {
    asm volatile(
        "mma.sync.aligned.%14.row.col%15.s32.%16.%17.s32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]),
          "C"(Shape::ptx), "C"(Accumulator::ptx), "C"(MmaElement<A>::ptx), "C"(MmaElement<B>::ptx));
}

template <class Shape, class A, class B, class Accumulator>
TKJIT_MMA_WRAPPER multiply(int32_t (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[1], const int32_t (&c)[4]) {
    asm volatile("mma.sync.aligned.%11.row.col%12.s32.%13.%14.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "C"(Shape::ptx),
                   "C"(Accumulator::ptx), "C"(MmaElement<A>::ptx), "C"(MmaElement<B>::ptx));
}

template <class Shape, class A, class B, class Accumulator>
TKJIT_MMA_WRAPPER multiply(int32_t (&d)[2], const uint32_t (&a)[1], const uint32_t (&b)[1], const int32_t (&c)[2]) {
    asm volatile("mma.sync.aligned.%6.row.col%7.s32.%8.%9.s32 {%0, %1}, {%2}, {%3}, {%4, %5};"
                 : "=r"(d[0]), "=r"(d[1])
                 : "r"(a[0]), "r"(b[0]), "r"(c[0]), "r"(c[1]), "C"(Shape::ptx), "C"(Accumulator::ptx),
                   "C"(MmaElement<A>::ptx), "C"(MmaElement<B>::ptx));
}

}  // namespace tkjit::detail

#endif
