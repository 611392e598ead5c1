// The parts of cuBLAS that sources need, for toolkits without its header. The library is looked up when a function is
// called. Names and numbers are from NVIDIA's documentation (https://docs.nvidia.com/cuda/cublas).
#pragma once

#if __has_include_next(<cublas_v2.h>)
#include_next <cublas_v2.h>
#else

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <library_types.h>

#include <initializer_list>
#include <stdexcept>
#include <string>

struct cublasContext;
typedef cublasContext* cublasHandle_t;

enum cublasStatus_t {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_ARCH_MISMATCH = 8,
    CUBLAS_STATUS_MAPPING_ERROR = 11,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_INTERNAL_ERROR = 14,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
    CUBLAS_STATUS_LICENSE_ERROR = 16,
};
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 };
enum cublasPointerMode_t { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 };
enum cublasMath_t {
    CUBLAS_DEFAULT_MATH = 0,
    CUBLAS_TENSOR_OP_MATH = 1,
    CUBLAS_PEDANTIC_MATH = 2,
    CUBLAS_TF32_TENSOR_OP_MATH = 3,
};
enum cublasComputeType_t {
    CUBLAS_COMPUTE_16F = 64,
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_64F = 70,
    CUBLAS_COMPUTE_32I = 72,
    CUBLAS_COMPUTE_32F_FAST_16F = 74,
    CUBLAS_COMPUTE_32F_FAST_16BF = 75,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
};
enum cublasGemmAlgo_t {
    CUBLAS_GEMM_DEFAULT = -1,
    CUBLAS_GEMM_ALGO0,
    CUBLAS_GEMM_ALGO1,
    CUBLAS_GEMM_ALGO2,
    CUBLAS_GEMM_ALGO3,
    CUBLAS_GEMM_ALGO4,
    CUBLAS_GEMM_ALGO5,
    CUBLAS_GEMM_ALGO6,
    CUBLAS_GEMM_ALGO7,
    CUBLAS_GEMM_ALGO8,
    CUBLAS_GEMM_ALGO9,
    CUBLAS_GEMM_ALGO10,
    CUBLAS_GEMM_ALGO11,
    CUBLAS_GEMM_ALGO12,
    CUBLAS_GEMM_ALGO13,
    CUBLAS_GEMM_ALGO14,
    CUBLAS_GEMM_ALGO15,
    CUBLAS_GEMM_ALGO16,
    CUBLAS_GEMM_ALGO17,
    CUBLAS_GEMM_ALGO18,
    CUBLAS_GEMM_ALGO19,
    CUBLAS_GEMM_ALGO20,
    CUBLAS_GEMM_ALGO21,
    CUBLAS_GEMM_ALGO22,
    CUBLAS_GEMM_ALGO23,
    CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99,
    CUBLAS_GEMM_ALGO0_TENSOR_OP,
    CUBLAS_GEMM_ALGO1_TENSOR_OP,
    CUBLAS_GEMM_ALGO2_TENSOR_OP,
    CUBLAS_GEMM_ALGO3_TENSOR_OP,
    CUBLAS_GEMM_ALGO4_TENSOR_OP,
    CUBLAS_GEMM_ALGO5_TENSOR_OP,
    CUBLAS_GEMM_ALGO6_TENSOR_OP,
    CUBLAS_GEMM_ALGO7_TENSOR_OP,
    CUBLAS_GEMM_ALGO8_TENSOR_OP,
    CUBLAS_GEMM_ALGO9_TENSOR_OP,
    CUBLAS_GEMM_ALGO10_TENSOR_OP,
    CUBLAS_GEMM_ALGO11_TENSOR_OP,
    CUBLAS_GEMM_ALGO12_TENSOR_OP,
    CUBLAS_GEMM_ALGO13_TENSOR_OP,
    CUBLAS_GEMM_ALGO14_TENSOR_OP,
    CUBLAS_GEMM_ALGO15_TENSOR_OP,
};
typedef cudaDataType cublasDataType_t;

