// C = A * B in bfloat16 on tensor cores. A block's 2 x 2 warps compute 32 x 32 elements, 16 x 16 per warp.
#include <tkjit/gl.h>
#include <tkjit/ldmatrix.cuh>
#include <tkjit/mma.cuh>

constexpr int kThreads = 128, kTile = 32, kStep = 32;
constexpr int kStride = kStep + 8;  // spreads the rows over the banks, and keeps them aligned to 16 bytes

using bf16 = __nv_bfloat16;

// Elements outside the matrix are zero.
template <typename Matrix>
__device__ void load_tile(bf16 (&tile)[kTile][kStride], const Matrix& matrix, int first_row, int first_col) {
    for (int i = threadIdx.x; i < kTile * kStep; i += kThreads) {
        const int row = i / kStep, col = i % kStep;
        const bool inside = first_row + row < matrix.rows() && first_col + col < matrix.cols();
        tile[row][col] = inside ? matrix(first_row + row, first_col + col) : bf16(0.f);
    }
}

__global__ void gemm_tensor_cores(const __grid_constant__ Globals g) {
    __shared__ __align__(16) bf16 a[kTile][kStride];
    __shared__ __align__(16) bf16 b[kStep][kStride];
    const int first_row = blockIdx.y * kTile, first_col = blockIdx.x * kTile;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_row = warp / 2 * 16, warp_col = warp % 2 * 16;
    float sum[2][4] = {};

    for (int k = 0; k < g.a.cols(); k += kStep) {
        load_tile(a, g.a, first_row, k);
        load_tile(b, g.b, k, first_col);
        __syncthreads();
        for (int inner = 0; inner < kStep; inner += 16) {
            uint32_t a_fragment[4], b_fragment[4];
            tkjit::ldmatrix_x4(a_fragment, &a[warp_row + lane % 16][inner + lane / 16 * 8]);
            tkjit::ldmatrix_x4_trans(b_fragment, &b[inner + lane % 16][warp_col + lane / 16 * 8]);
            for (int half = 0; half < 2; half++) {
                const uint32_t b_half[2] = {b_fragment[2 * half], b_fragment[2 * half + 1]};
                tkjit::mma_m16n8k16<bf16>(sum[half], a_fragment, b_half, sum[half]);
            }
        }
        __syncthreads();  // the tiles may be overwritten
    }
    // a lane holds two adjacent elements of a row, and two more eight rows below
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < 4; i++) {
            const int row = first_row + warp_row + lane / 4 + i / 2 * 8;
            const int col = first_col + warp_col + half * 8 + lane % 4 * 2 + i % 2;
            if (row < g.c.rows() && col < g.c.cols()) g.c(row, col) = bf16(sum[half][i]);
        }
    }
}
