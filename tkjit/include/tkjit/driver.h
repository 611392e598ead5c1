// Calls the CUDA driver without a link dependency. A macro for each API function looks up its address at run time.
//
// There is no libcuda where there is no driver, and its stub is not in the wheels of the toolkit; a shared object that
// names one of its functions could then be neither linked nor loaded. The runtime, which is linked, knows where they are.
// To be included before what calls them; a launcher does it for a kernel whose header library calls the driver. In the
// simulator there is no driver, and such a library calls none.
#pragma once

#include <cuda_runtime.h>

#ifndef TKJIT_SIM

#include <cuda.h>

#include <stdexcept>
#include <string>

namespace tkjit::driver {

// Throws where there is no driver, or one that is too old: the launch then fails with the text.
template <class Function>
Function* find(const char* name) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status{};
#if CUDART_VERSION >= 12050
    const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, CUDART_VERSION, cudaEnableDefault, &status);
#else
    const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &status);
#endif
    if (error == cudaSuccess && status == cudaDriverEntryPointSuccess && found) return reinterpret_cast<Function*>(found);
    cudaGetLastError();
    throw std::runtime_error(std::string(name) + " is not to be had from the CUDA driver: " +
                             (error != cudaSuccess ? cudaGetErrorString(error) : "it is older than the toolkit"));
}

}  // namespace tkjit::driver

// A name within its own macro is the function itself, of which nothing but the type is asked. It is looked up once.
#define TKJIT_DRIVER(name)                                                        \
    ([] {                                                                         \
        static auto* const found = ::tkjit::driver::find<decltype(name)>(#name);  \
        return found;                                                             \
    }())

// Those that cuda.h does not rename itself. One that is missing here is an undefined symbol when the launcher is loaded.
#define cuGetErrorName TKJIT_DRIVER(cuGetErrorName)
#define cuGetErrorString TKJIT_DRIVER(cuGetErrorString)
#define cuDriverGetVersion TKJIT_DRIVER(cuDriverGetVersion)
#define cuDeviceGet TKJIT_DRIVER(cuDeviceGet)
#define cuDeviceGetAttribute TKJIT_DRIVER(cuDeviceGetAttribute)
#define cuDeviceGetName TKJIT_DRIVER(cuDeviceGetName)
#define cuDeviceGetCount TKJIT_DRIVER(cuDeviceGetCount)
#define cuCtxGetCurrent TKJIT_DRIVER(cuCtxGetCurrent)
#define cuCtxSetCurrent TKJIT_DRIVER(cuCtxSetCurrent)
#define cuCtxGetDevice TKJIT_DRIVER(cuCtxGetDevice)
#define cuDevicePrimaryCtxRetain TKJIT_DRIVER(cuDevicePrimaryCtxRetain)
#define cuFuncSetAttribute TKJIT_DRIVER(cuFuncSetAttribute)
#define cuFuncGetAttribute TKJIT_DRIVER(cuFuncGetAttribute)
#define cuTensorMapEncodeTiled TKJIT_DRIVER(cuTensorMapEncodeTiled)
#define cuTensorMapEncodeIm2col TKJIT_DRIVER(cuTensorMapEncodeIm2col)
#define cuTensorMapReplaceAddress TKJIT_DRIVER(cuTensorMapReplaceAddress)
#define cuMemAddressReserve TKJIT_DRIVER(cuMemAddressReserve)
#define cuMemAddressFree TKJIT_DRIVER(cuMemAddressFree)
#define cuMemCreate TKJIT_DRIVER(cuMemCreate)
#define cuMemRelease TKJIT_DRIVER(cuMemRelease)
#define cuMemMap TKJIT_DRIVER(cuMemMap)
#define cuMemUnmap TKJIT_DRIVER(cuMemUnmap)
#define cuMemSetAccess TKJIT_DRIVER(cuMemSetAccess)
#define cuMemGetAccess TKJIT_DRIVER(cuMemGetAccess)
#define cuMemExportToShareableHandle TKJIT_DRIVER(cuMemExportToShareableHandle)
#define cuMemImportFromShareableHandle TKJIT_DRIVER(cuMemImportFromShareableHandle)
#define cuMemGetAllocationGranularity TKJIT_DRIVER(cuMemGetAllocationGranularity)
#define cuMemRetainAllocationHandle TKJIT_DRIVER(cuMemRetainAllocationHandle)
#define cuMulticastCreate TKJIT_DRIVER(cuMulticastCreate)
#define cuMulticastAddDevice TKJIT_DRIVER(cuMulticastAddDevice)
#define cuMulticastBindMem TKJIT_DRIVER(cuMulticastBindMem)
#define cuMulticastBindAddr TKJIT_DRIVER(cuMulticastBindAddr)
#define cuMulticastUnbind TKJIT_DRIVER(cuMulticastUnbind)
#define cuMulticastGetGranularity TKJIT_DRIVER(cuMulticastGetGranularity)
#define cuPointerGetAttribute TKJIT_DRIVER(cuPointerGetAttribute)
#define cuOccupancyMaxActiveClusters TKJIT_DRIVER(cuOccupancyMaxActiveClusters)
// which cuda.h renames, and the driver knows by the old name
#define cuGetProcAddress_v2 (::tkjit::driver::find<decltype(cuGetProcAddress_v2)>("cuGetProcAddress"))

#endif  // TKJIT_SIM
