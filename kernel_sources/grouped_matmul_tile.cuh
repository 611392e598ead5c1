// Products of groups of rows of A with a matrix for each group, with the tiles of gemm_tile.cuh.
#pragma once

#include "gemm_tile.cuh"
#include "groups.cuh"

template <typename T, bool TB>
struct GroupLaunch : TileLaunch<T, false, TB> {
    /// One block for each tile. Each group may end in a partial tile.
    static size_t blocks(size_t m, size_t n, size_t groups) { return TileLaunch<T>::blocks(m + groups * kTileM, n, 1); }
};

template <bool TB, typename T, typename Problem>
__device__ void multiply_group(T* stages, const Problem& g) {
    const int n = g.c.cols(), k = g.a.cols(), across = (n + kTileN - 1) / kTileN;
    Groups group(g, kTileM, across);
    if (!group.find(blockIdx.x)) return;
    const int tile = blockIdx.x - group.first_tile, rows = group.end - group.begin;
    const int first_row = tile / across * kTileM, first_col = tile % across * kTileN;
    const Stored<T> a{g.a.raw_ptr + size_t(group.begin) * k, rows, k, k, 1};
    const int steps = group.is_rest() ? 0 : steps_of<T>(k);
    Accumulator<T> sums = multiply_tile<false, TB>(stages, a, stored<TB>(g.b, group.number), first_row, first_col, 0, steps);
    sums.for_each([&](int row, int col, float sum) {
        row += first_row, col += first_col;
        if (row < rows && col < n) g.c(group.begin + row, col) = T(sum);
    });
}
