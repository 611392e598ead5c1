// Tensor maps, which `cuTensorMapEncodeTiled` makes, and the copies of tiles that kernels make with them.
//
// The layout of the driver's 128 bytes is not documented. Ours differs, but a map is copied by value in the same way.
// Source: CUDA Driver API, "Tensor Map Object Management"; PTX ISA, "Tensors" and "cp.async.bulk.tensor".
#pragma once

#include "site.h"

#include <stdint.h>

namespace tkjit::sim {

inline constexpr unsigned most_tensor_dims = 5;
inline constexpr uint32_t tensor_map_mark = 0x746b6a74;  // distinguishes a map from other memory

enum class TensorType : uint8_t { u8, u16, u32, s32, u64, s64, f16, f32, f64, bf16, f32_ftz, tf32, tf32_ftz };

struct TensorMap {
    uint64_t address;
    uint64_t strides[most_tensor_dims - 1];  // in bytes, of all dimensions but the first
    uint32_t mark;
    uint32_t last[most_tensor_dims];  // the last index of each dimension
    uint16_t box[most_tensor_dims];
    uint8_t steps[most_tensor_dims];  // element strides: 2 takes every second element
    TensorType type;
    uint8_t rank;
    uint8_t element_bytes;
    uint8_t swizzle_bytes;  // 0, 32, 64 or 128
    bool fills_with_nan;    // elements outside of the tensor read as NaN, not 0
};
static_assert(sizeof(TensorMap) <= 128);

/// The operation by which a copy to global memory combines with the old contents.
enum class Reduction : unsigned char { none, add_, min_, max_, and_, or_, xor_ };

/// Copies the box at these coordinates (innermost first) to shared memory. When the copy lands, its bytes arrive at the
/// barrier.
void tensor_load(void* shared_destination, const TensorMap* map, const int* coordinates, unsigned rank,
                 uint64_t* barrier, Site site);

/// The same for several blocks of the cluster: each rank whose bit is set gets the box, and has its own barrier. With
/// `of_pair`, the barrier is in that block of the pair whose rank has the same parity as that of `barrier`.
void tensor_load_to_blocks(void* shared_destination, const TensorMap* map, const int* coordinates, unsigned rank,
                           uint64_t* barrier, unsigned ranks, bool of_pair, Site site);

/// Copies a box from shared to global memory, or combines it with the old contents there. The copy belongs to the
/// running thread's bulk group.
void tensor_store(const TensorMap* map, const int* coordinates, unsigned rank, const void* shared_source,
                  Reduction reduction, Site site);

/// Returns where 16 bytes are placed in a swizzled tile: bits 7 to 9 of the address change bits 4 to 6. Source: PTX
/// ISA, "Swizzling Modes".
inline unsigned swizzled(unsigned address, unsigned swizzle_bytes) {
    const unsigned mask = swizzle_bytes / 16 - 1;  // 1, 3 or 7
    return swizzle_bytes ? address ^ ((address >> 7 & mask) << 4) : address;
}

}  // namespace tkjit::sim
