// The driver's header. The simulator has no driver: it encodes tensor maps, and the other functions that header
// libraries mention return CUDA_ERROR_NOT_SUPPORTED.
#pragma once

#include "cuda_runtime.h"
#include "detail/driver_types.h"
#include "detail/tensor_map.h"

#include <string.h>

namespace tkjit::sim {

/// Encodes a map. Returns null, or the reason why the driver would reject it. Source: CUDA Driver API,
/// "cuTensorMapEncodeTiled".
const char* encode_tensor_map(CUtensorMap* map, CUtensorMapDataType type, unsigned rank, void* address,
                              const uint64_t* sizes, const uint64_t* strides, const uint32_t* box, const uint32_t* steps,
                              CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                              CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill);

}  // namespace tkjit::sim

inline CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                       const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                                       const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                       CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                       CUtensorMapFloatOOBfill fill) {
    const char* const refusal = tkjit::sim::encode_tensor_map(map, type, rank, address, sizes, strides, box, steps,
                                                              interleave, swizzle, promotion, fill);
    return refusal ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/// Always fails, because the simulator has no im2col maps.
inline CUresult cuTensorMapEncodeIm2col(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                        const cuuint64_t*, const int*, const int*, cuuint32_t, cuuint32_t, const cuuint32_t*,
                                        CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                        CUtensorMapFloatOOBfill) {
    return CUDA_ERROR_NOT_SUPPORTED;
}

inline CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
    auto* const own = reinterpret_cast<tkjit::sim::TensorMap*>(map);
    if (own->mark != tkjit::sim::tensor_map_mark || reinterpret_cast<uintptr_t>(address) % 16) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    own->address = reinterpret_cast<uintptr_t>(address);
    return CUDA_SUCCESS;
}

inline CUresult cuGetErrorString(CUresult error, const char** text) {
    *text = error == CUDA_SUCCESS               ? "no error"
            : error == CUDA_ERROR_INVALID_VALUE ? "invalid argument"
                                                : "operation not supported";
    return CUDA_SUCCESS;
}
inline CUresult cuGetErrorName(CUresult error, const char** text) {
    *text = error == CUDA_SUCCESS               ? "CUDA_SUCCESS"
            : error == CUDA_ERROR_INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE"
                                                : "CUDA_ERROR_NOT_SUPPORTED";
    return CUDA_SUCCESS;
}

namespace tkjit::sim {
template <class T>
inline CUresult fill(CUdeviceptr address, T value, size_t count) {
    for (size_t i = 0; i < count; i++) reinterpret_cast<T*>(address)[i] = value;
    return CUDA_SUCCESS;
}
}  // namespace tkjit::sim
inline CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t count, cudaStream_t) {
    return tkjit::sim::fill(address, value, count);
}
inline CUresult cuMemsetD16Async(CUdeviceptr address, unsigned short value, size_t count, cudaStream_t) {
    return tkjit::sim::fill(address, value, count);
}
inline CUresult cuMemsetD32Async(CUdeviceptr address, unsigned value, size_t count, cudaStream_t) {
    return tkjit::sim::fill(address, value, count);
}

using CUlaunchAttribute = cudaLaunchAttribute;  // they have the same layout

// ---- programs that do not link with the driver ask the runtime for the addresses of its functions

enum cudaDriverEntryPointQueryResult {
    cudaDriverEntryPointSuccess,
    cudaDriverEntryPointSymbolNotFound,
    cudaDriverEntryPointVersionNotSufficent,
};
enum { cudaEnableDefault, cudaEnableLegacyStream, cudaEnablePerThreadDefaultStream };

inline cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long,
                                           cudaDriverEntryPointQueryResult* result = nullptr) {
    static const struct {
        const char* name;
        void* address;
    } known[] = {
        {"cuTensorMapEncodeTiled", reinterpret_cast<void*>(&cuTensorMapEncodeTiled)},
        {"cuTensorMapReplaceAddress", reinterpret_cast<void*>(&cuTensorMapReplaceAddress)},
        {"cuGetErrorString", reinterpret_cast<void*>(&cuGetErrorString)},
        {"cuGetErrorName", reinterpret_cast<void*>(&cuGetErrorName)},
    };
    *function = nullptr;
    for (const auto& one : known)
        if (!strcmp(name, one.name)) *function = one.address;
    if (result) *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}
inline cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned int, unsigned long long flags,
                                                    cudaDriverEntryPointQueryResult* result = nullptr) {
    return cudaGetDriverEntryPoint(name, function, flags, result);
}

#define TKJIT_SIM_NOT_SUPPORTED(name)               \
    template <class... Arguments>                   \
    inline CUresult name(Arguments&&...) {          \
        return CUDA_ERROR_NOT_SUPPORTED;            \
    }
TKJIT_SIM_NOT_SUPPORTED(cuDeviceGet)
TKJIT_SIM_NOT_SUPPORTED(cuDeviceGetAttribute)
TKJIT_SIM_NOT_SUPPORTED(cuMemAddressFree)
TKJIT_SIM_NOT_SUPPORTED(cuMemAddressReserve)
TKJIT_SIM_NOT_SUPPORTED(cuMemCreate)
TKJIT_SIM_NOT_SUPPORTED(cuMemExportToShareableHandle)
TKJIT_SIM_NOT_SUPPORTED(cuMemGetAllocationGranularity)
TKJIT_SIM_NOT_SUPPORTED(cuMemImportFromShareableHandle)
TKJIT_SIM_NOT_SUPPORTED(cuMemMap)
TKJIT_SIM_NOT_SUPPORTED(cuMemRelease)
TKJIT_SIM_NOT_SUPPORTED(cuMemRetainAllocationHandle)
TKJIT_SIM_NOT_SUPPORTED(cuMemSetAccess)
TKJIT_SIM_NOT_SUPPORTED(cuMemUnmap)
TKJIT_SIM_NOT_SUPPORTED(cuMulticastAddDevice)
TKJIT_SIM_NOT_SUPPORTED(cuMulticastBindAddr)
TKJIT_SIM_NOT_SUPPORTED(cuMulticastBindMem)
TKJIT_SIM_NOT_SUPPORTED(cuMulticastCreate)
TKJIT_SIM_NOT_SUPPORTED(cuMulticastGetGranularity)
TKJIT_SIM_NOT_SUPPORTED(cuMulticastUnbind)
#undef TKJIT_SIM_NOT_SUPPORTED
