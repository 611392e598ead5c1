// The error codes of the CUDA runtime, and the last error of each host thread.
#pragma once

#include "language.h"
#include "site.h"

#include <stdio.h>

// Lists (name, value, text) for the errors that the simulator returns, and for those that host code mentions by name.
#define TKJIT_SIM_ERRORS(error)                                                               \
    error(cudaSuccess, 0, "no error")                                                         \
    error(cudaErrorInvalidValue, 1, "invalid argument")                                       \
    error(cudaErrorMemoryAllocation, 2, "out of memory")                                      \
    error(cudaErrorInitializationError, 3, "initialization error")                            \
    error(cudaErrorCudartUnloading, 4, "driver shutting down")                                \
    error(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                 \
    error(cudaErrorInvalidPitchValue, 12, "invalid pitch argument")                           \
    error(cudaErrorInvalidSymbol, 13, "invalid device symbol")                                \
    error(cudaErrorInvalidDevicePointer, 17, "invalid device pointer")                        \
    error(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")           \
    error(cudaErrorInsufficientDriver, 35, "CUDA driver version is insufficient")             \
    error(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                      \
    error(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                       \
    error(cudaErrorInvalidDevice, 101, "invalid device ordinal")                              \
    error(cudaErrorNoKernelImageForDevice, 209, "no kernel image is available for execution") \
    error(cudaErrorECCUncorrectable, 214, "uncorrectable ECC error encountered")              \
    error(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                     \
    error(cudaErrorSymbolNotFound, 500, "named symbol not found")                             \
    error(cudaErrorNotReady, 600, "device not ready")                                         \
    error(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")           \
    error(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")      \
    error(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")             \
    error(cudaErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled")           \
    error(cudaErrorPeerAccessNotEnabled, 705, "peer access has not been enabled")             \
    error(cudaErrorContextIsDestroyed, 709, "context is destroyed")                           \
    error(cudaErrorAssert, 710, "device-side assert triggered")                               \
    error(cudaErrorHardwareStackError, 714, "hardware stack error")                           \
    error(cudaErrorIllegalInstruction, 715, "an illegal instruction was encountered")         \
    error(cudaErrorMisalignedAddress, 716, "misaligned address")                              \
    error(cudaErrorInvalidAddressSpace, 717, "operation not supported on global/shared address space")\
    error(cudaErrorInvalidPc, 718, "invalid program counter")                                 \
    error(cudaErrorLaunchFailure, 719, "unspecified launch failure")                          \
    error(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch")   \
    error(cudaErrorNotPermitted, 800, "operation not permitted")                              \
    error(cudaErrorNotSupported, 801, "operation not supported")                              \
    error(cudaErrorUnknown, 999, "unknown error")

#define TKJIT_SIM_ERROR_VALUE(name, value, text) name = value,
enum cudaError { TKJIT_SIM_ERRORS(TKJIT_SIM_ERROR_VALUE) };
#undef TKJIT_SIM_ERROR_VALUE
using cudaError_t = cudaError;

namespace tkjit::sim {

/// A host thread's last error. A failed launch's text is kept until the next launch fails.
struct LastError {
    cudaError_t code;       // cudaGetLastError clears it
    cudaError_t described;  // the error that `text` describes
    char text[2048];
};
inline TKJIT_SIM_REGISTER LastError last_error{};

inline cudaError_t remember_error(cudaError_t code) {
    if (code != cudaSuccess) last_error.code = code;
    return code;
}

/// Keeps a failed launch's text, which cudaGetErrorString returns for that error.
inline cudaError_t remember_launch(cudaError_t code, const char* text, Site site) {
    if (text == nullptr) return cudaSuccess;
    last_error.described = code;
    snprintf(last_error.text, sizeof last_error.text, "%s; launched at %s:%d", text, site.file, site.line);
    return remember_error(code);
}

}  // namespace tkjit::sim

inline const char* cudaGetErrorName(cudaError_t error) {
#define TKJIT_SIM_ERROR_NAME(name, value, text) \
    if (error == name) return #name;
    TKJIT_SIM_ERRORS(TKJIT_SIM_ERROR_NAME)
#undef TKJIT_SIM_ERROR_NAME
    return "unrecognized error code";
}

/// Returns the simulator's text if the last failed launch had this error, else CUDA's text.
inline const char* cudaGetErrorString(cudaError_t error) {
    const tkjit::sim::LastError& last = tkjit::sim::last_error;
    if (error != cudaSuccess && error == last.described) return last.text;
#define TKJIT_SIM_ERROR_TEXT(name, value, text) \
    if (error == name) return text;
    TKJIT_SIM_ERRORS(TKJIT_SIM_ERROR_TEXT)
#undef TKJIT_SIM_ERROR_TEXT
    return "unrecognized error code";
}

inline cudaError_t cudaPeekAtLastError() { return tkjit::sim::last_error.code; }

inline cudaError_t cudaGetLastError() {
    const cudaError_t code = tkjit::sim::last_error.code;
    tkjit::sim::last_error.code = cudaSuccess;
    return code;
}
