// A layout's tensor maps, one for each type of tile with which it is read.
#pragma once

#include <cuda_runtime.h>

#if defined(MITTENS_HOPPER) || defined(MITTENS_BLACKWELL)
#define MITTENS_TENSOR_MAPS
#include <cuda.h>

#include <stdexcept>
#include <type_traits>
#endif

namespace mittens {

template <class... Tiles>
struct tensor_maps {
    tensor_maps() = default;
    tensor_maps(const void*, int, int, int, int) {}
};

#ifdef MITTENS_TENSOR_MAPS

template <class T>
constexpr CUtensorMapDataType tensor_map_type() {
    if constexpr (std::is_same_v<T, float>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    else return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

template <class Tile, class... Others>
struct tensor_maps<Tile, Others...> {
    CUtensorMap map;
    tensor_maps<Others...> others;

    tensor_maps() = default;
    tensor_maps(const void* data, int batch, int depth, int rows, int cols) : others(data, batch, depth, rows, cols) {
        using T = typename Tile::dtype;
        const cuuint64_t extents[2] = {cuuint64_t(cols), cuuint64_t(batch) * depth * rows};
        const cuuint64_t stride_bytes[1] = {extents[0] * sizeof(T)};
        const cuuint32_t box[2] = {Tile::cols, Tile::rows}, steps[2] = {1, 1};
        const CUresult result = cuTensorMapEncodeTiled(
            &map, tensor_map_type<T>(), 2, const_cast<void*>(data), extents, stride_bytes, box, steps,
            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
        if (result != CUDA_SUCCESS) throw std::runtime_error("mittens: these extents do not allow a tensor map");
    }
};

#endif

}  // namespace mittens
