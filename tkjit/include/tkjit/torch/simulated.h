// Comes first in each source of an extension for the simulator: torch's headers that ask for __CUDA_ARCH__ and mean the
// host, before the simulator forbids the question.
#pragma once

#ifndef TKJIT_SIM_SYSTEM_ASKS_ARCH  // which a source has that includes more such headers
#define TKJIT_SIM_SYSTEM_ASKS_ARCH
#define TKJIT_TORCH_ASKS_NO_MORE
#endif
#include <cuda_runtime.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "scalar_type.h"

#include <torch/headeronly/core/TensorAccessor.h>

#ifdef TKJIT_TORCH_ASKS_NO_MORE
#undef TKJIT_SIM_SYSTEM_ASKS_ARCH
#ifndef TKJIT_SIM_TRANSLATES  // which answers each question
#pragma GCC poison __CUDA_ARCH__
#endif
#endif
