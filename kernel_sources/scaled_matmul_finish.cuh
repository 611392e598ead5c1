// The scales and the bias of `scaled_matmul`.
#pragma once

#include <tkjit/gl.h>

#include "gemm_scales.cuh"

/// One scale for each matrix, or one for each row of A or of B.
template <class Result>
struct RowScales {
    tkjit::gl<float, 1, 1, 1> scale_a, scale_b;
    tkjit::gl<Result, 1, 1, 1> bias;

    __device__ float operator()(float sum, int, int row, int col) const {
        // the compiler would keep the 64-bit offsets of all columns in registers
        const unsigned rows = scale_a.cols(), cols = scale_b.cols(), at = col;
        const float scale = scale_a[min(unsigned(row), rows - 1)] * scale_b[min(at, cols - 1)];
        return scale * sum + (bias && at < unsigned(bias.cols()) ? float(bias[at]) : 0.f);
    }
};

/// A scale for each 128 elements of a row of A, and one for each 128 x 128 elements of B.
template <class Result>
struct BlockScales {
    tkjit::gl<float, 1, 1> scale_a, scale_b;
    tkjit::gl<Result, 1, 1, 1> bias;

    __device__ float row_scale(int row, int block) const { return scale_a(min(row, scale_a.rows() - 1), block); }
    __device__ float col_scale(int col, int block) const {
        return scale_b(min(col / kScaledDepth, scale_b.rows() - 1), block);
    }
    __device__ float operator()(float sum, int, int, int col) const {
        return sum + (bias && col < bias.cols() ? float(bias[col]) : 0.f);
    }
};
