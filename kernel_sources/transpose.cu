// Transposed matrices. A block moves a tile through shared memory, so that it reads and writes rows of a tile: neighbouring
// threads access neighbouring elements of x, and of y.
#include <tkjit/gl.h>

constexpr int kSide = 64;  // of a tile
constexpr int kThreads = 256, kRowsAtOnce = kThreads / kSide;

template <typename T>
__global__ void transpose(const __grid_constant__ Globals g) {
    // the padding puts the elements of a column in different banks
    __shared__ T tile[kSide][kSide + 4 / sizeof(T)];
    const int rows = g.x.rows(), cols = g.x.cols();
    const unsigned tiles_across = (cols - 1) / kSide + 1, tiles = ((rows - 1) / kSide + 1) * tiles_across;
    const size_t matrix = blockIdx.x / tiles * size_t(rows) * cols;
    const int first_row = blockIdx.x % tiles / tiles_across * kSide, first_col = blockIdx.x % tiles % tiles_across * kSide;
    const T* const x = g.x.raw_ptr + matrix;
    T* const y = g.y.raw_ptr + matrix;
    const int across = threadIdx.x % kSide, down = threadIdx.x / kSide;

    T held[kSide / kRowsAtOnce];  // so that all loads are in flight at once
#pragma unroll
    for (int i = 0; i < kSide / kRowsAtOnce; ++i) {
        const int row = first_row + down + i * kRowsAtOnce, col = first_col + across;
        held[i] = row < rows && col < cols ? x[size_t(row) * cols + col] : T(0.f);
    }
#pragma unroll
    for (int i = 0; i < kSide / kRowsAtOnce; ++i) tile[down + i * kRowsAtOnce][across] = held[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSide / kRowsAtOnce; ++i) {
        const int row = first_row + across, col = first_col + down + i * kRowsAtOnce;
        if (row < rows && col < cols) y[size_t(col) * rows + row] = tile[across][down + i * kRowsAtOnce];
    }
}
