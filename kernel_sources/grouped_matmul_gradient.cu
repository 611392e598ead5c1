// For each group of rows, the product of A's rows, transposed, and those of another matrix. The tiles are those of gemm.cu.
#include "gemm_tile.cuh"
#include "groups.cuh"

template <typename T>
struct Problem {
    tkjit::gl<T, 1, 1> grad_c, a;
    tkjit::gl<int, 1, 1, 1> ends;
    tkjit::gl<T, 1> grad_b;
};
template <typename T>
using Launch = TileLaunch<T, true, false>;

template <typename T>
__global__ void __launch_bounds__(kThreads) grouped_matmul_gradient(const __grid_constant__ Problem<T> g) {
    TKJIT_DYNAMIC_SHARED(T, stages);
    const int k = g.a.cols(), n = g.grad_c.cols(), across = (n + kTileN - 1) / kTileN;
    const int tiles = (k + kTileM - 1) / kTileM * across, number = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    const int first_row = tile / across * kTileM, first_col = tile % across * kTileN;
    int begin = 0;
    for (int group = 0; group < number; ++group) begin = Groups<Problem<T>>::end_of(g, group, begin);
    const int rows = Groups<Problem<T>>::end_of(g, number, begin) - begin;
    const Stored<T> a{g.a.raw_ptr + size_t(begin) * k, rows, k, k, 1};
    const Stored<T> grad{g.grad_c.raw_ptr + size_t(begin) * n, rows, n, n, 1};
    Accumulator<T> sums = multiply_tile<true, false>(stages, a, grad, first_row, first_col, 0, steps_of<T>(rows));
    T* const to = g.grad_b.raw_ptr + size_t(number) * k * n;
    sums.for_each([&](int row, int col, float sum) {
        row += first_row, col += first_col;
        if (row < k && col < n) to[size_t(row) * n + col] = T(sum);
    });
}
