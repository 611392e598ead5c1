// `mma.sync`: a warp multiplies two small matrices on the tensor cores.
//
//                   A, B                          C, D
//   mma_f16.cuh     half, bfloat16                float (half: also half)    m16n8k8, m16n8k16
//   mma_fp8.cuh     e4m3, e5m2, in any mix        float, half                m16n8k16, m16n8k32
//   mma_int8.cuh    int8_t, uint8_t, in any mix   int32_t                    m8n8k16, m16n8k16, m16n8k32
//   mma_tf32.cuh    tf32                          float                      m16n8k4, m16n8k8
//
// mma_fragments.cuh describes the fragments' layout. There are no wrappers for m8n8k4 (slow since sm_75), double, 1-bit
// elements, or sparse and block-scaled matrices.
#pragma once

#include "mma_f16.cuh"
#include "mma_fp8.cuh"
#include "mma_int8.cuh"
#include "mma_tf32.cuh"
