// CUDA errors after which the process can no longer use the device.
#pragma once

#include <cuda_runtime.h>

namespace tkjit {

// Whether all later CUDA calls return the same error.
constexpr bool loses_device(cudaError_t code) {
    return code == cudaErrorIllegalAddress || code == cudaErrorLaunchTimeout || code == cudaErrorAssert ||
           code == cudaErrorHardwareStackError || code == cudaErrorIllegalInstruction || code == cudaErrorMisalignedAddress ||
           code == cudaErrorInvalidAddressSpace || code == cudaErrorInvalidPc || code == cudaErrorLaunchFailure ||
           code == cudaErrorECCUncorrectable || code == cudaErrorContextIsDestroyed;
}

}  // namespace tkjit
