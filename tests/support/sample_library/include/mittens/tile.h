// Tiles in shared memory, which the threads of a block fill and store together.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace mittens {

template <class T, int Rows, int Cols>
struct tile {
    using dtype = T;
    static constexpr int rows = Rows, cols = Cols, size = Rows * Cols;

    T data[Rows * Cols];

    __host__ __device__ T& operator()(int row, int col) { return data[row * Cols + col]; }
    __host__ __device__ const T& operator()(int row, int col) const { return data[row * Cols + col]; }
};

template <int Rows, int Cols>
using tile_bf = tile<__nv_bfloat16, Rows, Cols>;
template <int Rows, int Cols>
using tile_fl = tile<float, Rows, Cols>;

}  // namespace mittens
