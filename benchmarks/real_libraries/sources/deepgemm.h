// How DeepGEMM's host code describes matrices to TMA, and launches a kernel.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <stdexcept>

using Fp8 = __nv_fp8_e4m3;

template <class T>
constexpr CUtensorMapDataType type_of = sizeof(T) == 1   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                        : sizeof(T) == 2 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                         : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;

inline CUtensorMap map_of(CUtensorMapDataType type, int bytes, const void* x, uint64_t rows, uint64_t cols, uint64_t stride,
                          uint32_t box_rows, uint32_t box_cols, CUtensorMapSwizzle swizzle, uint64_t count = 0) {
    CUtensorMap map;
    const cuuint64_t sizes[] = {cols, rows, count}, strides[] = {stride * bytes, rows * stride * bytes};
    const cuuint32_t box[] = {box_cols, box_rows, 1}, steps[] = {1, 1, 1};
    if (cuTensorMapEncodeTiled(&map, type, count ? 3 : 2, (void*)x, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                               swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)) {
        throw std::runtime_error("a matrix has no tensor map");
    }
    return map;
}

/// A matrix in boxes of swizzled rows of 128 bytes.
template <class T>
CUtensorMap map_of(const T* x, uint64_t rows, uint64_t cols, uint32_t box_rows,
                   CUtensorMapDataType type = type_of<T>) {
    return map_of(type, sizeof(T), x, rows, cols, cols, box_rows, 128 / sizeof(T), CU_TENSOR_MAP_SWIZZLE_128B);
}

/// A matrix in boxes without a swizzle.
template <class T>
CUtensorMap plain_map_of(const T* x, uint64_t rows, uint64_t cols, uint32_t box_rows, uint32_t box_cols) {
    return map_of(type_of<T>, sizeof(T), x, rows, cols, cols, box_rows, box_cols, CU_TENSOR_MAP_SWIZZLE_NONE);
}

/// Launches a kernel in clusters of `cluster` blocks.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), int blocks, int threads, unsigned cluster, size_t shared_bytes,
            Arguments... arguments) {
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = cluster;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.attrs = &attribute;
    config.numAttrs = 1;
    config.dynamicSmemBytes = shared_bytes;
    const cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...);
    if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}
