// Sums a * b over all devices into c, where each device has its own a and b. A block computes a tile of its device's
// product, sums a share of the tile's rows over all devices, and writes these rows to all devices.
#include "gemm_tile.cuh"

#include <tkjit/device_barrier.cuh>
#include <tkjit/pgl.h>

template <typename T>
__global__ void __launch_bounds__(kThreads) gemm_all_reduce(const __grid_constant__ Globals g) {
    TKJIT_DYNAMIC_SHARED(T, stages);
    const int m = g.c.rows(), n = g.c.cols(), k = g.a.cols();
    const int tiles_in_row = (n + kTileN - 1) / kTileN, tiles = (m + kTileM - 1) / kTileM * tiles_in_row;
    const auto meet = [&] { tkjit::device_barrier(g.signals, blockIdx.x, g.dev_idx, g.num_devices); };
    const auto own = g.partial[g.dev_idx];

    meet();  // no earlier launch uses the partial products any more
    // blocks with the same index have the same tiles on all devices
    for (int index = blockIdx.x; index < tiles; index += gridDim.x) {
        const int first_row = index / tiles_in_row * kTileM, first_col = index % tiles_in_row * kTileN;
        Accumulator<T> tile =
            multiply_tile(stages, stored<false>(g.a, 0), stored<false>(g.b, 0), first_row, first_col, 0, steps_of<T>(k));
        tile.for_each([&](int row, int col, float value) {
            if (first_row + row < m && first_col + col < n) own(first_row + row, first_col + col) = value;
        });
        meet();  // all devices have computed their product of this tile
        const int last_row = min(first_row + kTileM, m), cols = min(kTileN, n - first_col);
        for (int row = first_row + g.dev_idx; row < last_row; row += g.num_devices)
            for (int col = threadIdx.x; col < cols; col += kThreads) {
                float sum = 0.f;  // summed by one device in a fixed order, so that all devices get the same bits
                for (int device = 0; device < g.num_devices; ++device) sum += g.partial[device](row, first_col + col);
                for (int device = 0; device < g.num_devices; ++device) g.c[device](row, first_col + col) = T(sum);
            }
        __syncthreads();  // before the stages are reused
    }
    meet();  // every device has written to every c
}
