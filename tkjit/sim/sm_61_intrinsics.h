// The intrinsics are among those of cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
