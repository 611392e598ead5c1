// `__host__`, `__device__` and similar keywords are in cuda_runtime.h.
#pragma once

#include "../cuda_runtime.h"
