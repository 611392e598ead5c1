// Activations of a layer's sums, by the names that calls use.
#pragma once

#include <cuda_runtime.h>

struct identity {
    static __device__ float of(float x) { return x; }
    static __device__ float slope(float) { return 1.f; }
};
struct relu {
    static __device__ float of(float x) { return x < 0.f ? 0.f : x; }  // keeps NaN
};
struct gelu {
    static __device__ float of(float x) { return 0.5f * x * (1.f + erff(x * 0.70710678f)); }
};
struct gelu_tanh {
    static __device__ float of(float x) { return 0.5f * x * (1.f + tanhf(0.79788456f * (x + 0.044715f * x * x * x))); }
};
struct silu {
    static __device__ float of(float x) { return __fdividef(x, 1.f + __expf(-x)); }
    static __device__ float slope(float x) {
        const float sigmoid = __fdividef(1.f, 1.f + __expf(-x));
        return sigmoid * (1.f + x * (1.f - sigmoid));
    }
};
