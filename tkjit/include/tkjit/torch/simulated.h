// Comes first in each source of an extension for the simulator. It includes torch's headers that test __CUDA_ARCH__ to
// detect host code, before the simulator forbids the macro.
#pragma once

#ifndef TKJIT_SIM_SYSTEM_ASKS_ARCH  // already defined for a source that includes more such headers
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
#ifndef TKJIT_SIM_TRANSLATES  // a translated source is preprocessed for device and host, so it may test the macro
#pragma GCC poison __CUDA_ARCH__
#endif
#endif
