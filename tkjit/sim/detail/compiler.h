// Defines the macros with which nvcc and CUDA's headers describe themselves.
#pragma once

#define __NVCC__ 1
#define __CUDACC__ 1
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __CUDACC_VER_BUILD__ 88
#define __CUDACC_EXTENDED_LAMBDA__ 1
#define __CUDACC_RELAXED_CONSTEXPR__ 1
#define __CUDA_ARCH_LIST__ TKJIT_SIM_CUDA_ARCH
#define CUDART_VERSION 13000
#define __NV_SILENCE_DEPRECATION_BEGIN
#define __NV_SILENCE_DEPRECATION_END

// the include guards of CUDA's headers, by which other headers recognise them (helper_cuda.h of NVIDIA's samples)
#define __CUDA_RUNTIME_H__
#define __CUDA_RUNTIME_API_H__
#define __DRIVER_TYPES_H__
#define __DEVICE_TYPES_H__
#define __HOST_DEFINES_H__
#define __VECTOR_TYPES_H__

// The value of `__CUDA_ARCH__` in a source's device code (source/cuda_arch.py). It means Hopper, unless the build sets
// another.
#ifndef TKJIT_SIM_CUDA_ARCH
#define TKJIT_SIM_CUDA_ARCH 900
#define TKJIT_SIM_HAS_FEATURES 1  // this architecture's own features: sm_90a, not sm_90
#endif
