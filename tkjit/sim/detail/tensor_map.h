// Tensor maps: what `cuTensorMapEncodeTiled` makes, and the copies of tiles that kernels make with them.
//
// The driver's 128 bytes are not documented; these have a layout of our own, and are copied by value in the same way.
// Source: CUDA Driver API, "Tensor Map Object Management"; PTX ISA, "Tensors" and "cp.async.bulk.tensor".
#pragma once

#include "site.h"

#include <stdint.h>

namespace tkjit::sim {

inline constexpr unsigned most_tensor_dims = 5;
inline constexpr uint32_t tensor_map_mark = 0x746b6a74;  // tells a map from memory that never was one

enum class TensorType : uint8_t { u8, u16, u32, s32, u64, s64, f16, f32, f64, bf16, f32_ftz, tf32, tf32_ftz };

struct TensorMap {
    uint64_t address;
    uint64_t strides[most_tensor_dims - 1];  // bytes, of all dimensions but the first
    uint32_t mark;
    uint32_t last[most_tensor_dims];  // the last index of each dimension
    uint16_t box[most_tensor_dims];
    uint8_t steps[most_tensor_dims];  // every how many elements one is taken
    TensorType type;
    uint8_t rank;
    uint8_t element_bytes;
    uint8_t swizzle_bytes;  // 0, 32, 64 or 128
    bool fills_with_nan;    // what lies outside is a NaN, and not 0
};
static_assert(sizeof(TensorMap) <= 128);

/// What a copy to global memory does with what is there.
enum class Reduction : unsigned char { none, add_, min_, max_, and_, or_, xor_ };

/// Copies the box at these coordinates (innermost first) to shared memory; its bytes arrive at the barrier.
void tensor_load(void* shared_destination, const TensorMap* map, const int* coordinates, unsigned rank,
                 uint64_t* barrier, Site site);

/// Copies a box from shared to global memory, or combines it with what is there, in the running thread's bulk group.
void tensor_store(const TensorMap* map, const int* coordinates, unsigned rank, const void* shared_source,
                  Reduction reduction, Site site);

/// Where 16 bytes of a swizzled tile lie: bits 4 to 6 of an address are changed by bits 7 to 9.
/// Source: PTX ISA, "Swizzling Modes".
inline unsigned swizzled(unsigned address, unsigned swizzle_bytes) {
    const unsigned mask = swizzle_bytes / 16 - 1;  // 1, 3 or 7
    return swizzle_bytes ? address ^ ((address >> 7 & mask) << 4) : address;
}

}  // namespace tkjit::sim
