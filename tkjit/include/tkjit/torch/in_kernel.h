// Comes first in a launcher whose kernel's source includes torch's headers. The launcher compiles the source's host
// functions but does not call them, so this header has the definitions that they need to compile and link.
#pragma once

#define TKJIT_TORCH_IN_KERNEL
#define TKJIT_TORCH_JOIN(a, b) a##b
// turns the body of a binding or registering block into a template that is never instantiated
#define TKJIT_TORCH_UNUSED(name, variable) \
    template <class Module>                \
    [[maybe_unused]] static void TKJIT_TORCH_JOIN(tkjit_module_, name)([[maybe_unused]] Module& variable)

#if !defined(__NVCC__) && !defined(__CUDA__)
#include "simulated.h"  // before the simulator's headers
#endif

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <tkjit/element.h>

#include "cuda_symbols.cpp"

namespace c10 {
struct Half;
struct BFloat16;
struct Float8_e4m3fn;
struct Float8_e5m2;
}  // namespace c10

namespace tkjit {
template <>
struct torch_type_of<__half> {
    using type = c10::Half;
};
template <>
struct torch_type_of<__nv_bfloat16> {
    using type = c10::BFloat16;
};
template <>
struct torch_type_of<__nv_fp8_e4m3> {
    using type = c10::Float8_e4m3fn;
};
template <>
struct torch_type_of<__nv_fp8_e5m2> {
    using type = c10::Float8_e5m2;
};
}  // namespace tkjit
