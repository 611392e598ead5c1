// The handle of cuSPARSE, which sources name without calling it.
#pragma once

#if __has_include_next(<cusparse.h>)
#include_next <cusparse.h>
#else

#include <cuda_runtime.h>

struct cusparseContext;
typedef cusparseContext* cusparseHandle_t;

#endif  // the toolkit has none
