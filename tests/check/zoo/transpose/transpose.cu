// Transposes tiles of 32 x 32 in shared memory, so that both reads and writes run along rows; 32 x 8 threads per tile.
#include <tkjit/gl.h>

constexpr int kTile = 32, kRows = 8;

__global__ void transpose(const __grid_constant__ Globals g) {
    __shared__ float tile[kTile][kTile + 1];  // the padding puts a column's elements into different banks
    const int rows = g.x.rows(), cols = g.x.cols();
    const int first_row = blockIdx.y * kTile, first_col = blockIdx.x * kTile;
    for (int i = threadIdx.y; i < kTile; i += kRows) {
        const int row = first_row + i, col = first_col + threadIdx.x;
        if (row < rows && col < cols) tile[i][threadIdx.x] = g.x(row, col);
    }
    __syncthreads();
    for (int i = threadIdx.y; i < kTile; i += kRows) {
        const int row = first_col + i, col = first_row + threadIdx.x;
        if (row < cols && col < rows) g.y(row, col) = tile[threadIdx.x][i];
    }
}
