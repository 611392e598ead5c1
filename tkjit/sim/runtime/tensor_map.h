// Makes tensor maps, and rejects the same ones as the driver.
#pragma once

#include "../cuda.h"
#include "../detail/driver_types.h"
#include "../detail/tensor_map.h"

#include <stdint.h>
#include <string.h>

namespace tkjit::sim {

inline constexpr uint8_t tensor_element_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

inline bool is_float(TensorType type) {
    return type >= TensorType::f16;
}

/// Returns the first rule about global memory that a map breaks, or null.
inline const char* refuse_tensor(unsigned rank, const void* address, const uint64_t* sizes, const uint64_t* strides) {
    if (rank == 0 || rank > most_tensor_dims) return "a tensor map must have 1 to 5 dimensions";
    if (reinterpret_cast<uintptr_t>(address) % 16) return "the address must be a multiple of 16";
    for (unsigned dim = 0; dim < rank; dim++) {
        if (sizes[dim] == 0 || sizes[dim] > 1ull << 32) return "each extent must be 1 to 2^32";
        if (dim == 0) continue;
        if (strides[dim - 1] % 16) return "each stride must be a multiple of 16 bytes";
        if (strides[dim - 1] >= 1ull << 40) return "each stride must be less than 2^40 bytes";
    }
    return nullptr;
}

/// Returns the first rule about the box that a map breaks, or null.
inline const char* refuse_box(unsigned rank, const uint32_t* box, const uint32_t* steps, unsigned element_bytes,
                              unsigned swizzle_bytes) {
    for (unsigned dim = 0; dim < rank; dim++) {
        if (box[dim] == 0 || box[dim] > 256) return "each extent of a box must be 1 to 256";
        if (steps[dim] == 0 || steps[dim] > 8) return "each element stride must be 1 to 8";
    }
    if (box[0] * element_bytes % 16) return "a row of the box must be a multiple of 16 bytes";
    if (swizzle_bytes && box[0] * element_bytes > swizzle_bytes) return "a row of the box must not exceed its swizzle";
    return nullptr;
}

const char* encode_tensor_map(CUtensorMap* map, CUtensorMapDataType type, unsigned rank, void* address,
                              const uint64_t* sizes, const uint64_t* strides, const uint32_t* box, const uint32_t* steps,
                              CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                              CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    if (map == nullptr || reinterpret_cast<uintptr_t>(map) % 64) return "the map must be aligned to 64 bytes";
    if (static_cast<unsigned>(type) >= sizeof(tensor_element_bytes)) return "the simulator lacks this element type";
    if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) return "the simulator has no interleaved layouts";
    if (static_cast<unsigned>(swizzle) > CU_TENSOR_MAP_SWIZZLE_128B) return "the simulator lacks this swizzle";
    if (static_cast<unsigned>(promotion) > CU_TENSOR_MAP_L2_PROMOTION_L2_256B) return "unknown L2 promotion";
    if (static_cast<unsigned>(fill) > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA) return "unknown fill";
    TensorMap made{};
    made.type = static_cast<TensorType>(type);
    made.element_bytes = tensor_element_bytes[type];
    made.swizzle_bytes = static_cast<uint8_t>(swizzle ? 16u << swizzle : 0);
    made.fills_with_nan = fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
    if (made.fills_with_nan && !is_float(made.type)) return "a map of integers cannot be filled with NaN";
    if (const char* refusal = refuse_tensor(rank, address, sizes, strides)) return refusal;
    if (const char* refusal = refuse_box(rank, box, steps, made.element_bytes, made.swizzle_bytes)) return refusal;
    made.mark = tensor_map_mark;
    made.address = reinterpret_cast<uintptr_t>(address);
    made.rank = static_cast<uint8_t>(rank);
    for (unsigned dim = 0; dim < rank; dim++) {
        made.last[dim] = static_cast<uint32_t>(sizes[dim] - 1);
        made.box[dim] = static_cast<uint16_t>(box[dim]);
        made.steps[dim] = static_cast<uint8_t>(steps[dim]);
        if (dim) made.strides[dim - 1] = strides[dim - 1];
    }
    memset(map, 0, sizeof(*map));
    memcpy(map, &made, sizeof(made));
    return nullptr;
}

}  // namespace tkjit::sim
