// Writes a row as 8-bit floats, which are values divided by scales. A kernel describes the values with a function that
// returns a thread's group of eight.
//
// A computed scale maps the largest absolute value to the largest number of the format. Values beyond it become that
// number, and NaN stays NaN. Source of the least scale: vLLM's per_token_group_quant_fp8.
#pragma once

#include <cuda_fp8.h>
#include <tkjit/gl.h>
#include <tkjit/row.cuh>

using Float8 = __nv_fp8_e4m3;
constexpr float kLargest = 448.f;
constexpr int kBlock = 128;  // elements with a common scale

__device__ inline float largest_of(const tkjit::Group<float>& values) {
    float largest = 0.f;
#pragma unroll
    for (float value : values.element) largest = fmaxf(largest, fabsf(value));
    return largest;
}

/// Bounds the largest value so that neither the scale nor its inverse is infinite.
__device__ inline float bound_largest(float largest) { return fminf(fmaxf(largest, 1e-10f), 3.40282347e38f); }

__device__ inline void store_scaled(Float8* row, int col, int n, const tkjit::Group<float>& values, float factor) {
    if (col >= n) return;
    tkjit::Group<Float8> result;
#pragma unroll
    for (int i = 0; i < tkjit::Group<float>::size; i += 2)
        reinterpret_cast<__nv_fp8x2_storage_t&>(result.element[i]) = __nv_cvt_float2_to_fp8x2(
            make_float2(values.element[i] * factor, values.element[i + 1] * factor), __NV_SATFINITE, __NV_E4M3);
    tkjit::store_group(row, col, n, result);
}

/// A scale for all rows, which the call passes.
struct GivenScale {
    template <class Globals, class Row, class Values>
    static __device__ void write(const Globals& g, const Row& row, int n, Values values) {
        const float factor = 1.f / g.scale[0];
#pragma unroll
        for (int i = 0; i < row.groups(); ++i)
            store_scaled(g.y.raw_ptr + Row::number() * n, Row::column(i), n, values(i), factor);
    }
};

/// A scale for each row. The values stay in registers if the row does.
struct ScalePerRow {
    template <class Globals, class Row, class Values>
    static __device__ void write(const Globals& g, const Row& row, int n, Values values) {
        constexpr bool is_held = Row::Shape::is_held;
        tkjit::Group<float> held[is_held ? Row::Shape::groups : 1];
        float largest = 0.f;
#pragma unroll
        for (int i = 0; i < row.groups(); ++i) {
            const tkjit::Group<float> group = values(i);
            if constexpr (is_held) held[i] = group;
            largest = fmaxf(largest, largest_of(group));
        }
        largest = bound_largest(tkjit::block_reduce<tkjit::Max, Row::Shape::threads>(largest));
        if (threadIdx.x % Row::Shape::threads == 0) g.scales[Row::number()] = largest / kLargest;
        Float8* const y = g.y.raw_ptr + Row::number() * n;
#pragma unroll
        for (int i = 0; i < row.groups(); ++i)
            store_scaled(y, Row::column(i), n, is_held ? held[i] : values(i), kLargest / largest);
    }
};

/// A scale for each 128 elements of a row, which 16 threads of a warp compute at a time.
struct ScalePerBlock {
    template <class Globals, class Row, class Values>
    static __device__ void write(const Globals& g, const Row& row, int n, Values values) {
        constexpr int threads = kBlock / tkjit::Group<float>::size;
        float* const scales = g.scales.raw_ptr + Row::number() * g.scales.cols();
#pragma unroll
        for (int i = 0; i < row.groups(); ++i) {
            const int col = Row::column(i);
            const tkjit::Group<float> group = values(i);
            float largest = largest_of(group);
#pragma unroll
            for (int mask = threads / 2; mask > 0; mask /= 2)
                largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, mask));
            largest = bound_largest(largest);
            if (col < n && col % kBlock == 0) scales[col / kBlock] = largest / kLargest;
            store_scaled(g.y.raw_ptr + Row::number() * n, col, n, group, kLargest / largest);
        }
    }
};
