// The exponential function in base 2.
#pragma once

#include <cuda_runtime.h>

constexpr float kLog2E = 1.44269504f;

__device__ inline float exp2_of(float x) {
#ifdef TKJIT_SIM
    return exp2f(x);
#else
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));  // exp2f() also handles denormal numbers
    return result;
#endif
}
