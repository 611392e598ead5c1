// The handle of cuBLASLt, which headers of sources create without more.
#pragma once

#if __has_include_next(<cublasLt.h>)
#include_next <cublasLt.h>
#else

#include <cublas_v2.h>

struct cublasLtContext;
typedef cublasLtContext* cublasLtHandle_t;

// cuBLAS's handle is one of cuBLASLt's, too
inline cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return cublasCreate(reinterpret_cast<cublasHandle_t*>(handle)); }
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return cublasDestroy(reinterpret_cast<cublasHandle_t>(handle)); }

#endif  // the toolkit has none
