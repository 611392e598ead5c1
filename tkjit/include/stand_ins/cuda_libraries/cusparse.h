// The handle of cuSPARSE, which sources name without calling it.
#pragma once

#include <cuda_runtime.h>

struct cusparseContext;
typedef cusparseContext* cusparseHandle_t;
