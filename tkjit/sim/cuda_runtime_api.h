// The simulator's `cuda_runtime_api.h`: its functions are in cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
