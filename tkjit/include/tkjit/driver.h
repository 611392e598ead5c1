// Calls the CUDA driver without linking to it: an object replaces each API function, and finds its address at run time.
//
// Machines without a driver have no libcuda, and the toolkit's wheels lack its stub, so a shared object that referred to
// a driver function could be neither linked nor loaded there. The objects ask the CUDA runtime, which is linked, for the
// addresses. Include this header before the code that calls the driver. A launcher includes it if the kernel's header
// library calls the driver. The simulator has no driver, and header libraries do not call one there.
#pragma once

#include <cuda_runtime.h>

#ifndef TKJIT_SIM

#include <cuda.h>

#include <stdexcept>
#include <string>

namespace tkjit::driver {

// Throws if there is no driver or it is too old; the launch then fails with this text.
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
    throw std::runtime_error(std::string(name) + " is not available from the CUDA driver: " +
                             (error != cudaSuccess ? cudaGetErrorString(error) : "it is older than the toolkit"));
}

/// A driver function, looked up at the first call or when its address is taken.
template <class Name, class Signature>
struct Function;
template <class Name, class R, class... A>
struct Function<Name, R(A...)> {
    using Pointer = R (*)(A...);
    static Pointer address() {
        static const Pointer found = find<R(A...)>(Name::text);
        return found;
    }
    R operator()(A... arguments) const { return address()(arguments...); }
    Pointer operator&() const { return address(); }
    operator Pointer() const { return address(); }
};

}  // namespace tkjit::driver

// The macros below also rename a source's own variable of the same name. It then hides our object, as it would hide the
// function.
#define TKJIT_DRIVER_AS(name, exported)                                                                  \
    namespace tkjit::driver {                                                                            \
    struct name_of_##name {                                                                              \
        static constexpr const char* text = exported;                                                    \
    };                                                                                                   \
    }                                                                                                    \
    inline constexpr tkjit::driver::Function<tkjit::driver::name_of_##name, decltype(name)> tkjit_##name{};
#define TKJIT_DRIVER(name) TKJIT_DRIVER_AS(name, #name)

// Functions that cuda.h does not rename itself. A function that this list lacks is an undefined symbol in the launcher.
TKJIT_DRIVER(cuGetErrorName)
#define cuGetErrorName tkjit_cuGetErrorName
TKJIT_DRIVER(cuGetErrorString)
#define cuGetErrorString tkjit_cuGetErrorString
TKJIT_DRIVER(cuDriverGetVersion)
#define cuDriverGetVersion tkjit_cuDriverGetVersion
TKJIT_DRIVER(cuDeviceGet)
#define cuDeviceGet tkjit_cuDeviceGet
TKJIT_DRIVER(cuDeviceGetAttribute)
#define cuDeviceGetAttribute tkjit_cuDeviceGetAttribute
TKJIT_DRIVER(cuDeviceGetName)
#define cuDeviceGetName tkjit_cuDeviceGetName
TKJIT_DRIVER(cuDeviceGetCount)
#define cuDeviceGetCount tkjit_cuDeviceGetCount
TKJIT_DRIVER(cuCtxGetCurrent)
#define cuCtxGetCurrent tkjit_cuCtxGetCurrent
TKJIT_DRIVER(cuCtxSetCurrent)
#define cuCtxSetCurrent tkjit_cuCtxSetCurrent
TKJIT_DRIVER(cuCtxGetDevice)
#define cuCtxGetDevice tkjit_cuCtxGetDevice
TKJIT_DRIVER(cuDevicePrimaryCtxRetain)
#define cuDevicePrimaryCtxRetain tkjit_cuDevicePrimaryCtxRetain
TKJIT_DRIVER(cuFuncSetAttribute)
#define cuFuncSetAttribute tkjit_cuFuncSetAttribute
TKJIT_DRIVER(cuFuncGetAttribute)
#define cuFuncGetAttribute tkjit_cuFuncGetAttribute
TKJIT_DRIVER(cuTensorMapEncodeTiled)
#define cuTensorMapEncodeTiled tkjit_cuTensorMapEncodeTiled
TKJIT_DRIVER(cuTensorMapEncodeIm2col)
#define cuTensorMapEncodeIm2col tkjit_cuTensorMapEncodeIm2col
TKJIT_DRIVER(cuTensorMapReplaceAddress)
#define cuTensorMapReplaceAddress tkjit_cuTensorMapReplaceAddress
TKJIT_DRIVER(cuMemAddressReserve)
#define cuMemAddressReserve tkjit_cuMemAddressReserve
TKJIT_DRIVER(cuMemAddressFree)
#define cuMemAddressFree tkjit_cuMemAddressFree
TKJIT_DRIVER(cuMemCreate)
#define cuMemCreate tkjit_cuMemCreate
TKJIT_DRIVER(cuMemRelease)
#define cuMemRelease tkjit_cuMemRelease
TKJIT_DRIVER(cuMemMap)
#define cuMemMap tkjit_cuMemMap
TKJIT_DRIVER(cuMemUnmap)
#define cuMemUnmap tkjit_cuMemUnmap
TKJIT_DRIVER(cuMemSetAccess)
#define cuMemSetAccess tkjit_cuMemSetAccess
TKJIT_DRIVER(cuMemGetAccess)
#define cuMemGetAccess tkjit_cuMemGetAccess
TKJIT_DRIVER(cuMemExportToShareableHandle)
#define cuMemExportToShareableHandle tkjit_cuMemExportToShareableHandle
TKJIT_DRIVER(cuMemImportFromShareableHandle)
#define cuMemImportFromShareableHandle tkjit_cuMemImportFromShareableHandle
TKJIT_DRIVER(cuMemGetAllocationGranularity)
#define cuMemGetAllocationGranularity tkjit_cuMemGetAllocationGranularity
TKJIT_DRIVER(cuMemRetainAllocationHandle)
#define cuMemRetainAllocationHandle tkjit_cuMemRetainAllocationHandle
TKJIT_DRIVER(cuMulticastCreate)
#define cuMulticastCreate tkjit_cuMulticastCreate
TKJIT_DRIVER(cuMulticastAddDevice)
#define cuMulticastAddDevice tkjit_cuMulticastAddDevice
TKJIT_DRIVER(cuMulticastBindMem)
#define cuMulticastBindMem tkjit_cuMulticastBindMem
TKJIT_DRIVER(cuMulticastBindAddr)
#define cuMulticastBindAddr tkjit_cuMulticastBindAddr
TKJIT_DRIVER(cuMulticastUnbind)
#define cuMulticastUnbind tkjit_cuMulticastUnbind
TKJIT_DRIVER(cuMulticastGetGranularity)
#define cuMulticastGetGranularity tkjit_cuMulticastGetGranularity
TKJIT_DRIVER(cuPointerGetAttribute)
#define cuPointerGetAttribute tkjit_cuPointerGetAttribute
TKJIT_DRIVER(cuOccupancyMaxActiveClusters)
#define cuOccupancyMaxActiveClusters tkjit_cuOccupancyMaxActiveClusters
// cuda.h renames this function, but the driver knows it by the old name
TKJIT_DRIVER_AS(cuGetProcAddress_v2, "cuGetProcAddress")
#define cuGetProcAddress_v2 tkjit_cuGetProcAddress_v2

#endif  // TKJIT_SIM
