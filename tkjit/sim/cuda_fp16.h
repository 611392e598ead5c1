// The simulator's `cuda_fp16.h`: half and pairs of halves.
#pragma once

#include "cuda_runtime.h"
#include "detail/float16_rounding.h"

#define TKJIT_SIM_SCALAR __half
#define TKJIT_SIM_PAIR __half2
#define TKJIT_SIM_NAME half
#define TKJIT_SIM_NAME2 half2
#define TKJIT_SIM_BITS tkjit::sim::half_bits
#define TKJIT_SIM_VALUE tkjit::sim::half_value
#define TKJIT_SIM_OTHER __nv_bfloat16
#include "detail/float16_type.inc"

using half = __half;
using half2 = __half2;
using __nv_half = __half;
using __nv_half2 = __half2;
using nv_half = __half;
using nv_half2 = __half2;

#define CUDART_INF_FP16 __ushort_as_half(0x7c00)
#define CUDART_NAN_FP16 __ushort_as_half(0x7fff)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half(0x7bff)
#define CUDART_ZERO_FP16 __ushort_as_half(0x0000)
#define CUDART_ONE_FP16 __ushort_as_half(0x3c00)
