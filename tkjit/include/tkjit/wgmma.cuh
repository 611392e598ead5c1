// `wgmma`: a warpgroup, which is four warps, multiplies matrices in shared memory. Needs sm_90a.
//
//     float sum[128] = {};                            // of 64 x 256: sum[i] is at wgmma_row(i), wgmma_col(i)
//     wgmma_fence(sum);                               // before the first wgmma, and after writing the sums
//     for (int k = 0; k < 4; ++k) wgmma<256, bf16>(sum, a.advanced(k), b.advanced(k));
//     wgmma_commit();
//     wgmma_wait<0>(sum);                             // until then neither the sums nor the tiles may be touched
//
// The matrices have the layout that tensor maps with a swizzle of 128 bytes write. All 128 threads execute these calls.
//
// Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <stdint.h>

#include <type_traits>

#include "shared_memory.cuh"
#include "tf32.cuh"

#ifdef TKJIT_SIM
#include "../../sim/detail/wgmma.h"
#endif

namespace tkjit {

/// Elements of K that one instruction multiplies: 32 bytes.
template <class T>
constexpr int wgmma_depth = 32 / int(sizeof(T));

/// A matrix in shared memory, in swizzled rows of 128 bytes. `step_bytes` is the distance to the next 32 bytes of K.
struct WgmmaMatrix {
    uint64_t descriptor;
    uint32_t step_bytes;

    __device__ __forceinline__ uint64_t advanced(int steps) const { return descriptor + uint64_t(steps) * (step_bytes >> 4); }
};

namespace detail {
constexpr uint64_t swizzled_by_128 = uint64_t(1) << 62;
constexpr uint32_t eight_rows = 8 * 128;  // bytes after which the swizzle repeats

template <class T>
constexpr bool is_fp8 = std::is_same_v<T, __nv_fp8_e4m3> || std::is_same_v<T, __nv_fp8_e5m2>;

__device__ __forceinline__ uint64_t wgmma_descriptor(const void* shared, uint32_t leading_bytes, uint32_t stride_bytes) {
    const auto field = [](uint32_t bytes) { return uint64_t(bytes >> 4 & 0x3fff); };
    return field(shared_address(shared)) | field(leading_bytes) << 16 | field(stride_bytes) << 32 | swizzled_by_128;
}
}  // namespace detail

/// A tile whose row index counts M or N and whose column index counts K, with 64 elements of 16 bits a row. Its address
/// is a multiple of 1024.
__device__ __forceinline__ WgmmaMatrix wgmma_rows(const void* shared) {
    return {detail::wgmma_descriptor(shared, 0, detail::eight_rows), 32};
}

/// A tile of 16-bit elements whose row index counts K and whose column index counts M or N, 64 a row. The tile with the
/// next 64 columns begins `next_bytes` after this one.
__device__ __forceinline__ WgmmaMatrix wgmma_columns(const void* shared, uint32_t next_bytes) {
    return {detail::wgmma_descriptor(shared, next_bytes, detail::eight_rows), 16 * 128};
}

/// The row of a thread's sum `i` in a product of 64 rows.
/// Source: PTX ISA, "Register Fragments for wgmma.mma_async: Accumulator D".
__device__ __forceinline__ int wgmma_row(int i) { return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8; }
/// The column of a thread's sum `i`.
__device__ __forceinline__ int wgmma_col(int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }

#ifdef TKJIT_SIM

namespace detail {
template <class T>
constexpr sim::Element wgmma_element() {
    if constexpr (std::is_same_v<T, __nv_bfloat16>) return sim::Element::bf16;
    else if constexpr (std::is_same_v<T, __half>) return sim::Element::f16;
    else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, tf32>) return sim::Element::tf32;
    else if constexpr (std::is_same_v<T, __nv_fp8_e4m3>) return sim::Element::e4m3;
    else if constexpr (std::is_same_v<T, __nv_fp8_e5m2>) return sim::Element::e5m2;
    else {
        static_assert(std::is_same_v<T, int8_t>, "wgmma does not support this element type");
        return sim::Element::s8;
    }
}
}  // namespace detail

/// Orders writes to the sums before the wgmmas that follow. Tiles that threads wrote need `fence_async_proxy` as well.
template <class Sum, int count>
inline void wgmma_fence(Sum (&)[count], sim::Site site = sim::Site::here()) {
    sim::fence_wgmma(site);
}

