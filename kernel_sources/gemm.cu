// C = A * B, row-major, any M, N and K: a block computes a tile of 128 x 128.
#include "gemm_tile.cuh"

template <typename T>
__global__ void __launch_bounds__(kThreads) gemm(const __grid_constant__ Globals g) {
    TKJIT_DYNAMIC_SHARED(T, stages);
    const int m = g.c.rows(), n = g.c.cols(), k = g.a.cols();
    // one index for all tiles, since only the grid's x is large enough for any M
    const int tiles_in_row = (n + kTileN - 1) / kTileN;
    const int first_row = blockIdx.x / tiles_in_row * kTileM, first_col = blockIdx.x % tiles_in_row * kTileN;
    const Accumulator<T> tile = multiply_tile(stages, g.a.raw_ptr, g.b.raw_ptr, m, n, k, first_row, first_col);
    tile.for_each([&](int row, int col, float value) {
        if (first_row + row < m && first_col + col < n) g.c(first_row + row, first_col + col) = T(value);
    });
}
