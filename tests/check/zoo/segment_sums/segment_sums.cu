// Sums rows of up to 16 elements with tiles of 16 threads, two rows per warp; then finds the block's largest sum.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <tkjit/gl.h>

namespace cg = cooperative_groups;

constexpr int kTileThreads = 16, kRows = 4;

__global__ void segment_sums(const __grid_constant__ Globals g) {
    __shared__ float of_row[kRows];
    const cg::thread_block block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<kTileThreads>(block);
    const int local = tile.meta_group_rank(), row = blockIdx.x * kRows + local;
    float sum = 0.f;
    if (row < g.x.rows()) {
        for (int i = tile.thread_rank(); i < g.x.cols(); i += kTileThreads) sum += g.x(row, i);
    }
    sum = cg::reduce(tile, sum, cg::plus<float>());
    if (tile.thread_rank() == 0) {
        of_row[local] = row < g.x.rows() ? sum : -INFINITY;
        if (row < g.x.rows()) g.sums[row] = sum;
    }
    block.sync();
    if (block.thread_rank() == 0) {
        float largest = of_row[0];
        for (int i = 1; i < kRows; i++) largest = fmaxf(largest, of_row[i]);
        g.largest[blockIdx.x] = largest;
    }
}