/// Groups the wgmmas since the last commit.
inline void wgmma_commit(sim::Site site = sim::Site::here()) { sim::commit_wgmma(site); }

/// Waits until at most the last `pending_groups` groups are in flight. The simulator multiplies at once.
template <int pending_groups, class Sum, int count>
inline void wgmma_wait(Sum (&)[count], sim::Site site = sim::Site::here()) {
    sim::wait_for_wgmma(pending_groups, site);
}

/// Adds A * B to sum: 64 x N, with N a multiple of 32 up to 256, over 32 bytes of K. A and B are tiles of `wgmma_rows`, or of
/// `wgmma_columns` if `a_is_columns` or `b_is_columns`. Unless it `adds`, A * B replaces the sum, which can then be
/// uninitialised: while other groups are in flight, no other instruction may write the registers of a sum.
template <int N, class T, bool b_is_columns = false, bool a_is_columns = false, class Sum>
inline void wgmma(Sum (&sum)[N / 2], uint64_t a, uint64_t b, bool adds = true, sim::Site site = sim::Site::here()) {
    static_assert(N % 32 == 0 && N <= 256, "wgmma needs a multiple of 32 columns, at most 256");
    static_assert(!(a_is_columns || b_is_columns) || sizeof(T) == 2, "tiles of columns need elements of 16 bits");
    static_assert(std::is_same_v<Sum, int32_t> == std::is_same_v<T, int8_t>, "sums are int32_t for int8_t, else float");
    static constexpr sim::WgmmaShape shape{N, detail::wgmma_element<T>(), detail::wgmma_element<T>(),
                                           std::is_same_v<Sum, float> ? sim::Sums::f32 : sim::Sums::s32};
    sim::WgmmaOperands operands{sum, nullptr, a, b, adds, 1, 1, a_is_columns, b_is_columns};
    sim::wgmma(shape, operands, site);
    sim::note_registers(sum, sizeof(sum), sim::RegisterUse::sums);
}

/// The same for two types of 8-bit floats. A and B are tiles of `wgmma_rows`.
template <int N, class TypeA, class TypeB>
inline void wgmma(float (&sum)[N / 2], uint64_t a, uint64_t b, bool adds = true, sim::Site site = sim::Site::here()) {
    static_assert(N % 32 == 0 && N <= 256, "wgmma needs a multiple of 32 columns, at most 256");
    static_assert(detail::is_fp8<TypeA> && detail::is_fp8<TypeB>, "only 8-bit floats can have different types");
    static constexpr sim::WgmmaShape shape{N, detail::wgmma_element<TypeA>(), detail::wgmma_element<TypeB>(), sim::Sums::f32};
    sim::WgmmaOperands operands{sum, nullptr, a, b, adds, 1, 1, false, false};
    sim::wgmma(shape, operands, site);
    sim::note_registers(sum, sizeof(sum), sim::RegisterUse::sums);
}

/// The same with A in registers, for elements of 16 bits: the fragment of a 16 x 16 matrix of `mma` in each warp.
template <int N, class T, bool b_is_columns = false>
inline void wgmma(float (&sum)[N / 2], const uint32_t (&a)[4], uint64_t b, sim::Site site = sim::Site::here()) {
    static_assert(N % 32 == 0 && N <= 256, "wgmma needs a multiple of 32 columns, at most 256");
    static_assert(sizeof(T) == 2, "A in registers needs elements of 16 bits");
    static constexpr sim::WgmmaShape shape{N, detail::wgmma_element<T>(), detail::wgmma_element<T>(), sim::Sums::f32};
    sim::WgmmaOperands operands{sum, a, 0, b, true, 1, 1, false, b_is_columns};
    sim::wgmma(shape, operands, site);
    sim::note_registers(sum, sizeof(sum), sim::RegisterUse::sums);
    sim::note_registers(a, sizeof(a), sim::RegisterUse::a);
}

#else

namespace detail {
// The hardware reads and writes these registers asynchronously, so the compiler must not move their uses across
// this statement.
__device__ __forceinline__ void keep_in_place(float& sum) { asm volatile("" : "+f"(sum)::"memory"); }
__device__ __forceinline__ void keep_in_place(int32_t& sum) { asm volatile("" : "+r"(sum)::"memory"); }
}  // namespace detail

/// Orders writes to the sums before the wgmmas that follow. Tiles that threads wrote need `fence_async_proxy` as well.
template <class Sum, int count>
__device__ __forceinline__ void wgmma_fence(Sum (&sum)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) detail::keep_in_place(sum[i]);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/// Groups the wgmmas since the last commit.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

