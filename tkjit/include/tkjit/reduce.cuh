// Reductions over the threads of a warp or a block; every thread gets the result.
//
// An operation is a class with a static function `combine(a, b)`, which is associative and commutative, and a constant
// `identity`. Source of the pattern: CUDA C++ Programming Guide, "Warp Shuffle Functions".
#pragma once

#include <cuda_runtime.h>

namespace tkjit {

struct Sum {
    static constexpr float identity = 0.f;
    static __device__ float combine(float a, float b) { return a + b; }
};

struct Max {
    static constexpr float identity = -INFINITY;
    static __device__ float combine(float a, float b) { return fmaxf(a, b); }
};

/// The largest of some numbers x, and the sum of exp(x - largest): what softmax and cross entropy need of a row, in a form
/// that can be combined. Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
struct Exponentials {
    float largest = -INFINITY, sum = 0.f;

    /// Adds `sum_of_exp`, which is relative to `of_largest`.
    __device__ void add(float of_largest, float sum_of_exp) {
        const float both = fmaxf(largest, of_largest);
        if (both == -INFINITY) return;  // no number is larger; exp(x - both) would be NaN
        sum = sum * __expf(largest - both) + sum_of_exp * __expf(of_largest - both);
        largest = both;
    }
};

struct AddExponentials {
    static constexpr Exponentials identity{};
    static __device__ Exponentials combine(Exponentials a, Exponentials b) {
        a.add(b.largest, b.sum);
        return a;
    }
};

__device__ inline float shuffle_xor(float value, int mask) { return __shfl_xor_sync(0xffffffff, value, mask); }
__device__ inline Exponentials shuffle_xor(Exponentials value, int mask) {
    return {shuffle_xor(value.largest, mask), shuffle_xor(value.sum, mask)};
}

/// Reduces over the 32 threads of a warp.
template <class Op, class Value>
__device__ Value warp_reduce(Value value) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) value = Op::combine(value, shuffle_xor(value, mask));
    return value;
}

/// Reduces over a block of `Threads` threads, a multiple of 32, or over each warp if `Threads` is 32.
template <class Op, int Threads, class Value>
__device__ Value block_reduce(Value value) {
    value = warp_reduce<Op>(value);
    if constexpr (Threads > 32) {
        __shared__ Value of_warp[32];
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        if (lane == 0) of_warp[warp] = value;
        __syncthreads();
        value = lane < Threads / 32 ? of_warp[lane] : Value(Op::identity);
        value = warp_reduce<Op>(value);
        __syncthreads();  // of_warp is free for the next reduction
    }
    return value;
}

}  // namespace tkjit
