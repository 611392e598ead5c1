// `__host__`, `__device__` and their like are in cuda_runtime.h.
#pragma once

#include "../cuda_runtime.h"
