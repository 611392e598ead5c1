// The parts of CUDA's headers that the runtime needs to launch a cubin on a machine without a toolkit.
// tests/compile/test_nvcc_stand_ins.py compares the values with the toolkit's.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define __host__
#define __device__

struct dim3 {
    unsigned x, y, z;

    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

typedef struct CUstream_st* cudaStream_t;

// errors after which the process can no longer use the device
enum cudaError_t {
    cudaErrorECCUncorrectable = 214,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchTimeout = 702,
    cudaErrorContextIsDestroyed = 709,
    cudaErrorAssert = 710,
    cudaErrorHardwareStackError = 714,
    cudaErrorIllegalInstruction = 715,
    cudaErrorMisalignedAddress = 716,
    cudaErrorInvalidAddressSpace = 717,
    cudaErrorInvalidPc = 718,
    cudaErrorLaunchFailure = 719,
};
