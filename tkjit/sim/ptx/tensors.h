// PTX ISA, "cp.async.bulk.tensor", "wgmma.mma_async", "mma.sync".
#pragma once

#include "../detail/bulk_copies.h"
#include "../detail/tensor_map.h"
#include "../detail/warp.h"
#include "../detail/wgmma.h"
#include "operands.h"

#include <tkjit/mma.cuh>

namespace tkjit::sim::ptx {

inline const TensorMap* map_at(const char* address) { return reinterpret_cast<const TensorMap*>(address); }

inline TensorMap& tensor_map_at(char* address, Site site) {
    if (reinterpret_cast<uintptr_t>(address) % 64) fail(site, "a tensor map at %p is not aligned to 64 bytes", static_cast<void*>(address));
    return *reinterpret_cast<TensorMap*>(address);
}

enum class MapField {
    global_address, rank, box_dim, global_dim, global_stride, element_stride, elemtype, interleave_layout, swizzle_mode, fill_mode
};

/// PTX ISA, `tensormap.replace`: changes a field of a tensor map in memory.
inline void replace_in_map(MapField field, char* address, unsigned dim, uint64_t value, Site site = Site::here()) {
    // the order of PTX's numbers; the driver's is another one
    static constexpr TensorType types[] = {TensorType::u8,  TensorType::u16, TensorType::u32,     TensorType::s32,  TensorType::u64,
                                           TensorType::s64, TensorType::f16, TensorType::f32,     TensorType::f32_ftz,
                                           TensorType::f64, TensorType::bf16, TensorType::tf32,   TensorType::tf32_ftz};
    static constexpr uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4};
    if (dim >= most_tensor_dims - (field == MapField::global_stride)) fail(site, "tensormap.replace: there is no dimension %u", dim);
    TensorMap& map = tensor_map_at(address, site);
    if (map.mark != tensor_map_mark) fail(site, "tensormap.replace: the memory at %p holds no tensor map", static_cast<void*>(address));
    switch (field) {
        case MapField::global_address: map.address = value; break;
        case MapField::rank:
            if (value >= most_tensor_dims) fail(site, "tensormap.replace: the rank is at most %u", most_tensor_dims - 1);
            map.rank = static_cast<uint8_t>(value + 1);
            break;
        case MapField::box_dim: map.box[dim] = static_cast<uint16_t>(value); break;
        case MapField::global_dim: map.last[dim] = static_cast<uint32_t>(value - 1); break;
        case MapField::global_stride: map.strides[dim] = value; break;
        case MapField::element_stride: map.steps[dim] = static_cast<uint8_t>(value); break;
        case MapField::elemtype:
            if (value >= sizeof(bytes)) fail(site, "tensormap.replace: the simulator lacks this element type");
            map.type = types[value];
            map.element_bytes = bytes[value];
            break;
        case MapField::interleave_layout:
            if (value) fail(site, "tensormap.replace: the simulator has no interleaved layouts");
            break;
        case MapField::swizzle_mode:
            if (value > 3) fail(site, "tensormap.replace: the simulator lacks this swizzle");
            map.swizzle_bytes = static_cast<uint8_t>(value ? 16u << value : 0);
            break;
        case MapField::fill_mode: map.fills_with_nan = value != 0; break;
    }
}

/// PTX ISA, `tensormap.cp_fenceproxy`: a warp copies a tensor map from shared to global memory, and makes it visible to
/// copies that follow an acquire.
inline void copy_map(char* to, const char* from, unsigned bytes, Site site = Site::here()) {
    __syncwarp(~0u, site);
    if (running_lane() == 0) {
        __builtin_memcpy(&tensor_map_at(to, site), from, bytes);
        release_tensor_maps();
    }
    __syncwarp(~0u, site);
}

/// PTX ISA, `cp.async.bulk.tensor` to shared memory.
template <unsigned rank>
inline void tensor_load(char* to, const char* map, const int (&coordinates)[rank], char* barrier, Site site = Site::here()) {
    sim::tensor_load(to, map_at(map), coordinates, rank, reinterpret_cast<uint64_t*>(barrier), site);
}

template <unsigned rank>
inline void tensor_load_to_blocks(char* to, const char* map, const int (&coordinates)[rank], char* barrier, unsigned ranks,
                                  bool of_pair = false, Site site = Site::here()) {
    sim::tensor_load_to_blocks(to, map_at(map), coordinates, rank, reinterpret_cast<uint64_t*>(barrier), ranks, of_pair, site);
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

/// Whether A is sparse, and the operands that only a sparse A has.
struct Sparse {
    static constexpr bool is_sparse = true;
    uint32_t metadata;
    unsigned pair;
};
struct Dense {
    static constexpr bool is_sparse = false;
    static constexpr uint32_t metadata = 0;
    static constexpr unsigned pair = 0;
};

/// PTX ISA, `wgmma.mma_async` and `wgmma.mma_async.sp`, with A in shared memory.
template <unsigned n, Element a_type, Element b_type, class Sum, unsigned count, class Sparsity>
inline void wgmma(Sum (&d)[count], uint64_t a, uint64_t b, Sparsity sparsity, bool accumulates, int sign_a = 1, int sign_b = 1,
                  int a_by_columns = 0, int b_by_rows = 0, Site site = Site::here()) {
    static_assert(count == (sums_of<Sum> == Sums::f16 ? n / 4 : n / 2), "wgmma: wrong number of registers for D");
    static constexpr WgmmaShape shape{n, a_type, b_type, sums_of<Sum>, Sparsity::is_sparse};
    WgmmaOperands operands{d, nullptr, a, b, accumulates, static_cast<signed char>(sign_a), static_cast<signed char>(sign_b),
                           a_by_columns != 0, b_by_rows != 0, sparsity.metadata, sparsity.pair};
    sim::wgmma(shape, operands, site);
}

/// Records the registers of an `asm` statement's `wgmma`, if they are the kernel's variables.
template <class... Sums>
inline void note_sums(const Sums&... sums) {
    (note_registers(&sums, sizeof(sums), RegisterUse::sums), ...);
}
template <class... Elements>
inline void note_a(const std::remove_reference_t<Elements>&... elements) {
    ((std::is_lvalue_reference_v<Elements> ? note_registers(&elements, sizeof(elements), RegisterUse::a) : void()), ...);
}

/// PTX ISA, `wgmma.fence`, `wgmma.commit_group` and `wgmma.wait_group`.
inline void wgmma_fence(Site site = Site::here()) { fence_wgmma(site); }
inline void wgmma_commit(Site site = Site::here()) { commit_wgmma(site); }
inline void wgmma_wait(unsigned pending_groups, Site site = Site::here()) { wait_for_wgmma(pending_groups, site); }

/// The same with A in registers.
template <unsigned n, Element a_type, Element b_type, class Sum, unsigned count, class Sparsity>
inline void wgmma_registers(Sum (&d)[count], const uint32_t (&a)[4], uint64_t b, Sparsity sparsity, bool accumulates,
                            int sign_a = 1, int sign_b = 1, int b_by_rows = 0, Site site = Site::here()) {
    static_assert(count == (sums_of<Sum> == Sums::f16 ? n / 4 : n / 2), "wgmma: wrong number of registers for D");
    static constexpr WgmmaShape shape{n, a_type, b_type, sums_of<Sum>, Sparsity::is_sparse};
    WgmmaOperands operands{d, a, 0, b, accumulates, static_cast<signed char>(sign_a), static_cast<signed char>(sign_b),
                           false, b_by_rows != 0, sparsity.metadata, sparsity.pair};
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
