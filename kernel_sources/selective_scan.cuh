// Code that the selective scan and its gradient share. A warp computes a channel of a sequence in chunks of 256
// elements. Each lane has eight adjacent elements of a chunk.
#pragma once

#include <tkjit/gl.h>
#include <tkjit/row.cuh>

#include "activation.cuh"
#include "exp2.cuh"

constexpr unsigned kAll = 0xffffffff;
constexpr int kItems = 8, kChunk = 32 * kItems;  // of a lane, and of a warp

/// Reads eight elements from `col` on of a row of `n`. Elements past its end are 0.
template <class T>
__device__ void read_items(float (&to)[kItems], const T* row, unsigned col, int n) {
    const int left = int(n - col);
    tkjit::Group<T> group;
    if (left >= kItems && tkjit::is_aligned(row + col)) {
        group = *reinterpret_cast<const tkjit::Group<T>*>(row + col);
    } else {
#pragma unroll
        for (int i = 0; i < kItems; ++i) group.element[i] = i < left ? row[col + i] : T(0.f);
    }
#pragma unroll
    for (int i = 0; i < kItems; ++i) to[i] = float(group.element[i]);
}

/// Writes eight elements from `col` on of a row of `n`, but none past its end.
template <class T>
__device__ void write_items(T* row, unsigned col, int n, const float (&items)[kItems]) {
    tkjit::Group<T> group;
#pragma unroll
    for (int i = 0; i < kItems; ++i) group.element[i] = T(items[i]);
    if (col < n) tkjit::store_group(row, int(col), n, group);
}

/// Values that all elements of a channel share.
struct Channel {
    size_t number;        // among the channels of all sequences
    unsigned dim;         // among the channels of its sequence
    size_t first_of_row;  // the position of its first element in u
    float skip, bias;
    bool softplus;

    template <class Globals>
    __device__ Channel(const Globals& g, unsigned sequence, unsigned dim)
        : number(size_t(sequence) * g.u.rows() + dim),
          dim(dim),
          first_of_row(number * g.u.cols()),
          skip(g.D ? g.D[dim] : 0.f),
          bias(g.delta_bias ? g.delta_bias[dim] : 0.f),
          softplus(g.delta_softplus) {}

    /// The steps of eight elements. They are 0 past the end of the row, where the state then stays as it is.
    template <class T>
    __device__ void read_steps(float (&steps)[kItems], const T* delta, unsigned col, int n) const {
        read_items(steps, delta + first_of_row, col, n);
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
            const float step = steps[i] + bias;
            steps[i] = int(n - col) <= i ? 0.f : softplus && !(step > 20.f) ? log1pf(__expf(step)) : step;
        }
    }
};

/// Each lane maps x to factor * x + sum. Returns the result of all lanes before this one, where the first lane gets
/// `first`. The first lane is 0 if the lanes are `ascending`, and otherwise 31.
template <bool ascending>
__device__ float scan_lanes(float factor, float sum, float first) {
    const int lane = threadIdx.x % 32, position = ascending ? lane : 31 - lane;
    const auto before = [](float x, int distance) {
        return ascending ? __shfl_up_sync(kAll, x, distance) : __shfl_down_sync(kAll, x, distance);
    };
    if (position == 0) sum += factor * first;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const float sum_before = before(sum, distance), factor_before = distance < 16 ? before(factor, distance) : 0.f;
        if (position >= distance) sum += factor * sum_before, factor *= factor_before;
    }
    const float result = before(sum, 1);
    return position == 0 ? first : result;
}
