// gpuAtomicAdd for the types of torch's tensors that the hardware adds to.
#pragma once

#include <c10/util/complex.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

inline __device__ int gpuAtomicAdd(int* to, int value) { return atomicAdd(to, value); }
inline __device__ float gpuAtomicAdd(float* to, float value) { return atomicAdd(to, value); }
inline __device__ double gpuAtomicAdd(double* to, double value) { return atomicAdd(to, value); }
inline __device__ void gpuAtomicAdd(int64_t* to, int64_t value) {
    atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));  // the bits are the same
}
inline __device__ c10::Half gpuAtomicAdd(c10::Half* to, c10::Half value) {
    const __half before = atomicAdd(reinterpret_cast<__half*>(to), *reinterpret_cast<const __half*>(&value));
    return *reinterpret_cast<const c10::Half*>(&before);
}
inline __device__ c10::BFloat16 gpuAtomicAdd(c10::BFloat16* to, c10::BFloat16 value) {
    const __nv_bfloat16 before = atomicAdd(reinterpret_cast<__nv_bfloat16*>(to), *reinterpret_cast<const __nv_bfloat16*>(&value));
    return *reinterpret_cast<const c10::BFloat16*>(&before);
}
template <class T>
inline __device__ void gpuAtomicAdd(c10::complex<T>* to, c10::complex<T> value) {
    gpuAtomicAdd(&to->real_, value.real_);
    gpuAtomicAdd(&to->imag_, value.imag_);
}
