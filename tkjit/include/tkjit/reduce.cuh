// Reductions over the threads of a warp or a block; every thread gets the result.
//
// An operation is a class with a static function `combine(a, b)`, which is associative and commutative, and a constant
// `identity`. Source of the pattern: CUDA C++ Programming Guide, "Warp Shuffle Functions".
#pragma once

#include <cuda_runtime.h>

namespace tkjit {

/// Adds numbers. An operation of a reduction has an `identity` and `combine(a, b)`.
struct Sum {
    static constexpr float identity = 0.f;
    static __device__ float combine(float a, float b) { return a + b; }
};

/// Keeps the larger number.
struct Max {
    static constexpr float identity = -INFINITY;
    static __device__ float combine(float a, float b) { return fmaxf(a, b); }
};

/// Reduces over the 32 threads of a warp.
template <class Op>
__device__ float warp_reduce(float value) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) value = Op::combine(value, __shfl_xor_sync(0xffffffff, value, mask));
    return value;
}

/// Reduces over a block, whose number of threads is a multiple of 32.
template <class Op>
__device__ float block_reduce(float value) {
    value = warp_reduce<Op>(value);
    if (blockDim.x <= 32) return value;
    __shared__ float of_warp[32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) of_warp[warp] = value;
    __syncthreads();
    value = lane < blockDim.x / 32 ? of_warp[lane] : Op::identity;
    value = warp_reduce<Op>(value);
    __syncthreads();  // of_warp is free for the next reduction
    return value;
}

/// Reduces over a block of `Threads` threads, or over each warp if `Threads` is 32.
template <class Op, int Threads>
__device__ float block_reduce(float value) {
    if constexpr (Threads > 32) return block_reduce<Op>(value);
    else return warp_reduce<Op>(value);
}

/// The sum over the lanes up to this one, itself included. `Number` is any type that can be shuffled.
template <class Number>
__device__ Number warp_scan(Number sum) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const Number before = __shfl_up_sync(0xffffffff, sum, distance);
        if (threadIdx.x % 32 >= distance) sum += before;
    }
    return sum;
}

}  // namespace tkjit
