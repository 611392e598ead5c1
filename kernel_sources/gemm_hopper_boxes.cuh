// The boxes of 64 rows of 128 bytes in which gemm_hopper.cuh copies matrices to shared memory, by TMA or by hand.
#pragma once

#include <tkjit/tensor_map.cuh>

#include <type_traits>
#include <utility>

namespace hopper {

constexpr int kSide = 64;  // rows of a box
constexpr int kWarpgroup = 128;

template <class T>
constexpr int kDepth = 128 / int(sizeof(T));  // columns of a box
template <class T>
constexpr bool multiplies = !std::is_same_v<T, float>;  // float32 has the code of gemm_tile.cuh instead

template <class T, int Rank = 2>
using Boxes = tkjit::tiled<T, kSide, kDepth<T>, 128, Rank>;

/// One matrix, or several, with any strides. If `is_transposed`, its columns are the rows of the boxes.
template <class T, int Rank, bool is_transposed>
struct StridedBoxes : Boxes<T, Rank> {
    using made_from = tkjit::strided<typename Boxes<T, Rank>::dtype, Rank>;
    made_from stored;

    StridedBoxes(const made_from& matrix) : Boxes<T, Rank>(turned(matrix)), stored(turned(matrix)) {}

private:
    static made_from turned(made_from matrix) {
        if (is_transposed) {
            std::swap(matrix.extents[Rank - 2], matrix.extents[Rank - 1]);
            std::swap(matrix.strides[Rank - 2], matrix.strides[Rank - 1]);
        }
        return matrix;
    }
};

template <class T>
__device__ auto element(const Boxes<T>& matrix, int, int row, int col) {
    return matrix.raw_ptr[size_t(row) * matrix.cols() + col];
}

template <class T, int Rank, bool is_transposed>
__device__ auto element(const StridedBoxes<T, Rank, is_transposed>& matrix, int number, int row, int col) {
    if constexpr (Rank == 3) return matrix.stored(number, row, col);
    else return matrix.stored(row, col);
}

/// Copies the box at (row, col) as TMA would, with all threads of a warpgroup.
template <class T, class Matrix>
__device__ void copy_by_hand(T* box, const Matrix& matrix, int number, int row, int col) {
    constexpr int cols = kDepth<T>;
    for (int i = threadIdx.x % kWarpgroup; i < kSide * cols; i += kWarpgroup) {
        const int at_row = row + i / cols, at_col = col + i % cols;
        const bool inside = at_row < matrix.rows() && at_col < matrix.cols();
        const T value = inside ? T(element(matrix, number, at_row, at_col)) : T(0.f);
        *reinterpret_cast<T*>(reinterpret_cast<char*>(box) + tkjit::place_in_tile<Boxes<T>>(i / cols, i % cols)) = value;
    }
}

/// Starts the copy of the box at (row, col).
template <class Box, class Matrix>
__device__ void copy(Box* box, const Matrix& matrix, int number, int row, int col, uint64_t* full) {
    if constexpr (Matrix::rank == 3) tkjit::tensor_load(box, matrix, number, row, col, full);
    else tkjit::tensor_load(box, matrix, row, col, full);
}

}  // namespace hopper