/// Waits until at most the last `pending_groups` groups are in flight.
template <int pending_groups, class Sum, int count>
__device__ __forceinline__ void wgmma_wait(Sum (&sum)[count]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending_groups) : "memory");
#pragma unroll
    for (int i = 0; i < count; ++i) detail::keep_in_place(sum[i]);
}

namespace detail {

template <class TypeA, class TypeB>
struct Factors;
using e4m3_e5m2 = Factors<__nv_fp8_e4m3, __nv_fp8_e5m2>;
using e5m2_e4m3 = Factors<__nv_fp8_e5m2, __nv_fp8_e4m3>;

// TKJIT_PLACES_n: operands 16 n to 16 n + 15 in an instruction's text. TKJIT_SUMS_n: the registers from 0 to 16 n + 15.
#define TKJIT_PLACES_0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define TKJIT_PLACES_1 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TKJIT_PLACES_2 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define TKJIT_PLACES_3 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TKJIT_PLACES_4 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define TKJIT_PLACES_5 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define TKJIT_PLACES_6 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define TKJIT_PLACES_7 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define TKJIT_UP_TO_0 TKJIT_PLACES_0
#define TKJIT_UP_TO_1 TKJIT_UP_TO_0 ", " TKJIT_PLACES_1
#define TKJIT_UP_TO_2 TKJIT_UP_TO_1 ", " TKJIT_PLACES_2
#define TKJIT_UP_TO_3 TKJIT_UP_TO_2 ", " TKJIT_PLACES_3
#define TKJIT_UP_TO_4 TKJIT_UP_TO_3 ", " TKJIT_PLACES_4
#define TKJIT_UP_TO_5 TKJIT_UP_TO_4 ", " TKJIT_PLACES_5
#define TKJIT_UP_TO_6 TKJIT_UP_TO_5 ", " TKJIT_PLACES_6
#define TKJIT_UP_TO_7 TKJIT_UP_TO_6 ", " TKJIT_PLACES_7
#define TKJIT_FOUR(kind, d, i) kind(d[i]), kind(d[i + 1]), kind(d[i + 2]), kind(d[i + 3])
#define TKJIT_SIXTEEN(kind, d, i) \
    TKJIT_FOUR(kind, d, i), TKJIT_FOUR(kind, d, i + 4), TKJIT_FOUR(kind, d, i + 8), TKJIT_FOUR(kind, d, i + 12)
#define TKJIT_SUMS_0(kind, d) TKJIT_SIXTEEN(kind, d, 0)
#define TKJIT_SUMS_1(kind, d) TKJIT_SUMS_0(kind, d), TKJIT_SIXTEEN(kind, d, 16)
#define TKJIT_SUMS_2(kind, d) TKJIT_SUMS_1(kind, d), TKJIT_SIXTEEN(kind, d, 32)
#define TKJIT_SUMS_3(kind, d) TKJIT_SUMS_2(kind, d), TKJIT_SIXTEEN(kind, d, 48)
#define TKJIT_SUMS_4(kind, d) TKJIT_SUMS_3(kind, d), TKJIT_SIXTEEN(kind, d, 64)
#define TKJIT_SUMS_5(kind, d) TKJIT_SUMS_4(kind, d), TKJIT_SIXTEEN(kind, d, 80)
#define TKJIT_SUMS_6(kind, d) TKJIT_SUMS_5(kind, d), TKJIT_SIXTEEN(kind, d, 96)
#define TKJIT_SUMS_7(kind, d) TKJIT_SUMS_6(kind, d), TKJIT_SIXTEEN(kind, d, 112)
#define TKJIT_FLOATS(d) "+f"(d)
#define TKJIT_INTEGERS(d) "+r"(d)

// One overload: N columns, the index of the last group of 16 registers, and the operand numbers of A, B and their layouts.
#define TKJIT_WGMMA(N, last, a_place, b_place, a_columns, b_columns, adds_place, T, Sum, kind, types, k, signs, layout)   \
    template <bool a_is_columns, bool b_is_columns>                                                                       \
    __device__ __forceinline__ void wgmma(const T*, Sum(&sum)[N / 2], uint64_t a, uint64_t b, bool adds) {                \
        asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %" #adds_place ", 0;\n"                                        \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k" #k "." types " {" TKJIT_UP_TO_##last "}, %" #a_place      \
                     ", %" #b_place ", adds" signs layout(a_columns, b_columns) "; }"                                     \
                     : TKJIT_SUMS_##last(kind, sum)                                                                       \
                     : "l"(a), "l"(b), "n"(int(a_is_columns)), "n"(int(b_is_columns)), "r"(int(adds)));                   \
    }
