// What kernels may call of the runtime is among those of cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
