// Defines CUDA's keywords for a host compiler.
#pragma once

#include <assert.h>
#include <limits.h>
// In C++20, lerp would also become a global function. nvcc defaults to C++17, which has no lerp, so programs define
// their own.
#if !defined(_GLIBCXX_CMATH) && !defined(_LIBCPP_CMATH)
#define lerp tkjit_lerp
#include <cmath>
#include <math.h>
#undef lerp
namespace std {
constexpr float lerp(float a, float b, float t) noexcept { return tkjit_lerp(a, b, t); }
constexpr double lerp(double a, double b, double t) noexcept { return tkjit_lerp(a, b, t); }
}  // namespace std
#endif
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#include "../check/copy_calls.h"
#endif

namespace tkjit::sim {
template <unsigned x, unsigned y = 1, unsigned z = 1>
struct one_block {
    static_assert(x * y * z == 1, "the simulator supports __cluster_dims__ only on kernels in the source file itself");
    static constexpr int alignment = 16;
};
}  // namespace tkjit::sim

#ifndef TKJIT_SIM_KEEPS_ANNOTATIONS  // for source/host_branches.py
#define __global__
#define __device__
#define __host__
#endif
#ifdef TKJIT_SIM_RACE
// Each variable gets its own section, which the checker recognises. They cannot share one section, because g++ rejects
// const and other variables in the same section.
#define TKJIT_SIM_TEXT_OF(number) #number
#define TKJIT_SIM_TEXT(number) TKJIT_SIM_TEXT_OF(number)
#define __constant__ __attribute__((section("tkjit_constant_" TKJIT_SIM_TEXT(__COUNTER__))))
#else
#define __constant__
#endif
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
// source/clusters.py removes it from the kernels that it supports, and this rejects the others; the alignment is unused
#define __cluster_dims__(...) __attribute__((aligned(tkjit::sim::one_block<__VA_ARGS__>::alignment)))
#define __block_size__(...)

// A block runs on one OS thread from its first instruction to its last, so a thread-local variable belongs to the
// block. While another block runs on the same OS thread, the variables are saved (runtime/parked_blocks.h). Never give
// them the initial-exec model: static TLS is small, and dlopen rejects a shared object that needs kilobytes of it. In
// the checked builds each variable is `used`, because compilers remove the stores to an internal variable that nobody
// reads. In a source that is preprocessed first, source/preprocessed.py turns the variables into references into the
// block's window.
#if defined(TKJIT_SIM_TRANSLATES)
#elif defined(TKJIT_SIM_MEMORY) && !defined(TKJIT_SIM_COOPERATIVE)
// here there is only one OS thread, and AddressSanitizer puts red zones only between static variables
#define __shared__ static __attribute__((used))
#elif defined(TKJIT_SIM_CHECKED)
#define __shared__ thread_local __attribute__((used))
#else
#define __shared__ thread_local
#endif

// For the running thread's state: a thread-local variable, without the wrapper that would initialise it. In the checked
// builds only one OS thread at a time runs blocks, and thread_local variables count as the kernel's shared memory, so
// there the state is global.
#ifdef TKJIT_SIM_CHECKED
#define TKJIT_SIM_REGISTER __attribute__((visibility("hidden"), section("tkjit_registers")))
#else
#define TKJIT_SIM_REGISTER __attribute__((visibility("hidden"), tls_model("local-dynamic"))) __thread
#endif

#ifdef TKJIT_SIM_INLINES_BY_CHOICE  // g++ rejects functions that it must, but cannot, inline (source/unsupported.py)
#define __forceinline__ inline
#else
#define __forceinline__ inline __attribute__((always_inline))
#endif
// Defined as empty, because libstdc++ itself writes __attribute__((__noinline__)). Only an optimisation hint is lost.
#define __noinline__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __align__(bytes)

inline constexpr int warpSize = 32;

// A launch on the CPU has finished when it returns, so a stream orders nothing.
using cudaStream_t = struct CUstream_st*;