// The same with A in four registers.
#define TKJIT_WGMMA_REGISTERS(N, last, a0, a1, a2, a3, b_place, columns_place, T, types)                                   \
    template <bool b_is_columns>                                                                                          \
    __device__ __forceinline__ void wgmma(const T*, float(&sum)[N / 2], const uint32_t(&a)[4], uint64_t b) {              \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16." types " {" TKJIT_UP_TO_##last "}, {%" #a0 ", %" #a1    \
                     ", %" #a2 ", %" #a3 "}, %" #b_place ", 1, 1, 1, %" #columns_place ";"                                \
                     : TKJIT_SUMS_##last(TKJIT_FLOATS, sum)                                                               \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(int(b_is_columns)));                       \
    }
#define TKJIT_WGMMA_REGISTERS_OF_ALL_TYPES(N, last, ...)                                          \
    TKJIT_WGMMA_REGISTERS(N, last, __VA_ARGS__, __nv_bfloat16, "f32.bf16.bf16")                   \
    TKJIT_WGMMA_REGISTERS(N, last, __VA_ARGS__, __half, "f32.f16.f16")
#define TKJIT_LAYOUT(a_columns, b_columns) ", %" #a_columns ", %" #b_columns
#define TKJIT_NO_LAYOUT(a_columns, b_columns)
#define TKJIT_WGMMA_OF_ALL_TYPES(N, last, a, b, ac, bc, adds)                                                                    \
    TKJIT_WGMMA(N, last, a, b, ac, bc, adds, __nv_bfloat16, float, TKJIT_FLOATS, "f32.bf16.bf16", 16, ", 1, 1", TKJIT_LAYOUT) \
    TKJIT_WGMMA(N, last, a, b, ac, bc, adds, __half, float, TKJIT_FLOATS, "f32.f16.f16", 16, ", 1, 1", TKJIT_LAYOUT)          \
    TKJIT_WGMMA(N, last, a, b, ac, bc, adds, float, float, TKJIT_FLOATS, "f32.tf32.tf32", 8, ", 1, 1", TKJIT_NO_LAYOUT)       \
    TKJIT_WGMMA(N, last, a, b, ac, bc, adds, tf32, float, TKJIT_FLOATS, "f32.tf32.tf32", 8, ", 1, 1", TKJIT_NO_LAYOUT)        \
    TKJIT_WGMMA(N, last, a, b, ac, bc, adds, __nv_fp8_e4m3, float, TKJIT_FLOATS, "f32.e4m3.e4m3", 32, ", 1, 1", TKJIT_NO_LAYOUT) \
    TKJIT_WGMMA(N, last, a, b, ac, bc, adds, __nv_fp8_e5m2, float, TKJIT_FLOATS, "f32.e5m2.e5m2", 32, ", 1, 1", TKJIT_NO_LAYOUT) \
    TKJIT_WGMMA(N, last, a, b, ac, bc, adds, e4m3_e5m2, float, TKJIT_FLOATS, "f32.e4m3.e5m2", 32, ", 1, 1", TKJIT_NO_LAYOUT)  \
    TKJIT_WGMMA(N, last, a, b, ac, bc, adds, e5m2_e4m3, float, TKJIT_FLOATS, "f32.e5m2.e4m3", 32, ", 1, 1", TKJIT_NO_LAYOUT)  \
    TKJIT_WGMMA(N, last, a, b, ac, bc, adds, int8_t, int32_t, TKJIT_INTEGERS, "s32.s8.s8", 32, "", TKJIT_NO_LAYOUT)

TKJIT_WGMMA_OF_ALL_TYPES(32, 0, 16, 17, 18, 19, 20)
TKJIT_WGMMA_OF_ALL_TYPES(64, 1, 32, 33, 34, 35, 36)
TKJIT_WGMMA_OF_ALL_TYPES(96, 2, 48, 49, 50, 51, 52)
TKJIT_WGMMA_OF_ALL_TYPES(128, 3, 64, 65, 66, 67, 68)
TKJIT_WGMMA_OF_ALL_TYPES(160, 4, 80, 81, 82, 83, 84)
TKJIT_WGMMA_OF_ALL_TYPES(192, 5, 96, 97, 98, 99, 100)
TKJIT_WGMMA_OF_ALL_TYPES(224, 6, 112, 113, 114, 115, 116)
TKJIT_WGMMA_OF_ALL_TYPES(256, 7, 128, 129, 130, 131, 132)

TKJIT_WGMMA_REGISTERS_OF_ALL_TYPES(32, 0, 16, 17, 18, 19, 20, 21)
TKJIT_WGMMA_REGISTERS_OF_ALL_TYPES(64, 1, 32, 33, 34, 35, 36, 37)
TKJIT_WGMMA_REGISTERS_OF_ALL_TYPES(96, 2, 48, 49, 50, 51, 52, 53)
TKJIT_WGMMA_REGISTERS_OF_ALL_TYPES(128, 3, 64, 65, 66, 67, 68, 69)
TKJIT_WGMMA_REGISTERS_OF_ALL_TYPES(160, 4, 80, 81, 82, 83, 84, 85)
TKJIT_WGMMA_REGISTERS_OF_ALL_TYPES(192, 5, 96, 97, 98, 99, 100, 101)
TKJIT_WGMMA_REGISTERS_OF_ALL_TYPES(224, 6, 112, 113, 114, 115, 116, 117)
TKJIT_WGMMA_REGISTERS_OF_ALL_TYPES(256, 7, 128, 129, 130, 131, 132, 133)

#undef TKJIT_WGMMA_REGISTERS_OF_ALL_TYPES
#undef TKJIT_WGMMA_REGISTERS
#undef TKJIT_WGMMA_OF_ALL_TYPES
#undef TKJIT_NO_LAYOUT
#undef TKJIT_LAYOUT
#undef TKJIT_WGMMA
#undef TKJIT_INTEGERS
#undef TKJIT_FLOATS

}  // namespace detail

