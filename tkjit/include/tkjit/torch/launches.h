// The kernels that one call of a function launches.
#pragma once

#ifdef TKJIT_SIM
#include <cuda_runtime.h>
#endif

namespace tkjit {
inline namespace torch_stand_in {

/// What the launches of one call have come to. On a GPU a launch goes on after the call, and torch reports what fails.
class Launches {
public:
#ifdef TKJIT_SIM
    Launches() { cudaGetLastError(); }  // clears the error of an earlier call
    /// Why one has failed; null if none has.
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
