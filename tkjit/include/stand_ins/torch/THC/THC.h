// The parts of torch's former C library for CUDA that older sources use. torch 1.11 dropped it.
#pragma once

#include <tkjit/torch/cuda.h>

struct THCState;
template <class T>
__host__ __device__ __forceinline__ T THCCeilDiv(T a, T b) {
    return (a + b - 1) / b;
}
inline void* THCudaMalloc(THCState*, size_t bytes) { return c10::cuda::CUDACachingAllocator::raw_alloc(bytes); }
inline void THCudaFree(THCState*, void* memory) { c10::cuda::CUDACachingAllocator::raw_delete(memory); }
inline cudaStream_t THCState_getCurrentStream(THCState*) { return c10::cuda::getCurrentCUDAStream(); }
#define THCudaCheck(...) C10_CUDA_CHECK(__VA_ARGS__)
#define THArgCheck(condition, argument, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define THError(...) AT_ERROR(__VA_ARGS__)
