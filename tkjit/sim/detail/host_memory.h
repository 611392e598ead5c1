// The CUDA runtime's memory functions. A device's memory is the host's, so every copy is an immediate memmove.
#pragma once

#include "host_errors.h"
#include "language.h"
#include "site.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4,
};

enum cudaMemoryType {
    cudaMemoryTypeUnregistered = 0,
    cudaMemoryTypeHost = 1,
    cudaMemoryTypeDevice = 2,
    cudaMemoryTypeManaged = 3,
};
struct cudaPointerAttributes {
    cudaMemoryType type;
    int device;
    void* devicePointer;
    void* hostPointer;
};
/// All memory belongs to both the device and the host.
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
    void* const same = const_cast<void*>(address);
    *attributes = {cudaMemoryTypeDevice, 0, same, same};
    return cudaSuccess;
}

// Memory of other processes is not modelled.
struct cudaIpcMemHandle_t {
    char reserved[64];
};
inline constexpr unsigned cudaIpcMemLazyEnablePeerAccess = 1;
inline cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) { return tkjit::sim::remember_error(cudaErrorNotSupported); }
inline cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) {
    return tkjit::sim::remember_error(cudaErrorNotSupported);
}
inline cudaError_t cudaIpcCloseMemHandle(void*) { return tkjit::sim::remember_error(cudaErrorNotSupported); }

inline constexpr unsigned cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaHostAllocMapped = 2,
                          cudaHostAllocWriteCombined = 4;
inline constexpr unsigned cudaHostRegisterDefault = 0, cudaHostRegisterPortable = 1, cudaHostRegisterMapped = 2;
inline constexpr unsigned cudaMemAttachGlobal = 1, cudaMemAttachHost = 2, cudaMemAttachSingle = 4;
inline constexpr int cudaCpuDeviceId = -1, cudaInvalidDeviceId = -2;

