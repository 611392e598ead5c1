// For the host code of a launcher whose device code is compiled apart: what its struct and its launch need of CUDA's
// language, without a toolkit. Values are the toolkit's; tests/compile/test_nvcc_stand_ins.py compares them.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define __host__
#define __device__

struct dim3 {
    unsigned x, y, z;

    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

// complex numbers
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) double2 {
    double x, y;
};

typedef struct CUstream_st* cudaStream_t;

// errors that end a process's use of a device
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
