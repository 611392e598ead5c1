// PTX ISA, "cp.async.bulk.tensor", "wgmma.mma_async", "mma.sync".
#pragma once

#include "../detail/tensor_map.h"
#include "../detail/wgmma.h"
#include "operands.h"

#include <tkjit/mma.cuh>

namespace tkjit::sim::ptx {

inline const TensorMap* map_at(const char* address) { return reinterpret_cast<const TensorMap*>(address); }

/// PTX ISA, `cp.async.bulk.tensor` to shared memory.
template <unsigned rank>
inline void tensor_load(char* to, const char* map, const int (&coordinates)[rank], char* barrier, Site site = Site::here()) {
    sim::tensor_load(to, map_at(map), coordinates, rank, reinterpret_cast<uint64_t*>(barrier), site);
}

/// PTX ISA, `cp.async.bulk.tensor` to global memory.
template <unsigned rank>
inline void tensor_store(const char* map, const int (&coordinates)[rank], const char* from, Site site = Site::here()) {
    sim::tensor_store(map_at(map), coordinates, rank, from, Reduction::none, site);
}

/// PTX ISA, `cp.reduce.async.bulk.tensor`.
template <unsigned rank>
inline void tensor_reduce(Reduction reduction, const char* map, const int (&coordinates)[rank], const char* from,
                          Site site = Site::here()) {
    sim::tensor_store(map_at(map), coordinates, rank, from, reduction, site);
}

template <class Sum>
inline constexpr Sums sums_of = std::is_same_v<Sum, float> ? Sums::f32 : std::is_same_v<Sum, int32_t> ? Sums::s32 : Sums::f16;

/// PTX ISA, `wgmma.mma_async`, with A in shared memory.
template <unsigned n, Element a_type, Element b_type, class Sum, unsigned count>
inline void wgmma(Sum (&d)[count], uint64_t a, uint64_t b, bool accumulates, int sign_a = 1, int sign_b = 1,
                  int a_by_columns = 0, int b_by_rows = 0, Site site = Site::here()) {
    static_assert(count == (sums_of<Sum> == Sums::f16 ? n / 4 : n / 2), "wgmma: wrong number of registers for D");
    static constexpr WgmmaShape shape{n, a_type, b_type, sums_of<Sum>};
    WgmmaOperands operands{d, nullptr, a, b, accumulates, static_cast<signed char>(sign_a), static_cast<signed char>(sign_b),
                           a_by_columns != 0, b_by_rows != 0};
    sim::wgmma(shape, operands, site);
}

/// PTX ISA, `wgmma.fence`, `wgmma.commit_group` and `wgmma.wait_group`.
inline void wgmma_fence() { fence_wgmma(); }
inline void wgmma_commit() { commit_wgmma(); }
inline void wgmma_wait(unsigned pending_groups) { wait_for_wgmma(pending_groups); }

/// PTX ISA, `wgmma.mma_async`, with A in registers.
template <unsigned n, Element a_type, Element b_type, class Sum, unsigned count>
inline void wgmma_registers(Sum (&d)[count], const uint32_t (&a)[4], uint64_t b, bool accumulates, int sign_a = 1,
                            int sign_b = 1, int b_by_rows = 0, Site site = Site::here()) {
    static_assert(count == (sums_of<Sum> == Sums::f16 ? n / 4 : n / 2), "wgmma: wrong number of registers for D");
    static constexpr WgmmaShape shape{n, a_type, b_type, sums_of<Sum>};
    WgmmaOperands operands{d, a, 0, b, accumulates, static_cast<signed char>(sign_a), static_cast<signed char>(sign_b),
                           false, b_by_rows != 0};
    sim::wgmma(shape, operands, site);
}

/// The simulator's type for the sums of `mma.sync`.
template <class Sum, bool saturates>
struct SumsOfMma;
template <bool saturates>
struct SumsOfMma<float, saturates> {
    using type = tkjit::detail::MmaFloats;
};
template <bool saturates>
struct SumsOfMma<uint32_t, saturates> {
    using type = tkjit::detail::MmaHalves;
};
template <>
struct SumsOfMma<int32_t, false> {
    using type = tkjit::detail::MmaIntegers;
};
template <>
struct SumsOfMma<int32_t, true> {
    using type = tkjit::detail::MmaSaturatedIntegers;
};
template <int m_, int k_>
struct ShapeOfMma {
    static constexpr int m = m_, k = k_;
};

/// PTX ISA, `mma.sync`.
template <int m, int n, int k, class A, class B, bool saturates, class Sum, unsigned c_count, unsigned a_count, unsigned b_count>
inline void mma(Sum (&d)[c_count], const uint32_t (&a)[a_count], const uint32_t (&b)[b_count], const Sum (&c)[c_count],
                Site site = Site::here()) {
    static_assert(n == 8, "the simulator supports mma.sync only with n = 8");
    tkjit::detail::multiply<ShapeOfMma<m, k>, A, B, typename SumsOfMma<Sum, saturates>::type>(d, a, b, c, site);
}

}  // namespace tkjit::sim::ptx
