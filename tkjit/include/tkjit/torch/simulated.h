// Comes first in each source of an extension for the simulator: torch's headers that ask for __CUDA_ARCH__ and mean the
// host, before the simulator forbids the question.
#pragma once

#define TKJIT_SIM_SYSTEM_ASKS_ARCH
#include <cuda_runtime.h>
#undef TKJIT_SIM_SYSTEM_ASKS_ARCH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define __CUDACC__  // for their conversions from and to __half and __nv_bfloat16
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>
#undef __CUDACC__

#pragma GCC poison __CUDA_ARCH__
