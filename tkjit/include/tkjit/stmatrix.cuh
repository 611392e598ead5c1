// `stmatrix`: a warp stores 8 x 8 matrices of 16-bit elements to shared memory from the layout of `mma`'s fragments:
// the reverse of `ldmatrix`. Needs sm_90.
//
// Source: PTX ISA, "stmatrix". Lane 8 m + r passes the address of row r of matrix m: 16 bytes, aligned to 16. x1 uses the
// addresses of lanes 0 to 7, x2 those of lanes 0 to 15. A lane stores two elements of matrix m from `fragments[m]`, the
// first from the lower half:
//
//   plain       to row lane / 4, columns 2 * (lane % 4) and the next
//   transposed  to rows 2 * (lane % 4) and the next, column lane / 4
#pragma once

#include <stdint.h>

#include "shared_memory.cuh"

namespace tkjit {

/// Stores one, two or four matrices, as they are or transposed.
///     void stmatrix_x1(void* row, const uint32_t (&fragments)[1]);
///     void stmatrix_x2(void* row, const uint32_t (&fragments)[2]);
///     void stmatrix_x4(void* row, const uint32_t (&fragments)[4]);
///     void stmatrix_x1_trans(void* row, const uint32_t (&fragments)[1]);
///     void stmatrix_x2_trans(void* row, const uint32_t (&fragments)[2]);
///     void stmatrix_x4_trans(void* row, const uint32_t (&fragments)[4]);

#ifdef TKJIT_SIM

namespace sim {

/// The row at a lane's address, and the lane's share of the matrices. Each lane writes its row itself, so that a race is
/// reported between the right threads.
struct StoreMatrixOperands {
    alignas(16) unsigned short row[8];
    const uint32_t* fragments;
};

template <int matrices, bool transposed>
__attribute__((noinline)) void store_matrices(Lanes<StoreMatrixOperands> lanes) {
    lanes.for_each([&](int lane, StoreMatrixOperands& operands) {
        const int major = lane / 4, pair = 2 * (lane % 4);
        for (int matrix = 0; matrix < matrices; matrix++) {
            const auto row = [&](int index) { return lanes[8 * matrix + index].row; };
            const uint32_t both = operands.fragments[matrix];
            (transposed ? row(pair)[major] : row(major)[pair]) = static_cast<unsigned short>(both);
            (transposed ? row(pair + 1)[major] : row(major)[pair + 1]) = static_cast<unsigned short>(both >> 16);
        }
    });
}

template <int matrices, bool transposed>
inline void stmatrix(void* row, const uint32_t (&fragments)[matrices], Site site) {
    require_full_warp(Operation::stmatrix, site);
    const bool address_used = running_lane() < 8 * matrices;
    if (address_used && reinterpret_cast<uintptr_t>(row) % 16)
        fail(site, "stmatrix: a row must be aligned to 16 bytes");
    StoreMatrixOperands operands;
    operands.fragments = fragments;
    collective(~0u, Operation::stmatrix, operands, store_matrices<matrices, transposed>, site);
    if (address_used) __builtin_memcpy(row, operands.row, sizeof(operands.row));
}

}  // namespace sim

#define TKJIT_STMATRIX(matrices)                                                               \
    inline void stmatrix_x##matrices(void* row, const uint32_t (&fragments)[matrices],         \
                                     sim::Site site = sim::Site::here()) {                     \
        sim::stmatrix<matrices, false>(row, fragments, site);                                  \
    }                                                                                          \
    inline void stmatrix_x##matrices##_trans(void* row, const uint32_t (&fragments)[matrices], \
                                             sim::Site site = sim::Site::here()) {             \
        sim::stmatrix<matrices, true>(row, fragments, site);                                   \
    }
TKJIT_STMATRIX(1)
TKJIT_STMATRIX(2)
TKJIT_STMATRIX(4)
#undef TKJIT_STMATRIX

#else

#define TKJIT_STMATRIX(name, ptx_suffix)                                                                              \
    __device__ __forceinline__ void stmatrix_x1##name(void* row, const uint32_t (&fragments)[1]) {                    \
        asm volatile("stmatrix.sync.aligned.m8n8.x1" ptx_suffix ".shared.b16 [%0], {%1};" ::"r"(shared_address(row)), \
                     "r"(fragments[0])                                                                                \
                     : "memory");                                                                                     \
    }                                                                                                                 \
    __device__ __forceinline__ void stmatrix_x2##name(void* row, const uint32_t (&fragments)[2]) {                    \
        asm volatile("stmatrix.sync.aligned.m8n8.x2" ptx_suffix                                                       \
                     ".shared.b16 [%0], {%1, %2};" ::"r"(shared_address(row)),                                        \
                     "r"(fragments[0]), "r"(fragments[1])                                                             \
                     : "memory");                                                                                     \
    }                                                                                                                 \
    __device__ __forceinline__ void stmatrix_x4##name(void* row, const uint32_t (&fragments)[4]) {                    \
        asm volatile("stmatrix.sync.aligned.m8n8.x4" ptx_suffix                                                       \
                     ".shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),                                \
                     "r"(fragments[0]), "r"(fragments[1]), "r"(fragments[2]), "r"(fragments[3])                       \
                     : "memory");                                                                                     \
    }
TKJIT_STMATRIX(, "")
TKJIT_STMATRIX(_trans, ".trans")
#undef TKJIT_STMATRIX

#endif

}  // namespace tkjit
