// Two 16-bit elements in a register, as the fragments of matrix instructions hold them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdint.h>

__device__ inline uint32_t pack(__nv_bfloat16, float low, float high) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t&>(both);
}
__device__ inline uint32_t pack(__half, float low, float high) {
    const __half2 both = __floats2half2_rn(low, high);
    return reinterpret_cast<const uint32_t&>(both);
}

/// Packs a row of products as the left operand of the next product.
template <class T, int Count>
__device__ void pack_all(uint32_t (&packed)[Count / 8][4], const float (&products)[Count]) {
#pragma unroll
    for (int i = 0; i < Count / 2; ++i) packed[i / 4][i % 4] = pack(T(), products[2 * i], products[2 * i + 1]);
}
