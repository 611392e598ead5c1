// Reverses rows through two buffers: while a block reverses one row, memcpy_async loads the next one.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <tkjit/gl.h>

namespace cg = cooperative_groups;

constexpr int kMostColumns = 256;

__global__ void group_copy(const __grid_constant__ Globals g) {
    __shared__ __align__(16) float buffers[2][kMostColumns];
    const cg::thread_block block = cg::this_thread_block();
    const int n = g.x.cols(), rows = g.x.rows();
    const auto fetch = [&](int row, int buffer) {
        if (row < rows) cg::memcpy_async(block, buffers[buffer], &g.x(row, 0), sizeof(float) * n);
    };
    int row = blockIdx.x, turn = 0;
    fetch(row, 0);
    for (; row < rows; row += gridDim.x, turn++) {
        fetch(row + gridDim.x, (turn + 1) % 2);
        if (row + int(gridDim.x) < rows) {
            cg::wait_prior<1>(block);
        } else {
            cg::wait(block);
        }
        for (int i = block.thread_rank(); i < n; i += block.size()) g.y(row, i) = buffers[turn % 2][n - 1 - i];
        block.sync();  // the buffer may be refilled
    }
}
