// `mma.sync`: a warp multiplies two small matrices on the tensor cores.
//
// Source: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type". D = A B + C, where A is 16 x 16, B is
// 16 x 8, C and D are 16 x 8 in float. With group = lane / 4 and pair = 2 * (lane % 4), a lane holds
//
//   a[0]  A[group    ][pair, pair + 1]        b[0]  B[pair,     pair + 1][group]
//   a[1]  A[group + 8][pair, pair + 1]        b[1]  B[pair + 8, pair + 9][group]
//   a[2]  A[group    ][pair + 8, pair + 9]    c[0], c[1]  C[group    ][pair, pair + 1]
//   a[3]  A[group + 8][pair + 8, pair + 9]    c[2], c[3]  C[group + 8][pair, pair + 1]
//
// where a register of A or B packs two elements, the lower column (row) in the lower half; d is like c.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <stdint.h>

namespace tkjit {

#ifdef TKJIT_SIM

namespace sim {

/// A lane's fragments.
struct MmaOperands {
    const uint32_t* a;
    const uint32_t* b;
    const float* c;
    float* d;
};

typedef float MmaRow __attribute__((vector_size(32)));  // the eight columns of a row of B, C or D

inline float unpack(__half, unsigned short bits) { return half_value(bits); }
inline float unpack(__nv_bfloat16, unsigned short bits) { return bfloat16_value(bits); }

/// One warp's m16n8k16, computed by one lane from all lanes' fragments.
template <class Element>
__attribute__((noinline)) void multiply_fragments(Lanes<MmaOperands> lanes) {
    float a[16][16];
    alignas(32) float b[16][8];
    alignas(32) float d[16][8];
    lanes.for_each([&](int lane, MmaOperands& operands) {
        const int group = lane / 4, pair = 2 * (lane % 4);
        for (int i = 0; i < 4; i++) {
            float* elements = &a[group + i % 2 * 8][pair + i / 2 * 8];
            elements[0] = unpack(Element(), operands.a[i] & 0xffff);
            elements[1] = unpack(Element(), operands.a[i] >> 16);
            d[group + i / 2 * 8][pair + i % 2] = operands.c[i];
        }
        for (int i = 0; i < 2; i++) {
            b[pair + 8 * i][group] = unpack(Element(), operands.b[i] & 0xffff);
            b[pair + 8 * i + 1][group] = unpack(Element(), operands.b[i] >> 16);
        }
    });
    MmaRow b_rows[16];
    __builtin_memcpy(b_rows, b, sizeof(b));
    for (int row = 0; row < 16; row++) {
        MmaRow sum;
        __builtin_memcpy(&sum, d[row], sizeof(sum));
        for (int k = 0; k < 16; k++) sum += a[row][k] * b_rows[k];
        __builtin_memcpy(d[row], &sum, sizeof(sum));
    }
    lanes.for_each([&](int lane, MmaOperands& operands) {
        const int group = lane / 4, pair = 2 * (lane % 4);
        for (int i = 0; i < 4; i++) operands.d[i] = d[group + i / 2 * 8][pair + i % 2];
    });
}

}  // namespace sim

/// d = a * b + c for one warp, all of whose 32 lanes take part. `d` and `c` may be the same array. Needs sm_80.
///
/// Element : __nv_bfloat16 or __half, the type of A's and B's elements.
template <class Element>
inline void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const float (&c)[4],
                         sim::Site site = sim::Site::here()) {
    sim::require_full_warp(sim::Operation::mma, site);
    sim::MmaOperands operands{a, b, c, d};
    sim::collective(~0u, sim::Operation::mma, operands, sim::multiply_fragments<Element>, site);
}

#else

/// d = a * b + c for one warp, all of whose 32 lanes take part. `d` and `c` may be the same array. Needs sm_80.
///
/// Element : __nv_bfloat16 or __half, the type of A's and B's elements.
template <class Element>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                             const float (&c)[4]);

#define TKJIT_MMA_M16N8K16(element, ptx_type)                                                                  \
    template <>                                                                                                \
    __device__ __forceinline__ void mma_m16n8k16<element>(float (&d)[4], const uint32_t (&a)[4],               \
                                                          const uint32_t (&b)[2], const float (&c)[4]) {       \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." ptx_type "." ptx_type                            \
                     ".f32 "                                                                                   \
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"                     \
                     : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                          \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), \
                       "f"(c[2]), "f"(c[3]));                                                                  \
    }
TKJIT_MMA_M16N8K16(__nv_bfloat16, "bf16")
TKJIT_MMA_M16N8K16(__half, "f16")
#undef TKJIT_MMA_M16N8K16

#endif

}  // namespace tkjit
