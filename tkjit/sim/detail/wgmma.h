// `wgmma.mma_async`: a warpgroup multiplies 64 x K of A by K x N of B. The last of its 128 threads to arrive computes
// for all. Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
//
// Here the multiplication reads and writes immediately. A device may do so at any time before the wait.
#pragma once

#include "pending_registers.h"
#include "site.h"

#include <stddef.h>
#include <stdint.h>

namespace tkjit::sim {

enum class Element : unsigned char { f16, bf16, tf32, e4m3, e5m2, s8, u8 };

/// Returns the number of elements of K that an instruction uses: as many as fit in 32 bytes.
constexpr unsigned wgmma_k(Element element) {
    return element == Element::tf32 ? 8 : element == Element::f16 || element == Element::bf16 ? 16 : 32;
}

enum class Sums : unsigned char { f32, s32, f16 };

/// The properties of an instruction that all its threads share.
struct WgmmaShape {
    unsigned n;
    Element a, b;
    Sums sums;
    bool is_sparse = false;  // half of A is zero and not stored; K is twice as long
};

/// A thread's operands. Of its warp's 16 rows of D, a lane holds rows lane / 4 and lane / 4 + 8. Of every eight columns
/// it holds the two from 2 (lane % 4) on: d[4 j + 2 i + c] is D[lane / 4 + 8 i][8 j + 2 (lane % 4) + c].
struct WgmmaOperands {
    void* d;                  // float[N / 2], int32_t[N / 2], or uint32_t[N / 4] of two halves
    const uint32_t* a_registers;  // four; null if A is in shared memory
    uint64_t a, b;            // descriptors of matrices in shared memory
    bool accumulates;         // else D = A B
    signed char sign_a, sign_b;
    bool a_by_columns, b_by_rows;  // stored with M, or N, as the contiguous dimension
    uint32_t metadata = 0;         // of a sparse A: the places of its elements, two bits each
    unsigned metadata_pair = 0;    // the pair, of each four lanes, that holds the metadata of 16-bit elements and of tf32
};

void wgmma(const WgmmaShape& shape, WgmmaOperands& operands, Site site);

// Only the race detector needs to know which products have been waited for, and which registers they use until then.
#ifdef TKJIT_SIM_RACE
void commit_wgmma(Site site);
void wait_for_wgmma(unsigned pending_groups, Site site);
void fence_wgmma(Site site);
#else
inline void commit_wgmma(Site) {}
inline void wait_for_wgmma(unsigned, Site) {}
inline void fence_wgmma(Site) {}
#endif

}  // namespace tkjit::sim
