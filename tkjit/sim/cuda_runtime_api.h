// The simulator's `cuda_runtime_api.h`: what host code includes it for is in cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
