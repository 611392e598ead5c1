// CUDA's keywords as a host compiler can read them.
#pragma once

#include <assert.h>
#include <limits.h>
// C++20's lerp becomes a global function too. nvcc's default, C++17, has none, and programs define their own.
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

#ifndef TKJIT_SIM_KEEPS_ANNOTATIONS  // for source/host_branches.py
#define __global__
#define __device__
#define __host__
#endif
#ifdef TKJIT_SIM_RACE
// A section of each one's own, by which the checker knows it: g++ puts no const variable beside one that is none.
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
#define __cluster_dims__(...)
#define __block_size__(...)

// A block runs on one OS thread from its first instruction to its last, and while another one runs there the variables
// are copied (runtime/parked_blocks.h). So a variable of the OS thread is a variable of the block. Never give these the initial-exec model: static TLS is small, and a shared object that wants
// kilobytes of it cannot be opened with dlopen.
// In the checked builds each is `used`: a compiler removes the stores to a variable of its own that nobody reads.
// Of a source that is preprocessed first, source/preprocessed.py makes references into the block's window of them.
#if defined(TKJIT_SIM_TRANSLATES)
#elif defined(TKJIT_SIM_MEMORY) && !defined(TKJIT_SIM_COOPERATIVE)
// one OS thread; AddressSanitizer puts red zones between variables only if they are static
#define __shared__ static __attribute__((used))
#elif defined(TKJIT_SIM_MEMORY) || defined(TKJIT_SIM_RACE)
#define __shared__ thread_local __attribute__((used))
#else
#define __shared__ thread_local
#endif

// What belongs to the thread that runs: a variable of the OS thread, without a wrapper that would initialise it. In the
// checked builds one OS thread at a time runs blocks, and what is thread_local counts as the kernel's shared memory.
#if defined(TKJIT_SIM_MEMORY) || defined(TKJIT_SIM_RACE)
#define TKJIT_SIM_CHECKED 1
#define TKJIT_SIM_REGISTER __attribute__((visibility("hidden"), section("tkjit_registers")))
#else
#define TKJIT_SIM_REGISTER __attribute__((visibility("hidden"))) __thread
#endif

#define __forceinline__ inline __attribute__((always_inline))
// Empty, because libstdc++ itself writes __attribute__((__noinline__)), and only a hint is lost.
#define __noinline__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __align__(bytes)

inline constexpr int warpSize = 32;

// A launch on the CPU is over when it returns, so a stream orders nothing.
using cudaStream_t = struct CUstream_st*;
