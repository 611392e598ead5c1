// A tiled transpose, and row sums by warps, with cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

constexpr int tile_extent = 32, block_rows = 8;

__global__ void transpose_tiles(const float* input, float* output, int rows, int columns) {
    const cg::thread_block block = cg::this_thread_block();
    __shared__ float tile[tile_extent][tile_extent + 1];
    int x = blockIdx.x * tile_extent + threadIdx.x, y = blockIdx.y * tile_extent + threadIdx.y;
    for (int i = 0; i < tile_extent; i += block_rows)
        if (x < columns && y + i < rows) tile[threadIdx.y + i][threadIdx.x] = input[(y + i) * columns + x];
    cg::sync(block);
    x = blockIdx.y * tile_extent + threadIdx.x;
    y = blockIdx.x * tile_extent + threadIdx.y;
    for (int i = 0; i < tile_extent; i += block_rows)
        if (x < rows && y + i < columns) output[(y + i) * rows + x] = tile[threadIdx.x][threadIdx.y + i];
}

__global__ void sum_rows(const float* input, float* sums, int rows, int columns) {
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const int row = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = warp.thread_rank(); i < columns; i += warp.size()) sum += input[row * columns + i];
    sum = cg::reduce(warp, sum, cg::plus<float>());
    cg::invoke_one(warp, [&] { sums[row] = sum; });
}

void transpose(const float* input, float* output, float* sums, int rows, int columns) {
    const dim3 grid((columns + tile_extent - 1) / tile_extent, (rows + tile_extent - 1) / tile_extent);
    transpose_tiles<<<grid, dim3(tile_extent, block_rows)>>>(input, output, rows, columns);
    sum_rows<<<(rows + 3) / 4, 128>>>(input, sums, rows, columns);
}
