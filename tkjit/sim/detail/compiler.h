// Defines the macros with which nvcc describes itself, its version and its options (compile/flags.py).
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

// The value of `__CUDA_ARCH__` in a source's device code (source/cuda_arch.py). It means Hopper, unless the build sets
// another.
#ifndef TKJIT_SIM_CUDA_ARCH
#define TKJIT_SIM_CUDA_ARCH 900
#define TKJIT_SIM_HAS_FEATURES 1  // this architecture's own features: sm_90a, not sm_90
#endif
