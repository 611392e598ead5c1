// Short causal convolutions of channels: what the convolution and its gradient share.
#pragma once

#include <tkjit/gl.h>
#include <tkjit/row.cuh>

#include "activation.cuh"

/// The weights of a channel.
template <int W>
struct Filter {
    float weight[W], bias;

    template <class Globals>
    __device__ Filter(const Globals& g, int channel) : bias(g.bias ? float(g.bias[channel]) : 0.f) {
#pragma unroll
        for (int i = 0; i < W; ++i) weight[i] = g.weight(channel, i);
    }

    /// The convolution at *x, which also reads the W - 1 elements before it.
    __device__ float operator()(const float* x) const {
        float sum = bias;
#pragma unroll
        for (int i = 0; i < W; ++i) sum += weight[i] * x[i - (W - 1)];
        return sum;
    }
};

/// Reads the group of eight elements that begins at `col` of a row of `n`. Elements outside the row are 0.
template <class T>
__device__ void read_group(float* to, const T* row, int col, int n) {
    tkjit::Group<T> group;
    if (col >= 0 && col < n) group = tkjit::load_group(row, col, n);
#pragma unroll
    for (int i = 0; i < group.size; ++i) to[i] = col >= 0 && col + i < n ? float(group.element[i]) : 0.f;
}
