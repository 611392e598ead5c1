// The simulator's `cuda_bf16.h`: bfloat16 and pairs of them.
#pragma once

#include "cuda_fp16.h"

#define TKJIT_SIM_SCALAR __nv_bfloat16
#define TKJIT_SIM_PAIR __nv_bfloat162
#define TKJIT_SIM_NAME bfloat16
#define TKJIT_SIM_NAME2 bfloat162
#define TKJIT_SIM_BITS tkjit::sim::bfloat16_bits
#define TKJIT_SIM_VALUE tkjit::sim::bfloat16_value
#define TKJIT_SIM_OTHER __half
#include "detail/float16_type.inc"

using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

inline __half::__half(const __nv_bfloat16& other) : __half(static_cast<float>(other)) {}
inline __nv_bfloat16::__nv_bfloat16(const __half& other) : __nv_bfloat16(static_cast<float>(other)) {}

#define CUDART_INF_BF16 __ushort_as_bfloat16(0x7f80)
#define CUDART_NAN_BF16 __ushort_as_bfloat16(0x7fff)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16(0x7f7f)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16(0x0000)
#define CUDART_ONE_BF16 __ushort_as_bfloat16(0x3f80)
