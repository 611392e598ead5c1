// Pitched memory, and boxes in it: cudaMalloc3D, cudaMemcpy3D. CUDA arrays (cudaArray_t) are not supported.
#pragma once

#include "host_memory.h"

struct cudaPitchedPtr {
    void* ptr;
    size_t pitch;         // bytes from one row to the next
    size_t xsize, ysize;  // bytes per row, and rows
};
struct cudaExtent {
    size_t width, height, depth;  // width in bytes
};
struct cudaPos {
    size_t x, y, z;
};

inline cudaPitchedPtr make_cudaPitchedPtr(void* address, size_t pitch, size_t width, size_t height) {
    return {address, pitch, width, height};
}
inline cudaExtent make_cudaExtent(size_t width, size_t height, size_t depth) { return {width, height, depth}; }
inline cudaPos make_cudaPos(size_t x, size_t y, size_t z) { return {x, y, z}; }

using cudaArray_t = struct cudaArray*;

struct cudaMemcpy3DParms {
    cudaArray_t srcArray;
    cudaPos srcPos;
    cudaPitchedPtr srcPtr;
    cudaArray_t dstArray;
    cudaPos dstPos;
    cudaPitchedPtr dstPtr;
    cudaExtent extent;
    cudaMemcpyKind kind;
};

namespace tkjit::sim {

/// Returns the first byte of a row in a box that begins at `position`.
inline char* row_of(const cudaPitchedPtr& memory, const cudaPos& position, size_t row, size_t slice) {
    const size_t rows = (position.z + slice) * memory.ysize + position.y + row;
    return static_cast<char*>(memory.ptr) + rows * memory.pitch + position.x;
}

}  // namespace tkjit::sim

inline cudaError_t cudaMalloc3D(cudaPitchedPtr* memory, cudaExtent extent) {
    *memory = {nullptr, 0, extent.width, extent.height};
    return cudaMallocPitch(&memory->ptr, &memory->pitch, extent.width, extent.height * extent.depth);
}

inline cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* parameters) {
    const cudaMemcpy3DParms& given = *parameters;
    if (given.srcArray || given.dstArray) return tkjit::sim::remember_error(cudaErrorNotSupported);
    for (size_t slice = 0; slice < given.extent.depth; slice++) {
        const cudaError_t error = tkjit::sim::copy_rows(
            tkjit::sim::row_of(given.dstPtr, given.dstPos, 0, slice), given.dstPtr.pitch,
            tkjit::sim::row_of(given.srcPtr, given.srcPos, 0, slice), given.srcPtr.pitch, given.extent.width,
            given.extent.height);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}
inline cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* parameters, cudaStream_t = nullptr) {
    return cudaMemcpy3D(parameters);
}

inline cudaError_t cudaMemset3D(cudaPitchedPtr memory, int value, cudaExtent extent) {
    for (size_t slice = 0; slice < extent.depth; slice++) {
        for (size_t row = 0; row < extent.height; row++) {
            memset(tkjit::sim::row_of(memory, {0, 0, 0}, row, slice), value, extent.width);
        }
    }
    return cudaSuccess;
}
inline cudaError_t cudaMemset3DAsync(cudaPitchedPtr memory, int value, cudaExtent extent, cudaStream_t = nullptr) {
    return cudaMemset3D(memory, value, extent);
}
