// Dynamic shared memory, on a GPU and in the simulator.
#pragma once

#include <cuda_runtime.h>

#include <stdint.h>

/// Declares `T* name`, the block's dynamic shared memory. It is aligned to 1024 bytes, the most that any layout needs:
/// the 128-byte swizzle of tensor maps repeats every 1024 bytes. All declarations in a kernel refer to the same memory.
///     #define TKJIT_DYNAMIC_SHARED(T, name) T* name = ...
#ifdef TKJIT_SIM
#define TKJIT_DYNAMIC_SHARED(T, name) T* name = reinterpret_cast<T*>(::tkjit::sim::current_block->dynamic_shared)
#else
#define TKJIT_DYNAMIC_SHARED(T, name)                                       \
    extern __shared__ __align__(1024) unsigned char tkjit_dynamic_shared[]; \
    T* name = reinterpret_cast<T*>(tkjit_dynamic_shared)
#endif

namespace tkjit {

/// The 32-bit address of something in shared memory, for PTX instructions. In the simulator only the low ten bits are
/// meaningful: enough for swizzles, but not to access memory. The wrappers in these headers therefore take pointers.
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

}  // namespace tkjit
