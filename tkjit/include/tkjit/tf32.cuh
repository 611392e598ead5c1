// tf32: float32 with a mantissa of ten bits, which tensor cores multiply.
#pragma once

#include <cuda_runtime.h>

#include <stdint.h>

#ifdef TKJIT_SIM
#include "../../sim/detail/tf32_rounding.h"
#endif

namespace tkjit {

/// `value` rounded to tf32, ties away from zero. Source: PTX ISA, "cvt.rna.tf32.f32".
__device__ __forceinline__ uint32_t to_tf32(float value) {
#ifdef TKJIT_SIM
    return sim::rounded_to_tf32(__float_as_uint(value));
#else
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
#endif
}

/// A number of tf32, which has the bits of a float.
struct tf32 {
    uint32_t bits;

    tf32() = default;
    __device__ explicit tf32(float value) : bits(to_tf32(value)) {}
};

}  // namespace tkjit
