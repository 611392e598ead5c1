// Macros of CUB that sources use.
#pragma once

#include "../cuda_runtime.h"
#include "version.cuh"

#include <cstdio>
#include <cstdlib>

#define CUB_NAMESPACE_BEGIN namespace cub {
#define CUB_NAMESPACE_END }
#define CUB_NS_QUALIFIER ::cub
#define CUB_NS_PREFIX
#define CUB_NS_POSTFIX
#define CUB_RUNTIME_FUNCTION __host__
#define CUB_RUNTIME_ENABLED

#define CUB_LOG_WARP_THREADS(arch) (5)
#define CUB_WARP_THREADS(arch) (32)
#define CUB_PTX_LOG_WARP_THREADS 5
#define CUB_PTX_WARP_THREADS 32
#define CUB_PTX_SMEM_BANKS 32
#define CUB_PTX_LOG_SMEM_BANKS 5

#define CUB_MIN(a, b) (((a) > (b)) ? (b) : (a))
#define CUB_MAX(a, b) (((a) > (b)) ? (a) : (b))
#define CUB_ABS(a) (((a) < 0) ? -(a) : (a))
#define CUB_QUOTIENT_FLOOR(x, y) ((x) / (y))
#define CUB_QUOTIENT_CEILING(x, y) (((x) + (y) - 1) / (y))
#define CUB_ROUND_UP_NEAREST(x, y) (CUB_QUOTIENT_CEILING(x, y) * (y))
#define CUB_ROUND_DOWN_NEAREST(x, y) (((x) / (y)) * (y))
#define CUB_IS_INT128_ENABLED 1
#define CUB_STATIC_ASSERT(condition, message) static_assert(condition, message)
#define CUB_PREVENT_MACRO_SUBSTITUTION

namespace cub {

/// Prints an error and returns it.
inline cudaError_t Debug(cudaError_t error, const char* file, int line) {
    if (error != cudaSuccess) std::fprintf(stderr, "CUDA error %d [%s, %d]: %s\n", error, file, line, cudaGetErrorString(error));
    return error;
}

}  // namespace cub

#define CubDebug(error) ::cub::Debug((error), __FILE__, __LINE__)
#define CubDebugExit(error) \
    if (::cub::Debug((error), __FILE__, __LINE__)) std::exit(1)
