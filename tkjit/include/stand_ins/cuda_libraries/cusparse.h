// Declares the handle of cuSPARSE, which sources mention without calling the library.
#pragma once

#if __has_include_next(<cusparse.h>)
#include_next <cusparse.h>
#else

#include <cuda_runtime.h>

struct cusparseContext;
typedef cusparseContext* cusparseHandle_t;

#endif  // the toolkit has no such header
