// The simulator's `driver_types.h`: its types are in cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
