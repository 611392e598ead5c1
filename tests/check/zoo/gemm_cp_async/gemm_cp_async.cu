// C = A * B in float32. While a block computes from one stage of shared memory, cp.async fills the other one. A block
// of 16 x 16 threads computes 32 x 32 elements, 2 x 2 per thread.
#include <tkjit/cp_async.cuh>
#include <tkjit/gl.h>

constexpr int kThreads = 256, kTile = 32, kStep = 16, kVector = 4, kStages = 2;

// Starts the copies of a Rows x Cols tile; elements outside the matrix become zero.
template <int Rows, int Cols, typename Matrix>
__device__ void fetch(float (&tile)[Rows][Cols], const Matrix& matrix, int first_row, int first_col) {
    const int rows = matrix.rows(), cols = matrix.cols();
    for (int i = threadIdx.x; i < Rows * Cols / kVector; i += kThreads) {
        const int row = i / (Cols / kVector), col = i % (Cols / kVector) * kVector;
        const bool inside = first_row + row < rows && first_col + col < cols;
        const float* source = inside ? &matrix(first_row + row, first_col + col) : matrix.raw_ptr;
        tkjit::cp_async_16_zero_fill(&tile[row][col], source, inside ? 16 : 0);
    }
}

__global__ void gemm_cp_async(const __grid_constant__ Globals g) {
    __shared__ __align__(16) float a[kStages][kTile][kStep];
    __shared__ __align__(16) float b[kStages][kStep][kTile];
    const int first_row = blockIdx.y * kTile, first_col = blockIdx.x * kTile;
    const int row = threadIdx.x / 16 * 2, col = threadIdx.x % 16 * 2;
    const int steps = (g.a.cols() + kStep - 1) / kStep;
    float sum[2][2] = {};

    const auto fetch_step = [&](int step) {
        if (step < steps) {
            fetch(a[step % kStages], g.a, first_row, step * kStep);
            fetch(b[step % kStages], g.b, step * kStep, first_col);
        }
        tkjit::cp_async_commit();  // even if the group is empty, so that the wait below counts correctly at the end
    };
    fetch_step(0);
    for (int step = 0; step < steps; step++) {
        fetch_step(step + 1);
        tkjit::cp_async_wait<1>();  // all but the group that was just committed
        __syncthreads();
        const int stage = step % kStages;
        for (int k = 0; k < kStep; k++) {
            for (int i = 0; i < 2; i++) {
                for (int j = 0; j < 2; j++) sum[i][j] += a[stage][row + i][k] * b[stage][k][col + j];
            }
        }
        __syncthreads();  // the stage may be refilled
    }
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            const int m = first_row + row + i, n = first_col + col + j;
            if (m < g.c.rows() && n < g.c.cols()) g.c(m, n) = sum[i][j];
        }
    }
}
