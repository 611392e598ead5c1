// CUDA's vector types, with the alignments of the CUDA C++ Programming Guide ("Built-in Vector Types").
#pragma once

#include "language.h"

// Vectors of two and four elements are aligned to their size, at most to 16 bytes, so that one load instruction moves
// them. Vectors of one and three elements are aligned like the element.
#define TKJIT_SIM_VECTOR_TYPE(element, name)                                                               \
    struct name##1 { element x; };                                                                         \
    struct __align__(2 * sizeof(element)) name##2 { element x, y; };                                       \
    struct name##3 { element x, y, z; };                                                                   \
    struct __align__(4 * sizeof(element) < 16 ? 4 * sizeof(element) : 16) name##4 { element x, y, z, w; }; \
    constexpr name##1 make_##name##1(element x) { return {x}; }                                            \
    constexpr name##2 make_##name##2(element x, element y) { return {x, y}; }                              \
    constexpr name##3 make_##name##3(element x, element y, element z) { return {x, y, z}; }                \
    constexpr name##4 make_##name##4(element x, element y, element z, element w) { return {x, y, z, w}; }

TKJIT_SIM_VECTOR_TYPE(signed char, char)
TKJIT_SIM_VECTOR_TYPE(unsigned char, uchar)
TKJIT_SIM_VECTOR_TYPE(short, short)
TKJIT_SIM_VECTOR_TYPE(unsigned short, ushort)
TKJIT_SIM_VECTOR_TYPE(int, int)
TKJIT_SIM_VECTOR_TYPE(unsigned int, uint)
TKJIT_SIM_VECTOR_TYPE(long, long)
TKJIT_SIM_VECTOR_TYPE(unsigned long, ulong)
TKJIT_SIM_VECTOR_TYPE(long long, longlong)
TKJIT_SIM_VECTOR_TYPE(unsigned long long, ulonglong)
TKJIT_SIM_VECTOR_TYPE(float, float)
TKJIT_SIM_VECTOR_TYPE(double, double)

#undef TKJIT_SIM_VECTOR_TYPE

// Since CUDA 13, the names of vectors of four wide elements state their alignment.
#define TKJIT_SIM_WIDE_VECTOR_TYPE(element, name, bytes)                                                   \
    struct __align__(bytes) name##4_##bytes##a { element x, y, z, w; };                                    \
    constexpr name##4_##bytes##a make_##name##4_##bytes##a(element x, element y, element z, element w) {   \
        return {x, y, z, w};                                                                               \
    }
#define TKJIT_SIM_WIDE_VECTOR_TYPES(element, name)  \
    TKJIT_SIM_WIDE_VECTOR_TYPE(element, name, 16)   \
    TKJIT_SIM_WIDE_VECTOR_TYPE(element, name, 32)
TKJIT_SIM_WIDE_VECTOR_TYPES(long, long)
TKJIT_SIM_WIDE_VECTOR_TYPES(unsigned long, ulong)
TKJIT_SIM_WIDE_VECTOR_TYPES(long long, longlong)
TKJIT_SIM_WIDE_VECTOR_TYPES(unsigned long long, ulonglong)
TKJIT_SIM_WIDE_VECTOR_TYPES(double, double)
#undef TKJIT_SIM_WIDE_VECTOR_TYPES
#undef TKJIT_SIM_WIDE_VECTOR_TYPE

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 extents) : x(extents.x), y(extents.y), z(extents.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

// The special registers. They are variables, not macros, so that `config.gridDim` in a source keeps its meaning. The
// scheduler writes threadIdx at every switch and the others once per block. They are not `const` as in CUDA, because
// the compiler could then keep an old value across a switch.
extern TKJIT_SIM_REGISTER uint3 threadIdx;
extern TKJIT_SIM_REGISTER uint3 blockIdx;
extern TKJIT_SIM_REGISTER dim3 blockDim;
extern TKJIT_SIM_REGISTER dim3 gridDim;
