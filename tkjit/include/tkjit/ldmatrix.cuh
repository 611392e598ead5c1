// `ldmatrix`: a warp loads 8 x 8 matrices of 16-bit elements from shared memory in the layout of `mma`'s fragments.
//
// Source: PTX ISA, "ldmatrix". Lane 8 m + r passes the address of row r of matrix m: 16 bytes, aligned to 16. x1 uses the
// addresses of lanes 0 to 7, x2 those of lanes 0 to 15. In result m, a lane gets two elements of matrix m, packed into
// 32 bits, the first in the lower half:
//
//   plain       row lane / 4, columns 2 * (lane % 4) and the next
//   transposed  rows 2 * (lane % 4) and the next, column lane / 4
#pragma once

#include <stdint.h>

#include "shared_memory.cuh"

namespace tkjit {

/// Loads one, two or four matrices, as they are or transposed.
///     void ldmatrix_x1(uint32_t (&result)[1], const void* row);
///     void ldmatrix_x2(uint32_t (&result)[2], const void* row);
///     void ldmatrix_x4(uint32_t (&result)[4], const void* row);
///     void ldmatrix_x1_trans(uint32_t (&result)[1], const void* row);
///     void ldmatrix_x2_trans(uint32_t (&result)[2], const void* row);
///     void ldmatrix_x4_trans(uint32_t (&result)[4], const void* row);

#ifdef TKJIT_SIM

namespace sim {

/// The row at a lane's address, and the destination of the lane's share of the matrices. Each lane reads its row itself,
/// so that a race is reported between the right threads.
struct LoadMatrixOperands {
    alignas(16) unsigned short row[8];
    uint32_t* result;
};

template <int matrices, bool transposed>
__attribute__((noinline)) void load_matrices(Lanes<LoadMatrixOperands> lanes) {
    lanes.for_each([&](int lane, LoadMatrixOperands& operands) {
        const int major = lane / 4, pair = 2 * (lane % 4);
        for (int matrix = 0; matrix < matrices; matrix++) {
            const auto row = [&](int index) { return lanes[8 * matrix + index].row; };
            const unsigned first = transposed ? row(pair)[major] : row(major)[pair];
            const unsigned second = transposed ? row(pair + 1)[major] : row(major)[pair + 1];
            operands.result[matrix] = second << 16 | first;
        }
    });
}

template <int matrices, bool transposed>
inline void ldmatrix(uint32_t (&result)[matrices], const void* row, Site site) {
    require_full_warp(Operation::ldmatrix, site);
    const bool address_used = running_lane() < 8 * matrices;
    if (address_used && reinterpret_cast<uintptr_t>(row) % 16)
        fail(site, "ldmatrix: a row must be aligned to 16 bytes");
    LoadMatrixOperands operands;
    operands.result = result;
    if (address_used) __builtin_memcpy(operands.row, row, sizeof(operands.row));
    collective(~0u, Operation::ldmatrix, operands, load_matrices<matrices, transposed>, site);
}

}  // namespace sim

#define TKJIT_LDMATRIX(matrices)                                                            \
    inline void ldmatrix_x##matrices(uint32_t (&result)[matrices], const void* row,         \
                                     sim::Site site = sim::Site::here()) {                  \
        sim::ldmatrix<matrices, false>(result, row, site);                                  \
    }                                                                                       \
    inline void ldmatrix_x##matrices##_trans(uint32_t (&result)[matrices], const void* row, \
                                             sim::Site site = sim::Site::here()) {          \
        sim::ldmatrix<matrices, true>(result, row, site);                                   \
    }
TKJIT_LDMATRIX(1)
TKJIT_LDMATRIX(2)
TKJIT_LDMATRIX(4)
#undef TKJIT_LDMATRIX

#else

#define TKJIT_LDMATRIX(name, ptx_suffix)                                                              \
    __device__ __forceinline__ void ldmatrix_x1##name(uint32_t (&result)[1], const void* row) {       \
        asm volatile("ldmatrix.sync.aligned.m8n8.x1" ptx_suffix ".shared.b16 {%0}, [%1];"             \
                     : "=r"(result[0])                                                                \
                     : "r"(shared_address(row))                                                       \
                     : "memory");                                                                     \
    }                                                                                                 \
    __device__ __forceinline__ void ldmatrix_x2##name(uint32_t (&result)[2], const void* row) {       \
        asm volatile("ldmatrix.sync.aligned.m8n8.x2" ptx_suffix ".shared.b16 {%0, %1}, [%2];"         \
                     : "=r"(result[0]), "=r"(result[1])                                               \
                     : "r"(shared_address(row))                                                       \
                     : "memory");                                                                     \
    }                                                                                                 \
    __device__ __forceinline__ void ldmatrix_x4##name(uint32_t (&result)[4], const void* row) {       \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" ptx_suffix ".shared.b16 {%0, %1, %2, %3}, [%4];" \
                     : "=r"(result[0]), "=r"(result[1]), "=r"(result[2]), "=r"(result[3])             \
                     : "r"(shared_address(row))                                                       \
                     : "memory");                                                                     \
    }
TKJIT_LDMATRIX(, "")
TKJIT_LDMATRIX(_trans, ".trans")
#undef TKJIT_LDMATRIX

#endif

}  // namespace tkjit
