// The runtime functions that kernels may call are in cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