namespace tkjit {
inline namespace stand_in {

/// Finds a function in the cuBLAS that torch has loaded, or in one on the loader's path. Throws if neither has it.
inline void* find_in_cublas(const char* name) {
    for (const char* const library : {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"})
        if (void* const opened = dlopen(library, RTLD_NOW))
            if (void* const found = dlsym(opened, name)) return found;
    throw std::runtime_error(std::string(name) + ": cuBLAS was not found");
}

/// The compute type for a data type, which sources from before CUDA 11 pass instead.
inline cublasComputeType_t as_compute_type(cudaDataType type) {
    switch (type) {
        case CUDA_R_16F: return CUBLAS_COMPUTE_16F;
        case CUDA_R_64F: return CUBLAS_COMPUTE_64F;
        case CUDA_R_32I: return CUBLAS_COMPUTE_32I;
        default: return CUBLAS_COMPUTE_32F;
    }
}
}  // inline namespace stand_in
}  // namespace tkjit

#define TKJIT_CUBLAS(name, exported, parameters, arguments)                                          \
    inline cublasStatus_t name parameters {                                                          \
        static const auto found = reinterpret_cast<cublasStatus_t(*) parameters>(tkjit::find_in_cublas(exported)); \
        return found arguments;                                                                      \
    }
#define TKJIT_CUBLAS_GEMM(name, exported, T)                                                                           \
    TKJIT_CUBLAS(name, exported,                                                                                       \
                 (cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,       \
                  const T* alpha, const T* a, int lda, const T* b, int ldb, const T* beta, T* c, int ldc),              \
                 (handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc))

TKJIT_CUBLAS(cublasCreate, "cublasCreate_v2", (cublasHandle_t * handle), (handle))
TKJIT_CUBLAS(cublasDestroy, "cublasDestroy_v2", (cublasHandle_t handle), (handle))
TKJIT_CUBLAS(cublasSetStream, "cublasSetStream_v2", (cublasHandle_t handle, cudaStream_t stream), (handle, stream))
TKJIT_CUBLAS(cublasGetStream, "cublasGetStream_v2", (cublasHandle_t handle, cudaStream_t* stream), (handle, stream))
TKJIT_CUBLAS(cublasSetMathMode, "cublasSetMathMode", (cublasHandle_t handle, cublasMath_t mode), (handle, mode))
TKJIT_CUBLAS(cublasSetPointerMode, "cublasSetPointerMode_v2", (cublasHandle_t handle, cublasPointerMode_t mode), (handle, mode))
#define TKJIT_CUBLAS_GEMM_BATCHED(name, T)                                                                             \
    TKJIT_CUBLAS(name, #name,                                                                                          \
                 (cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,       \
                  const T* alpha, const T* const* a, int lda, const T* const* b, int ldb, const T* beta, T* const* c,   \
                  int ldc, int batch_count),                                                                           \
                 (handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, batch_count))
TKJIT_CUBLAS_GEMM_BATCHED(cublasSgemmBatched, float)
TKJIT_CUBLAS_GEMM_BATCHED(cublasDgemmBatched, double)
TKJIT_CUBLAS_GEMM_BATCHED(cublasHgemmBatched, __half)
#undef TKJIT_CUBLAS_GEMM_BATCHED
TKJIT_CUBLAS_GEMM(cublasSgemm, "cublasSgemm_v2", float)
TKJIT_CUBLAS_GEMM(cublasDgemm, "cublasDgemm_v2", double)
TKJIT_CUBLAS_GEMM(cublasHgemm, "cublasHgemm", __half)
TKJIT_CUBLAS(cublasGemmEx, "cublasGemmEx",
             (cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
              const void* alpha, const void* a, cudaDataType a_type, int lda, const void* b, cudaDataType b_type, int ldb,
              const void* beta, void* c, cudaDataType c_type, int ldc, cublasComputeType_t compute, cublasGemmAlgo_t algorithm),
             (handle, transa, transb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, compute, algorithm))
TKJIT_CUBLAS(cublasSgemmEx, "cublasSgemmEx",
             (cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
              const float* alpha, const void* a, cudaDataType a_type, int lda, const void* b, cudaDataType b_type, int ldb,
              const float* beta, void* c, cudaDataType c_type, int ldc),
             (handle, transa, transb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc))
#define TKJIT_CUBLAS_VECTORS(S, T)                                                                                     \
    TKJIT_CUBLAS(cublas##S##gemv, "cublas" #S "gemv_v2",                                                               \
                 (cublasHandle_t handle, cublasOperation_t trans, int m, int n, const T* alpha, const T* a, int lda,    \
                  const T* x, int x_step, const T* beta, T* y, int y_step),                                            \
                 (handle, trans, m, n, alpha, a, lda, x, x_step, beta, y, y_step))                                     \
    TKJIT_CUBLAS(cublas##S##axpy, "cublas" #S "axpy_v2",                                                               \
                 (cublasHandle_t handle, int n, const T* alpha, const T* x, int x_step, T* y, int y_step),             \
                 (handle, n, alpha, x, x_step, y, y_step))                                                             \
    TKJIT_CUBLAS(cublas##S##dot, "cublas" #S "dot_v2",                                                                 \
                 (cublasHandle_t handle, int n, const T* x, int x_step, const T* y, int y_step, T* result),            \
                 (handle, n, x, x_step, y, y_step, result))                                                            \
    TKJIT_CUBLAS(cublas##S##scal, "cublas" #S "scal_v2",                                                               \
                 (cublasHandle_t handle, int n, const T* alpha, T* x, int x_step), (handle, n, alpha, x, x_step))      \
    TKJIT_CUBLAS(cublas##S##nrm2, "cublas" #S "nrm2_v2",                                                               \
                 (cublasHandle_t handle, int n, const T* x, int x_step, T* result), (handle, n, x, x_step, result))
TKJIT_CUBLAS_VECTORS(S, float)
TKJIT_CUBLAS_VECTORS(D, double)
#undef TKJIT_CUBLAS_VECTORS
TKJIT_CUBLAS(cublasGemmStridedBatchedEx, "cublasGemmStridedBatchedEx",
             (cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
              const void* alpha, const void* a, cudaDataType a_type, int lda, long long a_stride, const void* b,
              cudaDataType b_type, int ldb, long long b_stride, const void* beta, void* c, cudaDataType c_type, int ldc,
              long long c_stride, int batch_count, cublasComputeType_t compute, cublasGemmAlgo_t algorithm),
             (handle, transa, transb, m, n, k, alpha, a, a_type, lda, a_stride, b, b_type, ldb, b_stride, beta, c, c_type,
              ldc, c_stride, batch_count, compute, algorithm))
TKJIT_CUBLAS(cublasSgemmStridedBatched, "cublasSgemmStridedBatched",
             (cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
              const float* alpha, const float* a, int lda, long long a_stride, const float* b, int ldb, long long b_stride,
              const float* beta, float* c, int ldc, long long c_stride, int batch_count),
             (handle, transa, transb, m, n, k, alpha, a, lda, a_stride, b, ldb, b_stride, beta, c, ldc, c_stride, batch_count))
inline cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
                                   const void* alpha, const void* a, cudaDataType a_type, int lda, const void* b, cudaDataType b_type, int ldb,
                                   const void* beta, void* c, cudaDataType c_type, int ldc, cudaDataType compute, cublasGemmAlgo_t algorithm) {
    return cublasGemmEx(handle, transa, transb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc,
                        tkjit::as_compute_type(compute), algorithm);
}
inline cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                                                 int k, const void* alpha, const void* a, cudaDataType a_type, int lda, long long a_stride,
                                                 const void* b, cudaDataType b_type, int ldb, long long b_stride, const void* beta, void* c,
                                                 cudaDataType c_type, int ldc, long long c_stride, int batch_count, cudaDataType compute,
                                                 cublasGemmAlgo_t algorithm) {
    return cublasGemmStridedBatchedEx(handle, transa, transb, m, n, k, alpha, a, a_type, lda, a_stride, b, b_type, ldb, b_stride, beta, c,
                                      c_type, ldc, c_stride, batch_count, tkjit::as_compute_type(compute), algorithm);
}
#undef TKJIT_CUBLAS_GEMM
#undef TKJIT_CUBLAS

#endif  // the toolkit has no such header
