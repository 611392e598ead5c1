// The simulator's `cuda_runtime.h`: the CUDA language on a host C++ compiler.
//
// A kernel source compiled with `-I tkjit/sim -I tkjit/include` finds this file instead of the toolkit's. Every CUDA
// thread becomes a fiber, a block runs on one OS thread, and `tkjit::sim::launch` runs the grid. No toolkit headers are
// needed. Code that need not be compiled with each kernel is in runtime/, which is compiled once, into an object that
// is linked with every launcher. The parts here, in the order in which they build on each other:
//
//   detail/compiler.h      __CUDACC__ and other names that nvcc defines
//   detail/language.h      definitions of __global__, __shared__, ...
//   detail/vector_types.h  float4, dim3, ...
//   detail/site.h          the source line that a thread waits at, for error messages
//   detail/block.h         Thread, Warp, Barrier, Block: the state of the one block that an OS thread runs
//   detail/fault.h         turns a kernel's fault into an error message
//   detail/architecture.h  which functions host or device code must not call
//   detail/scheduler.h     how a thread waits
//   detail/barrier.h       __syncthreads, named barriers, the grid's barrier
//   detail/warp.h, warp_intrinsics.h  shuffles, votes, reductions, matches
//   detail/registers.h     setmaxnreg
//   detail/window.h        addresses of shared memory, and static variables in it
//   detail/cluster.h       blocks that share their memory
//   detail/multicast.h     addresses that refer to memory on several devices
//   detail/copy_queue.h    cp.async
//   detail/bulk_copies.h   mbarriers, and the bulk copies that complete on them
//   detail/atomics.h, math_functions.h, integer_intrinsics.h, simd_intrinsics.h, dpx.h, float_intrinsics.h
//       (directed_rounding.inc), memory_intrinsics.h
//   detail/launch.h        a grid of blocks
//   detail/host_errors.h, host_launch.h, host_memory.h, host_pitched.h, host_api.h  the API for a source's host code
//
// Before a source is compiled, source/preprocessed.py turns its inline PTX into calls of ptx/. Not modelled:
// dynamic parallelism, textures, missing memory fences, bank conflicts. A block is never preempted, so a plain loop on
// a volatile flag that another thread of the block sets never ends; a loop with an atomic or __nanosleep does end. A
// thread that needs more than 1 MiB of stack hits a guard page and fails (runtime/hardware_faults.h).
#pragma once

#define TKJIT_SIM 1

#include "detail/compiler.h"
#include "detail/language.h"
#include "detail/vector_types.h"
#include "detail/site.h"
#include "detail/block.h"
#include "detail/fault.h"
#include "detail/architecture.h"
#include "detail/scheduler.h"
#include "detail/barrier.h"
#include "detail/warp.h"
#include "detail/warp_intrinsics.h"
#include "detail/registers.h"
#include "detail/window.h"
#include "detail/cluster.h"
#include "detail/multicast.h"
#include "detail/copy_queue.h"
#include "detail/bulk_copies.h"
#include "detail/atomics.h"
#include "detail/math_functions.h"
#include "detail/integer_intrinsics.h"
#include "detail/dpx.h"
#include "detail/simd_intrinsics.h"
#include "detail/float_intrinsics.h"
#include "detail/memory_intrinsics.h"
#include "detail/launch.h"
#include "detail/host_errors.h"
#include "detail/host_launch.h"
#include "detail/host_memory.h"
#include "detail/host_pitched.h"
#include "detail/host_api.h"
#include "library_types.h"

// A translated source is preprocessed once for the device and once for the host, so there __CUDA_ARCH__ has its usual
// meaning. Any other source is compiled only once. source/cuda_arch.py has renamed the macro in that source itself, but
// a header that still tests __CUDA_ARCH__ would get only its host branch, so the name is poisoned.
#ifdef TKJIT_SIM_HAS_FEATURES
#if TKJIT_SIM_CUDA_ARCH == 900
#define __CUDA_ARCH_FEAT_SM90_ALL 1
#elif TKJIT_SIM_CUDA_ARCH == 1000
#define __CUDA_ARCH_FEAT_SM100_ALL 1
#elif TKJIT_SIM_CUDA_ARCH == 1030
#define __CUDA_ARCH_FEAT_SM103_ALL 1
#endif
#if TKJIT_SIM_CUDA_ARCH >= 1000
#define __CUDA_ARCH_SPECIFIC__ TKJIT_SIM_CUDA_ARCH
#define __CUDA_ARCH_FAMILY_SPECIFIC__ TKJIT_SIM_CUDA_ARCH
#endif
#endif
#if defined(TKJIT_SIM_TRANSLATES)
#ifndef TKJIT_SIM_FOR_HOST
#define __CUDA_ARCH__ TKJIT_SIM_CUDA_ARCH
#endif
#elif !defined(TKJIT_SIM_SYSTEM_ASKS_ARCH)
#pragma GCC poison __CUDA_ARCH__
#endif
