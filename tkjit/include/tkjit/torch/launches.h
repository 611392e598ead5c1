// The kernel launches of one function call.
#pragma once

#ifdef TKJIT_SIM
#include <cuda_runtime.h>
#endif

namespace tkjit {
inline namespace torch_stand_in {

/// The outcome of a call's launches. On a GPU they may run after the call has returned, and torch reports their errors.
class Launches {
public:
#ifdef TKJIT_SIM
    Launches() { cudaGetLastError(); }  // clears the error of an earlier call
    /// The error of a failed launch, or null.
    const char* error() const {
        const cudaError_t error = cudaGetLastError();
        return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
    }
#else
    const char* error() const { return nullptr; }
#endif
};

}  // inline namespace torch_stand_in
}  // namespace tkjit
