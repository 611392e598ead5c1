// `setmaxnreg`: a warpgroup releases registers, or takes registers that others have released. Needs sm_90a; all four
// warps of the warpgroup execute it.
//
//     if (is_producer) decrease_registers<40>(); else increase_registers<232>();
//
// Source: PTX ISA, "setmaxnreg". It has an effect only in a kernel whose number of registers is known when it is
// assembled: with __maxnreg__, or with __launch_bounds__ of two arguments.
#pragma once

#include <cuda_runtime.h>
#include <stdint.h>

namespace tkjit {

namespace detail {

template <uint32_t count>
constexpr bool is_register_count = count % 8 == 0 && count >= 24 && count <= 256;

}  // namespace detail

#ifdef TKJIT_SIM

/// Waits until the warp has `count` registers per thread, at least as many as before.
template <uint32_t count>
inline void increase_registers(sim::Site site = sim::Site::here()) {
    static_assert(detail::is_register_count<count>, "the number of registers is a multiple of 8 from 24 to 256");
    sim::set_register_count(count, site);
}

/// Keeps `count` registers per thread, at most as many as before.
template <uint32_t count>
inline void decrease_registers(sim::Site site = sim::Site::here()) {
    static_assert(detail::is_register_count<count>, "the number of registers is a multiple of 8 from 24 to 256");
    sim::set_register_count(count, site);
}

#else

/// Waits until the warp has `count` registers per thread, at least as many as before.
template <uint32_t count>
__device__ __forceinline__ void increase_registers() {
    static_assert(detail::is_register_count<count>, "the number of registers is a multiple of 8 from 24 to 256");
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

/// Keeps `count` registers per thread, at most as many as before.
template <uint32_t count>
__device__ __forceinline__ void decrease_registers() {
    static_assert(detail::is_register_count<count>, "the number of registers is a multiple of 8 from 24 to 256");
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

#endif

}  // namespace tkjit
