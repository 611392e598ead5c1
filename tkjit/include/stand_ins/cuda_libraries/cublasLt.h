// Declares the handle of cuBLASLt, because some sources' headers create a handle and then do not use it.
#pragma once

#if __has_include_next(<cublasLt.h>)
#include_next <cublasLt.h>
#else

#include <cublas_v2.h>

struct cublasLtContext;
typedef cublasLtContext* cublasLtHandle_t;

// a cuBLAS handle is also a cuBLASLt handle
inline cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return cublasCreate(reinterpret_cast<cublasHandle_t*>(handle)); }
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return cublasDestroy(reinterpret_cast<cublasHandle_t>(handle)); }

#endif  // the toolkit has no such header
