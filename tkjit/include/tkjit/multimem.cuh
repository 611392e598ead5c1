// Multicast memory: one address that refers to the same memory on several devices. Needs sm_90 and NVLink switches.
//
// Source: PTX ISA, "multimem.ld_reduce, multimem.st, multimem.red". Each function accesses 16 aligned bytes. Sums of
// 16-bit types are computed in float32. On older GPUs these functions compile, but trap when called.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <stdint.h>

namespace tkjit {

#ifdef TKJIT_SIM

// The CPU has no multicast: a parallel layout's multicast_ptr is null there.
template <class T>
uint4 multimem_load_sum(const T*, sim::Site site = sim::Site::here()) {
    sim::fail(site, "multicast memory: the simulator has none; check in the kernel whether multicast_ptr is null");
}
inline void multimem_store(void*, uint4, sim::Site site = sim::Site::here()) {
    sim::fail(site, "multicast memory: the simulator has none; check in the kernel whether multicast_ptr is null");
}

#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900

template <class T>
__device__ uint4 multimem_load_sum(const T*) {
    __trap();
    return {};
}
__device__ inline void multimem_store(void*, uint4) { __trap(); }

#else

namespace detail {

template <class T>
struct multimem;

#define TKJIT_MULTIMEM(type, suffix)                                                                                      \
    template <>                                                                                                           \
    struct multimem<type> {                                                                                               \
        static __device__ __forceinline__ uint4 load_sum(const void* address) {                                           \
            uint4 sum;                                                                                                    \
            asm volatile("multimem.ld_reduce.relaxed.sys.global.add" suffix " {%0, %1, %2, %3}, [%4];"                    \
                         : "=r"(sum.x), "=r"(sum.y), "=r"(sum.z), "=r"(sum.w)                                             \
                         : "l"(address)                                                                                   \
                         : "memory");                                                                                     \
            return sum;                                                                                                   \
        }                                                                                                                 \
    }
TKJIT_MULTIMEM(__nv_bfloat16, ".acc::f32.v4.bf16x2");
TKJIT_MULTIMEM(__half, ".acc::f32.v4.f16x2");
#undef TKJIT_MULTIMEM

template <>
struct multimem<float> {
    static __device__ __forceinline__ uint4 load_sum(const void* address) {
        float x, y, z, w;
        asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(x), "=f"(y), "=f"(z), "=f"(w)
                     : "l"(address)
                     : "memory");
        return {__float_as_uint(x), __float_as_uint(y), __float_as_uint(z), __float_as_uint(w)};
    }
};

}  // namespace detail

/// Loads 16 bytes of elements of `T`, summed over all devices.
template <class T>
__device__ __forceinline__ uint4 multimem_load_sum(const T* multicast) {
    return detail::multimem<T>::load_sum(multicast);
}

/// Stores 16 bytes on all devices.
__device__ __forceinline__ void multimem_store(void* multicast, uint4 value) {
    asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(multicast),
                 "f"(__uint_as_float(value.x)), "f"(__uint_as_float(value.y)), "f"(__uint_as_float(value.z)),
                 "f"(__uint_as_float(value.w))
                 : "memory");
}

#endif

}  // namespace tkjit
