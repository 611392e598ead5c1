// The normalizer of a softmax, in one pass over a row.
//
// Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
#pragma once

#include <tkjit/reduce.cuh>
#include <tkjit/row.cuh>

/// The largest element of a row, and the sum of exp(x - largest) over its elements.
struct Normalizer {
    float largest = -INFINITY, sum = 0.f;

    __device__ float share_of(float x) const { return __expf(x - largest) / sum; }
    __device__ float log_sum_exp() const { return largest + logf(sum); }
};

/// The normalizer of a row, for all threads of the block.
template <class T>
__device__ Normalizer normalizer_of(const T* row, int n) {
    constexpr int size = tkjit::Group<T>::size;
    Normalizer own;
    tkjit::each_group(row, 0, n, [&](const tkjit::Group<T>& group, int col) {
        float x[size], largest = own.largest;
#pragma unroll
        for (int i = 0; i < size; ++i) {
            x[i] = col + i < n ? float(group.element[i]) : -INFINITY;
            largest = fmaxf(largest, x[i]);
        }
        const float from = largest == -INFINITY ? 0.f : largest;  // the difference of infinities would be NaN
        float sum = own.sum * __expf(own.largest - from);
#pragma unroll
        for (int i = 0; i < size; ++i) sum += __expf(x[i] - from);
        own = {largest, sum};
    });
    const float largest = tkjit::block_reduce<tkjit::Max>(own.largest);
    return {largest, tkjit::block_reduce<tkjit::Sum>(own.sum * __expf(own.largest - largest))};
}
