// cub::CachingDeviceAllocator, which caches nothing here, because memory is the host's.
#pragma once

#include "config.cuh"

namespace cub {

struct CachingDeviceAllocator {
    CachingDeviceAllocator(unsigned = 8, unsigned = 3, unsigned = 7, size_t = 6 * 1024 * 1024 - 1, bool = false,
                           bool = false) {}
    explicit CachingDeviceAllocator(bool, bool = false) {}

    cudaError_t DeviceAllocate(int, void** address, size_t bytes, cudaStream_t = nullptr) {
        return cudaMalloc(address, bytes);
    }
    cudaError_t DeviceAllocate(void** address, size_t bytes, cudaStream_t = nullptr) { return cudaMalloc(address, bytes); }
    cudaError_t DeviceFree(int, void* address) { return cudaFree(address); }
    cudaError_t DeviceFree(void* address) { return cudaFree(address); }
    cudaError_t FreeAllCached() { return cudaSuccess; }
};

}  // namespace cub
