// Which errors of CUDA's end a process's use of its device.
#pragma once

#include <cuda_runtime.h>

namespace tkjit {

// Whether each later call returns the error too.
constexpr bool loses_device(cudaError_t code) {
    return code == cudaErrorIllegalAddress || code == cudaErrorLaunchTimeout || code == cudaErrorAssert ||
           code == cudaErrorHardwareStackError || code == cudaErrorIllegalInstruction || code == cudaErrorMisalignedAddress ||
           code == cudaErrorInvalidAddressSpace || code == cudaErrorInvalidPc || code == cudaErrorLaunchFailure ||
           code == cudaErrorECCUncorrectable || code == cudaErrorContextIsDestroyed;
}

}  // namespace tkjit