namespace tkjit::sim {

#ifdef TKJIT_SIM_RACE
/// Makes the race detector watch an allocation, or forget it. Only the device's own memory starts undefined, since the
/// detector does not see all writes of host code.
void note_allocation(void* address, size_t bytes, bool starts_blank, Site site);
void note_free(void* address);
#else
inline void note_allocation(void*, size_t, bool, Site) {}
inline void note_free(void*) {}
#endif

/// Allocates memory aligned to 256 bytes, as the device's allocator does.
inline cudaError_t allocate(void** address, size_t bytes, Site site, bool is_hosts = false) {
    if (address == nullptr) return remember_error(cudaErrorInvalidValue);
    *address = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (posix_memalign(address, 256, bytes) != 0) return remember_error(cudaErrorMemoryAllocation);
    note_allocation(*address, bytes, !is_hosts, site);
    return remember_error(cudaSuccess);
}

inline cudaError_t copy(void* destination, const void* source, size_t bytes) {
    if (bytes == 0) return cudaSuccess;
    if (destination == nullptr || source == nullptr) return remember_error(cudaErrorInvalidValue);
    memmove(destination, source, bytes);
    return cudaSuccess;
}

inline cudaError_t copy_rows(void* destination, size_t destination_pitch, const void* source, size_t source_pitch,
                             size_t width, size_t height) {
    if (width > destination_pitch || width > source_pitch) return remember_error(cudaErrorInvalidPitchValue);
    for (size_t row = 0; row < height; row++) {
        const cudaError_t error = copy(static_cast<char*>(destination) + row * destination_pitch,
                                       static_cast<const char*>(source) + row * source_pitch, width);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}

/// Returns the address of a device variable.
template <class T>
inline char* symbol_address(const T& symbol) {
    return reinterpret_cast<char*>(const_cast<T*>(&symbol));
}

}  // namespace tkjit::sim

template <class T>
inline cudaError_t cudaMalloc(T** address, size_t bytes, tkjit::sim::Site site = tkjit::sim::Site::here()) {
    return tkjit::sim::allocate(reinterpret_cast<void**>(address), bytes, site);
}
template <class T>
inline cudaError_t cudaMallocManaged(T** address, size_t bytes, unsigned = cudaMemAttachGlobal,
                                     tkjit::sim::Site site = tkjit::sim::Site::here()) {
    return tkjit::sim::allocate(reinterpret_cast<void**>(address), bytes, site, true);
}
template <class T>
inline cudaError_t cudaMallocHost(T** address, size_t bytes, unsigned = 0,
                                  tkjit::sim::Site site = tkjit::sim::Site::here()) {
    return tkjit::sim::allocate(reinterpret_cast<void**>(address), bytes, site, true);
}
template <class T>
inline cudaError_t cudaHostAlloc(T** address, size_t bytes, unsigned = 0,
                                 tkjit::sim::Site site = tkjit::sim::Site::here()) {
    return tkjit::sim::allocate(reinterpret_cast<void**>(address), bytes, site, true);
}
template <class T>
inline cudaError_t cudaMallocAsync(T** address, size_t bytes, cudaStream_t,
                                   tkjit::sim::Site site = tkjit::sim::Site::here()) {
    return cudaMalloc(address, bytes, site);
}
template <class T>
inline cudaError_t cudaMallocPitch(T** address, size_t* pitch, size_t width, size_t height,
                                   tkjit::sim::Site site = tkjit::sim::Site::here()) {
    *pitch = (width + 511) / 512 * 512;
    return cudaMalloc(address, *pitch * height, site);
}

inline cudaError_t cudaFree(void* address) {
    tkjit::sim::note_free(address);
    free(address);
    return cudaSuccess;
}
inline cudaError_t cudaFreeHost(void* address) { return cudaFree(address); }
inline cudaError_t cudaFreeAsync(void* address, cudaStream_t) { return cudaFree(address); }

inline cudaError_t cudaHostRegister(void*, size_t, unsigned = 0) { return cudaSuccess; }
inline cudaError_t cudaHostUnregister(void*) { return cudaSuccess; }
template <class T>
inline cudaError_t cudaHostGetDevicePointer(T** device, void* host, unsigned) {
    *device = static_cast<T*>(host);
    return cudaSuccess;
}
inline cudaError_t cudaMemPrefetchAsync(const void*, size_t, int, cudaStream_t = nullptr) { return cudaSuccess; }

inline cudaError_t cudaMemcpy(void* destination, const void* source, size_t bytes, cudaMemcpyKind) {
    return tkjit::sim::copy(destination, source, bytes);
}
inline cudaError_t cudaMemcpyAsync(void* destination, const void* source, size_t bytes, cudaMemcpyKind,
                                   cudaStream_t = nullptr) {
    return tkjit::sim::copy(destination, source, bytes);
}
inline cudaError_t cudaMemcpy2D(void* destination, size_t destination_pitch, const void* source, size_t source_pitch,
                                size_t width, size_t height, cudaMemcpyKind) {
    return tkjit::sim::copy_rows(destination, destination_pitch, source, source_pitch, width, height);
}
inline cudaError_t cudaMemcpy2DAsync(void* destination, size_t destination_pitch, const void* source,
                                     size_t source_pitch, size_t width, size_t height, cudaMemcpyKind,
                                     cudaStream_t = nullptr) {
    return tkjit::sim::copy_rows(destination, destination_pitch, source, source_pitch, width, height);
}

template <class T>
inline cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* source, size_t bytes, size_t offset = 0,
                                      cudaMemcpyKind = cudaMemcpyHostToDevice) {
    return tkjit::sim::copy(tkjit::sim::symbol_address(symbol) + offset, source, bytes);
}
template <class T>
inline cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* source, size_t bytes, size_t offset,
                                           cudaMemcpyKind, cudaStream_t = nullptr) {
    return tkjit::sim::copy(tkjit::sim::symbol_address(symbol) + offset, source, bytes);
}
template <class T>
inline cudaError_t cudaMemcpyFromSymbol(void* destination, const T& symbol, size_t bytes, size_t offset = 0,
                                        cudaMemcpyKind = cudaMemcpyDeviceToHost) {
    return tkjit::sim::copy(destination, tkjit::sim::symbol_address(symbol) + offset, bytes);
}
template <class T>
inline cudaError_t cudaMemcpyFromSymbolAsync(void* destination, const T& symbol, size_t bytes, size_t offset,
                                             cudaMemcpyKind, cudaStream_t = nullptr) {
    return tkjit::sim::copy(destination, tkjit::sim::symbol_address(symbol) + offset, bytes);
}
template <class T>
inline cudaError_t cudaGetSymbolAddress(void** address, const T& symbol) {
    *address = tkjit::sim::symbol_address(symbol);
    return cudaSuccess;
}
template <class T>
inline cudaError_t cudaGetSymbolSize(size_t* bytes, const T&) {
    *bytes = sizeof(T);
    return cudaSuccess;
}

inline cudaError_t cudaMemset(void* address, int value, size_t bytes) {
    if (address == nullptr && bytes) return tkjit::sim::remember_error(cudaErrorInvalidValue);
    if (bytes) memset(address, value, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t = nullptr) {
    return cudaMemset(address, value, bytes);
}
inline cudaError_t cudaMemset2D(void* address, size_t pitch, int value, size_t width, size_t height) {
    for (size_t row = 0; row < height; row++) memset(static_cast<char*>(address) + row * pitch, value, width);
    return cudaSuccess;
}

inline cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
    *total_bytes = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
    *free_bytes = static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return cudaSuccess;
}