/// Adds A * B to sum: 64 x N, with N a multiple of 32 up to 256, over 32 bytes of K. A and B are tiles of `wgmma_rows`, or of
/// `wgmma_columns` if `a_is_columns` or `b_is_columns`. Unless it `adds`, A * B replaces the sum, which can then be
/// uninitialised: while other groups are in flight, no other instruction may write the registers of a sum.
template <int N, class T, bool b_is_columns = false, bool a_is_columns = false, class Sum>
__device__ __forceinline__ void wgmma(Sum (&sum)[N / 2], uint64_t a, uint64_t b, bool adds = true) {
    static_assert(N % 32 == 0 && N <= 256, "wgmma needs a multiple of 32 columns, at most 256");
    static_assert(!(a_is_columns || b_is_columns) || sizeof(T) == 2, "tiles of columns need elements of 16 bits");
    static_assert(std::is_same_v<Sum, int32_t> == std::is_same_v<T, int8_t>, "sums are int32_t for int8_t, else float");
    detail::wgmma<a_is_columns, b_is_columns>(static_cast<const T*>(nullptr), sum, a, b, adds);
}

/// The same for two types of 8-bit floats. A and B are tiles of `wgmma_rows`.
template <int N, class TypeA, class TypeB>
__device__ __forceinline__ void wgmma(float (&sum)[N / 2], uint64_t a, uint64_t b, bool adds = true) {
    static_assert(N % 32 == 0 && N <= 256, "wgmma needs a multiple of 32 columns, at most 256");
    static_assert(detail::is_fp8<TypeA> && detail::is_fp8<TypeB>, "only 8-bit floats can have different types");
    using Types = std::conditional_t<std::is_same_v<TypeA, TypeB>, TypeA, detail::Factors<TypeA, TypeB>>;
    detail::wgmma<false, false>(static_cast<const Types*>(nullptr), sum, a, b, adds);
}

/// The same with A in registers, for elements of 16 bits: the fragment of a 16 x 16 matrix of `mma` in each warp.
template <int N, class T, bool b_is_columns = false>
__device__ __forceinline__ void wgmma(float (&sum)[N / 2], const uint32_t (&a)[4], uint64_t b) {
    static_assert(N % 32 == 0 && N <= 256, "wgmma needs a multiple of 32 columns, at most 256");
    static_assert(sizeof(T) == 2, "A in registers needs elements of 16 bits");
    detail::wgmma<b_is_columns>(static_cast<const T*>(nullptr), sum, a, b);
}

#endif

}  // namespace tkjit
