// Every way to use __CUDA_ARCH__. The device's branches return their line numbers, the host's return 0.
#include "vector_math.h"

#if __CUDA_ARCH__ >= 700
__device__ int chosen() { return __LINE__; }  // MARK around a function
#else
__device__ int chosen() { return 0; }
#endif

#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900)
#define HAS_SM90 1
#endif
#ifdef HAS_SM90
__device__ int by_macro() { return __LINE__; }  // MARK by a macro
#else
__device__ int by_macro() { return 0; }
#endif

#if !defined(__CUDA_ARCH__)
int only_on_the_host() { return 1; }
#endif

#define SM (__CUDA_ARCH__ / 10)
#define DEVICE static __device__ __forceinline__
#define EITHER __host__ __device__

DEVICE int in_code() {
    if constexpr (__CUDA_ARCH__ >= 900) {
        return __LINE__;  // MARK in code
    }
    return 0;
}

template <class T>
DEVICE T in_a_template(T x) {
#if __CUDA_ARCH__ < 700
    return T();
#elif SM == 90
#ifdef __CUDA_ARCH__
    return x + __LINE__;  // MARK in a template
#endif
#endif
}

EITHER inline int in_either() {
#ifdef __CUDA_ARCH__
    return __LINE__;  // MARK in either
#else
    return 0;
#endif
}
EITHER inline int calls_either() { return in_either(); }
EITHER inline int in_both() { return 7; }

constexpr int in_a_constant_function() {
#ifdef __CUDA_ARCH__
    return __LINE__;  // MARK in a constant function
#else
    return 0;
#endif
}

struct Functor {
    int a, b;
    __device__ Functor(int x) : a{x}, b(x) {
#ifndef __CUDA_ARCH__
        a = 0;
#endif
    }
    __device__ int operator()(int x = {}) const {
#if defined __CUDA_ARCH__
        return a + b + x;
#else
        return 0;
#endif
    }
};

template <class Function>
__global__ void call(Function function, int* y) {
    *y = function();
}

__global__ __launch_bounds__(__CUDA_ARCH__ >= 800 ? 256 : 128) void probe(int* y) {
    y[0] = __CUDA_ARCH__;
    y[1] = chosen();
    y[2] = by_macro();
    y[3] = in_code();
    y[4] = in_a_template(0);
    y[5] = in_either();
    y[6] = calls_either();
    y[7] = Functor(4)(1);
    y[8] = SM;
    const auto lambda = [] {
#ifdef __CUDA_ARCH__
        return __LINE__;  // MARK in a lambda
#endif
    };
    y[9] = lambda();
    const int2 larger = max(make_int2(1, 5), make_int2(3, 4));
    y[10] = larger.x + larger.y + int(dot(fminf(make_float2(2), make_float2(3, 4)), make_float2(1)));
    y[13] = in_a_constant_function();
}

int main() { return in_either(); }

void run(int* y) {
    probe<<<1, 1>>>(y);
#ifdef __CUDA_ARCH__
    y[11] = -1;
#elif !defined(__CUDACC__)
    y[11] = -2;
#else
    y[11] = only_on_the_host() + in_both();
#endif
    const auto on_device = [] __device__() {
#if __CUDA_ARCH__
        return __LINE__;  // MARK in a lambda of the host
#else
        return 0;
#endif
    };
    call<<<1, 1>>>(on_device, y + 12);
}

void misuse(int* y) { y[0] = calls_either(); }
