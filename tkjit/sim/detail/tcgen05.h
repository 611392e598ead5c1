// Tensor memory, and the fifth generation of tensor cores, which compute there. Each block has 128 lanes of 512 columns of
// 32 bits. Source: PTX ISA, "TensorCore 5th Generation Family Instructions".
//
// Here each operation is done when it is issued. A device may do it at any time before it is waited for.
#pragma once

#include "block.h"
#include "site.h"

#include <stdint.h>

namespace tkjit::sim {

inline constexpr unsigned tensor_lanes = 128, tensor_columns = 512;

/// The blocks that an instruction concerns: `cta_group::1`, or the two blocks of a pair, `cta_group::2`.
enum class CtaGroup : unsigned char { one = 1, pair = 2 };

// ---- allocation; all lanes of a warp call these

void allocate_tensor_memory(CtaGroup group, unsigned columns, uint32_t* address, Site site);
void free_tensor_memory(CtaGroup group, uint32_t address, unsigned columns, Site site);
void relinquish_tensor_memory(Site site);

// ---- a warp's loads and stores

/// The lanes, and the bits of each, that one step of a load or a store covers.
enum class TensorShape : unsigned char { l32x32b, l16x64b, l16x128b, l16x256b, l16x32bx2 };

struct TensorAccess {
    TensorShape shape;
    unsigned registers;  // of each thread
    bool packs;          // two columns, of 16 bits each, to a register
    uint32_t address;
    unsigned split;      // the distance, in columns, of the upper half of l16x32bx2
};

void load_tensor_memory(const TensorAccess& access, uint32_t* registers, Site site);
void store_tensor_memory(const TensorAccess& access, const uint32_t* registers, Site site);
void wait_for_tensor_loads(Site site = Site::here());
void wait_for_tensor_stores(Site site = Site::here());

// ---- copies from shared memory, and products; one thread calls these

/// The rows and the bits of each that are copied. 64 rows fill the lanes twice, and 32 rows four times.
enum class TensorCopyShape : unsigned char { c128x256b, c4x256b, c128x128b, c64x128b_02_13, c64x128b_01_23, c32x128b_x4 };

void copy_to_tensor_memory(CtaGroup group, TensorCopyShape shape, uint32_t address, uint64_t descriptor, Site site);

enum class TensorKind : unsigned char { f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4, mxf4nvf4 };

struct TensorProduct {
    TensorKind kind;
    CtaGroup group;
    unsigned scale_block;  // the elements along K that share a scale; 0 for a kind without scales
    uint32_t d;            // addresses in tensor memory
    uint32_t scales_a = 0, scales_b = 0;
    uint64_t a;  // an address in tensor memory, or the descriptor of a matrix in shared memory
    bool a_in_tensor_memory;
    uint64_t b;
    uint32_t instruction;  // the instruction descriptor
    bool accumulates;      // else D = A B
    unsigned shift_of_d;   // D is divided by 2 to this power first
    uint32_t disabled_lanes[8];  // a bit for each lane of D, by block, that is not written
};

void multiply_in_tensor_memory(const TensorProduct& product, Site site);

/// Arrives at an mbarrier once the thread's copies and products are done, or at those in the same place of all blocks of the
/// cluster whose bit in `ranks` is set.
void commit_tensor_operations(uint64_t* barrier, Site site);
void commit_tensor_operations_to(uint64_t* barrier, unsigned ranks, Site site);

/// `tcgen05.fence`: orders the thread's operations in tensor memory with those of threads that it meets later or has met.
void fence_tensor_memory(bool before_meeting);

}  // namespace tkjit::sim
