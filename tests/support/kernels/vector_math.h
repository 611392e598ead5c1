// Defines min and max for host compilers, because only nvcc has them. The headers of CUDA's samples do the same.
#pragma once

#include "cuda_runtime.h"

#ifndef __CUDACC__
#include <math.h>

inline float fminf(float a, float b) { return a < b ? a : b; }
inline float fmaxf(float a, float b) { return a > b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline int min(int a, int b) { return a < b ? a : b; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
#endif

#if defined(__CUDACC__) && __CUDACC_VER_MAJOR__ >= 11 && CUDART_VERSION >= 11000
#define VECTOR_MATH __host__ __device__ __forceinline__
#else
#error "not nvcc"
#endif

VECTOR_MATH float2 make_float2(float s) { return make_float2(s, s); }
VECTOR_MATH float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
VECTOR_MATH float2 fminf(float2 a, float2 b) { return make_float2(fminf(a.x, b.x), fminf(a.y, b.y)); }
VECTOR_MATH int2 max(int2 a, int2 b) { return make_int2(max(a.x, b.x), max(a.y, b.y)); }
VECTOR_MATH float dot(float2 a, float2 b) { return a.x * b.x + a.y * b.y; }
VECTOR_MATH float2 normalize(float2 v) {
    const float scale = rsqrtf(dot(v, v));
    return make_float2(v.x * scale, v.y * scale);
}
